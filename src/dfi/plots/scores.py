r"""Plots of scores, of the model behind one, and of the dependence that remains.

For rows :math:`i` and replacement values :math:`t` of latent coordinate :math:`j`, the profile is
the distribution over rows of :math:`\hat\mu(x_i + (t - z_{ij})\,\ell_j)`, with models that did
not see the row. The score of the coordinate is the variance along such lines. For a transport
that is not linear the line is the curve of its decoder. A unit of several coordinates is replaced
as one and has no line of its own; each of its columns (a level, a value, missingness, a member of
a group) has one, :math:`v \propto \operatorname{Cov}(z_b, x_c)`, along which it changes most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dfi._checks import did_you_mean
from dfi._data.frames import as_frame
from dfi._parameters import validated
from dfi.plots import style
from dfi.results import views, words
from dfi.results.tables import order_of, share_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dfi._data.table import Table
    from dfi._sklearn import DFI
    from dfi._types import Floats, Frame
    from dfi.inference.tests import Adjustment
    from dfi.results.importance import Importance
    from dfi.results.views import Columns

N_VALUES = 41
MAX_ROWS = 200
AXIS_LABEL = {
    "attributed": "importance ({unit} attributed to the feature)",
    "latent": "latent importance ({unit} carried by the coordinate)",
    "group": "importance of the group",
}


@style.as_table
def importance_data(
    result: Importance,
    *,
    top: int | None = 20,
    level: float | None = None,
    adjust: Adjustment | None = "holm",
    simultaneous: bool = False,
) -> Columns:
    """Return the numbers behind :func:`importance`: the result's table and ``significant``.

    ``share`` is that of what is explained, with its own interval from ``share_low`` to
    ``share_high``, where the result knows it.

    Examples
    --------
    >>> dfi.plots.importance_data(result)[["feature", "significant"]]
      feature  significant
    0      x0         True
    1      x1         True
    2      x2        False
    """
    columns = views.unit_columns(result, level=level, adjust=adjust, simultaneous=simultaneous)
    if share_table(result):
        shares = views.share_columns(result, level=level, simultaneous=simultaneous)
        columns = {"feature": columns.pop("feature"), **shares, **columns}
    return style.take(columns, order_of(result)[:top])


@validated
def importance(
    result: Importance,
    *,
    top: int | None = 20,
    level: float | None = None,
    adjust: Adjustment | None = "holm",
    simultaneous: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw shares of the explained variance as bars with their intervals, the largest at the top.

    Scores where shares are not known: those of a difference, or where nothing is explained.
    Significant units (``p_adj <= 1 - level``) have a filled bar and a star, others a hollow one.

    Examples
    --------
    >>> ax = dfi.plots.importance(result, top=2)
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['x0', 'x1']
    """
    shown = importance_data.columns(
        result, top=top, level=level, adjust=adjust, simultaneous=simultaneous
    )
    n_shown = len(shown["score"])
    ax = style.axes_for_rows(ax, n_shown)
    rows = np.arange(n_shown)
    significant = shown["significant"]
    shared = "share" in shown and bool(np.isfinite(shown["share"]).all())
    keys = ("share", "share_low", "share_high") if shared else ("score", "ci_low", "ci_high")
    value, low, high = (shown[key] * (100.0 if shared else 1.0) for key in keys)
    for chosen, face, edge, label in (
        (significant, style.BLUE, style.BLUE, "significant"),
        (~significant, "none", style.GREY, "not significant"),
    ):
        if chosen.any():
            ax.barh(
                rows[chosen],
                value[chosen],
                height=0.66,
                facecolor=face,
                edgecolor=edge,
                linewidth=1.0,
                label=label,
            )
    known = np.isfinite(low) & np.isfinite(high)
    ax.hlines(
        rows[known],
        low[known],
        high[known],
        color="black",
        linewidth=1.3,
        label=f"{100 * (result.level if level is None else level):.4g} % interval",
    )
    right = np.where(known, np.fmax(high, value), value)
    for row in rows[significant]:
        ax.annotate(
            "*",
            (max(float(right[row]), 0.0), row),
            xytext=(4, -5),
            textcoords="offset points",
            fontsize=12,
        )
    style.zero_line(ax)
    style.label_rows(ax, shown["feature"])
    unit = words.unit_of(result.spec)
    outcome = words.outcome_of(result.spec, result.by_outcome)
    name = words.name_of(result.spec)
    shown_unit = unit
    if name is not None and unit == words.VARIANCE:
        shown_unit = words.variance_of(result.spec, views.shorten(name, 40))
    label, how = AXIS_LABEL[result.space].format(unit=shown_unit), views.group_score(result)
    if result.space == "group" and how is not None:
        label = f"importance of the group ({how})"
    if shared:
        told = "" if how is None else f", {how}"
        variance = f"share of the explained {shown_unit}"
        plain = f"share of {words.explained_of(result.spec)}"
        label = f"{variance if unit == words.VARIANCE else plain} (%){told}"
    elif result.space == "group" and unit != words.VARIANCE:
        label = f"{label}, {unit}"
    if result.difference:
        label = f"difference of {label}"
    if outcome is not None and outcome.text is not None:
        label = f"{label}\n{views.shorten(outcome.text, 90)}"
    ax.set_xlabel(label, fontsize=9, parse_math=False)
    style.say_how_many(ax, n_shown, len(result.names))
    style.small_legend(ax)
    return ax


