"""Whole distributions and quantiles: truths, twins, every output, odd inputs."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.linear_model import LinearRegression, LogisticRegression, QuantileRegressor

import dfi
from dfi._data.weights import Weights
from dfi._learners.quadratic import QuadraticRidge
from dfi._models.distribution import LocationScale, distribution_outcome
from dfi._models.prepare import prepare
from dfi.methods.base import MethodResult
from dfi.methods.compute import with_quantile

N = 600
RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(N, 3)), columns=["place", "width", "noise"])
Y = (X["place"] + np.exp(0.5 * X["width"]) * RNG.normal(size=N)).rename("pay")
TRUTH = {"place": 0.0506, "width": 0.0054}
"""Of y = x0 + exp(.5 x1) e, by quadrature (tests/slow/test_distribution_coverage.py)."""


def explain(y=Y, estimator="linear", table=X, **options):
    return dfi.explain(table, y, estimator, **{"target": "distribution", **options})


@pytest.fixture(scope="module")
def whole():
    return explain(estimator=QuadraticRidge())


def test_levels_have_the_same_latent_errors_either_way(whole):
    for name, part in whole.by_outcome.items():
        np.testing.assert_array_equal(part.latent.se, whole.latent.by_outcome[name].se)


def test_what_moves_the_spread_is_found_and_the_mean_does_not_see_it(whole):
    found = whole.table().set_index("feature")
    for name, truth in TRUTH.items():
        assert abs(found.loc[name, "score"] - truth) < 4 * found.loc[name, "se"]
        assert found.loc[name, "p"] < 1e-3
    assert found.loc["noise", "p"] > 0.01
    mean = dfi.explain(X, Y, QuadraticRidge()).table().set_index("feature")
    assert mean.loc["width", "p"] > 0.01


def test_levels_have_the_mean_that_is_the_score(whole):
    table = whole.by_level()
    assert list(table.columns) == [
        "feature", "quantile", "threshold", "score", "se", "ci_low", "ci_high", "p",
    ]  # fmt: skip
    means = table.groupby("feature", sort=False)["score"].mean()
    assert np.allclose(means[list(whole.names)], whole.scores)
    assert np.allclose(table["quantile"].unique(), (np.arange(9) + 0.5) / 9)
    below = [np.mean(t >= Y) for t in table["threshold"].unique()]
    assert np.allclose(below, table["quantile"].unique(), atol=1 / N)
    place = table[table["feature"] == "place"].set_index("quantile")["score"]
    assert place.idxmax() == pytest.approx(0.5, abs=0.12)


def test_aspects_stand_side_by_side(whole):
    table = whole.aspects().set_index(["feature", "aspect"])
    assert list(table.index.unique("aspect")) == [
        "mean", "spread", "lower tail", "middle", "upper tail",
    ]  # fmt: skip
    assert table.loc[("place", "mean"), "p"] < 1e-6 < table.loc[("width", "mean"), "p"]
    assert table.loc[("width", "spread"), "p"] < 1e-4 < table.loc[("place", "spread"), "p"]
    by_level = whole.by_level()
    upper = by_level[(by_level["feature"] == "width") & (by_level["quantile"] > 2 / 3)]
    assert table.loc[("width", "upper tail"), "score"] == pytest.approx(upper["score"].mean())


def indicators(result):
    """Return of each row whether it lies below each threshold, less the mean."""
    below = Y.to_numpy()[:, None] <= result.by_level()["threshold"].unique()
    return below - below.mean(axis=0)


def test_the_thresholds_own_error_is_counted(whole):
    """Written out for one feature: the score at the level of each row, by linear interpolation."""
    parts = np.array([part.influence[:, 0] for part in whole.by_outcome.values()])
    ranks = (Y.rank().to_numpy() - 0.5) / N
    levels = np.array([0.0, *((np.arange(9) + 0.5) / 9), 1.0])
    curve = np.array([0.0, *(9 * parts.mean(axis=1)), 0.0])
    # a level alone counts its own threshold, by the slope of the scores about it
    slopes = (curve[2:] - curve[:-2]) / (levels[2:] - levels[:-2]) / 9
    parts += slopes[:, None] * indicators(whole).T
    own = np.interp(ranks, levels, curve)
    assert np.allclose(whole.influence[:, 0], parts.sum(axis=0) + own - own.mean())


def test_a_quantiles_own_error_is_counted():
    """Scores of the true distribution function at a sample's quantile: y = x + e, level .9.

    The standard deviation over samples is that of the influence values with the quantile's term;
    without it they are a third too large.
    """
    from scipy.special import ndtr

    rng, n, found = np.random.default_rng(0), 400, []
    weights = Weights(np.ones(n), "sampling")
    for _ in range(400):
        x, noise = rng.standard_normal((2, n))
        y = x + noise
        part = {}
        for level in (0.85, 0.9, 0.95):
            t = np.quantile(y, level, method="inverted_cdf")
            inside = y <= t
            values = (inside - ndtr(t / 2**0.5)) ** 2 - (inside - ndtr(t - x)) ** 2
            part[level] = MethodResult(values[:, None], np.arange(n)), inside
        plain, inside = part[0.9]
        ends = part[0.85][0], part[0.95][0]
        counted = with_quantile(plain, inside, ends, 0.1, weights)
        assert counted.influence.mean() == pytest.approx(plain.influence.mean())
        found.append([plain.influence.mean(), plain.influence.std(), counted.influence.std()])
    score, before, after = np.array(found).T
    assert after.mean() / np.sqrt(n) == pytest.approx(score.std(), rel=0.12)
    assert before.mean() / np.sqrt(n) > 1.2 * score.std()


def test_of_a_quantile_the_scores_beside_it_are_asked():
    """Written out: the influence at a quantile, by the difference of two others' scores."""
    at = {level: explain(target=dfi.Quantile(level)) for level in (0.75, 0.8, 0.85)}
    slope = (at[0.85].scores - at[0.75].scores) / 0.1
    inside = np.quantile(Y, 0.8, method="inverted_cdf") >= Y.to_numpy()
    fits = prepare(X, Y, estimator="linear", target=dfi.Quantile(0.8))
    plain = dfi.methods.Disentangled().compute(fits)["dfi"].influence
    expected = plain - np.outer(inside - inside.mean(), slope)
    assert np.allclose(at[0.8].influence, expected, atol=1e-12)


