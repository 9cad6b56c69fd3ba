"""The allowed values and the meaning of every public parameter, in one table.

A parameter is looked up by its name, in :data:`OWN` for what one function or class means by it and
in :data:`COMMON` otherwise; what neither restricts is read, and refused, where it is used (tables,
vectors, estimators, groups). None is allowed where it is the default. To have a function check what
it is given, write its parameters into the table and decorate it::

    @validated
    def explain(X, y, *, level=0.95): ...

Its docstring is completed from the same table: it describes only what is its own.

Classes whose constructors check take :func:`validated_fields`; estimators, which must store what
they are given and refuse it in ``fit``, take :func:`named_only` and :func:`check`.
"""

from __future__ import annotations

import functools
import inspect
import numbers
import os
import shlex
import textwrap
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from dfi._checks import did_you_mean
from dfi._docstrings import completed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)
T = TypeVar("T", bound=str | None)

LONGEST_SHOWN = 80
"""Characters of a refused value that an error quotes."""


class InvalidParameterError(ValueError, TypeError):
    """A parameter has the wrong type, an invalid value, or conflicts with the others.

    ``parameter`` is its name in Python, ``remedy`` what to do, which ends the message.
    """

    def __init__(
        self, message: str, parameter: str | None = None, remedy: str | None = None
    ) -> None:
        if remedy:
            message += f" {remedy}" if message[-1] == ";" or remedy[0].isupper() else f": {remedy}"
        super().__init__(message)
        self.parameter, self.remedy = parameter, remedy


def listed(items: Iterable[str]) -> str:
    """Return ``"a, b or c"``."""
    *first, last = items
    return f"{', '.join(first)} or {last}" if first else last


@dataclass(frozen=True)
class Constraint:
    """One allowed kind of value, worded to follow "must be", with its type.

    ``names`` are the allowed strings; ``typed`` words it for who types a command.
    """

    python: str
    kind: str
    allows: Callable[[object], bool]
    names: tuple[str, ...] = ()
    remedy: str | None = None
    typed: str = ""

    @property
    def words(self) -> str:
        return worded(self.python, self.typed or self.python)


def Whole(least: int = 0) -> Constraint:
    def allows(value: object) -> bool:
        return is_whole(value) and value >= least  # type: ignore[operator]

    return Constraint(f"a whole number of {least} or more", "int", allows)


def Real(
    words: str,
    low: float = float("-inf"),
    high: float = float("inf"),
    *,
    with_low: bool = False,
    with_high: bool = False,
) -> Constraint:
    """Return the words for a number in an interval, with open or closed ends."""

    def allows(value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            return False
        number: int | float = value  # type: ignore[assignment]
        above = number >= low if with_low else number > low
        below = number <= high if with_high else number < high
        return bool(above and below)

    return Constraint(words, "float", allows)


def Choice(names: tuple[str, ...]) -> Constraint:
    kind = "{" + ", ".join(f'"{name}"' for name in names) + "}"
    return Constraint(
        listed(map(repr, names)), kind, lambda v: isinstance(v, str) and v in names, names
    )


def Text(words: str = "a string", *, path: bool = False) -> Constraint:
    kinds = (str, os.PathLike) if path else (str,)
    return Constraint(words, "str", lambda value: isinstance(value, kinds))


def Named(kind: str, words: str, remedy: str) -> Constraint:
    """Return an object of a class given by name, because this module imports none of them."""

    def allows(value: object) -> bool:
        return kind in (base.__name__ for base in type(value).__mro__)

    return Constraint(words, kind, allows, remedy=remedy)


# also numpy's, known by its name: nothing here needs numpy. No number and no string, all of which
# are true or false too
FLAG = Constraint(
    "True or False",
    "bool",
    lambda value: isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"),
)
WORKERS = Constraint(
    "a whole number of 1 or more, or -1 for all processors",
    "int",
    lambda value: is_whole(value) and value != 0,
)
FUNCTION = Constraint("a function", "callable", callable)
NOTHING = Constraint("None", "None", lambda value: value is None, typed="all")
"""None, if it is not the default."""

Constraints = tuple[Constraint, ...]


@dataclass(frozen=True)
class Parameter:
    """A public parameter: its allowed values, and its type and meaning for docstrings.

    Without ``kind`` the type follows from ``allowed``; the default is the signature's. Without
    ``text`` the functions that have the parameter describe it themselves; ``unset`` adds what None
    stands for, where it is the default. ``option`` is what the command line has for it.
    """

    allowed: Constraints = ()
    text: str = ""
    kind: str = ""
    option: str = ""
    unset: str = ""

    @property
    def type(self) -> str:
        return self.kind or listed(one.kind for one in self.allowed)


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'``"{name}"``' for name in names)


