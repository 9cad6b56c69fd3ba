"""Truths of the methods that compare submodels: what every population needs for them."""

from __future__ import annotations

import difflib
import math
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

KNOWN = ("loco", "cpi", "nloco", "dloco", "shapley")


def check_comparator(name: str) -> None:
    """Refuse a method whose truth is not computed."""
    if name in KNOWN:
        return
    close = difflib.get_close_matches(str(name), KNOWN, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    raise ValueError(
        f"the truth of method {name!r} is not known{hint} Known are {', '.join(map(repr, KNOWN))}"
    )


def shapley_values(players: Sequence[int], explained: Callable[[Sequence[int]], float]) -> Floats:
    r"""Return the Shapley values of :math:`v(S) = \operatorname{Var} E[\mu \mid X_S]`.

    .. math:: \sum_{S \not\ni j} \frac{|S|!\,(p-1-|S|)!}{p!}\{v(S \cup j) - v(S)\} .
    """
    p = len(players)
    worth = {
        members: explained(members) if members else 0.0
        for size in range(p + 1)
        for members in combinations(players, size)
    }
    values = np.zeros(p)
    for place, j in enumerate(players):
        for members, value in worth.items():
            if j not in members:
                share = 1.0 / (p * math.comb(p - 1, len(members)))
                values[place] += share * (worth[tuple(sorted((*members, j)))] - value)
    return values


def explained_share(scores: Floats, whole: float, noise: float, name: str) -> Floats:
    """Return LOCO scores, for ``nloco`` as shares of the outcome's variance."""
    return scores / (whole + noise) if name == "nloco" else scores
