"""Closed forms against draws of the definition, and against what the library estimates."""

from __future__ import annotations

import doctest
import importlib
from functools import partial

import numpy as np
import pytest

import dfi
from dfi.transports import EntropicOT
from paper import truths
from paper.truths import Simulation, equal_features, exponential, m1, m2, m3, m4, square_and_factor
from paper.truths.roots import symmetric_root, triangular_root

GAUSSIAN = [partial(m1, d=3), partial(m2, d=3), m3, exponential]
DRAWS = 400_000


def drawn_scores(regression, root, s, seed=0):
    """E Var(eta | Z_-j) by draws: copies of X that share Z, less copies that share Z_-j.

    Returns means and their standard errors.
    """
    generator = np.random.default_rng(seed)
    d = len(root)

    def features(Z):
        inner = s * Z + np.sqrt(1 - s**2) * generator.standard_normal(Z.shape)
        return regression(inner @ root.T)

    Z = generator.standard_normal((DRAWS, d))
    first, same = features(Z), features(Z)
    first = first - first.mean()  # the same expectation, less noise
    means, errors = [], []
    for j in range(d):
        other = Z.copy()
        other[:, j] = generator.standard_normal(DRAWS)
        product = first * (same - features(other))
        means.append(product.mean())
        errors.append(product.std() / np.sqrt(DRAWS))
    return np.array(means), np.array(errors)


def bridge(epsilon):
    return np.sqrt(1 + epsilon**2 / 16) - epsilon / 4


@pytest.mark.parametrize("make", GAUSSIAN)
@pytest.mark.parametrize("transport", ["gaussian", "bridge", "knothe-rosenblatt", "reversed"])
def test_scores_are_those_of_the_definition(make, transport):
    sample = make(5, rho=0.6)
    correlation = sample.population.correlation
    d = len(correlation)
    s, factor, root, spec = {
        "gaussian": (1.0, 1.0, symmetric_root(correlation), {}),
        "bridge": (bridge(1.0), bridge(1.0), symmetric_root(correlation), {"epsilon": 1.0}),
        "knothe-rosenblatt": (
            1.0, 1.0, np.linalg.cholesky(correlation), {"transport": "knothe-rosenblatt"},
        ),
        "reversed": (
            1.0, 1.0, np.linalg.cholesky(correlation[::-1, ::-1])[::-1, ::-1],
            {"transport": "knothe-rosenblatt", "order": range(d)[::-1]},
        ),
    }[transport]  # fmt: skip
    found, error = drawn_scores(sample.regression, root, s)
    latent = sample.truth(space="latent", **spec)
    assert np.all(np.abs(found - latent) < 4 * error + 1e-9)
    # the draws could tell a tenth of the largest score
    assert np.all(4 * error < 0.1 * latent.max())
    np.testing.assert_allclose(
        sample.truth(space="attributed", **spec), (factor * root) ** 2 @ latent, atol=1e-12
    )


def test_known_values():
    """M1 in both spaces, under the transports that the design page works out by hand."""
    sample = m1(5, rho=0.8, d=3)
    s = bridge(0.7)
    np.testing.assert_allclose(sample.truth(space="latent"), [20, 5, 0], atol=1e-12)
    np.testing.assert_allclose(sample.truth(), [17, 8, 0], atol=1e-12)
    for name in ("gaussian", "entropic"):
        bridged = {"transport": name, "epsilon": 0.7}
        np.testing.assert_allclose(
            sample.truth(space="latent", **bridged), s**2 * np.array([20, 5, 0]), atol=1e-12
        )
        np.testing.assert_allclose(sample.truth(**bridged), s**4 * np.array([17, 8, 0]), atol=1e-12)
    triangular = {"transport": "knothe-rosenblatt"}
    np.testing.assert_allclose(sample.truth(space="latent", **triangular), [25, 0, 0], atol=1e-12)
    np.testing.assert_allclose(sample.truth(**triangular), [25, 16, 0], atol=1e-12)
    np.testing.assert_allclose(
        sample.truth(space="latent", order=(1, 0, 2), **triangular), [9, 16, 0], atol=1e-12
    )
    # the published form: c = 0.8/(0.2 + 0.64) at epsilon = 0.5
    published = {"transport": "semicontinuous", "epsilon": 0.5}
    np.testing.assert_allclose(sample.truth(space="latent", **published), [20, 5, 0], atol=1e-12)
    np.testing.assert_allclose(
        sample.truth(**published), (0.8 / 0.84) ** 2 * np.array([17, 8, 0]), atol=1e-12
    )
    np.testing.assert_allclose(sample.truth(transport="copula"), [17, 8, 0], atol=1e-12)


