"""Selection: adjusted p-values of the comparators' tests, a twin, and what is refused."""

import copy

import numpy as np
import pandas as pd
import pytest

import dfi
from dfi.methods import LOCO


def table(n=300):
    generator = np.random.default_rng(2)
    X = pd.DataFrame(generator.normal(size=(n, 6)), columns=list("abcdef"))
    X["b"] = 0.7 * X["a"] + 0.7 * X["b"]
    y = 1.5 * X["a"] + X["c"] + generator.normal(size=n)
    return X, y.rename("y")


def by_hand(p, method):
    """Benjamini and Hochberg (or Yekutieli) by their definition, one hypothesis after another."""
    m = len(p)
    factor = sum(1.0 / k for k in range(1, m + 1)) if method == "by" else 1.0
    ranked = sorted(p)
    adjusted = []
    for value in p:
        least = min(
            factor * m * other / (rank + 1) for rank, other in enumerate(ranked) if other >= value
        )
        adjusted.append(min(least, 1.0))
    return adjusted


@pytest.mark.parametrize("method", ["pcm", "loco", "cpi", LOCO(sample_split=True)])
def test_signals_are_selected_by_the_methods_own_p_values(method):
    X, y = table()
    found = dfi.select(X, y, method, estimator="linear", alpha=0.05)
    assert set(found.selected) == {"a", "c"}
    name = method if isinstance(method, str) else method.name
    same = dfi.compare(X, y, [method], estimator="linear")[name]
    np.testing.assert_array_equal(found.p, same.test()["p"])
    frame = found.table()
    assert list(frame.columns) == ["feature", "score", "z", "p", "p_adj", "selected"]
    assert frame["p"].is_monotonic_increasing
    assert tuple(frame["feature"][frame["selected"]]) == found.selected


@pytest.mark.parametrize("adjust", ["bh", "by"])
def test_false_discovery_rates_equal_a_twin(adjust):
    X, y = table()
    found = dfi.select(X, y, estimator="linear", adjust=adjust)
    np.testing.assert_allclose(found.p_adj, by_hand(list(found.p), adjust))
    assert found.spec["held"].startswith("false discovery rate")


def test_a_stricter_rate_selects_no_more():
    X, y = table()
    sizes = [
        len(dfi.select(X, y, estimator="linear", adjust=adjust, alpha=alpha).selected)
        for adjust, alpha in (("bh", 0.5), ("bh", 0.05), ("holm", 0.05), ("bonferroni", 0.001))
    ]
    assert sizes == sorted(sizes, reverse=True)


def test_units_and_constants():
    X, y = table()
    groups = {"first": ["a", "b"], "second": ["c", "d"], "rest": ["e", "f"]}
    found = dfi.select(X, y, estimator="linear", feature_groups=groups)
    assert set(found.selected) == {"first", "second"}
    levels = X.assign(c=pd.cut(X["c"], 4).astype(str), f=X["f"].mask(X["f"] > 1))
    assert "c" in dfi.select(levels, y, estimator="linear").selected
    with pytest.warns(dfi.warnings.ConstantColumnWarning):
        found = dfi.select(X.assign(same=1.0), y, estimator="linear")
    assert np.isnan(found.p[found.result.names.index("same")])
    assert "same" not in found.selected


def test_copies_are_not_selected():
    X, y = table()
    found = dfi.select(X.assign(again=X["a"]), y, "loco", estimator="linear", alpha=0.05)
    assert not {"a", "again"} & set(found.selected)


def test_other_methods_and_data_are_refused():
    X, y = table(120)
    for name in ("dfi", "shapley", "pfi"):
        with pytest.raises(ValueError, match=f"'{name}' does not test what a feature adds"):
            dfi.select(X, y, name)
    classes = pd.Series(np.digitize(y, [-1.0, 1.0]).astype(str))
    with pytest.raises(ValueError, match="pcm is a ratio or a test statistic"):
        dfi.select(X, classes, estimator="linear")
    with pytest.raises(TypeError, match="comparators refit the regression"):
        dfi.select(X, y, cv="prefit")
    with pytest.raises(ValueError, match="adjust must be 'bh', 'by', 'holm' or 'bonferroni'"):
        dfi.select(X, y, adjust="none")
    with pytest.raises(ValueError, match="alpha must be a number strictly between 0 and 1"):
        dfi.select(X, y, alpha=5)


def test_text_and_copies():
    X, y = table(120)
    found = dfi.select(X, y, estimator="linear", adjust="holm")
    assert f" of {X.shape[1]} features by pcm" in repr(found)
    assert "holm at 0.1 (probability of any false discovery" in repr(found)
    assert copy.deepcopy(found).selected == found.selected
    with pytest.warns(dfi.warnings.WeakModelWarning):
        empty = dfi.select(X[["e", "f"]], y, "loco", estimator="linear", alpha=0.001)
    assert "selected: none" in repr(empty)
