r"""``transport="auto"``: the simplest transport that the data allow, by what each leaves behind.

Whitening removes correlation, not dependence. The distance correlation (Székely, Rizzo and
Bakirov, 2007) is zero in the population exactly for independent variables, of any dimension, so
the coordinates of a category are one variable. From U-centred distances

.. math:: \tilde a_{ij} = a_{ij} - \frac{a_{i\cdot} + a_{\cdot j}}{n-2}
          + \frac{a_{\cdot\cdot}}{(n-1)(n-2)} \quad (i \ne j), \qquad
          R = \frac{\sum \tilde a \tilde b}{\sqrt{\sum \tilde a^2 \sum \tilde b^2}}

estimates its square without bias at independence, and :math:`P(\chi^2_1 > n R + 1)` is a valid
p-value for any margins up to .05 (Shen, Panda and Vogelstein, 2022): it agrees with permutations
for pairs of 0/1 columns and is conservative otherwise, without permuting anything.

Dependence is worth a warning where it is both *there* (Holm's adjustment over all pairs of
features, :data:`LEVEL`) and *large* (:data:`EFFECT`), among pairs of which one carries signal. Real
tables have some dependence between any two columns: with rows enough the first alone says only
that there are many of them, and between columns that say nothing it concerns no score.
"""

from __future__ import annotations

import importlib.util
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import stats

from dfi._data.weights import Weights
from dfi._models.seeds import Seeds
from dfi._parameters import validated_fields
from dfi.transports.base import Transport, TransportChoice, repeated_rows
from dfi.transports.copula import Copula
from dfi.transports.entropic import DOUBTFUL, EntropicOT, epsilon_for
from dfi.transports.gaussian import Gaussian
from dfi.transports.knothe import KnotheRosenblatt
from dfi.transports.margins import fit_margin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._data.columns import Column
    from dfi._types import Bools, Floats, Ints, Plain
    from dfi.transports.base import FittedTransport

FAR_FROM_NORMAL = 0.1
"""Kolmogorov distance of a standardised margin from N(0, 1) that calls for normal scores."""

MOST_COLUMNS_OF_A_VINE = 30

LEVEL = 0.01
"""Probability that independent latents are called dependent, over all pairs (Holm)."""

EFFECT = 0.45
"""Distance correlation that is worth a warning: that of normal variables correlated by .5, a large
effect by Cohen's convention; a parabola without noise has .5. At a medium effect (.25) six of nine
real tables would warn, with predictions as faithful and totals as plausible as on the others."""

MAX_UNITS = 200
MAX_ROWS = 500
MAX_CELLS = 10**7
"""Distances held at once; bounds the time to a fraction of a second."""


@validated_fields
@dataclass(kw_only=True)
class Auto(Transport):
    """Choose among the transports by what the data show; the choice is part of the result.

    Parameters
    ----------
    random_state : int or None, default=0
        For ``fit`` and ``transform`` alone: the rows on which dependence is measured, and draws.

    Examples
    --------
    >>> X = dfi.datasets.m1(300, d=3).X
    >>> type(dfi.transports.Auto().fit(X).transform(X)).__name__
    'ndarray'
    """

    random_state: int | None = 0

    name: ClassVar[str] = "auto"
    chooses: ClassVar[bool] = True

    def choose(
        self,
        matrix: Floats,
        weights: Weights,
        constant: Bools,
        columns: Sequence[Column] | None,
        seed: np.random.SeedSequence,
    ) -> TransportChoice:
        return choose_transport(matrix, weights, constant, columns, seed)

    def fit_matrix(
        self,
        matrix: Floats,
        weights: Weights,
        constant: Bools,
        *,
        columns: Sequence[Column] | None = None,
        like: FittedTransport | None = None,
    ) -> FittedTransport:
        seed = Seeds.of(self.random_state).child("auto").sequence()
        design = self.choose(matrix, weights, constant, columns, seed).design
        return design.fit_matrix(matrix, weights, constant, columns=columns, like=like)

    def specification(self) -> Plain:
        return {"transport": "auto"}


def alternative_to(design: Transport) -> Transport | None:
    """Return normal scores in place of plain whitening, the other parameters kept; else None."""
    if not isinstance(design, Gaussian) or design.epsilon > 0:
        return None
    shared = {field.name for field in fields(Copula)} & {field.name for field in fields(design)}
    return Copula(**{name: getattr(design, name) for name in shared - {"reference"}})


