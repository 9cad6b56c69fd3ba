r"""Are latent coordinates independent? A classifier tries to tell them from independent ones.

Whitening removes correlation, not dependence. Rows whose units are permuted apart have the same
margins and are independent. A classifier that tells the rows from them on rows it has not seen, by
the area under its curve (AUC), shows that the latents are dependent, of any order; where they are
independent nothing can, and the AUC is .5 up to chance. Boosted trees split on one column at a
time: they are given products, sums, differences and differences of squares of pairs, without which
they do not even see a parabola.

Dependence is worth saying where the AUC is above :data:`NOTICEABLE` and above what chance reaches
(:func:`chance_auc`), among pairs of units of which one carries signal: between columns that say
nothing it concerns no score.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats
from scipy.special import ndtr
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from dfi._threads import openmp_limited
from dfi.transports.potential import pair_dependence

if TYPE_CHECKING:
    from dfi._types import Bools, Floats, Ints, Plain

NOTICEABLE = 0.6
"""Area under the curve that is worth reporting: a parabola has .75, a t copula (3 degrees) .6."""

ERRORS = 1.0
r"""Chance reaches :math:`.5 + 1/\sqrt n` in less than one table of 100: the deviation of the area
was :math:`.27/\sqrt n` to :math:`.32/\sqrt n` over 500 tables of 60 to 300 independent rows."""

MOST_ROWS, FEWEST_ROWS = 2000, 40
"""Rows that the classifier is given; below the last nothing is asked."""

MOST_PAIRS = 100
"""Pairs of coordinates it gets: the most dependent ones among its training rows."""

REPEATS, ONCE_ROWS = 3, 1000
"""Splits that the area is averaged over; one is enough from so many rows on, if it is given as many
pairs: the area is known to .01 there, and a split takes half a second."""

FAR = 0.5
r"""One split is enough, too, where its area is below :math:`.5 + FAR/\sqrt n`, as in four of five
independent tables: the verdict was that of three splits in all of 300 tables (100 and 400 rows,
independent and t copulas). So is one half of it: of 144 tables (100 to 2000 rows; independent, t
copulas, parabolas, products) 47 stopped there, and both halves told no dependence in any."""

SHOWN = 3
"""Pairs that are named, at most, each with its own area."""

CLIPPED = 5.0


@dataclass(frozen=True)
class Independence:
    """The dependence and marginal misfit that remain in latent coordinates.

    ``auc`` is that of a classifier between latent rows and rows with their units permuted apart,
    out of fold; ``chance_auc`` what independent ones reach in 1 of 100 tables. ``pairs`` of units
    are dependent on their own, with ``pair_auc``. ``max_correlation`` is the largest between
    coordinates of two units, ``max_marginal_distance`` Kolmogorov's of a margin from N(0, 1) and
    ``null_marginal_distance`` its 95 % level for one normal margin; ``n_rows`` were used.
    """

    auc: float
    chance_auc: float
    pairs: tuple[tuple[int, int], ...]
    pair_auc: tuple[float, ...]
    max_correlation: float
    max_marginal_distance: float
    null_marginal_distance: float
    n_rows: int

    @property
    def dependent(self) -> bool:
        """Whether dependence remains that exceeds chance and is worth reporting."""
        return self.auc > max(NOTICEABLE, self.chance_auc)

    def as_dict(self) -> Plain:
        """Return the values for a result's diagnostics."""
        found = {**asdict(self), "pairs": [list(pair) for pair in self.pairs]}
        return {**found, "pair_auc": list(self.pair_auc), "dependent": self.dependent}


def chance_auc(n: int) -> float:
    """Return the area that a classifier of ``n`` independent latent rows may reach."""
    return 0.5 + ERRORS / float(np.sqrt(n))


