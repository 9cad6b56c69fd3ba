r"""Linear transports: Bures-Wasserstein whitening, the exact Gaussian bridge, the published form.

With the standardised row :math:`x`, its correlation matrix :math:`R` and the symmetric root
:math:`L = R^{1/2}`, the latent row is :math:`z = L^{-1} x`, so latent coordinate ``j`` is the
one that belongs to feature ``j``. For an entropic cost (``epsilon > 0``) on whitened Gaussian
data the coupling is the Gaussian bridge

.. math:: Z \mid X \sim N(s L^{-1} X, (1 - s^2) I), \qquad
          L^{-1} X \mid Z \sim N(s Z, (1 - s^2) I), \qquad
          s = \sqrt{1 + \varepsilon^2/16} - \varepsilon/4 .

The paper's appendix has :math:`s = 2/(2 + \varepsilon)` instead, from a calculation that drops the
target potential; its ``Z`` has variance :math:`s^2 + \varepsilon/(2+\varepsilon) < 1` and is no
coupling with :math:`N(0, I)`. It is offered as :class:`Semicontinuous`, to reproduce the paper.

Correlations between dependence components (:mod:`dfi._estimates.components`) are 0 exactly, and
known, not estimated: :math:`R`, :math:`L` and the influence on both are block-diagonal. How
:math:`R` is estimated within them is :mod:`dfi._estimates.covariance`.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, TypeVar

import numpy as np

from dfi._data import source as rows_in_blocks
from dfi._data.moments import GroupedMomentsOf, MomentsOf, RowGroups
from dfi._data.source import MatrixSource, RowSource
from dfi._estimates.cells import CellsWithoutOf, LawCellsOf, cell_edges, lowered
from dfi._estimates.components import (
    RELATIVE_FLOOR,
    Components,
    check_components,
    column_labels,
    named_labels,
)
from dfi._estimates.covariance import (
    WIDE,
    Coordinates,
    CovarianceKind,
    Estimated,
    Rank,
    System,
    block_eigensystem,
    component_ranks,
    correlation,
    latent_spread,
    ledoit_wolf,
    places,
)
from dfi._estimates.rows import Rows, Sampled, Sums
from dfi._estimates.within_units import WithinUnits, whitened_by
from dfi._lines.base import LineModel, Reference, ReferenceKind
from dfi._lines.linked import before_map
from dfi._parameters import check, validated_fields
from dfi._scoring.geometry import MANY_COLUMNS, Geometry, components_of
from dfi._scoring.map_error import (
    MapInfluence,
    SquaredInfluence,
    attributed_influence,
    latent_terms,
    refuse_derived,
)
from dfi.transports.base import FittedTransport, Layout, Transport
from dfi.transports.blocks import (
    BlockAttribution,
    BlockTransport,
)
from dfi.transports.straight import Attributed, StraightTransport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dfi._data.columns import Column
    from dfi._data.weights import Weights
    from dfi._lines.choose import Quadrature
    from dfi._scoring.lines import LineScores
    from dfi._types import Floats, Ints, Plain


@dataclass(frozen=True)
class LinearTransport(StraightTransport):
    """A fitted linear transport between features and latent coordinates.

    ``edges`` are those of the cells that the law of a large table is in
    (:mod:`dfi._estimates.cells`).
    """

    design: Transport
    geometry: Geometry
    correlations: Estimated = Estimated()  # noqa: RUF009
    missed: Floats | None = None
    edges: Floats | None = None

    @classmethod
    def of_spectrum(
        cls,
        design: _LinearDesign,
        active: Ints,
        center: Floats,
        scale: Floats,
        system: System,
        ranks: tuple[Rank, ...],
        *,
        labels: Ints | None,
        missed: Floats | None,
        shrinkage: float = 0.0,
        standardized: bool = True,
    ) -> LinearTransport:
        """Return the transport by an eigensystem, with the normal law."""
        vectors, values = system.vectors, system.values
        roots = np.sqrt(values)
        inverse = np.divide(1.0, roots, out=np.zeros_like(roots), where=roots > 0)
        _, smoothing, weight_factor = design.coupling()
        shrunk = design.estimator == "ledoit-wolf"
        estimate = Estimated(ranks, shrinkage, "ledoit-wolf" if shrunk else "sample")
        underived = ""
        if design.published:
            underived = "the published form is there to reproduce the paper"
        elif smoothing < 1.0:
            underived = "not derived for the bridge (epsilon > 0)"
        elif not estimate.of_sample:
            underived = f"not derived for covariance={estimate.used!r}"
        geometry = Geometry(
            active,
            center,
            scale,
            _matrix_of(vectors, inverse, labels) / system.spread,
            _matrix_of(vectors, roots, labels),
            vectors[:, values <= 0],
            vectors,
            values,
            Reference("gaussian"),
            smoothing,
            weight_factor,
            labels,
            standardized,
            shrinkage,
            underived,
        )
        return cls(design, geometry, estimate, missed)

    @property
    def rank(self) -> int:
        return int(np.sum(self.geometry.values > 0))

    def with_law(self, reference: Reference, edges: Floats | None = None) -> LinearTransport:
        return replace(self, geometry=replace(self.geometry, reference=reference), edges=edges)

    def encode(self, matrix: Floats, generator: np.random.Generator | None = None) -> Floats:
        del generator
        return self.geometry.encode(matrix)

    def decode(self, latent: Floats) -> Floats:
        return self.geometry.decode(latent)

    def in_latent(self, model: LineModel) -> LineModel | None:
        return before_map(model, self.geometry.center, self.geometry.directions)

    def draw(self, matrix: Floats, generator: np.random.Generator) -> Floats:
        return self.geometry.with_random_part(self.encode(matrix), generator)

    def couple(self, matrix: Floats, generator: np.random.Generator) -> Floats:
        return self.geometry.couple(matrix, generator)

    def project(self, latent: Floats) -> Floats:
        return self.decode(self.geometry.smoothing * latent)

    def moved(self, rows: Floats, latent: Floats, j: int, values: Floats) -> Floats:
        shift = values[None, :] - latent[:, j, None]
        points = rows[:, None, :] + shift[:, :, None] * self.geometry.directions[:, j]
        return np.asarray(points.reshape(-1, rows.shape[1]))

    def attributed(
        self,
        scores: LineScores,
        matrix: Floats,
        weights: Weights,
        *,
        influence: MapInfluence | None = None,
        squares: SquaredInfluence | None = None,
    ) -> Attributed:
        del matrix
        latent, squared = scores.influence, self.geometry.attribution**2
        phi = weights.mean(latent)
        if influence is not None:
            latent = latent + latent_terms(influence, scores)
        return Attributed(
            latent=latent,
            attributed=attributed_influence(latent, phi, self.geometry, influence),
            jacobian=squared,
            bias=None if squares is None else squared @ squares.latent + squares.decoder @ phi,
        )

    def both_means(self, scores: LineScores, matrix: Floats, weights: Weights) -> Floats:
        del matrix
        phi = weights.mean(scores.influence)
        return np.concatenate([phi, self.geometry.attribution**2 @ phi])

    def diagnostics(self, owner: Ints) -> Plain:
        estimate = self.correlations
        collinear, positive = self.collinear(owner), self.geometry.values[self.geometry.values > 0]
        return {
            "covariance": {
                "used": estimate.used,
                "factors": estimate.factors,
                "shrinkage": estimate.shrinkage,
            },
            "rank": self.rank,
            "condition": float(positive.max() / positive.min()),
            "random_kernel": bool(self.geometry.kernel_variance.any()),
            "collinear_units": collinear,
        }

    def collinear(self, owner: Ints) -> bool:
        """Return whether columns of different units are collinear; those of a category always are.

        A unit's own null directions are those in the span of the null vectors N that lie in its
        coordinates u: as many as N[u] has singular values of 1. The others are between units.
        """
        null = self.geometry.null
        if null.shape[1] == 0:
            return False
        units, sizes = np.unique(owner, return_counts=True)
        own = sum(
            int(np.sum(np.linalg.svd(null[owner == unit], compute_uv=False) > 1.0 - 1e-6))
            for unit in units[sizes > 1]
        )
        return bool(own < null.shape[1])


def _matrix_of(vectors: Floats, values: Floats, labels: Ints | None) -> Floats:
    """Return the symmetric matrix of eigenvectors with some values."""
    if labels is None or len(values) < MANY_COLUMNS:
        return np.asarray((vectors * values) @ vectors.T)
    found = np.zeros_like(vectors)
    for block in components_of(labels, len(values)):
        inside = np.ix_(block, block)
        found[inside] = (vectors[inside] * values[block]) @ vectors[inside].T
    return found


Kept = TypeVar("Kept", "Ints", "Floats")


class Selected(NamedTuple):
    """Choices made on all rows, which refits without some rows keep."""

    labels: Ints | None = None
    missed: Floats | None = None
    ranks: tuple[Rank, ...] | None = None


def selected_units(like: FittedTransport | None, owner: Ints) -> Selected:
    """Return what was selected for units, for coordinates that each belong to one of them."""
    if not isinstance(like, BlockTransport):
        return Selected()
    first = [int(place[0]) for place in like.inner.places]

    def of_units(values: Kept | None) -> Kept | None:
        return None if values is None else values[first][owner]

    return Selected(of_units(like.labels), of_units(like.missed), like.correlations.ranks)


class Whitening(Transport):
    """Base of whitenings, of features or of their normal scores."""

    reference: ReferenceKind | Literal["auto"]
    components: Components
    covariance: CovarianceKind = "sample"

    @property
    def estimator(self) -> CovarianceKind:
        """How correlations are estimated; shrinkage is of the sample's."""
        if isinstance(self.shrinkage, str):
            return "ledoit-wolf"
        return "sample" if self.shrinkage else self.covariance

    def by_sample(self) -> Whitening:
        found = copy.copy(self)
        found.covariance = "sample"
        return found

    def check(self, *, transport_error: str, integration: Quadrature) -> None:
        super().check(transport_error=transport_error, integration=integration)
        if self.estimator in ("factor", "qis"):
            refuse_derived(transport_error)

    def check_parameters(self) -> None:
        check_components(self.components)
        # set_params may have changed what the constructor has checked
        check(type(self).__name__, self.get_params(deep=False), optional=["random_state"])
        given: object = self.shrinkage
        if given and self.covariance not in ("auto", "sample", given):
            raise ValueError(
                f"shrinkage={given!r} needs the sample correlation, not "
                f"covariance={self.covariance!r}: leave one of the two out"
            )

    def check_columns(self, columns: Sequence[Column]) -> None:
        super().check_columns(columns)
        given = check_components(self.components)
        if isinstance(given, tuple):
            named_labels(given, [column.name for column in columns])


