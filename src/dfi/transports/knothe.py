r"""The Knothe-Rosenblatt transport: conditional distribution functions, in a stated order.

.. math:: v_1 = F_1(x_1), \quad v_2 = F_{2|1}(x_2 \mid x_1), \quad \ldots, \quad
          z_j = \Phi^{-1}(v_j),

by a D-vine in that order, whose pair copulas are independent, normal or local-likelihood
(quadratic) ones, so the map is triangular: :math:`x_k` depends on :math:`z_1, \ldots, z_k` only. A
column with levels is spread over its jump, :math:`F(x-) + W \{F(x) - F(x-)\}` with ``W`` uniform,
before the vine is fitted: the decoder then returns every row to itself, exactly, and the latent
rows are draws. A row of frequency weight ``w`` is spread, and its latent row drawn, ``w`` times.

Pair copulas of such columns are chosen among the same families. The alternative, parametric
families that know of the jumps and spread a row over its *conditional* jump, was measured on fresh
rows (largest distance correlation of latents, mean over samples of 1000 rows): levels cut from a
Gaussian vector, 0.067 against 0.079 here (0.066 against 0.064 at 3000 rows; chance leaves 0.054);
levels of a parabola, a logistic and a Poisson column, 0.47 against 0.15. It also conditions on
levels on the way there and on latent values on the way back, so rows return 0.2 to 0.3
standard deviations off and the curves miss the rows they belong to.

The decoder of such a column is a step, whose derivative says nothing. Its Jacobian is that of the
levels joined by straight lines over their standardised mid-rank scores, the same as for the other
transports: an independent 0/1 column has the slope 1.

pyvinecopulib takes weights, but its local-likelihood copulas choose their smoothing, and Akaike's
criterion its families, by the number of rows given and not by what they count: on 300 rows with
counts of 1 to 3 a conditional distribution function was up to 0.26 away from that of the repeated
rows (0.07 with the families given, 1e-12 for normal copulas). Frequency weights are therefore
spelled out, row by row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, cast

import numpy as np
from scipy.special import ndtr, ndtri

from dfi._estimates.margins import Margin, fit_margin
from dfi._lines.base import Reference
from dfi._parameters import TABLE, argument, check, validated_fields
from dfi.transports.base import Transport, UnsuitableTransportError, repeated_rows
from dfi.transports.curved import CurvedTransport, differences, neighbours, uniform_reference

if TYPE_CHECKING:
    from types import ModuleType

    from sklearn.utils import Tags

    from dfi._data.columns import Column
    from dfi._data.weights import Weights
    from dfi._scoring.line_shares import Attribution
    from dfi._types import Floats, Ints, Plain
    from dfi.transports.base import Layout

STEP = 0.1
"""Half-width of the differences, in latent standard deviations: wide enough that the roughness of
a local-likelihood fit does not enter its squared slope."""

PIECES = np.linspace(-4.8, 4.8, 65)
"""Ends of the pieces of a normal latent's line over which squared slopes are averaged."""

EDGE = 1e-9

FAMILIES = ("indep", "gaussian", "tll")
"""Pair copulas among which Akaike's criterion chooses: where a normal pair will do, its exact
slope is kept; the local-likelihood one is for everything else."""

INSTALL = "KnotheRosenblatt needs pyvinecopulib: pip install pyvinecopulib"


class Vine(Protocol):
    """What is used of a ``pyvinecopulib.Vinecop``."""

    def rosenblatt(self, u: Floats) -> Floats:
        """Return independent uniforms."""

    def inverse_rosenblatt(self, u: Floats) -> Floats:
        """Return the rows that they belong to."""

    def to_json(self) -> str:
        """Return structure, families and parameters."""


def load_pyvinecopulib() -> ModuleType:
    """Return the package, or raise with how to install it."""
    try:
        import pyvinecopulib
    except ImportError:
        raise ImportError(INSTALL) from None
    return pyvinecopulib


def fit_vine(
    uniform: Floats, mass: Floats | None, order: Sequence[int], like: Vine | None = None
) -> Vine:
    """Fit a D-vine to rows (n, d) of uniform values, the columns in an order."""
    package = load_pyvinecopulib()
    if like is None:
        # The vine's own order is read from its end.
        structure = package.DVineStructure([m + 1 for m in reversed(order)])
        vine = package.Vinecop.from_structure(structure=structure)
    else:
        vine = package.Vinecop.from_json(like.to_json())
    controls = package.FitControlsVinecop(
        family_set=[getattr(package.BicopFamily, name) for name in FAMILIES],
        selection_criterion="aic",
        nonparametric_method="quadratic",
        weights=np.empty(0) if mass is None else mass,
        select_families=like is None,
    )
    vine.select(uniform, controls=controls)
    return cast("Vine", vine)


