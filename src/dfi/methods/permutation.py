r"""Marginal permutation: PFI, dLOCO, and the error they inherit from the regression.

A row takes the feature (or the group) from other held-out rows of its fold, and the model predicts
it again. Donors are cyclic shifts of a random order, so no row is its own donor, every row
gives as often as it receives, and all pairs are visited when there are as many shifts as other
rows: averages are (incomplete, balanced) U-statistics without their diagonal.

**PFI.** With :math:`X'` the row whose feature ``j`` comes from another row,

.. math:: \psi_j = E[(Y - \mu(X'))^2 - (Y - \mu(X))^2] = E[(\mu(X) - \mu(X'))^2]

(Breiman 2001, Hooker et al. 2021); :math:`2\beta_j^2\operatorname{Var}(X_j)` for a linear one.
Where features are dependent this evaluates rows that the data never show: the question is about the
model's reliance, not about what the feature adds. The derivative in the regression is
:math:`\dot\psi(h) = -2E[(\mu(X) - \mu(X'))h(X')]`.

**dLOCO.** Verdinelli and Wasserman (*Decorrelated Variable Importance*, JMLR 25(7), 2024,
arXiv:2111.10853) define

.. math:: \psi_j = \int\!\!\int \{\mu(x_j, x_{-j}) - \mu_0(x_{-j})\}^2\, p(x_j)\,p(x_{-j}),
          \qquad \mu_0(x_{-j}) = \int \mu(x_j, x_{-j})\,p(x_j),

which is :math:`\beta_j^2\operatorname{Var}(X_j)` for a linear regression. Their abstract calls it
"difficult to estimate nonparametrically" and turns to semiparametric models; no public
implementation was found, so this one is tested against closed forms, a slow twin over all pairs of
rows and simulation. The estimate is the U-statistic
:math:`\psi = E\,\tfrac12\{\mu(B_j, A_{-j}) - \mu(B'_j, A_{-j})\}^2` over three different rows: for
each held-out row the (unbiased) variance of the prediction over the feature of other rows of its
fold. The derivative is :math:`\dot\psi(h) = 2E_{B,A}[\{\mu - \mu_0\}h]`. The paper calls the
standard error intractable; it is three averages of the same predictions.

**Influence.** A score is a mean over pairs (receiver, donor), so a row contributes in both roles
(Hoeffding projection), :math:`\ell(i, \cdot) + \ell(\cdot, i) - \bar\ell`; for dLOCO these are
:math:`g(x_{-j}) = \operatorname{Var}_B(\mu(B_j, x_{-j}))` and
:math:`h(x_j) = E_A[\{\mu(x_j, A_{-j}) - \mu_0(A_{-j})\}^2]`. A third term carries the error of the
regression. The spread of the score over permutations measures the permutations alone; it is
reported apart.

**The regression's error.** Where a score :math:`\psi(\mu)` is not at a minimum in the regression,
an error :math:`h` of :math:`\hat\mu` moves it by the derivative :math:`\dot\psi(h)`. The one-step
correction adds :math:`E[\alpha(X)(Y - \hat\mu(X))]` with the Riesz representer :math:`\alpha` of
that derivative, :math:`\dot\psi(h) = E[\alpha(X) h(X)]`, and the same term is what the estimated
regression contributes to the influence function (automatic debiasing: Chernozhukov, Newey and Singh
2022). For swapped features the exact :math:`\alpha` is a density ratio
:math:`p(x_j) p(x_{-j}) / p(x)`, whose variance is infinite for Gaussian pairs with a correlation
above 1/2. It is projected here on a span: a constant, the columns, :math:`\hat\mu` itself, and
:math:`\Delta_j(x) = \hat\mu(x) - E_t[\hat\mu(t, x_{-j})]`, what the model does with the feature:

.. math:: \hat\alpha = b'\,E[bb']^{-1}\,\dot\psi(b), \qquad b = (1, x, \hat\mu, \Delta_j).

This is exact for linear regressions (the delta method for their coefficients) and, for any
regression, where the feature is independent of the others (then :math:`\alpha = 2\Delta_j`); in
between it takes out the shrinkage, the linear error and the noise that a flexible model fits to a
feature that does not matter, whose plain variance would look like importance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dfi._data.levels import constant_columns
from dfi._lines.quadrature import DEFAULT_MEMORY
from dfi._models.fits import Fits, once
from dfi._parameters import validated_fields
from dfi._scoring.forms import loco
from dfi.methods.base import CONSERVATIVE, MethodResult, OneStep, full_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfi._types import Floats, Ints

KEPT_BYTES = 64 * 2**20
"""Predictions of swapped rows below this size are kept for the next method."""
OUTSIDE_SPAN = 0.01
"""Share of the variance of the feature's own function above which it adds to the span."""