class _LinearDesign(Whitening):
    standardize: bool
    attribution: BlockAttribution = "direction"

    @property
    def disentangles_units(self) -> bool:
        return self.standardize and self.epsilon == 0 and not self.published

    def specification(self) -> Plain:
        return {
            "transport": self.name,
            "transport_form": self.form,
            "epsilon": self.epsilon,
            "cost": "squared euclidean on whitened features",
            "standardize": self.standardize,
            "covariance": self.covariance,
            "shrinkage": self.shrinkage,
            "components": check_components(self.components),
            "attribution": self.attribution,
        }

    @property
    @abstractmethod
    def form(self) -> str:
        """The map in words."""

    @abstractmethod
    def coupling(self) -> tuple[ReferenceKind, float, float]:
        """Return the law of a replacement coordinate, the correlation and the weight factor."""

    def fit_rows(
        self, matrix: Floats, weights: Weights, layout: Layout
    ) -> LinearTransport | BlockTransport:
        if is_summed(len(matrix), layout.like):
            return self._fit_sums(MatrixSource(matrix, weights), layout)
        rows = Rows(matrix, weights)
        found = self._without_law(rows, layout)
        return found.with_law(self._law(found, rows))

    def check_source(self, source: RowSource) -> None:
        """Fit to rows, in memory or not."""

    def fit_source(self, source: RowSource, layout: Layout) -> FittedTransport:
        if is_summed(source.n_rows, layout.like):
            return self._fit_sums(source, layout)
        return super().fit_source(source, layout)

    def refits(
        self, source: RowSource, groups: RowGroups, layout: Layout
    ) -> Iterator[FittedTransport]:
        """Yield the transport without each group: moments of the others, merged.

        They keep the law of ``like``, unless they have other coordinates: what replaces a
        coordinate moves its line mean by what depends on the other coordinates alone, which what is
        left of the regression is uncorrelated with, so the law's own error is of second order.
        Counting 20 laws would cost ten times all other passes together.
        """
        if not is_summed(source.n_rows, layout.like):
            yield from super().refits(source, groups, layout)
            return
        sample = Sampled.of(source)
        each = source.reduce(
            GroupedMomentsOf(sample.pivot, groups), "moments without each group"
        ).without_each()
        for g, moments in enumerate(each):
            sums = Sums(source, sample, moments, without=(groups, g))
            yield self._with_counted_law(self._without_law(sums, layout), sums, layout.like)

    def _fit_sums(self, source: RowSource, layout: Layout) -> LinearTransport | BlockTransport:
        sample = Sampled.of(source)
        sums = Sums(source, sample, source.reduce(MomentsOf(sample.pivot), "moments"))
        return self._with_counted_law(self._without_law(sums, layout), sums, layout.like)

    def _with_counted_law(
        self, found: LinearTransport | BlockTransport, sums: Sums, like: FittedTransport | None
    ) -> LinearTransport | BlockTransport:
        """Return a transport with the law of all rows; that of ``like`` where a refit may keep it.

        Cells are those of ``like`` where coordinates are the same.
        """
        if self.coupling()[0] != "empirical":
            return found
        edges, without = None, sums.without
        if like is not None and like.n_latent == found.n_latent:
            edges = like.edges
            if edges is not None and without is not None:
                return found.with_law(like.reference, edges)
        if edges is None:
            edges = cell_edges(found.encode(sums.sample.rows))
        if without is None:
            cells = sums.source.reduce(LawCellsOf(found, edges), "laws")
        else:
            work = CellsWithoutOf(found, edges, *without)
            cells = sums.source.reduce(work, "a law without a group")
        return found.with_law(lowered(cells.reference(edges, *found.geometry.offsets)), edges)

    def by_column(self, matrix: Floats, weights: Weights, layout: Layout) -> LinearTransport:
        """Fit the transport to rows, whitened by column, whatever the units."""
        rows, active = Rows(matrix, weights), np.flatnonzero(~layout.constant)
        kept = _selected(layout.like)
        found = self._whitened(*rows.of_columns(active), active, layout.columns, kept)
        return found.with_law(self._law(found, rows))

    def _law(self, found: LinearTransport | BlockTransport, rows: Rows) -> Reference:
        """Return the law of the latent coordinates, random part of the kernel included."""
        if self.coupling()[0] != "empirical":
            return found.reference
        latent, mass = found.encode(rows.matrix), rows.weights.values
        offsets, offset_weights = found.geometry.offsets
        if isinstance(found, BlockTransport):
            return Reference.of_rows(latent, mass, offsets, offset_weights)
        return Reference.empirical(
            (latent[None] + offsets[:, None, :]).reshape(-1, latent.shape[1]),
            np.outer(offset_weights, mass).ravel(),
        )

    def _without_law(self, rows: Rows | Sums, layout: Layout) -> LinearTransport | BlockTransport:
        columns, like, active = layout.columns, layout.like, np.flatnonzero(~layout.constant)
        known = like.inner if isinstance(like, BlockTransport) else None
        single, inner = layout.single or known is not None, None
        if columns is not None and (self.disentangles_units or single):
            inner = rows.within(layout.constant, columns, known, single=single)
        if columns is None or inner is None:
            return self._whitened(*rows.of_columns(active), active, columns, _selected(like))
        if self._is_wide(inner, rows.size, like):
            inner, linear = self._among_columns(*rows.standardized(active), active, columns, like)
        else:
            kept, coordinates = selected_units(like, inner.owner), np.arange(len(inner.owner))
            linear = self._whitened(
                *rows.of_units(inner), coordinates, inner.units, kept, inner.owner
            )
        return BlockTransport(self, active, inner, linear, self.attribution == "isotropic")

    def _is_wide(self, inner: WithinUnits, size: float, like: FittedTransport | None) -> bool:
        """Return whether an estimate of all columns whitens within units as well."""
        if isinstance(like, BlockTransport):
            return not like.correlations.of_sample
        wide = self.covariance in ("factor", "qis") or len(inner.owner) > WIDE * size
        return wide and self.estimator in ("auto", "factor", "qis")

    def _among_columns(
        self,
        coordinates: Coordinates,
        center: Floats,
        deviation: Floats,
        active: Ints,
        columns: Sequence[Column],
        like: FittedTransport | None,
    ) -> tuple[WithinUnits, LinearTransport]:
        """Fit all but the law where an estimate of all columns whitens within units as well."""
        unit = np.zeros(len(center), dtype=np.intp)
        for number, column in enumerate(columns):
            unit[list(column.positions)] = number
        owner = np.searchsorted(np.unique(unit[active]), unit[active])
        labels, missed, ranks = selected_units(like, owner)
        components = check_components(self.components)
        if labels is None and components is not None:
            labels, missed = column_labels(components, coordinates, active, columns, len(center))
        found = correlation(coordinates, self.estimator, labels=labels, ranks=ranks)
        inner, between = whitened_by(found.matrix, center, deviation, active, columns)
        if labels is not None and missed is not None:
            first = [int(np.searchsorted(active, block.positions[0])) for block in inner.blocks]
            labels, missed = labels[first][inner.owner], missed[first][inner.owner]
        d = len(between)
        vectors, values = np.zeros((d, d)), np.zeros(d)
        for place in places(labels):
            inside = np.arange(d)[place]
            values[inside], vectors[np.ix_(inside, inside)] = np.linalg.eigh(
                between[np.ix_(inside, inside)]
            )
        values = np.where(values > RELATIVE_FLOOR * values.max(), values, 0.0)
        spread: Floats | float = 1.0
        if "qis" in found.ranks:
            root = np.zeros((len(active), d))
            for block, own in zip(inner.blocks, inner.places, strict=True):
                inside = np.searchsorted(active, block.positions)
                root[np.ix_(inside, own)] = deviation[block.positions][:, None] * block.encoder
            # one number for a unit, so it does not depend on the unit's coding
            squares = latent_spread(coordinates.root(slice(None)) @ root, vectors, values) ** 2
            sizes = np.bincount(inner.owner)
            spread = np.sqrt(np.bincount(inner.owner, squares) / sizes)[inner.owner]
        return inner, LinearTransport.of_spectrum(
            self,
            np.arange(d),
            np.zeros(d),
            np.ones(d),
            System(vectors, values, spread=spread),
            found.ranks,
            labels=labels,
            missed=missed,
        )

    def _whitened(
        self,
        coordinates: Callable[[Floats], Coordinates],
        center: Floats,
        deviation: Floats,
        active: Ints,
        columns: Sequence[Column] | None,
        kept: Selected,
        blocks: Ints | None = None,
    ) -> LinearTransport:
        """Fit all but the law; ``coordinates`` are the centred columns over a scale.

        Within ``blocks`` of coordinates rows are white already.
        """
        standardize, components = self.standardize, check_components(self.components)
        scale = np.ones(len(center))
        # a column may not vary among the rows of a refit
        deviation = np.where(deviation > 0, deviation, 1.0)
        if standardize:
            scale[active] = deviation
        rows = coordinates(scale[active])
        unit_rows = rows if standardize else coordinates(deviation)
        labels, missed, ranks = kept
        if labels is None and components is not None:
            labels, missed = column_labels(components, unit_rows, active, columns, len(center))
        estimator = self.estimator
        if ranks is None:
            ranks = component_ranks(unit_rows, estimator, labels)
        amount = 0.0
        if estimator == "ledoit-wolf":
            amount = ledoit_wolf(rows, labels, blocks)
        elif not isinstance(self.shrinkage, str):
            amount = float(self.shrinkage or 0.0)
        system = block_eigensystem(rows, labels, ranks, standardize=standardize)
        scale[active] *= system.stretch
        if amount > 0:
            values = (1 - amount) * system.values + amount * system.values.mean()
            system = system._replace(values=values)
        return LinearTransport.of_spectrum(
            self,
            active,
            center,
            scale,
            system,
            ranks,
            labels=labels,
            missed=missed,
            shrinkage=amount,
            standardized=standardize,
        )


