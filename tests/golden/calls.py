"""The calls whose numbers are frozen in golden.json: data, function and parameters of each.

Public interface only. Every parameter of it is spelled here and nowhere else in this folder, so
that a renamed one is renamed in one place. Tables are rounded to six digits, so the calls
start from the same bits on any processor.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd
from lightgbm import LGBMRegressor
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GroupKFold, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import dfi
from dfi import Quadrature, methods
from dfi.transports import Copula, EntropicOT, Gaussian, KnotheRosenblatt


@dataclass(frozen=True)
class Data:
    """A table with its outcome, and labels and weights of its rows."""

    X: Any
    y: Any

    @property
    def sampling(self):
        """Survey weights."""
        return np.round(0.5 + np.random.default_rng(11).random(len(self.y)), 6)

    @property
    def counts(self):
        """Counts of repeated rows, some of them 0."""
        return np.random.default_rng(12).integers(0, 4, len(self.y))

    @property
    def labels(self):
        """Rows that belong together, three or so each."""
        return np.random.default_rng(13).integers(0, len(self.y) // 3, len(self.y))


def correlated(n, d, seed, rho=0.7):
    """Return normal columns that share a factor."""
    rng = np.random.default_rng(seed)
    own, factor = rng.standard_normal((n, d)), rng.standard_normal((n, 1))
    return np.round(np.sqrt(1 - rho) * own + np.sqrt(rho) * factor, 6)


def simulated(sample):
    return Data(np.round(sample.X, 6), np.round(sample.y, 6))


def curved():
    """Interactions and a bend: no closed form."""
    X = correlated(150, 4, seed=1)
    noise = np.random.default_rng(2).standard_normal(150)
    return Data(X, np.round(X[:, 0] * X[:, 1] + np.abs(X[:, 2]) + 0.5 * noise, 6))


def skewed():
    """Lognormal and heavily tied columns."""
    X = correlated(160, 4, seed=3)
    noise = np.random.default_rng(4).standard_normal(160)
    y = X[:, 0] + 0.5 * X[:, 1] + 0.5 * noise
    X = np.column_stack([np.exp(X[:, 0]), X[:, 1] ** 3, X[:, 2], np.maximum(X[:, 3], 0.0)])
    return Data(np.round(X, 6), np.round(y, 6))


def one():
    """A single column."""
    X = correlated(120, 1, seed=14)
    return Data(X, np.round(X[:, 0] + np.random.default_rng(15).standard_normal(120), 6))


def wide():
    """Fewer rows than a plain covariance asks for."""
    X = correlated(60, 12, seed=5, rho=0.5)
    noise = np.random.default_rng(6).standard_normal(60)
    return Data(X, np.round(X[:, 0] + X[:, 1] + noise, 6))


def mixed():
    """Every kind of column: number, integer, boolean, category, one that does not vary."""
    X = correlated(180, 4, seed=7)
    rng = np.random.default_rng(8)
    color = np.array(["blue", "green", "red"])[np.digitize(X[:, 1], [-0.5, 0.5])]
    frame = pd.DataFrame(
        {
            "size": X[:, 0],
            "color": color,
            "count": np.digitize(X[:, 2], [-1.0, 0.0, 1.0]),
            "member": X[:, 3] > 0.2,
            "fixed": 1.0,
        }
    )
    y = X[:, 0] + (color == "red") + 0.3 * frame["count"].to_numpy() + rng.standard_normal(180)
    return Data(frame, np.round(y, 6))


def levels():
    """The columns of the mixed table that vary."""
    data = mixed()
    return Data(data.X.drop(columns="fixed"), data.y)


def binary():
    X = correlated(240, 3, seed=9, rho=0.5)
    noise = np.random.default_rng(10).standard_normal(240)
    return Data(X, (X[:, 0] + 0.5 * X[:, 1] + 0.5 * noise > 0).astype(int))


DATA = {
    "m1": lambda: simulated(dfi.datasets.m1(150, rho=0.8, d=4, random_state=1)),
    "m2": lambda: simulated(dfi.datasets.m2(150, rho=0.6, d=5, random_state=2)),
    "m3": lambda: simulated(dfi.datasets.m3(150, rho=0.6, random_state=3)),
    "m4": lambda: simulated(dfi.datasets.m4(150, d=5, random_state=4)),
    "exponential": lambda: simulated(dfi.datasets.exponential(150, rho=0.5, random_state=5)),
    "curved": curved,
    "skewed": skewed,
    "one": one,
    "wide": wide,
    "mixed": mixed,
    "levels": levels,
    "binary": binary,
}


@dataclass(frozen=True)
class Of:
    """A parameter that is a property of the call's table: its weights or labels."""

    name: str


