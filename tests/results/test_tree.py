"""The tree of shared signal: closed forms, an independent twin, properties, and what is refused."""

import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dfi
from dfi.results.tree import branches, groups_of, signal_similarities, signal_tree

QUIET = {"diagnose": False, "transport_error": "ignore"}


def table(n=600, seed=0):
    """Return a signal and its twin, a null pair as correlated, and a second signal."""
    generator = np.random.default_rng(seed)
    X = pd.DataFrame(generator.normal(size=(n, 5)), columns=["a", "b", "null", "twin", "other"])
    X["b"] = 0.8 * X["a"] + 0.6 * X["b"]
    X["twin"] = 0.8 * X["null"] + 0.6 * X["twin"]
    y = 1.5 * X["a"] + X["other"] + 0.5 * generator.normal(size=n)
    return X, y


def explained(X, y, **options):
    return dfi.explain(X, y, "linear", **{"cv": 2, **QUIET, **options})


def similarity(tree, a, b):
    return tree.similarities[tree.names.index(a), tree.names.index(b)]


@pytest.mark.parametrize("rho", [0.1, 0.5, 0.8, 0.95])
@pytest.mark.parametrize("slopes", [(1.0, 0.0), (1.0, 1.0), (0.3, -0.8)])
def test_closed_form_of_two_features(rho, slopes):
    values, vectors = np.linalg.eigh(np.array([[1.0, rho], [rho, 1.0]]))
    root = vectors @ np.diag(np.sqrt(values)) @ vectors.T
    signal = (root @ np.array(slopes)) ** 2
    found = signal_similarities(root**2, signal, [True, True])
    assert found[0, 1] == pytest.approx(1.0 - np.sqrt(1.0 - rho**2))


def test_a_signal_its_twin_nulls_and_another_signal():
    X, y = table()
    tree = explained(X, y).tree()
    assert tree.members[0] == ("a", "b")
    assert similarity(tree, "a", "b") == pytest.approx(0.4, abs=0.08)
    assert similarity(tree, "null", "twin") == 0.0
    assert similarity(tree, "a", "other") < 0.02
    shares = explained(X, y).shares().set_index("feature")["share"]
    assert tree.share[0] == pytest.approx(shares["a"] + shares["b"])
    assert tree.share_low[0] < tree.share[0] < tree.share_high[0]
    assert tree.share[-1] == pytest.approx(1.0)


def test_copies_join_first_at_the_top():
    X, y = table()
    tree = explained(X.assign(again=X["b"]), y).tree()
    assert tree.members[0] == ("b", "again")
    assert tree.similarity[0] == 1.0
    assert tree.cut(share=1.0)["b + again"] == ["b", "again"]


def test_little_of_the_same_is_not_similar():
    # the second unit expresses nothing but the first one's coordinate, and a tenth of it
    found = signal_similarities(np.array([[0.9, 0.0], [0.1, 1.0]]), np.array([1.0, 0.0]), [1, 1])
    assert found[0, 1] == pytest.approx(0.2)


def test_it_equals_a_twin():
    X, y = table(300)
    result = explained(X, y)
    tree = result.tree()
    V = np.maximum(result.latent.parts.mean[:-1], 0.0)
    W = result.attribution
    clear = result.parts.mean[:-1] > 2 * result.parts.se[:-1]
    p = len(result.names)
    for i in range(p):
        for k in range(p):
            same = sum(V[j] * min(W[i, j], W[k, j]) for j in range(p))
            both = sum(V[j] * (W[i, j] + W[k, j]) for j in range(p))
            expected = 1.0 if i == k else 2 * same / both if clear[i] and clear[k] else 0.0
            assert tree.similarities[i, k] == pytest.approx(expected, abs=1e-9)
    # complete linkage by the definition: the least similarity within the group that joins
    for group, at in zip(groups_of(tree.links), tree.similarity, strict=True):
        assert at == pytest.approx(tree.similarities[np.ix_(group, group)].min())
    assert np.all(np.diff(tree.similarity) <= 1e-12)


@settings(max_examples=4)
@given(order=st.permutations(range(5)), scale=st.sampled_from([1e-3, 40.0]))
def test_order_and_units_of_columns_change_nothing(order, scale):
    X, y = table(200)
    expected = explained(X, y).tree()
    moved = explained(X.iloc[:, list(order)] * scale, y).tree()
    for a in X.columns:
        for b in X.columns:
            assert similarity(moved, a, b) == pytest.approx(similarity(expected, a, b), abs=1e-6)
    for share in (0.1, 0.5):
        ours, theirs = (
            {frozenset(group) for group in tree.cut(share).values()} for tree in (expected, moved)
        )
        assert ours == theirs


