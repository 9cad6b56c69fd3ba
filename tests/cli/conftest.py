import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from dfi.cli.app import app


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    a, b, c = rng.standard_normal((3, 90))
    return pl.DataFrame(
        {
            "a": a,
            "b": 0.8 * a + 0.6 * b,
            "c": c,
            "id": np.arange(90),
            "y": 3 * a + c + 0.3 * rng.standard_normal(90),
            "w": rng.integers(1, 4, 90),
            "when": np.arange(90)[::-1].copy(),
            "who": np.repeat(np.arange(18), 5),
        }
    )


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(place):
    """Run a command in the working folder."""

    def run_command(*arguments, **options):
        return CliRunner().invoke(app, [str(a) for a in arguments], **options)

    return run_command


@pytest.fixture
def table(frame, place):
    """The features a, b, c and the outcome y as a CSV file."""
    frame.select("a", "b", "c", "y").write_csv(place / "data.csv")
    return "data.csv"