@validated_fields
@dataclass(frozen=True, kw_only=True)
class PFI(OneStep):
    """Marginal permutation importance.

    Parameters
    ----------
    n_permutations : int, default=50
        Permutations averaged inside each fold; capped at the rows of the fold.

    Examples
    --------
    >>> found = dfi.compare(sample.X, sample.y, dfi.methods.PFI(), estimator="linear", cv=2)
    >>> bool(found["pfi"].scores[0] > sample.y.var())  # of rows that do not occur
    True
    """

    n_permutations: int = 50
    debias: bool = True

    any_function = False
    name = "pfi"
    question = (
        "Marginal reliance: how much does the regression lean on the feature when its link to the "
        "other features is broken?"
    )
    corrected = (
        "Both roles of a row and the regression's error to first order, the latter on the span of "
        "the columns and the fit: exact for linear regressions, approximate for others. "
        f"{CONSERVATIVE}"
    )
    plain = "For the fitted models as they are; the regression's own error is left out."

    def compute(self, fits: Fits) -> dict[str, MethodResult]:
        return {self.name: _swapped_part(fits, _loss, self.n_permutations, self)}


@validated_fields
@dataclass(frozen=True, kw_only=True)
class DLOCO(OneStep):
    """Decorrelated leave-one-covariate-out importance.

    Parameters
    ----------
    n_partners : int, default=50
        Other rows whose feature each row is given, n times ``n_partners`` pairs in all; capped at
        the rows of its fold (then the U-statistic is complete).

    Examples
    --------
    >>> found = dfi.compare(sample.X, sample.y, dfi.methods.DLOCO(), estimator="linear", cv=2)
    >>> int(found["dloco"].scores.argmax())
    0
    """

    n_partners: int = 50
    debias: bool = True

    any_function = False
    name = "dloco"
    question = (
        "Direct effect: how much would the regression vary with the feature if it were "
        "independent of the others?"
    )
    corrected = (
        "Hoeffding projection of the U-statistic and the regression's error to first order, the "
        "latter on the span of the columns and the fit: exact for linear regressions, "
        f"approximate for others. {CONSERVATIVE}"
    )
    plain = "For the fitted models as they are: a plain variance is positive for null features."

    def refuses(self, fits: Fits) -> str | None:
        if min(len(fold.test) for fold in fits.folds) < 3:
            return "dloco compares at least three held-out rows: use fewer folds"
        return None

    def compute(self, fits: Fits) -> dict[str, MethodResult]:
        return {self.name: _swapped_part(fits, _variance, self.n_partners, self)}


def _loss(fits: Fits, f: int, swapped: Swap) -> tuple[Floats, Floats]:
    """Return the loss difference of every pair, and its derivative in the swapped prediction."""
    test = fits.folds[f].test
    y, value = fits.outcome.values[test], fits.predictions[test]
    # the row's own loss is taken off first: at the null the kernel then vanishes with the score
    kernel = loco(y[:, None], value[:, None], swapped.values, fits.loss)
    # given the row, the outcome is on average what the regression says
    steep = fits.loss.half_curvature(swapped.values) if not fits.loss.is_square else 1.0
    return kernel, -2.0 * steep * (value[:, None] - swapped.values)


