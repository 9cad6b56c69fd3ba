"""Trees on columns with levels: line means are those of decoded rows, for every library."""

from __future__ import annotations

import warnings
from dataclasses import replace

import catboost
import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dfi._data.levels import Grid
from dfi._data.table import read_table
from dfi._data.weights import read_weights
from dfi._lines.base import Lines, Reference
from dfi._lines.choose import Quadrature, line_model
from dfi._lines.trees.ensemble import Category, category_of
from dfi._lines.trees.kernels_pieces import cuts_of, levels_at, pieces_of, seen_by_trees
from dfi._lines.trees.model import TreeLines
from dfi._models.predictor import predictor_for
from dfi.transports.copula import Copula, through_margins
from dfi.transports.gaussian import Gaussian

from .conftest import make_lines, twin

READERS = {
    "forest": lambda: RandomForestRegressor(6, min_samples_leaf=3, random_state=0),
    "extra trees": lambda: ExtraTreesRegressor(6, min_samples_leaf=3, random_state=0),
    "boosting": lambda: GradientBoostingRegressor(n_estimators=12, random_state=0),
    "histogram": lambda: HistGradientBoostingRegressor(max_iter=12, min_samples_leaf=5),
    "lightgbm": lambda: lightgbm.LGBMRegressor(n_estimators=12, verbose=-1, n_jobs=1),
    "xgboost": lambda: xgboost.XGBRegressor(n_estimators=12, max_depth=4, n_jobs=1),
    "catboost": lambda: catboost.CatBoostRegressor(
        n_estimators=12, depth=4, verbose=0, thread_count=1, allow_writing_files=False
    ),
}


def table_of_levels(seed, n=180, n_labels=4):
    """Return a frame with a real, an integer, a boolean, a rounded column and labels, and y."""
    rng = np.random.default_rng(seed)
    real = rng.normal(size=n)
    hour = rng.integers(0, 9, n) * int(rng.integers(1, 4))
    flag = real + rng.normal(size=n) > 0
    rounded = np.round(0.5 * real + rng.normal(size=n), 0) / 4 + 0.1
    label = np.array([f"l{k:02d}" for k in rng.integers(0, n_labels, n)])
    frame = pd.DataFrame(
        {"real": real, "hour": hour, "flag": flag, "rounded": rounded, "label": label}
    )
    code = np.unique(label, return_inverse=True)[1]
    y = real * flag + np.sin(hour) + rounded + (code % 3) + 0.1 * rng.normal(size=n)
    return frame, y


def read(make, table, y):
    """Fit on the numeric matrix; return the predictor and what lines are averaged by."""
    predictor = predictor_for(make().fit(table.matrix, y), table, prefit=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = line_model(predictor, table.matrix, Quadrature())
    assert isinstance(found, TreeLines)
    return predictor, found


def own_predictions(predictor):
    """A slow twin of the decoding, written anew, around the model's own predict."""
    table, model = predictor.table, predictor.model

    def predict(points):
        rows = points.copy()
        for column in table.columns:
            place = list(column.positions)
            observed = table.matrix[:, place]
            if column.name == "real":
                continue
            if len(place) > 1:
                rows[:, place] = 0.0
                present = observed.any(axis=0)
                best = np.where(present, points[:, place], -np.inf).argmax(axis=1)
                rows[np.arange(len(rows)), np.array(place)[best]] = 1.0
            else:
                levels = np.unique(observed)
                gap = np.abs(points[:, place] - levels)
                rows[:, place[0]] = levels[gap.argmin(axis=1)]
        return np.asarray(model.predict(rows), dtype=float)

    return predict


@pytest.mark.parametrize("name", READERS)
@settings(
    max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 10**6), q=st.integers(1, 2))
def test_line_means_are_those_of_decoded_rows(name, seed, q):
    frame, y = table_of_levels(seed)
    table = read_table(frame)
    predictor, found = read(READERS[name], table, y)
    lines = make_lines(table.matrix[:4], kind="empirical", q=q, seed=seed)
    truth = twin(own_predictions(predictor), (), lines)
    moments = found.moments(lines)
    tolerance = max(found.ensemble.tolerance, 1e-9) * max(1.0, np.abs(y).max())
    np.testing.assert_allclose(moments.mean, truth[0], rtol=0, atol=tolerance)
    np.testing.assert_allclose(moments.hermite, truth[1], rtol=0, atol=10 * tolerance)


