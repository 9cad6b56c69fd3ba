r"""The scores against the variance that there is.

With independent latents :math:`\phi_{Z_j} = E\,Var(\eta \mid Z_{-j})` is the sum of all parts of
the analysis of variance of :math:`\eta` in which coordinate ``j`` takes part. So no score exceeds
:math:`Var(\eta) \le Var(Y)`, and

.. math:: \frac{\sum_j \phi_{Z_j}}{Var(\eta)} = \sum_S |S| \frac{V_S}{Var(\eta)}

is the average order of interaction: 1 for additive regressions, at most ``d``. What it may be the
model itself tells (:class:`~dfi._diagnosis.fidelity.Fidelity`), and a sum surely elsewhere is
wrong. Under a linear map a feature of one column is attributed a weighted mean of latent scores and
obeys the same bounds, and so it does under a curved map, by its shares of lines; a category whose
columns are added up, or ``attribution="slopes"``, can break them, and a score that does is not a
share of the variance. An entropic map blurs the rows first, and its scores add up to less.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from dfi._findings import Finding, Severity, listed
from dfi._parameters import argument
from dfi.inference.influence import standard_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._data.weights import Weights
    from dfi._scoring.forms import ScoreForm
    from dfi._scoring.task import Task
    from dfi._types import Floats, Plain
    from dfi.transports.base import Transport

ERRORS = 2.0
"""Standard errors by which a bound must be missed before it is said."""

HIGH_ORDER = 2.0
"""Average order of interaction above which the sum of the scores is doubtful."""

LOW_SHARE = 0.5
"""Share of the explained variance below which the sum of the scores is called low."""

GROSS = 0.5
"""Share of the outcome's variance by which a score exceeds it that no error excuses."""

HARDLY = 0.01
"""Tolerance of a bound: a product of two has an order of exactly 2."""

TOLERANCE = 0.1
"""Share of the explained variance by which scores may miss it: linear models on eight real tables
are within .04 of it."""

ASTRAY = 0.15
"""The same where the verdict is lowered whether or not it is sure: by so much the scores and shares
of parts of real tables are another question than those of 5,000 rows (``benchmarks/real_parts.py``,
tables for development)."""

ADDITIVE = 1e-6
"""Share of the explained variance up to which an interaction is rounding."""

OF_INTERACTION = 3.0
"""What interactions add to the sum of the scores, over what a ``Fidelity`` sees of them: 2 for
those of two coordinates, 2.7 of three, 3.4 of four."""


@dataclass(frozen=True)
class Totals:
    r"""The scores against the variance that there is.

    ``explained`` is what the regression explains on rows it had not seen, in the form of the scores
    (for the cross form :math:`Var(Y) - E(Y - \eta^a)(Y - \eta^b)`), so errors of models are in
    both alike; ``order``, the latent sum over it, is the average order of interaction (None where
    nothing is explained) and ``n_latent`` the largest that it can be. ``covariance`` is that of the
    sum's error with that of ``explained``. Features in ``above_variance`` surely exceed the
    outcome's variance. ``interaction`` is that of the models (``Fidelity``), None where it is not
    known; ``times_counted`` how often a unit is, where groups overlap.
    """

    total: float
    total_se: float
    explained: float
    explained_se: float
    variance: float
    of_variance: float
    of_explained: float | None
    latent_total: float
    latent_total_se: float
    order: float | None
    n_latent: int
    above_variance: tuple[str, ...]
    square: bool = True
    covariance: float = 0.0
    latent_covariance: float = 0.0
    interaction: float | None = None
    times_counted: int = 1

    @property
    def whole(self) -> str:
        return "the outcome's variance" if self.square else "what the outcome's mean alone loses"

    @property
    def clear(self) -> bool:
        return self.explained > ERRORS * self.explained_se

    @property
    def impossible(self) -> bool:
        """Whether interactions of all orders could not add up to this sum."""
        return self.square and self._off(float(self.n_latent * self.times_counted), latent=True)

    @property
    def doubtful(self) -> bool:
        """Whether the sum exceeds twice the explained variance (or the variance, if it is 0).

        In squares that takes interactions of more than two coordinates on average; under another
        loss sums exceed what is explained without any: 1.4 times for a steep logistic regression.
        """
        if not self.clear:
            over = self.total - self.times_counted * self.variance
            return over > min(ERRORS * self.total_se, self.variance) and self.variance > 0
        bound, largest = HIGH_ORDER * self.times_counted, max(self.total, self.latent_total)
        sure = self._off(bound) or self._off(bound, latent=True)
        return sure or largest > HIGH_ORDER * bound * self.explained

    @property
    def low(self) -> bool:
        """Whether the scores add up to less than half of the explained variance."""
        if self.times_counted > 1 or not self.explained > 0:
            return False
        return self._off(LOW_SHARE) or (self.clear and self.total < LOW_SHARE**2 * self.explained)

    @property
    def additive(self) -> bool:
        """Whether the models have no interactions, so scores add up to what they explain."""
        return self.interaction is not None and self.interaction <= ADDITIVE * self.explained

    @property
    def most(self) -> float:
        """The largest sum, over the explained variance, that the models' interactions allow."""
        return 1.0 + OF_INTERACTION * (self.interaction or 0.0) / self.explained

    @property
    def unaccounted(self) -> bool:
        """Whether the sum surely differs from the explained variance, given the interactions."""
        if self.interaction is None or not self.clear:
            return False
        return self._off(self.most + TOLERANCE, latent=True) or self._off(
            1.0 - TOLERANCE, latent=True
        )

    @property
    def astray(self) -> bool:
        """Whether the sum is far from what the models explain, their interactions considered."""
        return self.astray_by(0.0)

    def astray_by(self, errors: float) -> bool:
        """Return whether it exceeds :data:`ASTRAY` by a number of standard errors."""
        if self.interaction is None or not self.clear:
            return False
        order = self.latent_total / self.explained
        covered = 2.0 * order * self.latent_covariance
        variance = self.latent_total_se**2 - covered + (order * self.explained_se) ** 2
        room = errors * float(np.sqrt(max(variance, 0.0))) / self.explained
        return max(order - self.most, 1.0 - order) + room >= ASTRAY

    def _off(self, bound: float, *, latent: bool = False) -> bool:
        """Return whether a sum is clearly off the explained variance by more than a factor."""
        total, error, covariance = (
            (self.latent_total, self.latent_total_se, self.latent_covariance)
            if latent
            else (self.total, self.total_se, self.covariance)
        )
        beyond = (total - bound * self.explained) * (1.0 if bound > 1.0 else -1.0)
        variance = error**2 - 2.0 * bound * covariance + (bound * self.explained_se) ** 2
        room = max(ERRORS * float(np.sqrt(max(variance, 0.0))), HARDLY * bound * self.explained)
        return self.explained > 0 and beyond > room

    def as_dict(self) -> dict[str, object]:
        """Return the values for a result's diagnostics."""
        found = {**asdict(self), "above_variance": list(self.above_variance)}
        judged = ("impossible", "doubtful", "low", "additive", "unaccounted", "astray")
        return {**found, **{name: getattr(self, name) for name in judged}}


