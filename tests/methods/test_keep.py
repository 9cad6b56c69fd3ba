"""Units that are enough: known truths, an independent twin, properties, and what is refused."""

import copy
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

import dfi
from dfi.warnings import InferenceWarning

QUIET = {"diagnose": False, "transport_error": "ignore"}
SIZES = (3.0, 2.0, 1.0, 0.5)


def table(n=400, seed=0, rho=0.0):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, 5))
    X[:, 1] = rho * X[:, 0] + np.sqrt(1 - rho**2) * X[:, 1]
    frame = pd.DataFrame(X, columns=list("abcde"))
    y = X[:, :4] @ np.array(SIZES) + generator.normal(size=n)
    return frame, pd.Series(y, name="y")


def explained(X, y, estimator="linear", **options):
    return dfi.explain(X, y, estimator, **{"cv": 3, **QUIET, **options})


def test_independent_features_lose_what_they_explain():
    X, y = table(1000)
    found = explained(X, y, cv=2).keep(share=0.5, level=0.9)
    squares = np.array(SIZES) ** 2
    truth = {"e": 0.0, "d": squares[3], "c": squares[2:].sum(), "b": squares[1:].sum()}
    assert found.without == ("e", "d", "c", "b")
    for name, lost, error in zip(found.without, found.lost, found.se, strict=True):
        assert abs(lost - truth[name] / squares.sum()) < 4 * error + 1e-3
    assert (found.kept, found.dropped) == (("a",), ("b", "c", "d", "e"))
    assert found.enough.all()


def test_one_of_two_copies_goes_without_loss():
    X, y = table()
    found = explained(X.assign(again=X["a"]), y).keep(share=0.99)
    assert len({"a", "again"} & set(found.kept)) == 1
    assert set(found.dropped) <= {"a", "again", "e"}
    assert abs(found.lost[0]) < 1e-3


def test_signal_of_two_together_is_kept():
    generator = np.random.default_rng(1)
    X = pd.DataFrame(generator.normal(size=(400, 4)), columns=list("abcd"))
    y = X["a"] * X["b"] + 0.3 * generator.normal(size=400)
    found = explained(X, y, make_pipeline(PolynomialFeatures(2), Ridge())).keep(share=0.8)
    assert set(found.kept) == {"a", "b"}


def test_losses_equal_those_of_a_twin():
    X, y = table(120, rho=0.7)
    result = explained(X, y)
    found = result.keep(share=0.2, level=0.8)
    fits = result.source.fits
    rows = fits.split_rows("keep", stratify=True)[1]
    matrix, outcome = X.to_numpy(), y.to_numpy()
    names = list(X.columns)
    removed = [names.index(name) for name in found.without]
    training = fits.half_training()

    def errors(columns):
        product = np.zeros(len(y))
        for use in training.uses:
            left = []
            for k in use.sets:
                train = training.sets[k].rows
                model = LinearRegression().fit(matrix[np.ix_(train, columns)], outcome[train])
                left.append(outcome[use.test] - model.predict(matrix[np.ix_(use.test, columns)]))
            product[use.test] = left[0] * left[1]
        return product[rows]

    full = errors(list(range(5)))
    explains = (outcome[rows] - outcome[rows].mean()) ** 2 - full
    for step, size in enumerate(found.sizes):
        kept = [k for k in range(5) if k not in removed[: step + 1]]
        assert len(kept) == size
        lost = errors(kept) - full
        ratio = lost.mean() / explains.mean()
        influence = (lost - ratio * explains) / explains.mean()
        spread = influence.std(ddof=1) / np.sqrt(len(rows))
        np.testing.assert_allclose(found.lost[step], ratio, rtol=1e-6)
        np.testing.assert_allclose(found.se[step], spread, rtol=1e-6)
        # Hall's correction for skewness moves the end, by less than a half of itself here
        assert abs(found.at_most[step] / (ratio + norm.ppf(0.8) * spread) - 1) < 0.5


