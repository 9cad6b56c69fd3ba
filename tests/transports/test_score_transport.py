"""The jackknife of a transport's error on some of the rows, against its own formula."""

from dataclasses import replace

import numpy as np
import pytest

from dfi._data.weights import Weights
from dfi._models.crossfit import FoldModels
from dfi._scoring.jackknife import N_GROUPS, deal_groups, thin, with_transport_error
from dfi._scoring.kernel import entropic_scores
from dfi.transports.curved import JACKKNIFE_ROWS, Custom, curve_scores
from dfi.transports.entropic import EntropicOT
from tests.scoring.tasks import task_of

N = JACKKNIFE_ROWS + 30


class Triangular:
    """Z1 = X1 and Z2 = X2 - b X1, ``b`` by weighted least squares."""

    reference = "gaussian"

    def fit(self, X, sample_weight):
        self.mean = np.average(X, axis=0, weights=sample_weight)
        centred = X - self.mean
        products = sample_weight @ (centred[:, [0]] * centred)
        self.slope = products[1] / products[0]
        return self

    def encode(self, X):
        centred = X - self.mean
        return np.column_stack([centred[:, 0], centred[:, 1] - self.slope * centred[:, 0]])

    def decode(self, Z):
        return np.column_stack([Z[:, 0], Z[:, 1] + self.slope * Z[:, 0]]) + self.mean


def regression(X):
    return X[:, 0] + X[:, 1] ** 2


def weighted_task(kind):
    generator = np.random.default_rng(0)
    X = generator.standard_normal((N, 2))
    X[:, 1] += 0.5 * X[:, 0]
    y = regression(X) + generator.standard_normal(N)
    # heavy where the regression is steep, and every second row: those that thinning leaves out
    mass = np.where(np.abs(X[:, 1]) > 1, 7.0, 1.0) + 2.0 * (np.arange(N) % 2)
    folds = [FoldModels(0, np.arange(N), (regression,), np.random.SeedSequence(0))]
    return task_of(folds, X, y, Weights(mass, kind), seed=7)


def thinned_scores(task, keep):
    """Return both kinds of scores of every second row, the transport fitted on ``keep``."""
    X = task.matrix
    fitted = Custom(Triangular()).fit_matrix(X[keep], task.weights.take(keep), task.fits.constant)
    test = np.arange(0, N, 2)
    fold = FoldModels(0, test, (regression,), np.random.SeedSequence(0))
    found = curve_scores(replace(task, folds=[fold]), fitted, latent=fitted.encode(X))
    return np.hstack([found.latent, found.attributed])


@pytest.mark.parametrize("kind", ["frequency", "sampling"])
def test_thinned_rows_keep_their_own_weights(kind):
    """Refits are compared on every second row of a large table, each with what it counts."""
    task = weighted_task(kind)
    design = Custom(Triangular())
    transport = design.fit_matrix(task.matrix, task.weights, task.fits.constant)
    found = transport.score(task)
    # the second child of the seed deals the rows into groups
    groups = deal_groups(N, N_GROUPS, task.fits.child("transport").spawn(2)[1])
    whole = thinned_scores(task, np.arange(N))
    by_row = [thinned_scores(task, np.flatnonzero(groups != g)) - whole for g in range(N_GROUPS)]
    compared = task.weights.take(np.arange(0, N, 2))
    change = np.stack([np.average(rows, axis=0, weights=compared.values) for rows in by_row])
    psi = -(N_GROUPS - 1) * (change - change.mean(axis=0))
    squares = np.mean([compared.standard_error(rows) ** 2 for rows in by_row], axis=0)
    noise = (1 - len(compared.values) / N) * (N_GROUPS - 1) ** 2 * squares
    latent = transport.encode(task.matrix)
    plain = curve_scores(task, transport, latent=latent)
    for name, columns in (("latent", slice(0, 2)), ("attributed", slice(2, 4))):
        before = getattr(plain, name)
        expected = with_transport_error(
            before, task.weights, groups, psi[:, columns], noise[columns]
        )
        np.testing.assert_allclose(getattr(found, name), expected, rtol=1e-8, atol=1e-10)
        # the transport's error is there to be found
        added = task.weights.standard_error(expected) / task.weights.standard_error(before)
        assert np.abs(added - 1).max() > 0.05


