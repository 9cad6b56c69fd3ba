"""The fit of the model: losses against scikit-learn, AUC and DeLong against a pairwise twin."""

import copy
import re
import warnings

import numpy as np
import pytest
from sklearn import metrics

from dfi._data.dependence import Clusters
from dfi._data.weights import Weights
from dfi._models.quality import (
    Quality,
    area_under_curve,
    calibration_table,
    combined_quality,
    regression_quality,
)
from dfi.losses import BRIER, GAMMA, LOG_LOSS, POISSON, SQUARED_ERROR, absolute
from dfi.results.words import quality_text
from dfi.warnings import WeakModelWarning


def ones(n):
    return Weights(np.ones(n), "frequency")


def binary(n=80, seed=0, ties=False):
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.05, 0.95, n)
    p = np.round(p, 1) if ties else p
    return (rng.uniform(size=n) < p).astype(float), p


def folds(p, k=4):
    rows = np.arange(len(p))
    return [(rows[f::k], p[f::k]) for f in range(k)]


def slow_delong(y, p):
    """DeLong's estimator from all pairs, as published."""
    cases, controls = p[y == 1], p[y == 0]
    kernel = np.array([[(a > b) + 0.5 * (a == b) for b in controls] for a in cases])
    variance = kernel.mean(axis=1).var(ddof=1) / len(cases)
    variance += kernel.mean(axis=0).var(ddof=1) / len(controls)
    return kernel.mean(), np.sqrt(variance)


@pytest.mark.parametrize("ties", [False, True])
def test_auc_and_its_error_equal_those_of_all_pairs(ties):
    y, p = binary(ties=ties)
    area, error = area_under_curve(y, p, ones(len(y)))
    expected = slow_delong(y, p)
    assert (area, error) == pytest.approx(expected, rel=1e-12)
    assert area == pytest.approx(metrics.roc_auc_score(y, p), rel=1e-12)


def test_counts_of_rows_equal_repeated_rows_and_sampling_weights_keep_the_area():
    y, p = binary(ties=True)
    counts = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    counted = area_under_curve(y, p, Weights(counts, "frequency"))
    repeated = slow_delong(np.repeat(y, counts.astype(int)), np.repeat(p, counts.astype(int)))
    assert counted == pytest.approx(repeated, rel=1e-10)
    sampled = area_under_curve(y, p, Weights(counts / counts.mean(), "sampling"))
    assert sampled[0] == pytest.approx(metrics.roc_auc_score(y, p, sample_weight=counts))
    equal = area_under_curve(y, p, Weights(np.ones(len(y)), "sampling"))
    assert equal == pytest.approx(slow_delong(y, p))


def test_rows_that_are_copied_in_clusters_do_not_make_the_area_surer():
    y, p = binary(n=200)
    single = area_under_curve(y, p, ones(200))[1]
    twice = Weights(np.ones(400), "frequency", Clusters(np.repeat(np.arange(200), 2)))
    copied = area_under_curve(np.repeat(y, 2), np.repeat(p, 2), twice)[1]
    assert copied == pytest.approx(single, rel=0.02)


@pytest.mark.parametrize("weighted", [False, True])
def test_losses_of_a_class_equal_those_of_scikit_learn(weighted):
    y, p = binary()
    mass = np.random.default_rng(2).uniform(0.5, 2.0, len(y)) if weighted else np.ones(len(y))
    mass = mass / mass.mean()
    weights = Weights(mass, "sampling")
    brier = regression_quality(folds(p), y, weights, loss=BRIER)
    log_loss = regression_quality(folds(p), y, weights, loss=LOG_LOSS)
    prevalence = np.full(len(y), np.average(y, weights=mass))
    expected = metrics.log_loss(y, p, sample_weight=mass)
    null = metrics.log_loss(y, prevalence, sample_weight=mass)
    assert log_loss.model_loss == pytest.approx(expected)
    assert log_loss.null_loss == pytest.approx(null)
    assert log_loss.skill == pytest.approx(1 - expected / null)
    assert log_loss.skill == pytest.approx(
        metrics.d2_log_loss_score(y, p, sample_weight=mass), abs=1e-12
    )
    assert brier.model_loss == pytest.approx(metrics.brier_score_loss(y, p, sample_weight=mass))
    assert brier.skill == pytest.approx(metrics.r2_score(y, p, sample_weight=mass))
    for quality in (brier, log_loss):
        assert quality.brier == pytest.approx(brier.model_loss)
        assert quality.log_loss == pytest.approx(expected)
        assert quality.auc == pytest.approx(metrics.roc_auc_score(y, p, sample_weight=mass))
        assert len(quality.skill_by_fold) == 4
    assert (brier.skill_name, log_loss.skill_name) == ("Brier skill", "McFadden's R2")


