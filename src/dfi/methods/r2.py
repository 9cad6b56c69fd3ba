r"""The classical decompositions of a linear model's explained variance.

All from the covariance of the rows, in the units of Var(Y); they sum to :math:`R^2
\operatorname{Var}(Y)`.

``genizi``
    Genizi (1993): :math:`\phi = (L\circ L)\,\zeta^2` with the symmetric root :math:`L = R^{1/2}` of
    the correlation matrix, :math:`\zeta = L^{-1} c`, :math:`c = \operatorname{Cov}(\tilde x, y)`;
    the linear case of DFI under the Gaussian transport.
``lmg``
    Lindeman, Merenda and Gold (1980): increments of :math:`R^2` averaged over all orders, the
    Shapley value of the linear model.
``dominance``
    Budescu's general dominance: increments averaged over submodels of a size, then over sizes. Its
    totals equal LMG's; the averages by size (conditional dominance) are in the diagnostics.

**Influence.** For LMG and dominance, :math:`v(S)` has influence values :math:`(y-\bar y)^2 - e_S^2`
with the least-squares residuals :math:`e_S`. For Genizi, by the chain rule: with :math:`x` the
standardised row and :math:`Q = \operatorname{diag}(x^2)`, :math:`IF_R = xx' - \frac12(QR + RQ)`,
:math:`IF_c = xy - \frac12 x^2\circ c` (uncentred parts cancel), :math:`D` solving :math:`LD + DL =
IF_R` and :math:`IF_\zeta = L^{+}(IF_c - D\zeta)`,

.. math:: IF_{\phi_l} = \sum_j 2 L_{lj} D_{lj}\zeta_j^2 + 2 L_{lj}^2\,\zeta_j\,IF_{\zeta_j}.

The fit is in sample, as these decompositions are defined; its optimism is of order d/n.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from dfi._data.folds import Fold
from dfi._models.submodels import least_squares_submodels, positions_of
from dfi._parameters import validated_fields
from dfi._scoring.forms import loco
from dfi.methods.base import CONSERVATIVE, Method, MethodResult
from dfi.methods.shapley import (
    EXACT_LIMIT,
    all_coalitions,
    coalition_numbers,
    players,
    refuse_overlap,
    sampled_coalitions,
    shapley_part,
)

if TYPE_CHECKING:
    from dfi._models.fits import Fits
    from dfi._types import Bools, Floats

Decomposition = Literal["genizi", "lmg", "dominance"]
ROWS_AT_ONCE = 4 * 2**20


@validated_fields
@dataclass(frozen=True, kw_only=True)
class R2(Method):
    """Decompositions of the linear model's explained variance.

    Parameters
    ----------
    decompositions : tuple of str, default=("genizi", "lmg", "dominance")
        Which of them.

    Examples
    --------
    >>> found = dfi.compare(sample.X, sample.y, dfi.methods.R2(), estimator="linear", cv=2)
    >>> found.labels
    ('r2_genizi', 'r2_lmg', 'r2_dominance')
    """

    decompositions: tuple[Decomposition, ...] = ("genizi", "lmg", "dominance")

    any_loss = False
    name = "r2"
    question = (
        "Shared-signal attribution in the linear model: how is its explained variance split "
        "among correlated features?"
    )
    valid_intervals = True
    inference = (
        "Delta method for functions of the covariance matrix, robust to non-normal rows; the "
        f"parameter is that of the best linear fit. {CONSERVATIVE}"
    )

    def __post_init__(self) -> None:
        unknown = set(self.decompositions) - set(get_args(Decomposition))
        if unknown or not self.decompositions:
            raise ValueError(
                "decompositions must be some of 'genizi', 'lmg', 'dominance', got "
                f"{self.decompositions!r}"
            )

    def refuses(self, fits: Fits) -> str | None:
        return refuse_overlap(self.name, fits)

    def compute(self, fits: Fits) -> dict[str, MethodResult]:
        parts = {}
        if "genizi" in self.decompositions:
            parts["r2_genizi"] = _genizi(fits)
        if set(self.decompositions) != {"genizi"}:
            parts |= _orders(fits, self.decompositions)
        return parts


def _genizi(fits: Fits) -> MethodResult:
    rows, active = fits.rows, np.flatnonzero(~fits.table.constant)
    influence = genizi_influence(
        fits.table.matrix[np.ix_(rows, active)], fits.outcome.values[rows], fits.mass(rows)
    )
    members = fits.units.members(active)
    return MethodResult(
        np.column_stack([influence[:, of_unit].sum(axis=1) for of_unit in members]), rows
    )


def genizi_influence(matrix: Floats, y: Floats, mass: Floats) -> Floats:
    """Return the influence values of Genizi's decomposition, one column per column of ``matrix``.

    Rows are taken in blocks: the influence on ``L`` is a d x d matrix for each.
    """
    outcome = y - mass @ y
    rows = matrix - mass @ matrix
    rows = rows / np.sqrt(mass @ rows**2)
    correlation = (rows * mass[:, None]).T @ rows
    cross = rows.T @ (mass * outcome)
    values, vectors = np.linalg.eigh(correlation)
    values = np.where(values > 1e-10 * values.max(), values, 0.0)
    roots = np.sqrt(values)
    inverse = np.divide(1.0, roots, out=np.zeros_like(roots), where=roots > 0)
    root, pseudo = (vectors * roots) @ vectors.T, (vectors * inverse) @ vectors.T
    zeta = pseudo @ cross
    total = roots[:, None] + roots[None, :]
    kernel = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
    score = root**2 @ zeta**2
    influence = np.empty_like(rows)
    step = max(1, ROWS_AT_ONCE // rows.shape[1] ** 2)
    for start in range(0, len(rows), step):
        x = rows[start : start + step]
        half = 0.5 * (x**2)[:, :, None] * correlation
        on_correlation = x[:, :, None] * x[:, None, :] - half - half.transpose(0, 2, 1)
        rotated = vectors.T @ on_correlation @ vectors
        on_root = vectors @ (kernel * rotated) @ vectors.T
        on_cross = x * outcome[start : start + step, None] - cross - 0.5 * (x**2 - 1.0) * cross
        on_zeta = (on_cross - on_root @ zeta) @ pseudo
        influence[start : start + step] = 2.0 * (
            (on_root * root) @ zeta**2 + (on_zeta * zeta) @ (root**2).T
        )
    return np.asarray(influence - mass @ influence + score)


def _orders(fits: Fits, names: tuple[Decomposition, ...]) -> dict[str, MethodResult]:
    """Return LMG and dominance from all (or sampled) linear submodels."""
    table, rows, groups = fits.table, fits.rows, players(fits)
    d = len(groups)
    if d <= EXACT_LIMIT:
        coalitions = all_coalitions(d)
    else:
        generator = np.random.default_rng(fits.child("orders"))
        coalitions = sampled_coalitions(d, max(2000, 40 * d), generator)
    positions = [
        positions_of(table, [c for k in np.flatnonzero(mask) for c in groups[k]])
        for mask in coalitions.masks
    ]
    fitted = least_squares_submodels(
        table.matrix, fits.outcome.values, fits.weights.values, Fold(rows, rows), positions
    )
    outcome = fits.outcome.values[rows]
    values = loco(outcome[:, None], fitted, fits.mass(rows) @ outcome)
    part = shapley_part(fits, coalitions, values)
    parts = {"r2_lmg": part, "r2_dominance": part}
    if coalitions.exact:
        profile = _conditional_dominance(coalitions.masks, fits.mass(rows) @ values)
        diagnostics = {**part.diagnostics, "conditional": profile.tolist()}
        parts["r2_dominance"] = replace(part, diagnostics=diagnostics)
    return {f"r2_{name}": parts[f"r2_{name}"] for name in ("lmg", "dominance") if name in names}


def _conditional_dominance(masks: Bools, values: Floats) -> Floats:
    """Return the average increment of each player (row) over submodels of each size (column)."""
    d = masks.shape[1]
    number, sizes = coalition_numbers(masks), masks.sum(axis=1)
    value = np.empty(2**d)
    value[number] = values
    profile = np.zeros((d, d))
    for player in range(d):
        for size in range(d):
            without = number[(sizes == size) & ~masks[:, player]]
            profile[player, size] = np.mean(value[without | (1 << player)] - value[without])
    return profile
