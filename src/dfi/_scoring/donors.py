r"""Joint scores: several latent coordinates replaced together by those of other rows.

A unit of several columns (a category, a value with its missing indicator, a group) is replaced as a
whole. With :math:`G` its coordinates, :math:`\Gamma_G` the columns of the decoder that belong to
them and :math:`k` a *donor*, another row, the replaced row is

.. math:: x_i + \Gamma_G (z_{kG} - z_{iG}),

so the law of the replacement is the empirical law of the block, with the dependence inside of it.

**Strata.** Rows that may give are sorted by :math:`z_{kG}'\gamma`, :math:`\gamma = E[y\,z_G]`, and
cut into ``K/2`` strata of equal mass, two donors of each: what the unit adds to a prediction hardly
differs within them. Rows of a category are sorted by their level first, in the order of its effect:
the coordinates of one level differ by what other columns tell of it. No recoding of a unit changes
the order. Over ``K`` donors the mean of the
predictions is :math:`m_{iG}`. With :math:`a_h, b_h` the two predictions of stratum ``h``, a square
of that mean is too large by :math:`e_{iG} = K^{-2} \sum_h (a_h - b_h)^2` on average, and so

.. math:: u_{iG} = (y_i - m_{iG})^2 - e_{iG} - (y_i - f_i)^2

is unbiased for any ``K`` of two or more; for two models the squares are products of their
differences at the same donors. The CPI-type form is too large by as much. The calibrated form takes
:math:`\Delta^a\Delta^b`, too large by this covariance, and
:math:`w^a + w^b`, too large by twice as much. Linear models, and linear members of a sum, need no
donors: their mean over all of them is known.

**Monte-Carlo error.** Every row has donors of its own, so their chance is part of how influence
values differ, and of the standard error. Its own share is that of half the difference between the
influence values of the first donors of all strata and of the second.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dfi._lines.base import LineModel, blocks
from dfi._lines.closed_form import LinearLines, linear_part
from dfi._scoring.forms import ScoreForm, change_product, influence
from dfi.losses import SQUARED_ERROR, Loss

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._types import Floats, Ints

TIED = 1e-10
"""Relative differences below this are rounding."""

FEWEST_DONORS, MOST_DONORS = 8, 64
DRAWS = 16_384
"""Donors of all rows together: the noise of a score falls with their total number."""


def number_of_donors(asked: int | None, n: int) -> int:
    if asked is not None:
        return asked
    return int(np.clip(2 * -(-DRAWS // (2 * max(n, 1))), FEWEST_DONORS, MOST_DONORS))


@dataclass(frozen=True)
class Donors:
    """The rows whose coordinates replace those of others.

    ``latent`` (N, d) are the coordinates of all rows that may give, ``rows`` (N, p) their columns,
    ``share`` (N,) their weights, ``chosen`` (n, K) the donors of each row that receives.
    """

    latent: Floats
    rows: Floats
    share: Floats
    chosen: Ints

    def take(self, which: slice | Ints) -> Donors:
        return self.of(self.chosen[which])

    def of(self, chosen: Ints) -> Donors:
        return replace(self, chosen=chosen)


@dataclass(frozen=True)
class Joint:
    """Coordinates that are replaced together.

    ``directions`` (p, r) is the change of a row for each unit of the ``coordinates`` (r,).
    ``remainders`` are the columns of units that the coordinates do not tell everything of (pooled
    levels), with the maps to these and back: what they leave open comes from the donor as well.
    ``below`` (p,) is what received values are lowered by, so those at a split of a tree are on
    one side of it whatever the rounding of the map.
    """

    coordinates: Ints
    directions: Floats
    remainders: tuple[tuple[Ints, Floats, Floats], ...] = ()
    below: Floats | None = None

    @property
    def is_line(self) -> bool:
        """Whether a line suffices: it moves coordinates, not what a donor adds beyond them."""
        return len(self.coordinates) == 1 and not self.remainders


@dataclass(frozen=True)
class Replaced:
    """Predictions at replaced rows, by model: their mean (n,), and the bias of a product of means.

    ``excess`` is the covariance of two models' means over draws of the donors (the variance of one
    model's); ``halves`` are the means over one donor of each stratum, and over another.
    """

    means: tuple[Floats, Floats]
    excess: Floats
    halves: tuple[tuple[Floats, Floats], tuple[Floats, Floats]]


@dataclass(frozen=True)
class Strata:
    """The donors of each row, the same for every refit of a transport.

    ``places`` (n, K) are the donors of each row that receives, as shares of the mass of all that
    may give; these are sorted for each unit, ``orders`` and the mass up to each, ``masses``. Units
    that need no donors have none.
    """

    places: Floats
    orders: tuple[Ints | None, ...]
    masses: tuple[Floats | None, ...]

    @classmethod
    def of(
        cls,
        share: Floats,
        joints: Sequence[Joint],
        effects: Floats,
        own: Floats,
        ties: Ints,
        places: Floats,
    ) -> Strata:
        """Sort rows by the effects (N, d) of their coordinates; else by ``ties``."""
        orders: list[Ints | None] = []
        for joint in joints:
            keys = [ties, _steps(effects[:, joint.coordinates].sum(axis=1))]
            levels = _steps(own[:, joint.coordinates].sum(axis=1))
            if 2 * levels.max(initial=0) < places.shape[1]:
                keys.append(levels)
            orders.append(None if joint.is_line else np.lexsort(keys))
        masses = [None if order is None else np.cumsum(share[order]) for order in orders]
        return cls(places, tuple(orders), tuple(masses))

    def chosen(self, unit: int, which: slice | Ints) -> Ints:
        """Return the donors of some rows, (rows, K)."""
        order, mass = self.orders[unit], self.masses[unit]
        if order is None or mass is None:
            raise TypeError("a unit of one coordinate has no donors")
        found = np.searchsorted(mass, self.places[which] * mass[-1])
        return np.asarray(order[np.minimum(found, len(order) - 1)])


def strata_of(count: int) -> Ints:
    """Return the first of each stratum's donors: two of each, three of the last if odd."""
    return np.arange(0, count - 1, 2)


