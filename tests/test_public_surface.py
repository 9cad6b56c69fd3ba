"""What users can rely on is frozen in public_surface.txt: names, parameters and their defaults.

A change of the surface is a decision, so it shows in a review as a change of that file. After one
that is meant, write the file again with ``python tests/test_public_surface.py``.
"""

import dataclasses
import difflib
import functools
import inspect
import types
from pathlib import Path

import dfi

FILE = Path(__file__).with_name("public_surface.txt")
RESULTS = (
    dfi.Importance,
    dfi.KeepList,
    dfi.LocalAttributions,
    dfi.Change,
    dfi.Results,
    dfi.SignalTree,
)
NAMESPACES = (
    "methods", "datasets", "inference", "losses", "plots", "report", "transports", "warnings",
)  # fmt: skip


def parameter(given):
    """Return one parameter as it is written; annotations are the text of the source."""
    marks = {given.VAR_POSITIONAL: "*", given.VAR_KEYWORD: "**"}
    text = marks.get(given.kind, "") + given.name
    if given.annotation is not given.empty:
        text += f": {given.annotation}"
    return text if given.default is given.empty else f"{text} = {given.default!r}"


def signature(name, function):
    """Return a call, one parameter a line, so a difference is one line too."""
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    lines = [f"{name}("]
    keywords_only = False
    for given in parameters:
        if given.kind is given.KEYWORD_ONLY and not keywords_only:
            lines.append("    *")
        keywords_only |= given.kind in (given.KEYWORD_ONLY, given.VAR_POSITIONAL)
        lines.append(f"    {parameter(given)}")
    return [*lines, ")"] if parameters else [f"{name}()"]


def members(kind):
    """Return the public methods and attributes that classes of ours give to an object."""
    found = {}
    for base in kind.__mro__:
        if not base.__module__.startswith("dfi"):
            continue
        names = [*vars(base), *inspect.get_annotations(base)]
        for name in names:
            value = vars(base).get(name)
            if not name.startswith("_"):
                found.setdefault(name, value)
    lines = []
    for name in sorted(found):
        value = found[name]
        if isinstance(value, types.FunctionType):
            lines += signature(f"{kind.__name__}.{name}", value)
        elif isinstance(value, classmethod | staticmethod):
            lines += signature(f"{kind.__name__}.{name}", getattr(kind, name))
        elif isinstance(value, property | functools.cached_property) or is_attribute(kind, name):
            lines.append(f"{kind.__name__}.{name}")
    return lines


def is_attribute(kind, name):
    fields = {f.name for f in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else set()
    return name in fields or name.endswith("_")


def described(name, value):
    """Return a public name with what it takes, where it can be called."""
    if isinstance(value, type) and issubclass(value, Exception):
        return [name]
    if getattr(value, "_is_protocol", False):
        return [f"{name} (protocol)"]
    return signature(name, value) if callable(value) else [name]


def listed(module):
    """Return the public names of a namespace; those of the warnings are its classes."""
    if hasattr(module, "__all__"):
        return module.__all__
    classes = inspect.getmembers(module, inspect.isclass)
    return [name for name, value in classes if value.__module__ == module.__name__]


def surface():
    """Return the whole surface as text."""
    lines = ["# dfi.__all__", *dfi.__all__, "", "# dir(dfi)", *dir(dfi)]
    functions = (dfi.explain, dfi.compare, dfi.effects, dfi.change, dfi.sensitivity, dfi.load)
    for function in functions:
        lines += ["", f"# dfi.{function.__name__}", *signature(function.__name__, function)]
    lines += ["", "# dfi.DFI", *signature("DFI", dfi.DFI), *members(dfi.DFI)]
    for kind in RESULTS:
        lines += ["", f"# dfi.{kind.__name__}", *signature(kind.__name__, kind), *members(kind)]
    for name in NAMESPACES:
        module = getattr(dfi, name)
        lines += ["", f"# dfi.{name}"]
        for public in listed(module):
            lines += described(public, getattr(module, public))
    return "\n".join(lines) + "\n"


def test_the_surface_is_the_one_that_was_agreed():
    frozen, now = FILE.read_text(encoding="utf-8"), surface()
    difference = difflib.unified_diff(
        frozen.splitlines(), now.splitlines(), FILE.name, "now", lineterm=""
    )
    assert frozen == now, (
        "\n".join(difference) + "\nIf this is meant: python tests/test_public_surface.py"
    )


def test_every_public_name_is_there_and_dir_shows_no_other():
    assert dir(dfi) == sorted(dfi.__all__)
    for name in dfi.__all__:
        assert hasattr(dfi, name), name
    modules = {name for name in dfi.__all__ if isinstance(getattr(dfi, name), types.ModuleType)}
    assert modules == set(NAMESPACES)


if __name__ == "__main__":
    FILE.write_text(surface(), encoding="utf-8")
