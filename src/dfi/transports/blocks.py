r"""Units are blocks: the linear transport between units of several columns, and their joint scores.

A category, a value with its missing indicator and a group are one thing each. With
:math:`D = \mathrm{blockdiag}(R_{bb})` the correlations within units and
:math:`C = D^{-1/2} R D^{-1/2}`,

.. math:: w = D^{-1/2} x, \qquad z = C^{-1/2} w, \qquad x = D^{1/2} C^{1/2} z .

This disentangles between units and not within; it is the optimal transport map of rows that are
whitened within units. Units of one column are plain whitening, and no invertible linear recoding
within a unit changes anything: neither the coding of a category, nor the number that stands for a
missing value. A unit's score is joint (:mod:`dfi._scoring.donors`),
:math:`\psi_b = E\,Var(\eta \mid Z_{-b})`; where one coordinate is all that a unit has and the model
is averaged along lines, it is taken along its line, as without units.

**Attribution.** With :math:`M_{ab} = C^{1/2}_{ba} C^{1/2}_{ab}`, which add up to the identity over
``a``, unit ``a`` receives of the score of unit ``b``

.. math:: \operatorname{tr}(M_{ab} A_b) + (\psi_b - \operatorname{tr} A_b)
          \operatorname{tr}(M_{ab}) / d_b, \qquad A_b = \gamma_b \gamma_b', \quad
          \gamma_b = E[\eta\, z_b] .

The part of the effect that is linear in the unit's coordinates is attributed along its direction
(for a linear regression this is :math:`\psi_b` times the R2 of the unit's effect on :math:`X_a`),
what is left evenly over all directions. It is linear in :math:`A_b` and :math:`\psi_b`, so nothing
is divided by what may be 0, and both are estimated without bias: :math:`A_b` by the same products
as the scores,

.. math:: A = P^a R^{b\prime} + P^b R^{a\prime} + P^a P^{b\prime}, \qquad
          P^a = E[(f^a - m^a) z_b], \quad R^a = E[(y - f^a) z_b],

symmetrised, less the covariance of the two means. Rows are white in sample, so these means are
regressions on :math:`z_b` and their covariance is that of what is left of it: for a linear model
nothing. ``attribution="isotropic"`` spreads all of :math:`\psi_b` evenly.

Rare levels and rare missing values have no coordinates of their own
(:mod:`dfi._estimates.within_units`).

**Own error.** By the grouped jackknife: refits with the models, rows and donors kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from joblib import delayed

from dfi._estimates.cells import TIE
from dfi._estimates.within_units import RARE, WithinUnits
from dfi._lines.base import LineModel, Lines, Reference
from dfi._lines.closed_form import LinearLines, as_linear
from dfi._models.parallel import in_parallel
from dfi._scoring.donors import (
    Donors,
    Joint,
    Strata,
    all_replaced,
    canonical_order,
    draw_places,
    joint_chance,
    joint_influence,
    joint_product,
    number_of_donors,
)
from dfi._scoring.error import CheckedRows, most_nodes, settle_nodes, with_nodes, worth_saying
from dfi._scoring.forms import calibrated
from dfi._scoring.jackknife import kept_factors, thin
from dfi._scoring.lines import scores_along, unread_coordinates
from dfi._scoring.map_error import FIXED, MapInfluence, SecondOrderBias
from dfi._scoring.scores import Scores, calibrate, pool, rows_held_out
from dfi._scoring.swapped import Changes, Corrected
from dfi._scoring.task import Task, fold_lines
from dfi.transports.base import FittedTransport, Transport, jackknifed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dfi._data.columns import Column
    from dfi._data.weights import Weights
    from dfi._estimates.covariance import Estimated
    from dfi._models.crossfit import FoldModels
    from dfi._scoring.error import LineError, Nodes
    from dfi._scoring.forms import Measure
    from dfi._scoring.geometry import Geometry
    from dfi._types import Floats, Ints, Plain
    from dfi.losses import Loss
    from dfi.transports.gaussian import LinearTransport

JACKKNIFE_ROWS, LINEAR_ROWS = 300, 5000
"""Rows on which refits are compared, and those where every model is linear, which costs little.

