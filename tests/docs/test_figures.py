"""Pages and README say the figures of the studies and benchmarks that they cite.

Studies write coverage, nulls and benchmarks with a record of their own; everything else that was
measured has one in ``docs/records`` (``benchmarks/records.py`` says how it comes there).
"""

import json
import re
import sys
from pathlib import Path

import pytest

from benchmarks import coverage_models, coverage_page, coverage_study, null_study, records

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
COVERAGE = json.loads((DOCS / "coverage.json").read_text())
BENCHED = json.loads((DOCS / "benchmarks.json").read_text())
BENCHMARKS = BENCHED["methods"]
RECORDS = records.read()
INTERVALS = DOCS / "concepts" / "intervals.md"
EVIDENCE = DOCS / "evidence" / "index.md"
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


def test_evidence_says_the_ratios_of_the_benchmarks():
    text = EVIDENCE.read_text()
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
    page = (DOCS / "paper" / "what-holds.md").read_text() + (DOCS / "limits.md").read_text()
    assert "39 %" in page
    for path in (EVIDENCE, INTERVALS):
        assert said(r"cover as little as (\d+) %", path.read_text()) == [39.0], path


def test_evidence_says_the_memory_of_the_page_on_scale():
    text, scale = EVIDENCE.read_text(), (DOCS / "scale.md").read_text()
    (peak,) = said(r"peak at ([\d.]+) GiB above the table", text)
    (measured,) = said(r"\*\*([\d.]+) GiB above the table at the peak\*\*", scale)
    assert peak == round(measured, 1)
    assert said(r"the result is a file of ([\d.]+) MB\.", text) == said(
        r"the result is a file of ([\d.]+) MB", scale
    )


def test_answer_in_words_is_that_of_the_table():
    text = (ROOT / "README.md").read_text()
    row = re.compile(
        r"^(\w+) +([\d.]+) \(([\d.]+) to ([\d.]+)\) +(\d+) \(.*?\) +(\d+) ", re.MULTILINE
    )
    shown = {name: [float(cell) for cell in cells] for name, *cells in row.findall(text)}
    told = said(
        r"Body mass \(`bmi`\) accounts for (\d+) % of the explained variance, `s5` for (\d+) %, "
        r"blood pressure for (\d+) %", text,
    )  # fmt: skip
    assert told == [round(100 * shown[name][0]) for name in ("bmi", "s5", "bp")]
    ends = said(r"the interval of `bmi` runs from (\d+) % to (\d+) %", text)
    assert ends == [round(100 * share) for share in shown["bmi"][1:3]]


def test_first_page_says_in_words_what_it_prints():
    text = (DOCS / "index.md").read_text()
    shown = dict(re.findall(r"^ +(bmi|s5|bp) +0\.(\d+) ", text, re.MULTILINE))
    told = said(
        r"\*\*Body mass accounts for (\d+) % of the explained variance\*\* \(24 to 40 %\)\. A "
        r"serum measurement \((\d+) %\) and blood pressure \((\d+) %\) follow", text,
    )  # fmt: skip
    assert told == [float(shown[name]) for name in ("bmi", "s5", "bp")]


def test_page_on_coverage_is_that_of_its_record(tmp_path):
    page, cells = tmp_path / "coverage.md", [cell.name for cell in coverage_study.PAPER_CELLS]
    written = (DOCS / "coverage.md").read_text()
    page.write_text(written)  # what other studies say there stays, and has records of its own
    coverage_page.write_page(page, COVERAGE, coverage_models.MODELS, cells)
    assert page.read_text() == written


def test_page_on_nulls_is_that_of_its_record(tmp_path, monkeypatch):
    known = json.loads((DOCS / "nulls.json").read_text())
    for name in ("PAGE", "FIGURES"):
        monkeypatch.setattr(null_study, name, tmp_path / name)
    null_study.write_page(known)
    assert (tmp_path / "PAGE").read_text() == (DOCS / "nulls.md").read_text()


def test_page_of_benchmarks_is_that_of_its_record():
    page = (DOCS / "benchmarks.md").read_text()
    for entry in BENCHMARKS:
        section = page.split(f"## {entry['case']}\n", 1)[1].split("\n## ", 1)[0]
        assert f"| {entry['method']} | {entry['cpu']:.2f} | {entry['ratio']:.1f} |" in section
    for name, (wall, cpu) in BENCHED["first call"].items():
        assert f"| {name} | {wall:.2f} | {cpu:.2f} |" in page
    for axis, points in BENCHED["growth"].items():
        for size, seconds, memory in points:
            assert f"| {axis} | {size} | {seconds:.2f} | {1000 * memory:.2f} |" in page


def record_names():
    return [(page, name) for page, known in RECORDS.items() for name in known]


