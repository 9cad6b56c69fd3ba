"""The examples of docs/datasets.md run, and print what their comments say."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "datasets.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)


def run(block):
    exec(compile(block, PAGE.name, "exec"), {})  # noqa: S102


def test_truths_are_those_in_the_comments(capsys):
    run(BLOCKS[0])
    run(BLOCKS[1])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    for line, known in ((0, [17, 8, 0]), (1, [20, 5, 0]), (5, [17, 8, 0])):
        assert [round(float(x)) for x in lines[line].strip("[]").split()] == known


def test_missing_data_are_explained(capsys, monkeypatch, tmp_path):
    monkeypatch.delenv("DFI_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    run(BLOCKS[2])
    assert "download=True" in capsys.readouterr().out
