"""Scores extrapolated from models of two sizes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression, Ridge

import dfi
from dfi._data.weights import Weights
from dfi._diagnosis.learning import learning
from dfi._models.crossfit import MOST_SPLITS, split_variance
from dfi._models.fits import Cache
from dfi._models.prepare import prepare
from dfi._scoring import scores as scores_module
from dfi._scoring import task as task_module
from dfi._scoring.scores import Scores
from dfi._scoring.task import LineModels
from dfi.inference.tests import UnitInference
from dfi.methods import Disentangled
from dfi.methods.disentangled import number_of_splits
from dfi.transports import Gaussian

SAMPLE = dfi.datasets.m1(150, d=4, rho=0.5, random_state=0)
SHRUNK = Ridge(40.0)
OPTIONS = {"estimator": SHRUNK, "random_state": 0, "diagnose": False}


class OfQuarters:
    """Fits whose halves are quarters: their cross form is that of the smaller models."""

    def __new__(cls, fits):
        found = replace(fits, cache=Cache())
        fitted = type("Fitted", (), {"folds": fits.quarters, "weights": {}})
        found.cache.halves = None, fitted
        return found


def twin(aware, larger, smaller, latent, smaller_latent, mass):
    """Half of what a score has gained, and half of what all have, of weighted means."""
    mean = mass @ aware / mass.sum()
    gained = mass @ (larger - smaller) / mass.sum()
    total, before = (mass @ values.sum(axis=1) for values in (latent, smaller_latent))
    return mean + 0.5 * gained + 0.5 * min(max(1.0 - before / total, 0.0), 1.0) * mean


@pytest.mark.parametrize("cv", [5, 3])
def test_scores_go_half_by_themselves_and_half_with_all(cv):
    fits = prepare(SAMPLE.X, SAMPLE.y, estimator=SHRUNK, cv=cv)
    options = {"diagnose": False, "transport_error": "ignore"}
    halves = Disentangled(form="cross", **options).explain(fits).part
    quarters = Disentangled(form="cross", **options).explain(OfQuarters(fits)).scores
    found = Disentangled(form="extrapolated", **options).explain(fits).part
    latent = halves.latent.influence
    one = np.ones(len(latent))
    for part, larger, smaller in (
        (found, halves.influence, quarters.attributed),
        (found.latent, latent, quarters.latent),
    ):
        expected = twin(larger, larger, smaller, latent, quarters.latent, one)
        np.testing.assert_allclose(part.influence.mean(axis=0), expected, rtol=1e-9)
    assert found.influence.mean(axis=0).sum() > halves.influence.mean(axis=0).sum()


def scores_of(latent, attribution):
    return Scores(
        rows=np.arange(len(latent)), latent=latent, attributed=latent @ attribution.T,
        latent_by_repeat=latent.mean(axis=0)[None],
        attributed_by_repeat=(latent @ attribution.T).mean(axis=0)[None],
        predictions=(), attribution=attribution, rule="",
    )  # fmt: skip


def two_sizes(n=60, level=1.0):
    generator = np.random.default_rng(3)
    larger = generator.standard_normal((n, 3)) + level * np.array([3.0, 2.0, 1.0])
    smaller = 0.8 * larger + 0.5 * generator.standard_normal((n, 3))
    share = np.array([[0.8, 0.1, 0.1], [0.1, 0.7, 0.2], [0.1, 0.2, 0.7]])
    return scores_of(larger, share), scores_of(smaller, share)


def test_influence_values_are_derivatives_by_the_weights_of_rows():
    larger, smaller = two_sizes()
    weights = Weights(np.ones(60), "frequency")
    found = larger.extrapolated(smaller, weights)

    def of(mass):
        return twin(
            larger.attributed, larger.attributed, smaller.attributed, larger.latent,
            smaller.latent, mass,
        )  # fmt: skip

    step = 1e-5
    for row in (0, 17, 59):
        up, down = np.ones(60), np.ones(60)
        up[row], down[row] = 1.0 + step, 1.0 - step
        slope = 60 * (of(up) - of(down)) / (2.0 * step)
        expected = found.attributed[row] - found.attributed.mean(axis=0)
        np.testing.assert_allclose(slope, expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(
        found.gain[1], found.attributed.mean(axis=0) - larger.attributed.mean(axis=0), atol=1e-12
    )


def test_scores_that_are_not_clear_of_0_have_no_gain_in_common():
    larger, smaller = two_sizes(level=0.0)
    found = larger.extrapolated(smaller, Weights(np.ones(60), "frequency"))
    expected = larger.latent + 0.5 * (larger.latent - smaller.latent)
    np.testing.assert_allclose(found.latent, expected, atol=1e-12)


def test_scores_of_smaller_models_that_are_larger_lower_none_together():
    larger, smaller = two_sizes()
    found = smaller.extrapolated(larger, Weights(np.ones(60), "frequency"))
    own = smaller.latent.mean(axis=0) + 0.5 * (smaller.latent - larger.latent).mean(axis=0)
    np.testing.assert_allclose(found.latent.mean(axis=0), own, atol=1e-12)


@pytest.mark.parametrize(
    ("halvings", "correlation"), [((3,), 0.5), ((3, 3), 0.5), ((3, 3, 3, 3), 0.8), ((), 0.0)]
)
def test_variance_over_splits_is_that_of_the_mean_over_halvings(halvings, correlation):
    """By simulation: halvings have their split in common, whatever they have of their own."""
    generator = np.random.default_rng(len(halvings))
    splits, samples = len(halvings) or 5, 20_000
    each = halvings or (1,) * splits
    common = np.sqrt(correlation) * generator.standard_normal((splits, samples))
    own = np.sqrt(1.0 - correlation) * generator.standard_normal((sum(each), samples))
    by_repeat = np.repeat(common, each, axis=0) + own
    found = split_variance(by_repeat, halvings)
    error = found.std() / np.sqrt(samples) + by_repeat.mean(axis=0).var() * np.sqrt(2 / samples)
    assert abs(found.mean() - by_repeat.mean(axis=0).var()) < 4 * error


def test_one_repeat_has_no_variance_over_splits():
    assert not split_variance(np.ones((1, 3)), ()).any()


def test_result_tells_of_both_sizes():
    result = dfi.explain(SAMPLE.X, SAMPLE.y, form="extrapolated", **OPTIONS)
    assert result.spec["form"] == "extrapolated"
    curve = result.diagnostics["learning_curve"]
    assert set(curve) == {"halves", "quarters", "gained"}
    assert list(curve["halves"]) == list(curve["quarters"]) == list(result.names)
    # a penalty weighs more where rows are few
    assert sum(curve["halves"].values()) > sum(curve["quarters"].values())
    cross = dfi.explain(SAMPLE.X, SAMPLE.y, form="cross", **OPTIONS)
    assert "learning_curve" not in cross.diagnostics
    assert result.scores.sum() > cross.scores.sum()


def test_result_says_whether_scores_still_rise():
    rows = dfi.datasets.m1(1000, d=4, rho=0.5, random_state=1)
    options = {"form": "extrapolated", "random_state": 0, "diagnose": False, "n_repeats": 2}
    results = {
        name: dfi.explain(rows.X, y, estimator=estimator, **options)
        for name, estimator, y in (
            ("rising", Ridge(300.0), rows.y),
            ("flat", "linear", rows.y),
            ("unstable", Ridge(300.0), np.random.default_rng(0).standard_normal(1000)),
        )
    }
    found = {name: result.diagnostics["learning"] for name, result in results.items()}
    assert {name: told["state"] for name, told in found.items()} == {name: name for name in found}
    severities = {
        name: [told.severity for told in result.findings if told.kind == "learning"]
        for name, result in results.items()
    }
    assert severities == {"rising": ["care"], "flat": ["note"], "unstable": ["note"]}
    little = {**found["rising"], "gained": 0.14}
    assert learning(found["rising"]).severity == "care"
    assert learning(little).severity == "note"  # it rises surely, and by little
    assert found["rising"]["gained"] > 1.645 * found["rising"]["error"]
    assert abs(found["flat"]["gained"]) < 0.05
    assert found["unstable"]["gained"] is None
    assert "read them as lower bounds: " in found["rising"]["words"]
    cross = dfi.explain(rows.X, rows.y, estimator="linear", form="cross", diagnose=False)
    assert "learning" not in cross.diagnostics


def test_a_model_without_bias_is_moved_by_little():
    sample = dfi.datasets.m1(1500, d=4, rho=0.5, random_state=1)
    options = {"estimator": "linear", "diagnose": False}
    result = dfi.explain(sample.X, sample.y, form="extrapolated", **options)
    cross = dfi.explain(sample.X, sample.y, form="cross", **options)
    assert np.abs(result.scores - cross.scores).max() < 0.01 * cross.scores.max()


def test_a_fitted_model_is_refused_by_name():
    model = LinearRegression().fit(SAMPLE.X, SAMPLE.y)
    with pytest.raises(ValueError, match=r"form='extrapolated' needs two models"):
        dfi.explain(SAMPLE.X, SAMPLE.y, estimator=model, cv="prefit", form="extrapolated")


def test_what_no_model_reads_scores_exactly_0():
    generator = np.random.default_rng(2)
    rows = generator.standard_normal((200, 3))

    class First(LinearRegression):
        def fit(self, X, y, sample_weight=None):
            super().fit(X, y, sample_weight)
            self.coef_[2] = 0.0
            return self

    y = rows[:, 0] + rows[:, 1]
    found = dfi.explain(rows, y, estimator=First(), form="extrapolated", diagnose=False)
    assert found.scores[0] > 0.5
    assert found.scores[2] == found.latent.scores[2] == 0.0
    assert not found.influence[:, 2].any()


def test_explain_and_compare_agree_with_the_default_learner():
    rows = dfi.datasets.m1(200, d=3, rho=0.5, random_state=4)
    # what is compared shares one split, and explain alone takes two of so few rows
    one = dfi.explain(rows.X, rows.y, diagnose=False, n_repeats=3)
    other = dfi.compare(rows.X, rows.y, [Disentangled(diagnose=False)]).results["dfi"]
    assert one.spec["form"] == other.spec["form"] == "extrapolated"
    np.testing.assert_allclose(other.scores, one.scores, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(other.se, one.se, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("rows", "columns", "classes", "expected"),
    [(120, 3, False, 6), (401, 3, False, 3), (400, 16, False, 3), (120, 3, True, 3)],
)
def test_rows_of_small_tables_are_split_twice(rows, columns, classes, expected):
    generator = np.random.default_rng(0)
    X, y = generator.standard_normal((rows, columns)), generator.standard_normal(rows)
    given = {"most_splits": 2, "task": "auto"}
    fits = prepare(X, (y > 0).astype(str) if classes else y, **given)
    assert fits.settings["n_repeats"] == expected
    assert len(fits.repeats) == expected // 3
    # methods that refit, and who asks for a number, get what they ask for
    assert len(prepare(X, y).repeats) == 1
    assert len(prepare(X, y, n_repeats=3, most_splits=2).repeats) == 1


def test_scores_that_differ_between_splits_get_more_of_them(monkeypatch):
    """Those that are asked for from the start are the same, whatever the number of workers."""
    rows = dfi.datasets.m1(60, d=3, rho=0.5, random_state=1)
    given = {"diagnose": False, "random_state": 3}
    monkeypatch.setattr("dfi.methods.disentangled.SPLIT_SHARE", 1e-6)
    monkeypatch.setattr("dfi._run.MOST_SPLITS", 3)
    asked = dfi.explain(rows.X, rows.y, n_repeats=9, **given)
    for n_jobs in (1, 2):
        found = dfi.explain(rows.X, rows.y, n_jobs=n_jobs, **given)
        assert found.spec["n_repeats"] == 9
        np.testing.assert_array_equal(found.scores, asked.scores)
        np.testing.assert_array_equal(found.se, asked.se)
        np.testing.assert_array_equal(found.table()["share"], asked.table()["share"])
    # who asks for a number gets it, and so do settings that are compared
    assert dfi.explain(rows.X, rows.y, n_repeats=6, **given).spec["n_repeats"] == 6
    monkeypatch.setattr("dfi.methods.disentangled.SPLIT_SHARE", 1e6)
    assert dfi.explain(rows.X, rows.y, **given).spec["n_repeats"] == 6


@pytest.mark.parametrize("transport", ["gaussian", "auto"])
def test_further_splits_score_no_fold_again(monkeypatch, transport):
    """Neither are line models read again, nor the transport chosen and fitted again."""
    rows = dfi.datasets.m1(200, d=3, rho=0.5, random_state=1)
    monkeypatch.setattr("dfi.methods.disentangled.SPLIT_SHARE", 1e-6)
    monkeypatch.setattr("dfi._run.MOST_SPLITS", 3)
    counts = Counter()

    def counted(name, holder, function):
        compute = getattr(holder, function)

        def call(*arguments, **options):
            counts[name] += 1
            return compute(*arguments, **options)

        monkeypatch.setattr(holder, function, call)

    counted("scored", scores_module, "latent_scores")
    counted("read", task_module, "line_model")
    counted("fitted", Gaussian, "fit_source")
    found = {}
    for repeats in (None, 9):
        counts.clear()
        result = dfi.explain(rows.X, rows.y, transport=transport, n_repeats=repeats, diagnose=False)
        assert result.spec["n_repeats"] == 9
        found[repeats] = dict(counts), result.influence
    # three splits, five folds: three halvings and two pairs of quarters
    assert found[None][0]["scored"] == found[9][0]["scored"] == 3 * 5 * (3 + 2)
    assert found[None][0] == found[9][0]
    np.testing.assert_array_equal(found[None][1], found[9][1])


def test_scores_of_refits_are_not_kept(monkeypatch):
    """Each is asked for once, and there are many."""
    rows = dfi.datasets.m1(60, d=3, rho=0.5, random_state=1)
    kept, of_fold = [], LineModels.scores

    def watched(self, *arguments):
        found = of_fold(self, *arguments)
        kept.append(-1 if self._scored is None else len(self._scored))
        return found

    monkeypatch.setattr(LineModels, "scores", watched)
    transport = Gaussian(components=None, covariance="qis")
    dfi.explain(rows.X, rows.y, transport=transport, diagnose=False)
    # two splits, five folds, three halvings; then 20 refits, and what they are compared with
    assert max(kept) == 2 * 5 * 3
    assert len(kept) == 2 * 5 * 3 + 21 * 5


@pytest.mark.parametrize(("size", "correlation"), [(0.1, 0.5), (0.5, 0.35), (1.0, 0.2)])
def test_splits_by_need_hold_the_deviation_over_seeds(size, correlation):
    """By simulation: of ``size`` (1 split) in units of a score's own variance, 2 splits or more."""
    generator, samples = np.random.default_rng(1), 4000
    each = size / (correlation + (1.0 - correlation) / 3.0)
    common = np.sqrt(correlation * each) * generator.standard_normal((samples, MOST_SPLITS, 1))
    own = np.sqrt((1.0 - correlation) * each) * generator.standard_normal((samples, MOST_SPLITS, 3))
    found, errors = np.empty(samples), np.empty(samples)
    for k, by_split in enumerate(common + own):
        first = split_variance(by_split[:2].reshape(-1, 1), (3, 3))
        count = number_of_splits(first, np.ones(1), 2, MOST_SPLITS) or 2
        found[k] = by_split[:count].mean()
        variance = split_variance(by_split[:count].reshape(-1, 1), (3,) * count)
        errors[k] = np.sqrt(1.0 + variance[0])
    assert found.std() / errors.mean() < 0.5
    # the split's part of the variance is known to a quarter or so
    assert (errors**2).mean() == pytest.approx(1.0 + found.var(), rel=0.06)


