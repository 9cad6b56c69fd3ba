"""User-defined transports: the paper's two perfectly dependent examples, and what is refused."""

import numpy as np
import pytest
from scipy.stats import norm

import dfi
from dfi._data.weights import Weights
from dfi.transports import TRANSPORTS
from dfi.transports.gaussian import Gaussian


class FirstIsTheFactor:
    """Z1 = U, Z2 an independent normal: both features are functions of U."""

    attribution = "slopes"

    def __init__(self, features, derivatives):
        self.features, self.derivatives = features, derivatives

    def fit(self, X):
        return self

    def encode(self, X, generator):
        return np.column_stack([X[:, 1], generator.standard_normal(len(X))])

    def decode(self, Z):
        return np.column_stack([feature(Z[:, 0]) for feature in self.features])

    def jacobian(self, Z):
        result = np.zeros((len(Z), 2, 2))
        for row, derivative in enumerate(self.derivatives):
            result[:, row, 0] = derivative(Z[:, 0])
        return result


def identical(u):
    return u


def one(u):
    return np.ones_like(u)


def explain(X, beta, transport, **options):
    return dfi.explain(
        X, X @ beta, estimator=lambda X: np.asarray(X) @ beta, cv="prefit",
        transport=transport, diagnose=False, transport_error="ignore", **options,
    )  # fmt: skip


def test_equal_features_both_carry_the_whole_signal():
    """X1 = X2 = Z1 = U: phi_X1 = phi_X2 = phi_Z1 = (beta1 + beta2)^2 Var(U), phi_Z2 = 0."""
    u = np.tile([-1.0, 0.5, 2.0, -1.5], 50)
    u = u / u.std()
    beta = np.array([2.0, 1.0])
    transport = FirstIsTheFactor((identical, identical), (one, one))
    result = explain(np.column_stack([u, u]), beta, transport)
    np.testing.assert_allclose(result.scores, 9.0 * u.var(), rtol=1e-12)
    np.testing.assert_allclose(result.latent.scores, [9.0 * u.var(), 0.0], atol=1e-12)
    # along the line of Z1 both vary alike, and share what it has
    transport.attribution = "shares"
    shared = explain(np.column_stack([u, u]), beta, transport)
    np.testing.assert_allclose(shared.scores, 4.5 * u.var(), rtol=1e-12)
    # under the linear geometry the two share it; without levels, which rows would be decoded to
    u = norm.ppf((np.arange(200) + 0.5) / 200)
    linear = explain(np.column_stack([u, u]), beta, "gaussian")
    np.testing.assert_allclose(linear.scores, 4.5 * u.var(), rtol=0.02)


@pytest.mark.parametrize("with_jacobian", [True, False])
def test_square_and_factor(with_jacobian):
    """X1 = (U^2 - 1)/sqrt(m4 - 1), X2 = U: phi_X = (4/(m4 - 1), 1)(beta1^2 + beta2^2)."""
    # U has mean, third moment 0 and variance 1 exactly, and m4 = 3/2
    u = np.tile(np.sqrt(1.5) * np.array([-1.0, 0.0, 1.0]), 40)
    m4 = np.mean(u**4)
    scale = np.sqrt(m4 - 1)
    X = np.column_stack([(u**2 - 1) / scale, u])
    beta = np.array([1.5, -2.0])
    transport = FirstIsTheFactor(
        (lambda z: (z**2 - 1) / scale, identical), (lambda z: 2 * z / scale, one)
    )
    if not with_jacobian:
        transport = WithoutJacobian(transport)
    result = explain(X, beta, transport)
    signal = beta @ beta
    np.testing.assert_allclose(result.latent.scores, [signal, 0.0], atol=1e-9)
    np.testing.assert_allclose(result.scores, [4 / (m4 - 1) * signal, signal], rtol=1e-6)
    assert result.spec["transport"] == "custom"


class WithoutJacobian:
    attribution = "slopes"

    def __init__(self, inner):
        self.inner = inner

    def fit(self, X):
        return self

    def encode(self, X, generator):
        return self.inner.encode(X, generator)

    def decode(self, Z):
        return self.inner.decode(Z)


class Whitening:
    """The linear transport written as a user would: an independent twin of ours."""

    def fit(self, X, sample_weight=None):
        self.mean = np.average(X, axis=0, weights=sample_weight)
        self.scale = np.sqrt(np.average((X - self.mean) ** 2, axis=0, weights=sample_weight))
        rows = (X - self.mean) / self.scale
        values, vectors = np.linalg.eigh(np.cov(rows.T, aweights=sample_weight, bias=True))
        self.root = (vectors * np.sqrt(values)) @ vectors.T

    def encode(self, X):
        return np.linalg.solve(self.root, ((X - self.mean) / self.scale).T).T

    def decode(self, Z):
        return self.mean + (Z @ self.root) * self.scale


