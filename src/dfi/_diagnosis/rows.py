"""Whether the rows support the scores: whether they are enough, and whether one dominates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dfi._findings import Finding, listed
from dfi._parameters import argument, worded
from dfi._scoring.forms import CROSSED, ScoreForm
from dfi.inference.shares import CLEAR

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from dfi._diagnosis.totals import Totals
    from dfi._estimates.covariance import Estimated
    from dfi._findings import Severity
    from dfi._models.fits import Fits
    from dfi._scoring.scores import Scores
    from dfi._scoring.task import Task
    from dfi._types import Bools, Floats, Ints
    from dfi.transports.base import FittedTransport

ROWS_PER_COLUMN, FEWEST_PER_COLUMN = 6.0, 1.5
"""Rows for each latent coordinate up to which scores are visibly biased, and up to which they are
no longer those of the features."""

CHANCE = (
    "large ones towards 0 and small ones upwards, because chance correlations spread the signal "
    "over the columns"
)


def rows_per_column(
    n: int, transport: FittedTransport, n_units: int, instead: str = ""
) -> Finding | None:
    """Report too few rows for the number of columns.

    With the true regression (AR(.6) columns, five signals) the five largest scores come out at
    .91, .73 and .49 of the truth where there are 6, 1.5 and .75 rows for each column, small ones
    at 1.5, 4.7 and 8.9 times it; standard errors are near the spread all along. That is the sample
    correlation; what the others do is in :mod:`dfi._estimates.covariance`.
    """
    d, design = transport.n_dependent, transport.design
    if n > ROWS_PER_COLUMN * d:
        return None
    bias, advice = _bias_of_few_rows(transport.correlations), ""
    if instead:
        advice = f". The transport takes {instead}"
    elif design.shrinkage is not None and not design.published and bias == CHANCE:
        factor = (
            f"; transport=dfi.transports.{type(design).__name__}(covariance='factor') reduces the "
            "transport's bias if many columns share a few directions, but not the regression's"
        )
        advice = worded(factor, "")
    counted = " (counting labels and gaps)" if transport.n_latent > n_units else ""
    return Finding(
        "rows per column",
        "care" if n > FEWEST_PER_COLUMN * d else "distrust",
        f"{n} rows for {d} columns{counted} that may depend on each other: scores are biased "
        f"({bias}), and standard errors do not show it",
        {"rows": n, "columns": d},
        f"Use fewer columns or more rows{advice}",
    )


FEW_ROWS = 60


def small_sample(fits: Fits, form: ScoreForm) -> Finding | None:
    """Report what few rows allow; a prefit model may have seen more."""
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
        f"{n} rows are few{learned}: intervals are rough, and a score near 0 does not prove that "
        "a feature has no signal",
        {"rows": n},
        "Use more rows or fewer columns",
    )


def two_folds(fits: Fits, totals: Totals | None) -> Finding | None:
    """Report the cost of two folds for a model without interactions.

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
        "two folds are too few for a model this rigid: features without signal are called "
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
    """Report columns that look like properties of groups of rows: schools, firms, people.

    The values of a number, shared by several rows each, decide the level of another column, which
    changes to and fro along them; what is a threshold or a smooth function changes rarely.
    """
    if fits.weights.dependence is not None or fits.prefit:
        return None
    rows = fits.rows[:GROUP_ROWS]
    codes = {
        column.name: np.unique(
            fits.table.matrix[rows[:, None], list(column.positions)], axis=0, return_inverse=True
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
        shared = np.bincount(of_row) > 1
        for other in few[:LOOKED_AT] if shared.sum() >= FEWEST_GROUPS else ():
            level = np.zeros(count[name], dtype=np.intp)
            level[of_row] = codes[other]
            if np.array_equal(level[of_row], codes[other]) and (
                np.count_nonzero(np.diff(level[shared])) >= FEWEST_GROUPS
            ):
                return Finding(
                    "groups of rows",
                    "care",
                    f"rows with the same {name!r} always have the same {other!r}, so both seem to "
                    "describe groups of rows; rows of a group depend on each other, and "
                    "intervals are too short",
                    {"groups": count[name]},
                    f"Say which rows belong together with {argument('clusters')}",
                )
    return None


def limits_of_rows(
    transport: FittedTransport,
    scores: Scores,
    membership: Floats,
    parts: Floats | None,
    task: Task,
    totals: Totals | None,
) -> list[Finding]:
    """Report rows that are few or belong together; rows that rule where totals were checked."""
    fits = task.fits
    few = (small_sample(fits, task.form), two_folds(fits, totals), grouped_rows(fits))
    found = [finding for finding in few if finding is not None]
    if totals is None:
        return found
    ruled = ruling_rows(scores, membership, parts, task)
    told = {name for finding in ruled for name in finding.about}
    return [*found, *ruled, *ruling_cells(transport, scores.rows, task, told)]


RULES, WORTH_NAMING = 0.5, 0.05
"""Part of a squared influence above which one row dominates a score or a share, and the smallest
score or share, as a part of the whole, that is checked."""


def ruling_rows(
    scores: Scores, membership: Floats, parts: Floats | None, task: Task
) -> list[Finding]:
    """Report rows with most of the squared influence on a score, or on a share of ``parts``."""
    weights = task.weights.take(scores.rows)
    influence = scores.attributed @ membership
    means = weights.mean(influence)
    spread = float(weights.mean((task.y[scores.rows] - weights.mean(task.y[scores.rows])) ** 2)[0])
    worth = np.abs(means) >= WORTH_NAMING * max(spread, means.sum())
    ruled = _ruled(weights.values[:, None] * (influence - means), worth)
    found = [
        _ruling_row(task, scores.rows[row], units, "distrust", "score")
        for row, units in ruled.items()
    ]
    if parts is None:
        return found
    values = parts @ membership
    whole = values.sum(axis=1)
    size = float(weights.mean(whole)[0])
    if size <= CLEAR * float(weights.standard_error(whole[:, None])[0]):
        return found
    shares = weights.mean(values) / size
    told = {unit for units in ruled.values() for unit in units}
    worth = (np.abs(shares) >= WORTH_NAMING) & ~np.isin(np.arange(len(shares)), list(told))
    held = weights.values[:, None] * (values - np.outer(whole, shares))
    return found + [
        _ruling_row(task, scores.rows[row], units, "care", "share")
        for row, units in _ruled(held, worth).items()
    ]


def ruling_cells(
    transport: FittedTransport, rows: Ints, task: Task, told: Collection[str]
) -> list[Finding]:
    """Report rows with most of a latent coordinate's variance, unless already ``told``."""
    matrix, weights = task.matrix[rows], task.weights.take(rows)
    latent = transport.draw(matrix, np.random.default_rng(task.fits.child("diagnosis")))
    varied = [
        column.name not in told
        and any(len(np.unique(matrix[:, place])) > MOST_LEVELS for place in column.positions)
        for column in task.blocks.columns
    ]
    owner = transport.owner(task.blocks.columns)
    steps = np.sqrt(weights.values)[:, None] * (latent - weights.mean(latent))
    # a gap, or a value where others have gaps, rules the indicator, and does nobody harm
    for place, unit in enumerate(owner):
        column = task.blocks.columns[unit]
        if column.fill is not None:
            value, gap = matrix[:, column.positions[0]], matrix[:, column.positions[-1]]
            along = np.abs(np.stack([value - value.mean(), gap - gap.mean()]) @ steps[:, place])
            indicates = along[1] * np.std(value) > along[0] * np.std(gap)
            steps[indicates | (gap > 0.0), place] = 0.0
    found, name_of = [], task.fits.data.label_of
    for row, coordinates in _ruled(steps, np.array(varied)[owner]).items():
        about = tuple(
            dict.fromkeys(task.blocks.columns[owner[place]].name for place in coordinates)
        )
        most = max(coordinates.values())
        found.append(
            Finding(
                "ruling row",
                "distrust",
                f"row {name_of(int(rows[row]))} alone holds {100 * most:.0f} % of the "
                f"variance of {listed(about)}: all other rows look alike beside it",
                {"share": most},
                "Look at it, and explain the table without it too",
                about,
            )
        )
    return found


def _ruled(influence: Floats, worth: Bools) -> dict[int, dict[int, float]]:
    """Return the rows that rule units, and how much of the squared influence each of them holds."""
    held = influence**2
    total = held.sum(axis=0)
    most = np.divide(held.max(axis=0), total, out=np.zeros(len(total)), where=total > 0) * worth
    ruled: dict[int, dict[int, float]] = {}
    for unit in np.argsort(-most):
        if most[unit] > RULES:
            ruled.setdefault(int(held[:, unit].argmax()), {})[int(unit)] = float(most[unit])
    return ruled


def _ruling_row(
    task: Task,
    row: int,
    units: Mapping[int, float],
    severity: Severity,
    what: str,
) -> Finding:
    name = task.fits.data.label_of(int(row))
    about, most = tuple(task.names[unit] for unit in units), max(units.values())
    most_of = f"{100 * most:.0f} %" if len(units) == 1 else "most"
    return Finding(
        "ruling row",
        severity,
        f"row {name} alone dominates the {what}{'s' * (len(units) > 1)} of {listed(about)} "
        f"({most_of} of the squared influence)",
        {"share": most},
        "Look at it, and explain the table without it too",
        about,
    )


def _bias_of_few_rows(estimate: Estimated) -> str:
    """Return in which way, by how the correlations were estimated."""
    if estimate.factors is not None:
        factors = f"{estimate.factors} common factor{'s' * (estimate.factors != 1)}"
        return (
            f"correlations are estimated from {factors}, and signal shared in other ways goes to "
            "the wrong columns"
        )
    if not estimate.of_sample:
        return (
            "covariance='qis' shrinks correlations, so related columns get some of each other's "
            "score"
        )
    if estimate.shrinkage > 0:
        return "towards 0, because correlations are shrunk"
    return CHANCE
