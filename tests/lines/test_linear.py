"""Linear models in closed form: every model that is read, against quadrature."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet, HuberRegressor, LinearRegression, Ridge, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import LinearSVR

from dfi._lines.base import LineModel, Lines, Reference
from dfi._lines.closed_form import linear_lines
from dfi._lines.quadrature import QuadratureLines

GENERATOR = np.random.default_rng(0)
X = GENERATOR.standard_normal((80, 3)) * [1, 100, 0.01] + [5, 0, -1]
Y = X @ [1, 0.02, 50] + GENERATOR.standard_normal(80)

MODELS = [
    LinearRegression(),
    LinearRegression(fit_intercept=False),
    Ridge(0.5),
    make_pipeline(StandardScaler(), RidgeCV()),
    make_pipeline(StandardScaler(with_mean=False), ElasticNet(0.01)),
    make_pipeline(StandardScaler(with_std=False), Ridge()),
    make_pipeline(RobustScaler(), HuberRegressor(max_iter=1000)),
    make_pipeline(MinMaxScaler((-2, 3)), "passthrough", Ridge()),
    make_pipeline(MaxAbsScaler(), StandardScaler(), LinearSVR(random_state=0, max_iter=100_000)),
]


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_closed_form_equals_quadrature(model):
    model = model.fit(X, Y)
    lines = Lines(
        X[:9], GENERATOR.standard_normal((9, 3)), GENERATOR.standard_normal((3, 3)),
        Reference.empirical(GENERATOR.exponential(size=(40, 3))), np.array([[0.5] * 3, [-1.0] * 3]),
    )  # fmt: skip
    read = linear_lines(model, 3)
    assert isinstance(read, LineModel)
    assert np.allclose(read.predict(X), model.predict(X), rtol=1e-9)
    exact = read.moments(lines)
    twin = QuadratureLines(model.predict, "gauss", 3).moments(lines)
    for name in ("mean", "hermite"):
        assert np.allclose(getattr(exact, name), getattr(twin, name), rtol=1e-7), name


@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(PolynomialFeatures(), Ridge()),
        make_pipeline(MinMaxScaler(clip=True), Ridge()),
        make_pipeline(StandardScaler(), PolynomialFeatures(include_bias=False), Ridge()),
    ],
    ids=str,
)
def test_what_is_not_affine_is_not_read(model):
    assert linear_lines(model.fit(X, Y), 3) is None


def test_models_of_other_columns_are_not_read():
    assert linear_lines(LinearRegression().fit(X, Y), 4) is None
    assert linear_lines(lambda rows: rows[:, 0], 3) is None


def test_moments_of_a_law_are_computed_once_and_belong_to_all(monkeypatch):
    reference = Reference.empirical(np.random.default_rng(0).standard_normal((20, 2)))
    first, second = reference.moments(2)
    monkeypatch.setattr(Reference, "masses", None)
    assert reference.moments(2)[0] is first
    with pytest.raises(ValueError, match="read-only"):
        second[0] = 1.0


@pytest.mark.parametrize("equal", [True, False])
def test_a_law_of_rows_is_the_empirical_law_of_all_moved_rows(equal):
    """Sorted late and coordinate by coordinate, or not at all for moments: the same law."""
    generator = np.random.default_rng(3)
    latent, mass = generator.standard_normal((40, 3)), np.ones(40)
    if not equal:
        mass = generator.integers(0, 3, 40).astype(float)
    offsets = np.array([[-1.0, 0.0, 0.3], [0.5, 0.0, -0.2]])
    shares = np.array([0.25, 0.75])
    late = Reference.of_rows(latent, mass, offsets, shares)
    rows = np.concatenate([latent + offset for offset in offsets])
    whole = Reference.empirical(rows, np.concatenate([share * mass for share in shares]))
    np.testing.assert_array_equal(late.values, whole.values)
    np.testing.assert_allclose(late.cumulative, whole.cumulative, rtol=1e-14)
    for coordinates in (np.array([1]), np.array([2, 0])):
        part, expected = late.only(coordinates), whole.only(coordinates)
        np.testing.assert_allclose(
            part.three_moments(len(coordinates)), expected.three_moments(len(coordinates)),
            rtol=1e-12, atol=1e-14,
        )  # fmt: skip
        np.testing.assert_array_equal(part.values, expected.values)
        np.testing.assert_array_equal(part.atoms(0)[0], expected.atoms(0)[0])
    again = pickle.loads(pickle.dumps(late))  # noqa: S301
    np.testing.assert_array_equal(again.values, whole.values)
