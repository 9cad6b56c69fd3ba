"""
Explain one row
===============

A score is about everybody. Now a patient sits in front of you, and the model expects the disease
to progress much faster than usual. Which measurements make the prediction what it is?
"""

# %%

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

import dfi

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
result = dfi.explain(X, y, "linear")

# %%
# ``local`` explains rows by their place in the table, each with models that did not see it. Which
# patient has the highest prediction?

everybody = result.local()
row = int(np.argmax(everybody.prediction))
patient = result.local([row])
print(f"prediction {patient.prediction[0]:.0f}, mean of all {patient.base[0]:.0f}")
patient.table().round(1)

# %%
# Contributions add up to the difference between this prediction and the mean:

print(f"sum of the contributions: {patient.values.sum():.1f}")
print(f"prediction - base:        {(patient.prediction - patient.base)[0]:.1f}")

# %%
# Drawn as bars, with the spread over models that were fitted on different halves of the rows. It
# is not a confidence interval: it does not see what all models get wrong alike.

order = np.argsort(-np.abs(patient.values[0]))
names = [f"{patient.names[j]} = {X.iloc[row, j]:g}" for j in order]
figure, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
colours = np.where(patient.values[0, order] > 0, "#D55E00", "#0072B2")
ax.barh(names, patient.values[0, order], color=colours, xerr=patient.spread[0, order])
ax.invert_yaxis()
ax.axvline(0, color="black", linewidth=0.8)
ax.set_xlabel("contribution to the prediction")
ax.spines[["top", "right"]].set_visible(False)

# %%
# The decision
# ------------
# Body mass index and ``s5`` raise this prediction, as they would for most people with such values,
# and correlated measurements share the credit instead of one taking it all. Talk about these. And
# remember that the model explains only half of the differences between patients: the prediction
# itself is uncertain, whatever it consists of.