class Truth(RegressorMixin, BaseEstimator):
    """A regression that is known, whatever it is fitted on."""

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X):
        return 1.5 * np.sin(1.3 * X[:, 0]) + 0.6 * X[:, 1] ** 2 + 0.8 * X[:, 2]


def test_nothing_left_to_learn_leaves_scores_and_errors_of_shares():
    """The transport's error counts once in extrapolated shares, and walks are the same."""
    generator = np.random.default_rng(1)
    X = generator.standard_normal((300, 4))
    for j in range(1, 4):
        X[:, j] = 0.6 * X[:, j - 1] + 0.8 * X[:, j]
    y = Truth().predict(X) + generator.standard_normal(300)
    cross, far = (
        dfi.explain(X, y, Truth(), form=form, diagnose=False) for form in ("cross", "extrapolated")
    )
    np.testing.assert_allclose(far.scores, cross.scores, rtol=1e-9)
    np.testing.assert_allclose(far.se, cross.se, rtol=1e-9)
    for column in ("share", "se"):
        np.testing.assert_allclose(far.shares()[column], cross.shares()[column], rtol=1e-7)


def test_intervals_leave_room_for_what_is_learned_late():
    rows = dfi.datasets.m1(400, d=3, rho=0.5, random_state=1)
    cross, far = (
        dfi.explain(rows.X, rows.y, "linear", form=form, diagnose=False, random_state=0)
        for form in ("cross", "extrapolated")
    )
    own = far.parts.summed(np.eye(4)[:3] - np.outer(far.shares()["share"], np.eye(4)[3]))
    se = own.se / far.explained.value
    late = 0.25 / np.sqrt(400)
    np.testing.assert_allclose(far.shares()["se"], np.hypot(se, late), rtol=1e-9)
    together = far.group({"all": list(far.names)}).shares()
    np.testing.assert_allclose(together[["ci_low", "ci_high"]], 1.0, atol=1e-9)

    # the lower end of a score is that of its standard error alone
    plain = UnitInference(
        far.basis, far.degenerate, far.quality.outcome_variance, far.nonnegative, far.unrelated
    )
    for alternative, level in (("two-sided", 0.9), ("less", 0.95), ("greater", 0.95)):
        ends = plain.intervals(level=level, alternative=alternative)
        told = far.interval(level, alternative=alternative)
        np.testing.assert_allclose(told["ci_low"], ends["ci_low"])
        known, whole = far.explained.value, far.null_loss.value
        room = norm.ppf(0.95) * (0.25 * known + 0.15 * (whole - known)) / np.sqrt(400)
        room = 0.0 if alternative == "greater" else room
        np.testing.assert_allclose(told["ci_high"], ends["ci_high"] + room)
    of_effect = replace(far, spec={**far.spec, "outcome": {"effect": "x"}})
    np.testing.assert_allclose(of_effect._unlearned, late * known)
    assert cross._unlearned == 0.0
