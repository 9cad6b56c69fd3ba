r"""Which sensitivity ``G`` the influence on a map is multiplied by: the short cut, or differences.

The short cut (:mod:`dfi._scoring.sensitivity`) replaces :math:`h_j` by its linear part and
integrates by parts. Differences on a sample of the rows (same module) measure
what each of the two steps costs:

- *curved*: :math:`E[(h_j - \bar h_j - q_j)\,\partial_k m_j]`, left out by the short cut; large for
  structure of third order and for few large steps;
- *parts*: :math:`E[(\bar h_j + q_j)\,\partial_k m_j]` less the short cut; large where latent rows
  are not normal.

Let :math:`v = u + T(G)` be the influence values of latent score ``j``, :math:`T` linear, and let a
part :math:`\delta` be measured in groups ``g`` of the sampled rows. It changes the variance of
``v`` and stands against the variance of :math:`T(G)` itself by

.. math:: \theta = 2\,\overline{Cov(v, T(\delta_g))} + \kappa, \qquad
          \kappa = \overline{Cov(T(\delta_g), T(\delta_{g'}))}_{g \ne g'},

both free of the bias that the noise of :math:`\delta` would have if it were squared. It enters
column ``j`` of ``G``

- where it matters: :math:`\theta` changes the standard error by more than ``CHANGE``, or
  :math:`\sqrt\kappa` is more than ``SHARE`` of the standard deviation of :math:`T(G)`;
- and the noise of the sample does not decide: what matters is more than ``ERRORS`` of its own
  standard errors (jackknife over the groups) away from 0, or the noise of :math:`T(\delta)` is less
  than ``HARMLESS`` of the variance of ``v``, so entering by mistake changes nothing.

Of a wide table too few rows are differenced to say what ``G`` is. There the parts only tell whether
the short cut is wrong, tested over all columns together at ``FAMILY_LEVEL``; if it is, the
transport is fitted again without groups of rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from dfi._scoring.lines import LineScores, row_sample
from dfi._scoring.map_error import MapInfluence, latent_terms

if TYPE_CHECKING:
    from dfi._data.weights import Weights
    from dfi._scoring.sensitivity import Differences
    from dfi._scoring.task import Task
    from dfi._types import Bools, Floats, Ints, Plain

CHANGE = 0.05
SHARE = 0.25
ERRORS = 2.5
HARMLESS = 0.05
FAMILY_LEVEL = 0.05
FEWEST_GROUPS = 4
ROUNDING = 1e-12
_MOST_ROWS, _LEAST_ROWS, _WORK = 1000, 100, 1e7


@dataclass(frozen=True)
class SettledSensitivity:
    """The sensitivity that standard errors use, or ``jackknife`` if none can be trusted."""

    scores: LineScores
    words: str
    diagnostics: Plain
    jackknife: bool = False


def settled_sensitivity(
    scores: LineScores, influence: MapInfluence, weights: Weights, task: Task, names: list[str]
) -> SettledSensitivity:
    """Compute the requested sensitivity; ``"auto"`` is checked on a sample of the rows."""
    used: str
    if scores.differences is None:
        used = "derived" if task.transport_error == "auto" else task.transport_error
        return SettledSensitivity(
            scores,
            f"transport-aware ({used})",
            {"sensitivity": {"used": used}},
            jackknife=used == "jackknife",
        )
    choice = choose_sensitivity(influence, scores, scores.differences, weights)
    count = int(choice.changed.sum())
    used = "derived"
    if count:
        used = f"differences for {count} of {len(names)} coordinates, derived for the rest"
        if not choice.enough:
            used = "jackknife"
    return SettledSensitivity(
        replace(scores, sensitivity=choice.sensitivity),
        f"transport-aware ({used})",
        {"sensitivity": {"used": used, **choice.as_dict(names)}},
        jackknife=bool(count) and not choice.enough,
    )


@dataclass(frozen=True)
class SensitivityChoice:
    """The sensitivity ``G`` that was settled on, and why.

    ``changed`` are the coordinates where differences contradict the short cut; ``change`` is the
    largest relative change of the latent standard error that a part would make; ``rows`` were
    differenced, ``enough`` of them or not to use the differences themselves.
    """

    sensitivity: Floats
    changed: Bools
    change: Floats
    rows: int
    enough: bool

    def as_dict(self, names: list[str]) -> Plain:
        """Return what a result keeps."""
        return {
            "rows": self.rows,
            "changed": [name for name, is_so in zip(names, self.changed, strict=True) if is_so],
            "largest_change": float(np.max(np.abs(self.change), initial=0.0)),
        }


def choose_sensitivity(
    influence: MapInfluence, scores: LineScores, differences: Differences, weights: Weights
) -> SensitivityChoice:
    """Return ``G`` by the short cut, corrected where differences show that it matters."""
    d = scores.influence.shape[1]
    count = int(max(_LEAST_ROWS, min(_MOST_ROWS, _WORK / d**2)))
    chosen = row_sample(influence.rows, weights.values, count)
    sample, share = chosen.rows, chosen.mass / chosen.mass.sum()
    on_sample = MapInfluence(influence.geometry, influence.rows[sample])
    terms = latent_terms(on_sample, scores)
    values = scores.influence[sample] + terms
    values, terms = values - share @ values, terms - share @ terms
    # in units in which fourth powers of outcomes stay within double precision
    unit = float(np.sqrt(np.max(share @ values**2))) or 1.0
    values, terms = values / unit, terms / unit
    base, of_terms = share @ values**2, share @ terms**2
    # columns of rounding errors have nothing to change
    known = base > ROUNDING * base.max()
    short_cut = scores.sensitivity * (1.0 - np.eye(d))
    curved, linear = differences.groups()
    sensitivity = scores.sensitivity.copy()
    changed, change = np.zeros(d, dtype=bool), np.zeros(d)
    for part in (curved, linear - short_cut):
        found = _excess(on_sample, part / unit, values, share)
        relative = np.divide(found.variance, base, out=np.zeros(d), where=known)
        moved = np.sqrt(np.maximum(1.0 + relative, 0.0)) - 1.0
        # without enough rows the part is not used: it only tells, for all columns at once
        errors = ERRORS if differences.enough else _family_errors(d, len(part))
        harmless = (found.noise < HARMLESS * base) & differences.enough
        on_error = (np.abs(moved) > CHANGE) & (
            harmless | (np.abs(found.variance) > errors * found.variance_error)
        )
        on_terms = (found.square > np.maximum(SHARE**2 * of_terms, ROUNDING * base)) & (
            harmless | (found.square > errors * found.square_error)
        )
        matters = known & (on_error | on_terms)
        sensitivity[:, matters] += part.mean(axis=0)[:, matters]
        changed |= matters
        change = np.where(np.abs(moved) > np.abs(change), moved, change)
    if not differences.enough:
        sensitivity = scores.sensitivity
    return SensitivityChoice(sensitivity, changed, change, differences.rows, differences.enough)


def _family_errors(d: int, count: int) -> float:
    """Return how many errors away from 0 one of all columns' quantities is by chance, rarely."""
    return float(stats.t.ppf(1.0 - FAMILY_LEVEL / (4 * d), max(count - 1, 1)))


