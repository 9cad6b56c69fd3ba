"""Importances of the same units by several methods: the result of a comparison."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from dfi._data import as_frame

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from pathlib import Path

    from matplotlib.axes import Axes

    from dfi._types import Floats, Ints
    from dfi.results.importance import Importance


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
            ``level``, ``alternative``, ``adjust``, ... of :meth:`dfi.Importance.table`;
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
        total = self.fit_seconds + sum(record.seconds for record in self.methods)
        lines = [
            f"Comparison: {len(self.results)} results of {len(self._first.names)} units in "
            f"{total:.1f} s ({self.fit_seconds:.1f} s for the full models)"
        ]
        for record in self.methods:
            if record.skipped is not None:
                lines.append(f"{record.name:8s} skipped: {record.skipped}")
                continue
            for key in record.results:
                result = self.results[key]
                order = np.argsort(-result.scores, kind="stable")[:3]
                best = ", ".join(f"{result.names[k]} {result.scores[k]:.4g}" for k in order)
                mark = "" if record.valid_intervals else "  (intervals not valid)"
                cost = f"{record.seconds:.1f} s" if key == record.results[0] else ""
                lines.append(f"{key:20s} {cost:>8s}  {best}{mark}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Sensitivity:
    """Results of the same models under several transports.

    Attributes
    ----------
    results : tuple of Importance
        One per setting, in the order given.
    labels : tuple of str
        The settings.
    skipped : mapping of str to str
        Settings that the data do not allow, with the reason.
    """

    results: tuple[Importance, ...]
    labels: tuple[str, ...]
    skipped: Mapping[str, str]

    def __getitem__(self, label: str) -> Importance:
        """Return the result of one setting."""
        if label not in self.labels:
            known = ", ".join(map(repr, self.labels))
            raise KeyError(f"no setting {label!r}: the settings are {known}")
        return self.results[self.labels.index(label)]

    @property
    def names(self) -> tuple[str, ...]:
        """The features."""
        return self.results[0].names

    def scores(self) -> Floats:
        """Return the attributed scores, shape (settings, features)."""
        return np.stack([result.scores for result in self.results])

    def ranks(self) -> Ints:
        """Return the rank of every feature under every setting, 1 for the largest score."""
        order = np.argsort(-self.scores(), axis=1, kind="stable")
        ranks = np.empty_like(order)
        np.put_along_axis(ranks, order, np.arange(1, order.shape[1] + 1)[None, :], axis=1)
        return ranks

    def rank_agreement(self) -> Floats:
        """Return Spearman's correlation of the ranks between settings, (settings, settings)."""
        if len(self.names) < 2:
            return np.ones((len(self.labels), len(self.labels)))
        return np.atleast_2d(np.corrcoef(self.ranks().astype(float)))

    def table(self) -> Any:
        """Return one row per setting and feature, in a dataframe of the input's library.

        Columns: setting, feature, score, se, share, rank and the latent score.
        """
        settings, features = len(self.labels), len(self.names)
        scores = self.scores()
        total = scores.sum(axis=1, keepdims=True)
        latent = np.stack(
            [r.latent.scores if r.latent is not None else r.scores for r in self.results]
        )
        return as_frame(
            {
                "setting": np.repeat(np.array(self.labels, dtype=object), features),
                "feature": np.tile(np.array(self.names, dtype=object), settings),
                "score": scores.ravel(),
                "se": np.stack([result.se for result in self.results]).ravel(),
                "share": (scores / total).ravel(),
                "rank": self.ranks().ravel(),
                "latent_score": latent.ravel(),
            },
            self.results[0].library,
        )

    def plot(self, **options: Any) -> Axes:
        """Draw every feature's score over the settings (:func:`dfi.plots.sensitivity`)."""
        from dfi import plots

        return plots.sensitivity(dict(zip(self.labels, self.results, strict=True)), **options)

    def __repr__(self) -> str:
        lines = [f"Sensitivity: {len(self.names)} features under {len(self.labels)} settings"]
        width = max(map(len, (*self.labels, *self.skipped)))
        for label, scores in zip(self.labels, self.scores(), strict=True):
            leading = np.argsort(-scores, kind="stable")[:3]
            shown = ", ".join(f"{self.names[unit]} {scores[unit]:.4g}" for unit in leading)
            lines.append(f"{label:{width}s}  {shown}")
        lines += [f"{label:{width}s}  skipped: {reason}" for label, reason in self.skipped.items()]
        return "\n".join(lines)
