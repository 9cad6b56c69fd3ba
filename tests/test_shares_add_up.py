"""Shares of every kind of result: not negative, at most 1, and they add up to 1."""

import numpy as np
import pandas as pd
import pytest

import dfi
from dfi.results.views import unit_rows

KINDS = ("numbers", "weights", "classes", "labels", "groups", "loaded")


@pytest.fixture(scope="module")
def noisy():
    """Return a table of one signal and ten columns that have none."""
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(150, 11)), columns=[f"x{k}" for k in range(11)])
    X["x1"] += 0.8 * X["x0"]
    return X, X["x0"] + 0.7 * rng.normal(size=150), rng


def explained(kind, noisy, tmp_path):
    X, y, rng = noisy
    if kind == "weights":
        return dfi.explain(X, y, "linear", sample_weight=rng.integers(1, 4, len(y)))
    if kind == "classes":
        return dfi.explain(X, (y > 0).map({True: "yes", False: "no"}), "linear")
    if kind == "labels":
        return dfi.explain(X.assign(g=np.where(rng.random(150) < 0.4, "a", "b")), y, "linear")
    result = dfi.explain(X, y, "linear")
    if kind == "groups":
        return result.group({"first": ["x0", "x2"], "second": list(X.columns[3:]), "x1": ["x1"]})
    return dfi.load(result.save(tmp_path / "r.dfi")) if kind == "loaded" else result


@pytest.mark.parametrize("kind", KINDS)
def test_shares_add_up_to_1_and_none_is_negative(kind, noisy, tmp_path):
    result = explained(kind, noisy, tmp_path)
    shares = result.shares()
    if kind != "groups":  # else nothing is tested
        assert (result.parts.mean[:-1] < 0.0).any()
    assert abs(shares["share"].sum() - 1.0) < 1e-12
    assert shares["share"].min() >= 0.0
    assert (shares["ci_low"] >= 0.0).all()
    assert (shares["ci_high"] <= 1.0).all()
    assert (shares["ci_low"] <= shares["share"]).all()
    assert (shares["share"] <= shares["ci_high"]).all()
    ordered = result.table()
    assert np.all(np.diff(ordered["share"]) <= 0.0)
    np.testing.assert_array_equal(
        ordered.set_index("feature").loc[shares["feature"], "share"], shares["share"]
    )


def test_every_output_has_the_same_shares(noisy, tmp_path):
    result = explained("numbers", noisy, tmp_path)
    shares = result.shares().set_index("feature")["share"]
    told = {unit["name"]: unit["share"] for unit in unit_rows(result)}
    assert told == pytest.approx(shares.to_dict(), abs=1e-12)
    tree = result.tree()
    np.testing.assert_allclose(tree.shares, shares[list(tree.names)], atol=1e-15)
    assert tree.share[-1] <= 1.0
    assert tree.share.min() >= 0.0
    # tests are those of the estimates, which may be below 0
    raw = result.parts.mean[:-1] / result.parts.mean[-1]
    assert np.all((result.shares()["z"] < 0.0) == (raw < 0.0))
