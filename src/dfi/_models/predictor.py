"""A fitted model as a function of numeric rows, with its outputs matched to classes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

import narwhals as nw
import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from dfi._data.source import LARGE_ROWS
from dfi._learners.temperature import (
    TemperatureScaled,
    classes_in_order,
    log_odds,
    probabilities,
)
from dfi._models.adapters import off_device
from dfi._models.encoders import (
    encoded_columns,
    reads_raw_columns,
    sums_trees,
    takes_missing,
    unseen_levels,
)
from dfi._models.learners import predicts_classes
from dfi._models.parallel import interrupts_raised
from dfi._parameters import TABLE, TARGET, InvalidParameterError, argument, worded
from dfi._threads import openmp_limited
from dfi.warnings import OutcomeWarning, warn

if TYPE_CHECKING:
    from collections.abc import Callable

    from dfi._data.levels import Levels
    from dfi._data.outcome import Outcome
    from dfi._data.problem import Data
    from dfi._data.table import Table
    from dfi._types import Estimator, EstimatorLike, Floats, Frame, Ints, Native
    from dfi.losses import Domain

View = Literal["matrix", "values", "frame"]
"""The numeric matrix; the same with NaN for missing values and no indicators; a table."""

Scale = Literal["probability", "margin"]
"""The explained output of a classifier: a probability, or the log-odds of one of two classes."""

ROUNDED_SUM = 1e-6
"""How far the probabilities of a row may be from adding up to 1."""


def missing_remedy() -> str:
    return (
        "Put an imputer before it, e.g. make_pipeline(SimpleImputer(), model), use a model that "
        f"accepts missing values, or pass {argument('missing', 'drop')}"
    )


class UnpredictedError(ValueError): ...


@dataclass(frozen=True)
class Predictor:
    r"""A fitted model, or a function of a table, as a function of rows of the numeric matrix.

    The model is asked about levels of ``table`` that were observed only, whatever the rows say:
    rows are decoded first (see :mod:`dfi._data.levels`). ``view`` says whether it takes the numeric
    matrix, the matrix with NaN where values are missing, or a table like the caller's; ``exact``
    are numeric columns that it encodes by value, which have levels however many values they take.

    Of a model that predicts several numbers ``column`` is the one that is explained, of a
    classifier the second class by default; with ``scale="margin"`` its log-odds, of two classes.
    With ``shrink``, a share :math:`\lambda` and a level :math:`\bar y`,
    predictions are :math:`(1 - \lambda) p + \lambda \bar y`: no class has probability 0, and
    averages along lines shrink alike. Predictions outside of the ``domain`` are refused, and so are
    numbers ``of_classes`` that do not add up to 1.
    """

    model: Any
    table: Table
    view: View
    exact: tuple[str, ...] = ()
    column: int | None = None
    scale: Scale = "probability"
    shrink: tuple[float, float] | None = None
    domain: Domain = "real"
    of_classes: bool = False

    @cached_property
    def reads_matrix(self) -> bool:
        """Whether the model's columns are the columns of the numeric matrix, one for one."""
        plain = all(column.kind != "categorical" for column in self.table.columns)
        return self.view == "matrix" or (plain and not self.table.gaps and not self.exact)

    @property
    def name(self) -> str:
        if isinstance(self.model, Pipeline):
            return f"Pipeline({type(self.model.steps[-1][1]).__name__})"
        if isinstance(self.model, TemperatureScaled):
            return f"TemperatureScaled({type(self.model.estimator).__name__})"
        return getattr(self.model, "__name__", type(self.model).__name__)

    @property
    def explained_class(self) -> int:
        """The explained class, by its number among the classes in their order."""
        return 1 if self.column is None else self.column

    @cached_property
    def levels(self) -> Levels:
        return self.table.levels_with(self.exact)

    def _seen(self, points: Floats) -> Floats | Frame:
        """Return rows as the model sees them, its own: it may work in place."""
        own = np.array(points, dtype=np.float64, order="C")
        return rows_seen(self.table, own, self.view, self.levels)

    def answer(self, points: Floats) -> Floats:
        """Return the model's predictions as numbers of any shape, unchecked."""
        value = self._evaluate(self._seen(points))
        if np.iscomplexobj(value) or np.ma.is_masked(value):
            raise TypeError(f"{self.name} does not predict plain numbers")
        return np.array(value, dtype=np.float64)

    def __call__(self, points: Floats) -> Floats:
        rows = self._seen(points)
        try:
            with interrupts_raised():
                value = self._evaluate(rows)
        except Exception as error:
            unseen = unseen_levels(self.model, self.table)
            given = "an array" if isinstance(rows, np.ndarray) else f"a {type(rows).__name__}"
            reason = (
                f"The model has to predict perturbed rows ({brief(error)}): it gets {given} with "
                f"the columns of {TABLE}, and must accept any of their values"
                if unseen is None
                else unseen
            )
            kind = UnpredictedError if unseen is None else ValueError
            raise kind(f"{self.name} could not predict {len(points)} rows. {reason}") from error
        if _is_reordered(value):
            raise ValueError(
                f"{self.name} returned a Series whose labels are those of the rows in another "
                "order: predictions must be in the order of the rows"
            )
        if predicts_classes(self.model) or (self.of_classes and self.column is not None):
            value = self._of_class(value)
        found = self._checked(value, len(points))
        if self.shrink is not None:
            share, level = self.shrink
            found = (1.0 - share) * found + share * level
        return self._within_domain(found)

    def _evaluate(self, rows: Floats | Frame) -> Native:
        with openmp_limited(len(rows) * self.table.matrix.shape[1], self.model):
            return self._predicted(rows)

    def _predicted(self, rows: Floats | Frame) -> Native:
        if predicts_classes(self.model):
            by_margin = self.scale == "margin"
            return log_odds(self.model, rows) if by_margin else probabilities(self.model, rows)
        if self.column is not None and hasattr(self.model, "predict_column"):
            return self.model.predict_column(rows, self.column)
        value = self.model.predict(rows) if hasattr(self.model, "predict") else self.model(rows)
        value = off_device(value)
        if self.column is None:
            return value
        table = np.asarray(value)
        if table.ndim != 2 or self.column >= table.shape[1]:
            raise ValueError(f"a column for each class or outcome is needed, got {table.shape}")
        return table if self.of_classes else table[:, self.column]

    def _within_domain(self, value: Floats) -> Floats:
        if self.domain == "real":
            return value
        high = np.inf if self.domain == "positive" else 1.0
        outside = ~((value > 0.0) & (value < high))
        if outside.any():
            what = "positive numbers" if self.domain == "positive" else "probabilities"
            raise ValueError(
                f"{self.name} predicted {value[outside][0]:.4g}, but this loss needs {what}: "
                "choose a model that predicts them, or another loss"
            )
        return value

    def unscaled(self, points: Floats) -> Floats:
        """Return the values that a scaled classifier scales, (n, classes)."""
        return np.asarray(self.model.unscaled(self._seen(points)), dtype=np.float64)

    def _of_class(self, value: Native) -> Floats:
        classes, k = np.asarray(value), self.explained_class
        if classes.ndim != 2 or not 0 <= k < classes.shape[1]:
            raise ValueError(
                f"{self.name} gives probabilities of shape {classes.shape}: one for each row and "
                f"class is needed, and class number {k} among them"
            )
        if self.column is None and classes.shape[1] != 2:
            raise ValueError(
                f"this {self.name} has {classes.shape[1]} classes, but the scores explain "
                "the probability of one: say which"
            )
        if self.scale == "margin":
            if classes.shape[1] != 2:
                raise ValueError(
                    f"{self.name} has {classes.shape[1]} classes: scale='margin' explains the "
                    "log-odds of two"
                )
            return np.asarray(classes[:, k] - classes[:, 1 - k])
        away = np.abs(classes.sum(axis=1) - 1.0)
        if np.any(away > ROUNDED_SUM):
            raise ValueError(
                f"{self.name} gives probabilities that do not add up to 1 in "
                f"{int(np.sum(away > ROUNDED_SUM))} of {len(classes)} rows: a classifier's "
                "predict_proba must"
            )
        return np.asarray(classes[:, k])

    def _checked(self, value: Native, n_rows: int) -> Floats:
        if np.ma.is_masked(value):
            # what lies under a mask is no prediction, and numpy would hand it on
            raise ValueError(
                f"{self.name} returned a masked array in which "
                f"{int(np.ma.getmaskarray(value).sum())} of {n_rows} predictions are masked: a "
                "model must give a finite prediction for every row"
            )
        if value is None:
            raise TypeError(f"{self.name} returned None: one number per row is needed")
        if np.iscomplexobj(value):
            raise TypeError(f"{self.name} must predict real numbers, got complex ones")
        try:
            # a copy: a model may answer with a buffer that it fills again, or with its own rows
            result = np.array(value, dtype=float)
        except (TypeError, ValueError):
            first = next(iter(value), None) if isinstance(value, list | np.ndarray) else None
            shown = f" of {str(first)[:40]!r}" if isinstance(first, str) else ""
            raise TypeError(
                f"{self.name} must predict numbers, got {type(value).__name__}{shown}"
                + ", and of classes their probabilities" * bool(shown)
            ) from None
        if result.shape == (n_rows, 1):
            result = result[:, 0]
        if result.shape != (n_rows,):
            raise ValueError(
                f"{self.name} returned predictions of shape {result.shape} for {n_rows} rows: "
                f"one number per row is needed{_are_classes(result)}"
            )
        if not np.isfinite(result).all():
            bad = int(np.sum(~np.isfinite(result)))
            raise UnpredictedError(
                f"{self.name} predicted NaN or infinity for {bad} of {n_rows} rows: "
                "a model must give a finite prediction for every row"
            )
        return result