def in_percent(share: float) -> str:
    return f"{100 * share:.2g} %"


def times_counted(task: Task) -> int:
    """Return the largest number of scores that a unit is part of."""
    if task.by_unit or not task.blocks.targets:
        return 1
    units = [unit for target in task.blocks.targets for unit in target.units]
    return int(np.bincount(units).max())


def score_totals(
    influence: Floats,
    latent_influence: Floats,
    gained: Floats,
    names: Sequence[str],
    weights: Weights,
    *,
    n_latent: int,
    square: bool = True,
    times_counted: int = 1,
) -> Totals:
    """Compare the scores with the variance of the outcome and its explained part.

    ``gained`` (n, 2) is what the outcome's mean loses and what models explain of it, row by row.
    """
    single = standard_errors(influence, weights)
    sums = np.stack([influence.sum(axis=1), latent_influence.sum(axis=1), *gained.T], axis=1)
    total, latent_total, outcome, explained = map(float, weights.mean(sums))
    steps = weights.steps(sums)
    covariance = steps.T @ steps
    errors = np.sqrt(np.diag(covariance))
    scores = weights.mean(influence)
    over, room = scores - outcome, ERRORS * np.nan_to_num(single)
    above = over > np.clip(room, 1e-9 * outcome, GROSS * outcome)
    return Totals(
        total=total,
        total_se=float(errors[0]),
        explained=explained,
        explained_se=float(errors[3]),
        variance=outcome,
        of_variance=total / outcome if outcome > 0 else 0.0,
        of_explained=total / explained if explained > 0 else None,
        latent_total=latent_total,
        latent_total_se=float(errors[1]),
        order=latent_total / explained if explained > 0 else None,
        n_latent=n_latent,
        above_variance=tuple(name for name, over in zip(names, above, strict=True) if over),
        square=square,
        covariance=float(covariance[0, 3]),
        latent_covariance=float(covariance[1, 3]),
        times_counted=times_counted,
    )


def above_variance(totals: Totals, design: Transport, *, straight: bool) -> Finding | None:
    """Report features whose score exceeds the outcome's variance."""
    names = totals.above_variance
    if not names:
        return None
    several = len(names) > 1
    what = f"{listed(names)} {'score' if several else 'scores'} more than {totals.whole}"
    remedy = (
        f"No feature can carry that: {'these scores are' if several else 'this score is'} too large"
        if straight
        else f"{argument('transport', design.name)} weighs scores by the slopes of its curves: "
        f"they are not shares of it. Compare with {argument('transport', 'gaussian')}"
    )
    return Finding("above variance", "distrust", what, remedy=remedy, about=names)


UNLIKE = "The model is evaluated at rows that are unlike the data"

NOT_ONE = (
    "Without interactions they must add up to all of it: the transport does not have the "
    "correlations of the rows. Leave out columns that nearly repeat others, merge rare levels, or "
    "use more rows"
)


