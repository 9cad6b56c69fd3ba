"""Dependence components: tests that hold their level, slow twins, and what must not matter."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import dfi
from dfi._data.table import read_table
from dfi._data.weights import Weights
from dfi._estimates import components as found_by
from dfi._estimates.components import (
    FEWEST_ROWS,
    _Block,
    _Sample,
    check_components,
    dependence_components,
    pearson_tail,
    permutation_moments,
    rotation_skewness,
    step_up,
)
from dfi._estimates.covariance import RowCoordinates


def standardized(X, mass=None):
    mass = np.ones(len(X)) if mass is None else mass
    X = X - np.average(X, axis=0, weights=mass)
    return X / np.sqrt(np.average(X**2, axis=0, weights=mass))


def sample_of(X, unit=None, weights=None):
    weights = Weights(np.ones(len(X)), "frequency") if weights is None else weights
    unit = np.arange(X.shape[1]) if unit is None else np.asarray(unit)
    return _Sample.of(RowCoordinates(standardized(X, weights.values), weights), unit)


def partition(X, unit=None, weights=None):
    """Return the components as a set of sets of units."""
    weights = Weights(np.ones(len(X)), "frequency") if weights is None else weights
    unit = np.arange(X.shape[1]) if unit is None else np.asarray(unit)
    labels, _ = dependence_components(
        RowCoordinates(standardized(X, weights.values), weights), unit
    )
    return {frozenset(np.flatnonzero(labels == k).tolist()) for k in np.unique(labels)}


def table_partition(frame, design=None):
    """Return the components of a table under a transport, as sets of names."""
    table = read_table(frame)
    design = dfi.transports.Gaussian() if design is None else design
    weights = Weights(np.ones(table.n_rows), "frequency")
    fitted = design.fit_matrix(table.matrix, weights, table.constant, columns=table.columns)

    return set(map(frozenset, fitted.unit_components(table.columns)))


def mixed(seed, n=120, d=5):
    """Return columns of which some depend on each other, by a hidden factor."""
    g = np.random.default_rng(seed)
    hidden = g.standard_normal((n, 2))
    loads = g.choice([0.0, 0.0, 0.4, 0.9], size=(2, d))
    return hidden @ loads + g.standard_normal((n, d))


# the statistics against slow twins


def gram(W):
    return _Block(np.trace(W), np.trace(W @ W), np.trace(W @ W @ W), np.sum(np.diag(W) ** 2))


def test_permutation_moments_are_those_of_all_permutations():
    g = np.random.default_rng(0)
    X, Y = g.standard_normal((6, 2)), g.exponential(size=(6, 3))
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    A, B = X @ X.T, Y @ Y.T
    values = [np.sum(A * B[np.ix_(p, p)]) for p in map(list, itertools.permutations(range(6)))]
    mean, variance = permutation_moments(6.0, gram(A), gram(B))
    assert mean == pytest.approx(np.mean(values), rel=1e-12)
    assert variance == pytest.approx(np.var(values), rel=1e-12)


def test_rotation_skewness_is_that_of_random_rotations():
    g = np.random.default_rng(1)
    X, Y = g.standard_normal((7, 3)), g.standard_normal((7, 2))
    A, B = X @ X.T, Y @ Y.T
    rotations = stats.ortho_group.rvs(7, 20_000, random_state=2)
    values = np.einsum("ij,kia,ab,kjb->k", A, rotations, B, rotations, optimize=True)
    # 20 000 values know their skewness to about .03
    assert rotation_skewness(8.0, gram(A), gram(B)) == pytest.approx(stats.skew(values), abs=0.12)


def test_pearson_tail_is_the_shifted_gamma_law():
    for z, skewness in ((0.3, 1.2), (2.0, 0.1), (-1.0, 0.7), (1.5, -0.6)):
        assert pearson_tail(z, skewness) == pytest.approx(stats.pearson3.sf(z, skewness), rel=1e-9)
    assert pearson_tail(1.0, 0.0) == pytest.approx(stats.norm.sf(1.0), rel=1e-12)


def test_pairs_of_single_columns_are_tests_of_a_correlation():
    X = mixed(3, d=4)
    sample = sample_of(X)
    first, second = np.triu_indices(4, k=1)
    p = sample._pair_p_values(first, second)
    for k, (a, b) in enumerate(zip(first, second, strict=True)):
        assert p[k] == pytest.approx(stats.pearsonr(X[:, a], X[:, b]).pvalue, rel=1e-8)


def test_pairs_of_blocks_are_tests_of_wilks_lambda():
    """Against determinants of the raw matrices, a 3-level category and a 4-level one."""
    g = np.random.default_rng(4)
    a, b = g.integers(0, 3, 200), g.integers(0, 4, 200)
    one_hot = np.column_stack([np.eye(3)[a], np.eye(4)[b]])
    sample = sample_of(one_hot, [0] * 3 + [1] * 4)
    (p,) = sample._pair_p_values(np.array([0]), np.array([1]))
    covariance = np.cov(one_hot[:, [0, 1, 3, 4, 5]].T)
    ratio = np.linalg.det(covariance) / (
        np.linalg.det(covariance[:2, :2]) * np.linalg.det(covariance[2:, 2:])
    )
    # min(p, q) = 2: Rao's F is exact, (1 - sqrt(Lambda))/sqrt(Lambda) * (n - q - 2)/q
    root = np.sqrt(ratio)
    assert p == pytest.approx(
        stats.f.sf((1 - root) / root * (200 - 3 - 2) / 3, 6, 2 * (200 - 3 - 2)), rel=1e-8
    )


@pytest.mark.parametrize("group", [[0], [1, 3], [0, 1, 2, 4]])
def test_joint_test_is_the_likelihood_ratio(group):
    X = mixed(5, n=150, d=5)
    R = np.corrcoef(X.T)
    rest = [k for k in range(5) if k not in group]

    def logdet(places):
        return np.linalg.slogdet(R[np.ix_(places, places)])[1]

    ratio = -(150 - 1 - 3) * (logdet(list(range(5))) - logdet(group) - logdet(rest))
    expected = stats.chi2.sf(ratio, len(group) * len(rest))
    assert sample_of(X).joint_test(np.array(group)).p == pytest.approx(expected, rel=1e-7)


def test_joint_test_of_collinear_columns_uses_determinants_on_the_range():
    """A dropped column of a full one-hot block, or of a sum, does not change what is tested."""
    g = np.random.default_rng(6)
    X = g.standard_normal((200, 3))
    labels = np.eye(4)[g.integers(0, 4, 200)]
    full = sample_of(np.column_stack([X, X[:, 0] + X[:, 1], labels]), [0, 1, 2, 3, 4, 4, 4, 4])
    reduced = sample_of(np.column_stack([X, labels[:, 1:]]), [0, 1, 2, 3, 3, 3])
    pairs = (([0, 1, 3], [0, 1]), ([2], [2]), ([4], [3]), ([0, 1, 2, 3], [0, 1, 2]))
    for group, same in pairs:
        assert full.joint_test(np.array(group)).p == pytest.approx(
            reduced.joint_test(np.array(same)).p, rel=1e-6
        )


@pytest.mark.parametrize("group", [[0], [3, 7, 20], list(range(30))])
def test_wide_joint_test_is_the_permutation_law_of_the_squared_norm(group):
    """Moments of the rest by inclusion and exclusion, against Gram matrices of the rows."""
    g = np.random.default_rng(7)
    X = g.standard_t(5, size=(60, 40)) @ (np.eye(40) + 0.1 * g.standard_normal((40, 40)))
    sample = sample_of(X)
    assert sample.wide
    rows = standardized(X) / np.sqrt(60)
    rest = [k for k in range(40) if k not in group]
    A, B = (rows[:, part] @ rows[:, part].T for part in (group, rest))
    mean, variance = permutation_moments(60.0, gram(A), gram(B))
    z = (np.sum(A * B) - mean) / np.sqrt(variance)
    expected = stats.pearson3.sf(z, rotation_skewness(60.0, gram(A), gram(B)))
    assert sample.joint_test(np.array(group)).p == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize(("n", "d"), [(200, 12), (80, 40), (60, 90)])
def test_joint_tests_hold_their_level(n, d):
    """300 independent tables of exponential columns: 10 % within three errors of .017."""
    g = np.random.default_rng(8)
    below = [
        sample_of(g.exponential(size=(n, d))).joint_test(np.arange(3)).p < 0.1 for _ in range(300)
    ]
    assert abs(np.mean(below) - 0.1) < 0.055


def test_permutation_p_value_of_two_large_categories_is_that_of_permutations():
    g = np.random.default_rng(9)
    a, b = g.integers(0, 15, 60), g.integers(0, 12, 60)
    one_hot = np.column_stack([np.eye(15)[a], np.eye(12)[b]])
    unit = [0] * 15 + [1] * 12
    sample = sample_of(one_hot, unit)
    (p,) = sample._pair_p_values(np.array([0]), np.array([1]))
    shuffled = [
        sample_of(np.column_stack([np.eye(15)[a], np.eye(12)[g.permutation(b)]]), unit).shared[0, 1]
        for _ in range(1000)
    ]
    assert p == pytest.approx(np.mean(np.array(shuffled) >= sample.shared[0, 1]), abs=0.05)


# what is found


def test_dependent_columns_are_joined_and_others_are_not():
    g = np.random.default_rng(10)
    X = g.standard_normal((2000, 6))
    X[:, 1] += X[:, 0]
    X[:, 4] += 0.3 * X[:, 3]
    found = partition(X)
    assert any({0, 1} <= group for group in found)
    assert any({3, 4} <= group for group in found)
    assert len(found) >= 2


def test_step_up_is_that_of_benjamini_and_hochberg():
    """Joining the least p-values until none is rejected joins as many as the step-up rejects."""
    for seed in range(200):
        p = np.sort(np.random.default_rng(seed).random(8) ** 3)
        rejected = np.flatnonzero(p <= 0.1 * np.arange(1, 9) / 8)
        expected = rejected[-1] + 1 if len(rejected) else 0
        left = p
        while len(left) and step_up(left, 8) <= 0.1:
            left = left[1:]
        assert 8 - len(left) == expected


def test_independent_columns_are_rarely_joined_however_many_there_are():
    """The step-up at 10 % and Holm's test at 5 %: at most 15 % (Monte-Carlo error .036)."""
    g = np.random.default_rng(17)
    joined = sum(len(partition(g.standard_normal((300, 20)))) < 20 for _ in range(100))
    assert joined <= 26


