"""Scores under log-loss and Poisson against slow twins: formulas written out, refits by hand."""

from __future__ import annotations

import warnings
from itertools import permutations

import numpy as np
import pytest
from scipy import special
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold

import dfi
from dfi._models.prepare import prepare
from dfi.methods import DLOCO, LOCO, PFI, Shapley
from dfi.warnings import DFIWarning

N, D = 300, 3
RNG = np.random.default_rng(3)
CORRELATION = np.array([[1.0, 0.7, 0.3], [0.7, 1.0, 0.0], [0.3, 0.0, 1.0]])
X = RNG.standard_normal((N, D)) @ np.linalg.cholesky(CORRELATION).T
SLOPES = np.array([2.0, 0.0, 1.2])
Y = (RNG.random(N) < special.expit(0.3 + X @ SLOPES)).astype(int)
MARGINS = np.column_stack([1.5 * X[:, 0], 1.5 * X[:, 2], np.zeros(N)])
CLASS = (RNG.random((N, 1)) > np.cumsum(special.softmax(MARGINS, axis=1), axis=1)).sum(axis=1)
LABELS = np.array(["a", "b", "c"])[CLASS]
COUNTS = RNG.poisson(np.exp(0.3 + 0.6 * X[:, 0] + 0.3 * X[:, 2]))
SPLITS = [(train, test) for train, test in KFold(3).split(X)]
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(128)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def quiet(function, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DFIWarning)
        return function(*arguments, **options)


def logit(rows):
    return special.expit(0.3 + np.asarray(rows) @ SLOPES)


def rate(rows):
    return np.exp(0.3 + 0.6 * np.asarray(rows)[:, 0] + 0.3 * np.asarray(rows)[:, 2])


# disentangled scores -----------------------------------------------------------------------------


def symmetric_root(matrix):
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(values)) @ vectors.T


def line_means(predict, rows, weight):
    """Return each row's mean over one latent coordinate, (n, d), and the root of the correlation.

    Whitening by the symmetric root; coordinates are taken as standard normal.
    """
    share = weight / weight.sum()
    centre = share @ rows
    spread = np.sqrt(share @ (rows - centre) ** 2)
    scaled = (rows - centre) / spread
    root = symmetric_root(scaled.T @ (share[:, None] * scaled))
    latent = scaled @ np.linalg.inv(root)
    means = np.empty_like(rows)
    for j in range(rows.shape[1]):
        step = NODES[:, None] - latent[:, j]
        points = scaled + step[:, :, None] * root[:, j]
        flat = (points * spread + centre).reshape(-1, rows.shape[1])
        means[:, j] = WEIGHTS @ predict(flat).reshape(step.shape)
    return means, root


def log_lost(y, p):
    return -(y * np.log(p) + (1 - y) * np.log(1 - p))


def poisson_lost(y, p):
    return p - y * np.log(p)


def plain_scores(predict, lost, rows, y, weight):
    """Return latent and attributed scores of a given regression as functions of row weights."""
    means, root = line_means(predict, rows, weight)
    share = weight / weight.sum()
    latent = share @ (lost(y[:, None], means) - lost(y, predict(rows))[:, None])
    return latent, root**2 @ latent


def shrunk(predict, y):
    """The library's guard against probabilities of 0 and 1."""
    share = 1.0 / (len(y) + 1.0)
    return lambda rows: (1.0 - share) * predict(rows) + share * y.mean()


GAUSSIAN = dfi.transports.Gaussian(reference="gaussian", components=None)


@pytest.mark.parametrize(
    ("model", "lost", "y", "loss"),
    [(logit, log_lost, Y, "log-loss"), (rate, poisson_lost, COUNTS, "poisson")],
    ids=["log-loss", "poisson"],
)
def test_scores_of_a_given_model_by_brute_force(model, lost, y, loss):
    found = quiet(
        dfi.explain,
        X,
        y,
        model,
        cv="prefit",
        loss=loss,
        task="regression" if loss == "poisson" else "auto",
        transport=GAUSSIAN,
        transport_error="ignore",
        integration=dfi.Quadrature("gauss", nodes=128),
        diagnose=False,
    )
    latent, attributed = plain_scores(shrunk(model, y), lost, X, y, np.ones(N))
    np.testing.assert_allclose(found.latent.scores, latent, rtol=0, atol=1e-8)
    np.testing.assert_allclose(found.scores, attributed, rtol=0, atol=1e-8)


def secant_lost(y, a, b):
    """What two models lose together, by the divided difference as it is defined."""

    def entropy(p):
        return p * np.log(p) + (1 - p) * np.log(1 - p)

    return -(entropy(a) + entropy(b)) / 2 - (entropy(a) - entropy(b)) / (a - b) * (y - (a + b) / 2)


