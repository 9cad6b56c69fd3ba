r"""Transports: a specification that is fitted to rows, and the fitted map.

A :class:`Transport` is part of the estimand: its parameters, and which options of a call it
honours. Fitted to rows (:meth:`Transport.fit_rows`) it becomes a :class:`FittedTransport`, which
takes rows to latent coordinates and back and scores rows along them, its own error included:
derived where it has one (:meth:`FittedTransport.own_error`), else by the grouped jackknife
(:mod:`dfi._scoring.jackknife`).
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Literal, Self, TypeVar, cast

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from dfi._data import source as rows_in_blocks
from dfi._data.frames import build_frame, is_table
from dfi._data.seeds import Seeds
from dfi._data.source import MatrixSource, RowSource
from dfi._data.table import GIB, Table, read_table
from dfi._data.weights import Weights, read_weights
from dfi._estimates.covariance import Estimated
from dfi._findings import Finding
from dfi._parameters import TABLE, argument, check, worded
from dfi._scoring.jackknife import (
    dealt_groups,
    influence_of_groups,
    ticket_groups,
    with_transport_error,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray
    from sklearn.utils import Tags

    from dfi._data.columns import Column
    from dfi._data.moments import RowGroups
    from dfi._lines.base import LineModel, Reference
    from dfi._lines.choose import Quadrature
    from dfi._scoring.map_error import MapInfluence
    from dfi._scoring.scores import Scores
    from dfi._scoring.task import Task
    from dfi._types import Bools, Floats, Frame, Ints, Plain, VectorLike

Fitted = TypeVar("Fitted", bound="FittedTransport")

MOST_REPEATED = 100_000
"""Rows up to which counts are spelled out, about 2 CPU seconds for each pair of columns of a vine;
in larger tables they may double the rows. Beyond that a transport's own weights have to do."""


MOST_BYTES = GIB
"""What a matrix of all columns by all columns may take: 11,585 columns. There are six or seven at
the same time, and time goes with the third power of the columns."""

MOST_WIDE = 3000
"""Columns of a table that has fewer rows than columns: refits take minutes for as many."""

STRAIGHT_ONLY = ("derived", "finite-difference")
"""Ways to the transport's own error that need straight lines."""


@dataclass(frozen=True, eq=False)
class Layout:
    """How rows are fitted: the columns that do not vary, the units, what a refit is like.

    By default every column of the matrix is one of the caller's ``columns``, ``x0``, ``x1``, ...
    With ``like``, this transport fitted to all rows, it is fitted again without some of them: what
    was selected then (dependence components, families of copulas) is kept. What the jackknife
    multiplies by its number of groups is then a change of parameters, not one model giving way to
    another in a few of the refits. ``single`` makes a block of every unit where a transport has
    blocks, for sets of units that are scored as one.
    """

    constant: Bools
    columns: Sequence[Column] | None = None
    like: FittedTransport | None = None
    single: bool = False


class UnsuitableTransportError(ValueError):
    """The data do not allow this transport: too few rows for a kernel, categories in a vine."""


@dataclass(frozen=True)
class TransportChoice:
    """A transport with the reasons why it was chosen; none where the caller chose it."""

    design: Transport
    reasons: tuple[str, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)

    def as_dict(self) -> Plain:
        """Return the choice for a result's diagnostics."""
        return {"chosen": self.design.name, "why": list(self.reasons), **self.numbers}

    def finding(self) -> Finding:
        """Return the choice as a finding about the result."""
        what = f"{argument('transport', 'auto')} took {self.design.name!r}: "
        return Finding("transport", "note", what + "; ".join(self.reasons), self.numbers)


