"""Targets that are labels: handed on as they are read, and answered in their words."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import dfi
from dfi._data.weights import Weights
from dfi._models.quality import combined_quality, regression_quality
from dfi.inference.influence import InfluenceRows
from dfi.losses import LOG_LOSS
from dfi.results.importance import Importance

SPECIES = ("Adelie", "Chinstrap", "Gentoo")


def answer(n=60, names=("a", "b")):
    """What explain says of three species."""
    ones = Weights(np.ones(n), "frequency")
    rng = np.random.default_rng(0)
    label = np.arange(n) % 3
    guess = rng.dirichlet(np.ones(3), n) * 0.4 + 0.6 * np.eye(3)[label]
    outcome = {"name": "species", "kind": "classes", "classes": list(SPECIES), "positive": None}
    spec = {"method": "dfi", "loss": "log-loss", "outcome": outcome}
    parts = {}
    for k, name in enumerate(SPECIES):
        quality = regression_quality(
            [(np.arange(n), guess[:, k])], (label == k).astype(float), ones,
            loss=LOG_LOSS.each_class, prefit=True,
        )  # fmt: skip
        u = rng.normal(size=(n, 2)) * 0.05 + [0.3, 0.1]
        totals = InfluenceRows(np.column_stack([np.full(n, 0.6), u.sum(axis=1)]), ones)
        parts[name] = Importance(
            InfluenceRows(u, ones), names, spec, quality, library="polars", totals=totals
        )
    held = list(parts.values())
    return Importance(
        InfluenceRows(sum(part.influence for part in held), ones),
        names,
        spec,
        combined_quality({name: part.quality for name, part in parts.items()}),
        library="polars",
        totals=InfluenceRows(sum(part.totals.values for part in held), ones),
        by_outcome=parts,
    )


@pytest.fixture
def asked(monkeypatch):
    """What dfi.explain is called with; it answers with three species."""
    calls = {}

    def explain(X, y, **options):
        calls.update(X=X, y=y, **options)
        return answer(names=tuple(X.columns))

    monkeypatch.setattr(dfi, "explain", explain)
    return calls


@pytest.fixture
def species(place):
    rng = np.random.default_rng(0)
    label = rng.integers(0, 3, 120)
    frame = pl.DataFrame(
        {
            "a": label + 0.7 * rng.standard_normal(120),
            "b": rng.standard_normal(120),
            "species": [SPECIES[k] for k in label],
            "sold": ["Yes" if k == 2 else "No" for k in label],
            "grade": label + 1,
        }
    )
    frame.write_csv(place / "data.csv")
    return frame


def test_labels_are_handed_on_as_they_are_read_and_nothing_else_is_said(run, species, asked):
    done = run("explain", "data.csv", "--target", "species", "--drop", "sold,grade")
    assert done.exit_code == 0, done.output
    assert asked["y"].dtype == pl.String
    assert asked["y"].to_list() == species["species"].to_list()
    assert not {"loss", "task", "pos_label"} & set(asked)


def test_answer_begins_with_shares_and_names_classes(run, species, asked):
    done = run("explain", "data.csv", "-y", "species", "--drop", "sold,grade", "--out", "out")
    assert done.exit_code == 0, done.output
    head = next(line for line in done.stdout.splitlines() if line.startswith("feature"))
    assert head.split()[:5] == ["feature", "share", "(interval)", "score", "(interval)"]
    assert "of entropy" in head
    assert "share of the explained loss" in done.stdout
    assert "McFadden's R2" in done.stderr
    classes = pl.read_csv("out/classes.csv")
    assert classes.columns[:3] == ["feature", "outcome", "share"]
    assert set(classes["outcome"]) == set(SPECIES)
    names = ["feature", "share", "share_low", "share_high", "score"]
    assert pl.read_csv("out/importance.csv").columns[:5] == names
    loaded = dfi.load("out/result.dfi")
    assert list(loaded.by_outcome) == list(SPECIES)
    shown = run("show", "out")
    assert "three classes: Adelie, Chinstrap, Gentoo" in shown.stderr
    said = json.loads(run("show", "out", "--json").stdout)
    assert said["skill_name"] == "McFadden's R2"
    assert said["loss"] == "log-loss"
    page = Path("out/report.html").read_text(encoding="utf-8")
    assert "What explains species?" in page
    assert "By class" in page


def test_json_has_loss_and_skill(run, species, asked):
    done = run("explain", "data.csv", "-y", "species", "--drop", "sold,grade", "--json")
    said = json.loads(done.stdout)
    assert said["loss"] == "log-loss"
    assert said["skill"] == pytest.approx(answer().quality.skill)
    assert said["features"][0]["share"] > said["features"][1]["share"]


def test_files_of_classes_of_another_run_are_told_of(run, species, asked, monkeypatch):
    shared = ("explain", "data.csv", "--drop", "sold,grade", "--out", "out")
    run(*shared, "-y", "species")

    def quantity(X, y, **_):
        return next(iter(answer(names=tuple(X.columns)).by_outcome.values()))

    monkeypatch.setattr(dfi, "explain", quantity)
    done = run(*shared, "-y", "species", "--force")
    assert "classes.csv and classes.parquet in out are older" in done.stderr


def test_loss_task_and_positive_are_handed_on(run, species, asked):
    done = run("explain", "data.csv", "-y", "sold", "--drop", "species,grade",
               "--loss", "log-loss", "--task", "classification", "--pos-label", "No")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert (asked["loss"], asked["task"], asked["pos_label"]) == (
        "log-loss",
        "classification",
        "No",
    )
    recorded = dfi.load("dfi-data/result.dfi").spec["call"]
    assert "--loss log-loss" in recorded
    assert "--pos-label No" in recorded


@pytest.mark.parametrize("text", ["2", "2.0"])
def test_positive_of_numbers_is_a_number(run, species, text):
    done = run("explain", "data.csv", "-y", "grade", "--drop", "species,sold", "--pos-label", text,
               "--task", "classification", "-m", "linear")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert dfi.load("dfi-data/result.dfi").spec["outcome"]["positive"] == "2"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--pos-label", "Yess"),
            "is not a class of the target, which has 'No', 'Yes'; did you mean",
        ),
        (("--pos-label", "7"), "--pos-label 7 is not a class of the target, which has 'No', 'Yes'"),
        (("--loss", "logloss"), "unknown loss 'logloss'; did you mean 'log-loss'?"),
    ],
)
def test_unknown_labels_and_losses(run, species, options, message):
    done = run("explain", "data.csv", "-y", "sold", "--drop", "species,grade", *options)
    assert done.exit_code == 4
    assert message in done.stderr


def test_comparison_and_sensitivity_hand_the_outcome_on(run, species, monkeypatch):
    calls = {}

    def refuse(*, X, y, **options):
        calls.update(options)
        raise ValueError("enough")

    for command in ("compare", "sensitivity"):
        monkeypatch.setattr(dfi, command, refuse)
        calls.clear()
        done = run(command, "data.csv", "-y", "sold", "--drop", "species,grade",
                   "--loss", "brier", "--task", "classification", "--pos-label", "Yes")  # fmt: skip
        assert done.exit_code == 4
        assert (calls["loss"], calls["task"]) == ("brier", "classification")
        assert calls["pos_label"] == "Yes"


def test_three_species_and_two_labels_with_no_option(run, species):
    done = run("explain", "data.csv", "--target", "species", "--drop", "sold,grade",
               "--model", "linear", "--out", "three", "--json")  # fmt: skip
    assert done.exit_code == 0, done.output
    result = dfi.load("three/result.dfi")
    assert set(result.by_outcome) == set(SPECIES)
    np.testing.assert_allclose(
        sum(part.scores for part in result.by_outcome.values()), result.scores, rtol=1e-9
    )
    done = run("explain", "data.csv", "--target", "sold", "--drop", "species,grade",
               "--model", "linear", "--out", "two", "--pos-label", "Yes", "--json")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["auc"][0] > 0.5