def test_weights_of_the_rows_leave_scores_where_their_levels_put_them():
    """The term of the thresholds has the weighted mean 0: a score is the mean of its levels."""
    weighted = explain(sample_weight=np.linspace(0.2, 3.0, N) ** 2)
    by_level = weighted.by_level().groupby("feature", sort=False)["score"].mean()
    assert np.allclose(by_level[list(weighted.names)], weighted.scores)


def test_monotone_outcomes_have_the_same_levels():
    """Thresholds follow a monotone outcome, and so does the indicator behind each level."""
    weights = Weights(np.ones(N), "sampling")
    plain, _, _ = distribution_outcome(outcome(Y), weights, None)
    other, _, _ = distribution_outcome(outcome(np.exp(Y)), weights, None)
    for one, two in zip(plain.members, other.members, strict=True):
        assert np.array_equal(one.values, two.values)
    assert np.allclose(sum(one.values**2 for one in plain.members), (9 - np.searchsorted(
        plain.distribution.thresholds, Y)) / 9)  # fmt: skip


def outcome(y):
    from dfi._data.outcome import Outcome

    return Outcome(np.asarray(y, dtype=float), "pay", "real")


def test_location_and_spread_are_learned():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(20_000, 2))
    y = 2 * rows[:, 0] + np.exp(0.4 * rows[:, 1]) * rng.normal(size=20_000)
    model = LocationScale(estimator=LinearRegression(), thresholds=(-1.0, 0.5), random_state=0)
    found = model.fit(rows, y).predict(rows[:200])
    place, spread = 2 * rows[:200, :1], np.exp(0.4 * rows[:200, 1:])
    assert np.abs(found - norm.cdf((np.array([-1.0, 0.5]) - place) / spread)).max() < 0.03
    assert np.array_equal(model.predict_column(rows[:9], 1), model.predict(rows[:9])[:, 1])
    shifted = LocationScale(
        estimator=LinearRegression(), thresholds=(-10.0 + 7.0, 5.0 + 7.0), random_state=0
    ).fit(rows, 10 * y + 7.0)
    assert np.allclose(shifted.predict(rows[:200]), found, atol=1e-9)


def test_weights_are_repeated_rows_in_the_law_of_residuals():
    rows, y = X.to_numpy()[:50], Y.to_numpy()[:50]
    heavy = LocationScale(estimator=LinearRegression(), thresholds=(0.0,), random_state=0)
    heavy.fit(rows, y, np.ones(50))
    plain = LocationScale(estimator=LinearRegression(), thresholds=(0.0,), random_state=0)
    assert np.allclose(heavy.predict(rows), plain.fit(rows, y).predict(rows))
    assert np.isfinite(explain(sample_weight=np.linspace(1, 2, N)).scores).all()


