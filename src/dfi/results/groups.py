"""The importance of groups: sums over the units of a result."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dfi._data.groups import Groups
    from dfi.results.importance import Importance


def sum_units(result: Importance, groups: Groups) -> Importance:
    """Return a result with one unit per group, in both spaces.

    Influence values add over the members of a group. The attribution adds over the members that
    receive and averages over the latent members that give.

    Parameters
    ----------
    result : Importance
        The units.
    groups : Groups
        Who belongs to which group; groups may overlap.
    """
    membership = np.asarray(groups.membership, dtype=np.float64)
    if membership.shape[1] != len(result.names):
        raise ValueError(
            f"the groups are over {membership.shape[1]} units, the result has {len(result.names)}"
        )
    attribution = None
    if result.attribution is not None:
        given = membership / membership.sum(axis=1, keepdims=True)
        attribution = membership @ result.attribution @ given.T
    return replace(
        result,
        influence=result.influence @ membership.T,
        names=tuple(groups.names),
        space="latent" if result.space == "latent" else "group",
        degenerate=~np.any(groups.membership & ~result.degenerate, axis=1),
        unrelated=np.any(groups.membership & result.unrelated, axis=1)
        & ~np.any(groups.membership & ~result.degenerate & ~result.unrelated, axis=1),
        undetected=None if result.undetected is None else membership @ result.undetected,
        spread=None,
        latent=None if result.latent is None else sum_units(result.latent, groups),
        attribution=attribution,
        default_groups=None,
    )
