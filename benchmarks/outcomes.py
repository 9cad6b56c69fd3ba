"""DFI beside permutation importance and SHAP on public tables: the tables of docs/outcomes.md.

One LightGBM (200 trees, rate .05, categories as codes; a forest for the digits) is fitted on two
thirds of the rows. Permutation importance is that of scikit-learn on the other third, as a share of
what the model explains there; SHAP is the mean absolute value of ``shap.TreeExplainer``, summed over
classes, as a share of its sum. Prints a table and one line of what else is told for each.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import shap
from lightgbm import LGBMClassifier
from palmerpenguins import load_penguins
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.inspection import permutation_importance
from sklearn.model_selection import train_test_split

import dfi

Table = tuple[pd.DataFrame, pd.Series]


def penguins() -> Table:
    table = load_penguins()
    return table.drop(columns="species"), table["species"]


def wine() -> Table:
    found = load_wine(as_frame=True)
    return found.data, found.target.map({0: "Barolo", 1: "Grignolino", 2: "Barbera"})


def breast_cancer() -> Table:
    found = load_breast_cancer(as_frame=True)
    return found.data, found.target


def digits() -> Table:
    found = load_digits(as_frame=True)
    chosen = found.frame.sample(600, random_state=0).reset_index(drop=True)
    return chosen.drop(columns="target"), chosen["target"].astype(str)


TABLES: dict[str, tuple[Callable[[], Table], int, int]] = {
    "penguins": (penguins, 7, 10),
    "wine": (wine, 6, 10),
    "breast-cancer": (breast_cancer, 6, 10),
    "digits": (digits, 6, 3),
}
"""By name: the table, rows to show, repeats of a permutation."""


def forest() -> RandomForestClassifier:
    return RandomForestClassifier(100, min_samples_leaf=2, random_state=0)


def coded(X: pd.DataFrame) -> pd.DataFrame:
    """Return categories as codes, which is what a LightGBM and permutations are given."""
    codes = {
        name: column.astype("category").cat.codes
        for name, column in X.items()
        if column.dtype.kind not in "fiub"
    }
    return X.assign(**codes)


def brier(model: Any, X: pd.DataFrame, y: pd.Series) -> float:
    """Return minus the Brier score, summed over classes where they are three or more."""
    probabilities = model.predict_proba(X)
    truth = np.asarray(y)[:, None] == model.classes_
    total = np.mean(np.sum((probabilities - truth) ** 2, axis=1))
    return -float(total if len(model.classes_) > 2 else total / 2)


def peers(X: pd.DataFrame, y: pd.Series, model: Any, repeats: int) -> tuple[pd.Series, pd.Series]:
    """Return the shares of permutation importance and of SHAP."""
    numbers = coded(X)
    fitted, held, y_fitted, y_held = train_test_split(
        numbers, y, test_size=1 / 3, random_state=0, stratify=y
    )
    model.fit(fitted, y_fitted)
    shares = y_fitted.value_counts(normalize=True)[model.classes_].to_numpy()
    truth = np.asarray(y_held)[:, None] == model.classes_
    null = float(np.mean(np.sum((shares - truth) ** 2, axis=1)))
    null = null if len(shares) > 2 else null / 2
    explained = null + brier(model, held, y_held)
    permuted = permutation_importance(
        model, held, y_held, scoring=brier, n_repeats=repeats, random_state=0
    )
    values = np.abs(np.asarray(shap.TreeExplainer(model).shap_values(held)))
    axes = tuple(axis for axis, size in enumerate(values.shape) if size != X.shape[1])
    mean = values.mean(axis=axes)
    return (
        pd.Series(permuted.importances_mean / explained, X.columns),
        pd.Series(mean / mean.sum(), X.columns),
    )


def main() -> None:
    warnings.simplefilter("ignore")
    warm, y = wine()
    dfi.explain(warm.iloc[:, :3], y)  # kernels are compiled
    for name in sys.argv[1:] or TABLES:
        read, shown, repeats = TABLES[name]
        X, y = read()
        own = forest() if name == "digits" else None
        start = time.process_time()
        result = dfi.explain(X, y, *([] if own is None else [own]))
        seconds = time.process_time() - start
        light = LGBMClassifier(
            n_estimators=200, learning_rate=0.05, random_state=0, n_jobs=1, verbose=-1
        )
        permuted, credited = peers(X, y, light if own is None else own, repeats)
        table = result.shares().sort_values("share", ascending=False, kind="stable")
        digits_ = 3 if table["share"].iloc[0] < 0.1 else 2
        print("| | DFI | permutation | SHAP |\n|---|---|---|---|")
        for _, row in table.head(shown).iterrows():
            cells = [row["share"], row["ci_low"], row["ci_high"]]
            cells += [permuted[row["feature"]], credited[row["feature"]]]
            share, low, high, first, second = (short(cell, digits_) for cell in cells)
            print(f"| {row['feature']} | {share} ({low} to {high}) | {first} | {second} |")
        quality, overlap = result.quality, result.overlap
        told = f"{len(X)} rows, {X.shape[1]} columns; Brier skill {short(quality.skill, 3)}"
        told += "" if quality.auc is None else f", AUC {short(quality.auc, 3)}"
        print(f"{name}: {told}; {seconds:.0f} CPU s; scores add up to {overlap.value:.2f} "
              f"({overlap.ci_low:.2f} to {overlap.ci_high:.2f}) times what is explained\n",
              flush=True)  # fmt: skip


def short(value: float, digits: int) -> str:
    """Return a number without the 0 before its point."""
    return f"{value + 0.0:.{digits}f}".replace("-0.", "-.").removeprefix("0")


if __name__ == "__main__":
    main()
