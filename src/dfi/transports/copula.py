r"""The Gaussian copula transport: normal scores of every margin, whitened.

.. math:: s_l = Q_l^{-1}(x_l), \qquad z = L^{-1} \tilde s, \qquad x_l = Q_l(s_l),

with :math:`\tilde s` the standardised scores, :math:`R` their correlation matrix and
:math:`L = R^{1/2}` symmetric. Latent lines are straight in score space, where the model is
:math:`\mu \circ Q`; a tree split :math:`x_f \le c` is the split :math:`s_f \le Q_f^{-1}(c)` there,
so line means of tree ensembles stay exact. The decoder's Jacobian is
:math:`\partial S_l / \partial z_j = g_l(\tilde s_l) L_{lj}` in units of the features' standard
deviations, :math:`g_l` the slope of :math:`Q_l`.

The normal-scores correlation has the same influence function as the correlation of the (unknown)
normal variables, :math:`IF_R = ss' - \frac12(\mathrm{diag}(s^2)R + R\,\mathrm{diag}(s^2))`, so the
terms of :mod:`dfi._scoring.map_error` apply on the scores. Attribution is by line shares
(:mod:`dfi._scoring.line_shares`), whose variances are :math:`v_{jl} = L_{lj}^2 g_{jl}^2` with an
effective slope :math:`g_{jl}(z_{-j})`. With :math:`\kappa_{jl} = g_{jl}^2 / \sum_m v_{jm}`, so
:math:`\omega_{jl} = L_{lj}^2 \kappa_{jl}`, and :math:`\rho_{lj} = L_{lj} E[\kappa_{jl} u_j]`,

.. math:: IF_{X_l} = \sum_j \{\omega_{jl}\,u_j + \bar\omega_{jl}\,T_j\}
          + 2 \sum_j \Big\{D_{lj}\,\rho_{lj}
                          - \bar\omega_{jl} \sum_m D_{mj}\,\rho_{mj}\Big\}
          + \phi_{X_l} Q_l - \sum_m Q_m \sum_j E[\omega_{jl}\,\omega_{jm}\,u_j],

:math:`T_j` the latent transport term, :math:`D` the influence on :math:`L` and :math:`Q_l` the
relative error of the squared slopes (:func:`slope_terms`). Row by row it adds up to the latent
influence. The second-order bias is :math:`b_{X_l} = \sum_j \bar\omega_{jl}\,(b_{Z_j} -
\sum_m c_{mj}) + \sum_j c_{lj}` with :math:`c_{lj} = \frac1n \overline{D_{lj}^2}\,
E[\kappa_{jl} u_j]`.

``attribution="slopes"`` takes the slope weights :math:`w_{jl}(z_{-j}) = E_t[g_l^2]` by
:meth:`Margin.squared_slopes`, from which the error of the slopes themselves is taken off:

.. math:: IF_{X_l} = \sum_j L_{lj}^2 \{w_{jl}\,u_j + \bar w_{jl}\,T_j\}
          + 2 \sum_j L_{lj} D_{lj}\,E[w_{jl}\,u_j] + \phi_{X_l} Q_l,

with :math:`\bar w` the mean weight and the second-order bias
:math:`b_{X_l} = \sum_j L_{lj}^2 \bar w_{jl}\, b_{Z_j} + \frac1n \sum_j \overline{D_{lj}^2}\,
E[w_{jl} u_j]`.

Left out: how the margins' own error bends the curves beyond its linear part (location and scale
in score space are in). It vanishes for normal margins under a linear regression.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from scipy.interpolate import CubicHermiteSpline
from scipy.special import ndtr

from dfi._data import source
from dfi._estimates.components import Components, check_components
from dfi._estimates.margins import Margin, fit_margin
from dfi._lines.choose import Quadrature
from dfi._lines.closed_form import SumLines
from dfi._lines.quadrature import QuadratureLines, spread_nodes
from dfi._lines.trees.model import TreeLines
from dfi._parameters import validated_fields
from dfi._scoring.line_shares import FINEST, NEGLIGIBLE, OUTER, Attribution, Path, Tables
from dfi._scoring.map_error import MapInfluence, SquaredInfluence, latent_terms
from dfi.transports.gaussian import Gaussian, LinearTransport, Whitening
from dfi.transports.straight import Attributed, StraightTransport

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfi._data.weights import Weights
    from dfi._estimates.covariance import CovarianceKind, Estimated
    from dfi._lines.base import LineModel, ReferenceKind
    from dfi._lines.trees.ensemble import Category, TreeEnsemble
    from dfi._scoring.geometry import Geometry
    from dfi._scoring.lines import LineScores
    from dfi._scoring.task import Task
    from dfi._types import Floats, Ints, Plain
    from dfi.transports.base import Layout, Transport

EMPIRICAL_NODES = 32
SMOOTH_NODES = 64
BEYOND = 1e9
"""A threshold that no score reaches; finite, because kernels divide by slopes."""

EXTREME = np.pi / (2.0 * np.sqrt(6.0))
r"""Share of the outermost row in its own quantile. With it the largest of ``n`` values moves by
:math:`\frac{\pi}{\sqrt 6}(1 - p)/\varphi(s)` at its mid-rank :math:`p = 1 - 1/(2n)`, the spread of
a Gumbel variable, where one half (as for other rows) would leave its randomness out."""


@dataclass(frozen=True)
class CopulaTransport(StraightTransport):
    """A fitted Gaussian copula transport.

    There is a margin for every column of the numeric matrix that varies; ``linear`` is the
    whitening of the scores; ``center`` and ``deviation`` (p,) are of the columns: the units of the
    attribution.
    """

    design: Transport
    margins: tuple[Margin | None, ...]
    linear: LinearTransport
    center: Floats
    deviation: Floats
    tables: Tables = field(default_factory=Tables, repr=False, compare=False)

    bends_models: ClassVar[bool] = True

    @property
    def geometry(self) -> Geometry:
        return self.linear.geometry

    @property
    def correlations(self) -> Estimated:
        return self.linear.correlations

    @property
    def missed(self) -> Floats | None:
        """The bound on dependence between components that the tests may have missed."""
        return self.linear.missed

    def points(self, matrix: Floats) -> Floats:
        return self.scores(matrix)

    def points_of(self, task: Task) -> Floats:
        found = np.zeros(task.matrix.shape)
        found[task.explained] = self.scores(task.matrix[task.explained])
        return found

    def line_model(self, model: LineModel, options: Quadrature | None = None) -> LineModel:
        return through_margins(model, self, options)

    def margin_slopes(self, latent: Floats, coordinates: Ints, weights: Weights) -> Floats:
        if not self.by_slopes:
            return np.ones(len(coordinates))
        standardized = latent @ self.geometry.decoder[:, coordinates]
        squares = [self.cells(m)(standardized[:, at]) for at, m in enumerate(coordinates)]
        return weights.mean(np.stack(squares, axis=1))

    def diagnostics(self, owner: Ints) -> Plain:
        return self.linear.diagnostics(owner)

    def scores(self, matrix: Floats) -> Floats:
        return _columns(self.margins, matrix, np.zeros(len(self.margins)), "score")

    def values(self, scores: Floats) -> Floats:
        return _columns(self.margins, scores, self.center, "value")

    def encode(self, matrix: Floats, generator: np.random.Generator | None = None) -> Floats:
        del generator
        return self.geometry.encode(self.scores(matrix))

    def draw(self, matrix: Floats, generator: np.random.Generator) -> Floats:
        return self.geometry.with_random_part(self.encode(matrix), generator)

    def couple(self, matrix: Floats, generator: np.random.Generator) -> Floats:
        return self.geometry.filled(self.encode(matrix), generator)

    def decode(self, latent: Floats) -> Floats:
        return self.values(self.geometry.decode(latent))

    def jacobian(self, latent: Floats) -> Floats:
        """Return the decoder's Jacobian (n, d, d): standardised feature ``l`` by latent ``j``."""
        standardized = latent @ self.geometry.decoder
        result = np.empty((len(latent), self.n_latent, self.n_latent))
        for m, column in enumerate(self.active):
            scores = self.geometry.center[column] + self.geometry.scale[column] * standardized[:, m]
            slope = self._margin(m).slope(scores)
            slope *= self.geometry.scale[column] / self.deviation[column]
            result[:, m] = slope[:, None] * self.geometry.decoder[m]
        return result

    def slopes(self, latent: Floats, j: int) -> Floats:
        standardized = latent @ self.geometry.decoder
        square = [self.cells(m)(standardized[:, m]) for m in range(self.n_latent)]
        return np.asarray(np.sqrt(np.stack(square, axis=1)) * self.geometry.decoder[:, j])

    def _margin(self, m: int) -> Margin:
        margin: Margin | None = self.margins[self.active[m]]
        if margin is None:
            raise TypeError("a constant column has no slope")
        return margin

    def cells(self, m: int) -> Cells:
        """Return the squared slope of active margin ``m``, both sides in standard deviations."""
        column = self.active[m]
        scale = self.geometry.scale[column]
        edges, squares = self._margin(m).squared_slopes()
        return Cells(
            (edges - self.geometry.center[column]) / scale,
            squares * (scale / self.deviation[column]) ** 2,
        )

    def line_weights(self, latent: Floats, j: int) -> Floats:
        r"""Return :math:`w_{jl} = E_t[g_l(\tilde s_l(z^{(j)}(t)))^2]` for each row and ``l``."""
        decoder = self.geometry.decoder
        standardized = latent @ decoder
        weights = np.empty_like(latent)
        nodes = None
        if self.reference.values is not None:
            nodes = spread_nodes(self.reference, j, EMPIRICAL_NODES)
        for m in range(self.n_latent):
            tilt = decoder[m, j]
            start = standardized[:, m] - latent[:, j] * tilt
            weights[:, m] = self.cells(m).mean(start, tilt, nodes, self.tables)
        return weights

    def path(self, m: int) -> Path:
        """Return active feature ``m`` by its score, both sides in standard deviations."""
        column, margin = self.active[m], self._margin(m)
        center, scale = self.geometry.center[column], self.geometry.scale[column]
        return Path((margin.scores - center) / scale, margin.values / self.deviation[column])

    def effective_slopes(self, latent: Floats, j: int) -> Floats:
        r"""Return :math:`v_{jl} / L_{lj}^2`, the squared slope that line ``j`` shows of ``l``."""
        decoder = self.geometry.decoder
        found, nodes = np.zeros_like(latent), None
        if self.reference.values is not None:
            nodes = spread_nodes(self.reference, j, EMPIRICAL_NODES)
            # a coordinate may not vary among the rows of a model: its scores are 0
            nodes = nodes / nodes.std() if np.ptp(nodes) > 0.0 else None
        for m in np.flatnonzero(decoder[:, j]).tolist():
            start = latent @ decoder[:, m] - latent[:, j] * decoder[m, j]
            found[:, m] = self.path(m).squared_slope(start, decoder[m, j], nodes, self.tables)
        return found

    def attributed(
        self,
        scores: LineScores,
        matrix: Floats,
        weights: Weights,
        *,
        influence: MapInfluence | None = None,
        squares: SquaredInfluence | None = None,
    ) -> Attributed:
        if self.by_slopes:
            return self._by_slopes(scores, matrix, weights, influence, squares)
        latent, decoder = self.encode(matrix), self.geometry.decoder
        values = scores.influence
        terms = np.zeros_like(values)
        if influence is not None:
            terms = latent_terms(influence, scores)
        attributed = np.zeros_like(values)
        shares, relative, curved = (np.zeros_like(decoder) for _ in range(3))
        shared = np.zeros_like(decoder)
        for j in range(self.n_latent):
            slope = self.effective_slopes(latent, j)
            total = slope @ decoder[:, j] ** 2
            moves = total > NEGLIGIBLE
            slope /= np.where(moves, total, 1.0)[:, None]
            slope[~moves] = 1.0 / np.sum(decoder[:, j] ** 2)
            share = slope * decoder[:, j] ** 2
            product = slope * values[:, [j]]
            shares[:, j] = weights.mean(share)
            attributed += share * values[:, [j]] + shares[:, j] * terms[:, [j]]
            curved[:, j] = weights.mean(product)
            relative[:, j] = decoder[:, j] * curved[:, j]
            shared += (share * weights.values[:, None]).T @ (share * values[:, [j]])
        if influence is not None:
            identity = np.eye(self.n_latent)
            tilted = influence.on_decoder(relative, identity)
            attributed += 2.0 * (influence.on_decoder(identity, relative.T) - tilted @ shares.T)
            slopes = slope_terms(matrix, weights, self)
            attributed += slopes * np.sum(decoder * relative, axis=1)
            attributed -= slopes @ shared.T / weights.values.sum()
        bias = None
        if squares is not None:
            # squares of the decoder's error add to a share as far as they add to no other
            gained = squares.decoder * curved
            bias = shares @ (squares.latent - gained.sum(axis=0)) + gained.sum(axis=1)
        return Attributed(values + terms, attributed, shares, bias)

    def _by_slopes(
        self,
        scores: LineScores,
        matrix: Floats,
        weights: Weights,
        influence: MapInfluence | None,
        squares: SquaredInfluence | None,
    ) -> Attributed:
        latent, decoder = self.encode(matrix), self.geometry.decoder
        terms = np.zeros_like(scores.influence)
        if influence is not None:
            terms = latent_terms(influence, scores)
        squared = decoder**2
        attributed = np.zeros_like(scores.influence)
        mean_weight, mean_product = np.empty_like(squared), np.empty_like(squared)
        for j in range(self.n_latent):
            slope = self.line_weights(latent, j)
            product = slope * scores.influence[:, [j]]
            mean_weight[:, j] = weights.mean(slope)
            mean_product[:, j] = weights.mean(product)
            attributed += squared[:, j] * (product + mean_weight[:, j] * terms[:, [j]])
        if influence is not None:
            identity = np.eye(self.n_latent)
            attributed += 2.0 * influence.on_decoder(identity, (decoder * mean_product).T)
            phi = np.sum(squared * mean_product, axis=1)
            attributed += phi * slope_terms(matrix, weights, self)
        jacobian, bias = squared * mean_weight, None
        if squares is not None:
            bias = jacobian @ squares.latent + np.sum(squares.decoder * mean_product, axis=1)
        return Attributed(scores.influence + terms, attributed, jacobian, bias)