@validated_fields
@dataclass(kw_only=True)
class Gaussian(_LinearDesign):
    """Bures-Wasserstein transport, or at ``epsilon > 0`` the exact Gaussian bridge.

    Parameters
    ----------
    epsilon : float, default=0.0
        Weight of the entropy in the transport cost ``||x - z||^2 + epsilon KL``. It is part of
        the estimand.
    standardize : bool, default=True
        Bring every column to unit variance first, so units of measurement do not matter.
    covariance : {"auto", "sample", "qis", "factor", "ledoit-wolf"}, default="auto"
        How correlations are estimated (:mod:`dfi._estimates.covariance`, with figures).
        ``"qis"``: Ledoit and Wolf's nonlinear shrinkage, under which opposite effects of columns
        that are nearly collinear still cancel. ``"factor"``: a few common factors and a part of its
        own for every column. ``"auto"``: the sample correlation for a component of at most a fifth
        as many columns as rows; else factors where held-out rows are clearly likelier under them,
        and ``"qis"`` where not; and the sample's again where predictions would not keep their
        variance. Under both standard errors come from refits and the second-order bias is left in;
        under ``"qis"`` rows come back from ``inverse_transform`` only nearly.
    shrinkage : float or "ledoit-wolf", default=0.0
        Share of the identity mixed into the sample correlation matrix;
        ``"ledoit-wolf"`` is the same as ``covariance="ledoit-wolf"``.
    reference : {"auto", "empirical", "gaussian"}, default="auto"
        Law of a replacement latent coordinate: the empirical law of each coordinate for
        ``epsilon = 0`` (whitening alone does not make data Gaussian), ``N(0, 1)`` for the bridge.
    components : "auto", None or list of lists of column names, default="auto"
        Columns that depend on each other; correlations between components are 0 exactly.
        ``"auto"`` finds them by tests (:mod:`dfi._estimates.components`), None takes every sample
        correlation as it is. In a list, columns that are not named are components of their own.
    attribution : {"direction", "isotropic"}, default="direction"
        How the score of a unit of several columns is attributed to the units that it shares with:
        along the direction of its linear effect, or evenly over its directions.
    n_draws, n_smoothing : int, default=4 and 32
        Bridge only: draws of ``Z`` per row and points of the Gaussian smoothing of the model.
    random_state : int or None, default=0
        For ``transform`` alone: what the bridge, or collinear columns, leave random.

    Examples
    --------
    >>> X = dfi.datasets.m1(500, rho=0.8, d=2).X
    >>> transport = dfi.transports.Gaussian().fit(X)
    >>> Z = transport.transform(X)
    >>> bool(abs((Z[:, 0] * Z[:, 1]).mean()) < 1e-9)
    True
    >>> bool(abs(transport.inverse_transform(Z) - X).max() < 1e-9)
    True
    """

    epsilon: float = 0.0
    standardize: bool = True
    covariance: CovarianceKind = "auto"
    shrinkage: float | Literal["ledoit-wolf"] = 0.0
    reference: ReferenceKind | Literal["auto"] = "auto"
    n_draws: int = 4
    n_smoothing: int = 32
    components: Components = "auto"
    attribution: BlockAttribution = "direction"
    random_state: int | None = 0

    name: ClassVar[str] = "gaussian"

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.reference == "empirical" and self.epsilon > 0:
            raise ValueError(
                "the Gaussian bridge (epsilon > 0) couples X with N(0, I): "
                "reference must be 'auto' or 'gaussian'"
            )

    def check(self, *, transport_error: str, integration: Quadrature) -> None:
        super().check(transport_error=transport_error, integration=integration)
        if transport_error == "finite-difference" and self.epsilon > 0:
            raise ValueError(
                "transport_error='finite-difference' holds for epsilon = 0; leave it at 'auto' for "
                "the bridge"
            )

    def correlation(self) -> float:
        """Return the bridge's correlation ``s`` between ``Z`` and the whitened row."""
        return math.sqrt(1.0 + self.epsilon**2 / 16.0) - self.epsilon / 4.0

    @property
    def form(self) -> str:
        return "bridge" if self.epsilon > 0 else "bures-wasserstein"

    def coupling(self) -> tuple[ReferenceKind, float, float]:
        kind, s = self.reference, self.correlation()
        if kind == "auto":
            kind = "gaussian" if self.epsilon > 0 else "empirical"
        return kind, s, s


