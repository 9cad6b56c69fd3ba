"""Treatment effects: which features change the effect of a treatment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dfi._collect import importances
from dfi._data.columns import check_rows, read_vector, refuse_gaps
from dfi._data.frames import split_column
from dfi._data.outcome import Outcome
from dfi._data.problem import read_data
from dfi._data.seeds import Seeds
from dfi._data.treatment import read_treatment, refuse_copies
from dfi._models.censoring import survival_outcome
from dfi._models.fits import Cache
from dfi._models.learners import predicts_classes, resolve_learner
from dfi._models.predictor import predict_once
from dfi._models.prepare import fits_of, take_frame, take_times
from dfi._models.pseudo import Overlap, fit_dose, fit_nuisances, require_every_row
from dfi._parameters import InvalidParameterError, argument, taken_by, validated
from dfi._streams.read import is_stream
from dfi.inference.influence import InfluenceRows
from dfi.inference.tests import estimate_one
from dfi.methods.disentangled import Disentangled
from dfi.results.file import describe_setting
from dfi.warnings import InferenceWarning, OverlapWarning, warn

if TYPE_CHECKING:
    from dfi._data.everyday import Identifiers
    from dfi._data.outcome import Task as OutcomeTask
    from dfi._data.problem import Data, UnitsKind
    from dfi._data.survival import Times
    from dfi._data.table import Missing
    from dfi._data.treatment import Arms
    from dfi._lines.choose import Quadrature
    from dfi._models.fits import Fits
    from dfi._scoring.task import TransportError
    from dfi._types import (
        Estimator,
        EstimatorLike,
        Floats,
        Frame,
        GroupsLike,
        HorizonLike,
        SplitsLike,
        TableLike,
        TargetLike,
        TransportLike,
        VectorLike,
    )
    from dfi.methods.stages import ExplainRows
    from dfi.results.importance import Importance

PLUG_IN_R2, DOUBTFUL_R2 = 0.9, 0.75
r"""Out-of-fold R2 of given pseudo-outcomes above which they are refused, or doubted.

Doubly robust ones have at least the variance :math:`4\sigma^2` about the effect, :math:`\sigma^2`
that of the outcome within an arm: effects would have to vary 36 times as much as outcomes do by
chance to be predicted with an R2 of .9. Plug-ins of straight lines have an R2 of 1, of forests and
boosting on 500 to 1000 rows .83 to .95.
"""

ROUNDING = 1e-9
"""Effects within this part of the outcome's range count as equal."""


NAMED = ("y", "sample_weight", "frequency_weight", "treatment", "pseudo_outcome")
"""Roles that must be column names if rows are not in memory."""


