r"""The Brenier map: whitening followed by the gradient of a convex potential, the nonlinear twin.

.. math:: x \to s \text{ (margins, where the data ask)} \to w = L^{-1}\tilde s \to z = \nabla\psi(w)

It is order-free and identified: one convex problem with one optimum
(:mod:`dfi.transports.potential`), whose penalty :math:`\lambda` and margins are chosen by held-out
likelihood (:mod:`dfi.transports.held_out`). Units do not matter, since columns are standardised
first. Columns with levels stay linear: a heap of equal values has no density, and a likelihood
would give credit for finding it.

Units of several columns (categories, missing values, groups) are blocks of the linear map
(:mod:`dfi.transports.blocks`) and stay linear too: :math:`w` is whitened between units, the
potential bends the coordinates of single columns, and those of blocks pass through. Given all
other coordinates, :math:`z_{-b}` and :math:`w_{-b}` say the same, so a block is replaced, scored
and attributed as under the linear map.

Rows come back by Newton's method on the strongly convex potential. Scores are taken along the
curves of the decoder (:mod:`dfi.transports.curved`), of a sample of the rows where there are many,
and the map's own error comes from refits that keep penalty, directions and margins and start where
the first fit ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from dfi._data.weights import Weights
from dfi._lines.base import LineModel, Reference, blocks
from dfi._lines.closed_form import LinearLines, SumLines, as_linear, linear_part
from dfi._lines.quadrature import DEFAULT_NODES, QuadratureLines
from dfi._parameters import argument, validated_fields
from dfi._scoring.error import LineError, most_nodes, with_nodes
from dfi._scoring.forms import change_product, influence
from dfi._scoring.line_shares import Attribution, line_shares, node_variance
from dfi.transports.base import FittedTransport, Transport, UnsuitableTransportError, repeated_rows
from dfi.transports.blocks import BlockTransport, DonorLaw, HeldRows
from dfi.transports.curved import CurvedTransport, curve_nodes
from dfi.transports.gaussian import Gaussian, LinearTransport
from dfi.transports.held_out import (
    Gain,
    Search,
    coordinates_of,
    curved_columns,
    margins_of,
    scored,
    searched,
    valued,
    whitened,
)
from dfi.transports.potential import AGAIN, Potential, fit_potential

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._estimates.margins import Margin
    from dfi._scoring.donors import Joint
    from dfi._scoring.forms import Measure
    from dfi._scoring.task import Task
    from dfi._types import Floats, Ints, Plain
    from dfi.losses import Loss
    from dfi.transports.base import Layout

FIT_ROWS = 10_000
"""Rows that the potential is fitted to, a sample of more."""

REFIT_ROWS, REFIT_NODES = 120, 8
"""Rows and nodes of a curve by which refits are compared: a curve takes Newton's method."""

SHARE_NODES = 16
"""Nodes of a curve for the shares of its variance, where units are blocks."""

SCORED_ROWS = 2000
"""Rows that are scored by default, a random sample of more."""


@dataclass(frozen=True)
class Bent:
    """The potential of some columns, and what held-out rows said of it.

    ``positions`` are theirs in the matrix, ``curved`` those of their white coordinates.
    """

    positions: Ints
    curved: Ints
    potential: Potential
    penalty: float
    gain: Gain

    def latent(self, white: Floats) -> Floats:
        """Return the latent rows of white ones."""
        found = white.copy()
        found[:, self.curved] = self.potential.gradient(white[:, self.curved])[0]
        return found

    def white(self, latent: Floats) -> Floats:
        """Return the white rows of latent ones."""
        found = latent.copy()
        found[:, self.curved] = self.potential.inverse(latent[:, self.curved])
        return found

    def told(self, margins: int) -> Plain:
        """Return what a result reports."""
        return {
            "penalty": self.penalty,
            "margins": margins,
            "curved": len(self.curved),
            "gain": self.gain.mean,
            "gain_se": self.gain.error,
        }


