"""Tables of a few thousand rows that count as large, and what two results have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from dfi._data import source

if TYPE_CHECKING:
    from collections.abc import Callable

    from dfi import Importance

N = 3000
GROUPS = {"numbers": ["a", "b"], "others": ["c", "few"], "both": ["a", "c"]}


@pytest.fixture(autouse=True)
def _few_rows_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "LARGE_ROWS", 500)


@pytest.fixture(scope="session")
def frame() -> pd.DataFrame:
    """Numbers, integers, categories with a level that never occurs, few values, missing values."""
    rng = np.random.default_rng(7)
    common = rng.normal(size=N)
    a = common + 0.5 * rng.normal(size=N)
    b = rng.integers(0, 7, N)
    c = pd.Categorical(rng.choice(list("xyz"), N, p=[0.5, 0.3, 0.2]), categories=list("zyxw"))
    few = rng.choice([0.5, 0.25, 0.125], N)
    y = a + 0.3 * b + (c == "x") * common + rng.normal(size=N)
    table = pd.DataFrame({"a": a, "b": b, "c": c, "few": few, "flag": common > 0.4, "k": 1.0})
    table.loc[rng.random(N) < 0.1, "a"] = np.nan
    table["y"] = y
    table["w"] = rng.uniform(0.5, 2.0, N) * (rng.random(N) > 0.1)
    return table


@pytest.fixture(scope="session")
def numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """The same without categories, missing values and weights; 0 is a value of many rows."""
    table = frame[["a", "b", "few", "y"]].copy()
    table["a"] = table["a"].fillna(0.0)
    return table


@pytest.fixture(scope="session")
def same() -> Callable[..., None]:
    """Compare scores, errors, their covariance, and the skewness of named groups."""

    def compare(
        one: Importance, other: Importance, groups: dict[str, list[str]] | None = None
    ) -> None:
        assert one.names == other.names
        assert one.spec["n_rows"] == other.spec["n_rows"]
        assert one.spec.get("explained_rows") == other.spec.get("explained_rows")
        pairs = [(one, other)]
        if groups is not None:
            pairs.append((one.group(groups), other.group(groups)))
        for first, second in pairs:
            size = np.nanmax(np.abs(first.scores))
            assert first.scores == pytest.approx(second.scores, abs=1e-10 * size)
            assert first.se == pytest.approx(second.se, abs=1e-10 * size, nan_ok=True)
            assert first.skewness == pytest.approx(second.skewness, abs=1e-9, nan_ok=True)
            assert first.basis.covariance == pytest.approx(
                second.basis.covariance, abs=1e-10 * size**2, nan_ok=True
            )

    return compare
