"""Results side by side: one mapping for methods and for settings."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest

import dfi
from dfi._data.weights import Weights
from dfi.inference.influence import InfluenceRows
from dfi.results import words
from dfi.results.collection import MethodRecord
from dfi.results.importance import Importance, Quality


def build(seed=0, **changes):
    rng = np.random.default_rng(seed)
    weights = Weights(np.ones(50), "frequency")
    values = {
        "basis": InfluenceRows(rng.normal([2.0, 1.0, 0.0], size=(50, 3)), weights),
        "names": ("a", "b", "c"),
        "spec": {"method": "dfi", "question": "How much?"},
        "quality": Quality(0.7, (0.7,), float("nan"), 1.0, 4.0, 50),
        "library": "pandas",
    }
    return Importance(**{**values, **changes})


def collection(**options):
    flat = build(3, degenerate=np.array([False, False, True]))
    return dfi.Results({"one": build(1), "two": build(2), "flat": flat}, **options)


def test_it_is_a_mapping():
    found = collection()
    assert list(found) == ["one", "two", "flat"] == list(found.results)
    assert len(found) == 3
    assert found.labels == ("one", "two", "flat")
    assert found.names == ("a", "b", "c")
    assert "one" in found
    assert found.get("three") is None
    assert dict(found)["two"] is found["two"]
    np.testing.assert_array_equal(found.scores(), [r.scores for r in found.values()])
    with pytest.raises(KeyError, match="there is no result 'x'; the results are 'one', 'two'"):
        found["x"]
    with pytest.raises(KeyError, match="there is no setting 'x'; the settings are 'one'"):
        collection(by="setting")["x"]
    with pytest.raises(TypeError, match="does not support item assignment"):
        found.results["x"] = build()
    with pytest.raises(ValueError, match="at least one result"):
        dfi.Results({})


def test_ranks_and_their_agreement():
    reversed_ = build(1, names=("a", "b", "c"))
    basis = InfluenceRows(-reversed_.influence, reversed_.weights)
    found = dfi.Results({"up": build(1), "down": build(1, basis=basis)})
    np.testing.assert_array_equal(found.ranks()[0], [1, 2, 3])
    np.testing.assert_array_equal(found.ranks()[1], [3, 2, 1])
    np.testing.assert_allclose(found.rank_agreement(), [[1, -1], [-1, 1]])


def test_tables_by_method_and_by_setting():
    table = collection().table(level=0.8)
    assert list(table.columns[:3]) == ["method", "feature", "score"]
    one = table[table.method == "one"].drop(columns=["method", "monte_carlo_se"])
    pd.testing.assert_frame_equal(one, build(1).table(level=0.8, sort=False))
    by_setting = collection(by="setting").table()
    assert by_setting.columns[0] == "setting"
    np.testing.assert_allclose(by_setting.groupby("setting")["share"].sum(), 1.0)
    with pytest.raises(TypeError, match="the table of settings does not take level"):
        collection(by="setting").table(level=0.8)


def test_questions_come_from_records_or_from_the_results():
    assert collection().questions()["question"].tolist() == ["How much?"] * 3
    record = MethodRecord("m", "Why?", False, "because", 2.0, ("one", "two", "flat"))
    found = collection(methods=(record,), fit_seconds=1.0)
    assert found.questions()["question"].tolist() == ["Why?"]
    assert found.seconds == 3.0
    assert repr(found).count("intervals not valid") == 3


def test_units_are_called_what_they_are():
    assert repr(collection()).startswith("Comparison: 3 results of 3 features in ")
    assert repr(collection(by="setting")).startswith("Sensitivity: 3 features under 3 settings")
    assert (words.counted(1, "group"), words.counted(2, "group")) == ("1 group", "2 groups")


@pytest.mark.parametrize("by", ["method", "setting"])
def test_json_has_no_numbers_that_json_does_not_know(by):
    found = collection(by=by, skipped={"three": "too few rows"})
    read = json.loads(found.json(), parse_constant=pytest.fail)
    assert read["units"] == ["a", "b", "c"]
    assert read["skipped"] == {"three": "too few rows"}
    assert [entry["name"] for entry in read[f"{by}s"]] == ["one", "two", "flat"]
    columns = read[f"{by}s"][2]["results"]["flat"]["columns"]
    assert columns["se"][2] is None
    assert columns["score"] == pytest.approx(found["flat"].scores.tolist())


@pytest.mark.parametrize("by", ["method", "setting"])
def test_drawn_reported_and_pickled(by, tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    found = collection(by=by, skipped={"three": "too few rows"})
    assert found.plot() is not None
    plt.close("all")
    page = found.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "flat" in page
    again = pickle.loads(pickle.dumps(found))  # noqa: S301
    assert repr(again) == repr(found)
    assert again.by == by