@validated_fields
@dataclass(kw_only=True)
class Semicontinuous(_LinearDesign):
    r"""The form published in the paper's appendix, under its own name.

    ``Z = s L^{-1} x`` with :math:`s = 2/(2+\varepsilon)`,
    :math:`\tau = \varepsilon/(2+\varepsilon)`, and the attribution matrix :math:`W = L M_w`,
    :math:`M_w = s \hat\Sigma_w (\tau I + s^2 \hat\Sigma_w)^{-1}` (equation ``Mw-semicont``). In
    sample the whitened covariance is the identity, so :math:`M_w = s/(\tau + s^2) I`. Latent
    scores do not change with the scale ``s`` of ``Z``, and ``transform`` leaves it out. The options
    are those of :class:`Gaussian`; as in the paper, ``components`` are None by default, and the
    covariance is the sample's.

    Parameters
    ----------
    epsilon : float, default=1e-3
        The regularisation.
    standardize : bool, default=True
        Whether features are scaled to variance 1 first.
    shrinkage : float or "ledoit-wolf", default=0.0
        Shrinkage of the correlations towards the identity.
    reference : {"auto", "empirical", "gaussian"}, default="auto"
        The law of replacement values.
    components : "auto", list of lists of str, or None, default=None
        Dependence components, as for :class:`Gaussian`.
    random_state : int or None, default=0
        Seed of the random kernel where columns are collinear.

    Examples
    --------
    >>> X = dfi.datasets.m1(300, d=2).X
    >>> transport = dfi.transports.Semicontinuous().fit(X)
    >>> bool(abs(transport.inverse_transform(transport.transform(X)) - X).max() < 1e-9)
    True
    """

    epsilon: float = 1e-3
    standardize: bool = True
    shrinkage: float | Literal["ledoit-wolf"] = 0.0
    reference: ReferenceKind | Literal["auto"] = "auto"
    components: Components = None
    random_state: int | None = 0

    name: ClassVar[str] = "semicontinuous"
    published: ClassVar[bool] = True

    @property
    def form(self) -> str:
        return "published appendix, not a coupling with N(0, I)"

    def coupling(self) -> tuple[ReferenceKind, float, float]:
        s, tau = 2.0 / (2.0 + self.epsilon), self.epsilon / (2.0 + self.epsilon)
        return "empirical" if self.reference == "auto" else self.reference, 1.0, s / (tau + s**2)


def _selected(like: FittedTransport | None) -> Selected:
    if like is None:
        return Selected()
    return Selected(like.labels, like.missed, like.correlations.ranks)


def is_summed(n_rows: int, like: FittedTransport | None = None) -> bool:
    """Return whether a linear transport is fitted from sums: that of a large table, and its refits.

    A refit has the law of what it is compared with, in cells or not.
    """
    if like is not None:
        if like.edges is not None:
            return True
        if like.reference.kind == "empirical":
            return False
    return n_rows > rows_in_blocks.LARGE_ROWS
