r"""The score of a column of pure noise, from probes that no model has read.

A few probe columns are added to the table: a normal one and a permuted copy of one feature of
every kind the table has. The transport is fitted again with them, by the same design on the same
rows, and the probes are scored as if they were features. Their true scores are 0. What they are
given all the same comes from chance correlations: line ``j`` of a probe moves the real columns by
:math:`\ell_j = O(n^{-1/2})`, and a model with sharp steps answers. The reported scores come from
the transport without probes and do not change.

Only the lines of the probes are new. With the latent scores :math:`\phi_j` of the features as
reported, the attributed score of probe ``l`` is

.. math:: \phi_{X_l} = \sum_{j\ \mathrm{probe}} W_{lj}^2 \phi_{Z_j}
          + \sum_{j\ \mathrm{feature}} W_{lj}^2 \phi_{Z_j},

with the influence of the fitted transport as in :mod:`dfi._scoring.map_error`; the
sensitivity of a probe's line mean to tilting its line comes from the Hermite short cut of
:mod:`dfi._scoring.sensitivity`. Under a copula the slope of the probe's margin is taken at its
mean.

A transport that finds the probes independent of everything moves nothing along their lines: the
scores are then exactly 0, and no model is asked.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from dfi._diagnosis.probes import score_probes
from dfi._diagnosis.totals import in_percent
from dfi._findings import Finding, listed
from dfi.inference.influence import standard_errors
from dfi.inference.tests import adjust_p_values, p_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._data.weights import Weights
    from dfi._diagnosis.probes import ProbedTable, ReadFold
    from dfi._diagnosis.totals import Totals
    from dfi._scoring.task import Task
    from dfi._types import Floats, Plain
    from dfi.transports.base import FittedTransport

LEVEL = 0.01
"""Probability of calling a probe's score significant where it is chance, over all probes (Holm)."""

NOMINAL = 0.05
"""A probe above zero at this level, unadjusted, is a floor that features are compared with."""

ROUNDING = 1e-10
"""Scores and errors below this share of the features' largest are rounding."""


@dataclass(frozen=True)
class Probe:
    """One probe and its score.

    ``kind`` is ``"normal"``, ``"real"``, ``"levels"`` (integers, booleans, two levels) or
    ``"category"``; ``like`` the feature that it is a permuted copy of. ``score`` is attributed,
    ``p_adj`` is adjusted for the number of probes (Holm), ``share`` is of the outcome's variance.
    """

    kind: str
    like: str | None
    score: float
    se: float
    p: float
    p_adj: float
    latent: float
    share: float


@dataclass(frozen=True)
class NoiseFloor:
    """The scores of the probes, and the number of rows behind them."""

    probes: tuple[Probe, ...]
    n_rows: int

    @property
    def floor(self) -> float:
        return max(0.0, *(probe.score for probe in self.probes))

    @property
    def upper(self) -> float:
        """The largest upper 95 % bound of a probe's score."""
        width = float(stats.norm.ppf(0.95))
        return max(0.0, *(probe.score + width * probe.se for probe in self.probes))

    @property
    def significant(self) -> tuple[Probe, ...]:
        return tuple(probe for probe in self.probes if probe.p_adj <= LEVEL)

    @property
    def raised(self) -> float:
        return max(0.0, *(probe.score for probe in self.probes if probe.p <= NOMINAL), 0.0)

    def as_dict(self) -> dict[str, object]:
        """Return the values for a result's diagnostics."""
        return {
            "probes": [asdict(probe) for probe in self.probes],
            "floor": self.floor,
            "upper": self.upper,
            "n_rows": self.n_rows,
            "level": LEVEL,
        }


def noise_floor(
    transport: FittedTransport,
    probed: ProbedTable,
    latent_influence: Floats,
    folds: Sequence[ReadFold],
    task: Task,
    *,
    variance: float,
    stretch: float = 1.0,
) -> NoiseFloor:
    """Fit the transport again with the probes, on the rows of ``task``, and score them."""
    found = score_probes(transport, probed, latent_influence, folds, task, stretch)
    error = task.weights.take(task.explained).standard_error(latent_influence).max()
    floor = _summary(probed, found.values, found.weights, error, variance)
    if found.refits is None or all(probe.p > NOMINAL for probe in floor.probes):
        return floor
    return _summary(probed, found.refits(), found.weights, error, variance)


