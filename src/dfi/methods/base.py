"""What a comparator is: a named question, and influence values that answer it."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dfi._types import Floats, Ints, Space
    from dfi.methods.context import Context


@dataclass(frozen=True, eq=False)
class Part:
    """One importance of every unit, as influence values.

    Attributes
    ----------
    influence : ndarray of shape (len(rows), n_units)
        Uncentred influence values: score = mean, standard error = sd / sqrt(n).
    rows : ndarray of int
        The rows of the table that they belong to.
    monte_carlo_se : ndarray of shape (n_units,), optional
        Error of the score from random permutations or sampled submodels, on top of and apart from
        the sampling error: it can be made small by asking for more of them.
    nonnegative : bool
        Whether the parameter cannot be negative.
    diagnostics : mapping
        What else a reader should know (JSON-like).
    space : {"attributed", "latent", "group"}, optional
        What the units are; by default those of the call, features or groups.
    """

    influence: Floats
    rows: Ints
    monte_carlo_se: Floats | None = None
    nonnegative: bool = True
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    space: Space | None = None


@runtime_checkable
class Comparator(Protocol):
    """A measure of importance: a frozen object with its parameters.

    Attributes
    ----------
    name : str
        Its key in a comparison.
    question : str
        The question that it answers, in words.
    valid_intervals : bool
        Whether the standard errors account for everything of first order.
    inference : str
        Why the intervals hold or not, and how the test behaves where the score is 0.
    """

    @property
    def name(self) -> str:
        """The key of the method."""

    @property
    def question(self) -> str:
        """The question that the method answers."""

    @property
    def valid_intervals(self) -> bool:
        """Whether the intervals are valid."""

    @property
    def inference(self) -> str:
        """Why the intervals hold or not."""

    def refuses(self, context: Context) -> str | None:
        """Return why these data have no such importance, or None."""

    def compute(self, context: Context) -> dict[str, Part]:
        """Return the method's importances by name (most methods have one)."""


CONSERVATIVE = (
    "Where the score is 0 the limit is degenerate: the influence values vanish and the squared "
    "error of the fits pulls the score below 0, so the one-sided test rejects less often than its "
    "level (conservative)."
)


def check_at_least_two(name: str, value: object) -> None:
    """Refuse a number of draws or folds that leaves nothing to compare."""
    if not isinstance(value, numbers.Integral) or value < 2:
        raise ValueError(f"{name} must be at least 2 and a whole number, got {value!r}")


def if_debiased(corrected: object, plain: object) -> Any:
    """Return a property of comparators that choose: one value with ``debias``, one without."""

    def chosen(comparator: Any) -> object:
        return corrected if comparator.debias else plain

    return property(chosen)