def sum_of_scores(
    totals: Totals, design: Transport, form: ScoreForm, *, straight: bool
) -> Finding | None:
    """Report the sum of the scores; None if nothing is explained and nothing is wrong."""
    # a blur is asked for, and takes from all scores
    off = (totals.unaccounted or totals.astray) and not design.epsilon
    wrong = totals.impossible or totals.doubtful or totals.low
    unit = "variance" if totals.square else "loss"
    of = f"times the {unit} that the regression explains"
    if not totals.explained > 0 or (totals.doubtful and not totals.clear):
        if not (off or wrong):
            return None
        return Finding(
            "sum",
            "distrust",
            f"the scores add up to {totals.of_variance:.3g} times {totals.whole}, but the "
            "regression does not clearly explain any of it",
            {"of_variance": totals.of_variance},
            UNLIKE,
        )
    ratio, order = totals.total / totals.explained, totals.latent_total / totals.explained
    numbers = {"of_explained": ratio, "order": order, "of_variance": totals.of_variance}
    if not (off or wrong):
        return Finding(
            "sum",
            "note",
            f"the scores add up to {ratio:.2f} {of} ({totals.of_variance:.2f} times "
            f"{totals.whole}): additive regressions give 1, interactions of two latent coordinates "
            "up to 2",
            numbers,
        )
    # without interactions there is no room for another sum
    sure = wrong or (totals.additive and totals.unaccounted)
    severity: Severity = "distrust" if sure else "care"
    if not (totals.impossible or totals.doubtful or (off and order > 1.0)):
        return Finding(
            "sum",
            "care" if design.epsilon else severity,
            f"the scores add up to only {in_percent(ratio)} of the {unit} that the regression "
            "explains",
            numbers,
            _why_low(totals, design, form),
        )
    if not straight and ratio > order:
        return Finding(
            "sum",
            severity,
            f"the scores add up to {ratio:.3g} {of}, because "
            f"{argument('transport', design.name)} weighs them by the slopes of its curves",
            numbers,
            f"They are not shares of it. Compare with {argument('transport', 'gaussian')}",
        )
    # categories can have a sum of their own
    latent = order > ratio or not totals.doubtful
    what = f"the {'latent ' * latent}scores add up to {order if latent else ratio:.3g} {of}"
    remedy = UNLIKE
    if totals.additive:
        remedy = NOT_ONE
    elif totals.impossible:
        what += f", more than interactions of all {totals.n_latent} latent coordinates could"
        remedy = "They cannot be right"
    elif off:
        what += f"; its own interactions allow for {totals.most:.2f} times at most"
    elif totals.square:
        what += f", which takes interactions of more than {HIGH_ORDER:.0f} of them on average"
        remedy = f"Unless the regression is known to have them, {UNLIKE[0].lower()}{UNLIKE[1:]}"
    else:
        severity = "care"
        what += ", because features that act together are counted several times"
        remedy = "They are not shares of it"
    return Finding("sum", severity, what, numbers, remedy)


def _why_low(totals: Totals, design: Transport, form: ScoreForm) -> str:
    if design.epsilon:
        return (
            f"{argument('transport', design.name)} with epsilon = {design.epsilon:g} blurs the "
            "rows, and the blurred part is attributed to nothing"
        )
    if totals.additive:
        return NOT_ONE
    if form == "loco" and totals.square:
        return (
            f"In {argument('form', 'loco')} the noise that a model has learned lowers its scores. "
            f"Compare with {argument('form', 'cpi')}"
        )
    return (
        "The models disagree where correlated features are separated, at rows unlike the data. "
        f"Compare {argument('estimator', 'linear')} with 'boosting', or leave out a column that "
        "others determine"
    )


def joined_totals(parts: Sequence[Plain]) -> Totals:
    """Return the totals of several classes as one; their errors add up too."""

    def added(name: str) -> float:
        return float(sum(part[name] for part in parts))

    explained, variance = added("explained"), added("variance")
    return Totals(
        total=added("total"),
        total_se=added("total_se"),
        explained=explained,
        explained_se=added("explained_se"),
        variance=variance,
        of_variance=added("total") / variance if variance > 0 else 0.0,
        of_explained=added("total") / explained if explained > 0 else None,
        latent_total=added("latent_total"),
        latent_total_se=added("latent_total_se"),
        order=added("latent_total") / explained if explained > 0 else None,
        n_latent=parts[0]["n_latent"],
        # a feature is above the whole only where it is for every class
        above_variance=tuple(
            name
            for name in parts[0]["above_variance"]
            if all(name in part["above_variance"] for part in parts)
        ),
        square=parts[0]["square"],
        # no more than what the sum of classes has: what they share is left out
        covariance=added("covariance"),
        latent_covariance=added("latent_covariance"),
        interaction=(
            None if any(part["interaction"] is None for part in parts) else added("interaction")
        ),
        times_counted=parts[0]["times_counted"],
    )
