"""Shapley-type parts of what is explained: truths, a twin that enumerates all sets, exact sums."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.neighbors import KNeighborsRegressor

import dfi
from dfi._latent import walks
from dfi.methods import prepare
from dfi.methods.disentangled import Disentangled
from dfi.transports import Gaussian

LAWS = {
    "linear": lambda z: z[:, 0] - 0.5 * z[:, 2],
    "product": lambda z: z[:, 0] * z[:, 1],
    "product and its factor": lambda z: z[:, 0] + z[:, 0] * z[:, 1] + 0.5 * z[:, 2] ** 2,
    "three together": lambda z: z[:, 0] * z[:, 1] * z[:, 2] + z[:, 0] * z[:, 1],
}


class Known:
    """A regression that is known, as a model."""

    def __init__(self, law):
        self.law = law

    def fit(self, X, y):
        return self

    def predict(self, X):
        return self.law(np.asarray(X))


class Sloped(RegressorMixin, BaseEstimator):
    """The same slopes, whatever it is fitted on."""

    def __init__(self, slopes):
        self.slopes = slopes

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X):
        return np.asarray(X) @ self.slopes


def rows_of(law, n=400, d=3, correlation=0.0, seed=0):
    generator = np.random.default_rng(seed)
    root = np.linalg.cholesky(np.full((d, d), correlation) + (1.0 - correlation) * np.eye(d))
    X = generator.standard_normal((n, d)) @ root.T
    return X, law(X) + 0.5 * generator.standard_normal(n)


def parts_of(X, y, estimator, **options):
    method = Disentangled(**{"transport_error": "ignore", "diagnose": False} | options)
    fits = prepare(X, y, estimator=estimator, cv="prefit" if hasattr(estimator, "law") else 5)
    return method.explain(fits).part


def sobol(law, d=3, nodes=8):
    """Return the variance of every set of independent normal coordinates, by enumeration."""
    points, mass = np.polynomial.hermite_e.hermegauss(nodes)
    mass = mass / mass.sum()
    grid = np.stack(np.meshgrid(*[points] * d, indexing="ij"), axis=-1).reshape(-1, d)
    whole = law(grid).reshape((nodes,) * d)
    variance = {}
    for size in range(d + 1):
        for chosen in combinations(range(d), size):
            mean = whole
            for axis in reversed(range(d)):
                if axis not in chosen:
                    mean = np.tensordot(mean, mass, axes=(axis, 0))
            weight = np.ones(())
            for _ in chosen:
                weight = np.multiply.outer(weight, mass)
            variance[chosen] = float(np.sum(weight * mean**2))
    inner = {}
    for chosen in variance:
        below = [inner[k] for k in inner if set(k) < set(chosen)]
        inner[chosen] = variance[chosen] - sum(below)
    return inner


@pytest.mark.parametrize("law", LAWS.values(), ids=list(LAWS))
def test_a_unit_has_its_main_effects_and_its_part_of_every_interaction(law):
    X, y = rows_of(law, n=3000)
    part = parts_of(X, y, Known(law), form="loco")
    variance = sobol(law)
    expected = [sum(v / len(s) for s, v in variance.items() if j in s) for j in range(X.shape[1])]
    found = part.latent.parts[:, :-1]
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found)) + 0.02
    np.testing.assert_array_less(np.abs(found.mean(axis=0) - expected), 4.0 * error)


def test_parts_of_a_linear_model_are_those_of_genizi():
    X, y = rows_of(lambda x: x[:, 0] + 0.5 * x[:, 1], n=4000, correlation=0.6)
    result = dfi.explain(X, y, "linear")
    correlation, z = np.corrcoef(X.T), X / X.std(axis=0)
    slope = np.linalg.lstsq(z - z.mean(axis=0), y - y.mean(), rcond=None)[0]
    values, vectors = np.linalg.eigh(correlation)
    root = (vectors * np.sqrt(values)) @ vectors.T
    genizi = root**2 @ (root @ slope) ** 2
    np.testing.assert_allclose(result.shares()["share"], genizi / genizi.sum(), atol=0.01)


def test_additive_effects_have_no_noise_of_the_walks():
    X, _ = rows_of(LAWS["linear"], n=120, correlation=0.5)
    latent = dfi.transports.Gaussian().fit(X)
    model = Known(lambda x: np.sin(latent.transform(x)[:, 0]) + np.abs(latent.transform(x)[:, 1]))
    y = model.predict(X) + np.random.default_rng(1).standard_normal(len(X))
    found = []
    for seed in (0, 7):
        fits = prepare(X, y, estimator=model, cv="prefit", random_state=seed)
        method = Disentangled(transport_error="ignore", diagnose=False, form="loco")
        found.append(method.explain(fits).part.latent.parts)
    np.testing.assert_allclose(found[0], found[1], atol=1e-9)


@pytest.mark.parametrize("form", ["loco", "cpi", "auto"])
def test_parts_add_up_row_by_row_to_what_is_explained(form):
    X, y = rows_of(LAWS["product and its factor"], n=150, correlation=0.5)
    part = parts_of(X, y, Known(LAWS["product and its factor"]), form=form)
    for space in (part, part.latent):
        np.testing.assert_allclose(space.parts[:, :-1].sum(axis=1), space.parts[:, -1], atol=1e-12)
    np.testing.assert_allclose(part.parts[:, -1], part.totals[:, 1], atol=1e-10)


@pytest.mark.parametrize("task", ["default", "weights", "classes", "log-loss", "counts", "mixed"])
def test_shares_add_up_to_one(task):
    generator = np.random.default_rng(3)
    X = generator.standard_normal((160, 3))
    X[:, 1] += X[:, 0]
    y, options = X[:, 0] * X[:, 1] + X[:, 2] + generator.standard_normal(160), {}
    if task == "weights":
        options["sample_weight"] = generator.uniform(0.2, 3.0, 160)
    elif task in ("classes", "log-loss"):
        y = np.array(["a", "b", "c"])[np.digitize(y, [-0.5, 1.0])]
        options["loss"] = "brier" if task == "classes" else "log-loss"
    elif task == "counts":
        y, options = generator.poisson(np.exp(0.5 * X[:, 0])), {"task": "regression"}
    elif task == "mixed":
        X = pd.DataFrame(X, columns=["a", "b", "c"])
        X["d"] = np.array(["u", "v", "w"])[np.digitize(X["a"], [-0.5, 0.5])]
    result = dfi.explain(X, y, "linear" if task != "default" else "boosting", **options)
    shares = result.shares()
    assert shares["share"].sum() == pytest.approx(1.0, abs=1e-12)
    values = result.parts.values
    np.testing.assert_allclose(values[:, :-1].sum(axis=1), values[:, -1], atol=1e-10)
    assert result.explained.value == pytest.approx(result.parts.mean[-1], rel=1e-9)


def test_some_rows_are_enough(monkeypatch):
    law = LAWS["product and its factor"]
    X, y = rows_of(law, n=1200, correlation=0.3)
    every = parts_of(X, y, Known(law), form="loco").parts
    monkeypatch.setattr(walks, "FEWEST_STEPS", 100 * 2 * walks.CYCLES * 3)
    monkeypatch.setattr(walks, "MOST_STEPS", 100 * 2 * walks.CYCLES * 3)
    some = parts_of(X, y, Known(law), form="loco").parts
    error = some.std(axis=0, ddof=1) / np.sqrt(len(some))
    assert np.all(np.abs(some.mean(axis=0) - every.mean(axis=0)) < 4.0 * error)
    np.testing.assert_allclose(some[:, :-1].sum(axis=1), some[:, -1], atol=1e-10)


def test_a_column_that_no_model_reads_has_no_part():
    X, y = rows_of(lambda x: x[:, 0] * x[:, 1], n=200)
    part = parts_of(X, y, Known(lambda x: x[:, 0] * x[:, 1]), form="loco")
    assert np.abs(part.latent.parts[:, 2]).mean() < 0.05 * np.abs(part.latent.parts[:, 0]).mean()


def test_weights_say_which_rows_meet():
    generator = np.random.default_rng(2)
    X = generator.standard_normal((900, 2))
    weight = np.exp(X[:, 1])  # its law is N(1, 1): z2 is x2 - 1
    law = lambda x: x[:, 0] + x[:, 0] * (x[:, 1] - 1.0)  # noqa: E731
    y = law(X) + 0.3 * generator.standard_normal(len(X))
    fits = prepare(X, y, estimator=Known(law), cv="prefit", sample_weight=weight)
    method = Disentangled(transport_error="ignore", diagnose=False, form="loco")
    found = method.explain(fits).part.latent.parts
    mean = weight @ found / weight.sum()
    np.testing.assert_allclose(mean[:2] / mean[2], [0.75, 0.25], atol=0.08)


def test_one_column_has_all_of_it():
    generator = np.random.default_rng(4)
    X = generator.standard_normal((120, 1))
    result = dfi.explain(X, X[:, 0] + generator.standard_normal(120), KNeighborsRegressor(), cv=3)
    assert result.shares()["share"].tolist() == pytest.approx([1.0])


def test_solution_on_a_graph_is_that_of_the_pseudo_inverse():
    generator = np.random.default_rng(3)
    n = 30
    cycles = [generator.permutation(n) for _ in range(2)]
    tails, heads = np.concatenate(cycles), np.concatenate([np.roll(c, 1) for c in cycles])
    counted, change = generator.random(2 * n) + 0.1, generator.standard_normal((2, 2 * n, 4))
    incidence = np.eye(n)[tails] - np.eye(n)[heads]
    inverse = np.linalg.pinv(incidence.T * counted @ incidence, hermitian=True)
    expected = inverse @ ((incidence.T * counted) @ change)
    found = walks._least_squares(change, tails, heads, counted, n)
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("correlation", [0.0, 0.6])
def test_errors_of_shares_are_those_of_leaving_rows_out(correlation):
    """The transport is fitted anew without each row; a linear law has its shares in closed form."""
    slopes = np.array([1.0, 0.0, 0.6, -0.4])
    X, y = rows_of(lambda X: X @ slopes, n=200, d=4, correlation=correlation, seed=3)

    def shares(kept):
        rows, rest = X[kept] - X[kept].mean(axis=0), y[kept] - X[kept] @ slopes
        scale = rows.std(axis=0)
        values, vectors = np.linalg.eigh(np.corrcoef(rows.T))
        root = (vectors * np.sqrt(values)) @ vectors.T
        latent, weight = np.linalg.solve(root, (rows / scale).T).T, root @ (scale * slopes)
        found = root**2 @ (weight**2 + 2.0 * (rest - rest.mean()) @ latent * weight / len(rest))
        return found / found.sum()

    left = np.array([shares(np.arange(200) != row) for row in range(200)])
    expected = np.sqrt(199.0 / 200.0 * ((left - left.mean(axis=0)) ** 2).sum(axis=0))
    given = {"transport": Gaussian(components=None), "cv": 5, "diagnose": False}
    found = dfi.explain(X, y, Sloped(slopes), **given).shares().set_index("feature")
    found = found.loc[["x0", "x1", "x2", "x3"]]
    np.testing.assert_allclose(found["share"], shares(np.arange(200)), atol=5e-3)
    np.testing.assert_allclose(found["se"], expected, rtol=0.1, atol=3e-4)


def test_walks_of_many_columns_need_no_rows(monkeypatch):
    """Of a closed form in latent coordinates, the same parts as by decoding every step."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((120, 12)) @ generator.standard_normal((12, 12))
    y = (X[:, 0] - X[:, 3] + generator.standard_normal(120) > 0).astype(int)
    decoded = dfi.explain(X, y, "ridge", diagnose=False)
    calls = []
    known = walks.local_values

    def told(models, *arguments):
        transport = arguments[4]
        calls.append([transport.in_latent(model) is not None for model in models])
        return known(models, *arguments)

    monkeypatch.setattr(walks, "WIDE", 12)
    monkeypatch.setattr(walks, "local_values", told)
    short = dfi.explain(X, y, "ridge", diagnose=False)
    assert calls
    assert all(map(all, calls))
    for column in ("share", "share_low", "share_high"):
        np.testing.assert_allclose(short.table()[column], decoded.table()[column], rtol=1e-8)
