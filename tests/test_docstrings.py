"""Every parameter of a public function is described where editors and ``help`` look for it."""

import dataclasses
import inspect
import re

import pytest

import dfi

NAMESPACES = ["methods", "datasets", "inference", "losses", "plots", "report", "transports"]


def section(text, title):
    """Return the body of a section of a numpydoc docstring."""
    found = re.search(
        rf"^{title}\n-+\n(.*?)(?=^\S[^\n]*\n-{{3,}}$|\Z)", text, re.DOTALL | re.MULTILINE
    )
    return found.group(1) if found else ""


def described(thing, title="Parameters"):
    """Return the type of each parameter that a docstring describes; None where it says nothing."""
    text = inspect.cleandoc(thing.__doc__ or "").replace("\\\n", " ")
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
    """Return what is told of parameters here, or where a docstring sends its readers.

    Records that people are given and do not make describe their attributes. The numbers behind a
    plot take what the plot takes, and ``prepare`` and ``change`` what ``explain`` does.
    """
    told = described(thing)
    if dataclasses.is_dataclass(thing):
        return {**described(thing, "Attributes"), **told}
    name = getattr(thing, "__name__", "")
    if name.endswith("_data") and hasattr(dfi.plots, name.removesuffix("_data")):
        return {**described(getattr(dfi.plots, name.removesuffix("_data"))), **told}
    if thing in (dfi.methods.prepare, dfi.change):
        return {**described(dfi.explain), **told}
    return told


def callables():
    """Yield every public function, class and method of ours, with the name that users write."""
    for home in (dfi, *(getattr(dfi, name) for name in NAMESPACES)):
        for name in home.__all__:
            value = getattr(home, name)
            label = f"{home.__name__}.{name}"
            if not callable(value) or getattr(value, "_is_protocol", False):
                continue
            yield pytest.param(value, id=label)
            if home is dfi and isinstance(value, type):
                for member, function in inspect.getmembers(value, inspect.isroutine):
                    ours = str(getattr(function, "__module__", "")).startswith("dfi")
                    if ours and not member.startswith("_"):
                        yield pytest.param(function, id=f"{label}.{member}")


@pytest.mark.parametrize("thing", list(callables()))
def test_every_parameter_is_described_with_its_type(thing):
    names = [name for name in inspect.signature(thing).parameters if name not in ("self", "cls")]
    if dataclasses.is_dataclass(thing):  # fields that are not for callers begin with a line
        names = [name for name in names if not name.startswith("_")]
    told = told_of(thing)
    missing = [name for name in names if told.get(name) is None]
    assert not missing, f"the docstring does not describe {missing}"
    kinds = {p.name: p.kind for p in inspect.signature(thing).parameters.values()}
    bare = [n for n in names if not told[n] and kinds[n] is not inspect.Parameter.VAR_KEYWORD]
    assert not bare, f"the docstring gives no type of {bare}"


@pytest.mark.parametrize("thing", list(callables()))
def test_every_default_is_told(thing):
    """As "default=..." or "optional" behind the type, or in the words that follow."""
    parameters = inspect.signature(thing).parameters
    if dataclasses.is_dataclass(thing) and not described(thing):
        return  # a record
    told = told_of(thing)
    silent = [
        name
        for name, parameter in parameters.items()
        if parameter.default is not parameter.empty
        and not name.startswith("_")
        and not re.search(r"default|optional", told.get(name) or "")
    ]
    assert not silent, f"the docstring does not tell the default of {silent}"
