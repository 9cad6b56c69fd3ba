"""What changed between two results, whether it is real, and why."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import numpy as np

from dfi._docstrings import exemplified
from dfi._files import writable, written_whole
from dfi._parameters import validated
from dfi.inference.influence import InfluenceRows
from dfi.inference.intervals import max_t_from_covariance, max_t_statistics
from dfi.results import words
from dfi.results.columns import CHANGES, frame_of, lists, text_lines
from dfi.results.file import Json, freeze, thaw
from dfi.results.numbers import for_json
from dfi.results.tables import score_table
from dfi.results.text import Reported

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from pathlib import Path

    from matplotlib.axes import Axes

    from dfi._types import Array, Floats, Frame, Ints
    from dfi.inference.tests import Adjustment
    from dfi.results.importance import Importance

PartName = Literal["change", "covariates", "concept"]
SharedRows = Literal["independent", "same", "overlapping"]

DRAWS = 4000
"""Draws of the multipliers behind a test of any change."""

FORMAT = "dfi-change"

ROWS_TEXT: dict[str, str] = {
    "independent": "independent rows",
    "same": "the same rows",
    "overlapping": "rows that overlap",
}


@dataclass(frozen=True)
class AnyChange:
    r"""A test of whether any unit changed, for all of them at once.

    Attributes
    ----------
    statistic : float
        :math:`\max_l |d_l| / se_l`; NaN where no unit can change.
    p : float
        The share of draws of the multipliers whose maximum is as large,
        :math:`(1 + \#\{M^* \ge M\})/(1 + B)`; 1 where no unit can change.
    feature : str
        The unit of the maximum; empty where there is none.
    """

    statistic: float
    p: float
    feature: str

    def as_dict(self) -> dict[str, object]:
        """Return the test as plain values."""
        return {"statistic": for_json(self.statistic), "p": self.p, "feature": self.feature}


@exemplified
@dataclass(frozen=True, eq=False, repr=False)
class Change(Reported):
    r"""How importance changed from one table to another, or from one model to another.

    With :math:`\Phi(a, b)` the score under the covariates of table ``a`` and the concept
    of table ``b`` between features and outcome,

    .. math::

        d &= \Phi(1, 1) - \Phi(0, 0) = \text{covariates} + \text{concept}, \\
        \text{covariates} &= \tfrac12 \{\Phi(1, 0) - \Phi(0, 0) + \Phi(1, 1) - \Phi(0, 1)\}, \\
        \text{concept} &= \tfrac12 \{\Phi(0, 1) - \Phi(0, 0) + \Phi(1, 1) - \Phi(1, 0)\} .

    Made by :func:`dfi.change`.

    Attributes
    ----------
    before, after : Importance
        The two results.
    difference : Importance
        ``after`` minus ``before``, with influence values over the rows of both.
    covariates, concept : Importance or None
        The parts of the difference; None if they cannot be separated.
    rows : {"independent", "same", "overlapping"}
        How the rows of the two tables correspond.
    reason : str
        Why covariates and concept cannot be separated; empty if they are.
    overlap : mapping
        How well a classifier separates the rows of the two tables, and by which columns; empty if
        not computed.

    Examples
    --------
    >>> found.any_change.feature
    'x2'
    >>> found.test_any("covariates").p > 0.05
    True
    """

    before: Importance
    after: Importance
    difference: Importance
    covariates: Importance | None = None
    concept: Importance | None = None
    rows: SharedRows = "independent"
    reason: str = ""
    overlap: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        object.__setattr__(self, "overlap", freeze(self.overlap, "overlap"))

    def __reduce__(self) -> tuple[object, ...]:
        parts = (self.before, self.after, self.difference, self.covariates, self.concept)
        return Change, (*parts, self.rows, self.reason, thaw(self.overlap))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the units."""
        return self.difference.names

    @property
    def level(self) -> float:
        """The default confidence level."""
        return self.difference.level

    @property
    def library(self) -> str:
        """The caller's dataframe library."""
        return self.difference.library

    @cached_property
    def latent(self) -> Change | None:
        """The same for latent coordinates; None if the results have none."""
        parts = (self.before, self.after, self.difference, self.covariates, self.concept)
        before, after, difference, covariates, concept = (
            None if part is None else part.latent for part in parts
        )
        if before is None or after is None or difference is None:
            return None
        return replace(
            self,
            before=before,
            after=after,
            difference=difference,
            covariates=covariates,
            concept=concept,
        )

    @property
    def any_change(self) -> AnyChange:
        r"""Whether any unit changed: a test of the largest :math:`|d_l|/se_l`.

        One multiplier is drawn for each row (cluster, window of time) of the two tables; a row that
        both have has one.
        """
        return self.test_any()

    @validated
    def test_any(self, of: PartName = "change", *, random_state: int = 0) -> AnyChange:
        """Test whether any unit changed, or whether any changed by one of the two parts.

        Parameters
        ----------
        of : {"change", "covariates", "concept"}, default="change"
            What is tested.

        Examples
        --------
        >>> found.test_any("concept").feature
        'x2'
        """
        part = self._part(of)
        basis = part.basis
        errors = np.where(part.degenerate, 0.0, basis.se)
        known = errors > 0.0
        if not known.any():
            return AnyChange(math.nan, 1.0, "")
        statistics = np.where(known, np.abs(basis.mean) / np.where(known, errors, 1.0), 0.0)
        if isinstance(basis, InfluenceRows):
            maxima = max_t_statistics(
                basis.values[:, known], basis.weights, n_draws=DRAWS, random_state=random_state
            )
        else:
            maxima = max_t_from_covariance(
                basis.covariance[np.ix_(known, known)],
                errors[known],
                n_draws=DRAWS,
                random_state=random_state,
                degrees=basis.degrees,
            )
        largest = float(statistics.max())
        p = (1 + int(np.count_nonzero(maxima >= largest))) / (1 + DRAWS)
        return AnyChange(largest, p, part.names[int(statistics.argmax())])

    def _part(self, of: PartName) -> Importance:
        found: Importance | None = self.difference if of == "change" else getattr(self, of)
        if found is None:
            raise ValueError(f"covariates and concept cannot be separated: {self.reason}")
        return found

    @validated
    @lists(CHANGES)
    def table(
        self,
        *,
        level: float | None = None,
        adjust: Adjustment | None = "holm",
        simultaneous: bool = False,
        sort: bool = True,
    ) -> Frame:
        """Return all units with their change and its parts, in the caller's dataframe library.

        Tests are two-sided. ``covariates + concept`` is ``change``; both are NaN where they cannot
        be told apart, and :attr:`reason` says why.

        Examples
        --------
        >>> found.table(sort=False)[["feature", "change", "covariates", "concept"]].round(1)
          feature  change  covariates  concept
        0      x0    -1.4        -2.3      0.9
        1      x1    -0.9        -1.4      0.5
        2      x2     7.6        -0.2      7.8
        """
        columns = change_columns(self, level=level, adjust=adjust, simultaneous=simultaneous)
        full: dict[str, Array] = {"feature": np.array(self.names, dtype=object), **columns}
        return frame_of(CHANGES, full, self.library, change_order(self) if sort else None)

    def as_dict(self) -> dict[str, Json]:
        """Return everything as plain values, for JSON: NaN is None.

        Examples
        --------
        >>> found.as_dict()["features"][0]["feature"]
        'x2'
        """
        columns = change_columns(self)
        tested: list[PartName] = ["change"]
        tested += ["covariates", "concept"] if self.covariates is not None else []
        return {
            "format": FORMAT,
            "version": 1,
            "rows": self.rows,
            "level": self.level,
            "any_change": {of: self.test_any(of).as_dict() for of in tested},
            "features": [
                {
                    "feature": self.names[k],
                    **{key: for_json(float(values[k])) for key, values in columns.items()},
                }
                for k in change_order(self).tolist()
            ],
            "reason": self.reason,
            "overlap": thaw(self.overlap),
            "before": thaw(self.before.spec),
            "after": thaw(self.after.spec),
            "r2": [for_json(result.quality.r2) for result in (self.before, self.after)],
        }

    @validated
    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write :meth:`as_dict` to a file of JSON, all or nothing, and return its path.

        Parameters
        ----------
        path : path-like
            Where to write; ``.json`` is the customary ending.

        Examples
        --------
        >>> found.save("change.json").name
        'change.json'
        """
        target = writable(path, overwrite=overwrite)
        text = json.dumps(self.as_dict(), indent=1, allow_nan=False, ensure_ascii=False)
        with written_whole(target) as stream:
            stream.write(text.encode())
        return target

    @validated
    def plot(self, *, top: int | None = 20, ax: Axes | None = None) -> Axes:
        """Draw the changes with their intervals, and their covariates and concept parts.

        Examples
        --------
        >>> found.plot(top=2).get_xlabel()
        'change of the score, 95 % intervals'
        """
        # pyplot takes half a second to import: only those who plot pay for it
        from dfi.plots import change

        return change(self, top=top, ax=ax)

    def _repr_html_(self) -> str:
        from dfi.report import Report

        return Report(self)._repr_html_()

    def __repr__(self) -> str:
        test = self.any_change
        found = [
            f"Change: {words.counted(len(self.names), self.after.space)}, "
            f"{self.before.basis.n_rows} rows before and "
            f"{self.after.basis.n_rows} after ({ROWS_TEXT[self.rows]}), {100.0 * self.level:.4g} % "
            "intervals",
            f"any change: p {test.p:.3g} (largest |t| {test.statistic:.3g}"
            + (f", {test.feature})" if test.feature else ")"),
        ]
        order = change_order(self)
        columns = change_columns(self)
        rows = [{key: float(values[k]) for key, values in columns.items()} for k in order]
        found += text_lines(CHANGES, [self.names[k] for k in order], rows, self.level)
        if self.reason:
            found.append(f"covariates and concept cannot be separated: {self.reason}")
        return "\n".join(found)


def change_order(found: Change) -> Ints:
    """Return the units, the largest change first."""
    return np.argsort(-np.abs(found.difference.scores), kind="stable")


def change_columns(
    found: Change,
    *,
    level: float | None = None,
    adjust: Adjustment | None = "holm",
    simultaneous: bool = False,
) -> dict[str, Floats]:
    """Return the columns of :meth:`table` as arrays, in the order of ``names``."""
    whole = score_table(found.difference, level=level, adjust=adjust, simultaneous=simultaneous)
    unknown = np.full(len(found.names), np.nan)
    parts: dict[str, dict[str, Floats]] = {}
    for name, part in (("covariates", found.covariates), ("concept", found.concept)):
        parts[name] = dict.fromkeys(("score", "se", "ci_low", "ci_high"), unknown)
        if part is not None:
            parts[name] = score_table(part, level=level, adjust=adjust, simultaneous=simultaneous)
    return {
        "change": whole["score"],
        **{key: whole[key] for key in ("se", "ci_low", "ci_high", "p", "p_adj")},
        **{name: part["score"] for name, part in parts.items()},
        **{
            f"{name}_{short}": part[key]
            for name, part in parts.items()
            for short, key in (("se", "se"), ("low", "ci_low"), ("high", "ci_high"))
        },
        "before": found.before.scores,
        "after": found.after.scores,
    }
