"""dfi reproduce: names, sizes, refusals, and interruptions that leave no trace."""

import hashlib
import importlib
import os
import signal
import sys

import pytest

from paper import catalogue

TINY = """
import os, pathlib, time
import numpy as np
from matplotlib.figure import Figure
from dfi.cli.reproduce import find_paper
find_paper()
from paper.catalogue import STUDIES
from paper.reproduction import Study, Task
from paper.writing import save_figure, write_csv, write_page

def draw(seed, n, trees):
    if os.environ.get("TINY_HOLDS_AT") == str(seed):
        pathlib.Path("started").touch()
        time.sleep(3600)  # for ever: a signal ends it, or the test does
    rows = np.random.default_rng(seed).standard_normal((n, 60))
    return {"seed": seed, "trees": trees, "norm": np.linalg.norm(rows.T @ rows, axis=0)}

def tasks(size):
    n, trees = (300 if size.full else 200), size.trees(quick=1, full=2, refit=True)
    count = size.replications(quick=5, full=6)
    return [Task(f"seed-{s}", draw, {"seed": s, "n": n, "trees": trees}) for s in range(count)]

def write(records, folder, size):
    write_csv(
        folder / "tiny.csv",
        [{"seed": r["seed"], "trees": r["trees"], "norm": r["norm"][0]} for r in records.values()],
    )
    figure = Figure()
    figure.subplots().plot([r["norm"][0] for r in records.values()])
    save_figure(figure, folder / "tiny.png")
    write_page(folder / "tiny.md", "# Tiny", size.words)

STUDIES["tiny"] = Study("tiny", "a tiny study", tasks, write)
"""


@pytest.fixture
def tiny(place, monkeypatch):
    """A study that takes no time, known to this process and to commands run from its folder."""
    (place / "tiny_study.py").write_text(TINY)
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.setattr(catalogue, "STUDIES", dict(catalogue.STUDIES))
    sys.modules.pop("tiny_study", None)
    importlib.import_module("tiny_study")
    yield place
    sys.modules.pop("tiny_study", None)


def contents(folder):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def reproduce(tiny, start):
    """Run the tiny study in a process of its own."""

    def start_study(*arguments, **variables):
        program = "import tiny_study; from dfi.cli import main; main()"
        paths = os.pathsep.join([str(tiny), os.environ.get("PYTHONPATH", "")])
        return start(
            [sys.executable, "-c", program, "reproduce", "tiny", *arguments],
            cwd=tiny,
            env={**os.environ, "PYTHONPATH": paths, **variables},
        )

    return start_study


def test_a_run_says_where_its_page_is(tiny, run):
    done = run("reproduce", "tiny", "--out", "out")
    assert done.exit_code == 0, done.stderr
    assert done.stdout == "out/tiny.md\n"
    assert "a tiny study" in done.stderr
    assert {path.name for path in (tiny / "out").iterdir()} == {
        "tiny.csv", "tiny.png", "tiny.md", "records",
    }  # fmt: skip
    assert "reduced sizes (`--quick`)" in (tiny / "out/tiny.md").read_text()
    assert not list(tiny.glob(".*.tmp"))


def test_quiet_says_nothing_but_the_page(tiny, run):
    done = run("reproduce", "tiny", "--quiet", "--out", "out")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "out/tiny.md\n", "")


def test_full_and_seeds_and_trees_reach_the_study(tiny, run):
    assert run("reproduce", "tiny", "--full", "--out", "a").exit_code == 0
    assert len((tiny / "a/tiny.csv").read_text().splitlines()) == 1 + 6
    assert "the paper's sizes" in (tiny / "a/tiny.md").read_text()
    options = ("--quick", "--seeds", "2", "--refit-trees", "9", "--out", "b")
    assert run("reproduce", "tiny", *options).exit_code == 0
    lines = (tiny / "b/tiny.csv").read_text().splitlines()
    assert [line.split(",")[:2] for line in lines] == [["seed", "trees"], ["0", "9"], ["1", "9"]]
    refused = run("reproduce", "tiny", "--seeds", "0", "--out", "c")
    assert refused.exit_code == 2
    assert not (tiny / "c").exists()


