"""Weights that reach a regression inside other estimators, with metadata routing and without."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import sklearn
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import StackingRegressor, VotingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import dfi
from dfi._learners.weighted import check_takes_weights, weight_names

RNG = np.random.default_rng(0)
X = RNG.standard_normal((120, 2))
Y = X[:, 0] + X[:, 0] ** 2 + RNG.standard_normal(120)
WEIGHT = np.exp(X[:, 0])
SEARCH = {"alpha": [1.0]}


def scores(model, weight=WEIGHT, y=Y, **options):
    return dfi.explain(X, y, model, cv=2, sample_weight=weight, diagnose=False, **options).scores


RIDGES = {
    "voting": VotingRegressor([("one", Ridge()), ("two", Ridge()), ("none", "drop")]),
    "transformed": TransformedTargetRegressor(Ridge()),
    "search": GridSearchCV(Ridge(), SEARCH, cv=2),
    "search in a pipeline": make_pipeline(FunctionTransformer(), GridSearchCV(Ridge(), SEARCH)),
    "pipeline in a search": GridSearchCV(
        make_pipeline(FunctionTransformer(), Ridge()), {"ridge__alpha": [1.0]}, cv=2
    ),
    "pipeline of a transformed": TransformedTargetRegressor(
        make_pipeline(FunctionTransformer(), Ridge())
    ),
}


@functools.cache
def of_ridge():
    return scores(Ridge()), scores(Ridge(), None)


@pytest.mark.parametrize("routing", [False, True])
@pytest.mark.parametrize("name", RIDGES)
def test_weights_reach_the_ridge_inside(name, routing):
    right, unweighted = of_ridge()
    assert np.abs(right - unweighted).max() > 0.05
    with sklearn.config_context(enable_metadata_routing=routing):
        np.testing.assert_allclose(scores(RIDGES[name]), right, rtol=1e-6)


def test_weights_of_a_stack_and_of_classes():
    inside = StackingRegressor([("ridge", Ridge())], final_estimator=Ridge(), cv=2)
    assert np.abs(scores(inside) - scores(inside, None)).max() > 0.02
    search = GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2)
    given = {"y": (X[:, 0] + RNG.standard_normal(120) > 0).astype(int), "loss": "brier"}
    right = scores(LogisticRegression(), **given)
    # by quadrature, and in closed form
    np.testing.assert_allclose(scores(search, **given), right, rtol=0.01)
    assert np.abs(right - scores(search, None, **given)).max() > 0.01 * right.max()


def test_requests_for_weights_are_kept():
    with sklearn.config_context(enable_metadata_routing=True):
        asking = StandardScaler().set_fit_request(sample_weight=True)
        refusing = Ridge().set_fit_request(sample_weight=False)
        # Ridge pulls scaled columns in: how they are scaled shows
        pipeline = make_pipeline(asking, Ridge(alpha=50.0))
        plain = make_pipeline(StandardScaler(), Ridge(alpha=50.0))
        names = ("standardscaler__sample_weight", "ridge__sample_weight")
        assert weight_names(pipeline) == names
        assert np.abs(scores(pipeline) - scores(plain)).max() > 1e-6
        assert np.isfinite(scores("linear")).all()
        with pytest.raises(ValueError, match="Ridge was told by set_fit_request to take no sample"):
            scores(make_pipeline(StandardScaler(), refusing))


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (KNeighborsRegressor(), r"KNeighborsRegressor\.fit takes no sample_weight"),
        (make_pipeline(StandardScaler(), KNeighborsRegressor()), r"KNeighborsRegressor\.fit takes"),
        (GridSearchCV(KNeighborsRegressor(), {}), r"KNeighborsRegressor\.fit takes no"),
        (TransformedTargetRegressor(KNeighborsRegressor()), r"KNeighborsRegressor\.fit takes no"),
        (VotingRegressor([("k", KNeighborsRegressor())]), r"KNeighborsRegressor\.fit takes no"),
        (
            VotingRegressor([("p", make_pipeline(StandardScaler(), Ridge()))]),
            "VotingRegressor does not pass sample_weight on to Pipeline",
        ),
    ],
)
def test_weights_that_would_be_lost_are_refused(model, text):
    with pytest.raises(ValueError, match=f"^{text}.*weights could not reach the regression"):
        scores(model)


def test_default_estimators_inside_take_weights():
    check_takes_weights(TransformedTargetRegressor())
    check_takes_weights(StackingRegressor([("ridge", Ridge())]))
    with pytest.raises(ValueError, match=r"KNeighborsClassifier\.fit takes no sample_weight"):
        check_takes_weights(GridSearchCV(KNeighborsClassifier(), {}))