FEWEST_ROWS = 50
"""With fewer rows, a sample has no useful standard errors and is too small for models."""

FEWEST_BACKGROUND = 10
"""With fewer rows, a background represents nothing."""

LEVEL = Real("a number strictly between 0 and 1", 0.0, 1.0)
COUNT = Whole(1)
SEED = Whole(0)
EPSILONS = Real("numbers of at least 0", 0.0, with_low=True)
PATH = Text("the path of a file", path=True)
COLUMN = Text("the name of a column")
FEATURE = Text("the name of a feature")
CORRELATION = Real("a number from -1 to 1", -1.0, 1.0, with_low=True, with_high=True)
IMPORTANCE = Named("Importance", "a dfi.Importance", "pass what explain returns")
LOCAL = Named("LocalAttributions", "a dfi.LocalAttributions", "pass what result.local returns")
INTERACTIONS = Named("Interactions", "a dfi.Interactions", "pass what result.interactions returns")
SPLIT = Named("Split", "a dfi.Split", "pass what result.split returns")
LEARNERS = ("auto", "linear", "ridge", "boosting", "forest", "extra_trees")
TRANSPORTS = (
    *("gaussian", "copula", "brenier", "entropic", "knothe-rosenblatt", "semicontinuous", "auto"),
)
LOSSES = (
    *("auto", "squared-error", "brier", "log-loss", "poisson", "gamma"),
    *("absolute", "pinball", "zero-one"),
)
TASKS = ("auto", "classification", "regression", "survival")
SURVIVAL_TARGETS = Choice(("rmst", "probability"))
TARGETS = (
    Choice(("rmst", "probability", "distribution")),
    Named("Quantile", "a dfi.Quantile", "pass for instance dfi.Quantile(0.9)"),
)
FORMS = ("auto", "extrapolated", "cross", "calibrated", "loco", "cpi")
TRANSPORT_ERRORS = ("auto", "derived", "finite-difference", "jackknife", "ignore")
ALTERNATIVES = Choice(("greater", "less", "two-sided"))
ATTRIBUTIONS = Choice(("shares", "slopes"))

