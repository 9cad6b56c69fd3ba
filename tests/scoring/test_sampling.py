"""A random sample of the rows: the formula of its errors, stages, and when to stop."""

from __future__ import annotations

import signal
import time
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression

import dfi
from dfi._data import source
from dfi._data.source import sampled_order, sampled_places, tickets
from dfi._data.weights import Weights
from dfi._scoring.sampling import of_sample
from dfi.methods import stages
from dfi.warnings import WeakModelWarning

SEED = np.random.SeedSequence(5)


def table(n, d=4, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((n, d))
    X[:, 1] = 0.8 * X[:, 0] + 0.6 * X[:, 1]
    y = X[:, 0] + X[:, 1] + 0.5 * X[:, 2] ** 2 + generator.standard_normal(n)
    return X, y


def covariance(values, weights):
    """The covariance of weighted means, written from the textbook."""
    w = weights.values
    centred = values - w @ values / w.sum()
    n = w.sum() if weights.kind == "frequency" else np.count_nonzero(w)
    if weights.kind == "frequency":
        return (centred * w[:, None]).T @ centred / (n * (n - 1))
    return n / (n - 1) * (centred * (w**2)[:, None]).T @ centred / w.sum() ** 2


@pytest.mark.parametrize("kind", ["none", "frequency", "sampling"])
@pytest.mark.parametrize("share", [0.004, 0.3, 0.99])
def test_errors_are_those_of_the_formula(kind, share):
    generator = np.random.default_rng(1)
    u = generator.standard_normal((900, 5)) @ generator.standard_normal((5, 5)) + 3.0
    own = np.column_stack(
        [u[:, 0] ** 2, -0.5 * u[:, 1], np.zeros(900), generator.standard_normal((900, 2))]
    )
    values = {
        "none": np.ones(900),
        "frequency": generator.integers(0, 4, 900).astype(float),
        "sampling": np.where(generator.random(900) < 0.1, 0.0, generator.exponential(size=900)),
    }[kind]
    weights = Weights(values, "sampling" if kind == "sampling" else "frequency")
    found = of_sample(u, own, weights, share, SEED)
    np.testing.assert_allclose(weights.mean(found), weights.mean(u), rtol=1e-12)
    of_u, of_both = covariance(u, weights), covariance(u + own, weights)
    expected = of_u + share * (of_both - of_u)
    np.testing.assert_allclose(
        weights.covariance_of_mean(found), expected, atol=1e-12 * np.abs(expected).max()
    )


@pytest.mark.parametrize("rows", [6, 30, 60, 95, 121])
def test_few_rows_of_many_columns_have_the_errors_of_the_formula(rows):
    generator = np.random.default_rng(2)
    u, own = generator.standard_normal((2, rows, 40))
    weights = Weights(np.ones(rows), "frequency")
    found = of_sample(u, own, weights, 0.2, SEED)
    np.testing.assert_allclose(weights.mean(found), weights.mean(u), atol=1e-12)
    of_u, of_both = covariance(u, weights), covariance(u + own, weights)
    expected = np.diag(of_u + 0.2 * (of_both - of_u))
    np.testing.assert_allclose(np.diag(weights.covariance_of_mean(found)), expected, rtol=1e-9)


def test_samples_without_weight_are_refused(monkeypatch):
    X, y = table(3000)
    weight = (np.arange(3000) % 6 == 0) * 1.0
    message = r"only \d+ of the first 50 explained rows have a weight above 0, but scores need"
    with pytest.raises(ValueError, match=message):
        dfi.explain(X, y, "linear", explain_rows=50, sample_weight=weight)
    monkeypatch.setattr(source, "LARGE_ROWS", 500)
    lazy = pl.DataFrame(X).with_columns(y=y, w=weight).lazy()
    with pytest.raises(ValueError, match=message):
        dfi.explain(lazy, "y", "linear", cv=2, explain_rows=50, fit_rows=50, sample_weight="w")


def test_all_rows_have_their_own_terms():
    u, own = np.random.default_rng(0).standard_normal((2, 50, 3))
    weights = Weights(np.ones(50), "frequency")
    np.testing.assert_array_equal(of_sample(u, own, weights, 1.0, SEED), u + own)
    np.testing.assert_array_equal(of_sample(u, 0.0 * own, weights, 0.1, SEED), u)


@pytest.mark.parametrize("kind", ["frequency", "sampling"])
def test_running_sums_are_means_and_errors_of_all_rows(kind):
    generator = np.random.default_rng(2)
    values = generator.standard_normal((300, 2)) + 1.0
    weights = Weights(generator.integers(0, 4, 300).astype(float), kind)
    task = SimpleNamespace(weights=weights)
    parts = np.array_split(generator.permutation(300), 4)
    running = [
        stages.Running.of(
            SimpleNamespace(rows=rows, known=SimpleNamespace(attributed=values[rows])),
            task,
            np.eye(2),
        )
        for rows in parts
    ]
    found = running[0] + running[1] + running[2] + running[3]
    both = np.column_stack([values, values.sum(axis=1)])
    np.testing.assert_allclose(found.mean, weights.mean(both), rtol=1e-12)
    np.testing.assert_allclose(found.variance, weights.standard_error(both) ** 2, rtol=1e-10)


@given(st.integers(1, 3000), st.data())
@settings(max_examples=30, deadline=None)
def test_a_sample_grows_and_does_not_depend_on_the_cut(n, data):
    count = data.draw(st.integers(0, n))
    order = sampled_order(n, count, SEED)
    assert len(set(order.tolist())) == count
    assert np.array_equal(order, sampled_order(n, n, SEED)[:count])
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=5)))
    parts = np.split(np.arange(n), cuts)
    together = np.concatenate([tickets(part, SEED) for part in parts])
    assert np.array_equal(np.sort(np.argsort(together)[:count]), sampled_places(n, count, SEED))