def test_the_first_set_that_may_lose_more_ends_the_search():
    X, y = table(rho=0.5)
    result = explained(X, y)
    wide, narrow = result.keep(share=0.7), result.keep(share=0.97)
    assert set(wide.kept) < set(narrow.kept)
    assert narrow.enough[:-1].all()
    assert not narrow.enough[-1]
    assert len(narrow.kept) == narrow.sizes[-1] + 1
    assert result.keep(share=0.97, level=0.5).at_most[0] < narrow.at_most[0]


@cache
def small():
    X, y = table(150)
    return X, y, explained(X, y).keep(share=0.9)


@settings(max_examples=4)
@given(order=st.permutations(range(5)), scale=st.sampled_from([1e-3, 1.0, 50.0]))
def test_order_and_units_of_columns_change_nothing(order, scale):
    X, y, expected = small()
    moved = explained(X.iloc[:, list(order)] * scale, 3.0 - scale * y).keep(share=0.9)
    assert set(moved.kept) == set(expected.kept)
    np.testing.assert_allclose(moved.lost, expected.lost, rtol=1e-6, atol=1e-12)


@pytest.mark.full
def test_workers_change_nothing():
    X, y = table(150)
    one, two = (explained(X, y, "ridge", n_jobs=n).keep(share=0.9) for n in (1, 2))
    np.testing.assert_array_equal(one.at_most, two.at_most)
    assert one.kept == two.kept


def test_units_go_as_a_whole():
    X, y = table()
    X = X.assign(c=pd.cut(X["c"], 3, labels=["low", "middle", "high"]).astype(str))
    X["e"] = X["e"].mask(np.arange(len(X)) % 4 == 0)
    alone = explained(X, y).keep(share=0.8)
    assert set(alone.kept) | set(alone.dropped) == set("abcde")
    assert alone.dropped[-1] == "e"
    groups = {"strong": ["a", "b"], "weak": ["c", "d", "e"]}
    found = explained(X, y, feature_groups=groups, units="groups").keep(share=0.8)
    assert (found.kept, found.dropped) == (("strong",), ("weak",))
    # columns of no group stay in every model, so no group may be needed
    outside = explained(X, y, feature_groups={"weak": ["d", "e"]}, units="groups").keep(share=0.9)
    assert (outside.kept, outside.dropped) == ((), ("weak",))
    assert "keep: none" in repr(outside)


def explained_of_classes(n_known, cuts, draws=200_000):
    """Return what the first so many features explain of three classes, in Brier's score."""
    sizes = np.array(SIZES)
    signal = np.random.default_rng(5).normal(size=(draws, 4)) * sizes
    rest = np.sqrt(1.0 + np.sum(sizes[n_known:] ** 2))
    below = norm.cdf((np.array(cuts) - signal[:, :n_known].sum(axis=1)[:, None]) / rest)
    return np.sum(np.var(np.diff(below, axis=1, prepend=0.0, append=1.0), axis=0))


@pytest.mark.parametrize("estimator", [LogisticRegression(), "linear"])
def test_three_classes_lose_what_their_probabilities_do(estimator):
    X, y = table(1500)
    cuts = (-2.0, 2.0)
    classes = pd.Series(np.digitize(y, cuts).astype(str), name="y")
    found = explained(X, classes, estimator, cv=2).keep(share=0.5)
    assert found.kept[0] == "a"
    assert found.without[0] == "e"
    if estimator == "linear":  # it sees a part of the signal, and loses shares of that
        return
    whole = explained_of_classes(4, cuts)
    for size, lost, error in zip(found.sizes, found.lost, found.se, strict=True):
        truth = 1.0 - explained_of_classes(min(size, 4), cuts) / whole
        assert abs(lost - truth) < 4 * error + 0.01


def test_losses_of_log_loss_add_up_over_classes():
    X, y = table(300)
    classes = pd.Series(np.digitize(y, [-2.0, 2.0]).astype(str), name="y")
    found = explained(X, classes, LogisticRegression(), cv=2, loss="log-loss").keep(share=0.5)
    assert found.kept[0] == "a"
    assert found.spec["loss"] == "log-loss"