COMMON: Mapping[str, Parameter] = {
    "X": Parameter(
        text=(
            "A numpy, pandas, polars, pyarrow or sparse table of numbers, booleans and "
            "categories. A category is one unit."
        ),
        kind="dataframe or array of shape (n, d)",
        option="the table",
    ),
    "additive": Parameter((FLAG,)),
    "adjust": Parameter(
        (Choice(("none", "bonferroni", "holm", "bh", "by")),),
        "Multiplicity adjustment behind ``p_adj``.",
    ),
    "alpha": Parameter((LEVEL,)),
    "alternative": Parameter(
        (ALTERNATIVES,),
        "Alternative of the tests.",
        unset='``"two-sided"`` for a difference of two results, else ``"greater"``',
    ),
    "attribution": Parameter((Choice(("direction", "isotropic")),)),
    "ax": Parameter(
        (Named("Axes", "Axes of matplotlib", "pass ax of fig, ax = plt.subplots()"),),
        "Where to draw; a new figure by default.",
        kind="Axes",
    ),
    "background": Parameter(
        (Whole(FEWEST_BACKGROUND),),
        "Rows that represent the others: main effects are averaged over them, and units of "
        "several columns take their values.",
    ),
    "by": Parameter((Choice(("outcome",)),)),
    "clip": Parameter((Real("a number strictly between 0 and 0.5", 0.0, 0.5),)),
    "color": Parameter((FEATURE,), "A feature whose values, by rank, colour the points."),
    "components": Parameter(option="--components"),
    "covariance": Parameter((Choice(("auto", "sample", "qis", "factor", "ledoit-wolf")),)),
    "cv": Parameter(
        text='Cross-fitting folds; ``"prefit"`` explains a fitted model on held-out rows.',
        kind='int, splitter, iterable of splits or "prefit"',
        option="--folds",
    ),
    "clusters": Parameter(
        text=(
            "Labels of rows that depend on each other (patients, schools): they stay in one "
            "fold, and standard errors are cluster-robust. Without labels, and if the folds of "
            "``cv`` follow time, rows count as ordered and standard errors are Newey and West's "
            "(HAC)."
        ),
        kind="array-like of shape (n,)",
        option="--clusters",
    ),
    "d": Parameter((Whole(2),), "Columns."),
    "debias": Parameter(
        (FLAG,),
        "Add the one-step correction for the regression's error; False gives the classic mean, a "
        "statement about the fitted models as they are.",
    ),
    "diagnose": Parameter(
        (FLAG,),
        "Check the result: what noise would score, whether scores exceed the variance, how far "
        "from the data the model is evaluated, what dependence the transport leaves. Scores do "
        "not depend on it; switch it off in simulations.",
    ),
    "epsilon": Parameter((Real("a number of at least 0", 0.0, with_low=True),), option="--epsilon"),
    "epsilons": Parameter(option="--epsilons"),
    "estimate_variance": Parameter((FLAG,)),
    "estimator": Parameter(
        text=(
            f"The regression: a name ({_quoted(LEARNERS)}), any scikit-learn regressor, a "
            'classifier with probabilities, or a pipeline on the raw columns. ``"auto"`` '
            "averages ridge, a quadratic polynomial, small networks and boosting, with weights "
            'tuned for the scores. With ``cv="prefit"``, a fitted model or a function of ``X`` '
            "that returns one column per class, in order, or for 0 and 1 the probability of 1."
        ),
        kind="str, estimator or callable",
        option="--model",
    ),
    "expansion": Parameter(
        (Choice(("standard_error", "variance")),),
        "Expansion near the null; see :mod:`dfi.inference.intervals`.",
        kind='{None, "standard_error", "variance"}',
    ),
    "explain_rows": Parameter(
        (Choice(("default", "auto")), Whole(FEWEST_ROWS), NOTHING),
        "Number of rows to explain, drawn at random; the transport and the models use all rows. "
        '``"auto"`` adds blocks of 4096 until the standard error is 1 % of the total, and 5 % of '
        "every score above 5 % of the total. None explains all rows. The default explains all "
        'rows up to 20,000 and is ``"auto"`` beyond. ``result.spec`` has the number and the '
        "reason for stopping.",
        kind='{"default", "auto"}, int or None',
        option="--explain-rows",
    ),
    "explainer": Parameter(
        (Named("DFI", "a dfi.DFI", "pass dfi.DFI().fit(X, y)"),), "A fitted explainer."
    ),
    "feature": Parameter((FEATURE,)),
    "event": Parameter(
        (COLUMN,),
        "Name of the column of ``X`` that is True or 1 if the event was observed and False or 0 "
        "if the row was censored.",
        option="--event",
    ),
    "fit_rows": Parameter(
        (Whole(FEWEST_ROWS),),
        "Number of rows to fit models on, drawn at random; all other rows are held out. The "
        "default is all rows of a table in memory, and 200,000 of one that is not (files, lazy "
        "frames, Dask); at most as many of those are explained unless you set ``explain_rows``.",
        option="--fit-rows",
    ),
    "form": Parameter(
        (Choice(FORMS),),
        'The estimator of the latent scores. ``"auto"`` is ``"extrapolated"`` with '
        '``estimator="auto"`` and 200 to 5,000 rows, and otherwise ``"cross"`` for models fitted '
        'here. For a fitted model it is ``"cpi"``, stretched if its predictions are shrunk '
        '(``result.diagnostics["stretch"]``), or ``"loco"`` if the loss is neither squared error '
        'nor Brier\'s, and in :func:`dfi.change`. ``"cross"`` multiplies the errors of two models '
        'fitted on disjoint rows. ``"extrapolated"`` adds the gain over models fitted on half as '
        "many rows, which reduces the bias of a regression that is still learning; "
        '``result.diagnostics["learning_curve"]`` has both. ``"calibrated"`` is the cross form '
        "with a factor for each coordinate, from the other folds, that corrects for shrinkage; "
        '``result.diagnostics["calibration"]`` has the factors and the cross scores. ``"loco"`` '
        "is the difference of two squared errors of one model, which the model's noise lowers; "
        '``"cpi"`` is half of the mean increase of its squared error under random replacement '
        "values, which noise does not affect.",
        option="--form",
    ),
    "found": Parameter(
        (Named("Change", "a dfi.Change", "pass what change returns"),),
        "What :func:`dfi.change` found.",
    ),
    "frequency_weight": Parameter(
        text=(
            "Counts: each row represents that many identical rows. Not together with "
            "``sample_weight``. A string names a column."
        ),
        kind="array-like of shape (n,) or str",
        option="--frequency-weights",
    ),
    "feature_groups": Parameter(
        text="Groups of features that :meth:`~dfi.Importance.group` uses by default.",
        kind="mapping, frame or sequence",
        option="--groups",
    ),
    "groups": Parameter(
        text="Groups of features; by default the result's own.",
        kind="mapping, frame or Groups",
    ),
    "how": Parameter((Choice(("sum", "joint", "shapley")),)),
    "horizon": Parameter(
        text=(
            'For ``task="survival"``: how far to look ahead, in the unit of the times. Several '
            "horizons are several outcomes."
        ),
        kind="float or sequence of float",
        option="--horizon",
    ),
    "identifiers": Parameter(
        (Choice(("drop", "error")),),
        "Columns that identify rows, and free text, are left out, and the result says so in one "
        'line; ``"error"`` refuses them.',
    ),
    "integration": Parameter(
        (
            Choice(("auto",)),
            Named("Quadrature", "a dfi.Quadrature", "pass e.g. dfi.Quadrature('gauss', nodes=64)"),
        ),
        "How to average along latent lines: exactly or in closed form if the model allows it, "
        "otherwise by quadrature; a :class:`dfi.Quadrature` sets its rule, nodes and memory.",
        kind='"auto" or Quadrature',
    ),
    "keep_rows": Parameter(
        (FLAG,),
        "Keep the influence values of every explained row beyond 20,000 rows. Otherwise the "
        "result keeps their moments and a sample, and its file is small. To subtract results of "
        "the same rows, keep the rows.",
        option="--keep-rows",
    ),
    "kind": Parameter((Text(),)),
    "level": Parameter(
        (LEVEL,),
        "Confidence level of the intervals.",
        option="--level",
        unset="that of the result by default",
    ),
    "local": Parameter((LOCAL,), "The rows."),
    "loss": Parameter(
        text=(
            'The loss behind the scores: ``"squared-error"``, ``"brier"``, ``"log-loss"``, '
            '``"poisson"``, ``"gamma"`` or any :class:`dfi.losses.Loss` with a generator. '
            '``"auto"`` is the Brier score for classes, which is robust to overconfident models, '
            'and squared error otherwise. ``"zero-one"`` and functions of outcome and prediction '
            'work only with ``form="loco"``; :func:`dfi.losses.custom` explains the cost. '
            'Quantile losses, ``"absolute"`` and ``"pinball"``, are for LOCO with a learner of '
            "that quantile (:func:`dfi.losses.pinball`); DFI explains means and refuses them."
        ),
        kind="str, Loss or callable",
        option="--loss",
    ),
    "max_rows": Parameter(
        (COUNT,), "Number of rows to move; each is predicted by models that have not seen it."
    ),
    "max_seconds": Parameter(
        (Real("a number of seconds above 0", 0.0),),
        "Time limit: after it no further rows are explained, and the answer and its error come "
        "from the rows so far. The first 4096 rows are always explained.",
        option="--max-seconds",
    ),
    "method": Parameter(option="--methods"),
    "methods": Parameter(option="--methods"),
    "min_size": Parameter((Real("a positive number of rows", 0.0),)),
    "missing": Parameter(
        (Choice(("indicator", "error", "drop")),),
        'Missing values of ``X``. ``"indicator"``: being missing counts as a value, and the '
        "score of a column combines both; models that accept NaN, and pipelines with imputers, "
        'get NaN, others the mean of the observed values and an indicator. ``"error"``: refused. '
        '``"drop"``: rows with missing values are left out, with a warning.',
        option="--missing",
    ),
    "most_splits": Parameter((COUNT,)),
    "n": Parameter((COUNT,), "Rows."),
    "n_draws": Parameter((COUNT,)),
    "n_folds": Parameter((Whole(2),)),
    "n_jobs": Parameter(
        (WORKERS,),
        "Number of parallel tasks (joblib), or of threads of compiled kernels if there are fewer "
        "tasks; the result does not depend on it. None runs one task at a time, unless joblib is "
        "configured, with kernels on the cores that OpenMP may use.",
        option="--jobs",
    ),
    "n_repeats": Parameter(
        (COUNT,),
        "Number of random splits to average scores over; their spread is reported and included "
        "in the standard errors. Every repeat splits the rows again, except with "
        '``estimator="auto"`` and ``cv=5``: there every third repeat does, and the two after it '
        "reuse the models and only halve the training rows in another way. In that case the "
        "default is 3 up to 5,000 rows (6, two splits, up to 400 rows and few columns, unless "
        "there are classes, and up to 12 where scores differ between splits); otherwise it is 1, "
        "or 5 if groups are units and ``cv`` is a number, because group scores vary between "
        "splits.",
        option="--repeats",
    ),
    "n_smoothing": Parameter((COUNT,)),
    "n_targets": Parameter((Whole(2),)),
    "n_values": Parameter(
        (Whole(2),), "Values along the line, from the 1 % to the 99 % quantile of the coordinate."
    ),
    "name": Parameter((Text(),)),
    "null": Parameter((Real("a number"),)),
    "of": Parameter((Choice(("explained", "null", "sum")),)),
    "overwrite": Parameter((FLAG,), "Whether an existing file may be replaced."),
    "path": Parameter((PATH,), "Where to write.", kind="path-like"),
    "pos_label": Parameter(
        text=(
            "The class whose probability is explained, alone or against the rest. By default the "
            "last of two classes; with three or more, all of them together, and each in "
            "``result.by_outcome``."
        ),
        kind="object",
        option="--pos-label",
    ),
    "progress": Parameter(
        (FLAG,),
        "Show progress bars with the current step and the time left; by default in terminals and "
        "notebooks, for calls longer than five seconds.",
    ),
    "quantile": Parameter((LEVEL,)),
    "random_state": Parameter((SEED,), "Seed of splits, fits and draws.", option="--seed"),
    "reference": Parameter((Choice(("auto", "empirical", "gaussian")),)),
    "refine": Parameter(
        (COUNT,),
        "Number of random designs of coalitions, such as 128, for interactions of "
        "three or more units.",
    ),
    "result": Parameter((IMPORTANCE,), "The result.", kind="Importance"),
    "results": Parameter(
        text="One result for each method or setting; the first sets the order.",
        kind="Results or mapping of str to Importance",
    ),
    "rho": Parameter((CORRELATION,), "Correlation of X1 and X2."),
    "row": Parameter((Whole(0),), "Which row, by its position in the table; the first by default."),
    "row_id": Parameter(
        (Text("the name of a column"),),
        "Key column of ``X``, for tables whose rows have no fixed order (Spark, queries): rows "
        "are sampled by its values and read in their order. Without it, rows are identified by "
        "position if every read returns the same order, otherwise by content. The key is not "
        "used as a feature.",
        option="a key column",
    ),
    "rows": Parameter(option="--rows"),
    "same_rows": Parameter((FLAG,)),
    "sample": Parameter((Whole(0),)),
    "sample_split": Parameter((FLAG,)),
    "sample_weight": Parameter(
        text=(
            "Sampling weights: how many units of the population a row represents. The "
            "regression, the transport and the (robust) variance use them. A string names a "
            "column."
        ),
        kind="array-like of shape (n,) or str",
        option="--weights",
    ),
    "samples": Parameter((FLAG,)),
    "sampling": Parameter((Choice(("auto", "coalitions", "permutations")),)),
    "scale": Parameter(
        (Choice(("response", "margin")),),
        '``"margin"`` describes a fitted classifier of two classes (``cv="prefit"``) by its '
        "log-odds, with squared errors of the working response; not for inference about the "
        "outcome.",
    ),
    "share": Parameter(
        (FLAG,),
        "Whether to show scores as shares of their sum, to compare methods on different scales.",
        option="--keep",
    ),
    "scored": Parameter((INTERACTIONS,), "The pairs.", kind="Interactions"),
    "parted": Parameter((SPLIT,), "The split.", kind="Split"),
    "shrinkage": Parameter(
        (Real("a number in [0, 1)", 0.0, 1.0, with_low=True), Choice(("ledoit-wolf",)))
    ),
    "simultaneous": Parameter(
        (FLAG,), "Whether the intervals of a column hold for all units at once (max-t)."
    ),
    "skewness": Parameter((FLAG,)),
    "solved": Parameter((FLAG,)),
    "sort": Parameter(
        (FLAG,), "Whether to put the largest first; otherwise in the order of ``names``."
    ),
    "split": Parameter((FLAG,)),
    "standardize": Parameter((FLAG,)),
    "strength": Parameter((Real("a number"),)),
    "target": Parameter(
        (Text(),), "Name of the outcome; by default the result's.", option="--measure"
    ),
    "task": Parameter(
        (Choice(TASKS),),
        "Whether ``y`` holds classes. By default labels, booleans and 0/1 are classes, with a "
        "classifier up to ten whole numbers too, and other numbers are not. "
        '``"survival"`` is for times to an event, in :func:`dfi.explain` and '
        "the functions that compare its settings.",
        option="--task",
    ),
    "time": Parameter(
        (COLUMN,),
        "Name of the column of ``X`` with the time to the event or to censoring; use it with "
        "``event`` instead of ``y``.",
        option="--time-to",
    ),
    "title": Parameter((Text(),), "Headline."),
    "tol": Parameter((Real("a positive number", 0.0),)),
    "top": Parameter(
        (COUNT,), "How many units, the largest first; None for all.", kind="int or None"
    ),
    "transport": Parameter(
        text=(
            f"The geometry that disentangles the features; part of the estimand: "
            f"{_quoted(TRANSPORTS)} (see :mod:`dfi.transports`), or any object with ``fit``, "
            "``encode`` and ``decode``."
        ),
        kind="str or transport",
        option="--transport",
    ),
    "transport_error": Parameter(
        (Choice(TRANSPORT_ERRORS),),
        'How the error of the fitted transport enters the standard errors. ``"derived"``: by its '
        'influence function, without further model calls; ``"finite-difference"``: the same with '
        "lines tilted numerically, 2 d further passes and no assumption on the model; "
        '``"jackknife"``: by refitting it without groups of rows; ``"ignore"``: the transport '
        "counts as known, as in the paper, and intervals of non-null scores are too short. "
        '``"auto"`` checks the derived terms by differences on up to 384 rows, and uses these if '
        "a standard error would change by more than 5 %.",
        kind="str",
    ),
    "transports": Parameter(option="--transports"),
    "units": Parameter(
        (Choice(("columns", "groups")),),
        'What gets a score. With ``"groups"``, the transport disentangles groups, not their '
        "columns, and each group gets one score, so signal shared within a group counts once. "
        "Groups may overlap.",
        option="--units",
    ),
    "whiten": Parameter((FLAG,)),
    "y": Parameter(
        text=(
            "The outcome: a quantity, a count, or classes (labels of any type, booleans, 0/1). "
            "Several columns are several quantities; a string names a column of ``X``."
        ),
        kind="array-like of shape (n,), frame of several outcomes, or str",
        option="the target",
    ),
}
"""Parameters that mean the same wherever they occur."""