def test_the_cross_form_by_brute_force():
    """Two logistic regressions a fold, fitted on halves; the secant where they differ."""
    fits = prepare(X, Y, estimator=LogisticRegression(), cv=SPLITS, loss="log-loss")
    method = dfi.methods.Disentangled(
        transport=GAUSSIAN, transport_error="ignore", form="cross", diagnose=False,
        integration=dfi.Quadrature("gauss", nodes=128),
    )  # fmt: skip
    part = quiet(method.compute, fits)["dfi"]
    expected = np.empty((N, D))
    for fold in fits.halves:
        a, b = fold.predictors
        (mean_a, root), (mean_b, _) = (line_means(p, X, np.ones(N)) for p in (a, b))
        test = fold.test
        y = Y[test]
        own = secant_lost(y, a(X[test]), b(X[test]))
        expected[test] = secant_lost(y[:, None], mean_a[test], mean_b[test]) - own[:, None]
    np.testing.assert_allclose(part.latent.influence, expected, rtol=0, atol=1e-8)
    np.testing.assert_allclose(part.influence, expected @ (root**2).T, rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    ("model", "lost", "y", "loss"),
    [(logit, log_lost, Y, "log-loss"), (rate, poisson_lost, COUNTS, "poisson")],
    ids=["log-loss", "poisson"],
)
def test_standard_errors_are_those_of_numeric_influence(model, lost, y, loss):
    """The score as a function of row weights, its derivative in each: with the transport's error.

    Within 10 % where the terms are derived or by differences, 15 % for the grouped jackknife; the
    errors of a known transport are further away.
    """
    step = 1e-4
    predict = shrunk(model, y)
    base = plain_scores(predict, lost, X, y, np.ones(N))[1]
    influence = np.empty((N, D))
    for row in range(N):
        weight = np.ones(N)
        weight[row] += step
        influence[row] = N * (plain_scores(predict, lost, X, y, weight)[1] - base) / step
    numeric = influence.std(axis=0) / np.sqrt(N)

    def errors(kind):
        return quiet(
            dfi.explain,
            X,
            y,
            model,
            cv="prefit",
            loss=loss,
            task="regression" if loss == "poisson" else "auto",
            transport=GAUSSIAN,
            transport_error=kind,
            diagnose=False,
        ).se

    assert np.abs(errors("ignore") / numeric - 1).max() > 0.1
    np.testing.assert_allclose(errors("finite-difference"), numeric, rtol=0.1)
    np.testing.assert_allclose(errors("derived"), numeric, rtol=0.1)
    np.testing.assert_allclose(errors("auto"), numeric, rtol=0.1)
    np.testing.assert_allclose(errors("jackknife"), numeric, rtol=0.15)


# refits and permutations -------------------------------------------------------------------------


def guarded(p, y, labels):
    """The affine guard of every class: 1/(n + 1) of the shares."""
    share = 1.0 / (len(y) + 1.0)
    return (1.0 - share) * p + share * np.array([np.mean(y == label) for label in labels])


def refitted(y, columns):
    """Return out-of-fold probabilities of a logistic regression on some columns."""
    labels = np.unique(y)
    found = np.tile([np.mean(y == label) for label in labels], (N, 1)).astype(float)
    for train, test in SPLITS:
        if columns:
            model = clone(LogisticRegression()).fit(X[train][:, columns], y[train])
            found[test] = model.predict_proba(X[test][:, columns])
        else:
            found[test] = [np.mean(y[train] == label) for label in labels]
    return guarded(found, y, labels)


def compared(y, *methods, **options):
    return quiet(
        dfi.compare,
        X,
        y,
        list(methods),
        estimator=LogisticRegression(),
        cv=SPLITS,
        loss="log-loss",
        **options,
    )


@pytest.mark.parametrize("y", [Y, LABELS], ids=["two classes", "three classes"])
def test_loco_is_the_log_loss_of_refits(y):
    full = log_loss(y, refitted(y, [0, 1, 2]))
    rest = [[k for k in range(D) if k != j] for j in range(D)]
    expected = np.array([log_loss(y, refitted(y, columns)) for columns in rest]) - full
    found = compared(y, LOCO())["loco"]
    np.testing.assert_allclose(found.scores, expected, rtol=0, atol=1e-12)


def test_nloco_is_a_share_of_the_entropy():
    full = log_loss(Y, refitted(Y, [0, 1, 2]))
    rest = [[k for k in range(D) if k != j] for j in range(D)]
    gained = np.array([log_loss(Y, refitted(Y, columns)) for columns in rest]) - full
    found = compared(Y, dfi.methods.NLOCO(normalize="outcome"))["nloco"]
    entropy = log_loss(Y, np.full(N, Y.mean()))
    np.testing.assert_allclose(found.scores, gained / entropy, rtol=0, atol=1e-12)


def swapped_predictions(y, j):
    """Yield of each fold its rows and predictions with feature j of every other row, (m, m)."""
    for train, test in SPLITS:
        model = LogisticRegression().fit(X[train], y[train])
        rows = np.repeat(X[test][:, None, :], len(test), axis=1)
        rows[:, :, j] = X[test, j][None, :]
        p = model.predict_proba(rows.reshape(-1, D))
        yield test, guarded(p, y, np.unique(y)).reshape(len(test), len(test), -1)