def test_a_sample_is_random(monkeypatch):
    n, count = 20_000, 5_000
    counts = np.zeros(n)
    for k in range(40):
        counts[sampled_order(n, count, np.random.SeedSequence(k))] += 1
    # every place alike, neighbours unrelated: five standard errors
    assert abs(np.corrcoef(counts[1:], counts[:-1])[0, 1]) < 5 / np.sqrt(n)
    assert abs(counts.var() / (40 * 0.25 * 0.75) - 1) < 5 * np.sqrt(2 / n)
    monkeypatch.setattr(source, "TICKETS_AT_ONCE", 777)
    assert np.array_equal(sampled_order(n, count, SEED), sampled_order(n, n, SEED)[:count])


def test_asking_for_all_rows_is_no_sample():
    X, y = table(600)
    every = dfi.explain(X, y, "linear", diagnose=False)
    for asked in (None, 600, 10_000):
        found = dfi.explain(X, y, "linear", diagnose=False, explain_rows=asked)
        np.testing.assert_array_equal(found.influence, every.influence)
        assert "explained_rows" not in found.spec


def test_a_number_of_rows():
    X, y = table(3000)
    every = dfi.explain(X, y, "linear", diagnose=False)
    found = dfi.explain(X, y, "linear", diagnose=False, explain_rows=700)
    assert (found.spec["explained_rows"], found.spec["explained_of"]) == (700, 3000)
    assert found.spec["why"] == "asked for"
    assert found.influence.shape == (700, 4)
    assert found.spec["n_rows"] == 3000
    assert np.all(np.abs(found.scores - every.scores) < 4 * found.se)
    assert np.all(found.se[:2] > every.se[:2])


def test_the_transport_and_models_are_those_of_all_rows():
    X, y = table(2500)
    every = dfi.DFI(estimator=LinearRegression(), diagnose=False).fit(X, y)
    some = dfi.DFI(estimator=LinearRegression(), diagnose=False, explain_rows=500).fit(X, y)
    np.testing.assert_array_equal(
        some.transport_.geometry.decoder, every.transport_.geometry.decoder
    )
    place = np.searchsorted(every.pooled_.rows, some.pooled_.rows)
    # influence values with the transport taken as known: the same rows, the same numbers
    np.testing.assert_allclose(some.pooled_.latent, every.pooled_.latent[place], rtol=1e-9)


@pytest.mark.parametrize("transport", ["gaussian", "copula", "knothe-rosenblatt"])
def test_every_transport_takes_a_sample(transport):
    X, y = table(900)
    found = dfi.explain(X, y, "linear", transport=transport, explain_rows=300, diagnose=False, cv=3)
    assert found.influence.shape == (300, 4)
    assert np.all(np.isfinite(found.se))