Of a sample one extreme row can decide: the only one that tells two indicators apart.
"""

JACKKNIFE_DONORS = 4
"""Donors of each: the same in every refit, so rows tell more than donors."""

JACKKNIFE_NODES = 8
"""Most nodes of a line there: what refits change is smaller than what it is a change of."""

ROWS_AT_ONCE = 1024

BlockAttribution = Literal["direction", "isotropic"]

FEWEST_PROBED = 5
"""Rows for each latent coordinate below which probes of units are not scored."""


@dataclass(frozen=True)
class DonorLaw:
    """The explained rows as they receive and give.

    ``encoded`` and ``latent`` (n, d) are without and with the random part of collinear units;
    ``donors`` are those that may give, ``strata`` who does for each of the ``joints``.
    """

    encoded: Floats
    latent: Floats
    donors: Donors
    strata: Strata
    joints: Sequence[Joint]

    def giving(self, unit: int, rows: Ints) -> Donors:
        return self.donors.of(self.strata.chosen(unit, rows))


@dataclass(frozen=True)
class HeldRows:
    """Rows that a fold holds out, where its models are straight, and their ``place`` in a law."""

    points: Floats
    y: Floats
    place: Ints

    def take(self, which: slice) -> HeldRows:
        return HeldRows(self.points[which], self.y[which], self.place[which])


@dataclass(frozen=True)
class UnitScores:
    """What one fold tells of its held-out rows, for each target.

    ``moved`` (2, n, targets) is :math:`f - m` of both models (twice the same for one), ``left`` (2,
    n) their residuals (half of them in the CPI form), of the calibrated form (2, n, targets).
    ``product`` (n, targets) is what the calibrated form takes beside the cross form's
    ``influence``, 0 for another one; ``chance`` (n, targets) what donors' chance adds.
    """

    influence: Floats
    moved: Floats
    left: Floats
    prediction: Floats
    product: Floats
    chance: Floats

    def calibrated(self, factor: Floats) -> UnitScores:
        r"""Return the scores of models :math:`m + \lambda (f - m)`, target by target."""
        return replace(
            self,
            influence=calibrated(self.influence, self.product, factor),
            moved=factor * self.moved,
            left=self.left[:, :, None] + (1.0 - factor) * self.moved,
            chance=factor * self.chance,
        )


@dataclass(frozen=True)
class BlockTransport(FittedTransport):
    """A linear transport between units; ``linear`` takes whitened rows ``w`` to ``z``."""

    design: Transport
    active: Ints
    inner: WithinUnits
    linear: LinearTransport
    isotropic: bool = False

    takes_constant: ClassVar[bool] = True

    @property
    def n_latent(self) -> int:
        return self.linear.n_latent

    @property
    def reference(self) -> Reference:
        return self.linear.reference

    @property
    def labels(self) -> Ints | None:
        return self.linear.labels

    @property
    def missed(self) -> Floats | None:
        return self.linear.missed

    @property
    def block_labels(self) -> Ints:
        """The dependence component of each block."""
        first = np.array([place[0] for place in self.inner.places], dtype=np.intp)
        return np.arange(len(first)) * 0 if self.labels is None else self.labels[first]

    @property
    def geometry(self) -> Geometry:
        """The space of rows that are whitened within units."""
        return self.linear.geometry

    @property
    def edges(self) -> Floats | None:
        return self.linear.edges

    @property
    def correlations(self) -> Estimated:
        return self.linear.correlations

    def with_law(self, reference: Reference, edges: Floats | None = None) -> BlockTransport:
        """Return the same map with another law."""
        return replace(self, linear=self.linear.with_law(reference, edges))

    @property
    def drawn_as_one(self) -> Ints:
        return self.inner.owner

    def undecoded(self, matrix: Floats, orders: Ints) -> Floats | float:
        found = np.zeros((len(orders), matrix.shape[1]))
        for k, block in enumerate(self.inner.blocks):
            if block.pooled:
                own = matrix[np.ix_(orders[:, k], block.positions)]
                own -= self.inner.center[block.positions]
                found[:, block.positions] = own - own @ block.encoder @ block.decoder
        return found

    @property
    def shares_variance(self) -> bool:
        return True

    @property
    def directions(self) -> Floats:
        """The change of a row of the matrix for each latent coordinate, (p, d)."""
        return self.inner.directions(self.geometry.decoder)

    def owner(self, columns: Sequence[Column]) -> Ints:
        del columns
        return np.array([block.unit for block in self.inner.blocks], dtype=np.intp)[
            self.inner.owner
        ]

    def latent_names(self, columns: Sequence[Column]) -> list[str]:
        found: list[str] = []
        for block in self.inner.blocks:
            column = columns[block.unit]
            if block.rank == 1 and len(column.positions) == 1:
                found += column.matrix_names()
            else:
                found += [f"{column.name}[{k}]" for k in range(block.rank)]
        return found

    def membership(self, columns: Sequence[Column]) -> Floats:
        found = np.zeros((len(self.inner.blocks), len(columns)))
        for place, block in enumerate(self.inner.blocks):
            found[place, block.unit] = 1.0
        return found

    def points(self, matrix: Floats) -> Floats:
        return matrix

    def encode(self, matrix: Floats, generator: np.random.Generator | None = None) -> Floats:
        del generator
        return self.geometry.encode(self.inner.encode(matrix))

    def decode(self, latent: Floats) -> Floats:
        return self.inner.decode(self.geometry.decode(latent))

    def draw(self, matrix: Floats, generator: np.random.Generator) -> Floats:
        return self.linear.draw(self.inner.encode(matrix), generator)

    def couple(self, matrix: Floats, generator: np.random.Generator) -> Floats:
        return self.linear.couple(self.inner.encode(matrix), generator)

    def moved(self, rows: Floats, latent: Floats, j: int, values: Floats) -> Floats:
        shift = (values[None, :] - latent[:, j, None]).reshape(-1, 1)
        return np.asarray(np.repeat(rows, len(values), axis=0) + shift * self.directions[:, j])

    def direction_of(self, position: int) -> Floats:
        """Return the direction of a unit's coordinates along which a matrix column changes most.

        :math:`Cov(z_b, x_c)`, of length 1.
        """
        held = [position in block.positions for block in self.inner.blocks]
        place = self.inner.places[held.index(True)]
        direction = np.zeros(self.n_latent)
        direction[place] = self.directions[position, place]
        return np.asarray(direction / np.linalg.norm(direction))

    def moved_along(
        self, rows: Floats, latent: Floats, direction: Floats, values: Floats
    ) -> Floats:
        shift = (values[None, :] - (latent @ direction)[:, None]).reshape(-1, 1)
        slope = self.directions @ direction
        return np.asarray(np.repeat(rows, len(values), axis=0) + shift * slope)

    def diagnostics(self, owner: Ints) -> Plain:
        found = self.linear.diagnostics(owner)
        blocks = self.inner.blocks
        found["blocks"] = {block.name: block.rank for block in blocks if block.rank > 1}
        for key, missing in (("pooled_levels", False), ("rare_missing", True)):
            names = [
                block.name for block in blocks if block.pooled and block.missingness is missing
            ]
            if names:
                found[key] = {"columns": names, "below": RARE}
        return found

    def law(
        self,
        task: Task,
        joints: Sequence[Joint],
        rows: Floats | None = None,
        like: DonorLaw | None = None,
    ) -> DonorLaw:
        """Return who gives to whom among the explained rows, as in ``like`` for a refit."""
        rows = task.matrix[task.explained] if rows is None else rows
        whitened = self.inner.encode(rows)
        encoded = self.geometry.encode(whitened)
        latent = self.geometry.filled(encoded, np.random.default_rng(task.child(2)))
        mass = task.weights.values[task.explained]
        share = mass / mass.sum()
        giving, given, shares = latent, rows, share
        if self.reference.kind != "empirical":
            normal = np.random.default_rng(task.child(4)).standard_normal(latent.shape)
            # with the mean of the law
            giving, given = np.vstack([normal, -normal]), np.vstack([rows, rows])
            shares = np.tile(share, 2) / 2.0
        donors = Donors(giving, given, shares, np.empty((len(rows), 0), dtype=np.intp))
        if like is not None:
            return DonorLaw(encoded, latent, donors, like.strata, joints)
        order = self.order(whitened)
        count = number_of_donors(task.options.donors, len(rows))
        places = np.empty((len(rows), count))
        places[order] = draw_places(count, len(rows), task.child(3))
        y = task.y[task.explained]
        slopes = share * (y - share @ y)
        effects, own = giving * (slopes @ latent), whitened * (slopes @ whitened)
        ties = np.argsort(order)
        if len(giving) > len(rows):
            own, ties = effects, np.concatenate([ties, ties + len(rows)])
        strata = Strata.of(shares, joints, effects, own, ties, places)
        return DonorLaw(encoded, latent, donors, strata, joints)

    def order(self, whitened: Floats) -> Ints:
        """Return the order of the rows in which donors are dealt."""
        return canonical_order(
            np.stack([np.sum(whitened[:, k] ** 2, axis=1) for k in self.inner.places], axis=1)
        )

    def joints(self, targets: Sequence[Sequence[int]], width: int) -> list[Joint]:
        """Return the sets of blocks that are replaced together, in the first ``width`` columns."""
        directions = self.directions[:width]
        places = self.inner.places
        below = None
        if self.edges is not None:
            # sums over parts of a large table round differently from cut to cut
            size = np.abs(self.inner.center[:width]) + np.linalg.norm(directions, axis=1)
            below = TIE * size
        found = []
        for target in targets:
            coordinates = np.concatenate([places[k] for k in target])
            remainders = tuple(
                (block.positions, block.encoder, block.decoder)
                for block in (self.inner.blocks[k] for k in target)
                if block.pooled and block.positions[-1] < width
            )
            found.append(Joint(coordinates, directions[:, coordinates], remainders, below))
        return found

    def targets(self, task: Task) -> tuple[tuple[int, ...], ...]:
        """Return the blocks of each target; without targets every block is one."""
        targets = task.blocks.targets
        if task.by_unit or targets is None:
            return tuple((k,) for k in range(len(self.inner.blocks)))
        place = {block.unit: k for k, block in enumerate(self.inner.blocks)}
        found = (tuple(place[unit] for unit in target.units if unit in place) for target in targets)
        return tuple(target for target in found if target)

    def target_names(self, task: Task) -> list[str]:
        if task.by_unit or task.blocks.targets is None:
            return [block.name for block in self.inner.blocks]
        known = {block.unit for block in self.inner.blocks}
        return [target.name for target in task.blocks.targets if known & set(target.units)]

    def held(self, task: Task, rows: Ints) -> HeldRows:
        """Return some of the explained rows, by their places in the table."""
        place = np.searchsorted(task.explained, rows)
        return HeldRows(self.points(task.matrix[rows]), task.y[rows], place)

    def fold_scores(
        self,
        models: Sequence[LineModel],
        held: HeldRows,
        law: DonorLaw,
        measure: Measure,
    ) -> UnitScores:
        parts = []
        for start in range(0, len(held.y), ROWS_AT_ONCE):
            part = held.take(slice(start, start + ROWS_AT_ONCE))
            parts.append(self._scored(models, part, law, measure))
            if measure.advance is not None:
                measure.advance(len(part.y))
        return UnitScores(
            np.concatenate([part.influence for part in parts]),
            np.concatenate([part.moved for part in parts], axis=1),
            np.concatenate([part.left for part in parts], axis=1),
            np.concatenate([part.prediction for part in parts]),
            np.concatenate([part.product for part in parts]),
            np.concatenate([part.chance for part in parts]),
        )

    def _scored(
        self, models: Sequence[LineModel], held: HeldRows, law: DonorLaw, measure: Measure
    ) -> UnitScores:
        y, form, loss, joints = held.y, measure.form, measure.loss, law.joints
        values = [model.predict(held.points) for model in models]
        pair = values[0], values[-1]
        influence, product, chance = np.zeros((3, len(y), len(joints)))
        moved = np.zeros((2, *influence.shape))
        single = [t for t, joint in enumerate(joints) if joint.is_line]
        if single:
            lines = replace(law, joints=[joints[t] for t in single])
            influence[:, single], product[:, single], moved[:, :, single] = self._along_lines(
                models, values, held, lines, measure
            )
        several = sorted(set(range(len(joints))) - set(single))
        donated = all_replaced(
            models,
            held.points,
            law.latent[held.place],
            [law.giving(t, held.place) for t in several],
            [joints[t] for t in several],
            memory=measure.memory,
        )
        for t, found in zip(several, donated, strict=True):
            influence[:, t] = joint_influence(form, y, pair, found, loss)
            chance[:, t] = joint_chance(form, y, pair, found, loss)
            if form == "calibrated":
                product[:, t] = joint_product(pair, found)
            for k in (0, 1):
                moved[k][:, t] = pair[k] - found.means[k]
        # the attribution of a unit takes products of what moves and what is left, as the form does
        left = (0.5 if form == "cpi" else 1.0) * np.stack([y - pair[0], y - pair[1]])
        return UnitScores(influence, moved, left, np.mean(values, axis=0), product, chance)

    def _along_lines(
        self,
        models: Sequence[LineModel],
        values: Sequence[Floats],
        held: HeldRows,
        law: DonorLaw,
        measure: Measure,
    ) -> tuple[Floats, Floats | float, Floats]:
        """Return influence values, products and changes of units that are one coordinate each."""
        coordinates = np.array([joint.coordinates[0] for joint in law.joints])
        offsets, weights = self.geometry.offsets
        lines = Lines(
            held.points,
            np.ascontiguousarray(law.encoded[np.ix_(held.place, coordinates)]),
            np.ascontiguousarray(np.hstack([joint.directions for joint in law.joints])),
            self.reference.only(coordinates),
            np.ascontiguousarray(offsets[:, coordinates]),
        )
        influence, product, moments = scores_along(
            models, lines, held.y, weights, form=measure.form, loss=measure.loss
        )
        moved = [values[k][:, None] - moments[k].mean for k in (0, -1)]
        return influence, product, np.stack(moved)

    def finished(self, scores: Scores, task: Task) -> Scores:
        reason = FIXED if task.fixed else "not derived for units of several columns"
        found = super().finished(scores, task)
        return SecondOrderBias.left_in(reason).subtracted_from(found, ())

    def plain_scores(self, task: Task) -> Scores:
        read = (delayed(fold_lines)(fold, task) for fold in task.folds)
        prepared = [
            tuple(self.line_model(model) for model in lines.models)
            for lines in in_parallel(read, task.fits.workers.n_jobs, here=True)
        ]
        law = self.law(task, self.joints(self.targets(task), task.matrix.shape[1]))
        prepared, error = self._settled(task, prepared, law)
        found = self._scores(task, prepared, law)
        if error is None:
            return found
        nodes = max(most_nodes(model) for models in prepared for model in models)
        checked = {"quadrature": error.as_dict(nodes), **found.diagnostics}
        return replace(found, diagnostics=checked, n_nodes=nodes)

    def _settled(
        self, task: Task, prepared: list[tuple[LineModel, ...]], law: DonorLaw
    ) -> tuple[list[tuple[LineModel, ...]], LineError | None]:
        """Return models with as many nodes as lines of units need, and the error that is left."""
        lines = [joint for joint in law.joints if joint.is_line]
        asked = any(most_nodes(model) for models in prepared for model in models)
        if task.settled or not lines or not asked:
            return prepared, None
        predictions = [
            np.mean(
                [model.predict(self.points(task.matrix[fold.test])) for model in models], axis=0
            )
            for fold, models in zip(task.folds, prepared, strict=True)
        ]
        checked = CheckedRows.of(
            task.folds, predictions, task.matrix, task.y, task.weights, len(lines)
        )

        def taken(nodes: Nodes) -> list[tuple[LineModel, ...]]:
            return [tuple(with_nodes(model, nodes) for model in models) for models in prepared]

        along, measure = replace(law, joints=lines), task.measure
        held = [
            replace(self.held(task, rows), y=value)
            for rows, value in zip(checked.rows, checked.prediction, strict=True)
        ]

        def evaluate(nodes: Nodes) -> Floats:
            found = [
                self._scored(models, rows, along, measure)
                for models, rows in zip(taken(nodes), held, strict=True)
            ]
            return np.concatenate([part.influence for part in found])

        drawn = task.options.rule == "draws"
        nodes, error = settle_nodes(
            evaluate,
            lambda nodes: " + ".join(dict.fromkeys(models[0].rule for models in taken(nodes))),
            checked,
            asked=drawn or task.options.nodes is not None,
            draws=drawn,
        )
        error.say(worth_saying(task.options))
        return taken(nodes), error

    def line_model(self, model: LineModel) -> LineModel:
        return as_linear(model) or model

    def _scores(
        self, task: Task, prepared: Sequence[tuple[LineModel, ...]], law: DonorLaw
    ) -> Scores:
        joints = law.joints
        jobs = (
            delayed(self.fold_scores)(models, self.held(task, fold.test), law, task.measure)
            for fold, models in zip(task.folds, prepared, strict=True)
        )
        steps = rows_held_out(task.folds)
        found = list(
            in_parallel(
                jobs, task.fits.workers.n_jobs, threads=True, advance=task.advance, steps=steps
            )
        )
        mass = task.weights.values
        calibration = calibrate(
            task, [part.influence for part in found], [part.product for part in found]
        )
        if calibration is not None:
            factors = calibration.factors
            found = [part.calibrated(own) for part, own in zip(found, factors, strict=True)]
        rows, latent, by_repeat = pool(task.folds, [part.influence for part in found], mass)
        attributed, shares = latent, np.eye(len(joints))
        if task.by_unit:
            coordinates = law.latent[np.searchsorted(task.explained, rows)]
            pairs = _pooled_pairs(task.folds, found, mass)
            attributed, shares = self._attributed(
                latent, pairs, coordinates, task.weights.take(rows), task.fits.loss
            )
        rules = dict.fromkeys(models[0].rule for models in prepared)
        diagnostics: dict[str, object] = {}
        drawn = [t for t, joint in enumerate(joints) if not joint.is_line]
        if drawn and not all(
            isinstance(model, LinearLines) for models in prepared for model in models
        ):
            number = law.strata.places.shape[1]
            rules[f"{number} donors for units of several columns"] = None
            chance = pool(task.folds, [part.chance for part in found], mass)[1]
            # rows that depend on each other have donors of their own all the same
            error = np.sqrt((mass[rows] / mass[rows].sum()) ** 2 @ chance**2)
            names = self.target_names(task)
            diagnostics["donors"] = {
                "number": number,
                "error": {names[t]: float(error[t]) for t in drawn},
            }
        scores = Scores(
            rows=rows,
            latent=latent,
            attributed=attributed,
            latent_by_repeat=by_repeat,
            attributed_by_repeat=by_repeat @ shares.T,
            predictions=tuple(
                (fold.test, part.prediction) for fold, part in zip(task.folds, found, strict=True)
            ),
            attribution=shares,
            rule=" + ".join(rules),
            diagnostics=diagnostics,
            calibration=calibration,
        )
        labels = self.block_labels if task.by_unit else np.arange(len(joints))
        prediction = pool(task.folds, [part.prediction for part in found], mass)[1]
        return scores.silenced(
            unread_coordinates(latent, prediction, task.y[rows], labels, task.fits.loss)
        )

    def _attributed(
        self,
        latent: Floats,
        pairs: tuple[Floats, Floats, Floats, Floats],
        coordinates: Floats,
        weights: Weights,
        loss: Loss,
    ) -> tuple[Floats, Floats]:
        """Return attributed influence values, and the shares of each block's score."""
        places, root = self.inner.places, self.geometry.attribution
        attributed, shares = np.zeros_like(latent), self.even_shares()
        for b, own in enumerate(places):
            even = shares[:, b].copy()
            score = float(weights.mean(latent[:, b])[0])
            if len(own) == 1 or self.isotropic or not loss.is_square:
                attributed += latent[:, [b]] * even
                continue
            parts = [root[np.ix_(other, own)] for other in places]
            spread = np.stack([part.T @ part for part in parts])
            moved, left = (
                [pair[:, [b]] for pair in pairs[:2]],
                [pair[:, [b]] if pair.ndim > 1 else pair[:, None] for pair in pairs[2:]],
            )
            directed, trace, gamma = _linear_part(
                (*moved, *left), coordinates[:, own], spread, weights
            )
            attributed += directed + (latent[:, b] - trace)[:, None] * even
            size = float(gamma @ gamma)
            share = np.clip(float(weights.mean(trace)[0]) / score, 0.0, 1.0) if score > 0 else 0.0
            if size > 0:
                along = np.einsum("aij,i,j->a", spread, gamma, gamma) / size
                shares[:, b] = share * along + (1.0 - share) * even
        return attributed, shares

    def changes(
        self, fold: FoldModels, task: Task, points: Floats, seed: np.random.SeedSequence
    ) -> Changes:
        models = [self.line_model(model) for model in fold_lines(fold, task).models]
        law = self.law(task, self.joints(self.targets(task), points.shape[1]))
        hidden, dealt = seed.spawn(2)
        encoded = self.encode(points)
        latent = self.geometry.filled(encoded, np.random.default_rng(hidden))
        count = number_of_donors(task.options.donors, len(points))
        places = draw_places(count, len(points), dealt)
        strata = replace(law.strata, places=places)
        # the calibrated form is the one that asks for products; without outcomes residuals are
        # predictions, taken off
        found = self._scored(
            (models[0], models[-1]),
            HeldRows(self.points(points), np.zeros(len(points)), np.arange(len(points))),
            replace(law, encoded=encoded, latent=latent, strata=strata),
            replace(task.measure, form="calibrated"),
        )
        return Changes(-found.left, found.moved, found.product)

    def rescored(self, scores: Scores, found: Corrected, task: Task) -> Scores:
        coordinates = self.law(task, ()).latent[np.searchsorted(task.explained, scores.rows)]
        pairs = (found.moved[0], found.moved[1], found.gaps[0], found.gaps[1])
        weights = task.weights.take(scores.rows)
        attributed, shares = self._attributed(
            found.law, pairs, coordinates, weights, task.fits.loss
        )
        again = replace(scores, latent=found.law, attributed=attributed, attribution=shares)
        return again if scores.unread is None else again.silenced(scores.unread)

    def received(self, attribution: Floats) -> Floats:
        del attribution
        return self.even_shares()

    def why_unprobed(self, n_rows: int) -> str | None:
        # probes take the transport as known, which with few rows would call noise significant
        if self.design.straight and FEWEST_PROBED * self.n_latent > n_rows:
            return f"there are fewer than {FEWEST_PROBED} rows for each column"
        return super().why_unprobed(n_rows)

    def map_influence(self, matrix: Floats) -> MapInfluence | None:
        if not self.correlations.of_sample:
            return None
        return MapInfluence(self.geometry, self.geometry.standardize(self.inner.encode(matrix)))

    def even_shares(self) -> Floats:
        squared, owner = self.geometry.attribution**2, self.inner.owner
        blocks = np.asarray(owner[:, None] == np.arange(len(self.inner.blocks)), dtype=float)
        return np.asarray(blocks.T @ squared @ blocks / blocks.sum(axis=0))

    def jackknife(self, scores: Scores, task: Task) -> Scores:
        folds = thin(task.folds, JACKKNIFE_ROWS, task.weights)
        read = [fold_lines(fold, task).models for fold in folds]
        if all(isinstance(self.line_model(model), LinearLines) for both in read for model in both):
            folds = thin(task.folds, LINEAR_ROWS, task.weights)
        few = min(JACKKNIFE_DONORS, task.options.donors or JACKKNIFE_DONORS)
        options = replace(task.options, donors=few)
        task = replace(task, options=options)
        thinned = replace(
            task,
            folds=folds,
            transport_error="ignore",
            advance=None,
            factors=kept_factors(scores, task),
        )
        width = task.matrix.shape[1]
        targets = self.targets(task)
        law = self.law(thinned, self.joints(targets, width))
        compared = np.unique(np.concatenate([fold.test for fold in folds]))
        weights = task.weights.take(compared)
        explained = np.count_nonzero(task.weights.values[scores.rows])
        base: list[Floats] = []
        squares: list[Floats] = []

        def rescore(refit: BlockTransport | None, rows: Ints | None) -> Floats:
            fitted = self if refit is None else refit
            joints = fitted.joints(targets, width)
            kept = law if refit is None else fitted.law(thinned, joints, like=law)
            mass = task.weights.values
            if rows is not None:
                # rows that were left out can lie anywhere where columns are nearly collinear
                mass = np.where(np.isin(np.arange(len(mass)), task.fits.rows[rows]), mass, 0.0)
            data = replace(task.fits.data, weights=replace(task.weights, values=mass))
            asked = replace(thinned, fits=replace(task.fits, data=data))
            # a refit has margins of its own, by which the models' rows are values again
            prepared = [
                tuple(_of_refits(fitted.line_model(model), task) for model in models)
                for models in read
            ]
            found = fitted._scores(asked, prepared, kept)
            values = np.hstack([found.latent, found.attributed])
            if refit is None:
                base.append(values)
                return weights.mean(values)
            inside = np.flatnonzero(mass[compared] == task.weights.values[compared])
            change, counted = (values - base[0])[inside], weights.take(inside)
            # a refit's change is a mean over some of the rows, and errs by those it leaves out
            left_out = 1.0 - len(inside) / explained
            squares.append(left_out * counted.standard_error(change) ** 2)
            return weights.mean(base[0]) + counted.mean(change)

        def noise() -> Floats:
            return np.asarray((len(squares) - 1) ** 2 * np.mean(squares, axis=0))

        found = jackknifed(scores, task, task.child(0), self.design, self, rescore, noise)
        return found if scores.unread is None else found.silenced(scores.unread)