def test_pfi_is_the_log_loss_of_all_permutations():
    full = log_loss(Y, refitted(Y, [0, 1, 2]))
    expected = np.empty(D)
    for j in range(D):
        lost = []
        for test, p in swapped_predictions(Y, j):
            others = ~np.eye(len(test), dtype=bool)
            repeated = np.repeat(Y[test][:, None], len(test), axis=1)
            lost.append(log_loss(repeated[others], p[others]))
        expected[j] = np.mean(lost) - full  # folds of equal size
    found = compared(Y, PFI(n_permutations=1000, debias=False))["pfi"]
    np.testing.assert_allclose(found.scores, expected, rtol=0, atol=1e-12)


def test_pfi_of_three_classes_is_the_log_loss_of_all_permutations():
    full = log_loss(LABELS, refitted(LABELS, [0, 1, 2]))
    expected = np.empty(D)
    for j in range(D):
        lost = []
        for test, p in swapped_predictions(LABELS, j):
            others = ~np.eye(len(test), dtype=bool)
            repeated = np.repeat(LABELS[test][:, None], len(test), axis=1)
            lost.append(log_loss(repeated[others], p[others]))
        expected[j] = np.mean(lost) - full
    found = compared(LABELS, PFI(n_permutations=1000, debias=False))["pfi"]
    np.testing.assert_allclose(found.scores, expected, rtol=0, atol=1e-12)


def test_dloco_is_the_jensen_gap_over_all_pairs():
    """m / (m - 1) times the mean entropy less that of the mean, m donors of a row."""

    def negative_entropy(p):
        return np.sum(p * np.log(p), axis=-1)

    expected = np.empty(D)
    for j in range(D):
        gaps = []
        for test, p in swapped_predictions(Y, j):
            others = ~np.eye(len(test), dtype=bool)
            donors = p[others].reshape(len(test), len(test) - 1, 2)
            gap = negative_entropy(donors).mean(axis=1) - negative_entropy(donors.mean(axis=1))
            gaps.append(gap.mean() * donors.shape[1] / (donors.shape[1] - 1))
        expected[j] = np.mean(gaps)
    found = compared(Y, DLOCO(n_partners=1000, debias=False))["dloco"]
    np.testing.assert_allclose(found.scores, expected, rtol=0, atol=1e-12)


def test_shapley_values_are_average_increments_over_all_orders():
    value = {}
    expected = np.zeros(D)
    orders = list(permutations(range(D)))
    for order in orders:
        for k in range(D + 1):
            members = tuple(sorted(order[:k]))
            if members not in value:
                value[members] = -log_loss(Y, refitted(Y, list(members)))
        for k, player in enumerate(order):
            members, before = tuple(sorted(order[: k + 1])), tuple(sorted(order[:k]))
            expected[player] += (value[members] - value[before]) / len(orders)
    found = compared(Y, Shapley(exact=True))["shapley"]
    np.testing.assert_allclose(found.scores, expected, rtol=0, atol=1e-12)


def test_sampled_shapley_values_are_finite_and_efficient_under_log_loss():
    """Where submodels are sampled least squares must not be asked for probabilities."""
    rng = np.random.default_rng(0)
    wide = np.column_stack([X, rng.standard_normal((N, 5))])
    found = quiet(
        dfi.compare, wide, Y, [Shapley()], estimator=LogisticRegression(), cv=3, loss="log-loss"
    )["shapley"]
    assert np.isfinite(found.scores).all()
    assert np.isfinite(found.se).all()


def test_poisson_loco_is_half_the_deviance_of_refits():
    from sklearn.metrics import mean_poisson_deviance

    learner = PoissonRegressor(alpha=0, tol=1e-10)
    share = 1.0 / (N + 1.0)

    def half_deviance(columns):
        p = np.empty(N)
        for train, test in SPLITS:
            model = clone(learner).fit(X[train][:, columns], COUNTS[train])
            p[test] = model.predict(X[test][:, columns])
        return mean_poisson_deviance(COUNTS, (1 - share) * p + share * COUNTS.mean()) / 2

    rest = [[k for k in range(D) if k != j] for j in range(D)]
    expected = np.array([half_deviance(columns) for columns in rest]) - half_deviance([0, 1, 2])
    found = quiet(dfi.compare, X, COUNTS, "loco", estimator=learner, cv=SPLITS, loss="poisson")
    np.testing.assert_allclose(found["loco"].scores, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("method", ["cpi", "sobol", "pcm", "r2"])
def test_parts_of_a_variance_are_refused_by_name(method):
    with pytest.raises(ValueError, match=rf"^{method} is a part of a variance.*'log-loss' is not"):
        compared(Y, method)


def test_all_methods_leave_out_what_is_about_a_variance():
    found = quiet(
        dfi.compare, X[:120], Y[:120], estimator=LogisticRegression(), cv=2, loss="log-loss"
    )
    assert set(found.skipped) == {"cpi", "sobol", "pcm", "r2"}
    assert {"dfi", "loco", "pfi", "dloco", "shapley"} <= set(found)
