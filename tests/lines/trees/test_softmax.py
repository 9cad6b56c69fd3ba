"""Probabilities of K classes along lines: exact, for every library, twins: slow walks of a line."""

from __future__ import annotations

import gc
import pickle
import warnings
from dataclasses import replace
from itertools import pairwise

import catboost
import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from scipy.stats import norm
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from dfi._data.table import read_table
from dfi._data.weights import read_weights
from dfi._lines.base import Lines, Reference
from dfi._lines.choose import Quadrature, line_model
from dfi._lines.quadrature import QuadratureLines
from dfi._lines.trees import cache
from dfi._lines.trees.ensemble import add_ensembles, single_tree, softmax_of
from dfi._lines.trees.model import TreeLines, tree_lines
from dfi._models.predictor import Predictor, learner_view, predictor_for, rows_seen
from dfi.transports.copula import Copula, through_margins

from .conftest import make_lines, neighbours_in_float32, twin
from .test_natives import mean_over_atoms, table_of_categories

LIGHTGBM = {"n_estimators": 8, "verbose": -1, "n_jobs": 1, "min_child_samples": 4}
LIGHTGBM |= {"cat_smooth": 0.1, "cat_l2": 0.1, "min_data_per_group": 1}
XGBOOST = {"n_estimators": 8, "max_depth": 3, "n_jobs": 1}
BOOSTINGS = {
    "boosting": lambda: GradientBoostingClassifier(n_estimators=6, random_state=0),
    "boosting from zero": lambda: GradientBoostingClassifier(n_estimators=4, init="zero"),
    "histogram": lambda: HistGradientBoostingClassifier(max_iter=8, min_samples_leaf=4),
    "lightgbm": lambda: lightgbm.LGBMClassifier(**LIGHTGBM),
    "lightgbm averaged": lambda: lightgbm.LGBMClassifier(
        **LIGHTGBM, boosting_type="rf", subsample=0.7, subsample_freq=1
    ),
    "xgboost": lambda: xgboost.XGBClassifier(**XGBOOST),
    "xgboost dart": lambda: xgboost.XGBClassifier(**XGBOOST, booster="dart", rate_drop=0.3),
    "xgboost parallel": lambda: xgboost.XGBClassifier(
        **(XGBOOST | {"n_estimators": 3}), num_parallel_tree=2, subsample=0.6
    ),
    "catboost": lambda: catboost.CatBoostClassifier(
        n_estimators=8, depth=3, verbose=0, thread_count=1, allow_writing_files=False
    ),
}
SHARES = {
    "tree": lambda: DecisionTreeClassifier(max_depth=4),
    "forest": lambda: RandomForestClassifier(5, min_samples_leaf=4, random_state=0),
    "extra trees": lambda: ExtraTreesClassifier(5, min_samples_leaf=4, random_state=0),
    "bagging": lambda: BaggingClassifier(DecisionTreeClassifier(max_depth=3), 4, random_state=0),
}
MODELS = BOOSTINGS | SHARES
MISSING = [name for name in MODELS if not name.startswith("boosting")]


def classes_of(y, n_classes):
    return np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))


def random_trees(rng, n_classes, per_class, scale, p=3, depth=3):
    """Return the sum of trees of each class, random splits and leaf values up to the scale."""
    sums = []
    n_inner = 2**depth - 1
    number = np.arange(2 * n_inner + 1)
    inner = number < n_inner
    for _ in range(n_classes):
        trees = [
            single_tree(
                rng.integers(0, p, len(number)),
                rng.normal(size=len(number)),
                np.where(inner, 2 * number + 1, -1),
                np.where(inner, 2 * number + 2, -1),
                np.where(inner, 0.0, scale * rng.uniform(-1, 1, len(number))),
                n_features=p,
            )
            for _ in range(per_class)
        ]
        sums.append(add_ensembles(trees).shifted(float(rng.normal())))
    return sums


