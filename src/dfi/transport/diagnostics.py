r"""What a transport leaves behind: dependence between latents, margins off their reference.

Whitening removes correlation, not dependence. The distance correlation (Székely, Rizzo and
Bakirov, 2007) is zero in the population exactly for independent coordinates; in a sample of
independent columns it is positive, so every value is reported with the level that it would
reach by chance: the mean of the largest value over all pairs when each column is permuted by
itself, plus four of its standard deviations. Independent columns pass that level in fewer than one
table of a hundred, independent columns that were whitened (no correlation is left even by chance)
hardly ever; a 95 % level would raise a false alarm in every twentieth.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

N_PERMUTATIONS = 20
DEVIATIONS = 4.0
MAX_COLUMNS = 200
MAX_ROWS = 500
MAX_CELLS = 10**7
"""Distances held at once; bounds the time of a permutation to a fraction of a second."""


@dataclass(frozen=True)
class LatentDiagnostics:
    """Leftover dependence and marginal fit of latent coordinates.

    Attributes
    ----------
    max_correlation : float
        Largest absolute correlation between two latent coordinates.
    max_distance_correlation : float
        Largest distance correlation between two latent coordinates.
    null_distance_correlation : float
        The level that independent coordinates hardly ever reach (in fewer than 1 table of 100).
    most_dependent : tuple of int
        The pair of coordinates with the largest distance correlation.
    max_marginal_distance : float
        Largest Kolmogorov distance of a latent margin from N(0, 1).
    null_marginal_distance : float
        The 95 % level of that distance for one normal margin.
    n_rows : int
        Rows used (a subsample where there are many).
    """

    max_correlation: float
    max_distance_correlation: float
    null_distance_correlation: float
    most_dependent: tuple[int, int]
    max_marginal_distance: float
    null_marginal_distance: float
    n_rows: int

    @property
    def dependent(self) -> bool:
        """Whether more dependence is left than chance would leave."""
        return self.max_distance_correlation > self.null_distance_correlation

    def as_dict(self) -> dict[str, Any]:
        """Return the values for a result's diagnostics."""
        return {**asdict(self), "most_dependent": list(self.most_dependent)}


def latent_diagnostics(
    latent: Floats, seed: np.random.SeedSequence, owner: NDArray[np.intp] | None = None
) -> LatentDiagnostics:
    """Measure what dependence and marginal misfit is left in latent rows.

    Parameters
    ----------
    latent : ndarray of shape (n, d)
        Latent rows.
    seed : SeedSequence
        For the subsample and the permutations.
    owner : ndarray of int, shape (d,), optional
        The feature that each coordinate belongs to; pairs of one feature (the levels of a
        category exclude each other) do not count.
    """
    n, d = latent.shape
    generator = np.random.default_rng(seed)
    margins = kolmogorov_distances(latent)
    level = float(stats.kstwo.ppf(0.95, n))
    if d == 1:
        return LatentDiagnostics(0.0, 0.0, 0.0, (0, 0), float(margins[0]), level, n)
    owner = np.arange(d) if owner is None else owner
    between = owner[:, None] != owner[None, :]
    correlation = np.abs(np.corrcoef(latent.T)) * between
    # With very many coordinates, look at those that are most correlated or most off-normal.
    columns = np.arange(d)
    if d > MAX_COLUMNS:
        columns = np.sort(np.argsort(-margins)[:MAX_COLUMNS])
    size = int(min(n, MAX_ROWS, np.sqrt(MAX_CELLS / len(columns))))
    rows = np.sort(generator.permutation(n)[:size])
    sample = latent[np.ix_(rows, columns)]
    counted = between[np.ix_(columns, columns)]
    observed = distance_correlations(sample) * counted
    first, second = np.unravel_index(int(np.argmax(observed)), observed.shape)
    null = [
        float((distance_correlations(generator.permuted(sample, axis=0)) * counted).max())
        for _ in range(N_PERMUTATIONS)
    ]
    return LatentDiagnostics(
        max_correlation=float(correlation.max()),
        max_distance_correlation=float(observed.max()),
        null_distance_correlation=float(np.mean(null) + DEVIATIONS * np.std(null, ddof=1)),
        most_dependent=(int(columns[first]), int(columns[second])),
        max_marginal_distance=float(margins.max()),
        null_marginal_distance=level,
        n_rows=size,
    )


def kolmogorov_distances(latent: Floats) -> Floats:
    """Return the Kolmogorov distance of each column's empirical law from N(0, 1)."""
    n = len(latent)
    probability = stats.norm.cdf(np.sort(latent, axis=0))
    above = np.arange(1, n + 1)[:, None] / n - probability
    below = probability - np.arange(n)[:, None] / n
    return np.asarray(np.maximum(above, below).max(axis=0))


def distance_correlations(sample: Floats) -> Floats:
    """Return the distance correlation of every pair of columns, zero on the diagonal."""
    n, d = sample.shape
    centred = np.empty((d, n * n), dtype=np.float32)
    for j, column in enumerate(sample.T):
        distance = np.abs(column[:, None] - column[None, :])
        mean = distance.mean(axis=0)
        distance += mean.mean() - mean[:, None] - mean[None, :]
        centred[j] = distance.ravel()
    covariance = (centred @ centred.T).astype(float)
    variance = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    ratio = np.divide(covariance, variance, out=np.zeros_like(covariance), where=variance > 0)
    correlation = np.sqrt(np.clip(ratio, 0.0, 1.0))
    np.fill_diagonal(correlation, 0.0)
    return np.asarray(correlation)