@dataclass(frozen=True)
class Fitted:
    """A parameter that is a model fitted to the call's table."""

    model: Any


@dataclass(frozen=True)
class Call:
    """One call of the public interface.

    ``tolerance`` is "exact" for closed forms and trees, which keep their last digits on any
    processor, and "iterative" where a search carries a last digit forward
    (docs/reproducibility.md); ``reason`` says which. ``needs`` names a package that may be missing.
    """

    data: str
    function: Literal["explain", "compare", "sensitivity", "fixed"]
    parameters: dict[str, Any] = field(default_factory=dict)
    tolerance: Literal["exact", "iterative"] = "exact"
    reason: str | None = None
    needs: str | None = None


class Chain:
    """A transport of a user: each column less a part of the one before."""

    def fit(self, X):
        self.center, self.scale = X.mean(axis=0), X.std(axis=0)
        return self

    def encode(self, X):
        rows = (X - self.center) / self.scale
        return np.column_stack(
            [rows[:, j] - 0.6 * (rows[:, j - 1] if j else 0.0) for j in range(rows.shape[1])]
        )

    def decode(self, Z):
        rows = np.array(Z, dtype=float)
        for j in range(1, rows.shape[1]):
            rows[:, j] += 0.6 * rows[:, j - 1]
        return self.center + self.scale * rows


def product(X):
    """A function in the place of a fitted model."""
    rows = np.asarray(X, dtype=float)
    return rows[:, 0] * rows[:, 1] + np.abs(rows[:, 2])


def forest():
    return RandomForestRegressor(15, min_samples_leaf=5, random_state=0)


def pipeline():
    """A pipeline on the raw columns of the mixed table."""
    columns = make_column_transformer(
        (OneHotEncoder(), ["color"]), (StandardScaler(), ["size", "count"]),
        remainder="passthrough",
    )  # fmt: skip
    return make_pipeline(columns, Ridge(alpha=1.0))


def lightgbm():
    return LGBMRegressor(
        n_estimators=20, num_leaves=7, min_child_samples=10, random_state=0, n_jobs=1,
        deterministic=True, force_row_wise=True, verbose=-1,
    )  # fmt: skip


PREFIT = {"cv": "prefit"}
NETWORK = {"tolerance": "iterative", "reason": "the networks of the default stack"}
SINKHORN = {"tolerance": "iterative", "reason": "the iterations of Sinkhorn stop at a tolerance"}
VINE = {"needs": "pyvinecopulib"}
LOGISTIC = {"tolerance": "iterative", "reason": "logistic regression stops at a tolerance"}
SAMPLING = {"sample_weight": Of("sampling")}
FREQUENCY = {"frequency_weight": Of("counts")}
FOUR_DRAWS = Quadrature("draws", nodes=4)
HALVES = {"left": [0, 1], "right": [2, 3]}
DEFAULTS = {"cv": 3, "diagnose": False, "random_state": 0}


def explain(data, estimator="linear", **options):
    return described(data, "explain", {"estimator": estimator, **DEFAULTS, **options})


def compare(data, methods, estimator="linear", **options):
    shared = {"methods": methods, "estimator": estimator, "cv": 2, "random_state": 0}
    return described(data, "compare", {**shared, **options})


def sensitivity(data, **options):
    return described(data, "sensitivity", {"estimator": "linear", **DEFAULTS, **options})


def described(data, function, options):
    """Return the call, what is said about it taken out of its parameters."""
    about = {key: options.pop(key, None) for key in ("reason", "needs")}
    return Call(data, function, options, options.pop("tolerance", "exact"), **about)