OWN: Mapping[tuple[str, str], Constraints] = {
    ("Brenier", "attribution"): (ATTRIBUTIONS,),
    ("Brenier", "margins"): (FLAG, Choice(("auto",))),
    ("Brenier", "penalty"): (),
    ("CPI", "n_permutations"): (Whole(2),),
    ("Change.test_any", "of"): (Choice(("change", "covariates", "concept")),),
    ("Copula", "attribution"): (ATTRIBUTIONS,),
    ("DLOCO", "n_partners"): (Whole(2),),
    ("Questions.keep", "share"): (LEVEL,),
    ("EntropicOT", "attribution"): (ATTRIBUTIONS,),
    ("Questions.interactions", "top"): (Whole(0),),
    ("Questions.local", "sample"): (COUNT,),
    ("Exports.log", "prefix"): (Text("what names begin with"),),
    ("Importance.minus", "other"): (IMPORTANCE,),
    ("Importance.top", "k"): (COUNT,),
    ("KnotheRosenblatt", "attribution"): (ATTRIBUTIONS,),
    ("KnotheRosenblatt", "latent"): (Choice(("gaussian", "uniform")),),
    ("LocalAttributions.table", "layout"): (Choice(("long", "wide")),),
    ("Loss", "curvature"): (FUNCTION,),
    ("Loss", "domain"): (Choice(("real", "probability", "positive")),),
    ("Loss", "function"): (FUNCTION,),
    ("Loss", "generator"): (FUNCTION,),
    ("Loss", "of_class"): (Named("Loss", "a dfi.losses.Loss", "pass one of dfi.losses"),),
    ("Loss", "pair"): (FUNCTION,),
    ("Loss", "perfect"): (FUNCTION,),
    ("Loss", "secant"): (FUNCTION,),
    ("Loss", "slope"): (FUNCTION,),
    ("Loss", "unit"): (Text(),),
    ("NLOCO", "normalize"): (Choice(("outcome", "residual")),),
    ("PFI", "n_permutations"): (Whole(2),),
    ("Quadrature", "donors"): (Whole(2),),
    ("Quadrature", "memory"): (Whole(1),),
    ("Quadrature", "nodes"): (COUNT,),
    ("Quadrature", "rule"): (Choice(("auto", "equal", "gauss", "draws")),),
    ("Report.json", "indent"): (Whole(0),),
    ("select", "adjust"): (Choice(("bh", "by", "holm", "bonferroni")),),
    ("SignalTree.cut", "share"): (Real("a number above 0, up to 1", 0.0, 1.0, with_high=True),),
    ("Shapley", "exact"): (FLAG, Choice(("auto",))),
    ("Shapley", "n_coalitions"): (Whole(2),),
    ("Shapley", "n_permutations"): (Whole(2),),
    ("Sobol", "latent"): (FLAG,),
    ("Sobol", "n_compositions"): (Whole(2),),
    ("change", "id"): (COLUMN,),
    ("change", "rows"): (Choice(("auto", "independent", "same")),),
    ("change", "task"): (Choice(TASKS[:3]),),
    ("change", "y"): (COLUMN,),
    ("compare", "target"): (SURVIVAL_TARGETS,),
    ("effects", "contrasts"): (Choice(("control", "pairwise")),),
    ("effects", "target"): (SURVIVAL_TARGETS,),
    ("explain", "target"): TARGETS,
    ("DFI", "target"): (SURVIVAL_TARGETS,),
    ("prepare", "target"): TARGETS,
    ("sensitivity", "target"): (SURVIVAL_TARGETS,),
    ("expand_standard_errors", "n"): (Real("a positive number of rows", 0.0),),
    ("line_profile", "level"): (),
    ("line_profile_data", "level"): (),
    ("load_hiv", "as_frame"): (FLAG, Choice(("pandas", "polars", "pyarrow"))),
    ("load_hiv", "base_url"): (Text(),),
    ("load_hiv", "check"): (FLAG,),
    ("load_hiv", "download"): (FLAG,),
    ("load_hiv", "folder"): (Text("the path of a folder", path=True),),
    ("load_hiv", "outcome"): (Choice(("sens50", "sens80", "ic50.censored")),),
    ("load_hiv", "timeout"): (Real("a number of seconds above 0", 0.0),),
    ("wald_interval", "critical"): (Real("a number"),),
    ("wald_interval", "degrees"): (Real("a number above 0", 0.0, with_high=True),),
    ("wald_interval", "nonnegative"): (FLAG,),
    # refused where they are used, with a reason of their own
    ("EntropicOT", "epsilon"): (),
    ("Report", "result"): (),
    ("effects", "form"): (),
    ("wald_interval", "skewness"): (),
}
"""Parameters with a meaning of their own in one function or class."""