def _columns(
    margins: Sequence[Margin | None], matrix: Floats, fixed: Floats, way: Literal["score", "value"]
) -> Floats:
    """Take every column through its margin; those that do not vary are ``fixed``."""
    result = np.empty(matrix.shape)
    for k, margin in enumerate(margins):
        result[:, k] = fixed[k] if margin is None else getattr(margin, way)(matrix[:, k])
    return result


@dataclass(frozen=True)
class Cells:
    """A piecewise constant square: ``squares[k]`` between ``edges[k]`` and ``edges[k + 1]``."""

    edges: Floats
    squares: Floats

    def __call__(self, points: Floats) -> Floats:
        """Return the square at each point, zero outside."""
        padded = np.concatenate([[0.0], self.squares, [0.0]])
        return np.asarray(padded[np.searchsorted(self.edges, points)])

    def mean(
        self, start: Floats, tilt: float, nodes: Floats | None, tables: Tables | None = None
    ) -> Floats:
        """Return the mean square at ``start + tilt t``, ``t`` normal or one of the nodes."""
        if len(np.unique(self.squares)) == 1 and abs(self.edges[0]) > OUTER:
            return np.full(len(start), self.squares[0])
        if abs(tilt) < 1e-9:
            return self(start)
        if nodes is not None:
            return np.asarray(np.mean(self(start[:, None] + tilt * nodes), axis=1))
        grid = self.grid(abs(tilt))
        if len(start) <= len(grid):
            return self.normal_mean(start, abs(tilt))
        # The table's ends are those of the cells, not of the rows: rows do not depend on others.
        table = (tables or Tables()).of(self, abs(tilt))
        return np.asarray(table(np.clip(start, grid[0], grid[-1])))

    def spline(self, width: float) -> CubicHermiteSpline:
        grid = self.grid(width)
        return CubicHermiteSpline(
            grid, self.normal_mean(grid, width), self.normal_slope(grid, width)
        )

    def grid(self, width: float) -> Floats:
        """Return points close enough to interpolate a normal average, constant beyond them."""
        inner = self.edges[np.abs(self.edges) < OUTER]
        low, high = inner[0] - 8.0 * width, inner[-1] + 8.0 * width
        return np.linspace(low, high, 2 + int((high - low) / max(width / 16.0, FINEST)))

    def normal_mean(self, points: Floats, width: float) -> Floats:
        r"""Return the mean square at ``N(point, width^2)``, a sum of normal probabilities."""
        below = ndtr((self.edges - points[:, None]) / width)
        return np.asarray(np.diff(below, axis=1) @ self.squares)

    def normal_slope(self, points: Floats, width: float) -> Floats:
        density = np.exp(-0.5 * ((self.edges - points[:, None]) / width) ** 2)
        return np.asarray(np.diff(density, axis=1) @ self.squares / (-width * np.sqrt(2 * np.pi)))


