"""The warnings of dfi: one class per kind, so each can be silenced on its own."""

from __future__ import annotations

import inspect
import sys
import warnings
from pathlib import Path

from dfi._docstrings import with_givens

_PACKAGE = str(Path(__file__).parent)


class DFIWarning(UserWarning):
    """Base class of every warning that dfi raises.

    Examples
    --------
    >>> noise = sample.y[::-1]  # outcomes of other rows
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", dfi.warnings.DFIWarning)
    ...     result = dfi.explain(sample.X, noise, "linear")
    >>> result.trust.grade  # what was silenced stays with it
    'do not rely on it'
    """

    def __init_subclass__(cls) -> None:
        """Let the example of a class, a call and its warning, be one that raises the warning."""
        text, told, message = inspect.cleandoc(cls.__doc__ or "").rpartition(f"{cls.__name__}: ")
        if told:
            before, _, call = text.rpartition(">>> ")
            text = (
                f"{before}>>> with warnings.catch_warnings():\n"
                '...     warnings.simplefilter("ignore")\n'
                f'...     warnings.simplefilter("error", dfi.warnings.{cls.__name__})\n'
                f"...     {call.replace('... ', '...     ')}"
                "Traceback (most recent call last):\n    ...\ndfi.warnings."
            )
        cls.__doc__ = with_givens(f"{text}{told}{message}") or None


DFIWarning.__doc__ = with_givens(inspect.cleandoc(DFIWarning.__doc__ or ""))


class ConstantColumnWarning(DFIWarning):
    """A column does not vary: it is kept, scores 0 and has no standard error.

    Examples
    --------
    >>> sample.X[:, 2] = 1.0
    >>> dfi.explain(sample.X, sample.y, "linear", cv=2)
    ConstantColumnWarning: 'x2' is constant: it scores 0
    """


class IdentifierWarning(DFIWarning):
    """A column of whole numbers seems to identify or count the rows, or to hold codes.

    Examples
    --------
    >>> sample.X[:, 2] = range(200)
    >>> dfi.explain(sample.X, sample.y, "linear", cv=2)
    IdentifierWarning: column 'x2' has a different whole number in each...
    """


class LeakWarning(DFIWarning):
    """A column holds the outcome itself, or determines it in every row.

    Examples
    --------
    >>> dfi.explain(sample.X, 1.8 * sample.X[:, 0] + 32.0, "linear", cv=2)
    LeakWarning: 'x0' holds the outcome itself, or determines it in...
    """


class RefitWarning(DFIWarning):
    """An already fitted model is refitted on each fold, because ``cv`` asks for it.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> model = LinearRegression().fit(sample.X, sample.y)
    >>> dfi.explain(sample.X, sample.y, model, cv=2)
    RefitWarning: this LinearRegression is already fitted, and...
    """


class ExtrapolationWarning(DFIWarning):
    """A linear model, chosen by name, predicts a row far outside its training rows.

    Examples
    --------
    >>> sample.X[0] = 50.0
    >>> dfi.explain(sample.X, sample.y, "linear", cv=2)
    ExtrapolationWarning: a linear model extrapolates far at row 0, because of...
    """


class MissingValuesWarning(DFIWarning):
    """Rows with missing values are left out, as ``missing="drop"`` asks.

    Examples
    --------
    >>> sample.X[:20, 1] = float("nan")
    >>> dfi.explain(sample.X, sample.y, "linear", cv=2, missing="drop")
    MissingValuesWarning: 20 of 200 rows with missing values left out
    """


class OutcomeWarning(DFIWarning):
    """The outcome is used as a quantity, but looks like something else (classes, a flag).

    Examples
    --------
    >>> grade = np.digitize(sample.y, [-3, 3])
    >>> dfi.explain(sample.X, grade, "linear", cv=2)
    OutcomeWarning: y holds integers with only 3 different values...
    """


class WeakModelWarning(DFIWarning):
    """The regression explains little or nothing out of fold; its importances mean little.

    Examples
    --------
    >>> noise = sample.y[::-1]  # outcomes of other rows
    >>> dfi.explain(sample.X, noise, "linear", cv=2)
    WeakModelWarning: the regression explains nothing on held-out rows...
    """


