"""
A category is one thing
=======================

How heavy is a penguin? Species, island and sex are words. Coded as dummy columns they would be
six or seven features, and their importance would depend on which level happens to be the
baseline. Here each is one unit.
"""

# %%

from palmerpenguins import load_penguins

import dfi

penguins = load_penguins().dropna(subset="body_mass_g")
result = dfi.explain(penguins, "body_mass_g", "linear")
ax = result.plot()

# %%
# Next to its score, a unit lists its levels, their numbers of rows and their mean outcomes.

for name in ("species", "island", "sex"):
    print(name)
    for level in result.diagnostics["units"][name]["members"]:
        share, mean = level["share"], level["mean"]
        print(f"   {level['name']:10} {share:4.0%} of the rows, {mean:,.0f} g on average")

# %%
# Species and island are related: Gentoos live on Biscoe only, Chinstraps on Dream only. A linear
# map makes the two uncorrelated, not independent, and the verdict says how much dependence is left:

for reason in result.trust.reasons:
    print(reason)

# %%
# Names of levels, their order and their number of columns play no role. Recode the species, and the
# scores do not change:

codes = {"Adelie": "c", "Chinstrap": "a", "Gentoo": "b"}
recoded = dfi.explain(penguins.replace({"species": codes}), "body_mass_g", "linear")
change = abs(recoded.scores - result.scores).max() / result.scores.max()
print("scores changed by less than a millionth:", change < 1e-6)

# %%
# Would the answer about islands survive without the species? If the island only stands in for the
# species, it takes over when the species is gone:

without = dfi.explain(penguins.drop(columns="species"), "body_mass_g", "linear")
for label, part in (("with the species", result), ("without", without)):
    shares = part.table().set_index("feature")["share"]
    print(f"{label:18} island {shares['island']:.0%}, flippers {shares['flipper_length_mm']:.0%}")

# %%
# The decision
# ------------
# Species and flippers carry most of the mass, and the two say much the same. The island's part is
# shared with the species: field notes need not record it to predict the mass. The verdict concerns
# exactly that pair, so do not build an argument on how the signal is divided between them.
