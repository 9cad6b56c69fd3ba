r"""The error of quadrature along lines, in units of the scores, and the nodes it takes.

A model that is known only by its predictions is averaged over ``m`` nodes of each line. How many
are enough depends on the model: a step costs :math:`O(1/m)`, a smooth curve nothing. So on a few
rows the scores are taken again with another rule of about twice the nodes. Its nodes are others
(``2 m - 1`` against ``m``), since nested ones can agree while both are wrong. Rows are scored as if
their outcome were its prediction: the noise of the outcome says nothing about nodes. With
:math:`\phi_j` the score, :math:`s_j` its standard error on all rows, :math:`\delta_j` the change,

.. math:: e = \max_j \delta_j / \max(\phi_j,\; 10\,s_j,\; \max_k \phi_k / 100)

is to be at most 1 %: a hundredth of the score or a tenth of its standard error. Until it is, the
nodes are doubled, up to sixteenfold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dfi._lines.closed_form import SumLines
from dfi._lines.quadrature import QuadratureLines
from dfi._parameters import worded
from dfi.warnings import QuadratureWarning, warn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfi._data.weights import Weights
    from dfi._lines.base import LineModel
    from dfi._lines.choose import Quadrature
    from dfi._models.crossfit import FoldModels
    from dfi._types import Floats, Ints

    Nodes = Callable[[int], int]

AGREES = 0.01
"""Largest error of nodes that are enough."""

WORTH_SAYING = 0.02
DRAWS_WORTH_SAYING = 0.05
"""Errors that a result warns of; the paper's 50 draws are off by 2 % where they are squared."""

DOUBLINGS = 4
MAX_NODES = 512
REFERENCE_NODES = 125
"""Nodes that a number of nodes given by the user is at least compared with."""

CHECKED_LINES = 2560
CHECKED_ROWS = (32, 128)


@dataclass(frozen=True)
class LineError:
    """The error in the scores of some rows from the nodes of their lines.

    ``error`` is the measure ``e`` of the module's description, ``share`` and ``standard_errors``
    the change of the score that it is of; ``settled`` whether the number of nodes was ours to
    raise.
    """

    error: float
    share: float
    standard_errors: float
    rule: str
    finer_rule: str
    n_rows: int
    settled: bool

    def as_dict(self, n_nodes: int) -> dict[str, float | int | str]:
        return {
            "n_nodes": n_nodes,
            "error": self.error,
            "share_of_score": self.share,
            "in_standard_errors": self.standard_errors,
            "compared_with": self.finer_rule,
            "n_rows": self.n_rows,
        }

    def say(self, limit: float = WORTH_SAYING) -> None:
        """Warn if scores are off by more than a reader would expect."""
        if self.error <= limit:
            return
        cure = (
            "the model has steps that more nodes do not resolve; pass a model whose line means "
            "are exact (trees by themselves, not wrapped in a function), or raise the nodes of "
            "dfi.Quadrature"
            if self.settled
            else "raise the nodes of dfi.Quadrature, or leave integration='auto' to have them "
            "chosen"
        )
        cure = worded(cure, "a --model of trees has exact line means")
        warn(
            f"line means by {self.rule} are not accurate: a score changes by "
            f"{100 * self.share:.1f} % ({self.standard_errors:.2g} standard errors) with "
            f"{self.finer_rule}, on {self.n_rows} rows: {cure}",
            QuadratureWarning,
        )


