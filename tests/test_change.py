"""Change between two tables: known truths, twins, identities, and every refusal by its words."""

from __future__ import annotations

import json
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import LinearRegression

import dfi
from dfi.methods.separation import BINS, Separation, _coarse
from dfi.warnings import OverlapWarning

D = 4
NAMES = ["a", "b", "c", "d"]
BEFORE, AFTER = np.array([1.0, 0.5, 0.3, 0.0]), np.array([0.6, 0.8, 0.3, 0.0])
WIDE = np.array([1.0, 1.2, 1.0, 1.0])
QUICK = {"estimator": "linear", "diagnose": False}


def correlation(rho):
    return rho ** np.abs(np.subtract.outer(np.arange(D), np.arange(D)))


def table(n, slopes, rho=0.3, scale=1.0, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    x = shift + scale * (rng.standard_normal((n, D)) @ np.linalg.cholesky(correlation(rho)).T)
    frame = pd.DataFrame(x, columns=NAMES)
    frame["y"] = x @ slopes + rng.standard_normal(n)
    return frame


def linear_truth(slopes, rho, scale=1.0):
    """Latent and attributed scores of a linear regression on Gaussian features."""
    values, vectors = np.linalg.eigh(correlation(rho))
    root = (vectors * np.sqrt(values)) @ vectors.T
    latent = (root @ (slopes * scale)) ** 2
    return latent, root**2 @ latent


def parts(place):
    """Total, covariates and concept of what ``before`` and ``after`` below are samples of."""
    phi = {
        (a, b): linear_truth(slopes, rho, scale)[place]
        for a, (rho, scale) in enumerate(((0.3, 1.0), (0.6, WIDE)))
        for b, slopes in enumerate((BEFORE, AFTER))
    }
    total = phi[1, 1] - phi[0, 0]
    covariates = 0.5 * (phi[1, 0] - phi[0, 0] + phi[1, 1] - phi[0, 1])
    return total, covariates, total - covariates


@pytest.fixture(scope="module")
def two():
    return table(1500, BEFORE), table(1200, AFTER, 0.6, WIDE, seed=1)


@pytest.fixture(scope="module")
def found(two):
    return dfi.change(*two, y="y", **QUICK)


@pytest.fixture(scope="module")
def small():
    return table(200, BEFORE), table(160, AFTER, 0.6, seed=1)


@pytest.fixture(scope="module")
def quick(small):
    return dfi.change(*small, y="y", **QUICK)


def test_parts_are_those_of_the_closed_form(found):
    for change, place in ((found.latent, 0), (found, 1)):
        columns = change.table(sort=False)
        for name, error, truth in zip(
            ("change", "covariates", "concept"), ("se", "covariates_se", "concept_se"),
            parts(place), strict=True,
        ):  # fmt: skip
            z = (columns[name] - truth) / columns[error]
            assert np.all(np.abs(z) < 4.0), (name, z)


def test_parts_add_up_to_the_change(found):
    columns = found.table()
    np.testing.assert_allclose(
        columns["covariates"] + columns["concept"], columns["change"], atol=1e-12
    )
    np.testing.assert_allclose(columns["after"] - columns["before"], columns["change"], atol=1e-12)


def test_what_changed_is_found_and_named():
    same = table(1500, BEFORE)
    concept = dfi.change(same, table(1500, [0.2, 0.5, 0.3, 0.0], seed=1), y="y", **QUICK)
    assert concept.any_change.p < 0.01
    assert concept.any_change.feature == "a"
    assert concept.test_any("concept").feature == "a"
    assert concept.test_any("concept").p < 0.01
    assert concept.test_any("covariates").p > 0.05
    scale = np.array([1.0, 1.0, 2.5, 1.0])
    covariates = dfi.change(same, table(1500, BEFORE, scale=scale, seed=1), y="y", **QUICK)
    assert covariates.test_any("covariates").p < 0.01
    assert covariates.test_any("covariates").feature == "c"
    assert covariates.test_any("concept").p > 0.05
    assert covariates.table().iloc[0]["feature"] == "c"


def test_swapping_the_tables_flips_the_signs(small, quick):
    back = dfi.change(*small[::-1], y="y", **QUICK).table(sort=False)
    ahead = quick.table(sort=False)
    for name in ("change", "covariates", "concept"):
        np.testing.assert_allclose(ahead[name], -back[name], atol=1e-12)
    np.testing.assert_allclose(ahead["covariates_se"], back["covariates_se"], atol=1e-12)


def test_independent_rows_add_variances(quick):
    errors = [result.se for result in (quick.before, quick.after)]
    np.testing.assert_allclose(quick.difference.se, np.hypot(*errors), rtol=0.01)


def test_shared_rows_carry_the_covariance(small):
    before, after = small
    ids = np.arange(len(before)), np.arange(len(after)) + 60
    found = dfi.change(before, after, y="y", ids=ids, **QUICK)
    assert found.rows == "overlapping"
    # the specification's twin: rows carry u1/n1 - u0/n0
    first, second = found.before.influence, found.after.influence
    steps = np.zeros((ids[1][-1] + 1, D))
    steps[ids[1]] += (second - second.mean(0)) / len(after)
    steps[ids[0]] -= (first - first.mean(0)) / len(before)
    twin = np.sqrt(np.sum(steps**2, axis=0))
    np.testing.assert_allclose(found.difference.se, twin, rtol=0.01)
    # who is shared is one row for the multipliers too
    assert found.difference.basis.n_rows == len(np.union1d(*ids))


def test_the_same_rows_are_subtracted_row_by_row(small):
    before = small[0]
    after = before.copy()
    after["y"] += 0.5 * after["a"]
    found = dfi.change(before, after, y="y", rows="same", **QUICK)
    twin = (found.after.influence - found.before.influence).std(axis=0, ddof=1)
    np.testing.assert_allclose(found.difference.se, twin / np.sqrt(len(before)), rtol=1e-9)
    assert found.covariates is not None
    # rows with the same features have one distribution
    assert np.all(np.abs(found.covariates.scores) < 4.0 * np.maximum(found.covariates.se, 1e-3))


def test_two_models_on_the_same_rows_differ_in_relation_alone(small):
    X, y = small[0][NAMES], small[0]["y"]
    one = dfi.explain(X, y, "linear", diagnose=False)
    other = dfi.explain(X, y, "ridge", diagnose=False)
    found = dfi.change(one, other)
    assert found.rows == "same"
    np.testing.assert_array_equal(found.covariates.scores, 0.0)
    np.testing.assert_array_equal(found.concept.scores, found.difference.scores)


def test_id_is_no_feature(small):
    frames = [frame.assign(who=[f"p{k}" for k in range(len(frame))]) for frame in small]
    found = dfi.change(*frames, y="y", id="who", **QUICK)
    assert found.names == tuple(NAMES)
    assert found.rows == "overlapping"


def test_the_order_of_the_columns_does_not_matter(small, quick):
    turned = dfi.change(small[0], small[1][["y", "d", "c", "b", "a"]], y="y", **QUICK)
    pd.testing.assert_frame_equal(turned.table(), quick.table())


def test_parallel_tasks_do_not_matter(small, quick):
    found = dfi.change(*small, y="y", n_jobs=2, **QUICK)
    pd.testing.assert_frame_equal(found.table(), quick.table())


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "numpy"])
def test_tables_come_in_the_library_of_the_caller(small, library, quick):
    make = {
        "pandas": lambda frame: frame,
        "polars": pl.from_pandas,
        "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
        "numpy": lambda frame: (frame[NAMES].to_numpy(), frame["y"].to_numpy()),
    }[library]
    y = None if library == "numpy" else "y"
    found = dfi.change(*map(make, small), y=y, **QUICK).table()
    kind = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table}
    assert isinstance(found, kind.get(library, object))
    change = found["change"]
    np.testing.assert_allclose(np.asarray(change), quick.table()["change"], atol=1e-12)


