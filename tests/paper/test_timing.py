"""The figure of computing times: what is timed, scaled, marked and left out."""

import csv
import importlib

import pytest

from paper import timing
from paper.reproduction import Size
from paper.timing import FULL, METHODS, QUICK, REFITTED, measure, timing_tasks
from paper.timing_figure import COLOURS, TIME, collect_costs, write_timing

OURS = [
    name for name in METHODS if name.split()[0] not in ("fdfi", "hidimstat", "shap.TreeExplainer")
]


def records_of(size, missing=(), **seconds):
    """Records as a run would leave them: every method takes its position in seconds."""
    records = {}
    for task in timing_tasks(size):
        given = dict(task.arguments)
        cell = {key: given[key] for key in ("method", "n", "d", "seed", "trees", "grown")}
        place = list(METHODS).index(given["method"]) + 1.0
        cell["installed"] = given["method"] not in missing
        if cell["installed"]:
            cell |= {"fit": 1.0, "scores": place * given["n"] * given["d"] / 1000}
        records[task.key] = cell
    return records


def test_every_method_is_timed_at_every_size_alone():
    tasks = timing_tasks(Size())
    assert all(task.measured for task in tasks)
    cells = {(t.arguments["method"], t.arguments["n"], t.arguments["d"]) for t in tasks}
    assert cells == {(method, *point) for method in METHODS for point in QUICK.points}
    assert len(tasks) == len(cells)
    assert set(FULL.points) == {
        (250, 10), (500, 10), (1000, 10), (2000, 10), (1000, 5), (1000, 20), (1000, 40),
    }  # fmt: skip


def test_only_methods_that_refit_grow_fewer_trees():
    for task in timing_tasks(Size(full=True)):
        grown = 25 if task.arguments["method"] in REFITTED else 500
        assert (task.arguments["trees"], task.arguments["grown"]) == (500, grown)
    chosen = {t.arguments["grown"] for t in timing_tasks(Size(full=True, refit_trees=100))}
    assert chosen == {100, 500}
    assert max(t.arguments["grown"] for t in timing_tasks(Size(refit_trees=999))) == 50


@pytest.mark.parametrize("method", OURS)
def test_seconds_are_scaled_to_the_whole_forest(method, monkeypatch):
    """A clock that counts its readings: one second for the fits, one for the scores."""
    readings = iter(range(10**6))
    monkeypatch.setattr(timing.time, "process_time", lambda: float(next(readings)))
    timing.warm_up.cache_clear()
    record = measure(method, n=40, d=3, seed=0, trees=20, grown=2, coalitions=3)
    assert record["installed"]
    assert (record["fit"], record["scores"]) == (10.0, 10.0)


def test_a_method_is_warm_before_it_is_timed(monkeypatch):
    sizes = []

    def method(X, y, learner, coalitions):
        sizes.append(len(y))
        return 1.0, 2.0

    monkeypatch.setitem(METHODS, "LOCO", method)
    timing.warm_up.cache_clear()
    for _ in range(2):
        record = measure("LOCO", n=80, d=3, seed=0, trees=4, grown=4, coalitions=2)
    assert sizes == [timing.WARM_UP["n"], 80, 80]
    assert (record["fit"], record["scores"]) == (1.0, 2.0)
    timing.warm_up.cache_clear()


def test_a_package_that_is_not_installed_is_left_out(monkeypatch, tmp_path):
    def absent(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", absent)
    timing.warm_up.cache_clear()
    record = measure("fdfi", n=40, d=3, seed=0, trees=2, grown=2, coalitions=2)
    assert record == {
        "method": "fdfi", "n": 40, "d": 3, "seed": 0, "trees": 2, "grown": 2, "installed": False,
    }  # fmt: skip


def test_the_page_says_what_is_not_installed_scaled_and_quicker(tmp_path):
    size = Size(full=True)
    missing = ("fdfi", "shap.TreeExplainer")
    records = records_of(size, missing)
    write_timing(records, tmp_path, size)
    page = (tmp_path / "figure-time.md").read_text()
    assert "Not installed, so left out: fdfi, shap.TreeExplainer." in page
    assert "grew 25 trees in each, and their seconds were multiplied by 20" in page
    assert "none is quicker than it" in page
    # with the fits, n = 2000: 1 + 20 seconds of DFI, 1 + 60 of LOCO; without them the ratio is 3
    assert "| LOCO | 8.5 † (2.4) | 16 † (2.7) | 31 † (2.8) | 61 † (2.9) |" in page
    assert "| LOCO | 7.5 † (3) | 15 † (3) | 30 † (3) | 60 † (3) |" in page
    assert "| fdfi | not installed | not installed |" in page
    with (tmp_path / "figure-time.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(records)
    status = {row["method"]: row["status"] for row in rows}
    assert {name for name in status if status[name] == "not installed"} == set(missing)
    assert {path.name for path in tmp_path.iterdir()} == set(TIME.files)


def test_the_median_of_the_replications_is_shown():
    records = {
        str(k): {
            "method": "LOCO", "n": 1, "d": 1, "seed": k, "trees": 4, "grown": 2, "installed": True,
            "fit": float(k), "scores": 10.0 * k,
        }
        for k in (1, 2, 30)
    }  # fmt: skip
    cost = collect_costs(records)[("LOCO", 1, 1)]
    assert (cost.fit, cost.scores, cost.total, cost.scaled) == (2.0, 20.0, 22.0, True)


def test_every_method_has_a_colour():
    assert set(COLOURS) == set(METHODS)
