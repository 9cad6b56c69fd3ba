"""
From a table to a decision
==========================

A clinic measures ten things in 442 people with diabetes: age, sex, body mass index, blood pressure
and six values from a blood sample (``s1`` to ``s6``). A year later the progression of the disease
is assessed. Which measurements carry that signal, and how sure is the answer?
"""

# %%
# The table is as it left the clinic: no scaling, no selection.

from sklearn.datasets import load_diabetes

import dfi

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
X.head(3)

# %%
# One call fits models on parts of the rows, asks them about the others, and disentangles the
# features. The fastest learner is enough here; leave ``"linear"`` out to have the default, which
# averages lines, curves, networks and trees.

result = dfi.explain(X, y, "linear")
result

# %%
# Read ``share`` first: it is the part of the explained variance that the feature accounts for.
# ``score`` is the same in units of the outcome's variance, with a standard error, an interval, and
# a p-value that is adjusted for asking about ten features.

ax = result.plot()

# %%
# Filled bars differ significantly from zero, hollow ones do not. How good was the model that all of
# this rests on? ``quality`` answers for rows that no model had seen.

result.quality

# %%
# So about half of the differences between people can be explained at all, and the shares divide
# that half.
#
# Is body mass index really ahead of blood pressure, or could it be chance? Compare the two
# directly: the standard error of a difference knows that both come from the same people.

print(result.contrast("bmi", "bp"))
print(result.contrast("bmi", "s5"))

# %%
# The decision
# ------------
# If only a few values can be measured at the next visit, these carry most of the signal:

leading = result.table().head(3)
print(", ".join(leading["feature"]))
print(f"{leading['share'].sum():.0%} of what can be explained")

# %%
# Body mass index and ``s5`` lead, and the first contrast says that the lead of body mass index
# over blood pressure is unlikely to be chance. Between body mass index and ``s5`` the data do not
# decide: do not report one of them as *the* most important measurement.
#
# What this does **not** say: that lowering body mass index would slow the disease. It is a table,
# not a trial.