@style.as_table
def diagnostics_data(result: Importance) -> Columns:
    """Return the numbers behind :func:`diagnostics`: measure, value and the level of chance.

    Examples
    --------
    >>> dfi.plots.diagnostics_data(result).columns.tolist()
    ['measure', 'value', 'chance', 'n_rows']
    """
    return views.latent_measures(result)


@validated
def diagnostics(result: Importance, *, ax: Axes | None = None) -> Axes:
    """Draw the dependence and marginal misfit that remain in the latent coordinates.

    A bar that passes its mark exceeds what independent, normal coordinates show by chance: the
    correlation in one table of 20, the classifier in one of 100, the distance of a
    margin in one margin of 20. Leftover dependence concerns the meaning of the scores; margins
    that are not normal matter only where the reference law is normal.

    Examples
    --------
    >>> ax = dfi.plots.diagnostics(result)
    >>> len(ax.get_yticklabels())
    3
    """
    shown = views.latent_measures(result)
    value, chance = shown["value"], shown["chance"]
    ax = style.new_axes(7.0, 2.4) if ax is None else ax
    rows = np.arange(len(value))
    beyond = value > chance
    ax.barh(
        rows,
        value,
        height=0.5,
        color=[style.VERMILION if b else style.BLUE for b in beyond],
        hatch=["//" if b else "" for b in beyond],
        edgecolor="white",
    )
    ax.vlines(
        chance, rows - 0.36, rows + 0.36, color="black", linewidth=2.0, label="level of chance"
    )
    for row in rows:
        ax.annotate(
            f"{value[row]:.3f}",
            (max(value[row], chance[row]), row),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
        )
    ax.set_xlim(0.0, 1.2 * max(float(value.max()), float(chance.max()), 0.05))
    style.label_rows(ax, shown["measure"], width=44)
    style.small_legend(ax)
    return ax


def _column(table: Table, feature: str, level: str | None) -> tuple[int, str]:
    """Return the matrix column of a feature, of a level or of missingness, and its name."""
    if feature not in table.names:
        first = f"; the first are {', '.join(map(repr, table.names[:5]))}"
        hint = did_you_mean(feature, table.names, 3) or first
        raise ValueError(f"there is no feature {feature!r}{hint}")
    column = table.columns[table.names.index(feature)]
    labels = column.matrix_names()
    if column.width == 1 or (level is None and column.fill is not None):
        return column.positions[0], labels[0].replace("=", " = ", 1)
    levels = [label[len(feature) + 1 :] for label in labels][column.fill is not None :]
    if level not in levels:
        known = ", ".join(map(repr, levels))
        what = "categorical" if column.fill is None else "a number with missing values"
        raise ValueError(f"{feature!r} is {what}; pass level= one of {known}")
    place = levels.index(level) + (column.fill is not None)
    return column.positions[place], labels[place].replace("=", " = ", 1)