def test_stages_make_no_difference_to_the_values(monkeypatch):
    X, y = table(1500)
    learner = HistGradientBoostingRegressor(max_iter=20)
    options = {"cv": 2, "diagnose": False, "explain_rows": 1200, "transport_error": "ignore"}
    at_once = dfi.explain(X, y, learner, **options)
    monkeypatch.setattr(stages, "BLOCK", 100)
    by_stages = dfi.explain(X, y, learner, **options)
    np.testing.assert_allclose(by_stages.influence, at_once.influence, rtol=1e-10, atol=1e-12)
    aware = dict(options, transport_error="auto")
    ratio = dfi.explain(X, y, learner, **aware).se / at_once.se
    monkeypatch.undo()
    again = dfi.explain(X, y, learner, **aware).se / at_once.se
    # the sensitivity is an average over stages, each with its own noise
    np.testing.assert_allclose(ratio, again, rtol=0.05)


def test_categories_and_missing_values_take_a_sample(monkeypatch):
    import pandas as pd

    X, y = table(1500)
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["group"] = np.where(X[:, 3] > 0.5, "high", np.where(X[:, 3] < -0.5, "low", "mid"))
    frame.loc[::7, "b"] = np.nan
    monkeypatch.setattr(stages, "BLOCK", 256)
    found = dfi.explain(frame, y, "linear", explain_rows=700, cv=3)
    every = dfi.explain(frame, y, "linear", cv=3)
    assert found.influence.shape == (700, 5)
    assert np.all(np.abs(found.scores - every.scores) < 4 * found.se + 1e-9)


def test_the_automatic_sample_stops_where_it_is_precise(monkeypatch):
    monkeypatch.setattr(stages, "BLOCK", 512)
    X, _ = table(30_000)
    y = X[:, 0] + X[:, 2] + 0.1 * np.random.default_rng(1).standard_normal(30_000)
    found = dfi.explain(X, y, "linear", explain_rows="auto", diagnose=False, keep_rows=True)
    rows = found.spec["explained_rows"]
    assert found.spec["why"] == "precise"
    assert 512 <= rows < 30_000
    total = found.total
    assert total.se <= 0.01 * total.value
    large = found.scores > 0.05 * total.value
    assert np.all(found.se[large] <= 0.05 * found.scores[large])
    # a fifth less would not have been enough, whatever the blocks
    assert total.se > 0.8 * 0.01 * total.value


def test_noise_takes_all_rows():
    generator = np.random.default_rng(0)
    X, y = generator.standard_normal((21_000, 2)), generator.standard_normal(21_000)
    with pytest.warns(WeakModelWarning):
        found = dfi.explain(X, y, "linear", diagnose=False)
    assert (found.spec["explained_rows"], found.spec["why"]) == (21_000, "all rows")


def test_a_time_limit_gives_the_answer_so_far(monkeypatch):
    monkeypatch.setattr(stages, "BLOCK", 64)
    X, y = table(1200)
    found = dfi.explain(X, y, "linear", max_seconds=1e-9, diagnose=False)
    assert (found.spec["explained_rows"], found.spec["why"]) == (64, "time")
    assert np.all(np.isfinite(found.se))
    unhurried = dfi.explain(X, y, "linear", max_seconds=10**400, diagnose=False)
    assert (unhurried.spec["explained_rows"], unhurried.spec["why"]) == (1200, "all rows")


@pytest.mark.parametrize("answered", [True, False])
def test_an_interrupt_gives_the_answer_so_far(monkeypatch, answered):
    """Where somebody asked for that: else it ends the run, as anywhere."""
    X, y = table(1200)
    add = stages.Running.__add__

    def interrupted(so_far, stage):
        signal.raise_signal(signal.SIGINT)
        return add(so_far, stage)

    monkeypatch.setattr(stages, "BLOCK", 64)
    monkeypatch.setattr(stages, "BLOCKS_AT_ONCE", 1)
    monkeypatch.setattr(stages.Running, "__add__", interrupted)
    before = signal.getsignal(signal.SIGINT)
    token = stages.answers_interrupts.set(answered)
    try:
        if answered:
            found = dfi.explain(X, y, "linear", explain_rows=1000, diagnose=False)
            assert (found.spec["explained_rows"], found.spec["why"]) == (128, "interrupted")
            assert np.all(np.isfinite(found.se))
        else:
            with pytest.raises(KeyboardInterrupt):
                dfi.explain(X, y, "linear", explain_rows=1000, diagnose=False)
    finally:
        stages.answers_interrupts.reset(token)
    assert signal.getsignal(signal.SIGINT) is before


