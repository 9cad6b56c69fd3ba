"""Single rows for a page: few numbers of each, from which its script draws a waterfall."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dfi._parameters import InvalidParameterError, argument, whole, worded
from dfi.results import views
from dfi.results.local import LocalAttributions, value_text

if TYPE_CHECKING:
    from dfi.results.importance import Importance
    from dfi.results.views import Plain

SHOWN_OF_ROW = 12
"""Contributions of a row that a page has one by one; the others are added up."""

MOST_ROWS = 500
"""Rows beyond which a page is no page any more."""

LABEL_WIDTH = 40
VALUE_WIDTH = 24


def rows_of_page(
    result: Importance, rows: int | LocalAttributions | None
) -> LocalAttributions | None:
    """Return the rows that a page shows: as many as asked for, drawn evenly, or those given."""
    if rows is None:
        return rows
    if isinstance(rows, LocalAttributions):
        ours, theirs = (it.spec.get("outcome") for it in (result, rows))
        if rows.names != result.names or ours != theirs:
            raise ValueError(
                "rows are contributions to the predictions of another result (of "
                f"{', '.join(map(repr, rows.names[:5]))}): pass those of result.local(...)"
            )
        return rows
    count = whole("rows", rows, 1)
    if count > MOST_ROWS:
        raise InvalidParameterError(
            f"{argument('rows', count)} is more than the {MOST_ROWS} that a page holds",
            "rows",
            "ask for fewer" + worded(", or result.local(...).table() for all of them", ""),
        )
    return result.local(sample=count)


def local_summary(local: LocalAttributions | None) -> Plain | None:
    """Return what the page says of single rows, in few digits; None without any."""
    if local is None:
        return None
    found = []
    for at in range(len(local)):
        values = local.values[at]
        order = views.leading(np.abs(values), SHOWN_OF_ROW)
        others = np.setdiff1d(np.arange(len(values)), order)
        found.append(
            {
                "row": int(local.rows[at]),
                "base": _few(local.base[at]),
                "prediction": _few(local.prediction[at]),
                "higher": _few(local.higher_order[at]),
                "parts": [
                    [int(k), _few(values[k]), _few(local.spread[at, k]), _short(local, int(k), at)]
                    for k in order
                    if values[k] != 0.0
                ],
                "rest": _few(float(values[others].sum())),
            }
        )
    return {
        "names": list(local.names),
        "labels": views.short_names(local.names, LABEL_WIDTH),
        "explains": str(local.spec.get("explains")),
        "models": str(local.spec.get("models")),
        "spread": local.has_spread,
        "refined": bool(local.spec.get("refine")),
        "list": found,
    }


def _few(value: float) -> float | None:
    """Return a number with as many digits as a page shows."""
    return None if not np.isfinite(value) else float(f"{value:.6g}")


def _short(local: LocalAttributions, unit: int, at: int) -> str:
    text = value_text(local, unit, at)
    return views.shorten(text, VALUE_WIDTH) if text else ""
