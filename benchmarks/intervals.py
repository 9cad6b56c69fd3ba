"""Nominal 90 % intervals of every package that prints one, each against its own truth.

Five columns with correlations .6^|i-j| and variance 1. Two laws, ``y = mean + noise`` of variance 1:
*linear*, mean ``x0 + x1/2 + x3/2``, and *product*, mean ``x0 + x1/2 + x0 x3/2``. Both are linear in
each column, so that every truth has a formula: :func:`truths_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

import dfi

D, CONFIDENCE = 5, 0.9
CELLS = ("linear law, least squares", "product law, quadratic", "product law, boosting")
Interval = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Law:
    """Slopes ``b`` and products ``A`` (symmetric, diagonal 0): mean ``b'x + x'Ax/2``."""

    slopes: np.ndarray
    products: np.ndarray

    @property
    def correlations(self) -> np.ndarray:
        places = np.arange(D)
        return 0.6 ** np.abs(places[:, None] - places)

    def mean(self, X: np.ndarray) -> np.ndarray:
        return X @ self.slopes + 0.5 * np.einsum("ij,jk,ik->i", X, self.products, X)

    def draw(self, seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        X = rng.multivariate_normal(np.zeros(D), self.correlations, size=n)
        return X, self.mean(X) + rng.standard_normal(n)


def law_of(cell: str) -> Law:
    products = np.zeros((D, D))
    if cell.startswith("linear"):
        return Law(np.array([1.0, 0.5, 0.0, 0.5, 0.0]), products)
    products[0, 3] = products[3, 0] = 0.5
    return Law(np.array([1.0, 0.5, 0.0, 0.0, 0.0]), products)


def truths_of(law: Law) -> dict[str, np.ndarray]:
    r"""Return what each kind of interval should cover.

    With :math:`x = Lz`, :math:`L = R^{1/2}`, :math:`c = Lb`, :math:`M = LAL`, latent coordinate
    ``j`` has the total effect :math:`c_j^2 + \sum_{k \ne j} M_{jk}^2 + M_{jj}^2/2` and the Shapley
    effect with half of the pairs; columns get :math:`L^2` of them. Given the others, column ``j``
    has variance :math:`1/(R^{-1})_{jj}` and slope :math:`b_j + (Ax)_j`.
    """
    R = law.correlations
    values, vectors = np.linalg.eigh(R)
    L = vectors * np.sqrt(values) @ vectors.T
    c, M = L @ law.slopes, L @ law.products @ L
    own, pairs = c**2 + 0.5 * np.diag(M) ** 2, (M**2).sum(axis=1) - np.diag(M) ** 2
    shapley = L**2 @ (own + 0.5 * pairs)
    squares = law.slopes**2 + np.einsum("jk,kl,jl->j", law.products, R, law.products)
    conditional = squares / np.diag(np.linalg.inv(R))
    return {
        "score": L**2 @ (own + pairs),
        "share": shapley / shapley.sum(),
        "lost": conditional,
        "lost R2": conditional / (shapley.sum() + 1.0),
        "coefficient": law.slopes,
    }


def learner_of(cell: str) -> Any:
    if cell.endswith("least squares"):
        return LinearRegression()
    if cell.endswith("quadratic"):
        return make_pipeline(PolynomialFeatures(2, include_bias=False), LinearRegression())
    from lightgbm import LGBMRegressor

    return LGBMRegressor(
        n_estimators=200, learning_rate=0.05, max_depth=3, num_leaves=8, n_jobs=1, verbose=-1
    )


def intervals_of(cell: str, seed: int, n: int = 500) -> dict[str, list[bool]]:
    """Return which intervals hold their own truth, for each package that is installed."""
    law = law_of(cell)
    X, y = law.draw(seed, n)
    truths, held = truths_of(law), {}
    for name, (kind, call) in PACKAGES.items():
        if name == DEFAULT and not cell.endswith("boosting"):
            continue
        try:
            low, high = call(X, y, learner_of(cell), seed)
        except ImportError:
            continue
        inside = (low <= truths[kind] + 1e-12) & (truths[kind] <= high + 1e-12)
        held[name] = [bool(each) for each in inside]
    return held


def _read(table: Any) -> Interval:
    return np.asarray(table["ci_low"], dtype=float), np.asarray(table["ci_high"], dtype=float)


def _normal(estimate: np.ndarray, error: np.ndarray) -> Interval:
    reach = stats.norm.ppf(0.5 + CONFIDENCE / 2) * error
    return estimate - reach, estimate + reach


def dfi_scores(X: np.ndarray, y: np.ndarray, learner: Any, seed: int) -> Interval:
    return _read(dfi.explain(X, y, learner, random_state=seed).interval(CONFIDENCE))


def dfi_shares(X: np.ndarray, y: np.ndarray, learner: Any, seed: int) -> Interval:
    return _read(dfi.explain(X, y, learner, random_state=seed).shares(level=CONFIDENCE))


def dfi_default(X: np.ndarray, y: np.ndarray, _: Any, seed: int) -> Interval:
    return dfi_shares(X, y, "auto", seed)


def dfi_loco(X: np.ndarray, y: np.ndarray, learner: Any, seed: int) -> Interval:
    found = dfi.compare(X, y, ["loco"], estimator=learner, random_state=seed)
    return _read(found["loco"].interval(CONFIDENCE))


def dfi_cpi(X: np.ndarray, y: np.ndarray, learner: Any, seed: int) -> Interval:
    method = dfi.methods.CPI(covariate_estimator=LinearRegression())
    found = dfi.compare(X, y, [method], estimator=learner, random_state=seed)
    return _read(found["cpi"].interval(CONFIDENCE))


def plain_loco(X: np.ndarray, y: np.ndarray, learner: Any, seed: int) -> Interval:
    """Double machine learning in ten lines: cross-fitted losses with and without a column."""
    folds = KFold(5, shuffle=True, random_state=seed)

    def losses(columns: np.ndarray) -> np.ndarray:
        return (y - cross_val_predict(clone(learner), X[:, columns], y, cv=folds)) ** 2

    columns = np.arange(D)
    full = losses(columns)
    lost = np.array([losses(columns[columns != j]) - full for j in columns])
    return _normal(lost.mean(axis=1), lost.std(axis=1, ddof=1) / np.sqrt(len(y)))


def doubleml_slopes(X: np.ndarray, y: np.ndarray, learner: Any, seed: int) -> Interval:
    """Partially linear regression of y on each column given the others, by DoubleML."""
    import doubleml

    low, high = np.empty(D), np.empty(D)
    for j in range(D):
        np.random.seed(seed)  # noqa: NPY002
        data = doubleml.DoubleMLData.from_arrays(np.delete(X, j, axis=1), y, X[:, j])
        model = doubleml.DoubleMLPLR(data, clone(learner), clone(learner), n_folds=5).fit()
        low[j], high[j] = model.confint(level=CONFIDENCE).to_numpy()[0]
    return low, high


def fdfi_scores(X: np.ndarray, y: np.ndarray, learner: Any, seed: int) -> Interval:
    """Model and transport from one half of the rows, the other half explained with outcomes."""
    return _fdfi(X, y, learner, seed, outcomes=True)


def fdfi_example(X: np.ndarray, y: np.ndarray, learner: Any, seed: int) -> Interval:
    """The same, called as its example does: without outcomes."""
    return _fdfi(X, y, learner, seed, outcomes=False)


def _fdfi(X: np.ndarray, y: np.ndarray, learner: Any, seed: int, *, outcomes: bool) -> Interval:
    from fdfi.explainers import OTExplainer

    half = len(y) // 2
    model = clone(learner).fit(X[:half], y[:half])
    explainer = OTExplainer(model.predict, X[:half], random_state=seed, compute_diagnostics=False)
    explainer(X[half:], y[half:] if outcomes else None)
    found = explainer.conf_int(alpha=1 - CONFIDENCE)
    return np.asarray(found["ci_lower"]), np.asarray(found["ci_upper"])


def hidimstat_slopes(X: np.ndarray, y: np.ndarray, _: Any, seed: int) -> Interval:
    """The only interval that hidimstat prints: coefficients of the desparsified lasso."""
    from hidimstat import DesparsifiedLasso

    found = DesparsifiedLasso(confidence=CONFIDENCE, random_state=seed)
    found.fit(X, y)
    found.importance(X, y)
    return np.ravel(found.confidence_bound_min_), np.ravel(found.confidence_bound_max_)


def vimpy_lost(X: np.ndarray, y: np.ndarray, learner: Any, seed: int) -> Interval:
    import vimpy

    low, high = np.empty(D), np.empty(D)
    for j in range(D):
        np.random.seed(seed)  # noqa: NPY002
        found = vimpy.vim(y=y, x=X, s=j, pred_func=clone(learner), measure_type="r_squared")
        found.get_point_est()
        found.get_influence_function()
        found.get_se()
        found.get_ci(level=CONFIDENCE)
        low[j], high[j] = np.ravel(found.ci_)
    return low, high


DEFAULT = "dfi, shares, default learner"
Call = Callable[[np.ndarray, np.ndarray, Any, int], Interval]
PACKAGES: dict[str, tuple[str, Call]] = {
    "dfi, scores": ("score", dfi_scores),
    "dfi, shares": ("share", dfi_shares),
    DEFAULT: ("share", dfi_default),
    "fdfi, with outcomes": ("score", fdfi_scores),
    "fdfi, as in its example": ("score", fdfi_example),
    "dfi, loco": ("lost", dfi_loco),
    "dfi, cpi": ("lost", dfi_cpi),
    "LOCO by double machine learning": ("lost", plain_loco),
    "vimpy, R2 lost": ("lost R2", vimpy_lost),
    "DoubleML, slope": ("coefficient", doubleml_slopes),
    "hidimstat, slope": ("coefficient", hidimstat_slopes),
}
"""Each with what it estimates, a name of :func:`truths_of`."""


def table_of_intervals(known: Mapping[str, Any]) -> list[str]:
    """Return coverage by package and law: of columns with a truth above 0, and of nulls."""
    cells = [cell for cell in CELLS if known.get(cell)]
    if not cells:
        return ["(no samples yet)"]
    heads = [f"{cell} ({len(known[cell])})" for cell in cells]
    lines = ["| interval | " + " | ".join(heads) + " |", "|---" * (len(cells) + 1) + "|"]
    for name, (kind, _) in PACKAGES.items():
        shown = []
        for cell in cells:
            samples = [one[name] for one in known[cell].values() if name in one]
            null = np.abs(truths_of(law_of(cell))[kind]) < 1e-12
            shown.append(_coverage(np.array(samples, dtype=float), null) if samples else "")
        if any(shown):
            lines.append(f"| {name} | " + " | ".join(shown) + " |")
    return lines


def _coverage(held: np.ndarray, null: np.ndarray) -> str:
    """Return coverage with its Monte-Carlo error over samples; nulls behind a semicolon."""
    parts = []
    for columns in (~null, null):
        if columns.any():
            each = held[:, columns].mean(axis=1)
            error = each.std(ddof=1) / np.sqrt(len(each)) if len(each) > 1 else np.nan
            parts.append(f"{each.mean():.2f} ({error:.2f})")
    return "; nulls ".join(parts)
