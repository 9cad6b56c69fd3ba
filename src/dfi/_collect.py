"""From fits to results: compute methods, describe them, and answer later questions."""

from __future__ import annotations

import dataclasses
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from dfi._data import source
from dfi._data.frames import is_table
from dfi._data.groups import read_groups
from dfi._data.outcome import Outcome
from dfi._models.distribution import SMALLEST
from dfi._models.fits import Cache, Fits
from dfi._parameters import one_of
from dfi._threads import single_blas_thread
from dfi.inference.influence import InfluenceRows
from dfi.methods.compute import parts_of
from dfi.methods.disentangled import Disentangled
from dfi.methods.keep import keep_path
from dfi.methods.pairs import pair_rows
from dfi.methods.row_models import BACKGROUND, MOST_BYTES, LocalScale, explain_locally
from dfi.methods.split import split_rows
from dfi.results.file import describe_setting, versions
from dfi.results.importance import Importance
from dfi.results.interactions import UNDERFITS, Interactions
from dfi.results.keep import KeepList
from dfi.results.local import NO_SPREAD, SPREAD_WORDS, LocalAttributions, positions_of
from dfi.results.split import Split
from dfi.results.tables import NO_SIGNAL
from dfi.results.words import explained_of
from dfi.transports import resolve_transport
from dfi.warnings import InferenceWarning, WeakModelWarning, warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._data.table import Table
    from dfi._types import Array, Floats, GroupsLike, Ints, TableLike
    from dfi.methods.base import (
        Method,
        MethodResult,
    )


KEPT_CELLS, FEWEST_KEPT = 100_000, 200
"""Influence values of single rows that a result of a large table keeps, of each kind: 800 kB; and
the rows at least. They are for the skewness of groups."""


