r"""Pairs of units with their influence values: which are tested, and their scores.

Latent pairs (:mod:`dfi._scoring.pairs`) are attributed as scores are. With the squared decoder
:math:`S = L * L`, whose columns add up to 1, and :math:`\psi` symmetric with diagonal 0

.. math:: M = S\,\psi\,S', \qquad \{l, m\}\ \text{gets}\ M_{lm},\quad l\ \text{with itself}\
          M_{ll}/2,

so that the total is kept. Through the fitted decoder, ``D`` the rows' influence on it, a pair has

.. math:: 2\sum_j L_{lj} D_{lj} (\psi S')_{jm} + 2\sum_k L_{mk} D_{mk} (\psi S')_{kl} .
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from joblib import delayed

from dfi._data.source import sampled_order
from dfi._latent.latent_units import LatentUnits, latent_units
from dfi._lines.closed_form import SumLines
from dfi._lines.trees.model import TreeLines
from dfi._models.crossfit import FoldModels, split_variance
from dfi._models.parallel import in_parallel
from dfi._parameters import argument
from dfi._progress import telling_bar
from dfi._scoring.error import with_nodes
from dfi._scoring.forms import CROSSED, Stretch, explained_rows
from dfi._scoring.latent_shapley import rounding_floor
from dfi._scoring.lines import row_sample
from dfi._scoring.pairs import (
    Additive,
    PairSpace,
    PlaneSums,
    pair_effects,
    plane_sensitivity,
    proxies,
)
from dfi._scoring.sampling import of_sample, restricted
from dfi._scoring.scores import pool, sample_sizes
from dfi.methods.disentangled import Disentangled, widened
from dfi.methods.row_models import straight_design

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._lines.base import LineModel
    from dfi._models.fits import Fits
    from dfi._scoring.map_error import MapInfluence
    from dfi._scoring.task import Task
    from dfi._types import Advance, Floats, Ints
    from dfi.transports.base import FittedTransport

EVERY = 12
"""Up to this many units, all pairs are tested; with more, those that pass a screening."""

LEADING = 10
"""Leading units whose pairs are all tested."""

MOST_ROWS = 4000
"""Most rows for pairs; larger tables are sampled."""

PARTS = 5
"""Parts of the rows of a fitted model."""

MOST_NODES = 12
"""Nodes of a line under a model known only by its predictions."""


@dataclass(frozen=True)
class PairRows:
    """Pairs of units by rows: uncentred influence values in both spaces, beyond additive.

    ``whole`` and ``latent_whole`` are scores that count curves of single features, seen through
    correlation, as pairs; ``own`` is what is attributed to a unit with itself, ``explained`` what
    the same models explain of each row, and ``effects`` what a pair adds to its prediction.
    ``words`` say what the standard errors account for; ``underfits`` is true of boosted trees
    alone, fitted here.
    """

    rows: Ints
    pairs: Ints
    attributed: Floats
    latent: Floats
    whole: Floats
    latent_whole: Floats
    own: Floats
    explained: Floats
    effects: Floats
    names: tuple[str, ...]
    words: str
    underfits: bool


def pair_rows(
    fits: Fits, method: Disentangled, asked: Sequence[tuple[int, int]] | None, leading: Ints,
    top: int,
) -> PairRows:  # fmt: skip
    """Return the scores of the requested pairs, or of those that pass a screening.

    ``leading`` are the units by score, the largest first; ``top`` is how many pairs screening adds
    to those of the leading ones.
    """
    members = fits.members if fits.outcome.members else (fits,)
    refuse_pairs(members[0], method, "pairs are")
    found = _Pairs.of(members, method, asked, leading, top)
    return found.scored()


def held_apart(fits: Fits, *, crossed: bool) -> tuple[FoldModels, ...]:
    """Return the folds to use; the rows of a fitted model in :data:`PARTS` of them.

    What is estimated beside the models, their additive parts, is not to see the rows of a fold.
    """
    if crossed or not fits.prefit:
        return fits.halves if crossed else fits.full
    return tuple(
        replace(fold, test=fold.test[k::PARTS]) for fold in fits.full for k in range(PARTS)
    )


def refuse_pairs(fits: Fits, method: Disentangled, what: str) -> None:
    """Raise if pairs are not supported: by a loss, a transport, or overlapping groups."""
    if not fits.loss.is_square:
        raise ValueError(
            f"{what} parts of a variance, but scores under "
            f"{argument('loss', fits.loss.name)} are not: explain with "
            f"{argument('loss', 'squared-error')} ('brier' for classes)"
        )
    blocks = fits.data.blocks
    if blocks.targets is not None:
        raise ValueError(
            f"{what} of groups without common columns, which would count twice: explain with "
            f"disjoint groups, or with {argument('units', 'columns')}"
        )
    straight_design(fits, method, blocks.columns, f"{what} taken")
    if len(blocks.columns) < 2:
        raise ValueError(
            f"{what} of two or more units, but there is one, {blocks.columns[0].name!r}: explain a "
            "table of two or more columns"
        )


@dataclass(frozen=True)
class _Fold:
    """Joint effects of the held-out rows of a fold, by two models or twice the same one.

    ``values`` and ``additive`` (2, n) are predictions and their additive parts, ``whole`` and
    ``beyond`` (2, n, P) joint effects of the predictions, and of what is beyond additive.
    """

    values: Floats
    additive: Floats
    whole: Floats
    beyond: Floats
    planes: PlaneSums | None


@dataclass(frozen=True)
class _Scored:
    """Latent pairs by row of one class or outcome; ``by_repeat`` (repeats, P) by split."""

    rows: Ints
    latent: Floats
    by_repeat: Floats
    whole: Floats
    explained: Floats
    effects: Floats
    sensitivity: Floats
    trees: bool


@dataclass(frozen=True)
class _Pairs:
    """The pairs of a table, and everything that scoring them needs."""

    tasks: tuple[Task, ...]
    transport: FittedTransport
    units: tuple[LatentUnits, ...]
    space: PairSpace
    additive: Additive
    membership: Floats
    pairs: Ints

    @classmethod
    def of(
        cls,
        members: Sequence[Fits],
        method: Disentangled,
        asked: Sequence[tuple[int, int]] | None,
        leading: Ints,
        top: int,
    ) -> _Pairs:
        first = members[0]
        ahead = method.plan(first)
        crossed = ahead.form in CROSSED
        transport, task, _ = method.prepared(
            first, ahead, first.halves if crossed else first.full, None
        )
        rows = task.explained
        if len(rows) > MOST_ROWS and first.weights.dependence is None:
            chosen = sampled_order(len(rows), MOST_ROWS, first.child("pairs", "rows"))
            rows = np.sort(rows[chosen])
        task = replace(task, sample=rows if len(rows) < len(task.fits.rows) else None)
        tasks = []
        for member in members:
            folds = restricted(held_apart(member, crossed=crossed), rows)
            folds = tuple(fold for fold in folds if len(fold.test))
            tasks.append(replace(task, fits=member, folds=folds))
        held = np.unique(np.concatenate([fold.test for fold in tasks[0].folds]))
        tasks = [replace(one, sample=held) for one in tasks]
        units = tuple(latent_units(transport, one) for one in tasks)
        mass = first.weights.values[held]
        space = PairSpace(
            units[0].points, units[0].latent, mass / mass.sum(), units[0].joints,
            units[0].reference, np.zeros((0, 2), dtype=np.intp),
        )  # fmt: skip
        additive = Additive.of(space.points, space.share, first.child("pairs", "halves"))
        membership = transport.score_membership(task)[:, : ahead.blocks.count]
        chosen = _chosen(tasks, space, additive, membership, asked, leading, top)
        space = replace(space, pairs=_oriented(chosen, space, membership, tasks[0]))
        reported = chosen if asked is None else np.array(asked, dtype=np.intp)
        return cls(tuple(tasks), transport, units, space, additive, membership, reported)

    def scored(self) -> PairRows:
        """Score the pairs of every class or outcome, and attribute their sum."""
        task = self.tasks[0]
        first = task.fits
        total = sum(len(fold.test) for one in self.tasks for fold in one.folds)
        watched = first.workers.progress, "asking pairs", total, first.workers.started
        with telling_bar(*watched) as bar:
            found = [
                self._member(one, units, bar.advance)
                for one, units in zip(self.tasks, self.units, strict=True)
            ]
        rows, weights = found[0].rows, task.weights.take(found[0].rows)
        latent, by_repeat, whole, explained, effects, sensitivity = (
            np.sum([getattr(one, name) for one in found], axis=0)
            for name in ("latent", "by_repeat", "whole", "explained", "effects", "sensitivity")
        )
        quiet = ~latent.any(axis=0)
        of_units, attributing, own = self._aggregation()
        influence = None if task.fixed else self.transport.map_influence(task.matrix[rows])
        aware, words = latent, "the transport is taken as known"
        change = np.zeros((len(rows), len(self.pairs)))
        if influence is not None:
            terms = self._terms(influence, sensitivity)
            terms[:, quiet] = 0.0
            change = self._decoder_terms(influence, weights.mean(latent))
            words = "with the transport's own error"
            if any(not joint.is_line for joint in self.space.joints):
                words += ", that of units of several columns left out"
            both = np.hstack([latent @ of_units, latent @ attributing])
            more = np.hstack([terms @ of_units, terms @ attributing + change])
            more -= weights.mean(more)
            both = of_sample(both, more, weights, task.share, task.child(7))
            aware, attributed = np.hsplit(both, 2)
        else:
            aware, attributed = latent @ of_units, latent @ attributing
        spaces = [
            widened(values, split_variance(by_repeat @ matrix, first.halvings), weights)
            for values, matrix in ((aware, of_units), (attributed, attributing))
        ]
        return PairRows(
            rows=rows,
            pairs=self.pairs,
            latent=spaces[0],
            attributed=spaces[1],
            whole=whole @ attributing,
            latent_whole=whole @ of_units,
            own=weights.mean(latent) @ own,
            explained=explained,
            effects=effects @ attributing,
            names=task.names[: self.membership.shape[1]],
            words=words,
            underfits=any(one.trees for one in found) and not first.prefit,
        )

    def _member(self, task: Task, units: LatentUnits, advance: Advance | None) -> _Scored:
        """Score the latent pairs of one class or outcome."""
        space = self.space
        readings = [
            tuple(with_nodes(model, lambda nodes: min(nodes, MOST_NODES)) for model in models)
            for models in units.models
        ]
        sizes = iter(
            sample_sizes(
                [fold for fold in task.folds if fold.repeat == 0],
                task.weights,
                space.latent.shape[1],
            )
        )
        jobs = (
            delayed(self._fold)(
                fold, models, task, next(sizes) if fold.repeat == 0 else 0,
                task.fits.child("pairs", number), advance,
            )
            for number, (fold, models) in enumerate(zip(task.folds, readings, strict=True))
        )  # fmt: skip
        found: list[_Fold] = list(
            in_parallel(jobs, task.fits.workers.n_jobs, threads=True, here=True)
        )
        mass, level = task.weights.values, float(self.space.share @ task.y[task.explained])
        whole, beyond, explained = [], [], []
        for fold, one in zip(task.folds, found, strict=True):
            y = task.y[fold.test]
            whole.append(_influence(task, y, one.values, one.whole))
            beyond.append(_influence(task, y, one.values, one.beyond))
            values = list(one.values) if task.form in CROSSED else [one.values[0]]
            explained.append(
                explained_rows(task.form, y, values, level, mass[fold.test], task.fits.loss)
            )
        rows, latent, by_repeat = pool(task.folds, beyond, mass)
        weights = task.weights.take(rows)
        terms = projection_terms(
            task,
            self.additive,
            [one.beyond for one in found],
            [one.values for one in found],
            [one.additive for one in found],
        )
        _, first, of_repeats = pool(task.folds, [both[0] for both in terms], mass)
        _, centred, _ = pool(task.folds, [both[1] for both in terms], mass)
        latent = latent - first - centred + weights.mean(centred)
        by_repeat = by_repeat - of_repeats
        _, raw, _ = pool(task.folds, whole, mass)
        _, of_rows, _ = pool(task.folds, explained, mass)
        _, effects, _ = pool(task.folds, [one.beyond.mean(axis=0) for one in found], mass)
        planes = [one.planes for one in found if one.planes is not None]
        sensitivity = np.zeros((2, len(space.pairs), space.latent.shape[1]))
        if planes:
            together = planes[0]
            for more in planes[1:]:
                together = together + more
            sensitivity = together.sensitivity(space)
        score = weights.mean(raw)
        if task.form == "cpi":
            _, predicted, _ = pool(task.folds, [one.values[0] for one in found], mass)
            stretch = Stretch.of(task.y[rows], predicted, weights)
            latent, of_rows = (stretch.of_scores(it, weights) for it in (latent, of_rows))
            by_repeat, score = stretch.factor * by_repeat, stretch.factor * score
            sensitivity = stretch.factor * sensitivity
        trees = isinstance(readings[0][0], TreeLines)
        return _Scored(rows, latent, by_repeat, score, of_rows, effects, sensitivity, trees)

    def _fold(
        self,
        fold: FoldModels,
        models: tuple[LineModel, ...],
        task: Task,
        size: int,
        seed: np.random.SeedSequence,
        advance: Advance | None,
    ) -> _Fold:
        """Return the joint effects of a fold's rows, and what tilts do to them on a sample."""
        space, place = self.space, np.searchsorted(task.explained, fold.test)
        predicted = [model.predict(space.points) for model in (models[0], models[-1])]
        pair = [
            (model, self.additive.model(values, half, place))
            for half, (model, values) in enumerate(
                zip((models[0], models[-1]), predicted, strict=True)
            )
        ]
        seeds = seed.spawn(3)
        found = [
            pair_effects(both, place, space, own) for both, own in zip(pair, seeds[:2], strict=True)
        ]
        values = np.stack([one.value[0] for one in found])
        parts = np.stack([one.value[1] for one in found])
        whole = np.stack([one.effect[0] for one in found])
        beyond = whole - np.stack([one.effect[1] for one in found])
        floor = rounding_floor(values)
        whole[np.abs(whole) <= floor] = 0.0
        beyond[np.abs(beyond) <= floor] = 0.0
        planes = None
        if size and not task.fixed:
            standard = (space.points[place] - self.additive.center) / self.additive.scale
            sample = row_sample(standard, task.weights.values[fold.test], size)
            rest = [SumLines(both, (1.0, -1.0)) for both in pair]
            planes = plane_sensitivity(rest, place[sample.rows], sample.mass, space, seeds[2])
        if advance is not None:
            advance(len(fold.test))
        return _Fold(values, parts, whole, beyond, planes)

    def _aggregation(self) -> tuple[Floats, Floats, Floats]:
        """Return the parts of latent pairs that unit pairs and single units receive.

        The first two are (latent pairs, unit pairs), the last (latent pairs, units).
        """
        j, k = self.space.pairs.T
        left, right = self.pairs.T
        owner = self.membership
        of_units = owner[j][:, left] * owner[k][:, right] + owner[k][:, left] * owner[j][:, right]
        shares = self.membership.T @ self.units[0].shares
        attributing = (
            shares[left][:, j] * shares[right][:, k] + shares[left][:, k] * shares[right][:, j]
        ).T
        return of_units, attributing, (shares[:, j] * shares[:, k]).T

    def _terms(self, influence: MapInfluence, sensitivity: Floats) -> Floats:
        """Return the fitted map's influence on latent pairs, (n, P)."""
        d = self.space.latent.shape[1]
        total = np.zeros((len(influence.rows), len(self.space.pairs)))
        for way in (0, 1):
            lines = [self.space.joints[k].coordinates[0] for k in self.space.pairs[:, 1 - way]]
            right = np.eye(d)[:, lines]
            total += 2.0 * influence.on_map(sensitivity[way].T, right)
        return total

    def _decoder_terms(self, influence: MapInfluence, scores: Floats) -> Floats:
        """Return the fitted decoder's influence on attributed pairs, (n, Q)."""
        joints, units = self.space.joints, self.membership
        latent = np.zeros((len(joints), len(joints)))
        j, k = self.space.pairs.T
        latent[j, k] = latent[k, j] = scores
        flow = latent @ (units.T @ self.units[0].shares).T
        root, owner = self.units[0].geometry.attribution, self.units[0].owner
        size = np.bincount(owner, minlength=len(joints))
        total = np.zeros((len(influence.rows), len(self.pairs)))
        left, right, pair = [], [], []
        for q, both in enumerate(self.pairs.tolist()):
            for unit, other in (both, both[::-1]):
                for c in np.flatnonzero(units[owner, unit] > 0).tolist():
                    left.append(c)
                    right.append(2.0 * root[c] * (flow[:, other] / size)[owner])
                    pair.append(q)
        if left:
            identity = np.eye(len(root))
            found = influence.on_decoder(identity[:, left], np.stack(right, axis=1))
            for q, column in zip(pair, found.T, strict=True):
                total[:, q] += column
        return total


