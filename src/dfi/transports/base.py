"""What a fitted transport offers to be scored along curves, and differences for its Jacobian."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from dfi._lines.base import Reference

if TYPE_CHECKING:
    from collections.abc import Callable

    from dfi._data.table import Table
    from dfi._data.weights import Weights
    from dfi._types import Bools, Floats, Ints

UNIFORM_ATOMS = 1024


class UnsuitableTransportError(ValueError):
    """The data do not allow this transport: too few rows for a kernel, categories in a vine."""


@runtime_checkable
class MapTransport(Protocol):
    """A fitted transport whose decoder gives the row that belongs to a latent row."""

    @property
    def active(self) -> Ints:
        """The columns that vary; the latent coordinates belong to these, in this order."""

    @property
    def n_latent(self) -> int:
        """The number of latent coordinates."""

    @property
    def reference(self) -> Reference:
        """The law of a replacement latent coordinate."""

    def encode(self, matrix: Floats, generator: np.random.Generator) -> Floats:
        """Return latent rows (n, d); the generator serves what is random."""

    def decode(self, latent: Floats) -> Floats:
        """Return the rows of the numeric matrix that belong to latent rows."""

    def slopes(self, latent: Floats, j: int) -> Floats:
        """Return the change of each standardised feature per unit of latent ``j``, (n, d)."""


@runtime_checkable
class RoughTransport(Protocol):
    """A transport whose slopes are too rough along a curve to be sampled at a few nodes."""

    def mean_squared_slopes(self, rows: Floats, j: int, nodes: Floats, weights: Floats) -> Floats:
        """Return the mean squared slope of each feature along each curve, (n, d)."""


def neighbours(latent: Floats, j: int, step: float, unit_interval: bool) -> tuple[Floats, Floats]:
    """Return the latent rows with coordinate ``j`` a step lower and a step higher."""
    low, high = latent.copy(), latent.copy()
    low[:, j] -= step
    high[:, j] += step
    if unit_interval:
        low[:, j] = np.clip(low[:, j], 1e-9, 1 - 1e-9)
        high[:, j] = np.clip(high[:, j], 1e-9, 1 - 1e-9)
    return low, high


def differences(
    decode: Callable[[Floats], Floats], latent: Floats, j: int, step: float, unit_interval: bool
) -> Floats:
    """Return the derivative of a decoder in coordinate ``j`` by differences."""
    low, high = neighbours(latent, j, step, unit_interval)
    width = (high[:, j] - low[:, j])[:, None]
    return np.asarray((decode(high) - decode(low)) / width)


def uniform_reference(d: int) -> Reference:
    """Return the uniform law on the unit interval for every coordinate, by its midpoints."""
    levels = (np.arange(UNIFORM_ATOMS) + 0.5) / UNIFORM_ATOMS
    return Reference.empirical(np.repeat(levels[:, None], d, axis=1))


def fit_transport(
    design: Any,
    matrix: Floats,
    weights: Weights,
    constant: Bools,
    table: Table,
    *,
    like: Any = None,
) -> Any:
    """Fit a transport; one whose specification names columns is told what they are.

    ``like`` is the transport fitted on all rows, when it is fitted again without some of them: a
    design that selects among models keeps what was selected.
    """
    more: dict[str, Any] = {}
    if getattr(design, "takes_columns", False):
        more["columns"] = table.columns
    if like is not None and getattr(design, "keeps_selection", False):
        more["like"] = like
    return design.fit(matrix, weights, constant, **more)
