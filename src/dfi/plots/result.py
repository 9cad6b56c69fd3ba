"""The plots of one result, by name."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from dfi.plots.attribution import amplification, attribution, latent_attributed
from dfi.plots.bars import importance
from dfi.plots.diagnostics import diagnostics
from dfi.plots.groups import groups

if TYPE_CHECKING:
    from collections.abc import Callable

    from dfi.results.importance import Importance

KINDS: dict[str, Callable[..., Any]] = {
    "importance": importance,
    "latent_attributed": latent_attributed,
    "attribution": attribution,
    "amplification": amplification,
    "groups": groups,
    "diagnostics": diagnostics,
}


def plot_result(result: Importance, kind: str = "importance", **options: Any) -> Any:
    """Draw a result with the plot of a name; what :meth:`dfi.Importance.plot` does."""
    if kind not in KINDS:
        close = difflib.get_close_matches(str(kind), KINDS, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(f"unknown plot {kind!r}; {hint}Known plots: {', '.join(KINDS)}")
    return KINDS[kind](result, **options)
