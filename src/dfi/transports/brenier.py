r"""The Brenier map: whitening followed by the gradient of a convex potential, the nonlinear twin.

.. math:: x \to s \text{ (margins, where the data ask)} \to w = L^{-1}\tilde s \to z = \nabla\psi(w)

It is order-free and identified: one convex problem with one optimum
(:mod:`dfi.transports.potential`), whose penalty :math:`\lambda` and margins are chosen by held-out
likelihood. Units do not matter, since columns are standardised first. Columns with levels, and
units of several columns, stay linear: a heap of equal values has no density, and a likelihood
would give credit for finding it.

Rows come back by Newton's method on the strongly convex potential. Scores are taken along the
curves of the decoder (:mod:`dfi.transports.curved`), of a sample of the rows where there are many,
and the map's own error comes from refits that keep penalty, directions and margins and start where
the first fit ended.

**What held-out rows say.** A margin is bent where normal scores gain more than
:data:`MARGIN_ERRORS` standard errors of log-likelihood on 30 % of the rows. Penalties are compared
on the same rows, with these margins and with none, by the likelihood of the whole map.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from dfi._data.weights import Weights
from dfi._lines.base import Reference
from dfi._parameters import argument, validated_fields
from dfi.transports.base import Transport, UnsuitableTransportError, repeated_rows
from dfi.transports.curved import CurvedTransport
from dfi.transports.gaussian import Gaussian
from dfi.transports.margins import count_rows, fit_margin
from dfi.transports.potential import AGAIN, PENALTIES, fit_potential

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dfi._data.columns import Column
    from dfi._scoring.line_shares import Attribution
    from dfi._types import Bools, Floats, Ints, Plain
    from dfi.transports.base import FittedTransport
    from dfi.transports.gaussian import LinearTransport
    from dfi.transports.margins import Margin
    from dfi.transports.potential import Potential

MARGIN_ERRORS = 3.5
"""Standard errors of likelihood that normal scores of a column have to gain."""

MOST_OF_A_ROW = 5.0
"""Gain that one row may show: a single far one must not decide, nor hide what others gain."""

HELD_OUT = 0.3
SEARCH_ROWS, FIT_ROWS = 3000, 10_000
"""Rows that penalties are compared on, and that the potential is fitted to, a sample of more."""

COARSE = 8.0
"""Rows a margin is fitted to, over those it is told of, where its likelihood is compared."""

SEARCHED = 120
"""Most iterations for a penalty, each of which starts from the one before."""

REFIT_ROWS, REFIT_NODES = 120, 8
"""Rows and nodes of a curve by which refits are compared: a curve takes Newton's method."""

SCORED_ROWS = 2000
"""Rows that are scored by default, a random sample of more."""


@dataclass(frozen=True)
class Gain:
    """What a map gains in log-likelihood on held-out rows, a row on average, and its error."""

    mean: float
    error: float

    @classmethod
    def of(cls, gains: Floats, mass: Floats) -> Gain:
        """Average the gains of rows, none by more than :data:`MOST_OF_A_ROW`."""
        gains = np.clip(gains, -MOST_OF_A_ROW, MOST_OF_A_ROW)
        share = mass / mass.sum()
        mean = float(share @ gains)
        return cls(mean, float(np.sqrt(np.sum(share**2 * (gains - mean) ** 2))))

    def clear(self, errors: float) -> bool:
        """Return whether it is above so many standard errors."""
        return self.mean > errors * self.error

    def __str__(self) -> str:
        return f"{self.mean:.2g} a row (standard error {self.error:.1g})"


@dataclass(frozen=True)
class Search:
    """What held-out rows say: the columns that ask for normal scores, and the best penalty.

    ``asked`` columns are clearly likelier as normal scores on their own; ``margins`` are those of
    the likeliest map, ``gain`` what it gains over the linear map, ``beyond`` what the potential
    gains over the better of normal scores (where any are asked for) and the linear map.
    """

    asked: tuple[int, ...]
    margins: tuple[int, ...]
    penalty: float
    gain: Gain
    beyond: Gain


NOTHING = Gain(0.0, 0.0)


