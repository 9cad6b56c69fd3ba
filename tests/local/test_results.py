"""What a result of single rows holds and gives, and what is refused by name."""

import pickle
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import LinearRegression

import dfi
from dfi.results.file import FileFormatError, read_file, write_file
from dfi.results.local import LocalAttributions, positions_of

QUIET = {"diagnose": False, "transport_error": "ignore", "progress": False}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.standard_normal(120), "b": rng.standard_normal(120)})
    X["k"] = np.array(["u", "v", "w"])[np.arange(120) % 3]
    return X, (X.a + (X.k == "u") + 0.1 * rng.standard_normal(120)).to_numpy()


@pytest.fixture(scope="module")
def explainer(table):
    return dfi.DFI(estimator="linear", cv=3, **QUIET).fit(*table)


def test_tables_are_long_or_wide(explainer):
    local = explainer.result_.local([5, -1])
    long = local.table()
    assert list(long.columns) == [
        "row", "feature", "contribution", "spread", "total", "base", "prediction", "higher_order",
    ]  # fmt: skip
    assert list(long.row) == [5] * 3 + [119] * 3
    sums = long.groupby("row").contribution.sum()
    np.testing.assert_allclose(sums, local.prediction - local.base, atol=1e-10)
    wide = local.table("wide")
    assert list(wide.columns) == ["row", "a", "b", "k", "base", "prediction", "higher_order"]
    np.testing.assert_array_equal(wide[["a", "b", "k"]].to_numpy(), local.values)
    with pytest.raises(ValueError, match="layout must be 'long' or 'wide', got 'tall'"):
        local.table("tall")


def test_a_unit_may_be_called_like_a_column_of_the_table(table):
    X, y = table
    named = X[["a", "b"]].rename(columns={"a": "base"})
    local = dfi.explain(named, y, "linear", cv=2, **QUIET).local([0])
    assert list(local.table().feature) == ["base", "b"]
    with pytest.raises(ValueError, match="a unit is called 'base'"):
        local.table("wide")


def test_an_explanation_of_shap(explainer):
    shap = pytest.importorskip("shap")
    local = explainer.result_.local([0, 1, 2])
    found = local.to_shap()
    assert isinstance(found, shap.Explanation)
    np.testing.assert_array_equal(found.values, local.values)
    np.testing.assert_array_equal(found.base_values, local.base)
    assert found.feature_names == ["a", "b", "k"]
    assert list(found.data[:, 2]) == ["u", "v", "w"]


def test_without_shap_it_is_said(explainer, monkeypatch):
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(ImportError, match="needs the package shap, which is not installed"):
        explainer.result_.local([0]).to_shap()


def test_rows_are_positions(explainer):
    result = explainer.result_
    every = result.local()
    assert len(every) == 120
    mask = np.zeros(120, dtype=bool)
    mask[[3, 7]] = True
    for rows in ([3, 7], mask, slice(3, 8, 4), pd.Series([3, 7]), np.array([-117, -113])):
        some = result.local(rows)
        assert some.rows.tolist() == [3, 7]
        np.testing.assert_allclose(some.values, every.values[[3, 7]], atol=1e-12)
    assert result.local(4).rows.tolist() == [4]
    drawn = result.local(sample=7).rows
    assert len(set(drawn.tolist())) == 7
    np.testing.assert_array_equal(result.local(sample=7).rows, drawn)
    assert len(result.local(sample=1000)) == 120
    assert result.local([7, 7]).rows.tolist() == [7, 7]
    assert every.take([2, 0]).rows.tolist() == [2, 0]
    assert every.place_of(9) == 9
    with pytest.raises(ValueError, match="row 500 was not explained; the rows are 0, 1, 2"):
        every.place_of(500)
    with pytest.raises(ValueError, match="there is no unit 'aa'; did you mean 'a'"):
        every.unit("aa")