def test_m4_by_hand():
    sample = m4(5, d=4)
    s = bridge(1.0)
    for transport in ("gaussian", "semicontinuous", "copula"):
        for space in ("latent", "attributed"):
            np.testing.assert_allclose(
                sample.truth(space=space, transport=transport), [25, 0, 0, 0]
            )
    np.testing.assert_allclose(sample.truth(epsilon=1.0), [25 * s**4, 0, 0, 0])
    triangular = {"transport": "knothe-rosenblatt"}
    np.testing.assert_allclose(sample.truth(space="latent", **triangular), [25, 0, 0, 0])
    np.testing.assert_allclose(sample.truth(**triangular), [25, 25 * 36 / 19, 0, 0])
    # columns that depend on nothing may stand anywhere
    np.testing.assert_allclose(
        sample.truth(order=(3, 0, 2, 1), **triangular), [25, 25 * 36 / 19, 0, 0]
    )


def test_perfectly_dependent_examples():
    equal = equal_features(50, beta=(2.0, 1.0))
    assert np.array_equal(equal.X[:, 0], equal.X[:, 1])
    np.testing.assert_allclose(equal.truth(), [4.5, 4.5])
    np.testing.assert_allclose(equal.truth(space="latent"), [4.5, 4.5])
    triangular = {"transport": "knothe-rosenblatt"}
    np.testing.assert_allclose(equal.truth(**triangular), [9, 9])
    np.testing.assert_allclose(equal.truth(space="latent", **triangular), [9, 0], atol=1e-12)
    square = square_and_factor(50, beta=(1.5, -2.0))
    np.testing.assert_allclose(square.X[:, 0], (square.X[:, 1] ** 2 - 1) / np.sqrt(2))
    signal = 1.5**2 + 2.0**2
    np.testing.assert_allclose(square.truth(order=(1, 0), **triangular), [2 * signal, signal])
    np.testing.assert_allclose(
        square.truth(space="latent", order=(1, 0), **triangular), [0, signal], atol=1e-12
    )
    np.testing.assert_allclose(square.truth(), [1.5**2, 2.0**2])
    with pytest.raises(ValueError, match="beta must be two numbers"):
        equal_features(5, beta=(1.0, 2.0, 3.0))


class FactorFirst:
    """Z of the second column is U itself, that of the first an independent normal."""

    attribution = "slopes"

    def fit(self, X):
        return self

    def encode(self, X, generator):
        return np.column_stack([generator.standard_normal(len(X)), X[:, 1]])

    def decode(self, Z):
        return np.column_stack([(Z[:, 1] ** 2 - 1) / np.sqrt(2), Z[:, 1]])


def close(result, truth, slack=0.0):
    assert np.all(np.abs(result.scores - truth) < 3 * np.nan_to_num(result.se) + slack), (
        result.scores, result.se, truth,
    )  # fmt: skip


def estimate(sample, transport, **options):
    return dfi.explain(
        sample.X, sample.y, estimator=sample.regression, cv="prefit", diagnose=False,
        transport=transport, n_jobs=1, **options,
    )  # fmt: skip


N = 20_000
SETTINGS = {
    "m1 bridge": (m1, {"n": 2000, "d": 2}, dfi.transports.Gaussian(epsilon=1.0), {"epsilon": 1.0}),
    "m2 bridge": (m2, {"n": 2000, "d": 2}, dfi.transports.Gaussian(epsilon=0.5), {"epsilon": 0.5}),
    "m3 bridge": (m3, {"n": 1000}, dfi.transports.Gaussian(epsilon=0.5), {"epsilon": 0.5}),
    "equal bridge": (
        equal_features, {"n": 2000}, dfi.transports.Gaussian(epsilon=0.5), {"epsilon": 0.5},
    ),
    "m4 bridge": (m4, {"n": 2000, "d": 2}, dfi.transports.Gaussian(epsilon=1.0), {"epsilon": 1.0}),
    "square": (square_and_factor, {"n": N}, "gaussian", {}),
    "exponential copula": (exponential, {"n": N}, "copula", {"transport": "copula"}),
    "m4 copula": (m4, {"n": N, "d": 3}, "copula", {"transport": "copula"}),
    "m2 published": (
        m2, {"n": N, "d": 3}, dfi.transports.Semicontinuous(epsilon=0.5),
        {"transport": "semicontinuous", "epsilon": 0.5},
    ),
    "m1 entropic": (
        m1, {"n": 800, "d": 2}, EntropicOT(epsilon=1.0, n_targets=512, attribution="slopes"),
        {"transport": "entropic", "epsilon": 1.0},
    ),
}  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("name", SETTINGS)
def test_library_estimates_these_scores(name):
    """Oracle regression: within 3 standard errors (and the squared noise of null columns)."""
    make, options, transport, spec = SETTINGS[name]
    sample = make(random_state=1, **options)
    result = estimate(sample, transport)
    slack = sample.truth().sum() / len(sample.X)
    close(result.latent, sample.truth(space="latent", **spec), slack)
    close(result, sample.truth(space="attributed", **spec), slack)


