"""The transports, each a specification of the estimand; pass one as ``transport``.

======================= =============================================================
:class:`Gaussian`       Bures-Wasserstein whitening; the Gaussian bridge at epsilon > 0
:class:`Copula`         whitened normal scores
:class:`EntropicOT`     entropic optimal transport, solved
:class:`KnotheRosenblatt` conditional distribution functions in a stated order
:class:`Semicontinuous` the form published in the paper's appendix
:class:`Auto`           chosen by what the data show
======================= =============================================================

Anything with ``fit``, ``encode`` and ``decode`` works too: see :mod:`dfi.transports.custom`.
"""

from __future__ import annotations

from dfi.transports.choice import Auto
from dfi.transports.copula import Copula
from dfi.transports.entropic import EntropicOT
from dfi.transports.gaussian import Gaussian, Semicontinuous
from dfi.transports.knothe import KnotheRosenblatt

__all__ = ["Auto", "Copula", "EntropicOT", "Gaussian", "KnotheRosenblatt", "Semicontinuous"]
