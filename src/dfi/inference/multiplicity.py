"""Adjusted p-values: an adjusted value at most alpha rejects with the error rate held at alpha."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from dfi._types import Floats

Adjustment = Literal["none", "bonferroni", "holm", "bh", "by"]


def check_adjustment(method: str | None) -> Adjustment:
    """Return the name of an adjustment, or raise with the list of those that exist."""
    if method is None:
        return "none"
    for known in get_args(Adjustment):
        if method == known:
            return known  # type: ignore[no-any-return]
    names = ", ".join(repr(name) for name in get_args(Adjustment))
    raise ValueError(f"unknown adjustment {method!r}; choose one of {names}")


def adjust_p_values(p: ArrayLike, method: Adjustment | None = "holm") -> Floats:
    r"""Adjust p-values for the number of hypotheses.

    With :math:`p_{(1)} \le \dots \le p_{(m)}` the adjusted values are

    * ``"bonferroni"``: :math:`m\,p_{(k)}`, family-wise error, any dependence;
    * ``"holm"``: :math:`\max_{i \le k} (m-i+1)\,p_{(i)}`, family-wise error, any dependence;
    * ``"bh"``: :math:`\min_{i \ge k} m\,p_{(i)}/i`, false discovery rate, independence or
      positive dependence;
    * ``"by"``: ``"bh"`` times :math:`\sum_{i=1}^m 1/i`, false discovery rate, any dependence;

    each capped at 1.

    Parameters
    ----------
    p : array_like of shape (m,)
        P-values in [0, 1]. NaN stays NaN and does not count as a hypothesis.
    method : {"none", "bonferroni", "holm", "bh", "by"} or None, default="holm"
        Adjustment.

    Returns
    -------
    ndarray of shape (m,)
        Adjusted p-values, in the order given.
    """
    method = check_adjustment(method)
    raw = np.array(p, dtype=np.float64)
    if raw.ndim != 1:
        raise ValueError(f"p must be one-dimensional, got shape {raw.shape}")
    if np.any((raw < 0.0) | (raw > 1.0)):
        wrong = raw[(raw < 0.0) | (raw > 1.0)][0]
        raise ValueError(f"p-values must lie between 0 and 1, got {wrong}")
    tested = ~np.isnan(raw)
    m = int(tested.sum())
    if method == "none" or m == 0:
        return raw
    order = np.argsort(raw[tested], kind="stable")
    ascending = raw[tested][order]
    rank = np.arange(1, m + 1)
    if method == "bonferroni":
        stepped = m * ascending
    elif method == "holm":
        stepped = np.maximum.accumulate((m - rank + 1) * ascending)
    else:
        dependence = float(np.sum(1.0 / rank)) if method == "by" else 1.0
        stepped = np.minimum.accumulate((dependence * m * ascending / rank)[::-1])[::-1]
    adjusted = np.empty(m)
    adjusted[order] = np.minimum(stepped, 1.0)
    raw[tested] = adjusted
    return raw
