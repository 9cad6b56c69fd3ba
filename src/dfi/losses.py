r"""Losses as convex generators: the loss of one prediction, and of two models together.

A loss is a convex function :math:`f` of a predicted mean. Up to a function of the outcome alone

.. math:: \ell(y, p) = -\{f(p) + f'(p)(y - p)\},

the tangent of :math:`f` at the prediction, taken at the outcome with its sign changed. Two
predictions ``a``, ``b`` of the same row lose by the secant instead,

.. math:: \ell(y; a, b) = -\tfrac12\{f(a) + f(b)\} - f[a, b]\,\{y - \tfrac12(a + b)\}, \qquad
          f[a, b] = \frac{f(a) - f(b)}{a - b},

which is the tangent's loss where ``a = b``. With :math:`\mu` the regression, its mean exceeds that
of :math:`\ell(y, \mu)` by :math:`E\,f[a, b, \mu](a - \mu)(b - \mu)` (Newton's remainder): the
product of the two errors, where one model's loss has the square of its own.

============== =========================== =================== ==========================
loss           :math:`f(p)`                predictions         scores are in units of
============== =========================== =================== ==========================
squared-error  :math:`p^2`                 real                the outcome's variance
brier          :math:`p^2`                 probabilities       the outcome's variance
log-loss       :math:`p\log p` per class   probabilities       nats
poisson        :math:`p\log p - p`         positive            half a deviance, nats
gamma          :math:`-\log p`             positive            half a deviance
============== =========================== =================== ==========================

The average of a regression over one independent coordinate is the best prediction without it under
every such loss, so line means, scores and their errors are the same for all of them. For log-loss a
score is the conditional mutual information :math:`I(Y; Z_j \mid Z_{-j})`. Several classes, or
several outcomes, lose the sum of what each of them loses; two classes have one probability, and
their log-loss is that of both, their Brier score that of one.

Losses that are not of this kind (:func:`zero_one`, any function of outcome and prediction) have a
difference of losses all the same, but no cross form: see :func:`custom`. Those of a quantile
(:func:`absolute`, :func:`pinball`) are for methods that refit, with a learner of that quantile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from scipy.special import xlogy

from dfi._checks import did_you_mean
from dfi._parameters import argument, validated, validated_fields

if TYPE_CHECKING:
    from collections.abc import Callable

    from dfi._types import Floats

__all__ = [
    "BRIER", "GAMMA", "LOG_LOSS", "LOSSES", "POISSON", "SQUARED_ERROR", "Loss", "absolute",
    "custom", "pinball", "zero_one",
]  # fmt: skip

Domain = Literal["real", "probability", "positive"]
LossLike: TypeAlias = "str | Loss | Callable[[Floats, Floats], Floats]"

SERIES = 1e-2
"""Relative difference of two predictions below which a divided difference is a series."""


@validated_fields
@dataclass(frozen=True, repr=False)
class Loss:
    """A loss, by its generator ``f`` and its derivatives.

    Parameters
    ----------
    name : str
        Its name, in specifications and tables.
    unit : str
        What scores are measured in.
    generator, slope, curvature : callable, optional
        :math:`f`, :math:`f'` and :math:`f''` of an array of predictions; the last is needed where
        units of several columns are replaced by draws.
    secant : callable, optional
        The divided difference ``f[a, b]``, the slope where ``a = b``, without cancellation.
    domain : {"real", "probability", "positive"}, default="real"
        Where predictions lie.
    pair : callable, optional
        The loss ``pair(y, a, b)`` of two predictions in a form with less rounding than that by the
        generator, to which it may add a function of ``y``.
    of_class : Loss, optional
        What one of three or more classes loses, where that is not this loss itself.
    function : callable, optional
        The loss ``function(y, p)`` of one prediction, for a loss that has no generator: scores are
        differences of losses of one model (``form="loco"``).
    perfect : callable, optional
        What a prediction that equals the outcome loses, where the outcome is no possible
        prediction (a count of 0, a class).
    quantile : float, optional
        The quantile of the outcome that loses least, for a loss that is not about the mean.

    Examples
    --------
    >>> from dfi.losses import LOG_LOSS
    >>> loss = LOG_LOSS.of(np.array([1.0]), np.array([0.5]))
    >>> bool(np.isclose(loss[0], np.log(2)))
    True
    """

    name: str
    unit: str
    generator: Callable[[Floats], Floats] | None = None
    slope: Callable[[Floats], Floats] | None = None
    secant: Callable[[Floats, Floats], Floats] | None = None
    pair: Callable[[Floats, Floats, Floats], Floats] | None = None
    curvature: Callable[[Floats], Floats] | None = None
    domain: Domain = "real"
    of_class: Loss | None = None
    function: Callable[[Floats, Floats], Floats] | None = None
    perfect: Callable[[Floats], Floats] | None = None
    quantile: float | None = None

    def __post_init__(self) -> None:
        parts = (self.generator, self.slope, self.secant)
        if self.function is None and any(part is None for part in parts):
            raise TypeError(
                f"the loss {self.name!r} needs generator, slope and secant, or else a "
                "function of outcome and prediction"
            )

    def __repr__(self) -> str:
        # functions are shown with where they lie in memory, which no file should hold
        return f"Loss({self.name!r})"

    @property
    def is_square(self) -> bool:
        """Whether the generator is the square: products of errors, and what rests on them."""
        return self.pair is _product_of_errors

    @property
    def has_generator(self) -> bool:
        """Whether two models can be scored together."""
        return self.function is None

    @property
    def each_class(self) -> Loss:
        """The loss of one of several classes."""
        return self if self.of_class is None else self.of_class

    def of(self, y: Floats, prediction: Floats) -> Floats:
        """Return the loss of predictions; the arrays broadcast."""
        if self.pair is not None:
            return self.pair(y, prediction, prediction)
        if self.generator is None or self.slope is None:
            found = self._of_function(y, prediction)
            if not np.isfinite(found).all():
                odd = np.unravel_index(int((~np.isfinite(found)).argmax()), found.shape)
                outcomes, predictions = np.broadcast_arrays(y, prediction)
                raise ValueError(
                    f"the loss {self.name!r} gives {found[odd]} for the outcome "
                    f"{outcomes[odd]:.4g} and the prediction {predictions[odd]:.4g}: it must be "
                    "finite for every prediction of the model, and for averages of them"
                )
            return found
        tangent = self.generator(prediction) + self.slope(prediction) * (y - prediction)
        return np.asarray(-tangent)

    def _of_function(self, y: Floats, prediction: Floats) -> Floats:
        if self.function is None:
            raise TypeError(f"the loss {self.name!r} has neither generator nor function")
        shape = np.broadcast_shapes(np.shape(y), np.shape(prediction))
        try:
            found = np.asarray(self.function(y, prediction), dtype=np.float64)
        except Exception as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            raise ValueError(
                f"the loss {self.name!r} failed for arrays of outcomes and predictions "
                f"({reason}): it must take both, and return one loss per row"
            ) from error
        if found.shape != shape:
            raise ValueError(
                f"the loss {self.name!r} returned shape {found.shape} for outcomes and "
                f"predictions of shape {shape}: it must return one loss per row, not a mean over "
                "rows"
            )
        return found

    def of_two(self, y: Floats, first: Floats, second: Floats) -> Floats:
        """Return the joint loss of two models, the secant; the arrays broadcast."""
        if self.pair is not None:
            return self.pair(y, first, second)
        if self.generator is None or self.secant is None:
            raise TypeError(f"the loss {self.name!r} has no generator, and so no cross form")
        level = 0.5 * (self.generator(first) + self.generator(second))
        return np.asarray(-level - self.secant(first, second) * (y - 0.5 * (first + second)))

    def check(self, *predictions: Floats) -> None:
        """Raise if the loss cannot take predictions, or averages of them."""
        if self.domain == "real" or self.is_square or not self.has_generator:
            return
        high = np.inf if self.domain == "positive" else 1.0
        for value in predictions:
            outside = ~((value > 0.0) & (value < high))
            if outside.any():
                what = "positive numbers" if self.domain == "positive" else "probabilities"
                raise ValueError(
                    f"the model predicted {value[outside][0]:.4g}, but "
                    f"{argument('loss', self.name)} needs {what}: choose a model that predicts "
                    "them, or another loss"
                )

    def half_slope(self, prediction: Floats) -> Floats:
        """Return ``f'/2``: the prediction itself for the square."""
        if self.is_square:
            return prediction
        if self.slope is None:
            raise TypeError(f"the loss {self.name!r} has no slope")
        return np.asarray(0.5 * self.slope(prediction))

    def half_curvature(self, prediction: Floats) -> Floats:
        """Return ``f''/2``: ones for the square."""
        if self.curvature is None:
            raise TypeError(f"the loss {self.name!r} has no curvature")
        return np.asarray(0.5 * self.curvature(prediction))

    def best_constant(self, y: Floats, mass: Floats) -> float:
        """Return the best constant prediction: the mean, or the quantile."""
        if self.quantile is None:
            return float(np.average(y, weights=mass))
        order = np.argsort(y)
        below = np.cumsum(mass[order])
        return float(y[order][np.searchsorted(below, self.quantile * below[-1])])

    def least(self, y: Floats) -> Floats:
        """Return the loss of predicting the outcome itself, so differences are >= 0."""
        if self.perfect is not None:
            return np.asarray(self.perfect(y))
        # an outcome may be no possible prediction, and what it would lose no number
        return self.of(y, y) if self.has_generator else self._of_function(y, y)