@pytest.mark.parametrize("name", ["forest", "histogram", "xgboost"])
def test_thresholds_behind_a_scaler_are_moved_in_the_columns_own_units(name):
    frame, y = table_of_levels(4)
    table = read_table(frame.drop(columns="label").astype(float).to_numpy())
    predictor, found = read(lambda: make_pipeline(StandardScaler(), READERS[name]()), table, y)
    twins = replace(predictor, table=replace(table, columns=read_table(frame).columns[:4]))
    lines = make_lines(table.matrix[:4], kind="empirical", q=1)
    truth = twin(own_predictions(twins), (), lines)[0]
    np.testing.assert_allclose(found.moments(lines).mean, truth, rtol=0, atol=1e-5)


def many_nodes(predict, lines, count=40_001):
    """Midpoint rule in t for a normal law: the mean along each line, (n, d)."""
    from scipy.special import ndtri

    t = ndtri((np.arange(count) + 0.5) / count)
    mean = np.empty(lines.latent.shape)
    for i, j in np.ndindex(mean.shape):
        shift = t - lines.latent[i, j]
        mean[i, j] = predict(lines.points[i] + np.outer(shift, lines.directions[:, j])).mean()
    return mean


@pytest.mark.parametrize("name", ["forest", "lightgbm"])
def test_normal_lines_of_the_gaussian_and_the_copula_transport(name):
    frame, y = table_of_levels(1)
    table = read_table(frame)
    predictor, found = read(READERS[name], table, y)
    weights = read_weights(None, table.n_rows)
    rows = table.matrix[:2]
    gaussian = Gaussian(reference="gaussian").fit_matrix(table.matrix, weights, table.constant)
    copula = Copula(reference="gaussian").fit_matrix(table.matrix, weights, table.constant)
    for transport, model, points, predict in (
        (gaussian, found, rows, own_predictions(predictor)),
        (
            copula.linear,
            through_margins(found, copula),
            copula.scores(rows),
            lambda scores: own_predictions(predictor)(copula.values(scores)),
        ),
    ):
        zero = np.zeros((1, transport.n_latent))
        lines = Lines(
            points,
            transport.encode(points),
            transport.geometry.directions,
            transport.reference,
            zero,
        )
        np.testing.assert_allclose(model.predict(points), predict(points), rtol=1e-9)
        # the midpoint rule is off by at most half a node per jump
        np.testing.assert_allclose(
            model.moments(lines).mean[0],
            many_nodes(predict, lines),
            rtol=0,
            atol=100 / 40_001 * np.ptp(y),
        )


def test_probabilities_too():
    frame, y = table_of_levels(2)
    table = read_table(frame)
    model = GradientBoostingClassifier(n_estimators=8).fit(table.matrix, y > np.median(y))
    predictor = predictor_for(model, table, prefit=True)
    found = line_model(predictor, table.matrix, Quadrature())
    lines = make_lines(table.matrix[:3], kind="empirical", q=1)
    moments = found.moments(lines)
    np.testing.assert_allclose(moments.mean, twin(predictor, (), lines)[0], atol=1e-9)


@pytest.mark.parametrize("n_labels", [2, 5, 50])
@pytest.mark.parametrize("name", READERS)
def test_a_category_that_the_model_never_reads_moves_nothing(name, n_labels):
    frame, y = table_of_levels(3, n=260, n_labels=n_labels)
    y = y - pd.Series(y).groupby(frame["label"]).transform("mean").to_numpy()
    table = read_table(frame)
    label = list(table.columns[-1].positions)
    blind = table.matrix.copy()
    # a model that was shown one level only cannot read the category
    blind[:, label] = blind[0, label]
    model = READERS[name]().fit(blind, y)
    predictor = predictor_for(model, table, prefit=True)
    found = line_model(predictor, table.matrix, Quadrature())
    assert isinstance(found, TreeLines)
    rows = table.matrix[:5]
    directions = np.zeros((table.matrix.shape[1], len(label)))
    directions[label] = np.random.default_rng(0).normal(size=(len(label), len(label)))
    reference = Reference.empirical(np.random.default_rng(1).normal(size=(30, len(label))))
    lines = Lines(rows, np.zeros((5, len(label))), directions, reference, np.zeros((1, len(label))))
    moments = found.moments(lines)
    value = np.broadcast_to(found.predict(rows)[:, None], (5, len(label)))
    np.testing.assert_allclose(moments.mean[0], value, rtol=1e-12)


