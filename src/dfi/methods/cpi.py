r"""CPI: conditional permutation, with the factor 1/2 that makes it LOCO's equal.

With :math:`X^{(j)}`, the row with feature ``j`` drawn anew given the others,

.. math:: \psi_j = \tfrac12 E[(Y - \mu(X^{(j)}))^2 - (Y - \mu(X))^2]
          = E\operatorname{Var}(\mu(X)\mid X_{-j}),

LOCO's parameter (the paper's lemma on equivalence). A numeric feature is drawn as its regression
on the others plus another row's residual (valid where that residual is independent of the others,
as for Gaussian features); a categorical feature is classified, and its levels are enumerated with
their probabilities rather than drawn.

**Influence.** With :math:`\delta_i = \hat\mu(x_i) - \bar m_i`, where :math:`\bar m_i, v_i` are mean
and variance of :math:`\hat\mu(x_i^{(j)})` over the draws and :math:`e_i = y_i - \hat\mu(x_i)`, the
plain estimate is the mean of :math:`\frac12\{(e+\delta)^2 + v - e^2\} = e\delta + \frac12\delta^2 +
\frac12 v`. It moves to *first* order with the error of :math:`\hat\mu`: its derivative in direction
:math:`h` is :math:`E[(\mu - \mu_{-j})h]`, which the residual term :math:`e\delta` corrects (as
Reyero Lobo et al. 2025 do by another route). The default adds it, so the score is the mean of
:math:`2e\delta + \frac12\delta^2 + \frac12 v`. Permutation t-tests leave this and the sampling of
rows out. The parameter is LOCO's, so the influence function is too: the deviations of
:math:`2e\delta + \delta^2` from their mean give the standard error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dfi._lines.quadrature import DEFAULT_MEMORY
from dfi.methods.base import CONSERVATIVE, Part, check_at_least_two, full_lines, if_debiased
from dfi.methods.by_unit import score_units, units_and_folds
from dfi.methods.covariates import (
    ConditionalLaw,
    check_learner,
    covariate_classifier,
    covariate_learner,
    encode,
    fit_law,
)
from dfi.methods.donors import (
    choose_shifts,
    donor_rows,
    donor_shares,
    replaced_points,
    shift_error,
)
from dfi.methods.refit import positions_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from dfi._data import Table
    from dfi._models.fits import Fits
    from dfi._types import Floats, Ints


@dataclass(frozen=True, kw_only=True)
class CPI:
    """Conditional permutation importance.

    Parameters
    ----------
    n_permutations : int, default=50
        Residuals of other rows that each row is given; capped at the rows of its fold.
    debias : bool, default=True
        Add the residual term that removes the first-order error of the regression. False gives
        the plain mean, as other packages report it (the standard error is the same).
    covariate_estimator : estimator, optional
        Regression of a feature on the others; by default in the spirit of the outcome's.
    covariate_classifier : estimator, optional
        Classifier of a categorical feature given the others.
    """

    n_permutations: int = 50
    debias: bool = True
    covariate_estimator: Any = None
    covariate_classifier: Any = None

    name = "cpi"
    question = (
        "Incremental value: how much prediction is lost when the feature is replaced by a draw "
        "given the other features, without refitting?"
    )
    valid_intervals = if_debiased(True, False)
    inference = if_debiased(
        "Residual term against the regression's error; the conditional law must hold "
        f"(residuals independent of the other features). {CONSERVATIVE}",
        "The plain mean moves to first order with the regression's error: its intervals hold "
        "for least squares, and are off centre for learners that shrink.",
    )

    def __post_init__(self) -> None:
        check_at_least_two("n_permutations", self.n_permutations)
        check_learner("covariate_estimator", self.covariate_estimator, "predict")
        check_learner("covariate_classifier", self.covariate_classifier, "predict_proba")

    def refuses(self, fits: Fits) -> str | None:
        """Every table has a CPI."""
        del fits
        return None

    def compute(self, fits: Fits) -> dict[str, Part]:
        """Draw each unit given the others and compare the losses."""
        learner = self.covariate_estimator or covariate_learner(fits.learner)
        classifier = self.covariate_classifier or covariate_classifier(fits.learner)
        laws = fits.workers.run(
            fit_law,
            [
                (
                    fits.table,
                    fits.units.columns[unit],
                    fits.others(unit),
                    learner,
                    classifier,
                    fits.data.fit_weights,
                    fits.folds[f].train,
                    fits.child("conditional law", unit, f),
                )
                for unit, f in units_and_folds(fits)
            ],
            "fitting conditional laws",
        )
        (product, square, variance), noise = score_units(
            fits, _score, [(law, self.n_permutations) for law in laws], "conditional draws"
        )
        mass = fits.mass(fits.rows)
        plain = product * (2.0 if self.debias else 1.0) + 0.5 * square + 0.5 * variance
        efficient = 2.0 * product + square
        influence = efficient - mass @ efficient + mass @ plain
        influence[:, fits.units.constant] = 0.0
        return {self.name: Part(influence, fits.rows, monte_carlo_se=noise)}


def _score(fits: Fits, f: int, unit: int, law: ConditionalLaw, count: int) -> tuple[Floats, float]:
    """Return e*delta, delta^2 (free of the draws' noise) and v, (3, n); Monte-Carlo error."""
    fold, predict = fits.folds[f], full_lines(fits)[f].predict
    rows = fits.table.matrix[fold.test]
    value = fits.predictions[fold.test]
    residual = fits.outcome.values[fold.test] - value
    if law.single_class:
        column, probabilities = law.categorical[0]
        chance = probabilities(rows)
        drawn = _levels(fits.table, column, rows, chance.shape[1], predict)
        mean = np.sum(chance * drawn, axis=1)
        variance = np.sum(chance * (drawn - mean[:, None]) ** 2, axis=1)
        delta = value - mean
        return np.stack([residual * delta, delta**2, variance]), 0.0
    generator = np.random.default_rng(fits.child("conditional draws", unit, f))
    order, shifts = choose_shifts(len(rows), count, generator)
    donors = donor_rows(order, shifts)
    drawn = _draws(law, rows, donors, predict, DEFAULT_MEMORY, generator)
    k = len(shifts)
    mass = fits.weights.values[fold.test]
    share = donor_shares(mass, donors)
    mean = np.sum(share * drawn, axis=1)
    variance = np.sum(share * (drawn - mean[:, None]) ** 2, axis=1) * k / max(1, k - 1)
    delta = value - mean
    loss = 0.5 * (drawn - value[:, None] - residual[:, None]) ** 2
    error = shift_error(loss, mass, 1.0 - k / max(k, len(rows) - 1))
    return np.stack([residual * delta, delta**2 - variance / k, variance]), error


def _levels(
    table: Table, column: int, rows: Floats, n_levels: int, predict: Callable[[Floats], Floats]
) -> Floats:
    """Return the predictions of every row at every level of a categorical column."""
    values = np.empty((len(rows), n_levels))
    place = list(table.columns[column].positions)
    for level in range(n_levels):
        points = rows.copy()
        points[:, place] = encode(table, column, np.full(len(rows), level))
        values[:, level] = predict(points)
    return values


def _draws(
    law: ConditionalLaw,
    rows: Floats,
    donors: Ints,
    predict: Callable[[Floats], Floats],
    memory: int,
    generator: np.random.Generator,
) -> Floats:
    """Return the predictions of every row under every draw, (n, n_draws), in bounded memory."""
    residuals = law.residuals(rows) if law.numeric else None
    if residuals is not None and not law.categorical:
        centre = law.means(rows)
        place = np.array(positions_of(law.table, law.numeric), dtype=np.intp)
        return replaced_points(
            rows,
            place,
            lambda block: centre[:, None, :] + residuals[donors[:, block]],
            donors.shape[1],
            predict,
            memory,
        )
    values = np.empty(donors.shape)
    for s in range(donors.shape[1]):
        given = None if residuals is None else residuals[donors[:, s]]
        values[:, s] = predict(law.draw(rows, given, generator))
    return values
