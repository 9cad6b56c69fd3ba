"""What a method is: a named question, and influence values that answer it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np

from dfi._lines.choose import Quadrature, line_model
from dfi._lines.closed_form import as_linear
from dfi._models.fits import Fits, once
from dfi._models.predictor import predict_once
from dfi._scoring.forms import ScoreForm, explained_rows
from dfi._scoring.scores import pool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dfi._lines.base import LineModel
    from dfi._models.crossfit import FoldModels
    from dfi._models.quality import Quality
    from dfi._types import Bools, Floats, Ints

SAMPLE_ROWS = 200

CONSERVATIVE = (
    "If the true score is 0, influence values vanish and the error of the fits pulls the score "
    "below 0, so the one-sided test is conservative."
)


@dataclass(frozen=True, eq=False)
class MethodResult:
    """One importance of every unit, as influence values: what a method returns.

    A method knows its values, and not how the table was fitted, split or read: with that an
    :class:`dfi.Importance` is made of it.

    Attributes
    ----------
    influence : ndarray of shape (len(rows), n_units)
        Uncentred influence values: score = mean, standard error = sd / sqrt(n).
    rows : ndarray of int
        The rows of the table that they belong to.
    monte_carlo_se : ndarray of shape (n_units,), optional
        Error of the score from random permutations or sampled submodels, on top of the sampling
        error and reported apart from it: more draws make it small.
    nonnegative : bool
        Whether the parameter cannot be negative.
    diagnostics : mapping
        What else a reader should know (JSON-like).
    space : {"attributed", "latent"}
        Whether units are features (or groups of them) or the latent coordinates of features.
    specification : mapping
        What the estimand depends on beyond the method's parameters (JSON-like).
    quality : Quality, optional
        Fit of the models behind the values, where it is not that of the full models.
    totals : ndarray of shape (len(rows), 2), optional
        Influence values of the null loss and of what is explained of it.
    parts : ndarray of shape (len(rows), n_units + 1), optional
        Influence values of Shapley-type parts of what is explained, and their sum.
    members : mapping of str to MethodResult
        The parts of single classes or outcomes, where this is their sum.
    names, degenerate, unrelated, undetected, components, spread, latent, attribution : optional
        As in :class:`dfi.Importance`; by default the units of the data.

    Examples
    --------
    >>> import dfi
    >>> sample = dfi.datasets.m1(200, d=3)
    >>> fits = dfi.methods.prepare(sample.X, sample.y, estimator="linear", cv=2)
    >>> part = dfi.methods.LOCO().compute(fits)["loco"]
    >>> part.influence.shape
    (200, 3)
    >>> part.influence.mean(axis=0).round(1)  # the scores
    array([ 9.3, -0. , -0. ])
    """

    influence: Floats
    rows: Ints
    monte_carlo_se: Floats | None = None
    nonnegative: bool = True
    diagnostics: Mapping[str, object] = field(default_factory=dict)
    space: Literal["attributed", "latent"] = "attributed"
    specification: Mapping[str, object] = field(default_factory=dict)
    quality: Quality | None = None
    names: tuple[str, ...] | None = None
    degenerate: Bools | None = None
    unrelated: Bools = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    undetected: Floats | None = None
    components: tuple[tuple[str, ...], ...] | None = None
    spread: Floats | None = None
    latent: MethodResult | None = None
    attribution: Floats | None = None
    totals: Floats | None = None
    parts: Floats | None = None
    members: Mapping[str, MethodResult] = field(default_factory=dict)


@runtime_checkable
class Method(Protocol):
    """A measure of importance: a frozen object with its parameters.

    Attributes
    ----------
    name : str
        Its key in a comparison.
    question : str
        The question that it answers, in words.
    valid_intervals : bool
        Whether the standard errors account for everything of first order.
    inference : str
        Why the intervals hold or not, and how the test behaves where the score is 0.

    Examples
    --------
    A method of your own is a name, a question and influence values.

    >>> from dataclasses import dataclass
    >>> import dfi
    >>> from dfi.methods import Method, MethodResult
    >>> @dataclass(frozen=True)
    ... class Covariance(Method):
    ...     name = "covariance"
    ...     question = "How much does the outcome vary with each feature alone?"
    ...     valid_intervals = True
    ...     inference = "The square of a mean, by the delta method."
    ...
    ...     def compute(self, fits):
    ...         X, y = fits.table.matrix[fits.rows], fits.outcome.values[fits.rows]
    ...         products = (X - X.mean(axis=0)) * (y - y.mean())[:, None]
    ...         mean = products.mean(axis=0)
    ...         influence = mean**2 + 2 * mean * (products - mean)
    ...         return {"covariance": MethodResult(influence, fits.rows)}
    >>> sample = dfi.datasets.m1(200, d=3)
    >>> found = dfi.compare(sample.X, sample.y, [Covariance(), "dfi"], estimator="linear", cv=2)
    >>> found.labels
    ('covariance', 'dfi')
    """

    @property
    def name(self) -> str: ...

    @property
    def question(self) -> str: ...

    @property
    def valid_intervals(self) -> bool: ...

    @property
    def inference(self) -> str: ...

    any_loss: ClassVar[bool] = True
    """Whether losses other than squared error are supported."""
    any_function: ClassVar[bool] = True
    """Whether a loss without a generator is supported."""
    adds_up: ClassVar[bool] = True
    """Whether scores are parts of the loss: those of single classes add up, and have shares."""

    def refuses(self, fits: Fits) -> str | None:
        """Return why this method cannot be applied to these data, or None."""
        del fits
        return None

    def compute(self, fits: Fits) -> dict[str, MethodResult]:
        """Return the method's importances by name (most methods have one)."""

    def join(self, diagnostics: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
        """Return the diagnostics of several classes, or outcomes, as those of all."""
        return joined_diagnostics(diagnostics)


def loss_totals(fits: Fits, models: Sequence[FoldModels], form: ScoreForm) -> Floats:
    r"""Return the null loss and its explained part, row by row, (n, 2).

    :math:`u_T = \ell(y, \bar y)`, less what a perfect prediction loses, and
    :math:`u_E = \ell(y, \bar y) - \ell(y; \eta^a, \eta^b)`, the secant where the ``form`` has two
    models; :math:`(y - \bar y)(\eta - \bar\eta)` in the CPI form. The mean is where its own loss is
    least, so its error is of second order.
    """
    y, loss = fits.outcome.values, fits.loss
    level = float(fits.weights.take(fits.rows).mean(y[fits.rows])[0])
    if loss.quantile is not None:
        level = loss.best_constant(y[fits.rows], fits.weights.values[fits.rows])
    found = []
    for fold in models:
        values = [predict_once(model, fits.table.matrix[fold.test]) for model in fold.predictors]
        mass = fits.weights.values[fold.test]
        found.append(explained_rows(form, y[fold.test], values, level, mass, loss))
    rows, gained, _ = pool(models, found, fits.weights.values)
    null = loss.of(y[rows], np.broadcast_to(level, len(rows))) - loss.least(y[rows])
    return np.column_stack([null, gained])


def joined_diagnostics(parts: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    """Return values that all classes share once, and the rest by class."""
    first, *others = parts.values()
    same = {
        key: value
        for key, value in first.items()
        if all(key in other and other[key] == value for other in others)
    }
    apart = {
        name: {key: value for key, value in found.items() if key not in same}
        for name, found in parts.items()
    }
    return {**same, "by_outcome": apart} if any(apart.values()) else same


class OneStep(Method):
    """A method with a correction for the regression's error, which its intervals need."""

    debias: bool
    corrected: ClassVar[str]
    plain: ClassVar[str]

    @property
    def valid_intervals(self) -> bool:
        return self.debias

    @property
    def inference(self) -> str:
        return self.corrected if self.debias else self.plain


@once
def full_lines(fits: Fits) -> tuple[LineModel, ...]:
    """Return the full model of each fold, read into closed form or trees where it can be."""
    found = []
    for models in fits.full:
        rows = fits.table.matrix[models.test]
        sample = rows[:: max(1, len(rows) // SAMPLE_ROWS)]
        model = line_model(models.predictors[0], sample, Quadrature())
        found.append(as_linear(model) or model)
    return tuple(found)
