r"""Single rows explained under a fitted transport: latent Shapley values, shared out to units.

The latent Shapley value :math:`\psi_j` of a row (:mod:`dfi._scoring.latent_shapley`) is attributed
as the score of the coordinate is: with :math:`L = R^{1/2}`

.. math:: c_l = \sum_j s_{lj}\, \psi_j, \qquad s_{lj} = L_{lj}^2 \big/ \textstyle\sum_k L_{kj}^2,

so that contributions add up to what the latent values add up to, the prediction less the base. The
same shares of :math:`\Delta_j` are the *total effects*, whose covariances with the regression are
the scores themselves where latents are independent. Where columns are collinear, the coordinates
have a random part, over which both ends are averaged first.

**Units of several columns** are players as they are units of scores: replaced by those of donors,
the rows of the background, and placed into rows of the background. What is linear in the unit's
coordinates goes along its direction, the rest evenly, as in :mod:`dfi.transports.blocks`: with
:math:`\gamma_b = E[\eta z_b]` and :math:`M_{ab} = C^{1/2}_{ba} C^{1/2}_{ab}`

.. math:: c_{ia} = \sum_b z_{ib}' M_{ab} \gamma_b + (\psi_{ib} - z_{ib}'\gamma_b)
          \operatorname{tr}(M_{ab}) / d_b,

whose covariance with the regression is the attributed score for :math:`\Delta` in place of
:math:`\psi`, and which no recoding of a category changes. The mean over donors is corrected by what
the main effect says of them and of all rows, so their choice matters for interactions only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, singledispatch
from typing import TYPE_CHECKING

import numpy as np

from dfi._lines.base import LineModel, LineMoments, Lines, blocks
from dfi._lines.curves import mean_curves
from dfi._scoring.donors import Donors, Joint, canonical_order, replaced_rows
from dfi._scoring.error import unspent
from dfi._scoring.latent_shapley import (
    POINTS_AT_ONCE,
    LatentGame,
    LatentRows,
    middle_effects,
    order_four,
    order_two,
    rounding_floor,
)
from dfi.transports.blocks import BlockTransport
from dfi.transports.straight import StraightTransport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._data.columns import Column
    from dfi._data.weights import Weights
    from dfi._lines.choose import Quadrature
    from dfi._types import Bools, Floats, Ints
    from dfi.transports.base import FittedTransport

ROWS_AT_ONCE = 2048
MOST_REFERENCE = 5000
"""Rows that the mean prediction is taken over, which other values are differences from."""

MOST_CENTRED = 1000
"""Rows over which the main effect of a unit of several columns is centred."""

ROUNDED = 1e-28
"""Shares below this are squares of rounding."""

CONTEXTS = 64
"""Rows of the background that a unit of several columns is placed into, for its main effect."""


@dataclass(frozen=True)
class LocalRows:
    """Single rows explained by one model: prediction, contributions, total effects.

    Contributions add up to the prediction less the base; ``rest`` is what the rule left to divide.
    """

    prediction: Floats
    values: Floats
    total: Floats
    rest: Floats


class Players(ABC):
    """The latent units of a fitted transport, as a model's players."""

    def __init__(
        self,
        transport: StraightTransport | BlockTransport,
        model: LineModel,
        matrix: Floats,
        norms: Floats,
        mass: Floats,
        background: int,
        seed: np.random.SeedSequence,
    ) -> None:
        self.geometry, self.model = transport.geometry, model
        self.offsets, self.offset_weights = self.geometry.offsets
        reference = spread_sample(matrix, norms, mass, MOST_REFERENCE)
        value = model.predict(transport.points(reference.matrix))
        self.base = float(reference.share @ value)
        self.spread = float(np.sqrt(reference.share @ (value - self.base) ** 2))
        self.floor = rounding_floor(value)
        self.background = spread_sample(matrix, norms, mass, background)
        self.seed = seed

    @property
    @abstractmethod
    def n_units(self) -> int:
        """The number of players."""

    @abstractmethod
    def latent_rows(self, matrix: Floats) -> LatentRows:
        """Return the components of the rows' Shapley values."""

    @abstractmethod
    def shared(self, psi: Floats, matrix: Floats) -> Floats:
        """Return latent values shared out to the units."""

    @abstractmethod
    def coalitions(self, matrix: Floats) -> LatentGame:
        """Return the model at rows that are mixed with those of the background."""

    @cached_property
    def background_rows(self) -> LatentRows:
        return self.latent_rows(self.background.matrix)

    def means(self, moments: LineMoments) -> Floats:
        return np.asarray(np.tensordot(self.offset_weights, moments.mean, axes=1))


