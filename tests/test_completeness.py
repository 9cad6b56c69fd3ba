"""The page of what works with what is true: each of its cells is called, or its refusal checked.

After a change that is meant, write the tables again with ``python tests/test_completeness.py``.
"""

import atexit
import functools
import re
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dfi
from dfi.losses import BRIER

PAGE = Path(__file__).parents[1] / "docs" / "completeness.md"
ROWS = 120
GROUPS = {"first": ["a", "b"], "second": ["c"]}
QUIET = {"diagnose": False, "transport_error": "ignore"}
METHODS = ["dfi", "loco", "nloco", "dloco", "pfi", "cpi", "shapley", "sobol", "pcm", "r2"]
TRANSPORTS = {
    "gaussian": dfi.transports.Gaussian(),
    "bridge": dfi.transports.Gaussian(epsilon=0.5, n_draws=1, n_smoothing=8),
    "copula": dfi.transports.Copula(),
    "brenier": dfi.transports.Brenier(penalty=0.1, margins=False),
    "entropic": dfi.transports.EntropicOT(epsilon=5.0, n_targets=256),
    "knothe-rosenblatt": dfi.transports.KnotheRosenblatt(),
    "semicontinuous": dfi.transports.Semicontinuous(),
}


def table(rows=ROWS):
    generator = np.random.default_rng(0)
    X = pd.DataFrame(generator.normal(size=(rows, 3)), columns=list("abc"))
    X["b"] += 0.7 * X["a"]
    signal = X["a"] + 0.5 * X["c"]
    return X, (signal + generator.normal(size=rows)).rename("y"), signal


X, Y, SIGNAL = table()
OUTCOMES = {
    "a quantity": (Y, {}),
    "two classes": (pd.Series(np.where(Y > 0, "yes", "no"), name="y"), {}),
    "three classes": (pd.Series(np.digitize(Y, [-0.6, 0.6]).astype(str), name="y"), {}),
    "log-loss": (pd.Series(np.where(Y > 0, "yes", "no"), name="y"), {"loss": "log-loss"}),
    "counts (Poisson)": (
        pd.Series(np.random.default_rng(1).poisson(np.exp(0.5 * SIGNAL + 1.0)), name="y"),
        {"loss": "poisson"},
    ),
    "a quantile (pinball)": (Y, {"loss": "pinball"}),
    "several outcomes": (pd.DataFrame({"one": Y, "two": -Y + X["b"]}), {}),
    "a time to an event": (
        pd.DataFrame({"time": np.exp(Y / 2), "event": np.arange(ROWS) % 3 > 0}),
        {"horizon": 1.0},
    ),
}
CATEGORY = X.assign(b=pd.cut(X["b"], 3, labels=["low", "middle", "high"]).astype(str))
UNITS = {
    "a category": (CATEGORY, {}),
    "missing numbers": (X.assign(b=X["b"].mask(np.arange(ROWS) % 4 == 0)), {}),
    "groups of columns": (X, {"feature_groups": GROUPS}),
    "groups as units": (X, {"feature_groups": GROUPS, "units": "groups"}),
}


def learner(outcome):
    from sklearn.linear_model import PoissonRegressor, QuantileRegressor

    if outcome.startswith("a quantile"):
        return QuantileRegressor(alpha=0.0)
    return PoissonRegressor(alpha=1e-3) if outcome.startswith("counts") else "linear"


def compare(method, data, y, estimator="linear", **options):
    found = dfi.compare(data, y, [method], estimator=estimator, cv=2, **options)
    if not len(found):
        raise ValueError(str(found.skipped))


def explain(data, y, estimator="linear", **options):
    return dfi.explain(data, y, estimator, **{"cv": 2, **QUIET, **options})


def fitted():
    from sklearn.linear_model import LinearRegression

    return LinearRegression().fit(X, Y)


def sampled(transport):
    big, outcome, _ = table(20_001)
    explain(big, outcome, transport=transport, explain_rows=500)


def streamed(transport):
    big, outcome, _ = table(20_001)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.parquet"
        big.assign(y=outcome).to_parquet(path)
        explain(path, "y", transport=transport, fit_rows=400, explain_rows=300)


