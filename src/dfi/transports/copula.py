r"""The Gaussian copula transport: normal scores of every margin, whitened.

.. math:: s_l = Q_l^{-1}(x_l), \qquad z = L^{-1} \tilde s, \qquad x_l = Q_l(s_l),

with :math:`\tilde s` the standardised scores, :math:`R` their correlation matrix and
:math:`L = R^{1/2}` symmetric. Latent lines are straight in score space, where the model is
:math:`\mu \circ Q`; a tree split :math:`x_f \le c` is the split :math:`s_f \le Q_f^{-1}(c)` there,
so line means of tree ensembles stay exact. The decoder's Jacobian is
:math:`\partial S_l / \partial z_j = g_l(\tilde s_l) L_{lj}` in units of the features' standard
deviations, :math:`g_l` the slope of :math:`Q_l`. Attribution takes the mean of :math:`g_l^2` by
:meth:`Margin.squared_slopes`, from which the error of the slopes themselves is taken off.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.interpolate import CubicHermiteSpline
from scipy.special import ndtr

from dfi._lines.base import Reference
from dfi._lines.quadrature import spread_nodes
from dfi.transports.gaussian import Gaussian, LinearTransport
from dfi.transports.margins import Margin, count_rows, fit_margin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._data.columns import Column
    from dfi._data.weights import Weights
    from dfi._lines.base import ReferenceKind
    from dfi._types import Bools, Floats, Ints
    from dfi.transports.components import Components

OUTER = 100.0
"""Scores that stand for infinity: the last edges of levels and of open ends are beyond it."""

FINEST = 0.005
"""Least distance of tabulated means; a mean over less than this is weighed by its own square."""

EMPIRICAL_NODES = 32


@dataclass(frozen=True)
class CopulaTransport:
    """A fitted Gaussian copula transport.

    Attributes
    ----------
    margins : tuple of Margin or None
        One per column of the numeric matrix; None for a column that does not vary.
    linear : LinearTransport
        The whitening of the score matrix.
    center, deviation : ndarray of shape (p,)
        Mean and standard deviation of every column: the units of the attribution.
    """

    margins: tuple[Margin | None, ...]
    linear: LinearTransport
    center: Floats
    deviation: Floats

    @property
    def active(self) -> Ints:
        """The columns that vary; the latent coordinates belong to these."""
        return self.linear.active

    @property
    def n_latent(self) -> int:
        """The number of latent coordinates."""
        return self.linear.n_latent

    @property
    def reference(self) -> Reference:
        """The law of a replacement latent coordinate."""
        return self.linear.reference

    def scores(self, matrix: Floats) -> Floats:
        """Return the normal scores of the columns; columns that do not vary stay 0."""
        return self._columns(matrix, np.zeros(len(self.margins)), "score")

    def values(self, scores: Floats) -> Floats:
        """Return the rows of the numeric matrix that have these normal scores."""
        return self._columns(scores, self.center, "value")

    def _columns(self, matrix: Floats, fixed: Floats, way: Literal["score", "value"]) -> Floats:
        result = np.empty(matrix.shape)
        for k, margin in enumerate(self.margins):
            result[:, k] = fixed[k] if margin is None else getattr(margin, way)(matrix[:, k])
        return result

    def encode(self, matrix: Floats, generator: np.random.Generator | None = None) -> Floats:
        """Return the latent rows; nothing in them is random."""
        del generator
        return self.linear.encode(self.scores(matrix))

    def decode(self, latent: Floats) -> Floats:
        """Return the rows of the numeric matrix that belong to latent rows."""
        return self.values(self.linear.decode(latent))

    def jacobian(self, latent: Floats) -> Floats:
        """Return the decoder's Jacobian (n, d, d): standardised feature ``l`` by latent ``j``."""
        standardized = latent @ self.linear.decoder
        result = np.empty((len(latent), self.n_latent, self.n_latent))
        for m, column in enumerate(self.active):
            scores = self.linear.center[column] + self.linear.scale[column] * standardized[:, m]
            slope = self._margin(m).slope(scores)
            slope *= self.linear.scale[column] / self.deviation[column]
            result[:, m] = slope[:, None] * self.linear.decoder[m]
        return result

    def slopes(self, latent: Floats, j: int) -> Floats:
        """Return the size of each standardised feature's change per unit of latent ``j``.

        The root of an estimate of its *square* (:meth:`Margin.squared_slopes`), which is what
        attribution averages; the derivative of the fitted decoder is :meth:`jacobian`.
        """
        standardized = latent @ self.linear.decoder
        square = [self.cells(m)(standardized[:, m]) for m in range(self.n_latent)]
        return np.asarray(np.sqrt(np.stack(square, axis=1)) * self.linear.decoder[:, j])

    def _margin(self, m: int) -> Margin:
        margin: Margin | None = self.margins[self.active[m]]
        if margin is None:
            raise TypeError("a column that does not vary has no slope")
        return margin

    def cells(self, m: int) -> Cells:
        """Return the squared slope of active margin ``m``, both sides in standard deviations."""
        column = self.active[m]
        scale = self.linear.scale[column]
        edges, squares = self._margin(m).squared_slopes()
        return Cells(
            (edges - self.linear.center[column]) / scale,
            squares * (scale / self.deviation[column]) ** 2,
        )

    def line_weights(self, latent: Floats, j: int) -> Floats:
        r"""Return :math:`w_{jl} = E_t[g_l(\tilde s_l(z^{(j)}(t)))^2]` for each row and ``l``."""
        decoder = self.linear.decoder
        standardized = latent @ decoder
        weights = np.empty_like(latent)
        nodes = None
        if self.reference.values is not None:
            nodes = spread_nodes(self.reference, j, EMPIRICAL_NODES)
        for m in range(self.n_latent):
            tilt = decoder[m, j]
            start = standardized[:, m] - latent[:, j] * tilt
            weights[:, m] = self.cells(m).mean(start, tilt, nodes)
        return weights