@validated
def effects(
    X: TableLike,
    y: VectorLike = None,
    treatment: VectorLike = None,
    estimator: EstimatorLike = "auto",
    *,
    treated: object = None,
    control: object = None,
    contrasts: Literal["control", "pairwise"] = "control",
    pseudo_outcome: VectorLike = None,
    outcome_model: EstimatorLike = "auto",
    propensity_model: EstimatorLike | VectorLike | Mapping[Any, float] = "auto",
    clip: float = 0.05,
    transport: TransportLike = "gaussian",
    feature_groups: GroupsLike = None,
    units: UnitsKind = "columns",
    cv: SplitsLike = 5,
    n_repeats: int | None = None,
    form: Literal["cross"] = "cross",
    transport_error: TransportError = "auto",
    integration: Quadrature | Literal["auto"] = "auto",
    diagnose: bool = True,
    explain_rows: ExplainRows = "default",
    max_seconds: float | None = None,
    keep_rows: bool = False,
    sample_weight: VectorLike = None,
    frequency_weight: VectorLike = None,
    clusters: VectorLike = None,
    missing: Missing = "indicator",
    identifiers: Identifiers = "drop",
    task: OutcomeTask = "auto",
    pos_label: object = None,
    target: TargetLike = None,
    horizon: HorizonLike = None,
    level: float = 0.95,
    n_jobs: int | None = None,
    random_state: int | None = 0,
    progress: bool | None = None,
) -> Importance:
    r"""Explain which columns of ``X`` change the effect of a treatment, with inference.

    The scores explain the effect :math:`\tau(x) = E[y(1) - y(0) \mid x]`. Doubly robust
    pseudo-outcomes

    .. math:: \psi = \mu_1 - \mu_0 + \frac{T (y - \mu_1)}{e} - \frac{(1 - T)(y - \mu_0)}{1 - e}

    are noisy observations: :math:`E[\psi \mid x] = \tau(x)` if the regressions :math:`\mu` or the
    propensity :math:`e` are right; errors of both enter as a product. They are cross-fitted on the
    folds that explain them. A score is a part of the *differences between effects*: if a treatment
    helps everybody equally, all scores are 0, however much it helps. Scores are causal only if
    ``X`` contains everything that drives both treatment and outcome.

    Parameters
    ----------
    X : dataframe or array of shape (n, d)
        What was known before the treatment, as for :func:`dfi.explain`.
    y : array-like of shape (n,) or str, optional
        The outcome: a quantity, or two classes, whose effect is a difference of risks; or times to
        an event, with a ``horizon``, as for :func:`dfi.explain`. A string names the column of ``X``
        that holds it.
    treatment : array-like of shape (n,) or str, optional
        Who was treated: two labels of any type (booleans, 0/1, strings) or more, each an arm, up
        to 10; or a dose: numbers with fractions, or more than 10 of them. A string names the column
        of ``X`` that holds it.
    estimator : str or estimator, default="auto"
        The regression of the pseudo-outcomes, as for :func:`dfi.explain`; never a classifier.
    treated : object, optional
        The label of the treated; by default the last of two, and with three or more arms every one
        but the control, as several outcomes.
    control : object, optional
        The label of the control; with three or more arms, the first by default.
    contrasts : {"control", "pairwise"}, default="control"
        Whether arms are compared with the control, or all with each other.
    pseudo_outcome : array-like of shape (n,) or str, optional
        Your own pseudo-outcomes, instead of ``y`` and ``treatment``; pass the folds that made them
        as ``cv``. Effects predicted by a model (``mu1 - mu0``) are refused: they have no noise, and
        intervals of their scores do not cover.
    outcome_model : str or estimator, default="auto"
        The regression of the outcome, fitted in each arm separately; if ``y`` is a class, a name
        means a classifier.
    propensity_model : str, classifier, float, array-like or dict, default="auto"
        The probability of treatment: a learner or, if known as in a randomised trial, one number or
        one per row; with three or more arms, a dict of their shares or one column per arm. For a
        dose, the regression of its mean.
    clip : float, default=0.05
        Propensities are clipped to ``clip`` and ``1 - clip``; ``result.diagnostics["overlap of
        treatment"]`` has the share of clipped rows.
    cv : int, splitter or iterable of splits, default=5
        The folds of outcome models, propensity and effect alike. Each row must be held out.
    n_repeats : int, optional
        As for :func:`dfi.explain`; with several splits, pseudo-outcomes are means over the splits.
    form : {"cross"}, default="cross"
        The form of the scores; others do worse with such noisy outcomes, and are refused.
    sample_weight : array-like of shape (n,) or str, optional
        Sampling weights, which the outcome models and the propensity use too.
    pos_label : object, optional
        The class whose risk is compared; required with three or more classes.
    target : {"rmst", "probability"}, optional
        What of times to an event is compared, as for :func:`dfi.explain`.

    Returns
    -------
    Importance
        Scores as parts of the variance of the effect. ``result.quality`` says how well the
        pseudo-outcomes are predicted; most of their variance is noise.
        ``result.diagnostics["average effect"]`` has the average effect with its interval.

    Warns
    -----
    InferenceWarning
        Given pseudo-outcomes have so little noise that they may be a plug-in.
    OverlapWarning
        More than 5 % of the propensities are clipped, or the weights cut an arm's effective size
        below half of its rows.

    Examples
    --------
    >>> import dfi, numpy as np
    >>> sample = dfi.datasets.m1(500, rho=0.5)
    >>> arm = np.random.default_rng(0).random(500) < 0.5
    >>> y = sample.X[:, 3] + arm * sample.X[:, 0]
    >>> result = dfi.effects(sample.X, y, arm, "linear", outcome_model="linear",
    ...                      propensity_model=0.5)
    >>> int(result.scores.argmax())
    0
    """
    arguments = dict(locals())
    _check_settings(estimator, cv, form)
    method = Disentangled(**taken_by(Disentangled, arguments))
    method.check(prefit=False)
    _check_given(y, treatment, pseudo_outcome)
    if pseudo_outcome is not None:
        _check_unused(arguments)
    facts: Mapping[str, object] = {}
    if is_stream(X):
        arguments, facts = take_frame(arguments, Seeds.of(random_state), named=NAMED)
        X = arguments["X"]
    given = pseudo_outcome is not None
    if given:
        _check_pseudo(X, pseudo_outcome)
        arguments["task"] = "regression"
    name = treatment if isinstance(treatment, str) else None
    if name is not None:
        X, treatment = split_column(X, name, "treatment", "the treatment's column")
    arguments |= {"X": X, "y": pseudo_outcome if given else y}
    times = take_times(arguments)
    beside = {"treatment": treatment, "propensity_model": propensity_model}
    data = replace(read_data(**taken_by(read_data, arguments), beside=beside), facts=facts)
    observed = data.outcome
    arms = None
    if not given:
        _check_outcome(observed)
        n_rows = data.table.n_rows + data.dropped
        arms = read_treatment(
            treatment, n_rows, data.kept, treated=treated, control=control, contrasts=contrasts
        )
        if name is not None:
            arms = replace(arms, outcome=replace(arms.outcome, name=name))
        refuse_copies(data.table, arms)
        # rows are split by arm: a fold without one could not be compared
        strata = max(2, len(arms.labels))
        split = Outcome(arms.outcome.values, arms.outcome.name, "real", strata=strata)
        data = replace(data, outcome=split)
    fits = fits_of(**taken_by(fits_of, {**arguments, "data": data}))
    if arms is None:
        _refuse_plug_in(fits)
        outcome = _given_effect(fits, level)
    else:
        if times is not None:
            observed = _completed(fits, times.take(data.kept), arms, arguments)
        models: dict[str, object] = {
            "outcome_model": describe_setting(outcome_model),
            "propensity_model": _described(propensity_model),
            "clip": clip,
        }
        learners = {
            "outcome_model": outcome_model, "propensity": _propensity(propensity_model, data, arms)
        }  # fmt: skip
        estimate = _arm_effects if arms.labels else _dose_effect
        outcome = estimate(fits, observed, arms, learners, models, clip, level)
    fits = replace(fits, data=replace(fits.data, outcome=outcome), cache=Cache())
    return importances(fits, method, level, keep_rows=keep_rows)[method.name]


