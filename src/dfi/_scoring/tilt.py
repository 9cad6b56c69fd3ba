r"""The sensitivity ``G`` by tilting lines: finite differences instead of the covariance formula.

.. math::

    G_{kj} = \tfrac12 \frac{d}{d\delta} E\,(Y - m_j^\delta)^2 \Big|_{\delta = 0},
    \qquad m_j^\delta = E_t\,\eta(x + (t - z_j)(\ell_j + \delta\,\ell_k)),

which holds for every :math:`\eta`, at the price of ``2 d`` further passes over all lines.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dfi._lines.base import LineModel, Lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._types import Floats
    from dfi.transports.gaussian import LinearTransport

STEP = 0.1


def tilt_sensitivity(
    models: Sequence[LineModel],
    matrix: Floats,
    y: Floats,
    mass: Floats,
    transport: LinearTransport,
    *,
    rows_at_once: int = 1024,
) -> Floats:
    """Return ``G`` (d, d) of held-out rows by central differences of the mean squared error."""
    d = transport.n_latent
    directions = transport.directions
    offsets, weights = transport.offsets()
    latent = transport.encode(matrix)
    lines = Lines(matrix, latent, directions, transport.reference, offsets)
    sensitivity = np.zeros((d, d))
    for k in range(d):
        for sign in (1.0, -1.0):
            tilted = replace(lines, directions=directions + sign * STEP * directions[:, [k]])
            loss = np.zeros(d)
            for start in range(0, len(matrix), rows_at_once):
                rows = slice(start, start + rows_at_once)
                means = [model.moments(tilted.take(rows)).mean for model in models]
                product = (y[rows, None] - means[0]) * (y[rows, None] - means[-1])
                loss += mass[rows] @ np.tensordot(weights, product, axes=1)
            sensitivity[k] += sign * loss / (4.0 * STEP * mass.sum())
    np.fill_diagonal(sensitivity, 0.0)
    return sensitivity