def choose_transport(
    matrix: Floats,
    weights: Weights,
    constant: Bools,
    columns: Sequence[Column] | None,
    seed: np.random.SeedSequence,
) -> TransportChoice:
    """Choose a transport for the rows of a numeric matrix.

    Margins far from normal call for normal scores; dependence that is left after whitening calls
    for a transport that follows it: Knothe-Rosenblatt where pyvinecopulib is installed and every
    column has an order, entropic transport where there are rows enough for its kernel.
    """
    rows = repeated_rows(weights)
    if rows is not None:
        # distances and distance correlations have no weights: rows as often as they count
        matrix, weights = matrix[rows], Weights(np.ones(len(rows)), "frequency")
    distance, column = _furthest_margin(matrix, weights, constant)
    names = [f"x{k}" for k in range(matrix.shape[1])]
    if columns is not None:
        names = [name for unit in columns for name in unit.matrix_names()]
    reasons = []
    design: Transport = Gaussian()
    if distance > FAR_FROM_NORMAL:
        design = Copula()
        reasons.append(
            f"the margin of {names[column]!r} is far from normal (Kolmogorov distance "
            f"{distance:.2f}): normal scores"
        )
    else:
        reasons.append(f"margins are near normal (Kolmogorov distance {distance:.2f} at most)")
    fitted = design.fit_matrix(matrix, weights, constant, columns=columns)
    left = leftover(fitted, matrix, seed, columns)
    reasons.append(_describe(left))
    if not left.beyond_chance:
        return TransportChoice(design, tuple(reasons))
    for candidate, fitted in _alternatives(matrix, weights, constant, columns, reasons):
        found = leftover(fitted, matrix, seed, columns)
        if found.max_distance_correlation < left.max_distance_correlation:
            reasons.append(f"{candidate.name}: {_describe(found)}")
            return TransportChoice(candidate, tuple(reasons))
        reasons.append(f"{candidate.name} leaves as much")
    return TransportChoice(design, tuple(reasons))


def leftover(
    transport: FittedTransport,
    matrix: Floats,
    seed: np.random.SeedSequence,
    columns: Sequence[Column] | None = None,
) -> LatentDiagnostics:
    """Measure the dependence that a fitted transport leaves between draws of its units' latents."""
    owner = None if columns is None else transport.owner(columns)
    return latent_diagnostics(transport.draw(matrix, np.random.default_rng(seed)), seed, owner)


def _alternatives(
    matrix: Floats,
    weights: Weights,
    constant: Bools,
    columns: Sequence[Column] | None,
    reasons: list[str],
) -> list[tuple[Transport, FittedTransport]]:
    """Return the nonlinear transports that the data allow, fitted, the preferred one first."""
    n, d = len(matrix), int(np.sum(~constant))
    found: list[tuple[Transport, FittedTransport]] = []
    if importlib.util.find_spec("pyvinecopulib") is None:
        reasons.append("knothe-rosenblatt is not installed (pip install pyvinecopulib)")
    elif any(len(column.positions) > 1 for column in columns or ()):
        reasons.append("knothe-rosenblatt cannot take categories without an order")
    elif d > MOST_COLUMNS_OF_A_VINE:
        reasons.append(f"knothe-rosenblatt is not tried above {MOST_COLUMNS_OF_A_VINE} columns")
    else:
        vine = KnotheRosenblatt()
        return [(vine, vine.fit_matrix(matrix, weights, constant, columns=columns))]
    epsilon = epsilon_for(n, d, DOUBTFUL)
    if epsilon is None:
        reasons.append(f"{n} rows are too few for an entropic kernel in {d} dimensions")
    else:
        entropic = EntropicOT(epsilon=epsilon)
        found.append((entropic, entropic.fit_matrix(matrix, weights, constant)))
    return found


def _furthest_margin(matrix: Floats, weights: Weights, constant: Bools) -> tuple[float, int]:
    """Return the largest distance of a margin without levels from normal, and its column."""
    share = weights.values / weights.values.sum()
    worst, where = 0.0, int(np.flatnonzero(~constant)[0])
    for k in np.flatnonzero(~constant):
        column = matrix[:, k]
        if fit_margin(column, weights.values).discrete:
            continue
        centred = column - share @ column
        distance = float(stats.kstest(centred / np.sqrt(share @ centred**2), "norm").statistic)
        if distance > worst:
            worst, where = distance, int(k)
    return worst, where


def _describe(left: LatentDiagnostics) -> str:
    verdict = "above" if left.beyond_chance else "within"
    return (
        f"distance correlation between latents {left.max_distance_correlation:.2f}, "
        f"{verdict} what chance leaves ({left.null_distance_correlation:.2f})"
    )


@dataclass(frozen=True)
class LatentDiagnostics:
    """Leftover dependence and marginal fit of latent coordinates.

    ``max_correlation`` is the largest between coordinates of two features; the largest distance
    correlation is that of two features' latents, one of which carries signal, without bias (the
    root of the positive part of ``R``), and ``null_distance_correlation`` what it reaches by chance
    in at most 1 of 100 tables. Below ``worth_saying`` dependence is not called left over.
    ``p_value``, of the ``most_dependent`` pair, is adjusted for the number of pairs.
    ``max_marginal_distance`` is Kolmogorov's of a margin from N(0, 1), ``null_marginal_distance``
    its 95 % level for one normal margin; ``n_rows`` were used, a subsample where there are many.
    """

    max_correlation: float
    max_distance_correlation: float
    null_distance_correlation: float
    worth_saying: float
    p_value: float
    most_dependent: tuple[int, int]
    max_marginal_distance: float
    null_marginal_distance: float
    n_rows: int

    @property
    def beyond_chance(self) -> bool:
        """Whether independent latents would hardly ever show as much dependence."""
        return self.p_value <= LEVEL

    @property
    def dependent(self) -> bool:
        """Whether the dependence that is left is beyond chance and large enough to matter."""
        return self.beyond_chance and self.max_distance_correlation >= self.worth_saying

    def as_dict(self) -> Plain:
        """Return the values for a result's diagnostics."""
        found = {**asdict(self), "most_dependent": list(self.most_dependent)}
        return {**found, "dependent": self.dependent}


