"""The best way to average a given model along lines: closed form, exact trees, or quadrature."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import StackingRegressor, VotingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import GammaRegressor, LogisticRegression, PoissonRegressor
from sklearn.model_selection._search import BaseSearchCV
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVR, NuSVR

from dfi._learners.boosting import BoostedResiduals, ObliqueBoosting
from dfi._learners.families import Link
from dfi._learners.linked import BoostedMargins, LinkedBoosting, LinkedObliqueBoosting
from dfi._learners.stack import SuperLearner
from dfi._learners.temperature import TemperatureScaled
from dfi._lines.closed_form import (
    LINEAR_MODELS,
    BoundedLines,
    HingeLines,
    LinearLines,
    MappedLines,
    SumLines,
    bounded_lines,
    hinge_lines,
    linear_lines,
)
from dfi._lines.linked import LinkedLines, TreeMargin, linked_lines, smooth_margin
from dfi._lines.quadrature import DEFAULT_MEMORY, QuadratureLines, QuadratureRule
from dfi._lines.trees.ensemble import Unreadable
from dfi._lines.trees.model import (
    TreeLines,
    decoded_tree_lines,
    gap_tree_lines,
    levelled_trees,
    tree_lines,
)
from dfi._lines.trees.pipelines import SCALERS
from dfi._lines.trees.readers import read_trees, scaled_trees, verify
from dfi._models.encoders import reads_raw_columns
from dfi._parameters import validated_fields
from dfi.warnings import ExactnessWarning, warn

if TYPE_CHECKING:
    from dfi._data.levels import Levels
    from dfi._lines.base import LineModel
    from dfi._models.predictor import Predictor
    from dfi._types import Floats, Ints

SMOOTH_MODELS = (
    GammaRegressor,
    GaussianProcessRegressor,
    KernelRidge,
    LogisticRegression,
    NuSVR,
    PoissonRegressor,
    SVR,
)


@validated_fields
@dataclass(frozen=True)
class Quadrature:
    """How averages along latent lines are taken: ``integration=Quadrature("gauss", nodes=64)``.

    Parameters
    ----------
    rule : {"auto", "equal", "gauss", "draws"}, default="auto"
        ``"auto"`` takes the exact way where there is one, and quadrature fitted to the model
        otherwise; any other forces that quadrature. ``"draws"`` reproduces the paper's random
        replacement values.
    nodes : int, optional
        Nodes, or draws, per line. By default 16 or 32, and up to sixteen times as many where
        scores still change; a number given here is kept, and its error measured and reported.
    memory : int, default=2**28
        Bound in bytes on the rows that a model is asked to predict at once.
    donors : int, optional
        Rows that give their values to each row, where a unit of several columns (a category, a
        group) is replaced as one; the error of so few is corrected for. By default 8, and up to 64
        where there are fewer than 2,048 rows.

    Examples
    --------
    >>> dfi.Quadrature("gauss", nodes=32).rule
    'gauss'
    """

    rule: QuadratureRule | Literal["auto"] = "auto"
    nodes: int | None = None
    memory: int = DEFAULT_MEMORY
    donors: int | None = None


def line_model(
    predictor: Predictor,
    sample: Floats,
    options: Quadrature,
    seed: np.random.SeedSequence | None = None,
) -> LineModel:
    """Return the line averages of a fitted model."""
    if isinstance(predictor.model, BaseSearchCV):
        predictor = replace(predictor, model=predictor.model.best_estimator_)
    if predictor.shrink is not None:
        share, level = predictor.shrink
        plain = replace(predictor, shrink=None, domain="real")
        inner = line_model(plain, sample, options, seed)
        return SumLines((inner,), (1.0 - share,), share * level)
    if options.rule == "auto":
        exact = _read(predictor, sample, options)
        if exact is not None:
            return exact
    return _quadrature(predictor, options, seed)


def _quadrature(
    predictor: Predictor, options: Quadrature, seed: np.random.SeedSequence | None = None
) -> QuadratureLines:
    """Return the requested quadrature, or the one that fits the model."""
    rule: QuadratureRule
    if options.rule == "auto":
        # Where rows are decoded to levels every model jumps.
        smooth = predictor.reads_matrix and not predictor.levels and is_smooth(predictor.model)
        rule = "gauss" if smooth else "equal"
    else:
        rule = options.rule
    return QuadratureLines(predictor, rule, options.nodes, options.memory, seed)


def is_smooth(model: object) -> bool:
    """Return whether a model is smooth along lines, so a Gauss rule converges quickly."""
    if isinstance(model, TemperatureScaled):
        model = model.model_
    if isinstance(model, Pipeline):
        model = model.steps[-1][1]
    if isinstance(model, MLPRegressor):
        return model.activation in ("tanh", "logistic", "identity")
    return isinstance(model, SMOOTH_MODELS)


def _read(predictor: Predictor, sample: Floats, options: Quadrature) -> LineModel | None:
    """Return an exact or closed form of the model, or None where it has none."""
    model = predictor.model
    if isinstance(model, TemperatureScaled):
        return _scaled_trees(model, predictor, sample)
    closed = _closed_form(predictor, sample)
    if closed is not None:
        return closed
    members = _members(model)
    if isinstance(model, TransformedTargetRegressor) and members is None:
        _warn_not_followed(model)
        return None
    if members is None:
        return _trees(predictor, sample)
    return _sum(members, predictor, sample, options)


def _closed_form(predictor: Predictor, sample: Floats) -> LineModel | None:
    if not predictor.reads_matrix:
        return _linear_pipeline(predictor, sample)
    model, width = predictor.model, sample.shape[1]
    found: LineModel | None = linear_lines(model, width)
    found = found or hinge_lines(model) or bounded_lines(model) or linked_lines(model, width)
    agrees = found is not None and _agrees(found.predict(sample), predictor(sample))
    return found if agrees else None


def _linear_pipeline(predictor: Predictor, sample: Floats) -> LinearLines | None:
    """Return a linear regression behind encoders, from predictions that change one column."""
    model, levels = predictor.model, predictor.levels
    is_linear = isinstance(model, Pipeline) and isinstance(model.steps[-1][1], LINEAR_MODELS)
    if not is_linear or levels.gaps or not len(sample):
        return None
    base, far = sample[0], np.argmax(np.abs(sample - sample[0]), axis=0)
    other = sample[far, np.arange(len(base))]
    for grid in levels.grids:
        ends = grid.values[[0, -1]]
        other[grid.position] = ends[np.argmax(np.abs(ends - base[grid.position]))]
    rows = np.where(np.eye(len(base), dtype=bool), other, base)
    for block in levels.blocks:
        rows[np.ix_(block.positions, block.positions)] = np.eye(len(block.positions))
        other[block.positions] = 1.0 + base[block.positions]  # a level is a step from none of them
    asked = np.flatnonzero(other != base)
    kept = np.setdiff1d(asked, _unobserved(levels))
    answers = predictor(np.vstack([base, rows[kept]]))
    coefficients = np.zeros(len(base))
    coefficients[kept] = (answers[1:] - answers[0]) / (other - base)[kept]
    linear = LinearLines(coefficients, float(answers[0] - base @ coefficients))
    return linear if _agrees(linear.predict(sample), predictor(sample)) else None


def _unobserved(levels: Levels) -> Ints:
    """Return the columns of levels that do not occur."""
    gone = [np.setdiff1d(block.positions, block.observed) for block in levels.blocks]
    return np.concatenate([*gone, np.zeros(0, dtype=np.intp)])


def _trees(predictor: Predictor, sample: Floats) -> LineModel | None:
    if isinstance(predictor.model, ObliqueBoosting | LinkedObliqueBoosting):
        return _oblique_trees(predictor.model, predictor, sample)
    if isinstance(predictor.model, LinkedBoosting | BoostedMargins):
        return _linked_trees(predictor.model, predictor, sample)
    # Where a value is missing a split sends the row by its default, or by the fill, not by the
    # value that the line gives it. What a pipeline makes of missing values is unknown.
    if predictor.levels.gaps and (predictor.view != "frame" or not _reads_levels(predictor)):
        return gap_tree_lines(predictor, sample)
    if predictor.reads_matrix:
        column, margin = predictor.explained_class, predictor.scale == "margin"
        return tree_lines(
            predictor.model,
            predictor,
            sample,
            levels=predictor.levels,
            column=column,
            margin=margin,
        )
    return decoded_tree_lines(predictor, sample)


def _scaled_trees(
    model: TemperatureScaled, predictor: Predictor, sample: Floats
) -> LineModel | None:
    """Return the trees of a classifier inside, with its probabilities scaled."""
    lines = _trees(replace(predictor, model=model.model_), sample)
    if not isinstance(lines, TreeLines):
        return None
    is_margin = predictor.scale == "margin"
    try:
        ensemble = scaled_trees(lines.ensemble, model, predictor.explained_class, margin=is_margin)
    except Unreadable as reason:
        warn(f"{predictor.name}: {reason}; its line means use quadrature", ExactnessWarning)
        return None
    lines = replace(lines, ensemble=ensemble)
    error = verify(ensemble, predictor, sample, read=lines.predict)
    return lines if error <= ensemble.tolerance else None


def _linked_trees(
    model: LinkedBoosting | BoostedMargins, predictor: Predictor, sample: Floats
) -> LineModel | None:
    """Return the lines of trees behind a link, alone or after a smooth margin."""
    boosting = model.boosting_ if isinstance(model, BoostedMargins) else model
    link = Link(boosting.family).kind
    ensemble, _ = read_trees(boosting)
    if ensemble is None or not predictor.reads_matrix:
        return None
    trees = levelled_trees(ensemble, boosting, sample, predictor.levels)
    lines: LineModel
    if isinstance(model, BoostedMargins):
        base = smooth_margin(model.base_)
        smooth = base if isinstance(base, HingeLines) else BoundedLines(base, *model.base_.bounds_)
        lines = LinkedLines(TreeMargin(smooth, trees), link, model.bounds_)
    else:
        lines = _behind(trees, boosting)
    return lines if _agrees(lines.predict(sample), predictor(sample)) else None


def _behind(trees: TreeLines, boosting: LinkedBoosting) -> TreeLines:
    """Return trees of a margin behind the link of its family."""
    return replace(trees, ensemble=replace(trees.ensemble, link=Link(boosting.family).kind))


def _oblique_trees(
    model: ObliqueBoosting | LinkedObliqueBoosting, predictor: Predictor, sample: Floats
) -> LineModel | None:
    """Return the lines of trees that split sums of columns too.

    Columns with levels come first, as they are, and their levels are followed; sums are of columns
    that vary freely, and are averaged along lines as they move, like those of a network.
    """
    ensemble, _ = read_trees(model.trees_)
    if ensemble is None or not predictor.reads_matrix:
        return None
    trees = levelled_trees(ensemble, model.trees_, sample @ model.map_, predictor.levels)
    if isinstance(model, LinkedObliqueBoosting):
        trees = _behind(trees, model.trees_)
    lines = MappedLines(trees, model.map_)
    return lines if _agrees(lines.predict(sample), predictor(sample)) else None


def _reads_levels(predictor: Predictor) -> bool:
    """Return whether a model is given a table, and does more than read its numbers."""
    categorical = any(column.kind == "categorical" for column in predictor.table.columns)
    return categorical or bool(predictor.exact) or reads_raw_columns(predictor.model)


class Members(NamedTuple):
    """A model that is ``intercept + sum_k weights[k] * models[k]``."""

    models: list[object]
    weights: tuple[float, ...]
    intercept: float = 0.0


def _sum(
    members: Members, predictor: Predictor, sample: Floats, options: Quadrature
) -> SumLines | None:
    """Return a sum, each member in its best form."""
    view = predictor.view
    if isinstance(predictor.model, SuperLearner):
        if not predictor.reads_matrix:
            return None
        # The super learner hands an array on to its members; a vote or a stack what it was given.
        view = "matrix"
    parts = [replace(predictor, model=model, view=view) for model in members.models]
    lines = tuple(_read(part, sample, options) or _quadrature(part, options) for part in parts)
    total = SumLines(lines, members.weights, members.intercept)
    if isinstance(predictor.model, SuperLearner):
        # The sum is ours, and its members were compared with their own predictions one by one:
        # asking a forest among them once more takes longer than all of its line means.
        return total
    return total if _agrees(total.predict(sample), predictor(sample)) else None


def _members(model: object) -> Members | None:
    """Return the members of a model that is a weighted sum."""
    if isinstance(model, SuperLearner):
        shares, models = zip(*model.parts(), strict=True)
        return Members(list(models), shares)
    if isinstance(model, BoostedResiduals):
        return Members([model.base_, model.boosting_], (1.0, 1.0))
    if isinstance(model, VotingRegressor):
        share = np.ones(len(model.estimators_))
        if model.weights is not None:
            used = [member != "drop" for _, member in model.estimators]
            share = np.asarray(model.weights, dtype=float)[used]
        return Members(list(model.estimators_), tuple((share / share.sum()).tolist()))
    if isinstance(model, StackingRegressor) and not model.passthrough:
        final = linear_lines(model.final_estimator_, len(model.estimators_))
        if final is not None:
            weights = tuple(final.coefficients.tolist())
            return Members(list(model.estimators_), weights, final.intercept)
    if isinstance(model, TransformedTargetRegressor):
        affine = _affine_inverse(model.transformer_)
        if affine is not None:
            return Members([model.regressor_], (affine[0],), affine[1])
    return None


def _affine_inverse(transformer: object) -> tuple[float, float] | None:
    """Return scale and shift of what turns predictions back into outcomes, None where it bends."""
    if isinstance(transformer, FunctionTransformer):
        return (1.0, 0.0) if transformer.inverse_func is None else None
    if isinstance(transformer, SCALERS):
        shift, top = (float(v) for v in transformer.inverse_transform(np.eye(2)[:, [1]])[:, 0])
        return top - shift, shift
    return None


def _warn_not_followed(model: TransformedTargetRegressor) -> None:
    """Warn that trees behind a transformed outcome are not followed exactly, with the reason."""
    inner = model.regressor_
    final = inner.steps[-1][1] if isinstance(inner, Pipeline) else inner
    ensemble, reason = read_trees(final)
    if ensemble is None and not reason:
        return
    warn(
        f"TransformedTargetRegressor({type(final).__name__}): the outcome is transformed, and "
        "averaging does not commute with transforming it back; its line means use quadrature",
        ExactnessWarning,
    )


def _agrees(read: Floats, own: Floats) -> bool:
    """Return whether a model that was read has its own predictions, up to rounding."""
    return bool(np.allclose(read, own, rtol=1e-8, atol=1e-8 * (np.ptp(own) + 1e-300)))
