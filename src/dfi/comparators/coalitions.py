r"""Shapley values as a linear operator on the values of coalitions.

The Shapley value is linear in the value function, :math:`\phi = A v`. With one column of values per
coalition and row, the same operator turns the rows' values into influence values. ``A`` is exact
over all coalitions, or comes from sampled ones:

``"coalitions"``
    Constrained weighted least squares (SPVIM, Williamson and Feng 2020): coalitions and their
    complements drawn with the Shapley kernel, :math:`\phi` minimising
    :math:`\sum_S (v(S) - v(\emptyset) - \sum_{j\in S}\phi_j)^2` subject to efficiency.
``"permutations"``
    Increments along random orders and their reverses.

Both satisfy efficiency exactly. Their Monte-Carlo error is a function of the values and is kept
apart from the sampling error.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Masks = NDArray[np.bool_]

Sampling = Literal["coalitions", "permutations"]
EXACT_LIMIT = 12


@dataclass(frozen=True, eq=False)
class Coalitions:
    """Coalitions of players and the operator from their values to Shapley values.

    Attributes
    ----------
    masks : ndarray of bool, shape (m, d)
        The coalitions, the empty and the full one among them.
    operator : ndarray of shape (d, m)
        ``phi = operator @ values``.
    monte_carlo_se : callable
        Error of each Shapley value from sampling the coalitions, as a function of their values.
    exact : bool
        Whether all coalitions are there.
    """

    masks: Masks
    operator: Floats
    monte_carlo_se: Callable[[Floats], Floats]
    exact: bool


def all_coalitions(d: int) -> Coalitions:
    r"""Return all :math:`2^d` coalitions with the weights :math:`|S|!(d-1-|S|)!/d!`."""
    masks = (np.arange(2**d)[:, None] >> np.arange(d)) & 1 == 1
    sizes = masks.sum(axis=1)
    weight = np.array([factorial(s) * factorial(d - 1 - s) / factorial(d) for s in range(d)])
    joined = weight[np.maximum(sizes - 1, 0)][:, None]
    missing = weight[np.minimum(sizes, d - 1)][:, None]
    operator = np.where(masks, joined, -missing).T
    return Coalitions(masks, operator, lambda _: np.zeros(d), exact=True)


def sampled_coalitions(
    d: int, count: int, generator: np.random.Generator, sampling: Sampling
) -> Coalitions:
    """Return about ``count`` sampled coalitions with their operator."""
    if sampling == "permutations":
        return _permutations(d, max(2, round(count / (2 * (d - 1)))), generator)
    return _kernel(d, max(d, count // 2), generator)


def _kernel(d: int, pairs: int, generator: np.random.Generator) -> Coalitions:
    sizes = np.arange(1, d)
    chance = 1.0 / (sizes * (d - sizes))
    drawn = generator.choice(sizes, size=pairs, p=chance / chance.sum())
    masks = np.zeros((pairs, d), dtype=bool)
    for row, size in enumerate(drawn):
        masks[row, generator.permutation(d)[:size]] = True
    draws = np.concatenate([masks, ~masks])
    ends = np.array([np.zeros(d, dtype=bool), np.ones(d, dtype=bool)])
    distinct, place = np.unique(np.concatenate([ends, draws]), axis=0, return_inverse=True)
    place = place.ravel()
    members = draws.astype(float)
    inverse = np.linalg.pinv(members.T @ members / len(draws), hermitian=True)
    ones = np.ones(d)
    along = inverse @ ones / (ones @ inverse @ ones)
    projected = inverse - np.outer(along, inverse @ ones)
    operator = np.zeros((d, len(distinct)))
    np.add.at(operator.T, place[2:], members @ projected.T / len(draws))
    start, end = place[0], place[1]
    operator[:, start] -= projected @ members.mean(axis=0) + along
    operator[:, end] += along

    def monte_carlo_se(values: Floats) -> Floats:
        phi = operator @ values
        gap = values[place[2:]] - values[start] - members @ phi
        scores = members * gap[:, None]
        # a coalition and its complement are drawn together
        paired = 0.5 * (scores[:pairs] + scores[pairs:]) @ projected.T
        return np.asarray(paired.std(axis=0, ddof=1) / np.sqrt(pairs))

    return Coalitions(distinct, operator, monte_carlo_se, exact=False)


def _permutations(d: int, pairs: int, generator: np.random.Generator) -> Coalitions:
    orders = [generator.permutation(d) for _ in range(pairs)]
    index: dict[bytes, int] = {}
    masks: list[Masks] = []
    steps = np.zeros((pairs, 2, d, 2), dtype=np.intp)

    def number(mask: Masks) -> int:
        key = mask.tobytes()
        if key not in index:
            index[key] = len(masks)
            masks.append(mask.copy())
        return index[key]

    for p, order in enumerate(orders):
        for side, walk in enumerate((order, order[::-1])):
            mask = np.zeros(d, dtype=bool)
            before = number(mask)
            for player in walk:
                mask[player] = True
                after = number(mask)
                steps[p, side, player] = before, after
                before = after
    operator = np.zeros((d, len(masks)))
    share = 1.0 / (2 * pairs)
    for player in range(d):
        np.add.at(operator[player], steps[:, :, player, 1].ravel(), share)
        np.add.at(operator[player], steps[:, :, player, 0].ravel(), -share)

    def monte_carlo_se(values: Floats) -> Floats:
        increments = (values[steps[..., 1]] - values[steps[..., 0]]).mean(axis=1)
        return np.asarray(increments.std(axis=0, ddof=1) / np.sqrt(pairs))

    return Coalitions(np.array(masks), operator, monte_carlo_se, exact=False)