def test_columns_of_the_table(quick):
    assert list(quick.table().columns) == [
        "feature", "change", "se", "ci_low", "ci_high", "p", "p_adj", "covariates", "concept",
        "covariates_se", "covariates_low", "covariates_high", "concept_se", "concept_low",
        "concept_high", "before", "after",
    ]  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("estimator", ["auto", "boosting"])
def test_other_models_are_told_apart_too(estimator):
    first, second = (
        table(240, slopes, seed=k) for k, slopes in enumerate((BEFORE, [0.0, 0.5, 0.3, 1.0]))
    )
    found = dfi.change(first, second, y="y", estimator=estimator, diagnose=False)
    columns = found.table(sort=False).set_index("feature")
    assert columns.loc["a", "concept"] < -3.0 * columns.loc["a", "concept_se"]
    np.testing.assert_allclose(
        columns["covariates"] + columns["concept"], columns["change"], atol=1e-12
    )


def mixed(n, seed, lift):
    rng = np.random.default_rng(seed)
    kind = rng.choice(["u", "v", "w"], n)
    x = rng.standard_normal(n) + (kind == "u")
    gap = np.where(rng.random(n) < 0.2, np.nan, rng.standard_normal(n) + 0.5 * x)
    y = x + lift * (kind == "v") + np.nan_to_num(gap) + rng.standard_normal(n)
    return pd.DataFrame({"kind": kind, "x": x, "gap": gap, "y": y})


