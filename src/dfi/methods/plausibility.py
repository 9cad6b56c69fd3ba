r"""Whether the scores can be right: their sum against the variance, and the model's fidelity.

**Totals.** With independent latents :math:`\phi_{Z_j} = E\,Var(\eta \mid Z_{-j})` is the sum of all
parts of the analysis of variance of :math:`\eta` in which coordinate ``j`` takes part. So no score
exceeds :math:`Var(\eta) \le Var(Y)`, and

.. math:: \frac{\sum_j \phi_{Z_j}}{Var(\eta)} = \sum_S |S| \frac{V_S}{Var(\eta)}

is the average order of interaction: 1 for additive regressions, at most ``d``. Under a linear map
a feature of one column is attributed a weighted mean of latent scores and obeys the same bounds; a
category whose columns are added up, or a curved map whose slopes weigh the scores, can break them,
and a score that does is no share of the variance. An entropic map blurs the rows first, and its
scores add up to less.

**Fidelity.** The scores ask the model about rows whose latent coordinates are drawn apart. If the
transport is right all of them together drawn apart are again rows like the data, and

.. math:: \frac{Var f(S(\tilde Z))}{Var f(X)}, \qquad
          \frac{E f(S(\tilde Z)) - E f(X)}{sd\, f(X)}

are 1 and 0, whatever the model. Far from it, the model was asked about rows it was not fitted for.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from dfi._scoring.forms import loco
from dfi._scoring.loss import SQUARED_ERROR
from dfi.inference.influence import standard_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfi._data.weights import Weights
    from dfi._types import Floats, Ints

ERRORS = 2.0
"""Standard errors by which a bound must be missed before it is said."""

HIGH_ORDER = 2.0
"""Average order of interaction above which the sum of the scores is doubtful."""

LOW_SHARE = 0.5
"""Share of the explained variance below which the sum of the scores is called low."""

VARIANCE_RATIOS = (0.7, 1.4)
MEAN_SHIFT = 0.3
"""Fidelity is good between these ratios of variances, and below this shift in deviations."""

MOST_DRAWS = 1000


@dataclass(frozen=True)
class Totals:
    """The scores against the variance that there is.

    Attributes
    ----------
    total, total_se : float
        Sum of the scores and its standard error.
    explained, explained_se : float
        Variance that the regression explains on rows it had not seen, ``Var(Y) - MSE``.
    variance : float
        Of the outcome.
    of_variance : float
        Sum of the scores over the outcome's variance.
    of_explained : float or None
        Sum of the scores over the explained variance; None where nothing is explained.
    latent_total, latent_total_se : float
        Sum of the latent scores and its standard error.
    order : float or None
        Sum of the latent scores over the explained variance: the average order of interaction.
    n_latent : int
        Number of latent coordinates: the largest that ``order`` can be.
    above_variance : tuple of str
        Features whose score exceeds the outcome's variance by more than two standard errors.
    """

    total: float
    total_se: float
    explained: float
    explained_se: float
    variance: float
    of_variance: float
    of_explained: float | None
    latent_total: float
    latent_total_se: float
    order: float | None
    n_latent: int
    above_variance: tuple[str, ...]

    @property
    def impossible(self) -> bool:
        """Whether interactions of all orders could not add up to this sum."""
        return self.exceeds(float(self.n_latent))

    @property
    def doubtful(self) -> bool:
        """Whether the sum needs interactions of more than two coordinates on average."""
        return self.exceeds(HIGH_ORDER)

    @property
    def low(self) -> bool:
        """Whether the scores add up to less than half of what was explained."""
        room = ERRORS * float(np.hypot(self.total_se, LOW_SHARE * self.explained_se))
        return LOW_SHARE * self.explained - self.total > room

    def exceeds(self, order: float) -> bool:
        """Return whether the sum is beyond an average order of interaction, errors considered."""
        room = ERRORS * float(np.hypot(self.latent_total_se, order * self.explained_se))
        return self.explained > 0 and self.latent_total - order * self.explained > room

    def as_dict(self) -> dict[str, object]:
        """Return the values for a result's diagnostics."""
        found = {**asdict(self), "above_variance": list(self.above_variance)}
        return {**found, "impossible": self.impossible, "doubtful": self.doubtful, "low": self.low}


def score_totals(
    influence: Floats,
    latent_influence: Floats,
    names: Sequence[str],
    weights: Weights,
    predictions: Sequence[tuple[Ints, Floats]],
    y: Floats,
    all_weights: Weights,
    *,
    n_latent: int,
) -> Totals:
    """Compare the scores with the variance of the outcome and with what was explained of it.

    Parameters
    ----------
    influence, latent_influence : ndarray of shape (n, units) and (n, d)
        Influence values of the units called ``names``, and of the latent coordinates, for rows
        with ``weights``.
    predictions : sequence of (rows, values)
        Of each fold, for its held-out rows.
    y, all_weights
        Outcome and weights of all rows.
    """
    rows = np.concatenate([test for test, _ in predictions])
    predicted = np.concatenate([value for _, value in predictions])
    held_out = all_weights.take(rows)
    null = held_out.mean(y[rows])
    gained, variance = loco(y[rows], predicted, null), SQUARED_ERROR.of(y[rows], null)
    explained = float(held_out.mean(gained)[0])
    outcome = float(held_out.mean(variance)[0])
    scores, errors = weights.mean(influence), standard_errors(influence, weights)
    both = np.stack([influence.sum(axis=1), latent_influence.sum(axis=1)], axis=1)
    (total, latent_total), (error, latent_error) = weights.mean(both), weights.standard_error(both)
    above = scores - outcome > ERRORS * np.nan_to_num(errors)
    return Totals(
        total=float(total),
        total_se=float(error),
        explained=explained,
        explained_se=float(held_out.standard_error(gained)[0]),
        variance=outcome,
        of_variance=float(total) / outcome if outcome > 0 else 0.0,
        of_explained=float(total) / explained if explained > 0 else None,
        latent_total=float(latent_total),
        latent_total_se=float(latent_error),
        order=float(latent_total) / explained if explained > 0 else None,
        n_latent=n_latent,
        above_variance=tuple(name for name, over in zip(names, above, strict=True) if over),
    )