def _are_classes(result: Floats) -> str:
    """Return the remedy for class probabilities when y is a quantity."""
    if result.ndim != 2 or np.any(np.abs(result.sum(axis=1) - 1.0) > ROUNDED_SUM):
        return ""
    classes = argument("task", "classification")
    return f"; for probabilities of the classes of {TARGET} pass {classes}"


def rows_seen(
    table: Table, matrix: Floats, view: View, levels: Levels | None = None
) -> Floats | Frame:
    """Return numeric rows as a model sees them; decoded to ``levels``, at least in a frame."""
    if view == "frame":
        return table.frame(matrix, levels=levels)
    rows = matrix if levels is None else levels.nearest(matrix)
    return table.seen(rows) if view == "values" else rows


def brief(error: Exception) -> str:
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= 300 else text[:297] + "..."


def predictor_for(model: Estimator, table: Table, *, prefit: bool) -> Predictor:
    """Decide how a fitted model reads rows: a table if it knows names, else the matrix."""
    if prefit:
        _check_prefit(model, table)
    exact = tuple(sorted(encoded_columns(model, table)))
    if _reads_frame(model, table, exact, prefit=prefit):
        predictor = Predictor(model, table, "frame", exact)
    else:
        open_to_gaps = table.gaps and (prefit or takes_missing(model))
        predictor = Predictor(model, table, "values" if open_to_gaps else "matrix")
    if prefit and table.missing:
        _check_missing(predictor)
    return predictor


