"""A run that is interrupted, terminated or killed leaves the earlier outputs as they were."""

import hashlib
import os
import signal
import subprocess
import sys
import time

import joblib
import pytest
from typer.testing import CliRunner

from dfi.cli.app import app

SLOW = """
import pathlib, time

class Slow:
    def predict(self, X):
        pathlib.Path("started").touch()
        time.sleep(120)
"""


def contents(folder):
    return {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in folder.iterdir()}


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_signals_mid_run(number, code, table, place, monkeypatch):
    arguments = ["explain", table, "--target", "y", "--out", "out"]
    assert CliRunner().invoke(app, [*arguments, "-m", "linear"]).exit_code == 0
    before = contents(place / "out")
    (place / "slow_model.py").write_text(SLOW)
    monkeypatch.syspath_prepend(str(place))
    from slow_model import Slow

    joblib.dump(Slow(), place / "slow.joblib")
    sys.modules.pop("slow_model")
    process = subprocess.Popen(  # noqa: S603
        [
            sys.executable,
            "-m",
            "dfi.cli",
            *arguments,
            "-m",
            "slow.joblib",
            "--trust-model",
            "--force",
        ],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(place)},
        stderr=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + 60
    while not (place / "started").exists():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == code
    assert contents(place / "out") == before
    assert "Traceback" not in stderr
    if number != signal.SIGKILL:
        assert stderr.strip().endswith("nothing was written")
    assert [f.name for f in place.iterdir() if f.name.endswith(".tmp")] == []


def test_killed_while_writing_leaves_the_old_files_whole(table, place):
    arguments = ["explain", table, "--target", "y", "--out", "out", "-m", "linear"]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    before = contents(place / "out")
    program = (
        "import os, signal, dfi.cli.explain as e\n"
        "e.write_report = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)\n"
        "from dfi.cli import main; main()"
    )
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program, *arguments, "--seed", "5", "--force"],
        check=False,
        cwd=place,
    )
    assert done.returncode == -signal.SIGKILL
    assert contents(place / "out") == before
