r"""Models whose line moments have a closed form: linear ones, polynomials, networks, and sums.

A network's unit :math:`h(a)` has the argument :math:`a(t) = \alpha + \beta t` along line ``j``,
kept within the range :math:`[l, u]` of the training rows. It is curved between
:math:`s_0 = \max(l, 0)` and :math:`s_1`, which is 2 where that lies within the range, straight from
there to :math:`s_2 = u`, and constant beyond. With the moments
:math:`Q_p = E[t^p;\, s_0 < a < s_1]`, :math:`T_p = E[t^p;\, s_1 < a < s_2]`,
:math:`L_p = E[t^p;\, a < s_0]` and :math:`U_p = E[t^p;\, a > s_2]` of those pieces

.. math::

    E[t^p h(a)] = h(s_0) L_p + \alpha^2 Q_p + 2\alpha\beta Q_{p+1} + \beta^2 Q_{p+2}
                  + 4(\alpha - 1) T_p + 4\beta T_{p+1} + h(s_2) U_p.

A linear function or a polynomial that is kept within bounds, :math:`[l, u]`, is
:math:`f - (f - u)_+ + (l - f)_+`: the mean without bounds, less that of what exceeds them, a
polynomial in ``t`` on the pieces between its roots (:class:`BoundedLines`).

The pieces are intervals of ``t``; their moments are differences of the partial moments
:math:`S_p(s) = E[t^p;\, t \le s]` of the law, cumulative sums for an empirical one. They are
tabulated once a law and looked up by a compiled kernel (:mod:`dfi._lines.kernels_hinges`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from sklearn import linear_model
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.svm import LinearSVR

from dfi._learners.boosting import with_pairs
from dfi._learners.network import BEND, BentHingeNetwork, bent_hinge
from dfi._learners.quadratic import BoundedRidge, QuadraticRidge
from dfi._learners.stack import MeanOutcome
from dfi._lines.base import LineModel, LineMoments, Lines, blocks

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator, TransformerMixin

    from dfi._types import Floats

LINEAR_NAMES = """
    ARDRegression BayesianRidge ElasticNet ElasticNetCV HuberRegressor Lars LarsCV Lasso LassoCV
    LassoLars LassoLarsCV LassoLarsIC LinearRegression OrthogonalMatchingPursuit QuantileRegressor
    Ridge RidgeCV SGDRegressor TheilSenRegressor
"""
LINEAR_MODELS = (
    LinearSVR,
    MeanOutcome,
    *(getattr(linear_model, name) for name in LINEAR_NAMES.split()),
)
ARGUMENTS_AT_ONCE = 1 << 20
VALUES_IN_CACHE = 1 << 15
"""Arguments of a network's units that are held at once: 8 MB of them."""


@dataclass(frozen=True)
class LinearLines:
    r"""A linear model ``f(x) = intercept + coefficients @ x``.

    With the slope :math:`b_j = \ell_j'\beta` along line ``j`` and the value :math:`a` of the model
    where :math:`t = 0`,

    .. math:: m = a + b_j E[t], \quad h = a E[t] + b_j E[t^2].
    """

    coefficients: Floats
    intercept: float

    @property
    def rule(self) -> str:
        return "closed form (linear)"

    def predict(self, points: Floats) -> Floats:
        return np.asarray(points @ self.coefficients + self.intercept)

    def parabolas(self, lines: Lines) -> tuple[Floats, Floats]:
        """Return the slope of each row along each line, (n, d), and half of its change, (d,)."""
        slope = self.coefficients @ lines.directions
        return np.broadcast_to(slope, lines.latent.shape), np.zeros(len(slope))

    def along(self, lines: Lines, j: int, back: Floats, nodes: Floats) -> Floats:
        """Return the value of each row at each node of line ``j``, (n, nodes)."""
        slope = float(self.coefficients @ lines.directions[:, j])
        start = self.predict(lines.points) - slope * back
        return np.asarray(start[:, None] + slope * nodes)

    def moments(self, lines: Lines) -> LineMoments:
        slope = self.coefficients @ lines.directions
        first, second = lines.reference.moments(len(slope))
        value = self.predict(lines.points)
        origin = value[:, None] - slope * lines.latent
        origin = origin[None] - (slope * lines.offsets)[:, None, :]
        return LineMoments(mean=origin + slope * first, hermite=origin * first + slope * second)