def test_deviances_equal_those_of_scikit_learn():
    rng = np.random.default_rng(3)
    mean = rng.uniform(0.5, 4.0, 60)
    counts = rng.poisson(mean).astype(float)
    positive = rng.gamma(2.0, mean / 2.0)
    poisson = regression_quality(folds(mean), counts, ones(60), loss=POISSON)
    gamma = regression_quality(folds(mean), positive, ones(60), loss=GAMMA)
    assert 2 * poisson.model_loss == pytest.approx(metrics.mean_poisson_deviance(counts, mean))
    assert 2 * gamma.model_loss == pytest.approx(metrics.mean_gamma_deviance(positive, mean))
    for power, quality, y in ((1, poisson, counts), (2, gamma, positive)):
        assert quality.skill == pytest.approx(metrics.d2_tweedie_score(y, mean, power=power))
        assert quality.skill_name == "deviance explained"
        assert quality.auc is None
        assert quality.calibration == ()


def test_squared_error_is_as_it_was_and_absolute_errors_are_compared_with_the_median():
    rng = np.random.default_rng(4)
    y = rng.standard_normal(40)
    p = y + rng.standard_normal(40)
    plain = regression_quality(folds(p), y, ones(40))
    assert plain.skill == plain.r2 == pytest.approx(metrics.r2_score(y, p))
    assert (plain.skill_name, plain.skill_by_fold) == ("R2", plain.r2_by_fold)
    assert plain == Quality(*(getattr(plain, name) for name in (
        "r2", "r2_by_fold", "r2_spread", "mse", "outcome_variance", "n_rows")))  # fmt: skip
    found = regression_quality(folds(p), y, ones(40), loss=absolute(), warns=False)
    expected = 1 - np.abs(y - p).mean() / np.abs(y - np.median(y)).mean()
    assert found.skill == pytest.approx(expected)


def test_predictions_of_0_and_1_have_a_finite_log_loss_like_that_of_scikit_learn():
    y, p = binary()
    p[:3] = (0.0, 1.0, 1.0 - y[2])
    quality = regression_quality(folds(p), y, ones(len(y)), loss=LOG_LOSS, warns=False)
    assert quality.model_loss == pytest.approx(metrics.log_loss(y, p))


def test_rows_explained_by_several_folds_count_once_in_the_area():
    y, p = binary()
    other = np.random.default_rng(5).uniform(size=len(y))
    twice = [*folds(p), *folds(other)]
    quality = regression_quality(twice, y, ones(len(y)), loss=BRIER, warns=False)
    assert quality.auc == pytest.approx(metrics.roc_auc_score(y, (p + other) / 2))
    assert sum(entry.n_rows for entry in quality.calibration) == len(y)


def test_calibration_bins_hold_equal_numbers_and_ties_stay_together():
    y, p = binary(n=200)
    table = calibration_table(y, p, np.ones(200))
    assert len(table) == 10
    assert {entry.n_rows for entry in table} == {20}
    order = np.argsort(p)
    assert table[0].predicted == pytest.approx(p[order[:20]].mean())
    assert table[0].observed == pytest.approx(y[order[:20]].mean())
    three = calibration_table(y, np.repeat([0.2, 0.5, 0.7, 0.7], 50), np.ones(200))
    assert [entry.n_rows for entry in three] == [50, 50, 100]
    assert len(calibration_table(y, np.full(200, 0.3), np.ones(200))) == 1