def learner_view(learner: Estimator, table: Table) -> View:
    if reads_raw_columns(learner):
        return "frame"
    return "values" if table.gaps and takes_missing(learner) else "matrix"


def _check_missing(predictor: Predictor) -> None:
    table, columns = predictor.table, predictor.table.missing
    absent = np.column_stack([table.where_missing(column) for column in columns])
    count = absent.sum(axis=1)
    complete = table.matrix[count == 0][:1]
    try:
        several = predictor.answer(complete if len(complete) else table.matrix[:1]).ndim > 1
    except Exception:  # said below, by the column that it is about
        several = False
    if several:  # which class or outcome is explained is not known here, and does not matter
        predictor = replace(predictor, column=0)
    if len(complete):
        predictor(complete)  # what fails here is not for missing values
    # for each column the row that lacks least beside it: the message names what it is about
    rows = np.where(absent, count[:, None], len(columns) + 1).argmin(axis=0)
    for chosen in (rows, *rows[:, None]):
        try:
            predictor(table.matrix[chosen])
        except (ValueError, TypeError) as error:
            if len(chosen) > 1:
                continue
            names = [repr(c.name) for c, gap in zip(columns, absent[chosen[0]], strict=True) if gap]
            cause = error.__cause__
            reason = brief(cause) if isinstance(cause, Exception) else str(error)
            raise ValueError(
                f"{predictor.name} cannot predict rows in which {', '.join(names[:5])} "
                f"{'is' if len(names) == 1 else 'are'} missing ({reason}). {missing_remedy()}"
            ) from error
        else:
            return