def test_dense_weak_dependence_is_found_jointly():
    """Equicorrelation .1 of 20 columns: no pair is beyond chance, all of them together are."""
    g = np.random.default_rng(11)
    X = np.sqrt(0.9) * g.standard_normal((300, 20)) + np.sqrt(0.1) * g.standard_normal((300, 1))
    sample = sample_of(X)
    assert sample.pair_links().sum() < 20
    assert max(map(len, partition(X))) >= 18


def test_exactly_collinear_columns_are_joined_though_no_pair_is_correlated():
    """The sum of 30 columns correlates with each by .18, which 120 rows cannot tell from 0."""
    g = np.random.default_rng(12)
    X = g.standard_normal((200, 30))
    X = np.column_stack([X, X.sum(axis=1)])
    sample = sample_of(X)
    assert sample.collinear_links().all()
    assert partition(X) == {frozenset(range(31))}


def test_more_columns_than_rows():
    g = np.random.default_rng(13)
    X = g.standard_normal((60, 100))
    X[:, 1] = X[:, 0] + 0.2 * X[:, 1]
    found = partition(X)
    assert any({0, 1} <= group for group in found)
    assert len(found) > 50


def test_few_rows_tell_nothing():
    X = np.random.default_rng(14).standard_normal((4, 3))
    assert len(X) < FEWEST_ROWS
    assert partition(X) == {frozenset({0, 1, 2})}


