import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dfi.results.views import clustered_order, correlated_blocks, overlap, short_names, shorten


def squared_root(correlation):
    values, vectors = np.linalg.eigh(correlation)
    return ((vectors * np.sqrt(values)) @ vectors.T) ** 2


@pytest.mark.parametrize("rho", [-0.9, -0.3, 0.0, 0.5, 0.8])
def test_overlap_of_a_pair_is_its_absolute_correlation(rho):
    weights = squared_root(np.array([[1.0, rho], [rho, 1.0]]))
    assert overlap(weights)[0, 1] == pytest.approx(abs(rho))


@given(st.integers(0, 10_000))
def test_overlap_bounds_the_correlation(seed):
    rng = np.random.default_rng(seed)
    correlation = np.corrcoef(rng.standard_normal((6, 12)))
    assert np.all(overlap(squared_root(correlation)) >= np.abs(correlation) - 1e-9)


def test_blocks_are_found_whatever_the_order():
    correlation = np.eye(7)
    for block in ([0, 3, 5], [1, 6]):
        correlation[np.ix_(block, block)] = 0.8
    np.fill_diagonal(correlation, 1.0)
    weights = squared_root(correlation)
    blocks = correlated_blocks(weights)
    assert [block.members for block in blocks] == [(0, 3, 5), (1, 6)]
    assert blocks[1].mean_overlap == pytest.approx(0.8)
    order = list(clustered_order(overlap(weights)))
    assert sorted(order) == list(range(7))
    for block in ([0, 3, 5], [1, 6]):
        places = [order.index(k) for k in block]
        assert max(places) - min(places) == len(block) - 1


def test_no_blocks_among_independent_features_or_a_single_one():
    assert correlated_blocks(np.eye(4)) == []
    assert correlated_blocks(np.eye(1)) == []
    assert overlap(np.zeros((2, 2))).tolist() == [[0, 0], [0, 0]]


@given(st.text(min_size=0, max_size=80), st.integers(8, 40))
def test_short_names_fit_on_one_line(name, width):
    short = shorten(name, width)
    assert 0 < len(short) <= max(width, len("(no name)"))
    assert not any(ord(c) < 32 for c in short)


@given(st.lists(st.text("ab ", min_size=1, max_size=60), unique=True, min_size=2, max_size=30))
def test_different_names_stay_different(names):
    distinct = {" ".join(name.split()) for name in names}
    labels = short_names(names, 16)
    assert len(set(labels)) >= len(distinct)
    assert all(len(label) <= 16 for label in labels)