@validated_fields
@dataclass(kw_only=True)
class Copula(Whitening):
    """Gaussian copula: whitened normal scores, for skewed, heavy-tailed or ordinal margins.

    Parameters
    ----------
    covariance : {"auto", "sample", "qis", "factor", "ledoit-wolf"}, default="auto"
        How correlations of the scores are estimated, as for :class:`Gaussian`
        (:mod:`dfi._estimates.covariance`, with figures).
        ``"qis"``: Ledoit and Wolf's nonlinear shrinkage, under which opposite effects of nearly
        collinear columns still cancel. ``"factor"``: a few common factors and a unique part for
        every column. ``"auto"``: the sample correlation for a component with at most a fifth as
        many columns as rows; otherwise factors if held-out rows are clearly likelier under them, or
        else ``"qis"``; and the sample correlation again if predictions would not keep their
        variance. Under factors and ``"qis"``, standard errors come from refits and the second-order
        bias remains; under ``"qis"``, ``inverse_transform`` is only approximate.
    shrinkage : float or "ledoit-wolf", default=0.0
        Share of the identity mixed into the sample correlation matrix of the scores;
        ``"ledoit-wolf"`` is the same as ``covariance="ledoit-wolf"``.
    reference : {"auto", "empirical", "gaussian"}, default="auto"
        Law of a replacement latent coordinate: ``N(0, 1)``, or the empirical law of the coordinate
        if some column has levels (whose scores are not normal).
    components : "auto", None or list of lists of column names, default="auto"
        Columns whose normal scores depend on each other, as for :class:`Gaussian`.
    attribution : {"shares", "slopes"}, default="shares"
        How a latent score is attributed to features: by their shares of the variance along its line
        (:mod:`dfi._scoring.line_shares`), or by the squared slopes of the curves, as in the paper,
        which do not add up.
    random_state : int or None, default=0
        For ``transform`` alone: what collinear columns leave random.

    Examples
    --------
    >>> import dfi, numpy as np
    >>> X = np.exp(dfi.datasets.m1(300, d=2).X)  # skewed, and as dependent as before
    >>> Z = dfi.transports.Copula().fit(X).transform(X)
    >>> bool(abs(np.corrcoef(Z.T)[0, 1]) < 0.05)
    True
    """

    covariance: CovarianceKind = "auto"
    shrinkage: float | Literal["ledoit-wolf"] = 0.0
    reference: ReferenceKind | Literal["auto"] = "auto"
    components: Components = "auto"
    attribution: Attribution = "shares"
    random_state: int | None = 0

    name: ClassVar[str] = "copula"

    def fit_rows(self, matrix: Floats, weights: Weights, layout: Layout) -> CopulaTransport:
        constant, like = layout.constant, layout.like
        share = weights.shares
        n = weights.effective
        counted = matrix[weights.values > 0]
        # what varies among all rows may not among those of a refit
        varies = np.ptp(counted, axis=0) > 0
        earlier = like.margins if isinstance(like, CopulaTransport) else (None,) * len(varies)
        margins = tuple(
            None if constant[k] else
            fit_margin(matrix[:, k], weights.values, n) if varies[k] else earlier[k]
            for k in range(matrix.shape[1])
        )  # fmt: skip
        center = share @ matrix
        deviation = np.sqrt(share @ (matrix - center) ** 2)
        if isinstance(like, CopulaTransport):
            deviation = np.where(varies, deviation, like.deviation)
        levels = any(margin is not None and margin.discrete for margin in margins)
        law = self.reference
        if law == "auto":
            law = "empirical" if levels else "gaussian"
        whitening = Gaussian(
            covariance=self.covariance,
            shrinkage=self.shrinkage,
            reference=law,
            components=self.components,
        )
        scores = _columns(margins, matrix, np.zeros(len(center)), "score")
        linear = whitening.by_column(scores, weights, layout)
        return CopulaTransport(self, margins, linear, center, deviation)

    def specification(self) -> Plain:
        return {
            "transport": "copula",
            "transport_form": "whitened normal scores",
            "epsilon": 0.0,
            "cost": "squared euclidean on whitened normal scores",
            "standardize": True,
            "covariance": self.covariance,
            "shrinkage": self.shrinkage,
            "components": check_components(self.components),
            "attribution": self.attribution,
        }


