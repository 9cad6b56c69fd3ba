"""The HIV-1 analysis: significance readings, flows, figures and files, on a small table."""

from __future__ import annotations

import csv
import math
import os
from pathlib import Path
from statistics import NormalDist
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from sklearn.ensemble import RandomForestRegressor

from dfi import DFI
from dfi.transports.gaussian import Semicontinuous
from dfi.warnings import WeakModelWarning
from paper import hiv, hiv_epsilon, hiv_figures, hiv_page
from paper.reproduction import Size, reproduce

ROWS, COLUMNS = 90, 8
GROUPS = {
    "strong": ["c0", "c1", "c2"],
    "shared": ["c2", "c3"],
    "weak": ["c4", "c5"],
    "noise": ["c6", "c7"],
}
POSITIONS = {name: [int(column[1:]) for column in columns] for name, columns in GROUPS.items()}


def small_table(outcome="sens50", data=None):
    """Return a table like the HIV-1 data: columns of 0 and 1, overlapping groups."""
    del data
    generator = np.random.default_rng(3 if outcome == "sens50" else 4)
    common = generator.standard_normal((ROWS, 1))
    matrix = (0.7 * common + generator.standard_normal((ROWS, COLUMNS)) > 0).astype(float)
    signal = 2.0 * matrix[:, 0] + matrix[:, 2] + 0.4 * matrix[:, 4] - 1.6
    y = (signal + 0.5 * generator.standard_normal(ROWS) > 0).astype(float)
    return SimpleNamespace(
        X=matrix,
        y=y,
        names=tuple(f"c{j}" for j in range(COLUMNS)),
        groups=GROUPS,
        positions=POSITIONS,
        descriptions={name: f"Sites of the {name} kind" for name in GROUPS},
    )


@pytest.fixture
def small(monkeypatch):
    """Read the small table wherever the studies read the HIV-1 data."""
    for module in (hiv, hiv_epsilon):
        monkeypatch.setattr(module, "read_hiv", small_table)
    for study in (hiv_page.HIV, hiv_epsilon.HIV_EPSILON):
        assert study.tasks(Size())


def explain_small(estimator, seed=0):
    data = small_table()
    return hiv.explain_table(
        data.X, hiv.standardized(data.y), POSITIONS, estimator=estimator, trees=15, seed=seed
    )


def slow_count(scores, se, n, tests):
    """Count by p-values, one score at a time."""
    normal = NormalDist()
    amount = 1.0 / (math.sqrt(n) * normal.inv_cdf(0.95))
    found = {}
    for reading in hiv.READINGS:
        found[reading] = 0
        for score, error in zip(scores, se, strict=True):
            variance = error**2
            if reading == "standard error":
                variance = (error + amount) ** 2
            elif reading == "variance":
                variance += amount
            elif reading == "asymptotic variance":
                variance = (n * variance + amount) / n
            elif reading == "factor":
                variance *= 1.0 + amount
            p = 1.0 - normal.cdf(score / math.sqrt(variance))
            found[reading] += p <= 0.05 / tests
    return found


@pytest.mark.parametrize("n", [50, 611])
@pytest.mark.parametrize("tests", [None, 1])
def test_significant_counts_agree_with_slow_twin(n, tests):
    generator = np.random.default_rng(n)
    # Z-scores near the critical values and errors of all sizes, so every reading differs.
    se = 10.0 ** generator.uniform(-4.0, 0.5, 1000)
    scores = se * generator.uniform(-1.0, 9.0, 1000)
    found = hiv.count_significant(scores, se, n, tests=tests)
    assert found == slow_count(scores, se, n, tests or 1000)
    assert len(set(found.values())) == len(hiv.READINGS)


def test_scores_without_standard_error_are_not_significant():
    found = hiv.count_significant(np.array([5.0, 5.0]), np.array([np.nan, 0.1]), 600)
    assert set(found.values()) == {1}


def test_flow_from_latent_groups_adds_up_to_the_scores():
    generator = np.random.default_rng(0)
    weights = generator.uniform(size=(5, 5))
    latent = generator.standard_normal(5)
    membership = np.array([[1, 1, 0, 0, 0], [0, 1, 1, 1, 0], [0, 1, 0, 0, 1]], dtype=bool)
    flow = hiv.group_flow(weights, latent, membership)
    slow = np.zeros((3, 3))
    for g in range(3):
        for h in range(3):
            for feature in np.flatnonzero(membership[g]):
                for j in np.flatnonzero(membership[h]):
                    slow[g, h] += weights[feature, j] * latent[j] / membership[:, j].sum()
    np.testing.assert_allclose(flow, slow, atol=1e-14)
    np.testing.assert_allclose(flow.sum(axis=1), membership @ (weights @ latent), atol=1e-14)


