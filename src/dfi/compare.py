"""Several importances of the same data, on the same folds and the same fitted models."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import time
from typing import TYPE_CHECKING, Any

from dfi._data.fingerprint import fingerprint
from dfi.estimator import DFI
from dfi.inference.influence import InfluenceRows
from dfi.inference.intervals import check_level
from dfi.methods.context import Context, prepare
from dfi.methods.registry import resolve_comparators
from dfi.results.collection import MethodRecord, Results
from dfi.results.file import describe_setting
from dfi.results.importance import Importance

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dfi.methods.base import Comparator, Part

DISENTANGLED = "dfi"
SHARED = {
    "estimator", "cv", "n_repeats", "groups", "weight_kind", "level", "n_jobs", "random_state",
    "progress",
}  # fmt: skip
"""Parameters of DFI that a comparison sets for all of its methods."""
DISENTANGLED_QUESTION = (
    "Shared-signal attribution: how much of the signal does the feature carry, alone and through "
    "the factors that it shares with correlated features?"
)
DISENTANGLED_INFERENCE = (
    "Influence values with the transport's own error; products of two independently fitted models, "
    "so that scores of null features are not pulled below 0."
)


def compare(
    X: Any,
    y: Any,
    methods: Any = "all",
    *,
    estimator: Any = "auto",
    cv: Any = 5,
    groups: Any = None,
    sample_weight: Any = None,
    weight_kind: Any = "auto",
    cv_groups: Any = None,
    level: float = 0.95,
    n_jobs: int | None = None,
    random_state: int = 0,
    progress: bool | None = None,
    dfi_options: Mapping[str, Any] | None = None,
) -> Results:
    """Compute several importances on the same folds, each with its inference.

    Parameters
    ----------
    X, y
        The data, as for :func:`dfi.explain`.
    methods : "all", str, comparator or list of these, default="all"
        ``"dfi"``, ``"loco"``, ``"nloco"``, ``"dloco"``, ``"pfi"``, ``"cpi"``, ``"shapley"``,
        ``"sobol"``, ``"pcm"``, ``"r2"``, or objects of :mod:`dfi.methods` with parameters of
        their own, e.g. ``dfi.methods.LOCO(sample_split=True)``.
    estimator : str or estimator, default="auto"
        The regression, as for :class:`dfi.DFI`; refitted without features where a method asks.
    cv : int, splitter or iterable of splits, default=5
        One split that all methods share: every row is scored by models that did not see it.
    groups : mapping, frame or sequence, optional
        Score groups of features, not features: refits leave out a whole group, permutations move
        it as one; DFI adds up its members.
    sample_weight, weight_kind, cv_groups, level
        As for :class:`dfi.DFI`.
    n_jobs : int, optional
        Parallel tasks (joblib); the result does not depend on it.
    random_state : int, default=0
        Seed of splits, fits and draws.
    progress : bool, optional
        Show progress bars; by default only at a terminal.
    dfi_options : mapping, optional
        Further parameters of :class:`dfi.DFI` (``transport``, ``score``, ...).

    Returns
    -------
    Results
        The results by name, with ``table()``, ``questions()``, ``ranks()`` and ``plot()``.

    Examples
    --------
    >>> import dfi
    >>> sample = dfi.datasets.m1(500, rho=0.8)
    >>> both = dfi.compare(sample.X, sample.y, ["dfi", "loco"], estimator="linear")
    >>> bool(both["loco"].scores[1] < 0.1 < both["dfi"].scores[1])
    True
    """
    level = check_level(level)
    options = _dfi_options(dfi_options)
    everything = isinstance(methods, str) and methods == "all"
    chosen = resolve_comparators(methods, also=(DISENTANGLED,))
    start = time.perf_counter()
    context = prepare(
        X,
        y,
        estimator=estimator,
        cv=cv,
        groups=groups,
        sample_weight=sample_weight,
        weight_kind=weight_kind,
        cv_groups=cv_groups,
        n_jobs=n_jobs,
        random_state=random_state,
        progress=progress,
    )
    fit_seconds = time.perf_counter() - start
    results: dict[str, Importance] = {}
    records: list[MethodRecord] = []
    for method in chosen:
        start = time.perf_counter()
        if isinstance(method, str):
            results[method] = _disentangled(
                # the kind that was found: it is doubted once, not by every reader of the weights
                context, X, y, sample_weight, context.weights.kind, cv_groups, level, random_state,
                groups, options,
            )  # fmt: skip
            seconds = time.perf_counter() - start
            records.append(
                MethodRecord(
                    method, DISENTANGLED_QUESTION, True, DISENTANGLED_INFERENCE, seconds, (method,)
                )
            )
            continue
        reason = method.refuses(context)
        if reason is not None and not everything:
            raise ValueError(reason)
        parts = {} if reason is not None else method.compute(context)
        for key, part in parts.items():
            results[key] = _importance(
                context, method, key, part, level, describe_setting(estimator), random_state
            )
        records.append(
            MethodRecord(
                method.name,
                method.question,
                method.valid_intervals,
                method.inference,
                time.perf_counter() - start,
                tuple(parts),
                reason,
            )
        )
    skipped = {r.name: r.skipped for r in records if r.skipped is not None}
    return Results(results, tuple(records), fit_seconds, skipped)


def _dfi_options(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the further parameters of DFI; refuse those that all methods share."""
    found = dict(options or {})
    known = set(inspect.signature(DFI).parameters)
    for name in found:
        if name in SHARED:
            raise TypeError(
                f"dfi_options has {name!r}, which all methods share: pass it to compare"
            )
        if name not in known:
            close = difflib.get_close_matches(name, known - SHARED, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise TypeError(f"dfi_options has {name!r}, which is no parameter of DFI{hint}")
    return found


def _disentangled(
    context: Context,
    X: Any,
    y: Any,
    sample_weight: Any,
    weight_kind: Any,
    cv_groups: Any,
    level: float,
    random_state: int,
    groups: Any,
    options: dict[str, Any],
) -> Importance:
    """Run DFI on the folds of the comparison; its models are fitted on halves of each fold."""
    explainer = DFI(
        estimator=context.learner,
        cv=[(fold.train, fold.test) for fold in context.folds],
        weight_kind=weight_kind,
        level=level,
        n_jobs=context.n_jobs,
        random_state=random_state,
        progress=context.progress,
        groups=groups,
        **options,
    )
    result = explainer.fit(X, y, sample_weight=sample_weight, cv_groups=cv_groups).result_
    return result if groups is None else result.group()


def _importance(
    context: Context,
    method: Comparator,
    key: str,
    part: Part,
    level: float,
    estimator: str,
    random_state: int,
) -> Importance:
    """Put a method's influence values into a result with its specification."""
    parameters: dict[str, Any] = {}
    described: Any = method
    if dataclasses.is_dataclass(described):
        parameters = {
            field.name: _plain(getattr(described, field.name))
            for field in dataclasses.fields(described)
        }
    diagnostics = dict(part.diagnostics)
    if part.monte_carlo_se is not None:
        diagnostics["monte_carlo_se"] = part.monte_carlo_se.tolist()
    return Importance(
        basis=InfluenceRows(part.influence, context.weights.take(part.rows), part.rows),
        names=context.units.names,
        spec={
            "method": method.name,
            "result": key,
            "question": method.question,
            "valid_intervals": method.valid_intervals,
            "inference": method.inference,
            "parameters": parameters,
            "loss": "squared error",
            "estimator": estimator,
            "n_folds": len(context.folds),
            "weights": context.weights.kind,
            "random_state": random_state,
            "n_rows": context.table.n_rows,
            "data_sha256": fingerprint(
                context.table.matrix, context.outcome.values, context.weights.values
            ),
        },
        quality=context.quality,
        diagnostics=diagnostics,
        level=level,
        library=context.table.library,
        space=part.space or ("group" if context.units.grouped else "attributed"),
        degenerate=context.units.constant,
        nonnegative=part.nonnegative,
    )


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return describe_setting(value)