def _completed(fits: Fits, times: Times, arms: Arms, given: Mapping[str, Any]) -> Outcome:
    """Return the outcome of censored times; the treatment decides on events and censoring too."""
    horizons = given["horizon"]
    if len(horizons) > 1:
        raise InvalidParameterError(
            f"{argument('horizon')} has {len(horizons)} times, and effects takes one",
            "horizon",
            "pass one, and the others in separate calls",
        )
    values = arms.outcome.values
    columns = values[:, None]
    if len(arms.labels) > 2:
        columns = (columns == np.arange(1, len(arms.labels))).astype(np.float64)
    require_every_row(fits, "effects")
    return survival_outcome(fits.data, times, fits.repeats, horizons, given["target"], columns)


def _given_effect(fits: Fits, level: float) -> Outcome:
    outcome = fits.outcome
    average = _average(outcome.values, fits, level)
    told = {"pseudo_outcome": outcome.name, "average_effect": average}
    name = outcome.name if outcome.name != "y" else "effect"
    diagnostics = {"average effect": average}
    return Outcome(outcome.values, name, "real", effect=told, diagnostics=diagnostics)


def _arm_effects(
    fits: Fits,
    observed: Outcome,
    arms: Arms,
    learners: Mapping[str, Estimator],
    models: Mapping[str, object],
    clip: float,
    level: float,
) -> Outcome:
    nuisances = fit_nuisances(fits, observed, arms, **learners)
    treatment, codes = arms.outcome, arms.outcome.values
    overlap = Overlap.of(nuisances.chances, codes, treatment.classes, fits.weights, clip)
    _warn_of_overlap(treatment.name, overlap.words, poor=overlap.poor)
    binary = observed.kind == "binary"
    event = f" of {observed.name} = {observed.classes[-1]}" if binary else ""
    shared: dict[str, object] = {
        "treatment": treatment.name,
        "outcome": observed.name,
        "contrast": f"difference of risks{event}" if binary else "difference of means",
        **models,
        **_of_survival(observed),
    }
    found = []
    for pair in arms.pairs:
        values = nuisances.pseudo_outcomes(observed.values, codes, pair, clip)
        treated, control = (treatment.classes[arm] for arm in pair)
        name = f"effect of {treatment.name} on {observed.name}"
        if len(arms.labels) > 2:
            name = f"{treated} against {control}"
        _refuse_constant(values, observed, treatment)
        average = _average(values, fits, level)
        told = {**shared, "treated": treated, "control": control, "average_effect": average}
        found.append(_effect_of(values, name, observed, told, overlap.as_dict()))
    if len(found) == 1:
        return found[0]
    return Outcome(
        found[0].values,
        f"effects of {treatment.name} on {observed.name}",
        "several",
        members=tuple(found),
        effect={**shared, "pairs": [one.name for one in found]},
        diagnostics={"overlap of treatment": overlap.as_dict(), **observed.diagnostics},
    )


