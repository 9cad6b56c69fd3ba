"""The game whose players are units and whose value is what a submodel explains, row by row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dfi._scoring.forms import loco
from dfi.methods.coalitions import EXACT_LIMIT, all_coalitions
from dfi.methods.refit import least_squares_submodels, positions_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._types import Bools, Floats, Ints
    from dfi.methods.context import Context

    Masks = Bools

# The linear game of a fold is solved for all its coalitions at once: numbers kept, and operations.
MOST_NUMBERS = 2e7
MOST_OPERATIONS = 2e9


@dataclass(frozen=True)
class Game:
    r"""Values :math:`(y_i - \bar y)^2 - (y_i - \hat\mu_S(x_{iS}))^2` of coalitions, by fold.

    Attributes
    ----------
    context : Context
        Rows, folds and submodels of the comparison.
    groups : list of tuple of int
        The columns of each player.
    """

    context: Context
    groups: list[tuple[int, ...]]

    @property
    def d(self) -> int:
        """The number of players."""
        return len(self.groups)

    @cached_property
    def constant(self) -> frozenset[int]:
        """The columns of the table that do not vary, which no player owns."""
        return frozenset(np.flatnonzero(self.context.table.constant_units).tolist())

    def values(self, masks: Sequence[Masks]) -> list[Floats]:
        """Return the values of each fold's coalitions on its held-out rows, (n_test, m)."""
        subsets = [[self._columns(mask) for mask in chosen] for chosen in masks]
        found = self.context.submodels.by_fold(subsets, "refitting submodels")
        return [
            self._gain(fold.test, predictions, predictions[:, ~chosen.any(axis=1)][:, :1])
            for fold, predictions, chosen in zip(self.context.folds, found, masks, strict=True)
        ]

    def _columns(self, mask: Masks) -> tuple[int, ...]:
        own = tuple(c for player in np.flatnonzero(mask) for c in self.groups[player])
        n_columns = len(self.context.table.columns)
        # the full model has been fitted with the columns that do not vary
        whole = len(own) == n_columns - len(self.constant)
        return tuple(range(n_columns)) if whole else own

    def _gain(self, rows: Ints, predictions: Floats, baseline: Floats) -> Floats:
        y = self.context.outcome.values[rows, None]
        return loco(y, predictions, baseline)

    def linear(self, k: int) -> tuple[Floats, Floats] | None:
        """Return the game of least squares in a fold, where it can be solved at little cost.

        Returns
        -------
        shapley : ndarray of shape (n_test, d)
            Shapley values of each held-out row's values, over all coalitions.
        values : ndarray of shape (n_test, 2 ** d)
            Those values; a coalition stands at the number whose binary digits are its members.
        """
        context, fold = self.context, self.context.folds[k]
        width = context.table.matrix.shape[1]
        small = self.d <= EXACT_LIMIT and 2**self.d * len(fold.test) <= MOST_NUMBERS
        if not small or 2**self.d * width**3 > MOST_OPERATIONS:
            return None
        coalitions = all_coalitions(self.d)
        positions = [positions_of(context.table, self._columns(mask)) for mask in coalitions.masks]
        predictions = least_squares_submodels(
            context.table.matrix, context.outcome.values, context.weights.values, fold, positions
        )
        values = self._gain(fold.test, predictions, predictions[:, :1])
        return values @ coalitions.operator.T, values


def numbers(masks: Masks) -> Ints:
    """Return the number of each coalition among all of them."""
    return np.asarray(masks @ (1 << np.arange(masks.shape[1])), dtype=np.intp)
