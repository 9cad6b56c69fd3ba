"""What editors, ``help`` and the reference say of a public name is whole, true and runs.

Every parameter is described with its type and default, which are those of the signature; every
name has an example, and the examples run as they stand.
"""

import ast
import dataclasses
import doctest
import functools
import inspect
import itertools
import pickle
import re
import warnings

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

import dfi
from dfi._docstrings import GIVEN, completed, with_givens

NAMESPACES = [
    "methods", "datasets", "inference", "losses", "plots", "report", "transports", "warnings",
]  # fmt: skip
USED = (
    dfi.DFI, dfi.Change, dfi.Importance, dfi.KeepList, dfi.LocalAttributions, dfi.Results,
    dfi.Selection, dfi.SignalTree, dfi.report.Report,
)  # fmt: skip
"""Classes whose methods people call; those of methods and transports are for the library."""

NOTHING = ("None", "<factory>")
WORDS = {"infinity": np.inf, "inf": np.inf}
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def section(text, title):
    """Return the body of a section of a numpydoc docstring."""
    found = re.search(
        rf"^{title}\n-+\n(.*?)(?=^\S[^\n]*\n-{{3,}}$|\Z)", text, re.DOTALL | re.MULTILINE
    )
    return found.group(1) if found else ""


def described(thing, title="Parameters"):
    """Return the type of each parameter that a docstring describes; None where it says nothing."""
    text = re.sub(r"\\\n\s*", " ", inspect.cleandoc(thing.__doc__ or ""))
    found = {}
    lines = section(text, title).splitlines()
    for place, line in enumerate(lines):
        entry = re.match(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: : (.+))?$", line)
        if entry:
            told = place + 1 < len(lines) and lines[place + 1].startswith(" ")
            for name in entry.group(1).split(", "):
                found[name.lstrip("*")] = entry.group(2) or "" if told else None
    return found


def told_of(thing):
    """Return what is told of parameters; records that people are given describe attributes."""
    told = described(thing)
    return {**described(thing, "Attributes"), **told} if dataclasses.is_dataclass(thing) else told


def listed(home):
    """Return the public names of a namespace; those of the warnings are its classes."""
    if hasattr(home, "__all__"):
        return home.__all__
    classes = inspect.getmembers(home, inspect.isclass)
    return [name for name, value in classes if value.__module__ == home.__name__]


@functools.cache
def public():
    """Return every public function, class and method of ours, by the name that users write."""
    found = {}
    for home in (dfi, *(getattr(dfi, name) for name in NAMESPACES)):
        for name in listed(home):
            value = getattr(home, name)
            if not callable(value):
                continue
            found[f"{home.__name__}.{name}"] = value
            if value in USED:
                for member, function in inspect.getmembers(value, inspect.isroutine):
                    ours = str(getattr(function, "__module__", "")).startswith("dfi")
                    if ours and not member.startswith("_"):
                        found[f"{home.__name__}.{name}.{member}"] = function
    return found


@functools.cache
def texts():
    """Return the docstring of every public name; a constant's stands after it in the source."""
    found = {name: thing.__doc__ or "" for name, thing in public().items()}
    for home in (getattr(dfi, name) for name in NAMESPACES):
        constants = [name for name in listed(home) if not callable(getattr(home, name))]
        body = ast.parse(inspect.getsource(home)).body if constants else []
        for first, second in itertools.pairwise(body):
            names = [getattr(t, "id", None) for t in getattr(first, "targets", [])]
            names += [first.target.id] if isinstance(first, ast.AnnAssign) else []
            for name in set(names) & set(constants):
                value = getattr(second, "value", None)
                text = value.value if isinstance(value, ast.Constant) else ""
                found[f"{home.__name__}.{name}"] = str(text)
    return found


def with_parameters():
    """Return the names that are called with parameters of ours."""
    return {
        name: thing
        for name, thing in public().items()
        if not getattr(thing, "_is_protocol", False)
        and not (isinstance(thing, type) and issubclass(thing, Warning))
    }


def parameters_of(thing):
    """Return the parameters of a signature, without those that are not for callers."""
    return {
        name: parameter
        for name, parameter in inspect.signature(thing).parameters.items()
        if name not in ("self", "cls")
        and not (dataclasses.is_dataclass(thing) and name.startswith("_"))
    }


