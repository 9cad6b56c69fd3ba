"""Outputs to be lost: a tiny table, a result of it, and a study of three numbers."""

import gc
import hashlib
import signal
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import dfi
from dfi.cli.app import app

from .disk import Disk, Killed


@pytest.fixture(scope="session")
def results():
    """Two results of a tiny table that differ in their level."""
    rng = np.random.default_rng(0)
    a, b, noise = rng.standard_normal((3, 60))
    frame = pl.DataFrame({"a": a, "b": 0.8 * a + 0.6 * b})
    return [
        dfi.explain(frame, 3 * a + noise, estimator="linear", level=level, diagnose=False)
        for level in (0.9, 0.95)
    ]


@pytest.fixture
def command(tmp_path, monkeypatch, results):
    """Run a command on the tiny table, with results that are there already."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").write_text("a,b,y\n" + "1,2,3\n2,1,4\n" * 5)

    def explain(*_, level, **__):
        return results[level == 0.95]

    monkeypatch.setattr(dfi, "explain", explain)
    return lambda *arguments: CliRunner().invoke(app, list(map(str, arguments)))


def state(folder: Path):
    """Return the visible files with their contents, and what is hidden."""
    files = [p for p in sorted(folder.rglob("*")) if p.is_file()]
    names = {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}
    hidden = sorted(
        str(p.relative_to(folder)) for p in folder.rglob("*") if p.name.endswith(SUFFIXES)
    )
    inside = {n for n in names if any(n == h or n.startswith(h + "/") for h in hidden)}
    return {n: d for n, d in names.items() if n not in inside}, hidden


SUFFIXES = (".tmp", ".old", ".ready")


def attempt(monkeypatch, root, work, at=None, kind=""):
    """Do some work on a disk that fails; return the disk, and what came of it."""
    disk = Disk(root, at, kind)
    outcome = None
    # a run in the background begins with Ctrl-C ignored
    before = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in before.items()}
    if kind == "SIGKILL":
        gc.freeze()  # what was there before need not be looked through at each fault
    with monkeypatch.context() as patch:
        disk.install(patch)
        # what a killed process held is never tidied up, and nobody hears of it
        patch.setattr(sys, "unraisablehook", lambda _: None)
        try:
            outcome = work()
        except (Killed, KeyboardInterrupt, OSError) as error:
            outcome = error
        except SystemExit as error:  # a signal in the runner of commands
            outcome = error
        if kind == "SIGKILL":
            gc.collect()
            gc.unfreeze()
    disk.restart()
    for number, handler in before.items():
        signal.signal(number, handler)
    return disk, outcome
