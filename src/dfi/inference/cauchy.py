r"""Quadratic forms in a Cauchy kernel, the heart of the transport's influence.

The influence of a row on a matrix square root divides entry (a, b) by :math:`s_a + s_b`. Contracted
with a fixed rank-one matrix for each of ``o`` outputs it asks, for every row :math:`y`, for

.. math:: \sum_{ab} \frac{y_a y_b\, P_{ao} Q_{bo}}{s_a + s_b}.

One form at a time this costs ``n d^2 o``. The scaled kernel :math:`2\sqrt{s_a s_b}/(s_a + s_b)` is
positive definite with a unit diagonal and of low numerical rank, a few dozen whatever the size, so
:math:`1/(s_a + s_b) = \sum_q u_{qa} u_{qb}` with ``k`` terms and each term is two matrix products:
``2 k n d o``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dfi._types import Floats

BLOCK_BYTES = 64 * 2**20
TRUNCATION = 1e-14
"""Eigenvalues of the scaled kernel below this share of the largest are rounding."""


def cauchy_forms(rows: Floats, roots: Floats, left: Floats, right: Floats) -> Floats:
    """Return ``sum_ab y_a y_b left[a, o] right[b, o] / (roots[a] + roots[b])`` per row and ``o``.

    Terms in which both roots are zero are left out.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        The rows ``y``.
    roots : ndarray of shape (d,)
        Non-negative.
    left, right : ndarray of shape (d, o)
        Factors of each output's fixed matrix.
    """
    inside = roots > 0
    s, inner = roots[inside], np.ascontiguousarray(rows[:, inside])
    result = _positive_forms(inner, s, left[inside], right[inside])
    if not inside.all():
        # One root is zero: 1/s_a, which factors.
        outer = rows[:, ~inside]
        scaled = inner / s
        result += (scaled @ left[inside]) * (outer @ right[~inside])
        result += (outer @ left[~inside]) * (scaled @ right[inside])
    return result


def _positive_forms(rows: Floats, roots: Floats, left: Floats, right: Floats) -> Floats:
    """Return the forms where every root is positive."""
    n, outputs = len(rows), left.shape[1]
    result = np.zeros((n, outputs))
    factors = cauchy_factors(roots)
    if 2 * len(factors) < len(roots):
        for factor in factors:
            weighted_left, weighted_right = factor[:, None] * left, factor[:, None] * right
            for part in _row_blocks(n, outputs):
                result[part] += (rows[part] @ weighted_left) * (rows[part] @ weighted_right)
        return result
    kernel = 1.0 / (roots[:, None] + roots[None, :])
    for o in range(outputs):
        form = kernel * np.outer(left[:, o], right[:, o])
        for part in _row_blocks(n, rows.shape[1]):
            result[part, o] = np.einsum("ia,ia->i", rows[part] @ form, rows[part])
    return result


def cauchy_factors(roots: Floats) -> Floats:
    """Return ``u`` of shape (k, d) with ``u.T @ u = 1 / (roots[a] + roots[b])`` to rounding."""
    scale = np.sqrt(2.0 * roots)
    values, vectors = np.linalg.eigh(np.outer(scale, scale) / (roots[:, None] + roots[None, :]))
    kept = values > TRUNCATION * values[-1]
    return np.asarray((vectors[:, kept] * np.sqrt(values[kept]) / scale[:, None]).T)


def _row_blocks(n: int, width: int) -> Iterator[slice]:
    step = max(1, BLOCK_BYTES // (8 * max(1, width)))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))