@dataclass(frozen=True)
class QuadraticLines:
    r"""A polynomial ``f(x) = intercept + linear @ (x - center) + (x - center)' Q (x - center)``.

    Along line ``j`` it is a parabola in the step :math:`s = t - z_{ij} - \nu`,
    :math:`f(x_i) + b_{ij} s + c_j s^2` with :math:`b_{ij} = \ell_j'(b + 2 Q(x_i - m))` and
    :math:`c_j = \ell_j'Q\ell_j`; its moments need those of ``t`` up to the third.
    """

    center: Floats
    linear: Floats
    quadratic: Floats
    intercept: float

    @property
    def rule(self) -> str:
        return "closed form (quadratic)"

    def predict(self, points: Floats) -> Floats:
        away = points - self.center
        curved = np.einsum("ij,ij->i", away @ self.quadratic, away)
        return np.asarray(self.intercept + away @ self.linear + curved)

    def parabolas(self, lines: Lines) -> tuple[Floats, Floats]:
        """Return the slope of each row along each line, (n, d), and half of its change, (d,)."""
        across = self.quadratic @ lines.directions
        away = lines.points - self.center
        slope = self.linear @ lines.directions + 2.0 * (away @ across)
        return slope, np.einsum("kj,kj->j", lines.directions, across)

    def along(self, lines: Lines, j: int, back: Floats, nodes: Floats) -> Floats:
        """Return the value of each row at each node of line ``j``, (n, nodes)."""
        direction = lines.directions[:, j]
        across = self.quadratic @ direction
        away = lines.points - self.center
        slope = self.linear @ direction + 2.0 * (away @ across)
        step = nodes - back[:, None]
        found = step * float(direction @ across)
        found += slope[:, None]
        found *= step
        found += self.predict(lines.points)[:, None]
        return np.asarray(found)

    def moments(self, lines: Lines) -> LineMoments:
        slope, bend = self.parabolas(lines)
        value = self.predict(lines.points)[:, None]
        first, second, third = lines.reference.three_moments(len(bend))
        back = lines.latent[None] + lines.offsets[:, None, :]
        # E s, E s^2, E t s and E t s^2
        step, steps = first - back, second - 2.0 * back * first + back**2
        with_step = second - back * first
        with_steps = third - 2.0 * back * second + back**2 * first
        return LineMoments(
            mean=value + slope * step + bend * steps,
            hermite=value * first + slope * with_step + bend * with_steps,
        )


@dataclass(frozen=True)
class BoundedLines:
    r"""A linear function or a polynomial within bounds, ``clip(f(x), lowest, highest)``.

    Along a line :math:`f` is a parabola in ``t``, so :math:`(f - u)_+` and :math:`(l - f)_+`
    are parabolas between their roots and 0 elsewhere: what is beyond the bounds has closed moments,
    and is taken from those of :math:`f`.
    """

    model: LinearLines | QuadraticLines
    lowest: float
    highest: float

    @property
    def rule(self) -> str:
        return self.model.rule

    def predict(self, points: Floats) -> Floats:
        return np.asarray(np.clip(self.model.predict(points), self.lowest, self.highest))

    def along(self, lines: Lines, j: int, back: Floats, nodes: Floats) -> Floats:
        """Return the value of each row at each node of line ``j``, (n, nodes)."""
        found = self.model.along(lines, j, back, nodes)
        return np.clip(found, self.lowest, self.highest, out=found)

    def moments(self, lines: Lines) -> LineMoments:
        # numba is loaded by the first model that is averaged, not with the package.
        from dfi._compiled import kernel_array, run_tasks
        from dfi._lines.kernels_hinges import bends_of, exceeding_moments

        found = self.model.moments(lines)
        slope, bend = self.model.parabolas(lines)
        value = kernel_array(self.model.predict(lines.points), np.float64)
        slopes = kernel_array(slope.T, np.float64)
        latent = kernel_array(lines.latent.T, np.float64)
        shifts = kernel_array(lines.offsets.T, np.float64)
        d, n = latent.shape
        laws = bends_of(lines.reference, d)
        beyond = np.empty((d, 2, len(lines.offsets), n))

        def along(j: int) -> None:
            memory = np.empty(2), np.empty(2, np.uint32)
            place = latent[j], shifts[j], self.lowest, self.highest
            exceeding_moments(laws[j], value, slopes[j], float(bend[j]), *place, *memory, beyond[j])

        run_tasks(along, range(d), work=beyond.size)
        mean, hermite = beyond.transpose(1, 2, 3, 0)
        return LineMoments(found.mean - mean, found.hermite - hermite)


