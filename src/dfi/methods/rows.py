"""Whether the rows carry the scores: how many there are, and whether one of them rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dfi._findings import Finding, listed
from dfi._parameters import argument, worded
from dfi._scoring.forms import CROSSED, ScoreForm

if TYPE_CHECKING:
    from dfi._models.fits import Fits
    from dfi._scoring.scores import Scores, Task
    from dfi._types import Floats
    from dfi.methods.totals import Totals
    from dfi.transports.base import FittedTransport
    from dfi.transports.covariance import Estimated

ROWS_PER_COLUMN, FEWEST_PER_COLUMN = 6.0, 1.5
"""Rows for each latent coordinate up to which scores are visibly biased, and up to which they are
no longer those of the features."""

CHANCE = (
    "large ones towards 0 and small ones upwards, because chance correlations spread signal over "
    "the columns"
)


def rows_per_column(n: int, transport: FittedTransport, instead: str = "") -> Finding | None:
    """Say that rows are too few for as many columns.

    With the true regression (AR(.6) columns, five signals) the five largest scores come out at
    .91, .73 and .49 of the truth where there are 6, 1.5 and .75 rows for each column, small ones
    at 1.5, 4.7 and 8.9 times it; standard errors are near the spread all along. That is the sample
    correlation; what the others do is in :mod:`dfi.transports.covariance`.
    """
    d, design = transport.n_dependent, transport.design
    if n > ROWS_PER_COLUMN * d:
        return None
    bias, advice = _bias_of_few_rows(transport.correlations), ""
    if instead:
        advice = f". The transport takes {instead}"
    elif design.shrinkage is not None and not design.published and bias == CHANCE:
        factor = (
            f"; transport=dfi.transports.{type(design).__name__}(covariance='factor') lessens the "
            "bias of the transport where few directions are shared by many columns, not that of "
            "the regression"
        )
        advice = worded(factor, "")
    return Finding(
        "rows per column",
        "care" if n > FEWEST_PER_COLUMN * d else "distrust",
        f"{n} rows for {d} columns that may depend on each other: scores are biased, {bias}, and "
        "standard errors do not show it",
        {"rows": n, "columns": d},
        f"Use fewer columns or more rows{advice}",
    )


FEW_ROWS = 60


def small_sample(fits: Fits, form: ScoreForm) -> Finding | None:
    """Say what a table of few rows allows; a model from elsewhere may have seen more."""
    n = round(fits.weights.take(fits.rows).total)
    if n >= FEW_ROWS:
        return None
    learned = ""
    if not fits.prefit:
        counted = fits.weights.values > 0
        trained = min(int(counted[fold.train].sum()) for fold in fits.folds)
        rows = trained // 2 if form in CROSSED else trained
        learned = f" (each model learned from {rows} of them)"
    return Finding(
        "few rows",
        "care",
        f"{n} rows are few{learned}: intervals are rough, and a score near 0 does not show that a "
        "feature has no signal",
        {"rows": n},
        "Use more rows or fewer columns",
    )


def two_folds(fits: Fits, totals: Totals | None) -> Finding | None:
    """Say what two folds cost a model without interactions.

    Each fold's models then learned from all that the other holds out, and their errors go together:
    least squares, six independent columns, 100 and 300 rows: nulls are rejected in .15 of 240 cases
    at 5 %, .09 with three folds, .04 with five.
    """
    rigid = totals is not None and totals.additive
    if fits.prefit or not rigid or min(map(len, fits.repeats)) > 2:
        return None
    return Finding(
        "two folds",
        "care",
        "two folds are too few for so rigid a model: features without signal are called "
        "significant at 5 % in up to 17 % of samples",
        {"folds": 2},
        f"Use {argument('cv', 5)}",
    )


GROUP_ROWS = 5000
"""Rows in which groups are looked for."""

MOST_VALUES = 0.7
"""Values for each row up to which rows share them."""

LOOKED_AT, MOST_LEVELS = 50, 10
"""Columns of either kind that are looked at, and levels of one that tells groups apart."""

FEWEST_GROUPS = 10
"""Values that several rows have, and changes of level along them, that are no chance."""


def grouped_rows(fits: Fits) -> Finding | None:
    """Say that columns look like properties of groups of rows: schools, firms, people.

    The values of a number, shared by several rows each, decide the level of another column, which
    changes to and fro along them; what is a threshold or a smooth function changes rarely.
    """
    if fits.weights.dependence is not None or fits.prefit:
        return None
    rows = fits.rows[:GROUP_ROWS]
    codes = {
        column.name: np.unique(
            fits.table.matrix[np.ix_(rows, column.positions)], axis=0, return_inverse=True
        )[1].reshape(-1)
        for column in fits.table.columns[: 2 * LOOKED_AT]
    }
    count = {name: int(code.max(initial=0)) + 1 for name, code in codes.items()}
    many = [
        column.name
        for column in fits.table.columns[: 2 * LOOKED_AT]
        if column.kind != "categorical"
        and 2 * FEWEST_GROUPS <= count[column.name] <= MOST_VALUES * len(rows)
    ]
    few = [name for name in codes if 2 <= count[name] <= MOST_LEVELS]
    for name in many[:LOOKED_AT]:
        of_row = codes[name]
        groups = int(np.count_nonzero(np.bincount(of_row) > 1))
        for other in few[:LOOKED_AT] if groups >= FEWEST_GROUPS else ():
            level = np.zeros(count[name], dtype=np.intp)
            level[of_row] = codes[other]
            if np.array_equal(level[of_row], codes[other]) and (
                np.count_nonzero(np.diff(level)) >= FEWEST_GROUPS
            ):
                return Finding(
                    "groups of rows",
                    "care",
                    f"rows with the same {name!r} always have the same {other!r}: both seem to "
                    "belong to groups of rows, which then depend on each other, and intervals are "
                    "too short",
                    {"groups": count[name]},
                    f"Say which rows belong together by {argument('clusters')}",
                )
    return None


RULES, WORTH_NAMING = 0.5, 0.05
"""Share of a score's squared influence above which one row rules it; share of the whole from which
a score is looked at."""


def ruling_rows(fits: Fits, scores: Scores, membership: Floats, task: Task) -> list[Finding]:
    """Say which rows hold most of the squared influence on a score."""
    weights = task.weights.take(scores.rows)
    influence = scores.attributed @ membership
    means = weights.mean(influence)
    held = (weights.values[:, None] * (influence - means)) ** 2
    total = held.sum(axis=0)
    share = np.divide(held.max(axis=0), total, out=np.zeros(len(means)), where=total > 0)
    spread = float(weights.mean((task.y[scores.rows] - weights.mean(task.y[scores.rows])) ** 2)[0])
    share[np.abs(means) < WORTH_NAMING * max(spread, means.sum())] = 0.0
    ruled: dict[int, list[int]] = {}
    for unit in np.argsort(-share):
        if share[unit] > RULES:
            ruled.setdefault(int(held[:, unit].argmax()), []).append(int(unit))
    found = []
    for row, units in ruled.items():
        names = tuple(task.names[unit] for unit in units)
        label, most = fits.data.label_of(int(scores.rows[row])), float(share[units[0]])
        most_of = f"{100 * most:.0f} %" if len(units) == 1 else "most"
        found.append(
            Finding(
                "ruling row",
                "distrust",
                f"row {label} alone holds {most_of} of the squared influence on {listed(names)}",
                {"share": most},
                "Look at it, and explain the table without it too",
                names,
            )
        )
    return found


def _bias_of_few_rows(estimate: Estimated) -> str:
    """Return in which way, by how the correlations were estimated."""
    if estimate.factors is not None:
        return (
            f"because correlations come from {estimate.factors} common factors (covariance="
            "'factor'): what pairs of columns share beyond them goes to the wrong columns"
        )
    if not estimate.of_sample:
        return (
            "because correlations are shrunk (covariance='qis'): related columns get some of each "
            "other's score"
        )
    if estimate.shrinkage > 0:
        return "towards 0, because correlations are shrunk"
    return CHANCE