@dataclass(frozen=True)
class FittedSource:
    """The fitted models behind a result, for questions asked later, such as groups."""

    fits: Fits
    method: Disentangled
    level: float
    keep_rows: bool = False

    def grouped(self, groups: GroupsLike, how: Literal["joint", "shapley"]) -> Importance:
        data = self.fits.data
        found = data.groups if groups is None else read_groups(groups, data.table.names)
        fits = replace(self.fits, data=replace(data, groups=found, joint=True))
        method = replace(self.method, additive=how == "shapley")
        return importances(fits, method, self.level, keep_rows=self.keep_rows)[method.name]

    def aspects(self) -> dict[str, Importance]:
        fits, method = self.fits, self.method
        learner, y = fits.learner.estimator, fits.outcome.values
        found: dict[str, Importance] = {}
        for aspect in ("mean", "spread"):
            outcome = Outcome(y, fits.outcome.name, "real")
            one = replace(
                fits, data=replace(fits.data, outcome=outcome), learner=learner, cache=Cache()
            )
            with warnings.catch_warnings():
                if aspect == "spread":
                    # that nothing moves the spread is the rule, and its p-values say so
                    warnings.simplefilter("ignore", WeakModelWarning)
                found[aspect] = importances(one, method, self.level)[method.name]
            if aspect == "mean":
                rest = np.abs(y - one.predictions)
                floor = SMALLEST * float(np.nanmedian(rest))
                y = np.log(np.nan_to_num(rest) + max(floor, np.finfo(float).tiny))
        return found

    @single_blas_thread()
    def local(
        self,
        rows: object = None,
        *,
        X: TableLike | None = None,
        sample: int | None = None,
        outcome: str | None = None,
        scale: LocalScale | None = None,
        refine: int | None = None,
        background: int = BACKGROUND,
    ) -> LocalAttributions:
        levels = self.fits.outcome.distribution
        if levels is not None and not levels.single:
            raise ValueError(
                "a whole distribution is nine probabilities, each with its own contributions: "
                "explain one of them, for instance the target dfi.Quantile(0.9)"
            )
        fits = _one_outcome(self.fits, outcome)
        if sample is not None:
            rows = _sampled(fits, sample)
        chosen = _new_rows(fits, X) if X is not None else _rows_at(fits, rows)
        found = explain_locally(
            fits,
            self.method,
            chosen.table.matrix,
            held_out=chosen.held_out,
            refine=refine,
            background=background,
            scale=scale,
        )
        on_margin = (scale or fits.scale) == "margin"
        kept = ("values", "base", "prediction", "spread", "total", "higher_order", "reliability")
        return LocalAttributions(
            **{name: getattr(found, name) for name in kept},
            names=found.names,
            rows=chosen.places,
            features={} if fits.data.joint else row_features(chosen.table),
            spec={
                "explains": _explains(fits, on_margin=on_margin),
                "scale": "margin" if on_margin else "response",
                "outcome": (fits.described or fits.outcome).as_dict(),
                "loss": fits.loss.name,
                "models": found.models,
                "spread": SPREAD_WORDS if fits.prefit is False and found.paired else NO_SPREAD,
                "transport": resolve_transport(self.method.transport).specification(),
                "background": background,
                "refine": refine,
                "new_rows": X is not None,
            },
            library=fits.table.library,
        )

    @single_blas_thread()
    def keep(self, share: float, level: float) -> KeepList:
        fits = self.fits
        if fits.outcome.distribution is not None:
            raise ValueError(
                "keep refits models of a mean, but this result explains a distribution: explain "
                "the mean, or log |residual| for the spread, and call keep on that"
            )
        path = keep_path(fits, share, level)
        if not path.clear:
            unclear = NO_SIGNAL.format(explained_of({"loss": fits.loss.name}))
            warn(f"{unclear}: all units are kept", InferenceWarning)
        sets = path.sets
        kept = path.order if path.chosen is None else sets[path.chosen].kept
        before = [path.order, *(one.kept for one in sets)]
        return KeepList(
            kept=tuple(path.names[k] for k in kept),
            dropped=tuple(path.names[k] for k in (*path.order[len(kept) :], *path.constant)),
            share=share,
            level=level,
            sizes=np.array([len(one.kept) for one in sets]),
            without=tuple(
                ", ".join(path.names[k] for k in whole[len(one.kept) :])
                for whole, one in zip(before, sets, strict=False)
            ),
            lost=np.array([one.lost for one in sets]),
            se=np.array([one.se for one in sets]),
            at_most=np.array([one.at_most for one in sets]),
            spec={
                "rows": path.rows,
                "models": "refitted without the units, two of disjoint halves for each fold",
                "estimator": describe_setting(fits.settings["estimator"]),
                "loss": fits.loss.name,
                "outcome": fits.outcome.as_dict(),
                "units": "groups" if fits.data.joint else "columns",
                "dependence": path.dependence,
                "random_state": fits.settings["random_state"],
                "versions": versions(),
                "data_sha256": fits.data.fingerprint,
            },
            library=fits.table.library,
        )

    @single_blas_thread()
    def interactions(
        self, pairs: Sequence[tuple[int, int]] | None, leading: Ints, top: int
    ) -> Interactions:
        fits = self.fits
        found = pair_rows(fits, self.method, pairs, leading, top)
        if found.underfits:
            warn(UNDERFITS, InferenceWarning)
        weights = fits.weights.take(found.rows)
        order = np.argsort(-weights.mean(found.attributed), kind="stable")
        spec = {
            "question": "what pairs of features explain beyond sums of functions of one feature",
            "explained_rows": len(found.rows),
            "models": "models that did not see the row" if not fits.prefit else "the given model",
            "standard_errors": found.words,
            "unit": fits.loss.unit,
            "outcome": fits.outcome.as_dict(),
            "transport": resolve_transport(self.method.transport).specification(),
            **({"caution": UNDERFITS} if found.underfits else {}),
        }
        named = tuple(tuple(found.names[k] for k in pair) for pair in found.pairs[order].tolist())

        def made(
            values: Floats, whole: Floats, own: Floats, latent: Interactions | None
        ) -> Interactions:
            basis = np.column_stack([values[:, order], found.explained])
            table = replace(fits.table, matrix=fits.table.matrix[found.rows], present=None)
            return Interactions(
                pairs=named,
                basis=InfluenceRows(basis, weights, fits.data.places_of(found.rows)),
                whole=whole[order],
                names=found.names,
                own=own,
                effects=found.effects[:, order],
                features={} if fits.data.joint else row_features(table),
                spec={**spec, "space": "attributed" if latent is not None else "latent"},
                latent=latent,
                level=self.level,
                library=fits.table.library,
            )

        latent = made(found.latent, found.latent_whole, np.zeros(len(found.names)), None)
        return made(found.attributed, found.whole, found.own, latent)

    @single_blas_thread()
    def split(self, names: tuple[str, ...], parts: InfluenceRows) -> Split:
        fits = self.fits
        found = split_rows(fits, self.method)
        shared = found.additive - found.unique
        columns = [found.unique, shared, parts.values[:, :-1] - found.additive]
        total = parts.mean[-1]
        size = found.together.sum(axis=1, keepdims=True)
        among = np.divide(found.together, size, out=np.zeros_like(found.together), where=size > 0)
        return Split(
            names=names,
            basis=replace(parts, values=np.column_stack([*columns, parts.values[:, -1]])),
            partners=among * (parts.weights.mean(shared) / total)[:, None],
            spec={
                "question": "what a feature knows alone, shares with others, and does with them",
                "explained_rows": len(found.rows),
                "outcome": fits.outcome.as_dict(),
                "transport": resolve_transport(self.method.transport).specification(),
            },
            level=self.level,
            library=fits.table.library,
        )