def _dose_effect(
    fits: Fits,
    observed: Outcome,
    arms: Arms,
    learners: Mapping[str, Estimator],
    models: Mapping[str, object],
    clip: float,
    level: float,
) -> Outcome:
    dose = arms.outcome
    nuisances = fit_dose(fits, observed, dose, clip=clip, **learners)
    values = nuisances.pseudo_outcomes(observed.values, dose.values)
    _refuse_constant(values, observed, dose)
    left = float(np.nanmean(nuisances.variance)) / float(np.var(dose.values))
    words = f"given the columns, the dose keeps {100.0 * left:.0f} % of its variance"
    _warn_of_overlap(dose.name, words, poor=left < POOR_DOSE)
    told = {
        "treatment": dose.name,
        "outcome": observed.name,
        "contrast": "one unit more of the dose",
        **models,
        **_of_survival(observed),
        "average_effect": _average(values, fits, level),
    }
    overlap = {"left": left, "poor": left < POOR_DOSE, "words": words}
    name = f"effect of a unit of {dose.name} on {observed.name}"
    return _effect_of(values, name, observed, told, overlap)


POOR_DOSE = 0.1
"""If columns leave less of a dose's variance, hardly anything can be compared."""


def _effect_of(
    values: Floats,
    name: str,
    observed: Outcome,
    told: Mapping[str, object],
    overlap: Mapping[str, object],
) -> Outcome:
    return Outcome(
        values,
        name,
        "real",
        effect=told,
        diagnostics={
            "average effect": told["average_effect"],
            "overlap of treatment": overlap,
            **observed.diagnostics,
        },
        findings=observed.findings,
    )


def _of_survival(observed: Outcome) -> dict[str, object]:
    return {} if observed.survival is None else {"survival": dict(observed.survival.facts)}


def _warn_of_overlap(treatment: str, words: str, *, poor: bool) -> None:
    if poor:
        warn(
            f"rows with and without the treatment {treatment!r} overlap poorly: {words}. Effects "
            "rest on few rows or on clipped propensities: leave out rows that could hardly have "
            "been in the other arm, or read the scores with care",
            OverlapWarning,
        )


def _refuse_constant(values: Floats, observed: Outcome, treatment: Outcome) -> None:
    if np.ptp(values) <= ROUNDING * np.ptp(observed.values):
        raise ValueError(
            f"the effect of {treatment.name!r} is {values[0]:.6g} in every row, without noise: "
            "there are no differences to explain"
        )


