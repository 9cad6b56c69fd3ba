"""What every public parameter may be: one table, one wording, and the nearest name for a typo.

A parameter is looked up by its name, in :data:`OWN` for what one function or class means by it and
in :data:`COMMON` otherwise; one that is in neither is read, and refused, where it is used (tables,
vectors, estimators, groups). None is allowed where it is the default. To have a function check what
it is given, write its parameters into the table and decorate it::

    @validated
    def explain(X, y, *, level=0.95): ...

Classes whose constructors check take :func:`validated_fields`; estimators, which must store what
they are given and refuse it in ``fit``, take :func:`named_only` and :func:`check`.
"""

from __future__ import annotations

import functools
import inspect
import numbers
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar

from dfi._checks import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)

LONGEST_SHOWN = 80
"""Characters of a refused value that an error quotes."""


class InvalidParameterError(ValueError, TypeError):
    """A parameter is of the wrong type, or has a value that it cannot have.

    Both at once, as scikit-learn's: whether 0.5 is a wrong type or a wrong number of rows is
    nobody's question.
    """


class Constraint(Protocol):
    """One thing that a parameter may be."""

    @property
    def words(self) -> str:
        """What it must be, as it stands after "must be"."""

    @property
    def names(self) -> tuple[str, ...]:
        """The strings that are allowed, for suggestions."""

    def allows(self, value: object) -> bool:
        """Return whether a value is that."""


@dataclass(frozen=True)
class Flag:
    """True or False, also numpy's; no number and no string, all of which are true or false too."""

    words: str = "True or False"
    names: tuple[str, ...] = ()

    def allows(self, value: object) -> bool:
        """Return whether a value is a boolean."""
        # numpy's boolean is known by its name: nothing here needs numpy
        return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")


@dataclass(frozen=True)
class Whole:
    """A whole number from ``least`` on."""

    least: int = 0
    names: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """What it must be."""
        return f"a whole number of {self.least} or more"

    def allows(self, value: object) -> bool:
        """Return whether a value is such a number."""
        return is_whole(value) and value >= self.least  # type: ignore[operator]


@dataclass(frozen=True)
class Nonzero:
    """A whole number other than 0: workers, where -1 means all of them."""

    words: str = "a whole number of 1 or more, or -1 for all processors"
    names: tuple[str, ...] = ()

    def allows(self, value: object) -> bool:
        """Return whether a value is such a number."""
        return is_whole(value) and value != 0


@dataclass(frozen=True)
class Real:
    """A number in an interval, whose ends belong to it or not, in words; infinite ones by ends."""

    words: str
    low: float = float("-inf")
    high: float = float("inf")
    with_low: bool = False
    with_high: bool = False
    names: tuple[str, ...] = ()

    def allows(self, value: object) -> bool:
        """Return whether a value is a number in the interval."""
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            return False
        number: int | float = value  # type: ignore[assignment]
        above = number >= self.low if self.with_low else number > self.low
        below = number <= self.high if self.with_high else number < self.high
        return bool(above and below)


@dataclass(frozen=True)
class Choice:
    """One of some strings."""

    names: tuple[str, ...]

    @property
    def words(self) -> str:
        """What it must be."""
        return listed(map(repr, self.names))

    def allows(self, value: object) -> bool:
        """Return whether a value is one of them."""
        return isinstance(value, str) and value in self.names


@dataclass(frozen=True)
class Text:
    """A string, or the path of a file where ``path``."""

    words: str = "a string"
    path: bool = False
    names: tuple[str, ...] = ()

    def allows(self, value: object) -> bool:
        """Return whether a value is a string or a path."""
        return isinstance(value, str) or (self.path and isinstance(value, os.PathLike))


@dataclass(frozen=True)
class Function:
    """What can be called."""

    words: str = "a function"
    names: tuple[str, ...] = ()

    def allows(self, value: object) -> bool:
        """Return whether a value can be called."""
        return callable(value)


@dataclass(frozen=True)
class Nothing:
    """None, where it is not the default."""

    words: str = "None"
    names: tuple[str, ...] = ()

    def allows(self, value: object) -> bool:
        """Return whether a value is None."""
        return value is None


