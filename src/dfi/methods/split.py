r"""A feature's unique signal, the signal it shares with others, and its interactions.

With :math:`g = \Pi\mu` the least-squares projection of the regression on sums of functions of
single features (:class:`dfi._scoring.pairs.Additive`) and :math:`\phi^{Sh}_l` a feature's part of
what is explained (:mod:`dfi._latent.walks`),

.. math::

    \text{unique}_l &= E\,Var(g \mid X_{-l}), \\
    \text{shared}_l &= \phi^{Sh}_l(g) - \text{unique}_l, \\
    \text{interaction}_l &= \phi^{Sh}_l(\mu) - \phi^{Sh}_l(g) .

They add up to the feature's part, and interactions to what no sum of functions of single features
explains. The score of a feature's own latent coordinate would mislead: of :math:`y = x_1` under a
correlation of .8 it gives .16 to :math:`x_2` as its "own". Here :math:`x_1` has .36 + .32 and
:math:`x_2` 0 + .32.

**Unique.** Given the others a feature is taken for their linear combination and a residual with the
law that residuals have among the rows, in line with a linear transport. With :math:`\Delta_l` what
replacing the residual changes in :math:`g`, for two models

.. math:: u_l = \Delta^a_l \Delta^b_l + (\Pi\Delta^b_l)(y - g^a) + (\Pi\Delta^a_l)(y - g^b) .

An error of the linear combination moves a function of :math:`x_{-l}` only, which :math:`\Delta_l`
has no part in: it is of second order.

**With whom.** Latent coordinate ``j`` is shared out by :math:`S = L * L`, whose columns add up to
1, so what two features have in common of it is :math:`S_{lj} S_{mj} \phi_j`. The shared part
of a feature is divided between the others in proportion to :math:`\sum_j S_{lj} S_{mj} \phi_j`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dfi._latent.latent_units import unit_shares
from dfi._latent.walks import Parts, explained_parts
from dfi._lines.base import LineModel, Lines, Reference
from dfi._parameters import argument
from dfi._progress import telling_bar
from dfi._scoring.forms import CROSSED, Stretch
from dfi._scoring.pairs import Additive, draw_quantiles
from dfi._scoring.scores import pool
from dfi._scoring.task import LineModels, Task, fold_lines
from dfi.methods.pairs import held_apart, projection_terms, refuse_pairs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._lines.choose import Quadrature
    from dfi._models.crossfit import FoldModels
    from dfi._models.fits import Fits
    from dfi._models.predictor import Predictor
    from dfi._types import Advance, Floats, Ints
    from dfi.methods.disentangled import Disentangled

DONORS = 16
"""Rows whose residuals a unit of several columns takes, for each row and model."""

DETERMINED = 1e-8
"""A column that keeps less of its variance given the others counts as their sum."""


@dataclass(frozen=True)
class SplitRows:
    """The units' unique parts and their parts of additive functions, by rows (n, units).

    ``together`` (units, units) is what two units have in common of latent signal, 0 on the
    diagonal.
    """

    rows: Ints
    unique: Floats
    additive: Floats
    together: Floats


def split_rows(fits: Fits, method: Disentangled) -> SplitRows:
    """Return the split of every unit, summed over classes or outcomes."""
    members = fits.members if fits.outcome.members else (fits,)
    refuse_pairs(members[0], method, "splits are")
    if method.plan(members[0]).rows is not None:
        raise ValueError(
            "a split needs the parts of all rows, but a sample of them was explained: explain a "
            f"smaller table with {argument('explain_rows', None)}"
        )
    total = 2 * sum(len(fold.test) for member in members for fold in member.folds)
    watched = fits.workers.progress, "splitting shares", total, fits.workers.started
    with telling_bar(*watched) as bar:
        found = [_member(member, method, bar.advance) for member in members]
    return SplitRows(
        found[0].rows,
        np.sum([one.unique for one in found], axis=0),
        np.sum([one.additive for one in found], axis=0),
        np.sum([one.together for one in found], axis=0),
    )


class _Projections(LineModels):
    """The additive parts of models in their place, each projected on a half of the rows."""

    def __init__(self, additive: Additive, task: Task, folds: Sequence[FoldModels]) -> None:
        super().__init__()
        self.additive, self.rows = additive, task.matrix[task.explained]
        self.uses = {
            id(predictor): (half, np.searchsorted(task.explained, fold.test))
            for fold in folds
            for half, predictor in enumerate(fold.predictors)
        }
        self._made: dict[int, LineModel] = {}

    def of(
        self,
        predictor: Predictor,
        sample: Floats,
        options: Quadrature,
        seed: np.random.SeedSequence,
    ) -> LineModel:
        """Return the projection of a model."""
        del sample, options, seed
        key = id(predictor)
        if key not in self._made:
            self._made[key] = self.additive.model(predictor(self.rows), *self.uses[key])
        return self._made[key]


def _member(fits: Fits, method: Disentangled, advance: Advance | None) -> SplitRows:
    """Return the split of one class or outcome."""
    ahead = method.plan(fits)
    models = held_apart(fits, crossed=ahead.form in CROSSED)
    transport, task, _ = method.prepared(fits, ahead, models, None)
    mass = task.weights.values[task.explained]
    additive = Additive.of(task.matrix[task.explained], mass, fits.child("split", "halves"))
    membership = transport.score_membership(task)[:, : ahead.blocks.count]

    def of(models: tuple[FoldModels, ...]) -> tuple[_Unique, Parts]:
        # a model that explains several folds has a projection for each of them
        folds = tuple(
            replace(fold, predictors=tuple(map(replace, fold.predictors))) for fold in models
        )
        readings = _Projections(additive, task, folds)
        projected = replace(task, folds=folds, readings=readings)
        scores = transport.score(projected)
        weights = task.weights.take(scores.rows)
        parts = explained_parts(projected, transport, scores)
        parts = parts.with_error(scores, weights)
        if advance is not None:
            advance(sum(len(fold.test) for fold in folds))
        return _unique(replace(task, folds=folds), projected, additive), parts

    unique, parts = of(models)
    influence = unique.values
    if ahead.extrapolates:
        lesser, smaller = of(fits.quarters)
        influence = 2.0 * influence - lesser.values
        parts = parts.extrapolated(smaller)
    weights = task.weights.take(unique.rows)
    if method.form == "auto" and ahead.form == "cpi":
        stretch = Stretch.of(task.y[unique.rows], unique.prediction, weights)
        influence = stretch.of_scores(influence, weights)
        parts = parts.stretched(stretch, weights)
    shares = membership.T @ unit_shares(transport)
    signal = np.maximum(weights.mean(parts.latent), 0.0)
    together = (shares * signal) @ shares.T
    np.fill_diagonal(together, 0.0)
    units = parts.of_units(membership, weights).attributed[:, :-1]
    return SplitRows(unique.rows, influence, units, together)


@dataclass(frozen=True)
class _Unique:
    """Unique parts by rows (n, units), and the rows' predictions."""

    rows: Ints
    values: Floats
    prediction: Floats


