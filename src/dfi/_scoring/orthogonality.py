r"""How far an error of the regression moves a score at first order, where latents stay dependent.

The cross form and the LOCO-type one are built so that an error ``g`` of the regression enters a
score by its square only. That holds where the latent coordinates are independent. In general

.. math:: d\phi_j = -2\,E[\Delta_j\, m_g(Z_{-j})], \qquad \Delta_j = \eta - m_j,

:math:`m_g` the line mean of ``g``: zero for every ``g`` only if
:math:`E[\Delta_j \mid Z_{-j}] = 0`. One ``g`` can be told from the rows at no cost, a regression
shrunk towards its mean, as penalties and small samples do:
:math:`g = -\varepsilon(\eta - E\eta)` moves the score by
:math:`2\varepsilon\,E[\Delta_j (m_j - E m_j)]`, beside :math:`-\varepsilon^2 \phi_j`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._types import Floats

SHRINKAGE = 0.1


@dataclass(frozen=True)
class Overlap:
    r"""Weighted sums over rows of :math:`\Delta_j m_j` and of its square.

    Attributes
    ----------
    product, square : ndarray of shape (d,)
        The sums.
    mass : float
        The sum of the weights.
    rows : float
        The number of rows.
    """

    product: Floats
    square: Floats
    mass: float
    rows: float

    @classmethod
    def of(cls, product: Floats, mass: Floats) -> Overlap:
        """Return the sums of the rows' products, (n, d)."""
        return cls(
            mass @ product, mass @ product**2, float(mass.sum()), float(np.count_nonzero(mass))
        )

    def __add__(self, other: Overlap) -> Overlap:
        """Pool two sets of rows."""
        return Overlap(
            self.product + other.product,
            self.square + other.square,
            self.mass + other.mass,
            self.rows + other.rows,
        )

    def as_dict(self, names: Sequence[str], scores: Floats) -> dict[str, Any]:
        """Return the largest change of a latent score if the regression were shrunk by a tenth.

        Parameters
        ----------
        names : sequence of str
            Of the coordinates.
        scores : ndarray of shape (d,)
            Latent scores; the change and its error are relative to the largest of them.
        """
        largest = float(np.max(np.abs(scores), initial=0.0))
        if self.mass == 0 or largest == 0:
            return {}
        mean = self.product / self.mass
        variance = np.maximum(self.square / self.mass - mean**2, 0.0) / self.rows
        j = int(np.argmax(np.abs(mean)))
        return {
            "shrunk_by": SHRINKAGE,
            "coordinate": names[j],
            "change": float(2.0 * SHRINKAGE * mean[j] / largest),
            "error": float(2.0 * SHRINKAGE * np.sqrt(variance[j]) / largest),
        }
