"""A method computed on fits: for one outcome, for classes and several outcomes, at quantiles."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dfi._data.outcome import Outcome
from dfi._models.fits import Cache, Fits, once
from dfi._models.learners import no_learner_of
from dfi._models.quality import combined_quality
from dfi._parameters import argument
from dfi._progress import progress_bar
from dfi.methods.base import MethodResult, joined_diagnostics, loss_totals
from dfi.methods.disentangled import Disentangled
from dfi.warnings import warn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dfi._data.outcome import QuantileLevels
    from dfi._data.weights import Weights
    from dfi._types import Bools, Floats
    from dfi.methods.base import Method


def parts_of(fits: Fits, method: Method) -> dict[str, MethodResult]:
    """Compute a method, or raise; for classes and several outcomes the sum of single ones."""
    reason = refusal(method, fits)
    if reason is not None:
        raise ValueError(reason)
    return _of_members(fits, method) if fits.outcome.members else _of_one(fits, method)


def refusal(method: Method, fits: Fits) -> str | None:
    """Return why these data, or their loss, have no such importance, or None."""
    if not fits.loss.is_square and not method.any_loss:
        return (
            f"{method.name} is a part of a variance, and {argument('loss', fits.loss.name)} is "
            f"not: use {argument('loss', 'squared-error')} ('brier' for classes), or leave the "
            "method out"
        )
    if not fits.loss.has_generator and not method.any_function:
        return (
            f"{method.name} needs a loss with a generator, and {argument('loss', fits.loss.name)} "
            "has none: use another loss, or leave the method out"
        )
    if fits.outcome.members and not method.adds_up:
        return (
            f"{method.name} is a ratio or a test statistic, and those of single classes or "
            f"outcomes do not add up: explain one of them, with {argument('pos_label', ...)} for a "
            "class"
        )
    reason = method.refuses(fits.members[0] if fits.outcome.members else fits)
    if reason is None and fits.loss.quantile is not None:
        if method.name == "shapley" or len(fits.units) == 1:
            # without any column a regression is the mean of the outcome
            return (
                f"{method.name} compares with a regression on no column, a mean, and "
                f"{argument('loss', fits.loss.name)} is about a quantile: use 'loco' with two or "
                f"more units, or {argument('loss', 'squared-error')}"
            )
        # as it was asked for: a name says more than what it stands for
        return no_learner_of(fits.loss, fits.settings.get("estimator", fits.learner))
    return reason


def _of_one(fits: Fits, method: Method) -> dict[str, MethodResult]:
    found = method.compute(fits)
    if method.adds_up:
        found = {key: with_totals(part, fits) for key, part in found.items()}
    levels = fits.outcome.distribution
    if levels is None or not levels.single:
        return found
    return _at_quantile(found, fits, method, levels)


def with_totals(part: MethodResult, fits: Fits) -> MethodResult:
    """Return a part with the full models' totals, if it has none of its own."""
    if part.totals is not None or not np.array_equal(part.rows, fits.rows):
        return part
    return replace(part, totals=_full_totals(fits))


@once
def _full_totals(fits: Fits) -> Floats:
    return loss_totals(fits, fits.full, "loco")


def _of_members(fits: Fits, method: Method) -> dict[str, MethodResult]:
    """Compute a method for each class or outcome and sum; warn once."""
    names = [member.name for member in fits.outcome.members]
    found: list[dict[str, MethodResult]] = []
    told: dict[type[Warning], dict[str, list[str]]] = {}
    unit = "classes" if fits.outcome.kind == "classes" else "outcomes"
    watched = fits.workers.progress, unit, len(names), fits.workers.started
    # from the first one on the bar knows how long all of them take
    with progress_bar(*watched) as advance:
        for name, member in zip(names, fits.members, strict=True):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                found.append(_of_one(member, method))
            if isinstance(method, Disentangled):
                # all are explained on the rows that the first one asks for: they are added up
                method = _on_rows(method, found[0])
            for caution in caught:
                texts = told.setdefault(caution.category, {})
                texts.setdefault(str(caution.message), []).append(name)
            if advance is not None:
                advance(1)
    fits.cache.shared.clear()
    for category, texts in told.items():
        _warn_of_members(category, texts, len(names))
    whole = {
        key: summed(dict(zip(names, [parts[key] for parts in found], strict=True)), method.join)
        for key in found[0]
    }
    levels = fits.outcome.distribution
    if levels is None:
        return whole
    y = fits.outcome.values
    return {
        key: with_thresholds(part, levels, y, fits.weights.take(part.rows))
        for key, part in whole.items()
    }


