r"""Shapley-type parts of the explained variance, which add up row by row.

Latent units are independent, so a regression is a sum of interactions :math:`\eta_S`, and unit
``j`` has the local Shapley value :math:`\psi_j = \sum_{S \ni j} \eta_S/|S|`. With
:math:`e = \eta - \bar y` and two models ``a``, ``b`` fitted on disjoint rows

.. math:: u_{ij} = \{y - \eta^a + \tfrac12 e^a\}\,\psi^b_{ij}
          + \{y - \eta^b + \tfrac12 e^b\}\,\psi^a_{ij}, \qquad
          \sum_j u_{ij} = (y - \bar y)^2 - (y - \eta^a)(y - \eta^b) .

In the population a unit has :math:`\sum_{S \ni j} V_S/|S|`: a main effect whole, half of a pair.
The bias is a product of the two models' errors, as that of the cross form. Under another loss the
factors of :math:`\psi` are slopes of the loss averaged along the way from the mean to the
predictions (Aumann and Shapley), which is the same for squared error.

**The values** :math:`\psi` come from differences. Between two rows ``i`` and ``k`` one walks from
the latent coordinates of one to those of the other, unit by unit, along a random order and its
reverse. What unit ``j`` changes on the way is

.. math:: \delta_j(i, k) = \psi_{ij} - \psi_{kj} + \text{noise}, \qquad
          \sum_j \delta_j(i, k) = \eta_i - \eta_k,

antisymmetric, without noise where effects are additive; otherwise noise has mean 0 given either
row. The rows of a fold are the nodes of a graph, two random cycles through all of them (edges drawn
by weight where weights differ); least squares over its edges gives :math:`\psi` up to a constant.
Half of a pair's variance is left as noise by one edge, .19 of it by the graph; as :math:`u` is
linear in :math:`\psi`, noise has no bias.

**Some rows** are enough where there are many. With :math:`v` the total effects' influence values,
:math:`x_i = \sum_j (u_{ij} - v_{ij})`, which needs no walk, and :math:`\pi` the regression of
:math:`u - v` on ``x`` (:math:`\sum_j \pi_j = 1`), rows that were drawn with probability ``q`` have

.. math:: v_{ij} + \pi_j x_i + \frac{1\{i\ \text{drawn}\}}{q_i}\{u_{ij} - v_{ij} - \pi_j x_i\},

which adds up in every row, and whose spread holds the error of the sample.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from joblib import delayed
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_array

from dfi._lines.base import LineModel, blocks
from dfi._models.crossfit import FoldModels, split_variance
from dfi._models.parallel import in_parallel
from dfi._scoring.forms import ScoreForm, Stretch, explained_rows
from dfi._scoring.scores import Scores, partners, pool
from dfi._scoring.task import Task, fold_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._data.weights import Weights
    from dfi._types import Floats, Ints
    from dfi.losses import Loss
    from dfi.transports.base import FittedTransport

CYCLES = 2
"""Random cycles of a graph: one is a ring, along which noise adds up."""

FEWEST_STEPS, MOST_STEPS = 16_000, 64_000
"""Predictions of one model over all rows that are walked between: as many as half of the rows take,
within these. On the diabetes data 12,000 leave the standard errors that 25,000 have, and 6,000
raise them by 15 %; on 5,000 rows of storms 64,000 leave .6 of those of 16,000."""

MOST_ROWS, FEWEST_ROWS = 2560, 64
"""Rows that are walked between, at most and at least, over all folds."""

FEWEST_NODES = 32
"""Rows of a fold's graph; folds with fewer borrow rows of others, as ends of walks alone."""

WIDE = 100
"""Coordinates from which on models that have a closed form are written in these."""

NUMBERS_AT_ONCE = 1 << 22
"""Numbers in the rows that a model predicts at once: 32 MB."""

OWN_SHARE = 0.05
"""How much of a part counts beside its interactions where they take up an error that is theirs."""

UNCORRELATED = 1e-6
"""Correlation of the rows of two units that is rounding: their transport has removed it."""

PATH_NODES = 8
"""Gauss-Legendre nodes along the way from the mean to a prediction."""