# functions of the module: a loss that was sent to another process equals itself
def _twice(p: Floats) -> Floats:
    return np.asarray(2.0 * p)


def _two(p: Floats) -> Floats:
    return np.full_like(p, 2.0)


def _product_of_errors(y: Floats, a: Floats, b: Floats) -> Floats:
    error = y - a
    return np.asarray(error * (error if b is a else y - b))


def _entropy(p: Floats) -> Floats:
    return np.asarray(p * np.log(p))


def _entropy_slope(p: Floats) -> Floats:
    return np.asarray(np.log(p) + 1.0)


def _entropy_curvature(p: Floats) -> Floats:
    return np.asarray(1.0 / p)


def _entropy_secant(a: Floats, b: Floats) -> Floats:
    r"""Return :math:`\log c + g(r)`, ``c`` the middle and ``r`` the relative half difference.

    :math:`g(r) = \{(1+r)\log(1+r) - (1-r)\log(1-r)\} / 2r`, which lies between log 2 and 1: only
    the mean of the two predictions enters the logarithm, so one of them near 0 does no harm.
    """
    total = a + b
    r = (a - b) / total
    near = np.abs(r) < SERIES
    safe = np.where(near, 0.5, r)
    # both ends are finite: x log x is 0 where one prediction is 0
    up, down = 1.0 + safe, np.maximum(1.0 - safe, np.finfo(float).tiny)
    up_ = np.maximum(up, np.finfo(float).tiny)
    exact = (up * np.log(up_) - (1.0 - safe) * np.log(down)) / (2.0 * safe)
    square = r * r
    series = 1.0 - square * (1.0 / 6.0 + square * (1.0 / 20.0 + square / 42.0))
    return np.asarray(np.log(0.5 * total) + np.where(near, series, exact))