def test_memory_ends_the_automatic_sample(monkeypatch):
    monkeypatch.setattr(stages, "BLOCK", 64)
    monkeypatch.setattr(stages, "MOST_CELLS", 4 * 128)
    X, y = table(3000)
    found = dfi.explain(X, y, "linear", explain_rows="auto", diagnose=False)
    assert (found.spec["explained_rows"], found.spec["why"]) == (128, "memory")


def test_a_watcher_sees_the_leading_scores_settle(monkeypatch, capsys):
    monkeypatch.setattr(stages, "BLOCK", 128)
    X, y = table(1500)
    dfi.explain(X, y, "linear", explain_rows=1000, diagnose=False, progress=True)
    shown = capsys.readouterr().err
    assert "explaining rows" in shown
    assert "x0 " in shown
    assert "±" in shown


def test_words_for_a_sample():
    from dfi.results.words import sample_text

    spec = {"explained_rows": 4096, "explained_of": 1_000_000, "why": "time"}
    assert sample_text(spec) == "4,096 of 1,000,000 rows explained: the time limit was reached"
    assert sample_text({**spec, "explained_rows": 1_000_000}) == ""
    assert sample_text({}) == ""


def test_classes_are_explained_on_the_same_rows(monkeypatch):
    monkeypatch.setattr(stages, "BLOCK", 128)
    X, y = table(1500)
    labels = np.digitize(y, [-0.5, 1.0])
    found = dfi.explain(
        X, labels, "linear", task="classification", explain_rows=400, cv=2, diagnose=False
    )
    assert found.influence.shape == (400, 4)
    parts = [part.scores for part in found.by_outcome.values()]
    np.testing.assert_allclose(np.sum(parts, axis=0), found.scores, rtol=1e-10)


def test_the_transport_keeps_the_errors_of_all_rows():
    X, _ = table(2500)
    slopes = np.array([1.0, -1.0, 0.0, 0.0])
    options = {"cv": "prefit", "diagnose": False}

    def explained(rows, error):
        return dfi.explain(
            X, X @ slopes, lambda A: A @ slopes, explain_rows=rows, transport_error=error, **options
        )

    plain, aware = (explained(None, error).covariance for error in ("ignore", "derived"))
    some = explained(500, "derived").covariance
    # Cov(u)/m + {Cov(u + T) - Cov(u)}/n, here with five times as many rows as are explained
    wanted = np.sqrt(np.diag(5.0 * plain + aware - plain))
    np.testing.assert_allclose(np.sqrt(np.diag(some))[:2], wanted[:2], rtol=0.15)
    # as if the transport were fitted on the sample: what the tolerance must tell apart
    assert np.any(np.abs(np.sqrt(5.0 * np.diag(aware))[:2] / wanted[:2] - 1.0) > 0.3)


def test_the_transport_keeps_the_second_order_bias_of_all_rows():
    X, _ = table(2500)
    slopes = np.array([1.0, 1.0, 0.0, 0.0])
    options = {"cv": "prefit", "diagnose": False}

    def bias(rows):
        with_it, without = (
            dfi.explain(
                X,
                X @ slopes,
                lambda A: A @ slopes,
                explain_rows=rows,
                transport_error=error,
                **options,
            )
            for error in ("derived", "ignore")
        )
        return float(np.sum(without.latent.scores - with_it.latent.scores))

    assert bias(500) == pytest.approx(bias(None), rel=0.4)


def test_large_scores_have_errors_of_their_own():
    # a total that is certain of scores that are not: what one has more, the other has less
    mean = np.array([0.5, 0.4, 0.1, 1.0])
    square = np.array([0.03**2, 0.001**2, 0.0, 0.001**2])
    running = SimpleNamespace(mean=mean, variance=square)
    assert stages._rows_needed(running, 1000, None) == pytest.approx(1000 * (0.03 / 0.025) ** 2)
    small = SimpleNamespace(mean=np.array([0.04, 0.96, 1.0]), variance=square[[0, 1, 3]])
    assert stages._rows_needed(small, 1000, None) < 1000


