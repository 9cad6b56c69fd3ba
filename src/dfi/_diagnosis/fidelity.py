r"""How far from its data a model is evaluated.

The scores ask the model about rows with independently drawn latent coordinates. If the transport is
right, all of them drawn independently give rows like the data again, and

.. math:: \frac{Var f(S(\tilde Z))}{Var f(X)}, \qquad
          \frac{E f(S(\tilde Z)) - E f(X)}{sd\, f(X)}

are 1 and 0, whatever the model. Far from it, the model was asked about rows it was not fitted for.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dfi._diagnosis.probes import named_seed
from dfi._findings import Finding
from dfi._parameters import argument
from dfi._scoring.jackknife import thin

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfi._data.weights import Weights
    from dfi._scoring.task import Task
    from dfi._types import Floats, Ints
    from dfi.transports.base import Fitted, FittedTransport, Transport

    Predict: TypeAlias = Callable[[Floats], Floats]

VARIANCE_RATIOS, MEAN_SHIFT = (0.7, 1.4), 0.3
"""Fidelity is good between these ratios of variances, and below this shift in deviations."""

GROSS_RATIOS, GROSS_SHIFT = (0.5, 2.0), 0.6
"""Beyond these, most of a score reflects what the model does where there are no rows."""

ERRORS = 2.0
"""Standard errors by which a bound must be missed before it is said."""

FEWEST_ROWS = 200
"""Rows that are predicted, at least."""

MOST_DRAWS = 1000
MOST_PAIRS = 250
"""Draws that are mixed with each other to see interactions."""

KEPT_VARIANCE, NEARER, MUCH_NEARER, KEPT_DRAWS = 1.15, 1.05, 2.0, 4000
"""Factor within which correlations keep the variance of predictions; by which the sample's are to
be nearer, where they keep it and where they do not; draws, with which a ratio of variances is known
to 2 %."""


@dataclass(frozen=True)
class Fidelity:
    r"""How far from its training rows the model was evaluated.

    Variance of the predictions at independently drawn latent coordinates over that at the rows,
    with the standard error of its logarithm; shift of their mean in deviations at the rows.

    ``interaction`` shows what the model has under the transport. Of two draws :math:`z, z'` take
    each coordinate from one or the other at random, :math:`w`, and the rest, :math:`w'`. Then

    .. math:: \tfrac14 E\{f(z) + f(z') - f(w) - f(w')\}^2 = \sum_S (1 - 2^{1 - |S|}) V_S,

    0 exactly where the model is additive in the latent coordinates.
    """

    variance_ratio: float
    log_ratio_se: float
    mean_shift: float
    mean_shift_se: float
    n_rows: int
    n_draws: int
    interaction: float = 0.0

    def _beyond(self, ratios: tuple[float, float], shift: float) -> bool:
        """Return whether variance or mean are off by more than a bound and two errors."""
        off = not ratios[0] <= self.variance_ratio <= ratios[1]
        sure = abs(np.log(max(self.variance_ratio, 1e-300))) > ERRORS * self.log_ratio_se
        shifted = abs(self.mean_shift) > max(shift, ERRORS * self.mean_shift_se)
        return bool((off and sure) or shifted)

    @property
    def far(self) -> bool:
        return self._beyond(VARIANCE_RATIOS, MEAN_SHIFT)

    def finding(self, design: Transport) -> Finding:
        """Report how far from its data the model was evaluated."""
        far = self.far
        gross = self._beyond(GROSS_RATIOS, GROSS_SHIFT)
        side = "lower" if self.mean_shift < 0 else "higher"
        measured = f"{self.variance_ratio:.2f} times their variance at the rows"
        if not far or abs(self.mean_shift) > MEAN_SHIFT:
            measured += f", and a mean {abs(self.mean_shift):.2f} standard deviations {side}"
        within = VARIANCE_RATIOS[0] <= self.variance_ratio <= VARIANCE_RATIOS[1]
        close = (
            "the model was evaluated close to the data"
            if within
            else "too few rows show whether the model was evaluated far from the data"
        )
        what = (
            f"{argument('transport', design.name)} evaluates the model far from the data, where "
            f"predictions have {measured}"
            if far
            else f"at independent latent coordinates, predictions have {measured}: {close}"
        )
        return Finding(
            "fidelity",
            "distrust" if gross else "care" if far else "note",
            what,
            {"variance_ratio": self.variance_ratio, "mean_shift": self.mean_shift},
            "Part of every score reflects what the model does where there are no rows"
            if far
            else "",
        )

    def as_dict(self) -> dict[str, object]:
        return {**asdict(self), "far": self.far}


def model_fidelity(
    folds: Sequence[tuple[Ints, Predict]],
    matrix: Floats,
    weights: Weights,
    latent: Floats,
    mass: Floats,
    decode: Predict,
    seed: np.random.SeedSequence,
    as_one: Ints | None = None,
    undecoded: Callable[[Ints], Floats | float] = lambda _: 0.0,
    most: int = MOST_DRAWS,
) -> Fidelity | None:
    """Compare predictions at rows with predictions at independently drawn latent coordinates.

    None where the predictions do not vary. ``folds`` are held-out rows and their prediction,
    ``latent`` and ``mass`` the laws that are drawn from, coordinates with one label in ``as_one``
    together; ``undecoded`` what is not told by the coordinates of the rows that each is drawn from.
    """
    as_one = np.arange(latent.shape[1]) if as_one is None else as_one
    n_rows = sum(len(rows) for rows, _ in folds)
    generator, coins = (np.random.default_rng(s) for s in (seed, named_seed(seed, "interaction")))
    at_rows, apart, share, mixed = [], [], [], []
    for rows, predict in folds:
        count = max(1, most * len(rows) // n_rows)
        orders = _orders(mass, count, generator, int(as_one.max()) + 1)
        first = orders[: max(2, MOST_PAIRS * len(rows) // n_rows)]
        last = np.roll(first, 1, axis=0)
        ours = coins.random(first.shape) < 0.5
        # the draws themselves are asked about first, then the two mixtures of neighbours
        points = np.concatenate([orders, np.where(ours, first, last), np.where(ours, last, first)])
        found = predict(decode(_taken(latent, points, as_one)) + undecoded(points))
        value = found[: len(first)]
        mixed.append(value + np.roll(value, 1) - found[count:].reshape(2, -1).sum(axis=0))
        apart.append(found[:count])
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
        interaction=float(np.mean(np.concatenate(mixed) ** 2) / 4.0),
    )


def _orders(mass: Floats, count: int, generator: np.random.Generator, units: int) -> Ints:
    """Return the rows (count, units) that each unit is drawn from."""
    order = generator.permutation(len(mass))
    below = np.cumsum(mass[order]) / mass.sum()
    levels = (np.arange(count) + 0.5) / count
    picked = order[np.minimum(np.searchsorted(below, levels), len(order) - 1)]
    return np.column_stack([generator.permutation(picked) for _ in range(units)])


def _taken(latent: Floats, orders: Ints, as_one: Ints) -> Floats:
    return np.column_stack(
        [column[orders[:, unit]] for column, unit in zip(latent.T, as_one, strict=True)]
    )


def _moments(values: Floats, share: Floats) -> tuple[float, float, float]:
    mean = float(share @ values)
    centred = values - mean
    variance = float(share @ centred**2)
    kurtosis = float(share @ centred**4) / variance**2 if variance > 0 else 1.0
    return mean, variance, max(kurtosis, 1.0)


def keeping_variance(
    transport: Fitted, task: Task, fit: Callable[[Transport], Fitted]
) -> tuple[Fitted, str]:
    """Return a transport that keeps the variance of the models' predictions, and what was done.

    Opposite effects of columns that are nearly collinear cancel under the sample correlation, and
    may not under another one. Where predictions at latent coordinates that are drawn apart have
    not the variance that they have at the rows, up to :data:`KEPT_VARIANCE`, and are nearer to it
    under the sample correlation, by :data:`NEARER`, ``covariance="auto"`` takes that one. A sample
    correlation that does not keep it either (HIV-1, 611 rows of 832 columns: .37, factors .30) has
    to be :data:`MUCH_NEARER`.
    """
    design, estimate = transport.design, transport.correlations
    if estimate.of_sample or design.specification().get("covariance") != "auto":
        return transport, ""
    ratio = _variance_ratio(transport, task)
    if 1.0 / KEPT_VARIANCE <= ratio <= KEPT_VARIANCE:
        return transport, ""
    sample = fit(design.by_sample())
    nearer = _variance_ratio(sample, task)
    keeps = 1.0 / KEPT_VARIANCE <= nearer <= KEPT_VARIANCE
    if abs(np.log(nearer)) + np.log(NEARER if keeps else MUCH_NEARER) >= abs(np.log(ratio)):
        return transport, ""
    return sample, (
        f"the sample correlation, although noisy: under {estimate.used}, predictions would have "
        f"{ratio:.3g} times their variance at the rows, and so would scores"
    )


def _variance_ratio(transport: FittedTransport, task: Task) -> float:
    """Return the variance of predictions at latents drawn apart over that at all rows."""
    seed = task.fits.child("kept")
    matrix, weights, rows = task.matrix, task.weights, task.fits.rows
    latent = transport.draw(matrix[rows], np.random.default_rng(seed))
    found = model_fidelity(
        [(rows, predict) for _, predict in held_out_predictions(task)], matrix, weights,
        latent, weights.take(rows).values, transport.decode, named_seed(seed, "apart"),
        transport.drawn_as_one, lambda orders: transport.undecoded(matrix, rows[orders]),
        most=KEPT_DRAWS,
    )  # fmt: skip
    return 1.0 if found is None else max(found.variance_ratio, 1e-300)


def held_out_predictions(task: Task) -> list[tuple[Ints, Predict]]:
    """Return held-out rows and predictions of every fold, if there is no line model."""
    folds = [fold for fold in task.folds if fold.repeat == 0]
    return [
        (fold.test, mean_of(fold.predictors)) for fold in thin(folds, FEWEST_ROWS, task.weights)
    ]


def mean_of(models: Sequence[Predict]) -> Predict:
    return lambda points: np.asarray(np.mean([each(points) for each in models], axis=0))