def test_a_quantile_is_one_level():
    upper = explain(target=dfi.Quantile(0.9))
    assert upper.spec["outcome"]["distribution"]["levels"] == (0.9,)
    assert upper.quality.outcome_variance == pytest.approx(0.09, abs=1e-3)
    found = upper.table().set_index("feature")
    for name, truth in (("place", 0.0176), ("width", 0.0045)):
        assert abs(found.loc[name, "score"] - truth) < 4 * found.loc[name, "se"]
    assert found.loc["place", "p"] < 0.01
    local = upper.local([0, 1])
    assert np.allclose(local.values.sum(axis=1) + local.base, local.prediction)
    with pytest.raises(ValueError, match="does not explain a whole distribution"):
        upper.by_level()


def test_every_output(whole, tmp_path):
    page = whole.report(tmp_path / "page.html").read_text()
    assert "What explains the distribution of pay?" in page
    assert "quantiles at nine levels from 0.056 to 0.94" in page
    assert "By level" in page
    assert "dfi.explain(X, y, target=&#39;distribution&#39;" in page
    whole.save(tmp_path / "whole.dfi")
    loaded = dfi.load(tmp_path / "whole.dfi")
    assert loaded.by_level().equals(whole.by_level())
    ax = loaded.plot("levels", top=2)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["place", "width"]
    with pytest.raises(ValueError, match="explain again"):
        loaded.aspects()
    with pytest.raises(ValueError, match=r"the target dfi.Quantile\(0.9\)"):
        whole.local([0])
    with pytest.raises(ValueError, match="keep refits models of a mean"):
        whole.keep()
    joint = whole.group({"both": ["place", "width"], "rest": ["noise"]}, how="joint")
    assert joint.scores[0] > 5 * abs(joint.scores[1])


@pytest.mark.full
def test_categories_missing_values_and_ties():
    rng = np.random.default_rng(2)
    table = X.mask(rng.random(X.shape) < 0.05).assign(town=rng.choice(["a", "b", "c"], N))
    assert explain(table=table).names == ("place", "width", "noise", "town")
    ties = explain(np.round(Y.clip(-1, 1)), task="regression")
    assert 1 <= len(ties.by_outcome) < 9


REFUSED = {
    "classes": ({"y": Y > 0}, "is about the distribution of a quantity, but y has classes"),
    "columns": ({"y": np.column_stack([Y, Y])}, "but y has several columns"),
    "prefit": (
        {"estimator": LinearRegression().fit(X, Y), "cv": "prefit"}, "are fitted here: pass a",
    ),
    "loss": ({"loss": "absolute"}, "explained by the Brier score .*: leave loss at 'auto'"),
    "classifier": ({"estimator": LogisticRegression()}, "is a classifier, but y is a quantity"),
    "misspelt": ({"target": "distributions"}, "did you mean 'distribution'"),
    "number": ({"target": 0.9}, r"a dfi.Quantile, got 0.9: pass for instance dfi.Quantile\(0.9\)"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_odd_inputs_are_refused_in_words(name):
    options, words = REFUSED[name]
    with pytest.raises((TypeError, ValueError), match=words):
        explain(**options)


def test_levels_lie_between_0_and_1():
    with pytest.raises(ValueError, match="level must be a number strictly between 0 and 1"):
        dfi.Quantile(1.0)


def test_elsewhere_a_distribution_is_refused():
    with pytest.raises(ValueError, match="target must be 'rmst' or 'probability'"):
        dfi.compare(X, Y, ["dfi"], estimator="linear", target="distribution")


def test_files_are_gathered(tmp_path):
    X.assign(y=Y).to_parquet(tmp_path / "rows.parquet")
    found = dfi.explain(str(tmp_path / "rows.parquet"), "y", "linear", target="distribution")
    assert found.names == tuple(X.columns)
    assert found.table()["feature"][0] == "place"


@pytest.mark.parametrize("loss", [dfi.losses.pinball(0.9), "absolute"])
@pytest.mark.parametrize("learner", ["auto", "linear", QuantileRegressor(quantile=0.9, alpha=0)])
def test_losses_of_quantiles_name_the_way(loss, learner):
    level = "0.5" if loss == "absolute" else "0.9"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match=rf"target.dfi.Quantile\({level}\) and no loss"):
            dfi.explain(X, Y, learner, loss=loss)
    with pytest.raises(ValueError, match=rf"dfi.Quantile\({level}\)"):
        dfi.compare(X, Y, ["loco"], estimator="linear", loss=loss)
