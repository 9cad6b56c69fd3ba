"""Noise is the first test: real tables with planted noise units, every learner.

Each table gets three units that carry nothing by construction: a column of N(0, 1), a category of
20 random labels and a permuted copy of a column that matters. No learner, fitted here or given, may
call one of them signal. The tables are public (ISLR) and lie outside the repository; set DFI_DATA
to the folder that holds ``tables/``.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from catboost import CatBoostRegressor
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from xgboost import XGBRegressor

import dfi
from dfi._data import source

FOLDER = Path(os.environ.get("DFI_DATA", "")) / "tables"
pytestmark = pytest.mark.skipif(
    not os.environ.get("DFI_DATA") or not FOLDER.is_dir(),
    reason="set DFI_DATA to the folder that holds tables/ to try the real tables",
)

PLANTED = ("planted_normal", "planted_labels", "planted_copy")
SHARE = 0.01
"""No planted unit may exceed this share of the outcome's variance."""


@dataclass(frozen=True)
class RealTable:
    """A public table: its outcome, what is left out, and the column whose copy is planted."""

    outcome: str
    strongest: str
    left_out: tuple[str, ...] = ()


TABLES = {
    "Bikeshare": RealTable("bikers", "hr", ("casual", "registered")),
    "Wage": RealTable("wage", "education", ("logwage", "region")),
    "Hitters": RealTable("Salary", "CRuns"),
    "Credit": RealTable("Balance", "Rating", ("ID",)),
    "College": RealTable("Grad.Rate", "Outstate"),
}

CELLS = [
    # one size of each table is enough in full runs, and College, the quickest, in short ones
    pytest.param(name, n, marks=pytest.mark.slow)
    if n in slower
    else pytest.param(name, n, marks=[] if name == "College" else pytest.mark.full)
    for name, sizes, slower in (
        ("Bikeshare", (500, 1000), (500,)),
        ("Wage", (500, 1000), (500,)),
        ("Hitters", (263,), ()),
        ("Credit", (400,), ()),
        ("College", (500, 777), (777,)),
    )
    for n in sizes
]

LEARNERS = {
    "linear": LinearRegression,
    "boosting": lambda: HistGradientBoostingRegressor(
        max_iter=60, min_samples_leaf=10, random_state=0
    ),
    "forest": lambda: RandomForestRegressor(40, min_samples_leaf=3, random_state=0),
    "lightgbm": lambda: LGBMRegressor(
        n_estimators=60, num_leaves=15, min_child_samples=10, verbose=-1, n_jobs=1, random_state=0
    ),
    "xgboost": lambda: XGBRegressor(
        n_estimators=60, max_depth=4, learning_rate=0.1, n_jobs=1, random_state=0
    ),
    "catboost": lambda: CatBoostRegressor(
        iterations=150,
        depth=6,
        learning_rate=0.1,
        thread_count=1,
        verbose=False,
        allow_writing_files=False,
        random_seed=0,
    ),
}
TREES = tuple(name for name in LEARNERS if name != "linear")


@cache
def complete_rows(name: str) -> pd.DataFrame:
    table = pd.read_csv(FOLDER / f"{name}.csv").dropna()
    return table.drop(columns=list(TABLES[name].left_out)).reset_index(drop=True)


