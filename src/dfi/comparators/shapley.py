r"""Shapley values of the squared-error value function.

.. math:: \phi_j = \sum_{S\not\ni j} \frac{|S|!\,(d-1-|S|)!}{d!}\{v(S\cup j) - v(S)\}, \qquad
          v(S) = \operatorname{Var}(Y) - E[(Y - \mu_S(X_S))^2],

so the values sum to :math:`v([d]) = \operatorname{Var}(\mu(X))`, the explained variance
(efficiency), and for a linear regression they are Lindeman, Merenda and Gold's decomposition. This
is about refitted submodels (SPVIM, Williamson and Feng 2020; Owen and Prieur 2017), not about the
attribution of single predictions (SHAP).

**Influence.** Every :math:`\mu_S` minimises the risk it is plugged into, so :math:`v(S)` has
influence values :math:`(y_i - \bar y)^2 - (y_i - \hat\mu_S(x_{iS}))^2`, with the training mean and
the submodel of the row's fold; the Shapley operator is linear and is applied to them row by row.

All :math:`2^d` submodels are used up to d = 12 for least squares (closed form) and up to 64 of them
(d = 6) where each must be refitted, or up to d = 12 on request (``exact=True``). Beyond, coalitions
are sampled (:mod:`dfi.comparators.coalitions`), and their Monte-Carlo error is reported apart.

**Source.** Definition and influence function are SPVIM's. Its Python package, vimpy 2.0.2, does not
export the class, which takes the number of rows for the number of features and cannot run; the
values are tested against the definition over all subsets and against Lindeman, Merenda and Gold's
closed form instead. SPVIM adds the variance of sampling coalitions to the standard error; here the
two are kept apart, because more data shrink only one of them.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from dfi.comparators.base import CONSERVATIVE, Part, check_at_least_two
from dfi.comparators.coalitions import (
    EXACT_LIMIT,
    Coalitions,
    Sampling,
    all_coalitions,
    sampled_coalitions,
)
from dfi.warnings import ApproximationWarning

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfi.comparators.context import Context

    Floats = NDArray[np.float64]

AFFORDABLE_REFITS = 64


@dataclass(frozen=True, kw_only=True)
class Shapley:
    """Shapley values of refitted submodels.

    Parameters
    ----------
    exact : bool or "auto", default="auto"
        All submodels. ``"auto"``: where they are in closed form (d <= 12) or at most 64; True: for
        any learner up to d = 12.
    n_coalitions : int, optional
        Submodels to sample otherwise; by default 2 per unit and at least 20 (least squares: 40
        per unit and at least 2000).
    sampling : {"coalitions", "permutations"}, default="coalitions"
        Weighted least squares over coalitions, or increments along random orders.
    n_permutations : int, optional
        Random orders to walk along, with ``sampling="permutations"``; drawn as pairs of an order
        and its reverse, both counted. Each asks for d - 1 submodels, fewer where walks meet.
    """

    exact: bool | Literal["auto"] = "auto"
    n_coalitions: int | None = None
    sampling: Sampling = "coalitions"
    n_permutations: int | None = None

    name = "shapley"
    question = (
        "Shared-signal attribution: what does the feature add on average over all submodels that "
        "it could join?"
    )
    valid_intervals = True
    inference = (
        "Loss differences of refitted submodels; where submodels are sampled the Monte-Carlo error "
        f"comes on top and is reported apart. {CONSERVATIVE}"
    )

    def __post_init__(self) -> None:
        if self.sampling not in ("coalitions", "permutations"):
            raise ValueError(
                f"sampling must be 'coalitions' or 'permutations', got {self.sampling!r}"
            )
        if not isinstance(self.exact, bool) and self.exact != "auto":
            raise ValueError(f"exact must be True, False or 'auto', got {self.exact!r}")
        for name in ("n_coalitions", "n_permutations"):
            if getattr(self, name) is not None:
                check_at_least_two(name, getattr(self, name))
        if self.n_permutations is not None and self.sampling != "permutations":
            raise ValueError("n_permutations needs sampling='permutations'")
        if self.n_permutations is not None and self.n_coalitions is not None:
            raise ValueError("give n_permutations or n_coalitions, not both")

    def refuses(self, context: Context) -> str | None:
        """Return why overlapping groups have no Shapley value, or None."""
        return refuse_overlap(self.name, context)

    def compute(self, context: Context) -> dict[str, Part]:
        """Refit the submodels and apply the Shapley operator to the rows' values."""
        groups = players(context)
        coalitions = self.coalitions(context, len(groups))
        subsets = [
            tuple(c for player in np.flatnonzero(mask) for c in groups[player])
            for mask in coalitions.masks
        ]
        constant = constant_columns(context)
        subsets = [tuple(c for c in subset if c not in constant) for subset in subsets]
        full = tuple(range(len(context.table.columns)))
        subsets = [full if len(s) == len(full) - len(constant) else s for s in subsets]
        predictions = context.submodels.predictions(subsets, "refitting submodels")[context.rows]
        y = context.outcome.values[context.rows]
        baseline = predictions[:, coalitions.masks.sum(axis=1) == 0]
        values = (y[:, None] - baseline) ** 2 - (y[:, None] - predictions) ** 2
        return {self.name: shapley_part(context, coalitions, values)}

    def coalitions(self, context: Context, d: int) -> Coalitions:
        """Return the coalitions of ``d`` players, all of them or a sample."""
        closed = context.submodels.closed_form
        affordable = d <= EXACT_LIMIT and (
            closed or self.exact is True or 2**d <= AFFORDABLE_REFITS
        )
        asked = self.n_coalitions
        if self.n_permutations is not None:
            asked = self.n_permutations * (d - 1)
        if d == 1 or (self.exact is not False and asked is None and affordable):
            return all_coalitions(d)
        count = asked or (max(2000, 40 * d) if closed else max(20, 2 * d))
        if self.exact is True and d <= EXACT_LIMIT:
            return all_coalitions(d)
        if self.exact is not False and d > EXACT_LIMIT:
            warnings.warn(
                f"exact Shapley values of {d} units need 2^{d} submodels (the limit is "
                f"2^{EXACT_LIMIT}): about {count} sampled {self.sampling} are used instead, with "
                "their Monte-Carlo error; group features or raise n_coalitions for more precision",
                ApproximationWarning,
                stacklevel=2,
            )
        generator = np.random.default_rng(context.child("coalitions"))
        return sampled_coalitions(d, count, generator, self.sampling)