SYNONYMS: Mapping[str, str] = {
    "alpha": "level", "cv_groups": "clusters", "groups": "feature_groups", "positive": "pos_label",
    "confidence": "level", "data": "X", "features": "X", "folds": "cv",
    "frequency_weights": "frequency_weight", "jobs": "n_jobs", "learner": "estimator",
    "model": "estimator", "n_folds": "cv", "n_splits": "cv", "outcome": "y",
    "regressor": "estimator", "row_groups": "clusters", "seed": "random_state", "target": "y",
    "verbose": "progress", "weights": "sample_weight",
}  # fmt: skip
"""What people call parameters elsewhere."""

_NAME_OPTIONS = "DFI_MESSAGES_NAME_OPTIONS"
"""Set in the environment of a command, and so of its workers."""


@contextmanager
def messages_name_options() -> Iterator[None]:
    """Word messages for the command line: options, the table and its target."""
    outer = _NAME_OPTIONS in os.environ
    os.environ[_NAME_OPTIONS] = "1"
    try:
        yield
    finally:
        if not outer:
            del os.environ[_NAME_OPTIONS]


def worded(python: str, command: str) -> str:
    """Return the wording for Python or the one for the command line."""
    return command if _NAME_OPTIONS in os.environ else python


DROP = ("drop it", "leave it out with --drop")
"""What to do with a column, for :func:`worded`."""