def _warn_of_members(category: type[Warning], texts: dict[str, list[str]], count: int) -> None:
    """Warn once for several members: the first text, and whose texts are like it."""
    text, names = next(iter(texts.items()))
    if len(texts) == 1 and len(names) == count:
        warn(text, category)
        return
    others = [name for more in list(texts.values())[1:] for name in more if name not in names]
    same = f" (much the same for {', '.join(dict.fromkeys(others))})" if others else ""
    warn(f"{', '.join(names)}: {text}{same}", category)


def _on_rows(method: Method, found: Mapping[str, MethodResult]) -> Method:
    part = found[method.name]
    if not isinstance(method, Disentangled) or "explained_rows" not in part.specification:
        return method
    return replace(method, explain_rows=len(part.rows), max_seconds=None)


def summed(
    parts: Mapping[str, MethodResult],
    join: Callable[[Mapping[str, Mapping[str, object]]], dict[str, object]] | None = None,
    *,
    warns: bool = True,
) -> MethodResult:
    """Return the importance of all classes, or outcomes, together: the sum of single ones.

    Influence values add up, so scores do exactly, and standard errors account for what classes have
    in common. What differs between splits of the rows differs for all classes alike. ``join`` puts
    their diagnostics together.
    """
    diagnostics = (join or joined_diagnostics)(
        {name: part.diagnostics for name, part in parts.items()}
    )
    first = next(iter(parts.values()))
    every = tuple(parts.values())

    def total(name: str) -> Floats | None:
        values = [getattr(part, name) for part in every]
        return None if any(value is None for value in values) else np.sum(values, axis=0)

    influence = np.sum([part.influence for part in every], axis=0)
    errors = [part.monte_carlo_se for part in every if part.monte_carlo_se is not None]
    scores = np.array([np.abs(part.influence.mean(axis=0)) for part in every])
    weight = scores / np.maximum(scores.sum(axis=0), np.finfo(float).tiny)
    attribution = None
    if all(part.attribution is not None for part in every):
        shares = [part.attribution for part in every if part.attribution is not None]
        attribution = np.sum([w * share for w, share in zip(weight, shares, strict=True)], axis=0)
    latent = None
    if first.latent is not None:
        inner = {name: part.latent for name, part in parts.items() if part.latent is not None}
        latent = summed(inner, join, warns=False)
    qualities = {name: part.quality for name, part in parts.items() if part.quality is not None}
    return replace(
        first,
        influence=influence,
        monte_carlo_se=np.sqrt(np.sum(np.square(errors), axis=0)) if errors else None,
        diagnostics=diagnostics,
        quality=combined_quality(qualities, warns=warns) if len(qualities) == len(parts) else None,
        unrelated=np.logical_and.reduce([part.unrelated for part in every]),
        undetected=total("undetected"),
        spread=total("spread"),
        latent=latent,
        attribution=attribution,
        totals=total("totals"),
        parts=total("parts"),
        members=parts,
    )