@pytest.mark.parametrize("estimator", ["linear", pytest.param("boosting", marks=pytest.mark.full)])
def test_categories_and_missing_values_are_units(estimator):
    found = dfi.change(
        mixed(300, 0, 0.0), mixed(250, 1, 2.5), y="y", estimator=estimator, diagnose=False
    )
    columns = found.table(sort=False).set_index("feature")
    assert found.any_change.feature == "kind"
    assert columns.loc["kind", "concept"] > 3.0 * columns.loc["kind", "concept_se"]
    np.testing.assert_allclose(
        columns["covariates"] + columns["concept"], columns["change"], atol=1e-12
    )


def test_classes_and_fitted_models(small):
    frames = [frame.assign(y=np.where(frame["y"] > 0, "yes", "no")) for frame in small]
    found = dfi.change(*frames, y="y", **QUICK)
    assert found.covariates is not None
    model = LinearRegression().fit(small[0][NAMES], small[0]["y"])
    periods = [(frame[NAMES], frame["y"]) for frame in small]
    fitted = dfi.change(*periods, estimator=model, cv="prefit", diagnose=False)
    columns = fitted.table()
    np.testing.assert_allclose(
        columns["covariates"] + columns["concept"], columns["change"], atol=1e-12
    )


def test_weights_and_clusters_are_honoured(small):
    rng = np.random.default_rng(0)
    frames = [frame.assign(w=rng.uniform(0.5, 2.0, len(frame))) for frame in small]
    weighted = dfi.change(*frames, y="y", sample_weight="w", **QUICK)
    twice = dfi.change(*small, y="y", sample_weight=(frames[0]["w"], frames[1]["w"]), **QUICK)
    pd.testing.assert_frame_equal(weighted.table(), twice.table())
    labels = tuple(np.arange(len(frame)) // 4 for frame in small)
    clustered = dfi.change(*small, y="y", clusters=labels, **QUICK)
    assert "cluster-robust" in clustered.difference.basis.words
    assert 0.0 < clustered.any_change.p <= 1.0
    assert clustered.covariates is not None


def test_loaded_results_and_moments_give_the_change(quick, tmp_path):
    first = dfi.load(quick.before.save(tmp_path / "first.dfi"))
    found = dfi.change(first, quick.after.moments())
    np.testing.assert_allclose(
        found.table(sort=False)["change"], quick.table(sort=False)["change"], atol=1e-12
    )
    assert found.covariates is None
    assert "loaded, copied or reduced" in found.reason
    assert found.table()["covariates"].isna().all()
    with pytest.raises(ValueError, match="covariates and concept cannot be separated"):
        found.test_any("covariates")
    assert found.any_change.p == pytest.approx(quick.any_change.p, abs=0.05)


def test_level_of_the_intervals(small, quick):
    narrow = dfi.change(quick.before, quick.after, level=0.5)
    wide = quick.table(sort=False)
    columns = narrow.table(sort=False)
    assert np.all(columns["ci_high"] - columns["ci_low"] < wide["ci_high"] - wide["ci_low"])
    assert narrow.level == 0.5


def test_everything_as_text_and_file(quick, tmp_path):
    text = repr(quick)
    assert "any change: p" in text
    heads = ("change", "p_adj", "covariates", "concept")
    told = [head if head == "p_adj" else f"{head} (95 % interval)" for head in heads]
    assert " ".join(text.splitlines()[2].split()) == " ".join(["feature", *told])
    assert "<svg" in quick._repr_html_()
    written = json.loads(quick.save(tmp_path / "change.json").read_text())
    assert written["any_change"]["change"]["p"] == quick.any_change.p
    assert [row["feature"] for row in written["features"]] == list(quick.table()["feature"])
    page = quick.report(tmp_path / "page.html", target="income").read_text()
    assert "What changed about income" in page
    assert "http" not in page.replace("http-equiv", "")
    report = quick.report(target="income")
    assert report.html() == page
    assert report._repr_html_() == quick._repr_html_()
    told = json.loads(report.json())
    assert told["features"][0]["covariates_low"] == quick.table()["covariates_low"].iloc[0]
    lines = report.markdown().splitlines()
    assert lines[0] == "# What changed about income"
    assert "| covariates (95 % interval) | concept (95 % interval) |" in report.markdown()
    assert sum(line.startswith("| ") for line in lines) == 2 + len(quick.names)
    assert quick.report().write(tmp_path / "change.md").read_text() == quick.report().markdown()
    again = pickle.loads(pickle.dumps(quick))  # noqa: S301
    pd.testing.assert_frame_equal(again.table(), quick.table())
    axes = quick.plot(top=2)
    assert len(axes.get_yticklabels()) == 2
    with pytest.raises(FileExistsError):
        quick.save(tmp_path / "change.json")


def test_tables_that_do_not_overlap_have_no_parts():
    before, after = table(200, BEFORE), table(200, BEFORE, seed=1)
    after["a"] += 6.0
    found = dfi.change(before, after, y="y", **QUICK)
    assert found.covariates is None
    assert "a classifier separates the tables" in found.reason
    assert "'a'" in found.reason
    assert found.overlap["separated"] is True
    assert np.isfinite(found.table()["change"]).all()


def test_tables_that_hardly_overlap_are_doubted():
    before, after = table(200, BEFORE), table(200, BEFORE, seed=1)
    after["a"] += 1.9
    with pytest.warns(OverlapWarning, match="overlap poorly"):
        found = dfi.change(before, after, y="y", **QUICK)
    assert found.covariates is not None
    assert 0.85 <= found.overlap["auc"] < 0.95


def test_equal_tables_overlap(quick):
    fits = quick.before.source.fits
    found = Separation.of(fits, fits)
    assert found.auc < 0.6
    assert min(found.effective) > 0.5


def test_bins_keep_order_and_ties_and_are_few():
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.standard_normal(700), rng.integers(0, 3, 700), np.ones(700)])
    found = _coarse(rows)
    for values, bins in zip(rows.T, found.T, strict=True):
        order = np.argsort(values, kind="stable")
        assert np.all(np.diff(bins[order]) >= 0)
        # where no more values than bins are asked for, trees do not look for quantiles
        assert len(np.unique(bins)) <= BINS < 255
        assert all(len(np.unique(bins[values == value])) == 1 for value in np.unique(values))
    assert [len(np.unique(bins)) for bins in found.T] == [BINS, 3, 1]