def _variance(fits: Fits, _f: int, swapped: Swap) -> tuple[Floats, Floats]:
    r"""Return each pair's share of the variance, and its derivative in the swapped prediction.

    For another loss the share of Jensen's gap, :math:`f(q) - f(m) - f'(m)(q - m)` about the mean
    ``m`` of the swapped predictions ``q``, of which the variance is that of the square.
    """
    # sum of squared shares is 1/m for equal weights: the variance's degrees of freedom
    freedom = 1.0 - np.sum(swapped.share**2, axis=1, keepdims=True)
    deviation = swapped.values - swapped.mean[:, None]
    floored = np.maximum(freedom, 1e-12)
    loss = fits.loss
    if not loss.is_square and loss.generator is not None and loss.slope is not None:
        middle = swapped.mean[:, None]
        level, slope = loss.generator(middle), loss.slope(middle)
        gap = loss.generator(swapped.values) - level - slope * deviation
        return gap / floored, (loss.slope(swapped.values) - slope) / floored
    return deviation**2 / floored, 2.0 * deviation / floored


def _swapped_part(
    fits: Fits,
    kernel: Callable[[Fits, int, Swap], tuple[Floats, Floats]],
    count: int,
    method: PFI | DLOCO,
) -> MethodResult:
    """Score every unit of every fold from ``count`` swaps per row and pool the rows."""
    arguments = [(kernel, count, method.debias)] * len(units_and_folds(fits))
    influence, noise = score_units(fits, _score, arguments, f"{method.name}: swapping rows")
    return MethodResult(influence, fits.rows, monte_carlo_se=noise)


def _score(
    fits: Fits,
    f: int,
    unit: int,
    kernel: Callable[[Fits, int, Swap], tuple[Floats, Floats]],
    count: int,
    debias: bool,
) -> tuple[Floats, float]:
    """Return the influence values of a fold's rows and the Monte-Carlo error of their mean."""
    mass = fits.weights.values[fits.folds[f].test]
    swapped = swap(fits, f, unit, count)
    values, factor = kernel(fits, f, swapped)
    given = as_donors(values, mass, swapped.donors)
    influence = np.sum(swapped.share * values, axis=1) + given - np.average(given, weights=mass)
    term = _model_term(fits, f, unit, swapped, factor)
    influence += term if debias else term - np.average(term, weights=mass)
    return influence, shift_error(values, mass, swapped.missing)


def units_and_folds(fits: Fits) -> list[tuple[int, int]]:
    """Return the tasks of a method: each unit that varies, in each fold."""
    return [(unit, f) for unit in fits.units.active for f in range(len(fits.folds))]


def score_units(
    fits: Fits,
    score: Callable[..., tuple[Floats, float]],
    arguments: Sequence[tuple[object, ...]],
    label: str,
) -> tuple[Floats, Floats]:
    """Score every unit in every fold and pool the rows.

    ``score(fits, f, unit, *arguments)`` returns values of the held-out rows of fold f, (..., n),
    and the Monte-Carlo error of their mean; ``arguments`` come in the order of
    :func:`units_and_folds`.
    """
    tasks = units_and_folds(fits)
    scored = fits.workers.run(
        score,
        [(fits, f, unit, *more) for (unit, f), more in zip(tasks, arguments, strict=True)],
        label,
        threads=True,
    )
    n_units = len(fits.units)
    values = np.zeros((*scored[0][0].shape[:-1], fits.table.n_rows, n_units))
    variance = np.zeros(n_units)
    total = fits.weights.values[fits.rows].sum()
    for (unit, f), (part, error) in zip(tasks, scored, strict=True):
        test = fits.folds[f].test
        values[..., test, unit] = part
        variance[unit] += (fits.weights.values[test].sum() / total * error) ** 2
    return values[..., fits.rows, :], np.sqrt(variance)


@dataclass(frozen=True)
class Swap:
    """The held-out rows of one fold with one unit taken from m other rows each, (n, m)."""

    values: Floats  # predictions of row i with the unit of its s-th donor
    donors: Ints
    share: Floats  # weight of each donor among those of its row
    missing: float  # share of all pairs that was left out: 0 when every row met every other

    @property
    def mean(self) -> Floats:
        return np.asarray(np.sum(self.share * self.values, axis=1))


def swap(fits: Fits, f: int, unit: int, count: int) -> Swap:
    """Return the swapped predictions of a fold; small ones are kept for the next method."""
    small = 24 * len(fits.rows) * count * len(fits.units) <= KEPT_BYTES
    return (once(_swap) if small else _swap)(fits, f, unit, count)