def _both(p: Floats) -> Floats:
    return np.asarray(_entropy(p) + _entropy(1.0 - p))


def _both_slope(p: Floats) -> Floats:
    return np.asarray(np.log(p) - np.log1p(-p))


def _both_curvature(p: Floats) -> Floats:
    return np.asarray(1.0 / (p * (1.0 - p)))


def _both_secant(a: Floats, b: Floats) -> Floats:
    return np.asarray(_entropy_secant(a, b) - _entropy_secant(1.0 - a, 1.0 - b))


def _poisson(p: Floats) -> Floats:
    return np.asarray(p * np.log(p) - p)


def _poisson_slope(p: Floats) -> Floats:
    return np.log(p)


def _poisson_perfect(y: Floats) -> Floats:
    return np.asarray(y - xlogy(y, y))


def _poisson_secant(a: Floats, b: Floats) -> Floats:
    return np.asarray(_entropy_secant(a, b) - 1.0)


def _minus_log(p: Floats) -> Floats:
    return np.asarray(-np.log(p))


def _gamma_slope(p: Floats) -> Floats:
    return np.asarray(-1.0 / p)


def _gamma_curvature(p: Floats) -> Floats:
    return np.asarray(1.0 / p**2)


def _gamma_secant(a: Floats, b: Floats) -> Floats:
    r"""Return :math:`-\operatorname{artanh}(r) / (r c)`."""
    middle = 0.5 * (a + b)
    r = 0.5 * (a - b) / middle
    near = np.abs(r) < SERIES
    safe = np.where(near, 0.5, r)
    square = r * r
    series = 1.0 + square * (1.0 / 3.0 + square * (0.2 + square / 7.0))
    return np.asarray(-np.where(near, series, np.arctanh(safe) / safe) / middle)


