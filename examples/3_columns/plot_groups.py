"""
Columns that belong together
============================

An image of a breast mass shows ten properties of its cell nuclei, each recorded as mean, standard
error and worst value: 30 columns that overlap heavily. Nobody wants 30 answers. Which *kind* of
property separates malignant from benign?
"""

# %%

from sklearn.datasets import load_breast_cancer

import dfi

data = load_breast_cancer(as_frame=True)
X, diagnosis = data.data, data.target.map({0: "malignant", 1: "benign"})
properties = {
    "size": ["radius", "perimeter", "area"],
    "outline": ["concavity", "concave points", "compactness", "fractal dimension"],
    "smoothness": ["smoothness"],
    "texture": ["texture"],
    "symmetry": ["symmetry"],
}
groups = {
    group: [
        column
        for column in X
        if any(column.split(" ", 1)[1] == name or column == f"{name} error" for name in names)
    ]
    for group, names in properties.items()
}
{group: len(columns) for group, columns in groups.items()}

# %%
# One result for the 30 columns, and then the groups, in three ways that answer different
# questions.

result = dfi.explain(X, diagnosis, "linear", pos_label="malignant", feature_groups=groups)
summed = result.group()
joint = result.group(how="joint")
shapley = result.group(how="shapley")

# %%
# ========== ==================================================================
# how         the score of a group
# ========== ==================================================================
# sum         the scores of its columns, added up
# joint       what is lost when all its columns are replaced together
# shapley     what it adds, averaged over orders; adds up to what is explained
# ========== ==================================================================

import pandas as pd

table = pd.DataFrame(
    {
        how: part.table().set_index("feature")["share"]
        for how, part in (("sum", summed), ("joint", joint), ("shapley", shapley))
    }
)
table.sort_values("sum", ascending=False).round(2)

# %%
# Sums and joint scores add up to more than 1 here. A probability close to 0 or 1 cannot move much
# further, so size matters less where the outline has already decided: the groups interact, and an
# interaction counts for each of them. Shapley values divide it.

# %%

axes = result.plot("groups")

# %%
# Another way to group the same 30 columns: is it the mean, the error or the worst value that
# matters?

statistics = {
    "mean": [column for column in X if column.startswith("mean")],
    "error": [column for column in X if column.endswith("error")],
    "worst": [column for column in X if column.startswith("worst")],
}
by_statistic = result.group(statistics)
ax = by_statistic.plot()
print(by_statistic.contrast("worst", "mean"))

# %%
# The decision
# ------------
# Size and outline of the nuclei carry most of the signal, whichever way groups are scored. Means
# and worst values carry similar amounts, standard errors less: a cheaper instrument that reports
# means of size and outline would capture much of the signal.
