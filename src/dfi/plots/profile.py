r"""What the fitted model does along one latent coordinate.

For rows :math:`i` and replacement values :math:`t` of latent coordinate :math:`j`, the profile is
the distribution over rows of :math:`\hat\mu(x_i + (t - z_{ij})\,\ell_j)`, with models that did
not see the row. The score of the coordinate is the variance along such lines. For a transport
that is not linear the line is the curve of its decoder.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

import numpy as np

from dfi._data import as_frame
from dfi.plots.style import BLUE, GREY, new_axes, quiet_frame, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dfi._types import Floats
    from dfi.estimator import DFI

N_VALUES = 41
MAX_ROWS = 200


def _column(explainer: DFI, feature: str, level: str | None) -> tuple[int, str]:
    """Return the latent coordinate of a feature (of one level, for a categorical one)."""
    table = explainer.models_[0].predictors[0].table
    if feature not in table.names:
        close = difflib.get_close_matches(feature, table.names, n=3) or list(table.names[:5])
        raise ValueError(
            f"there is no feature {feature!r}; did you mean {', '.join(map(repr, close))}?"
        )
    unit = table.names.index(feature)
    column, positions = table.columns[unit], list(table.units[unit])
    label = feature
    if column.kind == "categorical":
        levels = [str(value) for value in column.levels]
        if level is None or level not in levels:
            raise ValueError(
                f"{feature!r} is categorical; pass level= one of {', '.join(map(repr, levels))}"
            )
        positions = [positions[levels.index(level)]]
        label = f"{feature} = {level}"
    active = [int(p) for p in explainer.transport_.active]
    if positions[0] not in active:
        raise ValueError(f"{label!r} is constant: it has no latent coordinate")
    return active.index(positions[0]), label


def _curves(
    explainer: DFI, feature: str, level: str | None, n_values: int, max_rows: int
) -> tuple[str, Floats, Floats]:
    if not hasattr(explainer, "models_"):
        raise ValueError("the profile is drawn from a fitted dfi.DFI: call fit first")
    transport = explainer.transport_
    coordinate, label = _column(explainer, feature, level)
    folds = explainer.models_
    matrix = folds[0].predictors[0].table.matrix
    # what is random in an encoder (a coupling, jumps of discrete columns) is drawn once
    latent = transport.encode(matrix, np.random.default_rng(0))
    low, high = (float(value) for value in np.quantile(latent[:, coordinate], [0.01, 0.99]))
    values = np.linspace(low, high, n_values)
    per_fold = max(1, max_rows // len(folds))
    curves = []
    for fold in folds:
        step = max(1, len(fold.test) // per_fold)
        rows = fold.test[::step][:per_fold]
        flat = transport.moved(matrix[rows], latent[rows], coordinate, values)
        fitted = np.mean([predictor(flat) for predictor in fold.predictors], axis=0)
        curves.append(fitted.reshape(len(rows), n_values))
    return label, values, np.concatenate(curves)


def line_profile_data(
    explainer: DFI,
    feature: str,
    *,
    level: str | None = None,
    n_values: int = N_VALUES,
    max_rows: int = MAX_ROWS,
) -> Any:
    """Return the numbers behind :func:`line_profile`: latent, mean, low and high (10, 90 %)."""
    _, values, curves = _curves(explainer, feature, level, n_values, max_rows)
    low, high = np.quantile(curves, [0.1, 0.9], axis=0)
    return as_frame(
        {"latent": values, "mean": curves.mean(axis=0), "low": low, "high": high},
        explainer.result_.library,
    )


def line_profile(
    explainer: DFI,
    feature: str,
    *,
    level: str | None = None,
    n_values: int = N_VALUES,
    max_rows: int = MAX_ROWS,
    ax: Axes | None = None,
) -> Axes:
    """Draw what the model predicts when one latent coordinate moves and the others stay.

    Parameters
    ----------
    explainer : DFI
        A fitted explainer.
    feature : str
        The feature whose latent coordinate moves.
    level : str, optional
        For a categorical feature, the level whose coordinate moves.
    n_values : int, default=41
        Values along the line, from the 1 % to the 99 % quantile of the coordinate.
    max_rows : int, default=200
        Rows that are moved; each is predicted by models that did not see it.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
    """
    label, values, curves = _curves(explainer, feature, level, n_values, max_rows)
    ax = new_axes(6.0, 4.2) if ax is None else ax
    low, high = np.quantile(curves, [0.1, 0.9], axis=0)
    for curve in curves[:: max(1, len(curves) // 25)]:
        ax.plot(values, curve, color=GREY, linewidth=0.6, alpha=0.5)
    ax.fill_between(values, low, high, color=BLUE, alpha=0.2, label="10 % to 90 % of rows")
    ax.plot(values, curves.mean(axis=0), color=BLUE, linewidth=2.2, label="mean over rows")
    ax.set_xlabel(
        f"latent coordinate of {shorten(label)} (standard deviations)", fontsize=9, parse_math=False
    )
    ax.set_ylabel("prediction", fontsize=9)
    ax.legend(frameon=False, fontsize=8)
    quiet_frame(ax)
    return ax
