"""HIV-1 with groups as units: the study on a small table, and its leaders on the data."""

from __future__ import annotations

import csv
import os
import re
from pathlib import Path

import numpy as np
import pytest

import dfi
from paper import hiv, hiv_groups, hiv_groups_page
from paper.reproduction import Size, reproduce
from tests.paper.test_hiv import GROUPS, POSITIONS, small_table


@pytest.fixture
def small(monkeypatch):
    """Read the small table wherever the study reads the HIV-1 data, and grow small forests."""
    for module in (hiv, hiv_groups):
        monkeypatch.setattr(module, "read_hiv", small_table)
    monkeypatch.setattr(Size, "trees", lambda *_, **__: 10)


def test_a_split_has_both_scores_of_the_same_models():
    data = small_table()
    y = hiv.standardized(data.y)
    record = hiv_groups.explain_groups(data.X, y, POSITIONS, trees=15, random_state=0)
    joint = dfi.explain(
        data.X, y, hiv_groups.forest(15), feature_groups=POSITIONS, units="groups", n_repeats=1,
        diagnose=False, transport_error="ignore",
    )  # fmt: skip
    np.testing.assert_array_equal(record["joint"], joint.scores)
    np.testing.assert_allclose(record["influence"]["joint"].mean(axis=0), joint.scores, atol=1e-8)
    assert np.sum(record["shapley"]) == pytest.approx(record["total"])
    assert record["flow"].shape == (len(GROUPS), len(GROUPS))


def test_errors_of_several_splits_have_both_parts():
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((3, 40, 2))
    records = tuple(
        {"joint": values.mean(axis=0), "influence": {"joint": values}} for values in rows
    )
    splits = hiv_groups_page.GroupSplits("sens50", "joint", records)
    pooled, scores = rows.mean(axis=0), rows.mean(axis=1)
    expected = pooled.var(axis=0, ddof=1) / 40 + scores.var(axis=0, ddof=1) / 3
    np.testing.assert_allclose(splits.error**2, expected)
    np.testing.assert_array_equal(splits.ranks(), 1 + (scores < scores[:, ::-1]))


@pytest.mark.full
def test_study_writes_its_files(small, tmp_path):
    study = hiv_groups_page.HIV_GROUPS
    reproduce(study, tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_file()) == sorted(study.files)
    with (tmp_path / "hiv-groups.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 2 * 2 * len(GROUPS)
    page = (tmp_path / "hiv-groups.md").read_text()
    assert page.count("met") + page.count("missed") >= 4
    assert "2 fake groups" in page
    assert page.count("Verdict: **") == 2
    sums = [float(found) for found in re.findall(r"sum of shares (\d+\.\d+)", page)]
    assert len(sums) == 2
    assert all(0.7 < found < 1.5 for found in sums)


def test_missing_data_are_missed_before_anything_is_fitted(tmp_path):
    with pytest.raises(ValueError, match="HIV"):
        hiv_groups.group_tasks(Size(data=str(tmp_path / "nowhere")))


@pytest.mark.filterwarnings("ignore::dfi.warnings.InferenceWarning")
@pytest.mark.skipif(
    not Path(os.environ.get("DFI_DATA", "nowhere"), "hiv").is_dir(),
    reason="DFI_DATA names no folder of the data",
)
@pytest.mark.parametrize("outcome", hiv.OUTCOMES)
@pytest.mark.full
def test_the_binding_sites_lead(outcome):
    data = hiv.read_hiv(outcome, None)
    result = dfi.explain(
        data.X, hiv.standardized(data.y), hiv_groups.forest(50), feature_groups=data.positions,
        units="groups", n_repeats=1, diagnose=False, transport_error="ignore",
    )  # fmt: skip
    order = np.argsort(-result.scores)
    assert {result.names[k] for k in order[:2]} == {"vrc01", "cd4bs"}
    assert np.all((result.scores / result.se)[order[:2]] > 4)