def _check_settings(estimator: EstimatorLike, cv: SplitsLike, form: object) -> None:
    if form != "cross":
        raise ValueError(
            f"form={form!r} is not for effects: with pseudo-outcomes this noisy, intervals from "
            "one model's errors do not cover; leave form at 'cross'"
        )
    if isinstance(cv, str) and cv == "prefit":
        raise ValueError(
            "cv='prefit' explains a model that was fitted elsewhere, but effects fits outcome "
            "models, propensity and effect on the same folds: pass a number of folds"
        )
    learner = resolve_learner(estimator)
    if predicts_classes(learner):
        raise ValueError(
            f"estimator={type(learner).__name__} is a classifier, but an effect is a quantity, a "
            "difference of risks too: pass a regressor, and the classifier as outcome_model"
        )


def _check_given(y: VectorLike, treatment: VectorLike, pseudo_outcome: VectorLike) -> None:
    if pseudo_outcome is not None:
        if y is not None or treatment is not None:
            raise TypeError(
                "pseudo_outcome takes the place of y and treatment: pass either it or these two"
            )
        return
    if y is None or treatment is None:
        absent = "y and treatment" if y is treatment else "y" if y is None else "treatment"
        raise TypeError(
            f"effects needs {absent}: pass the outcome as y and the treatment as treatment, or "
            "your own pseudo-outcomes as pseudo_outcome"
        )
    if isinstance(y, str) and isinstance(treatment, str) and y == treatment:
        raise ValueError(
            f"y and treatment both name the column {y!r}: an outcome cannot be its own cause"
        )


def _check_unused(given: Mapping[str, Any]) -> None:
    names = ("treated", "control", "contrasts", "horizon", "target", "outcome_model",
             "propensity_model")  # fmt: skip
    plain = {"contrasts": "control", "outcome_model": "auto", "propensity_model": "auto"}
    for name in names:
        value, default = given[name], plain.get(name)
        if value is not None and not (isinstance(value, str) and value == default):
            raise TypeError(
                f"{name} needs y and treatment, but pseudo_outcome replaces them: leave it out"
            )


def _check_pseudo(X: TableLike, pseudo_outcome: VectorLike) -> None:
    """Raise if pseudo-outcomes are not numbers, or belong to other rows."""
    if isinstance(pseudo_outcome, str):
        _, pseudo_outcome = split_column(
            X, pseudo_outcome, "pseudo_outcome", "the column of pseudo-outcomes"
        )
    values = read_vector(pseudo_outcome, "pseudo_outcome").numbers()
    table: Frame = X
    rows = table.shape[0] if hasattr(table, "shape") else len(table)
    check_rows("pseudo_outcome", len(values), rows)
    what = "missing or infinite values"
    refuse_gaps("pseudo_outcome", ~np.isfinite(values), what, "drop those rows")
    if np.ptp(values) == 0.0:
        raise ValueError(
            f"pseudo_outcome is {values[0]:.6g} in every row: there are no differences to explain"
        )


def _check_outcome(outcome: Outcome) -> None:
    if outcome.kind == "classes":
        shown = ", ".join(map(repr, outcome.classes[:5]))
        raise ValueError(
            f"y has {len(outcome.classes)} classes ({shown}), but an effect is a difference of "
            f"means or of one risk: pass pos_label={outcome.labels[-1]!r} for one class against "
            "the rest"
        )
    if outcome.kind == "several":
        raise ValueError(
            f"y has {len(outcome.members)} columns, but effects explains the effect on one: pass "
            f"y[{outcome.members[0].name!r}], and the others in separate calls"
        )