CALLS = {
    # transports
    "gaussian": explain("m1"),
    "gaussian, checked": explain("m1", diagnose=True),
    "gaussian, wide": explain("wide", "ridge"),
    "gaussian, not standardized": explain("skewed", transport=Gaussian(standardize=False)),
    "bridge": explain("m1", transport=Gaussian(epsilon=0.3)),
    "bridge, boosting": explain("curved", "boosting", cv=2, transport=Gaussian(epsilon=0.3)),
    "shrinkage": explain("wide", "ridge", transport=Gaussian(shrinkage=0.2)),
    "shrinkage, ledoit-wolf": explain("wide", transport=Gaussian(shrinkage="ledoit-wolf")),
    "one component": explain("m2", transport=Gaussian(components=None)),
    "copula": explain("skewed", transport="copula"),
    "copula, shrinkage": explain("skewed", "ridge", transport=Copula(shrinkage=0.1)),
    "copula, function": explain("curved", product, transport="copula", **PREFIT),
    "copula, boosting": explain("exponential", "boosting", cv=2, transport="copula"),
    "semicontinuous": explain("skewed", transport="semicontinuous"),
    "semicontinuous, forest": explain("curved", forest(), transport="semicontinuous"),
    "entropic": explain("m1", transport=EntropicOT(epsilon=2.5), **SINKHORN),
    "entropic, function": explain(
        "curved", product, transport=EntropicOT(epsilon=2.5), **PREFIT, **SINKHORN
    ),
    "entropic, one column": explain("one", transport="entropic", **SINKHORN),
    "knothe-rosenblatt": explain("exponential", transport="knothe-rosenblatt", **VINE),
    "knothe-rosenblatt, order": explain(
        "curved", product, **PREFIT, **VINE,
        transport=KnotheRosenblatt(order=[3, 2, 1, 0], latent="uniform"),
    ),
    "auto transport": explain("skewed", transport="auto"),
    "auto transport, gaussian rows": explain("m1", transport="auto"),
    "custom": explain("m1", transport=Chain()),
    "custom, forest": explain("curved", forest(), transport=Chain(), form="loco"),
    # forms
    "loco": explain("m1", form="loco"),
    "cpi": explain("m1", form="cpi"),
    "loco, boosting": explain("m3", "boosting", form="loco"),
    "cpi, extra trees": explain("m3", "extra_trees", form="cpi", cv=2),
    "loco, copula": explain("skewed", form="loco", transport="copula"),
    "cpi, bridge": explain("m1", form="cpi", transport=Gaussian(epsilon=0.3)),
    "calibrated": explain("m1", Ridge(60.0), form="calibrated"),
    "calibrated, lightgbm": explain("m3", lightgbm(), form="calibrated"),
    "calibrated, mixed": explain("mixed", lightgbm(), form="calibrated"),
    "calibrated, copula": explain("skewed", Ridge(60.0), form="calibrated", transport="copula"),
    "extrapolated": explain("m1", Ridge(60.0), form="extrapolated"),
    "extrapolated, mixed": explain("mixed", Ridge(60.0), form="extrapolated", n_repeats=2),
    # learners
    "ridge": explain("m2", "ridge"),
    "boosting": explain("m3", "boosting", cv=2),
    "forest": explain("m3", "forest", form="loco", cv=2),
    "auto": explain("m1", "auto", cv=2, form="loco", **NETWORK),
    "auto, mixed": explain("mixed", "auto", cv=2, **NETWORK),
    "scikit-learn": explain("m4", LinearRegression()),
    "gradient boosting": explain("m4", GradientBoostingRegressor(n_estimators=20, random_state=0)),
    "polynomial": explain("curved", make_pipeline(PolynomialFeatures(2), Ridge())),
    "pipeline": explain("mixed", pipeline()),
    "classifier": explain("binary", LogisticRegression(), **LOGISTIC),
    "classifier, tree": explain(
        "binary", DecisionTreeClassifier(min_samples_leaf=10, random_state=0)
    ),
    "binary, linear": explain("binary", **LOGISTIC),
    "function": explain("curved", product, **PREFIT),
    "function, cpi": explain("curved", product, form="cpi", **PREFIT),
    "fitted forest": explain("curved", Fitted(forest()), **PREFIT),
    "fitted lightgbm": explain("m3", Fitted(lightgbm()), **PREFIT),
    "lightgbm": explain("m3", lightgbm()),
    # rows
    "sampling weights": explain("m1", **SAMPLING),
    "sampling weights, boosting": explain("m3", "boosting", cv=2, **SAMPLING),
    "sampling weights, copula": explain("skewed", transport="copula", **SAMPLING),
    "frequency weights": explain("m1", **FREQUENCY),
    "frequency weights, forest": explain("curved", forest(), **FREQUENCY),
    "frequency weights, bridge": explain("m1", transport=Gaussian(epsilon=0.3), **FREQUENCY),
    "groups of rows": explain("m1", cv=GroupKFold(3), clusters=Of("labels")),
    "time": explain("m1", cv=TimeSeriesSplit(3)),
    "repeats": explain("m1", n_repeats=2),
    "repeats, lightgbm": explain("m3", lightgbm(), n_repeats=2, cv=2),
    "another seed": explain("m1", random_state=7),
    # columns
    "groups of columns": explain("m1", feature_groups=HALVES),
    "mixed": explain("mixed"),
    "mixed, checked": explain("mixed", lightgbm(), diagnose=True),
    "mixed, boosting": explain("mixed", "boosting", cv=2),
    "mixed, copula": explain("mixed", transport="copula"),
    # standard errors and lines
    "fixed transport": explain("m1", transport_error="ignore"),
    "fixed transport, afterwards": Call("m1", "fixed", {"estimator": "linear", **DEFAULTS}),
    "fixed transport, function": explain("curved", product, transport_error="ignore", **PREFIT),
    "hermite": explain("curved", product, transport_error="derived", **PREFIT),
    "tilt": explain("curved", product, transport_error="finite-difference", **PREFIT),
    "tilt, forest": explain("curved", forest(), transport_error="finite-difference"),
    "draws": explain("curved", product, integration=Quadrature("draws", nodes=8), **PREFIT),
    "gauss": explain("curved", product, integration=Quadrature("gauss", nodes=12), **PREFIT),
    "equal": explain("curved", product, integration=Quadrature("equal", nodes=24), **PREFIT),
    "draws, bridge": explain("m1", transport=Gaussian(epsilon=0.3), integration=FOUR_DRAWS),
    "draws, forest": explain("curved", forest(), integration=FOUR_DRAWS),
    "draws, copula": explain("skewed", transport="copula", integration=FOUR_DRAWS),
    # comparisons
    "compare all": compare("m1", "all"),
    "compare dfi and loco": compare("m2", ["dfi", "loco"], cv=3),
    "compare dfi and nloco": compare(
        "skewed", [methods.Disentangled(transport="copula", form="loco"), "nloco"], "ridge"
    ),
    "compare loco": compare("m3", methods.LOCO(sample_split=True), lightgbm()),
    "compare pfi": compare("curved", "pfi", forest()),
    "compare cpi": compare("curved", methods.CPI(n_permutations=5), forest()),
    "compare dloco": compare("curved", "dloco", lightgbm()),
    "compare shapley": compare("m1", "shapley", "ridge"),
    "compare shapley, permutations": compare(
        "m2", methods.Shapley(exact=False, n_permutations=6), lightgbm()
    ),
    "compare sobol": compare("curved", "sobol", lightgbm()),
    "compare pcm": compare("m1", "pcm"),
    "compare pcm, ridge": compare("m2", "pcm", "ridge"),
    "compare r2": compare("m2", "r2"),
    "compare groups": compare("m1", ["dfi", "loco", "pfi", "shapley"], feature_groups=HALVES),
    "compare weights": compare("m1", ["dfi", "loco", "cpi"], **SAMPLING),
    "compare mixed": compare("mixed", ["dfi", "loco", "cpi"], lightgbm()),
    "compare levels": compare("levels", ["pfi", "sobol"], lightgbm()),
    # sensitivity
    "sensitivity to transports": sensitivity(
        "skewed", transports=["gaussian", "copula", "semicontinuous", "auto"]
    ),
    "sensitivity to epsilon": sensitivity("m1", epsilons=[0.0, 0.1, 1.0]),
    "sensitivity to solved epsilon": sensitivity(
        "m1", epsilons=[0.0, 2.5, 5.0], solved=True, **SINKHORN
    ),
}  # fmt: skip


def run(name: str) -> dict[str, Any]:
    """Make a call; return its results by key, ``"dfi"`` where there is one only."""
    call = CALLS[name]
    data = DATA[call.data]()
    with warnings.catch_warnings():  # what is said has tests of its own
        warnings.simplefilter("ignore")
        options = {key: bound(value, data) for key, value in call.parameters.items()}
        if call.function == "compare":
            return dict(dfi.compare(data.X, data.y, **options).results)
        if call.function == "sensitivity":
            found = dfi.sensitivity(data.X, data.y, **options)
            return dict(found)
        if call.function == "fixed":
            return {"dfi": dfi.DFI(**options).fit(data.X, data.y).with_fixed_transport()}
        result = dfi.explain(data.X, data.y, **options)
        if options.get("feature_groups") is not None:
            return {"dfi": result, "groups": result.group()}
        return {"dfi": result}


def bound(value: Any, data: Data) -> Any:
    """Return a parameter as this call needs it."""
    if isinstance(value, Of):
        return getattr(data, value.name)
    if isinstance(value, Fitted):
        return clone(value.model).fit(data.X, data.y)
    return value
