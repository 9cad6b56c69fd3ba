r"""Shapley values as a linear operator on the values of coalitions.

The Shapley value is linear in the value function, :math:`\phi = A v`. With one column of values per
coalition and row, the same operator turns the rows' values into influence values. ``A`` is exact
over all coalitions, or comes from sampled ones: by constrained weighted least squares (SPVIM,
Williamson and Feng 2020), coalitions and their complements drawn with the Shapley kernel and
:math:`\phi` minimising :math:`\sum_S (v(S) - v(\emptyset) - \sum_{j\in S}\phi_j)^2` subject to
efficiency; or by increments along random orders and their reverses. Both satisfy efficiency
exactly, and have a Monte-Carlo error that is a function of the values.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from dfi._types import Bools, Floats

    Masks = Bools

EXACT_LIMIT = 12
# Beyond it a residual would be divided by nearly nothing.
MOST_LEVERAGE = 0.95


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


def sampled_coalitions(d: int, count: int, generator: np.random.Generator) -> Coalitions:
    """Return about ``count`` coalitions, drawn by the Shapley kernel, with their operator."""
    pairs = max(d, count // 2)
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

    # What a coalition and its complement, drawn so often, can bend the fit towards themselves: a
    # residual that the fit has swallowed says nothing of the error.
    often = np.bincount(place[2:], minlength=len(distinct))[place[2:]]
    leverage = 2.0 * often * np.einsum("ij,jk,ik->i", members, projected, members) / len(draws)
    freedom = 1.0 - np.minimum(leverage, MOST_LEVERAGE)

    def monte_carlo_se(values: Floats) -> Floats:
        phi = operator @ values
        gap = (values[place[2:]] - values[start] - members @ phi) / freedom
        scores = members * gap[:, None]
        # a coalition and its complement are drawn together
        paired = 0.5 * (scores[:pairs] + scores[pairs:]) @ projected.T
        return np.asarray(paired.std(axis=0, ddof=1) / np.sqrt(pairs))

    return Coalitions(distinct, operator, monte_carlo_se, exact=False)


def order_and_reverse(d: int, generator: np.random.Generator) -> Coalitions:
    """Return the coalitions along a random order and its reverse, with their operator.

    Increments along an order and its reverse average to the Shapley value where players interact
    in pairs only. Efficiency is exact. One such pair has no error to be estimated from.
    """
    order = generator.permutation(d)
    masks = np.zeros((2 * d, d), dtype=bool)
    operator = np.zeros((d, 2 * d))
    for first, walk in ((0, order), (d, order[::-1])):
        for k, player in enumerate(walk):
            before = first + k if k else 0
            # the walks part at the empty coalition and meet at the full one
            after = first + k + 1 if k < d - 1 else d
            masks[after] = masks[before]
            masks[after, player] = True
            operator[player, after] += 0.5
            operator[player, before] -= 0.5
    return Coalitions(masks, operator, lambda _: np.full(d, np.nan), exact=False)
