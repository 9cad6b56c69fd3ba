"""
Hand it on: files and reports
=============================

An analysis that cannot be opened again next year was not finished. A result is one small file; a
report is one page that works without a network.
"""

# %%

import tempfile
from pathlib import Path

from sklearn.datasets import load_wine

import dfi

wine = load_wine(as_frame=True)
X, cultivar = (
    wine.data,
    wine.target.map({0: "Barolo", 1: "Grignolino", 2: "Barbera"}).rename("cultivar"),
)
result = dfi.explain(X, cultivar, "linear")

# %%
# Save, and load in another session, on another machine:

temporary = tempfile.TemporaryDirectory()
folder = Path(temporary.name)
result.save(folder / "wine.dfi")
again = dfi.load(folder / "wine.dfi")
print(f"{(folder / 'wine.dfi').stat().st_size / 1024:.0f} kB")
print("the same scores:", (again.scores == result.scores).all())

# %%
# Everything that a table, an interval or a comparison needs is in the file, so questions that come
# up later need no refit. The file does not contain the data, only a fingerprint to check whether
# another table is the same.

again.group(
    {
        "colour": ["color_intensity", "hue"],
        "phenols": ["total_phenols", "flavanoids", "nonflavanoid_phenols"],
    }
).table()[["feature", "share", "score", "se"]].round(3)

# %%
# What exactly was estimated is in the file too:

print(
    {
        name: again.spec[name]
        for name in ("method", "transport", "loss", "n_rows")
        if name in again.spec
    }
)

# %%
# The report says the same in words, with the chart, the table, the reasons for caution and
# everything needed to compute it again.

again.report(folder / "wine.html", title="What tells three wines apart?")
print(f"{(folder / 'wine.html').stat().st_size / 1024:.0f} kB, one file")

# %%

ax = again.plot("classes", top=8)
temporary.cleanup()

# %%
# The decision
# ------------
# Put the ``.dfi`` file next to the paper or the ticket, and mail the page. Whoever doubts a number
# can open the file and ask another question of it.