def refuse_overlap(name: str, context: Context) -> str | None:
    """Return why a method cannot take overlapping groups, or None."""
    pair = context.units.overlap()
    if pair is None:
        return None
    return (
        f"{name} shares the explained variance among disjoint units, but groups {pair[0]!r} and "
        f"{pair[1]!r} have a feature in common"
    )


def constant_columns(context: Context) -> set[int]:
    """Return the columns of the table that do not vary."""
    return set(np.flatnonzero(context.table.constant_units).tolist())


def players(context: Context) -> list[tuple[int, ...]]:
    """Return the columns of each player: units that vary, then columns outside of all groups."""
    inside = {c for columns in context.units.columns for c in columns}
    constant = constant_columns(context)
    outside = [
        (c,) for c in range(len(context.table.columns)) if c not in inside and c not in constant
    ]
    return [context.units.columns[unit] for unit in context.units.active] + outside


def shapley_part(context: Context, coalitions: Coalitions, values: Floats) -> Part:
    """Apply the operator to the rows' values; players outside of the units are left out."""
    active = list(context.units.active)
    influence = np.zeros((len(values), len(context.units)))
    influence[:, active] = values @ coalitions.operator.T[:, : len(active)]
    noise = np.zeros(len(context.units))
    average = context.mass(context.rows) @ values
    noise[active] = coalitions.monte_carlo_se(average)[: len(active)]
    d = coalitions.masks.shape[1]
    return Part(
        influence,
        context.rows,
        monte_carlo_se=noise,
        diagnostics={
            "submodels": len(coalitions.masks),
            "of": float(2**d),
            "approximation": "none: all submodels" if coalitions.exact else "sampled submodels",
        },
    )
