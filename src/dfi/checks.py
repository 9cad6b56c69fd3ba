"""The checks of a result: can it be right, what does noise score, does the transport suit the rows.

Every alarm is one sentence or two. The same words go to the warning, to
``result.diagnostics["alarms"]`` and to the top of the report.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dfi._models.seeds import named_seed
from dfi._scoring.scores import ReadFold, read_some_folds
from dfi.inference.hypotheses import p_values
from dfi.inference.multiplicity import adjust_p_values
from dfi.inference.noise_floor import NoiseFloor, Probe, noise_floor, probed_table, why_not
from dfi.inference.plausibility import (
    HIGH_ORDER,
    Fidelity,
    Totals,
    model_fidelity,
    score_totals,
)
from dfi.inference.score_transport import score_transport, thin
from dfi.inference.standard_errors import standard_errors
from dfi.transports.base import fit_transport
from dfi.transports.choice import latent_draws
from dfi.transports.copula import Copula
from dfi.transports.diagnostics import LatentDiagnostics, latent_diagnostics
from dfi.transports.gaussian import Gaussian
from dfi.warnings import ImplausibleScoreWarning, TransportWarning, warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._scoring.scores import Scores, Task
    from dfi._types import Bools, Floats, Ints

SHARE_OF_LINES = 0.1
"""Lines of the probes, at most, for each line of the features."""

FEWEST_ROWS, MOST_ROWS = 200, 2000
"""Rows that a check looks at."""

TRIAL_ROWS = 200
"""Rows on which another transport is tried before it is named."""

WORTH_CHANGING = 0.7
"""Another transport is worth naming where it leaves at most this share of the dependence."""

WORTH_NAMING = 0.05
"""Dependence matters where one of the two has at least this share of the latent scores."""

SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Alarm:
    """A reason to distrust a result.

    Attributes
    ----------
    text : str
        What is wrong, in plain words.
    category : type of warning or None
        How it is said when the result is made; None leaves it to the report.
    """

    text: str
    category: type[ImplausibleScoreWarning | TransportWarning] | None


def check_result(
    design: Any,
    transport: Any,
    scored: Scores,
    task: Task,
    membership: Floats,
    *,
    seed: np.random.SeedSequence,
    say: bool,
) -> dict[str, Any]:
    """Check a result, warn where it cannot be right, and return what was found.

    Parameters
    ----------
    design, transport : transport
        The specification and the fitted transport.
    scored : Scores
        The scores under it.
    task : Task
        Models and data.
    membership : ndarray of shape (n_latent, units)
        Which latent coordinates belong to which feature.
    seed : SeedSequence
        Of all that is random in the checks.
    say : bool
        Whether dependence that is left is an alarm.

    Returns
    -------
    dict
        ``latent``, ``totals``, ``noise_floor``, ``fidelity`` and ``alarms`` of the diagnostics.
    """
    names, weights = task.table.names, task.weights.take(scored.rows)
    influence = scored.attributed @ membership
    totals = score_totals(
        influence, scored.latent, names, weights, scored.predictions, task.y, task.weights,
        n_latent=transport.n_latent,
    )  # fmt: skip
    latent = latent_draws(transport, task.table.matrix[scored.rows], seed)
    reason = why_not(transport)
    floor: NoiseFloor | None = None
    below: tuple[str, ...] = ()
    if reason is None:
        probed = probed_table(
            task.table, scored.rows, weights, task.constant, named_seed(seed, "noise floor")
        )
        folds = _some_folds(task, probed.n_columns, transport.n_latent, seed)
        floor = noise_floor(
            design, transport, probed, scored.latent, folds, task, variance=totals.variance
        )
        below = _below(floor, influence, names, weights)
        predictions = [(fold.rows, fold.predict) for fold in folds]
    else:
        predictions = _predictions(task)
    # an entropic kernel has no row for a latent row, only an average of rows
    fidelity = None if hasattr(transport, "atoms") else model_fidelity(
        predictions, task.table.matrix, task.weights, latent, weights.values, transport.decode,
        named_seed(seed, "fidelity"),
    )  # fmt: skip
    owner = np.argmax(membership, axis=1)
    carries = _carries(weights.mean(scored.latent @ membership))
    left = latent_diagnostics(latent, seed, owner, carries)
    pair = [names[unit] for unit in left.most_dependent]
    alarms = [
        *_of_totals(totals, design, straight=reason is None),
        *_of_noise(floor, below, totals.variance),
    ]
    if fidelity is not None and fidelity.far:
        alarms.append(Alarm(_far(design, fidelity), TransportWarning))
    if left.dependent and say:
        text = _dependent(design, left, pair)
        tried = _tried(design, scored, task, left, totals.variance, owner, carries, seed)
        alarms.append(Alarm(f"{text}. {tried}", TransportWarning))
    for category in (ImplausibleScoreWarning, TransportWarning):
        texts = [alarm.text for alarm in alarms if alarm.category is category]
        if texts:
            warn(". ".join(texts), category)
    return {
        "latent": {**left.as_dict(), "most_dependent": pair},
        "totals": totals.as_dict(),
        "noise_floor": (
            {"not_measured": reason}
            if floor is None
            else {**floor.as_dict(), "significant_below": list(below)}
        ),
        "fidelity": {} if fidelity is None else fidelity.as_dict(),
        "alarms": [alarm.text for alarm in alarms],
    }


def _some_folds(
    task: Task, n_probes: int, n_latent: int, seed: np.random.SeedSequence
) -> tuple[ReadFold, ...]:
    """Read as many folds as keep the probes' lines a small share of the features'."""
    lines = SHARE_OF_LINES * len(task.rows) * n_latent
    return read_some_folds(
        task,
        count=int(np.clip(lines / n_probes, FEWEST_ROWS, MOST_ROWS)),
        seed=named_seed(seed, "lines of probes"),
    )


def _predictions(task: Task) -> list[Any]:
    """Return held-out rows and predictions of every fold, where no line model is at hand."""
    folds = thin(task.folds, FEWEST_ROWS, task.weights)

    def predict(predictors: Sequence[Any]) -> Any:
        return lambda points: np.mean([each(points) for each in predictors], axis=0)

    return [(fold.test, predict(fold.predictors)) for fold in folds if fold.repeat == 0]


def _below(
    floor: NoiseFloor, influence: Floats, names: Sequence[str], weights: Any
) -> tuple[str, ...]:
    """Return the features that are called significant and score no more than noise."""
    scores = weights.mean(influence)
    p = p_values(scores, standard_errors(influence, weights), alternative="greater")
    significant = adjust_p_values(p, "holm") <= SIGNIFICANT
    smaller = significant & (scores < floor.raised)
    return tuple(name for name, small in zip(names, smaller, strict=True) if small)


def _of_totals(totals: Totals, design: Any, *, straight: bool) -> list[Alarm]:
    """Say where there is more in the scores than there is in the outcome, or much less."""
    alarms = []
    if totals.above_variance:
        several = len(totals.above_variance) > 1
        who = f"{_listed(totals.above_variance)} {'score' if several else 'scores'}"
        text = f"{who} more than the whole variance of the outcome"
        text += (
            f", which no feature can carry: {'these scores are' if several else 'this score is'} "
            "too large, and no share of the variance"
            if straight
            else f": transport={design.name!r} weighs scores by the slopes of its curves, and they "
            "are no shares of the variance"
        )
        alarms.append(Alarm(text, ImplausibleScoreWarning if straight else None))
    if totals.impossible or totals.doubtful:
        text = (
            f"the latent scores add up to {totals.order:.3g} times the variance that the "
            "regression explains, "
        )
        text += (
            f"more than interactions of all {totals.n_latent} latent coordinates could: they "
            "cannot be right"
            if totals.impossible
            else f"which takes interactions of more than {HIGH_ORDER:.0f} latent coordinates on "
            "average: unless the regression is known to have them, the model is asked about rows "
            "that are unlike the data"
        )
        alarms.append(Alarm(text, ImplausibleScoreWarning if totals.impossible else None))
    if totals.low:
        alarms.append(
            Alarm(
                f"the scores add up to only {_percent(totals.total / totals.explained)} of the "
                "variance that the regression explains"
                + (
                    f": transport={design.name!r} with epsilon = {design.epsilon:g} blurs the "
                    "rows, and what is blurred is attributed to nothing"
                    if getattr(design, "epsilon", 0.0)
                    else ""
                ),
                None,
            )
        )
    return alarms


def _of_noise(floor: NoiseFloor | None, below: tuple[str, ...], variance: float) -> list[Alarm]:
    """Say where noise would be taken for a finding."""
    if floor is None:
        return []
    alarms = []
    if floor.significant:
        worst = max(floor.significant, key=lambda probe: probe.score)
        alarms.append(
            Alarm(
                f"a column of pure noise ({describe_probe(worst)}) scores "
                f"{_percent(worst.share)} of the outcome's variance here, and a test would call "
                f"it significant (adjusted p {worst.p_adj:.2g}): no score of that size or below is "
                "a finding",
                ImplausibleScoreWarning,
            )
        )
    if below:
        several = len(below) > 1
        alarms.append(
            Alarm(
                f"{_listed(below)} {'are' if several else 'is'} called significant, but "
                f"{'score' if several else 'scores'} less than a column of pure noise does here "
                f"({_percent(floor.raised / variance)} of the outcome's variance)",
                ImplausibleScoreWarning,
            )
        )
    return alarms


def describe_probe(probe: Probe) -> str:
    """Say what a probe is."""
    return "normal numbers" if probe.like is None else f"a permuted copy of {probe.like!r}"


def _far(design: Any, fidelity: Fidelity) -> str:
    return (
        f"the model is taken away from its data by transport={design.name!r}: where all latent "
        f"coordinates are drawn independently, its predictions have {fidelity.variance_ratio:.2f} "
        f"times the variance that they have at the rows, and their mean is "
        f"{abs(fidelity.mean_shift):.2f} standard deviations "
        f"{'lower' if fidelity.mean_shift < 0 else 'higher'}. Part of every score is what the "
        "model does where there are no rows"
    )


def _dependent(design: Any, left: LatentDiagnostics, pair: list[str]) -> str:
    return (
        f"the latent coordinates of {pair[0]!r} and {pair[1]!r} stay dependent under "
        f"transport={design.name!r} (distance correlation {left.max_distance_correlation:.2f}; "
        f"chance reaches {left.null_distance_correlation:.2f}): signal that the two share beyond "
        "correlation is not divided between them"
    )


def _tried(
    design: Any,
    scored: Scores,
    task: Task,
    before: LatentDiagnostics,
    variance: float,
    owner: Ints,
    carries: Bools,
    seed: np.random.SeedSequence,
) -> str:
    """Try normal scores in place of whitening, with the same models, and say what they change."""
    compare = "dfi.sensitivity(X, y, transports=[...]) shows what depends on the transport"
    if not isinstance(design, Gaussian) or design.epsilon > 0:
        return compare
    matrix, weights = task.table.matrix[scored.rows], task.weights.take(scored.rows)
    shared = {field.name for field in fields(Copula)} & {field.name for field in fields(design)}
    other = Copula(**{name: getattr(design, name) for name in shared - {"reference"}})
    fitted = fit_transport(other, matrix, weights, task.constant, task.table)
    left = latent_diagnostics(latent_draws(fitted, matrix, seed), seed, owner, carries)
    leaves = f"distance correlation {left.max_distance_correlation:.2f}"
    if left.max_distance_correlation > WORTH_CHANGING * before.max_distance_correlation:
        return f"transport='copula' was tried and leaves as much ({leaves}). {compare}"
    folds = thin([fold for fold in task.folds if fold.repeat == 0][:1], TRIAL_ROWS, task.weights)
    if not folds:
        return compare
    trial = replace(task, folds=folds, fixed=True, sensitivity="hermite", advance=None)
    found = score_transport(other, fitted, trial)
    chosen = task.weights.take(found.rows)
    same = scored.attributed[np.searchsorted(scored.rows, found.rows)]
    shares = [chosen.mean(part.sum(axis=1))[0] / variance for part in (same, found.attributed)]
    return (
        f"transport='copula' was tried and leaves less ({leaves}): on {len(found.rows)} rows the "
        f"scores add up to {_percent(shares[1])} of the outcome's variance with it, and to "
        f"{_percent(shares[0])} with {design.name!r}. {compare}"
    )


def _carries(scores: Floats) -> Bools:
    """Tell which features have a latent score worth speaking of."""
    positive = np.maximum(scores, 0.0)
    return np.asarray(positive >= WORTH_NAMING * positive.sum())


def _listed(names: Sequence[str]) -> str:
    shown = [repr(name) for name in names[:3]]
    if len(names) > 3:
        return ", ".join(shown) + f" and {len(names) - 3} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"