def _propensity(given: Estimator, data: Data, arms: Arms) -> Estimator:
    """Return a learner as it is, and known probabilities of all arms as one for each row."""
    n_rows, labels = data.table.n_rows, arms.outcome.classes
    if isinstance(given, str | type) or hasattr(given, "fit"):
        return given
    if not labels:
        raise TypeError(
            "propensity_model has known probabilities, but the treatment is a dose, which has "
            "none: pass a regressor of the dose, or leave it out"
        )
    whole = n_rows + data.dropped
    if isinstance(given, Mapping):
        shares = [given.get(label, given.get(str(label))) for label in arms.labels]
        if None in shares:
            raise ValueError(
                f"propensity_model has no probability of the arm {labels[shares.index(None)]}"
            )
        values = np.repeat(np.array(shares, dtype=np.float64)[:, None], n_rows, axis=1)
    elif len(labels) > 2:
        table = np.asarray(given, dtype=np.float64)
        if table.shape != (whole, len(labels)):
            raise ValueError(
                f"propensity_model has the shape {table.shape}, but {whole} rows of {len(labels)} "
                f"arms need ({whole}, {len(labels)}), a column for each of {', '.join(labels)}; or "
                "pass a dict of their shares"
            )
        values = (table if data.kept is None else table[data.kept]).T
    elif isinstance(given, int | float | np.number):
        values = np.full((1, n_rows), float(given))
    else:
        values = read_vector(given, "propensity_model").numbers()
        check_rows("propensity_model", len(values), whole)
        values = (values if data.kept is None else values[data.kept])[None]
    outside = ~((values > 0.0) & (values < 1.0))
    if outside.any():
        raise ValueError(
            f"propensity_model has the probability {values[outside][0]:.6g}, but each must lie "
            "strictly between 0 and 1: leave out rows that could have had one arm only, whose "
            "effect is not identified"
        )
    if len(values) == 1:
        return np.vstack([1.0 - values, values])
    if np.abs(values.sum(axis=0) - 1.0).max() > SUM_TO_ONE:
        raise ValueError("propensity_model has probabilities of the arms that do not add up to 1")
    return values


SUM_TO_ONE = 1e-3
"""How far known probabilities of all arms may be from adding up to 1."""


def _described(propensity_model: EstimatorLike | VectorLike | Mapping[Any, float]) -> str:
    if isinstance(propensity_model, str | type) or hasattr(propensity_model, "fit"):
        return describe_setting(propensity_model)
    if isinstance(propensity_model, Mapping):
        return "known, by arm"
    if isinstance(propensity_model, int | float | np.number):
        return f"known, {float(propensity_model):g}"
    return "known, by row"


def _average(values: Floats, fits: Fits, level: float) -> dict[str, float]:
    influence = InfluenceRows(values[:, None], fits.weights)
    found = estimate_one(influence, level=level, alternative="two-sided", nonnegative=False)
    return {key: getattr(found, key) for key in ("value", "se", "ci_low", "ci_high", "level")}


def _refuse_plug_in(fits: Fits) -> None:
    """Raise if the default learner predicts given pseudo-outcomes: they have no noise."""
    judge = replace(fits, learner=resolve_learner("auto"), halvings=(), cache=Cache())
    values = fits.outcome.values
    mass, error = 0.0, 0.0
    centre = float(fits.weights.mean(values)[0])
    for fold in judge.full:
        found = predict_once(fold.predictors[0], fits.data.matrix[fold.test])
        weight = fits.weights.values[fold.test]
        error += float(weight @ (values[fold.test] - found) ** 2)
        mass += float(weight @ (values[fold.test] - centre) ** 2)
    skill = 1.0 - error / mass if mass > 0 else 0.0
    advice = (
        "Effects predicted by a model (mu1 - mu0, cate, effect(X)) are a plug-in: scores "
        "describe that model, and intervals do not cover the effect. Pass doubly robust "
        "pseudo-outcomes, which keep the noise of y, or y and treatment"
    )
    if skill > PLUG_IN_R2:
        raise ValueError(
            f"pseudo_outcome is a function of X (held-out rows are predicted with R2 = {skill:.3f})"
            f". {advice}"
        )
    if skill > DOUBTFUL_R2:
        warn(
            f"pseudo_outcome has little noise (held-out rows are predicted with R2 = {skill:.3f}). "
            f"{advice}",
            InferenceWarning,
        )