def test_category_with_as_many_levels_as_rows_is_no_evidence():
    g = np.random.default_rng(15)
    X = np.column_stack([np.eye(50), g.standard_normal((50, 2))])
    found = partition(X, [0] * 50 + [1, 2])
    assert frozenset({0}) in found


# what must not matter


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.randoms(use_true_random=False))
def test_order_and_units_of_measurement_do_not_matter(seed, random):
    X = mixed(seed)
    order = list(range(5))
    random.shuffle(order)
    scales = np.array([random.choice([1e-6, -1.0, 3.0, 1e7]) for _ in range(5)])
    moved = partition((X * scales + scales)[:, order])
    assert {frozenset(order[k] for k in group) for group in moved} == partition(X)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000), st.permutations(range(3)))
def test_coding_of_a_category_does_not_matter(seed, order):
    """Other names for the levels, so another one comes first; dropping one is the same too."""
    X = mixed(seed)
    codes = np.digitize(X[:, 0], [-0.5, 0.5])
    block = np.eye(3)[codes]
    unit = [0, 0, 0, 1, 2, 3, 4]
    expected = partition(np.column_stack([block, X[:, 1:]]), unit)
    assert partition(np.column_stack([block[:, list(order)], X[:, 1:]]), unit) == expected
    assert partition(np.column_stack([block[:, 1:], X[:, 1:]]), unit[1:]) == expected


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000), st.booleans())
def test_counts_are_repeated_rows(seed, wide):
    g = np.random.default_rng(seed)
    X = mixed(seed, n=40, d=24 if wide else 4)
    counts = g.integers(0, 4, 40)
    weighted = partition(X, weights=Weights(counts.astype(float), "frequency"))
    assert weighted == partition(np.repeat(X, counts, axis=0))


