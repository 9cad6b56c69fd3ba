"""What the diagnostics say about the columns, and how it reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

import dfi
from dfi.report.summary import diagnostic_sentences

if TYPE_CHECKING:
    from dfi.results.importance import Importance

N = 150
GENERATOR = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "a": GENERATOR.standard_normal(N),
        "colour": GENERATOR.choice(["red", "green", "blue"], N),
        "shape": GENERATOR.choice(["round", "square", "flat", "long"], N),
    }
)
Y = TABLE["a"] + (TABLE["colour"] == "red") + GENERATOR.standard_normal(N)


def explained(table: pd.DataFrame, **options: object) -> Importance:
    return dfi.explain(table, Y, "linear", **{"diagnose": False, **options})


def says_collinear(result: Importance) -> bool:
    return any("collinear" in note["text"] for note in diagnostic_sentences(result))


@pytest.mark.parametrize("transport", ["gaussian", "copula", dfi.transports.Gaussian(epsilon=0.5)])
def test_the_levels_of_a_category_are_no_collinear_columns(transport: object) -> None:
    result = explained(TABLE, transport=transport)
    # as blocks, levels leave nothing open that would have to be drawn
    assert result.diagnostics["random_kernel"] == (transport != "gaussian")
    assert not result.diagnostics["collinear_units"]
    assert not says_collinear(result)


DUPLICATES = {
    "a number": TABLE["a"] * 3 - 1,
    "a flag of a level": (TABLE["colour"] == "red").astype(float),
    "a coarser category": TABLE["shape"].replace({"flat": "round"}),
    "the same category": TABLE["colour"].replace({"red": "rot"}),
}


@pytest.mark.parametrize("name", DUPLICATES)
def test_columns_of_different_features_are(name: str) -> None:
    result = explained(TABLE.assign(again=DUPLICATES[name]))
    assert result.diagnostics["collinear_units"]
    assert says_collinear(result)


def test_the_most_dependent_latent_coordinates_have_names() -> None:
    table = TABLE.assign(square=TABLE["a"] ** 2)
    result = explained(table, diagnose=True)
    assert {"a", "square"} in map(set, result.diagnostics["latent"]["pairs"])
    assert any("square" in finding.about for finding in result.findings)


def test_a_contrast_is_one_short_line() -> None:
    contrast = explained(TABLE).contrast("a", "shape")
    assert repr(contrast).startswith(f"Contrast(difference {contrast.difference:.4g}, se ")
    assert len(repr(contrast)) < 100
