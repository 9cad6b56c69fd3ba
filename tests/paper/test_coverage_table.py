"""The coverage table: counts that add up, a page that says what its numbers say."""

import csv
import dataclasses
import re
from itertools import pairwise

import numpy as np
import pytest

import dfi
from dfi.transports import Semicontinuous
from paper import coverage_table, coverage_table_pages, truths
from paper.coverage import CoverageStudy
from paper.coverage_table import (
    AWARE,
    CORRELATIONS,
    EPSILONS,
    FAMILIES,
    INTERVALS,
    PLAIN,
    SAMPLE_SIZES,
    cover_block,
    coverage_tasks,
    published_factor,
)
from paper.coverage_table_cells import (
    NULLS_LABEL,
    Coverage,
    collect,
    judged,
    paper_coverage,
    select,
)
from paper.coverage_table_pages import write_table
from paper.coverage_table_words import findings
from paper.reproduction import Size


def made(family, rho, n, covered, count=100, **changes):
    """Return a record whose every interval covers a given share, the same for all features."""
    cells = [
        {
            "method": "DFI",
            "transport": "semicontinuous",
            "epsilon": 0.0,
            "interval": interval,
            "truth": [17.0, 8.0 if rho else 0.0, *[0.0] * 8],
            "hits": [covered * count] * 10,
            "null_shares": covered * count,
            "null_squares": covered**2 * count,
        }
        for interval in INTERVALS
    ]
    record = {"family": family, "rho": rho, "n": n, "count": count, "cells": cells}
    return {**record, **changes}


def whole_grid(covered=0.9):
    """Return a record for every cell of the grid and every family."""
    records = {
        f"{family}-{rho}-{n}": made(family, rho, n, covered)
        for family in FAMILIES
        for rho in CORRELATIONS
        for n in SAMPLE_SIZES
    }
    for record in records.values():
        if record["family"] == "linear-refit":
            for cell in record["cells"]:
                cell.update(method="LOCO", transport="")
        if record["family"] == "linear-bridge":
            for cell in record["cells"]:
                cell.update(transport="bridge", epsilon=1.0)
    return records


@pytest.fixture(scope="module")
def block():
    return cover_block("linear", 0.8, 250, 0, 4, 10)


def test_published_transport_multiplies_everything():
    # the reason why one run answers for every epsilon
    data = truths.m1(200, rho=0.8, random_state=3)
    found = dfi.sensitivity(
        data.X,
        data.y,
        transports=[Semicontinuous(epsilon=0.0), Semicontinuous(epsilon=1.0)],
        estimator="linear",
        diagnose=False,
    )
    whitened, published = found.values()
    factor = published_factor(1.0)
    np.testing.assert_allclose(published.scores, factor * whitened.scores, rtol=1e-9)
    np.testing.assert_allclose(published.se, factor * whitened.se, rtol=1e-9)
    truth = data.truth(transport="semicontinuous", epsilon=1.0)
    np.testing.assert_allclose(truth, factor * data.truth(), atol=1e-12)
    ours, theirs = (np.asarray(r.interval(0.9)["ci_low"], dtype=float) for r in found.values())
    np.testing.assert_allclose(theirs, factor * ours, atol=1e-12)


def test_block_counts_what_the_library_covers(block):
    # an independent count from the public interval
    hits = np.zeros(10)
    for k in range(4):
        data = coverage_table._sample(0.8, 250, 0, k)
        result = dfi.explain(
            data.X,
            data.y,
            estimator=coverage_table.LinearRegression(),
            transport=Semicontinuous(epsilon=0.0),
            random_state=k,
            diagnose=False,
        )
        interval = result.interval(0.9)
        truth = np.array([17.0, 8.0, *[0.0] * 8])
        hits += (np.asarray(interval["ci_low"]) <= truth) & (truth <= interval["ci_high"])
    cell = next(c for c in block["cells"] if c["interval"] == AWARE and c["epsilon"] == 0.0)
    np.testing.assert_array_equal(cell["hits"], hits)
    assert cell["null_shares"] == pytest.approx(hits[2:].sum() / 8)


def test_every_epsilon_covers_alike(block):
    by_epsilon = [
        [c["hits"].tolist() for c in block["cells"] if c["interval"] == PLAIN and c["epsilon"] == e]
        for e in EPSILONS
    ]
    assert all(first == second for first, second in pairwise(by_epsilon))


def test_oracle_block_uses_the_true_regression():
    data = coverage_table._sample(0.4, 100, 0, 0)
    np.testing.assert_allclose(data.regression.predict(data.X), 5.0 * data.X[:, 0])


def test_cells_have_samples_of_their_own():
    first, second = (coverage_table._sample(rho, 100, 0, 0).X for rho in (0.0, 0.4))
    assert np.abs(first[:, 5] - second[:, 5]).max() > 0.1


def test_bridge_is_judged_by_its_own_truth():
    record = cover_block("linear-bridge", 0.8, 500, 0, 1, 10)
    s = np.sqrt(1 + 1 / 16) - 0.25
    (truth,) = {tuple(np.round(c["truth"][:2], 9)) for c in record["cells"] if c["epsilon"] == 1.0}
    np.testing.assert_allclose(truth, s**4 * np.array([17.0, 8.0]), rtol=1e-8)


