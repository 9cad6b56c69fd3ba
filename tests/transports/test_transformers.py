"""Transports on their own: scikit-learn transformers of any table."""

from __future__ import annotations

import importlib.util
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import dfi
from dfi.transports import Auto, Copula, EntropicOT, Gaussian, KnotheRosenblatt, Semicontinuous
from dfi.transports.curved import Custom

WITHOUT_VINE = importlib.util.find_spec("pyvinecopulib") is None
VINE = [] if WITHOUT_VINE else [KnotheRosenblatt()]
KERNEL = EntropicOT(epsilon=5.0, n_targets=64)

MAPS = [Gaussian(), Gaussian(components=None, shrinkage=0.1), Semicontinuous(), Copula(), *VINE]
"""Transports without a random part, on columns that are not collinear."""

OWN_WORDS = "refused in dfi's own words, which name the column and the remedy"
SAMPLING = (
    "sample_weight says how many units a row stands for, not how often it was seen: tests of "
    "dependence, knots and vines go by the number of rows"
)
EXPECTED = {
    "check_all_zero_sample_weights_error": OWN_WORDS,
    "check_complex_data": OWN_WORDS,
    "check_do_not_raise_errors_in_init_or_set_params": (
        "what no transport can be is refused where it is written, before models are fitted"
    ),
    "check_estimators_empty_data_messages": OWN_WORDS,
    "check_fit2d_1sample": OWN_WORDS,
}
COUNTED = {
    "check_sample_weight_equivalence_on_dense_data": SAMPLING,
    "check_sample_weight_equivalence_on_sparse_data": SAMPLING,
}


def rows(n: int = 300, seed: int = 0) -> np.ndarray:
    root = np.linalg.cholesky([[1.0, 0.7, 0.3], [0.7, 1.0, 0.5], [0.3, 0.5, 1.0]])
    return np.random.default_rng(seed).standard_normal((n, 3)) @ root.T


def frame(n: int = 300) -> pd.DataFrame:
    """Numbers, a category of three levels, a flag, whole numbers and a constant column."""
    rng = np.random.default_rng(1)
    X = rows(n)
    return pd.DataFrame(
        {
            "a": X[:, 0],
            "b": X[:, 1],
            "kind": pd.Categorical(rng.choice(["x", "y", "z"], n), categories=["z", "y", "x"]),
            "flag": X[:, 2] > 0.3,
            "count": rng.integers(0, 4, n),
            "same": 1.5,
        }
    )


def expected_failures(estimator: object) -> dict[str, str]:
    uncounted = isinstance(estimator, Semicontinuous | EntropicOT)
    return EXPECTED if uncounted else EXPECTED | COUNTED


@pytest.mark.filterwarnings("ignore::dfi.warnings.DFIWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore:.*during set_params:UserWarning")
class TestScikitLearn:
    """A straight transport stands for the others, which share what scikit-learn sees."""

    @parametrize_with_checks([Gaussian()], expected_failed_checks=expected_failures)
    def test_checks(self, estimator, check):
        check(estimator)

    @pytest.mark.full
    @parametrize_with_checks(
        [Gaussian(epsilon=0.5), Semicontinuous(), Copula(), KERNEL, *VINE],
        expected_failed_checks=expected_failures,
    )
    def test_checks_of_the_others(self, estimator, check):
        check(estimator)


@pytest.mark.parametrize("transport", MAPS, ids=repr)
def test_round_trip(transport):
    X = rows()
    fitted = clone(transport).fit(X)
    Z = fitted.transform(X)
    np.testing.assert_allclose(fitted.inverse_transform(Z), X, atol=1e-8)
    np.testing.assert_array_equal(Z, clone(transport).fit_transform(X))
    new = rows(20, seed=5) / 4
    np.testing.assert_allclose(fitted.inverse_transform(fitted.transform(new)), new, atol=1e-6)


@pytest.mark.parametrize(
    ("transport", "largest"),
    [
        (Gaussian(components=None), 1e-10),
        (Gaussian(components=[["x0", "x1", "x2"]]), 1e-10),
        (Copula(components=None), 1e-10),
        (Gaussian(epsilon=0.5), 0.1),
        (EntropicOT(epsilon=1.0, n_targets=1024), 0.1),
        *((vine, 0.1) for vine in VINE),
    ],
    ids=repr,
)
def test_latent_coordinates_are_uncorrelated_with_unit_variance(transport, largest):
    Z = transport.fit_transform(rows(1500))
    np.testing.assert_allclose(np.cov(Z.T, bias=True), np.eye(3), atol=largest)


def test_the_bridge_draws_from_its_coupling_and_projects_back():
    """X given Z has the mean s L Z, so X less it is uncorrelated with Z."""
    X = rows(20000)
    transport = Gaussian(epsilon=1.0).fit(X)
    Z = transport.transform(X)
    rest = X - transport.inverse_transform(Z)
    assert np.abs(rest.T @ Z / len(X)).max() < 0.02
    s = transport.correlation()
    whitened = Gaussian().fit_transform(X)
    np.testing.assert_allclose(whitened.T @ Z / len(X), s * np.eye(3), atol=0.02)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("transport", [Gaussian(), Copula()], ids=repr)