def _reads_frame(model: Estimator, table: Table, exact: tuple[str, ...], *, prefit: bool) -> bool:
    function = not hasattr(model, "predict") and not hasattr(model, "predict_proba")
    if function or getattr(model, "feature_names_in_", None) is not None:
        return True
    if getattr(model, "pandas_categorical", None):
        # LightGBM's Booster, fitted on a frame with categories
        return True
    if not reads_raw_columns(model):
        return False
    # Fitted by us it got a frame; given to us without names it may have been fitted on an array,
    # and is handed one where the two do not differ.
    numeric = all(column.kind != "categorical" for column in table.columns)
    return not (prefit and numeric and not exact)


def _check_prefit(model: Estimator, table: Table) -> None:
    name = model.__name__ if isinstance(model, type) else type(model).__name__
    if isinstance(model, type):
        raise TypeError(
            f"{argument('cv', 'prefit')} needs a fitted model, but estimator is the class {name}: "
            f"pass {name}(...).fit(X, y)"
        )
    predicts = hasattr(model, "predict") or hasattr(model, "predict_proba")
    if not callable(model) and not predicts:
        raise TypeError(
            f"{argument('cv', 'prefit')} needs a fitted model or a function of {TABLE}, got {name}"
        )
    if hasattr(model, "fit"):
        try:
            check_is_fitted(model)
        except NotFittedError:
            if not hasattr(model, "__sklearn_tags__"):
                # by attributes that end in "_", which models of other libraries do not have
                return
            raise ValueError(
                f"{argument('cv', 'prefit')} needs a fitted model, but this {name} is not fitted: "
                "call fit first, or leave cv as a number of folds"
            ) from None
        except (TypeError, AttributeError):
            # not a scikit-learn estimator: its own predict will tell
            return
    _check_columns(model, table, name)
    unseen = unseen_levels(model, table)
    if unseen is not None:
        raise ValueError(f"{TABLE} does not suit this {name}: {unseen}")


def _check_columns(model: Estimator, table: Table, name: str) -> None:
    names = getattr(model, "feature_names_in_", None)
    if names is not None and table.library != "numpy":
        known = [str(label) for label in names]
        missing = [label for label in known if label not in table.names]
        extra = [label for label in table.names if label not in known]
        parts = [f"missing {missing[:5]}"] if missing else []
        parts += [f"not known to the model {extra[:5]}"] if extra else []
        if parts:
            raise ValueError(
                f"{TABLE} does not have the columns this {name} was fitted on: {'; '.join(parts)}. "
                "Pass the same columns"
            )
        by_name = isinstance(model, Pipeline) and isinstance(model.steps[0][1], ColumnTransformer)
        if known != list(table.names) and not by_name:
            order = f"X[{known[:5]}{'' if len(known) <= 5 else ' + ...'}]"
            raise InvalidParameterError(
                f"{TABLE} has the columns of this {name} in another order",
                "X",
                worded(f"pass {order}", "put them in that order"),
            )
    count = getattr(model, "n_features_in_", None)
    raw = reads_raw_columns(model) or table.library == "numpy"
    width = table.matrix.shape[1] - len(table.gaps)
    widths = {width} | ({len(table.columns)} if raw else set())
    if count is not None and names is None and count not in widths:
        raise ValueError(
            f"this {name} was fitted on {count} columns, but {TABLE} has {width}"
            + ("" if width == len(table.columns) else " after one-hot encoding")
        )


def predict_once(predictor: Predictor, points: Floats) -> Floats:
    plain = predictor.shrink is None and predictor.column is None
    if plain and predictor.view == "matrix" and is_plain_forest(predictor.model):
        return forest_values(predictor.model, points)
    return predictor(points)


def is_plain_forest(model: Estimator) -> bool:
    return type(model) in (RandomForestRegressor, ExtraTreesRegressor) and model.n_outputs_ == 1