def bounded_lines(model: object) -> BoundedLines | None:
    """Read a ridge or a polynomial of the default learner; None for any other model."""
    if not isinstance(model, BoundedRidge):
        return None
    inner: LinearLines | QuadraticLines
    if isinstance(model, QuadraticRidge):
        inner = QuadraticLines(model.center_, model.linear_, model.quadratic_, model.intercept_)
    else:
        constant = model.intercept_ - float(model.center_ @ model.linear_)
        inner = LinearLines(model.linear_, constant)
    return BoundedLines(inner, *model.bounds_)


@dataclass(frozen=True)
class MappedLines:
    """A model of the columns ``x @ map``: a line through rows is a line through their images.

    The map is one of :func:`~dfi._learners.boosting.oblique_pairs`.
    """

    model: LineModel
    map: Floats

    @property
    def rule(self) -> str:
        return self.model.rule

    def predict(self, points: Floats) -> Floats:
        return self.model.predict(with_pairs(points, self.map))

    def images(self, lines: Lines) -> Lines:
        directions = np.ascontiguousarray(self.map.T @ lines.directions)
        return replace(lines, points=with_pairs(lines.points, self.map), directions=directions)

    def moments(self, lines: Lines) -> LineMoments:
        return self.model.moments(self.images(lines))


def linear_lines(model: object, n_columns: int) -> LinearLines | None:
    """Read a fitted linear model, scalers in front folded into its coefficients; else None."""
    return scaled_linear(model, n_columns, LINEAR_MODELS)


def scaled_linear(
    model: object, n_columns: int, kinds: tuple[type[BaseEstimator], ...]
) -> LinearLines | None:
    """Read the linear part of a fitted model of some kinds, after scalers; None for any other."""
    scale, shift = np.ones(n_columns), np.zeros(n_columns)
    if isinstance(model, Pipeline):
        *steps, final = [step for _, step in model.steps]
        for step in steps:
            affine = _affine(step, n_columns)
            if affine is None:
                return None
            step_scale, step_shift = affine
            scale, shift = scale * step_scale, shift * step_scale + step_shift
        model = final
    if not isinstance(model, kinds):
        return None
    coefficients = np.asarray(model.coef_, dtype=float).ravel()
    if coefficients.shape != (n_columns,):
        return None
    intercept = float(np.asarray(model.intercept_, dtype=float).ravel()[0])
    return LinearLines(coefficients * scale, intercept + float(coefficients @ shift))


def _affine(step: TransformerMixin | None, n_columns: int) -> tuple[Floats, Floats] | None:
    """Return ``(a, b)`` with ``step(x) = a x + b``, or None if the step is not of that form."""
    zero, one = np.zeros(n_columns), np.ones(n_columns)
    if step is None or step == "passthrough":
        return one, zero
    if type(step) is StandardScaler or type(step) is RobustScaler:
        center = step.mean_ if type(step) is StandardScaler else step.center_
        center = zero if center is None else np.asarray(center)
        scale = one if step.scale_ is None else 1.0 / np.asarray(step.scale_)
        if type(step) is StandardScaler and not step.with_mean:
            center = zero
        return scale, -center * scale
    if type(step) is MinMaxScaler and not step.clip:
        return np.asarray(step.scale_), np.asarray(step.min_)
    if type(step) is MaxAbsScaler and not getattr(step, "clip", False):
        return 1.0 / np.asarray(step.scale_), zero
    return None


