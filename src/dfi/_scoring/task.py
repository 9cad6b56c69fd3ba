"""What is asked of the fitted models, and the models of folds as functions along lines."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from dfi._lines.choose import Quadrature, line_model
from dfi._scoring.error import unspent
from dfi._scoring.forms import Measure, ScoreForm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from dfi._data.problem import Blocks
    from dfi._data.source import RowSource
    from dfi._data.weights import Weights
    from dfi._lines.base import LineModel
    from dfi._models.crossfit import FoldModels
    from dfi._models.fits import Fits
    from dfi._models.predictor import Predictor
    from dfi._scoring.geometry import Geometry
    from dfi._scoring.lines import LineScores, Passes
    from dfi._types import Advance, Floats, Ints

TransportError = Literal["auto", "derived", "finite-difference", "jackknife", "ignore"]
"""How the transport's own error enters the standard errors; ``"auto"`` checks the short cut."""

SAMPLE_ROWS = 200


@dataclass(frozen=True, eq=False)
class LineModels:
    """The line models of fitted models, read once per task.

    Following trees and comparing them with the model's own predictions can take longer than their
    line means. Draws are another thing: each reading has its own seed. Where ``_scored`` is
    given, scores of folds are kept as well, for tasks that have more of them.
    """

    _read: dict[object, tuple[Predictor, LineModel]] = field(default_factory=dict)
    _scored: dict[object, tuple[FoldLines, Geometry, LineScores]] | None = None

    def of(
        self,
        predictor: Predictor,
        sample: Floats,
        options: Quadrature,
        seed: np.random.SeedSequence,
    ) -> LineModel:
        """Return a model that can be averaged along lines, compared with itself on the sample."""
        if options.rule == "draws":
            return line_model(predictor, sample, options, seed=seed)
        key = id(predictor), options
        if key not in self._read:
            model = line_model(predictor, sample, options, seed=seed)
            # The predictor is kept so that nothing else gets its identity.
            self._read[key] = predictor, model
        return self._read[key][1]

    def scores(
        self,
        lines: FoldLines,
        geometry: Geometry,
        asked: tuple[ScoreForm, str, Passes],
        compute: Callable[[], LineScores],
    ) -> LineScores:
        """Return the scores of a fold, computed once where they are kept."""
        if self._scored is None:
            return compute()
        form, loss, passes = asked
        how = form, loss, replace(passes, seed=None, advance=None)
        key = id(lines.fold), *map(id, lines.models), id(geometry), how
        if key not in self._scored:
            # what has an identity is kept, so that nothing else gets it
            self._scored[key] = lines, geometry, compute()
        elif passes.advance is not None:
            passes.advance(len(lines.fold.test))
        return self._scored[key][-1]

    def keeping_no_scores(self) -> LineModels:
        """Return the same readings for refits, whose scores nobody asks for again."""
        return self if self._scored is None else LineModels(self._read)

    def __reduce__(self) -> tuple[type[LineModels], tuple[()]]:
        # Whoever is sent these reads the models that they need.
        return LineModels, ()


@dataclass(frozen=True)
class Task:
    """What scoring needs besides the transport: the fits, and what is asked of them.

    The transport was fitted on the rows of the ``fits``, or on those of a ``population``: a table
    that is large, or not in memory. ``sample`` are the rows that are explained, where these are not
    all, with the rows of the ``folds`` among them. ``settled`` tells that these are further rows of
    a sample, whose first rows have settled nodes and differences. ``transport_error="auto"`` is the
    Hermite short cut with differences on a sample of the rows beside it. ``blocks`` are what is
    disentangled. With ``additive`` single units are scored even where they have targets: their
    parts of what is explained add up, and targets get shares of them. ``factors`` (folds, scores)
    are those of the calibrated form where they are known, as for refits of the transport.
    """

    fits: Fits
    folds: Sequence[FoldModels]
    blocks: Blocks
    form: ScoreForm
    options: Quadrature
    transport_error: TransportError
    advance: Advance | None = None
    additive: bool = False
    factors: Floats | None = None
    readings: LineModels = field(default_factory=LineModels, repr=False, compare=False)
    sample: Ints | None = None
    settled: bool = False
    population: RowSource | None = None

    @property
    def matrix(self) -> Floats:
        return self.fits.data.matrix

    @property
    def y(self) -> Floats:
        return self.fits.data.y

    @property
    def weights(self) -> Weights:
        return self.fits.data.weights

    @property
    def explained(self) -> Ints:
        return self.fits.rows if self.sample is None else self.sample

    @property
    def n_fitted(self) -> int:
        return len(self.fits.rows) if self.population is None else self.population.n_rows

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(unit.name for unit in self.blocks.targets or self.blocks.columns)

    @property
    def by_unit(self) -> bool:
        return self.blocks.targets is None or self.additive

    @property
    def fixed(self) -> bool:
        return self.transport_error == "ignore"

    @property
    def places(self) -> Ints:
        """The places of the explained rows in the population."""
        places = self.fits.data.places
        if places is not None:
            return places[self.explained]
        return np.searchsorted(self.fits.rows, self.explained)

    @property
    def total(self) -> float:
        """The effective number of observations that the transport was fitted on."""
        if self.population is not None:
            return self.population.total
        return self.weights.take(self.fits.rows).total

    @property
    def share(self) -> float:
        """The share of the transport's observations that are explained."""
        if self.sample is None and self.population is None:
            return 1.0
        return min(1.0, self.weights.take(self.explained).total / self.total)

    @property
    def measure(self) -> Measure:
        return Measure(self.form, self.fits.loss, self.options.memory, self.advance)

    def names_at(self, positions: Ints) -> list[str]:
        """Return the names of some columns of the matrix."""
        names = self.fits.table.matrix_names
        return [names[k] for k in positions]

    def child(self, number: int) -> np.random.SeedSequence:
        """Return a seed for random encoders, or for the jackknife's groups."""
        seed = self.fits.child("transport")
        return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, number))


@dataclass(frozen=True)
class FoldLines:
    """A fold with its models averaged along lines, in the space where lines are straight."""

    fold: FoldModels
    models: tuple[LineModel, ...]
    kernel_seed: np.random.SeedSequence
    rule: str

    def with_models(self, models: Iterable[LineModel]) -> FoldLines:
        own = tuple(models)
        return replace(self, models=own, rule=own[0].rule)

    def __getstate__(self) -> dict[str, object]:
        # Workers are sent the models as lines need them, and not beside that as they were fitted.
        return {**self.__dict__, "fold": replace(self.fold, predictors=())}


def fold_lines(fold: FoldModels, task: Task) -> FoldLines:
    """Read the models of a fold into their best form, with their own seeds."""
    kernel_seed, *draw_seeds = unspent(fold.seed).spawn(1 + len(fold.predictors))
    models = tuple(read_models(fold, task, draw_seeds))
    return FoldLines(fold, models, kernel_seed, models[0].rule)


def read_models(
    fold: FoldModels, task: Task, seeds: Sequence[np.random.SeedSequence]
) -> list[LineModel]:
    """Read models, compared with their own predictions on some of the held-out rows."""
    held_out = task.matrix[fold.test]
    sample = held_out[:: max(1, len(held_out) // SAMPLE_ROWS)]
    return [
        task.readings.of(predictor, sample, task.options, seed)
        for predictor, seed in zip(fold.predictors, seeds, strict=True)
    ]