@dataclass(frozen=True)
class Sample:
    """Rows that represent all rows, and their shares of the weight, which sum to 1."""

    matrix: Floats
    share: Floats

    def __len__(self) -> int:
        return len(self.share)


def spread_sample(matrix: Floats, norms: Floats, mass: Floats, count: int) -> Sample:
    """Return about ``count`` rows, evenly spread by their distance from the middle."""
    held = np.flatnonzero(mass > 0)
    if len(held) <= count:
        return Sample(matrix[held], mass[held] / mass[held].sum())
    order = held[canonical_order(norms[held])]
    below = np.cumsum(mass[order])
    at = np.searchsorted(below, (np.arange(count) + 0.5) / count * below[-1])
    chosen, counts = np.unique(order[np.minimum(at, len(order) - 1)], return_counts=True)
    return Sample(matrix[chosen], counts / count)


@singledispatch
def players_of(transport: FittedTransport, *_: object, **__: object) -> Players:
    """Return a model's players under a transport fitted to the rows of a matrix."""
    raise TypeError(f"{type(transport).__name__} has no straight lines")


def explain_rows(
    players: Players, matrix: Floats, *, refine: int | None, seed: np.random.SeedSequence
) -> LocalRows:
    """Explain rows by the Shapley values of the players, to second or (``refine``) fourth order."""
    parts = [
        _explained(players, matrix[part], refine, seed)
        for part in blocks(len(matrix), ROWS_AT_ONCE)
    ]
    return LocalRows(
        np.concatenate([part.prediction for part in parts]),
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.total for part in parts]),
        np.concatenate([part.rest for part in parts]),
    )


def _explained(
    players: Players, matrix: Floats, refine: int | None, seed: np.random.SeedSequence
) -> LocalRows:
    rows = players.latent_rows(matrix)
    if refine is None or players.n_units < 2:
        found = order_two(rows, players.base, players.floor)
    else:
        middle = middle_effects(
            players.coalitions(matrix),
            rows,
            players.background_rows,
            players.background.share,
            refine,
            players.base,
            unspent(seed),
        )
        found = order_four(rows, middle, players.base, players.floor)
    change = np.where(np.abs(rows.change) <= players.floor, 0.0, rows.change)
    values = players.shared(found.values, matrix)
    # rounding of the shares: what is said to add up does
    left = rows.value - players.base - values.sum(axis=1)
    largest = np.argmax(np.abs(values), axis=1)
    values[np.arange(len(values)), largest] += left
    return LocalRows(rows.value, values, players.shared(change, matrix), found.rest)


