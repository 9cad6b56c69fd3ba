"""Models that write into whatever they are given: every number, and every array, stays the same."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dfi
from dfi._data.table import read_table
from dfi._learners.stack import SuperLearner, only_reads
from dfi._models.predictor import predictor_for
from dfi._models.submodels import FixedStack
from dfi.plots import line_profile_data

RNG = np.random.default_rng(0)
N = 90
LATENT = RNG.standard_normal((N, 3))
LATENT[:, 1] = 0.7 * LATENT[:, 0] + 0.7 * LATENT[:, 1]
X = LATENT * [1.0, 5.0, 3.0] + [3.0, -2.0, 7.0]
Y = 2 * LATENT[:, 0] + LATENT[:, 2] + 0.5 * RNG.standard_normal(N)
WEIGHT = RNG.uniform(0.5, 2.0, N)


def formula(rows):
    return np.sin(rows[:, 0]) + 0.3 * rows[:, 1] + 0.02 * rows[:, 1] * rows[:, 2]


class Model(RegressorMixin, BaseEstimator):
    """Least squares on a bent column; ``hostile``: overwrites all that it was ever given.

    It also answers with one buffer, which it fills again at the next call.
    """

    def __init__(self, hostile=False):
        self.hostile = hostile

    def __sklearn_is_fitted__(self):
        return hasattr(self, "inner_")

    def _bent(self, X):
        rows = np.array(X, dtype=float)
        return np.column_stack([rows, np.sin(rows[:, :1])])

    def _spoil(self, *given):
        if not self.hostile:
            return
        self.__dict__.setdefault("_given", []).extend(thing for thing in given if thing is not None)
        for thing in self._given:
            spoil(thing)

    def fit(self, X, y, sample_weight=None):
        self.inner_ = LinearRegression().fit(
            self._bent(X), np.array(y), None if sample_weight is None else np.array(sample_weight)
        )
        self._spoil(X, y, sample_weight)
        return self

    def predict(self, X):
        value = self.inner_.predict(self._bent(X))
        self._spoil(X)
        if not self.hostile:
            return value
        buffer = self.__dict__.setdefault("_buffer", np.empty(100_000))
        buffer[: len(value)] = value
        return buffer[: len(value)]


def spoil(thing):
    """Write into a table as far as its library lets one."""
    if isinstance(thing, np.ndarray):
        thing[...] = -77
        return
    if isinstance(thing, pd.DataFrame):
        thing.iloc[:, :] = -77.0
        return
    columns = thing.columns if isinstance(thing, pa.Table) else thing.get_columns()
    for column in columns:
        parts = column.chunks if isinstance(thing, pa.Table) else [column]
        for part in parts:
            memory = np.asarray(part)
            try:
                memory.flags.writeable = True
            except ValueError:
                continue
            memory[...] = -77


def function(hostile):
    def predict(table):
        rows = np.array(table, dtype=float)
        if isinstance(table, pa.Table):
            rows = np.column_stack([np.array(column) for column in table.columns])
        value = formula(rows)
        if hostile:
            spoil(table)
        return value

    return predict


def tables():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    return {
        "numpy": X.copy(),
        "pandas": frame,
        "polars": pl.DataFrame(frame.to_dict("list")),
        "pyarrow": pa.table({name: frame[name].to_numpy() for name in frame}),
    }


def plain(table):
    if isinstance(table, pa.Table):
        return np.column_stack([np.array(column) for column in table.columns])
    return np.array(table, dtype=float)


def same(first, second):
    np.testing.assert_allclose(first.scores, second.scores, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(first.se, second.se, rtol=1e-9, atol=1e-12)
    assert first.quality.r2 == pytest.approx(second.quality.r2, rel=1e-12)


def both(explain, **options):
    """Explain with a polite and a hostile model, and check that the data survive."""
    results = []
    for hostile in (False, True):
        table, y, weight = X.copy(), Y.copy(), WEIGHT.copy()
        results.append(explain(table, y, weight, hostile, **options))
        np.testing.assert_array_equal(table, X)
        np.testing.assert_array_equal(y, Y)
        np.testing.assert_array_equal(weight, WEIGHT)
    return results


@pytest.mark.parametrize("library", ["numpy", "pandas", "polars", "pyarrow"])
def test_a_function_that_writes_into_any_table_is_explained_alike(library):
    found = []
    for hostile in (False, True):
        table, y = tables()[library], Y.copy()
        found.append(
            dfi.explain(table, y, estimator=function(hostile), cv="prefit", diagnose=False)
        )
        np.testing.assert_array_equal(plain(table), X)
        np.testing.assert_array_equal(y, Y)
    same(*found)


@pytest.mark.parametrize("library", ["numpy", "pandas", "polars", "pyarrow"])
def test_a_table_of_one_column_is_not_handed_out_either(library):
    """One column of a matrix is contiguous: a frame could be a window on it."""
    table = tables()[library]
    single = {
        "numpy": lambda: table[:, :1],
        "pandas": lambda: table[["a"]],
        "polars": lambda: table[["a"]],
        "pyarrow": lambda: table.select(["a"]),
    }[library]()
    read = read_table(single)
    before = read.matrix.copy()

    def hostile(given):
        spoil(given)
        return np.zeros(N)

    points = read.matrix
    predictor_for(hostile, read, prefit=True)(points)
    np.testing.assert_array_equal(read.matrix, before)


@pytest.mark.filterwarnings("ignore:at epsilon = 3")
@pytest.mark.parametrize("transport", ["gaussian", "copula", "entropic", "bridge", "custom"])
@pytest.mark.parametrize("cv", [3, "prefit"])
def test_a_model_that_writes_everywhere_is_explained_alike(transport, cv):
    class InPlace:
        """Works on its arrays, as a transformer with copy=False does."""

        reference = "gaussian"

        def fit(self, rows, sample_weight):
            self.center, self.scale = rows.mean(axis=0), rows.std(axis=0)
            rows[...] = 5.0
            sample_weight[...] = 0.0

        def encode(self, rows):
            rows -= self.center
            rows /= self.scale
            return rows

        def decode(self, latent):
            latent *= self.scale
            latent += self.center
            return latent

    designs = {
        "bridge": dfi.transports.Gaussian(epsilon=0.5, n_draws=1, n_smoothing=4),
        "custom": InPlace(),
        "entropic": dfi.transports.EntropicOT(epsilon=3.0, n_targets=128),
    }

    def explain(table, y, weight, hostile):
        model = Model(hostile)
        if cv == "prefit":
            model.fit(X.copy(), Y.copy())
        return dfi.explain(
            table, y, estimator=model, cv=cv, sample_weight=weight, diagnose=False,
            transport=designs.get(transport, transport), transport_error="ignore",
        )  # fmt: skip

    same(*both(explain))


def test_every_comparator_finds_the_same():
    def compare(table, y, weight, hostile):
        return dfi.compare(table, y, estimator=Model(hostile), cv=3, sample_weight=weight)

    polite, hostile = both(compare)
    assert set(polite.results) == set(hostile.results)
    for name, result in polite.results.items():
        np.testing.assert_allclose(
            hostile.results[name].influence, result.influence, rtol=1e-8, atol=1e-9, err_msg=name
        )


def test_profiles_are_drawn_alike():
    def profile(table, y, weight, hostile):
        explainer = dfi.DFI(estimator=Model(hostile), cv=3, diagnose=False)
        explainer.fit(table, y, sample_weight=weight)
        return line_profile_data(explainer, "x1", n_values=7)

    first, second = both(profile)
    for name in ("latent", "mean", "low", "high"):
        np.testing.assert_allclose(np.asarray(first[name]), np.asarray(second[name]), rtol=1e-9)


def test_a_stack_is_not_spoiled_by_one_member():
    def explain(table, y, weight, hostile):
        members = [("bent", Model(hostile)), ("ridge", Ridge())]
        learner = SuperLearner(members=members, random_state=0)
        found = dfi.compare(
            table, y, ["dfi", "loco"], estimator=learner, cv=3, sample_weight=weight
        )
        fixed = FixedStack(members=members, weights=[0.5, 0.5]).fit(table, y, weight)
        return found.results["dfi"], found.results["loco"], fixed.predict(table)

    polite, hostile = both(explain)
    same(polite[0], hostile[0])
    same(polite[1], hostile[1])
    np.testing.assert_allclose(polite[2], hostile[2])


FINAL = {
    "neighbours": KNeighborsRegressor(5),
    "linear": LinearRegression(),
    "forest": RandomForestRegressor(10, random_state=0),
}


@pytest.mark.filterwarnings("ignore::dfi.warnings.RefitWarning")
@pytest.mark.parametrize("final", list(FINAL))
@pytest.mark.parametrize("cv", [3, "prefit"])
@pytest.mark.parametrize("library", ["numpy", "pandas"])
def test_a_scaler_that_saves_its_copy_changes_nothing(final, cv, library):
    """Once 3.5, 1.5, 0.7 became 0.7, 18.8, 21.2 without a word."""
    found = []
    for copy in (True, False):
        table = tables()[library]
        model = make_pipeline(StandardScaler(copy=copy), FINAL[final])
        if cv == "prefit":
            model.fit(table.copy(), Y)
        found.append(dfi.explain(table, Y, estimator=model, cv=cv, diagnose=False))
        np.testing.assert_array_equal(plain(table), X)
    same(*found)
    assert found[0].diagnostics["lines"] == found[1].diagnostics["lines"]


def test_who_only_reads_is_not_given_a_copy():
    assert only_reads(make_pipeline(StandardScaler(), SuperLearner())) is False
    assert only_reads(make_pipeline(StandardScaler(copy=False), Ridge())) is False
    for _, member in dfi._learners.stack.default_members(0):
        assert only_reads(member)


def test_members_that_only_read_are_taken_at_their_word():
    """Rows that refuse to be written to are fitted and predicted by every default member."""
    rows = X.copy()
    rows.flags.writeable = False
    for _, member in dfi._learners.stack.default_members(0):
        np.testing.assert_array_equal(len(member.fit(rows, Y.copy()).predict(rows)), N)


def test_predictions_under_a_mask_and_complex_ones_are_none():
    table = read_table(X)

    def masked(rows):
        return np.ma.masked_array(rows[:, 0], mask=rows[:, 0] > 4)

    hidden = int(np.sum(X[:, 0] > 4))
    with pytest.raises(ValueError, match=f"array in which {hidden} of 90 predictions are"):
        predictor_for(masked, table, prefit=True)(X)
    whole = predictor_for(lambda rows: np.ma.masked_array(rows[:, 0]), table, prefit=True)(X)
    np.testing.assert_array_equal(whole, X[:, 0])
    with pytest.raises(TypeError, match="must predict real numbers, got complex ones"):
        predictor_for(lambda rows: rows[:, 0] + 1j, table, prefit=True)(X)
