"""Several importances of the same data, on the same folds and the same fitted models."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from dfi.comparators.context import Context, prepare
from dfi.comparators.registry import resolve_comparators
from dfi.data import as_frame
from dfi.estimator import DFI
from dfi.inference.intervals import check_level
from dfi.result import Importance

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from dfi.comparators.base import Comparator, Part

    Floats = NDArray[np.float64]

DISENTANGLED = "dfi"
DISENTANGLED_QUESTION = (
    "Shared-signal attribution: how much of the signal does the feature carry, alone and through "
    "the factors that it shares with correlated features?"
)
DISENTANGLED_INFERENCE = (
    "Influence values with the transport's own error; products of two independently fitted models, "
    "so that scores of null features are not pulled below 0."
)


@dataclass(frozen=True)
class MethodRecord:
    """What one method is, and what it cost.

    Attributes
    ----------
    name, question : str
        The method and the question that it answers.
    valid_intervals : bool
        Whether its intervals account for everything of first order.
    inference : str
        Why they do or not, and how the test behaves where the score is 0.
    seconds : float
        Wall-clock seconds, the full models (fitted once for all) not included. Submodels that two
        methods need are paid for by the first.
    results : tuple of str
        The keys of its results.
    skipped : str or None
        Why it was left out of ``methods="all"``.
    """

    name: str
    question: str
    valid_intervals: bool
    inference: str
    seconds: float
    results: tuple[str, ...]
    skipped: str | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Importances of the same units by several methods.

    Attributes
    ----------
    results : mapping of str to Importance
        One result per method (several for ``sobol`` and ``r2``).
    methods : tuple of MethodRecord
        Question, validity and cost of each method, in the order they were run.
    fit_seconds : float
        Seconds spent on the full models that the methods share.
    """

    results: Mapping[str, Importance]
    methods: tuple[MethodRecord, ...]
    fit_seconds: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "results", MappingProxyType(dict(self.results)))

    def __getitem__(self, name: str) -> Importance:
        if name not in self.results:
            known = ", ".join(repr(key) for key in self.results)
            raise KeyError(f"there is no result {name!r}; the results are {known}")
        return self.results[name]

    def __reduce__(self) -> tuple[Any, ...]:
        return Comparison, (dict(self.results), self.methods, self.fit_seconds)

    @property
    def _first(self) -> Importance:
        return next(iter(self.results.values()))

    def table(self, **options: Any) -> Any:
        """Return all results as one long table, in the caller's dataframe library.

        Parameters
        ----------
        **options
            ``level``, ``alternative``, ``adjust``, ... of :meth:`dfi.result.Importance.table`;
            ``adjust`` works within each result.

        Returns
        -------
        frame
            Columns method, feature, score, se, ci_low, ci_high, z, p, p_adj, and
            ``monte_carlo_se``, the error of the score from permutations or sampled submodels
            (0 where there is none), which is not part of ``se``.
        """
        blocks: dict[str, list[Any]] = {"method": [], "feature": []}
        for name, result in self.results.items():
            columns = result._table(**options)
            blocks["method"].append(np.full(len(result.names), name, dtype=object))
            blocks["feature"].append(np.array(result.names, dtype=object))
            noise = result.diagnostics.get("monte_carlo_se")
            columns["monte_carlo_se"] = (
                np.zeros(len(result.names)) if noise is None else np.asarray(noise, dtype=float)
            )
            for key, values in columns.items():
                blocks.setdefault(key, []).append(np.array(values))
        return as_frame(
            {key: np.concatenate(parts) for key, parts in blocks.items()}, self._first.library
        )

    def questions(self) -> Any:
        """Return one row per method: its question, whether its intervals are valid, its cost."""
        return as_frame(
            {
                "method": np.array([m.name for m in self.methods], dtype=object),
                "question": np.array([m.question for m in self.methods], dtype=object),
                "valid_intervals": np.array([m.valid_intervals for m in self.methods]),
                "inference": np.array([m.inference for m in self.methods], dtype=object),
                "seconds": np.array([m.seconds for m in self.methods]),
            },
            self._first.library,
        )

    def summary(self) -> dict[str, Any]:
        """Return everything a report needs, as plain dicts, lists, strings and numbers."""
        first = self._first
        described = []
        for record in self.methods:
            entry = dataclasses.asdict(record)
            entry["results"] = {key: self._described(key) for key in record.results}
            described.append(entry)
        return {
            "n_rows": first.quality.n_rows,
            "units": list(first.names),
            "r2": first.quality.r2,
            "outcome_variance": first.quality.outcome_variance,
            "estimator": first.spec.get("estimator"),
            "level": first.level,
            "fit_seconds": self.fit_seconds,
            "seconds": self.fit_seconds + sum(record.seconds for record in self.methods),
            "methods": described,
        }

    def _described(self, key: str) -> dict[str, Any]:
        result = self.results[key]
        columns: dict[str, Any] = {
            name: np.asarray(values).tolist() for name, values in result._table().items()
        }
        noise: Any = result.diagnostics.get("monte_carlo_se")
        if noise is not None:
            columns["monte_carlo_se"] = list(noise)
        total = result.total
        return {"columns": columns, "total": total.value, "total_se": total.se}

    def plot(self, **options: Any) -> Any:
        """Draw the methods side by side; options are those of ``dfi.plots.comparison``."""
        # drawing is the last stage: it is not loaded until it is asked for
        from dfi import plots

        return plots.comparison(self, **options)

    def report(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write one offline HTML page about the comparison and return its path.

        ``options`` are ``title``, ``target`` and ``overwrite``.
        """
        from dfi.report import write_comparison_report

        return write_comparison_report(self, path, **options)

    def __repr__(self) -> str:
        lines = [f"Comparison: {len(self.results)} results of {len(self._first.names)} units"]
        for record in self.methods:
            if record.skipped is not None:
                lines.append(f"{record.name:8s} skipped: {record.skipped}")
                continue
            for key in record.results:
                result = self.results[key]
                order = np.argsort(-result.scores, kind="stable")[:3]
                best = ", ".join(f"{result.names[k]} {result.scores[k]:.4g}" for k in order)
                mark = "" if record.valid_intervals else "  (intervals not valid)"
                lines.append(f"{key:20s} {best}{mark}")
        return "\n".join(lines)


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
) -> Comparison:
    """Compute several importances on the same folds, each with its inference.

    Parameters
    ----------
    X, y
        The data, as for :func:`dfi.explain`.
    methods : "all", str, comparator or list of these, default="all"
        ``"dfi"``, ``"loco"``, ``"nloco"``, ``"dloco"``, ``"pfi"``, ``"cpi"``, ``"shapley"``,
        ``"sobol"``, ``"pcm"``, ``"r2"``, or objects of :mod:`dfi.comparators` with parameters of
        their own, e.g. ``dfi.comparators.LOCO(sample_split=True)``.
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
    Comparison
        ``results`` by name, ``table()``, ``questions()``, ``summary()`` and ``plot()``.

    Examples
    --------
    >>> import dfi
    >>> sample = dfi.datasets.m1(500, rho=0.8)
    >>> both = dfi.compare(sample.X, sample.y, ["dfi", "loco"], estimator="linear")
    >>> bool(both["loco"].scores[1] < 0.1 < both["dfi"].scores[1])
    True
    """
    level = check_level(level)
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
                context, X, y, sample_weight, weight_kind, cv_groups, level, random_state,
                groups, dict(dfi_options or {}),
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
                context, method, key, part, level, _describe(estimator), random_state
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
    return Comparison(results, tuple(records), fit_seconds)


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
        influence=part.influence,
        names=context.units.names,
        weights=context.weights.take(part.rows),
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
        },
        quality=context.quality,
        diagnostics=diagnostics,
        level=level,
        library=context.table.library,
        space="latent" if "latent" in key else "group" if context.units.grouped else "attributed",
        degenerate=context.units.constant,
        nonnegative=part.nonnegative,
    )


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return _describe(value)


def _describe(value: Any) -> str:
    text = value if isinstance(value, str) else " ".join(repr(value).split())
    return text if len(text) <= 300 else text[:297] + "..."