@dataclass(frozen=True)
class Parts:
    """Parts of the explained variance as uncentred influence values (n, units), in both spaces.

    ``*_by_repeat`` are means of each split, ``crossed`` the products of units (:func:`_crossed`).
    """

    latent: Floats
    attributed: Floats
    latent_by_repeat: Floats
    attributed_by_repeat: Floats
    crossed: tuple[Floats, Floats]

    def extrapolated(self, smaller: Parts) -> Parts:
        """Return the parts extrapolated to more training rows, like scores."""
        repeats = partners(len(self.latent_by_repeat), len(smaller.latent_by_repeat))
        return Parts(
            2.0 * self.latent - smaller.latent,
            2.0 * self.attributed - smaller.attributed,
            2.0 * self.latent_by_repeat - smaller.latent_by_repeat[repeats],
            2.0 * self.attributed_by_repeat - smaller.attributed_by_repeat[repeats],
            (
                2.0 * self.crossed[0] - smaller.crossed[0],
                2.0 * self.crossed[1] - smaller.crossed[1],
            ),
        )

    def stretched(self, stretch: Stretch, weights: Weights) -> Parts:
        """Return the parts times a factor, as scores are."""
        return Parts(
            stretch.of_scores(self.latent, weights),
            stretch.of_scores(self.attributed, weights),
            stretch.factor * self.latent_by_repeat,
            stretch.factor * self.attributed_by_repeat,
            (stretch.factor * self.crossed[0], stretch.factor * self.crossed[1]),
        )

    def with_error(self, scores: Scores, weights: Weights) -> Parts:
        r"""Return the parts with the transport's own error in their influence values.

        Of the total effects :math:`T` it is the difference :math:`\tau` of what accounts for it and
        what does not. An additive regression has the same parts as total effects, so both have the
        same influence values in the end; without the transport's error, parts have products
        :math:`\chi` of different units more (:func:`_crossed`), which a transport that makes the
        rows uncorrelated leaves without error. So parts have

        .. math:: \tau_l - \chi_l - w_l \textstyle\sum_k (\tau_k - \chi_k), \qquad
                  w_l \propto |T_l - \phi_l| + \tfrac1{20} |\phi_l|,

        as what is explained does not depend on the transport: exact without interactions, where the
        sum is 0. Where there are some it is theirs that the sum moves.
        """
        known = scores.known

        def aware(parts: Floats, total: Floats, without: Floats, crossed: Floats) -> Floats:
            terms = total - without
            return _with_terms(parts, terms - crossed, without, weights) if terms.any() else parts

        return replace(
            self,
            latent=aware(self.latent, scores.latent, known.latent, self.crossed[0]),
            attributed=aware(self.attributed, scores.attributed, known.attributed, self.crossed[1]),
        )

    def as_scores(self, scores: Scores) -> Scores:
        return replace(
            scores,
            latent=self.latent,
            attributed=self.attributed,
            latent_by_repeat=self.latent_by_repeat,
            attributed_by_repeat=self.attributed_by_repeat,
            plain=None,
        )

    def of_units(self, membership: Floats, weights: Weights, halvings: Sequence[int] = ()) -> Parts:
        """Return the parts of units and their sum; errors hold what differs between repeats."""
        latent = self.latent_by_repeat @ membership
        attributed = self.attributed_by_repeat @ membership
        return Parts(
            _with_split(self.latent @ membership, latent, weights, halvings),
            _with_split(self.attributed @ membership, attributed, weights, halvings),
            latent,
            attributed,
            (self.crossed[0] @ membership, self.crossed[1] @ membership),
        )


def _with_terms(parts: Floats, terms: Floats, total: Floats, weights: Weights) -> Floats:
    terms = terms - weights.mean(terms)
    size = np.abs(weights.mean(total) - weights.mean(parts))
    own = np.abs(weights.mean(parts))
    share = size + OWN_SHARE * own
    share = share / share.sum() if share.sum() > 0 else np.full(len(share), 1.0 / len(share))
    return np.asarray(parts + terms - np.outer(terms.sum(axis=1), share))