def value_at(ensemble, row):
    """Walk each tree in plain Python."""
    total = ensemble.intercept
    for root in ensemble.roots:
        node = root
        while ensemble.feature[node] >= 0:
            goes_left = row[ensemble.feature[node]] <= ensemble.threshold[node]
            node = (ensemble.left if goes_left else ensemble.right)[node]
        total += ensemble.value[node]
    return total


def slow_walk(sums, lines, i, j):
    """Return the three moments (3, K) along one line: all breakpoints, a softmax between them."""
    slope, z, row = lines.directions[:, j], lines.latent[i, j], lines.points[i]
    breaks = [-7.5, 7.5]
    for ensemble in sums:
        for feature, cut in zip(ensemble.feature, ensemble.threshold, strict=True):
            if feature >= 0 and slope[feature] != 0.0:
                breaks.append(z + (cut - row[feature]) / slope[feature])
    breaks = np.unique(np.clip(breaks, -7.5, 7.5))
    found = np.zeros((3, len(sums)))
    for a, b in pairwise(breaks):
        here = row + ((a + b) / 2 - z) * slope
        margin = np.array([value_at(ensemble, here) for ensemble in sums])
        odds = np.exp(margin - margin.max())
        p = odds / odds.sum()
        mass = norm.cdf(b) - norm.cdf(a) if a < 0 else norm.sf(a) - norm.sf(b)
        found[0] += p * mass
        found[1] += p * (norm.pdf(a) - norm.pdf(b))
        found[2] += p * p * mass
    return found


def random_lines(rng, n=4, p=3, *, kind="gaussian", q=1):
    points = rng.normal(size=(n, p))
    latent = rng.normal(size=(n, p))
    law = Reference.gaussian()
    if kind == "empirical":
        law = Reference.empirical(rng.normal(size=(60, p)))
    offsets = np.zeros((1, p)) if q == 1 else rng.normal(size=(q, p))
    return Lines(points, latent, rng.normal(size=(p, p)), law, offsets)


@pytest.mark.parametrize("scale", [0.3, 5.0, 60.0, 700.0])
@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_kernel_is_the_slow_walk(scale, n_classes):
    rng = np.random.default_rng([n_classes, int(10 * scale)])
    sums = random_trees(rng, n_classes, 2, scale)
    lines = random_lines(rng)
    found = [TreeLines(softmax_of(sums, k)).moments(lines) for k in range(n_classes)]
    for i, j in [(0, 0), (0, 1), (1, 2)]:
        truth = slow_walk(sums, lines, i, j)
        here = [[m.mean[0, i, j], m.hermite[0, i, j]] for m in found]
        # the tabulated normal law has an error of 2e-12 at each of some hundred breakpoints
        np.testing.assert_allclose(np.transpose(here), truth[:2], rtol=0, atol=2e-11)


@pytest.mark.parametrize("scale", [0.3, 5.0, 700.0])
def test_sums_over_atoms_are_exact_to_the_last_digits(scale):
    """An empirical law is summed without a table: the twin agrees within rounding."""
    rng = np.random.default_rng(3)
    sums = random_trees(rng, 4, 25, scale)
    lines = random_lines(rng, kind="empirical", q=3)
    total = np.zeros((2, 3, 4, 3))
    for k in range(4):
        trees = TreeLines(softmax_of(sums, k))
        moments = trees.moments(lines)
        truth = mean_over_atoms(trees.predict, lines, 1)
        np.testing.assert_allclose(moments.mean, truth[0], rtol=0, atol=1e-12)
        np.testing.assert_allclose(moments.hermite, truth[1], rtol=0, atol=1e-12)
        total += [moments.mean, moments.hermite]
    np.testing.assert_allclose(total[0], 1.0, rtol=0, atol=1e-12)
    first, _ = lines.reference.moments(3)
    np.testing.assert_allclose(total[1], np.broadcast_to(first, total[1].shape), atol=1e-12)