def test_sampling_weights_count_as_their_effective_size():
    weights = Weights(np.array([3.0] * 10 + [0.0] * 5 + [1.0] * 30), "sampling")
    assert weights.effective == pytest.approx(60**2 / 120)
    X = mixed(16, n=45)
    equal = Weights(np.ones(45), "sampling")
    assert partition(X, weights=equal) == partition(X)


def test_rounding_of_the_rows_decides_nothing():
    for seed in range(20):
        X = mixed(seed)
        noise = 1 + 1e-13 * np.random.default_rng(seed).standard_normal(X.shape)
        assert partition(X * noise) == partition(X)


def test_ties_are_joined_whatever_comes_first(monkeypatch):
    """Two copies of a column tie exactly; neither order may leave one of them out."""
    monkeypatch.setattr(found_by, "PAIR_LEVEL", 0.0)
    g = np.random.default_rng(17)
    X = g.standard_normal((40, 30))
    X[:, 0] = 2.0 * X[:, 1] + X[:, 0]
    X[:, 2] = X[:, 1]
    for order in ([0, 1, 2], [0, 2, 1], [2, 1, 0], [1, 0, 2]):
        columns = [*order, *range(3, 30)]
        assert any({0, 1, 2} <= {columns[k] for k in group} for group in partition(X[:, columns]))


# options


def test_components_of_a_table_are_of_its_columns():
    pandas = pytest.importorskip("pandas")
    g = np.random.default_rng(18)
    size = g.standard_normal(400)
    frame = pandas.DataFrame(
        {
            "size": size,
            "kind": pandas.cut(size + 0.3 * g.standard_normal(400), 4, labels=list("abcd")),
            "noise": g.standard_normal(400),
            "same": np.ones(400),
        }
    )
    with pytest.warns(dfi.warnings.ConstantColumnWarning):
        result = dfi.explain(frame, size + g.standard_normal(400), "linear", cv=2, diagnose=False)
    assert result.components is not None
    assert ("size", "kind") in result.components or len(result.components) == 1
    assert "same" not in {name for group in result.components for name in group}
    assert result.latent.components == result.components
    assert result.group({"all": ["size", "kind"]}).components == result.components
    assert result.diagnostics["n_components"] == len(result.components)


