"""DFI as a scikit-learn estimator: scikit-learn's own checks, and what each exception is for."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

import dfi
from dfi._learners.stack import SuperLearner
from dfi.datasets import m1

OWN_WORDS = "refused in dfi's own words, which name the column and the remedy"

EXPLAINER_FAILS = {
    "check_all_zero_sample_weights_error": OWN_WORDS,
    "check_complex_data": OWN_WORDS,
    "check_estimators_empty_data_messages": OWN_WORDS,
    "check_fit2d_1sample": OWN_WORDS,
}

STACK_FAILS = {
    "check_sample_weight_equivalence_on_dense_data": (
        "inner folds and early stopping split rows, so a row of weight 2 is not two rows"
    ),
}


def expected_failures(estimator):
    return STACK_FAILS if isinstance(estimator, SuperLearner) else EXPLAINER_FAILS


@pytest.mark.filterwarnings("ignore::dfi.warnings.DFIWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [
        dfi.DFI(estimator="linear", cv=2, diagnose=False),
        SuperLearner(members=[("ridge", Ridge(1e-3)), ("flat", Ridge(1e3))], n_folds=2),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_clone_and_parameters():
    transport = dfi.transports.Gaussian(shrinkage=0.1)
    explainer = dfi.DFI(
        estimator=Ridge(2.0), transport=transport, cv=3, feature_groups={"g": ["x0"]}
    )
    copy = clone(explainer)
    assert copy.get_params(deep=False).keys() == explainer.get_params(deep=False).keys()
    assert copy.transport == transport
    assert copy.get_params()["estimator__alpha"] == 2.0
    copy.set_params(estimator__alpha=7.0, cv=4)
    assert (copy.estimator.alpha, copy.cv) == (7.0, 4)
    assert explainer.estimator.alpha == 2.0


def test_no_work_in_the_constructor():
    """Nonsense is stored as it is and refused by fit."""
    explainer = dfi.DFI(estimator="nonsense", transport="?", cv=-1, level=7, integration="?")
    assert explainer.get_params()["level"] == 7
    table = np.zeros((5, 1)), np.arange(5.0)
    with pytest.raises(TypeError, match=r"integration must be 'auto' or a dfi\.Quadrature"):
        explainer.fit(*table)
    with pytest.raises(ValueError, match="level must be a number strictly between 0 and 1, got 7"):
        explainer.set_params(integration="auto").fit(*table)
    with pytest.raises(ValueError, match="unknown transport"):
        explainer.set_params(level=0.9).fit(*table)


def test_fit_leaves_the_parameters_alone():
    sample = m1(80, d=3)
    learner = Ridge()
    explainer = dfi.DFI(estimator=learner, cv=2, diagnose=False)
    before = explainer.get_params()
    explainer.fit(sample.X, sample.y)
    assert explainer.get_params() == before
    assert not hasattr(learner, "coef_")
    assert explainer.n_features_in_ == 3
    assert not hasattr(explainer, "feature_names_in_")
    assert explainer.result_.scores.shape == (3,)