@pytest.mark.parametrize(
    ("rows", "kind", "message"),
    [
        ([120], ValueError, "rows has the position 120, but there are 120 rows: positions go from"),
        ([-121], ValueError, "rows has the position -121"),
        (["a"], TypeError, r"rows must be positions of rows .* got \['a'\]: labels of a pandas"),
        ([0.5], TypeError, "rows must be positions of rows"),
        ([[0, 1]], TypeError, "rows must be positions of rows.*: pass a table of new rows as X="),
        (True, TypeError, "rows must be positions of rows"),
        ([], ValueError, "rows names no row"),
        (np.ones(3, dtype=bool), ValueError, "rows is a mask of 3 rows, but there are 120"),
    ],
)
def test_other_rows_are_refused_by_name(explainer, rows, kind, message):
    with pytest.raises(kind, match=message):
        explainer.result_.local(rows)
    few = explainer.result_.local([0, 1])
    if message.endswith(("-121", "no row", "of rows")):
        with pytest.raises(kind, match=message.replace("rows", "which", 1)):
            few.take(rows)
    assert positions_of(None, 3) is None
    assert few.take(1).rows.tolist() == few.take([False, True]).rows.tolist() == [1]


def test_new_rows_of_other_columns_are_refused_by_name(explainer, table):
    X, _ = table
    with pytest.raises(ValueError, match="X lacks 'b'"):
        explainer.local(X[["a", "k"]])
    with pytest.raises(ValueError, match="Column 'k' has the unseen level 'q'"):
        explainer.local(X.assign(k="q"))
    with pytest.raises(TypeError, match="Column 'a' was real and is categorical here"):
        explainer.local(X.assign(a="text"))
    with pytest.raises(ValueError, match="They had none before"):
        explainer.local(X.assign(a=np.nan))
    with pytest.raises(ValueError, match=r"pass one of the three: rows=\.\.\."):
        explainer.result_.local([0], X=X)
    with pytest.raises(ValueError, match="is not fitted yet"):
        dfi.DFI().local(X)
    turned = explainer.local(X[["k", "b", "a"]].iloc[:3])
    np.testing.assert_array_equal(turned.values, explainer.local(X.iloc[:3]).values)


def test_results_without_models_say_so(explainer, tmp_path, table):
    result = explainer.result_
    loaded = dfi.load(result.save(tmp_path / "r.dfi"))
    for other in (loaded, pickle.loads(pickle.dumps(result)), result - result):  # noqa: S301
        with pytest.raises(ValueError, match="need the fitted models, which loaded"):
            other.local()
    with pytest.raises(ValueError, match="about latent coordinates"):
        result.latent.local()
    X, y = table
    compared = dfi.compare(X[["a", "b"]], y, ["loco"], estimator="linear", progress=False)
    with pytest.raises(
        ValueError, match="need a result of method 'dfi', but this one is from 'loco'"
    ):
        compared["loco"].local()


def test_an_estimator_explains_new_rows_after_it_was_pickled(explainer, table):
    X, _ = table
    again = pickle.loads(pickle.dumps(explainer))  # noqa: S301
    np.testing.assert_array_equal(
        again.local(X.iloc[:2]).values, explainer.local(X.iloc[:2]).values
    )


@pytest.mark.filterwarnings("ignore::dfi.warnings.TransportWarning")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"transport": dfi.transports.Gaussian(epsilon=0.5)}, r"blurs rows \(epsilon > 0\)"),
        ({"transport": "semicontinuous"}, r"blurs rows \(epsilon > 0\)"),
        ({"transport": dfi.transports.EntropicOT(epsilon=2.0)}, r"blurs rows \(epsilon > 0\)"),
        (
            {"loss": dfi.losses.custom(lambda y, p: np.abs(y - p) ** 1.5, name="power")},
            "predictions under loss='power' are not means",
        ),
    ],
)
def test_what_has_no_contributions_is_refused_by_name(table, options, message):
    X, y = table
    result = dfi.explain(X[["a", "b"]], y, "linear", cv=2, **options, **QUIET)
    with pytest.raises(ValueError, match=message):
        result.local()


