"""The laws of others, the truths of intervals, and the whole of it on small tables."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.preprocessing import PolynomialFeatures

import dfi
from benchmarks import evidence, intervals

SIGNALS = {
    "linear": (
        1, 18, 21, 22, 28, 29, 31, 38, 45, 46, 48, 49, 51, 53, 64, 67, 73, 76, 80, 84, 88, 90, 91,
        92, 97,
    ),
    "poly": (2, 4, 5, 7, 10, 13, 17, 28, 36, 38, 42, 46),
    "masked_corr": (6,),
}  # fmt: skip
"""Where the authors' replicates with seed 41 have signal (their CSV files, columns tr_V)."""


@pytest.mark.parametrize("cell", list(SIGNALS))
def test_samples_are_those_of_the_published_replicates(cell):
    drawn = evidence.linear(41, 500) if cell == "linear" else evidence.semi_knockoff(cell, 41)
    assert tuple(np.flatnonzero(drawn[2])) == SIGNALS[cell]


def test_first_entries_of_a_published_importance():
    """Their LOCO of column 1, seed 41: losses of two lassos on their split of 70 to 30."""
    from sklearn.model_selection import train_test_split

    X, y, _ = evidence.linear(41, 500)
    rows, held, y_rows, y_held = train_test_split(X, y, test_size=0.3, random_state=41)
    others = np.arange(100) != 1
    losses = [
        np.mean((y_held - model.predict(part)) ** 2)
        for model, part in (
            (evidence.lasso().fit(rows, y_rows), held),
            (evidence.lasso().fit(rows[:, others], y_rows), held[:, others]),
        )
    ]
    assert losses[1] - losses[0] == pytest.approx(0.65724684, abs=1e-6)


@pytest.mark.parametrize("setting", evidence.SETTINGS)
def test_outcomes_depend_on_the_signals_alone(setting):
    X, y, signal = evidence.semi_knockoff(setting, 3, n=3000)
    assert X.shape == (3000, 50)
    columns = np.flatnonzero(signal)
    if setting == "poly":
        terms = evidence.cubic(X[:, columns])
    elif setting == "sinusoidal":
        terms = np.sin(X[:, columns])
    else:
        terms = X[:, columns]
    design = np.column_stack([np.ones(len(y)), terms])
    rest = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    spread = {"sinusoidal": 0.2, "masked_corr": 0.5}.get(setting, 1.0)
    freedom = 1 - design.shape[1] / len(y)
    assert rest.std() / np.sqrt(freedom) == pytest.approx(spread, rel=0.06)
    assert abs(np.corrcoef(rest, X[:, ~signal].sum(axis=1))[0, 1]) < 0.06


def test_a_masked_signal_has_a_near_copy_beside_it():
    X, _, signal = evidence.semi_knockoff("masked_corr", 7, n=2000)
    (j,) = np.flatnonzero(signal)
    assert np.std(X[:, j - 1] - X[:, j]) == pytest.approx(0.1, rel=0.1)


def test_noise_has_half_the_norm_of_the_signal():
    X, y, signal = evidence.linear(5, 400)
    mean = X[:, signal].sum(axis=1)
    assert signal.sum() == 25
    assert np.linalg.norm(y - mean) == pytest.approx(np.linalg.norm(mean) / 2)


def test_products_come_in_the_order_of_scikit_learn():
    X = np.random.default_rng(0).standard_normal((4, 5))
    twin = PolynomialFeatures(3, include_bias=False).fit_transform(X)
    np.testing.assert_allclose(evidence.cubic(X), twin)


SAMPLE = {
    "signal": [0, 1], "columns": 5, "kept": [0, 3],
    "pcm": {"p": [0.001, 0.2, 0.04, 0.03, 0.9], "score": [3.0, 1.0, 2.0, 2.5, 0.0]},
}  # fmt: skip


def test_figures_are_counted_by_hand():
    area, power, false = evidence.figures_of(SAMPLE, "pcm", by_score=True)
    assert (area, power, false) == pytest.approx((4 / 6, 1 / 2, 2 / 3))
    assert evidence.list_of(SAMPLE, SAMPLE["kept"]) == [0.5, 0.5]
    assert evidence.list_of(SAMPLE, []) == [0.0, 0.0]


def test_lists_show_what_was_run():
    tests = {"adjacent": {"41": SAMPLE, "42": SAMPLE}}
    lines = evidence.table_of_lists(tests, {})
    assert "keep" not in lines[0]
    assert "| adjacent | 2 | 0.50 (0.00) | 0.67 (0.00) |" in lines  # 0, 2 and 3 are selected
    both = evidence.table_of_lists(tests, {"adjacent": {"41": SAMPLE, "42": SAMPLE}})
    assert "| adjacent | 2 | 0.50 (0.00) | 0.67 (0.00) | 2 | 0.50 (0.00) | 0.50 (0.00) |" in both
    assert evidence.table_of_lists({}, {}) == ["(no samples yet)"]


def test_selection_is_that_of_select():
    X, y, _ = evidence.linear(2, 300, d=12)
    chosen = dfi.select(X, y, estimator="linear", random_state=2)
    sample = {"columns": 12, "pcm": {"p": chosen.result.test(adjust="none")["p"]}}
    assert {f"x{j}" for j in evidence.selected_of(sample)} == set(chosen.selected)


