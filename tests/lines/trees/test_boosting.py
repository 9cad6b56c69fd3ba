"""Line means of the boosted trees of the default learner, against the slow twin."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dfi._data.table import read_table
from dfi._learners.boosting import (
    LeastSquaresBoosting,
    ObliqueBoosting,
    oblique_pairs,
    with_pairs,
)
from dfi._lines.choose import Quadrature, line_model
from dfi._lines.closed_form import MappedLines
from dfi._lines.trees import TreeLines
from dfi._models.predictor import predictor_for

from .conftest import make_lines, twin

GENERATOR = np.random.default_rng(5)
X = GENERATOR.standard_normal((80, 3))
Y = (X[:, 0] + X[:, 1] > 0) + X[:, 2] ** 2 + 0.2 * GENERATOR.standard_normal(80)


def splits_of(trees):
    inner = trees.feature_ >= 0
    return set(zip(trees.feature_[inner].tolist(), trees.threshold_[inner].tolist(), strict=True))


@pytest.mark.parametrize("q", [1, 2])
def test_boosting_is_followed_exactly(kind, q):
    model = LeastSquaresBoosting(n_trees=15).fit(X, Y)
    read = line_model(predictor_for(model, read_table(X), prefit=True), X, Quadrature())
    assert isinstance(read, TreeLines)
    lines = make_lines(X[:4], kind=kind, q=q)
    mean, hermite = twin(model.predict, splits_of(model), lines)
    found = read.moments(lines)
    np.testing.assert_allclose(found.mean, mean, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.hermite, hermite, rtol=0, atol=1e-9)
    np.testing.assert_allclose(read.predict(3 * X), model.predict(3 * X), rtol=0, atol=1e-12)


@pytest.mark.parametrize("q", [1, 2])
def test_splits_of_sums_are_followed_exactly(kind, q):
    model = ObliqueBoosting().fit(X, Y)
    assert np.any(model.trees_.feature_ >= 3)
    read = line_model(predictor_for(model, read_table(X), prefit=True), X, Quadrature())
    assert isinstance(read, MappedLines)
    assert read.rule == "exact: 80 trees"
    lines = make_lines(X[:3], kind=kind, q=q)
    found = read.moments(lines)
    A = model.map_.T
    images = replace(lines, points=lines.points @ A.T, directions=A @ lines.directions)
    # a sum moves along a line as its columns do: the function is the model's own
    back = np.linalg.pinv(model.map_)
    mean, hermite = twin(lambda rows: model.predict(rows @ back), splits_of(model.trees_), images)
    np.testing.assert_allclose(found.mean, mean, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.hermite, hermite, rtol=0, atol=1e-9)


@pytest.mark.parametrize("order", ["C", "F"])
def test_columns_with_pairs_are_those_of_the_product(order):
    wide = np.asarray(GENERATOR.standard_normal((40, 9)), order=order)
    wide[:, 4] = wide[:, 4] > 0  # takes two values: no part of a pair
    pairs = oblique_pairs(wide, wide.std(axis=0), np.arange(9.0), 3)
    found = with_pairs(wide, pairs)
    assert found.shape == (40, 9 + 3 * 2)
    assert found.flags.c_contiguous
    np.testing.assert_allclose(found, wide @ pairs, rtol=0, atol=1e-13)


def test_levels_are_decoded_beside_sums():
    """A column with levels is split between them; means over atoms are those of decoded rows."""
    levels = GENERATOR.integers(0, 4, 80).astype(float)
    rows = np.column_stack([X[:, :2], levels])
    model = ObliqueBoosting().fit(rows, Y + levels)
    predictor = predictor_for(model, read_table(rows), prefit=True)
    read = line_model(predictor, rows, Quadrature())
    assert isinstance(read, MappedLines)
    lines = make_lines(rows[:3], kind="empirical", q=1)
    found = read.moments(lines)
    assert predictor.levels
    mass = lines.reference.masses()
    for i, j in np.ndindex(3, 3):
        t = lines.reference.values[:, j]
        along = lines.points[i] + np.outer(t - lines.latent[i, j], lines.directions[:, j])
        value = predictor(along)
        assert found.mean[0, i, j] == pytest.approx(mass[:, j] @ value, abs=1e-9)
        assert found.hermite[0, i, j] == pytest.approx(mass[:, j] @ (t * value), abs=1e-9)
