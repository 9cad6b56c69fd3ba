r"""Outcomes of rows that were censored before the event and the horizon.

With :math:`T` the time of the event, :math:`\tau` the horizon and :math:`V` what is explained,
:math:`\min(T, \tau)` or :math:`1\{T > \tau\}`, a row that was censored at :math:`U` has no
:math:`V`. In its place stands the augmented outcome (AIPCW)

.. math:: Y^* = \frac{\{V \text{ known} ? V : Q(U)\}}{G(U)} - \int_0^{U} Q(s) \, d\frac{1}{G(s)},
          \qquad Q(s) = E[V \mid T > s, x],

:math:`G` the chance not to be censored until then. Its mean given :math:`x` is that of :math:`V`
where the hazard of the event or that of censoring is right, and an error of both enters by their
product, as in :mod:`dfi._models.pseudo`. Both hazards are Cox regressions on the training rows of
each fold. The cumulative hazard of censoring is bounded, and not :math:`G` alone, so the
weights of a row still add up to 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dfi._data.outcome import Outcome, Survival, SurvivalTarget
from dfi._findings import Finding
from dfi._learners.cox import Cox
from dfi._parameters import argument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._data.folds import Fold
    from dfi._data.problem import Data
    from dfi._data.survival import Times
    from dfi._types import Bools, Floats

LEAST_FREE = 0.05
"""Smallest chance of not being censored: a row represents at most 20 others."""

FEWEST_FREE = 0.95
"""Share of the rows that must be above it."""

EDGES = 200
"""Times at which integrals are cut."""

BRIER_TIMES = 20
"""Times over which the Brier score is integrated."""

CURVE_POINTS = 101
"""Points of a Kaplan-Meier curve that a result keeps."""

CHUNK = 2048
"""Rows that are integrated at once."""


@dataclass(frozen=True, eq=False)
class Hazards:
    event: Cox
    censoring: Cox

    @classmethod
    def fit(cls, X: Floats, times: Times, weight: Floats) -> Hazards:
        """Fit both; at the same time events come before censoring."""
        late = np.where(times.event, times.time, np.nextafter(times.time, np.inf))
        return cls(
            Cox.fit(X, times.time, times.event, weight), Cox.fit(X, late, ~times.event, weight)
        )

    def outcomes(self, X: Floats, times: Times, horizon: float, target: SurvivalTarget) -> Floats:
        edges = _edges(np.concatenate([self.event.times, self.censoring.times]), horizon)
        parts = [slice(k, k + CHUNK) for k in range(0, len(X), CHUNK)]
        found = [
            self._outcomes(X[part], times.time[part], times.event[part], edges, target)
            for part in parts
        ]
        return np.concatenate(found)

    def _outcomes(
        self, X: Floats, time: Floats, event: Bools, edges: Floats, target: SurvivalTarget
    ) -> Floats:
        horizon = edges[-1]
        rows = np.arange(len(X))
        expected = _expected(self.event, X, edges, target)
        known = event | (time >= horizon)
        # a row that is censored counts the hazard of its own time, one that has the event does not
        until = np.where(known, np.minimum(time, horizon), np.nextafter(time, np.inf))
        risk = self.censoring.risk(X)
        inverse = _inverse_free(np.outer(risk, self.censoring.baseline(edges)))
        at_end = _inverse_free(risk * self.censoring.baseline(until))
        low = np.minimum(np.searchsorted(edges, until, side="right") - 1, len(edges) - 2)
        share = np.clip((until - edges[low]) / (edges[low + 1] - edges[low]), 0.0, 1.0)
        last = (1.0 - share) * expected[rows, low] + share * expected[rows, low + 1]
        steps = 0.5 * (expected[:, 1:] + expected[:, :-1]) * np.diff(inverse, axis=1)
        before = np.concatenate([np.zeros((len(X), 1)), np.cumsum(steps, axis=1)], axis=1)
        taken = before[rows, low]
        taken += 0.5 * (expected[rows, low] + last) * (at_end - inverse[rows, low])
        value = np.minimum(time, horizon)
        if target == "probability":
            value = ((time > horizon) | (~event & (time >= horizon))).astype(np.float64)
        return np.asarray(np.where(known, value, last) * at_end - taken)

    def free(self, X: Floats, horizon: float) -> Floats:
        hazard = self.censoring.baseline(np.array([horizon]))
        return np.asarray(np.exp(-self.censoring.risk(X) * hazard))

    def reach(self, X: Floats) -> float:
        """Return the latest horizon at which enough rows are above the bound."""
        risk = float(np.quantile(self.censoring.risk(X), FEWEST_FREE))
        allowed = np.searchsorted(self.censoring.hazard * risk, -np.log(LEAST_FREE), side="left")
        times = self.censoring.times
        return float(times[allowed]) if allowed < len(times) else np.inf

    def brier(self, X: Floats, times: Times, moments: Floats) -> Floats:
        r"""Return squared errors of the survival curves, (n, moments), weighted by 1/G (Graf)."""
        risk = self.censoring.risk(X)
        own = _inverse_free(risk * self.censoring.baseline(times.time))
        then = _inverse_free(np.outer(risk, self.censoring.baseline(moments)))
        alive = np.exp(-np.outer(self.event.risk(X), self.event.baseline(moments)))
        later = times.time[:, None] > moments
        died = times.event[:, None] & ~later
        return np.asarray(
            np.where(later, (1.0 - alive) ** 2 * then, died * alive**2 * own[:, None])
        )


def _inverse_free(hazard: Floats) -> Floats:
    return np.asarray(np.exp(np.minimum(hazard, -np.log(LEAST_FREE))))


def _edges(time: Floats, horizon: float) -> Floats:
    """Return times from 0 to the horizon, dense around jumps of the hazards."""
    inside = np.unique(time[time < horizon])
    if len(inside) > EDGES:
        inside = np.unique(np.quantile(inside, np.linspace(0.0, 1.0, EDGES)))
    near = [inside, np.nextafter(inside, np.inf), np.nextafter(inside, -np.inf)]
    found = np.unique(np.concatenate([[0.0], *near]))
    return np.append(found[(found >= 0.0) & (found < horizon)], horizon)


def _expected(model: Cox, X: Floats, edges: Floats, target: SurvivalTarget) -> Floats:
    """Return the expectation for rows without the event at each edge."""
    risk = model.risk(X)[:, None]
    after, before = model.baseline(edges), model.baseline(edges, before=True)
    if target == "probability":
        return np.asarray(np.exp(-risk * (after[-1] - after)))
    kept = np.exp(-risk * np.diff(after))
    nearly = np.exp(-risk * (before[1:] - after[:-1]))
    widths = np.diff(edges)
    found = np.empty((len(X), len(edges)))
    found[:, -1] = 0.0
    for k in range(len(widths) - 1, -1, -1):
        found[:, k] = 0.5 * widths[k] * (1.0 + nearly[:, k]) + found[:, k + 1] * kept[:, k]
    return np.asarray(found + edges)


def kaplan_meier(times: Times, weight: Floats) -> tuple[Floats, Floats, Floats]:
    order = np.argsort(times.time, kind="stable")
    time, event, mass = times.time[order], times.event[order], weight[order]
    distinct, first = np.unique(time, return_index=True)
    at_risk = np.cumsum(mass[::-1])[::-1][first]
    died = np.add.reduceat(mass * event, first)
    here = died > 0
    at_risk, died = at_risk[here], died[here]
    survival = np.cumprod(1.0 - died / at_risk)
    with np.errstate(divide="ignore", invalid="ignore"):
        greenwood = np.cumsum(died / (at_risk * (at_risk - died)))
        error = np.where(survival > 0, survival * np.sqrt(greenwood), 0.0)
    return distinct[here], np.asarray(survival), np.asarray(error)


def concordance(predicted: Floats, times: Times, horizon: float, weight: Floats) -> float:
    """Return Harrell's C up to the horizon, ties of predictions counted half."""
    died = np.flatnonzero(times.before(horizon) & (weight > 0))
    order = np.argsort(-times.time[died], kind="stable")
    died = died[order]
    levels, place = np.unique(predicted, return_inverse=True)
    # rows with a later time, or censored at the same: added as events go back in time
    outlived = np.argsort(-np.where(times.event, times.time, np.nextafter(times.time, np.inf)))
    ends = -np.where(times.event, times.time, np.nextafter(times.time, np.inf))[outlived]
    tree = np.zeros(len(levels) + 1)
    agree = pairs = 0.0
    added = 0
    until = np.searchsorted(ends, -times.time[died], side="left")
    for row, count in zip(died, until, strict=True):
        while added < count:
            _add(tree, int(place[outlived[added]]), float(weight[outlived[added]]))
            added += 1
        below, through = _sum(tree, int(place[row])), _sum(tree, int(place[row]) + 1)
        total = _sum(tree, len(levels))
        agree += weight[row] * (total - through + 0.5 * (through - below))
        pairs += weight[row] * total
    return agree / pairs if pairs > 0 else float("nan")