@dataclass(frozen=True)
class BrenierTransport(CurvedTransport):
    """A fitted Brenier map of columns that are units of their own."""

    design: Transport
    margins: dict[int, Margin]
    linear: LinearTransport
    bent: Bent
    deviation: Floats
    reference: Reference

    refit_rows: ClassVar[int] = REFIT_ROWS
    refit_nodes: ClassVar[int | None] = REFIT_NODES

    @property
    def active(self) -> Ints:
        return self.linear.active

    @property
    def draws_latents(self) -> bool:
        return bool(self.linear.geometry.null.shape[1])

    def encode(self, matrix: Floats, generator: np.random.Generator | None = None) -> Floats:
        white = self.linear.encode(scored(matrix, self.margins))
        if generator is not None:
            white = self.linear.geometry.filled(white, generator)
        return self.bent.latent(white)

    def decode(self, latent: Floats) -> Floats:
        return valued(self.linear.decode(self.bent.white(latent)), self.margins)

    @cached_property
    def _scale(self) -> Floats:
        """The change of each feature, in its deviations, for one of its standardised score."""
        active = self.active
        return np.asarray(self.linear.geometry.scale[active] / self.deviation[active])

    def jacobian(self, latent: Floats) -> Floats:
        """Return the decoder's Jacobian (n, d, d): standardised feature ``l`` by latent ``j``."""
        white, curved = self.bent.white(latent), self.bent.curved
        inner = np.broadcast_to(np.eye(self.n_latent), (len(latent), *[self.n_latent] * 2)).copy()
        inside = np.ix_(np.arange(len(latent)), curved, curved)
        inner[inside] = np.linalg.inv(self.bent.potential.hessian(white[:, curved]))
        found = np.einsum("l,lk,nkj->nlj", self._scale, self.linear.geometry.decoder, inner)
        scores = self.linear.decode(white)
        for m, k in enumerate(self.active.tolist()):
            if k in self.margins:
                found[:, m] *= self.margins[k].slope(scores[:, k])[:, None]
        return np.asarray(found)

    def slopes(self, latent: Floats, j: int) -> Floats:
        return self.jacobian(latent)[:, :, j]

    def diagnostics(self, owner: Ints) -> Plain:
        return {**self.linear.diagnostics(owner), "brenier": self.bent.told(len(self.margins))}


