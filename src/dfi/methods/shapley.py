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
(d = 6) where each must be refitted, or up to d = 12 on request (``exact=True``). Beyond, they are
sampled: along orders (:mod:`dfi.methods.walks`) where they are refitted, by the Shapley kernel
(:mod:`dfi.methods.coalitions`) where they are solved.

**Two errors.** Sampled submodels add an error that all rows share, which influence values do not
show. It is estimated and reported as ``monte_carlo_se``, and the influence values are spread about
their mean until the standard error, and with it intervals and tests, counts both.

**Source.** Definition and influence function are SPVIM's. Its Python package, vimpy 2.0.2, does not
export the class, which takes the number of rows for the number of features and cannot run; the
values are tested against the definition over all subsets and against Lindeman, Merenda and Gold's
closed form instead. SPVIM adds the variance of sampling coalitions to the standard error; so does
this, and reports it apart, because more data shrink only one of the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from dfi.methods.base import CONSERVATIVE, Part, check_at_least_two
from dfi.methods.coalitions import (
    EXACT_LIMIT,
    Coalitions,
    all_coalitions,
    sampled_coalitions,
)
from dfi.methods.game import Game
from dfi.methods.refit import submodels
from dfi.methods.walks import walked_part
from dfi.warnings import ApproximationWarning, warn

if TYPE_CHECKING:
    from dfi._models.fits import Fits
    from dfi._types import Floats

AFFORDABLE_REFITS = 64
Sampling = Literal["auto", "permutations", "coalitions"]