def name_groups() -> str:
    return worded("pass feature_groups={'name': ['column', ...], ...}", "name them with --groups")


def argument(name: str, *values: object) -> str:
    """Return a parameter, or its setting, as the caller writes it.

    ``argument("cv", 5)`` is ``cv=5`` in Python and ``--folds 5`` on the command line; several
    values are a choice, ``form='cross' or 'loco'``, and ``...`` is any.
    """
    python = f"{name}={listed(map(shown, values))}" if values else name
    option = COMMON[name].option if name in COMMON else ""
    if python == "cv='prefit'":
        return worded(python, "a fitted --model")
    typed = f" {listed(map(_typed, values))}".rstrip() if values else ""
    return worded(python, option + typed if option else python)


@dataclass(frozen=True)
class _Named:
    """An argument whose name stands in many messages, written where one is made."""

    name: str

    def __str__(self) -> str:
        return argument(self.name)


TABLE, TARGET = _Named("X"), _Named("y")


def _typed(value: object) -> str:
    if value is None or value is True:
        return "" if value else "all"
    if isinstance(value, list | tuple):
        return ",".join(map(_typed, value))
    return shlex.quote(value) if isinstance(value, str) else shown(value)


def is_whole(value: object) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def shown(value: object) -> str:
    """Return a value as a message quotes it: tables and arrays by type, ``...`` unchanged."""
    if value is ...:
        return "..."
    if hasattr(value, "shape"):
        return f"a {type(value).__name__} of shape {value.shape}"
    text = " ".join(repr(value).split())
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 3]}..."