def test_weights_clusters_and_time_are_honoured():
    X, y = table(300)
    doubled = pd.concat([X, X], ignore_index=True), pd.concat([y, y], ignore_index=True)
    labels = np.tile(np.arange(300), 2)
    once = explained(*doubled, clusters=labels).keep(share=0.7)
    assert "cluster" in once.spec["dependence"]
    assert set(once.kept) == {"a", "b"}
    # rows of weight 0 decide nothing: they are noise here
    noise = y.where(np.arange(300) % 2 == 0, 50.0)
    weighted = explained(X, noise, sample_weight=1.0 - np.arange(300) % 2).keep(share=0.7)
    assert set(weighted.kept) == {"a", "b"}
    along = explained(X, y, cv=TimeSeriesSplit(4)).keep(share=0.7)
    assert along.spec["dependence"].startswith("HAC")
    assert "earlier rows" in along.spec["rows"]


def test_a_constant_column_goes_and_one_column_stays():
    X, y = table(150)
    with pytest.warns(dfi.warnings.ConstantColumnWarning):
        result = explained(X.assign(same=1.0), y)
    assert result.keep(share=0.9).dropped[-1] == "same"
    alone = explained(X[["a"]], y).keep()
    assert (alone.kept, len(alone.table())) == (("a",), 0)
    assert "1 of 1 carries" in repr(alone)


def test_without_signal_all_units_are_kept():
    X, _ = table(150)
    noise = pd.Series(np.random.default_rng(9).normal(size=150))
    with pytest.warns(dfi.warnings.DFIWarning):
        result = explained(X, noise)
    with pytest.warns(InferenceWarning, match=r"not clearly above 0.*all units are kept"):
        found = result.keep()
    assert set(found.kept) == set("abcde")
    assert "no signal is clear enough to leave anything out" in repr(found)
    assert "carry" not in repr(found)


def test_many_units_are_measured_at_some_sizes():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(300, 45))
    y = X[:, 0] + 0.3 * generator.normal(size=300)
    found = explained(X, y, transport=dfi.transports.Gaussian(components=None)).keep(share=0.9)
    assert found.kept == ("x0",)
    assert len(found.sizes) <= 30
    left = [name for names in found.without for name in names.split(", ")]
    assert len(left) == 44


def test_what_cannot_be_refitted_is_refused(tmp_path):
    X, y = table(150)
    result = explained(X, y)
    loaded = dfi.load(result.save(tmp_path / "r.dfi"))
    for gone in (loaded, copy.copy(result), result.moments()):
        with pytest.raises(ValueError, match=r"need the fitted models, .* call keep on the result"):
            gone.keep()
    with pytest.raises(ValueError, match="not its latent part"):
        result.latent.keep()
    fitted = explained(X, y, LinearRegression().fit(X, y), cv="prefit")
    with pytest.raises(ValueError, match="explain with an unfitted learner and cv=5"):
        fitted.keep()
    with pytest.raises(ValueError, match="of method 'dfi'"):
        dfi.compare(X, y, ["loco"], estimator="linear", cv=2)["loco"].keep()
    for wrong in ({"share": 1.0}, {"level": 0}, {"share": "most"}):
        with pytest.raises(ValueError, match="strictly between 0 and 1"):
            result.keep(**wrong)
    classes = pd.Series(np.where(y > 0, "yes", "no"))
    one = explained(X, classes, LogisticRegression(), loss="zero-one", form="loco")
    with pytest.raises(ValueError, match="keep needs the loss of two models"):
        one.keep()
    two = explained(X, y, clusters=np.arange(150) % 3, cv=3)
    with pytest.raises(ValueError, match="four clusters or more"):
        two.keep()


def test_table_text_and_copies():
    X, y = table(150)
    found = explained(X, y).keep(share=0.9)
    frame = found.table()
    assert list(frame.columns) == ["units", "without", "lost", "se", "at_most", "enough"]
    assert isinstance(frame, pd.DataFrame)
    assert repr(found).startswith(f"KeepList: {len(found.kept)} of 5 carr")
    again = copy.deepcopy(found)
    assert (again.kept, dict(again.spec)) == (found.kept, dict(found.spec))
    with pytest.raises(ValueError, match="read-only"):
        found.lost[0] = 0.0
