"""How different two tables are: a swap needs features that overlap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from dfi.methods.swapped import recoded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dfi._models.fits import Fits
    from dfi._types import Floats, Ints

SEPARATED, POOR = 0.95, 0.85
r"""Area under the curve of a classifier between the tables from which law and relation are refused,
or doubted. For normal features that shift by :math:`\delta` standard deviations it is
:math:`\Phi(\delta/\sqrt2)`: .85 for 1.5, .95 for 2.3, where the rows of one table stand for the
other as a tenth and a two-hundredth of their number would."""

FEWEST_EFFECTIVE = 0.02
"""Smallest effective share of a table's rows as rows of the other table."""

SHOWN_COLUMNS = 3
FOLDS = 5
BINS = 128
"""Bins of a column's values between which the trees that tell tables apart may split."""


@dataclass(frozen=True)
class Separation:
    r"""How well a classifier tells the rows of two tables apart, cross-fitted.

    The classifier is the mean of a logistic regression on values and squares, and of boosted trees.
    With its odds :math:`w` as weights, the rows of one table stand for those of the other as
    :math:`(\sum w)^2 / \sum w^2` independent ones would: ``effective`` is that share of each table.
    ``columns`` separate most, each with the area under its own curve.
    """

    auc: float
    effective: tuple[float, float]
    columns: Mapping[str, float]

    @classmethod
    def of(cls, before: Fits, after: Fits) -> Separation:
        matrices, weights = [], []
        for fits, matrix in (
            (before, recoded(before.table, after.table)),
            (after, after.table.matrix),
        ):
            rows = fits.rows[fits.weights.values[fits.rows] > 0]
            matrices.append(matrix[rows])
            weights.append(fits.weights.values[rows] / fits.weights.values[rows].sum())
        points = np.vstack(matrices)
        which = np.repeat([0, 1], [len(part) for part in matrices])
        mass = np.concatenate(weights)
        chance = _out_of_fold(points, which, mass, after.child("overlap"))
        auc = float(roc_auc_score(which, chance, sample_weight=mass))
        odds = np.clip(chance, 1e-6, 1.0 - 1e-6)
        odds = odds / (1.0 - odds)
        effective = []
        for period, factor in ((0, odds), (1, 1.0 / odds)):
            own = (factor * mass)[which == period]
            plain = mass[which == period]
            size = (own.sum() ** 2 / np.sum(own**2)) / (plain.sum() ** 2 / np.sum(plain**2))
            effective.append(float(min(1.0, size)))
        return cls(max(auc, 0.5), (effective[0], effective[1]), _apart(points, which, mass, after))

    @property
    def separated(self) -> bool:
        """Whether the tables are too different to separate law and relation."""
        return self.auc >= SEPARATED or min(self.effective) < FEWEST_EFFECTIVE

    @property
    def words(self) -> str:
        found = ", ".join(f"{name!r} ({auc:.2f})" for name, auc in self.columns.items())
        least = min(self.effective)
        return (
            f"a classifier separates the tables (area under the curve {self.auc:.2f}), mostly by "
            f"{found}; weighted to look like the other, a table is worth only "
            f"{100 * least:.1f} % of its rows"
        )

    def as_dict(self) -> dict[str, object]:
        return {
            "auc": self.auc,
            "effective": list(self.effective),
            "columns": dict(self.columns),
            "separated": self.separated,
        }


def _out_of_fold(rows: Floats, which: Ints, mass: Floats, seed: np.random.SeedSequence) -> Floats:
    """Return the probability of the second table for each row, by models that did not see it."""
    deviation = rows.std(axis=0)
    scaled = (rows - rows.mean(axis=0))[:, deviation > 0] / deviation[deviation > 0]
    scaled = np.hstack([scaled, scaled**2 / np.sqrt(np.mean(scaled**4, axis=0))])
    coarse = _coarse(rows)
    number = int(seed.generate_state(1)[0])
    found = np.full(len(rows), 0.5)
    count = min(FOLDS, int(np.bincount(which).min()))
    weight = mass * len(mass)
    for train, test in StratifiedKFold(count, shuffle=True, random_state=number).split(rows, which):
        smooth = LogisticRegression(C=1.0, max_iter=1000)
        smooth.fit(scaled[train], which[train], sample_weight=weight[train])
        steps = HistGradientBoostingClassifier(
            max_iter=60, max_leaf_nodes=8, random_state=number, early_stopping=False
        )
        steps.fit(coarse[train], which[train], sample_weight=weight[train])
        found[test] = 0.5 * (
            smooth.predict_proba(scaled[test])[:, 1] + steps.predict_proba(coarse[test])[:, 1]
        )
    return found


def _coarse(rows: Floats) -> Floats:
    """Return for each value the number of the bin that it falls into, by quantiles of its column.

    Trees with weights would look for bins of their own, one quantile at a time in every column and
    fold, which takes longer than all the rest of a change.
    """
    shares = np.arange(1, BINS) / BINS
    # edges are values of the column: a mean of two could round to either side of one of them
    edges = np.quantile(rows, shares, axis=0, method="higher")
    found = [np.searchsorted(edges[:, k], rows[:, k], side="right") for k in range(rows.shape[1])]
    return np.column_stack(found).astype(np.float64)


def _apart(rows: Floats, which: Ints, mass: Floats, fits: Fits) -> dict[str, float]:
    """Return the columns that separate two tables most, each on its own."""
    found: dict[str, float] = {}
    for column in fits.table.columns:
        areas = [
            float(roc_auc_score(which, rows[:, k], sample_weight=mass)) for k in column.positions
        ]
        found[column.name] = max(max(area, 1.0 - area) for area in areas)
    first = sorted(found, key=lambda name: -found[name])[:SHOWN_COLUMNS]
    return {name: found[name] for name in first}
