r"""The tree of units by shared signal.

Coordinate ``j`` has the part :math:`V_j` of what is explained, and unit ``l`` expresses the share
:math:`W_{lj}` of it (its attribution weight, :math:`L_{lj}^2`; the units' shares are
:math:`\sum_j W_{lj} V_j`). Two units share signal where the same coordinates carry what both
express:

.. math:: s_{lm} = \frac{2 \sum_j V_j \min(W_{lj}, W_{mj})}{\sum_j V_j (W_{lj} + W_{mj})} ,

the part of the signal of both that each of them expresses alike: 1 for copies, whatever else there
is, 0 for units that express different coordinates, and :math:`1 - (1 - \rho^2)^{1/2}` for two units
with a correlation :math:`\rho`, whichever of them carries the signal. Estimates of :math:`V_j`
below 0 count as 0. Units whose share is not clearly above 0 share nothing: correlation alone makes
none similar. Amounts are compared, not profiles: a unit that expresses little of another's
coordinate is not similar to it, though it may express nothing else.

Groups join by complete linkage: in a group that joined at a similarity every two units share that
much at least.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from dfi._docstrings import exemplified
from dfi._parameters import validated
from dfi.inference.shares import CLEAR, bounded
from dfi.results import words
from dfi.results.columns import JOINS, frame_of, lists
from dfi.results.file import FrozenRecord, thaw
from dfi.results.numbers import SHOWN_ROWS, bare_percent, more_text, text_table
from dfi.results.tables import NO_SIGNAL, ratios, share_table
from dfi.results.views import UNATTRIBUTED, attribution_of, leading, members_of, overlaps, shorten

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dfi._types import Array, Floats, Frame, Ints, Space
    from dfi.results.importance import Importance

ROUNDING = 1e-9
"""Similarity below which two units share nothing but rounding."""


@exemplified
@dataclass(frozen=True, eq=False, repr=False)
class SignalTree(FrozenRecord):
    r"""A tree of units by how much signal they share.

    The similarity of two units is the part of their signal that both express, coordinate by
    coordinate: :math:`2 \sum_j V_j \min(W_{lj}, W_{mj}) / \sum_j V_j (W_{lj} + W_{mj})`
    (:mod:`dfi.results.tree`). Correlated units without signal share none. Whether one of two can be
    left out is for :meth:`dfi.Importance.keep`: both express their difference, and either loses it.

    Made by :meth:`dfi.Importance.tree`.

    Attributes
    ----------
    shares : ndarray of shape (p,)
        Their shares of the explained variance.
    similarities : ndarray of shape (p, p)
        The similarity of every two units.
    links : ndarray of int of shape (p - 1, 2)
        What joins: a unit by its index, or the k-th join as p + k, as in scipy.
    similarity : ndarray of shape (p - 1,)
        The similarity of each join, in falling order: any two units of the group share at least
        that much.
    share, share_low, share_high : ndarray of shape (p - 1,)
        The share of the explained variance that the units have together, with its interval.
    columns : mapping of str to tuple of str
        The columns of each unit, where units are groups.

    Examples
    --------
    >>> tree.members[0], bool(tree.similarity[0] > 0.3)
    (('x0', 'x1'), True)
    """

    names: tuple[str, ...]
    shares: Floats
    similarities: Floats
    links: Ints
    similarity: Floats
    share: Floats
    share_low: Floats
    share_high: Floats
    level: float
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    spec: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    library: str = "numpy"

    @property
    def members(self) -> tuple[tuple[str, ...], ...]:
        """The units of each group that joins, in the order of ``names``."""
        return tuple(tuple(self.names[k] for k in group) for group in groups_of(self.links))

    @property
    def order(self) -> Ints:
        """An order of the units in which no branches cross."""
        if len(self.names) < 2:
            return np.arange(len(self.names))
        heights = np.column_stack([1.0 - self.similarity, 2.0 + np.arange(len(self.links))])
        full = np.column_stack([self.links.astype(np.float64), heights])
        return np.asarray(leaves_list(full), dtype=np.intp)

    @validated
    def cut(self, share: float = 0.5) -> dict[str, list[str]]:
        """Return groups in which any two units share at least this part of their signal.

        Parameters
        ----------
        share : float, default=0.5
            The similarity of every two units of a group, at least; 1 for copies alone.

        Returns
        -------
        dict of str to list of str
            The columns of each group, as ``feature_groups`` takes them: those of one unit under its
            name, others under the names of their units.

        Raises
        ------
        ValueError
            Units are groups of more columns than the result lists.

        Examples
        --------
        >>> groups = tree.cut(share=0.3)
        >>> groups
        {'x0 + x1': ['x0', 'x1'], 'x2': ['x2']}
        >>> both = dfi.explain(
        ...     related.X, related.y, "linear", cv=2, feature_groups=groups, units="groups"
        ... )
        >>> both.names
        ('x0 + x1', 'x2')
        """
        alone = {k: [k] for k in range(len(self.names))}
        for group, similarity in zip(groups_of(self.links), self.similarity, strict=True):
            if similarity >= share - ROUNDING:
                for k in group:
                    alone[k] = group
        found = {}
        for places in sorted({tuple(group) for group in alone.values()}):
            units = [self.names[k] for k in places]
            short = " + ".join(units if len(units) <= 3 else [*units[:2], f"{len(units) - 2} more"])
            found[short] = [column for unit in units for column in self._columns_of(unit)]
        return found

    def _columns_of(self, unit: str) -> tuple[str, ...]:
        if self.spec.get("units") != "groups":
            return (unit,)
        if unit not in self.columns:
            raise ValueError(
                f"the group {unit!r} has more columns than the result lists: build the groups "
                "yourself from the members of the tree"
            )
        return self.columns[unit]

    @lists(JOINS)
    def table(self) -> Frame:
        """Return the joins in the caller's dataframe library, the most similar first.

        Examples
        --------
        >>> tree.table()["members"].tolist()
        ['x0, x1', 'x0, x1, x2']
        """
        columns: dict[str, Array] = {
            "members": np.array([", ".join(group) for group in self.members], dtype=object),
            **{name: getattr(self, name) for name in ("similarity", *SHARES)},
        }
        return frame_of(JOINS, columns, self.library)

    def __repr__(self) -> str:
        some = self.similarity >= SLIGHT
        space: Space = "group" if self.spec.get("units") == "groups" else "attributed"
        lines = [f"SignalTree: {words.counted(len(self.names), space)} by shared signal"]
        if not some.any():
            return f"{lines[0]}: no two clearly share any"
        cells = [
            [
                _joined(group),
                f"{bare_percent(at)} %",
                f"{bare_percent(part)} % ({bare_percent(low)} to {bare_percent(high)})",
            ]
            for group, at, part, low, high in zip(
                self.members, self.similarity, *(getattr(self, name) for name in SHARES),
                strict=True,
            )
        ][: int(some.sum())]  # fmt: skip
        head = ["joined", "similar by", f"share ({100.0 * self.level:.4g} % interval)"]
        lines += text_table(head, cells[:SHOWN_ROWS])
        if len(cells) > SHOWN_ROWS:
            lines.append(more_text(len(cells) - SHOWN_ROWS, len(cells)))
        lines.append("similar ones carry the same signal; keep() says which of them are enough")
        return "\n".join(lines)


def _joined(names: Sequence[str]) -> str:
    """Return the names of a group, or the first that fit and how many more there are."""
    shown = [shorten(name) for name in names]
    count = len(shown)
    while count > 1 and len(" + ".join(shown[:count])) > LINE_WIDTH:
        count -= 1
    more = [f"{len(shown) - count} more"] if count < len(shown) else []
    return " + ".join([*shown[:count], *more])


SHARES = ("share", "share_low", "share_high")
LINE_WIDTH = 60
"""Characters of the units of a group in a printed tree."""
ROOM = 0.1
"""How much less similar the next join must be for a number to fit in between."""
SLIGHT = 0.005
"""Similarity below which joins are not worth a line."""


def groups_of(links: Ints) -> list[list[int]]:
    """Return the positions of the units in each joined group, ascending."""
    count = len(links) + 1
    groups: list[list[int]] = [[k] for k in range(count)]
    for first, second in links.tolist():
        groups.append(sorted(groups[first] + groups[second]))
    return groups[count:]


@dataclass(frozen=True)
class Bracket:
    """A join: the rows of its ends, the similarities where these begin, and its own.

    Rows count the units in the tree's ``order``. ``told``: whether there is room for a number
    before the next join.
    """

    above: float
    below: float
    begins: float
    starts: float
    at: float
    told: bool


def branches(tree: SignalTree) -> list[Bracket]:
    """Return the joins as they are drawn."""
    row = np.empty(len(tree.names))
    row[tree.order] = np.arange(len(tree.names))
    ends = [(float(at), 1.0) for at in row]
    found = []
    count, places = len(tree.names), tree.similarity.tolist()
    room = np.array(places)
    for (first, second), at in zip(tree.links.tolist(), places, strict=True):
        for end in (first, second):
            if end >= count:
                room[end - count] -= at
    for (first, second), at, free in zip(tree.links.tolist(), places, room, strict=True):
        (above, begins), (below, starts) = sorted((ends[first], ends[second]))
        found.append(Bracket(above, below, begins, starts, at, bool(free >= ROOM)))
        ends.append((0.5 * (above + below), at))
    return found


def signal_similarities(weights: Floats, signal: Floats, clear: Array) -> Floats:
    """Return the part of their signal that any two units share; 0 if one is not clear."""
    expressed = np.where(np.asarray(clear)[:, None], weights, 0.0) * signal
    amount = expressed.sum(axis=1)
    found = np.eye(len(amount))
    for unit in np.flatnonzero(amount > 0):
        both = np.minimum(expressed[unit], expressed).sum(axis=1)
        found[unit] = np.where(amount > 0, 2.0 * both / (amount[unit] + amount), 0.0)
    found = np.clip(0.5 * (found + found.T), 0.0, 1.0)
    found[found > 1.0 - ROUNDING] = 1.0
    np.fill_diagonal(found, 1.0)
    return np.asarray(found)


def signal_tree(result: Importance, top: int | None = None) -> SignalTree:
    """Return the tree of the units of a result, or of those with the largest shares."""
    latent = result.latent
    if overlaps(result):
        raise ValueError(f"a tree needs attribution weights: {UNATTRIBUTED}")
    if result.space == "latent" or latent is None or latent.parts is None or result.parts is None:
        raise ValueError(
            "a tree needs the shares of features and latent coordinates, which differences "
            "and other methods do not have: call tree on the result of explain"
        )
    weights = attribution_of(result)
    p = len(result.names)
    whole = result.parts.summed(np.eye(p + 1)[p:])
    if not whole.mean[0] > CLEAR * whole.se[0]:
        unclear = NO_SIGNAL.format(words.explained_of(result.spec))
        raise ValueError(f"{unclear}: there is no signal that features could share")
    signal = np.maximum(latent.parts.mean[:p], 0.0)
    clear = result.parts.mean[:p] > CLEAR * result.parts.se[:p]
    chosen = np.sort(leading(result.parts.mean[:p], top))
    found = signal_similarities(weights, signal, clear)[np.ix_(chosen, chosen)]
    count = len(chosen)
    joins = np.zeros((0, 4))
    if count > 1:
        joins = linkage(squareform(1.0 - found, checks=False), method="complete")
    links = joins[:, :2].astype(np.intp)
    membership = np.zeros((len(links), p))
    for row, group in zip(membership, groups_of(links), strict=True):
        row[chosen[group]] = 1.0
    columns = {name: np.zeros(0) for name in ("share", "ci_low", "ci_high")}
    shown = share_table(result)["share"]
    shares = ratios(result, "explained", membership) if len(links) else None
    if shares is not None:
        columns = shares.columns(result.level, nonnegative=result.nonnegative)
        for end in ("ci_low", "ci_high"):
            columns[end] = np.where(shares.errors == 0.0, shares.values, columns[end])
        columns = bounded(columns, np.minimum(membership @ shown, 1.0))
    inside = {
        name: tuple(member["name"] for member in unit["members"])
        for name, unit in members_of(result).items()
        if unit["kind"] == "group" and unit["n_members"] == len(unit["members"])
    }
    return SignalTree(
        names=tuple(result.names[k] for k in chosen),
        shares=shown[chosen],
        similarities=found,
        links=links,
        similarity=1.0 - joins[:, 2],
        share=columns["share"],
        share_low=columns["ci_low"],
        share_high=columns["ci_high"],
        level=result.level,
        columns=inside,
        spec=thaw(result.spec),
        library=result.library,
    )