def searched(
    matrix: Floats,
    mass: Floats,
    curved: Ints,
    constant: Bools,
    seed: np.random.SeedSequence,
    *,
    margins: bool | None = None,
    penalty: float | None = None,
) -> Search:
    """Compare margins and penalties on held-out rows of the ``curved`` columns; None searches."""
    generator = np.random.default_rng(seed)
    rows = generator.permutation(np.flatnonzero(mass))[:SEARCH_ROWS]
    cut = round((1.0 - HELD_OUT) * len(rows))
    counted = mass[rows]
    asked = tuple(int(k) for k in curved) if margins else ()
    if margins is None:
        gains = (_margin_gains(matrix[rows, k], counted, cut) for k in curved)
        clear = [Gain.of(gain, counted[cut:]).clear(MARGIN_ERRORS) for gain in gains]
        asked = tuple(int(k) for k, is_so in zip(curved, clear, strict=True) if is_so)
    if penalty is not None or len(curved) == 0:
        return Search(asked, asked, np.inf if penalty is None else penalty, NOTHING, NOTHING)
    plain, kept = None, counted[cut:]
    straight, best = np.zeros(len(rows) - cut), np.zeros(len(rows) - cut)
    chosen: tuple[tuple[int, ...], float] = (), np.inf
    for bent in dict.fromkeys(((), asked)):
        base = _Base.of(matrix[rows], counted, bent, constant, cut)
        plain = base.likelihood if plain is None else plain
        if bent == asked:
            straight = base.likelihood - plain
        white = base.white[:, np.searchsorted(base.active, curved)]
        for each, gained in _penalties(white, counted, cut):
            total = base.likelihood - plain + gained
            if Gain.of(total, kept).mean > Gain.of(best, kept).mean:
                best, chosen = total, (bent, each)
    return Search(asked, *chosen, Gain.of(best, kept), Gain.of(best - straight, kept))


@dataclass(frozen=True)
class _Base:
    """White rows after some margins, by the first rows, and log-likelihoods of the rest."""

    white: Floats
    active: Ints
    likelihood: Floats

    @classmethod
    def of(
        cls, matrix: Floats, mass: Floats, bent: Sequence[int], constant: Bools, cut: int
    ) -> _Base:
        margins = _margins(matrix[:cut], mass[:cut], bent)
        scores, slopes = matrix.copy(), np.zeros(len(matrix) - cut)
        for k, margin in margins.items():
            scores[:, k], slope = extended(margin, matrix[:, k])
            slopes += np.log(slope[cut:])
        linear = _whitening().by_column(scores[:cut], Weights(mass[:cut], "sampling"), constant)
        white = linear.encode(scores)
        scale = linear.geometry.scale[linear.active]
        roots = linear.eigenvalues[linear.eigenvalues > 0]
        volume = -np.sum(np.log(scale)) - 0.5 * np.sum(np.log(roots))
        return cls(white, linear.active, slopes + volume - 0.5 * np.sum(white[cut:] ** 2, axis=1))


def _penalties(white: Floats, mass: Floats, cut: int) -> Iterator[tuple[float, Floats]]:
    """Yield penalties, infinity first, and what held-out rows gain under each."""
    plain, potential, highest = 0.5 * np.sum(white[cut:] ** 2, axis=1), None, 0.0
    yield np.inf, np.zeros(len(plain))
    for penalty in PENALTIES:
        potential = fit_potential(white[:cut], mass[:cut], penalty, potential, iterations=SEARCHED)
        gains = plain - potential.gradient(white[cut:])[1]
        yield penalty, gains
        gain = Gain.of(gains, mass[cut:])
        highest = max(highest, gain.mean)
        if gain.mean < highest - 2.0 * gain.error:
            return  # smaller penalties only follow the noise further


def extended(margin: Margin, values: Floats) -> tuple[Floats, Floats]:
    """Return normal scores, straight on beyond the outermost values, and their slopes."""
    spacing = np.diff(margin.scores) / np.diff(margin.values)
    cell = np.clip(np.searchsorted(margin.values, values) - 1, 0, len(spacing) - 1)
    return margin.scores[cell] + spacing[cell] * (values - margin.values[cell]), spacing[cell]


def _margin_gains(column: Floats, mass: Floats, cut: int) -> Floats:
    """Return the log-likelihood of held-out values by normal scores, less that of a normal law."""
    share = mass[:cut] / mass[:cut].sum()
    mean = share @ column[:cut]
    deviation = np.sqrt(share @ (column[:cut] - mean) ** 2)
    if not deviation > 0:
        return np.full(len(column) - cut, -1.0)
    score, slope = extended(fit_margin(column[:cut], mass[:cut], cut / COARSE), column[cut:])
    plain = (column[cut:] - mean) / deviation
    return np.asarray(0.5 * (plain**2 - score**2) + np.log(slope * deviation))


def _margins(matrix: Floats, mass: Floats, columns: Sequence[int]) -> dict[int, Margin]:
    weights = Weights(mass, "sampling")
    return {k: fit_margin(matrix[:, k], mass, count_rows(weights)) for k in columns}