def test_interval_of_the_area_stays_within_0_and_1():
    y, p = binary()
    quality = regression_quality(folds(p), y, ones(len(y)), loss=BRIER)
    low, high = quality.auc_interval(0.9)
    assert (high - low) / 2 == pytest.approx(1.6448536 * quality.auc_se)
    assert 0 < low < quality.auc < high < 1
    perfect = regression_quality(folds(y), y, ones(len(y)), loss=BRIER)
    assert perfect.auc_interval()[1] == 1.0
    with pytest.raises(ValueError, match="level must lie"):
        quality.auc_interval(95)
    with pytest.raises(ValueError, match="not one class"):
        regression_quality(folds(p), p, ones(len(y))).auc_interval()


def test_classes_add_up():
    rng = np.random.default_rng(6)
    label = rng.integers(0, 3, 90)
    p = rng.dirichlet(np.ones(3), 90) * 0.4 + 0.6 * np.eye(3)[label]
    one_hot = np.eye(3)[label]
    parts = {
        name: regression_quality(
            folds(p[:, k]), one_hot[:, k], ones(90), loss=LOG_LOSS.each_class, warns=False
        )
        for k, name in enumerate(("red", "green", "blue"))
    }
    whole = combined_quality(parts)
    assert whole.model_loss == pytest.approx(metrics.log_loss(label, p))
    assert whole.skill == pytest.approx(metrics.d2_log_loss_score(label, p))
    assert whole.r2 == pytest.approx(
        1 - np.sum((one_hot - p) ** 2) / np.sum((one_hot - one_hot.mean(axis=0)) ** 2)
    )
    assert whole.auc is None
    assert list(whole.by_outcome) == ["red", "green", "blue"]
    assert whole.by_outcome["green"].auc == pytest.approx(
        metrics.roc_auc_score(one_hot[:, 1], p[:, 1])
    )
    assert len(whole.skill_by_fold) == 4
    assert "3 outcomes" in repr(whole)
    assert Quality.from_plain(whole.as_plain()) == whole
    assert copy.deepcopy(whole) == whole


def test_a_skill_that_an_outlier_made_huge_is_told_in_few_digits():
    y = np.arange(90.0)
    with pytest.warns(WeakModelWarning, match=r"\(R2 = -\d\.\d+e\+\d\d\)"):
        found = regression_quality(folds(np.where(y == 40, 1e10, y)), y, ones(90))
    for text in (quality_text(found), repr(found)):
        assert re.search(r"R2 -\d\.\d+e\+\d\d.*spread over folds \d\.\d+e\+\d\d", text)


def test_predictions_of_another_scale_are_suspected():
    y = np.exp(np.linspace(8.0, 10.0, 90))
    with pytest.warns(WeakModelWarning, match="of another scale, such as the outcome's logarithm"):
        regression_quality(folds(np.log(y)), y, ones(90))
    with pytest.warns(WeakModelWarning, match="Try another estimator or more rows"):
        regression_quality(folds(np.full(90, y.mean() + 9.0)), y, ones(90))


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (SQUARED_ERROR, r"regression explains nothing on held-out rows \(R2 = -"),
        (BRIER, "Brier score .* is not below that of the prevalence"),
        (LOG_LOSS, "log-loss .* is not below that of the prevalence.*McFadden's R2 = -"),
        (POISSON, "half the Poisson deviance .* is not below that of the mean outcome"),
    ],
)
def test_a_model_that_does_not_beat_the_prevalence_is_told_in_the_words_of_the_loss(loss, words):
    y, p = binary()
    with pytest.warns(WeakModelWarning, match=words):
        regression_quality(folds(1.0 - p), y, ones(len(y)), loss=loss)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        regression_quality(folds(1.0 - p), y, ones(len(y)), loss=loss, warns=False)
        regression_quality(folds(p), y, ones(len(y)), loss=loss)


def test_one_class_only_among_the_rows_has_no_area():
    y = np.zeros(20)
    y[0] = 1.0
    p = np.full(20, 0.1)
    weights = Weights(np.r_[0.0, np.ones(19)], "frequency")
    quality = regression_quality(folds(p), y, weights, loss=LOG_LOSS, warns=False)
    assert quality.auc is None