def projection_terms(
    task: Task,
    additive: Additive,
    effects: Sequence[Floats],
    values: Sequence[Floats],
    parts: Sequence[Floats],
) -> list[tuple[Floats, Floats]]:
    r"""Return :math:`(\Pi D^b)(y - \eta^a) + (\Pi D^a)(y - \eta^b)` of rows, fold by fold.

    And the same of :math:`\eta - g`, the error of the projection itself. ``effects`` (2, n, P) are
    those of two models, ``values`` and ``parts`` (2, n) their predictions and additive parts.
    """
    places = [np.searchsorted(task.explained, fold.test) for fold in task.folds]
    found: list[tuple[Floats, Floats]] = [(effects[0], effects[0])] * len(effects)
    for repeat in {fold.repeat for fold in task.folds}:
        own = [number for number, fold in enumerate(task.folds) if fold.repeat == repeat]
        whole = np.zeros((2, len(task.explained), effects[0].shape[2]))
        for k in own:
            whole[:, places[k]] = effects[k]
        smooth = np.stack([additive.project(side) for side in whole])
        for k in own:
            across = smooth[::-1, places[k]]
            left = target_of(task, task.y[task.folds[k].test], values[k]) - values[k]
            found[k] = (
                np.einsum("si,sip->ip", left, across),
                np.einsum("si,sip->ip", values[k] - parts[k], across),
            )
    return found


