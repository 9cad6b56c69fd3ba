r"""The own error of a transport by refits without groups of rows: the grouped jackknife.

The rows are dealt into ``B`` groups; the transport is fitted again
without each group, the fitted models and the rows that are scored staying the same. With
:math:`\hat\theta_{(-g)}` the scores under that transport,
:math:`\psi_g = -(B - 1)(\hat\theta_{(-g)} - \hat\theta)` is, to first order, the mean over the
group of the rows' influence through the transport. What every row gets is

.. math:: u_i + b\,(u_i - \bar u) + \sqrt{n_g}\, r_g, \qquad \psi_g = b\,(\bar u_g - \bar u) + r_g,

``b`` by least squares over the groups: the variance of the column mean is then that of the group
means :math:`\bar u_g + \psi_g`, while the part that rows themselves show keeps its ``n`` degrees of
freedom. (Giving each row of a group :math:`\psi_g` alone would understate it ``n_g`` times.) With
weights, :math:`n_g = (\sum_i w_i)^2 / (B \sum_i w_i^2)`: groups are of rows, however often these
count, and their means vary the more, the fewer rows have the weight. Where ``b`` would cancel more
than half of the rows' own part and one group has most of its squares, ``b`` says nothing of the
other groups: rows are stretched to the variance of the group means instead.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dfi._data.dependence import Ordered
from dfi._data.moments import TicketGroups

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from dfi._data.weights import Weights
    from dfi._models.crossfit import FoldModels
    from dfi._scoring.scores import Scores
    from dfi._scoring.task import Task
    from dfi._types import Floats, Ints

N_GROUPS, WIDE_GROUPS, WIDE_COLUMNS = 20, 8, 1000
"""Groups that refits leave out, and those of tables with more coordinates than the last number."""


def thin(folds: Sequence[FoldModels], count: int, weights: Weights) -> list[FoldModels]:
    """Return folds with evenly spaced rows of positive weight, about ``count`` in all."""
    kept = [folds[k] for k in _kept_folds(folds, weights)]
    tests = [fold.test[weights.values[fold.test] > 0] for fold in kept]
    step = max(1, int(np.ceil(sum(map(len, tests)) / count)))
    return [
        replace(fold, repeat=0, test=test[::step]) for fold, test in zip(kept, tests, strict=True)
    ]


def _kept_folds(folds: Sequence[FoldModels], weights: Weights) -> list[int]:
    """Return the places of the folds that :func:`thin` keeps."""
    repeats = 1 + max(fold.repeat for fold in folds)
    met: Counter[int] = Counter()
    found = []
    for k, fold in enumerate(folds):
        if weights.values[fold.test].any():
            if met[fold.repeat] % repeats == fold.repeat:
                found.append(k)
            met[fold.repeat] += 1
    return found


def kept_factors(scores: Scores, task: Task) -> Floats | None:
    """Return the factors of the calibrated form for the folds that :func:`thin` keeps."""
    if scores.calibration is None:
        return None
    return np.asarray(scores.calibration.factors[_kept_folds(task.folds, task.weights)])


def both_means(scores: Scores, task: Task) -> Floats:
    """Return the latent and the attributed scores, one after the other."""
    weights = task.weights.take(scores.rows)
    return np.concatenate([weights.mean(scores.latent), weights.mean(scores.attributed)])


def ticket_groups(task: Task, seed: np.random.SeedSequence) -> TicketGroups | None:
    """Return groups of a population's rows, each with some rows that are explained."""
    places = task.places[task.weights.values[task.explained] > 0]
    for count in range(min(_group_count(task), len(places) // 2), 1, -1):
        groups = TicketGroups(seed, count)
        if len(np.unique(groups(places))) == count:
            return groups
    return None


def dealt_groups(task: Task, seed: np.random.SeedSequence) -> Ints:
    """Return a group for every row that the transport was fitted on."""
    weights = task.weights.take(task.fits.rows)
    # rows of weight 0 belong to no group: one of them alone would have no mean
    counted = np.flatnonzero(weights.values)
    groups = np.zeros(len(task.fits.rows), dtype=np.intp)
    scored = None
    if task.sample is not None:
        at = np.searchsorted(task.fits.rows, task.explained)
        scored = np.searchsorted(counted, at[weights.values[at] > 0])
    groups[counted] = dealt(weights.take(counted), seed, scored, most=_group_count(task))
    return groups


def _group_count(task: Task) -> int:
    """Return how many groups refits leave out: a refit of many columns takes seconds."""
    return N_GROUPS if np.sum(~task.fits.constant) <= WIDE_COLUMNS else WIDE_GROUPS


def deal_groups(n: int, n_groups: int, seed: np.random.SeedSequence) -> Ints:
    """Return a group for every row, at random, of sizes that differ by one at most."""
    return np.random.default_rng(seed).permutation(np.arange(n) % n_groups)


def dealt(
    weights: Weights,
    seed: np.random.SeedSequence,
    scored: Ints | None = None,
    *,
    most: int = N_GROUPS,
) -> Ints:
    """Return a group for every row: clusters stay whole, rows in time are cut into blocks."""
    n = len(weights.values)
    first = np.arange(n) if scored is None else scored
    n_groups = min(most, len(first) // 2)
    if weights.dependence is not None:
        return weights.dependence.deal(n_groups, np.random.default_rng(seed), first)
    groups = deal_groups(n, n_groups, seed)
    if scored is not None:
        groups[scored] = deal_groups(len(scored), n_groups, seed)
    return groups


def group_influence(groups: Ints, rescore: Callable[[Ints], Floats], base: Floats) -> Floats:
    """Return ``psi`` (B, columns), given the scores of the transport fitted on all rows."""
    n_groups = int(groups.max()) + 1
    return influence_of_groups(
        [rescore(np.flatnonzero(groups != g)) for g in range(n_groups)], base
    )


def influence_of_groups(refitted: Iterable[Floats], base: Floats) -> Floats:
    """Return ``psi`` (B, columns), given scores without each group and those of all rows."""
    without = np.stack(list(refitted))
    psi = -(len(without) - 1) * (without - base)
    return np.asarray(psi - psi.mean(axis=0))


def with_transport_error(
    influence: Floats, weights: Weights, groups: Ints, psi: Floats, noise: Floats | None = None
) -> Floats:
    """Return influence values whose column means have the variance of the whole estimate."""
    n_groups = len(psi)
    centre = weights.mean(influence)
    means = np.stack(
        [weights.take(groups == g).mean(influence[groups == g]) for g in range(n_groups)]
    )
    own = means - centre
    scale = np.sum(own**2, axis=0)
    slope = np.divide(np.sum(own * psi, axis=0), scale, out=np.zeros_like(scale), where=scale > 0)
    # a row that is the only one of its kind would cancel the error of all others
    decided = (slope < -0.5) & (np.max(own**2, axis=0) > 0.5 * scale)
    if noise is not None:
        slope = slope * _kept(slope**2 * scale, noise)
    rest = (psi - slope * own) * np.sqrt(n_groups / max(1, n_groups - 2))
    if noise is not None:
        rest = rest * _kept(np.mean(rest**2, axis=0), noise)
    if decided.any():
        error, whole = weights.standard_error(influence), np.sum((own + psi) ** 2, axis=0)
        whole = np.sqrt(whole / (n_groups * (n_groups - 1)))
        slope = np.where(decided, whole / np.where(decided, error, 1.0) - 1.0, slope)
        rest = np.where(decided, 0.0, rest)
    if isinstance(weights.dependence, Ordered):
        # steps in time would be taken for dependence between rows: the values are stretched
        stretched = (1.0 + slope) * (influence - centre)
        error, extra = weights.standard_error(stretched), np.mean(rest**2, axis=0) / n_groups
        ratio = np.divide(extra, error**2, out=np.zeros_like(extra), where=error > 0)
        return np.asarray(centre + stretched * np.sqrt(1.0 + ratio))
    # what as many rows of equal weight as these would be: a group of few large ones is a small one
    mass = weights.values
    if weights.dependence is not None:
        mass = weights.dependence.sums(mass[:, None], weights.counted)
    size = mass.sum() ** 2 / np.sum(mass**2) / n_groups
    added = slope * (influence - centre) + np.sqrt(size) * rest[groups]
    return np.asarray(influence + added - weights.mean(added))


def _kept(square: Floats, noise: Floats) -> Floats:
    """Return the factor that leaves of a mean square what is above its noise."""
    share = np.divide(square - noise, square, out=np.zeros_like(square), where=square > 0)
    return np.asarray(np.where(noise > 0, np.sqrt(np.maximum(share, 0.0)), 1.0))