@pytest.mark.parametrize("weighted", [False, True])
def test_a_user_written_whitening_is_the_gaussian_transport(weighted):
    sample = dfi.datasets.m2(200, d=3, random_state=1)
    weight = np.random.default_rng(0).random(200) + 0.5 if weighted else None
    options = {
        "estimator": sample.regression, "cv": "prefit", "diagnose": False,
        "sample_weight": weight, "integration": dfi.Quadrature("gauss"),
    }  # fmt: skip
    # the derived terms also take off the bias of second order, which a jackknife has no form for
    whole = Gaussian(components=None)
    ours = dfi.explain(sample.X, sample.y, transport=whole, transport_error="ignore", **options)
    theirs = dfi.explain(sample.X, sample.y, transport=Whitening(), **options)
    np.testing.assert_allclose(theirs.scores, ours.scores, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(theirs.latent.scores, ours.latent.scores, rtol=1e-6, atol=1e-6)
    assert theirs.diagnostics["standard_errors"].startswith("transport jackknife")
    assert theirs.diagnostics["round_trip_error"] < 1e-9


def test_jackknife_agrees_with_the_derived_influence():
    """The same transport, once with the derived terms and once refitted without groups."""
    ratios = []
    for seed in range(4):
        sample = dfi.datasets.m1(400, rho=0.8, d=2, random_state=seed)
        options = {"estimator": sample.regression, "cv": "prefit", "diagnose": False}
        derived = dfi.explain(sample.X, sample.y, transport=Gaussian(components=None), **options)
        refitted = dfi.explain(sample.X, sample.y, transport=Whitening(), **options)
        ratios.append(refitted.se / derived.se)
    # each has a relative error of 1/sqrt(2 * 19) = 16 % at most
    np.testing.assert_allclose(np.mean(ratios, axis=0), 1.0, atol=0.2)


def test_constant_columns_stay_outside():
    sample = dfi.datasets.m1(120, d=3)
    X = np.column_stack([sample.X, np.full(120, 3.0)])
    with pytest.warns(dfi.warnings.ConstantColumnWarning):
        result = dfi.explain(
            X, sample.y, estimator="linear", transport=Whitening(), diagnose=False, cv=2
        )
    assert result.scores[3] == 0.0


def test_a_bad_round_trip_warns():
    class Lossy(Whitening):
        def decode(self, Z):
            return super().decode(0.5 * Z)

    sample = dfi.datasets.m1(100, d=2)
    with pytest.warns(dfi.warnings.TransportWarning, match=r"decode\(encode\(X\)\) differs from X"):
        explain(sample.X, np.array([1.0, 0.0]), Lossy())


@pytest.mark.parametrize(
    ("method", "value", "message"),
    [
        ("encode", lambda X: X[:, :1], r"encode returned shape \(100, 1\); \(100, 2\) is needed"),
        ("decode", lambda Z: Z * np.nan, "decode returned NaN or infinity"),
        ("jacobian", lambda Z: Z, "jacobian returned shape"),
    ],
)
def test_results_of_the_methods_are_checked(method, value, message):
    transport = Whitening()
    transport.attribution = "slopes"
    setattr(transport, method, value)
    sample = dfi.datasets.m1(100, d=2)
    with pytest.raises(ValueError, match=message):
        explain(sample.X, np.array([1.0, 0.0]), transport)


def test_unknown_reference_and_missing_weights_are_named():
    class Odd(Whitening):
        reference = "cauchy"

    class Plain(Whitening):
        def fit(self, X):
            super().fit(X)

    sample = dfi.datasets.m1(100, d=2)
    Plain.attribution = "isotropic"
    with pytest.raises(ValueError, match="attribution"):
        explain(sample.X, np.array([1.0, 0.0]), Plain())
    del Plain.attribution
    with pytest.raises(ValueError, match="reference is 'cauchy'"):
        explain(sample.X, np.array([1.0, 0.0]), Odd())
    with pytest.raises(ValueError, match=r"Plain.fit takes no sample_weight"):
        explain(sample.X, np.array([1.0, 0.0]), Plain(), sample_weight=np.arange(100) % 3 + 0.5)


@pytest.mark.parametrize(
    ("transport", "message"),
    [
        (object(), "object has no fit, encode, decode"),
        (Whitening, r"transport is the class Whitening, not an instance: pass Whitening\(\)"),
        *(
            (kind, rf"is the class {kind.__name__}, not an instance: pass {kind.__name__}\(\)")
            for kind in TRANSPORTS.values()
        ),
    ],
)
def test_other_objects_are_refused(transport, message):
    X, y = np.zeros((9, 2)), np.arange(9.0)
    with pytest.raises(TypeError, match=message):
        dfi.DFI(transport=transport).fit(X, y)
    with pytest.raises(TypeError, match=message):
        dfi.sensitivity(X, y, transports=["gaussian", transport])


def test_unfitted_object_is_not_changed():
    transport = Whitening()
    sample = dfi.datasets.m1(100, d=2)
    explain(sample.X, np.array([1.0, 0.0]), transport)
    assert not hasattr(transport, "root")
    weights = Weights(np.ones(100), "frequency")
    assert Gaussian().fit_matrix(sample.X, weights, np.zeros(2, bool)).n_latent == 2