@dataclass(frozen=True)
class Cells:
    """A piecewise constant square: ``squares[k]`` between ``edges[k]`` and ``edges[k + 1]``."""

    edges: Floats
    squares: Floats

    def __call__(self, points: Floats) -> Floats:
        """Return the square at each point, zero outside."""
        padded = np.concatenate([[0.0], self.squares, [0.0]])
        return np.asarray(padded[np.searchsorted(self.edges, points)])

    def mean(self, start: Floats, tilt: float, nodes: Floats | None) -> Floats:
        """Return the mean square at ``start + tilt t``, ``t`` normal or one of the nodes."""
        if len(np.unique(self.squares)) == 1 and abs(self.edges[0]) > OUTER:
            return np.full(len(start), self.squares[0])
        if abs(tilt) < 1e-9:
            return self(start)
        if nodes is not None:
            return np.asarray(np.mean(self(start[:, None] + tilt * nodes), axis=1))
        grid = self._grid(abs(tilt))
        if len(start) <= len(grid):
            return self._normal_mean(start, abs(tilt))
        # The table's ends are those of the cells, not of the rows: rows do not depend on others.
        table = CubicHermiteSpline(
            grid, self._normal_mean(grid, abs(tilt)), self._normal_slope(grid, abs(tilt))
        )
        return np.asarray(table(np.clip(start, grid[0], grid[-1])))

    def _grid(self, width: float) -> Floats:
        """Return points close enough to interpolate a normal average, constant beyond them."""
        inner = self.edges[np.abs(self.edges) < OUTER]
        low, high = inner[0] - 8.0 * width, inner[-1] + 8.0 * width
        return np.linspace(low, high, 2 + int((high - low) / max(width / 16.0, FINEST)))

    def _normal_mean(self, points: Floats, width: float) -> Floats:
        r"""Return the mean square at ``N(point, width^2)``, a sum of normal probabilities."""
        below = ndtr((self.edges - points[:, None]) / width)
        return np.asarray(np.diff(below, axis=1) @ self.squares)

    def _normal_slope(self, points: Floats, width: float) -> Floats:
        """Return the derivative of the mean square in the point."""
        density = np.exp(-0.5 * ((self.edges - points[:, None]) / width) ** 2)
        return np.asarray(np.diff(density, axis=1) @ self.squares / (-width * np.sqrt(2 * np.pi)))


@dataclass(frozen=True, kw_only=True)
class Copula:
    """Gaussian copula: whitened normal scores, for skewed, heavy-tailed or ordinal margins.

    Parameters
    ----------
    shrinkage : float or "ledoit-wolf", default=0.0
        Share of the identity mixed into the correlation matrix of the scores.
    reference : {"auto", "empirical", "gaussian"}, default="auto"
        Law of a replacement latent coordinate: ``N(0, 1)``, or the empirical law of the
        coordinate where some column has levels (whose scores are not normal).
    components : "auto", None or list of lists of column names, default="auto"
        Columns whose normal scores depend on each other, as for :class:`Gaussian`.
    """

    shrinkage: float | Literal["ledoit-wolf"] = 0.0
    reference: ReferenceKind | Literal["auto"] = "auto"
    components: Components = "auto"

    name = "copula"
    takes_columns = True
    keeps_selection = True

    def __post_init__(self) -> None:
        # options of the whitening, checked there
        whitening = self._whitening("gaussian" if self.reference == "auto" else self.reference)
        object.__setattr__(self, "components", whitening.components)

    def _whitening(self, reference: ReferenceKind) -> Gaussian:
        return Gaussian(shrinkage=self.shrinkage, reference=reference, components=self.components)

    def check_columns(self, columns: Sequence[Column]) -> None:
        """Refuse components that name other columns than these."""
        self._whitening("gaussian").check_columns(columns)

    def fit(
        self,
        matrix: Floats,
        weights: Weights,
        constant: Bools,
        *,
        columns: Sequence[Column] | None = None,
        like: CopulaTransport | None = None,
    ) -> CopulaTransport:
        """Fit margins and whitening to the rows; components are those of ``like``."""
        share = weights.values / weights.values.sum()
        n = count_rows(weights)
        margins = tuple(
            None if constant[k] else fit_margin(matrix[:, k], weights.values, n)
            for k in range(matrix.shape[1])
        )
        center = share @ matrix
        deviation = np.sqrt(share @ (matrix - center) ** 2)
        levels = any(margin is not None and margin.discrete for margin in margins)
        law = self.reference
        if law == "auto":
            law = "empirical" if levels else "gaussian"
        draft = CopulaTransport(margins, _no_whitening(len(center)), center, deviation)
        linear = self._whitening(law).fit(
            draft.scores(matrix),
            weights,
            constant,
            columns=columns,
            like=None if like is None else like.linear,
        )
        return replace(draft, linear=linear)

    def specification(self) -> dict[str, Any]:
        """Return what the estimand depends on."""
        return {
            "transport": "copula",
            "form": "whitened normal scores",
            "epsilon": 0.0,
            "cost": "squared euclidean on whitened normal scores",
            "standardize": True,
            "shrinkage": self.shrinkage,
            "components": self.components,
        }


def _no_whitening(p: int) -> LinearTransport:
    return LinearTransport(
        active=np.arange(p),
        center=np.zeros(p),
        scale=np.ones(p),
        eigenvectors=np.eye(p),
        eigenvalues=np.ones(p),
        smoothing=1.0,
        weight_factor=1.0,
        shrinkage=0.0,
        standardized=False,
        reference=Reference.gaussian(),
    )
