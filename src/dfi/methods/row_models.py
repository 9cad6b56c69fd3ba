r"""Which models explain which row, and the spread between models of disjoint halves.

A row of the explained table is explained by the models that did not see it: the two of each fold
(and repeat) that held it out, the same that score it. A new row is explained by all of them. Every
model has the transport, the background and the base of the rows that it was fitted on itself, and
the answer is the mean,

.. math:: c_{il} = \frac1R \sum_r \tfrac12 (c^a_{il} + c^b_{il}), \qquad
          \text{spread}_{il} = \Big\{\frac1R \sum_r \tfrac14 (c^a_{il} - c^b_{il})^2\Big\}^{1/2},

over the ``R`` pairs of models that explain the row. The spread is that of models fitted on disjoint
halves, transport included. It does not see what all models get wrong alike (their bias), nor what
the formula leaves out: it is a spread, and not half of an interval.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from joblib import delayed

from dfi._data.levels import constant_columns
from dfi._data.problem import covering, group_blocks
from dfi._data.source import MatrixSource
from dfi._latent.players import LocalRows, explain_rows, players_of
from dfi._lines.choose import line_model
from dfi._models.learners import predicts_classes
from dfi._models.parallel import in_parallel
from dfi._parameters import argument
from dfi._scoring.forms import CROSSED
from dfi._scoring.task import SAMPLE_ROWS
from dfi.transports import resolve_transport
from dfi.transports.base import Layout
from dfi.warnings import ExactnessWarning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._data.columns import Column
    from dfi._lines.base import LineModel
    from dfi._models.fits import Fits
    from dfi._models.predictor import Predictor
    from dfi._types import Floats, Ints
    from dfi.methods.disentangled import Disentangled
    from dfi.transports.base import FittedTransport, Transport

LocalScale = Literal["response", "margin"]

FEWEST_ROWS = 3
"""Fewest rows for a correlation over rows."""

BACKGROUND = 200
"""Default number of rows that represent the others."""

MOST_BYTES = 1 << 30
"""Most memory for the numbers of all rows."""


@dataclass(frozen=True)
class RowModels:
    """Models that explain some rows, and the rows each was fitted on.

    ``rows`` are the places of the explained rows among those asked for, ``number`` is the fold's
    own, whichever rows these are.
    """

    number: int
    repeat: int
    rows: Ints
    models: tuple[LineModel, ...]
    trained: tuple[Ints, ...]


@dataclass(frozen=True)
class Explanation:
    """Explained rows, in the order requested.

    ``spread`` is that between models of disjoint halves, NaN where there is one model;
    ``higher_order`` what the formula left to divide, over the standard deviation of predictions;
    ``reliability`` the correlation over rows of two models' contributions; ``models`` says which
    models explain a row.
    """

    names: tuple[str, ...]
    values: Floats
    total: Floats
    spread: Floats
    base: Floats
    prediction: Floats
    higher_order: Floats
    reliability: Floats
    models: str

    @property
    def paired(self) -> bool:
        return bool(np.isfinite(self.spread).all())


def explain_locally(
    fits: Fits,
    method: Disentangled,
    matrix: Floats,
    *,
    held_out: Ints | None,
    refine: int | None,
    background: int,
    scale: LocalScale | None,
) -> Explanation:
    refuse_loss(fits)
    blocks = fits.data.blocks
    if method.additive and fits.data.groups is not None:
        blocks = group_blocks(covering(fits.data.groups), fits.table.columns)
    if blocks.targets is not None:
        raise ValueError(
            "local contributions need disjoint groups, because common columns would count twice: "
            f"explain with disjoint groups, or with {argument('units', 'columns')}"
        )
    design = straight_design(fits, method, blocks.columns, "local contributions are shared out")
    crossed = method.form_for(design, fits) in CROSSED
    uses = _uses(fits, crossed, held_out, len(matrix), method, scale)
    transports = _Transports(fits, design, blocks.columns)
    for use in uses:
        for trained in use.trained:
            transports.of(trained)
    jobs = (
        delayed(_explained)(
            transports.of(trained), model, fits, trained, blocks.columns, method,
            matrix[use.rows], refine, background, fits.child("local", use.number, half),
        )
        for use in uses
        for half, (model, trained) in enumerate(zip(use.models, use.trained, strict=True))
    )  # fmt: skip
    found = iter(list(in_parallel(jobs, fits.workers.n_jobs, threads=True, here=True)))
    parts = [(use, [next(found) for _ in use.models]) for use in uses]
    told = (
        "the model that was given"
        if fits.prefit
        else ("models that did not see the row" if held_out is not None else "all models")
    )
    return _pooled(parts, len(matrix), tuple(unit.name for unit in blocks.columns), told)


def refuse_loss(fits: Fits) -> None:
    if not fits.loss.has_generator:
        raise ValueError(
            "local contributions add up means along latent lines, but predictions under "
            f"{argument('loss', fits.loss.name)} are not means: explain with "
            f"{argument('loss', 'squared-error', 'brier', 'log-loss', 'poisson', 'gamma')}"
        )


def straight_design(
    fits: Fits, method: Disentangled, columns: Sequence[Column], what: str
) -> Transport:
    """Return the transport of the scores, or raise if it has no straight lines between rows."""
    design = resolve_transport(method.transport)
    if design.chooses:
        rows = fits.rows
        choice = design.choose(
            fits.data.matrix[rows], fits.weights.take(rows), fits.constant, columns,
            fits.child("auto"),
        )  # fmt: skip
        design = choice.design
    if design.epsilon > 0 or design.published:
        raise ValueError(
            f"{argument('transport', design.label())} blurs rows (epsilon > 0), but {what} along "
            "the lines of the rows themselves: explain with "
            f"{argument('transport', 'gaussian', 'copula')}"
        )
    if not design.straight:
        raise ValueError(
            f"{what} along straight latent lines, which {argument('transport', design.name)} does "
            f"not have: explain with {argument('transport', 'gaussian', 'copula')}"
        )
    return design


class _Transports:
    """The transport of each set of training rows, with what was selected on all rows."""

    def __init__(self, fits: Fits, design: Transport, columns: tuple[Column, ...]) -> None:
        self.fits, self.design, self.columns = fits, design, columns
        source = MatrixSource(fits.data.matrix, fits.weights, fits.rows)
        self.whole = design.fit_source(source, Layout(fits.constant, columns))
        if "qis" in self.whole.correlations.ranks:
            # rows do not return to themselves under QIS, nor would contributions to predictions
            self.design = design.by_sample()
            self.whole = self.design.fit_source(source, Layout(fits.constant, columns))
        self._made: dict[bytes, FittedTransport] = {}

    def of(self, rows: Ints) -> FittedTransport:
        if np.array_equal(rows, self.fits.rows):
            return self.whole
        key = rows.tobytes()
        if key not in self._made:
            data = self.fits.data
            constant, like = self.fits.constant, self.whole
            still = constant | constant_columns(data.matrix, rows[data.weights.values[rows] > 0])
            known: FittedTransport | None = like
            if not like.takes_constant and np.any(still != constant):
                # a column that does not vary here has no coordinate, and others no number of theirs
                constant, known = still, None
            self._made[key] = self.design.fit_matrix(
                data.matrix[rows],
                data.weights.take(rows),
                constant,
                columns=self.columns,
                like=known,
            )
        return self._made[key]


def _uses(
    fits: Fits,
    crossed: bool,
    held_out: Ints | None,
    count: int,
    method: Disentangled,
    scale: LocalScale | None,
) -> list[RowModels]:
    folds = fits.halves if crossed else fits.full
    found = []
    every = zip(folds, fits.trained_on(halves=crossed), strict=True)
    for number, (fold, trained) in enumerate(every):
        rows = np.arange(count)
        if held_out is not None:
            rows = np.flatnonzero(np.isin(held_out, fold.test))
        if len(rows):
            sample = fits.data.matrix[fold.test]
            sample = sample[:: max(1, len(sample) // SAMPLE_ROWS)]
            models = tuple(
                _read(_on_scale(predictor, fits, scale), sample, method)
                for predictor in fold.predictors
            )
            found.append(RowModels(number, fold.repeat, rows, models, trained))
    return found


def _on_scale(predictor: Predictor, fits: Fits, scale: LocalScale | None) -> Predictor:
    if scale is None or scale == fits.scale:
        return predictor
    if scale == "response":
        return replace(predictor, scale="probability")
    if fits.outcome.kind != "binary" or fits.member or not predicts_classes(predictor.model):
        raise ValueError(
            "scale='margin' explains the log-odds of a classifier of two classes, but these models "
            f"predict {_what(fits)}: leave scale at 'response'"
        )
    return replace(predictor, scale="margin", shrink=None, domain="real")


def _what(fits: Fits) -> str:
    if fits.member:
        return "one of several classes or outcomes"
    return (
        f"probabilities that are not a link of a margin ({argument('estimator', 'boosting')} and "
        "LogisticRegression have one)"
        if fits.outcome.kind == "binary"
        else "a quantity"
    )


def _read(predictor: Predictor, sample: Floats, method: Disentangled) -> LineModel:
    with warnings.catch_warnings():
        # said when the scores were computed
        warnings.simplefilter("ignore", ExactnessWarning)
        return line_model(predictor, sample, method.quadrature)


@dataclass(frozen=True)
class _OfModel:
    """Rows explained by one model, with its base and the deviation of its predictions."""

    rows: LocalRows
    base: float
    spread: float


def _explained(
    transport: FittedTransport,
    model: LineModel,
    fits: Fits,
    trained: Ints,
    columns: Sequence[Column],
    method: Disentangled,
    matrix: Floats,
    refine: int | None,
    background: int,
    seed: np.random.SeedSequence,
) -> _OfModel:
    noise, designs = seed.spawn(2)
    players = players_of(
        transport, model, fits.data.matrix[trained], fits.weights.take(trained), columns,
        method.quadrature, background=background, seed=noise,
    )  # fmt: skip
    rows = explain_rows(players, matrix, refine=refine, seed=designs)
    return _OfModel(rows, players.base, players.spread)


def _pooled(
    parts: Sequence[tuple[RowModels, Sequence[_OfModel]]],
    count: int,
    names: tuple[str, ...],
    told: str,
) -> Explanation:
    shape = count, len(names)
    values, total, square = np.zeros((3, *shape))
    base, prediction, higher, times = np.zeros((4, count))
    pairs: dict[int, list[tuple[Floats, Floats]]] = {}
    for use, models in parts:
        rows, share = use.rows, 1.0 / len(models)
        times[rows] += 1.0
        for model in models:
            values[rows] += share * model.rows.values
            total[rows] += share * model.rows.total
            base[rows] += share * model.base
            prediction[rows] += share * model.rows.prediction
            if model.spread > 0:
                higher[rows] += share * np.abs(model.rows.rest) / model.spread
        if len(models) > 1:
            first, second = models[0].rows.values, models[1].rows.values
            square[rows] += 0.25 * (first - second) ** 2
            pairs.setdefault(use.repeat, []).append((first, second))
    every = times[:, None]
    return Explanation(
        names=names,
        values=values / every,
        total=total / every,
        spread=np.sqrt(square / every) if pairs else np.full(shape, np.nan),
        base=base / times,
        prediction=prediction / times,
        higher_order=higher / times,
        reliability=_reliability(list(pairs.values()), len(names)),
        models=told,
    )


def _reliability(repeats: Sequence[Sequence[tuple[Floats, Floats]]], count: int) -> Floats:
    """Return the correlation over rows of two models' contributions, averaged over repeats.

    New rows meet every fold within a repeat: each of its pairs counts as rows of its own.
    """
    found = []
    for pairs in repeats:
        first = np.concatenate([pair[0] for pair in pairs])
        second = np.concatenate([pair[1] for pair in pairs])
        if len(first) < FEWEST_ROWS:
            continue
        first, second = first - first.mean(axis=0), second - second.mean(axis=0)
        size = np.sqrt(np.sum(first**2, axis=0) * np.sum(second**2, axis=0))
        covered = np.sum(first * second, axis=0)
        found.append(np.divide(covered, size, out=np.full(count, np.nan), where=size > 0))
    return np.mean(found, axis=0) if found else np.full(count, np.nan)
