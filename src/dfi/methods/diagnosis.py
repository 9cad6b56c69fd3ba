r"""What a reader needs to judge a result: its transport, its rows, and checks of its scores.

Can it be right, what does noise score, does the transport suit the rows? Every alarm is one
sentence or two; the same words go to the warning, to ``result.diagnostics["alarms"]`` and to the
top of the report.

**Totals.** With independent latents :math:`\phi_{Z_j} = E\,Var(\eta \mid Z_{-j})` is the sum of all
parts of the analysis of variance of :math:`\eta` in which coordinate ``j`` takes part. So no score
exceeds :math:`Var(\eta) \le Var(Y)`, and

.. math:: \frac{\sum_j \phi_{Z_j}}{Var(\eta)} = \sum_S |S| \frac{V_S}{Var(\eta)}

is the average order of interaction: 1 for additive regressions, at most ``d``. What it may be the
model itself tells (:class:`Fidelity`), and a sum that is surely elsewhere is an alarm. Under a
linear map a feature of one column is attributed a weighted mean of latent scores and obeys the same
bounds; a category whose columns are added up, or a curved map whose slopes weigh them, can break
them, and a score that does is not a share of the variance. An entropic map blurs the rows first,
and its scores add up to less.

**Fidelity.** The scores ask the model about rows whose latent coordinates are drawn apart. If the
transport is right all of them together drawn apart are again rows like the data, and

.. math:: \frac{Var f(S(\tilde Z))}{Var f(X)}, \qquad
          \frac{E f(S(\tilde Z)) - E f(X)}{sd\, f(X)}

are 1 and 0, whatever the model. Far from it, the model was asked about rows it was not fitted for.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dfi._models.seeds import named_seed
from dfi._parameters import argument, worded
from dfi._scoring.forms import CROSSED
from dfi._scoring.scores import ReadFold, read_some_folds
from dfi.inference.influence import standard_errors
from dfi.inference.tests import adjust_p_values, p_values
from dfi.methods.noise_floor import NoiseFloor, Probe, noise_floor, probed_table
from dfi.transports.auto import LatentDiagnostics, alternative_to, latent_diagnostics
from dfi.transports.base import Fitted, thin
from dfi.transports.probes import why_unprobed
from dfi.warnings import (
    ImplausibleScoreWarning,
    InferenceWarning,
    LeakWarning,
    TransportWarning,
    WeakModelWarning,
    warn,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dfi._data.columns import Column
    from dfi._data.weights import Weights
    from dfi._models.fits import Fits
    from dfi._scoring.forms import ScoreForm
    from dfi._scoring.scores import Scores, Task
    from dfi._types import Bools, Floats, Ints
    from dfi.transports.base import FittedTransport, Transport
    from dfi.transports.covariance import Estimated

    Predict: TypeAlias = Callable[[Floats], Floats]

ROWS_PER_COLUMN = 6
"""Rows for each latent coordinate up to which scores are visibly biased."""

FEW_ROWS = 60
"""Rows below which a result says what so few allow."""

STILL_LEARNING = 0.25
"""Share of what models find above which they are still learning when their rows are doubled."""

CHANCE = (
    "large ones towards 0 and small ones upwards, because chance correlations spread signal over "
    "the columns"
)

RULES = 0.5
"""Share of a score's squared influence above which one row rules it."""

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

ERRORS = 2.0
"""Standard errors by which a bound must be missed before it is said."""

HIGH_ORDER = 2.0
"""Average order of interaction above which the sum of the scores is doubtful."""

LOW_SHARE = 0.5
"""Share of the explained variance below which the sum of the scores is called low."""

GROSS = 0.5
"""Share of the outcome's variance by which a score exceeds it that no error excuses."""

HARDLY = 0.01
"""Share of a bound that is none to miss it by: a product of two has an order of 2 to the letter."""

TOLERANCE = 0.1
"""Share of what is explained by which scores may miss it: linear models on eight real tables are
within .04 of it."""

ADDITIVE = 1e-6
"""Share of what is explained up to which an interaction is rounding."""

OF_INTERACTION = 3.0
"""What interactions add to the sum of the scores, over what :class:`Fidelity` sees of them: 2 for
those of two coordinates, 2.7 of three, 3.4 of four."""

VARIANCE_RATIOS = (0.7, 1.4)
MEAN_SHIFT = 0.3
"""Fidelity is good between these ratios of variances, and below this shift in deviations."""

MOST_DRAWS = 1000
MOST_PAIRS = 250
"""Draws that are mixed with each other to see interactions."""

KEPT_VARIANCE, NEARER, MUCH_NEARER, KEPT_DRAWS = 1.15, 1.05, 2.0, 4000
"""Factor within which correlations keep the variance of predictions; by which the sample's are to
be nearer, where they keep it and where they do not; draws, with which a ratio of variances is known
to 2 %."""


def explain_diagnostics(
    transport: FittedTransport,
    scored: Scores,
    gained: Floats,
    task: Task,
    seed: np.random.SeedSequence,
    *,
    diagnose: bool,
    say: bool,
    observed: bool = True,
    instead: str = "",
) -> dict[str, object]:
    """Return what a reader needs to judge the transport, the scores and the asymptotics.

    ``gained`` (n, 2) is what the outcome's mean loses and what models explain of it, row by row.
    ``diagnose`` checks the scores (noise floor, totals, fidelity) and the dependence that is left,
    which ``say`` warns of; ``seed`` is that of all that is random in the checks. Of an outcome that
    was ``observed``, columns that hold it are named too. ``instead`` is what
    :func:`keeping_variance` says.
    """
    found: dict[str, object] = {
        "lines": scored.rule,
        "n_latent": transport.n_latent,
        "standard_errors": scored.standard_errors,
        "asymptotics": warn_of_few_rows(task.n_fitted, transport, instead),
        **scored.diagnostics,
    }
    if instead:
        found["covariance_instead"] = instead
    found |= transport.diagnostics(transport.owner(task.columns))
    components = unit_components(task.columns, transport)
    if components is not None:
        found["n_components"] = len(components)
        found["largest_component"] = max(map(len, components))
    if diagnose:
        if not task.by_unit:
            found["overlap"] = _overlap(transport, scored, task)
        found |= check_result(
            transport, scored, gained, task, seed=seed, say=say, observed=observed
        )
    return found


