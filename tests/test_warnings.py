"""Warnings point at the line of the caller, whichever way they took."""

from __future__ import annotations

import ast
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dfi
from dfi.warnings import ConstantColumnWarning, OutcomeWarning, WeakModelWarning

ROOT = Path(__file__).parents[1]
GENERATOR = np.random.default_rng(0)
NOISE = pd.DataFrame({"a": GENERATOR.standard_normal(80), "b": GENERATOR.standard_normal(80)})
CLASSES = GENERATOR.integers(0, 3, 80)
ARM = np.arange(80) % 2
FLAT = NOISE.assign(flat=1.0)

CALLS: dict[str, Any] = {
    "explain": lambda: dfi.explain(FLAT, CLASSES, "linear"),
    "fit": lambda: dfi.DFI(estimator="linear").fit(FLAT, CLASSES),
    "compare": lambda: dfi.compare(FLAT, CLASSES, "loco", estimator="linear"),
    "effects": lambda: dfi.effects(FLAT, CLASSES, ARM, "linear", outcome_model="linear"),
    "sensitivity": lambda: dfi.sensitivity(FLAT, CLASSES, epsilons=[0], estimator="linear"),
}


def caught(call: Any) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    return found


@pytest.mark.parametrize("name", CALLS)
def test_warnings_point_at_the_line_of_the_caller(name: str) -> None:
    found = caught(CALLS[name])
    assert {w.category for w in found} >= {ConstantColumnWarning, OutcomeWarning, WeakModelWarning}
    line = CALLS[name].__code__.co_firstlineno
    assert {(w.filename, w.lineno) for w in found} == {(__file__, line)}


def test_the_class_of_a_fitted_model_is_said_at_the_line_of_the_caller() -> None:
    answer = np.where(NOISE["a"] > 0, "yes", "no")
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(NOISE, answer)
    y = (answer == "yes").astype(float)
    found = caught(lambda: dfi.explain(NOISE, y, model, cv="prefit"))
    assert [w.filename for w in found if w.category is OutcomeWarning] == [__file__]


@pytest.mark.parametrize(
    "call",
    [
        lambda weight: dfi.explain(NOISE, NOISE["a"], "linear", **weight),
        lambda weight: dfi.compare(
            NOISE, NOISE["a"], ["dfi", "loco"], estimator="linear", **weight
        ),
        lambda weight: dfi.sensitivity(
            NOISE, NOISE["a"], epsilons=[0], estimator="linear", **weight
        ),
    ],
    ids=["explain", "compare", "sensitivity"],
)
@pytest.mark.parametrize("kind", ["sample_weight", "frequency_weight"])
def test_weights_of_a_stated_kind_are_not_doubted(call: Any, kind: str) -> None:
    """Whole numbers above 3 on average: survey weights and counts look alike, and none is asked."""
    found = caught(lambda: call({kind: np.full(80, 50)}))
    assert not [w for w in found if "weight" in str(w.message)]
    assert {w.filename for w in found} <= {__file__}


def words_of(text):
    return set(re.findall(r"[a-z]{4,}", text.lower()))


def test_the_page_of_warnings_quotes_what_the_source_says():
    """Quotes are shortened: most of their words must stand in one message."""
    messages = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = [
                    part.value if isinstance(part, ast.Constant) else " " for part in node.values
                ]
                messages.append(words_of("".join(parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                messages.append(words_of(node.value))
    page = (ROOT / "docs" / "howto" / "warnings.md").read_text(encoding="utf-8")
    quotes = [
        part
        for quote in re.findall(r"(?<![*\w])\*(?!\*)([^*]+)\*(?!\*)", page)
        for part in re.split(r";|, or ", " ".join(quote.split()))
        if len(words_of(part)) >= 3
    ]
    assert len(quotes) > 15
    for quote in quotes:
        said = words_of(quote)
        assert max(len(said & message) for message in messages) >= 0.6 * len(said), quote
