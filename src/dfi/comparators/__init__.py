"""The other importances, on the same folds and through the same influence matrices."""

from __future__ import annotations

from dfi.comparators.base import Comparator, Part
from dfi.comparators.context import Context, prepare
from dfi.comparators.cpi import CPI
from dfi.comparators.dloco import DLOCO
from dfi.comparators.loco import LOCO
from dfi.comparators.nloco import NLOCO
from dfi.comparators.pcm import PCM
from dfi.comparators.pfi import PFI
from dfi.comparators.r2 import R2
from dfi.comparators.registry import COMPARATORS, resolve_comparators
from dfi.comparators.shapley import Shapley
from dfi.comparators.sobol import Sobol

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
    "Context",
    "Part",
    "Shapley",
    "Sobol",
    "prepare",
    "resolve_comparators",
]
