r"""Scores under any deterministic decoder: replacing a latent coordinate moves a row on a curve.

.. math:: m_{ij} = E_t[\mu(S(z_i^{(j)}(t)))], \qquad
          w_{jl}(z_i) = E_t\big[(\partial S_l/\partial z_j)^2(z_i^{(j)}(t))\big],

both by the same nodes of the reference law; the attributed influence value is
:math:`u^X_{il} = \sum_j w_{jl}(z_i)\,u^Z_{ij}`, since :math:`u^Z_{ij}` has the conditional mean
:math:`Var(\eta(Z) \mid Z_{-j})` given :math:`Z_{-j}`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from joblib import delayed

from dfi._lines.choose import is_smooth
from dfi._lines.quadrature import DEFAULT_NODES, equal_nodes, gauss_nodes
from dfi._models.parallel import in_parallel
from dfi._models.predictor import Predictor
from dfi._scoring.error import CheckedRows, LineError, same, settle_nodes
from dfi._scoring.forms import influence
from dfi._scoring.loss import SQUARED_ERROR
from dfi._scoring.scores import FoldScores, Scores, Task, put_together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._lines.base import Reference
    from dfi._models.crossfit import FoldModels
    from dfi._scoring.error import Nodes
    from dfi._types import Floats
    from dfi.transports.base import FittedTransport

FEW_ATOMS = 64
Law: TypeAlias = tuple["Floats", "Floats"]
"""Nodes of a coordinate and their weights."""

STEP_NODES = 128
"""Nodes for a coordinate whose decoder is a step: each probability is then right to 0.4 %."""


def curve_nodes(reference: Reference, j: int, rule: str, count: int) -> tuple[Floats, Floats]:
    """Return nodes and weights of coordinate ``j``; a law of few atoms is summed exactly."""
    if reference.values is not None and len(np.unique(reference.values[:, j])) <= FEW_ATOMS:
        return gauss_nodes(reference, j, FEW_ATOMS)
    return (gauss_nodes if rule == "gauss" else equal_nodes)(reference, j, count)


def curve_scores(
    task: Task, transport: FittedTransport, *, latent: Floats, check: bool = True
) -> Scores:
    """Score the held-out rows of every fold along the transport's curves.

    ``check`` compares with more nodes on a few rows, and takes more where the scores change.
    """
    curves = _Curves.of(task, transport, latent)
    nodes: Nodes = same
    error: LineError | None = None
    if check:
        nodes, error = curves.settled()
    results = curves.scores(task.folds, nodes)
    mass = np.concatenate([task.weights.values[fold.test] for fold in task.folds])
    squared = np.concatenate([square for _, square in results], axis=0)
    n_nodes = None if error is None else nodes(curves.base)
    return put_together(
        task,
        [scores for scores, _ in results],
        attribution=np.average(squared, axis=0, weights=mass),
        rule=curves.describe(nodes),
        diagnostics=(
            {} if error is None or n_nodes is None else {"quadrature": error.as_dict(n_nodes)}
        ),
        n_nodes=n_nodes,
    )


@dataclass(frozen=True)
class _Curves:
    """Rows that are scored along curves, by a rule with ``base`` nodes."""

    task: Task
    transport: FittedTransport
    latent: Floats
    rule: str
    base: int

    @classmethod
    def of(cls, task: Task, transport: FittedTransport, latent: Floats) -> _Curves:
        """Choose the rule: Gauss nodes where all models are smooth."""
        rule: str = task.options.rule
        if rule == "auto":
            smooth = all(
                is_smooth(predictor.model) and not predictor.levels
                for fold in task.folds
                for predictor in fold.predictors
                if isinstance(predictor, Predictor)
            )
            rule = "gauss" if smooth else "equal"
        nodes = task.options.n_nodes or DEFAULT_NODES["gauss" if rule == "gauss" else "equal"]
        return cls(task, transport, latent, rule, nodes)

    def laws(self, nodes: Nodes) -> list[Law]:
        """Return nodes and weights of every coordinate; steps of the decoder take more nodes."""
        transport = self.transport
        return [
            curve_nodes(transport.reference, j, "equal", nodes(max(self.base, STEP_NODES)))
            if is_step
            else curve_nodes(transport.reference, j, self.rule, nodes(self.base))
            for j, is_step in enumerate(transport.steps)
        ]

    def describe(self, nodes: Nodes) -> str:
        return f"curves ({max(len(at) for at, _ in self.laws(nodes))} {self.rule} nodes)"

    def scores(self, folds: Sequence[FoldModels], nodes: Nodes) -> list[tuple[FoldScores, Floats]]:
        """Return the scores of folds and the mean squared Jacobian (n, l, j) of their rows."""
        laws = self.laws(nodes)
        tasks = (delayed(self._score_fold)(fold, laws) for fold in folds)
        return list(in_parallel(tasks, self.task.n_jobs, threads=True))

    def settled(self) -> tuple[Nodes, LineError]:
        """Return the nodes that the scores need, and the error that is left."""
        task = self.task
        predictions = [
            np.mean([predictor(task.matrix[fold.test]) for predictor in fold.predictors], axis=0)
            for fold in task.folds
        ]
        checked = CheckedRows.of(
            task.folds, predictions, task.matrix, task.y, task.weights, self.latent.shape[1]
        )

        def evaluate(nodes: Nodes) -> Floats:
            found = []
            for fold, rows, prediction in zip(
                task.folds, checked.rows, checked.prediction, strict=True
            ):
                # a row may be held out in several repeats, with a prediction in each
                outcome = np.zeros(len(task.y))
                outcome[rows] = prediction
                of_fold = replace(self, task=replace(task, y=outcome, advance=None))
                found += [s.latent for s, _ in of_fold.scores([replace(fold, test=rows)], nodes)]
            return np.concatenate(found)

        nodes, error = settle_nodes(
            evaluate, self.describe, checked, asked=task.options.n_nodes is not None
        )
        error.say()
        return nodes, error

    def _score_fold(self, fold: FoldModels, laws: list[Law]) -> tuple[FoldScores, Floats]:
        task, transport = self.task, self.transport
        n, d = len(fold.test), transport.n_latent
        values = np.stack([predictor(task.matrix[fold.test]) for predictor in fold.predictors])
        scores, squared = np.empty((n, d)), np.empty((n, d, d))
        outcome = task.y[fold.test]
        for j, (nodes, weights) in enumerate(laws):
            step = max(1, int(task.options.memory / (4 * 8 * len(nodes) * task.matrix.shape[1])))
            for start in range(0, n, step):
                part = slice(start, min(start + step, n))
                rows = np.repeat(self.latent[fold.test[part]], len(nodes), axis=0)
                rows[:, j] = np.tile(nodes, part.stop - part.start)
                decoded = transport.decode(rows)
                along = np.stack([p(decoded) for p in fold.predictors])
                along = along.reshape(len(fold.predictors), -1, len(nodes))
                y = outcome[part]
                perturbed = None
                if task.form == "cpi":
                    perturbed = SQUARED_ERROR.of(y[:, None], along[0]) @ weights
                scores[part, j] = influence(
                    task.form, y, values[:, part], along @ weights, perturbed
                )
                squared[part, :, j] = transport.mean_squared_slopes(rows, j, nodes, weights)
        if task.advance is not None:
            task.advance(n)
        attributed = np.einsum("ilj,ij->il", squared, scores)
        return FoldScores(scores, attributed, values.mean(axis=0)), squared
