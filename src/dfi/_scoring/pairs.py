r"""Pairs of latent units: their joint effect beyond those of single features.

With :math:`\Delta_k = \eta - m_k` what replacing unit ``k`` takes away, the joint effect of two
latent units is

.. math:: D_{jk} = \eta - m_j - m_k + m_{jk} = \Delta_k(z) - E_s\,\Delta_k(z^{(j)}(s)), \qquad
          \psi_{jk} = E D_{jk}^2 = \sum_{S \supseteq \{j, k\}} V_S \ge 0 .

Leaves of trees on a plane are oblique polygons, so planes are not integrated: ``k`` goes along its
exact line, and ``j`` takes values ``s`` of :data:`DRAWS` donors, drawn apart for the two models
``a`` and ``b``, so their chance has no bias. Donors are antithetic, quantiles ``u`` and
``1 - u`` of the law: an effect that is linear in :math:`z_j` has no noise of theirs.

**Project, never subtract.** The influence values of :math:`\psi_{jk}` are

.. math:: u_{jk} = (y - \eta^a) D^b + (y - \eta^b) D^a + D^a D^b .

The difference of scores :math:`\phi_j + \phi_k - \phi_{jk}` has the same mean, and up to 20 times
the noise.

**Beyond additive.** A curve of one feature is a joint effect of the latent units that the feature
is made of: :math:`y = x_1^2` has :math:`\psi_{12} = \rho^2`. With :math:`g = \Pi\eta` the
least-squares projection on sums of functions of single features, pairs of :math:`\eta - g` are
interactions in the features' own scale. The projection is estimated, on halves of the rows that
differ between the two models, and adds

.. math:: -(\Pi D^b)(y - g^a) - (\Pi D^a)(y - g^b) .

Of this :math:`-(\Pi D^b)(y - \eta^a)` takes off what an error of the regression does to its
projection at first order; the rest, :math:`-(\Pi D^b)(\eta^a - g^a)`, has mean 0, and its average
over the rows is taken off.

**The transport's own error** tilts line ``j`` towards ``l`` by :math:`A_{lj}`, which adds
:math:`2\sum_{l \ne j} A_{lj} G^{(k)}_{lj} + 2\sum_{l \ne k} A_{lk} G^{(j)}_{lk}` with

.. math:: G^{(k)}_{lj} = E\Big[(h_j - E_k h_j)\,\frac{\partial m_j}{\partial z_l}\Big], \qquad
          h_j = E_t[t\,\eta(z^{(j)}(t))],

:math:`E_k` by donors of unit ``k`` and the derivatives by differences along random directions, on a
sample of the rows (:mod:`dfi._scoring.sensitivity`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import norm

from dfi._learners.network import bent_hinge
from dfi._lines.base import LineModel, Lines, Reference, blocks
from dfi._lines.closed_form import HingeLines, QuadraticLines, SumLines
from dfi._scoring.donors import Donors, Joint, replaced_rows
from dfi._scoring.sensitivity import ROWS_A_COLUMN, STEP, Summed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._types import Floats, Ints

DRAWS = 2
"""Donors of unit ``j`` for each row and model: a pair of antithetic ones."""

JOINT_DONORS = 8
"""Donors over which a unit of several columns is averaged, where another unit has the line."""

KNOTS, ROWS_A_FUNCTION = 4, 30
"""Bends of each feature's own function, at most, and rows for each of its coefficients."""

HALF_BEND = 0.5
"""Standard deviations for each unit of a bend's argument: it is curved along two of them."""

FEWEST_LEFT = 0.25
"""Share of a half's weight that must be left where rows are left out of its projection."""

ROUNDED = 1e-10
"""Share of the largest eigenvalue below which a direction of the additive functions is rounding."""

POINTS_AT_ONCE = 1 << 22
"""Numbers in the rows that are moved at once: 32 MB."""


