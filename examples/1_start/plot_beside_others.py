"""
Beside SHAP, permutation and LOCO
=================================

Heavy cars have large engines, many cylinders and much power. So what determines the miles per
gallon? Four importances of the same boosting give four answers, because they ask four questions.
"""

# %%
# The cars of 1970 to 1982.

import lightgbm
import matplotlib.pyplot as plt
import pandas as pd
import shap
from sklearn.inspection import permutation_importance
from sklearn.model_selection import train_test_split
from vega_datasets import data

import dfi

cars = data.cars().dropna()
X = pd.DataFrame(
    {
        "weight": cars["Weight_in_lbs"],
        "horsepower": cars["Horsepower"],
        "displacement": cars["Displacement"],
        "cylinders": cars["Cylinders"],
        "acceleration": cars["Acceleration"],
        "year": cars["Year"].dt.year,
    }
)
y = cars["Miles_per_Gallon"]
X.corr().round(2)

# %%
# One model, fitted on two thirds of the cars and explained on the rest. ``cv="prefit"`` tells dfi
# not to refit it. Its verdict, ``disentangled.trust``, names a car that holds half of the squared
# influence on acceleration: do not rely on that score.

train_X, test_X, train_y, test_y = train_test_split(X, y, test_size=1 / 3, random_state=0)
model = lightgbm.LGBMRegressor(n_estimators=40, num_leaves=8, n_jobs=1, verbose=-1)
model.fit(train_X, train_y)

disentangled = dfi.explain(test_X, test_y, model, cv="prefit")
values = shap.TreeExplainer(model).shap_values(test_X)
permuted = permutation_importance(
    model, test_X, test_y, n_repeats=5, random_state=0, scoring="neg_mean_squared_error"
)

# %%
# LOCO refits without each column, so it describes what boosting can do with the others, not this
# one model.

loco = dfi.compare(X, y, ["loco"], estimator=model, cv=3)["loco"]

# %%
# Each divided by its own sum, because their units differ:

importances = pd.DataFrame(
    {
        "dfi": disentangled.scores,
        "mean |SHAP|": abs(values).mean(axis=0),
        "permutation": permuted.importances_mean,
        "LOCO": loco.scores.clip(min=0),
    },
    index=X.columns,
)
shares = importances / importances.sum()
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
shares.plot.barh(ax=ax, width=0.8, color=["#0072B2", "#E69F00", "#009E73", "#CC79A7"])
ax.invert_yaxis()
ax.set_xlabel("share of the sum")
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)

# %%
# ===========  ===================================================  ============================
# importance   the question                                         a column that is there twice
# ===========  ===================================================  ============================
# dfi          which measurements is the signal expressed through?  shares between its copies
# mean SHAP    how far does it move this model's predictions?       as the model split
# permutation  how much worse is this model when it is scrambled?   as the model split
# LOCO         what is lost when models do without it?              nothing for either copy
# ===========  ===================================================  ============================
#
# All agree that the model year matters: nothing else in the table can replace it. They disagree
# about the engine. The boosting splits mostly on a few columns of the four that describe the size
# of a car, and SHAP and permutation report that choice. LOCO says that none of the four is needed.
# dfi spreads the signal of "a large car" over the columns that express it.
#
# Only two of them come with uncertainty:

disentangled.table().round(2)

# %%
# The decision
# ------------
# To debug *this* model, use SHAP. To save a sensor, use LOCO. To say *what goes with fuel
# economy*, without the answer depending on which of four correlated columns the boosting picked
# first, use dfi.