def _curves(
    explainer: DFI, feature: str, level: str | None, n_values: int, max_rows: int
) -> tuple[str, Columns, Floats]:
    """Return the name of a line, its profile, and the curves of the rows behind it."""
    if not hasattr(explainer, "models_"):
        raise ValueError("the profile is drawn from a fitted dfi.DFI: call fit first")
    transport, folds = explainer.transport_, explainer.models_
    table = folds[0].predictors[0].table
    position, label = _column(table, feature, level)
    if position not in transport.active:
        raise ValueError(f"{label!r} is constant: it has no latent coordinate")
    # what is random in an encoder (a coupling, jumps of discrete columns) is drawn once
    latent = transport.encode(table.matrix, np.random.default_rng(0))
    direction = transport.direction_of(position)
    low, high = (float(value) for value in np.quantile(latent @ direction, [0.01, 0.99]))
    values = np.linspace(low, high, n_values)
    per_fold = max(1, max_rows // len(folds))
    parts = []
    for fold in folds:
        step = max(1, len(fold.test) // per_fold)
        rows = fold.test[::step][:per_fold]
        flat = transport.moved_along(table.matrix[rows], latent[rows], direction, values)
        fitted = np.mean([predictor(flat) for predictor in fold.predictors], axis=0)
        parts.append(fitted.reshape(len(rows), n_values))
    curves = np.concatenate(parts)
    lower, upper = np.quantile(curves, [0.1, 0.9], axis=0)
    profile = {"latent": values, "mean": curves.mean(axis=0), "low": lower, "high": upper}
    return label, profile, curves


@validated
def line_profile_data(
    explainer: DFI,
    feature: str,
    *,
    level: str | None = None,
    n_values: int = N_VALUES,
    max_rows: int = MAX_ROWS,
) -> Frame:
    """Return the numbers behind :func:`line_profile`: latent, mean, low and high (10, 90 %).

    Parameters
    ----------
    feature : str
        The feature whose latent coordinate moves.
    level : str, optional
        The level of a category that the line leads to, or ``"missing"``.

    Examples
    --------
    >>> dfi.plots.line_profile_data(explainer, "x0", n_values=5).shape
    (5, 4)
    """
    _, profile, _ = _curves(explainer, feature, level, n_values, max_rows)
    return as_frame(profile, explainer.result_.library)


@validated
def line_profile(
    explainer: DFI,
    feature: str,
    *,
    level: str | None = None,
    n_values: int = N_VALUES,
    max_rows: int = MAX_ROWS,
    ax: Axes | None = None,
) -> Axes:
    """Draw the model's predictions as one latent coordinate moves and the others stay.

    Parameters
    ----------
    feature : str
        The feature whose latent coordinate moves.
    level : str, optional
        The level of a category that the line leads to, or ``"missing"``.

    Examples
    --------
    >>> dfi.plots.line_profile(explainer, "x0").get_xlabel()
    'latent coordinate of x0 (standard deviations)'
    """
    label, profile, curves = _curves(explainer, feature, level, n_values, max_rows)
    values = profile["latent"]
    ax = style.new_axes(6.0, 4.2) if ax is None else ax
    for curve in curves[:: max(1, len(curves) // 25)]:
        ax.plot(values, curve, color=style.GREY, linewidth=0.6, alpha=0.5)
    ax.fill_between(
        values,
        profile["low"],
        profile["high"],
        color=style.BLUE,
        alpha=0.2,
        label="10 % to 90 % of rows",
    )
    ax.plot(values, profile["mean"], color=style.BLUE, linewidth=2.2, label="mean over rows")
    ax.set_xlabel(
        f"latent coordinate of {views.shorten(label)} (standard deviations)",
        fontsize=9,
        parse_math=False,
    )
    ax.set_ylabel("prediction", fontsize=9)
    ax.legend(frameon=False, fontsize=8)
    style.quiet_frame(ax)
    return ax