LEVEL = {"a": ["p", "q"] * 60, "b": np.arange(120.0), "y": np.arange(120.0) % 7}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f.assign(a=["p", "q", "r"] * 40), "'a' has the level 'r' after alone"),
        (lambda f: f.assign(b=5.0), "'b' varies before alone"),
        (
            lambda f: f.assign(b=f["b"].where(f["b"] > 9.0)),
            "'b' has missing values after alone",
        ),
    ],
)
def test_what_one_table_has_alone_is_named(change, words):
    before = pd.DataFrame(LEVEL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = dfi.change(before, change(before), y="y", rows="independent", **QUICK)
    assert found.covariates is None
    assert words in found.reason


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"transport": "copula"}, "only under transport='gaussian'"),
        ({"form": "cpi"}, "form='cpi' does not separate covariates and concept"),
        ({"loss": "poisson"}, "loss='poisson' is another"),
    ],
)
def test_settings_without_parts_say_so(small, options, words):
    frames = [frame.assign(y=np.abs(frame["y"]).round()) for frame in small]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = dfi.change(*frames, y="y", **QUICK, **options)
    assert found.covariates is None
    assert words in found.reason


@pytest.fixture(scope="module")
def unlike(small):
    X, y = small[0][NAMES], small[0]["y"]
    return (
        dfi.explain(X, y, "linear", transport="copula", diagnose=False),
        dfi.explain(X, y > 0, "linear", diagnose=False),
        dfi.explain(X[NAMES[:3]], y, "linear", diagnose=False),
    )