@dataclass(frozen=True)
class HingeLines:
    """The model ``intercept + sum_k slopes[k] * h(a_k)``, each argument ``a_k`` within its reach.

    ``a_k = directions[:, k] @ x + offsets[k]``, kept between ``reach[0][k]`` and ``reach[1][k]``.
    """

    directions: Floats
    offsets: Floats
    reach: tuple[Floats, Floats]
    slopes: Floats
    intercept: float

    @property
    def rule(self) -> str:
        return f"closed form ({len(self.slopes)} hinges)"

    def predict(self, points: Floats) -> Floats:
        found = np.empty(len(points))
        # few rows at a time, whose arguments stay in the cache
        for part in blocks(len(points), VALUES_IN_CACHE // len(self.slopes)):
            arguments = points[part] @ self.directions
            arguments += self.offsets
            np.clip(arguments, *self.reach, out=arguments)
            found[part] = bent_hinge(arguments) @ self.slopes
        found += self.intercept
        return found

    def along(self, lines: Lines, j: int, back: Floats, nodes: Floats) -> Floats:
        """Return the value of each row at each node of line ``j``, (n, nodes)."""
        from dfi._compiled import kernel_array
        from dfi._lines.kernels_linked import hinge_margins

        base = kernel_array(lines.points @ self.directions + self.offsets, np.float64)
        change = kernel_array(self.directions.T @ lines.directions[:, j], np.float64)
        lowest, highest = (kernel_array(end, np.float64) for end in self.reach)
        out = np.full((len(base), len(nodes)), self.intercept)
        hinge_margins(
            base, change, lowest, highest, kernel_array(self.slopes, np.float64),
            kernel_array(back, np.float64), kernel_array(nodes, np.float64),
            out,
        )  # fmt: skip
        return out

    def moments(self, lines: Lines) -> LineMoments:
        # numba is loaded by the first network that is averaged, not with the package.
        from dfi._compiled import kernel_array, run_tasks
        from dfi._lines.kernels_hinges import STILL, bends_of, hinge_moments

        n, d = lines.latent.shape
        q, units = len(lines.offsets), len(self.slopes)
        mean, hermite = np.empty((2, d, q, n))
        change = kernel_array((self.directions.T @ lines.directions).T, np.float64)
        begin = np.maximum(self.reach[0], 0.0)
        end = np.maximum(self.reach[1], begin)
        bends = np.array([begin, np.clip(BEND, begin, end), end])
        moves = (np.abs(change) > STILL) & (begin < end)
        inverse = np.divide(1.0, change, out=np.zeros_like(change), where=moves)
        slopes = kernel_array(self.slopes, np.float64)
        latent = kernel_array(lines.latent.T, np.float64)
        shifts = kernel_array(lines.offsets.T, np.float64)
        laws = bends_of(lines.reference, d)
        for part in blocks(n, ARGUMENTS_AT_ONCE // units):
            base = lines.points[part] @ self.directions + self.offsets

            def along(j: int, part: slice = part, base: Floats = base) -> None:
                memory = np.empty(3 * units), np.empty(3 * units, np.uint32)
                sums = np.empty((2, q, len(base)))
                units_along = base, change[j], inverse[j], bends, slopes
                hinge_moments(laws[j], *units_along, latent[j, part], shifts[j], *memory, *sums)
                mean[j, :, part], hermite[j, :, part] = sums

            run_tasks(along, range(d), work=base.size * d * q)
        first, _ = lines.reference.moments(d)
        return LineMoments(
            mean.transpose(1, 2, 0) + self.intercept,
            hermite.transpose(1, 2, 0) + self.intercept * first,
        )


def hinge_lines(model: object) -> HingeLines | None:
    if not isinstance(model, BentHingeNetwork):
        return None
    return HingeLines(
        model.directions_, model.offsets_, model.reach_, model.slopes_, model.intercept_
    )


@dataclass(frozen=True)
class SumLines:
    """The model ``intercept + sum_k weights[k] * parts[k]``."""

    parts: tuple[LineModel, ...]
    weights: tuple[float, ...]
    intercept: float = 0.0

    @property
    def rule(self) -> str:
        return " + ".join(dict.fromkeys(part.rule for part in self.parts))

    def predict(self, points: Floats) -> Floats:
        value = np.full(len(points), self.intercept)
        for weight, part in zip(self.weights, self.parts, strict=True):
            value += weight * part.predict(points)
        return value

    def moments(self, lines: Lines) -> LineMoments:
        first, _ = lines.reference.moments(lines.latent.shape[1])
        shape = (len(lines.offsets), *lines.latent.shape)
        mean = np.full(shape, self.intercept)
        hermite = np.broadcast_to(self.intercept * first, shape).copy()
        for weight, part in zip(self.weights, self.parts, strict=True):
            moments = part.moments(lines)
            mean += weight * moments.mean
            hermite += weight * moments.hermite
        return LineMoments(mean, hermite)


def as_linear(model: LineModel) -> LinearLines | None:
    """Return the linear model that a model is, a sum of them (a stack of one) too, or None."""
    if isinstance(model, LinearLines):
        return model
    if not isinstance(model, SumLines):
        return None
    parts = [part for part in model.parts if isinstance(part, LinearLines)]
    if len(parts) < len(model.parts):
        return None
    pairs = list(zip(model.weights, parts, strict=True))
    return LinearLines(
        np.sum([weight * part.coefficients for weight, part in pairs], axis=0),
        model.intercept + sum(weight * part.intercept for weight, part in pairs),
    )


def linear_part(model: LineModel) -> Floats | None:
    """Return the coefficients of linear members before clipping; None without any."""
    if isinstance(model, BoundedLines):
        model = model.model
    if isinstance(model, LinearLines):
        return model.coefficients
    if not isinstance(model, SumLines):
        return None
    found = [
        weight * slopes
        for weight, part in zip(model.weights, model.parts, strict=True)
        if (slopes := linear_part(part)) is not None
    ]
    return np.sum(found, axis=0) if found else None
