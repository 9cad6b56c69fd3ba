"""Transports fitted from sums over blocks of rows, against those fitted to all rows at once."""

import pickle
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dfi._data import source as home
from dfi._data.moments import TicketGroups
from dfi._data.source import MatrixSource, RowBlock, RowSource
from dfi._data.table import read_table
from dfi._data.weights import Weights
from dfi._estimates.cells import CELLS, LawCellsOf, cell_edges, lowered
from dfi._estimates.rows import Sampled, Sums
from dfi._lines.base import Reference
from dfi.transports import Copula, Gaussian, Semicontinuous
from dfi.transports.base import Layout
from dfi.transports.blocks import BlockTransport


@dataclass(frozen=True, eq=False)
class KnownGroups:
    """Groups that are given for every place."""

    groups: object

    @property
    def count(self):
        return int(self.groups.max()) + 1

    def __call__(self, places):
        return self.groups[places]


N = 900


def shipped(partial):
    return pickle.loads(pickle.dumps(partial))  # noqa: S301


@dataclass(frozen=True)
class CutSource(RowSource):
    """Rows in blocks that end where they are told to, and that are not in one matrix."""

    matrix: np.ndarray
    weights: Weights
    cuts: tuple[int, ...]

    @property
    def n_rows(self):
        return len(self.matrix)

    @property
    def width(self):
        return self.matrix.shape[1]

    @property
    def kind(self):
        return self.weights.kind

    def blocks(self):
        edges = [0, *sorted(self.cuts), len(self.matrix)]
        for a, b in pairwise(edges):
            yield RowBlock(self.matrix[a:b].copy(), self.weights.values[a:b], a)

    def take(self, places):
        return self.matrix[places], self.weights.take(places)

    def reduce(self, partial, label=""):
        # as if it were sent to workers
        return super().reduce(shipped(partial), label)


@pytest.fixture
def large(monkeypatch):
    """Call every table of more than 100 rows large, or none."""

    def set_to(rows=100):
        monkeypatch.setattr(home, "LARGE_ROWS", rows)

    return set_to


def frame(seed=0, n=N):
    g = np.random.default_rng(seed)
    X = g.standard_normal((n, 4)) @ g.standard_normal((4, 4)) + [0, 5, -3, 40]
    data = pd.DataFrame(X, columns=list("abcd"))
    data["count"] = g.poisson(2, n)
    data["alone"] = np.exp(g.standard_normal(n))
    data["colour"] = pd.Categorical(
        g.choice(list("uvwxyz"), n, p=[0.3, 0.3, 0.3, 0.08, 0.01, 0.01])
    )
    data["gaps"] = np.where(g.random(n) < 0.2, np.nan, X[:, 0] + g.standard_normal(n))
    return data


NUMBERS = ["a", "b", "c", "d", "count", "alone"]
TABLES = {
    "numbers": lambda data: data[NUMBERS],
    "categories": lambda data: data[[*NUMBERS, "colour"]],
    "missing": lambda data: data[[*NUMBERS, "gaps"]],
    "collinear": lambda data: data[NUMBERS].assign(sum=data["a"] + data["b"], twice=2 * data["c"]),
    "all": lambda data: data.assign(sum=data["a"] + data["b"]),
}
WEIGHTS = {
    "none": lambda g, n: Weights(np.ones(n), "frequency"),
    "counts": lambda g, n: Weights(g.integers(0, 4, n).astype(float), "frequency"),
    "sampling": lambda g, n: Weights(g.exponential(size=n), "sampling"),
}


