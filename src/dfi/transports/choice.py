"""``transport="auto"``: the simplest transport that the data allow, and why."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from dfi._data.weights import Weights
from dfi.transports.copula import Copula
from dfi.transports.diagnostics import LatentDiagnostics, latent_diagnostics
from dfi.transports.entropic import DOUBTFUL, EntropicOT, epsilon_for
from dfi.transports.gaussian import Gaussian
from dfi.transports.knothe import KnotheRosenblatt
from dfi.transports.margins import fit_margin
from dfi.transports.vine import repeated_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._data.columns import Column
    from dfi._types import Bools, Floats

FAR_FROM_NORMAL = 0.1
"""Kolmogorov distance of a standardised margin from N(0, 1) that calls for normal scores."""

MOST_COLUMNS_OF_A_VINE = 30


@dataclass(frozen=True)
class Auto:
    """Choose among the transports by what the data show; the choice is part of the result."""

    name = "auto"


@dataclass(frozen=True)
class Choice:
    """A chosen transport with its reasons.

    Attributes
    ----------
    design : transport
        The transport chosen.
    reasons : tuple of str
        Why, one finding each.
    """

    design: Any
    reasons: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the choice for a result's diagnostics."""
        return {"chosen": self.design.name, "why": list(self.reasons)}


def choose_transport(
    matrix: Floats,
    weights: Weights,
    constant: Bools,
    columns: Sequence[Column],
    seed: np.random.SeedSequence,
) -> Choice:
    """Choose a transport for the rows of a numeric matrix.

    Margins far from normal call for normal scores; dependence that is left after whitening calls
    for a transport that follows it: Knothe-Rosenblatt where pyvinecopulib is installed and every
    column has an order, entropic transport where there are rows enough for its kernel.
    """
    rows = repeated_rows(weights)
    if rows is not None:
        # distances and distance correlations have no weights: rows as often as they count
        matrix, weights = matrix[rows], Weights(np.ones(len(rows)), "frequency")
    distance, column = _furthest_margin(matrix, weights, constant)
    names = [name for unit in columns for name in unit.matrix_names()]
    reasons = []
    design: Any = Gaussian()
    if distance > FAR_FROM_NORMAL:
        design = Copula()
        reasons.append(
            f"the margin of {names[column]!r} is far from normal (Kolmogorov distance "
            f"{distance:.2f}): normal scores"
        )
    else:
        reasons.append(f"margins are near normal (Kolmogorov distance {distance:.2f} at most)")
    left = leftover(design.fit(matrix, weights, constant, columns=columns), matrix, seed)
    reasons.append(_describe(left))
    if not left.beyond_chance:
        return Choice(design, tuple(reasons))
    for candidate, fitted in _alternatives(matrix, weights, constant, columns, reasons):
        found = leftover(fitted, matrix, seed)
        if found.max_distance_correlation < left.max_distance_correlation:
            reasons.append(f"{candidate.name}: {_describe(found)}")
            return Choice(candidate, tuple(reasons))
        reasons.append(f"{candidate.name} leaves as much")
    return Choice(design, tuple(reasons))


def leftover(transport: Any, matrix: Floats, seed: np.random.SeedSequence) -> LatentDiagnostics:
    """Measure the dependence that a fitted transport leaves between draws of its latents."""
    return latent_diagnostics(latent_draws(transport, matrix, seed), seed)


def latent_draws(transport: Any, matrix: Floats, seed: np.random.SeedSequence) -> Floats:
    """Return one draw of the latent row of every row, the random part of its kernel included."""
    generator = np.random.default_rng(seed)
    linear = getattr(transport, "linear", transport)
    if hasattr(transport, "atoms") or not hasattr(linear, "kernel_variance"):
        return np.asarray(transport.encode(matrix, generator))
    latent = np.asarray(transport.encode(matrix))
    null = linear.eigenvectors[:, linear.eigenvalues <= 0]
    if null.shape[1]:
        # Where columns are collinear the latent row is random; its mean is not independent.
        latent = latent + generator.standard_normal((len(latent), null.shape[1])) @ null.T
    return latent


def _alternatives(
    matrix: Floats,
    weights: Weights,
    constant: Bools,
    columns: Sequence[Column],
    reasons: list[str],
) -> list[tuple[Any, Any]]:
    """Return the nonlinear transports that the data allow, fitted, the preferred one first."""
    n, d = len(matrix), int(np.sum(~constant))
    found: list[tuple[Any, Any]] = []
    if importlib.util.find_spec("pyvinecopulib") is None:
        reasons.append('knothe-rosenblatt is not installed (pip install "dfi[vine]")')
    elif any(len(column.positions) > 1 for column in columns):
        reasons.append("knothe-rosenblatt cannot take categories without an order")
    elif d > MOST_COLUMNS_OF_A_VINE:
        reasons.append(f"knothe-rosenblatt is not tried above {MOST_COLUMNS_OF_A_VINE} columns")
    else:
        vine = KnotheRosenblatt()
        return [(vine, vine.fit(matrix, weights, constant, columns=columns))]
    epsilon = epsilon_for(n, d, DOUBTFUL)
    if epsilon is None:
        reasons.append(f"{n} rows are too few for an entropic kernel in {d} dimensions")
    else:
        entropic = EntropicOT(epsilon=epsilon)
        found.append((entropic, entropic.fit(matrix, weights, constant)))
    return found


def _furthest_margin(matrix: Floats, weights: Weights, constant: Bools) -> tuple[float, int]:
    """Return the largest distance of a margin without levels from normal, and its column."""
    share = weights.values / weights.values.sum()
    worst, where = 0.0, int(np.flatnonzero(~constant)[0])
    for k in np.flatnonzero(~constant):
        column = matrix[:, k]
        if fit_margin(column, weights.values).discrete:
            continue
        centred = column - share @ column
        distance = float(stats.kstest(centred / np.sqrt(share @ centred**2), "norm").statistic)
        if distance > worst:
            worst, where = distance, int(k)
    return worst, where


def _describe(left: LatentDiagnostics) -> str:
    verdict = "above" if left.beyond_chance else "within"
    return (
        f"distance correlation between latents {left.max_distance_correlation:.2f}, "
        f"{verdict} what chance leaves ({left.null_distance_correlation:.2f})"
    )
