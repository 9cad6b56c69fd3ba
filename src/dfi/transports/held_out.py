r"""Choices by held-out rows: which columns get normal scores, and how far a potential may bend.

A margin is bent where normal scores gain more than :data:`MARGIN_ERRORS` standard errors of
log-likelihood on 30 % of the rows. Penalties are compared on the same rows, with these margins and
with none, by the likelihood of the whole map.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dfi._data.weights import Weights
from dfi._estimates.margins import Margin, fit_margin
from dfi.transports.base import Layout
from dfi.transports.blocks import BlockTransport
from dfi.transports.gaussian import Gaussian, LinearTransport
from dfi.transports.potential import PENALTIES, fit_potential

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dfi._data.columns import Column
    from dfi._types import Bools, Floats, Ints
    from dfi.transports.base import FittedTransport

MARGIN_ERRORS = 3.5
"""Standard errors of likelihood that normal scores of a column have to gain."""

MOST_OF_A_ROW = 5.0
"""Gain that one row may show: a single far one must not decide, nor hide what others gain."""

HELD_OUT = 0.3
SEARCH_ROWS = 3000
"""Rows that penalties are compared on, a sample of more."""

COARSE = 8.0
"""Rows a margin is fitted to, over those it is told of, where its likelihood is compared."""

SEARCHED = 120
"""Most iterations for a penalty, each of which starts from the one before."""


@dataclass(frozen=True)
class Gain:
    """A map's mean gain in log-likelihood per held-out row, and its error."""

    mean: float
    error: float

    @classmethod
    def of(cls, gains: Floats, mass: Floats) -> Gain:
        """Average the gains of rows, each capped at :data:`MOST_OF_A_ROW`."""
        gains = np.clip(gains, -MOST_OF_A_ROW, MOST_OF_A_ROW)
        share = mass / mass.sum()
        mean = float(share @ gains)
        return cls(mean, float(np.sqrt(np.sum(share**2 * (gains - mean) ** 2))))

    def clear(self, errors: float) -> bool:
        """Return whether it exceeds a number of standard errors."""
        return self.mean > errors * self.error

    def __str__(self) -> str:
        return f"{self.mean:.2g} a row (standard error {self.error:.1g})"


@dataclass(frozen=True)
class Search:
    """Choices by held-out rows: the columns that get normal scores, and the best penalty.

    ``asked`` columns are clearly likelier as normal scores on their own; ``margins`` are those of
    the likeliest map, ``gain`` what it gains over the linear map, ``beyond`` what the potential
    gains over the better of normal scores (where any are asked for) and the linear map.
    """

    asked: tuple[int, ...]
    margins: tuple[int, ...]
    penalty: float
    gain: Gain
    beyond: Gain


NOTHING = Gain(0.0, 0.0)


def searched(
    matrix: Floats,
    mass: Floats,
    curved: Ints,
    constant: Bools,
    seed: np.random.SeedSequence,
    *,
    columns: Sequence[Column] | None = None,
    margins: bool | None = None,
    penalty: float | None = None,
) -> Search:
    """Compare margins and penalties on held-out rows of the ``curved`` columns; None searches."""
    generator = np.random.default_rng(seed)
    rows = generator.permutation(np.flatnonzero(mass))[:SEARCH_ROWS]
    cut = round((1.0 - HELD_OUT) * len(rows))
    counted = mass[rows]
    asked = tuple(int(k) for k in curved) if margins else ()
    if margins is None:
        gains = (_margin_gains(matrix[rows, k], counted, cut) for k in curved)
        clear = [Gain.of(gain, counted[cut:]).clear(MARGIN_ERRORS) for gain in gains]
        asked = tuple(int(k) for k, is_so in zip(curved, clear, strict=True) if is_so)
    if penalty is not None or len(curved) == 0:
        return Search(asked, asked, np.inf if penalty is None else penalty, NOTHING, NOTHING)
    plain, kept = None, counted[cut:]
    straight, best = np.zeros(len(rows) - cut), np.zeros(len(rows) - cut)
    chosen: tuple[tuple[int, ...], float] = (), np.inf
    for bent in dict.fromkeys(((), asked)):
        base = _Base.of(matrix[rows], counted, bent, curved, constant, columns, cut)
        plain = base.likelihood if plain is None else plain
        if bent == asked:
            straight = base.likelihood - plain
        for each, gained in _penalties(base.white, counted, cut):
            total = base.likelihood - plain + gained
            if Gain.of(total, kept).mean > Gain.of(best, kept).mean:
                best, chosen = total, (bent, each)
    return Search(asked, *chosen, Gain.of(best, kept), Gain.of(best - straight, kept))


@dataclass(frozen=True)
class _Base:
    """Coordinates to bend after some margins, by the first rows, and likelihoods of the rest."""

    white: Floats
    likelihood: Floats

    @classmethod
    def of(
        cls,
        matrix: Floats,
        mass: Floats,
        bent: Sequence[int],
        curved: Ints,
        constant: Bools,
        columns: Sequence[Column] | None,
        cut: int,
    ) -> _Base:
        margins = margins_of(matrix[:cut], mass[:cut], bent)
        scores, slopes = matrix.copy(), np.zeros(len(matrix) - cut)
        for k, margin in margins.items():
            scores[:, k], slope = extended(margin, matrix[:, k])
            slopes += np.log(slope[cut:])
        linear = whitened(scores[:cut], Weights(mass[:cut], "sampling"), constant, columns)
        white = linear.encode(scores)
        volume = _log_volume(linear)
        return cls(
            white[:, coordinates_of(linear, curved)],
            slopes + volume - 0.5 * np.sum(white[cut:] ** 2, axis=1),
        )


