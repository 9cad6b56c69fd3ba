"""The calibrated form: its rule, its values by hand, and what it is not to change."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold

import dfi
from dfi._data.weights import Weights
from dfi._models.prepare import prepare
from dfi._scoring import forms
from dfi._scoring.donors import Donors, joint_influence, joint_product, replaced
from dfi._scoring.forms import calibrated, calibration_factor, change_product, influence
from dfi.methods.disentangled import Disentangled
from dfi.transports import Gaussian
from tests.scoring.test_donors import MEMORY, Curve, law

N, D = 160, 4
SHRUNKEN = Ridge(60.0)


class Unseeing(Ridge):
    """A ridge regression that does not read the last column."""

    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.coef_[-1] = 0.0
        return self


def table(seed=0, n=N):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D))
    X[:, 1] += 0.7 * X[:, 0]
    X[:, 3] -= 0.4 * X[:, 2]
    return X, X @ np.array([1.0, 0.6, 0.3, 0.0]) + rng.standard_normal(n)


def explained(X, y, form="calibrated", **options):
    shared = {"cv": 3, "n_jobs": 1, "diagnose": False}
    return dfi.explain(X, y, options.pop("estimator", SHRUNKEN), form=form, **shared, **options)


@given(st.integers(0, 50), st.floats(0.5, 3.0))
@settings(max_examples=20, deadline=None)
def test_it_is_the_cross_form_of_models_that_are_stretched(seed, factor):
    y, *values = np.random.default_rng(seed).standard_normal((3, 20))
    means = np.random.default_rng(seed + 1).standard_normal((2, 20))
    cross = influence("cross", y, values, means)
    stretched = [m + factor * (v - m) for v, m in zip(values, means, strict=True)]
    found = calibrated(cross, change_product(values, means), np.float64(factor))
    np.testing.assert_allclose(found, influence("cross", y, stretched, means), atol=1e-10)
    np.testing.assert_array_equal(influence("calibrated", y, values, means), cross)


def test_the_factor_is_a_ratio_where_models_agree_and_1_where_they_do_not():
    rng = np.random.default_rng(0)
    change = rng.standard_normal((400, 1))
    noise = rng.standard_normal((400, 1))
    product = np.hstack([change**2, change**2, change**2, noise, -(change**2)])
    half = np.hstack([1.7 * change**2, 9 * change**2, -(change**2), 5 * noise, change**2])
    weights = Weights(np.ones(400), "frequency")
    found = calibration_factor(2 * half - product, product, weights)
    np.testing.assert_allclose(found, [1.7, 3.0, 0.5, 1.0, 1.0])
    one = Weights(np.ones(1), "frequency")
    np.testing.assert_array_equal(calibration_factor(half[:1], product[:1], one), np.ones(5))


def test_donors_leave_neither_part_biased():
    """Over every draw there is the products are those of all donors, to rounding."""
    latent, joint, _ = law(5)
    models, receiver = [Curve(1), Curve(2)], np.random.default_rng(3).standard_normal((1, 4))
    draws = np.array(list(itertools.product(range(5), repeat=3)))
    points, own = (np.repeat(rows, len(draws), axis=0) for rows in (receiver, latent[:1] + 0.3))
    values = tuple(model.predict(points) for model in models)
    donors = Donors(latent, latent, np.full(5, 0.2), draws)
    found = replaced(models, points, own, donors, joint, memory=MEMORY)
    y = np.full(len(draws), 4.2)
    product = joint_product(values, found)
    both = joint_influence("calibrated", y, values, found) + product
    rows = receiver + (latent - latent[:1] - 0.3)[:, joint.coordinates] @ joint.directions.T
    m = [model.predict(rows).mean() for model in models]
    a, b = values[0][0] - m[0], values[1][0] - m[1]
    assert product.mean() == pytest.approx(a * b, rel=1e-10)
    assert both.mean() == pytest.approx((4.2 - m[1]) * a + (4.2 - m[0]) * b, rel=1e-10)


def twin(X, y, weight, n_repeats):
    """Return latent scores and mean factors by loops over folds and coordinates: linear models."""
    options = {"cv": 3, "n_repeats": n_repeats, "sample_weight": weight}
    fits = prepare(X, y, estimator=SHRUNKEN, **options)
    mass = fits.weights.values
    share = mass / mass.sum()
    centred = X - share @ X
    deviation = np.sqrt(share @ centred**2)
    standardized = centred / deviation
    values, vectors = np.linalg.eigh(standardized.T @ (share[:, None] * standardized))
    root = (vectors * np.sqrt(values)) @ vectors.T
    latent = standardized @ np.linalg.inv(root)
    total, factors = np.zeros(D), np.zeros(D)
    folds = fits.halves
    for j in range(D):
        parts = []
        for fold in folds:
            at = fold.test
            prediction = [predictor(X[at]) for predictor in fold.predictors]
            # the mean of a coordinate is 0, and its line has the direction of a column
            moved = X[at] - np.outer(latent[at, j], root[:, j] * deviation)
            mean = [predictor(moved) for predictor in fold.predictors]
            change = [p - m for p, m in zip(prediction, mean, strict=True)]
            w = (y[at] - mean[1]) * change[0] + (y[at] - mean[0]) * change[1]
            parts.append((fold.repeat, at, w, change[0] * change[1]))
        for number, (repeat, at, w, product) in enumerate(parts):
            others = [p for k, p in enumerate(parts) if p[0] == repeat and k != number]
            q = np.concatenate([p[3] for p in others])
            v = mass[np.concatenate([p[1] for p in others])]
            half, square = (v @ np.concatenate([p[2] for p in others]) / 2, v @ q) / v.sum()
            error = np.sqrt(np.sum((v * (q - square)) ** 2) * len(v) / (len(v) - 1)) / v.sum()
            factor = np.clip(half / square, 0.5, 3.0) if square > 2 * error else 1.0
            total[j] += share[at] @ (factor * w - factor**2 * product) / n_repeats
            factors[j] += share[at].sum() * factor / n_repeats
    return total, factors


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_repeats", [1, 2])
def test_scores_and_factors_equal_the_definition(weighted, n_repeats):
    X, y = table()
    weight = np.random.default_rng(5).uniform(0.5, 1.5, N) if weighted else None
    expected, factors = twin(X, y, weight, n_repeats)
    result = explained(
        X, y, transport=Gaussian(components=None), transport_error="ignore",
        n_repeats=n_repeats, sample_weight=weight,
    )  # fmt: skip
    np.testing.assert_allclose(result.latent.scores, expected, rtol=1e-8, atol=1e-10)
    told = result.diagnostics["calibration"]
    np.testing.assert_allclose(list(told["factor"].values()), factors, rtol=1e-8)
    np.testing.assert_allclose(list(told["calibrated"].values()), expected, rtol=1e-8, atol=1e-10)
    cross = explained(
        X, y, "cross", transport=Gaussian(components=None), transport_error="ignore",
        n_repeats=n_repeats, sample_weight=weight,
    )  # fmt: skip
    np.testing.assert_allclose(list(told["cross"].values()), cross.latent.scores, atol=1e-12)
    assert result.spec["form"] == "calibrated"
    assert factors[0] > 1.2
    assert told["found_share"] == pytest.approx(cross.latent.scores.sum() / expected.sum())
    assert any("of the signal" in finding.what for finding in result.findings)


MIXED = {"a": ["x0", "x1"], "b": ["x2", "x3"]}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"transport": "copula"},
        {"transport": Gaussian(epsilon=0.3)},
        {"transport": Gaussian(covariance="factor")},
        {"transport": dfi.transports.EntropicOT(epsilon=6.0, n_targets=200)},
        {"feature_groups": MIXED, "units": "groups", "n_repeats": 1},
        {"feature_groups": {**MIXED, "c": ["x1", "x2"]}, "units": "groups", "n_repeats": 1},
        {"estimator": "boosting", "feature_groups": MIXED, "units": "groups", "n_repeats": 1},
        {"frequency_weight": np.arange(N) % 3},
    ],
)
def test_with_every_factor_1_scores_are_those_of_the_cross_form(options, monkeypatch):
    X, y = table()
    cross = explained(X, y, "cross", **options)
    monkeypatch.setattr(forms, "FACTORS", (1.0, 1.0))
    one = explained(X, y, **options)
    np.testing.assert_allclose(one.scores, cross.scores, atol=1e-10)
    np.testing.assert_allclose(one.latent.scores, cross.latent.scores, atol=1e-10)


def test_curves_take_it_too(monkeypatch):
    pytest.importorskip("pyvinecopulib")
    X, y = table(n=90)
    options = {"transport": "knothe-rosenblatt", "transport_error": "ignore"}
    cross = explained(X, y, "cross", **options)
    found = explained(X, y, **options)
    monkeypatch.setattr(forms, "FACTORS", (1.0, 1.0))
    np.testing.assert_allclose(explained(X, y, **options).scores, cross.scores, atol=1e-10)
    assert found.latent.scores.sum() > cross.latent.scores.sum()


def whitened(X, share):
    """Return latent rows, and the direction of each coordinate, of rows that weigh ``share``."""
    centred = X - share @ X
    deviation = np.sqrt(share @ centred**2)
    standardized = centred / deviation
    values, vectors = np.linalg.eigh(standardized.T @ (share[:, None] * standardized))
    root = (vectors * np.sqrt(values)) @ vectors.T
    return standardized @ np.linalg.inv(root), root * deviation[:, None]


def calibrated_by_hand(X, y, folds, factors, share):
    """Return the latent influence values of linear models under a transport of these weights."""
    latent, directions = whitened(X, share)
    found = np.zeros(X.shape)
    for fold, factor in zip(folds, factors, strict=True):
        at, zero = fold.test, np.zeros((1, X.shape[1]))
        slopes = [each(np.eye(X.shape[1])) - each(zero) for each in fold.predictors]
        change = [latent[at] * (slope @ directions) for slope in slopes]
        left = [
            y[at, None] - predictor(X[at])[:, None] + moved
            for predictor, moved in zip(fold.predictors, change, strict=True)
        ]
        both = left[1] * change[0] + left[0] * change[1]
        found[at] = factor * both - factor**2 * change[0] * change[1]
    return found


@pytest.mark.parametrize("penalty", [1e-3, 100.0, 250.0])
@pytest.mark.parametrize("error", ["derived", "finite-difference"])
def test_derived_terms_are_those_of_reweighted_rows(penalty, error):
    """Row by row the infinitesimal jackknife of the transport: models, rows and factors stay."""
    X, y = table(n=300)
    fits = prepare(X, y, estimator=Ridge(penalty), cv=3)
    design = Gaussian(components=None)
    method = Disentangled(
        form="calibrated", transport=design, transport_error=error, diagnose=False
    )
    scores = method.explain(fits).scores
    share, step = np.full(300, 1 / 300), 1e-4

    def at(weights):
        return calibrated_by_hand(X, y, fits.halves, scores.calibration.factors, weights)

    base, exact = at(share), np.zeros(X.shape)
    np.testing.assert_allclose(scores.known.latent, base, atol=1e-8)
    rows = np.arange(0, 300, 3)
    for row in rows:
        moved = share * (1 - step)
        moved[row] += step
        exact[row] = base[row] + (at(moved).mean(axis=0) - base.mean(axis=0)) / step
    for j in (0, 1):
        ours, theirs = scores.latent[rows, j], exact[rows, j]
        assert np.corrcoef(theirs, ours)[0, 1] > 0.995
        assert ours.std() == pytest.approx(theirs.std(), rel=0.03)


def test_units_of_the_outcome_square_and_columns_may_be_reordered():
    X, y = table()
    found, scaled = explained(X, y), explained(X, 3.0 * y)
    np.testing.assert_allclose(scaled.scores, 9.0 * found.scores, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(scaled.se, 9.0 * found.se, rtol=1e-8, atol=1e-10)
    order = [2, 0, 3, 1]
    other = explained(X[:, order], y)
    np.testing.assert_allclose(other.scores, found.scores[order], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(other.se, found.se[order], rtol=1e-6, atol=1e-9)


def test_workers_change_nothing():
    X, y = table()
    shared = {"cv": 3, "form": "calibrated", "diagnose": False}
    one, two = (dfi.explain(X, y, SHRUNKEN, n_jobs=n, **shared) for n in (1, 2))
    np.testing.assert_array_equal(one.influence, two.influence)


def test_a_category_is_one_unit_with_one_factor():
    X, y = table()
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["d"] = np.array(["u", "v", "w"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    result = explained(frame, y)
    told = result.diagnostics["calibration"]
    assert list(told["factor"]) == list("abcd")
    assert told["found_share"] < 1.0
    assert all(0.5 <= factor <= 3.0 for factor in told["factor"].values())


def test_columns_that_no_model_reads_score_exactly_0():
    X, y = table()
    X = np.column_stack([X, np.random.default_rng(9).standard_normal(N)])
    found = explained(X, y, estimator=Unseeing(60.0))
    assert found.scores[4] == 0.0
    assert found.diagnostics["calibration"]["factor"]["x4"] == 1.0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cv": "prefit"}, "form='calibrated' needs two models.*pass an unfitted model"),
        ({"cv": [(np.arange(80), np.arange(80, N))]}, "from the other folds of the same split"),
        ({"form": "calibrate"}, "form must be 'auto', .* got 'calibrate'"),
    ],
)
def test_what_cannot_be_calibrated_is_refused_by_name(options, words):
    X, y = table()
    model = Ridge().fit(X, y) if options.get("cv") == "prefit" else Ridge()
    with pytest.raises(ValueError, match=words):
        dfi.explain(X, y, model, **{"form": "calibrated", **options})


def test_shapley_values_refuse_it():
    X, y = table()
    result = explained(X, y, feature_groups=MIXED)
    assert result.group(how="joint").spec["form"] == "calibrated"
    with pytest.raises(ValueError, match=r"form='calibrated' has a factor.*use form='cross'"):
        result.group(how="shapley")


def test_it_reaches_every_front_door(tmp_path):
    X, y = table()
    direct = explained(X, y)
    estimator = dfi.DFI(estimator=SHRUNKEN, cv=3, form="calibrated", diagnose=False, n_jobs=1).fit(
        X, y
    )
    np.testing.assert_array_equal(estimator.result_.scores, direct.scores)
    shared = {"estimator": SHRUNKEN, "cv": 3, "form": "calibrated", "diagnose": False}
    both = dfi.sensitivity(X, y, transports=["gaussian", "copula"], n_jobs=1, **shared)
    np.testing.assert_array_equal(both["gaussian"].scores, direct.scores)
    direct.report(tmp_path / "page.html")
    assert "calibrated scores add up to" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_folds_of_any_splitter():
    X, y = table()
    result = dfi.explain(
        X, y, SHRUNKEN, cv=KFold(4, shuffle=True, random_state=1), form="calibrated", diagnose=False
    )
    assert np.isfinite(result.se).all()