@dataclass(frozen=True)
class CheckedRows:
    """The rows on which two rules are compared, fold by fold.

    They are evenly spaced in the order of their predictions, every row as often as it weighs: so
    neither the order of the rows nor whether equal ones are repeated or counted makes a difference.
    ``total`` is the effective number of observations behind the scores.
    """

    rows: tuple[Ints, ...]
    outcome: tuple[Floats, ...]
    prediction: tuple[Floats, ...]
    mass: Floats
    total: float

    @classmethod
    def of(
        cls,
        folds: Sequence[FoldModels],
        predictions: Sequence[Floats],
        matrix: Floats,
        y: Floats,
        weights: Weights,
        d: int,
    ) -> CheckedRows:
        """Choose about 2560 lines, but no fewer than 32 rows and no more than 128."""
        each = -(-int(np.clip(CHECKED_LINES // max(d, 1), *CHECKED_ROWS)) // len(folds))
        rows, outcome, chosen, shares = [], [], [], []
        for fold, prediction in zip(folds, predictions, strict=True):
            test, mass = fold.test, weights.values[fold.test]
            # equal predictions and outcomes are told apart by what does not depend on the order
            order = np.lexsort((matrix[test].sum(axis=1), y[test], prediction))
            place = (np.arange(each) + 0.5) / each * mass.sum()
            found = np.searchsorted(np.cumsum(mass[order]), place, side="right")
            found, times = np.unique(np.minimum(found, len(test) - 1), return_counts=True)
            picked = order[found]
            rows.append(test[picked])
            outcome.append(y[test[picked]])
            chosen.append(prediction[picked])
            shares.append(mass.sum() * times / each)
        mass = np.concatenate(shares)
        explained = np.unique(np.concatenate([fold.test for fold in folds]))
        total = weights.take(explained).total
        return cls(tuple(rows), tuple(outcome), tuple(chosen), mass / mass.sum(), total)


def settle_nodes(
    evaluate: Callable[[Nodes], Floats],
    describe: Callable[[Nodes], str],
    checked: CheckedRows,
    *,
    asked: bool,
    draws: bool = False,
) -> tuple[Nodes, LineError]:
    """Return how many nodes to take in place of a default, and the error that is left.

    ``evaluate`` gives the influence values of the checked rows, their outcome taken to be their
    prediction, when every number of nodes is replaced by that function of it. Nodes that were
    ``asked`` for are measured, not changed. Of ``draws`` what the change of a few rows has of
    chance is taken off, since it averages out over all of them.
    """
    prediction = np.concatenate(checked.prediction)
    noise = float(checked.mass @ (np.concatenate(checked.outcome) - prediction) ** 2)
    variance = noise + float(checked.mass @ (prediction - checked.mass @ prediction) ** 2)

    def compared(coarse: Floats, fine: Floats, nodes: Nodes, finer: Nodes) -> LineError:
        score = checked.mass @ fine
        gap = coarse - fine
        change = np.abs(checked.mass @ gap)
        chance = np.sqrt(checked.mass**2 @ (gap - checked.mass @ gap) ** 2) if draws else 0.0
        spread = checked.mass @ (fine - score) ** 2
        # the noise of the outcome enters an influence value times twice the change of the model
        error = np.sqrt((spread + 4.0 * noise * np.maximum(score, 0.0)) / checked.total)
        floor = 1e-9 * variance + np.finfo(float).tiny
        size = np.maximum(np.maximum(np.abs(score), 10.0 * error), np.abs(score).max() / 100.0)
        relative = np.maximum(change - 2.0 * chance, 0.0) / (size + floor)
        worst = int(np.argmax(relative))
        return LineError(
            error=float(relative[worst]),
            share=float(change[worst] / (np.abs(score[worst]) + floor)),
            standard_errors=float(change[worst] / (error[worst] + np.sqrt(floor * variance))),
            rule=describe(nodes),
            finer_rule=describe(finer),
            n_rows=len(fine),
            settled=not asked,
        )

    if asked:
        return same, compared(evaluate(same), evaluate(more_than), same, more_than)
    nodes: Nodes = same
    coarse = evaluate(nodes)
    for doublings in range(1, DOUBLINGS + 1):
        finer = doubled(doublings)
        fine = evaluate(finer)
        found = compared(coarse, fine, nodes, finer)
        if found.error <= AGREES:
            return nodes, found
        nodes, coarse = finer, fine
    # What is left is about the last change: errors of steps halve with every doubling.
    return nodes, replace(found, rule=describe(nodes), finer_rule="half as many")


def same(nodes: int) -> int:
    return nodes


def doubled(times: int) -> Nodes:
    """Return ever more nodes, ``2 m - 1`` each time, up to 512."""
    factor = 1 << times

    def more(nodes: int) -> int:
        return max(nodes, min((nodes - 1) * factor + 1, MAX_NODES))

    return more


def more_than(nodes: int) -> int:
    """Return the nodes that a given number of nodes is compared with."""
    return max(4 * nodes - 3, REFERENCE_NODES)


def most_nodes(model: LineModel) -> int:
    """Return the nodes of a line, the most of any part of a sum; 0 without quadrature."""
    if isinstance(model, SumLines):
        return max(most_nodes(part) for part in model.parts)
    return model.nodes if isinstance(model, QuadratureLines) else 0


def with_nodes(model: LineModel, nodes: Nodes) -> LineModel:
    """Return a model whose quadrature takes other numbers of nodes; draws become equal nodes."""
    if isinstance(model, SumLines):
        return replace(model, parts=tuple(with_nodes(part, nodes) for part in model.parts))
    if not isinstance(model, QuadratureLines):
        return model
    count = nodes(model.nodes)
    if count == model.nodes:
        # the scores must not depend on whether they were checked: the same draws again
        return model if model.seed is None else replace(model, seed=unspent(model.seed))
    rule = "equal" if model.quadrature == "draws" else model.quadrature
    return replace(model, n_nodes=count, quadrature=rule)


def unspent(seed: np.random.SeedSequence) -> np.random.SeedSequence:
    """Return a seed whose children are those that the given one has before any is spawned."""
    return np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key)


def worth_saying(options: Quadrature) -> float:
    return DRAWS_WORTH_SAYING if options.rule == "draws" else WORTH_SAYING