def keeping_variance(
    transport: Fitted,
    task: Task,
    seed: np.random.SeedSequence,
    fit: Callable[[Transport], Fitted],
) -> tuple[Fitted, str]:
    """Return a transport that keeps the variance of the models' predictions, and what was done.

    Opposite effects of columns that are nearly collinear cancel under the sample correlation, and
    may not under another one. Where predictions at latent coordinates that are drawn apart have
    not the variance that they have at the rows, up to :data:`KEPT_VARIANCE`, and are nearer to it
    under the sample correlation, by :data:`NEARER`, ``covariance="auto"`` takes that one. A sample
    correlation that does not keep it either (HIV-1, 611 rows of 832 columns: .37, factors .30) has
    to be :data:`MUCH_NEARER`.
    """
    design, estimate = transport.design, transport.correlations
    asked = design.specification().get("covariance")
    if asked != "auto" or estimate.of_sample:
        return transport, ""
    ratio = _variance_ratio(transport, task, seed)
    if 1.0 / KEPT_VARIANCE <= ratio <= KEPT_VARIANCE:
        return transport, ""
    sample = fit(design.by_sample())
    nearer = _variance_ratio(sample, task, seed)
    keeps = 1.0 / KEPT_VARIANCE <= nearer <= KEPT_VARIANCE
    if abs(np.log(nearer)) + np.log(NEARER if keeps else MUCH_NEARER) >= abs(np.log(ratio)):
        return transport, ""
    return sample, (
        f"the sample correlation, noisy as it is: under {estimate.used} predictions would have "
        f"{ratio:.3g} times the variance that they have at the rows, and scores with them"
    )


def _variance_ratio(transport: FittedTransport, task: Task, seed: np.random.SeedSequence) -> float:
    """Return the variance of predictions at latents drawn apart over that at all rows."""
    latent = transport.draw(task.matrix[task.rows], np.random.default_rng(seed))
    found = model_fidelity(
        [(task.rows, predict) for _, predict in _predictions(task)], task.matrix, task.weights,
        latent, task.weights.take(task.rows).values, transport.decode, named_seed(seed, "apart"),
        transport.drawn_as_one, lambda orders: transport.undecoded(task.matrix, task.rows[orders]),
        most=KEPT_DRAWS,
    )  # fmt: skip
    return 1.0 if found is None else max(found.variance_ratio, 1e-300)


def warn_of_few_rows(n: int, transport: FittedTransport, instead: str = "") -> str:
    """Return whether rows are enough for as many columns, and warn where they are not.

    With the true regression (AR(.6) columns, five signals) the five largest scores come out at
    .91, .73 and .49 of the truth where there are 6, 1.5 and .75 rows for each column, small ones
    at 1.5, 4.7 and 8.9 times it; standard errors are near the spread all along. That is the sample
    correlation; what the others do is in :mod:`dfi.transports.covariance`.
    """
    d, design = transport.n_dependent, transport.design
    if n > ROWS_PER_COLUMN * d:
        return f"more than {ROWS_PER_COLUMN} rows for each column"
    bias, advice = _bias_of_few_rows(transport.correlations), ""
    if instead:
        advice = f". The transport takes {instead}"
    elif design.shrinkage is not None and not design.published and bias == CHANCE:
        factor = (
            f"; transport=dfi.transports.{type(design).__name__}(covariance='factor') lessens the "
            "bias of the transport where few directions are shared by many columns, not that of "
            "the regression"
        )
        advice = worded(factor, "")
    warn(
        f"{n} rows for {d} columns that may depend on each other: with {ROWS_PER_COLUMN} rows or "
        f"fewer for each column the scores themselves are biased, {bias}; "
        f"standard errors do not show it. Use fewer columns or more rows{advice}",
        InferenceWarning,
    )
    return f"at most {ROWS_PER_COLUMN} rows for each column: scores are biased"


def small_sample(fits: Fits, form: ScoreForm) -> str | None:
    """Return what a table of few rows allows; None where rows are not that few.

    Where models were fitted to them it is a warning: a model from elsewhere may have seen more.
    """
    n = round(fits.weights.take(fits.rows).total)
    if n >= FEW_ROWS:
        return None
    learned = ""
    if not fits.prefit:
        counted = fits.weights.values > 0
        trained = min(int(counted[fold.train].sum()) for fold in fits.folds)
        rows = trained // 2 if form in CROSSED else trained
        learned = f"each model learned from {rows} of them, and "
    text = (
        f"{n} rows are few: {learned}standard errors are those of {n} values. Large scores can be "
        "told from noise, a score of 0 does not say that a feature has no signal, and intervals "
        "are rough"
    )
    if not fits.prefit:
        warn(f"{text}. Use more rows or fewer columns", InferenceWarning)
    return text


def two_folds(fits: Fits, totals: object) -> str | None:
    """Return what two folds cost a model without interactions; None for others.

    Each fold's models then learned from all that the other holds out, and their errors go together:
    least squares, six independent columns, 100 and 300 rows: nulls are rejected in .15 of 240 cases
    at 5 %, .09 with three folds, .04 with five.
    """
    rigid = isinstance(totals, dict) and bool(totals.get("additive"))
    if fits.prefit or not rigid or min(map(len, fits.repeats)) > 2:
        return None
    return (
        "two folds are few for so rigid a model: features without signal are called significant "
        f"at 5 % in up to 17 % of samples. Use {argument('cv', 5)}"
    )


def ruling_row(fits: Fits, scores: Scores, membership: Floats, task: Task) -> list[str]:
    """Return which row holds most of a score's squared influence, if any does, and warn.

    Scores below a twentieth of the whole are passed over.
    """
    weights = task.weights.take(scores.rows)
    influence = scores.attributed @ membership
    means = weights.mean(influence)
    held = (weights.values[:, None] * (influence - means)) ** 2
    total = held.sum(axis=0)
    share = np.divide(held.max(axis=0), total, out=np.zeros(len(means)), where=total > 0)
    spread = float(weights.mean((task.y[scores.rows] - weights.mean(task.y[scores.rows])) ** 2)[0])
    share[np.abs(means) < WORTH_NAMING * max(spread, means.sum())] = 0.0
    if share.max(initial=0.0) <= RULES:
        return []
    worst = int(share.argmax())
    row = fits.data.label_of(int(scores.rows[held[:, worst].argmax()]))
    others = int(np.count_nonzero(share > RULES)) - 1
    text = (
        f"row {row} alone holds {100 * share[worst]:.0f} % of the squared influence on "
        f"{task.names[worst]!r}"
        + (f", and one row rules {others} more score{'s' * (others > 1)}" if others else "")
        + ": look at it, and explain the table without it too"
    )
    warn(text, InferenceWarning)
    return [text]