def test_groups_of_a_cut_are_units():
    X, y = table()
    groups = explained(X, y).tree().cut(share=0.3)
    assert groups == {
        "a + b": ["a", "b"], "null": ["null"], "twin": ["twin"], "other": ["other"]
    }  # fmt: skip
    joint = explained(X, y, feature_groups=groups, units="groups")
    assert joint.names == tuple(groups)
    again = joint.tree()
    assert sorted(column for group in again.cut(0.1).values() for column in group) == sorted(X)
    many = replace(again, columns={})
    with pytest.raises(ValueError, match="has more columns than the result lists"):
        many.cut()


def test_long_groups_have_short_names():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(300, 1)) + 1e-3 * generator.normal(size=(300, 5))
    tree = explained(X, X[:, 0] + 0.1 * generator.normal(size=300)).tree()
    assert list(tree.cut(0.5)) == ["x0 + x1 + 3 more"]
    named = pd.DataFrame(X, columns=[f"a name of many letters {k}" for k in range(5)])
    text = repr(explained(named, X[:, 0] + 0.1 * generator.normal(size=300)).tree())
    assert "a name of many letters 0 + a name of many letters 1 + 3 more" in text
    assert "…" not in text


def test_it_needs_no_models(tmp_path):
    X, y = table(200)
    result = explained(X, y)
    for other in (dfi.load(result.save(tmp_path / "r.dfi")), result.moments(50)):
        np.testing.assert_allclose(other.tree().similarities, result.tree().similarities)
        np.testing.assert_allclose(other.tree().share_low, result.tree().share_low, rtol=0.02)


def test_classes_and_categories():
    X, y = table()
    classes = pd.Series(np.digitize(y, [-1.0, 1.0]).astype(str))
    assert explained(X, classes).tree().members[0] == ("a", "b")
    levels = X.assign(b=pd.cut(X["b"], 4).astype(str))
    assert explained(levels, y).tree().members[0] == ("a", "b")


def test_what_has_no_tree_is_refused():
    X, y = table(200)
    result = explained(X, y)
    loco = dfi.compare(X, y, ["loco"], estimator="linear", cv=2)["loco"]
    for other in (result.latent, loco, result - result):
        with pytest.raises(ValueError, match="call tree on the result of explain"):
            other.tree()
    overlapping = {"first": ["a", "b"], "second": ["b", "other"]}
    joint = explained(X, y, feature_groups=overlapping, units="groups")
    with pytest.raises(ValueError, match="attribution weights"):
        joint.tree()
    noise = pd.Series(np.random.default_rng(9).normal(size=200))
    with pytest.warns(dfi.warnings.DFIWarning):
        nothing = explained(X, noise)
    with pytest.raises(ValueError, match="there is no signal that features could share"):
        nothing.tree()
    for wrong in (0.0, 1.5, "half"):
        with pytest.raises(ValueError, match="a number above 0, up to 1"):
            result.tree().cut(wrong)
    alone = explained(X[["a"]], y).tree()
    assert (alone.cut(), len(alone.table())) == ({"a": ["a"]}, 0)
    assert repr(alone) == "SignalTree: 1 feature by shared signal: no two clearly share any"


def test_table_text_copies_and_what_is_drawn():
    X, y = table()
    result = explained(X, y)
    tree = result.tree()
    frame = tree.table()
    assert list(frame.columns) == ["members", "similarity", "share", "share_low", "share_high"]
    assert frame["members"][0] == "a, b"
    assert "a + b" in repr(tree)
    assert "(95 % interval)" in repr(tree)
    assert copy.deepcopy(tree).cut() == tree.cut()
    first = branches(tree)[0]
    assert (first.begins, first.starts, first.at) == (1.0, 1.0, tree.similarity[0])
    assert first.below - first.above == 1.0
    few = signal_tree(result, 2)
    assert few.names == ("a", "other")
    ax = dfi.plots.tree(result)
    assert dfi.plots.tree_data(result)["members"][0] == "a, b"
    assert ax.get_xlabel() == "signal that they share"
    assert [t.get_text() for t in ax.get_yticklabels()] == [tree.names[k] for k in tree.order]


def test_the_page_has_a_tree_where_signal_is_shared():
    X, y = table()
    page = explained(X, y).report().html()
    assert 'id="tree"' in page
    assert "does not mean that one of two can be left out" in page
    plain = explained(X[["a", "other"]], y).report().html()
    assert 'id="tree"' not in plain
    hostile = X.rename(columns={"b": "<b>bold</b>"})
    assert "<b>bold" not in explained(hostile, y).report().html()