def planted_table(name: str, n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return ``n`` rows of a table with the three noise units, and the outcome."""
    described = TABLES[name]
    random = np.random.default_rng([seed, n, sum(map(ord, name))])
    rows = complete_rows(name)
    rows = rows.iloc[random.permutation(len(rows))[:n]].reset_index(drop=True)
    y = rows.pop(described.outcome).to_numpy(dtype=float)
    rows["planted_normal"] = random.standard_normal(len(rows))
    rows["planted_labels"] = random.choice([f"label {k:02d}" for k in range(20)], len(rows))
    rows["planted_copy"] = rows[described.strongest].to_numpy()[random.permutation(len(rows))]
    return rows, y


def numeric(X: pd.DataFrame) -> pd.DataFrame:
    """Return the table as people code it for a model that takes numbers: a number per level."""
    return X.apply(
        lambda column: (
            column if pd.api.types.is_numeric_dtype(column) else column.astype("category").cat.codes
        )
    )


def explain(
    name: str, n: int, learner: str, seed: int, *, prefit: bool, split: int | None = None
) -> dfi.Importance:
    X, y = planted_table(name, n, seed)
    model = LEARNERS[learner]()
    with warnings.catch_warnings():
        # a weak model or a doubtful transport may be said: what counts here are the scores
        warnings.simplefilter("ignore", dfi.warnings.DFIWarning)
        if not prefit:
            split = seed if split is None else split
            return dfi.explain(X, y, model, random_state=split, diagnose=False, progress=False)
        coded, half = numeric(X), len(X) // 2
        model.fit(coded.iloc[:half], y[:half])
        return dfi.explain(
            coded.iloc[half:], y[half:], model, cv="prefit", diagnose=False, progress=False
        )


def planted(result: dfi.Importance) -> tuple[np.ndarray, np.ndarray]:
    """Return adjusted p-values of the planted units, and their shares of the variance.

    A share is the score less one standard error: where learner and rows are few, an unbiased score
    of nothing varies by more than a hundredth of the variance.
    """
    tested = result.test(alternative="greater", adjust="holm").set_index("feature")
    place = [result.names.index(unit) for unit in PLANTED]
    share = (result.scores - result.se)[place] / result.quality.outcome_variance
    return tested.loc[list(PLANTED), "p_adj"].to_numpy(), share


def smallest_p(name: str, n: int, learner: str, *, prefit: bool) -> float:
    """Return the smallest p-value of a planted unit; of three splits where the first calls it.

    The learners share the rows, the noise and the split, so one unlucky split is met by all of
    them: on College (777 rows) four learners call the planted normal column, alone in its
    component, on the first split (boosting p = .02, then .67 and .18). Of 12 tables with 3 splits
    each linear models call none. Twice the median of p-values is a p-value (Meinshausen, Meier
    and Buehlmann, 2009).
    """
    first, share = planted(explain(name, n, learner, 0, prefit=prefit))
    assert share.max() < SHARE, (learner, prefit, share)
    if prefit or first.min() >= 0.05:
        return float(first.min())
    others = [planted(explain(name, n, learner, 0, prefit=False, split=k))[0] for k in (1, 2)]
    return float(2 * np.median([p.min() for p in (first, *others)]))


@pytest.mark.full
@pytest.mark.timeout(1500)
@pytest.mark.parametrize(("name", "n"), CELLS)
def test_planted_units_are_not_called_signal(name, n):
    """At most one of the twelve cells of a table; 5 % of them give two in an eighth of tables."""
    cells = [(learner, prefit) for learner in LEARNERS for prefit in (False, True)]
    p = {cell: smallest_p(name, n, cell[0], prefit=cell[1]) for cell in cells}
    assert sum(value < 0.05 for value in p.values()) <= 1, p


@pytest.mark.timeout(1500)
@pytest.mark.parametrize(
    ("name", "n"), [pytest.param("Wage", 1000, marks=pytest.mark.slow), ("Credit", 400)]
)
@pytest.mark.full
def test_planted_units_are_not_called_signal_in_large_tables(name, n, monkeypatch):
    """The same where a table counts as large: moments, laws in cells, samples by places."""
    monkeypatch.setattr(source, "LARGE_ROWS", 150)
    p = {learner: smallest_p(name, n, learner, prefit=False) for learner in LEARNERS}
    assert sum(value < 0.05 for value in p.values()) <= 1, p


# classes -----------------------------------------------------------------------------------------

NOISE = ("planted_normal", "planted_labels")


def class_table(name: str, n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table with two noise units and an outcome of two or three classes.

    Wage: the health of a worker; College: private or not; Bikeshare: few, some or many riders.
    """
    random = np.random.default_rng([seed, n, sum(map(ord, name)), 15])
    rows = complete_rows(name)
    rows = rows.iloc[random.permutation(len(rows))[:n]].reset_index(drop=True)
    if name == "Bikeshare":
        y = pd.qcut(rows.pop("bikers"), 3, labels=["few", "some", "many"]).astype(str)
    else:
        y = rows.pop({"Wage": "health", "College": "Private"}[name]).astype(str)
    rows["planted_normal"] = random.standard_normal(n)
    rows["planted_labels"] = random.choice([f"label {k:02d}" for k in range(20)], n)
    return rows, y.to_numpy()


CLASSIFIERS = {
    "default": lambda: "auto",
    "boosting": lambda: "boosting",
    "logistic": lambda: make_pipeline(
        make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
            remainder=StandardScaler(),
        ),
        LogisticRegression(max_iter=500),
    ),
    "lightgbm": lambda: LGBMClassifier(
        n_estimators=30, num_leaves=7, min_child_samples=10, verbose=-1, n_jobs=1, random_state=0
    ),
}


