"""
Three species, and one answer for each
======================================

Adelie, Chinstrap and Gentoo penguins differ in their bills, flippers and mass. With three
classes there is one score for telling them apart at all, and one for each species.
"""

# %%
# The table has missing measurements, which need no preparation. Island, year and sex are left out:
# they describe the sample, not the species.

from palmerpenguins import load_penguins

import dfi

penguins = load_penguins().drop(columns=["island", "sex", "year"])
penguins.isna().sum()

# %%

result = dfi.explain(penguins, "species", "linear")
result

# %%
# ``classes`` draws the parts of each score: they add up to it exactly.

ax = result.plot("classes")

# %%
# Each species has its own complete result. Which three measurements tell a species from the others?

for species, part in result.by_outcome.items():
    print(f"{species:10}", ", ".join(part.table()["feature"].head(3)))

# %%
# Is the bill's length more important than the mass for Gentoos? A contrast within one class:

print(result.by_outcome["Gentoo"].contrast("bill_length_mm", "body_mass_g"))

# %%
# The decision
# ------------
# A ranger with one pair of callipers should measure the bill's length: it leads overall, and for
# Adelie and Chinstrap. For spotting Gentoos alone flippers, depth of the bill and mass do about as
# well. Those three go together in these birds, so treat them as one signal that can be read from
# any of them.