def _at_quantile(
    found: dict[str, MethodResult], fits: Fits, method: Method, levels: QuantileLevels
) -> dict[str, MethodResult]:
    """Count the error of a quantile that was estimated, by the scores at levels beside it."""
    whole, (near, thresholds) = fits.whole or fits, levels.beside or ((), ())
    y = whole.outcome.values
    ends: list[dict[str, MethodResult | None]] = []
    for place, threshold in enumerate(thresholds, 1):
        indicator = (y <= threshold).astype(np.float64)
        if not indicator.any() or indicator.all():
            ends.append(dict.fromkeys(found))
            continue
        data = replace(fits.data, outcome=Outcome(indicator, fits.outcome.name, "real"))
        other = replace(fits, data=data, place=place, cache=Cache())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ends.append({**_of_one(other, _on_rows(method, found))})
    return {
        key: with_quantile(
            part,
            y <= levels.thresholds[0],
            (ends[0][key], ends[1][key]),
            near[1] - near[0],
            fits.weights.take(part.rows),
        )
        for key, part in found.items()
    }


def with_quantile(
    part: MethodResult,
    below: Bools,
    beside: tuple[MethodResult | None, MethodResult | None],
    apart: float,
    weights: Weights,
) -> MethodResult:
    r"""Return scores at a quantile of the outcome, with the quantile's own error.

    With :math:`\phi_j(q)` the score at the quantile of level q, the quantile's influence
    :math:`-(1\{y_i \le t\} - q)/f(t)` times :math:`d\phi_j/dt` is

    .. math:: -(1\{y_i \le t\} - q)\, \frac{d\phi_j}{dq},

    the derivative by the difference of the scores ``beside``, at levels that are so far ``apart``;
    None for the ends of the distribution, where they are 0.
    """
    inside = below[part.rows].astype(np.float64)
    inside -= weights.mean(inside)

    def counted(whole: Floats, *ends: Floats) -> Floats:
        low, high = (weights.mean(end) for end in ends)
        return np.asarray(whole - np.outer(inside, (high - low) / apart))

    return _changed(counted, part, *beside)


def with_thresholds(
    part: MethodResult, levels: QuantileLevels, y: Floats, weights: Weights
) -> MethodResult:
    r"""Return a mean over thresholds, with the error of the mean and of each threshold.

    Thresholds are quantiles of the outcome: with :math:`\phi_j(t)` the score at threshold t, the
    influence of row i on the mean over them has the term :math:`\phi_j(y_i)`, less its mean.
    """
    members = list(part.members.values())
    ends = [None, *members, None]
    at = np.array([0.0, *levels.levels, 1.0])
    alone = {
        name: with_quantile(one, y <= threshold, (ends[k], ends[k + 2]), at[k + 2] - at[k], weights)
        for k, ((name, one), threshold) in enumerate(
            zip(part.members.items(), levels.thresholds, strict=True)
        )
    }

    def counted(whole: Floats, *by_level: Floats) -> Floats:
        # members hold the share 1/K of their level
        curves = len(members) * np.array([weights.mean(one) for one in by_level])
        curves = np.vstack([0.0 * curves[:1], curves, 0.0 * curves[:1]])
        own = np.column_stack([np.interp(levels.ranks[part.rows], at, curve) for curve in curves.T])
        return np.asarray(whole + own - weights.mean(own))

    found = _changed(counted, part, *members)
    latent = found.latent
    if latent is not None:
        inner = {name: one.latent for name, one in alone.items() if one.latent is not None}
        latent = replace(latent, members=inner)
    return replace(found, latent=latent, members=alone)


def _changed(
    change: Callable[..., Floats], part: MethodResult, *others: MethodResult | None
) -> MethodResult:
    """Return a part with its influence values changed by those of others; None has zeros."""

    def changed(name: str) -> Floats | None:
        own: Floats | None = getattr(part, name)
        if own is None:
            return None
        values = [np.zeros_like(own) if one is None else getattr(one, name) for one in others]
        return own if any(value is None for value in values) else change(own, *values)

    latent = part.latent
    if latent is not None:
        latent = _changed(change, latent, *(one and one.latent for one in others))
    found = changed("influence")
    return replace(
        part,
        influence=part.influence if found is None else found,
        latent=latent,
        totals=changed("totals"),
        parts=changed("parts"),
    )
