"""Tables that hypothesis makes up, explained: types, missing values, names, shapes.

What fails is made as small as it can be and printed; it becomes a test of its own.
"""

import collections
import datetime as dt
import decimal
import sys
import time
import traceback
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

import dfi

from .targets import LONGEST

MOST_ROWS = 40
AT_ONCE = 50
"""Tables of one search: the next begins elsewhere."""

NAMES = st.one_of(
    st.sampled_from(
        ["a", "b", "", " ", "größe", "=1+1", "a\nb", "\u202e", "x" * 300, "y", "index"]
    ),
    st.text(max_size=4),
)
KINDS = {
    "plain numbers": st.floats(-5.0, 5.0),
    "any numbers": st.floats(),
    "small whole numbers": st.integers(-5, 5),
    "any whole numbers": st.integers(),
    "numbers and gaps": st.one_of(st.none(), st.floats(-5.0, 5.0)),
    "flags": st.booleans(),
    "flags and gaps": st.one_of(st.none(), st.booleans()),
    "levels": st.sampled_from(["u", "v", "w", ""]),
    "any text": st.text(max_size=3),
    "numbers as text": st.sampled_from(["1", "2.5", " 3", "x", "1,5", "7 %", "NaN", "-"]),
    "constant": st.just(1.0),
    "nothing": st.none(),
    "days": st.dates(dt.date(1960, 1, 1), dt.date(2040, 1, 1)),
    "moments": st.datetimes(dt.datetime(1960, 1, 1), dt.datetime(2040, 1, 1)),
    "decimals": st.decimals(-5, 5, places=2),
    "signalling": st.sampled_from([decimal.Decimal("sNaN"), decimal.Decimal(1)]),
    "complex numbers": st.complex_numbers(max_magnitude=3),
    "bytes": st.binary(max_size=2),
    "lists": st.lists(st.integers(0, 2), max_size=2),
    "mixed": st.one_of(st.integers(-5, 5), st.text(max_size=2), st.none(), st.booleans()),
}
USUAL = ("plain numbers", "small whole numbers", "levels", "flags", "numbers and gaps")
LIBRARIES = ("pandas", "categories", "polars", "pyarrow", "numpy", "list")


@st.composite
def cases(draw):
    """Return columns by name, an outcome, weights or none, and the library that holds them."""
    n = draw(st.one_of(st.integers(20, MOST_ROWS), st.integers(0, MOST_ROWS)))

    def column():
        # most columns are such as a table may have, or nearly all tables would be refused
        usual = draw(st.integers(0, 9)) < 8
        kind = draw(st.sampled_from(USUAL if usual else sorted(KINDS)))
        # few draws, repeated by a rule: a column of forty free values is rarely a small finding
        few = draw(st.lists(KINDS[kind], min_size=6 if usual else 1, max_size=8))
        step = draw(st.sampled_from([1, 3, 5]))
        return [few[(k * step) % len(few)] for k in range(n)]

    names = draw(st.lists(NAMES, max_size=4))
    columns = [(name, column()) for name in names]
    weights = column() if draw(st.integers(0, 4)) == 0 else None
    return columns, column(), weights, draw(st.sampled_from(LIBRARIES))


def table_of(columns, library):
    """Return a table, or None where the library itself refuses such columns."""
    named = dict(columns)
    try:
        if library == "polars":
            return pl.DataFrame(named, strict=False)
        if library == "pyarrow":
            return pa.table(named)
        if library in ("numpy", "list"):
            rows = [list(row) for row in zip(*(values for _, values in columns), strict=True)]
            return rows if library == "list" else np.array(rows)
        # two columns of one name are possible here alone
        frame = pd.concat([pd.Series(v, name=k) for k, v in columns], axis=1)
        return frame.astype("category") if library == "categories" else frame
    except (TypeError, ValueError, OverflowError, ArithmeticError):
        return None
    except (pl.exceptions.PolarsError, pa.ArrowException):
        return None


def short(error: Exception) -> None:
    text = str(error)
    assert text, "an empty message"
    assert len(text) < LONGEST, f"a long message: {text[:200]!r}"
    assert type(error).__module__.split(".")[0] in ("builtins", "dfi"), repr(error)


def explained(case) -> str:
    """Return a word for what came of a table, or fail."""
    columns, y, weights, library = case
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        table = table_of(columns, library)
        if table is None:
            return "no table"
        try:
            result = dfi.explain(
                table, y, estimator="linear", cv=2, diagnose=False, sample_weight=weights
            )
        except (ValueError, TypeError) as error:
            refused = error
        else:
            refused = None
    if refused is not None:
        short(refused)
        return "refused"
    assert np.isfinite(result.scores).all()
    by_name = library in ("polars", "pyarrow")
    assert len(result.scores) == (len(dict(columns)) if by_name else len(columns))
    return "read"


def search(count: int, seconds: float, seed: int) -> int:
    """Explain tables until there were so many, or so much time went by; return the findings."""
    words: collections.Counter[str] = collections.Counter()
    findings, done, started = 0, 0, time.monotonic()

    def one(case):
        words[explained(case)] += 1

    while done < count and (seconds <= 0 or time.monotonic() - started < seconds):
        examples = min(AT_ONCE, count - done)
        options = settings(
            max_examples=examples,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        try:
            options(seeded(seed + done)(given(cases())(one)))()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            findings += 1
            sys.stderr.write(f"frames, seed {seed + done}:\n{traceback.format_exc(limit=-3)}\n")
        done += examples
    told = ", ".join(f"{number} {word}" for word, number in words.most_common())
    sys.stdout.write(f"frames: {done} tables ({told}), {findings} findings\n")
    return findings