class TransportWarning(DFIWarning):
    """The transport does not suit the data: the model is evaluated far from its rows.

    Examples
    --------
    >>> angle = np.linspace(0, 6.28, 300)
    >>> X = np.column_stack([np.cos(angle), np.sin(angle)])  # a circle; drawn apart, a square
    >>> def radius(rows):
    ...     return (rows**2).sum(axis=1) + rows[:, 0] / 9
    >>> dfi.explain(X, radius(X), radius, cv="prefit")
    TransportWarning: transport='gaussian' evaluates the model far from the data...
    """


class InferenceWarning(DFIWarning):
    """The sample is too small for the scores, or for the theory behind their standard errors.

    Examples
    --------
    >>> sample = dfi.datasets.m1(40, d=30)
    >>> together = sample.X + sample.X[:, :1]
    >>> dfi.explain(together, sample.y, "linear")
    InferenceWarning: 40 rows for 30 columns that may depend on each other...
    """


class ImplausibleScoreWarning(DFIWarning):
    """Scores cannot be right: noise is significant, or they are far from the variance.

    Examples
    --------
    For runs that nobody watches, make an error of it.

    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", dfi.warnings.ImplausibleScoreWarning)
    ...     result = dfi.explain(sample.X, sample.y, "linear", cv=2)
    >>> [reason.kind for reason in result.trust.reasons]  # nothing that makes scores wrong
    ['two folds']
    """


class ExactnessWarning(DFIWarning):
    """A model that could have been integrated exactly falls back to quadrature.

    Examples
    --------
    >>> from sklearn.compose import TransformedTargetRegressor
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> tree = DecisionTreeRegressor(max_depth=2)
    >>> model = TransformedTargetRegressor(tree, func=np.arcsinh, inverse_func=np.sinh)
    >>> dfi.explain(sample.X, sample.y, model, cv=2)
    ExactnessWarning: ...the outcome is transformed, and averaging does not...
    """


class QuadratureWarning(DFIWarning):
    """The nodes along latent lines are too few: scores are off by an estimated share.

    Examples
    --------
    >>> from sklearn.neighbors import KNeighborsRegressor
    >>> few = dfi.Quadrature("gauss", nodes=2)
    >>> dfi.explain(sample.X, sample.y, KNeighborsRegressor(), cv=2, integration=few)
    QuadratureWarning: line means by quadrature (2 Gauss nodes) are not accurate...
    """


class ManyLevelsWarning(DFIWarning):
    """A categorical column has so many levels that most have few rows.

    Examples
    --------
    >>> import pandas as pd
    >>> X = pd.DataFrame(sample.X).assign(code=[f"c{k % 70}" for k in range(200)])
    >>> dfi.explain(X, sample.y, "linear", cv=2)
    ManyLevelsWarning: Column 'code' has 70 levels...
    """


class ApproximationWarning(DFIWarning):
    """An exact calculation would be too large, and a sampled one with its own error is used.

    Examples
    --------
    >>> sample = dfi.datasets.m1(200, d=14)
    >>> dfi.compare(sample.X, sample.y, "shapley", estimator="linear", cv=2)
    ApproximationWarning: exact Shapley values of 14 units need 2^14...
    """


class OverlapWarning(DFIWarning):
    """Treated and untreated rows hardly overlap: effects rest on few rows, or on extrapolation.

    So do times to an event where rows are hardly ever observed until the horizon.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> treated = sample.X[:, 0] + sample.X[:, 2] / 5 > 0  # hardly anybody could have been either
    >>> dfi.effects(sample.X, sample.y, treated, "linear", outcome_model="linear",
    ...             propensity_model=LogisticRegression(), cv=2)
    OverlapWarning: rows with and without the treatment... overlap poorly...
    """


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line that called into dfi, however deep in it the warning arises.

    A fixed ``stacklevel`` cannot: ``explain``, ``DFI.fit``, ``compare`` and ``sensitivity`` reach
    the same place by ways of different length.
    """
    frame, depth, level = sys._getframe(1), 2, 2
    while frame.f_back is not None:
        if frame.f_code.co_filename.startswith(_PACKAGE):
            level = depth + 1
        frame, depth = frame.f_back, depth + 1
    warnings.warn(message, category, stacklevel=level)