def test_an_unknown_name_lists_those_that_there_are(tiny, run):
    done = run("reproduce", "figure-99", "--out", "out")
    assert done.exit_code == 4
    for name in ("figure-1", "figure-m3-oracle", "figure-time", "figure-epsilon", "all"):
        assert name in done.stderr
    assert not (tiny / "out").exists()


def test_files_that_are_there_are_not_replaced_unasked(tiny, run):
    assert run("reproduce", "tiny", "--out", "out").exit_code == 0
    before = contents(tiny / "out")
    refused = run("reproduce", "tiny", "--seeds", "2", "--out", "out")
    assert refused.exit_code == 5
    assert " ".join(refused.stderr.split()) == (
        "dfi: out already has tiny.csv, tiny.png, tiny.md; choose another --out, or replace them "
        "with --force"
    )
    assert contents(tiny / "out") == before
    assert run("reproduce", "tiny", "--seeds", "2", "--out", "out", "--force").exit_code == 0
    assert contents(tiny / "out") != before


def test_records_that_are_there_are_not_replaced_unasked(tiny, run):
    assert run("reproduce", "tiny", "--out", "out").exit_code == 0
    before = contents(tiny / "out")
    for name in ("tiny.csv", "tiny.png", "tiny.md"):
        (tiny / "out" / name).unlink()
    refused = run("reproduce", "tiny", "--out", "out")
    assert refused.exit_code == 5
    assert " ".join(refused.stderr.split()) == (
        "dfi: out/records has records of tiny: continue with --resume, or start again with --force"
    )
    assert run("reproduce", "tiny", "--out", "out", "--resume").exit_code == 0
    assert contents(tiny / "out") == before


def test_resume_without_an_earlier_run_is_a_run(tiny, run):
    assert run("reproduce", "tiny", "--out", "a").exit_code == 0
    assert run("reproduce", "tiny", "--out", "b", "--resume").exit_code == 0
    assert contents(tiny / "a") == contents(tiny / "b")


@pytest.mark.timeout(1200)  # a limit for a process that hangs; how long one takes is not tested
@pytest.mark.parametrize(
    ("number", "code", "jobs"),
    [
        pytest.param(signal.SIGINT, 130, "2", marks=pytest.mark.slow),
        (signal.SIGTERM, 143, "1"),
    ],
)
@pytest.mark.full
def test_interrupted_and_resumed_gives_the_same_bytes(
    number, code, jobs, tiny, run, reproduce, wait_for
):
    assert run("reproduce", "tiny", "--out", "whole").exit_code == 0
    process = reproduce("--jobs", jobs, "--out", "out", TINY_HOLDS_AT="3")
    wait_for((tiny / "started").exists, process)
    kept = tiny / "out" / "records" / "tiny"
    wait_for(lambda: len(list(kept.glob("*.json"))) >= 3, process)
    # A terminal sends Ctrl-C to the workers too.
    send = os.killpg if number == signal.SIGINT else os.kill
    send(process.pid, number)
    _, stderr = process.communicate()
    assert process.returncode == code
    # joblib's tracker of temporary folders may add a line of its own after the workers are gone
    assert (
        "dfi: interrupted in tiny: finished replications are kept in out/records; the same "
        "command with --resume continues"
    ) in " ".join(stderr.split())
    assert "Traceback" not in stderr
    assert {path.name for path in (tiny / "out").iterdir()} == {"records"}
    assert not list(tiny.glob(".*.tmp"))
    assert run("reproduce", "tiny", "--out", "out", "--resume").exit_code == 0
    assert contents(tiny / "out") == contents(tiny / "whole")


@pytest.mark.full
def test_a_real_figure_resumed_has_the_same_bytes(place, run):
    """M3 with the true regression, one replication of everything, one record lost."""
    size = ("--seeds", "1", "--refit-trees", "1")
    done = run("reproduce", "figure-m3-oracle", *size, "--out", "out")
    assert done.exit_code == 0, done.stderr
    before = contents(place / "out")
    assert len(before) == 3 + 4
    (place / "out/records/M3/oracle-rho-0.8-000.json").unlink()
    again = run("reproduce", "figure-m3-oracle", *size, "--out", "out", "--resume")
    assert again.exit_code == 0
    assert contents(place / "out") == before