@dataclass(frozen=True)
class Jumps:
    """A column with levels: its values, and the share of rows up to each."""

    values: Floats
    cumulative: Floats

    def spread(self, column: Floats, generator: np.random.Generator) -> Floats:
        """Return uniform values, random within the jump of each value."""
        at = np.clip(np.searchsorted(self.values, column), 0, len(self.values) - 1)
        below = np.concatenate([[0.0], self.cumulative])[at]
        return np.asarray(below + generator.random(len(column)) * (self.cumulative[at] - below))

    def level(self, uniform: Floats) -> Floats:
        """Return the value whose jump holds each uniform value."""
        at = np.searchsorted(self.cumulative, uniform)
        return np.asarray(self.values[np.minimum(at, len(self.values) - 1)])


@dataclass(frozen=True)
class VineTransport(CurvedTransport):
    """A fitted Knothe-Rosenblatt transport; the vine is None for a single column.

    ``center`` and ``deviation`` (p,) are of every column, the rest of the active ones: ``levels``
    of those that have some, ``spread`` (d, 2) mean and standard deviation of their normal scores.
    """

    design: Transport
    active: Ints
    center: Floats
    deviation: Floats
    margins: tuple[Margin, ...]
    levels: tuple[Jumps | None, ...]
    spread: Floats
    vine: Vine | None
    order: tuple[int, ...]
    uniform: bool

    @property
    def reference(self) -> Reference:
        return uniform_reference(self.n_latent) if self.uniform else Reference.gaussian()

    @property
    def draws_latents(self) -> bool:
        return any(self.steps)

    @property
    def steps(self) -> list[bool]:
        return [levels is not None for levels in self.levels]

    def uniforms(self, matrix: Floats, generator: np.random.Generator) -> Floats:
        """Return the (spread) distribution function of every active column at its own rows."""
        result = np.empty((len(matrix), self.n_latent), order="F")
        for m, column in enumerate(self.active):
            levels = self.levels[m]
            if levels is None:
                result[:, m] = ndtr(self.margins[m].score(matrix[:, column]))
            else:
                result[:, m] = levels.spread(matrix[:, column], generator)
        return np.clip(result, EDGE, 1 - EDGE)

    def encode(self, matrix: Floats, generator: np.random.Generator | None = None) -> Floats:
        generator = np.random.default_rng(0) if generator is None else generator
        uniform = self.uniforms(matrix, generator)
        if self.vine is not None:
            uniform = np.clip(self.vine.rosenblatt(uniform), EDGE, 1 - EDGE)
        return uniform if self.uniform else np.asarray(ndtri(uniform))

    def _joint(self, latent: Floats) -> Floats:
        uniform = np.clip(latent if self.uniform else ndtr(latent), EDGE, 1 - EDGE)
        if self.vine is not None:
            uniform = self.vine.inverse_rosenblatt(np.asfortranarray(uniform))
        return np.clip(uniform, EDGE, 1 - EDGE)

    def decode(self, latent: Floats) -> Floats:
        uniform = self._joint(latent)
        rows = np.broadcast_to(self.center, (len(latent), len(self.center))).copy()
        for m, column in enumerate(self.active):
            levels = self.levels[m]
            if levels is None:
                rows[:, column] = self.margins[m].value(ndtri(uniform[:, m]))
            else:
                rows[:, column] = levels.level(uniform[:, m])
        return rows

    def _scores(self, latent: Floats) -> Floats:
        """Return the normal scores of the active columns, levels treated as numbers."""
        scores = ndtri(self._joint(latent))
        for m, levels in enumerate(self.levels):
            if levels is not None:
                scores[:, m] = self.spread[m, 0] + self.spread[m, 1] * scores[:, m]
        return np.asarray(scores)

    def _smooth(self, latent: Floats) -> Floats:
        """Return standardised active columns, levels joined by straight lines."""
        scores = self._scores(latent)
        columns = [margin.value(scores[:, m]) for m, margin in enumerate(self.margins)]
        return np.stack(columns, axis=1) / self.deviation[self.active]

    def slopes(self, latent: Floats, j: int) -> Floats:
        return differences(self._smooth, latent, j, self._step, self.uniform)

    @property
    def _step(self) -> float:
        return STEP / 4 if self.uniform else STEP

    def mean_squared_slopes(self, rows: Floats, j: int, nodes: Floats, weights: Floats) -> Floats:
        r"""Return :math:`E_t[(\partial S_l/\partial z_j)^2]` for each line and ``l``, (n, d).

        A change of the feature is one of its normal score, smooth in ``t``, times the slope of its
        quantile function, a step function that a few nodes would sample and not average: for the
        first coordinate they are the same for every row. The score's path is interpolated
        between the nodes instead, and the squared slope (:meth:`Margin.squared_slopes`) integrated
        along pieces of it.
        """
        low, high = neighbours(rows, j, self._step, self.uniform)
        below, above = self._scores(low), self._scores(high)
        change = (above - below) / (high[:, j] - low[:, j])[:, None]
        path, speed = (
            values.reshape(-1, len(nodes), self.n_latent)
            for values in (0.5 * (below + above), change)
        )
        ends, share = np.stack([path, path]), weights
        # Uniform latents have infinite slopes at their ends: nothing to interpolate towards.
        if not self.uniform and len(nodes) > 1:
            ends = np.einsum("itm,pt->ipm", path, _between(nodes, PIECES))
            ends = np.stack([ends[:, :-1], ends[:, 1:]])
            middles = 0.5 * (PIECES[:-1] + PIECES[1:])
            speed = np.einsum("itm,pt->ipm", speed, _between(nodes, middles))
            share = np.diff(ndtr(PIECES)) / np.diff(ndtr(PIECES)).sum()
        result = np.zeros((len(path), self.n_latent))
        for m, column in enumerate(self.active):
            if change[:, m].any():
                square = self.margins[m].mean_squares(*ends[..., m]) * speed[:, :, m] ** 2
                result[:, m] = square @ share / self.deviation[column] ** 2
        return result