def test_curved_transports_are_refused_by_name(table):
    pytest.importorskip("pyvinecopulib")
    X, y = table
    result = dfi.explain(X[["a", "b"]], y, "linear", cv=2, transport="knothe-rosenblatt", **QUIET)
    with pytest.raises(ValueError, match="straight latent lines, which transport='knothe-rosenbl"):
        result.local()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"refine": 0}, "refine must be a whole number of 1 or more, got 0"),
        ({"background": 3}, "background must be a whole number of 10 or more, got 3"),
        ({"scale": "logit"}, "scale must be 'response' or 'margin', got 'logit'"),
        ({"scale": "margin"}, "these models predict a quantity"),
        ({"outcome": "u"}, "outcome='u' chooses one of several classes or outcomes"),
    ],
)
def test_bad_options(explainer, options, message):
    with pytest.raises(ValueError, match=message):
        explainer.result_.local([0], **options)


def test_rows_that_were_left_out_are_named(table):
    X, y = table
    gaps = X.assign(a=X.a.where(X.index != 4))
    with pytest.warns(dfi.warnings.MissingValuesWarning):
        result = dfi.explain(gaps, y, "linear", cv=2, missing="drop", **QUIET)
    assert result.local([5]).rows.tolist() == [5]
    np.testing.assert_allclose(result.local([5]).features["a"], [X.a[5]])
    assert 4 not in result.local().rows
    with pytest.raises(ValueError, match="row 4 was left out because a value is missing"):
        result.local([4])


def test_rows_that_every_model_has_seen_are_named(table):
    X, y = table
    first, second = np.arange(60), np.arange(60, 120)
    result = dfi.explain(X[["a", "b"]], y, LinearRegression(), cv=[(first, second)], **QUIET)
    assert result.local().rows.tolist() == second.tolist()
    with pytest.raises(ValueError, match="row 3 is held out by no fold"):
        result.local([3])


def test_all_rows_are_refused_by_memory_alone(explainer, monkeypatch):
    monkeypatch.setattr("dfi._collect.MOST_BYTES", 1000)
    with pytest.raises(ValueError, match=r"contributions of all 120 rows take .* GiB"):
        explainer.result_.local()
    assert len(explainer.result_.local(slice(0, 100))) == 100


def test_shapes_are_checked():
    fields = {
        "values": np.zeros((2, 1)), "names": ("a",), "base": np.zeros(2), "prediction": np.zeros(2),
        "spread": np.zeros((2, 1)), "total": np.zeros((2, 1)), "higher_order": np.zeros(2),
        "reliability": np.zeros(1), "rows": np.arange(2),
    }  # fmt: skip
    local = LocalAttributions(**fields)
    with pytest.raises(ValueError, match="read-only"):
        local.values[0] = 1.0
    with pytest.raises(ValueError, match=r"base must have shape \(2,\), got \(3,\)"):
        LocalAttributions(**{**fields, "base": np.zeros(3)})
    with pytest.raises(ValueError, match=r"rows must have shape \(2,\), got \(3,\)"):
        LocalAttributions(**{**fields, "rows": np.arange(3)})
    again = pickle.loads(pickle.dumps(local))  # noqa: S301
    np.testing.assert_array_equal(again.rows, local.rows)


def test_what_is_left_to_interactions_is_told():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 6)) + 0.5 * rng.standard_normal((200, 1))

    def predict(rows):
        return np.exp(np.asarray(rows).sum(axis=1))

    local = dfi.explain(X, predict(X), predict, cv="prefit", **QUIET).local()
    assert local.higher_order.max() > 1.0
    assert "try refine=128" in repr(local)


def test_a_single_row_is_told_with_signs():
    X = np.random.default_rng(0).standard_normal((60, 2))
    local = dfi.explain(X, X[:, 0], "linear", cv=2, diagnose=False).local(3)
    told = repr(local)
    assert f"prediction {local.prediction[0]:.4g}, explained by" in told
    lines = dict(line.split() for line in told.splitlines()[2:])
    for name, value in zip(local.names, local.values[0], strict=True):
        places = len(lines[name].split(".")[1])
        assert lines[name] == f"{value:+.{places}f}".replace("-0.00", "+0.00")
    assert len({line.index(".") for line in told.splitlines()[2:]}) == 1