@dataclass(frozen=True)
class _Excess:
    r"""What a part of ``G`` does to each latent score: :math:`\theta`, :math:`\kappa` and errors.

    ``noise`` is the variance that the sampling error of the part adds.
    """

    variance: Floats
    square: Floats
    variance_error: Floats
    square_error: Floats
    noise: Floats


def _excess(influence: MapInfluence, part: Floats, values: Floats, share: Floats) -> _Excess:
    """Return the change of the variance through a part of ``G``, and its standard error."""
    count, d, _ = part.shape
    if count < FEWEST_GROUPS:
        none, unknown = np.zeros(d), np.full(d, np.inf)
        return _Excess(none, none, unknown, unknown, unknown)
    terms = np.stack([2.0 * influence.on_map(group, np.eye(d)) for group in part])
    terms -= np.einsum("i,gij->gj", share, terms)[:, None, :]
    linear = 2.0 * np.einsum("i,ij,gij->gj", share, values, terms)
    own = np.einsum("i,gij->gj", share, terms**2)

    def both(kept: Ints) -> tuple[Floats, Floats]:
        k = len(kept)
        square = (share @ terms[kept].sum(axis=0) ** 2 - own[kept].sum(axis=0)) / (k * (k - 1))
        return linear[kept].mean(axis=0) + square, square

    everyone = np.arange(count)
    without = np.array([both(np.delete(everyone, g)) for g in everyone])
    spread = (count - 1) / count * np.sum((without - without.mean(axis=0)) ** 2, axis=0)
    variance, square = both(everyone)
    noise = (own.mean(axis=0) - square) / count
    variance_error, square_error = np.sqrt(spread)
    return _Excess(variance, square, variance_error, square_error, noise)