def test_many_jumps_are_as_exact_as_few():
    """Some 1500 jumps a line: what is kept up by differences does not drift."""
    rng = np.random.default_rng(5)
    sums = random_trees(rng, 3, 150, 1.0, depth=4)
    lines = random_lines(rng, 8, kind="empirical")
    total = 0.0
    for k in range(3):
        trees = TreeLines(softmax_of(sums, k))
        moments = trees.moments(lines)
        truth = mean_over_atoms(trees.predict, lines, 1)
        np.testing.assert_allclose(moments.mean, truth[0], rtol=0, atol=1e-12)
        total = total + moments.mean
    np.testing.assert_allclose(total, 1.0, rtol=0, atol=1e-12)


def test_probabilities_that_overflow_stay_finite():
    rng = np.random.default_rng(6)
    sums = random_trees(rng, 3, 4, 700.0)
    trees = TreeLines(softmax_of(sums, 0))
    lines = random_lines(rng, 30)
    moments = trees.moments(lines)
    assert np.isfinite(moments.mean).all()
    assert (moments.mean > -1e-12).all()
    assert (moments.mean < 1 + 1e-12).all()
    assert np.isfinite(trees.predict(lines.points)).all()


def test_two_classes_by_softmax_are_a_logistic_link():
    rng = np.random.default_rng(7)
    nothing, margin = random_trees(rng, 2, 6, 1.0)
    nothing = replace(nothing, value=0.0 * nothing.value, intercept=0.0)
    lines = random_lines(rng, kind="empirical")
    two = TreeLines(softmax_of([nothing, margin], 1))
    one = TreeLines(replace(margin, link="logistic"))
    found, known = two.moments(lines), one.moments(lines)
    for name in ("mean", "hermite"):
        np.testing.assert_allclose(getattr(found, name), getattr(known, name), atol=1e-13)
    log_odds = two.ensemble.margin()
    np.testing.assert_allclose(log_odds.predict(lines.points), margin.predict(lines.points))
    other = softmax_of([nothing, margin], 0).margin()
    np.testing.assert_allclose(other.predict(lines.points), -margin.predict(lines.points))


@pytest.mark.parametrize("n_classes", [3, 4])
@pytest.mark.parametrize("name", MODELS)
def test_every_library(name, n_classes, data):
    x, y = data
    x = x[:, :4].copy()
    x[:, 3] = np.round(2 * (x[:, 3] - 3e5))
    model = MODELS[name]().fit(x, classes_of(y, n_classes))
    lines = make_lines(x[:3], kind="empirical", q=2)
    total = 0.0
    for k in range(n_classes):

        def predict(rows, k=k):
            return model.predict_proba(rows)[:, k]

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = tree_lines(model, predict, x, column=k)
        assert found.ensemble.link == ("softmax" if name in BOOSTINGS else "identity")
        truth = twin(predict, (), lines)
        moments = found.moments(lines)
        tolerance = 10 * found.ensemble.tolerance
        np.testing.assert_allclose(moments.mean, truth[0], rtol=0, atol=tolerance)
        np.testing.assert_allclose(moments.hermite, truth[1], rtol=0, atol=10 * tolerance)
        total = total + moments.mean
    np.testing.assert_allclose(total, 1.0, rtol=0, atol=1e-12)