def _of_refits(model: LineModel, task: Task) -> LineModel:
    """Return a model with few nodes, unless the caller set their number."""
    if task.options.nodes is not None:
        return model
    return with_nodes(model, lambda nodes: min(nodes, JACKKNIFE_NODES))


def _pooled_pairs(
    folds: Sequence[FoldModels], found: Sequence[UnitScores], mass: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the moved and remaining parts of both models, averaged over repeats by row."""

    def pooled(parts: Iterator[Floats]) -> Floats:
        return pool(folds, parts, mass)[1]

    return (
        pooled(part.moved[0] for part in found),
        pooled(part.moved[1] for part in found),
        pooled(part.left[0] for part in found),
        pooled(part.left[1] for part in found),
    )


def _covariance_of_means(first: Floats, second: Floats, weights: Weights) -> Floats:
    """Return the covariances of the means of columns that are centred."""
    if weights.dependence is None:
        return np.asarray((first * weights.mean_variances()[:, None]).T @ second)
    return np.asarray(weights.sums(first).T @ weights.sums(second))


def _linear_part(
    values: Sequence[Floats], coordinates: Floats, spread: Floats, weights: Weights
) -> tuple[Floats, Floats, Floats]:
    r"""Return row values of :math:`tr(M_a A)` for each ``a``, of :math:`tr A`, and ``gamma``.

    ``values`` (n, 1) are :math:`f - m` and :math:`y - f` of both models, whose means times the
    ``coordinates`` (n, r) are :math:`P^a, P^b, R^a, R^b`; ``spread`` the matrices :math:`M_a`,
    (units, r, r).
    """
    vectors = [each * coordinates for each in values]
    means = [weights.mean(rows) for rows in vectors]
    noise = [
        (each - (coordinates @ mean)[:, None]) * coordinates
        for each, mean in zip(values, means, strict=True)
    ]
    together = weights.settled(np.hstack(noise))
    directed, trace = np.zeros((len(coordinates), len(spread))), np.zeros(len(coordinates))
    identity = np.eye(coordinates.shape[1])[None]
    for k, j in ((0, 3), (1, 2), (0, 1)):
        one, other, at, to = vectors[k], vectors[j], means[k], means[j]
        chance = _covariance_of_means(noise[k], noise[j], together)
        for matrices, target in ((spread, directed), (identity, trace[:, None])):
            target += one @ (matrices @ to).T + other @ (matrices @ at).T
            target -= np.einsum("aij,i,j->a", matrices, at, to)
            target -= np.einsum("aij,ij->a", matrices, chance)
    return directed, trace, np.asarray(0.5 * (means[0] + means[1] + means[2] + means[3]))
