"""Units that pass a test given all others, with the error rate of the list controlled."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from dfi._docstrings import exemplified
from dfi.inference.tests import Adjustment, adjust_p_values
from dfi.results import words
from dfi.results.columns import SELECTED, frame_of, lists
from dfi.results.numbers import SHOWN_ROWS, more_text, probability, text_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dfi._types import Array, Floats, Frame
    from dfi.results.importance import Importance

RATES = {
    "bh": "false discovery rate, for tests that are independent or depend positively",
    "by": "false discovery rate, however the tests depend on each other",
    "holm": "probability of any false discovery, however the tests depend on each other",
    "bonferroni": "probability of any false discovery, however the tests depend on each other",
}
"""The error rate that an adjustment controls at ``alpha``."""


@exemplified
@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    r"""Units that add something once all others are known, at an error rate of ``alpha``.

    Each unit is tested for :math:`E[Y \mid X] = E[Y \mid X_{-j}]`, and selected if its adjusted
    p-value is at most ``alpha``. Of two copies neither is selected, because the other one suffices,
    and a unit may be significant and worthless: to shorten a list, use :meth:`dfi.Importance.keep`.

    Made by :func:`dfi.select`.

    Attributes
    ----------
    result : Importance
        The tests: a result of LOCO, CPI or PCM.
    adjust : {"bh", "by", "holm", "bonferroni"}
        How p-values are adjusted.
    alpha : float
        The controlled error rate.

    Examples
    --------
    >>> selection.selected
    ('x0',)
    """

    result: Importance
    adjust: Adjustment
    alpha: float

    @property
    def p(self) -> Floats:
        """The p-value of each unit, in the order of ``result.names``; NaN where it is constant."""
        return self.result._units.tests(level=self.result.level)["p"]

    @property
    def p_adj(self) -> Floats:
        """The adjusted p-values."""
        return adjust_p_values(self.p, self.adjust)

    @property
    def selected(self) -> tuple[str, ...]:
        """The selected units, the smallest p-value first."""
        order = np.argsort(self.p, kind="stable")
        return tuple(self.result.names[k] for k in order if self.p_adj[k] <= self.alpha)

    @property
    def spec(self) -> Mapping[str, object]:
        """The specification of the tests, the adjustment and its rate."""
        own = {"adjust": self.adjust, "alpha": self.alpha, "held": RATES[self.adjust]}
        return MappingProxyType({**self.result.spec, **own})

    @lists(SELECTED)
    def table(self) -> Frame:
        """Return all units in the caller's dataframe library, the smallest p-value first.

        Examples
        --------
        >>> selection.table()["selected"].tolist()
        [True, False, False]
        """
        tests = self.result._units.tests(level=self.result.level)
        columns: dict[str, Array] = {
            "feature": np.array(self.result.names, dtype=object),
            "score": self.result.scores,
            **tests,
            "p_adj": self.p_adj,
            "selected": self.p_adj <= self.alpha,
        }
        order = np.argsort(self.p, kind="stable")
        return frame_of(SELECTED, columns, self.result.library, order)

    def __repr__(self) -> str:
        count, method = len(self.result.names), self.result.spec.get("method")
        units = words.counted(count, self.result.space)
        lines = [
            f"Selection: {len(self.selected)} of {units} by {method}, {self.adjust} at "
            f"{self.alpha:.4g} ({RATES[self.adjust]})",
            f"selected: {', '.join(self.selected) or 'none'}",
        ]
        order = np.argsort(self.p, kind="stable")[:SHOWN_ROWS]
        p, adjusted = self.p, self.p_adj
        lines += text_table(
            ["feature", "p", "p_adj"],
            [[self.result.names[k], probability(p[k]), probability(adjusted[k])] for k in order],
        )
        if count > SHOWN_ROWS:
            lines.append(more_text(count - SHOWN_ROWS, count))
        return "\n".join(lines)
