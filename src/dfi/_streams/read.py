"""The front door for tables in parts: read once, then a source of rows and samples of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from dfi._checks import did_you_mean
from dfi._data import source as sources
from dfi._data.frames import is_stored_index
from dfi._data.groups import read_groups
from dfi._data.outcome import OutcomeRule, Task, outcome_rule
from dfi._data.problem import Data, UnitsKind, refuse_spans, warn_constant, warn_left_out
from dfi._data.table import Missing, Table
from dfi._data.weights import Weights, refuse_both
from dfi._parameters import TABLE, TARGET, argument
from dfi._streams.cluster import is_dask, open_dask
from dfi._streams.files import Files, is_path
from dfi._streams.lazy import is_lazy, open_lazy
from dfi._streams.parts import Partitions, unwatched
from dfi._streams.schema import Roles, SchemaState, SchemaWork, check_features, starts_of
from dfi._streams.spark import is_spark, open_spark
from dfi._streams.streamed import Encoder, StreamedSource, columns_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dfi._data.columns import Column
    from dfi._streams.parts import Watch
    from dfi._types import GroupsLike, TableLike, VectorLike


def is_stream(X: object) -> bool:
    return isinstance(X, Partitions) or is_path(X) or is_lazy(X) or is_dask(X) or is_spark(X)


@dataclass(frozen=True, eq=False)
class Stream:
    source: StreamedSource
    state: SchemaState
    columns: tuple[Column, ...]
    rule: OutcomeRule
    weighted: bool

    @property
    def n_rows(self) -> int:
        return self.source.n_rows

    @property
    def large(self) -> bool:
        return self.n_rows > sources.LARGE_ROWS

    def gathered(
        self,
        draw: tuple[int, np.random.SeedSequence] | None = None,
        *,
        groups: GroupsLike = None,
        units: UnitsKind = "columns",
    ) -> Data:
        source = self.source
        rows = source.gather(draw)
        if source.moved:
            source = source.by_content()
            rows = source.gather(draw)
        roles, partitions, whole = source.encoder.roles, source.partitions, draw is None
        table = Table(
            rows.matrix,
            self.columns,
            partitions.library,
            partitions.header(roles.features),
            known=None if whole else self.state.known(self.columns),
        )
        data = Data(
            table.without(rows.mass == 0),
            self.rule.outcome(rows.y),
            Weights(rows.mass, roles.kind),
            weighted=self.weighted,
            groups=None if groups is None else read_groups(groups, table.names),
            dropped=self.state.n_rows - self.n_rows,
            joint=units == "groups",
            source=None if whole else source,
            places=None if whole else rows.places,
            means={} if whole else self._means(),
            facts=facts_of_rows(roles.row_id, keyed=roles.keyed),
        )
        members = data.outcome.members or (data.outcome,)
        if not whole and all(np.ptp(member.values) == 0 for member in members):
            raise ValueError(
                f"{argument('y', self.rule.name)} has one value in all {len(rows.y):,} rows that "
                "models would be fitted on, though not in all rows: fit on more rows with "
                f"{argument('fit_rows')}"
            )
        low, high = self.state.target.span
        wides = [] if data.outcome.is_classes else [high - low]
        refuse_spans(data, *self.state.span(self.columns), wides)
        warn_constant(data.table, data.table.constant)
        return data

    def _means(self) -> dict[str, float]:
        rule, masses = self.rule, self.state.masses
        if rule.kind in ("count", "real") or masses is None:
            return {rule.name: self.state.target_mean}
        keys = rule.labels if rule.distinct is None else tuple(rule.distinct.tolist())
        mass = np.array([masses.get(key, 0.0) for key in keys])
        # one row of each class, weighted as the class is
        outcome = rule.outcome(np.arange(len(keys), dtype=np.float64))
        shown = (outcome, *outcome.members)
        return {one.name: float(mass @ one.values / mass.sum()) for one in shown}


def facts_of_rows(row_id: str | None, *, keyed: bool) -> dict[str, str]:
    if not keyed:
        return {}
    by = "the content of a row" if row_id is None else f"the column {row_id!r}"
    return {"rows_known_by": by}


def open_stream(
    X: TableLike,
    y: VectorLike,
    *,
    row_id: str | None = None,
    sample_weight: VectorLike = None,
    frequency_weight: VectorLike = None,
    missing: Missing = "indicator",
    task: Task = "auto",
    pos_label: object = None,
    counted: bool = False,
    classified: bool = False,
    watch: Watch = unwatched,
) -> Stream:
    refuse_both(sample_weight, frequency_weight)
    given: dict[str, object] = {"y": y}
    weight = "sample_weight" if sample_weight is not None else "frequency_weight"
    if sample_weight is not None or frequency_weight is not None:
        given[weight] = frequency_weight if sample_weight is None else sample_weight
    if row_id is not None:
        given["row_id"] = row_id
    partitions, names = open_parts(X, given)
    roles = _roles(partitions, names, weight, missing)
    state = partitions.reduce(SchemaWork(roles), roles.columns, partial(watch, "reading columns"))
    if state is None:
        raise ValueError(f"{TABLE} has no rows.")
    check_features(state, roles)
    if roles.weight is not None:
        state.weights.check(weight, roles.kind)
    rule = outcome_rule(
        state.shown(y if isinstance(y, str) else str(getattr(y, "name", None) or "y")),
        task=task,
        positive=pos_label,
        counted=counted,
        classified=classified,
    )
    # the classes themselves are looked at before the rows are read again
    rule.outcome(np.arange(max(2, len(rule.labels)), dtype=np.float64))
    if state.n_rows > state.used:
        warn_left_out(state.n_rows - state.used, state.n_rows)
    columns = tuple(replace(column, dtype=partitions.dtype(column)) for column in columns_of(state))
    scale = state.weights.n_positive / state.weights.total if roles.kind == "sampling" else 1.0
    stream = StreamedSource(
        partitions,
        Encoder(columns, roles, rule, scale),
        starts_of(state.counts),
        state.used,
        state.weights.total if roles.kind == "frequency" else float(state.weights.n_positive),
        watch,
    )
    return Stream(stream, state, columns, rule, roles.weight is not None)


def open_parts(X: TableLike, given: Mapping[str, object]) -> tuple[Partitions, dict[str, str]]:
    if is_dask(X):
        if given.get("y", "") is None:
            raise ValueError(
                f"DFI requires y to be passed: a column of {TABLE} by name, or one of Dask"
            )
        return open_dask(X, given)
    open_one = open_spark if is_spark(X) else open_lazy
    partitions: Partitions = (
        Files.open(X) if is_path(X) else (X if isinstance(X, Partitions) else open_one(X))
    )
    names = {}
    for role, value in given.items():
        if not isinstance(value, str):
            found = "None" if value is None else f"a {type(value).__name__}"
            raise TypeError(
                f"{role} is {found}, but {TABLE} is {partitions.what}, whose rows are not in "
                f"memory: name the column of {TABLE} that holds it, {argument(role, ...)}"
            )
        names[role] = value
    return partitions, names


def check_named(labels: Mapping[str, object], names: Mapping[str, str]) -> None:
    for role, name in names.items():
        if name not in labels:
            hint = did_you_mean(name, labels)
            raise ValueError(
                f"{argument(role, name)} names a column, but {TABLE} has no such column{hint}"
            )


def _roles(
    partitions: Partitions, names: Mapping[str, str], weight: str, missing: Missing
) -> Roles:
    labels = partitions.labels
    check_named(labels, names)
    for role, other in combinations(names, 2):
        if names[role] == names[other]:
            shown = TARGET if role == "y" else argument(role)
            raise ValueError(
                f"{shown} and {argument(other)} both name the column {names[role]!r}: name two "
                "columns"
            )
    special = set(names.values())
    features = tuple(n for n in labels if n not in special and not is_stored_index(n))
    if not features:
        raise ValueError(f"{TABLE} has no columns.")
    return Roles(
        features,
        names["y"],
        names.get(weight),
        "sampling" if names.get(weight) and weight == "sample_weight" else "frequency",
        missing,
        names.get("row_id"),
        keyed="row_id" in names or not partitions.ordered,
    )
