import json

import polars as pl
import pytest

import dfi

GROUPS = "feature,group\na,pair\nb,pair\nc,single\n"


@pytest.fixture
def groups(place):
    (place / "groups.csv").write_text(GROUPS, encoding="utf-8")
    return "groups.csv"


def test_groups_are_the_units_of_an_explanation(run, table, frame, groups):
    done = run("explain", table, "-y", "y", "--groups", groups, "--units", "groups",
               "--model", "linear", "--out", "out", "--json")  # fmt: skip
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    expected = dfi.explain(
        frame.select("a", "b", "c"),
        frame["y"],
        "linear",
        feature_groups={"pair": ["a", "b"], "single": ["c"]},
        units="groups",
        diagnose=False,
    )
    assert expected.spec["n_repeats"] == 5
    by_name = {row["name"]: row["score"] for row in said["features"]}
    assert by_name == pytest.approx(dict(zip(expected.names, expected.scores, strict=True)))
    assert not any(name.endswith("groups.csv") for name in said["outputs"])
    assert pl.read_csv("out/importance.csv")["feature"].to_list() == ["pair", "single"]
    assert dfi.load("out/result.dfi").spec["group_scores"] == "joint"


def test_compare_and_sensitivity_take_groups_as_units(run, table, groups):
    shared = (table, "-y", "y", "--groups", groups, "--units", "groups", "--model", "linear")
    done = run("compare", *shared, "--methods", "dfi,loco", "--out", "comparison")
    assert done.exit_code == 0, done.output
    assert dfi.load("comparison/dfi.dfi").spec["group_scores"] == "joint"
    assert dfi.load("comparison/loco.dfi").names == ("pair", "single")
    done = run("sensitivity", *shared, "--epsilons", "0", "--out", "settings")
    assert done.exit_code == 0, done.output
    assert dfi.load("settings/epsilon-0.dfi").names == ("pair", "single")


def test_units_without_groups_are_refused(run, table):
    done = run("explain", table, "-y", "y", "--units", "groups")
    assert done.exit_code != 0
    assert "name them with --groups" in done.output