def _one_outcome(fits: Fits, outcome: str | None) -> Fits:
    members = fits.outcome.members
    if not members:
        if outcome is not None:
            raise ValueError(
                f"outcome={outcome!r} chooses one of several classes or outcomes, but this result "
                "has only one: leave it out"
            )
        return fits
    names = [member.name for member in members]
    return fits.members[-1 if outcome is None else names.index(one_of("outcome", outcome, names))]


@dataclass(frozen=True)
class _Rows:
    table: Table
    places: Ints
    held_out: Ints | None


def _new_rows(fits: Fits, X: TableLike) -> _Rows:
    table = fits.table
    named = is_table(X)
    if named and table.library == "numpy":
        X = np.asarray(X)
    read = table.like(X)
    return _Rows(read, np.arange(read.n_rows), None)


def _sampled(fits: Fits, count: int) -> Ints:
    held = fits.rows
    if count < len(held):
        generator = np.random.default_rng(fits.child("local", "sample"))
        held = np.sort(generator.choice(held, size=count, replace=False))
    kept = fits.data.kept
    return fits.data.places_of(held) if kept is None else np.flatnonzero(kept)[held]


def _rows_at(fits: Fits, rows: object) -> _Rows:
    data, held = fits.data, fits.rows
    n_rows = fits.n_rows if data.kept is None else len(data.kept)
    places = positions_of(rows, n_rows)
    here = (
        np.flatnonzero(data.kept)
        if data.kept is not None
        else data.places_of(np.arange(data.table.n_rows))
    )
    if places is None:
        at = held
        places = here[held]
        size = 8 * len(at) * (4 * len(data.table.columns) + data.matrix.shape[1])
        if size > MOST_BYTES:
            raise ValueError(
                f"contributions of all {len(at):,} rows take {size / 2**30:.1f} GiB, more than the "
                f"{MOST_BYTES / 2**30:.0f} GiB allowed: pass rows=..., e.g. "
                "numpy.random.default_rng(0).choice(len(X), 10_000, replace=False)"
            )
    else:
        at = np.minimum(np.searchsorted(here, places), len(here) - 1)
        absent = here[at] != places
        if absent.any():
            why = (
                "was left out because a value is missing"
                if data.kept is not None
                else f"is not among the {len(here):,} rows that were read into memory"
            )
            raise ValueError(
                f"row {int(places[absent][0])} {why}: choose other rows, or pass it as a new row "
                "with local(X=...)"
            )
        never = ~np.isin(at, held)
        if never.any():
            raise ValueError(
                f"row {int(places[never][0])} is held out by no fold, so every model has seen "
                "it: choose other rows, or pass it as a new row with local(X=...)"
            )
    table = data.table
    return _Rows(replace(table, matrix=table.matrix[at], present=None), places, at)


def row_features(table: Table) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for column in table.columns:
        if column.kind == "categorical":
            codes = column.decode(table.matrix[:, list(column.positions)])
            found[column.name] = np.array(column.levels, dtype=object)[codes]
        else:
            values = table.matrix[:, column.positions[0]]
            gaps = table.where_missing(column)
            found[column.name] = np.where(gaps, np.nan, values)
    return found


def _explains(fits: Fits, *, on_margin: bool) -> str:
    outcome = fits.described or fits.outcome
    if outcome.kind == "binary":
        label = outcome.classes[-1] if outcome.classes else outcome.name
        return f"the {'log-odds' if on_margin else 'probability'} of {label}"
    return f"the predicted {outcome.name or 'outcome'}"


@single_blas_thread()
def importances(
    fits: Fits, method: Method, level: float, *, keep_rows: bool = False
) -> dict[str, Importance]:
    """Compute a method and put each of its parts into a result with its specification."""
    parts = parts_of(fits, method)
    fits = fits.settled
    return {
        key: importance(fits, method, key, part, level, keep_rows=keep_rows)
        for key, part in parts.items()
    }