def target_of(task: Task, y: Floats, values: Floats) -> Floats:
    """Return the outcome, half way to the prediction in the CPI form, (2, n)."""
    if task.form == "cpi":
        return np.asarray(0.5 * (y + values))
    return np.broadcast_to(y, values.shape)


def _influence(task: Task, y: Floats, values: Floats, effects: Floats) -> Floats:
    """Return uncentred influence values of pairs, (n, P)."""
    left = (target_of(task, y, values) - values)[:, :, None]
    return np.asarray(left[0] * effects[1] + left[1] * effects[0] + effects[0] * effects[1])


def _chosen(
    tasks: Sequence[Task],
    space: PairSpace,
    additive: Additive,
    membership: Floats,
    asked: Sequence[tuple[int, int]] | None,
    leading: Ints,
    top: int,
) -> Ints:
    """Return the unit pairs to evaluate, each in ascending order."""
    varying = np.flatnonzero(membership.any(axis=0)).tolist()
    every = list(combinations(varying, 2))
    found = set() if asked is None else {(min(pair), max(pair)) for pair in asked}
    if len(varying) <= EVERY:
        found |= set(every)
    else:
        first = [unit for unit in leading.tolist() if unit in set(varying)][:LEADING]
        found |= {(min(pair), max(pair)) for pair in combinations(first, 2)}
        of_units = _unit_proxies(tasks, space, additive, membership)
        order = sorted(every, key=lambda pair: -of_units[pair])
        found |= set([pair for pair in order if pair not in found][:top])
    return np.array(sorted(found), dtype=np.intp).reshape(-1, 2)