def test_vine_estimates_the_triangular_scores():
    pytest.importorskip("pyvinecopulib")
    sample = m4(1500, d=2, random_state=1)
    result = estimate(sample, dfi.transports.KnotheRosenblatt(attribution="slopes"))
    spec = {"transport": "knothe-rosenblatt"}
    close(result.latent, sample.truth(space="latent", **spec), 1e-9)
    close(result, sample.truth(space="attributed", **spec))


def test_the_papers_disentangling_gives_the_papers_scores():
    sample = square_and_factor(4000, beta=(1.5, -2.0), random_state=1)
    result = estimate(sample, FactorFirst(), transport_error="ignore")
    spec = {"transport": "knothe-rosenblatt", "order": (1, 0)}
    close(result.latent, sample.truth(space="latent", **spec), 1e-9)
    close(result, sample.truth(space="attributed", **spec), 1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_triangular_root(seed):
    generator = np.random.default_rng(seed)
    rows = generator.standard_normal((4, 3 if seed % 2 else 6))  # rank 3 when odd
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    correlation = rows @ rows.T
    order = generator.permutation(4)
    root = triangular_root(correlation, order)
    np.testing.assert_allclose(root @ root.T, correlation, atol=1e-7)
    assert np.all(np.triu(root[np.ix_(order, order)], 1) == 0)


@pytest.mark.parametrize(
    ("make", "spec", "message"),
    [
        (m1, {"space": "feature"}, "space must be 'latent' or 'attributed', got 'feature'"),
        (m1, {"transport": "gausian"}, "did you mean 'gaussian'"),
        (m1, {"transport": "auto"}, "has no truth of its own"),
        (m1, {"epsilon": -1.0}, "epsilon must be a number of at least 0"),
        (m1, {"transport": "entropic"}, "needs epsilon > 0"),
        (m1, {"transport": "copula", "epsilon": 0.1}, "is a map: it has no epsilon"),
        (m1, {"order": (1, 0)}, "order belongs to transport='knothe-rosenblatt'"),
        (m1, {"transport": "knothe-rosenblatt", "order": (0, 0)}, "each of the columns 0 to 9"),
        (m4, {"transport": "entropic", "epsilon": 1.0}, "no closed form is known.*and 'copula'"),
        (m4, {"transport": "knothe-rosenblatt", "order": range(9, -1, -1)}, "with column 0 first"),
        (square_and_factor, {"transport": "knothe-rosenblatt"}, "with column 1 first"),
        (square_and_factor, {"transport": "copula"}, "known are 'gaussian'"),
    ],
)
def test_what_is_not_known_is_said(make, spec, message):
    with pytest.raises(ValueError, match=message):
        make(5).truth(**spec)


def test_transport_must_be_a_name():
    with pytest.raises(TypeError, match="transport must be a transport's name, got Gaussian"):
        m1(5).truth(transport=dfi.transports.Gaussian())


def test_a_simulation_without_a_population():
    sample = Simulation(np.zeros((3, 1)), np.zeros(3), lambda X: X[:, 0])
    assert sample.latent is None
    assert sample.attributed is None
    for ask in (sample.truth, lambda: sample.comparator_truth("loco")):
        with pytest.raises(ValueError, match="not known"):
            ask()


@pytest.mark.parametrize("name", ["simulations", "dependent", "copula", "roots"])
def test_docstring_examples(name):
    outcome = doctest.testmod(importlib.import_module(f"paper.truths.{name}"))
    assert outcome.attempted > 0
    assert outcome.failed == 0


@pytest.mark.parametrize("order", [["x0", "x1", "x2"], [0, 0, 1], [0, 1], [0.0, 1.0, 2.0]])
def test_order_names_every_column_once(order):
    with pytest.raises(ValueError, match="order must name each of the columns 0 to 2 once"):
        m1(50, d=3).truth(transport="knothe-rosenblatt", order=order)


@pytest.mark.parametrize("name", ["m1", "m2", "m3", "m4", "exponential"])
def test_the_library_knows_the_truth_of_the_default_transport(name):
    ours, known = getattr(dfi.datasets, name)(50), getattr(truths, name)(50)
    np.testing.assert_array_equal(ours.X, known.X)
    np.testing.assert_array_equal(ours.y, known.y)
    np.testing.assert_allclose(ours.latent, known.truth(space="latent"), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(ours.attributed, known.truth(), rtol=1e-12, atol=1e-12)