def draw_places(count: int, n: int, seed: np.random.SeedSequence) -> Floats:
    """Return the places of ``count`` donors for each of ``n`` rows, as shares of all mass."""
    generator = np.random.default_rng(seed)
    first = strata_of(count)
    size = np.diff(np.append(first, count))
    found = np.empty((n, count))
    for k, h in enumerate(np.repeat(np.arange(len(first)), size)):
        found[:, k] = (first[h] + size[h] * _spaced(n, generator)) / count
    return found


def _spaced(n: int, generator: np.random.Generator) -> Floats:
    """Return ``n`` evenly spaced numbers between 0 and 1 from a random start, shuffled."""
    start = generator.uniform(1e-6, 1.0 - 1e-6)  # not at a row's own edge, which is rounded
    return np.asarray((generator.permutation(n) + start) / n)


def _steps(values: Floats) -> Ints:
    """Return the rank of each value; those no further apart than rounding have the same."""
    order = np.argsort(values, kind="stable")
    apart = np.diff(values[order], prepend=-np.inf) > TIED * np.abs(values).max(initial=0.0)
    rank = np.empty(len(values), dtype=np.intp)
    rank[order] = np.cumsum(apart) - 1
    return rank


def canonical_order(norms: Floats) -> Ints:
    """Return an order of the rows that depends on neither their own nor the columns' order."""
    key = np.sum(norms + norms**2, axis=1)
    order = np.argsort(key, kind="stable")
    apart = np.diff(key[order], prepend=0.0) > TIED * key[order]
    return order[np.lexsort((order, np.cumsum(apart)))]


def replaced(
    models: Sequence[LineModel],
    points: Floats,
    latent: Floats,
    donors: Donors,
    joint: Joint,
    *,
    memory: int,
) -> Replaced:
    return all_replaced(models, points, latent, [donors], [joint], memory=memory)[0]


