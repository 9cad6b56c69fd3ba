"""Columns that no model reads and that depend on none that it reads: exactly 0, and said so."""

from __future__ import annotations

import json
import pickle
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import LinearRegression

import dfi
from dfi._scoring.lines import unread_coordinates
from dfi.report.page import report_html

N = 400


def data(seed=0, n=N, offset=0.0):
    """Return x0 and x1 that depend on each other, x2 that is read too, and three of noise."""
    g = np.random.default_rng(seed)
    X = g.standard_normal((n, 6))
    X[:, 1] += X[:, 0]
    return X, X[:, 0] + X[:, 2] ** 2 + g.standard_normal(n) + offset


def reads(X):
    return X[:, 0] + X[:, 2] ** 2


def explain(X, y, model=reads, **options):
    options = {"cv": "prefit", "diagnose": False, **options}
    return dfi.explain(X, y, model, **options)


GIVEN = [["x0", "x1"], ["x3", "x4"]]
"""Components of the tests: x2 and x5 stand alone, x3 to x5 are unread."""


def is_zero(result, units=(3, 4, 5)):
    for space in (result, result.latent):
        columns = space.table(sort=False)
        for unit in units:
            assert columns["score"][unit] == 0.0
            assert not np.signbit(columns["score"][unit])
            assert columns["p"][unit] == columns["p_adj"][unit] == 1.0
            assert columns["ci_low"][unit] == columns["se"][unit] == 0.0
            assert columns["ci_high"][unit] == space.undetected[unit]
        assert np.flatnonzero(space.unrelated).tolist() == list(units)
        assert np.all(space.influence[:, list(units)] == 0.0)


@pytest.mark.parametrize("form", ["loco", "cpi"])
@pytest.mark.parametrize("kind", [dfi.transports.Gaussian, dfi.transports.Copula])
def test_unread_columns_score_exactly_zero(kind, form):
    X, y = data()
    result = explain(X, y, transport=kind(components=GIVEN), form=form)
    is_zero(result)
    assert result.components == (("x0", "x1"), ("x2",), ("x3", "x4"), ("x5",))
    # x1 is not read either, but depends on x0, which is
    assert result.scores[1] > 0.1
    assert not result.unrelated[1]


@pytest.mark.parametrize(
    "design",
    [
        dfi.transports.Gaussian(components=GIVEN, epsilon=1.0),
        dfi.transports.Gaussian(components=GIVEN, standardize=False, shrinkage=0.1),
        dfi.transports.Semicontinuous(components=GIVEN),
    ],
    ids=["bridge", "raw", "published"],
)
def test_every_linear_transport_gives_zeros(design):
    X, y = data()
    is_zero(explain(X * [1, 1, 1, 1e5, 1e-5, 1], y, transport=design))


@pytest.mark.parametrize("offset", [0.0, 1e6, -1e9])
@pytest.mark.parametrize("scale", [1.0, 1e-8, 1e8])
def test_rounding_of_large_outcomes_is_not_a_score(offset, scale):
    X, y = data()

    def model(rows):
        return (reads(rows) + offset) * scale

    is_zero(
        explain(X, (y + offset) * scale, model, transport=dfi.transports.Gaussian(components=GIVEN))
    )


def test_trees_and_linear_models_that_do_not_read_a_column():
    X, y = data()
    design = dfi.transports.Gaussian(components=GIVEN)
    still = X.copy()
    still[:, 3:] = 0.0
    trees = GradientBoostingRegressor(n_estimators=20, random_state=0).fit(still, y)
    is_zero(explain(X, y, trees, transport=design))
    linear = LinearRegression().fit(still, y)
    linear.coef_[3:] = 0.0
    # a square has no linear part: the linear model reads x2 all the same
    is_zero(explain(X, y, linear, transport=design))


def test_a_small_effect_is_not_rounding():
    X, y = data()
    result = explain(X, y, lambda rows: reads(rows) + 1e-6 * rows[:, 5],
                     transport=dfi.transports.Gaussian(components=GIVEN))  # fmt: skip
    assert result.scores[5] != 0.0
    assert not result.unrelated[5]


