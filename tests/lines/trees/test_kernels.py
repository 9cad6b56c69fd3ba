"""The kernels on trees of our own making: ties, determinism, the law, the shifts."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.ensemble import RandomForestRegressor

from dfi._lines.base import Lines, Reference
from dfi._lines.trees import TreeEnsemble, TreeLines, kernels_blocks, read_trees
from dfi._lines.trees import engine as engine_module
from dfi._lines.trees import law as law_module
from dfi._lines.trees.engine import choose_kernel, line_moments
from dfi._lines.trees.ensemble import (
    add_ensembles,
    fold_float32_at_most,
    fold_float32_below,
    single_tree,
)
from dfi._lines.trees.kernels_blocks import lay_out

from .conftest import make_lines

KERNELS = ["arena", "shared", "path", "merged"]


def walk(ensemble: TreeEnsemble, x):
    total = ensemble.intercept
    for node in ensemble.roots:
        while ensemble.feature[node] >= 0:
            goes_left = x[ensemble.feature[node]] <= ensemble.threshold[node]
            node = ensemble.left[node] if goes_left else ensemble.right[node]
        total += ensemble.value[node]
    return total


# Eighths and powers of two: every crossing is exact, so atoms fall on thresholds all the time.
eighths = st.integers(-16, 16).map(lambda k: k / 8)
slopes = st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0])


@st.composite
def trees(draw, p, depth=3):
    feature, threshold, left, right, value = [], [], [], [], []

    def grow(level):
        node = len(feature)
        for column in (feature, threshold, left, right, value):
            column.append(-1)
        if level == depth or (draw(st.booleans()) and level > 0):
            value[node] = draw(st.integers(-5, 5))
        else:
            feature[node] = draw(st.integers(0, p - 1))
            threshold[node] = draw(eighths)
            left[node] = grow(level + 1)
            right[node] = grow(level + 1)
        return node

    grow(0)
    return single_tree(feature, threshold, left, right, value, n_features=p)


@st.composite
def problems(draw):
    p, d, n, q = 3, draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    ensemble = add_ensembles(draw(st.lists(trees(p), min_size=1, max_size=3))).shifted(0.5)

    def table(rows, columns, numbers):
        row = st.lists(numbers, min_size=columns, max_size=columns)
        return np.array(draw(st.lists(row, min_size=rows, max_size=rows)), dtype=float)

    latent = table(n, d, eighths)
    atoms = np.concatenate([latent, table(draw(st.integers(1, 5)), d, eighths)])
    weights = np.array(draw(st.lists(st.integers(1, 4), min_size=len(atoms), max_size=len(atoms))))
    lines = Lines(
        table(n, p, eighths),
        latent,
        table(p, d, slopes),
        Reference.empirical(atoms, weights),
        table(q, d, eighths),
    )
    return ensemble, lines


@settings(max_examples=150, deadline=None)
@given(problem=problems())
def test_atoms_on_thresholds_follow_the_trees_own_rule(problem):
    ensemble, lines = problem
    found = [line_moments(ensemble, lines, kernel=kernel, n_threads=1) for kernel in KERNELS]
    mass = lines.reference.masses()
    mean, hermite = (np.empty(found[0].mean.shape) for _ in range(2))
    for k, i, j in np.ndindex(mean.shape):
        t = lines.reference.values[:, j]
        step = t - lines.latent[i, j] - lines.offsets[k, j]
        f = np.array([walk(ensemble, lines.points[i] + s * lines.directions[:, j]) for s in step])
        mean[k, i, j], hermite[k, i, j] = mass[:, j] @ f, mass[:, j] @ (t * f)
    for kernel, moments in zip(KERNELS, found, strict=True):
        np.testing.assert_allclose(moments.mean, mean, rtol=0, atol=1e-12, err_msg=kernel)
        np.testing.assert_allclose(moments.hermite, hermite, rtol=0, atol=1e-12, err_msg=kernel)


@settings(max_examples=100, deadline=None)
@given(problem=problems())
def test_the_kernels_agree_under_the_normal_law(problem):
    ensemble, lines = problem
    lines = replace(lines, reference=Reference.gaussian())
    first, *others = (line_moments(ensemble, lines, kernel=kernel) for kernel in KERNELS)
    for other in others:
        np.testing.assert_allclose(other.mean, first.mean, rtol=0, atol=1e-10)
        np.testing.assert_allclose(other.hermite, first.hermite, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_tabulated_normal_law_is_good_to_1e_10(kernel):
    # One split at 0: the line through x with slope 1 and latent 0 crosses it at t = -x.
    stump = single_tree([0, -1, -1], [0, 0, 0], [1, -1, -1], [2, -1, -1], [0, 1, 0], n_features=1)
    x = np.linspace(-9, 9, 20011)[:, None]
    lines = Lines(x, np.zeros_like(x), np.ones((1, 1)), Reference.gaussian(), np.zeros((1, 1)))
    moments = line_moments(stump, lines, kernel=kernel)
    np.testing.assert_allclose(moments.mean[0], norm.cdf(-x), rtol=0, atol=1e-11)
    np.testing.assert_allclose(moments.hermite[0], -norm.pdf(x), rtol=0, atol=1e-11)


@pytest.fixture(scope="module")
def forest():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((1100, 6))
    model = RandomForestRegressor(10, min_samples_leaf=5, random_state=0).fit(x, x @ np.arange(6))
    return read_trees(model)[0], x


@pytest.mark.parametrize("kernel", KERNELS)
def test_any_number_of_threads_gives_the_same_bits(forest, kernel, kind):
    ensemble, x = forest
    lines = make_lines(x, kind=kind, q=2)
    one, again, four = (
        TreeLines(ensemble, n_threads=k, kernel=kernel).moments(lines) for k in (1, 1, 4)
    )
    for other in (again, four):
        np.testing.assert_array_equal(one.mean, other.mean)
        np.testing.assert_array_equal(one.hermite, other.hermite)
    np.testing.assert_array_equal(
        TreeLines(ensemble, n_threads=1).predict(x), TreeLines(ensemble, n_threads=3).predict(x)
    )


def test_a_part_of_the_rows_has_the_same_moments(forest, kind):
    ensemble, x = forest
    lines = make_lines(x[:700], kind=kind, q=1)
    whole = TreeLines(ensemble).moments(lines)
    part = TreeLines(ensemble).moments(lines.take(slice(300, 420)))
    np.testing.assert_array_equal(whole.mean[:, 300:420], part.mean)


@pytest.mark.parametrize("kernel", KERNELS)
def test_shifts_are_moved_latents(forest, kernel, kind):
    ensemble, x = forest
    lines = make_lines(x[:40], kind=kind, q=4)
    together = line_moments(ensemble, lines, kernel=kernel)
    for k in range(4):
        moved = replace(lines, latent=lines.latent + lines.offsets[k], offsets=np.zeros((1, 6)))
        alone = line_moments(ensemble, moved, kernel=kernel)
        np.testing.assert_allclose(together.mean[k], alone.mean[0], rtol=0, atol=1e-10)
        np.testing.assert_allclose(together.hermite[k], alone.hermite[0], rtol=0, atol=1e-10)


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_rows_far_out_on_their_line_still_count_their_own_leaf(side, kind):
    # Splits at 6, 9 and 11 around a row at z = 10, beyond where the law is tabulated.
    tree = single_tree(
        [0, -1, 0, -1, 0, -1, -1],
        [6, 0, 9, 0, 11, 0, 0],
        [1, -1, 3, -1, 5, -1, -1],
        [2, -1, 4, -1, 6, -1, -1],
        [0, 1, 0, 5, 0, 70, 900],
        n_features=1,
    )
    one = np.ones((1, 1))
    if kind == "gaussian":
        reference = Reference.gaussian()
        truth = 1 + 4 * norm.sf(6)
    else:
        reference = Reference.empirical(side * np.array([[0.0], [8.0], [10.0], [12.0]]))
        truth = (1 + 5 + 70 + 900) / 4
    lines = Lines(10 * one, side * 10 * one, side * one, reference, 0 * one)
    for kernel in KERNELS:
        mean = line_moments(tree, lines, kernel=kernel).mean[0, 0, 0]
        assert mean == pytest.approx(truth, abs=1e-10)


def test_a_feature_in_small_units_is_not_taken_for_rounding(forest):
    # Next to a column of sd 1e9, that of a column of sd 1e-6 is below 1e-12 of the direction.
    stump = single_tree([0, -1, -1], [0, 0, 0], [1, -1, -1], [2, -1, -1], [0, 1, 0], n_features=2)
    lines = Lines(
        np.array([[1e-6, 0.0]]),
        np.array([[1.0]]),
        np.array([[1e-6], [1e9]]),
        Reference.gaussian(),
        np.zeros((1, 1)),
    )
    assert line_moments(stump, lines).mean[0, 0, 0] == pytest.approx(0.5, abs=1e-9)


@pytest.mark.parametrize(
    ("d", "common", "kernel"),
    [(8, 0.0, "arena"), (20, 0.0, "shared"), (400, 0.0, "path"), (400, 0.2, "arena")],
)
def test_the_kernel_is_chosen_by_how_many_directions_cross(d, common, kernel):
    rows = np.full((3, d), 0.5)
    stump = single_tree([0, -1, -1], [0, 0, 0], [1, -1, -1], [2, -1, -1], [0, 1, 0], n_features=d)
    directions = np.eye(d) + common
    lines = Lines(rows, rows, directions, Reference.gaussian(), np.zeros((1, d)))
    assert choose_kernel(stump, lines, lay_out(stump)) == kernel


@pytest.mark.parametrize("room", [1, 3])
def test_room_for_jumps_grows_without_changing_a_bit(forest, kind, room, monkeypatch):
    ensemble, x = forest
    lines = make_lines(x[:30], kind=kind, q=2)
    enough = line_moments(ensemble, lines, kernel="merged")
    monkeypatch.setattr(engine_module, "JUMPS_PER_TREE", 0)
    monkeypatch.setattr(engine_module, "FEWEST_JUMPS", room)
    grown = line_moments(ensemble, lines, kernel="merged")
    np.testing.assert_array_equal(enough.mean, grown.mean)
    np.testing.assert_array_equal(enough.hermite, grown.hermite)


@pytest.mark.parametrize("t", [-9.0, -1.3, 0.0, 0.4, 2.7, 9.0])
def test_the_normal_law_outside_of_kernels(t):
    law, _, _ = law_module.tabulate(Reference("gaussian"), 2)
    for found in (
        law_module.evaluate_law(law, 1, t),
        law_module.evaluate_coordinate(law_module.coordinate_law(law, 1), t),
    ):
        assert found == pytest.approx((norm.cdf(t), -norm.pdf(t)), abs=1e-10)


@given(seed=st.integers(0, 10_000), at_an_atom=st.booleans())
@settings(max_examples=30, deadline=None)
def test_an_empirical_law_outside_of_kernels(seed, at_an_atom):
    generator = np.random.default_rng(seed)
    values = np.sort(generator.standard_normal((12, 2)).round(1), axis=0)
    cumulative = np.tile(np.arange(1, 13)[:, None] / 12, 2)
    law, _, _ = law_module.tabulate(Reference("empirical", values, cumulative), 2)
    t = float(values[5, 1]) if at_an_atom else float(generator.standard_normal())
    below = values[:, 1] <= t
    expected = below.mean(), (values[:, 1] * below).mean()
    for found in (
        law_module.evaluate_law(law, 1, t),
        law_module.evaluate_coordinate(law_module.coordinate_law(law, 1), t),
    ):
        assert found == pytest.approx(expected, abs=1e-12)


def test_tables_of_a_law_are_kept_with_the_law_and_not_sent_to_workers():
    reference = Reference.empirical(np.random.default_rng(0).standard_normal((50, 2)))
    size = len(pickle.dumps(reference))
    first = law_module.tabulate(reference, 2)
    assert law_module.tabulate(reference, 2) is first
    assert len(pickle.dumps(reference)) == size
    sent = pickle.loads(pickle.dumps(reference))  # noqa: S301
    for ours, theirs in zip(first[0], law_module.tabulate(sent, 2)[0], strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_sums_of_trees_have_no_link(forest):
    ensemble, x = forest
    lines = make_lines(x[:4], kind="gaussian", q=1)
    with pytest.raises(ValueError, match="arena kernel has no nonlinear link"):
        line_moments(replace(ensemble, link="logistic"), lines, kernel="arena")
    with pytest.raises(ValueError, match="a logistic link cannot be added"):
        add_ensembles([replace(ensemble, link="logistic"), ensemble])


@settings(max_examples=300, deadline=None)
@given(
    c=st.floats(-1e6, 1e6),
    steps=st.integers(-3, 3),
    half=st.sampled_from([-1, 0, 1]),
    ulps=st.integers(-2, 2),
)
def test_float32_rules_fold_into_one_threshold(c, steps, half, ulps):
    x32 = np.float32(c)
    for _ in range(abs(steps)):
        x32 = np.nextafter(x32, np.float32(np.sign(steps) * np.inf))
    x = float(x32)
    if half:
        x = (x + float(np.nextafter(x32, np.float32(half * np.inf)))) / 2
    for _ in range(abs(ulps)):
        x = np.nextafter(x, np.sign(ulps) * np.inf)
    assert (x <= fold_float32_at_most(c)) == (float(np.float32(x)) <= c)
    assert (x <= fold_float32_below(np.float32(c))) == (np.float32(x) < np.float32(c))


def test_infinite_thresholds_send_every_row_left(kind):
    one = np.ones((1, 1))
    children = {"left": [1, -1, -1], "right": [2, -1, -1]}
    tree = single_tree([0, -1, -1], [np.inf, 0, 0], value=[0, 2, 9], n_features=1, **children)
    reference = Reference.gaussian() if kind == "gaussian" else Reference.empirical(one)
    for slope in (-1.0, 0.0, 1e-8):
        lines = Lines(one, one, slope * one, reference, 0 * one)
        for kernel in KERNELS:
            assert line_moments(tree, lines, kernel=kernel).mean.item() == pytest.approx(2.0)


def test_trees_are_laid_out_once_and_not_sent_that_way(monkeypatch):
    rng = np.random.default_rng(2)
    x = rng.standard_normal((40, 3))
    model = RandomForestRegressor(4, random_state=0).fit(x, x[:, 0])
    trees, lines = TreeLines(read_trees(model)[0]), make_lines(x, kind="empirical", q=1)
    size = len(pickle.dumps(trees))
    first = trees.moments(lines).mean, trees.predict(x)
    assert len(pickle.dumps(trees)) == size
    sent = pickle.loads(pickle.dumps(trees))  # noqa: S301
    monkeypatch.setattr(kernels_blocks, "preorder", None)
    np.testing.assert_array_equal(trees.moments(lines).mean, first[0])
    np.testing.assert_array_equal(trees.predict(x), first[1])
    monkeypatch.undo()
    np.testing.assert_array_equal(sent.moments(lines).mean, first[0])