def independence(
    latent: Floats,
    seed: np.random.SeedSequence,
    owner: Ints | None = None,
    carries: Bools | None = None,
) -> Independence:
    """Measure the dependence and marginal misfit that remain in latent rows (n, d)."""
    n, d = latent.shape
    owner = np.arange(d) if owner is None else owner
    margins = float(kolmogorov_distances(latent).max())
    level = float(stats.kstwo.ppf(0.95, n))
    signal = np.ones(d, dtype=bool)
    if carries is not None and carries[owner].any():
        signal = carries[owner]
    one, other = np.triu_indices(d, 1)
    kept = (owner[one] != owner[other]) & (signal[one] | signal[other])
    pairs = np.stack([one[kept], other[kept]], axis=1)
    spread = latent.std(axis=0)
    varies = (spread[pairs] > 0).all(axis=1)
    pairs = pairs[varies]
    if len(pairs) == 0 or n < FEWEST_ROWS:
        return Independence(0.5, chance_auc(n), (), (), 0.0, margins, level, n)
    generator = np.random.default_rng(seed)
    rows = np.sort(generator.permutation(n)[:MOST_ROWS])
    scaled = (latent - latent.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    correlation = np.abs(scaled.T @ scaled / n)[pairs[:, 0], pairs[:, 1]].max()
    scaled = np.clip(scaled[rows], -CLIPPED, CLIPPED)
    moved = np.where(signal, owner, -1)
    once = len(rows) >= ONCE_ROWS and len(pairs) >= MOST_PAIRS
    reached = chance_auc(len(rows))
    far = 0.5 + FAR * (reached - 0.5)
    areas = [_area(scaled, moved, pairs, generator, far)]
    if not once and areas[0] > far:
        areas += [_area(scaled, moved, pairs, generator) for _ in range(REPEATS - 1)]
    found = float(np.mean(areas))
    named: dict[tuple[int, int], float] = {}
    if found > reached:
        strength = pair_dependence(scaled)[pairs[:, 0], pairs[:, 1]]
        for place in np.argsort(-strength, kind="stable"):
            first, second = sorted(owner[pairs[place]].tolist())
            if (first, second) not in named:
                named[first, second] = _area(scaled, moved, pairs[[place]], generator)
            if len(named) == 2 * SHOWN:
                break
    first_ones = sorted(named, key=lambda pair: -named[pair])
    shown = [pair for at, pair in enumerate(first_ones[:SHOWN]) if at == 0 or named[pair] > reached]
    return Independence(
        auc=found,
        chance_auc=reached,
        pairs=tuple(shown),
        pair_auc=tuple(named[pair] for pair in shown),
        max_correlation=float(correlation),
        max_marginal_distance=margins,
        null_marginal_distance=level,
        n_rows=len(rows),
    )


def _area(
    rows: Floats, moved: Ints, pairs: Ints, generator: np.random.Generator, far: float = 0.0
) -> float:
    """Return a classifier's area, each half by one of the other; below ``far`` one is enough."""
    order = generator.permutation(len(rows))
    tables = []
    for half in np.array_split(order, 2):
        apart = np.empty((len(half), rows.shape[1]))
        for unit in np.unique(moved):
            inside = moved == unit
            apart[:, inside] = rows[generator.permutation(half)][:, inside]
        tables.append((rows[half], apart))
    areas = []
    for train, test in (tables, tables[::-1]):
        chosen = pairs
        if len(pairs) > MOST_PAIRS:
            strength = pair_dependence(train[0])[pairs[:, 0], pairs[:, 1]]
            chosen = pairs[np.sort(np.argsort(-strength, kind="stable")[:MOST_PAIRS])]
        model = HistGradientBoostingClassifier(
            max_iter=40, max_leaf_nodes=8, learning_rate=0.15, max_bins=31, early_stopping=False,
            random_state=0,
        )  # fmt: skip
        which = np.repeat([1, 0], [len(part) for part in train])
        with openmp_limited(0):
            model.fit(_of_pairs(np.vstack(train), chosen), which)
            found = model.decision_function(_of_pairs(np.vstack(test), chosen))
        which = np.repeat([1, 0], [len(part) for part in test])
        areas.append(roc_auc_score(which, found))
        if areas[0] < far:
            break
    return float(np.mean(areas))


def _of_pairs(rows: Floats, pairs: Ints) -> Floats:
    one, other = rows[:, pairs[:, 0]], rows[:, pairs[:, 1]]
    squares = np.abs(one) - np.abs(other)
    return np.hstack([one * other, one + other, one - other, squares])


def kolmogorov_distances(latent: Floats) -> Floats:
    """Return the Kolmogorov distance of each column's empirical law from N(0, 1)."""
    n = len(latent)
    steps, found = np.arange(n + 1) / n, np.empty(latent.shape[1])
    # one after the other: of many rows all columns at once are five copies of the table
    for j, column in enumerate(latent.T):
        probability = ndtr(np.sort(column))
        found[j] = np.maximum(steps[1:] - probability, probability - steps[:-1]).max()
    return found
