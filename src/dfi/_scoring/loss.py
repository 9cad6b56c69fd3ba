r"""Losses as convex generators: what one prediction loses, and what two models lose together.

A loss is a convex function :math:`f` of a predicted mean. Up to a function of the outcome alone

.. math:: \ell(y, p) = -\{f(p) + f'(p)(y - p)\},

the tangent of :math:`f` at the prediction, taken at the outcome with its sign changed. Two
predictions ``a``, ``b`` of the same row lose by the secant instead,

.. math:: \ell(y; a, b) = -\tfrac12\{f(a) + f(b)\} - f[a, b]\,\{y - \tfrac12(a + b)\}, \qquad
          f[a, b] = \frac{f(a) - f(b)}{a - b},

which is the tangent's loss where ``a = b``. With :math:`\mu` the regression, its mean exceeds that
of :math:`\ell(y, \mu)` by :math:`E\,f[a, b, \mu](a - \mu)(b - \mu)`: the product of the two errors,
where one model's loss has the square of its own. For :math:`f(p) = p^2` and with :math:`y^2` added
these are :math:`(y - p)^2` and :math:`(y - a)(y - b)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from dfi._types import Floats


@dataclass(frozen=True)
class Loss:
    """A loss, by its generator ``f`` and its derivative.

    ``secant`` is the divided difference ``f[a, b]``, the slope where ``a = b``, without
    cancellation; ``pair(y, a, b)`` the loss of two predictions in a form with less rounding than
    that by the generator, to which it may add a function of ``y``. ``unit`` is what scores are
    shares of.
    """

    name: str
    unit: str
    generator: Callable[[Floats], Floats]
    slope: Callable[[Floats], Floats]
    secant: Callable[[Floats, Floats], Floats]
    pair: Callable[[Floats, Floats, Floats], Floats] | None = None

    def of(self, y: Floats, prediction: Floats) -> Floats:
        if self.pair is not None:
            return self.pair(y, prediction, prediction)
        tangent = self.generator(prediction) + self.slope(prediction) * (y - prediction)
        return np.asarray(-tangent)

    def of_two(self, y: Floats, first: Floats, second: Floats) -> Floats:
        if self.pair is not None:
            return self.pair(y, first, second)
        level = 0.5 * (self.generator(first) + self.generator(second))
        return np.asarray(-level - self.secant(first, second) * (y - 0.5 * (first + second)))


# a function of the module: a loss that was sent to another process equals itself
def _twice(p: Floats) -> Floats:
    return np.asarray(2.0 * p)


def _product_of_errors(y: Floats, a: Floats, b: Floats) -> Floats:
    error = y - a
    return np.asarray(error * (error if b is a else y - b))


SQUARED_ERROR = Loss(
    "squared error",
    unit="variance of the outcome",
    generator=np.square,
    slope=_twice,
    secant=np.add,
    pair=_product_of_errors,
)