def _scored(matrix: Floats, margins: dict[int, Margin]) -> Floats:
    scores = matrix.copy()
    for k, margin in margins.items():
        scores[:, k] = margin.score(matrix[:, k])
    return scores


def _whitening() -> Gaussian:
    return Gaussian(reference="empirical", components=None, covariance="sample")


def curved_columns(
    matrix: Floats, mass: Floats, constant: Bools, columns: Sequence[Column] | None
) -> Ints:
    """Return the columns that a curved map may bend: units of one column without levels."""
    single = ~constant
    for unit in columns or ():
        if len(unit.positions) > 1:
            single[list(unit.positions)] = False
    free = [k for k in np.flatnonzero(single) if not fit_margin(matrix[:, k], mass).discrete]
    return np.array(free, dtype=np.intp)


@dataclass(frozen=True)
class BrenierTransport(CurvedTransport):
    """A fitted Brenier map; ``potential`` acts on the latent coordinates ``curved``."""

    design: Transport
    margins: dict[int, Margin]
    linear: LinearTransport
    curved: Ints
    potential: Potential
    penalty: float
    gain: Gain
    deviation: Floats
    reference: Reference

    refit_rows: ClassVar[int] = REFIT_ROWS
    refit_nodes: ClassVar[int | None] = REFIT_NODES

    @property
    def active(self) -> Ints:
        """The columns that vary."""
        return self.linear.active

    @property
    def draws_latents(self) -> bool:
        """Whether latent rows are draws: collinear columns leave a part of them open."""
        return bool(self.linear.geometry.null.shape[1])

    def encode(self, matrix: Floats, generator: np.random.Generator | None = None) -> Floats:
        """Return the latent rows; what collinear columns leave open is drawn."""
        latent = self.linear.encode(_scored(matrix, self.margins))
        if generator is not None:
            latent = self.linear.geometry.filled(latent, generator)
        latent[:, self.curved] = self.potential.gradient(latent[:, self.curved])[0]
        return latent

    def decode(self, latent: Floats) -> Floats:
        """Return the rows of the numeric matrix that belong to latent rows."""
        white = latent.copy()
        white[:, self.curved] = self.potential.inverse(latent[:, self.curved])
        rows = self.linear.decode(white)
        for k, margin in self.margins.items():
            rows[:, k] = margin.value(rows[:, k])
        return rows

    @cached_property
    def _scale(self) -> Floats:
        """The change of each feature, in its deviations, for one of its standardised score."""
        active = self.active
        return np.asarray(self.linear.geometry.scale[active] / self.deviation[active])

    def jacobian(self, latent: Floats) -> Floats:
        """Return the decoder's Jacobian (n, d, d): standardised feature ``l`` by latent ``j``."""
        white = latent.copy()
        white[:, self.curved] = self.potential.inverse(latent[:, self.curved])
        inner = np.broadcast_to(np.eye(self.n_latent), (len(latent), *[self.n_latent] * 2)).copy()
        inside = np.ix_(np.arange(len(latent)), self.curved, self.curved)
        inner[inside] = np.linalg.inv(self.potential.hessian(white[:, self.curved]))
        found = np.einsum("l,lk,nkj->nlj", self._scale, self.linear.geometry.decoder, inner)
        scores = self.linear.decode(white)
        for m, k in enumerate(self.active.tolist()):
            if k in self.margins:
                found[:, m] *= self.margins[k].slope(scores[:, k])[:, None]
        return np.asarray(found)

    def slopes(self, latent: Floats, j: int) -> Floats:
        """Return the change of each standardised feature per unit of latent ``j``."""
        return self.jacobian(latent)[:, :, j]

    def diagnostics(self, owner: Ints) -> Plain:
        """Return what held-out rows said, and what the whitening has."""
        told = {
            "penalty": self.penalty,
            "margins": len(self.margins),
            "curved": len(self.curved),
            "gain": self.gain.mean,
            "gain_se": self.gain.error,
        }
        return {**self.linear.diagnostics(owner), "brenier": told}