@dataclass(frozen=True)
class Fidelity:
    """How far the model was taken from where it was fitted.

    Attributes
    ----------
    variance_ratio, log_ratio_se : float
        Variance of the predictions where all latent coordinates are drawn apart, over that at the
        rows, and the standard error of its logarithm.
    mean_shift, mean_shift_se : float
        Shift of the mean prediction in standard deviations of the predictions at the rows, and its
        standard error.
    n_rows, n_draws : int
        Rows and draws behind it.
    """

    variance_ratio: float
    log_ratio_se: float
    mean_shift: float
    mean_shift_se: float
    n_rows: int
    n_draws: int

    @property
    def far(self) -> bool:
        """Whether variance or mean are off by more than they should be, beyond two errors."""
        low, high = VARIANCE_RATIOS
        off = not low <= self.variance_ratio <= high
        sure = abs(np.log(max(self.variance_ratio, 1e-300))) > ERRORS * self.log_ratio_se
        shifted = abs(self.mean_shift) > max(MEAN_SHIFT, ERRORS * self.mean_shift_se)
        return bool((off and sure) or shifted)

    def as_dict(self) -> dict[str, object]:
        """Return the values for a result's diagnostics."""
        return {**asdict(self), "far": self.far}


def model_fidelity(
    folds: Sequence[tuple[Ints, Callable[[Floats], Floats]]],
    matrix: Floats,
    weights: Weights,
    latent: Floats,
    mass: Floats,
    decode: Callable[[Floats], Floats],
    seed: np.random.SeedSequence,
) -> Fidelity | None:
    """Compare predictions at rows with predictions where latent coordinates are drawn apart.

    Return None where the predictions do not vary.

    Parameters
    ----------
    folds : sequence of (rows, function)
        Held-out rows of some folds, and their prediction.
    matrix, weights
        All rows of the table.
    latent, mass : ndarray
        Latent rows of the explained rows, and their weights: the laws that are drawn from.
    """
    n_rows = sum(len(rows) for rows, _ in folds)
    generator = np.random.default_rng(seed)
    at_rows, apart, share = [], [], []
    for rows, predict in folds:
        count = max(1, MOST_DRAWS * len(rows) // n_rows)
        apart.append(predict(decode(drawn_apart(latent, mass, count, generator))))
        at_rows.append(predict(matrix[rows]))
        share.append(weights.values[rows])
    value, drawn = np.concatenate(at_rows), np.concatenate(apart)
    counted = np.concatenate(share) / np.concatenate(share).sum()
    size = 1.0 / float(np.sum(counted**2))
    mean, variance, kurtosis = _moments(value, counted)
    drawn_mean, drawn_variance, drawn_kurtosis = _moments(
        drawn, np.full(len(drawn), 1.0 / len(drawn))
    )
    # a model that predicts one number up to rounding has nothing to be compared
    if variance <= 1e-20 * (mean**2 + drawn_variance) or variance == 0.0:
        return None
    return Fidelity(
        variance_ratio=drawn_variance / variance,
        log_ratio_se=float(np.sqrt((kurtosis - 1.0) / size + (drawn_kurtosis - 1.0) / len(drawn))),
        mean_shift=(drawn_mean - mean) / float(np.sqrt(variance)),
        mean_shift_se=float(np.sqrt(1.0 / size + drawn_variance / variance / len(drawn))),
        n_rows=n_rows,
        n_draws=len(drawn),
    )


def drawn_apart(latent: Floats, mass: Floats, count: int, generator: np.random.Generator) -> Floats:
    """Draw latent rows whose coordinates are independent, each with the law of its column.

    Every column takes evenly spaced quantiles of the rows in a random order: with equal weights
    and as many draws as rows these are permutations of the columns.
    """
    order = generator.permutation(len(latent))
    below = np.cumsum(mass[order]) / mass.sum()
    levels = (np.arange(count) + 0.5) / count
    picked = order[np.minimum(np.searchsorted(below, levels), len(order) - 1)]
    return np.column_stack([column[generator.permutation(picked)] for column in latent.T])


def _moments(values: Floats, share: Floats) -> tuple[float, float, float]:
    """Return mean, variance and kurtosis."""
    mean = float(share @ values)
    centred = values - mean
    variance = float(share @ centred**2)
    kurtosis = float(share @ centred**4) / variance**2 if variance > 0 else 1.0
    return mean, variance, max(kurtosis, 1.0)
