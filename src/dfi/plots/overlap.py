r"""How much latent signal two features share, from the attribution weights alone.

With attribution weights :math:`A_{lj} = W_{lj}^2`, the overlap of features :math:`l` and
:math:`k` is

.. math:: o_{lk} = \frac{\sum_j \sqrt{A_{lj} A_{kj}}}{\sqrt{\sum_j A_{lj} \sum_j A_{kj}}}
          \ge |\mathrm{corr}(X_l, X_k)|,

with equality where the products :math:`W_{lj} W_{kj}` have one sign: a pair of correlated
features has an overlap of exactly their absolute correlation. It needs no data, so it can be
drawn from a saved result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.cluster.hierarchy import fcluster, leaves_list, linkage
from scipy.spatial.distance import squareform

if TYPE_CHECKING:
    from dfi._types import Floats, Ints

BLOCK_OVERLAP = 0.5
"""Features whose average overlap is at least this belong to one correlated block."""


def overlap(attribution: Floats) -> Floats:
    """Return the overlap of every pair of units, 1 on the diagonal (0 for units without weight)."""
    root = np.sqrt(np.clip(attribution, 0.0, None))
    norm = np.sqrt(np.sum(root**2, axis=1))
    scale = np.outer(norm, norm)
    product = np.asarray(root @ root.T)
    ratio = np.divide(product, scale, out=np.zeros_like(product), where=scale > 0)
    return np.asarray(np.clip(ratio, 0.0, 1.0))


def _tree(similarity: Floats) -> Floats:
    distance = 1.0 - similarity
    distance = (distance + distance.T) / 2.0
    np.fill_diagonal(distance, 0.0)
    return np.asarray(linkage(squareform(distance, checks=False), method="average"))


def clustered_order(similarity: Floats) -> Ints:
    """Return an order of the units that puts similar ones next to each other."""
    if len(similarity) < 3:
        return np.arange(len(similarity))
    return np.asarray(leaves_list(_tree(similarity)), dtype=np.intp)


@dataclass(frozen=True)
class Block:
    """A set of units that share latent signal.

    Attributes
    ----------
    members : tuple of int
        Positions of the units.
    mean_overlap : float
        Average overlap of its pairs.
    """

    members: tuple[int, ...]
    mean_overlap: float


def correlated_blocks(attribution: Floats, threshold: float = BLOCK_OVERLAP) -> list[Block]:
    """Return the blocks of at least two units whose average overlap reaches ``threshold``."""
    similarity = overlap(attribution)
    if len(similarity) < 2:
        return []
    labels = fcluster(_tree(similarity), t=1.0 - threshold, criterion="distance")
    blocks = []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        if len(members) > 1:
            inside = similarity[np.ix_(members, members)]
            pairs = inside[np.triu_indices(len(members), k=1)]
            blocks.append(Block(tuple(int(m) for m in members), float(pairs.mean())))
    return sorted(blocks, key=lambda block: block.members)
