"""The models of the coverage study, and their true scores.

No setting of the library was chosen on them. A model draws a table and an outcome and knows its
regression :math:`\\mu(x) = E[y \\mid x]`, missing values of ``x`` included. Its truth is the library's
own estimand in the population, the attributed scores of the default transport:

* Gaussian columns: ``x = L z`` with ``L`` the symmetric root of their correlation matrix ``R``,
  ``phi_Zj = E Var(mu(L z) | z_-j)`` and ``phi_X = (L * L) phi_Z``; by integration along lines over a
  scrambled Sobol sequence (:func:`line_truth`), or in closed form where one is written down.
* any other table: the library itself with the true regression and no noise on many rows
  (:func:`table_truth`). A linear map takes rows of skewed columns off their support, and the
  estimand asks for the regression there: regressions here are constant beyond the edge.

Models that are ``held_back`` are not looked at while anything is tuned; they are run once.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

import dfi

Table = np.ndarray | pd.DataFrame
SIZES = (250, 500, 1000)


@dataclass(frozen=True)
class Sample:
    """A table, its outcome, and the regression at its rows."""

    X: Table
    y: np.ndarray
    mean: np.ndarray


@dataclass(frozen=True)
class Model:
    """A law of tables and outcomes.

    Attributes
    ----------
    name : str
        A short name, for the command line and the tables.
    words : str
        The model in one line.
    features : tuple of str
        Names of the columns, as the result has them.
    nulls : tuple of str
        Those with a score of 0: independent of every column that matters.
    draw : callable
        ``(n, generator)`` to a :class:`Sample`.
    regression : callable
        The true regression, a function of the table.
    truth : callable
        ``()`` to attributed scores of all features and their Monte-Carlo errors.
    sizes : tuple of int
        Rows of a sample.
    held_back : bool
        Whether it is run only once, at the end.
    """

    name: str
    words: str
    features: tuple[str, ...]
    nulls: tuple[str, ...]
    draw: Callable[[int, np.random.Generator], Sample]
    regression: Callable[[Any], np.ndarray]
    truth: Callable[[], tuple[np.ndarray, np.ndarray]]
    sizes: tuple[int, ...] = SIZES
    held_back: bool = False

    @property
    def non_null(self) -> np.ndarray:
        """Which features have a score."""
        return np.array([name not in self.nulls for name in self.features])

    def generator(self, *names: object) -> np.random.Generator:
        """Return a generator that depends on names only, not on what was drawn before."""
        return np.random.default_rng([zlib.crc32(str(n).encode()) for n in (self.name, *names)])

    def best_r2(self, rows: int = 400_000) -> float:
        """Return the share of the variance of the outcome that the regression explains."""
        sample = self.draw(rows, self.generator("best"))
        return float(np.var(sample.mean) / np.var(sample.y))


# -- correlations


def autoregressive(d: int, rho: float) -> np.ndarray:
    """Return correlations ``rho^|j - k|``."""
    place = np.arange(d)
    return rho ** np.abs(place[:, None] - place)


def equal(d: int, rho: float) -> np.ndarray:
    """Return the same correlation between all."""
    return np.full((d, d), rho) + (1.0 - rho) * np.eye(d)


def diagonal(*blocks: np.ndarray | int) -> np.ndarray:
    """Return blocks that are independent of each other; a number is that many columns alone."""
    parts = [np.eye(block) if isinstance(block, int) else block for block in blocks]
    found = np.zeros((sum(map(len, parts)),) * 2)
    start = 0
    for part in parts:
        found[start : start + len(part), start : start + len(part)] = part
        start += len(part)
    return found


def symmetric_root(correlation: np.ndarray) -> np.ndarray:
    """Return the symmetric positive square root."""
    values, vectors = np.linalg.eigh(correlation)
    return (vectors * np.sqrt(values)) @ vectors.T


# -- truths


def line_truth(
    correlation: np.ndarray,
    regression: Callable[[np.ndarray], np.ndarray],
    *,
    points: int = 2**12,
    nodes: int = 64,
    batches: int = 8,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the attributed scores of Gaussian columns and their Monte-Carlo errors.

    A mean along a line is taken over equal steps in probability from a random start, a coordinate
    of the Sobol points, so that jumps of the regression need no rule of their own; its square is the
    product of two means with starts of their own, which is unbiased.
    """
    root, d = symmetric_root(correlation), len(correlation)
    found = np.empty((batches, d))
    for batch in range(batches):
        sobol = stats.qmc.Sobol(d + 2, scramble=True, rng=np.random.default_rng(batch))
        uniform = np.clip(sobol.random(points), 1e-12, 1 - 1e-12)
        z, starts = stats.norm.ppf(uniform[:, :d]), uniform[:, d:, None]
        along = stats.norm.ppf((np.arange(nodes) + starts) / nodes).reshape(points, -1)
        latent = np.empty(d)
        for j in range(d):
            rows = (z @ root)[:, None, :] + (along - z[:, [j]])[:, :, None] * root[j]
            values = regression(rows.reshape(-1, d)).reshape(points, 2, nodes)
            latent[j] = np.mean(values**2) - np.mean(values.mean(axis=2).prod(axis=1))
        found[batch] = root**2 @ latent
    return found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(batches)


