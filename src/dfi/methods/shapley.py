r"""Shapley values of the squared-error value function.

.. math:: \phi_j = \sum_{S\not\ni j} \frac{|S|!\,(d-1-|S|)!}{d!}\{v(S\cup j) - v(S)\}, \qquad
          v(S) = \operatorname{Var}(Y) - E[(Y - \mu_S(X_S))^2],

so the values sum to :math:`v([d]) = \operatorname{Var}(\mu(X))`, the explained variance
(efficiency), and for a linear regression they are Lindeman, Merenda and Gold's decomposition. This
is about refitted submodels (SPVIM, Williamson and Feng 2020; Owen and Prieur 2017), not about the
attribution of single predictions (SHAP).

**Influence.** Every :math:`\mu_S` minimises the risk it is plugged into, so :math:`v(S)` has
influence values :math:`(y_i - \bar y)^2 - (y_i - \hat\mu_S(x_{iS}))^2`, with the training mean and
the submodel of the row's fold. The Shapley value is linear in the value function,
:math:`\phi = A v`, and the same operator turns the rows' values into influence values.

**Which submodels.** All :math:`2^d` up to d = 12 for least squares (closed form) and up to 64 of
them (d = 6) where each must be refitted, or up to d = 12 on request (``exact=True``). Beyond, they
are sampled. Where they are solved, the operator comes from constrained weighted least squares
(SPVIM): coalitions and their complements drawn with the Shapley kernel and :math:`\phi` minimising
:math:`\sum_S (v(S) - v(\emptyset) - \sum_{j\in S}\phi_j)^2` subject to efficiency. Where they are
refitted, it comes from increments along random orders. Both satisfy efficiency exactly.

**Orders.** Refits are expensive, so the sample of submodels is small. Four things make the most of
it.

- *An order and its reverse* give the Shapley value where players interact in pairs only.
- *Orders are drawn anew in every fold.* Submodels are refitted in every fold anyway, so K folds
  walk along K times as many orders at no cost.
- *Least squares is a control variate.* Its submodels are solved, all :math:`2^d` of them, so its
  game :math:`v^\ell` is known with its Shapley values, and only the difference is sampled:
  :math:`\hat\phi = A v^\ell + \hat A (v - v^\ell)`. What correlated features share is mostly
  there already.
- *Increments average values and never extrapolate*, unlike weighted least squares over about as
  many coalitions as players.

Nine features, the first four correlated by 0.9 and with Shapley values of 3.7, the others null,
500 rows, eight seeds: 20 coalitions by weighted least squares gave the nulls -14.5 to 7.3.

**Two errors.** Sampled submodels add an error that all rows share, which influence values do not
show. It is estimated and reported as ``monte_carlo_se``, and the influence values are spread about
their mean until the standard error, and with it intervals and tests, counts both. Along orders it
is estimated from pairs within a fold, which share its rows: with :math:`P_k` pairs in fold k, their
means :math:`m_{kp}` and the folds' shares :math:`w_k` of the rows,

.. math:: \sigma_j^2 = \frac{\sum_{kp} (m_{kpj} - \bar m_{kj})^2}{\sum_k (P_k - 1)}, \qquad
          \mathrm{MC}_j^2 = \sigma_j^2 \sum_k w_k^2 / P_k .

Two folds with a second pair are enough for a rough estimate. (Means of different folds differ by
their rows too. Subtracting that part, which is known from the rows, left a third of the true error
in one of four settings: folds are not independent.) The rows of such a fold are each given a share
of their pair's deviation, so a column's standard error counts it, while the sum over units,
which has no such error, is unchanged.

**Source.** Definition and influence function are SPVIM's. Its Python package, vimpy 2.0.2, does not
export the class, which takes the number of rows for the number of features and cannot run; the
values are tested against the definition over all subsets and against Lindeman, Merenda and Gold's
closed form instead. SPVIM adds the variance of sampling coalitions to the standard error; so does
this, and reports it apart, because more data shrink only one of the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import factorial
from typing import TYPE_CHECKING, Literal

import numpy as np

from dfi._models.submodels import least_squares_submodels, positions_of, submodels
from dfi._parameters import validated_fields, worded
from dfi._scoring.forms import loco
from dfi.methods.base import CONSERVATIVE, Method, MethodResult
from dfi.warnings import ApproximationWarning, warn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfi._models.fits import Fits
    from dfi._types import Bools, Floats, Ints

AFFORDABLE_REFITS = 64
EXACT_LIMIT = 12
# The linear game of a fold is solved for all its coalitions at once: numbers kept, and operations.
MOST_NUMBERS = 2e7
MOST_OPERATIONS = 2e9
# Beyond it a residual would be divided by nearly nothing.
MOST_LEVERAGE = 0.95
Sampling = Literal["auto", "coalitions", "permutations"]


@validated_fields
@dataclass(frozen=True, kw_only=True)
class Shapley(Method):
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

    Examples
    --------
    >>> found = dfi.compare(sample.X, sample.y, dfi.methods.Shapley(), estimator="linear", cv=2)
    >>> found["shapley"].scores.round()
    array([17.,  8., -0.])
    """

    exact: bool | Literal["auto"] = "auto"
    n_coalitions: int | None = None
    sampling: Sampling = "auto"
    n_permutations: int | None = None

    name = "shapley"
    question = (
        "Shared-signal attribution: what does the feature add on average, over all submodels?"
    )
    valid_intervals = True
    inference = (
        "Loss differences of refitted submodels; if submodels are sampled, the standard error "
        f"includes the Monte-Carlo error, which is also reported separately. {CONSERVATIVE}"
    )

    def __post_init__(self) -> None:
        if self.n_permutations is not None and self.sampling == "coalitions":
            raise ValueError("n_permutations needs sampling='permutations'")
        if self.n_permutations is not None and self.n_coalitions is not None:
            raise ValueError("give n_permutations or n_coalitions, not both")

    def refuses(self, fits: Fits) -> str | None:
        return refuse_overlap(self.name, fits)

    def compute(self, fits: Fits) -> dict[str, MethodResult]:
        game = Game(fits, players(fits))
        if self._takes_all(fits, game.d):
            part = _shared_design(game, all_coalitions(game.d))
        elif self._sampling(fits) == "permutations":
            pairs = self._pairs(len(fits.folds), game.d)
            self._warn_of_limit(game.d, f"{2 * sum(pairs)} orders over {len(pairs)} folds")
            part = walked_part(game, pairs, fits.child("orders"))
        else:
            solved = submodels(fits).closed_form
            count = self.n_coalitions or (max(2000, 40 * game.d) if solved else 8 * game.d)
            self._warn_of_limit(game.d, f"about {count} coalitions")
            generator = np.random.default_rng(fits.child("coalitions"))
            part = _shared_design(game, sampled_coalitions(game.d, count, generator))
        _warn_of_noise(fits, part)
        return {self.name: part}

    def _takes_all(self, fits: Fits, d: int) -> bool:
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
        if self.n_permutations is not None:
            return [max(1, self.n_permutations // 2)] * n_folds
        if self.n_coalitions is not None:
            return [max(1, round(self.n_coalitions / (2 * (d - 1))))] * n_folds
        # A second pair in two folds, to estimate the error from; four pairs in a single fold.
        return [4] if n_folds == 1 else [2, 2] + [1] * (n_folds - 2)

    def _warn_of_limit(self, d: int, instead: str) -> None:
        if self.exact is not False and d > EXACT_LIMIT:
            warn(
                f"exact Shapley values of {d} units need 2^{d} submodels (the limit is "
                f"2^{EXACT_LIMIT}): {instead} are used instead, with their Monte-Carlo error; "
                f"group features{worded(', or raise n_permutations,', '')} for more precision",
                ApproximationWarning,
            )


def _warn_of_noise(fits: Fits, part: MethodResult) -> None:
    noise = np.zeros(0) if part.monte_carlo_se is None else part.monte_carlo_se
    total = np.nan_to_num(fits.weights.take(part.rows).standard_error(part.influence))
    # Null features have small errors of either kind, which do not matter.
    matters = total > 0.25 * np.max(total, initial=0.0)
    noisy = np.flatnonzero((noise**2 > 0.5 * total**2) & matters)
    if not len(noisy):
        return
    worst = noisy[np.argmax(noise[noisy])]
    more = f"; use more orders (n_permutations) or exact=True (up to {EXACT_LIMIT} units)"
    warn(
        f"Shapley values from sampled submodels: most of the error of {len(noisy)} of "
        f"{len(noise)} scores comes from sampling them (at worst {fits.units.names[worst]!r}, "
        f"{noise[worst]:.3g} of {total[worst]:.3g})" + worded(more, ""),
        ApproximationWarning,
    )


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
    varying = np.flatnonzero(~fits.table.constant_units).tolist()
    outside = [(c,) for c in varying if c not in inside]
    return [fits.units.columns[unit] for unit in fits.units.active] + outside


@dataclass(frozen=True)
class Game:
    r"""The game of units, valued by the loss that a submodel explains, row by row.

    A coalition's values are :math:`(y_i - \bar y)^2 - (y_i - \hat\mu_S(x_{iS}))^2`; ``groups`` are
    the columns of each player.
    """

    fits: Fits
    groups: list[tuple[int, ...]]

    @property
    def d(self) -> int:
        return len(self.groups)

    @cached_property
    def n_varying(self) -> int:
        return int(np.sum(~self.fits.table.constant_units))

    def values(self, masks: Sequence[Bools]) -> list[Floats]:
        """Return the values of each fold's coalitions on its held-out rows, (n_test, m)."""
        subsets = [[self._columns(mask) for mask in of_fold] for of_fold in masks]
        by_fold = submodels(self.fits).by_fold(subsets, "refitting submodels")
        return [
            self._gain(fold.test, predictions, predictions[:, ~of_fold.any(axis=1)][:, :1])
            for fold, predictions, of_fold in zip(self.fits.folds, by_fold, masks, strict=True)
        ]

    def _columns(self, mask: Bools) -> tuple[int, ...]:
        own = tuple(c for player in np.flatnonzero(mask) for c in self.groups[player])
        # the full model has been fitted with the columns that do not vary
        return tuple(range(self.fits.table.n_columns)) if len(own) == self.n_varying else own

    def _gain(self, rows: Ints, predictions: Floats, baseline: Floats) -> Floats:
        y = self.fits.outcome.values[rows, None]
        return loco(y, predictions, baseline, self.fits.loss)

    def linear(self, k: int) -> tuple[Floats, Floats] | None:
        """Return the game of least squares in a fold, or None if it would cost too much.

        That is the Shapley values of each held-out row's values over all coalitions, (n_test, d),
        and those values, (n_test, 2 ** d): a coalition stands at the number whose digits are its
        members. Of squared errors only: lines leave the range that other losses are of.
        """
        fits, fold = self.fits, self.fits.folds[k]
        if not fits.loss.is_square:
            return None
        width = fits.table.matrix.shape[1]
        small = self.d <= EXACT_LIMIT and 2**self.d * len(fold.test) <= MOST_NUMBERS
        if not small or 2**self.d * width**3 > MOST_OPERATIONS:
            return None
        coalitions = all_coalitions(self.d)
        positions = [positions_of(fits.table, self._columns(mask)) for mask in coalitions.masks]
        predictions = least_squares_submodels(
            fits.table.matrix, fits.outcome.values, fits.weights.values, fold, positions
        )
        values = self._gain(fold.test, predictions, predictions[:, :1])
        return values @ coalitions.operator.T, values


@dataclass(frozen=True, eq=False)
class Coalitions:
    """Coalitions of d players and the operator from their values to Shapley values.

    ``monte_carlo_se`` is the error of each Shapley value from sampling the coalitions, as a
    function of their values.
    """

    masks: Bools  # (m, d), the empty and the full coalition among them
    operator: Floats  # (d, m): phi = operator @ values
    monte_carlo_se: Callable[[Floats], Floats]
    exact: bool  # all coalitions are there


def all_coalitions(d: int) -> Coalitions:
    r"""Return all :math:`2^d` coalitions with the weights :math:`|S|!(d-1-|S|)!/d!`."""
    masks = (np.arange(2**d)[:, None] >> np.arange(d)) & 1 == 1
    sizes = masks.sum(axis=1)
    weight = np.array([factorial(s) * factorial(d - 1 - s) / factorial(d) for s in range(d)])
    joined = weight[np.maximum(sizes - 1, 0)][:, None]
    missing = weight[np.minimum(sizes, d - 1)][:, None]
    operator = np.where(masks, joined, -missing).T
    return Coalitions(masks, operator, lambda _: np.zeros(d), exact=True)


def coalition_numbers(masks: Bools) -> Ints:
    """Return the number of each coalition among all of them: its members are the binary digits."""
    return np.asarray(masks @ (1 << np.arange(masks.shape[1])), dtype=np.intp)


def sampled_coalitions(d: int, count: int, generator: np.random.Generator) -> Coalitions:
    """Return about ``count`` coalitions, drawn by the Shapley kernel, with their operator."""
    pairs = max(d, count // 2)
    sizes = np.arange(1, d)
    chance = 1.0 / (sizes * (d - sizes))
    drawn = generator.choice(sizes, size=pairs, p=chance / chance.sum())
    masks = np.zeros((pairs, d), dtype=bool)
    for row, size in enumerate(drawn):
        masks[row, generator.permutation(d)[:size]] = True
    draws = np.concatenate([masks, ~masks])
    ends = np.array([np.zeros(d, dtype=bool), np.ones(d, dtype=bool)])
    distinct, place = np.unique(np.concatenate([ends, draws]), axis=0, return_inverse=True)
    (start, end), place = place.ravel()[:2], place.ravel()[2:]
    members = draws.astype(float)
    inverse = np.linalg.pinv(members.T @ members / len(draws), hermitian=True)
    ones = np.ones(d)
    along = inverse @ ones / (ones @ inverse @ ones)
    projected = inverse - np.outer(along, inverse @ ones)
    operator = np.zeros((d, len(distinct)))
    np.add.at(operator.T, place, members @ projected.T / len(draws))
    operator[:, start] -= projected @ members.mean(axis=0) + along
    operator[:, end] += along

    # How far a coalition and its complement, drawn so often, can bend the fit towards themselves:
    # a residual that the fit has absorbed says nothing about the error.
    often = np.bincount(place, minlength=len(distinct))[place]
    leverage = 2.0 * often * np.einsum("ij,jk,ik->i", members, projected, members) / len(draws)
    freedom = 1.0 - np.minimum(leverage, MOST_LEVERAGE)

    def monte_carlo_se(values: Floats) -> Floats:
        phi = operator @ values
        gap = (values[place] - values[start] - members @ phi) / freedom
        scores = members * gap[:, None]
        # a coalition and its complement are drawn together
        paired = 0.5 * (scores[:pairs] + scores[pairs:]) @ projected.T
        return np.asarray(paired.std(axis=0, ddof=1) / np.sqrt(pairs))

    return Coalitions(distinct, operator, monte_carlo_se, exact=False)


def order_and_reverse(d: int, generator: np.random.Generator) -> Coalitions:
    """Return the coalitions along a random order and its reverse, with their operator.

    Increments along an order and its reverse average to the Shapley value where players interact
    in pairs only. Efficiency is exact. One such pair has no error to be estimated from.
    """
    order = generator.permutation(d)
    masks = np.zeros((2 * d, d), dtype=bool)
    operator = np.zeros((d, 2 * d))
    for first, walk in ((0, order), (d, order[::-1])):
        for k, player in enumerate(walk):
            before = first + k if k else 0
            # the walks part at the empty coalition and meet at the full one
            after = first + k + 1 if k < d - 1 else d
            masks[after] = masks[before]
            masks[after, player] = True
            operator[player, after] += 0.5
            operator[player, before] -= 0.5
    return Coalitions(masks, operator, lambda _: np.full(d, np.nan), exact=False)


def _shared_design(game: Game, coalitions: Coalitions) -> MethodResult:
    """Return Shapley values from coalitions that all folds share."""
    parts = game.values([coalitions.masks] * len(game.fits.folds))
    values = np.full((game.fits.table.n_rows, len(coalitions.masks)), np.nan)
    for fold, part in zip(game.fits.folds, parts, strict=True):
        values[fold.test] = part
    return shapley_part(game.fits, coalitions, values[game.fits.rows])


def shapley_part(fits: Fits, coalitions: Coalitions, values: Floats) -> MethodResult:
    """Apply the operator to the rows' values; players outside of the units are left out."""
    n_active = len(fits.units.active)
    influence = fits.units.spread(values @ coalitions.operator.T[:, :n_active])
    average = fits.mass(fits.rows) @ values
    noise = fits.units.spread(coalitions.monte_carlo_se(average))
    # spread about the mean until the standard error counts the Monte-Carlo error too
    weights = fits.weights.take(fits.rows)
    error = weights.standard_error(influence)
    ratio = np.divide(noise, error, out=np.zeros_like(noise), where=error > 0)
    centre = weights.mean(influence)
    return MethodResult(
        np.asarray(centre + (influence - centre) * np.sqrt(1.0 + ratio**2)),
        fits.rows,
        monte_carlo_se=noise,
        diagnostics={
            "submodels": len(coalitions.masks),
            "of": float(2 ** coalitions.masks.shape[1]),
            "approximation": "none: all submodels" if coalitions.exact else "sampled submodels",
        },
    )


def walked_part(game: Game, n_pairs: Sequence[int], seed: np.random.SeedSequence) -> MethodResult:
    """Return Shapley values from a number of pairs of orders in each fold."""
    fits = game.fits
    designs = [
        [order_and_reverse(game.d, np.random.default_rng(child)) for child in each.spawn(count)]
        for count, each in zip(n_pairs, seed.spawn(len(fits.folds)), strict=True)
    ]
    masks = [np.concatenate([design.masks for design in of_fold]) for of_fold in designs]
    values = game.values(masks)
    influence = np.zeros((fits.table.n_rows, game.d))
    sampled = []
    # Where the regression is solved itself, its own game is what the user asked to sample.
    controlled = not submodels(fits).closed_form
    for k, fold in enumerate(fits.folds):
        linear = game.linear(k) if controlled else None
        controlled = linear is not None
        differences = values[k]
        if linear is not None:
            influence[fold.test] = linear[0]
            differences = differences - linear[1][:, coalition_numbers(masks[k])]
        sampled.append(_along(designs[k], differences))
    noise, deviations = _monte_carlo(game, sampled)
    for fold, walks in zip(fits.folds, sampled, strict=True):
        influence[fold.test] += walks.mean(axis=0)
    return MethodResult(
        fits.units.spread((influence + deviations)[fits.rows]),
        fits.rows,
        monte_carlo_se=fits.units.spread(noise),
        diagnostics={
            "submodels": max(len(np.unique(of_fold, axis=0)) for of_fold in masks),
            "of": float(2**game.d),
            "approximation": "sampled submodels",
            "orders": 2 * sum(n_pairs),
            "control": "least squares" if controlled else "none",
        },
    )


def _along(designs: list[Coalitions], values: Floats) -> Floats:
    """Return the increments of rows along each pair of orders, (pairs, rows, d)."""
    parts = np.split(values, len(designs), axis=1)
    return np.stack([part @ design.operator.T for part, design in zip(parts, designs, strict=True)])


def _monte_carlo(game: Game, sampled: list[Floats]) -> tuple[Floats, Floats]:
    """Return the Monte-Carlo error of each player, and what rows add to count it."""
    fits = game.fits
    folds = [fold.test for fold in fits.folds]
    mass = np.array([fits.weights.values[rows].sum() for rows in folds])
    share = mass / mass.sum()
    pairs = np.array([len(walks) for walks in sampled])
    added = np.zeros((fits.table.n_rows, game.d))
    freedom = int(np.sum(pairs - 1))
    if freedom == 0:
        return np.full(game.d, np.nan), added
    means = [fits.mass(rows) @ walks for rows, walks in zip(folds, sampled, strict=True)]
    deviations = [of_fold - of_fold.mean(axis=0) for of_fold in means]
    of_one = sum(np.sum(of_fold**2, axis=0) for of_fold in deviations) / freedom
    factor = float(np.sum(share**2 / pairs))
    # Rows with deviations e of share c each add size^2 c sum(e^2) / n to the variance of a mean.
    total = fits.weights.take(fits.rows).total
    several = pairs > 1
    size = np.sqrt(total * factor / (freedom * np.mean(share[several] / pairs[several])))
    for rows, deviation in zip(folds, deviations, strict=True):
        added[rows] = size * deviation[np.arange(len(rows)) % len(deviation)]
    added[fits.rows] -= fits.mass(fits.rows) @ added[fits.rows]
    return np.sqrt(of_one * factor), added
