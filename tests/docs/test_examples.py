"""The scripts of the gallery run, and warn of nothing that they do not speak about."""

import os
import re
import runpy
import warnings
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from dfi.warnings import DFIWarning

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*/plot_*.py"))
FEWEST = 16


@pytest.fixture
def quiet_figures():
    """Figures are drawn to nowhere, and are gone afterwards."""
    mpl.use("Agg")
    with mpl.rc_context({"figure.max_open_warning": 0}):
        yield
    plt.close("all")


def _label(script):
    return script.relative_to(EXAMPLES).as_posix()


@pytest.mark.full
@pytest.mark.parametrize("script", SCRIPTS, ids=_label)
def test_a_script_runs_draws_and_warns_of_what_it_speaks_about(
    script, quiet_figures, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        runpy.run_path(os.fspath(script), run_name="__main__")
        for number in plt.get_fignums():
            plt.figure(number).canvas.draw()
    text = script.read_text(encoding="utf-8")
    unspoken = [
        f"{warning.category.__name__}: {warning.message}"
        for warning in caught
        if issubclass(warning.category, DFIWarning) and warning.category.__name__ not in text
    ]
    assert not unspoken
    assert plt.get_fignums(), "a page of the gallery has a picture"


def test_the_gallery_has_enough_scripts_and_a_header_for_each_folder():
    assert len(SCRIPTS) >= FEWEST
    for folder in {EXAMPLES, *(script.parent for script in SCRIPTS)}:
        assert (folder / "GALLERY_HEADER.rst").is_file(), folder


@pytest.mark.parametrize("script", SCRIPTS, ids=_label)
def test_a_script_has_a_title_and_ends_with_a_decision(script):
    text = script.read_text(encoding="utf-8")
    title = re.match(r'"""\n(?P<title>[^\n]+)\n(?P<rule>=+)\n\n', text)
    assert title is not None, "begin with a title, a rule of = and an empty line"
    assert len(title["rule"]) == len(title["title"])
    assert "# The decision\n# ------------\n" in text