def learning_curve(
    models: Scores, smaller: Scores, membership: Floats, task: Task, *, say: bool
) -> dict[str, object]:
    """Return how scores grew with the training rows, and whether they still do.

    By unit the latent cross scores of models fitted on halves and on quarters of the training
    rows. Where more than :data:`STILL_LEARNING` of their sum was gained by the second half, the
    regression is too weak for its scores: even extrapolated ones may lie far below the truth.
    """
    weights = task.weights.take(models.rows)
    names = task.names[: membership.shape[1]]
    halves, quarters = (weights.mean(scores.latent) @ membership for scores in (models, smaller))
    total, before = float(halves.sum()), float(quarters.sum())
    gained = (total - before) / total if total > 0 else float("nan")
    unsettled = bool(gained > STILL_LEARNING)
    words = (
        f"{100.0 * max(gained, 0.0):.0f} % of what the models find came with the second half of "
        "their training rows: scores are extrapolated from models of both sizes"
        if np.isfinite(gained)
        else "the models find nothing to extrapolate"
    )
    if unsettled:
        words = (
            f"the regression is still learning: {100.0 * gained:.0f} % of what it finds came with "
            "the second half of its training rows, so scores may be far too low even though they "
            "are extrapolated"
        )
        if say:
            better = worded("an estimator", "a --model")
            warn(f"{words}. Use more rows, or {better} that suits them better", WeakModelWarning)
    return {
        "halves": dict(zip(names, halves.tolist(), strict=True)),
        "quarters": dict(zip(names, quarters.tolist(), strict=True)),
        "gained": gained,
        "unsettled": unsettled,
        "words": words,
    }


def calibration_of(scores: Scores, membership: Floats, task: Task) -> dict[str, object] | None:
    """Return what the calibrated form did to the latent scores; None for another form.

    By unit the factor, on average over folds and the unit's coordinates, and the score in the cross
    form beside the calibrated one, both with the transport taken as known and without its
    second-order bias; of all together the share of the calibrated sum that the cross form finds.
    """
    calibration = scores.calibration
    if calibration is None:
        return None
    names = task.names[: membership.shape[1]]
    cross = calibration.cross @ membership
    found = task.weights.take(scores.rows).mean(scores.known.latent) @ membership
    factor = calibration.factor @ membership / np.maximum(membership.sum(axis=0), 1.0)
    # the cross form is at most the calibrated one but for noise, and a sum of noise has no share
    share = float(cross.sum() / found.sum()) if found.sum() > 0 else None
    of_found = found.sum() > 0 and cross.sum() > 0
    words = (
        f"the models find about {100.0 * min(float(share or 0.0), 1.0):.0f} % of the signal that "
        f"they point at: calibrated scores add up to {float(found.sum() / cross.sum()):.2f} times "
        "those of the cross form"
        if of_found
        else "the models point at no signal: there is nothing to calibrate"
    )
    return {
        "factor": dict(zip(names, factor.tolist(), strict=True)),
        "cross": dict(zip(names, cross.tolist(), strict=True)),
        "calibrated": dict(zip(names, found.tolist(), strict=True)),
        "found_share": share if of_found else None,
        "words": words,
    }


def score_membership(transport: FittedTransport, task: Task) -> Floats:
    """Return the matrix (scores, units): which scores are added up for a unit, as 0 and 1.

    Of Shapley values, units that several targets hold are divided evenly between them.
    """
    varying = transport.membership(task.columns)
    if task.targets is None:
        return varying
    if task.by_unit:
        holds = np.zeros((varying.shape[1], len(task.targets)))
        for place, target in enumerate(task.targets):
            holds[list(target.units), place] = 1.0
        return np.asarray(varying @ (holds / np.maximum(holds.sum(axis=1, keepdims=True), 1.0)))
    units = set(np.flatnonzero(varying.any(axis=0)).tolist())
    kept = [bool(units.intersection(target.units)) for target in task.targets]
    return np.eye(len(kept))[kept]


def _bias_of_few_rows(estimate: Estimated) -> str:
    """Return in which way, by how the correlations were estimated."""
    if estimate.factors is not None:
        return (
            f"because correlations are those of {estimate.factors} common factors (covariance="
            "'factor'): what columns share beside them, in pairs or with neighbours, is left out "
            "and counted for the wrong ones"
        )
    if not estimate.of_sample:
        return (
            "because correlations are shrunken (covariance='qis'): columns that are related get "
            "some of each other's score"
        )
    if estimate.shrinkage > 0:
        return "towards 0, because correlations are shrunken"
    return CHANCE


def unit_components(
    columns: Sequence[Column], transport: FittedTransport
) -> tuple[tuple[str, ...], ...] | None:
    """Return the dependence components as names of units; None for a transport without them.

    Units that do not vary belong to none.
    """
    labels = transport.labels
    if labels is None:
        return None
    owner = transport.owner(columns)
    found: dict[int, list[str]] = {}
    for unit, column in enumerate(columns):
        places = np.flatnonzero(owner == unit)
        if len(places):
            found.setdefault(int(labels[places[0]]), []).append(column.name)
    return tuple(map(tuple, found.values()))