def _penalties(white: Floats, mass: Floats, cut: int) -> Iterator[tuple[float, Floats]]:
    """Yield penalties, infinity first, and what held-out rows gain under each."""
    plain, potential, highest = 0.5 * np.sum(white[cut:] ** 2, axis=1), None, 0.0
    yield np.inf, np.zeros(len(plain))
    for penalty in PENALTIES:
        potential = fit_potential(white[:cut], mass[:cut], penalty, potential, iterations=SEARCHED)
        gains = plain - potential.gradient(white[cut:])[1]
        yield penalty, gains
        gain = Gain.of(gains, mass[cut:])
        highest = max(highest, gain.mean)
        if gain.mean < highest - 2.0 * gain.error:
            return  # smaller penalties only follow the noise further


def extended(margin: Margin, values: Floats) -> tuple[Floats, Floats]:
    """Return normal scores, linear beyond the outermost values, and their slopes."""
    spacing = np.diff(margin.scores) / np.diff(margin.values)
    cell = np.clip(np.searchsorted(margin.values, values) - 1, 0, len(spacing) - 1)
    return margin.scores[cell] + spacing[cell] * (values - margin.values[cell]), spacing[cell]


def _margin_gains(column: Floats, mass: Floats, cut: int) -> Floats:
    """Return the log-likelihood of held-out values by normal scores, less that of a normal law."""
    share = mass[:cut] / mass[:cut].sum()
    mean = share @ column[:cut]
    deviation = np.sqrt(share @ (column[:cut] - mean) ** 2)
    if not deviation > 0:
        return np.full(len(column) - cut, -1.0)
    score, slope = extended(fit_margin(column[:cut], mass[:cut], cut / COARSE), column[cut:])
    plain = (column[cut:] - mean) / deviation
    return np.asarray(0.5 * (plain**2 - score**2) + np.log(slope * deviation))


def margins_of(matrix: Floats, mass: Floats, columns: Sequence[int]) -> dict[int, Margin]:
    weights = Weights(mass, "sampling")
    return {k: fit_margin(matrix[:, k], mass, weights.effective) for k in columns}


def scored(matrix: Floats, margins: dict[int, Margin]) -> Floats:
    """Return rows with some of their columns as scores."""
    scores = matrix.copy()
    for k, margin in margins.items():
        scores[:, k] = margin.score(matrix[:, k])
    return scores


def valued(scores: Floats, margins: dict[int, Margin]) -> Floats:
    """Return rows of the matrix, given some of their columns as scores."""
    rows = scores.copy()
    for k, margin in margins.items():
        rows[:, k] = margin.value(scores[:, k])
    return rows


def whitened(
    scores: Floats,
    weights: Weights,
    constant: Bools,
    columns: Sequence[Column] | None,
    like: FittedTransport | None = None,
) -> LinearTransport | BlockTransport:
    """Whiten rows: between units where some have several ``columns``, else column by column."""
    design = Gaussian(reference="empirical", components=None, covariance="sample")
    if columns is None:
        return design.by_column(scores, weights, Layout(constant))
    kept = like if isinstance(like, BlockTransport) else None
    return design.fit_rows(scores, weights, Layout(constant, columns, kept))


def coordinates_of(linear: LinearTransport | BlockTransport, positions: Ints) -> Ints:
    """Return the latent coordinates of columns that are units of their own."""
    if not isinstance(linear, BlockTransport):
        return np.searchsorted(linear.active, positions)
    inner = linear.inner
    found = {
        int(block.positions[0]): int(place[0])
        for block, place in zip(inner.blocks, inner.places, strict=True)
        if len(block.positions) == 1
    }
    return np.array([found[k] for k in positions.tolist()], dtype=np.intp)


def _log_volume(linear: LinearTransport | BlockTransport) -> float:
    """Return the logarithm of the map's determinant, up to what units of several columns have."""
    within = 0.0
    if isinstance(linear, BlockTransport):
        single = [block for block in linear.inner.blocks if len(block.positions) == 1]
        within = float(np.sum([np.log(block.encoder[0, 0]) for block in single]))
        linear = linear.linear
    scale = linear.geometry.scale[linear.active]
    roots = linear.geometry.values[linear.geometry.values > 0]
    return within - float(np.sum(np.log(scale)) + 0.5 * np.sum(np.log(roots)))


def curved_columns(
    matrix: Floats, mass: Floats, constant: Bools, columns: Sequence[Column] | None
) -> Ints:
    """Return the columns that a curved map may bend: units of one column without levels."""
    single = ~constant
    for unit in columns or ():
        if len(unit.positions) > 1:
            single[list(unit.positions)] = False
    free = [k for k in np.flatnonzero(single) if not fit_margin(matrix[:, k], mass).discrete]
    return np.array(free, dtype=np.intp)