def same_map(found, expected, rows, tolerance=1e-10):
    """Compare two fits by what does not depend on the basis within a unit."""
    one, two = (getattr(it, "linear", it) for it in (found, expected))
    assert type(found) is type(expected)
    assert one.rank == two.rank
    assert one.correlations.ranks == two.correlations.ranks
    if two.labels is None:
        assert one.labels is None
    else:
        np.testing.assert_array_equal(one.labels, two.labels)
        np.testing.assert_allclose(one.missed, two.missed, rtol=1e-8, atol=1e-10)
    assert one.correlations.shrinkage == pytest.approx(
        two.correlations.shrinkage, rel=1e-10, abs=1e-12
    )
    np.testing.assert_allclose(
        np.sort(one.geometry.values), np.sort(two.geometry.values), rtol=tolerance, atol=1e-12
    )
    latent, other = found.encode(rows), expected.encode(rows)
    np.testing.assert_allclose(latent @ latent.T, other @ other.T, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(found.decode(latent), expected.decode(other), atol=tolerance)
    if isinstance(expected, BlockTransport):
        np.testing.assert_allclose(found.even_shares(), expected.even_shares(), atol=tolerance)
        for ours, theirs in zip(found.inner.blocks, expected.inner.blocks, strict=True):
            assert ours.rare == theirs.rare
            assert ours.rank == theirs.rank
    else:
        np.testing.assert_allclose(
            found.geometry.decoder, expected.geometry.decoder, atol=tolerance
        )
        np.testing.assert_allclose(
            found.geometry.encoder, expected.geometry.encoder, rtol=1e-8, atol=tolerance
        )


@pytest.mark.parametrize("weighted", WEIGHTS)
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize(
    "design",
    [
        Gaussian(),
        Gaussian(components=None, shrinkage=0.1),
        Gaussian(shrinkage="ledoit-wolf"),
        Gaussian(covariance="factor"),
        Gaussian(standardize=False),
        Gaussian(epsilon=0.5),
        Semicontinuous(),
    ],
    ids=lambda design: design.label(),
)
def test_sums_give_the_transport_of_all_rows(design, name, weighted, large):
    table = read_table(TABLES[name](frame()))
    weights = WEIGHTS[weighted](np.random.default_rng(5), N)
    arguments = table.matrix, weights, table.constant
    large(10**9)
    expected = design.fit_matrix(*arguments, columns=table.columns)
    large()
    found = design.fit_matrix(*arguments, columns=table.columns)
    same_map(found, expected, table.matrix[:50])


@pytest.mark.parametrize("name", ["numbers", "all"])
def test_every_unit_can_be_a_block(name, large):
    table = read_table(TABLES[name](frame()))
    weights = WEIGHTS["none"](None, N)
    large(10**9)
    expected = Gaussian().fit_matrix(
        table.matrix, weights, table.constant, columns=table.columns, single=True
    )
    large()
    found = Gaussian().fit_matrix(
        table.matrix, weights, table.constant, columns=table.columns, single=True
    )
    same_map(found, expected, table.matrix[:50])
    source = CutSource(table.matrix, weights, (10, 500))
    again = Gaussian().fit_source(source, Layout(table.constant, table.columns, single=True))
    same_map(again, expected, table.matrix[:50])


def test_groups_of_columns_are_whitened_from_moments(large):
    table = read_table(frame()[NUMBERS])
    columns = table.columns
    joined = (
        type(columns[0])("left", "left", "real", (), (0, 1, 4)),
        type(columns[0])("right", "right", "real", (), (2, 3)),
        columns[5],
    )
    weights = WEIGHTS["sampling"](np.random.default_rng(1), N)
    large(10**9)
    expected = Gaussian().fit_matrix(table.matrix, weights, table.constant, columns=joined)
    large()
    found = Gaussian().fit_matrix(table.matrix, weights, table.constant, columns=joined)
    same_map(found, expected, table.matrix[:50])


@given(st.lists(st.integers(0, N), max_size=9), st.sampled_from(list(TABLES)), st.integers(0, 3))
@settings(max_examples=15, deadline=None)
def test_the_cut_does_not_matter(cuts, name, seed):
    table = read_table(TABLES[name](frame(seed)))
    weights = WEIGHTS["sampling"](np.random.default_rng(seed), N)
    before = home.LARGE_ROWS
    try:
        home.LARGE_ROWS = 100
        design = Gaussian()
        expected = design.fit_matrix(table.matrix, weights, table.constant, columns=table.columns)
        source = CutSource(table.matrix, weights, tuple(cuts))
        found = design.fit_source(source, Layout(table.constant, table.columns))
    finally:
        home.LARGE_ROWS = before
    np.testing.assert_allclose(found.encode(table.matrix), expected.encode(table.matrix), atol=1e-9)
    np.testing.assert_allclose(found.edges, expected.edges, rtol=1e-10, atol=1e-10)
    for one, two in (
        (found.reference.values, expected.reference.values),
        (found.reference.cumulative, expected.reference.cumulative),
    ):
        np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-10)


def test_collinear_columns_have_the_rank_that_singular_values_say(large):
    g = np.random.default_rng(0)
    base = g.standard_normal((N, 5)) * [1, 1e-6, 1e6, 1, 1] + [0, 1, 1e7, 3, 0]
    matrix = np.column_stack(
        [base, base[:, 0], base[:, 3] + base[:, 4], base[:, 4] + 3e-5 * g.standard_normal(N)]
    )
    weights, constant = WEIGHTS["none"](None, N), np.zeros(8, bool)
    large(10**9)
    expected = Gaussian().by_column(matrix, weights, Layout(constant))
    large()
    found = Gaussian().fit_matrix(matrix, weights, constant)
    assert expected.rank == found.rank == 6
    # condition 1e10: cross products would leave six digits of the least eigenvalue
    one, other = (it.geometry.values[it.geometry.values > 0] for it in (found, expected))
    assert other.max() / other.min() > 1e9
    np.testing.assert_allclose(one.max() / one.min(), other.max() / other.min(), rtol=1e-8)


