"""A model seen from the space of normal scores: the regression after the margins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dfi._lines.closed_form import SumLines
from dfi._lines.quadrature import DEFAULT_MEMORY, QuadratureLines
from dfi._lines.trees.model import TreeLines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfi._lines.base import LineModel
    from dfi._lines.trees.ensemble import Category, TreeEnsemble
    from dfi._types import Floats
    from dfi.transports.copula import CopulaTransport

SMOOTH_NODES = 64
BEYOND = 1e9
"""A threshold that no score reaches; finite, because kernels divide by slopes."""


@dataclass(frozen=True)
class Composition:
    """The function of normal scores that decodes the margins and asks a model."""

    function: Callable[[Floats], Floats]
    transport: CopulaTransport

    def __call__(self, scores: Floats) -> Floats:
        """Return the model's value at the rows with these scores."""
        return self.function(self.transport.values(scores))


def through_margins(
    model: LineModel,
    transport: CopulaTransport,
    *,
    n_nodes: int | None = None,
    memory: int = DEFAULT_MEMORY,
) -> LineModel:
    """Return the same model as a function of normal scores.

    Trees stay exact: every split is moved to the score of its threshold. A weighted sum is the
    sum of its parts. Anything else, linear models too (a margin bends their lines), is integrated
    by quadrature, with ``n_nodes`` (64 by default) within ``memory`` bytes.
    """
    if isinstance(model, TreeLines):
        categories = tuple(_category_of_scores(c, transport) for c in model.categories)
        decided = [column for category in categories for column in category.columns]
        return replace(
            model,
            ensemble=tree_of_scores(model.ensemble, transport, decided),
            categories=categories,
        )
    if isinstance(model, SumLines):
        parts = (
            through_margins(part, transport, n_nodes=n_nodes, memory=memory) for part in model.parts
        )
        return replace(model, parts=tuple(parts))
    if isinstance(model, QuadratureLines):
        return replace(model, function=Composition(model.function, transport))
    nodes = SMOOTH_NODES if n_nodes is None else n_nodes
    return QuadratureLines(Composition(model.predict, transport), "equal", nodes, memory)


def _category_of_scores(category: Category, transport: CopulaTransport) -> Category:
    """Return a category decided by normal scores: a margin of two values is a straight line."""
    ends = np.zeros((2, len(transport.margins)))
    ends[1, category.positions] = 1.0
    start, end = transport.values(ends)[:, category.positions]
    scale = category.scale * (end - start)
    return replace(category, shift=category.shift + category.scale * start, scale=scale)


def tree_of_scores(
    ensemble: TreeEnsemble, transport: CopulaTransport, decided: Sequence[int] = ()
) -> TreeEnsemble:
    """Return the ensemble with each split ``x <= c`` replaced by ``score <= score of c``.

    Columns that categories decide are what they were.
    """
    threshold = ensemble.threshold.copy()
    for column, margin in enumerate(transport.margins):
        if column in decided:
            continue
        nodes = ensemble.feature == column
        if margin is None:
            # a column that does not vary is always at its mean, and its score at 0
            beyond = transport.center[column] <= threshold[nodes]
            threshold[nodes] = np.where(beyond, BEYOND, -BEYOND)
        else:
            threshold[nodes] = np.clip(margin.threshold(threshold[nodes]), -BEYOND, BEYOND)
    return replace(ensemble, threshold=threshold)