@dataclass(frozen=True)
class Named:
    """An object of a class that is known by its name: this module is below all of them."""

    kind: str
    words: str
    remedy: str
    names: tuple[str, ...] = ()

    def allows(self, value: object) -> bool:
        """Return whether a value is of the class, or of one made from it."""
        return self.kind in (base.__name__ for base in type(value).__mro__)


Constraints = tuple[Constraint, ...]

FEWEST_ROWS = 50
"""Rows below which a sample has no standard errors worth the name, and is too small for models."""

FEWEST_BACKGROUND = 10
"""Rows below which a background stands for nothing."""

FLAG = Flag()
LEVEL = Real("a number strictly between 0 and 1", 0.0, 1.0)
COUNT = Whole(1)
SEED = Whole(0)
EPSILONS = Real("numbers of at least 0", 0.0, with_low=True)
PATH = Text("the path of a file", path=True)
COLUMN = Text("the name of a column")
FEATURE = Text("the name of a feature")
CORRELATION = Real("a number from -1 to 1", -1.0, 1.0, with_low=True, with_high=True)
FUNCTION = Function()
IMPORTANCE = Named("Importance", "a dfi.Importance", "pass what explain returns")
LOCAL = Named("LocalAttributions", "a dfi.LocalAttributions", "pass what result.local returns")
FORMS = ("auto", "extrapolated", "cross", "calibrated", "loco", "cpi")
TRANSPORT_ERRORS = (
    *("auto", "derived", "covariance"),
    *("finite-difference", "jackknife", "ignore"),
)
ALTERNATIVES = Choice(("greater", "less", "two-sided"))

COMMON: Mapping[str, Constraints] = {
    "additive": (FLAG,),
    "adjust": (Choice(("none", "bonferroni", "holm", "bh", "by")),),
    "alternative": (ALTERNATIVES,),
    "attribution": (Choice(("direction", "isotropic")),),
    "ax": (Named("Axes", "Axes of matplotlib", "pass ax of fig, ax = plt.subplots()"),),
    "background": (Whole(FEWEST_BACKGROUND),),
    "by": (Choice(("outcome",)),),
    "clip": (Real("a number strictly between 0 and 0.5", 0.0, 0.5),),
    "color": (FEATURE,),
    "covariance": (Choice(("auto", "sample", "factor", "ledoit-wolf")),),
    "d": (Whole(2),),
    "debias": (FLAG,),
    "diagnose": (FLAG,),
    "epsilon": (Real("a number of at least 0", 0.0, with_low=True),),
    "estimate_variance": (FLAG,),
    "expansion": (Choice(("standard_error", "variance")),),
    "explain_rows": (Choice(("default", "auto")), Whole(FEWEST_ROWS), Nothing()),
    "explainer": (Named("DFI", "a dfi.DFI", "pass dfi.DFI().fit(X, y)"),),
    "feature": (FEATURE,),
    "fit_rows": (Whole(FEWEST_ROWS),),
    "form": (Choice(FORMS),),
    "found": (Named("Change", "a dfi.Change", "pass what change returns"),),
    "how": (Choice(("sum", "joint", "shapley")),),
    "integration": (
        Choice(("auto",)),
        Named("Quadrature", "a dfi.Quadrature", "pass e.g. dfi.Quadrature('gauss', nodes=64)"),
    ),
    "keep_rows": (FLAG,),
    "kind": (Text(),),
    "level": (LEVEL,),
    "local": (LOCAL,),
    "max_rows": (COUNT,),
    "max_seconds": (Real("a number of seconds above 0", 0.0),),
    "min_size": (Real("a positive number of rows", 0.0),),
    "missing": (Choice(("unit", "error", "drop")),),
    "n": (COUNT,),
    "n_draws": (COUNT,),
    "n_folds": (Whole(2),),
    "n_jobs": (Nonzero(),),
    "n_repeats": (COUNT,),
    "n_smoothing": (COUNT,),
    "n_targets": (Whole(2),),
    "n_values": (Whole(2),),
    "name": (Text(),),
    "null": (Real("a number"),),
    "of": (Choice(("explained", "null", "sum")),),
    "overwrite": (FLAG,),
    "path": (PATH,),
    "progress": (FLAG,),
    "quantile": (LEVEL,),
    "random_state": (SEED,),
    "reference": (Choice(("auto", "empirical", "gaussian")),),
    "refine": (COUNT,),
    "result": (IMPORTANCE,),
    "rho": (CORRELATION,),
    "row": (Whole(0),),
    "same_rows": (FLAG,),
    "sample": (Whole(0),),
    "sample_split": (FLAG,),
    "samples": (FLAG,),
    "sampling": (Choice(("auto", "coalitions", "permutations")),),
    "scale": (Choice(("response", "margin")),),
    "share": (FLAG,),
    "shrinkage": (
        Real("a number in [0, 1)", 0.0, 1.0, with_low=True),
        Choice(("ledoit-wolf",)),
    ),
    "simultaneous": (FLAG,),
    "skewness": (FLAG,),
    "solved": (FLAG,),
    "sort": (FLAG,),
    "split": (FLAG,),
    "standardize": (FLAG,),
    "strength": (Real("a number"),),
    "target": (Text(),),
    "task": (Choice(("auto", "classification", "regression")),),
    "title": (Text(),),
    "tol": (Real("a positive number", 0.0),),
    "top": (COUNT,),
    "transport_error": (Choice(TRANSPORT_ERRORS),),
    "units": (Choice(("columns", "groups")),),
    "whiten": (FLAG,),
}
"""What parameters may be that mean the same wherever they occur."""