def test_refits_are_judged_by_their_own_truth():
    record = cover_block("linear-refit", 0.8, 250, 0, 2, 10)
    truths = {cell["method"]: cell["truth"][0] for cell in record["cells"]}
    assert truths["LOCO"] == pytest.approx(9.0)
    assert truths["nLOCO"] == pytest.approx(9.0 / 26.0)
    assert {cell["interval"] for cell in record["cells"]} == {PLAIN, "plain, expanded"}


def test_projected_intervals_cover_a_null_that_lies_above_them():
    below = CoverageStudy(
        truth=np.zeros(1),
        scores=np.full((1, 1), -1.0),
        se=np.full((1, 1), 0.1),
        plain_se=np.full((1, 1), 0.1),
        skewness=np.zeros((1, 1)),
        scale=np.ones(1),
    )
    assert below.covered()[0, 0]
    assert not below.covered(nonnegative=False)[0, 0]


@pytest.mark.parametrize("full", [False, True])
def test_tasks_are_blocks_of_every_family(full):
    tasks = coverage_tasks(Size(full=full))
    assert len({task.key for task in tasks}) == len(tasks) < 600
    counts = {}
    for task in tasks:
        options = task.arguments
        place = (options["family"], options["rho"], options["n"])
        counts[place] = counts.get(place, 0) + options["count"]
    wanted = {name: family.full if full else family.quick for name, family in FAMILIES.items()}
    assert all(count == wanted[family] for (family, _, _), count in counts.items())
    grid = {(rho, n) for rho in CORRELATIONS for n in SAMPLE_SIZES}
    assert {place[1:] for place in counts if place[0] == "linear"} == grid
    if full:
        assert min(counts[place] for place in counts if place[0] in ("linear", "oracle")) >= 300


def test_fewer_seeds_may_be_asked_for():
    tasks = coverage_tasks(Size(full=True, seeds=70))
    assert {task.arguments["count"] for task in tasks if "linear-rho" in task.key} == {50, 20}


def test_blocks_add_up():
    records = {
        "a": made("linear", 0.4, 250, 1.0, count=25),
        "b": made("linear", 0.4, 250, 0.0, count=75),
        "claim": {"family": "claim", "anything": 1},
    }
    row = select(collect(records), feature="X1", interval=AWARE)[0]
    assert (row.share, row.replications) == (0.25, 100)
    assert row.error == pytest.approx(np.sqrt(0.25 * 0.75 / 100))
    nulls = select(collect(records), feature=NULLS_LABEL, interval=AWARE)[0]
    assert nulls.error == pytest.approx(np.sqrt((0.25 - 0.25**2) / 100))


def test_paper_numbers():
    assert paper_coverage("DFI", 0.0, 0.4, 750) == 1.0
    assert paper_coverage("DFI", 0.001, 0.8, 250) == 0.939
    assert paper_coverage("nLOCO", 0.0, 0.0, 100) == 0.984
    assert paper_coverage("Shapley", 0.0, 0.0, 100) is None
    assert paper_coverage("LOCO", 0.0, 0.3, 100) is None


def test_judged_cells_are_non_null_and_large():
    rows = judged(collect(whole_grid()))
    assert {(row.rho, row.feature) for row in rows} == {
        (0.0, "X1"), (0.4, "X1"), (0.4, "X2"), (0.8, "X1"), (0.8, "X2"),
    }  # fmt: skip
    assert {row.n for row in rows} == {250, 500, 750}


def test_words_follow_the_numbers():
    inside = " ".join(findings(collect(whole_grid(0.9))))
    assert "every cell lies in the band" in inside
    records = whole_grid(0.9)
    records["linear-0.8-500"] = made("linear", 0.8, 500, 0.80)
    outside = " ".join(findings(collect(records)))
    assert "every cell lies in the band" not in outside
    assert "2 of them lie outside the band" in outside
    assert "X1 at ρ = 0.8, n = 500: 0.800, 2.0 Monte-Carlo errors outside" in outside


@pytest.mark.parametrize(("share", "beyond"), [(0.9, 0.0), (0.85, 1 / 3), (0.97, 1.0)])
def test_distance_from_the_band(share, beyond):
    row = Coverage("linear", "DFI", "", 0.0, 0.8, 250, AWARE, "X1", 17.0, share, 100, 0.03)
    assert row.beyond == pytest.approx(beyond)
    assert dataclasses.replace(row, transport="bridge", feature=NULLS_LABEL).paper is None


@pytest.mark.full
def test_everything_is_written(tmp_path):
    write_table(whole_grid(), tmp_path, Size())
    study = coverage_table_pages.COVERAGE_TABLE
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(study.files)
    page = (tmp_path / "table-coverage.md").read_text(encoding="utf-8")
    assert "| paper: DFI, ε = 0 | 0.942 | 0.968" in page
    for picture in re.findall(r"\]\(([^)]+\.png)\)", page):
        assert (tmp_path / picture).stat().st_size > 10_000
    with (tmp_path / "table-coverage.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    theirs = {row["paper"] for row in rows if row["n"] == "250" and row["rho"] == "0.8"}
    assert {"0.974", "0.971"} <= theirs
    assert all(float(row["coverage"]) == pytest.approx(0.9) for row in rows)


@pytest.mark.slow
def test_linear_non_null_coverage_lies_in_the_band():
    records = {
        f"{rho}-{n}": cover_block("linear", rho, n, 0, 300, 10)
        for rho in (0.4, 0.8)
        for n in (250, 500)
    }
    assert max(row.beyond for row in judged(collect(records))) < 2.0
