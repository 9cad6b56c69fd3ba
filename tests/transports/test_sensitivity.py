"""The same models under several transports."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import dfi
from dfi.transports import Brenier, Copula, EntropicOT, Gaussian, Semicontinuous
from dfi.warnings import TransportWarning


@pytest.fixture(scope="module")
def sample():
    return dfi.datasets.m1(300, rho=0.8, d=3, random_state=2)


def test_each_setting_is_the_explanation_alone(sample):
    found = dfi.sensitivity(
        sample.X, sample.y, transports=["gaussian", Copula(), "semicontinuous"], estimator="linear"
    )
    assert found.labels == ("gaussian", "copula", "semicontinuous")
    for label in found.labels:
        alone = dfi.explain(sample.X, sample.y, estimator="linear", transport=label)
        np.testing.assert_array_equal(found[label].influence, alone.influence)


def test_text_has_a_line_for_each_setting(sample):
    found = dfi.sensitivity(sample.X, sample.y, epsilons=[0, 0.5], estimator="linear")
    found = dataclasses.replace(found, skipped={"epsilon = 9": "too wide"})
    first, *settings = repr(found).splitlines()
    assert first == "Sensitivity: 3 features under 2 settings"
    scores = found["epsilon = 0"].scores
    assert settings[0].startswith(f"epsilon = 0    x0 {scores[0]:.4g}, ")
    assert settings[1].startswith("epsilon = 0.5  x0 ")
    assert settings[2] == "epsilon = 9    skipped: too wide"


# a blur of epsilon = 2 leaves little of what is explained, and says so
@pytest.mark.filterwarnings("ignore:the scores add up to only:dfi.warnings.ImplausibleScoreWarning")
def test_grid_of_epsilon_follows_the_bridge(sample):
    grid = [0.0, 0.5, 2.0]
    found = dfi.sensitivity(sample.X, sample.y, epsilons=grid, estimator="linear")
    c = np.sqrt(1 + np.square(grid) / 16) - np.divide(grid, 4)
    # linear regression: latent scores shrink by c^2, attributed ones by c^4
    latent = np.array([result.latent.scores[0] for result in found.values()])
    np.testing.assert_allclose(latent / latent[0], c**2, rtol=0.1)
    np.testing.assert_allclose(found.scores()[:, 0] / found.scores()[0, 0], c**4, rtol=0.1)
    assert found.labels[1] == "epsilon = 0.5"


def test_the_figure_of_epsilon_is_one_call_for_each_form():
    """M3: the published form scales all scores by one factor; the solved one is refused or runs."""
    figure = dfi.datasets.m3(400, rho=0.5, random_state=1)
    options = {
        "estimator": figure.regression, "cv": "prefit", "transport_error": "ignore",
        "diagnose": False,
    }  # fmt: skip
    grid = [Semicontinuous(epsilon=epsilon) for epsilon in (0.01, 0.5, 2.0)]
    published = dfi.sensitivity(figure.X, figure.y, transports=grid, **options).scores()
    shares = published / published.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(shares, shares[[0, 0, 0]], rtol=1e-9)
    assert (np.diff(published.sum(axis=1)) < 0).all()
    with pytest.warns(TransportWarning):
        solved = dfi.sensitivity(
            figure.X, figure.y, epsilons=[0, 0.1, 2], solved=True, **options
        )  # fmt: skip
    assert solved.labels == ("epsilon = 0", "epsilon = 2")
    assert list(solved.skipped) == ["epsilon = 0.1"]
    assert 0 < solved["epsilon = 2"].scores.sum() < solved["epsilon = 0"].scores.sum()


def test_models_are_fitted_once(sample):
    from sklearn.linear_model import LinearRegression

    fits = []

    class Counting(LinearRegression):
        def fit(self, X, y, sample_weight=None):
            fits.append(len(X))
            return super().fit(X, y, sample_weight)

    dfi.sensitivity(
        sample.X, sample.y, transports=["gaussian", "copula"], estimator=Counting(), cv=3
    )
    assert len(fits) == 6


def test_table_ranks_and_agreement(sample):
    frame = pd.DataFrame(sample.X, columns=["a", "b", "c"])
    found = dfi.sensitivity(frame, sample.y, transports=["gaussian", "copula"], estimator="linear")
    table = found.table()
    assert list(table.columns) == [
        "setting", "feature", "score", "se", "share", "rank", "latent_score",
    ]  # fmt: skip
    assert len(table) == 6
    first = table[table.setting == "gaussian"]
    assert list(first["rank"]) == [1, 2, 3]
    assert first["share"].sum() == pytest.approx(1.0)
    np.testing.assert_allclose(found.rank_agreement(), 1.0)
    assert found.plot() is not None
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.labels = ()
    with pytest.raises(KeyError, match="no setting 'ot'"):
        found["ot"]


def test_unsuitable_settings_are_left_out_with_their_reason(sample):
    settings = ["gaussian", EntropicOT(epsilon=0.1)]
    with pytest.warns(TransportWarning, match="is left out"):
        found = dfi.sensitivity(sample.X, sample.y, transports=settings, estimator="linear")
    assert found.labels == ("gaussian",)
    assert "needs 30" in found.skipped["entropic (epsilon = 0.1)"]


def test_labels_tell_settings_of_one_transport_apart(sample):
    settings = [Gaussian(), Gaussian(epsilon=0.5), Gaussian(epsilon=0.5, n_draws=2)]
    found = dfi.sensitivity(
        sample.X, sample.y, transports=settings, estimator="linear", diagnose=False
    )
    assert found.labels == (
        "gaussian", "gaussian (epsilon = 0.5)", "gaussian (epsilon = 0.5, n_draws = 2)",
    )  # fmt: skip


def test_no_epsilon_is_lost_to_the_rounding_of_its_label(sample):
    found = dfi.sensitivity(
        sample.X, sample.y, epsilons=[1.0, 1.0000001], estimator="linear", diagnose=False
    )
    assert found.labels == ("epsilon = 1", "epsilon = 1.0000001")
    assert [result.spec["epsilon"] for result in found.values()] == [1.0, 1.0000001]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"transports": ["gaussian"], "epsilons": [0.1]}, TypeError, "either transports"),
        ({"transports": []}, ValueError, "the list is empty"),
        ({"epsilons": [-1.0]}, ValueError, "epsilons must be numbers of at least 0"),
        (
            {"transports": ["gaussian"], "transport": "copula"},
            TypeError,
            "did you mean 'transports'",
        ),
        ({"transports": ["gausian"]}, ValueError, "did you mean 'gaussian'"),
        ({"transports": "copula"}, TypeError, r"pass transports=\['copula'\]"),
        ({"epsilons": 0.5}, TypeError, r"pass epsilons=\[0.5\]"),
        ({"epsilons": [0.1, 0.1]}, ValueError, "epsilons has 0.1 twice"),
    ],
)
def test_bad_grids(sample, options, error, message):
    with pytest.raises(error, match=message):
        dfi.sensitivity(sample.X, sample.y, **options)


def test_a_solver_that_does_not_converge_is_skipped(monkeypatch):
    from dfi.transports import entropic

    def fail(*_, **__):
        raise RuntimeError("entropic transport did not reach the tolerance")

    monkeypatch.setattr(entropic, "solve", fail)
    sample = dfi.datasets.m1(200, rho=0.5, d=2)
    with pytest.warns(dfi.warnings.TransportWarning, match="did not reach the tolerance"):
        found = dfi.sensitivity(
            sample.X, sample.y, epsilons=[0.0, 1.0], solved=True, estimator="linear"
        )
    assert found.labels == ("epsilon = 0",)
    assert "did not reach" in found.skipped["epsilon = 1"]


def test_by_default_maps_without_an_order_are_compared():
    sample = dfi.datasets.m4(400, d=2)
    found = dfi.sensitivity(
        sample.X, sample.y, "linear", cv=2, diagnose=False, transport_error="ignore"
    )
    assert found.labels == ("gaussian", "copula", "brenier")
    assert repr(found).endswith(found.dependence)


def parabola(n):
    generator = np.random.default_rng(0)
    x = generator.standard_normal(n)
    return np.column_stack([x, x**2 + 0.3 * generator.standard_normal(n)])


def test_a_sentence_says_whether_leading_features_depend_on_the_transport():
    X = parabola(600)
    options = {"cv": "prefit", "diagnose": False, "transport_error": "ignore"}
    apart = dfi.sensitivity(
        X, X[:, 1], lambda X: X[:, 1], transports=["gaussian", "brenier"], **options
    )
    assert apart.dependence.startswith("The leading features depend on the setting: 'x")
    assert "under 'gaussian' and" in apart.dependence
    normal = dfi.datasets.m1(600, d=3)
    same = dfi.sensitivity(
        normal.X, normal.y, normal.regression, transports=["gaussian", "copula"], **options
    )
    assert same.dependence.startswith("The leading features do not depend on the setting")


def test_a_model_without_an_answer_off_the_data_is_told_of_the_transport():
    """The logarithm of positive columns: whitening asks about negative ones."""
    X = np.exp(dfi.datasets.m1(300, d=2).X)

    def logarithm(X):
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.log(np.asarray(X)[:, 0])

    y = np.log(X[:, 0])
    with pytest.raises(ValueError, match="transport='gaussian' evaluates the model at new rows"):
        dfi.explain(X, y, logarithm, cv="prefit", diagnose=False)
    with pytest.warns(dfi.warnings.TransportWarning, match="gaussian is left out"):
        found = dfi.sensitivity(
            X, y, logarithm, cv="prefit", transports=["gaussian", "copula"], diagnose=False
        )
    assert found.labels == ("copula",)
    # a model that has no answer at the rows themselves is another matter
    with pytest.raises(ValueError, match="predicted NaN or infinity for 300 of 300 rows: a model"):
        dfi.explain(X, y, lambda X: np.full(len(X), np.nan), cv="prefit", diagnose=False)


@pytest.mark.filterwarnings("ignore:invalid value encountered in log:RuntimeWarning")
@pytest.mark.parametrize("transport", ["gaussian", "brenier"])
def test_a_pipeline_that_fails_off_the_data_is_told_of_the_transport(transport):
    """The pipeline raises where a function gives NaN."""
    X = np.exp(dfi.datasets.m4(300, d=2).X)
    model = make_pipeline(FunctionTransformer(np.log), LinearRegression())
    design = Brenier(margins=False) if transport == "brenier" else transport
    with pytest.raises(
        ValueError,
        match=f"transport='{transport}' evaluates the model at new rows.*could not predict",
    ) as caught:
        dfi.explain(X, np.log(X[:, 0]), model, transport=design, cv=2, diagnose=False)
    assert "Use transport='copula'" in str(caught.value)