@dataclass(frozen=True)
class Additive:
    """Sums of functions of single columns, and the least-squares projection on them.

    A column has a line, a parabola where it takes more than two values, and smooth bends at its
    quantiles. ``values`` (n, q) are those functions at rows, ``share`` (n,) the rows' shares of the
    weight, ``inverse`` (q, q) the inverse of the functions' second moments, ``half`` (n,) which of
    two random halves a row is in. Two models are projected on disjoint halves, without the rows
    that are asked about: the errors of their projections have no common bias, and are not those of
    the rows.
    """

    center: Floats
    scale: Floats
    curved: Ints
    directions: Floats
    offsets: Floats
    reach: tuple[Floats, Floats]
    values: Floats
    share: Floats
    inverse: Floats
    half: Ints

    @classmethod
    def of(cls, points: Floats, mass: Floats, seed: np.random.SeedSequence) -> Additive:
        """Take the functions from rows (n, p) and their weights."""
        share = mass / mass.sum()
        held = points[mass > 0]
        center = share @ points
        scale = np.sqrt(share @ (points - center) ** 2)
        moving = scale > 1e-12 * np.maximum(np.abs(center), 1.0)
        scale = np.where(moving, scale, 1.0)
        levels = np.array([len(np.unique(column)) for column in held.T])
        curved = np.flatnonzero(moving & (levels > 2))
        room = len(held) // (ROWS_A_FUNCTION * max(1, len(curved))) - 2
        directions, offsets = [np.zeros((points.shape[1], 0))], [np.zeros(0)]
        for k in curved.tolist():
            count = int(np.clip(min(room, levels[k] - 3), 0, KNOTS))
            knots = np.unique(np.quantile(held[:, k], (np.arange(count) + 0.5) / max(1, count)))
            along = np.zeros((points.shape[1], len(knots)))
            along[k] = 1.0 / (HALF_BEND * scale[k])
            directions.append(along)
            offsets.append(-knots / (HALF_BEND * scale[k]))
        slopes, shifts = np.hstack(directions), np.concatenate(offsets)
        arguments = points @ slopes + shifts
        low, high = arguments.min(axis=0, initial=0.0), arguments.max(axis=0, initial=0.0)
        reach = 2.0 * low - high, 2.0 * high - low
        away = (points - center) / scale
        values = np.column_stack(
            [np.ones(len(points)), away, away[:, curved] ** 2, bent_hinge(arguments)]
        )
        half = np.random.default_rng(seed).permutation(len(points)) % 2
        inverse = _inverse(values, share)
        return cls(center, scale, curved, slopes, shifts, reach, values, share, inverse, half)

    def project(self, values: Floats) -> Floats:
        weighted = self.values * self.share[:, None]
        return np.asarray(self.values @ (self.inverse @ (weighted.T @ values)))

    def model(self, values: Floats, half: int, without: Ints) -> LineModel:
        """Return the projection of a model's values on a half of the rows, as a function."""
        share = np.where(self.half == half, self.share, 0.0)
        others = share.copy()
        others[without] = 0.0
        if others.sum() > FEWEST_LEFT * share.sum():
            share = others
        weighted = (self.values * share[:, None]).T @ values
        found = _inverse(self.values, share) @ weighted
        p, bends = len(self.center), self.directions.shape[1]
        square = np.zeros((p, p))
        last = 1 + p + len(self.curved)
        square[self.curved, self.curved] = found[1 + p : last] / self.scale[self.curved] ** 2
        smooth = QuadraticLines(self.center, found[1 : 1 + p] / self.scale, square, float(found[0]))
        if not bends:
            return smooth
        bent = HingeLines(self.directions, self.offsets, self.reach, found[last:], 0.0)
        return SumLines((smooth, bent), (1.0, 1.0))


def _inverse(values: Floats, share: Floats) -> Floats:
    """Return the inverse of second moments, 0 in directions that are rounding."""
    size, vectors = np.linalg.eigh((values * share[:, None]).T @ values)
    kept = size > ROUNDED * size[-1]
    return np.asarray((vectors[:, kept] / size[kept]) @ vectors[:, kept].T)


@dataclass(frozen=True)
class PairSpace:
    """Rows where latent lines are straight, and what replaces their units.

    ``latent`` (n, d) are drawn once, so what collinear columns leave open is part of them.
    ``pairs`` (P, 2) are units that are asked about: the first takes donors, the second has a line,
    unless both have several columns. ``offers`` are the rows that give, by their share of the
    weight.
    """

    points: Floats
    latent: Floats
    share: Floats
    joints: tuple[Joint, ...]
    reference: Reference
    pairs: Ints

    def lines(self, points: Floats, latent: Floats, units: Ints) -> Lines:
        coordinates = np.array([self.joints[k].coordinates[0] for k in units], dtype=np.intp)
        return Lines(
            np.ascontiguousarray(points),
            np.ascontiguousarray(latent[:, coordinates]),
            np.ascontiguousarray(np.hstack([self.joints[k].directions for k in units])),
            self.reference.only(coordinates),
            np.zeros((1, len(coordinates))),
        )

    def moved(
        self, points: Floats, latent: Floats, unit: int, places: Floats
    ) -> tuple[Floats, Floats]:
        joint = self.joints[unit]
        count = len(places)
        again = np.tile(latent, (count, 1))
        at = joint.coordinates
        if joint.is_line:
            again[:, at[0]] = self.quantiles(int(at[0]), places.ravel())
            change = (again[:, at[0]] - np.tile(latent[:, at[0]], count))[:, None]
            return np.tile(points, (count, 1)) + change * joint.directions[:, 0], again
        chosen = np.searchsorted(np.cumsum(self.share), places.ravel() * (1.0 - 1e-12))
        chosen = np.minimum(chosen, len(self.share) - 1)
        donors = Donors(self.latent, self.points, self.share, chosen[:, None])
        given = replaced_rows(np.tile(points, (count, 1)), again, donors, joint)
        again[:, at] = self.latent[np.ix_(chosen, at)]
        return given, again

    def quantiles(self, coordinate: int, places: Floats) -> Floats:
        values, cumulative = self.reference.values, self.reference.cumulative
        if values is None or cumulative is None:
            return np.asarray(norm.ppf(places))
        at = np.searchsorted(cumulative[:, coordinate], places * (1.0 - 1e-12))
        return np.asarray(values[np.minimum(at, len(values) - 1), coordinate])