def latent_diagnostics(
    latent: Floats,
    seed: np.random.SeedSequence,
    owner: Ints | None = None,
    carries: Bools | None = None,
) -> LatentDiagnostics:
    """Measure what dependence and marginal misfit is left in latent rows (n, d).

    Coordinates of one feature (``owner``; the levels of a category exclude each other) are one
    variable. Pairs of features of which neither ``carries`` signal are left out, unless none does.
    """
    n, d = latent.shape
    owner = np.arange(d) if owner is None else owner
    units = np.unique(owner)
    margins = kolmogorov_distances(latent)
    level = float(stats.kstwo.ppf(0.95, n))
    if len(units) == 1 or n < 4:
        alone = int(units[0])
        return LatentDiagnostics(
            0.0, 0.0, 0.0, EFFECT, 1.0, (alone, alone), float(margins.max()), level, n
        )
    between = owner[:, None] != owner[None, :]
    correlation = np.abs(np.corrcoef(latent.T)) * between
    signal = np.ones(len(units), dtype=bool)
    if carries is not None and carries[units].any():
        signal = carries[units]
    if len(units) > MAX_UNITS:
        # those that carry signal first, then those whose margins are furthest from normal
        furthest = np.array([margins[owner == unit].max() for unit in units])
        kept = np.sort(np.lexsort([-furthest, ~signal])[:MAX_UNITS])
        units, signal = units[kept], signal[kept]
    size = int(min(n, MAX_ROWS, np.sqrt(MAX_CELLS / len(units))))
    rows = np.sort(np.random.default_rng(seed).permutation(n)[:size])
    squared = distance_correlations([latent[rows][:, owner == unit] for unit in units])
    squared[~(signal[:, None] | signal)] = -np.inf
    first, second = np.unravel_index(int(np.argmax(squared)), squared.shape)
    pairs = int(np.sum(np.isfinite(squared))) // 2
    largest = float(squared[first, second])
    return LatentDiagnostics(
        max_correlation=float(correlation.max()),
        max_distance_correlation=float(np.sqrt(max(largest, 0.0))),
        null_distance_correlation=chance_level(size, pairs),
        worth_saying=EFFECT,
        # Holm's first step, which is the one that the largest value takes
        p_value=min(1.0, pairs * float(stats.chi2.sf(size * largest + 1.0, 1))),
        most_dependent=(int(units[first]), int(units[second])),
        max_marginal_distance=float(margins.max()),
        null_marginal_distance=level,
        n_rows=size,
    )


def chance_level(n: int, pairs: int) -> float:
    """Return the distance correlation that the largest of some pairs of ``n`` rows may reach."""
    critical = float(stats.chi2.isf(LEVEL / pairs, 1))
    return float(np.sqrt((critical - 1.0) / n))


def kolmogorov_distances(latent: Floats) -> Floats:
    """Return the Kolmogorov distance of each column's empirical law from N(0, 1)."""
    n = len(latent)
    steps, found = np.arange(n + 1) / n, np.empty(latent.shape[1])
    # one after the other: of many rows all columns at once are five copies of the table
    for j, column in enumerate(latent.T):
        probability = stats.norm.cdf(np.sort(column))
        found[j] = np.maximum(steps[1:] - probability, probability - steps[:-1]).max()
    return found


def distance_correlations(blocks: list[Floats]) -> Floats:
    """Return ``R`` of every pair of blocks: ``-inf`` with itself, 0 where one does not vary."""
    n = len(blocks[0])
    centred = np.empty((len(blocks), n * n), dtype=np.float32)
    for j, block in enumerate(blocks):
        if block.shape[1] == 1:
            distance = np.abs(block - block.T)
        else:
            square = np.sum(block**2, axis=1)
            distance = square[:, None] + square[None, :] - 2.0 * block @ block.T
            distance = np.sqrt(np.maximum(distance, 0.0))
        total = distance.sum(axis=0)
        distance -= (total[:, None] + total[None, :]) / (n - 2)
        distance += total.sum() / ((n - 1) * (n - 2))
        np.fill_diagonal(distance, 0.0)
        centred[j] = distance.ravel()
    covariance = (centred @ centred.T).astype(float)
    variance = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    ratio = np.divide(covariance, variance, out=np.zeros_like(covariance), where=variance > 0)
    np.fill_diagonal(ratio, -np.inf)
    return np.asarray(ratio)
