"""The examples of the README and of pages run as they stand."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAD = "feature share (95 % interval) score (95 % interval) se p_adj"
PYTHON_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.mark.filterwarnings("ignore::dfi.warnings.TransportWarning")
def test_readme_runs_as_it_stands(tmp_path, monkeypatch, capsys):
    """All blocks in order, in one namespace, as a reader would paste them."""
    monkeypatch.chdir(tmp_path)
    blocks = PYTHON_BLOCK.findall((ROOT / "README.md").read_text())
    assert len(blocks) >= 2
    namespace = {}
    for block in blocks:
        # the reader has 442 rows and half a minute; the test has neither
        quick = block.replace("dfi.explain(X, y)", "dfi.explain(X, y, estimator='ridge')")
        exec(compile(quick, "README.md", "exec"), namespace)  # noqa: S102
    printed = capsys.readouterr().out
    assert " ".join(printed.splitlines()[2].split()) == HEAD
    assert (tmp_path / "report.html").exists()
    assert (tmp_path / "result.dfi").exists()


def test_readme_shows_the_table_it_promises():
    text = (ROOT / "README.md").read_text()
    shown = re.search(r"```text\n(.*?)```", text, re.DOTALL).group(1)
    assert " ".join(shown.splitlines()[2].split()) == HEAD
    assert len(shown.strip().splitlines()) == 13


def test_page_on_outcomes_runs_as_it_stands():
    blocks = PYTHON_BLOCK.findall((ROOT / "docs" / "outcomes.md").read_text())
    assert len(blocks) >= 4
    namespace = {}
    for block in blocks:
        exec(compile(block, "outcomes.md", "exec"), namespace)  # noqa: S102
    result = namespace["result"]
    assert set(result.by_outcome) == {"Barolo", "Grignolino", "Barbera"}


def test_page_on_single_rows_runs_as_it_stands():
    blocks = PYTHON_BLOCK.findall((ROOT / "docs" / "local.md").read_text())
    namespace = {}
    for block in blocks:
        exec(compile(block, "local.md", "exec"), namespace)  # noqa: S102
    told = re.search(r"table\(\) +# (.*)", blocks[0]).group(1)
    assert list(namespace["table"].columns) == told.split(", ")


def test_page_on_effects_begins_with_what_it_promises():
    blocks = PYTHON_BLOCK.findall((ROOT / "docs" / "effects.md").read_text())
    namespace = {}
    exec(compile(blocks[0], "effects.md", "exec"), namespace)  # noqa: S102
    result = namespace["result"]
    assert result.names[int(result.scores.argmax())] == "age"
    average = result.diagnostics["average effect"]
    assert abs(average["value"] + 1.0) < 4 * average["se"]
    assert not result.diagnostics["overlap of treatment"]["poor"]


def test_page_on_change_begins_with_what_it_promises(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = PYTHON_BLOCK.findall((ROOT / "docs" / "change.md").read_text())
    namespace = {}
    exec(compile(blocks[0], "change.md", "exec"), namespace)  # noqa: S102
    change = namespace["change"]
    assert change.any_change.feature == "income"
    assert change.test_any("relation").p < 0.01
    assert (tmp_path / "change.html").exists()