@players_of.register(StraightTransport)
class StraightPlayers(Players):
    """Coordinates whose lines are straight, in feature or in score space."""

    def __init__(
        self,
        transport: StraightTransport,
        model: LineModel,
        matrix: Floats,
        weights: Weights,
        columns: Sequence[Column],
        options: Quadrature,
        *,
        background: int,
        seed: np.random.SeedSequence,
    ) -> None:
        self.transport = transport
        self.membership = transport.membership(columns)
        norms = transport.geometry.standardize(transport.points(matrix)) ** 2
        read = transport.line_model(model, options)
        super().__init__(transport, read, matrix, norms, weights.values, background, seed)
        self.shares = _shares(self.geometry.attribution**2)

    @property
    def n_units(self) -> int:
        return self.geometry.n_latent

    def _lines(self, points: Floats) -> Lines:
        latent = np.ascontiguousarray(self.geometry.encode(points))
        directions, law = self.geometry.directions, self.geometry.reference
        return Lines(np.ascontiguousarray(points), latent, directions, law, self.offsets)

    @cached_property
    def _of_background(self) -> tuple[Lines, Floats]:
        """The lines of the background, and the mean of each coordinate's curve."""
        lines = self._lines(self.transport.points(self.background.matrix))
        return lines, self.background.share @ self.means(self.model.moments(lines))

    def latent_rows(self, matrix: Floats) -> LatentRows:
        points = self.transport.points(matrix)
        lines = self._lines(points)
        value = self.model.predict(points)
        change = value[:, None] - self.means(self.model.moments(lines))
        background, middle = self._of_background
        share, weights = self.background.share, self.offset_weights
        main = kernel_curves(self.model, background, share, weights, lines.latent) - middle
        return LatentRows(value, change, main)

    def shared(self, psi: Floats, matrix: Floats) -> Floats:
        """Return latent values shared out to the columns, and these added up to units."""
        del matrix
        return np.asarray(psi @ self.shares.T @ self.membership)

    def coalitions(self, matrix: Floats) -> _StraightGame:
        lines, _ = self._of_background
        points = self.transport.points(matrix)
        noise = _null_noise(self.geometry.null, lines.latent.shape, self.seed)
        return _StraightGame(self, points, self.geometry.encode(points), lines.latent + noise)


def _shares(weights: Floats) -> Floats:
    """Return columns that add up to 1; what does not vary among these rows keeps its own."""
    total = weights.sum(axis=0)
    shares = np.divide(weights, total, out=np.eye(len(weights)), where=total > 0)
    return np.where(shares < ROUNDED, 0.0, shares)


def kernel_curves(
    model: LineModel, lines: Lines, share: Floats, weights: Floats, latent: Floats
) -> Floats:
    """Return the mean curves of a background at rows, averaged over what is random in both, (n, d).

    Of collinear columns a row and the background have a random part each, independent: one of
    twice the variance does.
    """
    shifts = np.sqrt(2.0) * lines.offsets
    moving = np.flatnonzero(np.any(shifts != 0.0, axis=0))
    still = np.setdiff1d(np.arange(latent.shape[1]), moving)
    found = np.zeros(latent.shape)

    def curves(coordinates: Ints, values: Floats) -> Floats:
        some = Lines(
            lines.points,
            np.ascontiguousarray(lines.latent[:, coordinates]),
            np.ascontiguousarray(lines.directions[:, coordinates]),
            lines.reference.only(coordinates),
            np.ascontiguousarray(lines.offsets[:, coordinates]),
        )
        return mean_curves(model, some, share, values)

    found[:, still] = curves(still, latent[:, still])
    for shift, weight in zip(shifts, weights, strict=True):
        if len(moving):
            found[:, moving] += weight * curves(moving, latent[:, moving] + shift[moving])
    return found


def _null_noise(null: Floats, shape: tuple[int, ...], seed: np.random.SeedSequence) -> Floats:
    """Return the random parts of two rows of collinear columns, one less the other."""
    if not null.shape[1]:
        return np.zeros(shape)
    generator = np.random.default_rng(seed)
    return np.asarray(np.sqrt(2.0) * generator.standard_normal(shape) @ (null @ null.T))


@dataclass(frozen=True)
class _StraightGame:
    players: StraightPlayers
    points: Floats
    latent: Floats
    others: Floats

    @property
    def n_units(self) -> int:
        return self.players.n_units

    def mixed(self, rows: slice, others: Ints, given: Bools) -> Floats:
        change = (self.others[others] - self.latent[rows, None, :]) * given
        directions = self.players.geometry.directions
        moved = change.reshape(-1, change.shape[2]) @ directions.T
        moved += np.repeat(self.points[rows], len(given), axis=0)
        return self.players.model.predict(moved).reshape(-1, len(given))


