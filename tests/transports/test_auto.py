"""The choice among transports, the warning of the default, and every transport end to end."""

import re
import sys
import warnings

import numpy as np
import pandas as pd
import pytest

import dfi
from dfi._data import read_table
from dfi._data.weights import Weights
from dfi.transports import Copula, EntropicOT, Gaussian, KnotheRosenblatt
from dfi.transports.auto import choose_transport, latent_diagnostics
from dfi.warnings import TransportWarning


def choose(X):
    table = read_table(X)
    weights = Weights(np.ones(len(table.matrix)), "frequency")
    seed = np.random.SeedSequence(0)
    return choose_transport(table.matrix, weights, table.constant, table.columns, seed)


def test_near_normal_rows_keep_the_linear_transport():
    assert choose(dfi.datasets.m1(600, d=4).X).design == Gaussian()


def test_skewed_margins_take_normal_scores():
    choice = choose(np.exp(dfi.datasets.m1(600, d=4).X))
    assert choice.design == Copula()
    assert "far from normal" in choice.reasons[0]


def test_dependence_left_over_takes_a_map_that_follows_it():
    choice = choose(dfi.datasets.m4(800, d=3).X)
    assert choice.design == KnotheRosenblatt()
    assert "above what chance leaves" in choice.reasons[1]


def test_without_the_vine_package_entropic_transport_stands_in(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    choice = choose(dfi.datasets.m4(1500, d=2).X)
    assert isinstance(choice.design, EntropicOT)
    assert any("pip install pyvinecopulib" in reason for reason in choice.reasons)


def test_result_says_what_was_chosen_and_why():
    sample = dfi.datasets.m4(600, d=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TransportWarning)
        result = dfi.explain(
            sample.X, sample.y, estimator="linear", transport="auto", cv=2, transport_error="ignore"
        )
    assert result.spec["transport"] == "knothe-rosenblatt"
    assert result.diagnostics["auto"]["chosen"] == "knothe-rosenblatt"
    assert len(result.diagnostics["auto"]["why"]) == 3


def dependence_of(result):
    return next(reason for reason in result.findings if reason.kind == "dependence")


@pytest.mark.filterwarnings("ignore::dfi.warnings.DFIWarning")
def test_leftover_dependence_is_a_reason_and_says_what_was_tried():
    sample = dfi.datasets.m4(600, d=3)
    reason = dependence_of(dfi.explain(sample.X, sample.y, estimator="linear", cv=2))
    assert set(reason.about) == {"x0", "x1"}
    assert "'copula' was tried and leaves as" in reason.remedy
    skewed = np.exp(2.0 * dfi.datasets.m1(800, rho=0.9, d=2).X)
    tried = r"leaves less \(distance correlation 0.0\d\): on 200 rows the scores add up to"
    message = dependence_of(dfi.explain(skewed, skewed[:, 0], estimator="linear", cv=2)).remedy
    assert re.search(tried, message)
    assert "dfi.sensitivity" in message
    assert "entropic" not in message.lower()


@pytest.mark.filterwarnings("ignore::dfi.warnings.DFIWarning")
def test_total_under_the_tried_transport_is_the_one_it_would_have():
    skewed = np.exp(2.0 * dfi.datasets.m1(400, rho=0.9, d=2, random_state=2).X)
    y = skewed[:, 0]
    folds = [(np.arange(200), np.arange(200, 400)), (np.arange(200, 400), np.arange(200))]
    options = {"estimator": "linear", "cv": folds, "transport_error": "ignore"}
    message = dependence_of(dfi.explain(skewed, y, **options)).remedy
    copula = dfi.explain(skewed, y, transport="copula", diagnose=False, **options)
    first = copula.influence[200:].sum(axis=1).mean() / np.var(y)
    assert f"add up to {100 * first:.2g} % of the outcome's variance with it" in message


def test_medium_dependence_and_dependence_of_columns_that_say_nothing_are_no_alarm():
    generator = np.random.default_rng(0)
    x = generator.standard_normal((600, 3))
    x[:, 2] = (x[:, 1] ** 2 - 1) / np.sqrt(2) + 0.2 * generator.standard_normal(600)
    y = x[:, 0] + 0.5 * generator.standard_normal(600)
    assert dependence_of(dfi.explain(x, y, estimator="linear", cv=2)).severity == "note"
    reason = dependence_of(dfi.explain(x, y + x[:, 1], estimator="linear", cv=2))
    assert (reason.severity, set(reason.about)) == ("care", {"x1", "x2"})


def test_chance_is_no_reason():
    for seed in range(10):
        sample = dfi.datasets.m1(200, rho=0.7, d=4, random_state=seed)
        result = dfi.explain(sample.X, sample.y, estimator="linear", cv=2)
        assert dependence_of(result).severity == "note"


@pytest.mark.parametrize(
    "law",
    ["rare", *(pytest.param(law, marks=pytest.mark.full) for law in ("normal", "coin", "skewed"))],
)
def test_level_of_chance_is_rarely_passed_by_independent_columns(law):
    def draw(seed):
        generator = np.random.default_rng(seed)
        normal = generator.standard_normal((100, 3))
        uniform = generator.random((100, 3))
        laws = {"normal": normal, "coin": uniform < 0.5, "rare": uniform < 0.1}
        return laws.get(law, np.exp(normal)).astype(float)

    adjusted = [
        latent_diagnostics(draw(seed), np.random.SeedSequence(seed)).p_value for seed in range(200)
    ]
    # at 5 % over all pairs: a rate of 5 % passes 19 of 200 with a probability of .003
    assert sum(p <= 0.05 for p in adjusted) <= 19


@pytest.mark.filterwarnings("ignore::dfi.warnings.LeakWarning")
@pytest.mark.filterwarnings("ignore:row .* alone holds:dfi.warnings.InferenceWarning")
def test_levels_of_one_category_are_not_leftover_dependence():
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"colour": generator.choice(list("abcd"), 300), "x": generator.standard_normal(300)}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", TransportWarning)
        result = dfi.explain(frame, frame["x"] + 0.1, estimator="linear", cv=2)
    assert result.diagnostics["latent"]["max_distance_correlation"] < 0.3