class Transport(TransformerMixin, BaseEstimator):
    """The specification of a transport, and a scikit-learn transformer.

    On its own a transport turns the columns of a table into independent latent coordinates, one
    for each numeric column that varies (each level of a category with three or more; one less where
    a category is one block, as for :class:`Gaussian`): ``Gaussian().fit(X).transform(X)``. Where a
    latent row is random given the row (entropic transports, categorical columns in a vine,
    collinear columns), ``transform`` draws it, from ``random_state``: the same draws for the same
    rows in every call, unless it is None.

    Attributes
    ----------
    fitted_ : FittedTransport
        What was fitted.
    n_features_in_ : int
        Number of columns of ``X``.
    feature_names_in_ : ndarray of str
        Their names, where ``X`` is a dataframe.
    """

    name: ClassVar[str]
    straight: ClassVar[bool] = True
    """Whether latent lines are straight, in feature or in score space."""
    published: ClassVar[bool] = False
    """Whether this is a form of the paper, kept to reproduce it."""
    any_loss: ClassVar[bool] = True
    """Whether scores can be differences of any loss, not of squared errors alone."""
    chooses: ClassVar[bool] = False
    """Whether the data decide which transport is fitted."""
    scored_rows: ClassVar[int | None] = None
    """Rows above which scores are those of a random sample of so many, unless it is asked for."""
    spreads: ClassVar[bool] = False
    """Whether values of categorical columns are spread at random over their jumps."""

    # What only some transports have as parameters; these are the others' values.
    epsilon: float = 0.0
    shrinkage: float | Literal["ledoit-wolf"] | None = None
    n_draws: int = 1
    n_smoothing: int = 1
    attribution: str = "shares"
    random_state: int | None = 0

    fitted_: FittedTransport
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]
    _table: Table

    @property
    def disentangles_units(self) -> bool:
        """Whether units of several columns are blocks; else each of their columns stands alone."""
        return False

    def __post_init__(self) -> None:
        self.check_parameters()

    def check_parameters(self) -> None:
        """Raise for parameters that no transport can have."""
        check("Transport", {"random_state": self.random_state}, optional=["random_state"])

    def check_columns(self, columns: Sequence[Column]) -> None:
        """Raise if columns are too many, or if parameters name other columns than these."""
        width = sum(column.width for column in columns)
        if 8 * width**2 > MOST_BYTES:
            fewer = worded("take SelectKBest or PCA of sklearn", "leave others out with --drop")
            raise ValueError(
                f"{TABLE} has {width} columns (levels of categories counted), and a transport of "
                f"so many takes several matrices of {8 * width**2 / GIB:.3g} GiB, more than the "
                f"{MOST_BYTES / GIB:.3g} GiB allowed for each: explain at most "
                f"{math.isqrt(MOST_BYTES // 8)} columns; {fewer}"
            )

    def check_units(self, columns: Sequence[Column], constant: Bools, transport_error: str) -> None:
        """Raise if derived errors are requested for units of several columns."""
        if transport_error not in STRAIGHT_ONLY or not self.disentangles_units:
            return
        for column in columns:
            if np.count_nonzero(~constant[list(column.positions)]) > 1:
                raise ValueError(
                    f"transport_error={transport_error!r} needs units of one column, but "
                    f"{column.name!r} has several: leave it at 'auto' (here 'jackknife'), or use "
                    "'ignore'"
                )

    def check_size(self, constant: Bools, n_rows: int) -> None:
        """Raise if columns that vary are too many for fewer rows than columns."""
        width = int(np.sum(~constant))
        if n_rows < width > MOST_WIDE:
            raise ValueError(
                f"{TABLE} has {n_rows} rows and {width} columns that vary (levels of categories "
                f"counted): with fewer rows than columns a transport of at most {MOST_WIDE} is "
                "feasible, in minutes. Explain fewer columns: "
                + worded("take SelectKBest or PCA of sklearn", "leave others out with --drop")
            )

    def check(self, *, transport_error: str, integration: Quadrature) -> None:
        """Raise if this transport does not support an option of a call."""
        if transport_error in STRAIGHT_ONLY and not self.straight:
            raise ValueError(
                f"transport_error={transport_error!r} needs straight lines, which "
                f"transport={self.name!r} does not have: use 'auto', 'jackknife' or 'ignore'"
            )
        if integration.rule == "draws" and not self.straight:
            raise ValueError(
                f"Quadrature('draws') needs straight lines, which transport={self.name!r} does "
                "not have: use 'auto', 'equal' or 'gauss'"
            )

    def choose(
        self,
        matrix: Floats,
        weights: Weights,
        constant: Bools,
        columns: Sequence[Column],
        seed: np.random.SeedSequence,
    ) -> TransportChoice:
        """Return the transport to fit to these rows: itself, unless the data decide."""
        del matrix, weights, constant, columns, seed
        return TransportChoice(self)

    @abstractmethod
    def fit_rows(self, matrix: Floats, weights: Weights, layout: Layout) -> FittedTransport:
        """Fit the transport to rows of a numeric matrix."""

    def fit_matrix(
        self,
        matrix: Floats,
        weights: Weights,
        constant: Bools,
        *,
        columns: Sequence[Column] | None = None,
        like: FittedTransport | None = None,
        single: bool = False,
    ) -> FittedTransport:
        """Fit the transport to rows, with the fields of :class:`Layout`."""
        return self.fit_rows(matrix, weights, Layout(constant, columns, like, single))

    def by_sample(self) -> Transport:
        """Return the same transport by the sample correlation: itself, where that is a given."""
        return self

    def fit_source(self, source: RowSource, layout: Layout) -> FittedTransport:
        """Fit the transport to rows, in memory or not: here they are put together in memory."""
        self.check_source(source)
        return self.fit_rows(*gathered(source), layout)

    def check_source(self, source: RowSource) -> None:
        """Raise if the rows must be in memory and are not."""
        if not isinstance(source, MatrixSource) and source.n_rows > rows_in_blocks.LARGE_ROWS:
            raise ValueError(
                f"{argument('transport', self.name)} needs all rows in memory, but the "
                f"{source.n_rows} of {TABLE} are read block by block: use "
                f"{argument('transport', 'gaussian')}, or take a table of some of the rows"
            )

    def refits(
        self, source: RowSource, groups: RowGroups, layout: Layout
    ) -> Iterator[FittedTransport]:
        """Yield the transport fitted to all rows but those of each group, in turn."""
        self.check_source(source)
        matrix, weights = gathered(source)
        group = groups(np.arange(source.n_rows))
        for g in range(groups.count):
            kept = np.flatnonzero(group != g)
            yield self.fit_rows(matrix[kept], weights.take(kept), layout)

    @abstractmethod
    def specification(self) -> Plain:
        """Return the settings that define the estimand."""

    def label(self) -> str:
        """Return the name with what the parameters change from their defaults."""
        default = type(self)()
        changed = [
            f"{field.name} = {getattr(self, field.name)}"
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != getattr(default, field.name)
        ]
        return f"{self.name} ({', '.join(changed)})" if changed else self.name

    def fit(self, X: Frame, y: object = None, sample_weight: VectorLike = None) -> Self:
        """Fit the transport to a table."""
        del y
        self.check_parameters()
        table = read_table(X)
        validate_data(self, X, skip_check_array=True)
        weights = read_weights(sample_weight, table.n_rows)
        self.check_columns(table.columns)
        self._table = table.without(weights.values == 0)
        constant = replace(table, matrix=table.matrix[weights.values > 0]).constant
        if constant.all():
            raise ValueError(f"every column of {TABLE} is constant: there is nothing to transform")
        self.check_size(constant, table.n_rows)
        # a copy: the parameters of this one may be set again
        self.fitted_ = clone(self).fit_matrix(
            table.matrix, weights, constant, columns=table.columns
        )
        return self

    def transform(self, X: Frame) -> Floats:
        """Return the latent rows of a table with the columns of ``fit``, one draw of each."""
        check_is_fitted(self, "fitted_")
        matrix = self._rows(X).matrix
        # its own seed: the rows may have been drawn from the same number
        generator = Seeds.of(self.random_state).child("transform").generator()
        return self.fitted_.couple(matrix, generator)

    def inverse_transform(self, Z: ArrayLike) -> Frame:
        """Return the rows that belong to latent rows, as a table like that of ``fit``.

        Under a random coupling (``epsilon > 0``) these are the conditional means of the features.
        Columns with levels (categories, booleans, counts) hold the nearest one.
        """
        check_is_fitted(self, "fitted_")
        latent = np.asarray(Z, dtype=np.float64)
        if latent.ndim != 2 or latent.shape[1] != self.fitted_.n_latent:
            raise ValueError(
                f"Z has shape {latent.shape}; {type(self).__name__} has {self.fitted_.n_latent} "
                "latent coordinates."
            )
        return self._table.frame(self.fitted_.project(latent))

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return the names of the latent coordinates: those of the columns they belong to."""
        check_is_fitted(self, "fitted_")
        columns = self._table.columns
        if input_features is not None:
            names = np.asarray(input_features, dtype=object)
            known = getattr(self, "feature_names_in_", None)
            if known is not None and not np.array_equal(known, names):
                raise ValueError("input_features is not equal to feature_names_in_")
            if len(names) != len(columns):
                raise ValueError(
                    "input_features should have length equal to number of features "
                    f"({len(columns)}), got {len(names)}"
                )
            columns = tuple(
                replace(column, name=str(name)) for column, name in zip(columns, names, strict=True)
            )
        return np.asarray(self.fitted_.latent_names(columns), dtype=object)

    def _rows(self, X: Frame) -> Table:
        dimensions = 2 if is_table(X) or sparse.issparse(X) else np.asarray(X).ndim
        if dimensions != 2:
            raise ValueError(
                f"{TABLE} must have two dimensions and has {dimensions}. Reshape your data with "
                "X.reshape(-1, 1) if it is one column, X.reshape(1, -1) if it is a row."
            )
        validate_data(self, X, skip_check_array=True, reset=False)
        named, table = is_table(X), self._table
        if named and table.library == "numpy":
            X = np.asarray(X)
        elif not named and table.library != "numpy":
            labels = [column.label for column in table.columns]
            X = build_frame(labels, list(np.asarray(X).T), table.library, table.header)
        return table.like(X)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.transformer_tags.preserves_dtype = []
        tags.non_deterministic = self.spreads or (self.epsilon > 0 and not self.published)
        return tags


class FittedTransport(ABC):
    """A transport fitted to rows."""

    refits_for_error: ClassVar[bool] = True
    """Whether its own error is found by refits, not by a formula."""

    if TYPE_CHECKING:
        # fields of some transports, properties of others

        @property
        def design(self) -> Transport:
            """What was fitted."""

        @property
        def active(self) -> Ints:
            """The matrix columns that vary: the latent coordinates belong to these, in order."""

        @property
        def reference(self) -> Reference:
            """The law of a replacement latent coordinate."""

        @property
        def deviation(self) -> Floats:
            """The standard deviation of every column, of a transport with curves."""

        @property
        def labels(self) -> Ints | None:
            """The dependence component of each coordinate; None where there are none."""

        @property
        def edges(self) -> Floats | None:
            """Those of the cells that the law of a large table is in; None for a law of rows."""

        @property
        def correlations(self) -> Estimated:
            """How correlations were estimated, if any were."""

        @property
        def missed(self) -> Floats | None:
            """How much each coordinate's component may depend on the rest without detection.

            An upper limit of the squared multiple correlation.
            """

    else:
        labels = missed = edges = None
        correlations = Estimated()

    takes_constant: ClassVar[bool] = False
    """Whether a refit, ``like`` this one, keeps coordinates of columns that do not vary there."""
    returns_rows: ClassVar[bool] = True
    """Whether the decoder gives the row that belongs to a latent row, not an average of rows."""

    @property
    def by_slopes(self) -> bool:
        """Whether features receive squared slopes, as in the paper, not shares of a line."""
        return self.design.attribution == "slopes"

    @property
    def n_latent(self) -> int:
        """The number of latent coordinates."""
        return len(self.active)

    def owner(self, columns: Sequence[Column]) -> Ints:
        """Return the unit, one of ``columns``, of each latent coordinate."""
        width = 1 + max(max(column.positions) for column in columns)
        found = np.zeros(width, dtype=np.intp)
        for unit, column in enumerate(columns):
            found[list(column.positions)] = unit
        return found[self.active]

    def latent_names(self, columns: Sequence[Column]) -> list[str]:
        """Return a name for each latent coordinate, that of its column of the matrix."""
        every = [name for column in columns for name in column.matrix_names()]
        return [every[k] for k in self.active]

    def membership(self, columns: Sequence[Column]) -> Floats:
        """Return the 0/1 matrix (scores, units): which are added up for a unit.

        Coordinates have a score each, unless units are scored as one.
        """
        return np.asarray(self.owner(columns)[:, None] == np.arange(len(columns)), dtype=float)

    def score_membership(self, task: Task) -> Floats:
        """Return the matrix (scores, units) of a task: which scores are added up for a unit.

        Of Shapley values, units that several targets hold are divided evenly between them.
        """
        varying, targets = self.membership(task.blocks.columns), task.blocks.targets
        if targets is None:
            return varying
        if task.by_unit:
            holds = np.zeros((varying.shape[1], len(targets)))
            for place, target in enumerate(targets):
                holds[list(target.units), place] = 1.0
            return np.asarray(varying @ (holds / np.maximum(holds.sum(axis=1, keepdims=True), 1.0)))
        units = set(np.flatnonzero(varying.any(axis=0)).tolist())
        kept = [bool(units.intersection(target.units)) for target in targets]
        return np.eye(len(kept))[kept]

    def unit_components(self, columns: Sequence[Column]) -> tuple[tuple[str, ...], ...] | None:
        """Return the dependence components as names of units that vary; None without them."""
        if self.labels is None:
            return None
        owner = self.owner(columns)
        found: dict[int, list[str]] = {}
        for unit, column in enumerate(columns):
            places = np.flatnonzero(owner == unit)
            if len(places):
                found.setdefault(int(self.labels[places[0]]), []).append(column.name)
        return tuple(map(tuple, found.values()))

    def direction_of(self, position: int) -> Floats:
        """Return the latent direction (d,) of a matrix column that varies: its own coordinate."""
        return np.asarray(np.asarray(self.active) == position, dtype=np.float64)

    def moved_along(
        self, rows: Floats, latent: Floats, direction: Floats, values: Floats
    ) -> Floats:
        """Return each row on the line of a direction of :meth:`direction_of`, at each value."""
        return self.moved(rows, latent, int(np.argmax(direction)), values)

    @property
    def drawn_as_one(self) -> Ints:
        """A label for each coordinate: those with the same one belong to one unit."""
        return np.arange(self.n_latent)

    def undecoded(self, matrix: Floats, orders: Ints) -> Floats | float:
        """Return the part of rows that ``decode`` leaves out, units from the rows in ``orders``."""
        del matrix, orders
        return 0.0

    def even_shares(self) -> Floats:
        """Return the share of each latent unit that each unit receives, up to a factor."""
        raise TypeError(f"{type(self).__name__} has no straight lines")

    def why_unprobed(self, n_rows: int) -> str | None:
        """Return why probes of noise are not scored among so many rows; None where they are."""
        del n_rows
        if not self.design.straight:
            return "a second fit of this transport would cost as much as the first"
        return None

    def map_influence(self, matrix: Floats) -> MapInfluence | None:
        """Return the influence of rows on the linear map; None where it is not derived."""
        del matrix
        return None

    def received(self, attribution: Floats) -> Floats:
        """Return the features' parts of a latent score without direction, up to a factor."""
        return attribution

    @property
    def shares_variance(self) -> bool:
        """Whether attributed scores are averages of latent ones, so shares of the variance."""
        return not self.by_slopes

    @property
    def n_dependent(self) -> int:
        """The largest number of latent coordinates that are mixed with each other."""
        return self.n_latent if self.labels is None else int(np.bincount(self.labels).max())

    @abstractmethod
    def encode(self, matrix: Floats, generator: np.random.Generator | None = None) -> Floats:
        """Return latent rows (n, d); the generator makes any random draws."""

    @abstractmethod
    def decode(self, latent: Floats) -> Floats:
        """Return the rows of the numeric matrix that belong to latent rows."""

    def in_latent(self, model: LineModel) -> LineModel | None:
        """Return a model as a closed form of latent rows, where decoding is linear; else None."""
        del model
        return None

    def draw(self, matrix: Floats, generator: np.random.Generator) -> Floats:
        """Return latent rows that are independent coordinates and decode to their rows."""
        return self.encode(matrix, generator)

    def couple(self, matrix: Floats, generator: np.random.Generator) -> Floats:
        """Draw ``Z`` given each row from the coupling."""
        return self.draw(matrix, generator)

    def project(self, latent: Floats) -> Floats:
        """Return the mean of ``X`` given ``Z`` under the coupling."""
        return self.decode(latent)

    def moved(self, rows: Floats, latent: Floats, j: int, values: Floats) -> Floats:
        """Return each row with latent coordinate ``j`` at each value, (rows x values, p)."""
        del rows
        replaced = np.repeat(latent, len(values), axis=0)
        replaced[:, j] = np.tile(values, len(latent))
        return self.decode(replaced)

    @property
    def steps(self) -> Sequence[bool]:
        """Whether the decoder is a step in each coordinate."""
        return [False] * self.n_latent

    def slopes(self, latent: Floats, j: int) -> Floats:
        """Return the change of each standardised feature per unit of latent ``j``, (n, d)."""
        raise NotImplementedError(f"{type(self).__name__} is not scored along curves")

    def mean_squared_slopes(self, rows: Floats, j: int, nodes: Floats, weights: Floats) -> Floats:
        r"""Return :math:`E_t[(\partial S_l/\partial z_j)^2]` for each curve and ``l``, (n, d).

        ``rows`` (n * nodes, d) are latent, coordinate ``j`` of each ``n`` replaced by the nodes in
        turn.
        """
        slope = self.slopes(rows, j).reshape(-1, len(nodes), self.n_latent)
        return np.asarray(np.einsum("itl,t->il", slope**2, weights))

    def diagnostics(self, owner: Ints) -> Plain:
        """Return the fit's diagnostics; ``owner`` is the unit of each coordinate."""
        del owner
        return {}

    def score(self, task: Task) -> Scores:
        """Score held-out rows, own error included; it was fitted on ``task.fits.rows``."""
        return self.finished(self.plain_scores(task), task)

    def finished(self, scores: Scores, task: Task) -> Scores:
        """Add the transport's own error to scores that take it as known."""
        if task.fixed:
            return scores
        aware = self.own_error(scores, task)
        return self.jackknife(scores, task) if aware is None else aware

    @abstractmethod
    def plain_scores(self, task: Task) -> Scores:
        """Score the held-out rows of every fold, treating the transport as known."""

    def own_error(self, scores: Scores, task: Task) -> Scores | None:
        """Add the transport's own error if it is derived; None asks for the jackknife."""
        del scores, task
        return None

    @abstractmethod
    def jackknife(self, scores: Scores, task: Task) -> Scores:
        """Add the transport's own error by fitting it again without groups of rows."""


