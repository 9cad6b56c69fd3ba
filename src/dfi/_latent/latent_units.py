"""Latent units of a fitted transport, for pairs and splits of features."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import TYPE_CHECKING

import numpy as np

from dfi._scoring.donors import Joint
from dfi._scoring.task import Task, fold_lines
from dfi.transports.blocks import BlockTransport
from dfi.transports.straight import StraightTransport

if TYPE_CHECKING:
    from dfi._lines.base import LineModel, Reference
    from dfi._scoring.geometry import Geometry
    from dfi._types import Floats, Ints
    from dfi.transports.base import FittedTransport

_LATENT = 11
"""Seed for the part that collinear columns leave undetermined."""


@dataclass(frozen=True)
class LatentUnits:
    """The explained rows of a task in the space where latent lines are straight, and its units.

    ``points`` (n, p) are the rows there, ``latent`` (n, d) their coordinates, with one draw of what
    collinear columns leave open; ``joints`` the units, each replaced as one; ``shares`` (units,
    units) what each receives of each latent one; ``models`` those of every fold.
    """

    points: Floats
    latent: Floats
    joints: tuple[Joint, ...]
    geometry: Geometry
    reference: Reference
    shares: Floats
    models: tuple[tuple[LineModel, ...], ...]

    @property
    def owner(self) -> Ints:
        found = np.empty(self.latent.shape[1], dtype=np.intp)
        for place, joint in enumerate(self.joints):
            found[joint.coordinates] = place
        return found


@singledispatch
def latent_units(transport: FittedTransport, *_: object) -> LatentUnits:
    """Return the latent units of a transport whose lines are straight."""
    raise TypeError(f"{type(transport).__name__} has no straight lines")


@latent_units.register(BlockTransport)
def _of_blocks(transport: BlockTransport, task: Task) -> LatentUnits:
    matrix, generator = task.matrix[task.explained], np.random.default_rng(task.child(_LATENT))
    read = [fold_lines(fold, task).models for fold in task.folds]
    count = len(transport.inner.blocks)
    return LatentUnits(
        matrix,
        transport.geometry.filled(transport.encode(matrix), generator),
        tuple(transport.joints([(k,) for k in range(count)], matrix.shape[1])),
        transport.geometry,
        transport.reference,
        unit_shares(transport),
        tuple(tuple(map(transport.line_model, models)) for models in read),
    )


@latent_units.register(StraightTransport)
def _of_coordinates(transport: StraightTransport, task: Task) -> LatentUnits:
    geometry, generator = transport.geometry, np.random.default_rng(task.child(_LATENT))
    points, directions = transport.points(task.matrix[task.explained]), geometry.directions
    return LatentUnits(
        points,
        geometry.filled(geometry.encode(points), generator),
        tuple(Joint(np.array([j]), directions[:, [j]]) for j in range(geometry.n_latent)),
        geometry,
        geometry.reference,
        unit_shares(transport),
        tuple(lines.models for lines in transport.lines_of(task.folds, task)),
    )


def unit_shares(transport: FittedTransport) -> Floats:
    """Return the share of each latent unit that each unit receives; columns add up to 1."""
    weights = transport.even_shares()
    total = weights.sum(axis=0)
    return np.asarray(np.divide(weights, total, out=np.eye(len(weights)), where=total > 0))
