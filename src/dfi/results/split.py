"""Shares of features split into unique, shared and interaction parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from dfi._docstrings import exemplified
from dfi._parameters import validated
from dfi.inference.shares import is_clear, shares_of
from dfi.results.columns import SPLITS, frame_of, lists, text_lines
from dfi.results.file import FrozenRecord
from dfi.results.numbers import percent
from dfi.results.tables import NO_SIGNAL, place_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes

    from dfi._types import Array, Floats, Frame, Plain
    from dfi.inference.influence import InfluenceRows

PARTS = ("unique", "shared", "interaction")
"""The parts that add up to a share."""

PARTNERS = 3
"""Number of partners that are named."""

SMALLEST = 0.005
"""Smaller shares of the explained variance are not named."""

ROUNDED = 1e-9
"""Interactions that differ from 0 by less, intervals included, are rounding: there are none."""


@exemplified
@dataclass(frozen=True, eq=False, repr=False)
class Split(FrozenRecord):
    r"""The share of each feature as a sum of unique signal, shared signal and interaction.

    With :math:`g` the projection of the regression on sums of functions of single features and
    :math:`\phi^{Sh}_l` a feature's part of what is explained, *unique* is
    :math:`E\,Var(g \mid X_{-l})`, what is lost of :math:`g` without the feature; *shared* is
    :math:`\phi^{Sh}_l(g)` minus that, signal that correlated features contribute as well; and
    *interaction* is :math:`\phi^{Sh}_l(\mu) - \phi^{Sh}_l(g)`, its part of all interactions
    (:mod:`dfi.methods.split`). A shared part below 0 marks a suppressor: the feature is worth more
    with the others than alone.

    Made by :meth:`dfi.Importance.split`.

    Attributes
    ----------
    basis : InfluenceRows
        Influence values: unique, shared and interaction of all units, and last what is explained.
    partners : ndarray of shape (units, units)
        What a unit (row) shares with each other one, as a share of the explained variance; rows add
        up to its shared part.

    Examples
    --------
    >>> split.table()[["feature", "partner_1"]].values.tolist()[:2]
    [['x0', 'x1'], ['x1', 'x0']]
    """

    names: tuple[str, ...]
    basis: InfluenceRows
    partners: Floats
    spec: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    level: float = 0.95
    library: str = "numpy"

    def __post_init__(self) -> None:
        if self.basis.n_units != len(PARTS) * len(self) + 1:
            raise ValueError(
                f"basis must have {len(PARTS)} columns for each of the {len(self)} units and one "
                f"more, got {self.basis.n_units}"
            )
        super().__post_init__()

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {"partners": (len(self), len(self))}

    def __len__(self) -> int:
        return len(self.names)

    @validated
    def with_whom(self, feature: str) -> list[tuple[str, float]]:
        """Return the partners that a unit shares most with, and how much, largest first.

        Parameters
        ----------
        feature : str
            The unit.

        Returns
        -------
        list of tuples of str and float
            At most three, those of half a percent of what is explained and more.

        Examples
        --------
        >>> split.with_whom("x1")[0][0]
        'x0'
        """
        amounts = self.partners[place_of(feature, self.names)]
        order = np.argsort(-np.abs(amounts), kind="stable")[:PARTNERS]
        return [
            (self.names[k], float(amounts[k])) for k in order.tolist() if abs(amounts[k]) > SMALLEST
        ]

    @validated
    @lists(SPLITS)
    def table(self, *, level: float | None = None) -> Frame:
        """Return the split of every unit in the caller's dataframe library, largest share first.

        With the partners that it shares most with, and how much.

        Examples
        --------
        >>> shown = split.table()
        >>> parts = shown[["unique", "shared", "interaction"]].sum(axis=1)
        >>> bool(abs(parts - shown["share"]).max() < 1e-9)
        True
        """
        columns = split_columns(self, self.level if level is None else level)
        order = np.argsort(-np.nan_to_num(columns["share"]), kind="stable")
        values: dict[str, Array] = {"feature": np.array(self.names, dtype=object)[order]}
        values |= {key: column[order] for key, column in columns.items()}
        whom = [self.with_whom(self.names[k]) for k in order]
        for k in range(PARTNERS):
            names = [found[k][0] if len(found) > k else None for found in whom]
            values[f"partner_{k + 1}"] = np.array(names, dtype=object)
            values[f"amount_{k + 1}"] = np.array(
                [found[k][1] if len(found) > k else np.nan for found in whom]
            )
        return frame_of(SPLITS, values, self.library)

    def rows(self) -> list[Plain]:
        """Return the split as dicts, largest share first, with a sentence each in ``text``.

        Examples
        --------
        >>> split.rows()[1]["text"].split(",")[0]
        'x1: nothing is unique to it'
        """
        columns = split_columns(self, self.level)
        order = np.argsort(-np.nan_to_num(columns["share"]), kind="stable")
        found: list[Plain] = []
        for k in order.tolist():
            row: Plain = {key: float(column[k]) for key, column in columns.items()}
            row |= {"name": self.names[k], "partners": self.with_whom(self.names[k])}
            row["text"] = _sentence(row)
            found.append(row)
        return found

    @validated
    def plot(self, *, top: int | None = 20, ax: Axes | None = None) -> Axes:
        """Draw the split as stacked bars: :func:`dfi.plots.split`.

        Examples
        --------
        >>> split.plot().get_xlabel()
        'share of the explained variance'
        """
        # pyplot takes half a second to import: only those who plot pay for it
        from dfi.plots import split

        return split(self, top=top, ax=ax)

    def __repr__(self) -> str:
        rows = self.rows()
        first = f"Split of the shares of {len(self)} features, of the explained variance"
        if not np.isfinite(rows[0]["share"]):
            return f"{first}: {NO_SIGNAL.format('it')}, so there is nothing to split"
        lines = text_lines(SPLITS, [row["name"] for row in rows], rows, self.level)
        return "\n".join([first, *lines, *(row["text"] for row in rows[:3])])


def _sentence(row: Plain) -> str:
    """Describe the split of a feature."""
    if not np.isfinite(row["share"]):
        return f"{row['name']}: {NO_SIGNAL.format('the explained variance')}"
    partners = row["partners"]
    whom = ", ".join(f"{name} ({percent(amount)})" for name, amount in partners)
    whom = partners[0][0] if len(partners) == 1 else whom
    alone = f"{percent(row['unique'])} is unique to it"
    text = f"{row['name']}: {alone if row['unique_low'] > 0.0 else 'nothing is unique to it'}"
    if row["shared"] < 0.0 and row["shared_high"] < 0.0:
        text += (
            f"; its shared part is below 0 ({percent(row['shared'])}): a suppressor, worth more "
            "with the others than alone, because the effects partly cancel"
        )
        text += f" (with {whom})" if whom else ""
    elif row["shared_low"] > 0.0:
        text += f", {percent(row['shared'])} is shared" + (f" with {whom}" if whom else "")
    else:
        text += ", nothing is clearly shared"
    if row["interaction_low"] > 0.0 and row["interaction"] > SMALLEST:
        text += f", {percent(row['interaction'])} comes from interactions"
    return text


def split_columns(parted: Split, level: float) -> dict[str, Floats]:
    """Return the parts of shares with their intervals, in the order of ``names``."""
    count = len(parted.names)
    total = np.eye(len(PARTS) * count + 1)[-1]
    one = np.eye(count)
    found: dict[str, Floats] = {}
    clear = is_clear(parted.basis.summed(total[None, :]))
    for part in ("share", *PARTS):
        chosen = np.zeros((count, len(total)))
        for k in range(len(PARTS)):
            if part in ("share", PARTS[k]):
                chosen[:, k * count : (k + 1) * count] = one
        if not clear:
            columns = dict.fromkeys(("share", "ci_low", "ci_high"), np.full(count, np.nan))
        else:
            nonnegative = part in ("share", "unique")
            columns = shares_of(parted.basis, total, chosen).columns(level, nonnegative=nonnegative)
        shown = np.stack([columns[key] for key in ("share", "ci_low", "ci_high")])
        if part == "interaction":
            shown[:, (np.abs(shown) < ROUNDED).all(axis=0)] = 0.0
        found[part], found[f"{part}_low"], found[f"{part}_high"] = shown
    return found