def _unique(task: Task, projected: Task, additive: Additive) -> _Unique:
    """Return each unit's effect on the additive part, given all others."""
    explained, mass = task.explained, task.weights.values
    points = task.matrix[explained]
    share = mass[explained] / mass[explained].sum()
    units = [np.array(column.positions) for column in task.blocks.columns]
    laws = [_residuals(points, share, own) for own in units]
    changes, values, parts = [], [], []
    for number, fold in enumerate(task.folds):
        place = np.searchsorted(explained, fold.test)
        own = fold_lines(fold, projected).models
        pair = own[0], own[-1]
        seeds = task.fits.child("split", number).spawn(2)
        changes.append(
            np.stack(
                [
                    _changes(model, points, place, share, units, laws, seed)
                    for model, seed in zip(pair, seeds, strict=True)
                ]
            )
        )
        read = fold.predictors[0], fold.predictors[-1]
        values.append(np.stack([predictor(task.matrix[fold.test]) for predictor in read]))
        parts.append(np.stack([model.predict(task.matrix[fold.test]) for model in pair]))
    terms = projection_terms(task, additive, changes, values, parts)
    first = [both[0] * both[1] + of[0] for both, of in zip(changes, terms, strict=True)]
    rows, found, _ = pool(task.folds, first, mass)
    _, centred, _ = pool(task.folds, [of[1] for of in terms], mass)
    _, prediction, _ = pool(task.folds, [value.mean(axis=0) for value in values], mass)
    centred -= task.weights.take(rows).mean(centred)
    return _Unique(rows, found + centred, prediction)


def _residuals(points: Floats, share: Floats, own: Ints) -> Floats:
    """Return residuals of columns given all other columns, by least squares, (n, own)."""
    others = np.setdiff1d(np.arange(points.shape[1]), own)
    centred = points - share @ points
    scale = np.sqrt(share @ centred**2)
    scale[scale == 0.0] = 1.0
    centred = centred / scale
    weighted = np.sqrt(share)[:, None] * centred
    inverse = np.linalg.pinv(weighted[:, others].T @ weighted[:, others], 1e-9, hermitian=True)
    slope = inverse @ (weighted[:, others].T @ weighted[:, own])
    left = centred[:, own] - centred[:, others] @ slope
    kept = share @ left**2
    left[:, kept < DETERMINED] = 0.0
    return np.asarray(left * scale[own])


def _changes(
    model: LineModel,
    points: Floats,
    place: Ints,
    share: Floats,
    units: Sequence[Ints],
    laws: Sequence[Floats],
    seed: np.random.SeedSequence,
) -> Floats:
    """Return the drop in an additive model when each unit's residual is replaced, (n, units)."""
    rows = points[place]
    value = model.predict(rows)
    found = np.zeros((len(place), len(units)))
    single = [k for k, law in enumerate(laws) if len(units[k]) == 1 and law.any()]
    if single:
        law = np.hstack([laws[k] for k in single])
        size = np.sqrt(share @ law**2)
        directions = np.zeros((points.shape[1], len(single)))
        directions[[int(units[k][0]) for k in single], np.arange(len(single))] = size
        lines = Lines(
            np.ascontiguousarray(rows),
            np.ascontiguousarray(law[place] / size),
            directions,
            Reference.empirical(law / size, share),
            np.zeros((1, len(single))),
        )
        found[:, single] = value[:, None] - model.moments(lines).mean[0]
    below = np.cumsum(share)
    for k, law in enumerate(laws):
        if len(units[k]) == 1 or not law.any():
            continue
        total = np.zeros(len(place))
        for one in seed.spawn(DONORS // 2):
            for places in draw_quantiles(len(place), one):
                chosen = np.minimum(np.searchsorted(below, places), len(share) - 1)
                moved = rows.copy()
                moved[:, units[k]] += law[chosen] - law[place]
                total += model.predict(moved)
        found[:, k] = value - total / DONORS
    return found