@pytest.mark.timeout(1500)
@pytest.mark.parametrize(
    ("name", "n", "loss", "learners"),
    [
        ("Wage", 600, "brier", ("boosting", "logistic", "lightgbm")),
        ("College", 500, "log-loss", ("boosting", "logistic", "lightgbm")),
        ("College", 250, "brier", ("default",)),
        ("Bikeshare", 300, "log-loss", ("lightgbm",)),
    ],
)
@pytest.mark.full
def test_planted_units_are_not_called_signal_of_classes(name, n, loss, learners):
    """At most one of the cells of a table, as above.

    Most of the variance of a class is chance, so the share which a planted unit may have of
    it is not bounded here: LightGBM on Wage gave the normal column .006 on average of 20 tables,
    and none of them called it.
    """
    p = {}
    for learner in learners:
        X, y = class_table(name, n, 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dfi.warnings.DFIWarning)
            result = dfi.explain(
                X,
                y,
                CLASSIFIERS[learner](),
                loss=loss,
                cv=3,
                n_repeats=1,
                diagnose=False,
                progress=False,
            )
        tested = result.test(alternative="greater", adjust="holm").set_index("feature")
        p[learner] = tested.loc[list(NOISE), "p_adj"].min()
    assert sum(value < 0.05 for value in p.values()) <= 1, p


def apart(results: list[dfi.Importance], distance: float) -> list[str]:
    """Return the real columns whose scores lie so many SE from the libraries' median."""
    scores = np.stack([result.scores for result in results])
    errors = np.nanmax([result.se for result in results], axis=0)
    far = (np.abs(scores - np.median(scores, axis=0)) > distance * errors).any(axis=0)
    names = results[0].names
    return [name for name, is_far in zip(names, far, strict=True) if is_far and name not in PLANTED]


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_fitted_tree_libraries_agree_on_the_real_columns():
    results = [explain("College", 777, learner, 0, prefit=False) for learner in TREES]
    assert not apart(results, 2.0)


@pytest.mark.full
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("name", ["Bikeshare", "Wage"])
def test_boosting_of_five_libraries_agrees_on_the_real_columns(name):
    """Splits between levels, not at them: XGBoost's and LightGBM's scores were up to 12 SE off.

    Bikeshare's weekday is 3.1 SE from the median in one: it interacts with the hour, and the
    libraries do not learn as much of that from 1,900 rows.
    """
    X, y = planted_table(name, 2900, 0)
    coded = numeric(X)
    boosters = [LEARNERS[learner]() for learner in TREES if learner != "forest"]
    boosters.append(GradientBoostingRegressor(n_estimators=60, max_depth=4, random_state=0))
    results = []
    for model in boosters:
        model.fit(coded.iloc[1000:], y[1000:])
        # in this form what a library learned of noise is in the errors of its scores
        options = {"cv": "prefit", "form": "loco", "diagnose": False}
        results.append(dfi.explain(coded.iloc[:1000], y[:1000], model, **options))
    assert set(apart(results, 2.0)) <= {"weekday"}


@pytest.mark.slow
@pytest.mark.parametrize("prefit", [False, True], ids=["fitted", "given"])
@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize(("name", "n"), CELLS)
def test_false_discoveries_are_rare(name, n, learner, prefit):
    """Significant at Holm's 5 % in at most 5 % of 40 seeds (MC error .034), none above 1 %."""
    seeds, found, largest = 40, 0, 0.0
    for seed in range(1, seeds + 1):
        p, share = planted(explain(name, n, learner, seed, prefit=prefit))
        found += bool((p < 0.05).any())
        largest = max(largest, float(share.max()))
    assert found <= 0.05 * seeds + 2 * np.sqrt(0.05 * 0.95 * seeds)
    assert largest < SHARE