def table_truth(
    draw: Callable[[int, np.random.Generator], Sample],
    regression: Callable[[Any], np.ndarray],
    *,
    rows: int = 50_000,
    batches: int = 20,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the library's attributed scores with the true regression, a mean over batches."""
    found = []
    for batch in range(batches):
        sample = draw(rows, np.random.default_rng([zlib.crc32(b"truth"), batch]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = dfi.explain(
                sample.X, sample.mean, regression, cv="prefit", transport_error="ignore",
                diagnose=False, progress=False, random_state=batch,
            )  # fmt: skip
        found.append(result.scores)
    scores = np.array(found)
    return scores.mean(axis=0), scores.std(axis=0, ddof=1) / np.sqrt(batches)


# -- Gaussian columns


@dataclass(frozen=True, eq=False)
class GaussianRows:
    """Gaussian columns, a regression of them, and noise."""

    correlation: np.ndarray
    regression: Callable[[np.ndarray], np.ndarray]
    noise: Callable[[np.ndarray, np.random.Generator], np.ndarray]
    root: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", symmetric_root(self.correlation))

    def __call__(self, n: int, random: np.random.Generator) -> Sample:
        X = random.standard_normal((n, len(self.root))) @ self.root
        mean = self.regression(X)
        return Sample(X, mean + self.noise(X, random), mean)

    def truth(self) -> tuple[np.ndarray, np.ndarray]:
        return line_truth(self.correlation, self.regression)


@dataclass(frozen=True)
class Normal:
    """Normal noise of one deviation."""

    deviation: float = 1.0

    def __call__(self, X: Table, random: np.random.Generator) -> np.ndarray:
        return self.deviation * random.standard_normal(len(X))


def uneven(X: np.ndarray, random: np.random.Generator) -> np.ndarray:
    return (0.4 + 0.8 * np.abs(X[:, 0])) * random.standard_normal(len(X))


def heavy(X: np.ndarray, random: np.random.Generator) -> np.ndarray:
    return random.standard_t(3, len(X)) / np.sqrt(3)


def gaussian(
    name: str,
    words: str,
    correlation: np.ndarray,
    nulls: int,
    regression: Callable[[np.ndarray], np.ndarray],
    noise: Callable[[np.ndarray, np.random.Generator], np.ndarray],
    *,
    truth: Callable[[], tuple[np.ndarray, np.ndarray]] | None = None,
    **options: Any,
) -> Model:
    """Return a model of Gaussian columns; the last ones are null."""
    draw = GaussianRows(correlation, regression, noise)
    features = tuple(f"x{k}" for k in range(len(correlation)))
    return Model(
        name, words, features, features[len(features) - nulls :], draw, regression,
        draw.truth if truth is None else truth, **options,
    )  # fmt: skip


def smooth(X: np.ndarray) -> np.ndarray:
    return 1.5 * np.sin(1.3 * X[:, 0]) + 0.6 * X[:, 1] ** 2 + 0.8 * X[:, 2]


def product(X: np.ndarray) -> np.ndarray:
    return X[:, 0] * X[:, 1] + 1.5 * (X[:, 2] > 0.5)


def kinks(X: np.ndarray) -> np.ndarray:
    return 1.5 * np.maximum(X[:, 0], X[:, 1]) + 1.2 * (np.abs(X[:, 2]) < 0.7) + 0.5 * X[:, 3]


def steps(X: np.ndarray) -> np.ndarray:
    return 2.0 * (X[:, 0] > 0.3) + 1.5 * (X[:, 1] + X[:, 2] > 0)


def tanh_gate(X: np.ndarray) -> np.ndarray:
    return 2.0 * np.tanh(X[:, 0] * X[:, 1]) + 1.3 * (X[:, 2] + X[:, 3] > 0)


def ratio(X: np.ndarray) -> np.ndarray:
    return 2.5 * X[:, 0] / (1.0 + X[:, 1] ** 2) + 0.8 * np.abs(X[:, 2])


def gates(X: np.ndarray) -> np.ndarray:
    inside = np.where(X[:, 0] > 0, 1.4 * X[:, 1], -0.6 * X[:, 3])
    return inside + 0.8 * np.maximum(X[:, 2], 0.0)


@dataclass(frozen=True, eq=False)
class LinearAndProduct:
    r"""A linear regression and one product, :math:`\mu(x) = \beta'x + c\,x_a x_b`.

    For two rows with covariance :math:`C` between them,
    :math:`K(C) = \beta'C\beta + c^2 (C_{aa} C_{bb} + C_{ab} C_{ba})` is the covariance of their
    values, and :math:`\phi_{Z_j} = K(R) - K(R - L_{\cdot j} L_{\cdot j}')`.
    """

    beta: np.ndarray
    pair: tuple[int, int] = (0, 1)
    strength: float = 0.0

    def __call__(self, X: np.ndarray) -> np.ndarray:
        a, b = self.pair
        return X @ self.beta + self.strength * X[:, a] * X[:, b]

    def covariance(self, C: np.ndarray) -> float:
        a, b = self.pair
        both = C[a, a] * C[b, b] + C[a, b] * C[b, a]
        return float(self.beta @ C @ self.beta + self.strength**2 * both)

    def truth(self, correlation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        root = symmetric_root(correlation)
        whole = self.covariance(correlation)
        latent = [whole - self.covariance(correlation - np.outer(c, c)) for c in root.T]
        return root**2 @ np.array(latent), np.zeros(len(root))


def _closed(
    name: str,
    words: str,
    correlation: np.ndarray,
    nulls: int,
    regression: LinearAndProduct,
    deviation: float,
    **options: Any,
) -> Model:
    return gaussian(
        name, words, correlation, nulls, regression, Normal(deviation),
        truth=lambda: regression.truth(correlation), **options,
    )  # fmt: skip


def smooth_closed_form(correlation: np.ndarray) -> np.ndarray:
    r"""Return the attributed scores of :func:`smooth`, to check :func:`line_truth`.

    :math:`E \sin aU \sin aV = e^{-a^2} \sinh(a^2 C)`, :math:`E V \sin aU = a e^{-a^2/2} C` and
    :math:`Cov(U^2, V^2) = 2 C^2`; an even and an odd function are uncorrelated.
    """

    def covariance(C: np.ndarray) -> float:
        sine = 2.25 * np.exp(-1.69) * np.sinh(1.69 * C[0, 0])
        mixed = 1.2 * 1.3 * np.exp(-0.845) * (C[0, 2] + C[2, 0])
        return float(sine + 0.72 * C[1, 1] ** 2 + 0.64 * C[2, 2] + mixed)

    root = symmetric_root(correlation)
    whole = covariance(correlation)
    latent = [whole - covariance(correlation - np.outer(c, c)) for c in root.T]
    return root**2 @ np.array(latent)


# -- tables of all kinds


def copula(n: int, correlation: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return Gaussian rows, whose quantiles are given other laws."""
    return random.standard_normal((n, len(correlation))) @ symmetric_root(correlation)


def cut(normal: np.ndarray, shares: tuple[float, ...], levels: str) -> pd.Categorical:
    """Return levels of a category with these shares, ordered along a Gaussian column."""
    edges = stats.norm.ppf(np.cumsum(shares)[:-1])
    codes = np.searchsorted(edges, normal)
    return pd.Categorical.from_codes(codes, categories=levels.split())


def counted(normal: np.ndarray, law: Any) -> np.ndarray:
    """Return a count with the same quantile."""
    return law.ppf(stats.norm.cdf(normal)).astype(int)


def mixed_table(n: int, random: np.random.Generator) -> pd.DataFrame:
    """Return integers, categories, a skewed and a heavy-tailed column, and nulls."""
    g = copula(n, autoregressive(6, 0.5), random)
    free = copula(n, diagonal(2, equal(2, 0.6)), random)
    return pd.DataFrame(
        {
            "hour": np.floor(24 * stats.norm.cdf(g[:, 0])).astype(int),
            "workday": cut(g[:, 1], (0.3, 0.7), "no yes"),
            "income": np.exp(0.6 * g[:, 2]),
            "region": cut(g[:, 3], (0.25, 0.2, 0.2, 0.15, 0.1, 0.1), "d a f b e c"),
            "visits": counted(g[:, 4], stats.binom(7, 0.35)),
            "load": stats.t(5).ppf(stats.norm.cdf(g[:, 5])) / np.sqrt(5 / 3),
            "null": free[:, 0],
            "null_level": cut(free[:, 1], (0.4, 0.3, 0.2, 0.1), "p q r s"),
            "null_a": free[:, 2],
            "null_b": free[:, 3],
        }
    )


REGION = {"a": 0.9, "b": -0.6, "c": 0.5, "d": 0.0, "e": -1.0, "f": 0.3}


def mixed(X: pd.DataFrame) -> np.ndarray:
    hour, region = X["hour"].to_numpy(), X["region"].astype(str)
    rush = ((hour >= 7) & (hour <= 9)) | ((hour >= 16) & (hour <= 18))
    busy = np.where(X["workday"].astype(str) == "yes", 1.6, 0.4) * rush
    income = 0.7 * np.clip(X["income"].to_numpy(), 0.0, 4.0)
    load = np.clip(X["load"].to_numpy(), -3.0, 3.0)
    slope = np.where(region.isin(["a", "d"]), 0.9, 0.2)
    return np.asarray(
        busy + income + region.map(REGION).to_numpy(float) + slope * load + 0.3 * X["visits"],
        dtype=float,
    )


def sawtooth_table(n: int, random: np.random.Generator) -> pd.DataFrame:
    g = copula(n, autoregressive(5, 0.4), random)
    free = copula(n, diagonal(1, equal(2, 0.5)), random)
    return pd.DataFrame(
        {
            "hour": np.floor(24 * stats.norm.cdf(g[:, 0])).astype(int),
            "wait": stats.expon.ppf(stats.norm.cdf(g[:, 1])),
            "day": cut(g[:, 2], (1 / 7,) * 7, "tu su th mo sa we fr"),
            "member": g[:, 3] > 0.3,
            "price": np.exp(0.5 * g[:, 4]),
            "null": counted(free[:, 0], stats.binom(10, 0.5)),
            "null_a": np.exp(0.5 * free[:, 1]),
            "null_b": free[:, 2],
        }
    )


def sawtooth(X: pd.DataFrame) -> np.ndarray:
    hour = X["hour"].to_numpy()
    wait = np.log1p(np.clip(X["wait"].to_numpy(), 0.0, 6.0))
    weekend = X["day"].astype(str).isin(["sa", "su"]).to_numpy()
    price = np.clip(X["price"].to_numpy(), 0.3, 4.0)
    member = X["member"].to_numpy().astype(bool)
    return np.asarray(
        1.6 * (hour % 8) / 7 + wait * np.where(hour >= 12, 1.3, 0.3) + 1.2 * weekend
        - np.where(member, 0.3, 0.9) * price
    )  # fmt: skip


@dataclass(frozen=True)
class TableRows:
    """Tables, a regression of them, and normal noise."""

    table: Callable[[int, np.random.Generator], pd.DataFrame]
    regression: Callable[[pd.DataFrame], np.ndarray]
    deviation: float

    def __call__(self, n: int, random: np.random.Generator) -> Sample:
        X = self.table(n, random)
        mean = self.regression(X)
        return Sample(X, mean + self.deviation * random.standard_normal(n), mean)

    def truth(self) -> tuple[np.ndarray, np.ndarray]:
        return table_truth(self, self.regression)


def tabular(
    name: str,
    words: str,
    table: Callable[[int, np.random.Generator], pd.DataFrame],
    regression: Callable[[pd.DataFrame], np.ndarray],
    deviation: float,
    **options: Any,
) -> Model:
    """Return a model of a table of all kinds; names of nulls begin with ``null``."""
    features = tuple(table(2, np.random.default_rng(0)).columns)
    draw = TableRows(table, regression, deviation)
    nulls = tuple(name for name in features if name.startswith("null"))
    return Model(name, words, features, nulls, draw, regression, draw.truth, **options)


# -- missing values

SMOOTH = diagonal(autoregressive(4, 0.6), 2)
ABSENT = (0, 1)
"""Columns of the smooth model of which 30 % are missing."""


def smooth_seen(X: pd.DataFrame | np.ndarray) -> np.ndarray:
    r"""Return the mean of :func:`smooth` given what is seen of a row.

    What is missing is Gaussian given the rest, with mean ``m`` and variance ``v``:
    :math:`E \sin aU = e^{-a^2 v/2} \sin am` and :math:`E U^2 = m^2 + v`.
    """
    X = np.asarray(X, dtype=float)
    mean, variance = X[:, :3].copy(), np.zeros((len(X), 3))
    gone = np.isnan(X[:, list(ABSENT)])
    for pattern in np.unique(gone, axis=0):
        rows = np.flatnonzero((gone == pattern).all(axis=1))
        absent = np.array(ABSENT)[pattern]
        if len(absent) == 0:
            continue
        seen = np.setdiff1d(np.arange(4), absent)
        weights = np.linalg.solve(SMOOTH[np.ix_(seen, seen)], SMOOTH[np.ix_(seen, absent)])
        mean[np.ix_(rows, absent)] = X[np.ix_(rows, seen)] @ weights
        left = SMOOTH[np.ix_(absent, absent)] - SMOOTH[np.ix_(absent, seen)] @ weights
        variance[np.ix_(rows, absent)] = np.diag(left)
    sine = np.exp(-0.845 * variance[:, 0]) * np.sin(1.3 * mean[:, 0])
    return 1.5 * sine + 0.6 * (mean[:, 1] ** 2 + variance[:, 1]) + 0.8 * mean[:, 2]


def smooth_with_gaps(n: int, random: np.random.Generator) -> Sample:
    X = copula(n, SMOOTH, random)
    y = smooth(X) + random.standard_normal(n)
    for k in ABSENT:
        X[random.uniform(size=n) < 0.3, k] = np.nan
    seen = pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])
    return Sample(seen, y, smooth_seen(seen))


WIDE = diagonal(*(equal(5, 0.5) for _ in range(4)), *(equal(5, 0.4) for _ in range(2)), 20)
PRODUCT = diagonal(equal(2, 0.6), equal(2, 0.5), 2)

MODELS = (
    gaussian(
        "smooth", "1.5 sin(1.3 x0) + .6 x1^2 + .8 x2; AR(.6), x3 only correlated",
        SMOOTH, 2, smooth, Normal(),
    ),
    gaussian(
        "product", "x0 x1 + 1.5 1(x2 > .5); pairs correlated .6 and .5, x3 only correlated",
        PRODUCT, 2, product, Normal(),
    ),
    gaussian(
        "kinks", "1.5 max(x0, x1) + 1.2 1(|x2| < .7) + .5 x3; AR(.5)",
        diagonal(autoregressive(4, 0.5), 2), 2, kinks, Normal(),
    ),
    gaussian(
        "steps", "2 1(x0 > .3) + 1.5 1(x1 + x2 > 0); AR(.5), x3 only correlated",
        diagonal(autoregressive(4, 0.5), 2), 2, steps, Normal(0.9),
    ),
    gaussian(
        "smooth, uneven noise", "smooth, noise of deviation .4 + .8 |x0|",
        SMOOTH, 2, smooth, uneven,
    ),
    gaussian("smooth, t3 noise", "smooth, t3 noise of variance 1", SMOOTH, 2, smooth, heavy),
    tabular(
        "mixed",
        "rush hours by workday, six regions with slopes, a count, log-normal and t5 columns; "
        "Gaussian copula AR(.5)",
        mixed_table, mixed, 1.0,
    ),
    Model(
        "smooth, missing", "smooth, 30 % of x0 and of x1 missing",
        tuple(f"x{k}" for k in range(6)), ("x4", "x5"), smooth_with_gaps, smooth_seen,
        lambda: table_truth(smooth_with_gaps, smooth_seen),
    ),
    _closed(
        "wide", "50 columns: x0 - .8 x5 + .6 x6 + .7 x10 + .8 x0 x1; blocks of 5 correlated .5",
        WIDE, 35,
        LinearAndProduct(np.bincount([0, 5, 6, 10], [1.0, -0.8, 0.6, 0.7], 50), (0, 1), 0.8), 1.1,
        sizes=(300, 500, 1000),
    ),
    _closed(
        "linear", "x0 + .6 x1 + .8 x3 - .5 x5; AR(.7)",
        diagonal(autoregressive(6, 0.7), 2), 2,
        LinearAndProduct(np.array([1.0, 0.6, 0.0, 0.8, 0.0, -0.5, 0.0, 0.0])), 1.2,
    ),
    gaussian(
        "tanh gate", "2 tanh(x0 x1) + 1.3 1(x2 + x3 > 0); AR(.5), x4 only correlated",
        diagonal(autoregressive(5, 0.5), equal(2, 0.5)), 2, tanh_gate, Normal(0.9), held_back=True,
    ),
    tabular(
        "saw-tooth",
        "saw-tooth of hours, waiting time by half of the day, weekends, price by membership; "
        "Gaussian copula AR(.4)",
        sawtooth_table, sawtooth, 0.7, held_back=True,
    ),
    gaussian(
        "ratio", "2.5 x0 / (1 + x1^2) + .8 |x2|; AR(.5), x3 only correlated",
        diagonal(autoregressive(4, 0.5), 2), 2, ratio, Normal(1.1), held_back=True,
    ),
    gaussian(
        "three-way gate", "1.4 x1 where x0 > 0, else -.6 x3; + .8 max(x2, 0); equicorrelated .4",
        diagonal(equal(5, 0.4), 2), 2, gates, Normal(0.7), held_back=True,
    ),
)  # fmt: skip


def by_name(name: str) -> Model:
    """Return the model of a name."""
    return next(model for model in MODELS if model.name == name)
