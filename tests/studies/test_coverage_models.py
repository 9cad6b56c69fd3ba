"""The truths of the coverage study: closed forms, integration along lines and the library agree."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import dfi
from benchmarks import coverage_models, coverage_page, coverage_study

FIGURES = Path(__file__).parents[2] / "docs" / "coverage.json"
NAMES = [model.name for model in coverage_models.MODELS]


def test_integration_along_lines_finds_the_closed_form_of_the_smooth_model():
    truth = coverage_models.smooth_closed_form(coverage_models.SMOOTH)
    found, errors = coverage_models.line_truth(
        coverage_models.SMOOTH, coverage_models.smooth, points=2**10, batches=4
    )
    np.testing.assert_allclose(found, truth, atol=4 * errors.max() + 1e-12)
    assert errors.max() < 2e-3


def test_integration_along_lines_finds_the_closed_form_of_a_product():
    regression = coverage_models.LinearAndProduct(np.array([1.0, 0.0, 0.5]), (0, 1), 0.8)
    correlation = coverage_models.autoregressive(3, 0.6)
    truth, _ = regression.truth(correlation)
    found, errors = coverage_models.line_truth(correlation, regression, points=2**10, batches=4)
    np.testing.assert_allclose(found, truth, atol=4 * errors.max())


@pytest.mark.parametrize("name", ["smooth", "linear", "steps"])
def test_the_library_finds_the_truth_of_a_model_on_many_rows(name):
    """Rows of a Sobol sequence have less noise: 1 % of the total tells a wrong truth."""
    model = coverage_models.by_name(name)
    rows = stats.qmc.Sobol(len(model.features), rng=np.random.default_rng(0)).random_base2(14)
    X = stats.norm.ppf(np.clip(rows, 1e-12, 1 - 1e-12)) @ model.draw.root
    result = dfi.explain(
        X, model.regression(X), model.regression, cv="prefit", transport_error="ignore",
        diagnose=False,
    )  # fmt: skip
    truth = np.array(json.loads(FIGURES.read_text())["truths"][name]["scores"])
    np.testing.assert_allclose(result.scores, truth, atol=0.01 * truth.sum())


@pytest.mark.parametrize("name", NAMES)
def test_a_model_is_what_it_says(name):
    """Names and nulls fit the table, samples depend on names only, R2 is as asked."""
    model = coverage_models.by_name(name)
    first, again = (model.draw(50, model.generator(50, 3)) for _ in range(2))
    np.testing.assert_array_equal(first.y, again.y)
    assert first.X.shape == (50, len(model.features))
    assert set(model.nulls) < set(model.features)
    np.testing.assert_allclose(model.regression(first.X), first.mean)
    assert 0.58 < model.best_r2(50_000) < 0.78
    truth = json.loads(FIGURES.read_text())["truths"][name]
    scores = np.array(truth["scores"])
    np.testing.assert_array_equal(scores > 0, model.non_null)
    assert np.max(truth["errors"]) < 0.01 * scores.max()


def test_the_regression_of_rows_with_gaps_is_the_mean_of_what_they_hide():
    """Averages of the outcome over rows equal those of the regression, in every pattern."""
    sample = coverage_models.smooth_with_gaps(200_000, np.random.default_rng(1))
    gone = sample.X.isna().to_numpy()[:, :2] @ [1, 2]
    seen = sample.X["x2"].to_numpy()
    for pattern in range(4):
        for rows in ((gone == pattern) & (seen > 0.5), (gone == pattern) & (seen < -0.5)):
            residual = (sample.y - sample.mean)[rows]
            assert abs(residual.mean()) < 4 * residual.std() / np.sqrt(rows.sum())


def test_figures_of_a_cell_and_the_page_that_shows_them(tmp_path):
    model = coverage_models.by_name("smooth")
    truth = {"scores": [1.0, 1.0, 1.0, 0.5, 0.0, 0.0], "errors": [0.0] * 6, "best_r2": 0.7}
    row = {
        "scores": [1.1, 0.9, 1.0, 0.5, 0.0, 0.0], "se": [0.1] * 6,
        "low": [0.9] * 3 + [0.6, 0.0, 0.0],
        "high": [1.2] * 3 + [0.7, 0.1, 0.1], "p": [0.0, 0.0, 0.0, 0.0, 0.01, 0.5], "r2": 0.6,
        "seconds": 2.0, "warnings": [], "diagnostics": {"alarms.count": 1, "totals.low": True},
    }  # fmt: skip
    rows = [row, {**row, "scores": [1.3, *row["scores"][1:]], "diagnostics": {}}]
    cell = {**coverage_study.summarise(model, truth, rows), "code": "tested"}
    assert cell["coverage"] == 0.75
    assert cell["features"]["x3"]["covers"] == 0.0
    assert cell["features"]["x0"]["ratio"] == pytest.approx(1.2)
    assert cell["null_rejected"] == 0.5
    assert cell["flags"] == {"alarms": 0.5, "totals.low": 0.5}
    page = tmp_path / "coverage.md"
    known = {
        "truths": {"smooth": truth}, "cells": {"smooth, n = 500": cell}, "oracle": {}, "paper": {}
    }  # fmt: skip
    known["cells"] = coverage_study.shortened(known["cells"])  # as the file has them: None for NaN
    coverage_page.write_page(page, known, coverage_models.MODELS, [])
    text = page.read_text()
    assert (
        "| smooth | 500 | 2 | 0.750 (0.000) | x3 0.00 | - | 0.500 (0.000) | 0.60 (0.70) |" in text
    )
    assert "| no single feature covers less than 0.75 | no | x3 of smooth, n = 500 (0.00) |" in text


def test_a_sample_that_was_cut_short_is_drawn_again(tmp_path):
    file = tmp_path / "cell.jsonl"
    file.write_text('\n{"number": 0, "r2": 1.0}\n{"number": 1, "r')
    assert list(coverage_study.kept_samples(file)) == [0]
