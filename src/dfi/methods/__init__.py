"""The other importances, on the same folds and through the same influence matrices."""

from __future__ import annotations

from dfi._models.fits import Fits, prepare
from dfi.methods.base import Comparator, Part
from dfi.methods.cpi import CPI
from dfi.methods.disentangled import Disentangled
from dfi.methods.dloco import DLOCO
from dfi.methods.loco import LOCO
from dfi.methods.nloco import NLOCO
from dfi.methods.pcm import PCM
from dfi.methods.pfi import PFI
from dfi.methods.r2 import R2
from dfi.methods.registry import COMPARATORS, resolve_comparators
from dfi.methods.shapley import Shapley
from dfi.methods.sobol import Sobol

__all__ = [
    "COMPARATORS",
    "CPI",
    "DLOCO",
    "LOCO",
    "NLOCO",
    "PCM",
    "PFI",
    "R2",
    "Comparator",
    "Disentangled",
    "Fits",
    "Part",
    "Shapley",
    "Sobol",
    "prepare",
    "resolve_comparators",
]
