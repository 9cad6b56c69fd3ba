"""A run that is interrupted, terminated or killed leaves the earlier outputs as they were."""

import hashlib
import os
import signal
import subprocess
import sys

import joblib
import pytest
from typer.testing import CliRunner

from dfi.cli.app import app

SLOW = """
import pathlib, time

class Slow:
    def predict(self, X):
        pathlib.Path("started").touch()
        time.sleep(3600)  # for ever: a signal ends it, or the test does
"""


# A limit for a process that hangs; how long one takes is not tested.
pytestmark = pytest.mark.timeout(1200)


def contents(folder):
    return {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in folder.iterdir()}


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, 130),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.full),
        pytest.param(signal.SIGKILL, -signal.SIGKILL, marks=pytest.mark.full),
    ],
)
def test_signals_mid_run(number, code, table, place, monkeypatch, start, wait_for):
    arguments = ["explain", table, "--target", "y", "--out", "out"]
    assert CliRunner().invoke(app, [*arguments, "-m", "linear"]).exit_code == 0
    before = contents(place / "out")
    (place / "slow_model.py").write_text(SLOW)
    monkeypatch.syspath_prepend(str(place))
    from slow_model import Slow

    joblib.dump(Slow(), place / "slow.joblib")
    sys.modules.pop("slow_model")
    command = [sys.executable, "-m", "dfi.cli", *arguments, "-m", "slow.joblib"]
    paths = os.pathsep.join([str(place), os.environ.get("PYTHONPATH", "")])
    process = start(
        [*command, "--trust-model", "--force"],
        cwd=place,
        env={**os.environ, "PYTHONPATH": paths},
    )
    wait_for((place / "started").exists, process)
    process.send_signal(number)
    _, stderr = process.communicate()
    assert process.returncode == code
    assert contents(place / "out") == before
    assert "Traceback" not in stderr
    if number != signal.SIGKILL:
        assert stderr.strip().endswith("nothing was written")
    assert [f.name for f in place.iterdir() if f.name.endswith(".tmp")] == []


@pytest.mark.full
def test_killed_while_writing_leaves_the_old_files_whole(table, place):
    arguments = ["explain", table, "--target", "y", "--out", "out", "-m", "linear"]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    before = contents(place / "out")
    program = (
        "import os, signal, dfi.report as e\n"
        "e.Report.write = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)\n"
        "from dfi.cli import main; main()"
    )
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program, *arguments, "--seed", "5", "--force"],
        check=False,
        cwd=place,
    )
    assert done.returncode == -signal.SIGKILL
    assert contents(place / "out") == before