@pytest.mark.parametrize("name", with_parameters())
def test_every_parameter_is_described_with_its_type(name):
    thing = public()[name]
    parameters, told = parameters_of(thing), told_of(thing)
    missing = [name for name in parameters if told.get(name) is None]
    assert not missing, f"the docstring does not describe {missing}"
    bare = [
        name
        for name, parameter in parameters.items()
        if not told[name] and parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    assert not bare, f"the docstring gives no type of {bare}"
    gone = [name for name in described(thing) if name not in parameters]
    assert not gone, f"the docstring describes {gone}, which the signature does not have"


def told_default(text):
    """Return whether a default is told, and which; it is None where that is not a value."""
    found = re.search(r"default=(.+?)\s*$", text)
    if found is None:
        return "optional" in text or "default" in text, None
    try:
        return True, WORDS.get(found.group(1), ast.literal_eval(found.group(1)))
    except (SyntaxError, ValueError):
        return True, WORDS.get(found.group(1))


def same(told, default):
    if isinstance(told, float | int) and isinstance(default, float | int):
        return float(told) == float(default)
    return told == default


@pytest.mark.parametrize("name", with_parameters())
def test_every_default_is_that_of_the_signature(name):
    """As "default=..." or "optional" behind the type."""
    thing = public()[name]
    if dataclasses.is_dataclass(thing) and not described(thing):
        return  # a record
    told, silent, wrong = told_of(thing), [], []
    for parameter in parameters_of(thing).values():
        known, value = told_default(told[parameter.name] or "")
        if parameter.default is parameter.empty:
            if "default=" in told[parameter.name]:
                wrong.append(f"{parameter.name}: there is no default")
        elif not known:
            silent.append(parameter.name)
        elif value is not None and not same(value, parameter.default):
            wrong.append(f"{parameter.name}: {value!r} for {parameter.default!r}")
        elif told[parameter.name].endswith("optional") and repr(parameter.default) not in NOTHING:
            wrong.append(f"{parameter.name}: optional, and {parameter.default!r} is not None")
    assert not silent, f"the docstring does not tell the default of {silent}"
    assert not wrong, f"the docstring tells another default: {wrong}"


def test_every_function_says_what_it_returns():
    silent = [
        name
        for name, thing in public().items()
        if not isinstance(thing, type) and not section(inspect.cleandoc(thing.__doc__), "Returns")
    ]
    assert not silent


def test_every_public_name_has_an_example():
    silent = [
        name
        for name, text in texts().items()
        if ">>> " not in section(inspect.cleandoc(text), "Examples")
    ]
    assert not silent


def test_docstrings_are_completed_by_what_all_of_them_share():
    def drawn(level: float, other: int) -> "Axes":  # noqa: F821
        """Draw.

        Parameters
        ----------
        other : int
            Its own.

        Examples
        --------
        >>> result.names
        """

    text = completed(drawn.__doc__, inspect.signature(drawn), lambda p: f"{p.name} : a number")
    assert section(text, "Parameters") == "level : a number\nother : int\n    Its own.\n\n"
    assert section(text, "Returns") == "Axes\n    What was drawn on.\n\n"
    lines = [line for line in text.splitlines() if line.startswith(">>> ")]
    assert lines == [f">>> {GIVEN[name]}" for name in ("dfi", "sample", "result")] + [
        ">>> result.names"
    ]


def test_examples_keep_what_they_make_themselves():
    text = with_givens('>>> result = dfi.load("a.dfi")\n>>> from dfi.losses import BRIER')
    assert text.splitlines()[0] == ">>> import dfi"
    assert text.count(">>>") == 3
    assert with_givens(">>> from dfi.losses import BRIER").count(">>>") == 1


@pytest.fixture(scope="module")
def calculated():
    """Return what was calculated for examples, by call and arguments."""
    return {}


@pytest.fixture
def once(calculated, monkeypatch):
    """Let examples that make the same call share its result, which nobody can change."""

    def remembering(function):
        @functools.wraps(function)
        def call(*arguments, **options):
            try:
                # the filters too: a call that is remembered does not warn again
                key = function.__name__, str(warnings.filters), pickle.dumps((arguments, options))
            except (AttributeError, TypeError, pickle.PicklingError):
                return function(*arguments, **options)  # a class that the example made
            if key not in calculated:
                calculated[key] = function(*arguments, **options)
            return calculated[key]

        return call

    for name in ("explain", "compare", "change", "sensitivity"):
        monkeypatch.setattr(dfi, name, remembering(getattr(dfi, name)))


@pytest.mark.parametrize("name", texts())
def test_examples_run_as_they_stand(name, once, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write files
    mpl.use("Agg")
    found = doctest.DocTestParser().get_doctest(texts()[name], {}, name, None, 0)
    said = []
    with mpl.rc_context({"figure.max_open_warning": 0}):
        failed, tried = doctest.DocTestRunner(optionflags=OPTIONS).run(found, out=said.append)
    plt.close("all")
    assert tried
    assert not failed, "".join(said)