def test_mean_correlation_leaves_out_a_feature_with_itself():
    matrix = small_table().X
    membership = np.array([[1, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 0]], dtype=bool)
    found = hiv.mean_correlation(matrix[:, :4], membership)
    for g in range(3):
        for h in range(3):
            pairs = [
                abs(np.corrcoef(matrix[:, a], matrix[:, b])[0, 1])
                for a in np.flatnonzero(membership[g])
                for b in np.flatnonzero(membership[h])
                if a != b
            ]
            assert found[g, h] == pytest.approx(np.mean(pairs) if pairs else 0.0, abs=1e-12)


def test_plain_standard_errors_are_those_of_a_known_transport():
    record = explain_small("published")
    data = small_table()
    known = DFI(
        estimator=RandomForestRegressor(n_estimators=15, min_samples_leaf=5, random_state=0),
        cv=2, form="loco", transport=Semicontinuous(epsilon=1e-3), transport_error="ignore",
        random_state=0, diagnose=False,
    ).fit(data.X, hiv.standardized(data.y)).result_.group(POSITIONS)  # fmt: skip
    np.testing.assert_allclose(record["scores"], known.scores, rtol=1e-10)
    np.testing.assert_allclose(record["se"]["plain"], known.se, rtol=1e-10)
    np.testing.assert_allclose(record["latent_se"]["plain"], known.latent.se, rtol=1e-10)
    assert np.all(np.abs(record["se"]["transport-aware"] / known.se - 1.0) > 1e-6)
    np.testing.assert_allclose(record["flow"].sum(axis=1), record["scores"], rtol=1e-8)