def forest_values(model: Estimator, points: Floats) -> Floats:
    """Return the mean of a forest's trees without its setup, 0.12 of the 0.15 s for 600 rows."""
    rows = np.ascontiguousarray(points, dtype=np.float32)
    total = np.zeros(len(rows))
    for tree in model.estimators_:
        total += tree.tree_.predict(rows)[:, 0]
    return np.asarray(total / len(model.estimators_))


ROWS_ASKED = 32
TOLERATED = 1e-3
"""Part of the spread of predictions beyond which a difference is not rounding."""

SINGLE = 64 * 2.0**-24
"""Of the largest prediction: rounding of models that work in single precision."""


def refuse_nondeterministic(predictor: Predictor, matrix: Floats) -> None:
    r"""Raise if a model predicts the same rows differently in another order or batch.

    Scores are averages of :math:`f(x)`, and a model that draws random numbers or standardises its
    batch has no :math:`f`. Up to 32 rows are predicted together, backwards in two batches, and
    among all rows. Trees of the libraries are not asked: four predictions of a forest take longer
    than its line means.
    """
    if sums_trees(predictor.model):
        return
    matrix = matrix[:LARGE_ROWS]
    places = _places(len(matrix))
    rows = matrix[places]
    back = np.arange(len(rows))[::-1]
    cut = max(1, len(rows) // 3)
    try:
        first = predictor.answer(rows)
        parts = [predictor.answer(rows[part]) for part in (back[:cut], back[cut:])]
        second = np.concatenate(parts)[back]
        whole = predictor.answer(matrix) if len(matrix) > len(rows) else first
    except Exception:
        # what cannot be predicted is reported where it is, with its reason
        return
    _refuse_apart(predictor.name, first, second, first, places, "in another order and batch")
    if len(whole) == len(matrix) > len(rows):
        _refuse_apart(predictor.name, first, whole[places], whole, places, f"among {len(matrix)}")


def refuse_batches(function: Callable[[Floats], Floats], points: Floats, values: Floats) -> None:
    """Raise if a model predicts rows of its largest batch differently one by one."""
    if len(points) > ROWS_ASKED:
        places = _places(len(points))
        name = getattr(function, "name", type(function).__name__)
        where = f"among {len(points)}, moved as scores need it"
        _refuse_apart(name, function(points[places]), values[places], values, places, where)


def _places(n_rows: int) -> Ints:
    return np.unique(np.linspace(0, n_rows - 1, ROWS_ASKED).astype(np.intp))


def _refuse_apart(
    name: str, first: Floats, second: Floats, known: Floats, places: Ints, where: str
) -> None:
    """Raise if predictions of rows differ by more than a share of the spread of ``known`` ones."""
    if first.shape != second.shape or len(first) != len(places):
        return
    with np.errstate(all="ignore"):
        spread = np.ptp(known, axis=0)
        room = TOLERATED * spread + SINGLE * np.abs(known).max(axis=0)
        apart = np.abs(first - second)
        beyond = apart > room
    if not beyond.any():
        return
    row = int(np.argmax(np.max(apart.reshape(len(places), -1), axis=1)))
    one, other = (float(np.ravel(found[row])[0]) for found in (first, second))
    raise ValueError(
        f"{name}: the prediction of a row depends on the other rows: row {places[row]} gets "
        f"{one:.6g} among {len(places)} rows and {other:.6g} {where}. Fix the model's random "
        "state, and switch off dropout and batch statistics"
    )


NO_PROBABILITY = (-0.5, 1.5)
"""Beyond this, a function does not predict a probability, not even as an overshooting line."""


def class_column(model: EstimatorLike, label: object, place: int = 1) -> int:
    known = getattr(model, "classes_", None)
    if known is None:
        return place
    classes = classes_in_order(model) if predicts_classes(model) else np.asarray(known).tolist()
    for column, name in enumerate(classes or ()):
        if name == label or str(name) == str(label):
            return column
    shown = ", ".join(map(repr, (classes or [])[:5]))
    raise ValueError(
        f"this {type(model).__name__} predicts {shown}, but {TARGET} has the class {label!r}: "
        "pass the labels that the model was fitted on"
    )


def of_one_class(predictor: Predictor, data: Data) -> Predictor:
    """Return a fitted classifier as the probability of the explained class, never guessed."""
    outcome, model = data.outcome, predictor.model
    label, unnamed = outcome.labels[-1], not outcome.named and outcome.place == 1
    if predicts_classes(model):
        # scikit-learn numbers 0 and 1 alike, whatever it calls them
        return predictor if unnamed else replace(predictor, column=class_column(model, label))
    try:
        answer = predictor.answer(data.matrix[:32])
    except Exception:
        # what cannot be predicted is reported where it is, with its reason
        return predictor
    shape = (1, *answer.shape[1:])
    if shape in ((1,), (1, 1)):
        least, most = NO_PROBABILITY
        beyond = answer[(answer < least) | (answer > most)]
        if len(beyond) and not hasattr(model, "predict"):
            raise ValueError(
                f"{predictor.name} predicts {float(beyond[0]):.4g}, but {TARGET} holds classes: "
                f"one number is the probability of {label!r}, neither its log-odds nor a percentage"
            )
        if unnamed:
            return predictor
        raise ValueError(
            f"{predictor.name} gives one number for each row, but the explained class of {TARGET} "
            f"is {label!r}: pass y as 0 and 1, with 1 for the class whose probability it is, and "
            f"no {argument('pos_label')}; or a function that gives a column for each class"
        )
    if shape != (1, outcome.among):
        raise ValueError(
            f"{predictor.name} gives an array of shape {shape} for one row, but {TARGET} has "
            f"{outcome.among} classes: a column for each class is needed"
        )
    column = class_column(model, label, outcome.place)
    return replace(predictor, column=column, of_classes=True)


def check_class_order(predictor: Predictor, outcome: Outcome) -> None:
    """Raise if nothing says which column of a function belongs to which class."""
    model = predictor.model
    if outcome.sorted or predicts_classes(model) or hasattr(model, "classes_"):
        return
    raise ValueError(
        f"{predictor.name} does not say which of its columns belongs to which class, but the "
        f"categories of {TARGET} are not in alphabetical order: pass labels instead of categories, "
        "e.g. y.astype(str), and columns in the order of sorted(set(y))"
    )


def on_margin(predictor: Predictor, data: Data) -> tuple[Predictor, Outcome]:
    r"""Return a classifier as its log-odds, with the working response for an outcome.

    :math:`\tilde y = f + (y - p)/\{p (1 - p)\}`, ``p`` the probability and ``f`` its log-odds, has
    the mean ``f`` where the model is right: squared errors of it are scores on this scale.
    """
    outcome = data.outcome
    if outcome.kind != "binary" or not predicts_classes(predictor.model):
        raise ValueError(
            "scale='margin' explains the log-odds of a classifier of two classes: pass such a "
            "model, or leave scale at 'response'"
        )
    known = outcome.named or outcome.place != 1
    column = class_column(predictor.model, outcome.labels[-1]) if known else 1
    on_margin = replace(predictor, scale="margin", column=column)
    margin = on_margin(data.matrix)
    chance = 1.0 / (1.0 + np.exp(-margin))
    spread = np.maximum(chance * (1.0 - chance), 1e-12)
    response = margin + (outcome.values - chance) / spread
    return on_margin, replace(outcome, values=response, kind="real")


def warn_of_classes(model: EstimatorLike) -> None:
    """Say whose probability is explained, if the classes are not 0 and 1 themselves."""
    classes = classes_in_order(model)
    if classes is None or len(classes) != 2 or not predicts_classes(model):
        return
    if classes not in ([0, 1], [False, True]):
        first, second = map(repr, classes)
        warn(
            f"this {type(model).__name__} tells {first} from {second}: the probability of {second} "
            f"is explained, so {TARGET} must be 1 for {second} and 0 for {first}",
            OutcomeWarning,
        )


def _is_reordered(values: object) -> bool:
    """Return whether a pandas Series numbers its rows, in another order than theirs."""
    if not nw.dependencies.is_pandas_series(values):
        return False
    index = cast("Native", values).index
    numbers = np.asarray(index)
    if numbers.dtype.kind not in "iu":
        return False
    places = np.arange(len(numbers))
    return not np.array_equal(numbers, places) and np.array_equal(np.sort(numbers), places)