def _absolute(y: Floats, p: Floats) -> Floats:
    return np.asarray(np.abs(y - p))


def _zero_one(y: Floats, p: Floats) -> Floats:
    return np.asarray((y > 0.5) != (p > 0.5), dtype=np.float64)


SQUARED_ERROR = Loss(
    "squared-error",
    unit="variance of the outcome",
    generator=np.square,
    slope=_twice,
    curvature=_two,
    secant=np.add,
    pair=_product_of_errors,
)
"""Squared error, the default for quantities: scores are parts of the outcome's variance.

Examples
--------
>>> import numpy as np
>>> from dfi.losses import SQUARED_ERROR
>>> SQUARED_ERROR.of(np.array([3.0]), np.array([1.0]))  # up to a function of the outcome
array([4.])
"""

BRIER = replace(SQUARED_ERROR, name="brier", domain="probability")
"""Brier's score, the default for classes: squared error of a probability.

Examples
--------
>>> import numpy as np
>>> from dfi.losses import BRIER
>>> BRIER.of(np.array([1.0, 0.0]), np.array([0.5, 0.5]))
array([0.25, 0.25])
"""

LOG_LOSS = Loss(
    "log-loss",
    unit="nats",
    generator=_both,
    slope=_both_slope,
    curvature=_both_curvature,
    secant=_both_secant,
    domain="probability",
    perfect=np.zeros_like,
    of_class=Loss(
        "log-loss",
        unit="nats",
        generator=_entropy,
        slope=_entropy_slope,
        curvature=_entropy_curvature,
        secant=_entropy_secant,
        domain="probability",
        perfect=np.zeros_like,
    ),
)
"""Log-loss of a probability, in nats.

Examples
--------
>>> import numpy as np
>>> from dfi.losses import LOG_LOSS
>>> LOG_LOSS.of(np.array([1.0]), np.array([0.5])).round(3)
array([0.693])
"""

POISSON = Loss(
    "poisson",
    unit="half the Poisson deviance",
    generator=_poisson,
    slope=_poisson_slope,
    curvature=_entropy_curvature,
    secant=_poisson_secant,
    domain="positive",
    perfect=_poisson_perfect,
)
"""Half the Poisson deviance, for counts.

Examples
--------
>>> import numpy as np
>>> from dfi.losses import POISSON
>>> near, far = POISSON.of(np.array([2.0, 2.0]), np.array([2.0, 5.0]))
>>> bool(near < far)
True
"""

GAMMA = Loss(
    "gamma",
    unit="half the gamma deviance",
    generator=_minus_log,
    slope=_gamma_slope,
    curvature=_gamma_curvature,
    secant=_gamma_secant,
    domain="positive",
)
"""Half the gamma deviance, for positive quantities such as costs.

Examples
--------
>>> import numpy as np
>>> from dfi.losses import GAMMA
>>> near, far = GAMMA.of(np.array([2.0, 2.0]), np.array([2.0, 5.0]))
>>> bool(near < far)
True
"""

LOSSES = {loss.name: loss for loss in (SQUARED_ERROR, BRIER, LOG_LOSS, POISSON, GAMMA)}
"""The losses that have a name.

Examples
--------
>>> from dfi.losses import LOSSES
>>> sorted(LOSSES)
['brier', 'gamma', 'log-loss', 'poisson', 'squared-error']
"""


