"""Columns of pure noise put beside a table and scored like features."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import TYPE_CHECKING, cast

import numpy as np

from dfi._data.columns import Column
from dfi._lines.base import LineMoments, Lines
from dfi._scoring.jackknife import N_GROUPS, dealt, group_influence, with_transport_error
from dfi._scoring.lines import scores_along
from dfi._scoring.map_error import MapInfluence
from dfi._scoring.sensitivity import hermite_sensitivity
from dfi._scoring.task import read_models
from dfi.transports.base import Layout
from dfi.transports.blocks import BlockTransport
from dfi.transports.straight import StraightTransport

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfi._data.table import Table
    from dfi._data.weights import Weights
    from dfi._lines.base import LineModel
    from dfi._scoring.geometry import Geometry
    from dfi._scoring.task import Task
    from dfi._types import Bools, Floats, Ints
    from dfi.transports.base import FittedTransport


MOST_LEVELS = 20
"""A category with more levels is not copied where there is a smaller one."""

SHARE_OF_LINES = 0.1
"""Lines of the probes, at most, for each line of the features."""

FEWEST_ROWS, MOST_ROWS = 200, 2000
"""Rows on which probes are scored."""


def named_seed(seed: np.random.SeedSequence, name: str) -> np.random.SeedSequence:
    """Return a child of a seed that depends on a name only, not on what was spawned before it."""
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, *name.encode()))


@dataclass(frozen=True)
class ProbedTable:
    """The explained rows with probe columns on the right; ``probes``: kind, model, columns."""

    table: Table
    units: tuple[Column, ...]
    constant: Bools
    probes: tuple[tuple[str, str | None, tuple[int, ...]], ...]

    @property
    def n_columns(self) -> int:
        return sum(len(positions) for _, _, positions in self.probes)


def probed_table(
    table: Table,
    units: tuple[Column, ...],
    rows: Ints,
    weights: Weights,
    constant: Bools,
    seed: np.random.SeedSequence,
) -> ProbedTable:
    """Add probes to the explained ``rows``: each draws from a seed named after it."""
    matrix = table.matrix[rows]
    counted = np.flatnonzero(weights.values > 0)
    width = matrix.shape[1]
    normal = np.random.default_rng(named_seed(seed, "normal")).standard_normal(len(rows))
    blocks, masks = [normal[:, None]], [np.zeros(1, dtype=bool)]
    taken = [*table.names, *(unit.name for unit in units)]
    first = _new_name("probe normal", taken)
    columns = [Column(first, first, "real", (), (width,))]
    kinds: list[tuple[str, str | None]] = [("normal", None)]
    for kind, unit in _models_of_probes(units, matrix, constant).items():
        source = units[unit]
        positions = list(source.positions)
        order = np.random.default_rng(named_seed(seed, kind)).permutation(counted)
        block = matrix[:, positions].copy()
        block[counted] = block[order]
        start = width + sum(part.shape[1] for part in blocks)
        name = _new_name(f"probe {kind}", taken)
        places = tuple(range(start, start + len(positions)))
        columns.append(replace(source, name=name, label=name, positions=places))
        blocks.append(block)
        masks.append(constant[positions])
        kinds.append((kind, source.name))
    return ProbedTable(
        table=replace(
            table,
            matrix=np.concatenate([matrix, *blocks], axis=1),
            columns=(*table.columns, *columns),
            present=None if table.present is None else table.present[rows],
        ),
        units=(*units, *columns),
        constant=np.concatenate([constant, *masks]),
        probes=tuple(
            (kind, like, column.positions)
            for (kind, like), column in zip(kinds, columns, strict=True)
        ),
    )


def _new_name(name: str, taken: Sequence[str]) -> str:
    """Return a name that no column has, as designs may refer to columns by name."""
    while name in taken:
        name += "_"
    return name


def _models_of_probes(units: tuple[Column, ...], matrix: Floats, constant: Bools) -> dict[str, int]:
    """Return the unit to copy for each kind: the one with most values, or most levels."""
    found: dict[str, tuple[tuple[bool, int], int]] = {}
    for unit, column in enumerate(units):
        if constant[list(column.positions)].all():
            continue
        if column.width > 1:
            kind = "category" if column.kind == "categorical" else "several columns"
            # with a cap: a probe of 500 levels would cost as much as 500 columns
            size = (column.width <= MOST_LEVELS, min(column.width, MOST_LEVELS))
            size = size if size[0] else (False, -column.width)
        else:
            kind = "real" if column.kind == "real" else "levels"
            size = (True, len(np.unique(matrix[:, column.positions[0]])))
        if kind not in found or size > found[kind][0]:
            found[kind] = (size, unit)
    return {kind: unit for kind, (_, unit) in found.items()}


@dataclass(frozen=True)
class ReadFold:
    """Rows that a fold holds out, and its models as functions that can be averaged along lines."""

    rows: Ints
    models: tuple[LineModel, ...]


def read_some_folds(
    task: Task, n_probes: int, n_latent: int, seed: np.random.SeedSequence
) -> tuple[ReadFold, ...]:
    """Read as many folds as keep the probes' lines a small share of the features'."""
    lines = SHARE_OF_LINES * len(task.explained) * n_latent
    missing = int(np.clip(lines / n_probes, FEWEST_ROWS, MOST_ROWS))
    found: list[ReadFold] = []
    mass, seeds = task.weights.values, named_seed(seed, "lines of probes").spawn(len(task.folds))
    for fold, child in zip(task.folds, seeds, strict=True):
        if missing <= 0 or fold.repeat > 0:
            break
        rows = fold.test[mass[fold.test] > 0]
        if len(rows) == 0:
            continue
        rows = rows[np.unique(np.linspace(0, len(rows) - 1, missing).astype(np.intp))]
        with warnings.catch_warnings():
            # What there is to say about how a model is read was said when it was scored.
            warnings.simplefilter("ignore")
            models = read_models(fold, task, child.spawn(len(fold.predictors)))
        found.append(ReadFold(rows, tuple(models)))
        missing -= len(rows)
    return tuple(found)


@dataclass(frozen=True)
class ProbeScores:
    """Influence values of the probes' scores, (n, 2 probes); ``refits`` adds the map's error."""

    values: Floats
    weights: Weights
    refits: Callable[[], Floats] | None = None


@singledispatch
def score_probes(transport: FittedTransport, *_: object) -> ProbeScores:
    """Fit the transport again with the probes, among the rows of the task, and score them."""
    raise TypeError(f"{type(transport).__name__} has no straight lines")


@score_probes.register(StraightTransport)
def _along_lines(
    transport: StraightTransport,
    probed: ProbedTable,
    latent_influence: Floats,
    folds: Sequence[ReadFold],
    task: Task,
    stretch: float,
) -> ProbeScores:
    rows, weights, matrix = task.explained, task.weights, probed.table.matrix
    layout = Layout(probed.constant, probed.units)
    explained = weights.take(rows)
    found = transport.design.fit_rows(matrix, explained, layout)
    fitted = cast("StraightTransport", found)
    geometry, points = fitted.geometry, fitted.points(matrix)
    used = np.searchsorted(rows, np.concatenate([fold.rows for fold in folds]))
    chosen = weights.take(rows[used])
    coordinates = np.flatnonzero(geometry.active >= task.matrix.shape[1])
    latent = geometry.encode(points[used])
    slopes = fitted.margin_slopes(latent, coordinates, chosen)
    read = [
        (fold.rows, transport.points(task.matrix[fold.rows]), transport.line_models(fold.models))
        for fold in folds
    ]
    along = _along_probes(geometry, latent, coordinates, read, task)
    probe_influence, sensitivity = (stretch * part for part in along)
    phi = np.concatenate([explained.mean(latent_influence), chosen.mean(probe_influence)])
    influence = np.concatenate([latent_influence[used], probe_influence], axis=1)
    identity = np.eye(geometry.n_latent)[:, coordinates]
    own = geometry.attribution[coordinates]
    attributed = np.zeros((len(used), len(coordinates)))
    if not task.fixed:
        moved = MapInfluence(geometry, geometry.standardize(points[used]))
        influence[:, coordinates] += 2.0 * moved.on_map(sensitivity, identity)
        attributed += 2.0 * geometry.weight_factor * moved.on_decoder(identity, (own * phi).T)
    attributed += influence @ (own**2).T
    attributed *= slopes
    positions = geometry.active[coordinates]
    membership = np.array(
        [[at in probe for _, _, probe in probed.probes] for at in positions], dtype=float
    )
    both = np.concatenate([influence[:, coordinates] @ membership, attributed @ membership], axis=1)
    return ProbeScores(both, chosen)


@score_probes.register(BlockTransport)
def _among_units(
    transport: BlockTransport,
    probed: ProbedTable,
    latent_influence: Floats,
    folds: Sequence[ReadFold],
    task: Task,
    stretch: float,
) -> ProbeScores:
    """Score probes under a transport between units."""
    matrix, layout = probed.table.matrix, Layout(probed.constant, probed.units, single=True)
    width, explained = task.matrix.shape[1], task.weights.take(task.explained)
    found = transport.design.fit_rows(matrix, explained, layout)
    transport = cast("BlockTransport", found)
    added = [k for k, unit in enumerate(transport.inner.blocks) if unit.positions[0] >= width]
    features = [k for k in range(len(transport.inner.blocks)) if k not in added]
    rows = np.concatenate([fold.rows for fold in folds])
    place = np.searchsorted(task.explained, rows)
    targets, silent = [(k,) for k in added], replace(task.measure, advance=None)
    kept = transport.law(task, transport.joints(targets, width), matrix)

    def scored(fitted: BlockTransport) -> Floats:
        law = fitted.law(task, fitted.joints(targets, width), matrix, like=kept)
        held = [fitted.held(task, fold.rows) for fold in folds]
        found = [
            fitted.fold_scores(fold.models, own, law, silent)
            for fold, own in zip(folds, held, strict=True)
        ]
        influence = stretch * np.concatenate([scores.influence for scores in found])
        shares = fitted.even_shares()[added]
        attributed = influence @ shares[:, added].T
        if task.by_unit:
            attributed += latent_influence[place] @ shares[:, features].T
        return np.concatenate([influence, attributed], axis=1)

    both, chosen = scored(transport), task.weights.take(rows)
    # every group is to have rows that are scored; half of the features' are enough for a warning
    groups = dealt(explained, task.child(6), place, most=N_GROUPS // 2)
    count = int(groups.max()) + 1

    def refits() -> Floats:
        changes: list[Floats] = []

        def rescore(keep: Ints) -> Floats:
            refit = Layout(probed.constant, probed.units, transport)
            fitted = transport.design.fit_rows(matrix[keep], explained.take(keep), refit)
            changes.append(scored(cast("BlockTransport", fitted)) - both)
            return chosen.mean(changes[-1])

        psi = group_influence(groups, rescore, np.zeros(both.shape[1]))
        noise = np.mean([chosen.standard_error(change) ** 2 for change in changes], axis=0)
        return with_transport_error(both, chosen, groups[place], psi, (count - 1) ** 2 * noise)

    return ProbeScores(both, chosen, None if task.fixed or count < 2 else refits)


def _along_probes(
    geometry: Geometry,
    latent: Floats,
    coordinates: Ints,
    folds: Sequence[tuple[Ints, Floats, list[LineModel]]],
    task: Task,
) -> tuple[Floats, Floats]:
    """Return the probes' latent influence values, and the sensitivities of their line means."""
    directions = geometry.directions[: task.matrix.shape[1], coordinates]
    moving = np.flatnonzero(np.any(directions != 0.0, axis=0))
    influence = np.zeros((len(latent), len(coordinates)))
    sensitivity = np.zeros((geometry.n_latent, len(coordinates)))
    if len(moving) == 0:
        return influence, sensitivity
    chosen = coordinates[moving]
    offsets, nodes = geometry.offsets
    found: list[list[LineMoments]] = []
    start = 0
    for rows, points, models in folds:
        part = slice(start, start + len(rows))
        start = part.stop
        lines = Lines(
            points,
            np.ascontiguousarray(latent[part][:, chosen]),
            np.ascontiguousarray(directions[:, moving]),
            geometry.reference.only(chosen),
            np.ascontiguousarray(offsets[:, chosen]),
        )
        # noise is what two models do not agree about: its factor in the calibrated form is 1
        influence[part, moving], _, moments = scores_along(
            models, lines, task.y[rows], nodes, form=task.form, loss=task.fits.loss
        )
        found.append(moments)
    mass = task.weights.values[np.concatenate([rows for rows, _, _ in folds])]
    share = mass / mass.sum()
    half_slope = task.fits.loss.half_slope if task.fits.loss.has_generator else np.asarray
    first, last = (
        LineMoments(
            half_slope(np.concatenate([moments[end].mean for moments in found])),
            np.concatenate([moments[end].hermite for moments in found]),
        )
        for end in (0, -1)
    )
    sensitivity[:, moving] = 0.5 * (
        hermite_sensitivity(latent, share, chosen, first.hermite, last.mean)
        + hermite_sensitivity(latent, share, chosen, last.hermite, first.mean)
    )
    return influence, sensitivity