def test_tables_come_back_in_their_own_kinds(transport, library):
    given = frame()
    table = {
        "pandas": lambda: given,
        "polars": lambda: pl.from_pandas(given),
        "pyarrow": lambda: pa.Table.from_pandas(given),
    }[library]()
    fitted = clone(transport).fit(table)
    Z = fitted.transform(table)
    assert isinstance(Z, np.ndarray)
    names = fitted.get_feature_names_out().tolist()
    levels = "xyz" if library == "polars" else "zyx"  # polars' categories declare no order
    kind = [f"kind={level}" for level in levels]
    if isinstance(transport, Gaussian):
        kind = ["kind[0]", "kind[1]"]  # one block, of one coordinate less
    assert names == ["a", "b", *kind, "flag", "count"]
    assert Z.shape == (300, len(names))
    back = fitted.inverse_transform(Z)
    assert type(back) is type(table)
    back = back if library == "pandas" else back.to_pandas()
    assert (back["kind"].astype(str) == given["kind"].astype(str)).all()
    assert (back["flag"] == given["flag"]).all()
    assert (back["count"] == given["count"]).all()
    assert (back["same"] == 1.5).all()
    np.testing.assert_allclose(back[["a", "b"]], given[["a", "b"]], atol=1e-8)
    if library == "pandas":
        assert (back.dtypes == given.dtypes).all()


def test_latent_frames_by_set_output():
    given = frame()
    transport = Gaussian().fit(given)
    plain = transport.transform(given)
    as_pandas = transport.set_output(transform="pandas").transform(given.set_index(given["a"]))
    assert list(as_pandas.columns) == transport.get_feature_names_out().tolist()
    assert (as_pandas.index == given["a"]).all()
    np.testing.assert_array_equal(as_pandas.to_numpy(), plain)
    as_polars = transport.set_output(transform="polars").transform(given)
    assert isinstance(as_polars, pl.DataFrame)
    np.testing.assert_array_equal(as_polars.to_numpy(), plain)
    np.testing.assert_array_equal(
        transport.inverse_transform(as_polars)["a"], transport.inverse_transform(plain)["a"]
    )


def test_in_a_pipeline_and_a_grid():
    X = frame()
    y = X["a"] + 2 * X["b"] + (X["kind"] == "x") + 0.1 * np.random.default_rng(3).normal(size=300)
    model = make_pipeline(Gaussian(), LinearRegression())
    assert model.fit(X, y).score(X, y) > 0.99
    assert model[:-1].get_feature_names_out()[0] == "a"
    grid = GridSearchCV(model, {"gaussian__shrinkage": [0.0, 0.5]}, cv=2).fit(X, y)
    assert grid.best_params_["gaussian__shrinkage"] in (0.0, 0.5)
    weighted = model.fit(X, y, gaussian__sample_weight=np.arange(300) % 2)
    kept = Gaussian().fit(X[np.arange(300) % 2 == 1])
    np.testing.assert_allclose(weighted[0].transform(X), kept.transform(X), atol=1e-10)


def test_parameters_clones_and_pickles():
    names = [["b", "a"]]
    transport = Gaussian(components=names, shrinkage=0.2)
    copy = clone(transport)
    assert copy == transport
    assert copy.components is not transport.components
    assert transport.components is names
    fitted = copy.fit(frame())
    again = pickle.loads(pickle.dumps(fitted))  # noqa: S301
    np.testing.assert_array_equal(again.transform(frame()), fitted.transform(frame()))
    assert clone(fitted) == transport
    assert not hasattr(clone(fitted), "fitted_")
    fitted.set_params(shrinkage=3.0)
    with pytest.raises(ValueError, match=r"shrinkage must be a number in \[0, 1\)"):
        fitted.fit(frame())
    with pytest.raises(ValueError, match=r"shrinkage must be a number in \[0, 1\)"):
        dfi.explain(frame(), np.arange(300.0), "linear", transport=fitted)
    # what was fitted keeps the parameters it was fitted with
    assert fitted.fitted_.design.shrinkage == 0.2


def test_draws_are_the_same_in_every_call_unless_random_state_is_none():
    X = rows(200)
    for transport in (Gaussian(epsilon=1.0), EntropicOT(epsilon=5.0, n_targets=128)):
        fitted = transport.fit(X)
        first = fitted.transform(X)
        np.testing.assert_array_equal(first, fitted.transform(X))
        other = clone(transport).set_params(random_state=1).fit(X)
        assert np.abs(other.transform(X) - first).max() > 0.1
    fresh = Gaussian(epsilon=1.0, random_state=None).fit(X)
    assert np.abs(fresh.transform(X) - fresh.transform(X)).max() > 0.1
    with pytest.raises(ValueError, match="random_state must be a whole number of 0 or more"):
        Gaussian(random_state=-1)


def test_collinear_columns_have_independent_latents_and_come_back():
    X = rows(2000)
    X = np.column_stack([X, X[:, 0] - X[:, 1]])
    transport = Gaussian().fit(X)
    Z = transport.transform(X)
    assert np.abs(np.corrcoef(Z.T) - np.eye(4)).max() < 0.1
    np.testing.assert_allclose(transport.inverse_transform(Z), X, atol=1e-8)


