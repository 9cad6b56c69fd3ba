r"""Scores of one table's relation under another table's law.

With the law of table ``a`` (its rows and its transport) and the relation
:math:`\mu_b(x) = E[y \mid x]` of table ``b``, the latent score of a unit is

.. math:: \Phi(a, b) = E_a[D_\mu^2], \qquad D_\mu = \mu_b - m_b,

:math:`m_b` the mean of :math:`\mu_b` over what replaces the unit under the transport of ``a``. With
two models :math:`f^1, f^2` of ``b`` that were fitted on disjoint rows and :math:`D^1, D^2` theirs,
:math:`E_a[D^1 D^2]` errs at first order by :math:`E_a[D_\mu (f^1 - \mu_b)]` and the same of
:math:`f^2`; the product of both errors averages to that of two biases. What is of first order is
told by the residuals of ``b``: with the Riesz representer :math:`\alpha^1` of
:math:`h \mapsto E_a[D^1 h]`, :math:`E_b[\alpha^1 h] = E_a[D^1 h]` for every ``h`` and

.. math:: E_a[D^1 D^2] + E_b[\alpha^1 (y - f^2)] + E_b[\alpha^2 (y - f^1)]

errs by products alone. It is :math:`\alpha^1 = (dP_a/dP_b)\,D^1`, and is learned without a density
ratio as the function :math:`\phi'c` for which this holds for every ``h`` of the span of
:math:`\phi = (1, x, f^1, D^1)`,

.. math:: c = E_b[\phi\phi']^{-1} E_a[D^1 \phi] .

No outcome enters it, so all rows of ``b`` may be used for :math:`E_b`. Read the other way
round, :math:`E_b[\alpha^1 r] = E_a[D^1 g]` with :math:`g = \phi'\beta` the regression of the
residuals :math:`r = y - f^2` on :math:`\phi`: models are corrected by what held-out rows say of
them, and influence values follow,

.. math:: u_a = D^1 D^2 + D^1 g^2 + D^2 g^1, \qquad
          u_b = \alpha^1 (r^2 - g^2) + \alpha^2 (r^1 - g^1),

the mean of the second is 0. Residuals of a fold meet the models of that fold alone, which did not
see them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dfi._lines.base import LineModel, Lines, blocks
from dfi._scoring.forms import change_product

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._scoring.geometry import Geometry
    from dfi._types import Floats

COLLINEAR = 1e-8
"""Share of the largest eigenvalue of a span's correlations below which a direction is rounding."""

OWN_SHARE = 0.05
"""Share of its mean square that the columns leave of a prediction, or of a change :math:`D`, from
which on it is a feature of the span. Models of different folds differ by chance: of one that is
linear in the columns nothing but that would be left, and be divided by."""


@dataclass(frozen=True)
class Changes:
    r"""What replacing each unit changes: of two models, or twice the same one.

    ``values`` (2, n) are predictions, ``moved`` (2, n, units) their changes :math:`D^1, D^2`,
    ``product`` (n, units) what estimates :math:`D^1 D^2` without bias.
    """

    values: Floats
    moved: Floats
    product: Floats


def changes_along(
    models: Sequence[LineModel], points: Floats, geometry: Geometry, rows_at_once: int
) -> Changes:
    """Return the changes from replacing each latent coordinate, by means along lines."""
    n, d = len(points), geometry.n_latent
    values, moved, product = np.empty((2, n)), np.empty((2, n, d)), np.empty((n, d))
    offsets, weights = geometry.offsets
    for part in blocks(n, rows_at_once):
        rows = points[part]
        lines = Lines(rows, geometry.encode(rows), geometry.directions, geometry.reference, offsets)
        pair = models[0], models[-1]
        predicted = [model.predict(rows) for model in pair]
        means = [model.moments(lines).mean for model in pair]
        for k in (0, 1):
            values[k, part] = predicted[k]
            moved[k, part] = predicted[k][:, None] - np.tensordot(weights, means[k], axes=1)
        each = change_product([value[:, None] for value in predicted], means)
        product[part] = np.tensordot(weights, each, axes=1)
    return Changes(values, moved, product)


@dataclass(frozen=True)
class Side:
    """Rows of one table as a fold's models see them under a transport.

    ``points`` (n, p) are their columns, ``mass`` (n,) their weights.
    """

    points: Floats
    mass: Floats
    changes: Changes

    def span(self, model: int) -> Floats:
        """Return the features that all units share, (n, p + 2)."""
        ones = np.ones((len(self.points), 1))
        return np.hstack([ones, self.points, self.changes.values[model][:, None]])


@dataclass(frozen=True)
class Corrected:
    """Influence values of the rows that represent the law, and of those that a fold holds out.

    ``moved`` (2, n, units) are changes of the models in the rows of the law, ``gaps`` what the
    residuals of each say that it misses there, :math:`g^1, g^2`.
    """

    law: Floats
    relation: Floats
    moved: Floats
    gaps: Floats