def _with_split(
    parts: Floats, by_repeat: Floats, weights: Weights, halvings: Sequence[int]
) -> Floats:
    r"""Return parts and their sum, shares of which err by what differs between splits too.

    .. math:: u_l \to r_l U + q_l, \qquad q_l = s_l (u_l - r_l U), \quad U = \textstyle\sum_k u_k,

    with :math:`s_l^2 - 1` the variance that the split adds to the shares :math:`r_l`
    (:func:`~dfi._models.crossfit.split_variance`), in units of that of their influence values.
    :math:`\sum_l q_l` is then subtracted, so parts add up.
    """
    whole = parts.sum(axis=1)
    size = float(weights.mean(whole)[0])
    sums = by_repeat.sum(axis=1, keepdims=True)
    if len(by_repeat) > 1 and size > 0 and np.all(sums > 0):
        share = weights.mean(parts) / size
        apart = parts - np.outer(whole, share)
        error = weights.standard_error(apart) / size
        variance = split_variance(by_repeat / sums, halvings)
        ratio = np.divide(variance, error**2, out=np.zeros_like(error), where=error > 0)
        apart = (apart - weights.mean(apart)) * np.sqrt(1.0 + ratio)
        apart -= np.outer(apart.sum(axis=1), np.maximum(share, 0) / np.maximum(share, 0).sum())
        parts = np.outer(whole, share) + apart
    return np.column_stack([parts, parts.sum(axis=1)])


def explained_parts(
    task: Task,
    transport: FittedTransport,
    scores: Scores,
    order: Scores | None = None,
) -> Parts:
    """Return each unit's part of what the models explain, by rows."""
    known, seed = scores.known, task.fits.child("parts")
    received, unit_of = _attribution(known, transport), transport.drawn_as_one
    rows, mass = scores.rows, task.weights.values
    shares = mass[rows] / mass[rows].sum()
    level = float(shares @ task.y[rows])
    n_units = known.latent.shape[1]
    chance = _chances(shares, n_units)
    generator = np.random.default_rng(seed)
    drawn = np.flatnonzero(generator.random(len(rows)) < chance)
    repeats = None if order is None else len(order.latent_by_repeat)
    seeds = _seeds(task.folds, seed, repeats)
    # orders are drawn for units as they rank, whatever the order of the columns
    leading = known if order is None else order.known
    rank = np.argsort(np.argsort(-(shares @ leading.latent), kind="stable"))
    standing = mass.copy()
    standing[rows] /= np.maximum(chance, np.finfo(float).tiny)
    given = rows[drawn], rows, standing, task, transport, level, rank
    tasks = (
        delayed(_walked)(fold_lines(fold, task).models, fold.test, *given, one)
        for fold, one in zip(task.folds, seeds, strict=True)
    )
    found = list(in_parallel(tasks, task.fits.workers.n_jobs, threads=True, here=True))
    # what is explained of every row, and the parts of those that were drawn
    _, explained, total_by_repeat = pool(task.folds, [one.explained for one in found], mass)
    inside = [replace(fold, test=np.intersect1d(fold.test, rows[drawn])) for fold in task.folds]
    walked, parts, by_repeat = pool(inside, [one.parts for one in found], standing)
    at = np.searchsorted(rows, walked)
    weights = task.weights.take(rows)
    total = known.latent
    rest = explained - total.sum(axis=1)
    gap = parts - total[at]
    weight = shares[at] / chance[at]
    square = float(weight @ rest[at] ** 2)
    slope = (weight * rest[at]) @ gap / square if square > 0 else np.full(n_units, 1.0 / n_units)
    latent = total + np.outer(rest, slope)
    latent[at] += (gap - np.outer(rest[at], slope)) / chance[at, None]
    if known.unread is not None:
        lost = latent[:, known.unread].sum(axis=1)
        latent = np.where(known.unread, 0.0, latent)
        latent += np.outer(lost, _weights(np.where(known.unread, 0.0, latent)))
    missing = total_by_repeat - by_repeat.sum(axis=1)
    by_repeat = by_repeat + np.outer(missing, _weights(by_repeat))
    moved = latent @ received.T
    # along the direction of a unit of several columns attributed scores go another way
    directed = known.attributed - known.latent @ received.T if transport.shares_variance else 0.0
    attributed = moved + directed
    crossed = np.zeros_like(latent)
    if task.fits.loss.is_square:
        coded = transport.draw(task.matrix[rows], generator)
        crossed = _crossed(coded, found, task.folds, unit_of, weights)
    return Parts(
        latent,
        attributed,
        by_repeat,
        by_repeat @ received.T + weights.mean(attributed) - weights.mean(moved),
        (crossed, crossed @ received.T),
    )


