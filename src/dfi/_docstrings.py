"""Complete docstrings with the parts they share, so each states only what is specific.

Parameters are described by the table of parameters, what is returned by its type, and examples
begin with what they take as given: ``dfi``, a ``sample``, a ``result``, ...
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

PARAMETERS = "Parameters\n----------\n"
_NEXT_SECTION = re.compile(r"^\S[^\n]*\n-{3,}$", re.MULTILINE)
_CODE = re.compile(r"^(?:>>>|\.\.\.) .*$", re.MULTILINE)
_FROM = re.compile(r"^>>> from .*$", re.MULTILINE)
_FRAME = "frame", "In the caller's dataframe library."
_ANSWER = "Print it for a summary; ``table()`` has everything."
_MACHINE = "dict", "Strings, numbers, lists and dicts only; unknown numbers are None."

RETURNS = {
    "Axes": ("Axes", "What was drawn on."),
    "Axes | NDArray[np.object_]": (
        "Axes or ndarray of Axes",
        'The axes drawn on; several for ``"groups"``.',
    ),
    "Axes | Array": ("Axes or ndarray of Axes", "What was drawn on."),
    "Columns": _FRAME,
    "AnyChange": ("AnyChange", "``statistic``, ``p`` and ``feature``, the unit of the maximum."),
    "Estimate": ("Estimate", "``value``, ``se``, ``ci_low``, ``ci_high`` and ``p``."),
    "Frame": _FRAME,
    "Floats": ("ndarray", "In the order of ``labels`` and ``names``."),
    "Ints": ("ndarray of int", "In the order of ``labels`` and ``names``."),
    "Loss": ("Loss", "What ``explain(loss=...)`` takes, or ``compare``."),
    "None": ("None", "Nothing."),
    "NDArray[np.object_]": ("ndarray of Axes", "What was drawn on."),
    "Path": ("Path", "Where it was written."),
    "Path | Report": ("Report or Path", "The report, or where it was written."),
    "Importance": ("Importance", "A new result."),
    **{
        kind: (kind, _ANSWER)
        for kind in ("Interactions", "KeepList", "LocalAttributions", "SignalTree", "Split")
    },
    "Plain": _MACHINE,
    "dict[str, Json]": _MACHINE,
    "dict[str, object]": _MACHINE,
    "int": ("int", "Its place."),
    "list[Plain]": ("list of dict", "With a ``name`` each; NaN where not known."),
    "str": ("str", "The text."),
    "Simulation": ("Simulation", "The sample, its regression and its true scores."),
}
"""Return values by annotation, for functions that do not document them."""

GIVEN = {
    "keep_list": 'keep_list = dfi.explain(related.X, related.y, "linear", cv=2).keep(share=0.9)',
    "selection": 'selection = dfi.select(related.X, related.y, "loco", estimator="linear")',
    "split": 'split = dfi.explain(related.X, related.y, "linear", cv=2).split()',
    "tree": 'tree = dfi.explain(related.X, related.y, "linear", cv=2).tree()',
    "pairs": 'pairs = dfi.explain(X, X[:, 0] * X[:, 1] + X[:, 2], "linear", cv=2).interactions()',
    "whole": 'whole = dfi.explain(sample.X, sample.y, "linear", target="distribution", cv=2)',
    "local": 'local = dfi.explain(sample.X, sample.y, "linear", cv=2).local([0, 1, 2])',
    "result": 'result = dfi.explain(sample.X, sample.y, "linear", cv=2)',
    "both": 'both = dfi.compare(sample.X, sample.y, ["dfi", "loco"], estimator="linear", cv=2)',
    "explainer": 'explainer = dfi.DFI(estimator="linear", cv=2).fit(sample.X, sample.y)',
    "fits": 'fits = dfi.methods.prepare(sample.X, sample.y, estimator="linear", cv=2)',
    "found": (
        'found = dfi.change((first.X, first.y), (second.X, after), estimator="linear", cv=2)'
    ),
    "after": "after = second.y + 3 * second.X[:, 2]",
    "first": "first, second = dfi.datasets.m1(200, d=3), dfi.datasets.m1(200, d=3, random_state=1)",
    "related": "related = dfi.datasets.m1(500, rho=0.8, d=3)",
    "X": "X = np.random.default_rng(0).standard_normal((200, 3))",
    "sample": "sample = dfi.datasets.m1(200, d=3)",
    "np": "import numpy as np",
    "dfi": "import dfi",
    "warnings": "import warnings",
}
"""Names that examples take as given, each before the names it needs."""


ATTRIBUTES = {
    "names": ("tuple of str", "The units."),
    "features": ("mapping of str to ndarray", "The rows' own values, by unit; groups have none."),
    "spec": ("mapping", "What was asked and how."),
    "level": ("float", "Default confidence level."),
    "library": ("str", "Dataframe library of the caller, for the tables."),
}
"""Meanings of record fields that are not documented in place."""


def with_attributes(kind: type, text: str) -> str:
    """Return the docstring of a record, with the fields that all records share."""
    before, title, after = text.partition("Attributes\n----------\n")
    own, line, rest = after.partition("\n\n")
    more = "".join(
        f"\n{name} : {what}\n    {meaning}"
        for name, (what, meaning) in ATTRIBUTES.items()
        if name in kind.__annotations__ and f"{name} : " not in f"\n{own}"
    )
    return f"{before}{title}{own}{more}{line}{rest}" if title else text


def completed(
    text: str, signature: inspect.Signature, entry: Callable[[inspect.Parameter], str]
) -> str:
    """Return a docstring with all parameters, the return value, and the first lines of examples."""
    text = with_givens(inspect.cleandoc(text))
    before, own, after = _parameter_section(text)
    entries: dict[str, str] = {}
    for name, parameter in signature.parameters.items():
        told = own.get(name) or entry(parameter)
        if told:
            entries[own.get(name, name)] = told
    parts = [before]
    if entries:
        parts += [PARAMETERS, "\n".join(entries.values()), "\n\n"]
    kind, meaning = RETURNS.get(str(signature.return_annotation), ("", ""))
    if kind and "Returns\n-------\n" not in text:
        parts.append(f"Returns\n-------\n{kind}\n    {meaning}\n\n")
    return f"{''.join(parts)}{after}".rstrip()


def with_givens(text: str) -> str:
    """Return a docstring whose examples begin by defining what they use."""
    start = text.find(">>> ")
    if start < 0:
        return text
    code, lines = "\n".join(_CODE.findall(text)), ""
    for name, line in GIVEN.items():
        used = re.search(rf"(?<![.\w\"']){name}\b(?!=)", _FROM.sub("", code) + lines)
        made = rf"^>>> (?:.*\bimport .*\b{name}\b|[\w, ]*\b{name}\b[\w, ]* = |def {name}\b)"
        if used and not re.search(made, code, re.MULTILINE):
            lines = f">>> {line}\n{lines}"
    return f"{text[:start]}{lines}{text[start:]}"


def exemplified(kind: type[T]) -> type[T]:
    """Complete a class and any methods that are not completed elsewhere."""
    kind.__doc__ = with_givens(with_attributes(kind, inspect.cleandoc(kind.__doc__ or "")))
    for thing in vars(kind).values():
        text = getattr(thing, "__doc__", None)
        if not text or ">>> " not in text or hasattr(thing, "__wrapped__"):
            continue
        if inspect.isfunction(thing):
            thing.__doc__ = completed(text, inspect.signature(thing), lambda _: "")
    return kind


def _parameter_section(text: str) -> tuple[str, dict[str, str], str]:
    start = text.find(PARAMETERS)
    body = text[start + len(PARAMETERS) :] if start >= 0 else text
    following = _NEXT_SECTION.search(body)
    end = following.start() if following else len(body)
    if start < 0:
        return f"{body[:end].rstrip()}\n\n", {}, body[end:]
    entries = re.split(r"\n(?=\S)", body[:end].strip())
    named = [(entry.split("\n", 1)[0].split(" : ")[0], entry) for entry in entries]
    own = {name.lstrip("*"): entry for names, entry in named for name in names.split(", ")}
    return text[:start], own, body[end:]