@pytest.mark.parametrize("name", ["numbers", "categories", "all"])
@pytest.mark.parametrize("weighted", ["none", "sampling"])
def test_refits_from_moments_are_fits_without_the_group(name, weighted, large):
    table = read_table(TABLES[name](frame()))
    weights = WEIGHTS[weighted](np.random.default_rng(8), N)
    groups = TicketGroups(np.random.SeedSequence(4), 5)
    group = groups(np.arange(N))
    large()
    design = Gaussian()
    source = CutSource(table.matrix, weights, (100, 333))
    like = design.fit_source(source, Layout(table.constant, table.columns))
    found = list(design.refits(source, groups, Layout(table.constant, table.columns, like)))
    assert len(found) == 5
    for g, refit in enumerate(found):
        kept = np.flatnonzero(group != g)
        direct = design.fit_matrix(
            table.matrix[kept], weights.take(kept), table.constant, columns=table.columns, like=like
        )
        same_map(refit, direct, table.matrix[:50])
        # the law's own error is of second order: refits keep that of all rows
        assert refit.edges is like.edges
        np.testing.assert_array_equal(refit.reference.values, like.reference.values)


def test_refits_of_a_small_table_are_fitted_to_rows(large):
    large(10**9)
    table = read_table(frame()[NUMBERS])
    weights = WEIGHTS["none"](None, N)
    source = MatrixSource(table.matrix, weights)
    like = Gaussian().fit_source(source, Layout(table.constant, table.columns))
    groups = KnownGroups(np.arange(N) % 3)
    refits = list(Gaussian().refits(source, groups, Layout(table.constant, table.columns, like)))
    kept = np.arange(N) % 3 != 1
    direct = Gaussian().fit_matrix(
        table.matrix[kept], weights.take(kept), table.constant, columns=table.columns, like=like
    )
    np.testing.assert_array_equal(refits[1].geometry.decoder, direct.geometry.decoder)


def test_a_refit_of_other_coordinates_has_a_law_of_its_own(large):
    large()
    table = read_table(frame()[NUMBERS])
    weights = WEIGHTS["none"](None, N)
    source = MatrixSource(table.matrix, weights)
    design = Gaussian()
    like = design.fit_source(source, Layout(table.constant, table.columns))
    fewer = np.array([0, 1, 2])
    without = TicketGroups(np.random.SeedSequence(4), 5), 3
    refit = design.fit_matrix(table.matrix[:, fewer], weights, table.constant[fewer])
    source = MatrixSource(table.matrix[:, fewer], weights)
    sums = Sums(source, Sampled.of(source), moments=None, without=without)
    found = design._with_counted_law(refit, sums, like)
    kept = np.flatnonzero(without[0](np.arange(N)) != 3)
    direct = LawCellsOf(refit, found.edges).of(
        table.matrix[np.ix_(kept, fewer)], np.ones(len(kept))
    )
    expected = lowered(direct.reference(found.edges, *refit.geometry.offsets))
    np.testing.assert_allclose(found.reference.values, expected.values, rtol=1e-12, atol=1e-12)


def test_shrinkage_of_refits_leaves_their_group_out(large):
    large()
    table = read_table(frame()[NUMBERS])
    weights = WEIGHTS["none"](None, N)
    design = Gaussian(shrinkage="ledoit-wolf")
    source = MatrixSource(table.matrix, weights)
    like = design.fit_source(source, Layout(table.constant, table.columns))
    groups = KnownGroups(np.arange(N) % 4)
    refits = design.refits(source, groups, Layout(table.constant, table.columns, like))
    for g, refit in enumerate(refits):
        kept = np.flatnonzero(np.arange(N) % 4 != g)
        direct = design.fit_matrix(
            table.matrix[kept], weights.take(kept), table.constant, columns=table.columns, like=like
        )
        assert refit.correlations.shrinkage == pytest.approx(
            direct.correlations.shrinkage, rel=1e-10
        )


def test_some_rows_of_a_matrix_are_a_source(large):
    large()
    table = read_table(frame()[NUMBERS])
    weights = WEIGHTS["sampling"](np.random.default_rng(0), N)
    rows = np.flatnonzero(np.random.default_rng(1).random(N) < 0.7)
    source = MatrixSource(table.matrix, weights, rows)
    found = Gaussian().fit_source(source, Layout(table.constant, table.columns))
    expected = Gaussian().fit_matrix(
        table.matrix[rows], weights.take(rows), table.constant, columns=table.columns
    )
    np.testing.assert_array_equal(found.geometry.decoder, expected.geometry.decoder)
    np.testing.assert_array_equal(found.reference.values, expected.reference.values)