def taken_by(function: Callable[..., object], given: Mapping[str, object]) -> dict[str, Any]:
    return {name: given[name] for name in inspect.signature(function).parameters if name in given}


def constraints_of(owner: str, name: str) -> Constraints:
    own = OWN.get((owner, name))
    return COMMON.get(name, Parameter()).allowed if own is None else own


def check_one(name: str, value: object, allowed: Constraints, *, optional: bool = False) -> None:
    if not allowed or (optional and value is None) or any(one.allows(value) for one in allowed):
        return
    # choices are strings one by one, so the last "or" comes before the very last of all
    words = [w for one in allowed for w in _single_words(one)]
    hint = did_you_mean(value, [n for one in allowed for n in one.names])
    hint = hint if isinstance(value, str) else ""
    remedy = next((one.remedy for one in allowed if one.remedy), None)
    raise InvalidParameterError(
        f"{argument(name)} must be {listed(words)}, got {shown(value)}{hint}", name, remedy
    )


def whole(name: str, value: object, least: int) -> int:
    """Return a whole number of at least ``least``, or raise with the parameter's name."""
    check_one(name, value, (Whole(least),))
    return int(value)  # type: ignore[call-overload, no-any-return]


def one_of(name: str, value: object, known: Iterable[T]) -> T:
    """Return a choice, or raise with the valid ones and the likely intention."""
    choices = tuple(known)
    check_one(name, value, (Choice(tuple(filter(None, choices))),), optional=None in choices)
    return value  # type: ignore[return-value]