def _crossed(
    latent: Floats,
    found: Sequence[_Walked],
    folds: Sequence[FoldModels],
    unit_of: Ints,
    weights: Weights,
) -> Floats:
    r"""Return products of different units among the influence values of parts, (n, units).

    With :math:`g_{ij}` the linear part of :math:`\psi_{ij}` in the latent coordinates of its unit,
    parts have :math:`\chi_{ij} = g_{ij} \sum_{k \ne j} g_{ik}`. Counted are pairs of units that the
    transport has made uncorrelated in these very rows: their products have mean 0 in every sample,
    and no error.
    """
    mass = np.array([len(fold.test) for fold in folds], dtype=np.float64)
    slopes = np.average([one.slopes for one in found], axis=0, weights=mass)
    units = np.arange(found[0].parts.shape[1])
    linear = (latent * slopes) @ (unit_of[:, None] == units)
    share = weights.shares
    moments = (linear * share[:, None]).T @ linear
    size = np.sqrt(np.diag(moments))
    apart = np.abs(moments) <= UNCORRELATED * np.outer(size, size)
    return np.asarray(linear * (linear @ apart))


def _seeds(
    folds: Sequence[FoldModels], seed: np.random.SeedSequence, repeats: int | None
) -> list[np.random.SeedSequence]:
    """Return a seed for each fold, by the rows that it holds out and how often it has done so."""
    seen: dict[tuple[int, int], int] = {}
    found = []
    for fold in folds:
        key = int(fold.test.min(initial=0)), int(fold.test.sum())
        seen[key] = seen.get(key, -1) + 1
        number = seen[key] if repeats is None else min(seen[key], repeats - 1)
        found.append(
            np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, *key, number))
        )
    return found


