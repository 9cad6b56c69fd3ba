r"""The second-order bias of scores through the fitted transport.

The first-order terms of :mod:`dfi.inference.transport_terms` have mean 0. Squared they have not:
:math:`E\hat L_{lj}^2 = L_{lj}^2 + Var(\hat L_{lj})`, and a line that is tilted at random moves what
it should leave alone. For a regression with gradients, :math:`\Gamma = E[\nabla\eta\nabla\eta']` in
latent coordinates and the rows' influence ``A`` on the map and ``D`` on the decoder,

.. math::

    b_{Z_j} &= \frac1n \sum_{k, k' \ne j} \Gamma_{kk'}\, \overline{A_{kj} A_{k'j}}, \\
    b_{X_l} &= \sum_j L_{lj}^2\, b_{Z_j} + \frac1n \sum_j \phi_j\, \overline{D_{lj}^2}.

Both are of order ``1/n``, like the standard error of a null score: subtracted they change tests of
nulls at any ``n``, and non-null intervals hardly. Coordinates of different dependence components
have no influence on each other. The mean over rows is over explicit matrices of each component,
built for a block of rows at a time; of large components over a sample of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dfi._scoring.lines import row_sample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._data.weights import Weights
    from dfi._scoring.scores import Scores
    from dfi._types import Floats
    from dfi.inference.transport_terms import MapInfluence
    from dfi.transports.gaussian import LinearTransport

FIXED = "the transport is taken as known (fixed_transport)"
BLOCK_BYTES = 32 * 2**20
WORK = 2.5e8
"""Rows times cubed columns of a component that are gone through; beyond it rows are sampled."""

SMALLEST_STEP = 0.005
"""Smaller steps than this are lost on models that compute in single precision."""

FEWEST_ROWS = 200
MOST_COLUMNS = 300
"""Beyond it not even ``FEWEST_ROWS`` rows are affordable, and the bias is left in."""


def gradient_step(n: float) -> float:
    r"""Return the step of the gradients' differences: the size of the tilts that do the harm.

    A line's tilt towards an unrelated coordinate has standard deviation :math:`1/(2\sqrt n)`.
    Smooth regressions do not mind the step; a column that is decoded to its levels does not answer
    to a tilt that is smaller than half a level, nor to such a step.
    """
    return max(0.5 / float(np.sqrt(n)), SMALLEST_STEP)


@dataclass(frozen=True)
class SquaredInfluence:
    r"""Variances of the fitted transport that the second-order bias is made of.

    Attributes
    ----------
    latent : ndarray of shape (d,)
        :math:`b_Z`.
    decoder : ndarray of shape (d, d)
        Variance :math:`\overline{D_{lj}^2}/n` of each entry of the fitted decoder.
    rows : int
        Rows that the means are over.
    rough : bool
        Whether the regression jumps, so that its trend stands for gradients.
    """

    latent: Floats
    decoder: Floats
    rows: int
    rough: bool = False

    def bias(self, attributed: Floats) -> SecondOrderBias:
        """Return the bias of both spaces, given that of the attributed scores."""
        gradients = (
            "trend across a quarter of a standard deviation: what jumps add is left in"
            if self.rough
            else "by differences"
        )
        notes = {"gradients": gradients, "rows": self.rows}
        return SecondOrderBias("", self.latent, attributed, notes)


def why_left_in(design: Any, linear: LinearTransport, n: int) -> str:
    """Return why the bias is left in under this transport; empty where it can be subtracted."""
    if design.name == "semicontinuous":
        return "the published form is there to reproduce the paper"
    if linear.smoothing < 1.0:
        return "not derived for the bridge (epsilon > 0)"
    largest = max(map(len, linear.blocks))
    if n < 2 * largest:
        return "rows < 2 x columns that depend on each other: an expansion in 1/n does not hold"
    if largest > MOST_COLUMNS:
        return f"more than {MOST_COLUMNS} columns depend on each other"
    return ""


def squared_influence(
    influence: MapInfluence, gradients: Floats, weights: Weights
) -> SquaredInfluence:
    r"""Return :math:`b_Z` and the variances of the decoder.

    Parameters
    ----------
    influence : MapInfluence
        Of the scored rows.
    gradients : ndarray of shape (d, d)
        :math:`\Gamma`.
    weights : Weights
        Of the rows; with weights ``1/n`` times a mean is the variance of a weighted mean.
    """
    d = len(gradients)
    blocks = influence.transport.blocks
    largest = max(map(len, blocks))
    count = int(max(FEWEST_ROWS, WORK / largest**3))
    variances = weights.mean_variances()
    chosen = row_sample(influence.rows, variances, count)
    sample = chosen.rows
    share = chosen.mass * (variances.sum() / chosen.mass.sum())
    latent, decoder = np.zeros(d), np.zeros((d, d))
    for block in blocks:
        if len(block) == 1 and influence.transport.standardized:
            continue  # a coordinate that depends on no other has nothing to err in
        within, others = np.ix_(block, block), 1.0 - np.eye(len(block))
        at_once = max(1, BLOCK_BYTES // (8 * 6 * len(block) ** 2))
        for start in range(0, len(sample), at_once):
            part = slice(start, start + at_once)
            on_decoder, on_map = influence.matrices(sample[part], block)
            on_map = on_map * others
            tilted = gradients[within] @ on_map
            latent[block] += np.einsum("i,ikj,ikj->j", share[part], on_map, tilted)
            decoder[within] += np.einsum("i,ilj->lj", share[part], on_decoder**2)
    return SquaredInfluence(latent, decoder, len(sample))


@dataclass(frozen=True)
class SecondOrderBias:
    """The bias to subtract from scores, or why it is left in.

    Attributes
    ----------
    reason : str
        Why it is left in; empty where it is subtracted.
    latent, attributed : ndarray of shape (d,)
        The bias of each score.
    notes : dict
        How it was found.
    """

    reason: str
    latent: Floats
    attributed: Floats
    notes: dict[str, Any]

    @classmethod
    def left_in(cls, reason: str) -> SecondOrderBias:
        """Return no bias, and why."""
        return cls(reason, np.zeros(0), np.zeros(0), {})

    def subtracted_from(self, scores: Scores, names: Sequence[str]) -> Scores:
        """Return the scores less their bias, the same number for every row: errors do not change.

        Parameters
        ----------
        names : sequence of str
            Of the coordinates.
        """
        if self.reason:
            told: dict[str, Any] = {"subtracted": False, "reason": self.reason}
            return replace(scores, diagnostics={**scores.diagnostics, "second_order": told})
        told = {
            "subtracted": True,
            **self.notes,
            "latent": dict(zip(names, self.latent.tolist(), strict=True)),
            "attributed": dict(zip(names, self.attributed.tolist(), strict=True)),
        }
        return replace(
            scores,
            latent=scores.latent - self.latent,
            attributed=scores.attributed - self.attributed,
            latent_by_repeat=scores.latent_by_repeat - self.latent,
            attributed_by_repeat=scores.attributed_by_repeat - self.attributed,
            diagnostics={**scores.diagnostics, "second_order": told},
        )