def test_rounding_within_a_component_that_is_read_is_left_alone():
    influence = np.array([[0.3, 1e-19, 1e-19], [-0.2, -1e-19, 1e-19]])
    labels = np.array([0, 0, 1])
    found = unread_coordinates(influence, np.array([1.0, 2.0]), np.array([1.0, 3.0]), labels)
    assert found.tolist() == [False, False, True]


def test_without_components_nothing_is_called_unrelated():
    X, y = data()
    result = explain(X, y, transport=dfi.transports.Gaussian(components=None))
    assert result.components is None
    assert not result.unrelated.any()
    assert np.all(result.scores[3:] != 0.0)
    assert result.spec["components"] is None
    assert "n_components" not in result.diagnostics


def test_interval_of_given_components_is_zero_and_of_tested_ones_what_tests_miss():
    X, y = data(n=2000)
    given = explain(X, y, transport=dfi.transports.Gaussian(components=GIVEN))
    assert np.all(given.interval()["ci_high"][3:] == 0.0)
    found = explain(X, y)
    ends = found.interval()["ci_high"][found.unrelated]
    assert found.unrelated.any()
    assert np.all(ends > 0.0)
    # some thousandths of the total: 2000 rows exclude more
    assert np.all(ends < 0.02 * found.total.value)
    fewer = explain(X[:300], y[:300])
    assert fewer.interval()["ci_high"][fewer.unrelated].min() > ends.max()


def test_missed_dependence_is_within_its_bound():
    """100 tables whose noise column is correlated by .1 or .15 with a signal, mostly not found.

    The true score of x1 under the regression x0 is about rho^2 / 2. The bound is for 95 %,
    one-sided: 88 of 100 allow for three errors of .022.
    """
    inside = []
    for seed in range(100):
        g = np.random.default_rng([1, seed])
        rho = 0.1 if seed % 2 else 0.15
        X = g.standard_normal((200, 3))
        X[:, 1] = rho * X[:, 0] + np.sqrt(1 - rho**2) * X[:, 1]
        # the root of [[1, rho], [rho, 1]] and of what a regression of x0 has through it
        own, other = (np.sqrt(1 + rho) + np.array([1, -1]) * np.sqrt(1 - rho)) / 2
        truth = 2 * own**2 * other**2
        y = X[:, 0] + g.standard_normal(200)
        result = explain(X, y, lambda rows: rows[:, 0])
        if result.unrelated[1]:
            inside.append(truth <= result.interval()["ci_high"][1])
    assert len(inside) > 20
    assert np.mean(inside) >= 0.88


def test_bounds_of_alternatives_and_expansion():
    X, y = data()
    result = explain(X, y, transport=dfi.transports.Gaussian(components=GIVEN))
    above = result.interval(alternative="greater")
    assert above["ci_low"][5] == 0.0
    assert above["ci_high"][5] == np.inf
    below = result.interval(alternative="less")
    assert below["ci_low"][5] == below["ci_high"][5] == 0.0
    signed = replace(result, nonnegative=False).interval(alternative="less")
    assert signed["ci_low"][5] == -np.inf
    assert result.interval(expansion="standard_error")["ci_high"][5] > 0.0
    assert result.interval(simultaneous=True)["ci_high"][5] == 0.0


def test_covariance_of_unrelated_units_is_zero():
    X, y = data()
    covariance = explain(X, y, transport=dfi.transports.Gaussian(components=GIVEN)).covariance
    assert np.all(covariance[3:] == 0.0)
    assert np.all(np.isfinite(covariance))


def test_groups_of_unrelated_units():
    X, y = data()
    result = explain(X, y)
    result = replace(result, undetected=np.where(result.unrelated, 0.5, 0.0))
    unread = [result.names[k] for k in np.flatnonzero(result.unrelated)]
    grouped = result.group({"noise": unread, "mixed": ["x0", *unread]})
    assert grouped.unrelated.tolist() == [True, False]
    assert grouped.scores[0] == 0.0
    assert grouped.interval()["ci_high"][0] == pytest.approx(0.5 * len(unread))
    assert grouped.components == result.components