@validated_fields
@dataclass(kw_only=True)
class KnotheRosenblatt(Transport):
    """Knothe-Rosenblatt transport through a vine copula (needs ``pip install pyvinecopulib``).

    Parameters
    ----------
    order : sequence of column names or positions, optional
        The order of the map, part of the estimand: the first column keeps its whole law, each
        later one is taken given those before. By default the columns' own order.
    latent : {"gaussian", "uniform"}, default="gaussian"
        Law of the latent coordinates.
    attribution : {"shares", "slopes"}, default="shares"
        What features receive of a latent score, as for :class:`Copula`.
    random_state : int or None, default=0
        For ``transform`` alone: where values of categorical columns fall within their jumps.

    Notes
    -----
    Frequency weights give the scores of repeated rows, since the vine is fitted to rows as often
    as they count, up to :data:`dfi.transports.base.MOST_REPEATED` rows (or twice the rows given).
    Counts beyond that, and sampling weights, are handed to pyvinecopulib, which weighs the
    likelihood but smooths and chooses families by the number of rows.

    Examples
    --------
    >>> import dfi, numpy as np
    >>> X = dfi.datasets.m1(300, d=2).X
    >>> Z = dfi.transports.KnotheRosenblatt().fit(X).transform(X)
    >>> bool(abs(np.corrcoef(Z.T)[0, 1]) < 0.05)
    True
    """

    order: Sequence[str | int] | None = None
    latent: Literal["gaussian", "uniform"] = "gaussian"
    attribution: Attribution = "shares"
    random_state: int | None = 0

    name: ClassVar[str] = "knothe-rosenblatt"
    straight: ClassVar[bool] = False
    spreads: ClassVar[bool] = True

    def check_parameters(self) -> None:
        super().check_parameters()
        check("KnotheRosenblatt", {"latent": self.latent})
        if isinstance(self.order, str):
            raise TypeError(
                f"order is the string {self.order!r}, which would be read letter by letter: "
                "pass a list of column names or positions that names every column once"
            )
        unordered = isinstance(self.order, set | frozenset | Mapping)
        if self.order is not None and (unordered or not hasattr(self.order, "__getitem__")):
            raise TypeError(
                "order must be a list of column names or positions, "
                f"not {type(self.order).__name__}"
            )

    def fit_rows(self, matrix: Floats, weights: Weights, layout: Layout) -> VineTransport:
        constant, columns, like = layout.constant, layout.columns, layout.like
        load_pyvinecopulib()
        positions = self._positions(matrix.shape[1], columns)
        active = np.flatnonzero(~constant)
        order = [int(np.searchsorted(active, k)) for k in positions if not constant[k]]
        mass = weights.values
        share = mass / mass.sum()
        center = share @ matrix
        n = weights.effective
        margins = tuple(fit_margin(matrix[:, k], mass, n) for k in active)
        levels = tuple(
            _levels(matrix[:, k], mass) if margin.discrete else None
            for k, margin in zip(active, margins, strict=True)
        )
        spread = np.empty((len(active), 2))
        for m, (k, margin) in enumerate(zip(active, margins, strict=True)):
            score = margin.score(matrix[:, k])
            spread[m] = share @ score, np.sqrt(share @ (score - share @ score) ** 2)
        transport = VineTransport(
            design=self,
            active=active,
            center=center,
            deviation=np.sqrt(share @ (matrix - center) ** 2),
            margins=margins,
            levels=levels,
            spread=spread,
            vine=None,
            order=tuple(order),
            uniform=self.latent == "uniform",
        )
        if len(active) == 1:
            return transport
        rows = repeated_rows(weights)
        repeated = matrix if rows is None else matrix[rows]
        vine = fit_vine(
            transport.uniforms(repeated, np.random.default_rng(0)),
            None if rows is not None or weights.uniform else mass,
            order,
            like.vine if isinstance(like, VineTransport) else None,
        )
        return replace(transport, vine=vine)

    def check_columns(self, columns: Sequence[Column]) -> None:
        super().check_columns(columns)
        self._positions(sum(column.width for column in columns), columns)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        return tags

    def _positions(self, p: int, columns: Sequence[Column] | None) -> list[int]:
        names = [column.name for column in columns] if columns else [f"x{k}" for k in range(p)]
        blocks = [column.positions for column in columns] if columns else [(k,) for k in range(p)]
        gaps = [
            column.name
            for column in columns or ()
            if column.kind != "categorical" and len(column.positions) > 1
        ]
        if gaps:
            raise UnsuitableTransportError(
                f"column {gaps[0]!r} has missing values (NaN), which KnotheRosenblatt cannot take: "
                f"use {argument('transport', 'gaussian', 'copula', 'entropic')}, or "
                f"{argument('missing', 'drop')}"
            )
        for name, block in zip(names, blocks, strict=True):
            if len(block) > 1:
                raise UnsuitableTransportError(
                    f"column {name!r} has {len(block)} categories without an order, which "
                    "KnotheRosenblatt cannot take: give them numbers in a meaningful order, drop "
                    f"the column, or use {argument('transport', 'gaussian', 'copula', 'entropic')}"
                )
        if self.order is None:
            return list(range(p))
        known = set(names)
        labels = []
        for item in self.order:
            if isinstance(item, str):
                if item not in known:
                    raise ValueError(
                        f"order names {item!r}, which is not a column of {TABLE}; the columns are "
                        f"{', '.join(map(repr, names[:10]))}"
                    )
                labels.append(item)
            elif isinstance(item, int | np.integer) and 0 <= item < len(names):
                labels.append(names[int(item)])
            else:
                raise ValueError(
                    f"order has the position {item!r}; {TABLE} has columns 0 to {len(names) - 1}"
                )
        repeated = [label for label, count in Counter(labels).items() if count > 1]
        if repeated:
            raise ValueError(f"order names {repeated[0]!r} more than once")
        missing = [name for name in names if name not in labels]
        if missing:
            raise ValueError(
                f"order leaves out {', '.join(map(repr, missing[:5]))}: name every column once"
            )
        return [blocks[names.index(label)][0] for label in labels]

    def specification(self) -> Plain:
        return {
            "transport": "knothe-rosenblatt",
            "transport_form": "D-vine of independent, normal and local-likelihood pair copulas",
            "epsilon": 0.0,
            "cost": "triangular (first column first)",
            "standardize": True,
            "order": "columns' own order" if self.order is None else [str(k) for k in self.order],
            "latent": self.latent,
            "attribution": self.attribution,
        }


def _between(nodes: Floats, points: Floats) -> Floats:
    """Return the matrix (points, nodes) of linear interpolation, straight on beyond the ends."""
    right = np.clip(np.searchsorted(nodes, points), 1, len(nodes) - 1)
    share = (points - nodes[right - 1]) / (nodes[right] - nodes[right - 1])
    matrix = np.zeros((len(points), len(nodes)))
    at = np.arange(len(points))
    matrix[at, right - 1], matrix[at, right] = 1.0 - share, share
    return matrix


def _levels(column: Floats, mass: Floats) -> Jumps:
    values, inverse = np.unique(column, return_inverse=True)
    share = np.bincount(inverse, mass)
    values, share = values[share > 0], share[share > 0]
    cumulative = np.cumsum(share) / share.sum()
    cumulative[-1] = 1.0
    return Jumps(values, cumulative)