@dataclass(frozen=True)
class PairEffects:
    """Joint effects of rows by one model: of the model itself, and of its additive part.

    ``value`` (2, n) are predictions, ``effect`` (2, n, P) joint effects.
    """

    value: Floats
    effect: Floats


def draw_quantiles(n: int, seed: np.random.SeedSequence) -> Floats:
    """Return places of antithetic donors for ``n`` rows, (DRAWS, n): one a row, evenly spaced."""
    generator = np.random.default_rng(seed)
    first = (generator.permutation(n) + generator.random(n)) / n
    return np.stack([first, 1.0 - first])


def pair_effects(
    models: Sequence[LineModel], rows: Ints, space: PairSpace, seed: np.random.SeedSequence
) -> PairEffects:
    """Return the joint effects of all pairs at rows of the space."""
    places_seed, joint_seed = seed.spawn(2)
    places = draw_quantiles(len(rows), places_seed)
    generator = np.random.default_rng(joint_seed)
    several = generator.random((JOINT_DONORS, len(rows)))
    effect = np.empty((len(models), len(rows), len(space.pairs)))
    value = np.empty((len(models), len(rows)))
    width = space.points.shape[1] + len(space.pairs)
    for part in blocks(len(rows), POINTS_AT_ONCE // (DRAWS * JOINT_DONORS * width)):
        own = rows[part]
        points, latent = space.points[own], space.latent[own]
        for k, model in enumerate(models):
            value[k, part] = model.predict(points)
        units = np.unique(space.pairs[:, 1])
        base = _changes(models, points, latent, units, space, several[:, part])
        for j in np.unique(space.pairs[:, 0]).tolist():
            at = np.flatnonzero(space.pairs[:, 0] == j)
            partners = space.pairs[at, 1]
            given, again = space.moved(points, latent, j, places[:, part])
            tiled = np.tile(several[:, part], (1, DRAWS))
            there = _changes(models, given, again, partners, space, tiled)
            for k in range(len(models)):
                mean = there[k].reshape(DRAWS, len(own), -1).mean(axis=0)
                effect[k][part, at] = base[k][:, np.searchsorted(units, partners)] - mean
    return PairEffects(value, effect)


def _changes(
    models: Sequence[LineModel],
    points: Floats,
    latent: Floats,
    units: Ints,
    space: PairSpace,
    places: Floats,
) -> list[Floats]:
    """Return the drop in predictions when each unit is replaced, (n, units) for every model."""
    is_line = np.array([space.joints[k].is_line for k in units], dtype=np.bool_)
    found = [np.repeat(model.predict(points)[:, None], len(units), axis=1) for model in models]
    if is_line.any():
        lines = space.lines(points, latent, units[is_line])
        for change, model in zip(found, models, strict=True):
            change[:, is_line] -= model.moments(lines).mean[0]
    for at in np.flatnonzero(~is_line).tolist():
        given, _ = space.moved(points, latent, int(units[at]), places)
        for change, model in zip(found, models, strict=True):
            change[:, at] -= model.predict(given).reshape(len(places), -1).mean(axis=0)
    return found


@dataclass(frozen=True)
class PlaneSums(Summed):
    r"""Sums over rows for :math:`G^{(j)}_{lk}` and :math:`G^{(k)}_{lj}`, ``terms`` (2, P, d).

    The first are of the line of a pair's second unit, where its first one takes donors.
    ``directions`` (d, d) are sums of products of the rows' directions.
    """

    terms: Floats
    directions: Floats
    mass: float
    rows: int

    def sensitivity(self, space: PairSpace) -> Floats:
        """Return the means, (2, P, d), 0 along a line itself."""
        d = len(self.directions)
        found = self.terms / max(self.mass, np.finfo(float).tiny)
        products = self.directions / max(self.mass, np.finfo(float).tiny)
        for way in (0, 1):
            lines = [int(space.joints[k].coordinates[0]) for k in space.pairs[:, 1 - way]]
            for j in set(lines):
                at = np.flatnonzero(np.array(lines) == j)
                others = np.flatnonzero(np.arange(d) != j)
                found[way][at, j] = 0.0
                if self.rows >= ROWS_A_COLUMN * d:
                    inner = products[np.ix_(others, others)]
                    weigh = np.linalg.pinv(inner, rcond=1e-6, hermitian=True)
                    found[way][np.ix_(at, others)] = found[way][np.ix_(at, others)] @ weigh
        return found


def plane_sensitivity(
    models: Sequence[LineModel],
    rows: Ints,
    mass: Floats,
    space: PairSpace,
    seed: np.random.SeedSequence,
) -> PlaneSums:
    """Return the effect of tilted lines on pairs, summed over rows."""
    generator = np.random.default_rng(seed)
    n, d = len(rows), space.latent.shape[1]
    found = np.zeros((2, len(space.pairs), d))
    single = np.array([k for k, joint in enumerate(space.joints) if joint.is_line], dtype=np.intp)
    if len(single) < 2 or n < 2:
        return PlaneSums(found, np.zeros((d, d)), 0.0, 0)
    points, latent = space.points[rows], space.latent[rows]
    order = generator.permutation(n)
    steps = np.empty_like(latent)
    steps[order] = latent[np.roll(order, 1)]
    length = np.sqrt(np.sum(steps**2, axis=1, keepdims=True))
    steps = np.sqrt(d) * np.divide(steps, length, out=np.zeros_like(steps), where=length > 0)
    size = STEP / np.sqrt(d)
    slope, own = [], []
    lines = space.lines(points, latent, single)
    for model in models:
        ends = [
            model.moments(_stepped(lines, sign * size * steps, space, single)).mean[0]
            for sign in (1.0, -1.0)
        ]
        slope.append((ends[0] - ends[1]) / (2.0 * size))
        own.append(model.moments(lines).hermite[0])
    places = draw_quantiles(n, seed.spawn(1)[0])
    for way in (0, 1):
        # unit k takes donors, and line j is asked: both ways round
        giving, asked = space.pairs[:, way], space.pairs[:, 1 - way]
        for k in np.unique(giving).tolist():
            at = np.flatnonzero((giving == k) & np.isin(asked, single) & np.isin(giving, single))
            if not len(at):
                continue
            place = np.searchsorted(single, asked[at])
            given, again = space.moved(points, latent, k, places)
            moved = space.lines(given, again, asked[at])
            for one, other in ((0, -1), (-1, 0)):
                hermite = models[one].moments(moved).hermite[0].reshape(len(places), n, -1)
                left = own[one][:, place] - hermite.mean(axis=0)
                terms = mass[:, None] * left * slope[other][:, place]
                found[way][at] += 0.5 * (steps.T @ terms).T
    return PlaneSums(found, (steps * mass[:, None]).T @ steps, float(mass.sum()), n)


def _stepped(lines: Lines, move: Floats, space: PairSpace, units: Ints) -> Lines:
    """Return lines of rows that were moved by ``move`` (n, d) in latent coordinates."""
    directions = np.zeros((lines.points.shape[1], move.shape[1]))
    for joint in space.joints:
        directions[:, joint.coordinates] = joint.directions
    coordinates = [int(space.joints[k].coordinates[0]) for k in units]
    return replace(
        lines,
        points=np.ascontiguousarray(lines.points + move @ directions.T),
        latent=np.ascontiguousarray(lines.latent + move[:, coordinates]),
    )


def proxies(latent: Floats, y: Floats, share: Floats) -> Floats:
    r"""Return :math:`\sum_{p, q \le 2} E[H_p(z_j) H_q(z_k)\,y]^2` of all coordinates, (d, d).

    No model is asked. Of eight shapes of :math:`\eta` it sees .24 to .98 of :math:`\psi_{jk}`;
    products alone, ``p = q = 1``, see nothing of :math:`\tanh(z_j + z_k)` and :math:`z_j z_k^2`.
    """
    first = latent
    second = (latent**2 - 1.0) / np.sqrt(2.0)
    weighted = (share * (y - share @ y))[:, None]
    found = np.zeros((latent.shape[1], latent.shape[1]))
    for one in (first, second):
        for other in (first, second):
            found += ((weighted * one).T @ other) ** 2
    np.fill_diagonal(found, 0.0)
    return found