def _overlap(transport: FittedTransport, scored: Scores, task: Task) -> dict[str, object]:
    r"""Compare the scores of groups that overlap with those of their atoms, on the first split.

    For independent atoms :math:`\max_a \psi_a \le \psi_G \le \sum_a \psi_a`: a ratio above 1 shows
    dependence that is left between atoms, one below 1 interactions between them.
    """
    folds = [fold for fold in task.folds if fold.repeat == 0]
    apart = replace(task, folds=folds, targets=None, transport_error="ignore", advance=None)
    atoms = transport.plain_scores(apart).latent_by_repeat[0] @ transport.membership(task.columns)
    joint = scored.known.latent_by_repeat[0] @ score_membership(transport, task)
    ratios = {}
    for target, score in zip(task.targets or (), joint, strict=True):
        total = float(atoms[list(target.units)].sum())
        if len(target.units) > 1 and total > 0:
            ratios[target.name] = float(score) / total
    held = sorted({unit for target in task.targets or () for unit in target.units})
    return {
        "atoms": {task.columns[unit].name: float(atoms[unit]) for unit in held},
        "of_atoms": ratios,
    }


def undetected_scores(transport: FittedTransport, scored: Scores, task: Task) -> Floats:
    """Return the score that each unit may have through dependence that the tests missed.

    Half of the bound on the squared multiple correlation of its component with the rest, times
    the sum of all scores (:mod:`dfi.transports.components`).
    """
    bound = np.zeros(len(task.columns))
    if transport.missed is not None:
        np.maximum.at(bound, transport.owner(task.columns), transport.missed)
    if task.targets is not None:
        bound = np.array([bound[list(target.units)].max(initial=0.0) for target in task.targets])
    total = max(0.0, float(scored.latent_by_repeat.mean(axis=0).sum()))
    return np.asarray(0.5 * total * bound)


LEAKED_SHARE = 0.999
"""Share of the outcome's variance above which a sum of columns tells it."""

MOST_LEAKED = 300
"""Columns up to which sums of them are looked at, on :data:`MOST_ROWS` rows."""

FEWEST_LEAKED = 21
"""Rows from which a column that tells the outcome in each of them is no accident."""

LEAKED_ROWS = 10
"""Rows for each level of a category from which it is no accident that one outcome is in all."""


@dataclass(frozen=True)
class Alarm:
    """A reason to distrust a result, in plain words."""

    text: str
    category: type[ImplausibleScoreWarning | LeakWarning | TransportWarning]


def check_result(
    transport: FittedTransport,
    scored: Scores,
    gained: Floats,
    task: Task,
    *,
    seed: np.random.SeedSequence,
    say: bool,
    observed: bool,
) -> dict[str, object]:
    """Check a result, warn where it cannot be right, and return what was found.

    ``say`` tells whether dependence that is left is an alarm, ``observed`` whether columns are that
    hold the outcome.
    """
    design, membership = transport.design, score_membership(transport, task)
    names, weights = task.names, task.weights.take(scored.rows)
    influence = scored.attributed @ membership
    totals = score_totals(
        influence, scored.latent, gained, names, weights,
        n_latent=scored.latent.shape[1], square=task.loss.is_square, times_counted=_counted(task),
    )  # fmt: skip
    latent = transport.draw(task.table.matrix[scored.rows], np.random.default_rng(seed))
    reason = why_unprobed(transport, task)
    floor: NoiseFloor | None = None
    below: tuple[str, ...] = ()
    predictions: list[tuple[Ints, Predict]]
    if reason is None:
        probed = probed_table(
            task.table, task.columns, scored.rows, weights, task.constant,
            named_seed(seed, "noise floor"),
        )  # fmt: skip
        folds = _some_folds(task, probed.n_columns, transport.n_latent, seed)
        floor = noise_floor(
            transport, probed, scored.latent, folds, task,
            variance=totals.variance, stretch=scored.stretch,
        )  # fmt: skip
        below = _below(floor, influence, names, weights)
        predictions = [(fold.rows, fold.predict) for fold in folds]
    else:
        predictions = _predictions(task)
    fidelity = None if not transport.returns_rows else model_fidelity(
        predictions, task.table.matrix, task.weights, latent, weights.values, transport.decode,
        named_seed(seed, "fidelity"), transport.drawn_as_one,
        lambda orders: transport.undecoded(task.matrix, scored.rows[orders]),
    )  # fmt: skip
    if fidelity is not None and totals.square and task.by_unit:
        totals = replace(totals, interaction=fidelity.interaction)
    owner = transport.owner(task.columns)
    carries = np.ones(len(task.columns), dtype=np.bool_)
    if task.by_unit:
        carries = _carries(weights.mean(scored.latent @ transport.membership(task.columns)))
    left = latent_diagnostics(latent, seed, owner, carries)
    pair = [task.columns[unit].name for unit in left.most_dependent]
    alarms = [
        *(_of_leaks(task) if observed else ()),
        *_of_totals(totals, design, straight=transport.shares_variance, form=task.form),
        *_of_noise(floor, below, totals),
    ]
    if fidelity is not None and fidelity.far:
        alarms.append(Alarm(_far(design, fidelity), TransportWarning))
    if left.dependent and say:
        text = _dependent(design, left, pair)
        tried = _tried(design, scored, task, left, totals, carries, seed)
        alarms.append(Alarm(f"{text}. {tried}", TransportWarning))
    for category in (LeakWarning, ImplausibleScoreWarning, TransportWarning):
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
    lines = SHARE_OF_LINES * len(task.explained) * n_latent
    return read_some_folds(
        task,
        count=int(np.clip(lines / n_probes, FEWEST_ROWS, MOST_ROWS)),
        seed=named_seed(seed, "lines of probes"),
    )


def _predictions(task: Task) -> list[tuple[Ints, Predict]]:
    """Return held-out rows and predictions of every fold, where no line model is at hand."""
    folds = thin(task.folds, FEWEST_ROWS, task.weights)

    def predict(predictors: Sequence[Predict]) -> Predict:
        return lambda points: np.mean([each(points) for each in predictors], axis=0)

    return [(fold.test, predict(fold.predictors)) for fold in folds if fold.repeat == 0]


def _below(
    floor: NoiseFloor, influence: Floats, names: Sequence[str], weights: Weights
) -> tuple[str, ...]:
    """Return the features that are called significant and score no more than noise."""
    scores = weights.mean(influence)
    weights = weights.settled(influence)
    errors = standard_errors(influence, weights)
    p = p_values(scores, errors, alternative="greater", degrees=weights.degrees)
    significant = adjust_p_values(p, "holm") <= SIGNIFICANT
    smaller = significant & (scores < floor.raised)
    return tuple(name for name, small in zip(names, smaller, strict=True) if small)