def importance(
    fits: Fits,
    method: Method,
    key: str,
    part: MethodResult,
    level: float,
    *,
    keep_rows: bool = False,
) -> Importance:
    result = _by_row(fits, method, key, part, level, keep_rows=keep_rows)
    if keep_rows or fits.n_rows <= source.LARGE_ROWS:
        return result
    small = result.moments(max(FEWEST_KEPT, KEPT_CELLS // max(1, len(result.names))))
    # the models are here all the same, and can be asked about groups
    return replace(small, source=result.source)


def _by_row(
    fits: Fits, method: Method, key: str, part: MethodResult, level: float, *, keep_rows: bool
) -> Importance:
    specification = _specification(fits, method, key)
    diagnostics = {**part.diagnostics, **fits.outcome.diagnostics}
    if part.monte_carlo_se is not None:
        diagnostics["monte_carlo_se"] = part.monte_carlo_se.tolist()
    names = fits.units.names if part.names is None else part.names
    grouped = fits.data.joint or (part.names is None and fits.units.grouped)
    places = fits.data.places_of(part.rows)
    weights = fits.weights.take(part.rows)
    basis = InfluenceRows(part.influence, weights, places)
    return Importance(
        basis=basis,
        names=names,
        spec={**specification, "dependence": basis.words, **part.specification},
        quality=fits.quality if part.quality is None else part.quality,
        diagnostics=diagnostics,
        level=level,
        library=fits.table.library,
        space="group" if grouped and part.space == "attributed" else part.space,
        degenerate=fits.units.constant if part.degenerate is None else part.degenerate,
        spread=part.spread,
        nonnegative=part.nonnegative,
        latent=(
            None
            if part.latent is None
            else _by_row(fits, method, key, part.latent, level, keep_rows=keep_rows)
        ),
        attribution=part.attribution,
        default_groups=None if grouped else fits.data.groups,
        unrelated=part.unrelated,
        components=part.components,
        undetected=part.undetected,
        totals=None if part.totals is None else InfluenceRows(part.totals, weights, places),
        parts=None if part.parts is None else InfluenceRows(part.parts, weights, places),
        by_outcome={
            name: _by_row(member, method, key, part.members[name], level, keep_rows=keep_rows)
            for name, member in zip(part.members, fits.members if part.members else (), strict=True)
        },
        source=(
            FittedSource(fits, method, level, keep_rows)
            if isinstance(method, Disentangled) and part.space != "latent"
            else None
        ),
    )


def _specification(fits: Fits, method: Method, key: str) -> dict[str, object]:
    parameters: dict[str, object] = {}
    described: object = method
    if dataclasses.is_dataclass(described) and not isinstance(described, Disentangled):
        parameters = {
            field.name: _plain(getattr(described, field.name))
            for field in dataclasses.fields(described)
        }
    estimator, cv = (describe_setting(fits.settings[name]) for name in ("estimator", "cv"))
    libraries = versions()
    calibration = (fits.members[0] if fits.outcome.members else fits).calibration
    missing, n_rows = fits.missing, fits.n_rows
    outcome, everyday, data = fits.outcome.as_dict(), fits.table.everyday.spec(), fits.data
    fingerprint = data.fingerprint
    return {
        "method": method.name,
        "result": key,
        "question": method.question,
        "valid_intervals": method.valid_intervals,
        "inference": method.inference,
        "parameters": parameters,
        "loss": fits.loss.name,
        "unit": fits.loss.unit,
        "outcome": outcome,
        **({} if fits.scale == "response" else {"scale": fits.scale}),
        **calibration,
        "estimator": estimator,
        "cv": cv,
        "n_folds": len(fits.folds),
        "n_repeats": fits.settings["n_repeats"],
        "weights": fits.weights.kind if fits.data.weighted else "none",
        **({"missing": missing} if missing else {}),
        **({"everyday": everyday} if everyday else {}),
        "random_state": fits.settings["random_state"],
        "n_rows": n_rows,
        **({} if fits.data.fit is None else {"fit_rows": fits.data.n_fit}),
        **fits.data.facts,
        "n_features": len(fits.table.columns),
        "units": "groups" if fits.data.joint else "columns",
        "versions": libraries,
        "data_sha256": fingerprint,
    }


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return describe_setting(value)