def _summary(
    probed: ProbedTable, both: Floats, weights: Weights, largest_error: float, variance: float
) -> NoiseFloor:
    """Test the probes' scores; ``both`` are the influence values of latent and attributed ones."""
    weights = weights.settled(both)
    values = weights.mean(both)
    errors = standard_errors(both, weights)
    rounding = (errors <= ROUNDING * largest_error) & (np.abs(values) <= ROUNDING * variance)
    values[rounding], errors[rounding] = 0.0, 0.0
    count = len(probed.probes)
    scores, errors = values[count:], errors[count:]
    kinds = [(kind, like) for kind, like, _ in probed.probes]
    return NoiseFloor(
        _tested(kinds, scores, errors, values[:count], variance, weights.degrees), len(both)
    )


def _tested(
    kinds: Sequence[tuple[str, str | None]],
    scores: Floats,
    errors: Floats,
    latent: Floats,
    variance: float,
    degrees: float = np.inf,
) -> tuple[Probe, ...]:
    p = p_values(scores, errors, alternative="greater", degrees=degrees)
    shares = scores / variance if variance > 0 else np.full(len(scores), np.nan)
    columns = zip(scores, errors, p, adjust_p_values(p, "holm"), latent, shares, strict=True)
    return tuple(
        Probe(*kind, *map(float, numbers)) for kind, numbers in zip(kinds, columns, strict=True)
    )


SIGNIFICANT = 0.05
"""Level, after Holm, at which features are called significant."""


def below_noise(
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


def noise(floor: NoiseFloor, totals: Totals) -> Finding:
    """Report the score of noise, and whether a test mistakes it for signal."""
    if floor.significant:
        worst = max(floor.significant, key=lambda probe: probe.score)
        return Finding(
            "noise",
            "distrust",
            f"a column of pure noise ({describe_probe(worst)}) scores {in_percent(worst.share)} of "
            f"{totals.whole} here, and a test would call it significant (adjusted p "
            f"{worst.p_adj:.2g})",
            {"share": worst.share, "p_adj": worst.p_adj},
            "No score of that size or smaller is a finding",
        )
    count = len(floor.probes)
    if floor.upper == 0.0:
        what = (
            f"pure noise scores exactly 0 here: {count} columns of it were added, and the "
            "transport finds them independent of every feature"
        )
        return Finding("noise", "note", what, {"floor": 0.0})
    share = f" ({in_percent(floor.floor / totals.variance)} of {totals.whole})"
    return Finding(
        "noise",
        "note",
        f"a column of pure noise scores up to {floor.floor:.3g}{share * (totals.variance > 0)} "
        f"here, and at most {floor.upper:.3g} with a confidence of 95 %: {count} of them, normal "
        f"numbers and permuted copies of features, were scored on {floor.n_rows} rows",
        {"floor": floor.floor, "upper": floor.upper},
    )


def smaller_than_noise(floor: NoiseFloor, below: tuple[str, ...], totals: Totals) -> Finding | None:
    """Report features that are significant although they score less than noise."""
    if not below:
        return None
    several = len(below) > 1
    return Finding(
        "below noise",
        "distrust",
        f"{listed(below)} {'are' if several else 'is'} significant, but "
        f"{'score' if several else 'scores'} less than pure noise does here "
        f"({in_percent(floor.raised / totals.variance)} of {totals.whole})",
        {"share": floor.raised / totals.variance},
        about=below,
    )


def describe_probe(probe: Probe) -> str:
    return "normal numbers" if probe.like is None else f"a permuted copy of {probe.like!r}"


def joined_floor(floors: Sequence[Plain], variance: float) -> NoiseFloor:
    """Return the scores of noise for several classes together; their errors add up too."""
    scores, errors, latent = (
        np.sum([[probe[key] for probe in floor["probes"]] for floor in floors], axis=0)
        for key in ("score", "se", "latent")
    )
    kinds = [(probe["kind"], probe["like"]) for probe in floors[0]["probes"]]
    probes = _tested(kinds, scores, errors, latent, variance)
    return NoiseFloor(probes, min(floor["n_rows"] for floor in floors))