def slope_terms(matrix: Floats, weights: Weights, transport: CopulaTransport) -> Floats:
    r"""Return the influence of rows on each margin's mean squared slope, relative to it, (n, d).

    The slope between knots :math:`s_k < s_{k+1}` is a difference of two quantiles over the
    column's standard deviation. A row moves the quantile at score ``s`` by
    :math:`J_i(s) = \{\Phi(s) - 1(x_i \le Q(s))\}\, g(s)/\varphi(s)`, and so

    .. math:: Q_i = \frac{2 \sum_k p_k\, g_k\, \{J_i(s_{k+1}) - J_i(s_k)\}/(s_{k+1} - s_k)}
              {\sum_k p_k g_k^2} - \Big\{\frac{(x_i - \bar x)^2}{\hat\sigma^2} - 1\Big\},

    :math:`p_k` the normal probability of the cell times :math:`m_k/(m_k + 1)`, the share of the
    squared slope that is not error. The cells' weights are taken as unrelated to the
    latent scores, which is exact for additive regressions. Zero for normal margins; columns with
    levels, whose slopes are between levels, are left at zero.
    """
    terms = np.zeros((len(matrix), transport.n_latent))
    for m, column in enumerate(transport.active):
        margin = transport.margins[column]
        if margin is None or margin.discrete:
            continue
        values, knots = matrix[:, column], margin.scores
        slopes = margin.slopes()
        at_knots = np.concatenate([slopes[:1], 0.5 * (slopes[1:] + slopes[:-1]), slopes[-1:]])
        distinct, place = _by_place(values, margin.values)
        one = distinct[:, None]
        below = 0.5 * (one < margin.values) + 0.5 * (one <= margin.values)
        below[distinct <= margin.values[0], 0] = EXTREME
        below[distinct >= margin.values[-1], -1] = 1.0 - EXTREME
        shift = (ndtr(knots) - below) * at_knots * np.sqrt(2 * np.pi) * np.exp(0.5 * knots**2)
        probability = np.diff(ndtr(margin.squared_slopes()[0])) * margin.shrink()
        change = (np.diff(shift, axis=1) / np.diff(knots) @ (probability * slopes))[place]
        standardized = (values - transport.center[column]) / transport.deviation[column]
        terms[:, m] = 2.0 * change / (probability @ slopes**2) - (standardized**2 - 1.0)
    return np.asarray(terms - weights.mean(terms))


