"""What units are made of: in the result, its file, the page and the plots."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import dfi
from dfi import plots
from dfi._data.members import MEMBERS
from dfi.report.page import compact_html, report_html
from dfi.report.summary import _told, summarize
from dfi.results.views import UNATTRIBUTED, unit_rows

mpl.use("Agg")

GROUPS = {"one": ["a", "kind"], "two": ["b", "c"]}
OVERLAP = {"one": ["a", "kind"], "two": ["b", "a"]}


def table(n=240, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.standard_normal((n, 3)), columns=list("abc"))
    frame["kind"] = rng.choice(["x", "y", "z"], n, p=[0.5, 0.3, 0.2])
    y = 2 * frame["a"] + (frame["kind"] == "z") + frame["b"] + rng.standard_normal(n)
    frame.loc[rng.random(n) < 0.3, "a"] = np.nan
    frame.loc[rng.random(n) < 0.1, "kind"] = None
    return frame, y


@pytest.fixture(scope="module")
def result():
    frame, y = table()
    return dfi.explain(frame, y, "linear", cv=3, feature_groups=GROUPS, diagnose=False)


@pytest.fixture(scope="module")
def joint(result):
    return result.group(how="joint")


@pytest.fixture(scope="module")
def overlapping(result):
    return result.group(OVERLAP, how="joint")


def test_levels_have_their_shares_and_mean_outcomes(result):
    frame, y = table()
    units = result.diagnostics["units"]
    assert set(units) == {"a", "kind"}
    kind = frame["kind"].fillna("missing")
    assert [m["name"] for m in units["kind"]["members"]] == ["x", "y", "z", "missing"]
    for member in units["kind"]["members"]:
        rows = kind == member["name"]
        assert member["share"] == pytest.approx(rows.mean())
        assert member["mean"] == pytest.approx(y[rows].mean())


def test_missing_values_stand_beside_quarters_of_what_is_observed(result):
    frame, y = table()
    *quarters, gap = result.diagnostics["units"]["a"]["members"]
    assert len(quarters) == 4
    missing = frame["a"].isna()
    assert gap == {
        "name": "missing",
        "share": pytest.approx(missing.mean()),
        "mean": pytest.approx(y[missing].mean()),
    }
    edge = frame["a"].quantile(0.25, interpolation="higher")
    lowest = frame["a"] <= edge
    assert quarters[0]["share"] == pytest.approx(lowest.mean())
    assert quarters[0]["mean"] == pytest.approx(y[lowest].mean())
    assert sum(m["share"] for m in quarters) == pytest.approx(1 - missing.mean())
    assert quarters[0]["name"] == f"up to {edge:.4g}"


def test_weights_count_as_repeated_rows():
    frame, y = table()
    counts = np.random.default_rng(1).integers(0, 3, len(y))
    options = {"cv": "prefit", "diagnose": False, "transport_error": "ignore"}
    model = lambda X: np.nan_to_num(X["a"].to_numpy(float))  # noqa: E731
    weighted = dfi.explain(frame, y, model, frequency_weight=counts, **options)
    repeated = dfi.explain(
        frame.loc[frame.index.repeat(counts)], np.repeat(y, counts), model, **options
    )
    for name in ("a", "kind"):
        one, other = (r.diagnostics["units"][name]["members"] for r in (weighted, repeated))
        assert [m["share"] for m in one] == pytest.approx([m["share"] for m in other])
        assert weighted.spec["missing"]["share"] == pytest.approx(
            dict(repeated.spec["missing"]["share"])
        )


def test_many_levels_are_pooled_and_what_is_missing_is_not():
    rng = np.random.default_rng(0)
    frame, y = table(600)
    frame["kind"] = [f"level {k}" for k in rng.geometric(0.03, 600)]
    frame.loc[:3, "kind"] = None
    with pytest.warns(dfi.warnings.ManyLevelsWarning, match="'kind' has 118 levels"):
        found = dfi.explain(frame, y, "linear", cv=2, diagnose=False)
    unit = found.diagnostics["units"]["kind"]
    assert len(unit["members"]) == MEMBERS
    assert unit["n_members"] == frame["kind"].nunique() + 1
    *_, rest, gap = unit["members"]
    assert rest["name"] == f"{unit['n_members'] - MEMBERS + 1} other levels"
    assert gap["name"] == "missing"
    assert gap["share"] == pytest.approx(4 / 600)
    assert sum(m["share"] for m in unit["members"]) == pytest.approx(1.0)
    page = report_html(found)
    assert "Levels below 1.0 % of the rows are pooled for the transport" in page


def test_a_category_may_have_a_level_called_missing():
    frame, y = table()
    frame["kind"] = frame["kind"].replace("x", "missing")
    found = dfi.explain(frame, y, "linear", cv=2, diagnose=False)
    names = [m["name"] for m in found.diagnostics["units"]["kind"]["members"]]
    assert names == ["missing", "y", "z", "(missing)"]


def test_a_file_shows_the_same(result, joint, overlapping, tmp_path):
    for k, each in enumerate((result, joint, overlapping)):
        back = dfi.load(each.save(tmp_path / f"{k}.dfi"))
        assert back.diagnostics["units"] == each.diagnostics["units"]
        assert report_html(back) == report_html(each)
        # a result that was loaded holds no models, and has no next step
        assert repr(back) == repr(each).rsplit("\nnext: ", 1)[0]


def test_groups_name_their_columns(result, joint):
    one = joint.diagnostics["units"]["one"]
    assert [m["name"] for m in one["members"]] == GROUPS["one"]
    assert one["members"][0]["missing"] == result.spec["missing"]["share"]["a"]
    summed = result.group().diagnostics["units"]["two"]
    assert {m["name"]: m["score"] for m in summed["members"]} == {
        name: result.scores[result.names.index(name)] for name in GROUPS["two"]
    }


def test_shapley_values_name_the_columns_of_no_group(result):
    found = result.group({"one": ["a", "kind"]}, how="shapley")
    assert set(found.names) == set(found.diagnostics["units"])
    assert "Shapley values" in summarize(found)["scored"]


def test_text_and_page_say_how_much_is_missing(result):
    share = result.spec["missing"]["share"]["a"]
    said = f"missing: a {100 * share:.2g} %, kind"
    assert said in repr(result)
    assert "being missing counts as a value" in repr(result)
    assert said in compact_html(result)
    page = report_html(result, target="y")
    assert said[1:] in page
    assert f"Missing in {100 * share:.0f} % of the rows. The mean outcome is" in page
    assert '<th scope="col" data-key="missing">' in page
    rows = {row["name"]: row["missing"] for row in unit_rows(result)}
    assert rows["a"] == share
    assert rows["b"] is None


def test_complete_numbers_have_nothing_inside():
    sample = dfi.datasets.m1(200, d=3)
    found = dfi.explain(sample.X, sample.y, "linear", cv=2, diagnose=False)
    assert "units" not in found.diagnostics
    page = report_html(found)
    assert '<details class="unit"' not in page
    assert "issing" not in page.split("</style>")[1].split("<script")[0]
    assert "issing" not in repr(found)


def test_rows_left_out_are_counted():
    frame, y = table()
    with pytest.warns(dfi.warnings.MissingValuesWarning):
        found = dfi.explain(frame, y, "linear", cv=2, missing="drop", diagnose=False)
    assert f"{found.spec['missing']['rows']} rows with missing values were left out" in repr(found)


@pytest.mark.parametrize(
    ("how", "words"),
    [("joint", "moved and scored as a whole"), ("sum", "the sum over its columns")],
)
def test_page_says_how_groups_are_scored(result, how, words):
    found = result.group(how=how)
    assert words in report_html(found)
    assert ("joint" if how == "joint" else "sum over its features") in found.plot().get_xlabel()
    panels = found.plot("groups")
    assert ("joint" in panels[0].get_title(loc="left")) == (how == "joint")


def test_overlapping_groups_say_that_they_are_not_attributed(overlapping):
    assert overlapping.attribution is None
    for kind in ("attribution", "latent_attributed", "amplification"):
        with pytest.raises(ValueError, match="which are not attributed"):
            overlapping.plot(kind)
    panels = overlapping.plot("groups")
    for panel in panels[2:]:
        (text,) = panel.texts
        assert text.get_text().replace("\n", " ") == f"{UNATTRIBUTED[0].upper()}{UNATTRIBUTED[1:]}."
    page = report_html(overlapping)
    assert "which are not attributed" in page
    assert "heat-area" not in page.split("</style>")[1].split("<script")[0]
    assert all(row["latent"] is None for row in unit_rows(overlapping))


def test_names_of_levels_are_text():
    frame, y = table()
    frame["kind"] = frame["kind"].replace("x", "<script>alert(1)</script>")
    found = dfi.explain(frame, y, "linear", cv=2, diagnose=False)
    page = report_html(found)
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_profiles_of_levels_values_and_missingness():
    frame, y = table()
    frame["two"] = np.where(frame["b"] > 0, "u", "v")
    explainer = dfi.DFI(estimator="linear", cv=3, diagnose=False).fit(frame, y)
    assert "two = v" in plots.line_profile(explainer, "two").get_xlabel()
    assert "kind = z" in plots.line_profile(explainer, "kind", level="z").get_xlabel()
    data = plots.line_profile_data(explainer, "kind", level="z")
    assert data["mean"].iloc[-1] > data["mean"].iloc[0]
    value = plots.line_profile_data(explainer, "a")
    assert value["mean"].iloc[-1] - value["mean"].iloc[0] > 3
    assert "a missing" in plots.line_profile(explainer, "a", level="missing").get_xlabel()
    with pytest.raises(ValueError, match="pass level= one of 'x', 'y', 'z', 'missing'"):
        plots.line_profile(explainer, "kind")
    with pytest.raises(ValueError, match="'a' is a number with missing values; pass level= one of"):
        plots.line_profile(explainer, "a", level="1")
    with pytest.raises(ValueError, match="there is no feature 'd'"):
        plots.line_profile(explainer, "d")


def test_page_says_where_sums_of_columns_are_noise(build):
    result = build(p=60, n=80, groups={"many": [f"f{k}" for k in range(55)], "few": ["f56"]})
    (alarm,) = summarize(result)["group_alarms"]
    assert "collects the noise of each of them" in alarm
    assert "scores it as one.</p>" in report_html(result)


def test_gaps_of_a_category_are_not_one_of_its_levels():
    assert _told({"kind": "category", "n_members": 3, "missing": 0.1}) == "2 levels, 10 % missing"
    assert _told({"kind": "category", "n_members": 3, "missing": None}) == "3 levels"