def refusals(small, quick, unlike):
    before, after = small
    pair = (before[NAMES], before["y"])
    n = len(before), len(after)
    explained = quick.before
    other, classes, fewer = unlike
    return [
        (lambda: dfi.change(before, after), TypeError, "before is a dataframe: name its outcome"),
        (lambda: dfi.change(pair, pair, y="y"), TypeError, "before is a pair"),
        (lambda: dfi.change([1.0], after, y="y"), TypeError, "before is a list"),
        (lambda: dfi.change(explained, after), TypeError, "two results or two tables"),
        (lambda: dfi.change(explained, explained, cv=3), TypeError, "cv applies to tables"),
        (lambda: dfi.change(explained, explained, id="w"), TypeError, "id names a column"),
        (lambda: dfi.change(before, after, y="z"), ValueError, "y='z' names"),
        (
            lambda: dfi.change(before, after.drop(columns="b"), y="y"),
            ValueError,
            "the second table has no column 'b'",
        ),
        (
            lambda: dfi.change(before.drop(columns="b"), after, y="y"),
            ValueError,
            "the first table has no column 'b'",
        ),
        (lambda: dfi.change(before, after, y="y", rows="some"), ValueError, "rows"),
        (
            lambda: dfi.change(before, after, y="y", rows="same", **QUICK),
            ValueError,
            "before has 200 rows and after 160",
        ),
        (
            lambda: dfi.change(before, after, y="y", id="a", ids=((), ())),
            TypeError,
            "not both",
        ),
        (
            lambda: dfi.change(before, after, y="y", rows="same", id="a"),
            TypeError,
            "matches rows by position",
        ),
        (
            lambda: dfi.change(
                quick.before, quick.after, ids=(range(n[0]), range(900, 900 + n[1]))
            ),
            ValueError,
            "no id is in both tables",
        ),
        (
            lambda: dfi.change(quick.before, quick.after, ids=(range(3), range(n[1]))),
            ValueError,
            "there are 3 ids for the 200 rows of before",
        ),
        (
            lambda: dfi.change(quick.before, quick.after, ids=([1] * n[0], range(n[1]))),
            ValueError,
            "the id 1.0 appears twice in before",
        ),
        (
            lambda: dfi.change(
                quick.before, quick.after, ids=([None, *range(1, n[0])], range(n[1]))
            ),
            ValueError,
            "the id of row 0 of before is missing",
        ),
        (
            lambda: dfi.change(quick.before.moments(), quick.after, ids=(range(n[0]), range(n[1]))),
            ValueError,
            "needed one by one",
        ),
        (lambda: dfi.change(quick.before, other), ValueError, "differ in transport"),
        (lambda: dfi.change(quick.before, classes), ValueError, "different outcomes|differ in"),
        (lambda: dfi.change(quick.before, fewer), ValueError, "only one has 'd'"),
        (
            lambda: dfi.change(quick.before, quick.before.latent),
            ValueError,
            "differ in more than a difference can mean",
        ),
        (
            lambda: dfi.change(quick.difference, quick.before),
            ValueError,
            "before is a difference",
        ),
        (
            lambda: dfi.change(before, after, y="y", sample_weight=[1.0] * 3),
            TypeError,
            "sample_weight must be the name of a column",
        ),
        (
            lambda: dfi.change("a.parquet", after, y="y"),
            ValueError,
            "X is 'a.parquet', but there is no such file or folder",
        ),
    ]


@pytest.mark.parametrize("number", range(25))
def test_bad_input_is_refused_by_name(small, quick, unlike, number):
    call, kind, words = refusals(small, quick, unlike)[number]
    with pytest.raises(kind, match=words):
        call()