def test_a_run_goes_on_where_it_stopped(tmp_path):
    file, called = tmp_path / "cells.json", []

    def task(cell, seed):
        called.append((cell, seed))
        if len(called) == 3:
            raise KeyboardInterrupt
        return {"cell": cell, "seed": seed}

    with pytest.raises(KeyboardInterrupt):
        evidence.run(file, ("a", "b"), range(41, 43), task)
    assert called == [("a", 41), ("b", 41), ("a", 42)]
    known = evidence.run(file, ("a", "b"), range(41, 43), task)
    assert called[3:] == [("a", 42), ("b", 42)]
    assert known == json.loads(file.read_text())


def test_the_page_has_a_place_for_every_table(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(evidence.PAGE.read_text())
    parts = {name: [f"<{name}>"] for name in ("sobol", "semi", "lists", "intervals")}
    evidence.write_page(page, parts)
    assert all(f"<{name}>\n" in page.read_text() for name in parts)
    with pytest.raises(ValueError, match="no marks of 'unknown'"):
        evidence.write_page(page, {"unknown": []})


def test_page_keeps_tables_whose_samples_are_missing(tmp_path, monkeypatch, capsys):
    page = tmp_path / "page.md"
    page.write_text(evidence.PAGE.read_text())
    before = page.read_text()
    monkeypatch.setattr(evidence, "PAGE", page)
    evidence.main([str(tmp_path / "samples"), "--only", "--page"])
    assert page.read_text() == before
    assert "intervals: the page keeps its table" in capsys.readouterr().out


@pytest.mark.parametrize("cell", intervals.CELLS[:2])
def test_truths_of_intervals_hold_in_a_large_sample(cell):
    """Slow twins: a column drawn anew given the others, a latent coordinate drawn anew."""
    law = intervals.law_of(cell)
    truths = intervals.truths_of(law)
    rng = np.random.default_rng(1)
    X, R = law.draw(1, 200_000)[0], law.correlations
    values, vectors = np.linalg.eigh(R)
    root = vectors * np.sqrt(values) @ vectors.T
    Z, mean = np.linalg.solve(root, X.T).T, law.mean(X)
    latent = np.empty(intervals.D)
    for j in range(intervals.D):
        others = np.delete(np.arange(intervals.D), j)
        slopes = np.linalg.solve(R[np.ix_(others, others)], R[others, j])
        new = X.copy()
        new[:, j] = X[:, others] @ slopes + rng.standard_normal(len(X)) * np.sqrt(
            1 - R[j, others] @ slopes
        )
        lost = 0.5 * np.mean((mean - law.mean(new)) ** 2)
        assert lost == pytest.approx(truths["lost"][j], rel=0.03, abs=1e-9)
        new = Z.copy()
        new[:, j] = rng.standard_normal(len(Z))
        latent[j] = 0.5 * np.mean((mean - law.mean(new @ root)) ** 2)
    np.testing.assert_allclose(root**2 @ latent, truths["score"], rtol=0.03)
    np.testing.assert_allclose(truths["lost"] / (mean.var() + 1), truths["lost R2"], rtol=0.03)
    slopes = np.linalg.lstsq(X, mean, rcond=None)[0]
    np.testing.assert_allclose(slopes, truths["coefficient"], atol=0.02)


def test_shares_of_a_product_are_shapley_effects_of_latents():
    """Enumeration: half of a pair's variance to each coordinate, by regression on products."""
    law = intervals.law_of("product law")
    rng = np.random.default_rng(2)
    Z = rng.standard_normal((100_000, intervals.D))
    values, vectors = np.linalg.eigh(law.correlations)
    root = vectors * np.sqrt(values) @ vectors.T
    y = law.mean(Z @ root)
    parts = np.zeros(intervals.D)
    for j in range(intervals.D):
        parts[j] += np.mean(y * Z[:, j]) ** 2 + np.mean(y * (Z[:, j] ** 2 - 1)) ** 2 / 2
        for k in range(j):
            pair = np.mean(y * Z[:, j] * Z[:, k]) ** 2
            parts[[j, k]] += pair / 2
    parts = root**2 @ parts
    np.testing.assert_allclose(parts / parts.sum(), intervals.truths_of(law)["share"], atol=0.01)


def test_coverage_is_counted_apart_for_nulls():
    known = {"linear law, least squares": {"1": {"dfi, loco": [True, False, True, True, True]}}}
    line = intervals.table_of_intervals(known)[2]
    assert line.startswith("| dfi, loco | 0.67")
    assert "nulls 1.00" in line


@pytest.mark.full
def test_evidence_runs_through_on_small_tables(tmp_path, capsys):
    evidence.main([str(tmp_path), "--quick", "--seeds", "1", "--interval-seeds", "1", "--page"])
    told = capsys.readouterr().out
    assert "dfi pcm" in told
    assert "Semi-knockoffs, published" in told
    assert "dfi, shares" in told
    assert "no samples" not in told
    known = json.loads((tmp_path / "quick" / "tests.json").read_text())
    assert set(known) == set(evidence.CELLS)