def weighted(transport):
    explain(X, Y, transport=transport, sample_weight=np.linspace(1, 2, ROWS))


def clustered(transport):
    explain(X, Y, transport=transport, clusters=np.arange(ROWS) % 15)


CASES = {
    "a category": lambda t: explain(CATEGORY, Y, transport=t),
    "missing numbers": lambda t: explain(UNITS["missing numbers"][0], Y, transport=t),
    "groups as units": lambda t: explain(X, Y, feature_groups=GROUPS, units="groups", transport=t),
    "two classes": lambda t: explain(X, OUTCOMES["two classes"][0], transport=t),
    "log-loss": lambda t: explain(X, OUTCOMES["two classes"][0], transport=t, loss="log-loss"),
    "a fitted model": lambda t: explain(X, Y, fitted(), cv="prefit", transport=t),
    "sampling weights": weighted,
    "clusters": clustered,
    "a keep-list (`keep`)": lambda t: explain(X, Y, transport=t).keep(0.5),
    "a tree (`tree`)": lambda t: explain(X, Y, transport=t).tree(),
    "one row (`local`)": lambda t: explain(X, Y, transport=t).local(0),
    "pairs (`interactions`)": lambda t: explain(X, Y, transport=t).interactions(),
    "shares apart (`split`)": lambda t: explain(X, Y, transport=t).split(),
    "20,001 rows": sampled,
    "files": streamed,
}


PLACES = (
    "in memory", "20,001 rows", "a file", "a file of 20,001 rows", "a LazyFrame",
    "a DuckDB relation", "a stream of Arrow", "Dask",
)  # fmt: skip