OWN: Mapping[tuple[str, str], Constraints] = {
    ("CPI", "n_permutations"): (Whole(2),),
    ("Change.test_any", "of"): (Choice(("change", "law", "relation")),),
    ("DLOCO", "n_partners"): (Whole(2),),
    ("Importance.local", "sample"): (COUNT,),
    ("Importance.minus", "other"): (IMPORTANCE,),
    ("Importance.top", "k"): (COUNT,),
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
    ("Shapley", "exact"): (FLAG, Choice(("auto",))),
    ("Shapley", "n_coalitions"): (Whole(2),),
    ("Shapley", "n_permutations"): (Whole(2),),
    ("Sobol", "latent"): (FLAG,),
    ("Sobol", "n_compositions"): (Whole(2),),
    ("change", "id"): (COLUMN,),
    ("change", "rows"): (Choice(("auto", "independent", "same")),),
    ("change", "y"): (COLUMN,),
    ("compact_change_html", "rows"): (COUNT,),
    ("compact_html", "rows"): (COUNT,),
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
"""What single functions and classes mean by a parameter."""

SYNONYMS: Mapping[str, str] = {
    "alpha": "level",
    "clusters": "cv_groups",
    "confidence": "level",
    "data": "X",
    "features": "X",
    "folds": "cv",
    "frequency_weights": "frequency_weight",
    "jobs": "n_jobs",
    "learner": "estimator",
    "model": "estimator",
    "n_folds": "cv",
    "n_splits": "cv",
    "outcome": "y",
    "regressor": "estimator",
    "row_groups": "cv_groups",
    "seed": "random_state",
    "target": "y",
    "verbose": "progress",
    "weights": "sample_weight",
}
"""What people call parameters elsewhere."""


def is_whole(value: object) -> bool:
    """Return whether a value is a whole number, no boolean."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def listed(items: Iterable[str]) -> str:
    """Return ``"a, b or c"``."""
    *first, last = items
    return f"{', '.join(first)} or {last}" if first else last


def shown(value: object) -> str:
    """Return a refused value as an error quotes it: tables and arrays by their type."""
    if hasattr(value, "shape"):
        return f"a {type(value).__name__} of shape {value.shape}"
    text = " ".join(repr(value).split())
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 3]}..."


def constraints_of(owner: str, name: str) -> Constraints:
    """Return what a parameter of a function or class may be; empty where anything may."""
    own = OWN.get((owner, name))
    return COMMON.get(name, ()) if own is None else own


def check_one(name: str, value: object, allowed: Constraints, *, optional: bool = False) -> None:
    """Raise if a value is none of what its parameter may be.

    Parameters
    ----------
    name : str
        The parameter.
    value : object
        What it was given.
    allowed : tuple of Constraint
        What it may be; anything where empty.
    optional : bool
        Whether it may be None.
    """
    if not allowed or (optional and value is None) or any(one.allows(value) for one in allowed):
        return
    # choices are strings one by one, so that the last "or" comes before the very last of all
    words = [w for one in allowed for w in _single_words(one)]
    hint = did_you_mean(value, [n for one in allowed for n in one.names])
    hint = hint if isinstance(value, str) else ""
    remedy = "".join(f": {one.remedy}" for one in allowed if isinstance(one, Named))
    raise InvalidParameterError(f"{name} must be {listed(words)}, got {shown(value)}{hint}{remedy}")


def _single_words(one: Constraint) -> list[str]:
    if isinstance(one, Flag):
        return ["True", "False"]
    return [repr(name) for name in one.names] or [one.words]


def check(owner: str, given: Mapping[str, object], *, optional: Iterable[str] = ()) -> None:
    """Raise if one of the parameters of a function or class is what it cannot be.

    Parameters
    ----------
    owner : str
        The name of the function or class, as :data:`OWN` has it.
    given : mapping
        The parameters.
    optional : iterable of str
        Those that may be None.
    """
    none = set(optional)
    for name, value in given.items():
        check_one(name, value, constraints_of(owner, name), optional=name in none)


def refuse_unknown(owner: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise for a keyword that there is not, with the one that is meant."""
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


@dataclass(frozen=True)
class _Checks:
    """The parameters of a function, taken apart once."""

    owner: str
    signature: inspect.Signature
    names: tuple[str, ...]
    open: bool
    table: Mapping[str, tuple[Constraints, bool]]

    @classmethod
    def of(cls, function: Callable[..., object], owner: str) -> _Checks:
        signature = inspect.signature(function)
        parameters = signature.parameters.values()
        keywords = [p for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
        return cls(
            owner,
            signature,
            tuple(p.name for p in keywords if p.name not in ("self", "cls")),
            any(p.kind is p.VAR_KEYWORD for p in parameters),
            {
                p.name: (constraints_of(owner, p.name), _may_be_none(p))
                for p in keywords
                if constraints_of(owner, p.name)
            },
        )

    def names_known(self, options: Mapping[str, object]) -> None:
        if not self.open:
            refuse_unknown(self.owner.rsplit(".", 1)[-1], options, self.names)

    def values(self, arguments: tuple[object, ...], options: Mapping[str, object]) -> None:
        # what is missing, or given twice, is Python's own business
        try:
            given = self.signature.bind_partial(*arguments, **options).arguments
        except TypeError:
            return
        for name, (allowed, optional) in self.table.items():
            if name in given:
                check_one(name, given[name], allowed, optional=optional)


def _may_be_none(parameter: inspect.Parameter) -> bool:
    """Return whether a parameter is None by default, or says that it may be."""
    return parameter.default is None or "None" in str(parameter.annotation)


def validated(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function check its parameters by the table before anything else is done."""
    return _wrapped(function, function.__qualname__, values=True)


def named_only(function: Callable[P, R]) -> Callable[P, R]:
    """Let a constructor refuse names that there are not; values are for ``fit`` to refuse."""
    return _wrapped(function, function.__qualname__.removesuffix(".__init__"), values=False)


def _wrapped(function: Callable[P, R], owner: str, *, values: bool) -> Callable[P, R]:
    checks = _Checks.of(function, owner)

    @functools.wraps(function)
    def call(*arguments: P.args, **options: P.kwargs) -> R:
        checks.names_known(options)
        if values:
            checks.values(arguments, options)
        return function(*arguments, **options)

    return call


def validated_fields(kind: C) -> C:
    """Let the constructor of a class check its fields by the table."""
    kind.__init__ = _wrapped(kind.__init__, kind.__name__, values=True)  # type: ignore[misc]
    return kind
