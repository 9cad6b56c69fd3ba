"""Where the paper's studies are found: in a clone, else one sentence says where."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "dfi"


def call(*arguments, cwd, source):
    return subprocess.run(  # noqa: S603
        [sys.executable, *arguments],
        check=False,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
    )


@pytest.mark.full
def test_the_command_and_the_package_are_one(tmp_path):
    asked = ["figure-99", "--out", str(tmp_path / "out")]
    command = call("-m", "dfi.cli", "reproduce", *asked, cwd=tmp_path, source=ROOT / "src")
    package = call("-m", "paper", *asked, cwd=ROOT, source=ROOT / "src")
    for done in (command, package):
        assert (done.returncode, done.stdout) == (4, "")
        assert "unknown study 'figure-99'" in done.stderr
        assert "figure-m3-oracle" in done.stderr


def test_an_installed_package_says_where_the_studies_are(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "lib" / "site" / "dfi")
    done = call("-m", "dfi.cli", "reproduce", "hiv", cwd=tmp_path, source=tmp_path / "lib" / "site")
    assert done.returncode == 4
    assert " ".join(done.stderr.split()) == (
        "dfi: the paper's studies are not installed with dfi: clone its repository (git clone) and "
        "run 'make paper' or 'python -m paper NAME' there"
    )
    assert not (tmp_path / "dfi-paper").exists()
