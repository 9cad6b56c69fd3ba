"""How long a call will take, from the size of its table: known before anything is fitted.

What is known later is more exact: :func:`dfi.methods.stages.seconds_ahead`.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

from joblib import effective_n_jobs

from dfi._learners.stack import STIFF_ROWS
from dfi._scoring.forms import CROSSED
from dfi.transports import resolve_transport

if TYPE_CHECKING:
    from dfi._models.fits import Fits
    from dfi.methods.disentangled import Disentangled, Plan

COSTS = {
    "linear": (0.08, 0.002, 2e-8),
    "ridge": (0.08, 0.003, 3e-8),
    "boosting": (0.3, 0.012, 2.4e-6),
    "forest": (0.3, 0.2, 7e-5),
    "extra_trees": (0.3, 0.2, 7e-5),
    "auto": (0.2, 0.03, 1.1e-5),
}
"""CPU seconds of a run, of a model, and of a cell that a model is fitted on or asked about."""

WITHOUT_NETWORK = 0.4
"""Part of it that a cell takes if models of the default learner have no stiff network."""

REFITTED, PER_PRODUCT = 1.7, 2.5e-8
"""What refits of units of several columns take, and seconds of a row's products of columns."""


def expected_seconds(fits: Fits, ahead: Plan, n_jobs: int = 1) -> float | None:
    """Return roughly how many seconds a run takes; None where nothing is known of the model.

    Constants fit 54 calls on one core of a busy machine, of 200 x 5 to 6,000 x 10; of 22 others,
    up to 20,000 x 30, three took less than half or more than twice as long, all below 2 s. Levels
    of categories count as columns, extra trees as a forest. Models alone are fitted in parallel.
    """
    if not _is_known(fits):
        return None
    learner = str(fits.settings["estimator"])
    base, per_model, per_cell = COSTS[learner]
    sizes = fits.training_sizes(halves=ahead.form in CROSSED, quarters=ahead.extrapolates)
    if learner == "auto" and max(sizes) > STIFF_ROWS:
        per_cell *= WITHOUT_NETWORK
    explained, width = ahead.explained(fits), fits.table.matrix.shape[1]
    fitting = per_model * len(sizes) + per_cell * width * sum(sizes)
    asking = per_cell * width * explained * len(sizes) / len(fits.repeats[0])
    models = base + fitting / n_jobs + asking
    if any(len(column.positions) > 1 for column in fits.table.columns):
        models *= REFITTED
    transports = max(1, len(fits.outcome.members))
    return float(models + PER_PRODUCT * explained * width**2 * transports)


def _is_known(fits: Fits) -> bool:
    name = fits.settings["estimator"]
    known = isinstance(name, str) and name in COSTS
    return known and not fits.prefit and fits.cluster is None


def seconds_before(fits: Fits, method: Disentangled) -> float | None:
    """Return what a call is expected to take, None where that is not known."""
    if not _is_known(fits):
        return None
    if resolve_transport(method.transport).chooses:
        # choosing takes seconds, and the call does it once more
        method = replace(method, transport="gaussian")
    with warnings.catch_warnings():
        # what there is to say, and to refuse, is said by the call itself
        warnings.simplefilter("ignore")
        try:
            ahead = method.plan(fits.members[0] if fits.outcome.members else fits)
        except (TypeError, ValueError):
            return None
        return expected_seconds(fits, ahead, effective_n_jobs(fits.workers.n_jobs))