def test_groups_of_explained_rows_are_those_that_refits_leave_out(monkeypatch):
    from dfi.transports import base, gaussian

    seen = {}
    refits, joined = gaussian.Gaussian.refits, base.with_transport_error

    def recorded(self, population, by_ticket, *args, **kwargs):
        seen["tickets"] = by_ticket
        return refits(self, population, by_ticket, *args, **kwargs)

    def grouped(influence, weights, groups, *args):
        seen["groups"] = groups
        return joined(influence, weights, groups, *args)

    monkeypatch.setattr(source, "LARGE_ROWS", 500)
    monkeypatch.setattr(gaussian.Gaussian, "refits", recorded)
    monkeypatch.setattr(base, "with_transport_error", grouped)
    X, y = table(800)
    found = dfi.explain(
        X,
        y,
        "linear",
        cv=2,
        explain_rows=300,
        keep_rows=True,
        transport_error="jackknife",
        diagnose=False,
    )
    np.testing.assert_array_equal(seen["groups"], seen["tickets"](found.rows))


def test_classes_stop_together(monkeypatch):
    monkeypatch.setattr(stages, "BLOCK", 128)
    monkeypatch.setattr(stages, "OF_TOTAL", 0.1)
    X, _ = table(4000)
    # the third class is rare and takes many more rows than the first for the same precision
    labels = np.where(X[:, 2] > 2.2, 2, (X[:, 0] > 0).astype(int))
    found = dfi.explain(
        X, labels, "linear", task="classification", explain_rows="auto", cv=2, diagnose=False
    )
    parts = list(found.by_outcome.values())
    assert len(found.rows) < 4000
    for part in parts:
        np.testing.assert_array_equal(part.rows, found.rows)


def test_rows_that_depend_on_each_other_are_all_explained():
    X, y = table(400)
    labels = np.repeat(np.arange(40), 10)
    with pytest.raises(ValueError, match="explain_rows and max_seconds need independent rows"):
        dfi.explain(X, y, "linear", clusters=labels, explain_rows=200)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"explain_rows": 10},
            "a whole number of 50 or more or None, got 10",
        ),
        ({"explain_rows": "all"}, "explain_rows must be 'default', 'auto', .* got 'all'"),
        (
            {"explain_rows": 0.5},
            "a whole number of 50 or more or None, got 0.5",
        ),
        ({"max_seconds": 0}, "max_seconds must be a number of seconds above 0, got 0"),
        ({"max_seconds": "60"}, "max_seconds must be a number of seconds above 0, got '60'"),
    ],
)
def test_bad_options(options, message):
    X, y = table(100)
    with pytest.raises(ValueError, match=message):
        dfi.explain(X, y, "linear", **options)


def test_results_of_large_tables_keep_moments(monkeypatch, tmp_path):
    monkeypatch.setattr(source, "LARGE_ROWS", 500)
    X, y = table(2000)
    options = {"diagnose": False, "explain_rows": None, "cv": 2}
    kept = dfi.explain(X, y, "linear", keep_rows=True, **options)
    found = dfi.explain(X, y, "linear", **options)
    np.testing.assert_allclose(found.scores, kept.scores, rtol=1e-12)
    np.testing.assert_allclose(found.se, kept.se, rtol=1e-10)
    np.testing.assert_allclose(found.covariance, kept.covariance, rtol=1e-9, atol=1e-15)
    groups = {"both": ["x0", "x1"]}
    one, other = found.group(groups), kept.group(groups)
    np.testing.assert_allclose(one.se, other.se, rtol=1e-10)
    np.testing.assert_allclose(one.skewness, other.skewness, rtol=1e-8)
    with pytest.raises(ValueError, match="keep_rows=True"):
        _ = found.influence
    joint = {"both": ["x0", "x1"], "rest": ["x2", "x3"]}
    np.testing.assert_allclose(
        found.group(joint, how="joint").scores, kept.group(joint, how="joint").scores, rtol=1e-12
    )
    assert found.ranks().shape == kept.ranks().shape


def test_the_clock_starts_with_the_call():
    from dfi._models.prepare import prepare

    X, y = table(100)
    before = time.monotonic()
    fits = prepare(X, y, estimator="linear")
    assert before <= fits.workers.started <= time.monotonic()
