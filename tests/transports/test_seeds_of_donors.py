"""Numbers beside a category: lines for the numbers, donors for the category, hardly any chance."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import KFold
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVR

import dfi

NUMBERS = ["a", "b", "c"]
MODELS = {
    "trees": RandomForestRegressor(30, min_samples_leaf=3, random_state=0),
    "kernel": SVR(C=10.0),
    "network": MLPRegressor(hidden_layer_sizes=(20,), max_iter=300, random_state=0),
}


def table(n, seed, dependence=1.0):
    """Three numbers and a category of three levels that depends on two of them, or on none."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 3))
    x[:, 1] += 0.6 * x[:, 0]
    odds = dependence * np.column_stack([x[:, 0], np.zeros(n), -x[:, 2]])
    kind = np.argmax(odds + rng.gumbel(size=(n, 3)), axis=1)
    effect = np.array([0.0, 1.5, 3.0])[kind] + np.where(kind == 1, x[:, 0], 0.0)
    y = 2.0 * x[:, 0] + x[:, 1] * x[:, 2] + effect + 0.5 * rng.standard_normal(n)
    X = pd.DataFrame(x, columns=NUMBERS)
    X["kind"] = np.array(["p", "q", "r"])[kind]
    return X, y


def fitted(name, *rows):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pipeline(name).fit(*rows)


def pipeline(name):
    columns = make_column_transformer((OneHotEncoder(), ["kind"]), (StandardScaler(), NUMBERS))
    return make_pipeline(columns, MODELS[name])


def explained(X, y, model, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {"transport_error": "ignore", "diagnose": False, **options}
        return dfi.explain(X, y, model, **options)


@pytest.mark.parametrize("dependence", [1.0, pytest.param(0.0, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", MODELS)
def test_seeds_agree_for_the_same_model_and_rows(name, dependence):
    """Within 2 %; where every unit had eight donors seeds differed by up to 20 %."""
    model = fitted(name, *table(300, 0, dependence))
    X, y = table(300, 1, dependence)
    found = [explained(X, y, model, cv="prefit", random_state=seed) for seed in range(3)]
    latent = np.stack([each.latent.scores for each in found])
    # a number needs no donors
    np.testing.assert_allclose(np.ptp(latent[:, :3], axis=0), 0.0, atol=1e-12)
    for scores in (latent, np.stack([each.scores for each in found])):
        assert np.all(np.ptp(scores, axis=0) < 0.02 * scores.mean(axis=0))
    assert "donors for every unit" not in found[0].diagnostics["lines"]
    told = found[0].diagnostics["donors"]
    assert told["number"] == 56
    assert list(told["error"]) == ["kind"]
    assert 0.0 < told["error"]["kind"] < 0.01 * latent[0, 3]


def test_cross_fitted_scores_tell_the_error_of_their_donors():
    X, y = table(300, 0)
    folds = list(KFold(2, shuffle=True, random_state=0).split(X))
    found = explained(X, y, pipeline("kernel"), cv=folds)
    assert found.diagnostics["donors"]["error"]["kind"] < 0.01 * found.latent.scores[3]
    assert found.diagnostics["donors"]["error"]["kind"] < 0.1 * found.latent.se[3]


def test_nodes_are_settled_beside_a_category():
    """A function with steps in a number takes the nodes that it takes without a category."""
    X, y = table(300, 1)
    model = fitted("trees", *table(300, 0))
    exact = explained(X, y, model, cv="prefit")
    found = explained(X, y, model.predict, cv="prefit")
    assert found.diagnostics["quadrature"]["error"] < 0.01
    np.testing.assert_allclose(found.latent.scores[:3], exact.latent.scores[:3], rtol=0.01)
    # donors are the same
    np.testing.assert_allclose(found.latent.scores[3], exact.latent.scores[3], rtol=1e-9)


@pytest.mark.full
def test_few_donors_are_unbiased_and_their_error_is_that_of_seeds():
    """Over 40 seeds, eight donors against 300 of each row; the deviation of 40 is known to 11 %."""
    X, y = table(300, 1)
    levels = np.array([0.0, 1.5, 3.0])

    def model(rows):
        kind = rows["kind"].map({"p": 0, "q": 1, "r": 2}).to_numpy()
        x = rows[NUMBERS].to_numpy()
        return 2.0 * x[:, 0] + x[:, 1] * x[:, 2] + levels[kind] + np.where(kind == 1, x[:, 0], 0.0)

    def runs(donors, seeds):
        rule = dfi.Quadrature("gauss", nodes=2, donors=donors)
        found = [
            explained(X, y, model, cv="prefit", integration=rule, random_state=seed)
            for seed in range(seeds)
        ]
        errors = [each.diagnostics["donors"]["error"]["kind"] for each in found]
        return np.array([each.latent.scores[3] for each in found]), np.array(errors)

    few, errors = runs(8, 40)
    many, of_many = runs(300, 1)
    chance = np.hypot(few.std() / np.sqrt(len(few)), of_many[0])
    assert abs(few.mean() - many[0]) < 4.0 * chance
    assert errors.mean() == pytest.approx(few.std(), rel=0.45)
