"""The ridge regression on all squares and products."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from dfi._data.table import read_table
from dfi._learners import quadratic as module
from dfi._learners.quadratic import BoundedRidge, QuadraticRidge
from dfi._lines.base import LineModel, Lines, Reference
from dfi._lines.choose import Quadrature, line_model
from dfi._lines.closed_form import BoundedLines, bounded_lines
from dfi._models.predictor import predictor_for

GENERATOR = np.random.default_rng(0)
N, P = 60, 3
X = GENERATOR.standard_normal((N, P)) @ GENERATOR.standard_normal((P, P)) + [5.0, 0.0, -2.0]
Y = X[:, 0] * X[:, 1] + X[:, 2] + GENERATOR.standard_normal(N)
WEIGHT = GENERATOR.uniform(0.2, 3.0, N)


def terms_of(X, weight):
    """Return the terms by their definition: columns, and what no sum of columns is of products."""

    def moments(columns):
        center = np.average(columns, axis=0, weights=weight)
        return center, np.sqrt(np.average((columns - center) ** 2, axis=0, weights=weight))

    center, spread = moments(X)
    Z = (X - center) / np.where(spread > 1e-12, spread, np.inf)
    found, root = [2.0 * Z], np.sqrt(weight)[:, None]
    for k in range(X.shape[1]):
        for m in range(k, X.shape[1]):
            product = (Z[:, k] * Z[:, m])[:, None]
            center, spread = moments(product)
            product = product - center
            product = product - Z @ np.linalg.lstsq(root * Z, root * product, rcond=1e-5)[0]
            size = spread if k == m else max(1.0, float(spread[0]))
            found.append(product / size if np.abs(product).max() > 1e-6 else 0.0 * product)
    return np.hstack(found)


def ridge(terms, y, weight, penalty):
    """Return intercept and slopes of a ridge regression whose intercept is free."""
    design = np.column_stack([np.ones(len(y)), terms])
    penalties = np.full(design.shape[1], penalty)
    penalties[0] = 0.0
    return np.linalg.solve(design.T * weight @ design + np.diag(penalties), design.T @ (weight * y))


def left_out(terms, y, weight, penalty):
    """Return the residuals of refits without each row; the terms stay as they are."""
    found = np.empty(len(y))
    for i in range(len(y)):
        others = np.arange(len(y)) != i
        slopes = ridge(terms[others], y[others], weight[others], penalty)
        found[i] = y[i] - slopes[0] - terms[i] @ slopes[1:]
    return found


def one_penalty(monkeypatch, penalty):
    monkeypatch.setattr(module, "PENALTIES", np.array([penalty]))


def test_a_quadratic_is_recovered():
    Q = np.array([[1.0, 0.5, 0.0], [0.5, -2.0, 0.0], [0.0, 0.0, 0.3]])
    y = 3.0 + X @ [1.0, 0.0, -1.0] + np.einsum("ij,jk,ik->i", X, Q, X)
    model = QuadraticRidge().fit(X, y)
    fresh = (X[:20] + X[20:40]) / 2
    truth = 3.0 + fresh @ [1.0, 0.0, -1.0] + np.einsum("ij,jk,ik->i", fresh, Q, fresh)
    assert np.corrcoef(model.predict(fresh), truth)[0, 1] > 0.999
    np.testing.assert_array_equal(model.quadratic_, model.quadratic_.T)


def test_without_a_penalty_a_quadratic_is_exact(monkeypatch):
    one_penalty(monkeypatch, 1e-9)
    Q = np.array([[1.0, 0.5, 0.0], [0.5, -2.0, 0.0], [0.0, 0.0, 0.3]])
    y = 3.0 + X @ [1.0, 0.0, -1.0] + np.einsum("ij,jk,ik->i", X, Q, X)
    model = QuadraticRidge().fit(X, y)
    np.testing.assert_allclose(model.quadratic_, Q, atol=1e-6)
    np.testing.assert_allclose(model.predict(X), y, atol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_prediction_is_that_of_the_ridge_regression(monkeypatch, weighted):
    one_penalty(monkeypatch, 2.5)
    weight = WEIGHT / WEIGHT.mean() if weighted else np.ones(N)
    terms = terms_of(X, weight)
    slopes = ridge(terms, Y, weight, 2.5)
    model = QuadraticRidge().fit(X, Y, WEIGHT if weighted else None)
    expected = slopes[0] + terms @ slopes[1:]
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("columns", [2, 8])
def test_residuals_are_those_of_refits_without_each_row(monkeypatch, weighted, columns):
    """Both with more rows than terms and with fewer: 15 rows, 5 or 44 terms."""
    rows = GENERATOR.standard_normal((15, columns))
    y = rows[:, 0] * rows[:, 1] + GENERATOR.standard_normal(15)
    one_penalty(monkeypatch, 1.5)
    weight = WEIGHT[:15] / WEIGHT[:15].mean() if weighted else np.ones(15)
    model = QuadraticRidge().fit(rows, y, WEIGHT[:15] if weighted else None)
    slow = left_out(terms_of(rows, weight), y, weight, 1.5)
    slow = y - np.clip(y - slow, *model.bounds_)
    np.testing.assert_allclose(model.held_out_residuals_, slow, rtol=1e-8, atol=1e-8)


def test_penalty_is_the_one_of_least_error_left_out():
    terms = terms_of(X, np.ones(N))
    slow = [left_out(terms, Y, np.ones(N), penalty) for penalty in module.PENALTIES]
    best = int(np.argmin([residual @ residual for residual in slow]))
    assert 0 < best < len(module.PENALTIES) - 1
    model = QuadraticRidge().fit(X, Y)
    np.testing.assert_allclose(model.held_out_residuals_, slow[best], rtol=1e-8, atol=1e-8)


def test_whole_weights_are_repeated_rows_up_to_the_penalty(monkeypatch):
    counts = GENERATOR.integers(0, 3, N)
    kept, total = np.count_nonzero(counts), counts.sum()
    one_penalty(monkeypatch, 2.0)
    repeated = QuadraticRidge().fit(X.repeat(counts, axis=0), Y.repeat(counts))
    one_penalty(monkeypatch, 2.0 * kept / total)
    weighted = QuadraticRidge().fit(X, Y, counts)
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-8, atol=1e-8)


def test_rows_of_weight_0_are_predicted_and_nothing_else():
    weight = np.where(np.arange(N) % 4 == 0, 0.0, WEIGHT)
    kept = weight > 0
    far = np.where(kept[:, None], X, 50.0 * X)
    whole = QuadraticRidge().fit(far, Y, weight)
    part = QuadraticRidge().fit(X[kept], Y[kept], weight[kept])
    np.testing.assert_allclose(whole.predict(X), part.predict(X), rtol=1e-8, atol=1e-8)
    left, own = whole.held_out_residuals_, Y - whole.predict(far)
    np.testing.assert_allclose(left[~kept], own[~kept], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(left[kept], part.held_out_residuals_, rtol=1e-6, atol=1e-8)


def test_what_no_row_tells_apart_belongs_to_the_columns():
    """Two of three species live on one island each: their products with islands are columns."""
    kind = GENERATOR.integers(0, 3, 200)
    place = np.where(kind == 0, GENERATOR.integers(0, 3, 200), kind - 1)
    levels = np.hstack([np.eye(3)[kind], np.eye(3)[place]])
    model = QuadraticRidge().fit(levels, levels @ GENERATOR.standard_normal(6))
    np.testing.assert_array_equal(model.quadratic_, 0.0)
    rows = np.column_stack([levels, GENERATOR.standard_normal(200)])
    model = QuadraticRidge().fit(rows, rows[:, -1] * (1.0 + rows[:, 0]))
    np.testing.assert_array_equal(model.quadratic_[:6, :6], 0.0)
    assert np.abs(model.quadratic_[6, :3]).max() > 0.1


def test_units_of_columns_and_outcome_do_not_matter():
    plain = QuadraticRidge().fit(X, Y).predict(X)
    scale, shift = np.array([1e4, 1.0, 1e-4]), np.array([0.0, 10.0, 0.0])
    other = QuadraticRidge().fit(X * scale + shift, 100.0 * Y - 7.0)
    np.testing.assert_allclose(other.predict(X * scale + shift), 100 * plain - 7, rtol=1e-6)


def test_constant_doubled_and_binary_columns():
    rows = np.column_stack([X, np.full(N, 1e8), X[:, 0], X[:, 1] > 0])
    model = QuadraticRidge().fit(rows, Y)
    assert model.score(rows, Y) > 0.7
    assert not model.linear_[3]
    assert not model.quadratic_[3].any()
    flat = QuadraticRidge().fit(np.ones((5, 2)), np.arange(5.0))
    np.testing.assert_allclose(flat.predict(np.zeros((2, 2))), 2.0)
    constant = QuadraticRidge().fit(X, np.full(N, 4.0))
    np.testing.assert_allclose(constant.predict(X), 4.0)


def test_more_columns_than_rows():
    wide = GENERATOR.standard_normal((20, 30))
    model = QuadraticRidge().fit(wide, wide[:, 0])
    assert np.isfinite(model.predict(3 * wide)).all()
    assert np.isfinite(model.held_out_residuals_).all()
    assert np.isfinite(QuadraticRidge().fit(X[:2], Y[:2]).held_out_residuals_).all()


@pytest.mark.parametrize(
    ("shape", "suits"),
    [((200, 6), True), ((200, 60), True), ((200, 61), False), ((10**6, 60), False)],
)
def test_wide_tables_are_left_to_others(shape, suits):
    assert QuadraticRidge().suits(*shape) is suits


def test_it_is_cloned_and_pickled():
    model = QuadraticRidge().fit(X, Y, WEIGHT)
    again = pickle.loads(pickle.dumps(model))  # noqa: S301
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert not hasattr(clone(model), "linear_")
    with pytest.raises(ValueError, match="not fitted yet"):
        clone(model).predict(X)


def read(model):
    return line_model(predictor_for(model, read_table(X), prefit=True), X, Quadrature())


@pytest.mark.parametrize("kind", [BoundedRidge, QuadraticRidge])
@pytest.mark.parametrize("law", ["normal", "empirical", "weighted"])
def test_line_means_are_those_of_quadrature(law, kind):
    values = GENERATOR.exponential(size=(25, P))
    mass = GENERATOR.integers(1, 4, 25) if law == "weighted" else np.ones(25)
    nodes = np.linspace(-9.0, 9.0, 20_001)
    share = np.exp(-0.5 * nodes**2)
    reference = Reference.gaussian() if law == "normal" else Reference.empirical(values, mass)
    latent, directions = GENERATOR.standard_normal((7, P)), GENERATOR.standard_normal((P, P))
    offsets = np.array([[0.0, 0.0, 0.0], [0.5, -1.0, 0.3]])
    model = kind().fit(X, Y)
    lines = Lines(X[:7], latent, directions, reference, offsets)
    found = read(model).moments(lines)
    scale = np.abs(found.mean).max() + np.abs(found.hermite).max()
    for q, i, j in np.ndindex(2, 7, P):
        t, weights = (nodes, share) if law == "normal" else (values[:, j], mass)
        steps = t - latent[i, j] - offsets[q, j]
        along = model.predict(X[i] + np.outer(steps, directions[:, j]))
        for moment, value in ((found.mean, along), (found.hermite, t * along)):
            expected = np.average(value, weights=weights)
            tolerance = 1e-6 if law == "normal" else 1e-10
            assert moment[q, i, j] == pytest.approx(expected, abs=tolerance * scale)


def test_it_is_read():
    model = QuadraticRidge().fit(X, Y)
    lines = read(model)
    assert isinstance(lines, BoundedLines)
    assert isinstance(lines, LineModel)
    assert lines.rule == "closed form (quadratic)"
    np.testing.assert_allclose(lines.predict(X), model.predict(X))
    assert bounded_lines(X) is None
