"""Which units are enough, and the loss without the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from dfi._docstrings import exemplified
from dfi.results.columns import KEPT, frame_of, lists
from dfi.results.file import FrozenRecord
from dfi.results.numbers import bare_percent, text_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dfi._types import Array, Bools, Floats, Frame, Ints


@exemplified
@dataclass(frozen=True, eq=False, repr=False)
class KeepList(FrozenRecord):
    r"""The smallest set of units that keeps a share of the signal, with confidence.

    With :math:`\mu_S` the regression on a set ``S`` and :math:`R` the risk, the set loses
    :math:`\lambda_S = \{R(\mu_S) - R(\mu)\}/\{R(\bar y) - R(\mu)\}` of what all units explain:
    measured by refitted models, on rows that neither they nor the order of the sets have seen
    (:mod:`dfi.methods.keep`). In ``level`` of samples the set that is kept loses less than
    ``1 - share``.

    The set is sufficient, not unique, and says nothing about causes: of two copies either will do,
    and both have their share of importance.

    Made by :meth:`dfi.Importance.keep`.

    Attributes
    ----------
    kept, dropped : tuple of str
        The units to keep and those to drop, each with the ones left out last first.
    share, level : float
        The required share of the signal, and the confidence.
    sizes : ndarray of int of shape (k,)
        How many units each measured set has, from the largest on.
    without : tuple of str
        What each set leaves out that the one before it has.
    lost, se, at_most : ndarray of shape (k,)
        The share of the signal that each set loses, its standard error, and the upper end of the
        one-sided interval from 0 with confidence ``level``. A set is enough where that is at most
        ``1 - share``; the first that is not ends the search.

    Examples
    --------
    >>> keep_list.kept
    ('x0',)
    """

    kept: tuple[str, ...]
    dropped: tuple[str, ...]
    share: float
    level: float
    sizes: Ints
    without: tuple[str, ...]
    lost: Floats
    se: Floats
    at_most: Floats
    spec: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    library: str = "numpy"

    @property
    def enough(self) -> Bools:
        """Which of the measured sets keep the required share, shape (k,)."""
        return np.asarray(self.at_most <= 1.0 - self.share)

    def as_dict(self) -> dict[str, object]:
        """Return it as numbers, strings and lists, for JSON.

        Examples
        --------
        >>> keep_list.as_dict()["kept"]
        ['x0']
        """
        numbers = {name: getattr(self, name).tolist() for name in ("sizes", "lost", "at_most")}
        return {
            "kept": list(self.kept),
            "dropped": list(self.dropped),
            "share": self.share,
            "level": self.level,
            "without": list(self.without),
            **numbers,
        }

    @lists(KEPT)
    def table(self) -> Frame:
        """Return the sets that were measured in the caller's dataframe library.

        Examples
        --------
        >>> keep_list.table().columns.tolist()
        ['units', 'without', 'lost', 'se', 'at_most', 'enough']
        >>> bool(keep_list.table()["at_most"].max() < 0.1)
        True
        """
        columns: dict[str, Array] = {
            "units": self.sizes,
            "without": np.array(self.without, dtype=object),
            "lost": self.lost,
            "se": self.se,
            "at_most": self.at_most,
            "enough": self.enough,
        }
        return frame_of(KEPT, columns, self.library)

    def __repr__(self) -> str:
        count = len(self.kept) + len(self.dropped)
        part, sure = f"{100.0 * self.share:.4g} %", f"{100.0 * self.level:.4g} % confidence"
        lines = [
            f"KeepList: {len(self.kept)} of {count} carr{'y' if len(self.kept) > 1 else 'ies'} "
            f"{part} of the signal ({sure})"
            if len(self.sizes) or len(self.kept) == 1
            else "KeepList: no signal is clear enough to leave anything out",
            f"keep: {', '.join(self.kept) or 'none'}",
            f"leave out: {', '.join(self.dropped) or 'none'}",
        ]
        cells = [
            [name, str(size), *(f"{bare_percent(value)} %" for value in (lost, high)), answer]
            for name, size, lost, high, answer in zip(
                self.without, self.sizes, self.lost, self.at_most,
                np.where(self.enough, "yes", "no"), strict=True,
            )
        ]  # fmt: skip
        if cells:
            lines += text_table(["without", "left", "lost", "at most", "enough"], cells)
        return "\n".join([*lines, str(self.spec.get("rows"))])