@pytest.mark.filterwarnings("ignore:at epsilon:dfi.warnings.TransportWarning")
@pytest.mark.parametrize("kind", ["frequency", "sampling"])
def test_scores_under_refitted_kernels_are_weighted_by_the_rows_explained(kind):
    """A fold that leaves the first rows out: the others must keep their own weights."""
    task = weighted_task(kind)
    X, rows = task.matrix, np.arange(21, 81)
    fold = FoldModels(0, rows, (regression,), np.random.SeedSequence(0))
    task = task_of([fold], X, task.y, task.weights, seed=7)
    design = EntropicOT(epsilon=5.0, n_targets=64, min_size=1, tol=1e-9)

    def solved(kept):
        return design.fit_matrix(X[kept], task.weights.take(kept), task.fits.constant)

    def scored(kept):
        return entropic_scores(task, solved(kept).kernel, atom_rows=kept, halves=[])

    def means(kept):
        result, mass = scored(kept), task.weights.values[rows, None]
        return (mass * np.hstack([result.latent, result.attributed])).sum(axis=0) / mass.sum()

    found = solved(rows).score(task)
    groups = deal_groups(len(rows), N_GROUPS, task.fits.child("transport").spawn(1)[0])
    change = np.stack([means(rows[groups != g]) - means(rows) for g in range(N_GROUPS)])
    psi = -(N_GROUPS - 1) * (change - change.mean(axis=0))
    plain, weights = scored(rows), task.weights.take(rows)
    for name, columns in (("latent", slice(0, 2)), ("attributed", slice(2, 4))):
        expected = with_transport_error(getattr(plain, name), weights, groups, psi[:, columns])
        np.testing.assert_allclose(getattr(found, name), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("which", ["every second row", "the last rows"])
def test_rows_of_weight_zero_leave_no_trace(which):
    """Not in the groups, nor among the thinned rows, where they once stood alone."""
    task = weighted_task("frequency")
    counted = np.arange(N) % 2 == 1 if which == "every second row" else np.arange(N) < 30
    weights = Weights(counted * task.weights.values, "frequency")
    task = task_of(task.folds, task.matrix, task.y, weights)
    rows = np.flatnonzero(counted)
    fold = replace(task.folds[0], test=np.arange(len(rows)))
    dropped = task_of([fold], task.matrix[rows], task.y[rows], task.weights.take(rows))
    design = Custom(Triangular())
    found, alone = (
        design.fit_matrix(each.matrix, each.weights, each.fits.constant).score(each)
        for each in (task, dropped)
    )
    for name in ("latent", "attributed"):
        first, second = getattr(found, name)[rows], getattr(alone, name)
        np.testing.assert_allclose(first, second, rtol=1e-8, atol=1e-9)
    assert found.standard_errors == alone.standard_errors
    (first, second) = (
        {**each.diagnostics, **each.diagnostics["quadrature"]} for each in (found, alone)
    )
    del first["quadrature"], second["quadrature"]
    assert first == pytest.approx(second, abs=1e-9)


def test_thinning_takes_each_fold_once_from_one_repeat_after_the_other():
    folds = [
        FoldModels(repeat, np.arange(part, N, 2), (regression,), np.random.SeedSequence(repeat))
        for repeat in (0, 1)
        for part in (0, 1)
    ]
    weights = Weights(np.ones(N), "frequency")
    whole, half = thin(folds, N, weights), thin(folds, JACKKNIFE_ROWS, weights)
    assert [fold.seed.entropy for fold in whole] == [0, 1]
    for part in (0, 1):
        np.testing.assert_array_equal(whole[part].test, np.arange(part, N, 2))
        np.testing.assert_array_equal(half[part].test, np.arange(part, N, 4))
    # rows of weight 0 are not counted, and a fold of nothing else is left out
    first = thin(folds, JACKKNIFE_ROWS, Weights(1.0 - np.arange(N) % 2, "frequency"))
    assert len(first) == 1
    np.testing.assert_array_equal(first[0].test, np.arange(0, N, 2))