@validated_fields
@dataclass(kw_only=True)
class Brenier(Transport):
    """The gradient of a convex potential: an optimal transport map, beyond linear ones.

    Parameters
    ----------
    penalty : float or "auto", default="auto"
        Weight of the roughness of the potential. ``"auto"`` takes the one under which held-out rows
        are likeliest; infinity is the linear map of :class:`Gaussian`.
    margins : bool or "auto", default="auto"
        Whether columns are turned into normal scores first. ``"auto"``: those whose held-out values
        are clearly likelier so.
    attribution : {"shares", "slopes"}, default="shares"
        What features receive of a latent score, as for :class:`Copula`.
    random_state : int or None, default=0
        Which rows are held out, and what collinear columns leave random in ``transform``.

    Notes
    -----
    Columns with levels and units of several columns (categories, missing values) keep straight
    lines. Needs at least as many rows as columns that vary. Above 2,000 rows scores are those of a
    random sample of 2,000, unless ``explain_rows`` says otherwise.

    Examples
    --------
    >>> import dfi, numpy as np
    >>> random = np.random.default_rng(0)
    >>> x = random.standard_normal(500)
    >>> X = np.column_stack([x, x**2 + 0.5 * random.standard_normal(500)])
    >>> transport = dfi.transports.Brenier().fit(X)
    >>> bool(np.abs(transport.inverse_transform(transport.transform(X)) - X).max() < 1e-8)
    True
    """

    penalty: float | Literal["auto"] = "auto"
    margins: bool | Literal["auto"] = "auto"
    attribution: Attribution = "shares"
    random_state: int | None = 0

    name: ClassVar[str] = "brenier"
    straight: ClassVar[bool] = False
    scored_rows: ClassVar[int | None] = SCORED_ROWS

    def check_parameters(self) -> None:
        """Raise for parameters that no transport can have."""
        super().check_parameters()
        given: object = self.penalty
        number = isinstance(given, int | float | np.number) and not isinstance(given, bool)
        if given != "auto" and not (number and given >= 0):  # type: ignore[operator]
            raise ValueError(f"penalty must be a number of at least 0 or 'auto', got {given!r}")

    def fit_matrix(
        self,
        matrix: Floats,
        weights: Weights,
        constant: Bools,
        *,
        columns: Sequence[Column] | None = None,
        like: FittedTransport | None = None,
    ) -> FittedTransport:
        """Fit margins, whitening and potential; a refit keeps what was chosen for all rows."""
        d = int(np.sum(~constant))
        if np.count_nonzero(weights.values) < d:
            raise UnsuitableTransportError(
                f"{argument('transport', 'brenier')} needs at least as many rows as columns that "
                f"vary, and there are {np.count_nonzero(weights.values)} rows of {d}: use "
                f"{argument('transport', 'gaussian')}"
            )
        repeated = repeated_rows(weights)
        rows, mass = matrix, weights.values
        if repeated is not None:
            rows, mass = matrix[repeated], np.ones(len(repeated))
        if isinstance(like, BrenierTransport):
            kept = tuple(like.margins)
            search = Search(kept, kept, like.penalty, like.gain, like.gain)
            curved, start = like.linear.active[like.curved], like.potential
        else:
            curved, start = curved_columns(rows, mass, constant, columns), None
            search = searched(
                rows, mass, curved, constant, np.random.SeedSequence(self.random_state or 0),
                margins=None if self.margins == "auto" else self.margins,
                penalty=None if self.penalty == "auto" else float(self.penalty),
            )  # fmt: skip
        if not np.isfinite(search.penalty) and not search.margins:
            return Gaussian().fit_matrix(matrix, weights, constant, columns=columns, like=like)
        margins = _margins(rows, mass, search.margins)
        scores, kind = _scored(rows, margins), weights.kind
        linear = _whitening().by_column(scores, Weights(mass, kind), constant)
        places = np.searchsorted(linear.active, curved)
        white = linear.encode(scores)
        places = places if np.isfinite(search.penalty) else places[:0]
        fitted = np.arange(len(white))
        if len(white) > FIT_ROWS:
            fitted = np.random.default_rng(0).permutation(len(white))[:FIT_ROWS]
        potential = fit_potential(
            white[np.ix_(fitted, places)], mass[fitted], search.penalty, start,
            **({} if start is None else {"iterations": AGAIN}),
        )  # fmt: skip
        share = mass / mass.sum()
        found = BrenierTransport(
            design=self,
            margins=margins,
            linear=linear,
            curved=places,
            potential=potential,
            penalty=search.penalty,
            gain=search.gain,
            deviation=np.sqrt(share @ (rows - share @ rows) ** 2),
            reference=Reference.gaussian(),
        )
        latent = found.encode(rows, np.random.default_rng(0) if found.draws_latents else None)
        return replace(found, reference=Reference.empirical(latent, mass))

    def specification(self) -> Plain:
        """Return what the estimand depends on."""
        return {
            "transport": "brenier",
            "transport_form": "gradient of a convex potential",
            "epsilon": 0.0,
            "cost": "squared euclidean on whitened features",
            "standardize": True,
            "penalty": self.penalty,
            "margins": self.margins,
            "attribution": self.attribution,
        }