def corrected(
    law: Sequence[Side], held_out: Sequence[Side], outcomes: Sequence[Floats]
) -> list[Corrected]:
    """Return the influence values of each fold of one split."""
    spans = [_Span.of(held_out, model) for model in (0, 1)]
    found = []
    for rows, own, y in zip(law, held_out, outcomes, strict=True):
        share = own.mass / own.mass.sum()
        at_law, at_own = rows.changes, own.changes
        on_law = at_law.product.copy()
        on_own = np.zeros_like(at_own.product)
        gaps = np.zeros_like(at_law.moved)
        for model, span in enumerate(spans):
            # the other model's residuals: errors of both are never the same row's noise
            residual = y - at_own.values[1 - model]
            basis = own.span(model)
            moved = at_own.moved[model]
            coefficients = span.solved(basis.T @ (share * residual), moved.T @ (share * residual))
            gap = span.value(coefficients, basis, moved)
            representer = span.value(span.target(rows, model), basis, moved)
            gaps[1 - model] = span.value(coefficients, rows.span(model), at_law.moved[model])
            on_law += at_law.moved[model] * gaps[1 - model]
            # as many coefficients were fitted to these rows: what they leave is too small by that
            free = len(y) / max(1.0, len(y) - basis.shape[1] - 1.0)
            on_own += representer * (residual[:, None] - gap) * np.sqrt(min(free, 2.0))
        found.append(Corrected(on_law, on_own - share @ on_own, at_law.moved, gaps))
    return found


@dataclass(frozen=True)
class _Span:
    r"""Second moments of :math:`\phi = (1, x, f, D)` among the rows of ``b``, unit by unit.

    ``inverse`` is that of the features that units share, ``along`` (q, units) the regression of
    each :math:`D` on these, ``left`` (units,) what it leaves of its mean square; infinite where
    that is nothing, so :math:`D` adds no feature of its own.
    """

    inverse: Floats
    along: Floats
    left: Floats

    @classmethod
    def of(cls, sides: Sequence[Side], model: int) -> _Span:
        basis = np.concatenate([side.span(model) for side in sides])
        moved = np.concatenate([side.changes.moved[model] for side in sides])
        mass = np.concatenate([side.mass for side in sides])
        share = (mass / mass.sum())[:, None]
        scale = np.sqrt(np.sum(share * basis**2, axis=0))
        scale = np.where(scale > 0, scale, 1.0)
        scaled = basis / scale
        inverse = np.zeros((basis.shape[1], basis.shape[1]))
        inverse[:-1, :-1] = _pseudo_inverse((share * scaled[:, :-1]).T @ scaled[:, :-1])
        prediction = scaled[:, -1]
        mean = share[:, 0] @ prediction
        rest = prediction - scaled @ (inverse @ (scaled.T @ (share[:, 0] * prediction)))
        if share[:, 0] @ rest**2 > OWN_SHARE * (share[:, 0] @ (prediction - mean) ** 2):
            inverse = _pseudo_inverse((share * scaled).T @ scaled)
        inverse /= np.outer(scale, scale)
        along = inverse @ (basis.T @ (share * moved))
        square = np.sum(share * moved**2, axis=0)
        left = np.sum(share * (moved - basis @ along) ** 2, axis=0)
        left = np.where(left > OWN_SHARE * square, left, np.inf)
        return cls(inverse, along, left)

    def solved(self, shared: Floats, own: Floats) -> tuple[Floats, Floats]:
        """Return coefficients of the shared features (q, units) and of each ``D`` (units,)."""
        shared = shared[:, None] if shared.ndim == 1 else shared
        own_coefficient = (own - np.sum(self.along * shared, axis=0)) / self.left
        return self.inverse @ shared - self.along * own_coefficient, own_coefficient

    def target(self, rows: Side, model: int) -> tuple[Floats, Floats]:
        """Return the coefficients of the representer, from rows of ``a``."""
        moved = rows.changes.moved[model]
        share = (rows.mass / rows.mass.sum())[:, None]
        return self.solved(rows.span(model).T @ (share * moved), np.sum(share * moved**2, axis=0))

    @staticmethod
    def value(coefficients: tuple[Floats, Floats], basis: Floats, moved: Floats) -> Floats:
        shared, own = coefficients
        return np.asarray(basis @ shared + moved * own)


def _pseudo_inverse(gram: Floats) -> Floats:
    """Return the inverse on the directions that are more than rounding."""
    values, vectors = np.linalg.eigh(gram)
    kept = values > COLLINEAR * values[-1]
    root = vectors[:, kept] / np.sqrt(values[kept])
    return np.asarray(root @ root.T)