def test_pieces_follow_the_largest_entry():
    rng = np.random.default_rng(0)
    for k in (3, 7):
        category = Category(np.arange(k), np.zeros(k), np.ones(k), np.arange(k), np.eye(k))
        points, direction = rng.normal(size=(40, k)), rng.normal(size=k)
        latent = rng.normal(size=40)
        pieces = pieces_of(points, latent, direction, cuts_of((category,)), -5.0, 5.0)
        assert np.all(np.diff(pieces.line) >= 0)
        for i in range(40):
            own = pieces.line == i
            low, high = pieces.low[own], pieces.high[own]
            assert low[0] == -5.0
            assert high[-1] == 5.0
            np.testing.assert_array_equal(low[1:], high[:-1])
            middle = (low + high) / 2
            rows = points[i] + (middle - latent[i])[:, None] * direction
            np.testing.assert_array_equal(rows.argmax(axis=1), pieces.levels[0][own])


def test_a_category_that_does_not_move_is_one_piece():
    category = Category(np.arange(3), np.zeros(3), np.ones(3), np.arange(3), np.eye(3))
    cuts = cuts_of((category,))
    pieces = pieces_of(np.eye(3), np.zeros(3), 1e-17 * np.ones(4), cuts, -9.0, 9.0)
    assert len(pieces.line) == 3
    np.testing.assert_array_equal(pieces.levels[0], [0, 1, 2])


def levels_by_definition(category, rows):
    """The nearest level of a number, or the largest entry, the first of equal ones."""
    if category.grid is not None:
        distance = np.abs(rows[:, [category.grid.position]] - category.grid.values)
        return distance.argmin(axis=1)
    return (category.shift + category.scale * rows[:, category.positions]).argmax(axis=1)


def seen_by_definition(rows, categories, levels):
    """The table's columns, the levels, and copies that move with a column at level 0."""
    copies = [
        np.where((level == 0)[:, None], rows[:, [category.source]], category.values[level])
        for category, level in zip(categories, levels, strict=True)
        if category.source is not None
    ]
    return np.column_stack([rows, *levels, *copies])


def test_several_categories_are_cut_and_seen_as_at_every_place_of_the_lines():
    rng = np.random.default_rng(4)
    grid = Grid(3, np.array([0.0, 1.0, 4.0]))
    categories = (
        Category(np.arange(3), np.zeros(3), np.ones(3), np.arange(3), np.eye(3)),
        category_of(grid, np.array([5, 6]), rng.normal(size=(3, 2))),
        Category(
            np.array([4, 4]), np.array([0.5, 0.0]), np.array([0.0, 1.0]), np.array([7, 8]),
            np.array([[0.0, 0.0], [-9.0, 9.0]]), source=2,
        ),
    )  # fmt: skip
    cuts = cuts_of(categories)
    points, direction = rng.normal(size=(30, 5)), rng.normal(size=5)
    latent = rng.normal(size=30)
    levels = levels_at(points, cuts)
    np.testing.assert_array_equal(levels, [levels_by_definition(c, points) for c in categories])
    np.testing.assert_array_equal(
        seen_by_trees(points, np.arange(30), levels, cuts).T,
        seen_by_definition(points, categories, levels),
    )
    pieces = pieces_of(points, latent, direction, cuts, -4.0, 4.0)
    ends = np.flatnonzero(np.diff(pieces.line, append=30))
    assert np.all(pieces.high[ends] == 4.0)
    for where in (0.01, 0.5, 0.99):
        t = (1.0 - where) * pieces.low + where * pieces.high
        moved = points[pieces.line] + (t - latent[pieces.line])[:, None] * direction
        known = [levels_by_definition(category, moved) for category in categories]
        np.testing.assert_array_equal(pieces.levels, known)
    # no cut without a change of level
    inside = np.flatnonzero(np.diff(pieces.line) == 0)
    assert np.all(np.any(pieces.levels[:, inside] != pieces.levels[:, inside + 1], axis=0))