def _of_leaks(task: Task) -> list[Alarm]:
    """Say which columns hold the outcome: what they score is no finding about other rows."""
    counted = np.flatnonzero(task.weights.values > 0)
    if len(counted) < FEWEST_LEAKED:
        return []
    y = task.y[counted]
    names = [column.name for column in task.table.columns if _tells(task, column, counted, y)]
    if not names:
        return _of_leaked_sums(task, counted)
    few = len(names) == 1
    text = (
        f"{_listed(names)} {'holds' if few else 'hold'} the outcome itself, or "
        f"{'tells' if few else 'tell'} it in every row: leave {'it' if few else 'them'} out, "
        f"unless {'it is' if few else 'they are'} known before the outcome is"
    )
    return [Alarm(text, LeakWarning)]


def _of_leaked_sums(task: Task, counted: Ints) -> list[Alarm]:
    """Say which columns tell the outcome by a linear combination, all but a thousandth of it."""
    rows = counted[np.unique(np.linspace(0, len(counted) - 1, MOST_ROWS).astype(np.intp))]
    varying = np.flatnonzero(~task.constant)
    if len(varying) > MOST_LEAKED:
        return []
    X = task.table.matrix[np.ix_(rows, varying)]
    X = X - X.mean(axis=0)
    X /= np.maximum(np.sqrt(np.mean(X**2, axis=0)), 1e-300)
    y = task.y[rows] - task.y[rows].mean()
    most, told_apart = min(len(varying), len(rows) // 8), 3 * len(varying) <= len(rows)
    if told_apart and _left(X, y) > 1.0 - LEAKED_SHARE:
        return []
    chosen: list[int] = []
    residual = y
    while _left(X[:, chosen], y) > 1.0 - LEAKED_SHARE:
        if len(chosen) == most:
            return []
        gain = np.abs(X.T @ residual)
        gain[chosen] = -1.0
        chosen.append(int(gain.argmax()))
        part = X[:, chosen]
        residual = y - part @ np.linalg.lstsq(part, y, rcond=None)[0]
    for place in tuple(chosen):
        fewer = [other for other in chosen if other != place]
        if _left(X[:, fewer], y) <= 1.0 - LEAKED_SHARE:
            chosen = fewer
    told = {int(varying[place]) for place in chosen}
    names = [c.name for c in task.table.columns if told.intersection(c.positions)]
    few = len(names) == 1
    they, how = ("it", "straight line") if few else ("them", "linear combination")
    text = (
        f"{_listed(names)} {'tells' if few else 'tell'} the outcome by a {how}, all but "
        f"{1 - LEAKED_SHARE:.1%} of its variance: leave {they} out, if the outcome was computed "
        f"from {they} or the other way round"
    )
    return [Alarm(text, LeakWarning)]


def _left(X: Floats, y: Floats) -> float:
    """Return the share of a centred outcome's variance that least squares leave, adjusted."""
    n, d = X.shape
    residual = y - X @ np.linalg.lstsq(X, y, rcond=None)[0] if d else y
    return float((residual @ residual) / (y @ y) * (n - 1) / (n - 1 - d))


def _tells(task: Task, column: Column, rows: Ints, y: Floats) -> bool:
    r"""Return whether a column tells the outcome in every row, up to rounding.

    Numbers do that are on one straight line with it, :math:`x = a + b y`; a category does with an
    outcome of two values, 0 and 1, that is the same in all rows of a level.
    """
    if column.kind == "categorical":
        if column.width * LEAKED_ROWS > len(rows) or not np.all((y == 0.0) | (y == 1.0)):
            return False
        codes = column.decode(task.table.matrix[:, list(column.positions)][rows])
        return len(np.unique(codes)) == len(np.unique(2 * codes + y))
    if column.width > 1:
        return False
    values = task.table.matrix[rows, column.positions[0]]
    low, high = int(y.argmin()), int(y.argmax())
    wide = y[high] - y[low]
    slope = (values[high] - values[low]) / wide
    room = 1e-9 * abs(values[high] - values[low])
    # a few rows tell of almost every column that it is none
    for part in (slice(0, 64), slice(None)):
        line = values[low] + slope * (y[part] - y[low])
        if room == 0.0 or not np.all(np.abs(values[part] - line) <= room):
            return False
    return True


def _of_totals(
    totals: Totals, design: Transport, *, straight: bool, form: ScoreForm = "cross"
) -> list[Alarm]:
    """Say where there is more in the scores than there is in the outcome, or much less."""
    alarms = []
    if totals.above_variance:
        several = len(totals.above_variance) > 1
        who = f"{_listed(totals.above_variance)} {'score' if several else 'scores'}"
        text = f"{who} more than {totals.whole}"
        text += (
            f", which no feature can carry: {'these scores are' if several else 'this score is'} "
            "too large, and no share of it"
            if straight
            else f": {argument('transport', design.name)} weighs scores by the slopes of its "
            "curves, and they are not shares of it. Compare with "
            f"{argument('transport', 'gaussian')}"
        )
        alarms.append(Alarm(text, ImplausibleScoreWarning))
    told = _of_sum(totals, design, form, straight=straight)
    return alarms if told is None else [*alarms, Alarm(told, ImplausibleScoreWarning)]


NOT_ONE = (
    "they must add up to 1 times it, and the transport does not have the correlations of the rows. "
    "Leave out columns that nearly repeat others, merge rare levels, or use more rows"
)


def _of_sum(totals: Totals, design: Transport, form: ScoreForm, *, straight: bool) -> str | None:
    """Say that the scores add up to another number than they can, and why; None where they do."""
    # a blur is asked for, and takes from all scores
    off = totals.unaccounted and not design.epsilon
    if not (off or totals.impossible or totals.doubtful or totals.low):
        return None
    unit = "variance" if totals.square else "loss"
    unlike = "the model is asked about rows that are unlike the data"
    if not totals.explained > 0 or (totals.doubtful and not totals.clear):
        return (
            f"the scores add up to {totals.of_variance:.3g} times {totals.whole}, of which the "
            f"regression explains nothing for sure: {unlike}"
        )
    ratio, order = totals.total / totals.explained, totals.latent_total / totals.explained
    if not (totals.impossible or totals.doubtful or (off and order > 1.0)):
        text = f"the scores add up to only {_percent(ratio)} of the {unit} that the regression "
        return f"{text}explains{_why_low(totals, design, form)}"
    if not straight and ratio > order:
        return (
            f"the scores add up to {ratio:.3g} times the {unit} that the regression explains, "
            f"because {argument('transport', design.name)} weighs them by the slopes of its "
            f"curves: they are not shares of it. Compare with {argument('transport', 'gaussian')}"
        )
    # categories can have a sum of their own
    latent = order > ratio or not totals.doubtful
    text = (
        f"the {'latent ' * latent}scores add up to {order if latent else ratio:.3g} times the "
        f"{unit} that the regression explains, "
    )
    if totals.additive:
        return f"{text}and it has no interactions: {NOT_ONE}"
    if totals.impossible:
        return (
            f"{text}more than interactions of all {totals.n_latent} latent coordinates could: they "
            "cannot be right"
        )
    if off:
        return (
            f"{text}and its own interactions account for {totals.most:.2f} times at most: {unlike}"
        )
    if totals.square:
        return (
            f"{text}which takes interactions of more than {HIGH_ORDER:.0f} latent coordinates on "
            f"average: unless the regression is known to have them, {unlike}"
        )
    return f"{text}counted several times where features act together: they are no shares of it"


def _why_low(totals: Totals, design: Transport, form: ScoreForm) -> str:
    if design.epsilon:
        return (
            f": {argument('transport', design.name)} with epsilon = {design.epsilon:g} blurs the "
            "rows, and what is blurred is attributed to nothing"
        )
    if totals.additive:
        return f", and it has no interactions: {NOT_ONE}"
    if form == "loco" and totals.square:
        return (
            f": in {argument('form', 'loco')} what a model has learned of noise is counted "
            f"against its scores. Compare with {argument('form', 'cpi')}"
        )
    return (
        ": the models disagree where correlated features are taken apart, about rows that are "
        f"unlike the data. Compare {argument('estimator', 'linear')} with 'boosting', or leave out "
        "a column that others determine"
    )


def _of_noise(floor: NoiseFloor | None, below: tuple[str, ...], totals: Totals) -> list[Alarm]:
    """Say where noise would be taken for a finding."""
    if floor is None:
        return []
    alarms = []
    if floor.significant:
        worst = max(floor.significant, key=lambda probe: probe.score)
        alarms.append(
            Alarm(
                f"a column of pure noise ({describe_probe(worst)}) scores "
                f"{_percent(worst.share)} of {totals.whole} here, and a test would call "
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
                f"({_percent(floor.raised / totals.variance)} of {totals.whole})",
                ImplausibleScoreWarning,
            )
        )
    return alarms


def describe_probe(probe: Probe) -> str:
    """Say what a probe is."""
    return "normal numbers" if probe.like is None else f"a permuted copy of {probe.like!r}"


def _far(design: Transport, fidelity: Fidelity) -> str:
    return (
        f"the model is taken away from its data by {argument('transport', design.name)}: where all "
        "latent coordinates are drawn independently, its predictions have "
        f"{fidelity.variance_ratio:.2f} times the variance that they have at the rows, and their "
        f"mean is {abs(fidelity.mean_shift):.2f} standard deviations "
        f"{'lower' if fidelity.mean_shift < 0 else 'higher'}. Part of every score is what the "
        "model does where there are no rows"
    )


def _dependent(design: Transport, left: LatentDiagnostics, pair: list[str]) -> str:
    return (
        f"the latent coordinates of {pair[0]!r} and {pair[1]!r} stay dependent under "
        f"{argument('transport', design.name)} (distance correlation "
        f"{left.max_distance_correlation:.2f}; chance reaches "
        f"{left.null_distance_correlation:.2f}): signal that the two share beyond correlation is "
        "not divided between them"
    )


def _tried(
    design: Transport,
    scored: Scores,
    task: Task,
    before: LatentDiagnostics,
    totals: Totals,
    carries: Bools,
    seed: np.random.SeedSequence,
) -> str:
    """Try normal scores in place of whitening, with the same models, and say what they change."""
    call = worded("dfi.sensitivity(X, y, transports=[...])", "dfi sensitivity")
    compare = f"{call} shows what depends on the transport"
    other = alternative_to(design)
    if task.columns != task.table.columns:
        return "No other transport takes groups as units"
    if other is None:
        return compare
    matrix, weights = task.table.matrix[scored.rows], task.weights.take(scored.rows)
    fitted = other.fit_matrix(matrix, weights, task.constant, columns=task.table.columns)
    draws = fitted.draw(matrix, np.random.default_rng(seed))
    left = latent_diagnostics(draws, seed, fitted.owner(task.columns), carries)
    leaves = f"distance correlation {left.max_distance_correlation:.2f}"
    if left.max_distance_correlation > WORTH_CHANGING * before.max_distance_correlation:
        return (
            f"{argument('transport', 'copula')} was tried and leaves as much ({leaves}). {compare}"
        )
    folds = thin([fold for fold in task.folds if fold.repeat == 0][:1], TRIAL_ROWS, task.weights)
    if not folds:
        return compare
    trial = replace(task, folds=folds, transport_error="ignore", advance=None)
    found = fitted.score(trial)
    chosen = task.weights.take(found.rows)
    same = scored.attributed[np.searchsorted(scored.rows, found.rows)]
    shares = [
        chosen.mean(part.sum(axis=1))[0] / totals.variance for part in (same, found.attributed)
    ]
    return (
        f"{argument('transport', 'copula')} was tried and leaves less ({leaves}): on "
        f"{len(found.rows)} rows the scores add up to {_percent(shares[1])} of {totals.whole} with "
        f"it, and to {_percent(shares[0])} with {design.name!r}. {compare}"
    )


def _carries(scores: Floats) -> Bools:
    """Return which features have a latent score worth speaking of."""
    positive = np.maximum(scores, 0.0)
    return np.asarray(positive >= WORTH_NAMING * positive.sum())


def _listed(names: Sequence[str]) -> str:
    shown = [repr(name) for name in names[:3]]
    if len(names) > 3:
        return ", ".join(shown) + f" and {len(names) - 3} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"


@dataclass(frozen=True)
class Totals:
    r"""The scores against the variance that there is.

    ``explained`` is what the regression explains on rows it had not seen, in the form of the scores
    (for the cross form :math:`Var(Y) - E(Y - \eta^a)(Y - \eta^b)`), so that errors of models are in
    both alike; ``order``, the latent sum over it, is the average order of interaction (None where
    nothing is explained) and ``n_latent`` the largest that it can be. ``covariance`` is that of the
    sum's error with that of ``explained``. Features in ``above_variance`` surely exceed the
    outcome's variance. ``interaction`` is that of the models, :class:`Fidelity`, None where it is
    not known; ``times_counted`` how often a unit is, where groups overlap.
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
        """What there is to explain, in words."""
        return "the outcome's variance" if self.square else "what the outcome's mean alone loses"

    @property
    def clear(self) -> bool:
        """Whether something is explained, errors considered."""
        return self.explained > ERRORS * self.explained_se

    @property
    def impossible(self) -> bool:
        """Whether interactions of all orders could not add up to this sum."""
        return self.square and self._off(float(self.n_latent * self.times_counted), latent=True)

    @property
    def doubtful(self) -> bool:
        """Whether the sum is above twice what is explained, or the variance where nothing is.

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
        """Whether the scores add up to less than half of what was explained."""
        if self.times_counted > 1 or not self.explained > 0:
            return False
        return self._off(LOW_SHARE) or (self.clear and self.total < LOW_SHARE**2 * self.explained)

    @property
    def additive(self) -> bool:
        """Whether the models have no interactions, so that scores add up to what they explain."""
        return self.interaction is not None and self.interaction <= ADDITIVE * self.explained

    @property
    def most(self) -> float:
        """The largest sum, over what is explained, that the models' own interactions allow."""
        return 1.0 + OF_INTERACTION * (self.interaction or 0.0) / self.explained

    @property
    def unaccounted(self) -> bool:
        """Whether the sum is surely off what the models explain, their interactions considered."""
        if self.interaction is None or not self.clear:
            return False
        return self._off(self.most + TOLERANCE, latent=True) or self._off(
            1.0 - TOLERANCE, latent=True
        )

    def _off(self, bound: float, *, latent: bool = False) -> bool:
        """Return whether a sum is beyond so many times what is explained, away from 1, surely."""
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
        judged = ("impossible", "doubtful", "low", "additive", "unaccounted")
        return {**found, **{name: getattr(self, name) for name in judged}}


def _counted(task: Task) -> int:
    """Return how many of the scores a unit is part of, at most."""
    if task.by_unit or not task.targets:
        return 1
    units = [unit for target in task.targets for unit in target.units]
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
    """Compare the scores with the variance of the outcome and with what was explained of it.

    ``gained`` (n, 2) is what the outcome's mean loses and what models explain of it, row by row.
    """
    sums = np.stack([influence.sum(axis=1), latent_influence.sum(axis=1), *gained.T], axis=1)
    total, latent_total, outcome, explained = map(float, weights.mean(sums))
    steps = weights.steps(sums)
    covariance = steps.T @ steps
    errors = np.sqrt(np.diag(covariance))
    scores = weights.mean(influence)
    over, room = scores - outcome, ERRORS * np.nan_to_num(standard_errors(influence, weights))
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


def joined_checks(parts: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    """Return the checks of several classes, or outcomes, as one, where all of them have been made.

    Scores of probes and totals add up as those of features do. Their errors are added up too, as if
    they went together, so that what is called noise here is noise whatever classes have in common.
    Of the fidelities the one that is furthest off is told.
    """
    found: dict[str, object] = {}

    def of_all(name: str) -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = []
        for part in parts.values():
            check = part.get(name)
            if isinstance(check, dict):
                told.append(check)
        return told if len(told) == len(parts) else []

    totals, floors, fidelities = (of_all(key) for key in ("totals", "noise_floor", "fidelity"))
    if totals:
        joined = _joined_totals(totals)
        found["totals"] = joined.as_dict()
        if all("probes" in floor for floor in floors) and floors:
            found["noise_floor"] = _joined_floor(floors, joined.variance).as_dict()
    alarms = _joined_alarms(parts)
    if alarms:
        found["alarms"] = alarms
    curves, units = of_all("learning_curve"), of_all("units")
    if curves:
        # the class that is furthest from having learned enough speaks for all
        found["learning_curve"] = max(
            curves, key=lambda told: np.nan_to_num(told["gained"], nan=-np.inf)
        )
    if units:
        # levels have a mean outcome, which several classes do not: those of the first are shown
        name = next(iter(parts))
        found["units"] = {unit: {**told, "outcome": name} for unit, told in units[0].items()}
    if fidelities and all("variance_ratio" in told for told in fidelities):
        found["fidelity"] = max(
            fidelities, key=lambda told: abs(np.log(max(told["variance_ratio"], 1e-300)))
        )
    return found


def _joined_alarms(parts: Mapping[str, Mapping[str, object]]) -> list[str]:
    """Return the alarms of all classes, each once, those of single ones with their names."""
    told: dict[str, list[str]] = {}
    for name, part in parts.items():
        alarms = part.get("alarms")
        for text in alarms if isinstance(alarms, list | tuple) else ():
            told.setdefault(str(text), []).append(name)
    return [
        text if len(names) == len(parts) else f"{', '.join(names)}: {text}"
        for text, names in told.items()
    ]


def _joined_floor(floors: Sequence[dict[str, Any]], variance: float) -> NoiseFloor:
    probes = list(zip(*(floor["probes"] for floor in floors), strict=True))
    scores = np.array([sum(probe["score"] for probe in of_one) for of_one in probes])
    errors = np.array([sum(probe["se"] for probe in of_one) for of_one in probes])
    p = p_values(scores, errors, alternative="greater")
    adjusted = adjust_p_values(p, "holm")
    return NoiseFloor(
        tuple(
            Probe(
                kind=of_one[0]["kind"],
                like=of_one[0]["like"],
                score=float(scores[k]),
                se=float(errors[k]),
                p=float(p[k]),
                p_adj=float(adjusted[k]),
                latent=float(sum(probe["latent"] for probe in of_one)),
                share=float(scores[k]) / variance if variance > 0 else float("nan"),
            )
            for k, of_one in enumerate(probes)
        ),
        n_rows=min(floor["n_rows"] for floor in floors),
    )


def _joined_totals(parts: Sequence[dict[str, Any]]) -> Totals:
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


@dataclass(frozen=True)
class Fidelity:
    r"""How far the model was taken from where it was fitted.

    Variance of the predictions where all latent coordinates are drawn apart over that at the rows,
    with the standard error of its logarithm; shift of their mean in deviations at the rows.

    ``interaction`` shows what the model has under the transport. Of two draws :math:`z, z'` take
    each coordinate from one or the other at random, :math:`w`, and the rest, :math:`w'`. Then

    .. math:: \tfrac14 E\{f(z) + f(z') - f(w) - f(w')\}^2 = \sum_S (1 - 2^{1 - |S|}) V_S,

    0 exactly where the model is additive in the latent coordinates.
    """

    variance_ratio: float
    log_ratio_se: float
    mean_shift: float
    mean_shift_se: float
    n_rows: int
    n_draws: int
    interaction: float = 0.0

    @property
    def far(self) -> bool:
        """Whether variance or mean are off by more than they should be, beyond two errors."""
        low, high = VARIANCE_RATIOS
        off = not low <= self.variance_ratio <= high
        sure = abs(np.log(max(self.variance_ratio, 1e-300))) > ERRORS * self.log_ratio_se
        shifted = abs(self.mean_shift) > max(MEAN_SHIFT, ERRORS * self.mean_shift_se)
        return bool((off and sure) or shifted)

    def as_dict(self) -> dict[str, object]:
        """Return the values for a result's diagnostics."""
        return {**asdict(self), "far": self.far}


def model_fidelity(
    folds: Sequence[tuple[Ints, Predict]],
    matrix: Floats,
    weights: Weights,
    latent: Floats,
    mass: Floats,
    decode: Predict,
    seed: np.random.SeedSequence,
    as_one: Ints | None = None,
    undecoded: Callable[[Ints], Floats | float] = lambda _: 0.0,
    most: int = MOST_DRAWS,
) -> Fidelity | None:
    """Compare predictions at rows with predictions where latent coordinates are drawn apart.

    None where the predictions do not vary. ``folds`` are held-out rows and their prediction,
    ``latent`` and ``mass`` the laws that are drawn from, coordinates with one label in ``as_one``
    together; ``undecoded`` what is not told by the coordinates of the rows that each is drawn from.
    """
    as_one = np.arange(latent.shape[1]) if as_one is None else as_one
    n_rows = sum(len(rows) for rows, _ in folds)
    generator, coins = (np.random.default_rng(s) for s in (seed, named_seed(seed, "interaction")))
    at_rows, apart, share, mixed = [], [], [], []
    for rows, predict in folds:
        count = max(1, most * len(rows) // n_rows)
        orders = _orders(mass, count, generator, int(as_one.max()) + 1)
        first = orders[: max(2, MOST_PAIRS * len(rows) // n_rows)]
        last = np.roll(first, 1, axis=0)
        ours = coins.random(first.shape) < 0.5
        # the draws themselves are asked about first, then the two mixtures of neighbours
        points = np.concatenate([orders, np.where(ours, first, last), np.where(ours, last, first)])
        found = predict(decode(_taken(latent, points, as_one)) + undecoded(points))
        value = found[: len(first)]
        mixed.append(value + np.roll(value, 1) - found[count:].reshape(2, -1).sum(axis=0))
        apart.append(found[:count])
        at_rows.append(predict(matrix[rows]))
        share.append(weights.values[rows])
    value, drawn = np.concatenate(at_rows), np.concatenate(apart)
    counted = np.concatenate(share) / np.concatenate(share).sum()
    size = 1.0 / float(np.sum(counted**2))
    mean, variance, kurtosis = _moments(value, counted)
    drawn_mean, drawn_variance, drawn_kurtosis = _moments(
        drawn, np.full(len(drawn), 1.0 / len(drawn))
    )
    # a model that predicts one number up to rounding has nothing to be compared
    if variance <= 1e-20 * (mean**2 + drawn_variance) or variance == 0.0:
        return None
    return Fidelity(
        variance_ratio=drawn_variance / variance,
        log_ratio_se=float(np.sqrt((kurtosis - 1.0) / size + (drawn_kurtosis - 1.0) / len(drawn))),
        mean_shift=(drawn_mean - mean) / float(np.sqrt(variance)),
        mean_shift_se=float(np.sqrt(1.0 / size + drawn_variance / variance / len(drawn))),
        n_rows=n_rows,
        n_draws=len(drawn),
        interaction=float(np.mean(np.concatenate(mixed) ** 2) / 4.0),
    )


def drawn_apart(latent: Floats, mass: Floats, count: int, generator: np.random.Generator) -> Floats:
    """Draw latent rows whose coordinates are independent, each with its own law.

    Every column takes evenly spaced quantiles of the rows in a random order: with equal weights
    and as many draws as rows these are permutations of the columns.
    """
    d = latent.shape[1]
    return _taken(latent, _orders(mass, count, generator, d), np.arange(d))


def _orders(mass: Floats, count: int, generator: np.random.Generator, units: int) -> Ints:
    """Return the rows (count, units) that each unit is drawn from."""
    order = generator.permutation(len(mass))
    below = np.cumsum(mass[order]) / mass.sum()
    levels = (np.arange(count) + 0.5) / count
    picked = order[np.minimum(np.searchsorted(below, levels), len(order) - 1)]
    return np.column_stack([generator.permutation(picked) for _ in range(units)])


def _taken(latent: Floats, orders: Ints, as_one: Ints) -> Floats:
    return np.column_stack(
        [column[orders[:, unit]] for column, unit in zip(latent.T, as_one, strict=True)]
    )


def _moments(values: Floats, share: Floats) -> tuple[float, float, float]:
    mean = float(share @ values)
    centred = values - mean
    variance = float(share @ centred**2)
    kurtosis = float(share @ centred**4) / variance**2 if variance > 0 else 1.0
    return mean, variance, max(kurtosis, 1.0)
