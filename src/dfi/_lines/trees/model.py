"""Tree ensembles as line models."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dfi._lines.trees.levels import at_midpoints, categories_in, tree_rows
from dfi._lines.trees.readers import read_trees, verify
from dfi._models.predictor import forest_values, is_plain_forest
from dfi.warnings import ExactnessWarning, warn

if TYPE_CHECKING:
    from collections.abc import Callable

    from dfi._data.levels import Levels
    from dfi._lines.base import LineMoments, Lines
    from dfi._lines.trees.engine import Kernel
    from dfi._lines.trees.ensemble import TreeEnsemble
    from dfi._lines.trees.levels import Category
    from dfi._types import Floats


@dataclass(frozen=True)
class TreeLines:
    """Exact moments of a tree ensemble along lines.

    Parameters
    ----------
    ensemble : TreeEnsemble
        The flattened model.
    categories : tuple of Category
        Categories of more than two levels, which the trees see decoded.
    n_threads : int, optional
        Threads; by default one per available core. The result does not depend on it.
    kernel : {"arena", "path", "merged"}, optional
        Force a kernel; by default the quickest.
    """

    ensemble: TreeEnsemble
    categories: tuple[Category, ...] = ()
    n_threads: int | None = None
    kernel: Kernel | None = None

    @property
    def rule(self) -> str:
        """How the averages are taken."""
        n_trees = self.ensemble.n_trees
        return f"exact: {n_trees} tree{'' if n_trees == 1 else 's'}"

    def predict(self, points: Floats) -> Floats:
        """Return the model's value at each row."""
        if self.categories:
            levels = [category.levels(points) for category in self.categories]
            points = tree_rows(points, self.categories, levels, self.ensemble.n_features)
        return self.ensemble.predict(points, n_threads=self.n_threads)

    def moments(self, lines: Lines, *, square: bool = False) -> LineMoments:
        """Return the moments of the model along each line."""
        from dfi._lines.trees.engine import line_moments

        return line_moments(
            self.ensemble,
            lines,
            categories=self.categories,
            square=square,
            kernel=self.kernel,
            n_threads=self.n_threads,
        )


def tree_lines(
    model: Any,
    predict: Callable[[Floats], Floats],
    sample_points: Floats,
    *,
    levels: Levels | None = None,
    column: int = 1,
    n_threads: int | None = None,
) -> TreeLines | None:
    """Return a model's exact line means, or None where they are not to be had.

    Parameters
    ----------
    model : object
        A fitted model.
    predict : callable
        The function to be averaged: the model's own ``predict``, or a class probability.
    sample_points : ndarray of shape (n, p)
        Rows around which the trees are compared with ``predict``.
    levels : Levels, optional
        The levels that ``predict`` decodes rows to: splits are moved between them.
    column : int, default=1
        Class whose probability ``predict`` returns, for classifiers.
    n_threads : int, optional
        Threads of the kernels.

    Warns
    -----
    ExactnessWarning
        Where the model is made of trees but cannot be followed exactly, with the reason.
    """
    ensemble, reason = read_trees(model, column=column)
    if ensemble is not None:
        found = TreeLines(ensemble, n_threads=n_threads)
        if levels:
            ensemble = at_midpoints(ensemble, levels)
            found = replace(found, ensemble=ensemble, categories=categories_in(ensemble, levels))
        own = _quick(model, predict, levels)
        error = verify(ensemble, own, sample_points, read=found.predict)
        if error <= ensemble.tolerance:
            return found
        reason = (
            f"{type(model).__name__}: the trees as read differ from the model's own predictions "
            f"by {error:.1e} of their scale"
        )
    if reason:
        warn(f"{reason}; its line means use quadrature", ExactnessWarning)
    return None


def _quick(
    model: Any, predict: Callable[[Floats], Floats], levels: Levels | None
) -> Callable[[Floats], Floats]:
    """Return a forest's own trees in place of its own ``predict``, which is slow for few rows."""
    owner = getattr(predict, "__self__", getattr(predict, "model", None))
    if owner is not model or not is_plain_forest(model):
        return predict
    return lambda rows: forest_values(model, levels.nearest(rows) if levels else rows)
