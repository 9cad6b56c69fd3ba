"""Change between two tables: which features carry more or less than before, and why."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import numpy as np

from dfi._collect import FittedSource
from dfi._data.columns import read_vector
from dfi._data.frames import is_table, ordered_like, split_column
from dfi._data.seeds import Seeds
from dfi._models.prepare import ORDER
from dfi._parameters import argument, taken_by, validated, worded
from dfi._run import explain
from dfi._streams.gather import gather_frame
from dfi._streams.read import is_stream
from dfi.inference.influence import Influence, InfluenceRows
from dfi.methods.separation import POOR, Separation
from dfi.methods.swapped import Both, Swapped, swapped, why_not
from dfi.results.change import Change, SharedRows
from dfi.results.file import thaw
from dfi.results.importance import Importance
from dfi.warnings import InferenceWarning, OverlapWarning, warn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dfi._data.everyday import Identifiers
    from dfi._data.outcome import Task as OutcomeTask
    from dfi._data.problem import UnitsKind
    from dfi._data.table import Missing
    from dfi._lines.choose import Quadrature
    from dfi._models.fits import Fits
    from dfi._scoring.forms import AskedForm
    from dfi._scoring.task import TransportError
    from dfi._types import (
        Array,
        EstimatorLike,
        Floats,
        Frame,
        GroupsLike,
        Ints,
        Native,
        SplitsLike,
        TableLike,
        TransportLike,
        VectorLike,
    )
    from dfi.losses import LossLike

    Period: TypeAlias = Importance | TableLike | tuple[TableLike, VectorLike]
    ByPeriod: TypeAlias = str | tuple[VectorLike, VectorLike] | None

Rows = Literal["auto", "independent", "same"]

MUST_AGREE = (
    "transport", "transport_form", "cost", "reference", "epsilon", "standardize", "units",
    "unit_scores", "group_scores", "scale",
)  # fmt: skip
"""Entries that must agree for a change to mean anything, besides those of a difference
(``results.importance``): what is measured, and in which unit."""


ALIKE, SURELY = 0.2, 4.0
"""Autocorrelation of neighbouring rows from which they are not independent, and how many times that
of chance it must be."""

MANY_ROWS = 21
"""With this many rows, sorted order is no accident."""


@validated
def change(
    before: Period,
    after: Period,
    y: str | None = None,
    estimator: EstimatorLike = "auto",
    *,
    rows: Rows = "auto",
    id: str | None = None,  # noqa: A002 - as the column is called
    ids: tuple[VectorLike, VectorLike] | None = None,
    transport: TransportLike = "gaussian",
    feature_groups: GroupsLike = None,
    units: UnitsKind = "columns",
    cv: SplitsLike = 5,
    n_repeats: int | None = None,
    form: AskedForm = "auto",
    transport_error: TransportError = "auto",
    integration: Quadrature | Literal["auto"] = "auto",
    diagnose: bool = True,
    keep_rows: bool = False,
    sample_weight: ByPeriod = None,
    frequency_weight: ByPeriod = None,
    clusters: ByPeriod = None,
    missing: Missing = "indicator",
    identifiers: Identifiers = "drop",
    loss: LossLike = "auto",
    task: OutcomeTask = "auto",
    pos_label: object = None,
    level: float | None = None,
    n_jobs: int | None = None,
    random_state: int | None = 0,
    progress: bool | None = None,
) -> Change:
    r"""Show which features carry more or less of the signal than before, with inference, and why.

    The change of a score is decomposed into two parts: *covariates*, due to the features'
    distribution (their spread and correlations), and *concept*, due to the outcome's dependence on
    them. With :math:`\Phi(a, b)` the score under the covariates of table ``a`` and the concept of
    table ``b``,

    .. math::

        \text{covariates} &= \tfrac12 \{\Phi(1, 0) - \Phi(0, 0) + \Phi(1, 1) - \Phi(0, 1)\}, \\
        \text{concept} &= \tfrac12 \{\Phi(0, 1) - \Phi(0, 0) + \Phi(1, 1) - \Phi(1, 0)\},

    which add up to the change :math:`\Phi(1, 1) - \Phi(0, 0)`. Each table has its own transport and
    dependence components.

    Parameters
    ----------
    before, after : Importance, dataframe, or pair (X, y)
        Two results of :func:`dfi.explain`, or two tables: dataframes that hold the outcome in the
        column ``y``, or pairs of features and outcome.
    y : str, optional
        The column of both dataframes that holds the outcome.
    estimator : str, estimator or callable, default="auto"
        The regression of each table, as for :func:`dfi.explain`. This, and everything from
        ``transport`` on, applies to tables; results have their own.
    rows : {"auto", "independent", "same"}, default="auto"
        Whether row i of one table is row i of the other (the same units twice), so common error
        cancels. ``"auto"``: only if both are the same table (two models on the same rows); other
        tables are independent samples.
    id : str, optional
        The column of both dataframes that identifies units; it is not used as a feature. Tables may
        overlap in part.
    ids : pair of array-like, optional
        The same as two vectors, one value for each row of the two tables.
    sample_weight, frequency_weight, clusters : str or pair of array-like, optional
        The column of both dataframes, or one vector for each table.
    level : float, optional
        Confidence level of the intervals; that of the results, .95 for tables.

    Returns
    -------
    Change
        ``change.table()`` has the units, ``change.any_change`` the test of whether any of them
        changed, ``change.before`` and ``change.after`` the two results.

    Warns
    -----
    InferenceWarning
        Rows count as independent but are in time order: a date index, a column by which they are
        sorted, or neighbours that are alike.
    OverlapWarning
        The tables hardly overlap: covariates and concept rest on few rows. If a classifier
        separates the rows almost perfectly, they are not computed, and ``change.reason`` says why.

    Notes
    -----
    Covariates and concept need the fitted models and the rows: results that were loaded or reduced
    to moments give only the change, and ``change.reason`` says so.

    Examples
    --------
    >>> found.any_change.feature
    'x2'
    >>> found.table()[["feature", "change", "covariates", "concept"]].round(1)
      feature  change  covariates  concept
    0      x2     7.6        -0.2      7.8
    1      x0    -1.4        -2.3      0.9
    2      x1    -0.9        -1.4      0.5
    """
    given = dict(locals())
    if id is not None and ids is not None:
        raise TypeError("pass id (a column) or ids (two vectors), not both")
    if rows == "same" and (id is not None or ids is not None):
        raise TypeError("rows='same' matches rows by position, and id by name: pass one of the two")
    if isinstance(before, Importance) and isinstance(after, Importance):
        _refuse_options(given)
        first, last = before, after
    elif isinstance(before, Importance) or isinstance(after, Importance):
        other = after if isinstance(before, Importance) else before
        raise TypeError(
            "before and after must be two results or two tables, got a result and a "
            f"{type(other).__name__}: explain the table first"
        )
    else:
        named = {
            name: given[name]
            for name in ("sample_weight", "frequency_weight", "clusters")
            if given[name] is not None
        }
        seeds = Seeds.of(random_state)
        one = _Period.read(before, "before", 0, y, id, named, seeds)
        two = _Period.read(after, "after", 1, y, id, named, seeds)
        two = replace(two, X=ordered_like(two.X, one.X))
        if one.ids is not None and two.ids is not None:
            ids = one.ids, two.ids
        if form == "auto" and isinstance(cv, str) and cv == "prefit":
            # only scores whose regression errors enter squared have covariates and concept
            form = "loco"
        given |= {"form": form, "level": 0.95 if level is None else level}
        first, last = (period.explained(given) for period in (one, two))
    if level is not None:
        first, last = _at_level(first, level), _at_level(last, level)
    _check_alike(first, last)
    _warn_of_order(first, last)
    pairing = _Pairing.of(first, last, rows, ids)
    found = Change(first, last, pairing.difference(first, last), rows=pairing.kind)
    return _told_apart(found, pairing)


def _warn_of_order(before: Importance, after: Importance) -> None:
    why = {name: _order(result) for name, result in (("before", before), ("after", after))}
    told = {name: reason for name, reason in why.items() if reason}
    if told:
        warn(
            f"change treats rows as independent, but in {' and '.join(told)} "
            f"{next(iter(told.values()))}: standard errors are too small if neighbours are alike. "
            f"Pass {argument('clusters')} (such as the week of each row), "
            + worded("or cv=TimeSeriesSplit(5), which keeps rows in order", "or --time"),
            InferenceWarning,
        )


def _order(result: Importance) -> str | None:
    """Return evidence that neighbouring rows are alike; None without any."""
    basis = result.basis
    if not isinstance(basis, InfluenceRows) or basis.words != "independent rows":
        return None
    if isinstance(result.source, FittedSource):
        data = result.source.fits.data
        index: Native = data.labels
        dates = str(getattr(index, "dtype", "")).startswith(("datetime64", "period"))
        if dates and (index.is_monotonic_increasing or index.is_monotonic_decreasing):
            return "dates name the rows, in order"
        for column in data.table.columns:
            values = data.matrix[:, column.positions[0]]
            many = column.kind in ("real", "integer") and len(values) >= MANY_ROWS
            steps = np.diff(values)
            ordered = (steps >= 0).all() or (steps <= 0).all()
            if many and ordered and len(np.unique(values)) > len(values) / 2:
                return f"rows are sorted by {column.name!r}, as by time"
    seen = [basis.values.sum(axis=1)]
    totals = result.totals
    if isinstance(totals, InfluenceRows):
        # what models leave, as squares: they know nothing of signs, and much of their size
        seen.append(totals.values[:, 0] - totals.values[:, 1])
    found = max(map(_autocorrelation, seen))
    if found > max(ALIKE, SURELY / np.sqrt(basis.n_rows)):
        return f"neighbouring rows are correlated (autocorrelation {found:.2f})"
    return None


def _autocorrelation(values: Floats) -> float:
    apart = values - values.mean()
    total = float(apart @ apart)
    return float(apart[1:] @ apart[:-1]) / total if total > 0 else 0.0


@dataclass(frozen=True)
class _Period:
    """One of two tables, as :func:`dfi.explain` takes it, with names of its rows."""

    X: TableLike
    y: VectorLike
    ids: VectorLike
    vectors: Mapping[str, VectorLike]
    facts: Mapping[str, object]

    def explained(self, given: Mapping[str, object]) -> Importance:
        call = {**given, **self.vectors, "X": self.X, "y": self.y}
        found = explain(**taken_by(explain, call))
        return replace(found, spec={**found.spec, **self.facts}) if self.facts else found

    @classmethod
    def read(
        cls,
        period: object,
        name: str,
        place: int,
        y: str | None,
        row_id: str | None,
        named: Mapping[str, object],
        seeds: Seeds,
    ) -> _Period:
        facts: Mapping[str, object] = {}
        if is_stream(period):
            period, facts = _gathered(period, name, row_id, named, seeds)
        outcome: VectorLike = y
        if is_table(period):
            table: Frame = period
            if y is None:
                raise TypeError(
                    f"{name} is a dataframe: name its outcome column, y='...', or pass a pair (X, "
                    "y)"
                )
        elif isinstance(period, tuple) and len(period) == 2:
            if y is not None:
                raise TypeError(
                    f"y={y!r} names a column of dataframes, but {name} is a pair (X, y): leave y "
                    "out"
                )
            table, outcome = period
        else:
            raise TypeError(
                f"{name} is a {type(period).__name__}: pass a result of explain, a dataframe "
                "with y='...', or a pair (X, y)"
            )
        row_names: VectorLike = None
        if row_id is not None:
            table, row_names = split_column(table, row_id, "id", "the rows")
        vectors: dict[str, VectorLike] = {}
        for role, value in named.items():
            if isinstance(value, str):
                table, vectors[role] = split_column(table, value, role, "a column")
            elif isinstance(value, tuple | list) and len(value) == 2:
                vectors[role] = value[place]
            else:
                raise TypeError(
                    f"{role} must be the name of a column of both tables, or two vectors "
                    f"({role}_before, {role}_after), got {type(value).__name__}"
                )
        return cls(table, outcome, row_names, vectors, facts)


def _gathered(
    period: Native, name: str, row_id: str | None, named: Mapping[str, object], seeds: Seeds
) -> tuple[Frame, Mapping[str, object]]:
    clusters = named.get("clusters")
    pairs = next((role for role, value in named.items() if not isinstance(value, str)), None)
    if pairs is not None:
        raise TypeError(
            f"{pairs} is a pair of vectors, but {name} is a table that is not in memory: name the "
            "column of both tables that holds it"
        )
    if row_id is not None and clusters is not None:
        raise ValueError(
            f"id and clusters both say which rows of {name} are drawn together, and it is not in "
            "memory: leave one out, or read the tables into data frames"
        )
    return gather_frame(
        period, seeds.child(ORDER).sequence(), row_id=row_id, together=cast("str | None", clusters)
    )


def _refuse_options(given: Mapping[str, object]) -> None:
    own = ("before", "after", "rows", "ids", "level")
    for name, parameter in inspect.signature(change).parameters.items():
        if name not in own and given[name] is not parameter.default:
            default = parameter.default
            if isinstance(default, str | int | float) and given[name] == default:
                continue
            if name == "id":
                raise TypeError("id names a column of tables, but these are results: pass ids")
            raise TypeError(
                f"{name} applies to tables, but before and after are results already: leave it "
                "out, or pass the tables"
            )


def _at_level(result: Importance, level: float) -> Importance:
    latent = None if result.latent is None else _at_level(result.latent, level)
    parts = {name: _at_level(part, level) for name, part in result.by_outcome.items()}
    return replace(result, level=level, latent=latent, by_outcome=parts)


def _check_alike(before: Importance, after: Importance) -> None:
    """Raise if the two results measure different things."""
    for result, name in ((before, "before"), (after, "after")):
        if result.difference:
            raise ValueError(f"{name} is a difference of two results: pass a result of explain")
    for key in MUST_AGREE:
        ours, theirs = (thaw(result.spec.get(key)) for result in (before, after))
        if ours != theirs:
            raise ValueError(
                f"before and after differ in {key} ({ours!r} and {theirs!r}): their "
                "scores do not mean the same thing. Explain both tables in the same way"
            )
    outcomes = [thaw(result.spec.get("outcome")) for result in (before, after)]
    told = [outcome if isinstance(outcome, dict) else {} for outcome in outcomes]
    for key in ("kind", "classes", "positive"):
        if told[0].get(key) != told[1].get(key):
            raise ValueError(
                f"before and after explain different outcomes ({key}: {told[0].get(key)!r} and "
                f"{told[1].get(key)!r}): pass tables with the same outcome"
            )


@dataclass(frozen=True)
class _Pairing:
    """Which rows of two tables are the same unit: ``codes`` of their rows, None if none are."""

    kind: SharedRows
    codes: tuple[Ints, Ints] | None = None
    same_table: bool = False

    @classmethod
    def of(
        cls,
        before: Importance,
        after: Importance,
        rows: Rows,
        ids: tuple[VectorLike, VectorLike] | None,
    ) -> _Pairing:
        keys = ("data_sha256", "n_rows")
        same = all(
            key in before.spec and before.spec.get(key) == after.spec.get(key) for key in keys
        )
        if ids is not None:
            codes = _codes(_names(ids, 0, before), _names(ids, 1, after))
            shared = np.intersect1d(*codes)
            if len(shared) == 0:
                raise ValueError(
                    "no id is in both tables, so no row is shared: leave id out, and the "
                    "tables are independent samples; or check that both spell it the same way"
                )
            whole = len(shared) == len(codes[0]) == len(codes[1])
            return cls("same" if whole else "overlapping", codes, same_table=same and whole)
        if rows == "same" or (rows == "auto" and same):
            n = [_n_rows(result) for result in (before, after)]
            if n[0] != n[1]:
                raise ValueError(
                    f"rows='same' matches row i of one table with row i of the other, but before "
                    f"has {n[0]} rows and after {n[1]}: match them with id"
                )
            return cls("same", (np.arange(n[0]), np.arange(n[1])), same_table=same)
        return cls("independent")

    @property
    def independent(self) -> bool:
        return self.codes is None

    def difference(self, before: Importance, after: Importance) -> Importance:
        """Return ``after`` minus ``before``, influence values over the rows of both."""
        if self.codes is None:
            return after.minus(before, same_rows=False)
        try:
            named = [
                _with_rows(result, codes)
                for result, codes in zip((before, after), self.codes, strict=True)
            ]
        except ValueError as error:
            raise ValueError(
                f"shared rows are needed one by one ({error}); if the tables are independent, "
                "leave id and rows out"
            ) from error
        return named[1].minus(named[0], same_rows=True)

    def shared(self, fits: Fits, *, first: bool) -> Ints | None:
        """Return for each explained row of one table its row in the other, -1 for none."""
        if self.codes is None:
            return None
        ours, theirs = self.codes if first else self.codes[::-1]
        order = np.argsort(theirs)
        at = np.minimum(np.searchsorted(theirs[order], ours[fits.rows]), len(order) - 1)
        return np.where(theirs[order][at] == ours[fits.rows], order[at], -1)

    def combined(self, before: Both, after: Both, result: Change) -> tuple[Influence, Influence]:
        """Return influence values over the rows of both tables, attributed and latent."""
        found = []
        for name in ("attributed", "latent"):
            sides = []
            for place, (side, period) in enumerate(
                ((before, result.before), (after, result.after))
            ):
                basis = period.basis
                if not isinstance(basis, InfluenceRows):
                    raise TypeError("moments have no rows")
                rows = None
                if self.codes is not None and basis.rows is not None:
                    rows = self.codes[place][basis.rows]
                sides.append(InfluenceRows(getattr(side, name), basis.weights, rows))
            found.append(sides[1].combined(sides[0], 1.0, independent=self.independent))
        return found[0], found[1]


def _n_rows(result: Importance) -> int:
    known = result.spec.get("n_rows")
    return int(known) if isinstance(known, int) else result.basis.n_rows


def _names(ids: tuple[VectorLike, VectorLike], place: int, result: Importance) -> Array:
    if not isinstance(ids, tuple | list) or len(ids) != 2:
        raise TypeError("ids must be two vectors, one for the rows of each table")
    name = ("before", "after")[place]
    read = read_vector(ids[place], "ids").labels()
    values = np.empty(len(read), dtype=object)
    values[:] = [value.item() if isinstance(value, np.generic) else value for value in read]
    n = _n_rows(result)
    source = result.source
    if isinstance(source, FittedSource) and source.fits.data.kept is not None:
        kept = source.fits.data.kept
        if len(values) == len(kept):
            values = values[kept]
    if len(values) != n:
        raise ValueError(f"there are {len(values)} ids for the {n} rows of {name}")
    absent = [value is None or value != value for value in values]
    if any(absent):
        raise ValueError(f"the id of row {absent.index(True)} of {name} is missing")
    seen: set[object] = set()
    for value in values.tolist():
        if value in seen:
            raise ValueError(
                f"the id {value!r} appears twice in {name}: each row needs its own id; pass rows "
                f"that depend on each other as {argument('clusters')}"
            )
        seen.add(value)
    return values


def _codes(first: Array, second: Array) -> tuple[Ints, Ints]:
    place: dict[object, int] = {}
    found = [
        np.array([place.setdefault(value, len(place)) for value in values.tolist()], dtype=np.intp)
        for values in (first, second)
    ]
    return found[0], found[1]


def _with_rows(result: Importance, codes: Ints) -> Importance:
    rows = result.rows
    if rows is None:
        raise ValueError("this result does not have the positions of its rows in the table")
    return replace(
        result,
        basis=InfluenceRows(result.influence, result.weights, codes[rows]),
        latent=None if result.latent is None else _with_rows(result.latent, codes),
        by_outcome={name: _with_rows(part, codes) for name, part in result.by_outcome.items()},
        totals=None,
        source=None,
    )


def _told_apart(found: Change, pairing: _Pairing) -> Change:
    """Return the change with its parts, or with the reason why there are none."""
    if pairing.same_table:
        # one table has one law of covariates: two models differ in what they say of the concept
        difference = found.difference
        covariates = replace(
            difference,
            basis=difference.basis.zeroed(np.ones(len(found.names), dtype=np.bool_)),
            latent=None
            if difference.latent is None
            else replace(
                difference.latent,
                basis=difference.latent.basis.zeroed(np.ones(len(found.names), dtype=np.bool_)),
            ),
            by_outcome={},
        )
        return replace(
            found, covariates=_part(covariates, "covariates"), concept=_part(difference, "concept")
        )
    sources = [result.source for result in (found.before, found.after)]
    if found.before.spec.get("method") != "dfi":
        name = found.before.spec.get("method")
        return replace(
            found,
            reason=f"covariates and concept need scores of method 'dfi', and these are of {name!r}",
        )
    if not all(isinstance(source, FittedSource) for source in sources):
        return replace(
            found,
            reason="this needs the fitted models and the rows; results that were loaded, copied "
            "or reduced do not have them, nor do results for latent scores, groups and effects: "
            "pass the tables",
        )
    before, after = (s for s in sources if isinstance(s, FittedSource))
    reason = why_not(before.method, before.fits, after.fits)
    reason = reason or why_not(after.method, before.fits, after.fits)
    if reason:
        return replace(found, reason=reason)
    overlap = Separation.of(before.fits, after.fits)
    found = replace(found, overlap=overlap.as_dict())
    if overlap.separated:
        return replace(found, reason=overlap.words)
    if overlap.auc >= POOR:
        warn(
            f"the tables overlap poorly: {overlap.words}. Covariates and concept rest on few "
            "common rows and on extrapolation",
            OverlapWarning,
        )
    # covariates of the first table with the concept of the second, and the other way round
    mixed = swapped(
        after.method, before.fits, after.fits, shared=pairing.shared(before.fits, first=True)
    )
    back = swapped(
        before.method, after.fits, before.fits, shared=pairing.shared(after.fits, first=False)
    )
    return _with_parts(found, pairing, mixed, back)


def _with_parts(found: Change, pairing: _Pairing, mixed: Swapped, back: Swapped) -> Change:
    r"""Return the change with both parts, from :math:`\Phi(0, 1)` and :math:`\Phi(1, 0)`."""
    before, after = (_both(result) for result in (found.before, found.after))
    covariates_before = 0.5 * (back.relation - before - mixed.law)
    covariates_after = 0.5 * (back.law + after - mixed.relation)
    parts = {}
    for name, sides in (
        ("covariates", (covariates_before, covariates_after)),
        ("concept", (-1.0 * before - covariates_before, after - covariates_after)),
    ):
        attributed, latent = pairing.combined(*sides, found)
        whole, inner = found.difference, found.difference.latent
        if inner is not None:
            inner = replace(inner, basis=latent, unrelated=_still(inner, latent))
        parts[name] = _part(
            replace(
                whole,
                basis=attributed,
                latent=inner,
                by_outcome={},
                unrelated=_still(whole, attributed),
            ),
            name,
        )
    return replace(found, covariates=parts["covariates"], concept=parts["concept"])


def _still(whole: Importance, basis: Influence) -> Array:
    """Return the unrelated units that score exactly 0 under both tables too."""
    quiet = (basis.mean == 0.0) & (basis.se == 0.0)
    return np.asarray(whole.unrelated & quiet)


def _part(result: Importance, name: str) -> Importance:
    latent = None if result.latent is None else _part(result.latent, name)
    return replace(result, spec={**result.spec, "part": name}, latent=latent)


def _both(result: Importance) -> Both:
    latent = result.latent
    return Both(
        latent=result.influence if latent is None else latent.influence, attributed=result.influence
    )
