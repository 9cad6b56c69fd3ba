"""What a fitted transport offers to be scored along curves, and differences for its Jacobian."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from dfi.lines.base import Reference

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dfi.data.table import Table
    from dfi.data.weights import Weights

    Floats = NDArray[np.float64]

UNIFORM_ATOMS = 1024


class UnsuitableTransportError(ValueError):
    """The data do not allow this transport: too few rows for a kernel, categories in a vine."""


@runtime_checkable
class MapTransport(Protocol):
    """A fitted transport whose decoder gives the row that belongs to a latent row."""

    @property
    def active(self) -> NDArray[np.intp]:
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


def differences(
    decode: Callable[[Floats], Floats], latent: Floats, j: int, step: float, unit_interval: bool
) -> Floats:
    """Return the derivative of a decoder in coordinate ``j`` by differences."""
    low, high = latent.copy(), latent.copy()
    low[:, j] -= step
    high[:, j] += step
    if unit_interval:
        low[:, j] = np.clip(low[:, j], 1e-9, 1 - 1e-9)
        high[:, j] = np.clip(high[:, j], 1e-9, 1 - 1e-9)
    width = (high[:, j] - low[:, j])[:, None]
    return np.asarray((decode(high) - decode(low)) / width)


def uniform_reference(d: int) -> Reference:
    """Return the uniform law on the unit interval for every coordinate, by its midpoints."""
    levels = (np.arange(UNIFORM_ATOMS) + 0.5) / UNIFORM_ATOMS
    return Reference.empirical(np.repeat(levels[:, None], d, axis=1))


def fit_transport(
    design: Any, matrix: Floats, weights: Weights, constant: NDArray[np.bool_], table: Table
) -> Any:
    """Fit a transport; one whose specification names columns is told what they are."""
    if getattr(design, "takes_columns", False):
        return design.fit(matrix, weights, constant, columns=table.columns)
    return design.fit(matrix, weights, constant)