def test_a_small_table_that_is_not_in_memory_is_put_together(large):
    large(10**9)
    table = read_table(frame()[NUMBERS])
    weights = WEIGHTS["none"](None, N)
    source = CutSource(table.matrix, weights, (400,))
    for design in (Gaussian(), Copula()):
        found = design.fit_source(source, Layout(table.constant, table.columns))
        expected = design.fit_matrix(table.matrix, weights, table.constant, columns=table.columns)
        rows = table.matrix[:20]
        np.testing.assert_array_equal(found.encode(rows), expected.encode(rows))


def test_other_transports_refuse_rows_that_are_not_in_memory(large):
    large()
    table = read_table(frame()[NUMBERS])
    source = CutSource(table.matrix, WEIGHTS["none"](None, N), (400,))
    message = (
        r"transport='copula' needs all rows in memory, but the 900 of X are read block by block: "
        r"use transport='gaussian', or take a table of some of the rows"
    )
    with pytest.raises(ValueError, match=message):
        Copula().fit_source(source, Layout(table.constant, table.columns))


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 300), max_size=5))
@settings(max_examples=20, deadline=None)
def test_cells_merge_and_keep_means_and_levels(seed, cuts):
    g = np.random.default_rng(seed)
    latent = np.column_stack(
        [g.standard_normal(300), np.exp(3 * g.standard_normal(300)), g.poisson(2, 300) - 2.0]
    )
    mass = g.exponential(size=300)

    class Same:
        def encode(self, matrix):
            return matrix

    of = LawCellsOf(Same(), cell_edges(latent[:200]))
    edges = [0, *sorted(cuts), 300]
    found, *rest = (of(RowBlock(latent[a:b], mass[a:b], a)) for a, b in pairwise(edges))
    for other in rest:
        found = found.merge(other)
    law = found.reference(of.edges, np.zeros((1, 3)), np.ones(1))
    exact = Reference.empirical(latent, mass)
    np.testing.assert_allclose(law.moments(3)[0], exact.moments(3)[0], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(law.moments(3)[1], exact.moments(3)[1], rtol=1e-2)
    atoms, share = law.atoms(2)
    whole, whole_share = exact.atoms(2)
    most = whole_share > 0.05
    at = np.argmin(np.abs(atoms[:, None] - whole[most]), axis=0)
    np.testing.assert_allclose(atoms[at], whole[most], atol=1e-15)
    np.testing.assert_allclose(share[at], whole_share[most], rtol=1e-10)


def test_a_law_of_many_rows_has_no_more_atoms_than_cells(large):
    large()
    g = np.random.default_rng(0)
    matrix = g.standard_normal((20_000, 2))
    fitted = Gaussian().fit_matrix(matrix, WEIGHTS["none"](None, 20_000), np.zeros(2, bool))
    assert len(fitted.reference.values) <= CELLS
    exact = Reference.empirical(fitted.encode(matrix))
    for j in (0, 1):
        at = np.linspace(-3, 3, 41)
        below = np.searchsorted(exact.values[:, j], at) / 20_000
        index = np.searchsorted(fitted.reference.values[:, j], at)
        ours = np.concatenate([[0.0], fitted.reference.cumulative[:, j]])[index]
        assert np.abs(ours - below).max() < 1 / 2000


@pytest.mark.parametrize("weighted", WEIGHTS)
@pytest.mark.parametrize("repeated", [False, True])
def test_few_rows_are_shrunken_alike_from_sums(large, weighted, repeated):
    """As many rows as two a column, or 40 that differ of 60 columns, and refits of both."""
    g = np.random.default_rng(3)
    X = g.standard_normal((120, 60)) @ (np.eye(60) + 0.3 * g.standard_normal((60, 60)))
    X = np.repeat(X[:40], 3, axis=0) if repeated else X
    weights, constant = WEIGHTS[weighted](g, 120), np.zeros(60, bool)
    source, groups = CutSource(X, weights, (30, 31, 90)), KnownGroups(np.arange(120) // 12)
    design = Gaussian(components=None, covariance="qis", reference="gaussian")
    expected = design.fit_matrix(X, weights, constant)
    refits = list(design.refits(source, groups, Layout(constant, like=expected)))
    large()
    found = design.fit_source(source, Layout(constant))
    same_map(found, expected, X)
    for one, two in zip(
        design.refits(source, groups, Layout(constant, like=found)), refits, strict=True
    ):
        same_map(one, two, X)