def test_saved_results_keep_components(tmp_path):
    X, y = data()
    result = explain(X, y)
    for back in (
        dfi.load(result.save(tmp_path / "result.dfi")),
        pickle.loads(pickle.dumps(result)),  # noqa: S301 - our own bytes
    ):
        assert back.components == result.components
        assert back.latent.components == result.components
        assert np.array_equal(back.unrelated, result.unrelated)
        assert np.array_equal(back.undetected, result.undetected)
        assert back.spec == result.spec


def test_files_without_components_are_refused(tmp_path):
    X, y = data()
    path = explain(X, y).save(tmp_path / "new.dfi")
    old = tmp_path / "old.dfi"
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(old, "w") as target:
        manifest = json.loads(source.read("manifest.json"))
        for part in (manifest, manifest["latent"]):
            del part["components"]
        dropped = [name for name in manifest["arrays"] if name.endswith(("related", "detected"))]
        gone = {manifest["arrays"].pop(name)["member"] for name in dropped}
        target.writestr("manifest.json", json.dumps(manifest))
        for name in source.namelist():
            if name != "manifest.json" and name not in gone:
                target.writestr(name, source.read(name))
    assert dropped
    with pytest.raises(ValueError, match="'components' is missing"):
        dfi.load(old)


def test_words_in_text_page_and_compact_table():
    X, y = data()
    result = explain(X, y, transport=dfi.transports.Gaussian(components=GIVEN))
    words = "independent of every feature that the model uses"
    assert f"\n3 features score exactly 0: {words}\n" in repr(result)
    page = report_html(result)
    assert f"3 features with a score of exactly 0: {words}" in page
    assert words in result._repr_html_()
    assert "2 blocks of features that depend on each other" in page
    assert "components=[[&#39;x0&#39;, &#39;x1&#39;]" in page or "components=" in page
    single = explain(X[:, :4], y, transport=dfi.transports.Gaussian(components=[["x0", "x1"]]))
    assert f"\n1 feature scores exactly 0: {words}\n" in repr(single)


def test_leading_sentence_of_an_unrelated_feature():
    X, y = data()
    page = report_html(explain(X, X[:, 0] + 0.1 * y, lambda rows: 1.1 * rows[:, 0]))
    assert "Dependence too weak to detect could give it up to" in page


def test_unrelated_units_must_not_move():
    X, y = data()
    result = explain(X, y)
    with pytest.raises(ValueError, match="'x0' is listed as unrelated, but its influence values"):
        replace(result, unrelated=np.ones(6, dtype=bool))


@pytest.mark.filterwarnings("ignore::dfi.warnings.WeakModelWarning")
def test_compare_and_sensitivity_carry_components():
    X, y = data(n=150)
    both = dfi.compare(X, y, ["dfi", "pfi"], estimator="linear", cv=2)
    assert both["dfi"].components is not None
    assert both["pfi"].components is None
    settings = dfi.sensitivity(
        X,
        y,
        transports=["gaussian", dfi.transports.Gaussian(components=None)],
        estimator="linear",
        cv=2,
    )
    assert settings.labels == ("gaussian", "gaussian (components = None)")
    assert settings["gaussian"].components is not None
    assert settings[settings.labels[1]].components is None


def test_published_form_has_no_components_by_default():
    X, y = data()
    assert explain(X, y, transport="semicontinuous").components is None


@pytest.mark.filterwarnings("ignore::dfi.warnings.WeakModelWarning")
def test_any_number_of_jobs():
    X, y = data(n=200)
    one, two = (dfi.explain(X, y, "linear", cv=2, diagnose=False, n_jobs=jobs) for jobs in (1, 2))
    assert one.components == two.components
    assert np.array_equal(one.scores, two.scores)