def _add(tree: Floats, place: int, mass: float) -> None:
    place += 1
    while place < len(tree):
        tree[place] += mass
        place += place & -place


def _sum(tree: Floats, count: int) -> float:
    found = 0.0
    while count > 0:
        found += tree[count]
        count -= count & -count
    return found


def survival_outcome(
    data: Data,
    times: Times,
    repeats: Sequence[Sequence[Fold]],
    horizons: Sequence[float],
    target: SurvivalTarget,
    beside: Floats | None = None,
) -> Outcome:
    """Return the outcome of each horizon; columns ``beside`` the table enter its nuisances."""
    matrix = data.matrix if beside is None else np.hstack([data.matrix, beside])
    weight = data.weights.values
    n = len(times.time)
    values = np.full((len(repeats), len(horizons), n), np.nan)
    free = np.full((len(horizons), n), np.nan)
    moments = np.linspace(0.0, horizons[-1], BRIER_TIMES + 1)[1:]
    error = np.full((n, BRIER_TIMES), np.nan)
    reach = np.inf
    for split, folds in enumerate(repeats):
        for fold in folds:
            train = fold.train[weight[fold.train] > 0]
            hazards = Hazards.fit(matrix[train], times.take(train), weight[train])
            rows, held = matrix[fold.test], times.take(fold.test)
            reach = min(reach, hazards.reach(rows))
            error[fold.test] = hazards.brier(rows, held, moments)
            for k, horizon in enumerate(horizons):
                values[split, k, fold.test] = hazards.outcomes(rows, held, horizon, target)
                free[k, fold.test] = hazards.free(rows, horizon)
    found = np.nanmean(values, axis=0)
    curve = kaplan_meier(times, weight)
    here = ~np.isnan(error[:, 0]) & (weight > 0)
    brier = float((weight[here] @ error[here]).mean() / weight[here].sum())
    told = [
        _told(times, weight, horizon, target, free[k], reach) for k, horizon in enumerate(horizons)
    ]
    members = tuple(
        Outcome(
            found[k],
            _name(times, horizon, target),
            "real",
            survival=Survival(times, horizon, told[k], brier),
            diagnostics={"survival": {**told[k], "curve": _curve(curve, times, [horizon])}},
            findings=() if (one := _finding(told[k], horizon)) is None else (one,),
        )
        for k, horizon in enumerate(horizons)
    )
    if len(members) == 1:
        return members[0]
    name = " and ".join(f"{horizon:g}" for horizon in horizons)
    whole = {**{key: told[0][key] for key in ("time", "event", "target")}, "horizon": [*horizons]}
    return Outcome(
        found[0],
        f"{_QUANTITY[target]} {times.names[0]} up to {name}",
        "several",
        members=members,
        survival=Survival(times, horizons[-1], whole, brier),
        diagnostics={"survival": {"curve": _curve(curve, times, horizons)}},
    )