def gathered(source: RowSource) -> tuple[Floats, Weights]:
    """Return all rows of a source, and their weights."""
    if isinstance(source, MatrixSource) and source.rows is None:
        return source.matrix, source.weights
    return source.take(np.arange(source.n_rows))


def repeated_rows(weights: Weights) -> Ints | None:
    """Return each row repeated by its count; None for sampling weights and too many rows."""
    if weights.kind != "frequency":
        return None
    if weights.total > max(MOST_REPEATED, 2 * int(np.count_nonzero(weights.values))):
        return None
    return np.repeat(np.arange(len(weights.values)), weights.values.astype(np.intp))


def jackknifed(
    scores: Scores,
    task: Task,
    seed: np.random.SeedSequence,
    design: Transport,
    like: Fitted,
    rescore: Callable[[Fitted | None, Ints | None], Floats],
    noise: Callable[[], Floats] | None = None,
) -> Scores:
    """Add the transport's own error, by a grouped jackknife, to both influence matrices.

    The ``design`` is fitted again, to what it was for all rows (``like``), without each group of
    them. ``rescore`` takes a refit (None: the transport as it is) and the rows that it was fitted
    on, among those in memory, where these are known, to :func:`both_means` under it; ``noise`` is
    asked afterwards for the variance of the groups' influence that is not the transport's.

    Refits leave out rows of the whole table, and are set beside means of those that are explained:
    what both have in common is as much less as these are fewer.
    """
    weights = task.weights.take(task.explained)
    refits: Iterator[tuple[Fitted, Ints | None]]
    if task.population is not None:
        by_ticket = ticket_groups(task, seed)
        if by_ticket is None:
            return scores
        groups = by_ticket(task.places)
        layout = Layout(task.fits.constant, task.blocks.columns, like)
        fitted = design.refits(task.population, by_ticket, layout)
        refits = ((cast("Fitted", refit), None) for refit in fitted)
    else:
        of_all = dealt_groups(task, seed)
        if int(of_all.max()) < 1:
            return scores
        groups = of_all[np.searchsorted(task.fits.rows, task.explained)]
        kept = (np.flatnonzero(of_all != g) for g in range(int(of_all.max()) + 1))
        refits = ((refitted(design, task, keep, like), keep) for keep in kept)
    base = rescore(None, None)
    psi = influence_of_groups((rescore(*refit) for refit in refits), base)
    d = scores.latent.shape[1]
    extra = np.zeros(psi.shape[1]) if noise is None else noise()
    return scores.with_error(
        with_transport_error(scores.latent, weights, groups, psi[:, :d], extra[:d]),
        with_transport_error(scores.attributed, weights, groups, psi[:, d:], extra[d:]),
        f"transport jackknife ({len(psi)} groups, models kept)",
    )


def refitted(design: Transport, task: Task, keep: Ints, like: Fitted) -> Fitted:
    """Refit a design to some of the rows, close to the full fit (``like``)."""
    rows = task.fits.rows[keep]
    found = design.fit_matrix(
        task.matrix[rows],
        task.weights.take(rows),
        task.fits.constant,
        columns=task.blocks.columns,
        like=like,
    )
    return cast("Fitted", found)
