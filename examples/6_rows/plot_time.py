"""
Learn from the past, explain the future
=======================================

Tomorrow's temperature in Seattle. Shuffled folds let models learn from the day after the one they
predict. With time, the split must go one way.
"""

# %%

import numpy as np
import pandas as pd
from sklearn.model_selection import TimeSeriesSplit
from vega_datasets import data

import dfi

weather = data.seattle_weather()
season = 2 * np.pi * weather["date"].dt.day_of_year / 365.25
days = pd.DataFrame(
    {
        "high today": weather["temp_max"],
        "low today": weather["temp_min"],
        "high yesterday": weather["temp_max"].shift(1),
        "rain": weather["precipitation"],
        "wind": weather["wind"],
        "season, cosine": np.cos(season),
        "season, sine": np.sin(season),
        "high tomorrow": weather["temp_max"].shift(-1),
    }
).dropna()

# %%
# ``cv`` takes the splitters of scikit-learn. With ``TimeSeriesSplit`` every model is fitted on
# earlier days than those it explains; the first block of days is used only for training.

result = dfi.explain(days, "high tomorrow", "linear", cv=TimeSeriesSplit(5))
print(result.quality)
print(f"{result.spec['n_rows']:,} days in the table")
ax = result.plot()

# %%
# Today's high, its low, yesterday's high and the season all say "it is July". The two columns of
# the season are one thing in two coordinates, so they are best read as one group:

groups = {
    "today": ["high today", "low today"],
    "yesterday": ["high yesterday"],
    "season": ["season, cosine", "season, sine"],
    "rain and wind": ["rain", "wind"],
}
grouped = result.group(groups)
grouped.shares().round(2)

# %%
# How much would the wrong split have flattered the model?

shuffled = dfi.explain(days, "high tomorrow", "linear")
print(f"R2 on later days {result.quality.r2:.3f}, on shuffled days {shuffled.quality.r2:.3f}")

# %%
# The decision
# ------------
# For a linear model with seven columns the two splits agree, and that is worth knowing: what was
# learned holds for later days. The forecast lives on today's temperature and the season; rain and
# wind add next to nothing, and a service that has to pay for them can do without.