@pytest.mark.skipif(WITHOUT_VINE, reason="pyvinecopulib is not installed")
def test_a_vine_spreads_levels_and_brings_them_back():
    X = frame()[["a", "b", "count"]]
    vine = KnotheRosenblatt(order=["b", "a", "count"]).fit(X)
    back = vine.inverse_transform(vine.transform(X))
    assert (back["count"] == X["count"]).all()
    np.testing.assert_allclose(back[["a", "b"]], X[["a", "b"]], atol=1e-6)


def test_auto_fits_what_it_chooses():
    X = rows(400)
    np.testing.assert_array_equal(Auto().fit_transform(X), Gaussian().fit_transform(X))
    skewed = np.exp(X)
    auto = Auto().fit(skewed)
    assert auto.fitted_.design == Copula()


def test_a_user_defined_transport_is_a_transformer_too():
    class Scaled:
        def fit(self, X):
            self.scale = X.std(axis=0)

        def encode(self, X):
            return X / self.scale

        def decode(self, Z):
            return Z * self.scale

    X = rows(50)
    transport = Custom(Scaled()).fit(X)
    np.testing.assert_allclose(transport.transform(X).std(axis=0), 1.0)
    np.testing.assert_allclose(transport.inverse_transform(transport.transform(X)), X)


def test_bad_tables_are_refused():
    transport = Gaussian()
    with pytest.raises(NotFittedError):
        transport.transform(rows(5))
    with pytest.raises(ValueError, match="every column of X is constant: there is nothing"):
        transport.fit(np.ones((5, 2)))
    transport.fit(frame())
    with pytest.raises(ValueError, match="unseen level"):
        transport.transform(frame().assign(kind="w"))
    with pytest.raises(ValueError, match=r"Z has shape \(3, 2\); Gaussian has 6 latent"):
        transport.inverse_transform(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="components names 'x_1', which is not a column"):
        Gaussian(components=[["x_1"]]).fit(rows(20))
    with pytest.raises(ValueError, match="input_features is not equal to feature_names_in_"):
        transport.get_feature_names_out(["p", "q", "r", "s", "t", "u"])


@pytest.mark.parametrize(
    ("transport", "options", "message"),
    [
        (
            "entropic",
            {"integration": dfi.Quadrature("gauss")},
            r"Quadrature\(rule='gauss'\) averages models along latent lines; tr",
        ),
        (
            "entropic",
            {"integration": dfi.Quadrature("draws")},
            r"Quadrature\(rule='draws'\) averages models along latent lines; tr",
        ),
        (
            "entropic",
            {"integration": dfi.Quadrature(nodes=8)},
            r"Quadrature\(nodes=8\) averages models along .* leave integration='auto'",
        ),
        (
            "entropic",
            {"integration": dfi.Quadrature(memory=1)},
            r"Quadrature\(memory=1\) averages models along .* leave integration='auto'",
        ),
        (
            "entropic",
            {"transport_error": "finite-difference"},
            "transport_error='finite-difference' needs straight lines, which transport='entrop",
        ),
        (
            "knothe-rosenblatt",
            {"transport_error": "finite-difference"},
            "transport_error='finite-difference' needs straight lines, which transport",
        ),
        (
            "knothe-rosenblatt",
            {"integration": dfi.Quadrature("draws")},
            r"Quadrature\('draws'\) needs straight lines, which",
        ),
        (
            Gaussian(epsilon=1.0),
            {"transport_error": "finite-difference"},
            "transport_error='finite-difference' holds for epsilon = 0",
        ),
        (
            "gaussian",
            {"transport_error": "tilt"},
            "transport_error must be 'auto', 'derived', .* or 'ignore', got 'tilt'",
        ),
    ],
)
def test_an_option_that_a_transport_does_not_honour_is_refused(transport, options, message):
    def never(X):
        raise AssertionError("a model was asked")

    with pytest.raises(ValueError, match=message):
        dfi.explain(rows(40), np.arange(40.0), never, transport=transport, cv="prefit", **options)


def test_a_user_defined_transport_has_no_draws_along_lines():
    class Same:
        def fit(self, X):
            pass

        def encode(self, X):
            return X

        decode = encode

    with pytest.raises(ValueError, match=r"Quadrature\('draws'\) needs straight lines, which tra"):
        dfi.explain(
            rows(40), np.arange(40.0), "linear", transport=Same(),
            integration=dfi.Quadrature("draws"),
        )  # fmt: skip


def test_what_auto_chooses_refuses_too(monkeypatch):
    from dfi.transports.base import TransportChoice

    monkeypatch.setattr(Auto, "choose", lambda *_: TransportChoice(KERNEL, ("because",)))
    with pytest.raises(
        ValueError, match=r"Quadrature\(nodes=8\) averages models along latent lines"
    ):
        dfi.explain(
            rows(40), np.arange(40.0), "linear", transport="auto",
            integration=dfi.Quadrature(nodes=8),
        )  # fmt: skip
