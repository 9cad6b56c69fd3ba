"""The study of real tables in parts: what is set aside, and how its figures are made."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import dfi
from benchmarks import coverage_page, coverage_study, real_parts


def part(scores, half_width, verdict, shift=0.0):
    scores = np.asarray(scores, dtype=float)
    return {
        "table": "made", "score": scores.tolist(), "se": [0.5] * len(scores),
        "ci_low": (scores - half_width).tolist(), "ci_high": (scores + half_width).tolist(),
        "share": (scores / 10 + shift).tolist(), "share_se": [0.03] * len(scores),
        "share_low": (scores / 10 + shift - 0.06).tolist(),
        "share_high": (scores / 10 + shift + 0.06).tolist(),
        "explainable": 10.0, "r2": 0.5, "verdict": verdict, "warnings": [], "seconds": 2.0,
    }  # fmt: skip


REFERENCE = part([4.0, 2.0, 0.01], 1.0, "sound")
PARTS = [part([3.5, 2.5, 9.0], 1.0, "sound"), part([2.5, 2.5, 9.0], 1.0, "with care", shift=0.1)]


def test_about_half_of_the_tables_are_set_aside_and_none_that_was_seen():
    assert len({table.item for table in real_parts.TABLES}) == len(real_parts.TABLES)
    halves = {half: [] for half in real_parts.HALVES}
    for table in real_parts.TABLES:
        halves[real_parts.half_of(table)].append(table)
    for tables in halves.values():
        assert {table.kind for table in tables} == {"numbers", "classes", "counts"}
        assert len(tables) >= 12
    seen = {table.item for table in halves["development"]}
    assert seen.issuperset(real_parts.SEEN)
    assert 0.4 < 1 - len(seen) / len(real_parts.TABLES) < 0.6


def test_figures_are_those_of_the_scores_that_matter():
    found = real_parts.summarise(REFERENCE, PARTS)
    assert found["features"] == 2
    assert found["covers"] == pytest.approx((1.0 + 0.5) / 2)
    assert found["covers_error"] == pytest.approx(0.25)
    assert found["shares_cover"] == pytest.approx(0.75)
    # x0: 3.5 and 2.5 for 4; x1: 2.5 and 2.5 for 2
    assert found["sd_over_se"] == pytest.approx(np.mean([np.sqrt(0.5) / 0.5, 0.0]))
    assert found["bias_over_se"] == pytest.approx(np.mean([-1.0 / 0.5, 0.5 / 0.5]))
    assert found["width"] == pytest.approx(np.mean([2.0 / 4.0, 2.0 / 2.0]))
    assert found["share_width"] == pytest.approx(0.12)
    # a reference with the error of a part: 1.645 / sqrt(2) standard deviations
    assert found["best"] == pytest.approx(0.7552, abs=1e-4)
    assert found["shares_best"] == pytest.approx(0.7552, abs=1e-4)
    assert found["sums_off"] == pytest.approx(abs(1.4 + 0.3 - 1.0))
    assert found["verdicts"]["sound"] == {"parts": 1, "covers": 1.0, "shares_cover": 1.0}


def test_parts_without_intervals_of_shares_are_not_counted():
    none = [float("nan")] * 3
    parts = [PARTS[0], {**PARTS[1], "share_low": none, "share_high": none}]
    found = real_parts.summarise(REFERENCE, parts)
    assert found["shares_cover"] == 1.0
    assert found["without_shares"] == 0.5
    lost = {"half": "held-out", "rows": 300, **real_parts.summarise(REFERENCE, parts[1:] * 2)}
    line = coverage_page.real_lines(coverage_study.shortened({"a, 300 rows": lost}), mean=True)
    assert "| 0.50 (0.00) | - |" in line


def test_a_table_without_a_score_that_matters_is_refused():
    with pytest.raises(ValueError, match="no score of made is large enough"):
        real_parts.summarise(part([0.01], 1.0, None), PARTS)


def test_lines_count_every_sound_part_once_and_put_the_last_run_first():
    found = real_parts.summarise(REFERENCE, PARTS)
    more = {**found, "verdicts": {"sound": {"parts": 3, "covers": 0.6, "shares_cover": 0.4}}}
    cells = {
        f"{name}, 300 rows": {"half": half, "rows": 300, **cell}
        for name, half, cell in (
            ("a", "development", found), ("b", "held-out", found), ("c", "held-out", more),
            ("d", "fresh", found),
        )
    }  # fmt: skip
    head, _, *lines = coverage_page.real_lines(cells, mean=True).splitlines()
    assert [line.split(" | ")[0][2:] for line in lines] == [
        "d", "**all 1, fresh**", "b", "c", "**all 2, held-out**", "a", "**all 1, development**",
    ]  # fmt: skip
    assert "| 4, 0.70, 0.55 |" in lines[4]
    assert all(line.count("|") == head.count("|") for line in lines)


def test_a_part_is_kept_with_its_verdict():
    rows = dfi.datasets.m1(120, d=3, random_state=0)
    X, y = pd.DataFrame(rows.X, columns=["a", "b", "c"]), pd.Series(rows.y)
    found = json.loads(json.dumps(real_parts.explain_rows(X, y, "linear"), default=dict))
    assert found["verdict"] in ("sound", "with care", "do not rely on it")
    assert len(found["score"]) == len(found["share_low"]) == 3
    assert found["explainable"] == pytest.approx(y.var(), rel=0.02)


def test_parts_that_were_measured_are_not_measured_again(tmp_path, monkeypatch):
    calls = []

    def explained(X, y, learner):
        calls.append(len(X))
        return part([1.0], 1.0, None)

    monkeypatch.setattr(real_parts, "explain_rows", explained)
    table = real_parts.TABLES[0]
    real_parts.run_table(table, 300, 2, folder=tmp_path, learner="auto")
    assert calls == [5000, 300, 300]
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text() + '\n{"rows": 300, "part"')  # as where it was interrupted
    reference, parts = real_parts.run_table(table, 300, 3, folder=tmp_path, learner="auto")
    assert calls == [5000, 300, 300, 300]
    assert reference["rows"] == 5000
    assert [found["part"] for found in parts] == [0, 1, 2]