@pytest.mark.parametrize(("page", "name"), record_names(), ids=lambda given: given)
def test_a_page_says_what_was_recorded(page, name):
    text, entry = records.path_of(page).read_text(), RECORDS[page][name]
    mend = f"measured again? python -m benchmarks.records take {page} {name} (see its --help)"
    if "table" in entry:
        assert records.table_of(text, name) == entry["table"], mend
    else:
        assert records.numbers_of(text, entry["paragraph"]) == entry["numbers"], mend
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", entry["date"])
    assert re.fullmatch(r"[0-9a-f]{9}", entry["commit"])
    named = re.search(r"(?:benchmarks|tests)/[\w/]+\.py", entry["command"])
    assert named is None or (ROOT / named.group()).is_file(), f"{named} is gone"


def test_the_page_of_records_has_them_all():
    assert records.PAGE.read_text() == records.page(), "python -m benchmarks.records writes it"


WRITTEN = ("coverage", "nulls", "benchmarks", "evidence/how-it-compares")
"""Pages that a study writes, with a record of its own."""

NOT_MEASURED = {
    "cli": "option", "completeness": "", "concepts/intervals": "", "datasets": "function",
    "estimator": "member", "limits": "the paper",
    "dependencies": "package", "howto/classes-and-counts": "outcome", "howto/trust": "kind",
    "release": "Python", "howto/raw-tables": "the column",
}  # fmt: skip
"""Tables with decimals that are limits, versions or formulas, by the first word of their head."""

MEASURED = re.compile(
    r"\bsamples\b|Monte-Carlo|\bMC error|\bCPU\b|[Mm]easured|replications|\bcover(?:s|ed)?\b"
)
DECIMAL = re.compile(r"(?<![\w.])\.\d|\d\.\d|\d %|\d (?:GiB|MB)")
ELSEWHERE = {
    "evidence/index": ["**Intervals that cover.**", "**As many rows as the answer needs.**"],
    "change": ["alpha¹ is the Riesz"],
    "concepts/intervals": ["**The transport** is estimated too", "Measured on simulations"],
    "estimator": ["How often the sets hold"],
    "formulas": ["Gamma comes from central", "Measured with the true"],
    "note/index": ["The terms agree with derivatives", "The sample correlation of independent"],
    "comparators": ["Measured on M1", "Beside hidimstat 0.4"],
    "effects": ["The difference of two fitted regressions"],
    "local": ["How steady it is"],
    "outcomes": ["Calls on public tables"],
    "transports": ["`python benchmarks/entropic.py` times", "The five largest scores"],
    "units": ["How often intervals cover", "Eight units of 20"],
}
"""Paragraphs that speak of what was measured and lead to a table, a page or a test that has it."""


def pages():
    """Yield the pages that people wrote, by name."""
    yield "README", (ROOT / "README.md").read_text()
    for path in sorted(DOCS.rglob("*.md")):
        name = path.relative_to(DOCS).with_suffix("").as_posix()
        made = name.partition("/")[0] in ("paper", "project", "gallery") or path == records.PAGE
        if not made and name not in WRITTEN:
            yield name, path.read_text()


def test_every_table_that_was_measured_has_a_record():
    loose = []
    for name, text in pages():
        for mark, (head, *rows) in records.tables(text):
            figures = any(re.search(r"(?<![\w.`])\d*\.\d", " ".join(row)) for row in rows)
            told = head[0].startswith(NOT_MEASURED.get(name, "?"))
            if figures and mark is None and not told:
                loose.append(f"{name}: {' | '.join(head)}")
    assert not loose, f"take a record of each (benchmarks/records.py): {loose}"


def test_every_paragraph_that_tells_a_measurement_has_a_record():
    loose = []
    for name, text in pages():
        entries = RECORDS.get(name, {}).values()
        known = [entry["paragraph"] for entry in entries if "paragraph" in entry]
        known += [prefix + words for words in ELSEWHERE.get(name, []) for prefix in ("", "- ")]
        for each in records.paragraphs(text):
            measured = MEASURED.search(each) and DECIMAL.search(each)
            if measured and not each.startswith(tuple(known)):
                loose.append(f"{name}: {each[:60]}")
    assert not loose, f"take a record of each (benchmarks/records.py): {loose}"


def test_page_on_the_method_says_what_the_page_on_nulls_does():
    known = json.loads((DOCS / "nulls.json").read_text())
    rows = [row.split("|") for row in known.values() if row.startswith("| 0.1 | 20 |")]
    shown = said(
        r"nominal 90 %: (\.\d+) of three signals and (\.\d+) of the others at n = 300, (\.\d+) and "
        r"(\.\d+) at n = 600", (DOCS / "formulas.md").read_text(),
    )  # fmt: skip
    assert shown == [round(float(row[k]), 2) for row in rows for k in (5, 7)]


if __name__ == "__main__":
    before = INTERVALS.read_text()
    match = between(before)
    table = f"<!-- coverage:begin -->\n{coverage_table()}\n<!-- coverage:end -->"
    sys.exit(INTERVALS.write_text(before[: match.start()] + table + before[match.end() :]) and 0)
