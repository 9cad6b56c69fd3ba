"""Importances of the same units by several methods, or under several settings."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dfi._data.frames import as_frame
from dfi._docstrings import exemplified
from dfi._parameters import check, refuse_unknown
from dfi.results import words
from dfi.results.columns import METHODS, SETTINGS, frame_of
from dfi.results.numbers import for_json, number
from dfi.results.tables import SHARE_COLUMNS, full_table, score_table
from dfi.results.text import Reported

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dfi._types import Array, Floats, Frame, Ints
    from dfi.results.file import Json
    from dfi.results.importance import Importance


LEADING = 3
"""Units of each result that a printed collection names."""

ROUNDING = 1e-9
"""Score, relative to the largest, that is printed as 0."""

LEADING_SHARE = 0.1
"""Share of the scores that makes a feature a leading one, and the move that matters."""

TABLE_OPTIONS = ("level", "alternative", "adjust", "expansion", "simultaneous")
"""Options that :meth:`Results.table` passes on."""


@dataclass(frozen=True)
class MethodRecord:
    """A method and its cost.

    Attributes
    ----------
    name, question : str
        The method and the question that it answers.
    valid_intervals : bool
        Whether its intervals account for everything of first order.
    inference : str
        Why they do or not, and how the test behaves where the score is 0.
    seconds : float
        Wall-clock seconds; models on all training rows and on halves (fitted once for all) are not
        included. Submodels that two methods need are paid for by the first.
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