@validated
def custom(function: Callable[[Floats, Floats], Floats], name: str | None = None) -> Loss:
    """Return a loss that has no generator, from a function of outcomes and predictions.

    Its scores are differences of the losses of one model: of the line mean, which is the best
    prediction of the mean without a coordinate and not the one of least loss, and of the
    prediction. There is no form of two models, so the error of the regression enters squared, and
    scores lean towards 0 or, where the loss is not of the mean, in either direction.

    Parameters
    ----------
    function : callable
        Takes outcomes and predictions as arrays that broadcast, returns what each row loses.
    name : str, optional
        For tables; the function's own by default.

    Examples
    --------
    >>> from dfi.losses import custom
    >>> def cubic(y, p):
    ...     return np.abs(y - p) ** 3
    >>> custom(cubic).name
    'cubic'
    """
    if not callable(function):
        raise TypeError(f"a loss must be a function of outcomes and predictions, got {function!r}")
    label = name or getattr(function, "__name__", None) or type(function).__name__
    return Loss(str(label), unit="loss", function=function)


def absolute() -> Loss:
    """Return the absolute error, whose best prediction is the median: see :func:`pinball`.

    Returns
    -------
    Loss
        What ``compare(loss=...)`` takes.

    Examples
    --------
    >>> import numpy as np
    >>> from dfi.losses import absolute
    >>> absolute().of(np.array([3.0]), np.array([1.0]))
    array([2.])
    """
    return Loss("absolute", unit="absolute error", function=_absolute, quantile=0.5)


@dataclass(frozen=True)
class _Quantile:
    """The pinball loss of one quantile, as a function that can be sent to other processes."""

    quantile: float

    def __call__(self, y: Floats, p: Floats) -> Floats:
        error = y - p
        return np.asarray(np.maximum(self.quantile * error, (self.quantile - 1.0) * error))


@validated
def pinball(quantile: float = 0.5) -> Loss:
    """Return the pinball loss of a quantile, for methods that fit a regression without a feature.

    Those are ``"loco"`` and ``"nloco"`` of :func:`dfi.compare`, with a learner of this quantile: a
    learner known to predict something else is refused, an unknown one is trusted. DFI has no such
    score, whatever the learner: without a coordinate the best prediction is the quantile of a
    mixture, not an average of predictions.

    Parameters
    ----------
    quantile : float, default=0.5
        Strictly between 0 and 1; the default is the median.

    Examples
    --------
    >>> from dfi.losses import pinball
    >>> pinball(0.75).of(np.array([3.0, 1.0]), np.array([1.0, 3.0]))
    array([1.5, 0.5])
    """
    return Loss(
        f"pinball({quantile:g})",
        unit="pinball loss",
        function=_Quantile(quantile),
        quantile=quantile,
    )


def zero_one() -> Loss:
    """Return the misclassification of a probability above or below one half.

    Returns
    -------
    Loss
        What ``explain(loss=...)`` takes.

    Examples
    --------
    >>> import numpy as np
    >>> from dfi.losses import zero_one
    >>> zero_one().of(np.array([1.0, 0.0]), np.array([0.7, 0.6]))
    array([0., 1.])
    """
    return Loss("zero-one", unit="misclassified share", function=_zero_one, domain="probability")


_OTHERS = {"absolute": absolute, "pinball": pinball, "zero-one": zero_one}


def resolve_loss(loss: LossLike) -> Loss | None:
    """Return the loss of a name, a function or itself; None for ``"auto"``."""
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, type):
        raise TypeError(
            f"loss is the class {loss.__name__}: pass a name, a dfi.losses.Loss, or a function of "
            "outcome and prediction"
        )
    if not isinstance(loss, str):
        return custom(loss)
    if loss == "auto":
        return None
    if loss in LOSSES:
        return LOSSES[loss]
    if loss in _OTHERS:
        return _OTHERS[loss]()
    known = ["auto", *LOSSES, *_OTHERS]
    hint = did_you_mean(loss, known) or "."
    raise ValueError(f"unknown loss {loss!r}{hint} Known names: {', '.join(map(repr, known))}")