_QUANTITY = {"rmst": "mean", "probability": "survival"}


def _name(times: Times, horizon: float, target: SurvivalTarget) -> str:
    if target == "probability":
        return f"survival beyond {times.names[0]} = {horizon:g}"
    return f"{times.names[0]} up to {horizon:g}"


def _told(
    times: Times, weight: Floats, horizon: float, target: SurvivalTarget, free: Floats, reach: float
) -> dict[str, object]:
    known = times.known(horizon)
    counted = weight * ~np.isnan(free)
    return {
        "time": times.names[0],
        "event": times.names[1],
        "horizon": horizon,
        "target": target,
        "events": int(times.before(horizon).sum()),
        "censored": float(weight @ ~known / weight.sum()),
        "free_of_censoring": float(counted @ (np.nan_to_num(free) > LEAST_FREE) / counted.sum()),
        "reach": None if np.isinf(reach) else float(f"{reach:.3g}"),
    }


def _curve(
    curve: tuple[Floats, Floats, Floats], times: Times, horizons: Sequence[float]
) -> dict[str, object]:
    """Return a Kaplan-Meier curve thinned out, from time 0."""
    time, survival, error = curve
    places = np.unique(np.linspace(0, len(time) - 1, min(CURVE_POINTS, len(time))).astype(int))
    return {
        "name": times.names[0],
        "horizons": list(horizons),
        "time": [0.0, *time[places].tolist()],
        "survival": [1.0, *survival[places].tolist()],
        "se": [0.0, *error[places].tolist()],
    }


def _finding(told: dict[str, object], horizon: float) -> Finding | None:
    """Return that too many rows are hardly ever observed until the horizon."""
    share = float(told["free_of_censoring"])  # type: ignore[arg-type]
    if share >= FEWEST_FREE:
        return None
    reach = told["reach"]
    earlier = (
        f"choose an earlier horizon: {argument('horizon', reach)} is the latest that holds"
        if isinstance(reach, float) and 0.0 < reach < horizon
        else "choose an earlier horizon"
    )
    return Finding(
        "censoring",
        "distrust",
        f"{100.0 * (1.0 - share):.0f} % of the rows had a chance below {LEAST_FREE:g} of being "
        f"observed until the horizon {horizon:g}: for them the answer rests on the Cox model",
        {"share": 1.0 - share, "horizon": horizon},
        f"{earlier[0].upper()}{earlier[1:]}",
    )