def _swap(fits: Fits, f: int, unit: int, count: int) -> Swap:
    test = fits.folds[f].test
    rows = fits.table.matrix[test]
    generator = np.random.default_rng(fits.child("swaps", f))
    donors = donor_rows(*choose_shifts(len(rows), count, generator))
    values = swapped_predictions(
        rows, fits.units.positions[unit], donors, full_lines(fits)[f].predict, DEFAULT_MEMORY
    )
    share = donor_shares(fits.weights.values[test], donors)
    return Swap(values, donors, share, 1.0 - donors.shape[1] / (len(rows) - 1))


def choose_shifts(n: int, count: int, generator: np.random.Generator) -> tuple[Ints, Ints]:
    """Return a random order of ``n`` rows and at most ``count`` different cyclic shifts of it."""
    if n < 2:
        raise ValueError(
            "a fold has one test row, which has no other row to be compared with: use fewer folds"
        )
    order = generator.permutation(n).astype(np.intp)
    shifts = generator.permutation(n - 1)[: min(count, n - 1)] + 1
    return order, np.sort(shifts).astype(np.intp)


def donor_rows(order: Ints, shifts: Ints) -> Ints:
    n = len(order)
    place = np.empty(n, dtype=np.intp)
    place[order] = np.arange(n)
    return np.asarray(order[(place[:, None] + shifts[None, :]) % n])


def donor_shares(mass: Floats, donors: Ints) -> Floats:
    """Return the weight of each donor among those of its row, (n, m), rows summing to 1."""
    share = mass[donors]
    total = share.sum(axis=1, keepdims=True)
    even = np.full_like(share, 1.0 / donors.shape[1])
    return np.asarray(np.divide(share, total, out=even, where=total > 0))


def as_donors(values: Floats, mass: Floats, donors: Ints) -> Floats:
    """Return, for each row, the weighted mean of ``values[i, s]`` over the rows it gave to."""
    n = len(mass)
    weight = np.repeat(mass[:, None], donors.shape[1], axis=1).ravel()
    total = np.bincount(donors.ravel(), weight * values.ravel(), minlength=n)
    count = np.bincount(donors.ravel(), weight, minlength=n)
    mean = float(np.average(values, weights=np.broadcast_to(mass[:, None], values.shape)))
    return np.asarray(np.divide(total, count, out=np.full(n, mean), where=count > 0))


def shift_error(kernel: Floats, mass: Floats, missing: float) -> float:
    """Return the standard error of a mean over pairs, by leaving out some shifts at a time."""
    by_shift = np.average(kernel, axis=0, weights=mass)
    k = len(by_shift)
    return float(np.sqrt(missing * by_shift.var(ddof=1) / k)) if k > 1 else 0.0


def swapped_predictions(
    rows: Floats, positions: Ints, donors: Ints, predict: Callable[[Floats], Floats], memory: int
) -> Floats:
    source = rows[:, positions]
    return replaced_points(
        rows, positions, lambda block: source[donors[:, block]], donors.shape[1], predict, memory
    )


