"""What the transport leaves behind, against the level that chance alone would reach."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from dfi.plots.columns import frame_like
from dfi.plots.style import BLUE, VERMILION, label_rows, new_axes, quiet_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dfi.results.importance import Importance

CHANCE = 0.05


def latent_measures(result: Importance) -> dict[str, Any]:
    """Return what is left in the latent coordinates, with the level that chance reaches."""
    latent = result.diagnostics.get("latent")
    if not isinstance(latent, Mapping):
        raise ValueError(  # noqa: TRY004 - the result lacks a part, its type is right
            "this result has no diagnostics of its latent coordinates: "
            "they are measured with diagnose=True (the default of dfi.explain)"
        )
    n_rows = int(latent.get("n_rows", result.quality.n_rows))
    d = int(str(result.diagnostics.get("n_latent", len(result.names))))
    pairs = max(d * (d - 1) // 2, 1)
    # Fisher: independent columns reach this |correlation| in one of the pairs by chance.
    by_chance = float(
        np.tanh(stats.norm.isf(CHANCE / (2 * pairs)) / np.sqrt(max(result.quality.n_rows - 3, 1)))
    )
    rows = [
        ("largest correlation", latent.get("max_correlation"), by_chance),
        (
            "largest distance correlation",
            latent.get("max_distance_correlation"),
            latent.get("null_distance_correlation"),
        ),
        (
            "largest distance of a margin from N(0, 1)",
            latent.get("max_marginal_distance"),
            latent.get("null_marginal_distance"),
        ),
    ]
    known = [(label, v, c) for label, v, c in rows if v is not None and c is not None]
    return {
        "measure": np.array([label for label, _, _ in known], dtype=object),
        "value": np.array([float(v) for _, v, _ in known]),
        "chance": np.array([float(c) for _, _, c in known]),
        "n_rows": np.full(len(known), n_rows),
    }


def diagnostics_data(result: Importance) -> Any:
    """Return the numbers behind :func:`diagnostics`: measure, value and the level of chance."""
    return frame_like(result, latent_measures(result))


def diagnostics(result: Importance, *, ax: Axes | None = None) -> Axes:
    """Draw the dependence and the marginal misfit that are left in the latent coordinates.

    Bars that pass their mark exceed what independent, normal coordinates would show by chance
    (95 % level; 99 % for the distance correlation). Leftover dependence concerns the meaning of
    the scores; margins that are not normal matter only where the reference law is normal.

    Parameters
    ----------
    result : Importance
        A result with diagnostics.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
    """
    shown = latent_measures(result)
    ax = new_axes(7.0, 2.4) if ax is None else ax
    rows = np.arange(len(shown["value"]))
    beyond = shown["value"] > shown["chance"]
    ax.barh(
        rows,
        shown["value"],
        height=0.5,
        color=[VERMILION if b else BLUE for b in beyond],
        hatch=["//" if b else "" for b in beyond],
        edgecolor="white",
    )
    ax.vlines(
        shown["chance"],
        rows - 0.36,
        rows + 0.36,
        color="black",
        linewidth=2.0,
        label="level of chance",
    )
    for row in rows:
        ax.annotate(
            f"{shown['value'][row]:.3f}",
            (max(shown["value"][row], shown["chance"][row]), row),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
        )
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_xlim(0.0, 1.2 * max(float(shown["value"].max()), float(shown["chance"].max()), 0.05))
    label_rows(ax, [str(m) for m in shown["measure"]], width=44)
    ax.legend(frameon=False, fontsize=8, loc="lower right")
    quiet_frame(ax)
    return ax