def test_files_hold_contributions_on_request(table, tmp_path):
    X, y = table
    X = X.assign(k=X.k.where(X.index % 10 > 0))
    result = dfi.explain(X, y, "linear", cv=3, **QUIET)
    local = result.local([4, 20, 77])
    path = result.save(tmp_path / "rows.dfi", rows=local)
    loaded = dfi.load(path)
    found = loaded.local()
    for name in ("values", "base", "prediction", "spread", "total", "higher_order", "reliability"):
        assert np.array_equal(getattr(found, name), getattr(local, name), equal_nan=True)
    assert found.names == local.names
    assert found.spec == local.spec
    assert [list(map(str, found.features[k])) for k in ("a", "k")] == [
        list(map(str, local.features[k])) for k in ("a", "k")
    ]
    assert found.features["k"][1] is None
    assert loaded.local([77, 4]).rows.tolist() == [77, 4]
    assert loaded.local(20).table().equals(result.local(20).table())
    assert len(pickle.loads(pickle.dumps(loaded)).local()) == 3  # noqa: S301
    again = loaded.save(tmp_path / "again.dfi")
    assert again.read_bytes() == path.read_bytes()
    sampled = dfi.load(result.save(tmp_path / "some.dfi", rows=7))
    assert sampled.local().rows.tolist() == result.local(sample=7).rows.tolist()


def test_files_refuse_what_only_models_could_answer(table, tmp_path):
    X, y = table
    result = dfi.explain(X, y, "linear", cv=3, **QUIET)
    loaded = dfi.load(result.save(tmp_path / "rows.dfi", rows=result.local([4, 20])))
    with pytest.raises(ValueError, match="row 5 was not explained; the rows are 4, 20"):
        loaded.local([4, 5])
    with pytest.raises(ValueError, match="there are 120 rows: positions go from 0 to 119"):
        loaded.local(120)
    for asked in ({"X": X}, {"sample": 3}):
        with pytest.raises(ValueError, match="local contributions need the fitted models"):
            loaded.local(**asked)
    for asked in ({"refine": 8}, {"scale": "margin"}, {"outcome": "z"}):
        (name,) = asked
        with pytest.raises(ValueError, match=f"leave {name} out, or call local on the result"):
            loaded.local(**asked)
    with pytest.raises(ValueError, match="need the fitted models"):
        dfi.load(result.save(tmp_path / "plain.dfi")).local([4])
    with pytest.raises(ValueError, match="need the fitted models"):
        loaded.moments().local([4])
    other = dfi.explain(X[["a", "b"]], y, "linear", cv=3, **QUIET)
    with pytest.raises(ValueError, match=r"belong to another result \(of 'a', 'b'\)"):
        result.save(tmp_path / "other.dfi", rows=other.local([0]))


def test_a_file_with_crafted_contributions_is_damaged(table, tmp_path):
    X, y = table
    result = dfi.explain(X, y, "linear", cv=3, **QUIET)
    path = result.save(tmp_path / "rows.dfi", rows=result.local([4, 20]))
    manifest, arrays = read_file(path)
    del manifest["arrays"]
    short = {**arrays, "local.base": arrays["local.base"][:1]}
    for changed, kept in (
        ({**manifest, "local": {**manifest["local"], "features": [{}]}}, arrays),
        ({**manifest, "local": {}}, arrays),
        (manifest, short),
    ):
        crafted = write_file(tmp_path / "crafted.dfi", changed, kept, overwrite=True)
        with pytest.raises(FileFormatError, match="is damaged"):
            dfi.load(crafted)


@pytest.mark.parametrize("made", [pd.DataFrame, pl.DataFrame, pa.table])
def test_new_rows_may_have_the_outcome_and_columns_left_out(made):
    rng = np.random.default_rng(0)
    columns = {
        "id": [f"p{k}" for k in range(80)],
        "a": rng.standard_normal(80),
        "day": [f"2024-01-{1 + k % 28:02d}" for k in range(80)],
        "w": np.ones(80),
    }
    columns["y"] = columns["a"] + 0.1 * rng.standard_normal(80)
    raw = made(columns)
    result = dfi.explain(raw, "y", "ridge", sample_weight="w", **QUIET)
    again = result.local(X=raw[:2])
    features = made({name: columns[name][:2] for name in ("a", "day")})
    np.testing.assert_array_equal(again.values, result.local(X=features).values)
    with pytest.raises(ValueError, match="X has the unknown 'other'"):
        result.local(X=pd.DataFrame(columns).assign(other=1.0))
