"""The transports, each a specification of the estimand; pass one as ``transport``.

======================= =============================================================
:class:`Gaussian`       Bures-Wasserstein whitening; the Gaussian bridge at epsilon > 0
:class:`Copula`         whitened normal scores
:class:`Brenier`        gradient of a convex potential, order-free
:class:`EntropicOT`     entropic optimal transport, solved
:class:`KnotheRosenblatt` conditional distribution functions in a stated order
:class:`Semicontinuous` the form published in the paper's appendix
:class:`Auto`           chosen by what the data show
======================= =============================================================

Anything with ``fit``, ``encode`` and ``decode`` works too: see :mod:`dfi.transports.curved`. On its
own each is a scikit-learn transformer: ``fit``, ``transform``, ``inverse_transform``.
"""

from __future__ import annotations

import difflib

from dfi.transports.auto import Auto
from dfi.transports.base import Transport
from dfi.transports.brenier import Brenier
from dfi.transports.copula import Copula
from dfi.transports.curved import Custom, is_transport
from dfi.transports.entropic import EntropicOT
from dfi.transports.gaussian import Gaussian, Semicontinuous
from dfi.transports.knothe import KnotheRosenblatt

__all__ = [
    "Auto", "Brenier", "Copula", "EntropicOT", "Gaussian", "KnotheRosenblatt", "Semicontinuous",
]  # fmt: skip

_KINDS = (Gaussian, Copula, Brenier, EntropicOT, KnotheRosenblatt, Semicontinuous, Auto)
TRANSPORTS: dict[str, type[Transport]] = {kind.name: kind for kind in _KINDS}


def resolve_transport(transport: object) -> Transport:
    """Return the named or given transport; wrap a user-defined one."""
    if isinstance(transport, Transport):
        transport.check_parameters()
        return transport
    known = ", ".join(repr(name) for name in TRANSPORTS)
    if isinstance(transport, str):
        if transport in TRANSPORTS:
            return TRANSPORTS[transport]()
        close = difflib.get_close_matches(transport, TRANSPORTS, n=1)
        hint = f", did you mean {close[0]!r}?" if close else "."
        raise ValueError(f"unknown transport {transport!r}{hint} Known names: {known}")
    if is_transport(transport):
        return Custom(transport)
    what = transport.__name__ if isinstance(transport, type) else type(transport).__name__
    missing = [
        method
        for method in ("fit", "encode", "decode")
        if not callable(getattr(transport, method, None))
    ]
    # ours have encode and decode only once they are fitted
    if isinstance(transport, type) and (issubclass(transport, Transport) or not missing):
        raise TypeError(f"transport is the class {what}, not an instance: pass {what}()")
    raise TypeError(
        f"transport must be a name ({known}) or an object with fit, encode and decode; "
        f"{what} has no {', '.join(missing)}"
    )