def replaced_points(
    rows: Floats,
    positions: Ints,
    replacement: Callable[[slice], Floats],
    n_replacements: int,
    predict: Callable[[Floats], Floats],
    memory: int,
) -> Floats:
    """Return the predictions of rows with some columns replaced, (n, n_replacements).

    ``replacement(block)`` gives the new columns for a block of replacements, (n, block, width).
    """
    n, p = rows.shape
    values = np.empty((n, n_replacements))
    step = max(1, memory // (8 * n * p))
    for start in range(0, n_replacements, step):
        block = slice(start, min(start + step, n_replacements))
        size = block.stop - block.start
        points = np.repeat(rows, size, axis=0)
        points[:, positions] = replacement(block).reshape(n * size, len(positions))
        values[:, block] = predict(points).reshape(n, size)
    return values


def _model_term(fits: Fits, f: int, unit: int, swapped: Swap, factor: Floats) -> Floats:
    r"""Return the contribution of the regression's error to each held-out row, (n,).

    The derivative of the score is :math:`h \mapsto E[c(X, X')\,h(X')]` over swapped rows, with
    ``factor[i, s]`` the value of :math:`c` at row i with its s-th donor.
    """
    test = fits.folds[f].test
    rows, value = fits.table.matrix[test], fits.predictions[test]
    span = riesz_span(fits, f)
    mass = fits.mass(test)
    weight = mass[:, None] * swapped.share * factor
    received = weight.sum(axis=1)
    positions = fits.units.positions[unit]
    derivative = np.empty(rows.shape[1] + 1)
    derivative[:-1] = received @ rows
    derivative[positions] = np.einsum("is,isk->k", weight, rows[:, positions][swapped.donors])
    derivative[-1] = np.sum(weight * swapped.values)
    total = float(received.sum())
    mean = swapped.mean
    return span.correction(
        rows,
        value,
        fits.outcome.values[test] - value,
        mass,
        derivative=((derivative - total * span.centre) / span.scale)[:, None],
        constant=np.array([total]),
        own=(value - mean)[:, None],
        own_derivative=np.array([np.sum(weight * (swapped.values - mean[:, None]))]),
    )[:, 0]


@once
def riesz_span(fits: Fits, f: int) -> RieszSpan:
    rows, mass = (
        values[fits.folds[f].train] for values in (fits.table.matrix, fits.weights.values)
    )
    return RieszSpan(rows, mass, full_lines(fits)[f].predict)


class RieszSpan:
    """The span on which representers are projected, with its Gram matrix over training rows.

    ``train`` are the training rows of the fold, ``mass`` their weights, ``predict`` is the fold's
    full model.
    """

    def __init__(self, train: Floats, mass: Floats, predict: Callable[[Floats], Floats]) -> None:
        share = mass / mass.sum()
        raw = np.column_stack([train, predict(train)])
        self.centre = share @ raw
        # an infinite scale takes a function out of the span: that of a constant is rounding, which
        # differs between processors, and a derivative divided by it would be anything
        constant = constant_columns(raw[mass > 0])
        scale = np.sqrt(share @ (raw - self.centre) ** 2)
        self.scale = np.where(constant | (scale == 0.0), np.inf, scale)
        basis = (raw - self.centre) / self.scale
        gram = (basis * share[:, None]).T @ basis
        n, q = len(raw), int(np.isfinite(self.scale).sum())
        # few rows per function: a ridge keeps the inverse from chasing noise
        penalty = 0.0 if n >= 5 * q else q / n
        values, vectors = np.linalg.eigh(gram + penalty * np.eye(len(gram)))
        kept = values > 1e-9 * values.max()
        self.inverse = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T

    def basis(self, points: Floats, value: Floats) -> Floats:
        return np.asarray((np.column_stack([points, value]) - self.centre) / self.scale)

    def correction(
        self,
        rows: Floats,
        value: Floats,
        residual: Floats,
        mass: Floats,
        *,
        derivative: Floats,
        constant: Floats,
        own: Floats,
        own_derivative: Floats,
    ) -> Floats:
        r"""Return the term that each held-out row adds to each of k scores, (n, k).

        ``derivative`` (q, k) and ``constant`` (k,) are those of the scores in the direction of each
        function of the span and of a constant; ``own`` (n, k) is the function :math:`\Delta_j` of
        each score at the held-out rows, whose shares are ``mass``, and ``own_derivative`` (k,) that
        along it.
        """
        basis = self.basis(rows, value)
        representer = basis @ (self.inverse @ derivative) + constant
        level = mass @ own
        centred = own - level
        root = np.sqrt(mass)[:, None]
        shadow = np.linalg.lstsq(root * basis, root * centred, rcond=1e-9)[0]
        beyond = centred - basis @ shadow
        left = mass @ beyond**2
        # within the span already (a linear model): nothing to add
        outside = left > OUTSIDE_SPAN * (mass @ centred**2)
        wanted = own_derivative - level * constant - np.sum(shadow * derivative, axis=0)
        slope = np.divide(wanted, left, out=np.zeros_like(left), where=outside)
        representer += slope * beyond
        return np.asarray(residual[:, None] * representer)
