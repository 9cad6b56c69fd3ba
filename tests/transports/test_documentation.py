"""The examples of docs/transports.md run, and hold what they assert."""

import re
import warnings
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "transports.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
@pytest.mark.full
def test_example_runs(number):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(BLOCKS[number], f"{PAGE.name}:{number}", "exec"), {})  # noqa: S102


def test_the_complete_example_is_there():
    assert any("class OneFactor" in block for block in BLOCKS)
