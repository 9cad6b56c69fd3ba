"""Pages of the site run as they stand, and what they show is what the code prints.

A block of text right after a block of Python is what that block prints. Its words are compared as
they are, its numbers to 5 % (standard errors, p-values and last digits depend a little on the
machine's arithmetic). After a change that is meant, write the outputs again with
``python tests/docs/test_pages.py``.
"""

import contextlib
import io
import os
import re
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import matplotlib as mpl
import pytest

import dfi

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    DOCS / "index.md",
    DOCS / "start.md",
    *sorted((DOCS / "howto").glob("*.md")),
    *sorted((DOCS / "concepts").glob("*.md")),
]
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"[-+]?(?:\d+(?:,\d{3})*\.?\d*|\.\d+)(?:e[-+]?\d+)?")
CLOSE, TINY = 0.05, 1e-6


def run(page, folder):
    """Return what each block of Python of a page prints, and the classes of dfi's warnings."""
    import matplotlib.pyplot as plt

    mpl.use("Agg")
    namespace, printed, given = {"__name__": "__main__"}, [], set()
    with contextlib.chdir(folder), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number, (code, _) in enumerate(BLOCK.findall(page.read_text())):
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(code, f"{page.name}, block {number + 1}", "exec"), namespace)  # noqa: S102
            printed.append(out.getvalue())
        plt.close("all")
        given = {
            w.category.__name__ for w in caught if issubclass(w.category, dfi.warnings.DFIWarning)
        }
    return printed, given


def same(shown, printed):
    """Whether two texts have the same words and close numbers, however they are spaced."""
    words = [NUMBER.sub("#", text).split() for text in (shown, printed)]
    if words[0] != words[1]:
        return False
    numbers = [
        [(found, value(found)) for found in NUMBER.findall(text)] for text in (shown, printed)
    ]
    return all(
        abs(a - b) <= CLOSE * max(abs(a), abs(b)) + max(last_digit(text), TINY)
        for (text, a), (_, b) in zip(*numbers, strict=True)
    )


def value(text):
    return float(text.replace(",", ""))


def last_digit(text):
    """Return one unit of the last digit that a number shows."""
    digits, _, power = text.lower().partition("e")
    decimals = len(digits.partition(".")[2])
    return 10.0 ** (int(power or 0) - decimals) if "." in digits else 0.0


@pytest.mark.full
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_page_runs_and_shows_what_it_prints(page, tmp_path):
    text = page.read_text()
    printed, given = run(page, tmp_path)
    for (code, shown), out in zip(BLOCK.findall(text), printed, strict=True):
        if shown or out:
            assert shown, f"{page.name} does not show what this prints:\n{code}\n{out}"
            assert same(shown, out), f"{page.name} shows\n{shown}\nand the code prints\n{out}"
    silent = {name for name in given if name not in text}
    assert not silent, f"{page.name} does not speak of {silent}, which its examples give"


def test_every_block_of_text_follows_what_prints_it():
    """A table in a page that nothing prints would not be checked: it is marked in another way."""
    for page in PAGES:
        text = page.read_text()
        assert text.count("\n```text\n") == sum(bool(shown) for _, shown in BLOCK.findall(text)), (
            page
        )


def test_numbers_that_differ_are_noticed():
    assert same("bmi  0.32  982", "bmi 0.32 970\n")
    assert same("p 1.2e-09", "p 1.21e-09")
    assert not same("bmi 0.32", "bmi 0.36")
    assert not same("bmi 0.32", "bp 0.32")
    assert not same("1 of 3", "2 of 3")


def fill(page):
    """Write what a page's blocks print below them, where it shows something there."""
    text = page.read_text()
    with tempfile.TemporaryDirectory() as folder:
        printed, given = run(page, folder)
        for picture in Path(folder).glob("*.png"):
            if f"images/{picture.name}" in text:
                shutil.copy(picture, DOCS / "images" / picture.name)
    outputs = iter(printed)

    def block(match):
        out = next(outputs)
        shown = f"\n```text\n{out.rstrip()}\n```\n" if out.strip() else ""
        return f"```python\n{match.group(1)}```\n{shown}"

    page.write_text(BLOCK.sub(block, text))
    sys.stdout.write(f"{page.relative_to(ROOT)}: warnings {sorted(given)}\n")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    wanted = sys.argv[1:]
    for each in PAGES:
        if not wanted or any(name in each.as_posix() for name in wanted):
            fill(each)
