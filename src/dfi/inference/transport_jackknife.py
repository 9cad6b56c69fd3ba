r"""The error of a transport without a derived influence function, by a grouped jackknife.

The rows are dealt into ``B`` groups; the transport is fitted again without each group, the fitted
models and the rows that are scored staying the same. With :math:`\hat\theta_{(-g)}` the scores
under that transport, :math:`\psi_g = -(B - 1)(\hat\theta_{(-g)} - \hat\theta)` is, to first order,
the mean over the group of the rows' influence through the transport. What every row gets is

.. math:: u_i + b\,(u_i - \bar u) + \sqrt{n_g}\, r_g, \qquad \psi_g = b\,(\bar u_g - \bar u) + r_g,

``b`` by least squares over the groups: the variance of the column mean is then that of the group
means :math:`\bar u_g + \psi_g`, while the part that rows themselves show keeps its ``n`` degrees of
freedom. (Giving each row of a group :math:`\psi_g` alone would understate it ``n_g`` times.) With
weights, :math:`n_g = (\sum_i w_i)^2 / (B \sum_i w_i^2)`: groups are of rows, however often these
count, and their means vary the more, the fewer rows have the weight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from dfi._data.weights import Weights
    from dfi._types import Floats, Ints

N_GROUPS = 20


def deal_groups(n: int, n_groups: int, seed: np.random.SeedSequence) -> Ints:
    """Return a group for every row, at random, of sizes that differ by one at most."""
    return np.random.default_rng(seed).permutation(np.arange(n) % n_groups)


def group_influence(groups: Ints, rescore: Callable[[Ints], Floats], base: Floats) -> Floats:
    """Return ``psi`` (B, columns): the mean influence of each group through the transport.

    Parameters
    ----------
    groups : ndarray of int, shape (n,)
        The group of every row.
    rescore : callable
        Rows to fit the transport on, to the scores (columns,) under it.
    base : ndarray of shape (columns,)
        The scores under the transport fitted on all rows, by the same function.
    """
    n_groups = int(groups.max()) + 1
    psi = np.stack(
        [-(n_groups - 1) * (rescore(np.flatnonzero(groups != g)) - base) for g in range(n_groups)]
    )
    return np.asarray(psi - psi.mean(axis=0))


def with_transport_error(influence: Floats, weights: Weights, groups: Ints, psi: Floats) -> Floats:
    """Return influence values whose column means have the variance of the whole estimate."""
    n_groups = len(psi)
    centre = weights.mean(influence)
    means = np.stack(
        [weights.take(groups == g).mean(influence[groups == g]) for g in range(n_groups)]
    )
    own = means - centre
    scale = np.sum(own**2, axis=0)
    slope = np.divide(np.sum(own * psi, axis=0), scale, out=np.zeros_like(scale), where=scale > 0)
    rest = (psi - slope * own) * np.sqrt(n_groups / max(1, n_groups - 2))
    # what as many rows of equal weight as these would be: a group of few large ones is a small one
    mass = weights.values
    size = mass.sum() ** 2 / np.sum(mass**2) / n_groups
    added = slope * (influence - centre) + np.sqrt(size) * rest[groups]
    return np.asarray(influence + added - weights.mean(added))