def test_a_split_is_repeated_exactly_and_another_differs():
    first, again, other = (explain_small("default", seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first["scores"], again["scores"])
    assert first["counts"] == again["counts"]
    assert np.all(first["scores"] != other["scores"])


def test_noise_looks_important_on_the_rows_that_were_fitted():
    X = small_table().X
    y = hiv.standardized(np.random.default_rng(8).standard_normal(ROWS))
    options = {"trees": 30, "seed": 0}
    with pytest.warns(WeakModelWarning, match="explains nothing on held-out rows"):
        held_out = hiv.explain_table(X, y, POSITIONS, estimator="published", **options)
    fitted = hiv.explain_table(X, y, POSITIONS, estimator="in-sample", **options)
    found = {"published": held_out, "in-sample": fitted}
    z = {name: r["total"] / r["total_se"]["plain"] for name, r in found.items()}
    alone, corrected = hiv_figures.critical_values(14)
    assert z["published"] < alone
    assert z["in-sample"] > corrected
    assert found["published"]["r2"] < 0.1 < found["in-sample"]["r2"]


def test_unknown_estimator_is_named():
    with pytest.raises(ValueError, match="unknown estimator 'other': choose published, default"):
        explain_small("other")


def splits_of(scores, se=0.1):
    records = tuple(
        {
            "split": k, "scores": list(row), "latent": list(row), "se": dict.fromkeys(
                hiv.SE_KINDS, [se] * len(row)), "total": sum(row), "r2": 0.2, "n_rows": 100,
        }
        for k, row in enumerate(scores)
    )  # fmt: skip
    return hiv_figures.Splits("sens50", "published", records)


def test_lead_counts_the_splits_where_the_papers_groups_are_first():
    paper = [5, 2, 1, 0, 9, 7, 0.5]
    other = [1, 8, 0, 0, 9, 7, 0.5]
    text = hiv_page._leaders([splits_of([paper, other, paper])], [3, 4, 2, 1, 7, 6, 0])
    assert "| 2 of 3 |" in text
    assert "| 5, 6, 2, 1, 3, 7, 4 |" in text
    assert "| 0.96 |" in text  # of the means with the sizes: groups 4 and 7 change places
    assert hiv_figures.stars(np.array([0.5, 1.8, 5.0])) == [
        hiv_figures.GREY, hiv_figures.ORANGE, hiv_figures.VERMILION,
    ]  # fmt: skip


@pytest.fixture
def drawn(monkeypatch):
    """Keep the figures that the study saves."""
    kept = {}
    save = hiv_figures.save_figure

    def keep(figure, path):
        kept[path.name] = figure
        save(figure, path)

    monkeypatch.setattr(hiv_figures, "save_figure", keep)
    return kept


def _boxes(ax, renderer):
    """Return the extents of everything written at an axis' ticks and inside of it."""
    labels = [*ax.get_yticklabels(), *ax.texts]
    return [text.get_window_extent(renderer) for text in labels if text.get_text()]


@pytest.mark.full
def test_study_writes_its_files_with_six_legible_panels(small, drawn, tmp_path, monkeypatch):
    monkeypatch.setattr(Size, "trees", lambda *_, **__: 10)
    first, second = tmp_path / "first", tmp_path / "second"
    reproduce(hiv_page.HIV, first)
    assert sorted(p.name for p in first.iterdir() if p.is_file()) == sorted(hiv_page.HIV.files)
    figure = drawn["hiv.png"]
    titled = [ax for ax in figure.axes if ax.get_title(loc="left").startswith("(")]
    assert [ax.get_title(loc="left")[:3] for ax in titled] == [f"({k})" for k in "abcdef"]
    renderer = FigureCanvasAgg(figure).get_renderer()
    for ax in titled:
        boxes = _boxes(ax, renderer)
        assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])
    assert len(drawn["hiv-splits.png"].axes) == 4
    with (first / "hiv.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0])[:6] == ["outcome", "estimator", "split", "group", "number", "score"]
    assert len(rows) == 2 * (2 + 1 + 1) * len(GROUPS)
    page = (first / "hiv.md").read_text()
    assert "| sens50 | paper | plain | ? | 19 | 30 |" in page
    assert all(reading in page for reading in hiv.READINGS)
    # A run that goes on from some of the records gives the same bytes.
    kept = second / "records" / "hiv"
    kept.mkdir(parents=True)
    for file in sorted((first / "records" / "hiv").iterdir())[::2]:
        (kept / file.name).write_bytes(file.read_bytes())
    reproduce(hiv_page.HIV, second, resume=True)
    for name in hiv_page.HIV.files:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


def test_published_epsilon_scales_all_scores_alike():
    data = small_table()
    epsilons = [0.0, 0.5, 2.0]
    record = hiv_epsilon.explain_epsilons(
        data.X, hiv.standardized(data.y), POSITIONS,
        form="semicontinuous", epsilons=epsilons, trees=10, smoothing=1,
    )  # fmt: skip
    scores = np.asarray(record["scores"])
    for row, epsilon in zip(scores, epsilons, strict=True):
        s, tau = 2 / (2 + epsilon), epsilon / (2 + epsilon)
        np.testing.assert_allclose(row, scores[0] * (s / (tau + s**2)) ** 2, rtol=1e-9)
    np.testing.assert_allclose(hiv_epsilon.rank_agreement(scores), 1.0)


def test_bridge_keeps_the_scores_of_half_the_smoothing_points():
    data = small_table()
    full, half = (
        hiv_epsilon.explain_epsilons(
            data.X, hiv.standardized(data.y), POSITIONS,
            form="bridge", epsilons=[0.1, 1.0], trees=10, smoothing=points,
        )
        for points in (8, 4)
    )  # fmt: skip
    np.testing.assert_array_equal(full["half"], half["scores"])
    assert np.all(full["half"] != full["scores"])


def test_ranks_and_their_agreement():
    scores = np.array([[3.0, 1.0, 2.0], [1.0, 3.0, 2.0]])
    np.testing.assert_array_equal(hiv_epsilon.ranks(scores), [[1, 3, 2], [3, 1, 2]])
    np.testing.assert_allclose(hiv_epsilon.rank_agreement(scores), [1.0, -1.0])


def test_epsilon_study_writes_its_files(small, tmp_path, monkeypatch):
    monkeypatch.setattr(Size, "trees", lambda *_, **__: 10)
    study = hiv_epsilon.HIV_EPSILON
    reproduce(study, tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_file()) == sorted(study.files)
    with (tmp_path / f"{study.name}.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == ["form", "epsilon", "group", "number", "score", "se", "rank"]
    assert len(rows) == 2 * 3 * len(GROUPS)
    assert "Spearman" in (tmp_path / f"{study.name}.md").read_text()


@pytest.mark.parametrize("study", [hiv_page.HIV, hiv_epsilon.HIV_EPSILON], ids=lambda s: s.name)
def test_missing_data_are_missed_before_anything_is_fitted(study, tmp_path):
    with pytest.raises(ValueError, match="HIV"):
        study.tasks(Size(data=str(tmp_path / "nowhere")))


@pytest.mark.skipif(
    not Path(os.environ.get("DFI_DATA", "nowhere"), "hiv").is_dir(),
    reason="DFI_DATA names no folder of the data",
)
def test_the_papers_groups_are_numbered_as_in_the_paper():
    about = hiv.describe_groups()
    assert about["groups"][4:6] == ["covar", "pngs"]
    assert about["groups"][0] == "vrc01"
    assert len(about["groups"]) == 14
    assert np.all((about["correlation"] > 0) & (about["correlation"] < 1))