def _unit_proxies(
    tasks: Sequence[Task], space: PairSpace, additive: Additive, membership: Floats
) -> Floats:
    """Return evidence in the outcome for pairs of units beyond additivity, without a model."""
    owner = np.zeros((space.latent.shape[1], membership.shape[1]))
    for place, joint in enumerate(space.joints):
        owner[joint.coordinates] = membership[place]
    total = np.zeros((membership.shape[1], membership.shape[1]))
    for task in tasks:
        y = task.y[task.explained]
        found = proxies(space.latent, y - additive.project(y), space.share)
        total += owner.T @ found @ owner
    return total


def _oriented(chosen: Ints, space: PairSpace, membership: Floats, task: Task) -> Ints:
    """Return the latent pairs of unit pairs: first who takes donors, then who has a line.

    Of two with lines the one that goes less with the outcome takes donors: neither the order of
    the columns nor their units or names decide.
    """
    y = task.y[task.explained]
    strength = ((space.share * (y - space.share @ y)) @ space.latent) ** 2
    key = [(joint.is_line, float(strength[joint.coordinates].sum())) for joint in space.joints]
    players = [np.flatnonzero(column).tolist() for column in membership.T]
    found = [
        (one, other) if key[one] <= key[other] else (other, one)
        for left, right in chosen.tolist()
        for one in players[left]
        for other in players[right]
    ]
    return np.array(found, dtype=np.intp).reshape(-1, 2)