def test_normal_law_by_breakpoints_and_by_quadrature(data):
    x, y = data
    model = GradientBoostingClassifier(n_estimators=3, max_depth=2).fit(x, classes_of(y, 3))
    lines = make_lines(x[:3], kind="gaussian", q=2)

    def predict(rows):
        return model.predict_proba(rows)[:, 2]

    found = tree_lines(model, predict, x, column=2)
    trees = [tree.tree_ for tree in model.estimators_.ravel()]
    splits = [
        (f, near)
        for tree in trees
        for f, c in zip(tree.feature, tree.threshold, strict=True)
        if f >= 0
        for near in neighbours_in_float32(c)
    ]
    moments = found.moments(lines)
    truth = twin(predict, splits, lines)
    np.testing.assert_allclose(moments.mean, truth[0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(moments.hermite, truth[1], rtol=0, atol=1e-9)
    nodes = QuadratureLines(predict, "equal", 4096).moments(lines)
    np.testing.assert_allclose(moments.mean, nodes.mean, rtol=0, atol=1e-3)


def read_class(predictor, k):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = line_model(replace(predictor, column=k), predictor.table.matrix, Quadrature())
    assert isinstance(found, TreeLines)
    return found


def assert_classes_exact(predictor, n_classes, tolerance_factor=10.0):
    lines = make_lines(predictor.table.matrix[:3], kind="empirical", q=1)
    total = 0.0
    for k in range(n_classes):
        found = read_class(predictor, k)
        truth = mean_over_atoms(replace(predictor, column=k), lines, 1)
        tolerance = tolerance_factor * found.ensemble.tolerance
        moments = found.moments(lines)
        np.testing.assert_allclose(moments.mean, truth[0], rtol=0, atol=tolerance)
        np.testing.assert_allclose(moments.hermite, truth[1], rtol=0, atol=10 * tolerance)
        total = total + moments.mean
    np.testing.assert_allclose(total, 1.0, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_integer_columns_and_labels_in_a_table(name):
    rng = np.random.default_rng(8)
    frame = pd.DataFrame({"real": rng.normal(size=150), "count": rng.integers(0, 5, 150)})
    frame["label"] = rng.choice(["u", "v", "w"], 150)
    y = classes_of(frame["real"] + np.sin(frame["count"]) + (frame["label"] == "u"), 3)
    table = read_table(frame)
    predictor = predictor_for(MODELS[name]().fit(table.matrix, y), table, prefit=False)
    assert_classes_exact(predictor, 3)


@pytest.mark.parametrize("name", MISSING)
def test_missing_values(name):
    rng = np.random.default_rng(9)
    frame = pd.DataFrame(rng.normal(size=(160, 3)), columns=list("abc"))
    y = classes_of(frame["a"] * frame["b"] + frame["c"], 3)
    frame = frame.mask(rng.random(frame.shape) < 0.2)
    table = read_table(frame)
    model = MODELS[name]()
    model.fit(rows_seen(table, table.matrix, learner_view(model, table)), y)
    assert_classes_exact(predictor_for(model, table, prefit=False), 3)


NATIVE = {
    "histogram": lambda: HistGradientBoostingClassifier(
        max_iter=6, min_samples_leaf=4, categorical_features="from_dtype"
    ),
    "lightgbm": lambda: lightgbm.LGBMClassifier(**LIGHTGBM),
    "xgboost": lambda: xgboost.XGBClassifier(**XGBOOST, enable_categorical=True),
}


@pytest.mark.parametrize("holes", [0.0, 0.2])
@pytest.mark.parametrize("name", NATIVE)
def test_categories_that_a_model_takes_itself(name, holes):
    frame, y = table_of_categories(4, holes=holes)
    model = NATIVE[name]().fit(frame, classes_of(y, 3))
    predictor = replace(predictor_for(model, read_table(frame), prefit=True), column=0)
    assert_classes_exact(predictor, 3)


def test_pipelines_and_normal_scores(data):
    x, y = data
    table = read_table(x[:, :3])
    model = make_pipeline(StandardScaler(), GradientBoostingClassifier(n_estimators=3))
    model.fit(table.matrix, classes_of(y, 3))
    predictor = predictor_for(model, table, prefit=True)
    assert_classes_exact(predictor, 3)
    weights = read_weights(None, table.n_rows)
    copula = Copula(reference="gaussian").fit_matrix(table.matrix, weights, table.constant)
    scores = np.random.default_rng(1).normal(size=(20, 3))
    for k in range(3):
        trees = through_margins(read_class(predictor, k), copula)
        assert isinstance(trees, TreeLines)
        own = replace(predictor, column=k)(copula.values(scores))
        np.testing.assert_allclose(trees.predict(scores), own, atol=1e-9)


def test_one_against_the_others_is_a_logistic_link(data):
    x, y = data
    model = lightgbm.LGBMClassifier(**LIGHTGBM, objective="multiclassova")
    model.fit(x, classes_of(y, 3))
    found = tree_lines(model, lambda rows: model.predict_proba(rows)[:, 2], x, column=2)
    assert found.ensemble.link == "logistic"


def test_several_targets_are_refused(data):
    x, y = data
    model = xgboost.XGBClassifier(**XGBOOST, multi_strategy="multi_output_tree")
    model.fit(x, classes_of(y, 3))
    with pytest.warns(UserWarning, match="line means use quadrature"):
        assert tree_lines(model, lambda rows: model.predict_proba(rows)[:, 2], x, column=2) is None


@pytest.fixture
def sweeps(monkeypatch):
    """Count the sweeps of lines, with an empty store of moments."""
    store = cache.MomentCache()
    monkeypatch.setattr("dfi._lines.trees.model.MOMENTS", store)
    count = []
    own = TreeLines._moments

    def counted(self, lines):
        count.append(1)
        return own(self, lines)

    monkeypatch.setattr(TreeLines, "_moments", counted)
    return store, count


def fitted_boosting(seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(120, 3))
    y = classes_of(x[:, 0] + x[:, 1] * x[:, 2], 4)
    return HistGradientBoostingClassifier(max_iter=5).fit(x, y), x, y


def lines_of_class(model, x, k):
    return tree_lines(model, lambda rows: model.predict_proba(rows)[:, k], x, column=k)


def test_classes_share_one_sweep_and_its_bits(sweeps):
    store, count = sweeps
    model, x, _ = fitted_boosting()
    lines = make_lines(x[:20], kind="empirical", q=2)
    alone = [replace(lines_of_class(model, x, k), owner=None).moments(lines) for k in range(4)]
    assert len(count) == 4
    for k in range(4):
        # each class is read anew, with a law that is equal and not the same
        again = Reference(lines.reference.kind, lines.reference.values, lines.reference.cumulative)
        found = lines_of_class(model, x, k).moments(replace(lines, reference=again))
        np.testing.assert_array_equal(found.mean, alone[k].mean)
        np.testing.assert_array_equal(found.hermite, alone[k].hermite)
        # nobody writes into what the next class is given
        found.mean[:] = 7.0
        np.testing.assert_array_equal(
            lines_of_class(model, x, k).moments(lines).mean, alone[k].mean
        )
    assert len(count) == 5
    assert store.n_bytes == 2 * 4 * 2 * 20 * 3 * 8


def test_what_is_kept_is_found_for_equal_trees_and_lines_only(sweeps):
    store, count = sweeps
    model, x, y = fitted_boosting()
    lines = make_lines(x[:6], kind="empirical", q=1)
    trees = lines_of_class(model, x, 0)
    first = trees.moments(lines).mean
    trees.moments(replace(lines, points=lines.points + 1e-9))
    trees.moments(replace(lines, reference=Reference.gaussian()))
    assert len(count) == 3
    # the same object, fitted again
    model.set_params(max_iter=9).fit(x, y)
    assert np.abs(lines_of_class(model, x, 0).moments(lines).mean - first).max() > 1e-3
    other, _, _ = fitted_boosting()
    np.testing.assert_array_equal(lines_of_class(other, x, 0).moments(lines).mean, first)
    assert len(count) == 5
    assert store.n_bytes > 0
    del model, other, trees
    gc.collect()
    assert store.n_bytes == 0


def test_what_is_kept_is_bounded_and_never_pickled(sweeps):
    store, count = sweeps
    model, x, _ = fitted_boosting()
    trees = lines_of_class(model, x, 0)
    block = make_lines(x[:10], kind="gaussian", q=1)
    trees.moments(block)
    store.most_bytes = store.n_bytes + 1
    trees.moments(block)
    assert len(count) == 1
    trees.moments(replace(block, points=block.points + 1.0))
    trees.moments(block)
    assert len(count) == 3
    assert store.n_bytes <= store.most_bytes
    store.most_bytes = 10
    trees.moments(replace(block, points=block.points + 2.0))
    copy = pickle.loads(pickle.dumps(trees))  # noqa: S301
    assert copy.owner is None
    np.testing.assert_array_equal(copy.moments(block).mean, trees.moments(block).mean)


def test_models_without_weak_references_are_not_shared(sweeps):
    store, _ = sweeps
    assert store.owner(5) is None


def test_probabilities_are_checked(data):
    x, y = data
    table = read_table(x)
    model = lightgbm.LGBMClassifier(**LIGHTGBM, objective="multiclassova")
    model.fit(x, classes_of(y, 3))
    with pytest.raises(ValueError, match="LGBMClassifier gives probabilities that do not add up"):
        Predictor(model, table, "matrix", column=0)(x)
    model = LogisticRegression(max_iter=10_000).fit(x[:, :2], classes_of(y, 3))
    table = read_table(x[:, :2])
    with pytest.raises(
        ValueError, match="has 3 classes, but the scores explain the probability of one"
    ):
        Predictor(model, table, "matrix")(x[:, :2])
    with pytest.raises(ValueError, match="class number 3 among them"):
        Predictor(model, table, "matrix", column=3)(x[:, :2])
    with pytest.raises(ValueError, match="scale='margin' explains the log-odds of two"):
        Predictor(model, table, "matrix", column=1, scale="margin")(x[:, :2])


BINARY = {
    "boosting": lambda: GradientBoostingClassifier(n_estimators=6),
    "exponential": lambda: GradientBoostingClassifier(n_estimators=6, loss="exponential"),
    "histogram": lambda: HistGradientBoostingClassifier(max_iter=6),
    "lightgbm": lambda: lightgbm.LGBMClassifier(**LIGHTGBM, objective="binary", sigmoid=0.7),
    "xgboost": lambda: xgboost.XGBClassifier(**XGBOOST),
    "catboost": lambda: catboost.CatBoostClassifier(
        n_estimators=6, depth=3, verbose=0, allow_writing_files=False
    ),
}


@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.parametrize("name", BINARY)
def test_margins_of_two_classes_are_sums_of_trees(name, column, data):
    x, y = data
    table = read_table(x)
    model = BINARY[name]().fit(table.matrix, y > np.median(y))
    predictor = replace(predictor_for(model, table, prefit=False), column=column, scale="margin")
    p = model.predict_proba(x)[:, column]
    np.testing.assert_allclose(predictor(x), np.log(p / (1 - p)), rtol=1e-4, atol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = line_model(predictor, x, Quadrature())
    assert found.ensemble.link == "identity"
    lines = make_lines(x[:3], kind="empirical", q=1)
    truth = mean_over_atoms(predictor, lines, 1)
    np.testing.assert_allclose(
        found.moments(lines).mean, truth[0], rtol=0, atol=20 * found.ensemble.tolerance
    )


def test_margins_without_a_sum_are_logarithms_of_probabilities(data):
    x, y = data
    model = RandomForestClassifier(5, random_state=0).fit(x, y > np.median(y))
    predictor = replace(predictor_for(model, read_table(x), prefit=False), scale="margin")
    assert np.abs(predictor(x)).max() == pytest.approx(-np.log(1e-12))
    with pytest.warns(UserWarning, match="its log-odds are not a sum of trees; its line means use"):
        assert isinstance(line_model(predictor, x, Quadrature()), QuadratureLines)