@dataclass(frozen=True, kw_only=True)
class BrenierUnits(BlockTransport):
    """A fitted Brenier map between units; its donors give white coordinates, in scores."""

    margins: dict[int, Margin]
    bent: Bent
    deviation: Floats
    latent_law: Reference

    def points(self, matrix: Floats) -> Floats:
        return scored(matrix, self.margins)

    def encode(self, matrix: Floats, generator: np.random.Generator | None = None) -> Floats:
        return self.bent.latent(super().encode(self.points(matrix), generator))

    def decode(self, latent: Floats) -> Floats:
        return valued(super().decode(self.bent.white(latent)), self.margins)

    def draw(self, matrix: Floats, generator: np.random.Generator) -> Floats:
        return self.bent.latent(super().draw(self.points(matrix), generator))

    def couple(self, matrix: Floats, generator: np.random.Generator) -> Floats:
        return self.draw(matrix, generator)

    def moved(self, rows: Floats, latent: Floats, j: int, values: Floats) -> Floats:
        return self.moved_along(rows, latent, np.eye(self.n_latent)[j], values)

    def moved_along(
        self, rows: Floats, latent: Floats, direction: Floats, values: Floats
    ) -> Floats:
        shift = (values[None, :] - (latent @ direction)[:, None]).reshape(-1, 1)
        there = np.repeat(latent, len(values), axis=0) + shift * direction
        white = self.bent.white(there) - np.repeat(self.bent.white(latent), len(values), axis=0)
        points = np.repeat(self.points(rows), len(values), axis=0)
        return valued(points + white @ self.directions.T, self.margins)

    def diagnostics(self, owner: Ints) -> Plain:
        return {**super().diagnostics(owner), "brenier": self.bent.told(len(self.margins))}

    def law(
        self,
        task: Task,
        joints: Sequence[Joint],
        rows: Floats | None = None,
        like: DonorLaw | None = None,
    ) -> DonorLaw:
        """Return who gives to whom, in scores and white coordinates."""
        rows = task.matrix[task.explained] if rows is None else rows
        return super().law(task, joints, self.points(rows), like)

    def line_model(self, model: LineModel) -> LineModel:
        smooth = isinstance(model, LinearLines) or (
            isinstance(model, QuadratureLines) and model.quadrature == "gauss"
        )
        rule: Literal["gauss", "equal"] = "gauss" if smooth else "equal"
        if self.margins:
            return QuadratureLines(lambda rows: model.predict(valued(rows, self.margins)), rule)
        linear, slope = as_linear(model), linear_part(model)
        if linear is not None or slope is None:
            return QuadratureLines(model.predict, rule) if linear is None else linear
        apart = LinearLines(slope, 0.0)
        rest = QuadratureLines(lambda rows: model.predict(rows) - rows @ slope, rule)
        return SumLines((apart, rest), (1.0, 1.0))

    def _settled(
        self, task: Task, prepared: list[tuple[LineModel, ...]], law: DonorLaw
    ) -> tuple[list[tuple[LineModel, ...]], LineError | None]:
        asked = task.options.nodes
        if asked is not None:
            prepared = [
                tuple(with_nodes(model, lambda _: asked) for model in models) for models in prepared
            ]
        return super()._settled(task, prepared, law)

    def _along_lines(
        self,
        models: Sequence[LineModel],
        values: Sequence[Floats],
        held: HeldRows,
        law: DonorLaw,
        measure: Measure,
    ) -> tuple[Floats, Floats | float, Floats]:
        """Score rows of single coordinates along curves, which are straight in blocks alone."""
        y, points, white = held.y, held.points, law.latent[held.place]
        latent, value = self.bent.latent(white), np.stack(values)
        scores, product = np.zeros((2, len(points), len(law.joints)))
        moved = np.zeros((2, *scores.shape))
        for t, joint in enumerate(law.joints):
            j = int(joint.coordinates[0])
            nodes, weights = self._nodes(j, models)
            at_once = measure.memory // (4 * 8 * len(nodes) * points.shape[1])
            for part in blocks(len(points), at_once):
                curve = self._curve(latent[part], white[part], j, nodes)
                there = np.repeat(points[part], len(nodes), axis=0) + curve @ self.directions.T
                along = np.stack([model.predict(there) for model in models])
                means = along.reshape(len(models), -1, len(nodes)) @ weights
                known = value[:, part]
                scores[part, t] = influence(measure.form, y[part], known, means, measure.loss)
                if measure.form == "calibrated":
                    product[part, t] = change_product(known, means)
                moved[:, part, t] = known[[0, -1]] - means[[0, -1]]
        return scores, product, moved

    def _nodes(self, j: int, models: Sequence[LineModel]) -> tuple[Floats, Floats]:
        count = max(most_nodes(model) for model in models)
        rules = {_quadrature(model) for model in models}
        rule: Literal["gauss", "equal"] = "equal" if "equal" in rules else "gauss"
        return curve_nodes(self.latent_law, j, rule, count or DEFAULT_NODES[rule])

    def _curve(self, latent: Floats, white: Floats, j: int, nodes: Floats) -> Floats:
        """Return how white coordinates change along the curve of latent ``j``, row by row."""
        rows = np.repeat(latent, len(nodes), axis=0)
        rows[:, j] = np.tile(nodes, len(latent))
        if j in self.bent.curved:
            rows = self.bent.white(rows)
            return rows - np.repeat(white, len(nodes), axis=0)
        change = np.zeros_like(rows)
        change[:, j] = rows[:, j] - np.repeat(white[:, j], len(nodes))
        return change

    def _attributed(
        self,
        latent: Floats,
        pairs: tuple[Floats, Floats, Floats, Floats],
        coordinates: Floats,
        weights: Weights,
        loss: Loss,
    ) -> tuple[Floats, Floats]:
        """Return attributed influence values: single units have their curves' shares."""
        attributed, shares = super()._attributed(latent, pairs, coordinates, weights, loss)
        of_curves = self.bent.latent(coordinates)
        for b, own in enumerate(self.inner.places):
            if len(own) > 1 or not (own[0] in self.bent.curved or self.margins):
                continue
            received = self._received(of_curves, coordinates, int(own[0]), b)
            attributed += latent[:, [b]] * (received - shares[:, b])
            shares[:, b] = weights.mean(received)
        return attributed, shares

    def _received(self, latent: Floats, white: Floats, j: int, unit: int) -> Floats:
        """Return the units' parts of coordinate ``j`` in each row: shares of variance."""
        nodes, weights = curve_nodes(self.latent_law, j, "gauss", SHARE_NODES)
        inner, decoder = self.inner, self.geometry.decoder
        found = np.empty((len(latent), len(inner.blocks)))
        for part in blocks(len(latent), 2**22 // (len(nodes) * self.n_latent)):
            curve = np.repeat(white[part], len(nodes), axis=0)
            curve += self._curve(latent[part], white[part], j, nodes)
            within = curve @ decoder.T
            if self.margins:
                values = valued(inner.decode(within), self.margins)
                for block, place in zip(inner.blocks, inner.places, strict=True):
                    k = int(block.positions[0])
                    if k in self.margins:
                        within[:, place[0]] = values[:, k] / self.deviation[k]
            variance = node_variance(within.reshape(-1, len(nodes), self.n_latent), weights)
            of_units = np.add.reduceat(variance, [place[0] for place in inner.places], axis=1)
            found[part] = line_shares(of_units, np.eye(len(inner.blocks))[unit])
        return found


def _quadrature(model: LineModel) -> str:
    """Return by which rule a model is averaged, "gauss" for a linear one."""
    if isinstance(model, SumLines):
        return "equal" if "equal" in map(_quadrature, model.parts) else "gauss"
    return model.quadrature if isinstance(model, QuadratureLines) else "gauss"


@validated_fields
@dataclass(kw_only=True)
class Brenier(Transport):
    """The gradient of a convex potential: an optimal transport map, beyond linear ones.

    Parameters
    ----------
    penalty : float or "auto", default="auto"
        Weight of the roughness of the potential. ``"auto"`` maximises the likelihood of held-out
        rows; infinity gives the linear map of :class:`Gaussian`.
    margins : bool or "auto", default="auto"
        Whether columns become normal scores first. ``"auto"``: those whose held-out values are then
        clearly likelier.
    attribution : {"shares", "slopes"}, default="shares"
        What features receive of a latent score, as for :class:`Copula`.
    random_state : int or None, default=0
        Which rows are held out, and what collinear columns leave random in ``transform``.

    Notes
    -----
    Columns with levels and units of several columns (categories, missing values) keep straight
    lines. Needs at least as many rows as columns that vary. Above 2,000 rows scores are those of a
    random sample of 2,000, unless ``explain_rows`` says otherwise.

    Examples
    --------
    >>> import dfi, numpy as np
    >>> random = np.random.default_rng(0)
    >>> x = random.standard_normal(500)
    >>> X = np.column_stack([x, x**2 + 0.5 * random.standard_normal(500)])
    >>> transport = dfi.transports.Brenier().fit(X)
    >>> bool(np.abs(transport.inverse_transform(transport.transform(X)) - X).max() < 1e-8)
    True
    """

    penalty: float | Literal["auto"] = "auto"
    margins: bool | Literal["auto"] = "auto"
    attribution: Attribution = "shares"
    random_state: int | None = 0

    name: ClassVar[str] = "brenier"
    straight: ClassVar[bool] = False
    scored_rows: ClassVar[int | None] = SCORED_ROWS

    @property
    def disentangles_units(self) -> bool:
        """Whether units of several columns are blocks; the paper's slopes are of columns."""
        return self.attribution == "shares"

    def check_parameters(self) -> None:
        super().check_parameters()
        given: object = self.penalty
        number = isinstance(given, int | float | np.number) and not isinstance(given, bool)
        if given != "auto" and not (number and given >= 0):  # type: ignore[operator]
            raise ValueError(f"penalty must be a number of at least 0 or 'auto', got {given!r}")

    def fit_rows(self, matrix: Floats, weights: Weights, layout: Layout) -> FittedTransport:
        """Fit margins, whitening and potential; a refit keeps what was chosen for all rows."""
        constant, columns, like = layout.constant, layout.columns, layout.like
        d = int(np.sum(~constant))
        if np.count_nonzero(weights.values) < d:
            raise UnsuitableTransportError(
                f"{argument('transport', 'brenier')} needs at least as many rows as columns that "
                f"vary, and there are {np.count_nonzero(weights.values)} rows of {d}: use "
                f"{argument('transport', 'gaussian')}"
            )
        repeated = repeated_rows(weights)
        rows, mass = matrix, weights.values
        if repeated is not None:
            rows, mass = matrix[repeated], np.ones(len(repeated))
        units = columns if self.disentangles_units else None
        if isinstance(like, BrenierTransport | BrenierUnits):
            kept = tuple(like.margins)
            search = Search(kept, kept, like.bent.penalty, like.bent.gain, like.bent.gain)
            curved, start = like.bent.positions, like.bent.potential
        else:
            curved, start = curved_columns(rows, mass, constant, columns), None
            search = searched(
                rows, mass, curved, constant, np.random.SeedSequence(self.random_state or 0),
                columns=units,
                margins=None if self.margins == "auto" else self.margins,
                penalty=None if self.penalty == "auto" else float(self.penalty),
            )  # fmt: skip
        if not np.isfinite(search.penalty) and not search.margins:
            return Gaussian().fit_rows(matrix, weights, layout)
        margins = margins_of(rows, mass, search.margins)
        scores, counted = scored(rows, margins), Weights(mass, weights.kind)
        linear = whitened(scores, counted, constant, units, like)
        curved = curved if np.isfinite(search.penalty) else curved[:0]
        places = coordinates_of(linear, curved)
        white = linear.encode(scores)
        fitted = np.arange(len(white))
        if len(white) > FIT_ROWS:
            fitted = np.random.default_rng(0).permutation(len(white))[:FIT_ROWS]
        potential = fit_potential(
            white[np.ix_(fitted, places)], mass[fitted], search.penalty, start,
            **({} if start is None else {"iterations": AGAIN}),
        )  # fmt: skip
        share = mass / mass.sum()
        deviation = np.sqrt(share @ (rows - share @ rows) ** 2)
        bent = Bent(curved, places, potential, search.penalty, search.gain)
        generator = np.random.default_rng(0) if linear.geometry.null.shape[1] else None
        if generator is not None:
            white = linear.geometry.filled(white, generator)
        law = Reference.empirical(bent.latent(white), mass)
        if isinstance(linear, BlockTransport):
            return BrenierUnits(
                self, linear.active, linear.inner, linear.linear, margins=margins, bent=bent,
                deviation=deviation, latent_law=law,
            )  # fmt: skip
        return BrenierTransport(self, margins, linear, bent, deviation, law)

    def specification(self) -> Plain:
        return {
            "transport": "brenier",
            "transport_form": "gradient of a convex potential",
            "epsilon": 0.0,
            "cost": "squared euclidean on whitened features",
            "standardize": True,
            "penalty": self.penalty,
            "margins": self.margins,
            "attribution": self.attribution,
        }
