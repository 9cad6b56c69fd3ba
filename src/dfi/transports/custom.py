"""User-defined transports: anything with ``fit``, ``encode`` and ``decode`` (and ``jacobian``).

The object works on the columns that vary, as an array of floats:

- ``fit(X)`` or ``fit(X, sample_weight=...)`` learns from the rows;
- ``encode(X)`` returns independent latent coordinates, one per column of ``X``; it may take a
  ``generator`` (:class:`numpy.random.Generator`) for what is random in it;
- ``decode(Z)`` returns the row that belongs to each latent row;
- ``jacobian(Z)``, optional, returns ``d decode_l / d z_j`` as an array (n, l, j); central
  differences stand in for it;
- ``reference``, optional: ``"empirical"`` (default, the law of the encoded rows), ``"gaussian"`` or
  ``"uniform"``.
"""

from __future__ import annotations

import copy
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dfi._lines.base import Reference
from dfi.transports.base import differences, uniform_reference

if TYPE_CHECKING:
    from dfi._data.weights import Weights
    from dfi._types import Bools, Floats, Ints

STEP = 1e-3


@dataclass(frozen=True)
class UserTransport:
    """A user's fitted transport.

    Attributes
    ----------
    transport : object
        The user's object, fitted.
    active : ndarray of int
        The columns that vary, the only ones it sees.
    center, deviation : ndarray of shape (p,)
        Mean and standard deviation of every column.
    reference : Reference
        The law of a replacement latent coordinate.
    unit_interval : bool
        Whether latent coordinates lie between 0 and 1.
    """

    transport: Any
    active: Ints
    center: Floats
    deviation: Floats
    reference: Reference
    unit_interval: bool = False

    @property
    def n_latent(self) -> int:
        """The number of latent coordinates."""
        return len(self.active)

    def encode(self, matrix: Floats, generator: np.random.Generator | None = None) -> Floats:
        """Return the latent rows."""
        generator = np.random.default_rng(0) if generator is None else generator
        return _encode(self.transport, matrix[:, self.active], generator)

    def decode(self, latent: Floats) -> Floats:
        """Return the rows of the numeric matrix that belong to latent rows."""
        rows = np.broadcast_to(self.center, (len(latent), len(self.center))).copy()
        rows[:, self.active] = self._decode(latent)
        return rows

    def _decode(self, latent: Floats) -> Floats:
        # copies here and below: a transport that works in place must not move what is read again
        found = self.transport.decode(latent.copy())
        return _checked(self.transport, "decode", found, latent.shape)

    def slopes(self, latent: Floats, j: int) -> Floats:
        """Return the change of each standardised feature per unit of latent ``j``."""
        deviation = self.deviation[self.active]
        if hasattr(self.transport, "jacobian"):
            shape = (*latent.shape, self.n_latent)
            found = _checked(
                self.transport, "jacobian", self.transport.jacobian(latent.copy()), shape
            )
            return np.asarray(found[:, :, j] / deviation)
        return differences(self._decode, latent, j, STEP, self.unit_interval) / deviation


@dataclass(frozen=True)
class Custom:
    """A user's transport as one of ours; made by passing the object as ``transport``."""

    transport: Any

    name = "custom"

    def fit(self, matrix: Floats, weights: Weights, constant: Bools) -> UserTransport:
        """Fit a copy of the user's transport to the columns that vary."""
        active = np.flatnonzero(~constant)
        rows = np.ascontiguousarray(matrix[:, active])
        fitted = copy.deepcopy(self.transport)
        parameters = inspect.signature(fitted.fit).parameters
        if "sample_weight" in parameters:
            fitted.fit(rows.copy(), sample_weight=weights.values.copy())
        elif weights.uniform:
            fitted.fit(rows.copy())
        else:
            raise ValueError(
                f"{type(fitted).__name__}.fit takes no sample_weight, so the weights could not "
                "reach the transport: add the parameter, or drop sample_weight"
            )
        latent = _encode(fitted, rows, np.random.default_rng(0))
        kind = getattr(fitted, "reference", "empirical")
        if kind == "empirical":
            reference = Reference.empirical(latent, weights.values)
        elif kind == "gaussian":
            reference = Reference.gaussian()
        elif kind == "uniform":
            reference = uniform_reference(len(active))
        else:
            raise ValueError(
                f"{type(fitted).__name__}.reference is {kind!r}: it must be 'empirical', "
                "'gaussian' or 'uniform'"
            )
        share = weights.values / weights.values.sum()
        center = share @ matrix
        return UserTransport(
            transport=fitted,
            active=active,
            center=center,
            deviation=np.sqrt(share @ (matrix - center) ** 2),
            reference=reference,
            unit_interval=kind == "uniform",
        )

    def specification(self) -> dict[str, Any]:
        """Return what the estimand depends on."""
        return {
            "transport": "custom",
            "form": type(self.transport).__name__,
            "epsilon": 0.0,
            "cost": "user-defined",
            "standardize": True,
        }


def is_transport(candidate: Any) -> bool:
    """Tell whether an object can be used as a user-defined transport."""
    return not isinstance(candidate, type) and all(
        callable(getattr(candidate, method, None)) for method in ("fit", "encode", "decode")
    )


def _encode(transport: Any, rows: Floats, generator: np.random.Generator) -> Floats:
    if "generator" in inspect.signature(transport.encode).parameters:
        latent = transport.encode(rows.copy(), generator=generator)
    else:
        latent = transport.encode(rows.copy())
    return _checked(transport, "encode", latent, rows.shape)


def _checked(transport: Any, method: str, value: Any, shape: tuple[int, ...]) -> Floats:
    result = np.array(value, dtype=float)
    where = f"{type(transport).__name__}.{method}"
    if result.shape != shape:
        raise ValueError(f"{where} returned shape {result.shape}; {shape} is needed")
    if not np.isfinite(result).all():
        raise ValueError(f"{where} returned NaN or infinity")
    return result