def _chances(shares: Floats, n_units: int) -> Floats:
    """Return the probability of each row to be drawn, by its weight."""
    each = 2 * CYCLES * max(1, n_units)
    steps = np.clip(len(shares) // 2 * each, FEWEST_STEPS, MOST_STEPS)
    count = int(np.clip(steps // each, FEWEST_ROWS, MOST_ROWS))
    if count >= np.count_nonzero(shares) and np.ptp(shares[shares > 0]) == 0:
        return np.asarray(shares > 0, dtype=np.float64)
    return np.minimum(1.0, count * shares)


@dataclass(frozen=True)
class _Walked:
    """What is explained of a fold's rows, and parts and latent slopes of those that were drawn."""

    explained: Floats
    parts: Floats
    slopes: Floats


def _walked(
    models: Sequence[LineModel],
    test: Ints,
    drawn: Ints,
    rows: Ints,
    standing: Floats,
    task: Task,
    transport: FittedTransport,
    level: float,
    rank: Ints,
    seed: np.random.SeedSequence,
) -> _Walked:
    """Return the explained loss of each row of a fold, and its parts."""
    y, mass = task.y[test], task.weights.values[test]
    values = [model.predict(task.matrix[test]) for model in models]
    explained = explained_rows(task.form, y, values, level, mass, task.fits.loss)
    own = np.intersect1d(test, drawn)
    at = np.searchsorted(test, own)
    levels = [level] * len(models)
    if task.form == "cpi":
        levels = [float(np.average(values[0], weights=mass if mass.any() else None))]
    psi, latent = local_values(models, own, rows, standing, task, transport, rank, seed)
    few = [value[at] for value in values]
    slopes = path_slopes(task.form, task.fits.loss, y[at], few, level)
    parts = np.zeros(psi.shape[1:])
    left = explained[at].copy()
    for value, middle, slope, of_model in zip(few, levels, slopes, psi, strict=True):
        # what walks leave of a prediction: a constant, and what decoding does not return
        away = value - middle - of_model.sum(axis=1)
        complete = of_model + np.outer(away, _weights(of_model * (value - middle)[:, None]))
        parts += slope[:, None] * complete
        left -= slope * (value - middle)
    of_unit = psi.mean(axis=0)[:, transport.drawn_as_one]
    square = standing[own] @ latent**2
    product = standing[own] @ (latent * of_unit)
    linear = np.divide(product, square, out=np.zeros_like(square), where=square > 0)
    return _Walked(explained, parts + np.outer(left, _weights(parts)), linear)


def _weights(parts: Floats) -> Floats:
    """Return how the remainder is divided: by the size of the parts."""
    size = np.maximum(parts.sum(axis=0), 0.0)
    count, whole = parts.shape[1], size.sum()
    return np.asarray(size / whole if whole > 0 else np.full(count, 1.0 / max(1, count)))


def local_values(
    models: Sequence[LineModel],
    own: Ints,
    rows: Ints,
    standing: Floats,
    task: Task,
    transport: FittedTransport,
    rank: Ints,
    seed: np.random.SeedSequence,
) -> tuple[Floats, Floats]:
    r"""Return :math:`\psi` of rows, centred, by least squares of walks, (models, n, units)."""
    generator = np.random.default_rng(seed)
    mass = task.weights.values
    nodes = own
    if len(own) < FEWEST_NODES:
        others = np.setdiff1d(rows[mass[rows] > 0], own)
        count = min(len(others), FEWEST_NODES - len(own))
        chance = mass[others] / mass[others].sum() if count else None
        nodes = np.concatenate([own, generator.choice(others, count, replace=False, p=chance)])
    worth = standing[nodes]
    # borrowed rows were drawn by their weight
    worth[len(own) :] = worth[: len(own)].mean() if len(own) else 1.0
    n_units = int(transport.drawn_as_one.max(initial=-1)) + 1
    if len(nodes) < 2 or n_units == 0:
        none = np.zeros((len(own), len(transport.drawn_as_one)))
        return np.zeros((len(models), len(own), n_units)), none
    latent = transport.draw(task.matrix[nodes], generator)
    tails, heads, counted = _edges(worth, generator)
    place = generator.permuted(np.tile(np.arange(n_units), (len(tails), 1)), axis=1)[:, rank]

    # a closed form of many columns is one of as many coordinates: decoding takes most of the time
    short = [transport.in_latent(model) for model in models if latent.shape[1] >= WIDE]
    known = [model for model in short if model is not None]

    def predicted(givers: Ints) -> list[Floats]:
        mixed = latent[givers[:, transport.drawn_as_one], np.arange(latent.shape[1])]
        if len(known) == len(models):
            return [model.predict(mixed) for model in known]
        lost = transport.undecoded(task.matrix, nodes[givers])
        points = transport.decode(mixed) + lost
        return [model.predict(points) for model in models]

    ends = np.stack(predicted(np.tile(np.arange(len(nodes))[:, None], (1, n_units))))
    if n_units == 1:
        middle = (ends @ worth / worth.sum())[:, None]
        return np.asarray((ends - middle)[:, : len(own), None]), latent[: len(own)]
    change = np.empty((len(models), len(tails), n_units))
    size = NUMBERS_AT_ONCE // (2 * n_units * max(n_units, task.matrix.shape[1]))
    for part in blocks(len(tails), max(1, size)):
        where, tail, head = place[part], tails[part], heads[part]
        # after each step, the units that are the tail's: those placed first, or last
        steps = np.arange(1, n_units)[:, None]
        ours = np.stack([where[:, None, :] < steps, where[:, None, :] >= n_units - steps], axis=1)
        givers = np.where(ours, tail[:, None, None, None], head[:, None, None, None])
        found = predicted(givers.reshape(-1, n_units))
        for model, values in enumerate(found):
            path = np.empty((len(where), 2, n_units + 1))
            path[:, :, 1:-1] = values.reshape(len(where), 2, -1)
            path[:, :, 0], path[:, :, -1] = ends[model][head, None], ends[model][tail, None]
            gained = np.diff(path, axis=2)
            ahead = np.take_along_axis(gained[:, 0], where, axis=1)
            back = np.take_along_axis(gained[:, 1], n_units - 1 - where, axis=1)
            change[model, part] = 0.5 * (ahead + back)
    psi = _least_squares(change, tails, heads, counted, len(nodes))
    centred = np.asarray(psi - (worth / worth.sum()) @ psi[:, None])
    return centred[:, : len(own)], latent[: len(own)]


def _edges(worth: Floats, generator: np.random.Generator) -> tuple[Ints, Ints, Floats]:
    """Return who walks to whom, and how much it counts: rows meet others by the weighted law."""
    n = len(worth)
    if np.ptp(worth) <= 1e-9 * worth.max():
        cycles = [generator.permutation(n) for _ in range(CYCLES)]
        heads = np.concatenate([np.roll(cycle, 1) for cycle in cycles])
        return np.concatenate(cycles), heads, np.ones(CYCLES * n)
    tails = np.tile(np.arange(n), 2 * CYCLES)
    heads = generator.choice(n, len(tails), p=worth / worth.sum())
    return tails, heads, worth[tails] / worth.mean()


def _least_squares(change: Floats, tails: Ints, heads: Ints, counted: Floats, n: int) -> Floats:
    """Return what the ends of edges have whose differences are given."""
    edges = np.arange(len(tails))
    shape = len(tails), n
    ends = csr_array((np.ones(len(tails)), (edges, tails)), shape=shape)
    incidence = ends - csr_array((np.ones(len(tails)), (edges, heads)), shape=shape)
    weighted = (incidence * counted[:, None]).T.tocsr()
    laplacian = (weighted @ incidence).toarray()
    size = float(laplacian.trace()) / n
    # a constant is free: the solution of mean 0 is that of the pseudo-inverse
    laplacian += size / n
    laplacian.flat[:: n + 1] += 1e-12 * size
    given = np.concatenate([weighted @ one for one in change], axis=1)
    found = cho_solve(cho_factor(laplacian, overwrite_a=True), given)
    return np.stack(np.split(found, len(change), axis=1))


def path_slopes(
    form: ScoreForm, loss: Loss, y: Floats, values: Sequence[Floats], level: float
) -> list[Floats]:
    """Return each model's factor of its local values: the loss explained per unit of them."""
    if form == "cpi":
        return [y - level]
    if loss.is_square:
        first, last = values[0], values[-1]
        one, other = y - 0.5 * (last + level), y - 0.5 * (first + level)
        return [one, other] if len(values) > 1 else [one + other]
    nodes, weights = np.polynomial.legendre.leggauss(PATH_NODES)
    found = [np.zeros(len(y)) for _ in values]
    for node, weight in zip(0.5 * (nodes + 1.0), 0.5 * weights, strict=True):
        at = [level + node * (value - level) for value in values]
        for k in range(len(values)):
            room = np.abs(at[k])
            if loss.domain == "probability":
                room = np.minimum(room, np.abs(1.0 - at[k]))
            step = 1e-4 * room + 1e-12
            above, below = list(at), list(at)
            above[k], below[k] = at[k] + step, at[k] - step
            lost = _lost(loss, y, below) - _lost(loss, y, above)
            found[k] += weight * lost / (2.0 * step)
    return found


def _lost(loss: Loss, y: Floats, values: Sequence[Floats]) -> Floats:
    return loss.of(y, values[0]) if len(values) == 1 else loss.of_two(y, values[0], values[1])


def _attribution(known: Scores, transport: FittedTransport) -> Floats:
    """Return each unit's part of each latent unit; columns add up to 1."""
    weights = transport.received(known.attribution)
    total = weights.sum(axis=0)
    shares: Floats = np.divide(weights, total, out=np.eye(len(weights)), where=total > 0)
    return shares