@players_of.register(BlockTransport)
class BlockPlayers(Players):
    """Units of several columns, each replaced as one."""

    def __init__(
        self,
        transport: BlockTransport,
        model: LineModel,
        matrix: Floats,
        weights: Weights,
        columns: Sequence[Column],
        options: Quadrature,
        *,
        background: int,
        seed: np.random.SeedSequence,
    ) -> None:
        del options
        mass = weights.values
        self.transport, self.n_columns = transport, len(columns)
        self.places = transport.inner.places
        whitened = transport.inner.encode(matrix)
        norms = np.stack([np.sum(whitened[:, k] ** 2, axis=1) for k in self.places], axis=1)
        read = transport.line_model(model)
        super().__init__(transport, read, matrix, norms, mass, background, seed)
        self.joints = transport.joints([(k,) for k in range(self.n_units)], matrix.shape[1])
        self.contexts = spread_sample(matrix, norms, mass, min(CONTEXTS, background))
        self.centre = spread_sample(matrix, norms, mass, MOST_CENTRED)
        self.single = [t for t, place in enumerate(self.places) if len(place) == 1]
        self.several = [t for t, place in enumerate(self.places) if len(place) > 1]
        self.even = _shares(transport.even_shares())

    @property
    def n_units(self) -> int:
        return len(self.transport.inner.blocks)

    def _lines(self, matrix: Floats, latent: Floats) -> Lines:
        coordinates = np.array([self.places[t][0] for t in self.single], dtype=np.intp)
        return Lines(
            np.ascontiguousarray(matrix),
            np.ascontiguousarray(latent[:, coordinates]),
            np.ascontiguousarray(np.hstack([self.joints[t].directions for t in self.single])),
            self.geometry.reference.only(coordinates),
            np.ascontiguousarray(self.offsets[:, coordinates]),
        )

    @cached_property
    def _of_background(self) -> tuple[Lines, Floats]:
        rows = self.background.matrix
        lines = self._lines(rows, self.transport.encode(rows))
        return lines, self.background.share @ self.means(self.model.moments(lines))

    def _noisy(self, sample: Sample) -> Floats:
        """Return the coordinates of rows, with the random parts of theirs and of another row."""
        latent = self.transport.encode(sample.matrix)
        return latent + _null_noise(self.geometry.null, latent.shape, self.seed)

    @cached_property
    def _giving(self) -> Floats:
        return self._noisy(self.background)

    @cached_property
    def _taking(self) -> Floats:
        return self._noisy(self.contexts)

    def _placed(self, joint: Joint, matrix: Floats, latent: Floats) -> Floats:
        """Return the mean prediction of the contexts with a unit from each row, (n,)."""
        count, share = len(self.contexts), self.contexts.share
        found = np.empty(len(matrix))
        size = POINTS_AT_ONCE // (count * matrix.shape[1])
        for part in blocks(len(matrix), size):
            given, rows = latent[part], matrix[part]
            chosen = np.tile(np.arange(len(rows)), (count, 1))
            donors = Donors(given, rows, np.full(len(rows), 1.0 / len(rows)), chosen)
            points = replaced_rows(self.contexts.matrix, self._taking, donors, joint)
            found[part] = share @ self.model.predict(points).reshape(count, -1)
        return found

    def _replaced(self, joint: Joint, matrix: Floats, latent: Floats) -> Floats:
        """Return the mean prediction of rows with a unit from each row of the background, (n,)."""
        share = self.background.share
        found = np.empty(len(matrix))
        size = POINTS_AT_ONCE // (len(share) * matrix.shape[1])
        for part in blocks(len(matrix), size):
            chosen = np.tile(np.arange(len(share)), (len(matrix[part]), 1))
            donors = Donors(self._giving, self.background.matrix, share, chosen)
            points = replaced_rows(matrix[part], latent[part], donors, joint)
            found[part] = self.model.predict(points).reshape(-1, len(share)) @ share
        return found

    @cached_property
    def _centres(self) -> dict[int, _Centre]:
        """What the placed values of each unit of several columns are centred by."""
        centre, donors = self.centre, self.background
        latent, giving = self.transport.encode(centre.matrix), self.transport.encode(donors.matrix)
        found = {}
        for t in self.several:
            placed = self._placed(self.joints[t], centre.matrix, latent)
            of_donors = donors.share @ self._placed(self.joints[t], donors.matrix, giving)
            of_all = float(centre.share @ placed)
            gamma = (centre.share * (placed - of_all)) @ latent[:, self.places[t]]
            found[t] = _Centre(of_all, float(of_donors), gamma)
        return found

    def latent_rows(self, matrix: Floats) -> LatentRows:
        latent, value = self.transport.encode(matrix), self.model.predict(matrix)
        change, main = np.zeros((2, len(matrix), self.n_units))
        if self.single:
            lines = self._lines(matrix, latent)
            change[:, self.single] = value[:, None] - self.means(self.model.moments(lines))
            background, middle = self._of_background
            share, weights = self.background.share, self.offset_weights
            found = kernel_curves(self.model, background, share, weights, lines.latent)
            main[:, self.single] = found - middle
        for t in self.several:
            centre = self._centres[t]
            replaced = self._replaced(self.joints[t], matrix, latent)
            change[:, t] = value - (replaced + centre.of_all - centre.of_donors)
            main[:, t] = self._placed(self.joints[t], matrix, latent) - centre.of_all
        return LatentRows(value, change, main)

    def shared(self, psi: Floats, matrix: Floats) -> Floats:
        """Return latent values shared out: along a unit's direction, and evenly."""
        latent, root = self.transport.encode(matrix), self.geometry.attribution
        owner = self.transport.inner.owner
        by_block = np.asarray(owner[:, None] == np.arange(self.n_units), dtype=np.float64)
        found = psi @ self.even.T
        for t in [] if self.transport.isotropic else self.several:
            # nothing is directed where the unit has no part in the row
            place, played = self.places[t], psi[:, t] != 0.0
            across = root[:, place]
            directed = (
                (latent[:, place] @ across.T) * (across @ self._centres[t].gamma)
            ) @ by_block
            directed[~played] = 0.0
            found += directed - directed.sum(axis=1, keepdims=True) * self.even[:, t]
        units = [block.unit for block in self.transport.inner.blocks]
        whole = np.zeros((len(matrix), self.n_columns))
        whole[:, units] = found
        return whole

    def coalitions(self, matrix: Floats) -> _BlockGame:
        return _BlockGame(self, matrix, self.transport.encode(matrix))


@dataclass(frozen=True)
class _Centre:
    """Of a unit placed into the contexts: its mean over all rows, over donors, and its slope."""

    of_all: float
    of_donors: float
    gamma: Floats


@dataclass(frozen=True)
class _BlockGame:
    players: BlockPlayers
    matrix: Floats
    latent: Floats

    @property
    def n_units(self) -> int:
        return self.players.n_units

    def mixed(self, rows: slice, others: Ints, given: Bools) -> Floats:
        players, matrix = self.players, self.matrix[rows]
        directions = players.transport.directions[: matrix.shape[1]]
        change = players._giving[others] - self.latent[rows, None, :]
        change = change * given[:, players.transport.inner.owner]
        moved = change.reshape(-1, change.shape[2]) @ directions.T
        moved += np.repeat(matrix, len(given), axis=0)
        for t, joint in enumerate(players.joints):
            for own, encoder, decoder in joint.remainders:
                rest = players.background.matrix[np.ix_(others, own)] - matrix[:, None, own]
                rest = (rest - rest @ encoder @ decoder) * given[:, t][:, None]
                moved[:, own] += rest.reshape(-1, len(own))
        return players.model.predict(moved).reshape(-1, len(given))