class Arrow:
    """What gives a stream of Arrow at every read."""

    def __init__(self, frame):
        import pyarrow as pa

        self.table = pa.Table.from_pandas(frame, preserve_index=False)

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def clusters_of(data):
    """Return rows that belong together, by name where they are not in memory."""
    here = isinstance(data, pd.DataFrame)
    explain(data, "y", clusters=np.arange(len(data)) // 8 if here else "b")


def outcomes_of(data):
    """Explain two outcomes, by name where they are not in memory."""
    names = ["y", "c"]
    if isinstance(data, pd.DataFrame):
        return explain(data.drop(columns=names), data[names])
    return explain(data, names)


@functools.cache
def places():
    """Return the same columns at every place that a table may be, small and beyond 20,000 rows."""
    import dask.dataframe
    import duckdb
    import polars as pl

    held = tempfile.TemporaryDirectory()
    atexit.register(held.cleanup)
    folder, half = Path(held.name), np.arange(20_001) % 2 == 0
    big, outcome, _ = table(20_001)
    small, big = X.assign(arm=half[:ROWS], y=Y), big.assign(arm=half, y=outcome)
    for name, frame in (("small", small), ("big", big)):
        frame.to_parquet(folder / f"{name}.parquet")
    return {
        "in memory": small,
        "20,001 rows": big,
        "a file": folder / "small.parquet",
        "a file of 20,001 rows": folder / "big.parquet",
        "a LazyFrame": pl.scan_parquet(folder / "small.parquet"),
        "a DuckDB relation": duckdb.read_parquet(str(folder / "small.parquet")),
        "a stream of Arrow": Arrow(small),
        "Dask": dask.dataframe.from_pandas(small, npartitions=2),
    }


CALLS = {
    "`explain`": lambda d: explain(d, "y", explain_rows=300),
    "`explain(...).local`": lambda d: explain(d, "y", explain_rows=300).local(0),
    "`explain(...).keep`": lambda d: explain(d, "y", explain_rows=300).keep(0.5),
    "`explain(...).tree`": lambda d: explain(d, "y", explain_rows=300).tree(),
    "`explain(...).interactions`": lambda d: explain(d, "y", explain_rows=300).interactions(),
    "`explain(...).split`": lambda d: explain(d, "y").split(),
    "`explain` with `clusters`": clusters_of,
    "`explain` of several outcomes": outcomes_of,
    "`compare`": lambda d: compare("loco", d, "y"),
    "`select`": lambda d: dfi.select(d, "y", estimator="linear", cv=2),
    "`sensitivity`": lambda d: dfi.sensitivity(d, "y", epsilons=[0], estimator="linear", cv=2),
    "`effects`": lambda d: dfi.effects(
        d, "y", "arm", "linear", outcome_model="linear", propensity_model=0.5, cv=2, diagnose=False
    ),
    "`change`": lambda d: dfi.change(
        d,
        d.iloc[:-1] if isinstance(d, pd.DataFrame) else d,
        y="y",
        estimator="linear",
        cv=2,
        **QUIET,
    ),
}


TIMES = OUTCOMES["a time to an event"][0]
ARMS = pd.Series(np.array(["none", "half", "whole"])[np.arange(ROWS) % 3], name="arm")
DOSE = pd.Series(np.random.default_rng(3).normal(size=ROWS), name="dose")
QUICK = {"outcome_model": "linear", "cv": 2, "diagnose": False}
# effects that differ: a tree is refused where nothing is clearly explained
OF_ARMS = (Y + 3.0 * X["a"] * (ARMS == "whole")).rename("y")
OF_DOSE = (Y + 3.0 * X["a"] * DOSE).rename("y")
WAYS = {
    "a time to an event": lambda **o: explain(o.pop("X", X), TIMES, horizon=1.0, **o),
    "a distribution": lambda **o: explain(o.pop("X", X), o.pop("y", Y), target="distribution", **o),
    "a quantile": lambda **o: explain(o.pop("X", X), o.pop("y", Y), target=dfi.Quantile(0.8), **o),
    "effects of three arms": lambda **o: dfi.effects(
        o.pop("X", X), o.pop("y", OF_ARMS), o.pop("arm", ARMS), o.pop("estimator", "linear"),
        propensity_model=dict.fromkeys(set(ARMS), 1 / 3), **{**QUICK, **o},
    ),
    "the effect of a dose": lambda **o: dfi.effects(
        o.pop("X", X), o.pop("y", OF_DOSE), DOSE if o.pop("arm", None) is None else "dose",
        o.pop("estimator", "linear"), propensity_model="linear", **{**QUICK, **o},
    ),
    "an effect on times": lambda **o: dfi.effects(
        o.pop("X", X), TIMES, ARMS == "none", o.pop("estimator", "linear"),
        propensity_model=1 / 3, horizon=1.0, **{**QUICK, **o},
    ),
}  # fmt: skip


def saved(result):
    with tempfile.TemporaryDirectory() as folder:
        result.save(Path(folder) / "t.dfi")
        dfi.load(Path(folder) / "t.dfi").table()


def in_a_file(call, outcome):
    with tempfile.TemporaryDirectory() as folder:
        extra = {"dose": DOSE} if "dose" in outcome else {"arm": ARMS} if "arms" in outcome else {}
        X.assign(y=Y, **extra).to_parquet(Path(folder) / "t.parquet")
        named = {} if "time" in outcome else {"y": "y", **({"arm": "arm"} if extra else {})}
        call(X=Path(folder) / "t.parquet", **named)


USES = {
    "a page": lambda call: call().report(),
    "a plot": lambda call: call().plot(),
    "a result file": lambda call: saved(call()),
    "one row (`local`)": lambda call: call().local([0]),
    "groups of columns": lambda call: call().group(GROUPS),
    "a list to keep": lambda call: call().keep(0.5),
    "pairs (`interactions`)": lambda call: call().interactions(),
    "shares apart (`split`)": lambda call: call().split(),
    "a tree (`tree`)": lambda call: call(cv=8).tree(),
    "groups as units": lambda call: call(feature_groups=GROUPS, units="groups", n_repeats=1),
    "a category": lambda call: call(X=CATEGORY),
    "missing numbers": lambda call: call(X=UNITS["missing numbers"][0]),
    "sampling weights": lambda call: call(sample_weight=np.linspace(1, 2, ROWS)),
    "clusters": lambda call: call(clusters=np.arange(ROWS) % 15),
    "a copula": lambda call: call(transport="copula"),
    "a fitted model": lambda call: call(estimator=fitted(), cv="prefit"),
}

ASKED = {
    "`explain(...).keep`": lambda X, y, **k: explain(X, y, **k).keep(0.5),
    # more folds: a tree is refused where nothing is clearly explained
    "`explain(...).tree`": lambda X, y, **k: explain(X, y, cv=8, **k).tree(),
}


def cells():
    """Yield table, row, column and the call of each cell."""
    for use, ask in USES.items():
        for outcome, call in WAYS.items():
            yield "asked", use, outcome, lambda a=ask, c=call: a(c)
    for outcome, call in WAYS.items():
        yield "asked", "files", outcome, lambda c=call, o=outcome: in_a_file(c, o)
    for label, call in CALLS.items():
        for place in PLACES:
            yield "scale", label, place, lambda c=call, p=place: c(places()[p])
    for method in METHODS:
        for outcome, (y, options) in OUTCOMES.items():
            yield (
                "outcomes", f"`{method}`", outcome,
                lambda m=method, o=outcome, y=y, k=options: compare(m, X, y, learner(o), **k),
            )  # fmt: skip
        for unit, (data, options) in UNITS.items():
            yield (
                "units", f"`{method}`", unit,
                lambda m=method, d=data, k=options: compare(m, d, Y, **k),
            )  # fmt: skip
    for label, ask in ASKED.items():
        for outcome, (y, options) in OUTCOMES.items():
            yield (
                "outcomes", label, outcome,
                lambda a=ask, o=outcome, y=y, k=options: a(X, y, estimator=learner(o), **k),
            )  # fmt: skip
        for unit, (data, options) in UNITS.items():
            yield "units", label, unit, lambda a=ask, d=data, k=options: a(d, Y, **k)
    for name, transport in TRANSPORTS.items():
        for case, call in CASES.items():
            yield "transports", case, f"`{name}`", lambda c=call, t=transport: c(t)


def works(call):
    """Whether a call gives a result; it may only be refused in words."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call()
        except (TypeError, ValueError) as refusal:
            reason = str(refusal)
        else:
            return True
    assert len(reason) > 30, "a refusal says what to do instead"
    return False


def shown():
    """Return what the page says of each cell."""
    found = {}
    for name, body in re.findall(r"<!-- (\w+) -->\n(.*?)<!-- end -->", PAGE.read_text(), re.DOTALL):
        head, _, *rows = [line.strip("|").split("|") for line in body.strip().splitlines()]
        for row in rows:
            for column, cell in zip(head[1:], row[1:], strict=True):
                found[name, row[0].strip(), column.strip()] = cell.strip() == "yes"
    return found


@pytest.mark.full
@pytest.mark.parametrize("name", ["outcomes", "asked", "units", "transports", "scale"])
def test_every_cell_is_true(name):
    measured = {(t, row, column): works(call) for t, row, column, call in cells() if t == name}
    assert measured == {cell: told for cell, told in shown().items() if cell[0] == name}


def test_methods_and_transports_are_all_there():
    assert set(METHODS) == set(dfi.methods.METHODS)
    named = {type(transport).__name__ for transport in TRANSPORTS.values()}
    assert named == set(dfi.transports.__all__) - {"Auto"}
    assert BRIER.name in PAGE.read_text().lower()


def write():
    text = PAGE.read_text()
    tables = {}
    for name, row, column, call in cells():
        tables.setdefault(name, {}).setdefault(row, {})[column] = works(call)
    for name, rows in tables.items():
        columns = list(next(iter(rows.values())))
        lines = ["| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
        lines += [
            f"| {row} | " + " | ".join("yes" if found[c] else "-" for c in columns) + " |"
            for row, found in rows.items()
        ]
        body = "\n".join(lines)
        text = re.sub(
            rf"<!-- {name} -->\n.*?<!-- end -->", f"<!-- {name} -->\n{body}\n<!-- end -->", text,
            flags=re.DOTALL,
        )  # fmt: skip
    PAGE.write_text(text)


if __name__ == "__main__":
    sys.exit(write())
