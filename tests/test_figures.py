"""Pages and README say the figures of the studies and benchmarks that they cite."""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
COVERAGE = json.loads((DOCS / "coverage.json").read_text())
BENCHMARKS = json.loads((DOCS / "benchmarks.json").read_text())["methods"]
INTERVALS = DOCS / "concepts" / "intervals.md"
SIZES = (250, 500, 1000)


def coverage_table():
    """Return the measured coverage by model and rows, as the page on intervals shows it."""
    known = {}
    for key, cell in COVERAGE["cells"].items():
        model, _, rows = key.rpartition(", n = ")
        known.setdefault(model, {})[int(rows)] = cell
    lines = ["| model | " + " | ".join(f"{n} rows" for n in SIZES) + " |", "|---" * 4 + "|"]
    for model in sorted(known):
        cells = [known[model].get(n) for n in SIZES]
        shown = [f"{c['coverage']:.2f} ({c['coverage_error']:.2f})" if c else "-" for c in cells]
        lines.append(f"| {model} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def between(text):
    return re.search(r"<!-- coverage:begin -->\n(.*?)\n?<!-- coverage:end -->", text, re.DOTALL)


def ratios(method, case=""):
    return [
        entry["ratio"]
        for entry in BENCHMARKS
        if entry["method"].startswith(method) and case in entry["case"]
    ]


def said(pattern, text):
    """Return the numbers of a sentence, which must be there."""
    found = re.search(pattern, " ".join(text.split()))
    assert found, f"the sentence is gone: {pattern}"
    return [float(number.replace(",", "")) for number in found.groups()]


def test_page_on_intervals_has_the_coverage_that_was_measured():
    assert between(INTERVALS.read_text()).group(1) == coverage_table()


def test_page_on_intervals_tells_the_range_at_250_rows():
    cells = [c["coverage"] for key, c in COVERAGE["cells"].items() if key.endswith("n = 250")]
    low, high = said(
        r"\.90 at 250 rows: (\.\d+) to (\.\d+) was measured there", INTERVALS.read_text()
    )
    assert (low, high) == (round(min(cells), 2), round(max(cells), 2))


def test_readme_says_the_ratios_of_the_benchmarks():
    text = (ROOT / "README.md").read_text()
    low, high = said(r"(\d+) to (\d+) times cheaper than `fdfi`", text)
    measured = ratios("fdfi")
    assert (low, high) == (round(min(measured)), round(max(measured)))
    low, high = said(r"boosted models (\d+) to (\d+) times cheaper than 50 draws", text)
    wide = ratios("50 draws", "832 binary") + ratios("50 draws", "LightGBM")
    assert (low, high) == (round(min(wide)), round(max(wide)))
    forests = ratios("fit the forests")
    assert all(1 / 5.5 < 1 / ratio < 1 / 3 for ratio in forests), "a fifth to a third of the fits"
    assert "for a fifth to a third of what it costs to fit them" in " ".join(text.split())


def test_lowest_coverage_without_the_transport_is_the_papers_page():
    """39 % is said in four places, and measured in what-holds."""
    page = (DOCS / "paper" / "what-holds.md").read_text() + (DOCS / "method.md").read_text()
    assert "39 %" in page
    for path in (ROOT / "README.md", INTERVALS):
        assert said(r"cover as little as (\d+) %", path.read_text()) == [39.0], path


def test_readme_says_the_memory_of_the_page_on_scale():
    text, scale = (ROOT / "README.md").read_text(), (DOCS / "scale.md").read_text()
    (peak,) = said(r"peak at ([\d.]+) GiB above the table", text)
    (measured,) = said(r"\*\*([\d.]+) GiB above the table at the peak\*\*", scale)
    assert peak == round(measured, 1)
    assert said(r"the result is a file of ([\d.]+) MB\.", text) == said(
        r"the result is a file of ([\d.]+) MB", scale
    )


def test_answer_in_words_is_that_of_the_table():
    text = (ROOT / "README.md").read_text()
    rows = re.findall(r"^\d +(\w+) +([\d.]+) +([\d.]+) +([\d.]+)", text, re.MULTILINE)
    shares = {name: float(share) for name, share, _, _ in rows}
    bmi, s5, bp = said(
        r"(\d+) % is expressed through body mass \(`bmi`\), (\d+) % through `s5`, (\d+) % through "
        r"blood pressure", text,
    )  # fmt: skip
    assert [shares["bmi"], shares["s5"], shares["bp"]] == [bmi / 100, s5 / 100, bp / 100]
    score, error = said(
        r"`bmi` expresses (\d+) of the outcome's variance of 5930, give or take (\d+)", text
    )
    assert [round(float(x)) for x in rows[0][2:]] == [score, error]


def test_pages_of_figures_are_those_of_their_records():
    page = (DOCS / "nulls.md").read_text()
    for line in json.loads((DOCS / "nulls.json").read_text()).values():
        assert line in page
    page = (DOCS / "benchmarks.md").read_text()
    for entry in BENCHMARKS:
        section = page.split(f"## {entry['case']}\n", 1)[1].split("\n## ", 1)[0]
        assert f"| {entry['method']} | {entry['cpu']:.2f} | {entry['ratio']:.1f} |" in section


if __name__ == "__main__":
    before = INTERVALS.read_text()
    match = between(before)
    table = f"<!-- coverage:begin -->\n{coverage_table()}\n<!-- coverage:end -->"
    sys.exit(INTERVALS.write_text(before[: match.start()] + table + before[match.end() :]) and 0)