@dataclass(frozen=True, kw_only=True)
class Shapley:
    """Shapley values of refitted submodels.

    Parameters
    ----------
    exact : bool or "auto", default="auto"
        All submodels. ``"auto"``: where they are in closed form (d <= 12) or at most 64; True: for
        any learner up to d = 12.
    sampling : {"auto", "permutations", "coalitions"}, default="auto"
        Otherwise increments along random orders, drawn anew in every fold, or weighted least
        squares over coalitions that all folds share. ``"auto"``: orders where submodels are
        refitted, coalitions where they are solved.
    n_permutations : int, optional
        Orders to walk along in each fold; drawn as pairs of an order and its reverse, both counted.
        Each asks for d - 1 submodels, fewer where walks meet. By default 2, and 4 in two of the
        folds, which the Monte-Carlo error is estimated from; with 2 in all of them it is NaN.
    n_coalitions : int, optional
        Submodels to sample instead of a number of orders: about as many in each fold. By default
        8 per unit (least squares: 40 per unit and at least 2000).
    """

    exact: bool | Literal["auto"] = "auto"
    n_coalitions: int | None = None
    sampling: Sampling = "auto"
    n_permutations: int | None = None

    name = "shapley"
    question = (
        "Shared-signal attribution: what does the feature add on average over all submodels that "
        "it could join?"
    )
    valid_intervals = True
    inference = (
        "Loss differences of refitted submodels; where submodels are sampled the standard error "
        f"counts the Monte-Carlo error, which is reported apart too. {CONSERVATIVE}"
    )

    def __post_init__(self) -> None:
        if self.sampling not in ("auto", "coalitions", "permutations"):
            raise ValueError(
                f"sampling must be 'auto', 'coalitions' or 'permutations', got {self.sampling!r}"
            )
        if not isinstance(self.exact, bool) and self.exact != "auto":
            raise ValueError(f"exact must be True, False or 'auto', got {self.exact!r}")
        for name in ("n_coalitions", "n_permutations"):
            if getattr(self, name) is not None:
                check_at_least_two(name, getattr(self, name))
        if self.n_permutations is not None and self.sampling == "coalitions":
            raise ValueError("n_permutations needs sampling='permutations'")
        if self.n_permutations is not None and self.n_coalitions is not None:
            raise ValueError("give n_permutations or n_coalitions, not both")

    def refuses(self, fits: Fits) -> str | None:
        """Return why overlapping groups have no Shapley value, or None."""
        return refuse_overlap(self.name, fits)

    def compute(self, fits: Fits) -> dict[str, Part]:
        """Refit the submodels and apply the Shapley operator to the rows' values."""
        game = Game(fits, players(fits))
        if self._takes_all(fits, game.d):
            part = _shared_design(game, all_coalitions(game.d))
        elif self._sampling(fits) == "permutations":
            pairs = self._pairs(len(fits.folds), game.d)
            self._say_limit(game.d, f"{2 * sum(pairs)} orders over {len(pairs)} folds")
            part = walked_part(game, pairs, fits.child("orders"))
        else:
            solved = submodels(fits).closed_form
            count = self.n_coalitions or (max(2000, 40 * game.d) if solved else 8 * game.d)
            self._say_limit(game.d, f"about {count} coalitions")
            generator = np.random.default_rng(fits.child("coalitions"))
            part = _shared_design(game, sampled_coalitions(game.d, count, generator))
        _say_noise(fits, part)
        return {self.name: part}

    def _takes_all(self, fits: Fits, d: int) -> bool:
        """Tell whether every submodel is to be used."""
        if d == 1 or self.exact is True:
            return d <= EXACT_LIMIT
        if self.exact is False or self.n_coalitions is not None or self.n_permutations is not None:
            return False
        affordable = submodels(fits).closed_form or 2**d <= AFFORDABLE_REFITS
        return d <= EXACT_LIMIT and affordable

    def _sampling(self, fits: Fits) -> str:
        if self.sampling != "auto":
            return self.sampling
        if self.n_permutations is not None or not submodels(fits).closed_form:
            return "permutations"
        return "coalitions"

    def _pairs(self, n_folds: int, d: int) -> list[int]:
        """Return the number of pairs of orders in each fold."""
        if self.n_permutations is not None:
            return [max(1, self.n_permutations // 2)] * n_folds
        if self.n_coalitions is not None:
            return [max(1, round(self.n_coalitions / (2 * (d - 1))))] * n_folds
        # A second pair where it takes one to estimate the error; four where one fold has to do.
        return [4] if n_folds == 1 else [2, 2] + [1] * (n_folds - 2)

    def _say_limit(self, d: int, instead: str) -> None:
        if self.exact is not False and d > EXACT_LIMIT:
            warn(
                f"exact Shapley values of {d} units need 2^{d} submodels (the limit is "
                f"2^{EXACT_LIMIT}): {instead} are used instead, with their Monte-Carlo error; "
                "group features, or raise n_permutations, for more precision",
                ApproximationWarning,
            )


def _say_noise(fits: Fits, part: Part) -> None:
    """Warn where most of an error comes from sampling submodels."""
    noise = np.zeros(0) if part.monte_carlo_se is None else part.monte_carlo_se
    total = fits.weights.take(part.rows).standard_error(part.influence)
    total = np.nan_to_num(total)
    # Nulls have small errors of either kind, which nobody need care about.
    matters = total > 0.25 * np.max(total, initial=0.0)
    ruled = np.flatnonzero((noise**2 > 0.5 * total**2) & matters)
    if not len(ruled):
        return
    worst = ruled[np.argmax(noise[ruled])]
    warn(
        f"Shapley values from sampled submodels: most of the error of {len(ruled)} of "
        f"{len(noise)} scores comes from sampling them (at worst {fits.units.names[worst]!r}, "
        f"{noise[worst]:.3g} of {total[worst]:.3g}); ask for more orders (n_permutations) or for "
        f"exact=True (up to {EXACT_LIMIT} units)",
        ApproximationWarning,
    )


def _shared_design(game: Game, coalitions: Coalitions) -> Part:
    """Return Shapley values from coalitions that all folds share."""
    parts = game.values([coalitions.masks] * len(game.fits.folds))
    values = np.full((game.fits.table.n_rows, len(coalitions.masks)), np.nan)
    for fold, part in zip(game.fits.folds, parts, strict=True):
        values[fold.test] = part
    return shapley_part(game.fits, coalitions, values[game.fits.rows])


def refuse_overlap(name: str, fits: Fits) -> str | None:
    """Return why a method cannot take overlapping groups, or None."""
    pair = fits.units.overlap()
    if pair is None:
        return None
    return (
        f"{name} shares the explained variance among disjoint units, but groups {pair[0]!r} and "
        f"{pair[1]!r} have a feature in common"
    )


def players(fits: Fits) -> list[tuple[int, ...]]:
    """Return the columns of each player: units that vary, then columns outside of all groups."""
    inside = {c for columns in fits.units.columns for c in columns}
    constant = set(np.flatnonzero(fits.table.constant_units).tolist())
    outside = [
        (c,) for c in range(len(fits.table.columns)) if c not in inside and c not in constant
    ]
    return [fits.units.columns[unit] for unit in fits.units.active] + outside


def shapley_part(fits: Fits, coalitions: Coalitions, values: Floats) -> Part:
    """Apply the operator to the rows' values; players outside of the units are left out."""
    active = list(fits.units.active)
    influence = np.zeros((len(values), len(fits.units)))
    influence[:, active] = values @ coalitions.operator.T[:, : len(active)]
    noise = np.zeros(len(fits.units))
    average = fits.mass(fits.rows) @ values
    noise[active] = coalitions.monte_carlo_se(average)[: len(active)]
    d = coalitions.masks.shape[1]
    return Part(
        _widened(influence, noise, fits),
        fits.rows,
        monte_carlo_se=noise,
        diagnostics={
            "submodels": len(coalitions.masks),
            "of": float(2**d),
            "approximation": "none: all submodels" if coalitions.exact else "sampled submodels",
        },
    )


def _widened(influence: Floats, noise: Floats, fits: Fits) -> Floats:
    """Return influence values spread about their mean until they count a Monte-Carlo error too."""
    weights = fits.weights.take(fits.rows)
    error = weights.standard_error(influence)
    ratio = np.divide(noise, error, out=np.zeros_like(noise), where=error > 0)
    centre = weights.mean(influence)
    return np.asarray(centre + (influence - centre) * np.sqrt(1.0 + ratio**2))
