r"""The error of the fitted regression, carried to first order.

Where a score :math:`\psi(\mu)` is not at a minimum in the regression, an error :math:`h` of
:math:`\hat\mu` moves it by the derivative :math:`\dot\psi(h)`. The one-step correction adds
:math:`E[\alpha(X)(Y - \hat\mu(X))]` with the Riesz representer :math:`\alpha` of that derivative,
:math:`\dot\psi(h) = E[\alpha(X) h(X)]`, and the same term is what the estimated regression
contributes to the influence function (automatic debiasing: Chernozhukov, Newey and Singh 2022).

For scores that swap a feature between rows the exact :math:`\alpha` is a density ratio
:math:`p(x_j) p(x_{-j}) / p(x)`, whose variance is infinite for Gaussian pairs with a correlation
above 1/2. It is projected here on a span: a constant, the columns, :math:`\hat\mu` itself, and
:math:`\Delta_j(x) = \hat\mu(x) - E_t[\hat\mu(t, x_{-j})]`, what the model does with the feature:

.. math:: \hat\alpha = b'\,E[bb']^{-1}\,\dot\psi(b), \qquad b = (1, x, \hat\mu, \Delta_j).

This is exact for linear regressions (the delta method for their coefficients) and, for any
regression, where the feature is independent of the others (then :math:`\alpha = 2\Delta_j`); in
between it takes out the shrinkage, the linear error and the noise that a flexible model fits to a
feature that does not matter, whose plain variance would look like importance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from dfi._types import Floats


OUTSIDE_SPAN = 0.01


class RieszSpan:
    """The span on which representers are projected, with its Gram matrix over training rows.

    Parameters
    ----------
    train : ndarray of shape (n_train, p)
        Training rows of the fold.
    mass : ndarray of shape (n_train,)
        Their weights.
    predict : callable
        The fold's full model.
    """

    def __init__(self, train: Floats, mass: Floats, predict: Callable[[Floats], Floats]) -> None:
        share = mass / mass.sum()
        self.predict = predict
        value = predict(train)
        raw = np.column_stack([train, value])
        self.centre = share @ raw
        scale = np.sqrt(share @ (raw - self.centre) ** 2)
        self.scale = np.where(scale > 0, scale, 1.0)
        basis = (raw - self.centre) / self.scale
        gram = (basis * share[:, None]).T @ basis
        n, q = basis.shape
        # few rows per function: a ridge keeps the inverse from chasing noise
        penalty = 0.0 if n >= 5 * q else q / n
        values, vectors = np.linalg.eigh(gram + penalty * np.eye(q))
        kept = values > 1e-9 * values.max()
        self.inverse = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T

    def basis(self, points: Floats, value: Floats) -> Floats:
        """Return the centred and scaled columns and prediction of each point."""
        return np.asarray((np.column_stack([points, value]) - self.centre) / self.scale)

    def correction(
        self,
        rows: Floats,
        value: Floats,
        residual: Floats,
        derivative: Floats,
        constant: Floats,
        own: Floats,
        own_derivative: Floats,
        mass: Floats,
    ) -> Floats:
        r"""Return the term that each held-out row adds, (n, k).

        Parameters
        ----------
        rows, value, residual : ndarray
            Held-out rows, their predictions and residuals.
        derivative : ndarray of shape (q, k)
            Derivative of each of k scores in the direction of each function of the span.
        constant : ndarray of shape (k,)
            Derivative in the direction of a constant.
        own : ndarray of shape (n, k)
            The function :math:`\Delta_j` of each score at the held-out rows.
        own_derivative : ndarray of shape (k,)
            Derivative of each score in its direction.
        mass : ndarray of shape (n,)
            Shares of the rows.
        """
        basis = self.basis(rows, value)
        representer = basis @ (self.inverse @ derivative) + constant
        level = mass @ own
        centred = own - level
        root = np.sqrt(mass)[:, None]
        shadow = np.linalg.lstsq(root * basis, root * centred, rcond=1e-9)[0]
        beyond = centred - basis @ shadow
        left = mass @ beyond**2
        # within the span already (a linear model): nothing to add
        outside = left > OUTSIDE_SPAN * (mass @ centred**2)
        wanted = own_derivative - level * constant - np.sum(shadow * derivative, axis=0)
        slope = np.divide(wanted, left, out=np.zeros_like(left), where=outside)
        representer += slope * beyond
        return np.asarray(residual[:, None] * representer)