def _by_place(values: Floats, knots: Floats) -> tuple[Floats, Ints | slice]:
    """Return representative values, and which one represents each value."""
    if len(values) <= source.LARGE_ROWS:
        return values, slice(None)
    code = np.searchsorted(knots, values, "left") + np.searchsorted(knots, values, "right")
    _, first, place = np.unique(code, return_index=True, return_inverse=True)
    return values[first], place


@dataclass(frozen=True)
class Composition:
    """The function of normal scores that decodes the margins and asks a model."""

    function: Callable[[Floats], Floats]
    transport: CopulaTransport

    def __call__(self, scores: Floats) -> Floats:
        return self.function(self.transport.values(scores))


def through_margins(
    model: LineModel, transport: CopulaTransport, options: Quadrature | None = None
) -> LineModel:
    """Return the same model as a function of normal scores."""
    options = options or Quadrature()
    if isinstance(model, TreeLines):
        categories = tuple(_category_of_scores(c, transport) for c in model.categories)
        decided = [column for category in categories for column in category.columns]
        return replace(
            model,
            ensemble=tree_of_scores(model.ensemble, transport, decided),
            categories=categories,
        )
    if isinstance(model, SumLines):
        parts = (through_margins(part, transport, options) for part in model.parts)
        return replace(model, parts=tuple(parts))
    if isinstance(model, QuadratureLines):
        return replace(model, function=Composition(model.function, transport))
    nodes = SMOOTH_NODES if options.nodes is None else options.nodes
    composed = Composition(model.predict, transport)
    return QuadratureLines(composed, "equal", nodes, options.memory)


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
    """Return trees with each split ``x <= c`` at the score of ``c``; ``decided`` columns stay."""
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