@exemplified
@dataclass(frozen=True, eq=False, repr=False)
class Results(Mapping[str, "Importance"], Reported):
    """Importances of the same units, by label: a mapping with tables, ranks, plots and a report.

    Attributes
    ----------
    results : mapping of str to Importance
        The results, in the order they were asked for.
    methods : tuple of MethodRecord
        Question, validity and cost of each method of a comparison, in the order they were run.
    fit_seconds : float
        Seconds spent on the shared models, including those on halves.
    skipped : mapping of str to str
        Methods or settings that the data do not allow, with the reason.
    by : {"method", "setting"}
        What distinguishes the results: the method, or a setting of one method.

    Examples
    --------
    >>> both.labels
    ('dfi', 'loco')
    >>> both["loco"].scores.round(1)
    array([ 9.3, -0. , -0. ])
    """

    results: Mapping[str, Importance]
    methods: tuple[MethodRecord, ...] = ()
    fit_seconds: float = 0.0
    skipped: Mapping[str, str] = field(default_factory=dict)
    by: Literal["method", "setting"] = "method"

    def __post_init__(self) -> None:
        if not self.results:
            raise ValueError("a collection needs at least one result")
        for name in ("results", "skipped"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __getitem__(self, label: str) -> Importance:
        if label not in self.results:
            what = "setting" if self.by == "setting" else "result"
            known = ", ".join(map(repr, self.results))
            raise KeyError(f"there is no {what} {label!r}; the {what}s are {known}")
        return self.results[label]

    def __iter__(self) -> Iterator[str]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __reduce__(self) -> tuple[object, ...]:
        held = (dict(self.results), self.methods, self.fit_seconds, dict(self.skipped), self.by)
        return Results, held

    @property
    def _first(self) -> Importance:
        return next(iter(self.results.values()))

    @property
    def labels(self) -> tuple[str, ...]:
        """The methods or settings."""
        return tuple(self.results)

    @property
    def names(self) -> tuple[str, ...]:
        """The units."""
        return self._first.names

    def scores(self) -> Floats:
        """Return the scores, shape (results, units).

        Examples
        --------
        >>> both.scores().shape
        (2, 3)
        """
        return np.stack([result.scores for result in self.values()])

    def ranks(self) -> Ints:
        """Return the rank of every unit in every result, 1 for the largest score.

        Examples
        --------
        >>> both.ranks()[0]
        array([1, 2, 3])
        """
        order = np.argsort(-self.scores(), axis=1, kind="stable")
        ranks = np.empty_like(order)
        np.put_along_axis(ranks, order, np.arange(1, order.shape[1] + 1)[None, :], axis=1)
        return ranks

    def rank_agreement(self) -> Floats:
        """Return Spearman's correlation of the ranks between results, (results, results).

        Examples
        --------
        >>> both.rank_agreement().round(1)
        array([[1., 1.],
               [1., 1.]])
        """
        if len(self.names) < 2:
            return np.ones((len(self), len(self)))
        return np.atleast_2d(np.corrcoef(self.ranks().astype(float)))

    def table(self, **options: Any) -> Frame:
        """Return all results as one long table, in the caller's dataframe library.

        By method: the columns of :meth:`dfi.Importance.table` (the share is NaN where a method does
        not know it), and ``monte_carlo_se``, the error of the score from permutations or sampled
        submodels, which is not part of ``se``. By setting: the score, its share of the sum of the
        scores, rank and the latent score.

        Parameters
        ----------
        **options
            ``level``, ``alternative``, ``adjust``, ... of :meth:`dfi.Importance.table`, for
            methods; ``adjust`` works within each result.

        Examples
        --------
        >>> both.table()[["method", "feature", "score"]].round(1)
          method feature  score
        0    dfi      x0   16.6
        1    dfi      x1    7.5
        2    dfi      x2   -0.0
        3   loco      x0    9.3
        4   loco      x1   -0.0
        5   loco      x2   -0.0
        """
        if self.by == "setting" and options:
            raise TypeError(f"the table of settings does not take {', '.join(options)}")
        refuse_unknown("table", options, TABLE_OPTIONS)
        check("Importance.table", options, optional=TABLE_OPTIONS[:-1])
        blocks = []
        shared = any(result.totals is not None for result in self.values())
        for result, ranks in zip(self.values(), self.ranks(), strict=True):
            if self.by == "method":
                noise = result.diagnostics.get("monte_carlo_se")
                unknown = dict.fromkeys(SHARE_COLUMNS, np.full(len(self.names), np.nan))
                block = {
                    **(unknown if shared else {}),
                    **full_table(result, **options),
                    "monte_carlo_se": np.zeros(len(self.names)) if noise is None else noise,
                }
            else:
                latent = result if result.latent is None else result.latent
                block = {
                    "score": result.scores,
                    "se": result.se,
                    "share": result.scores / result.scores.sum(),
                    "rank": ranks,
                    "latent_score": latent.scores,
                }
            blocks.append(block)
        columns: dict[str, Array] = {
            self.by: np.repeat(np.array(self.labels, dtype=object), len(self.names)),
            "feature": np.concatenate([np.array(r.names, dtype=object) for r in self.values()]),
        }
        for key in blocks[0]:
            columns[key] = np.concatenate([np.asarray(block[key]) for block in blocks])
        schema = METHODS if self.by == "method" else SETTINGS
        return frame_of(schema, columns, self._first.library)

    def _records(self) -> tuple[MethodRecord, ...]:
        """Return the methods, or those that the results name if none were kept."""
        return self.methods or tuple(
            MethodRecord(
                label,
                str(result.spec.get("question", "")),
                bool(result.spec.get("valid_intervals", True)),
                str(result.spec.get("inference", "")),
                float("nan"),
                (label,),
            )
            for label, result in self.items()
        )

    def questions(self) -> Frame:
        """Return one row per method: its question, whether its intervals are valid, its cost.

        Examples
        --------
        >>> both.questions()["valid_intervals"].tolist()
        [True, True]
        """
        records = self._records()
        return as_frame(
            {
                self.by: np.array([m.name for m in records], dtype=object),
                "question": np.array([m.question for m in records], dtype=object),
                "valid_intervals": np.array([m.valid_intervals for m in records]),
                "inference": np.array([m.inference for m in records], dtype=object),
                "seconds": np.array([m.seconds for m in records]),
            },
            self._first.library,
        )

    @property
    def seconds(self) -> float:
        """Seconds in all, the full models included."""
        return self.fit_seconds + sum(record.seconds for record in self.methods)

    def summary(self) -> dict[str, Json]:
        """Return all of it as plain dicts, lists, strings and numbers.

        Examples
        --------
        >>> both.summary()["units"]
        ['x0', 'x1', 'x2']
        """
        first = self._first
        described = []
        for record in self._records():
            entry = dataclasses.asdict(record)
            entry["results"] = {key: self._described(key) for key in record.results}
            described.append(entry)
        return {
            "n_rows": first.quality.n_rows,
            "units": list(first.names),
            "r2": first.quality.r2,
            "outcome_variance": first.quality.outcome_variance,
            "loss": first.quality.loss,
            "skill": first.quality.skill,
            "skill_name": first.quality.skill_name,
            "estimator": first.spec.get("estimator"),
            "level": first.level,
            "fit_seconds": self.fit_seconds,
            "seconds": self.seconds,
            "rank_agreement": self.rank_agreement().tolist(),
            f"{self.by}s": described,
            "skipped": dict(self.skipped),
        }

    @property
    def dependence(self) -> str:
        """Whether the leading features depend on the setting, in a sentence.

        They do if a feature with a tenth of the scores under one setting changes its share under
        another by a tenth of all scores or more, and by more than two standard errors.

        Examples
        --------
        >>> dfi.sensitivity(sample.X, sample.y, "linear", epsilons=[0.0, 0.01]).dependence
        'The leading features do not depend on the setting: no share moves by more than 1 %.'
        """
        results = list(self.results.items())
        totals = [max(np.maximum(result.scores, 0.0).sum(), 1e-300) for _, result in results]
        shares = np.array(
            [np.maximum(r.scores, 0.0) / t for (_, r), t in zip(results, totals, strict=True)]
        )
        errors = np.array(
            [np.nan_to_num(r.se) / t for (_, r), t in zip(results, totals, strict=True)]
        )
        low, high = shares.argmin(axis=0), shares.argmax(axis=0)
        at = np.arange(shares.shape[1])
        moved = shares[high, at] - shares[low, at]
        leads = shares[high, at] >= LEADING_SHARE
        sure = moved > 2.0 * np.hypot(errors[high, at], errors[low, at])
        changed = np.flatnonzero(leads & sure & (moved >= LEADING_SHARE))
        if len(changed) == 0:
            most = 100 * float(moved[leads].max(initial=0.0))
            return (
                "The leading features do not depend on the setting: no share moves by more than "
                f"{max(most, 1.0):.0f} %."
            )
        first = changed[np.argsort(-moved[changed], kind="stable")][:3]
        told = "; ".join(
            f"{self.names[k]!r} has {100 * shares[low[k], k]:.0f} % of the scores under "
            f"{results[low[k]][0]!r} and {100 * shares[high[k], k]:.0f} % under "
            f"{results[high[k]][0]!r}"
            for k in first
        )
        return f"The leading features depend on the setting: {told}."

    def json(self, **options: Any) -> str:
        """Return :meth:`summary` as JSON, NaN as null.

        Parameters
        ----------
        **options
            Those of ``json.dumps``, ``indent`` for instance.

        Examples
        --------
        >>> import json
        >>> json.loads(both.json())["n_rows"]
        200
        """
        return json.dumps(for_json(self.summary()), **{"ensure_ascii": False, **options})

    def _described(self, key: str) -> dict[str, Json]:
        result = self.results[key]
        columns: dict[str, Json] = {
            name: np.asarray(values).tolist() for name, values in score_table(result).items()
        }
        noise: Json = result.diagnostics.get("monte_carlo_se")
        if noise is not None:
            columns["monte_carlo_se"] = list(noise)
        total = result.total
        return {"columns": columns, "total": total.value, "total_se": total.se}

    def plot(self, **options: Any) -> Axes | Array:
        """Draw methods side by side, or the ranks of features over settings.

        Parameters
        ----------
        **options
            Those of :func:`dfi.plots.comparison` or of :func:`dfi.plots.sensitivity`.

        Examples
        --------
        >>> [ax.get_title() for ax in both.plot()]
        ['dfi', 'loco']
        """
        # drawing is the last stage: it is not loaded until it is asked for
        from dfi import plots

        draw = plots.comparison if self.by == "method" else plots.sensitivity
        return draw(self, **options)

    @property
    def _cut(self) -> str:
        more = len(self.names) > LEADING
        return f"; the {LEADING} largest scores of each, .table() has all" if more else ""

    def _leading(self, label: str) -> str:
        result = self.results[label]
        order = np.argsort(-result.scores, kind="stable")[:LEADING]
        nil = ROUNDING * np.abs(result.scores).max(initial=0.0)
        values = np.where(np.abs(result.scores) > nil, result.scores, 0.0)
        return ", ".join(f"{result.names[k]} {number(float(values[k]))}" for k in order)

    def __repr__(self) -> str:
        units = words.counted(len(self.names), self._first.space)
        if self.by == "setting":
            width = max(map(len, (*self.labels, *self.skipped)))
            return "\n".join(
                [
                    f"Sensitivity: {units} under {len(self)} settings{self._cut}",
                    *(f"{label:{width}s}  {self._leading(label)}" for label in self),
                    *(f"{label:{width}s}  skipped: {why}" for label, why in self.skipped.items()),
                    *([self.dependence] if len(self) > 1 else []),
                ]
            )
        lines = [
            f"Comparison: {len(self)} results of {units} in "
            f"{self.seconds:.1f} s ({self.fit_seconds:.1f} s for the full models){self._cut}"
        ]
        for record in self._records():
            if record.skipped is not None:
                lines.append(f"{record.name:8s} skipped: {record.skipped}")
                continue
            for key in record.results:
                mark = "" if record.valid_intervals else "  (intervals not valid)"
                cost = f"{record.seconds:.1f} s" if key == record.results[0] else ""
                lines.append(f"{key:20s} {cost:>8s}  {self._leading(key)}{mark}")
        return "\n".join(lines)
