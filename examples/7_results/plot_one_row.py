"""
Explain one row
===============

A score is about everybody. Now a patient sits in front of you, and the model expects the disease to
progress much faster than usual. Which measurements drive this prediction?
"""

# %%

import numpy as np
from sklearn.datasets import load_diabetes

import dfi

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
result = dfi.explain(X, y, "linear")

# %%
# ``local`` explains rows by their position in the table, each with models that have not seen it.
# Which patient has the highest prediction?

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
# Drawn as steps from the mean of all to this prediction. The spread over models that were fitted on
# different halves of the rows is not a confidence interval: it misses errors that all models share.

ax = everybody.plot("waterfall", row=row)

# %%
# The decision
# ------------
# Body mass index and ``s5`` raise this prediction, as they would for most people with such values,
# and correlated measurements share the credit instead of one taking it all. Talk about these. And
# remember that the model explains only half of the differences between patients: the prediction
# itself is uncertain, whatever it consists of.