def _single_words(one: Constraint) -> list[str]:
    if one is FLAG:
        return ["True", "False"]
    return [repr(name) for name in one.names] or [one.words]


def check(owner: str, given: Mapping[str, object], *, optional: Iterable[str] = ()) -> None:
    none = set(optional)
    for name, value in given.items():
        check_one(name, value, constraints_of(owner, name), optional=name in none)


def refuse_unknown(owner: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise for an unknown keyword, with the likely intention."""
    names = list(known)
    for name in given:
        if name in names:
            continue
        synonym = SYNONYMS.get(name.lower())
        hint = did_you_mean(name, names)
        if not hint and synonym in names:
            hint = f"; did you mean {synonym!r}?"
        if not hint and len(names) <= 12:
            hint = f"; its options are {', '.join(map(repr, names))}"
        raise TypeError(f"{owner}() has no option {name!r}{hint}")


def validated(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function check its parameters against the table before it runs."""
    return _wrapped(function, function.__qualname__, values=True)


def named_only(function: Callable[P, R]) -> Callable[P, R]:
    """Make a constructor refuse unknown names; ``fit`` refuses values."""
    return _wrapped(function, function.__qualname__.removesuffix(".__init__"), values=False)


def _wrapped(function: Callable[P, R], owner: str, *, values: bool) -> Callable[P, R]:
    signature = inspect.signature(function)
    parameters = signature.parameters.values()
    named = [p for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    names = [p.name for p in named if p.name not in ("self", "cls")]
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    restricted = {
        p.name: (allowed, p.default is None or "None" in str(p.annotation))
        for p in named
        if values and (allowed := constraints_of(owner, p.name))
    }
    if function.__doc__ is not None:
        function.__doc__ = completed(function.__doc__, signature, _entry)

    @functools.wraps(function)
    def call(*arguments: P.args, **options: P.kwargs) -> R:
        if not takes_any:
            refuse_unknown(owner.rsplit(".", 1)[-1], options, names)
        try:
            given = signature.bind_partial(*arguments, **options).arguments
        except TypeError:  # what is missing, or given twice, is Python's own business
            given = {}
        for name, (allowed, optional) in restricted.items():
            if name in given:
                check_one(name, given[name], allowed, optional=optional)
        return function(*arguments, **options)

    return call


def validated_fields(kind: C) -> C:
    """Let the constructor of a class check its fields by the table."""
    kind.__init__ = _wrapped(kind.__init__, kind.__name__, values=True)  # type: ignore[misc]
    return documented(kind)


def documented(kind: C) -> C:
    if kind.__doc__ is not None:
        kind.__doc__ = completed(kind.__doc__, inspect.signature(kind), _entry)
    return kind


def _entry(parameter: inspect.Parameter) -> str:
    """Return a parameter's description for a docstring; empty if it has none."""
    common = COMMON.get(parameter.name, Parameter())
    if not common.text:
        return ""
    kind = common.type
    if parameter.default is None and "None" not in kind:
        kind += ", optional"
    elif parameter.default is not parameter.empty:
        shown = (
            f'"{parameter.default}"' if isinstance(parameter.default, str) else parameter.default
        )
        kind += f", default={shown}"
    text = common.text
    if parameter.default is None and common.unset:
        text = f"{text[:-1]}; {common.unset}."
    body = textwrap.fill(
        text,
        96,
        initial_indent="    ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return f"{parameter.name} : {kind}\n{body}"
