"""Transports by name."""

from __future__ import annotations

import difflib
from typing import Any

from dfi.transport.gaussian import Gaussian, Semicontinuous

TRANSPORTS: dict[str, type[Gaussian] | type[Semicontinuous]] = {
    "gaussian": Gaussian,
    "semicontinuous": Semicontinuous,
}


def resolve_transport(transport: Any) -> Gaussian | Semicontinuous:
    """Return the transport of a name, or the given one."""
    if isinstance(transport, Gaussian | Semicontinuous):
        return transport
    known = ", ".join(repr(name) for name in TRANSPORTS)
    if isinstance(transport, str):
        if transport in TRANSPORTS:
            return TRANSPORTS[transport]()
        close = difflib.get_close_matches(transport, TRANSPORTS, n=1)
        hint = f", did you mean {close[0]!r}?" if close else "."
        raise ValueError(f"unknown transport {transport!r}{hint} Known names: {known}")
    raise TypeError(
        f"transport must be a name ({known}) or a transport object, got {type(transport).__name__}"
    )
