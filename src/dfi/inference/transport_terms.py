r"""The influence of each row on the fitted transport, and through it on the scores.

The paper's influence functions take the transport as known. Its estimation error is of first
order: with the true regression, nominal 90 % intervals of non-null attributed scores cover as
little as 39 % of the time without these terms.

For a standardised row :math:`x`, :math:`R` its correlation matrix, :math:`L = R^{1/2}`:

- :math:`IF_R = xx' - \frac12(\mathrm{diag}(x^2) R + R\,\mathrm{diag}(x^2))`;
- :math:`D`, the influence on :math:`L`, solves :math:`L D + D L = IF_R`;
- :math:`A = L^{-1} D + \frac12 L^{-1} \mathrm{diag}(x^2 - 1) L` is the influence on the whole map;
- :math:`IF_{Z_j} = u_j - \phi_{Z_j} + 2 \sum_{k \ne j} A_{kj} G_{kj}`;
- :math:`IF_{X_l} = \sum_j W_{lj}^2 IF_{Z_j} + 2 \sum_j W_{lj} (\delta W)_{lj} \phi_{Z_j}`.

Where :math:`R` is singular, :math:`L^+` stands for :math:`L^{-1}` and :math:`P` projects on its
range. Rescaling the columns then turns the null space (not for a duplicated pair, but for
``x3 = x1 + x2`` or a one-hot block), and the random part of :math:`Z_j` with it: with
:math:`G_{jj} = E[h_j^2]` this adds :math:`-G_{jj} \sum_m (I-P)_{jm} P_{mj}\, x_m^2`.

In the eigenbasis of :math:`R` both :math:`D` and :math:`A` are a rank-one matrix times a fixed
kernel, plus a part that is linear in :math:`x^2`; contractions with fixed matrices are quadratic
forms of the row, and no n x d x d array is ever built.

Between dependence components :math:`R` is 0, known and not estimated: :math:`IF_R`, :math:`D` and
:math:`A` are block-diagonal, and every contraction is a sum over components.

For the bridge (:math:`s < 1`, :math:`c^2 = 1 - s^2`) the rows' latent draws and the smoothing move
with the transport as well. Differentiating :math:`E(Y-m_j)^2 - E(Y-\eta)^2` along
:math:`L \to L(I + A)`, with Stein's identity for the Gaussian conditional laws, gives

.. math::

    2 s \sum_{k \ne j} A_{kj} G_{kj}
    - 2 c^2 \Big\{ \sum_{k,l} A_{kl} E[\partial_k \eta\, \partial_l \eta]
      - \sum_{k,l \ne j} A_{kl} E[\partial_k m_j\, \partial_l m_j] \Big\},

whose expectations are taken from the Hermite coefficients of :math:`\eta` up to order two
(:math:`b`, :math:`C`): exact where :math:`\eta` is quadratic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dfi.inference.cauchy import cauchy_forms

if TYPE_CHECKING:
    from dfi._scoring.lines import LineScores
    from dfi._types import Floats, Ints
    from dfi.transports.gaussian import LinearTransport


@dataclass(frozen=True)
class MapInfluence:
    """Per-row influence on the decoder ``L`` and on the map, contracted with fixed matrices.

    Parameters
    ----------
    transport : LinearTransport
        The fitted transport.
    rows : ndarray of shape (n, d)
        Standardised rows.
    """

    transport: LinearTransport
    rows: Floats

    def on_decoder(self, left: Floats, right: Floats) -> Floats:
        """Return ``sum_ab D_ab left[a, o] right[b, o]`` for each row and output ``o``."""
        return self._by_component(left, right, mapped=False)

    def on_map(self, left: Floats, right: Floats) -> Floats:
        """Return ``sum_ab A_ab left[a, o] right[b, o]`` for each row and output ``o``."""
        transport = self.transport
        result = self._by_component(left, right, mapped=True)
        if transport.standardized:
            # 1/2 L^-1 diag(x^2 - 1) L, contracted: linear in x^2 - 1
            scale_part = 0.5 * (transport.encoder @ left) * (transport.decoder @ right)
            result += (self.rows**2 - 1.0) @ scale_part
        return result

    def matrices(self, rows: Ints, block: Ints) -> tuple[Floats, Floats]:
        """Return ``D`` and ``A`` of some rows within a component, both (rows, block, block).

        As they are: for a few rows at a time.
        """
        transport = self.transport
        within = np.ix_(block, block)
        vectors, roots = transport.eigenvectors[within], np.sqrt(transport.eigenvalues[block])
        x = self.rows[np.ix_(rows, block)]
        raw = (vectors * transport.raw_eigenvalues[block]) @ vectors.T
        change = x[:, :, None] * x[:, None, :]
        if transport.standardized:
            change -= 0.5 * raw * (x[:, :, None] ** 2 + x[:, None, :] ** 2)
        else:
            change -= raw
        change *= 1.0 - transport.shrinkage
        if transport.shrinkage > 0 and not transport.standardized:
            # the identity that is mixed in has the size of the mean eigenvalue of all columns
            squares = np.mean(self.rows[rows] ** 2, axis=1) - transport.eigenvalues.mean()
            change += transport.shrinkage * squares[:, None, None] * np.eye(len(block))
        totals = roots[:, None] + roots[None, :]
        kernel = np.divide(1.0, totals, out=np.zeros_like(totals), where=totals > 0)
        on_decoder = vectors @ (kernel * (vectors.T @ change @ vectors)) @ vectors.T
        on_map = transport.encoder[within] @ on_decoder
        if transport.standardized:
            scaled = 0.5 * (x**2 - 1.0)
            on_map += (transport.encoder[within] * scaled[:, None, :]) @ transport.decoder[within]
        return on_decoder, on_map

    def _by_component(self, left: Floats, right: Floats, *, mapped: bool) -> Floats:
        """Contract ``D``, or with ``mapped`` ``L^-1 D``, component by component."""
        blocks = self.transport.blocks
        if len(blocks) == 1:
            return self._contract(blocks[0], left, right, mapped=mapped)
        result = np.zeros((len(self.rows), left.shape[1]))
        for block in blocks:
            if len(block) == 1 and self.transport.standardized:
                continue  # a correlation of 1 with itself, whatever the row
            inner = np.any(left[block], axis=0) & np.any(right[block], axis=0)
            if inner.any():
                result[:, inner] += self._contract(
                    block, left[np.ix_(block, inner)], right[np.ix_(block, inner)], mapped=mapped
                )
        return result

    def _contract(self, block: Ints, left: Floats, right: Floats, *, mapped: bool) -> Floats:
        """Contract one component's part with its rows of ``left`` and ``right``, both (d, o)."""
        transport = self.transport
        whole = len(block) == transport.n_latent
        place = slice(None) if whole else block
        rows = self.rows[:, place]
        roots = np.sqrt(transport.eigenvalues[place])
        vectors = transport.eigenvectors if whole else transport.eigenvectors[np.ix_(block, block)]
        left, right = vectors.T @ left, vectors.T @ right
        inverse = np.divide(1.0, roots, out=np.zeros_like(roots), where=roots > 0)
        if mapped:
            left = inverse[:, None] * left
        kept = 1.0 - transport.shrinkage
        rotated = rows @ vectors
        result = kept * cauchy_forms(rotated, roots, left, right)
        diagonal = np.divide(kept, 2 * roots, out=np.zeros_like(roots), where=roots > 0)
        if transport.standardized:
            # diag(x^2) R + R diag(x^2) is linear in x^2 with the rank-one pieces v_m v_m'
            raw = transport.raw_eigenvalues[place, None]
            pieces = cauchy_forms(vectors, roots, raw * left, right)
            pieces += cauchy_forms(vectors, roots, left, raw * right)
            result -= 0.5 * kept * (rows**2 @ pieces)
        else:
            result -= (diagonal * transport.raw_eigenvalues[place]) @ (left * right)
            if transport.shrinkage > 0:
                # the identity that is mixed in has the size of the mean eigenvalue of all columns
                squares = np.mean(self.rows**2, axis=1) - transport.eigenvalues.mean()
                share = transport.shrinkage / kept
                result += np.outer(squares, share * (diagonal @ (left * right)))
        return result