def test_given_components_are_taken_and_others_stand_alone():
    X = mixed(19, d=4)
    design = dfi.transports.Gaussian(components=[["x2", "x0"]])
    fitted = design.fit_matrix(
        X, Weights(np.ones(120), "frequency"), np.zeros(4, bool), columns=read_table(X).columns
    )
    assert fitted.labels.tolist() == [0, 1, 0, 2]
    assert np.all(fitted.geometry.decoder[[0, 2]][:, [1, 3]] == 0.0)
    assert fitted.geometry.decoder[0, 2] != 0.0
    assert table_partition(X, dfi.transports.Copula(components=(("x1", "x3"),))) == {
        frozenset({"x0"}), frozenset({"x1", "x3"}), frozenset({"x2"}),
    }  # fmt: skip


@pytest.mark.parametrize(
    "kind", [dfi.transports.Gaussian, dfi.transports.Copula, dfi.transports.Semicontinuous]
)
@pytest.mark.parametrize(
    ("given_", "error", "message"),
    [
        ("all", ValueError, "components must be 'auto', None or a list of lists of column names"),
        (3, TypeError, "components must be 'auto', None or a list"),
        ({"a": ["b"]}, TypeError, "components must be 'auto', None or a list"),
        (["a", "b"], TypeError, r"'a' stands alone in the outer list; write \[\['a'"),
        ([[]], ValueError, "one of the inner lists is empty"),
        ([3], TypeError, "got 3 in it"),
        ([["a", "b"], ["b"]], ValueError, "components names 'b' more than once"),
    ],
)
def test_bad_components_are_refused(kind, given_, error, message):
    with pytest.raises(error, match=message):
        kind(components=given_)


def test_unknown_names_are_refused_before_a_model_is_fitted():
    X = mixed(20)

    def never(rows):
        raise AssertionError("the model was asked")

    design = dfi.transports.Gaussian(components=[["x0", "x_1"]])
    with pytest.raises(ValueError, match="components names 'x_1', which is not a column of X; did"):
        dfi.explain(X, X[:, 0], never, cv="prefit", transport=design)
    with pytest.raises(
        ValueError, match="'price', which is not a column of X; the columns are 'x0"
    ):
        dfi.transports.Copula(components=[["price"]]).fit_matrix(
            X, Weights(np.ones(120), "frequency"), np.zeros(5, bool)
        )


def test_defaults_and_specification():
    assert dfi.transports.Gaussian().components == dfi.transports.Copula().components == "auto"
    assert dfi.transports.Semicontinuous().components is None
    assert check_components([["a"]]) == (("a",),)
    assert dfi.transports.Gaussian(components=[["a", "b"]]).specification()["components"] == (
        ("a", "b"),
    )
    assert dfi.transports.Copula(components=None).specification()["components"] is None


@pytest.mark.parametrize(
    "design", [dfi.transports.Gaussian(), dfi.transports.Copula(), dfi.transports.Semicontinuous()]
)
def test_refits_keep_the_components_of_the_full_fit(design):
    X = mixed(21)
    table, constant = read_table(X), np.zeros(5, bool)
    weights = Weights(np.ones(120), "frequency")
    design = replace(design, components="auto")
    full = design.fit_matrix(X, weights, constant, columns=table.columns)
    part = design.fit_matrix(
        X[:30], Weights(np.ones(30), "frequency"), constant, columns=table.columns, like=full
    )
    assert part.labels is full.labels is not None