def all_replaced(
    models: Sequence[LineModel],
    points: Floats,
    latent: Floats,
    donors: Sequence[Donors],
    joints: Sequence[Joint],
    *,
    memory: int,
) -> list[Replaced]:
    """Return the same for several units, one after the other, each with its own donors."""
    if not joints:
        return []
    slopes = [linear_part(model) for model in models]
    shifts = [
        [
            None if slope is None else _linear_shift(slope, points, latent, giving, joint)
            for slope in slopes
        ]
        for giving, joint in zip(donors, joints, strict=True)
    ]
    if all(isinstance(model, LinearLines) for model in models):
        return [
            _replaced_in_linear(models, points, [shift for shift in each if shift is not None])
            for each in shifts
        ]
    shape = len(joints), len(points), donors[0].chosen.shape[1]
    count = shape[2]
    draws = np.empty((len(models), *shape))
    for part in blocks(len(points), memory // (8 * len(joints) * count * points.shape[1])):
        rows = np.concatenate(
            [
                replaced_rows(points[part], latent[part], giving.take(part), joint)
                for giving, joint in zip(donors, joints, strict=True)
            ]
        )
        values = [model.predict(rows).reshape(len(joints), -1, count) for model in models]
        for k, slope in enumerate(slopes):
            # the mean of what is linear is known, so donors are asked about the rest alone
            draws[k, :, part] = values[k]
            if slope is not None:
                draws[k, :, part] -= (rows @ slope).reshape(values[k].shape)
    first = strata_of(count)
    size = np.diff(np.append(first, count))
    of_strata = np.add.reduceat(draws, first, axis=3) / size
    # centred: predictions far from 0 would lose the covariance to rounding
    centred = draws - np.repeat(of_strata, size, axis=3)
    together = np.add.reduceat(centred[0] * centred[-1], first, axis=2)
    excess = together @ (size / (size - 1.0)) / count**2
    # the mean over all donors, over the first of each stratum and over the second
    means = np.stack([of_strata, draws[..., first], draws[..., first + 1]]) @ (size / count)
    for t, each in enumerate(shifts):
        for k, (slope, shift) in enumerate(zip(slopes, each, strict=True)):
            if slope is not None and shift is not None:
                means[:, k, t] += points @ slope + shift
    return [
        Replaced((mean[0], mean[-1]), excess[t], ((one[0], one[-1]), (other[0], other[-1])))
        for t, (mean, one, other) in enumerate(zip(*means.swapaxes(1, 2), strict=True))
    ]


def _linear_shift(
    slope: Floats, points: Floats, latent: Floats, donors: Donors, joint: Joint
) -> Floats:
    """Return the mean change of a linear model when donors replace a unit, (n,)."""

    def effect(latent: Floats, rows: Floats) -> Floats:
        """Return the unit's contribution to the predictions of rows, up to a constant."""
        found = latent[:, joint.coordinates] @ (joint.directions.T @ slope)
        for own, encoder, decoder in joint.remainders:
            found += rows[:, own] @ (slope[own] - encoder @ (decoder @ slope[own]))
        return np.asarray(found)

    return donors.share @ effect(donors.latent, donors.rows) - effect(latent, points)


def _replaced_in_linear(
    models: Sequence[LineModel], points: Floats, shifts: Sequence[Floats]
) -> Replaced:
    """Return the mean over all donors, which a linear model takes from the mean of their law."""
    means = [model.predict(points) + shift for model, shift in zip(models, shifts, strict=True)]
    pair = means[0], means[-1]
    return Replaced(pair, np.zeros(len(points)), (pair, pair))


def replaced_rows(points: Floats, latent: Floats, donors: Donors, joint: Joint) -> Floats:
    """Return the rows that receive a unit from their donors, (n x donors, p).

    Rows may have received other units from the same donors before.
    """
    giving, chosen = np.arange(len(donors.latent)), donors.chosen
    if chosen.size < len(giving):
        giving, chosen = np.unique(chosen, return_inverse=True)
        chosen = chosen.reshape(donors.chosen.shape)
    moved = np.flatnonzero(np.any(joint.directions != 0.0, axis=1))
    # what a row gives and what a donor brings, each once: donors meet many rows
    across = joint.directions[moved].T
    gives, brings = np.zeros(points.shape), np.zeros((len(giving), points.shape[1]))
    gives[:, moved] = latent[:, joint.coordinates] @ across
    brings[:, moved] = donors.latent[giving][:, joint.coordinates] @ across
    for own, encoder, decoder in joint.remainders:
        for rows, of in ((gives, points), (brings, donors.rows[giving])):
            rows[:, own] += of[:, own] - of[:, own] @ encoder @ decoder
    received = brings[chosen]
    # the change first: what is received from a like row is then the value itself
    received -= gives[:, None]
    received += points[:, None]
    if joint.below is not None:
        received[..., moved] -= joint.below[moved]
    return received.reshape(-1, points.shape[1])


def joint_product(values: tuple[Floats, Floats], found: Replaced) -> Floats:
    r"""Return :math:`\Delta^a\Delta^b` (n,) of one unit, minus the bias from drawing donors."""
    return change_product(values, found.means) - found.excess


def joint_influence(
    form: ScoreForm,
    y: Floats,
    values: tuple[Floats, Floats],
    found: Replaced,
    loss: Loss = SQUARED_ERROR,
) -> Floats:
    r"""Return the influence values (n,) of one unit; ``values`` are the predictions at the rows.

    The loss of a mean over ``K`` donors is too large by :math:`\tfrac12 f''(m)` times the mean's
    variance, exactly for squared error and up to :math:`K^{-2}` for any other loss.
    """
    if not loss.is_square:
        if form == "loco":
            middle = found.means[0]
            lost, own = loss.of(y, middle), loss.of(y, values[0])
        else:
            middle = 0.5 * (found.means[0] + found.means[1])
            lost = loss.of_two(y, *found.means)
            own = loss.of_two(y, *values)
        if loss.curvature is not None:
            lost = lost - loss.half_curvature(middle) * found.excess
        return np.asarray(lost - own)
    if form == "cpi":
        return influence(form, y, values, found.means) - found.excess
    lost = (y - found.means[0]) * (y - found.means[1]) - found.excess
    return np.asarray(lost - (y - values[0]) * (y - values[1]))


def joint_chance(
    form: ScoreForm,
    y: Floats,
    values: tuple[Floats, Floats],
    found: Replaced,
    loss: Loss = SQUARED_ERROR,
) -> Floats:
    """Return numbers (n,) whose squares are the variance that drawing donors adds."""
    one, other = (
        joint_influence(form, y, values, replace(found, means=half), loss) for half in found.halves
    )
    return np.asarray(0.5 * (one - other))