def latent_terms(influence: MapInfluence, scores: LineScores) -> Floats:
    """Return what the fitted transport adds to the latent influence values, (n, d)."""
    transport = influence.transport
    s = transport.smoothing
    sensitivity = scores.sensitivity.copy()
    stretch = np.diag(sensitivity).copy()
    np.fill_diagonal(sensitivity, 0.0)
    identity = np.eye(transport.n_latent)
    terms = 2.0 * s * influence.on_map(sensitivity, identity)
    if s < 1.0:
        terms -= 2.0 * (1.0 - s**2) * _smoothing_terms(influence, scores.gradient, scores.curvature)
    elif transport.standardized and transport.kernel_variance.any():
        null = transport.eigenvectors[:, transport.eigenvalues <= 0]
        outside = null @ null.T
        terms -= (influence.rows**2) @ (outside * (identity - outside) * stretch)
    return terms


def _smoothing_terms(influence: MapInfluence, gradient: Floats, curvature: Floats) -> Floats:
    r"""Contract ``A`` with :math:`E[\nabla\eta\nabla\eta'] - E[\nabla m_j\nabla m_j']` for each j.

    With Hermite coefficients ``b`` and ``C`` the first is :math:`\Gamma = bb' + CC'`, and the
    difference is ``C_kj C_lj`` for k, l other than j and :math:`\Gamma_{kl}` where one is j.
    """
    d = len(gradient)
    identity = np.eye(d)
    second = np.outer(gradient, gradient) + curvature @ curvature.T
    others = curvature * (1.0 - identity)
    result = influence.on_map(others, others)
    result += influence.on_map(second, identity)
    result += influence.on_map(identity, second * (1.0 - identity))
    return result


def attributed_influence(
    latent_influence: Floats,
    scores: Floats,
    transport: LinearTransport,
    influence: MapInfluence | None,
) -> Floats:
    """Return the attributed influence values, (n, d).

    Parameters
    ----------
    latent_influence : ndarray of shape (n, d)
        Uncentred influence values of the latent scores.
    scores : ndarray of shape (d,)
        The latent scores, their weighted means.
    transport : LinearTransport
        The fitted transport, with its attribution matrix ``W``.
    influence : MapInfluence or None
        None takes the transport as known, as the paper does.
    """
    weight = transport.attribution
    attributed = latent_influence @ (weight**2).T
    if influence is not None:
        identity = np.eye(transport.n_latent)
        change = influence.on_decoder(identity, (weight * scores).T)
        attributed += 2.0 * transport.weight_factor * change
    return attributed