# the transport


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("shrinkage", [0.0, 0.3, "ledoit-wolf"])
def test_each_component_is_whitened_by_itself(standardize, shrinkage):
    """Against a fit of each block alone; a shared identity is mixed into all of them."""
    g = np.random.default_rng(22)
    X = g.standard_normal((100, 5)) @ g.standard_normal((5, 5)) * [1, 10, 0.1, 1, 2]
    weights = Weights(g.integers(1, 4, 100).astype(float), "frequency")
    design = dfi.transports.Gaussian(
        standardize=standardize, shrinkage=shrinkage, components=[["x0", "x3"], ["x1", "x4"]]
    )
    fitted = design.fit_matrix(X, weights, np.zeros(5, bool))
    assert fitted.labels.tolist() == [0, 1, 2, 0, 1]
    mask = fitted.labels[:, None] == fitted.labels[None, :]
    assert np.all(fitted.geometry.decoder[~mask] == 0.0)
    assert np.all(fitted.geometry.encoder[~mask] == 0.0)
    rows = fitted.geometry.standardize(X)
    masked = np.where(mask, (rows * weights.values[:, None]).T @ rows / weights.total, 0.0)
    a = fitted.correlations.shrinkage
    shrunken = (1 - a) * masked + a * np.trace(masked) / 5 * np.eye(5)
    assert np.allclose(
        fitted.geometry.decoder @ fitted.geometry.decoder, shrunken, atol=1e-10 * shrunken.max()
    )
    assert np.allclose(fitted.geometry.decoder @ fitted.geometry.encoder, np.eye(5), atol=1e-9)
    if shrinkage == "ledoit-wolf":
        share = weights.values / weights.total
        spread = np.sum((masked - np.trace(masked) / 5 * np.eye(5)) ** 2)
        error = sum(
            p * np.sum(np.where(mask, np.outer(x, x) - masked, 0.0) ** 2)
            for p, x in zip(share, rows, strict=True)
        )
        assert a == pytest.approx(min(error / weights.total, spread) / spread, rel=1e-9)
    assert np.allclose(fitted.decode(fitted.encode(X)), X)


def test_shrinkage_of_single_columns_is_none():
    X = np.random.default_rng(23).standard_normal((50, 3))
    design = dfi.transports.Gaussian(shrinkage="ledoit-wolf", components=[["x0"]])
    fitted = design.fit_matrix(X, Weights(np.ones(50), "frequency"), np.zeros(3, bool))
    assert fitted.correlations.shrinkage == 0.0
    assert np.allclose(fitted.geometry.decoder, np.eye(3))


def test_one_component_is_the_same_bits_as_none():
    X = mixed(24)
    weights, constant = Weights(np.ones(120), "frequency"), np.zeros(5, bool)
    all_names = [[f"x{k}" for k in range(5)]]
    one = dfi.transports.Gaussian(components=all_names).fit_matrix(X, weights, constant)
    none = dfi.transports.Gaussian(components=None).fit_matrix(X, weights, constant)
    assert np.array_equal(one.geometry.decoder, none.geometry.decoder)
    assert np.array_equal(one.reference.values, none.reference.values)
    assert none.labels is None


def test_collinear_columns_within_a_component_keep_their_random_kernel():
    g = np.random.default_rng(25)
    X = g.standard_normal((300, 3))
    X = np.column_stack([X, X[:, 0] + X[:, 1]])
    fitted = dfi.transports.Gaussian(components=[["x0", "x1", "x3"]]).fit_matrix(
        X, Weights(np.ones(300), "frequency"), np.zeros(4, bool)
    )
    assert fitted.rank == 3
    assert fitted.geometry.kernel_variance[2] == 0.0
    variance = fitted.encode(X).var(axis=0) + fitted.geometry.kernel_variance
    assert np.allclose(variance, 1.0)


def test_a_component_is_joined_with_what_it_depends_on_not_with_noise():
    """What a column shares with the difference of two near copies no correlation shows."""
    apart = 0
    for seed in range(40):
        g = np.random.default_rng(seed)
        factor, difference, noise = g.standard_normal((3, 400))
        copy = factor + 0.05 * difference
        found = partition(np.column_stack([factor, copy, difference, noise]))
        assert any({0, 1, 2} <= group for group in found)
        apart += frozenset([3]) in found
    # by what columns share in pairs, noise was joined in every second sample
    assert apart >= 32