@pytest.mark.parametrize(
    ("transport", "root"),
    [
        ("copula", "symmetric"),
        (KnotheRosenblatt(attribution="slopes"), "cholesky"),
        (EntropicOT(epsilon=1.0, n_targets=1024, attribution="slopes"), "bridge"),
    ],
    ids=["copula", "knothe-rosenblatt", "entropic"],
)
@pytest.mark.filterwarnings("ignore:.*blurs the rows:dfi.warnings.ImplausibleScoreWarning")
def test_gaussian_data_agree_with_the_closed_form_within_three_standard_errors(transport, root):
    n, rho = 600, 0.6
    sample = dfi.datasets.m1(n, rho=rho, d=3, random_state=4)
    result = dfi.explain(sample.X, sample.y, estimator="linear", transport=transport)
    correlation = np.eye(3)
    correlation[0, 1] = correlation[1, 0] = rho
    values, vectors = np.linalg.eigh(correlation)
    factor, shrink = (vectors * np.sqrt(values)) @ vectors.T, 1.0
    if root == "cholesky":
        factor = np.linalg.cholesky(correlation)
    if root == "bridge":
        shrink = np.sqrt(1 + 1 / 16) - 1 / 4
    latent = shrink**2 * (factor.T @ [5.0, 0.0, 0.0]) ** 2
    attributed = shrink**2 * (factor**2) @ latent
    # null scores have no first-order error, only second-order bias: 1 % of the total for them
    slack = 0.01 * attributed.sum()
    for found, truth in ((result, attributed), (result.latent, latent)):
        error = 3 * found.se + np.where(truth > 0, 0.0, slack)
        assert (np.abs(found.scores - truth) < error).all()
    assert (result.se[:2] > 0).all()


@pytest.mark.parametrize("transport", ["gaussian", "copula", "knothe-rosenblatt", "entropic"])
@pytest.mark.filterwarnings("ignore:.*blurs the rows:dfi.warnings.ImplausibleScoreWarning")
def test_null_block_scores_nothing(transport):
    """x2 and x3 are independent of the rest and of y."""
    sample = dfi.datasets.m1(700, rho=0.6, d=3)
    result = dfi.explain(
        sample.X, sample.y, estimator="linear", transport=transport, cv=2, transport_error="ignore"
    )
    assert abs(result.scores[2]) < 0.02 * result.scores.sum()


def test_same_result_for_any_n_jobs_and_again():
    sample = dfi.datasets.m4(150, d=2)
    options = {"estimator": "linear", "transport": "knothe-rosenblatt", "cv": 3, "diagnose": False}
    first, second = (dfi.explain(sample.X, sample.y, n_jobs=n_jobs, **options) for n_jobs in (1, 2))
    np.testing.assert_array_equal(first.influence, second.influence)


@pytest.mark.filterwarnings("ignore:.*blurs the rows:dfi.warnings.ImplausibleScoreWarning")
def test_small_kernels_are_refused_and_doubtful_ones_warn():
    sample = dfi.datasets.m1(200, d=6)
    options = {"estimator": "linear", "cv": 2, "transport_error": "ignore"}
    with pytest.raises(ValueError, match=r"needs 30: .*(epsilon = \d|no epsilon).*'copula'"):
        dfi.explain(sample.X, sample.y, transport=EntropicOT(epsilon=0.3), **options)
    with pytest.warns(TransportWarning, match="needs 100"):
        dfi.explain(sample.X, sample.y, transport=EntropicOT(epsilon=3.0), **options)


def test_vine_missing_is_one_pip_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyvinecopulib", None)
    sample = dfi.datasets.m1(100, d=2)
    with pytest.raises(ImportError, match=r"pip install pyvinecopulib"):
        dfi.explain(sample.X, sample.y, estimator="linear", transport="knothe-rosenblatt", cv=2)


@pytest.mark.parametrize("error", ["derived", "finite-difference"])
def test_sensitivity_needs_straight_lines(error):
    sample = dfi.datasets.m1(100, d=2)
    with pytest.raises(ValueError, match=f"transport_error='{error}' is about straight lines, "):
        dfi.explain(sample.X, sample.y, transport="entropic", transport_error=error)
