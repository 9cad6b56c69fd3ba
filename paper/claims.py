"""What holds of the paper and what does not: one function per claim, returning numbers.

Each function is a task of the study ``what-holds`` and is called by the tests, which check the
statement that the page makes of its numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import logsumexp

from dfi import DFI, Quadrature
from paper import truths
from paper.simulated import SEED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from paper.reproduction import Record
    from paper.truths import Simulation

    Floats = NDArray[np.float64]

QUADRATURE_NODES = 60
GRID_EDGE = 6.0
GRID_POINTS = 301
QUIET: dict[str, Any] = {"diagnose": False, "progress": False}


def conditional_variance(epsilons: Sequence[float], refereed: Sequence[float]) -> Record:
    r"""Return the variance of Z and its correlation with X, whitened Gaussian X in one dimension.

    Published: :math:`Z \mid X \sim N(sX, \tau)` with :math:`s = 2/(2+\varepsilon)`,
    :math:`\tau = \varepsilon/(2+\varepsilon)`, so :math:`\operatorname{Var} Z = s^2 + \tau`. The
    bridge has :math:`s = \sqrt{1+\varepsilon^2/16} - \varepsilon/4` and variance 1. Referee: the
    matrix scaling of :math:`e^{-(x-z)^2/\varepsilon}` to two standard normal margins on a grid.

    Parameters
    ----------
    epsilons : sequence of float
        Where both formulas are evaluated.
    refereed : sequence of float
        Where the referee is asked.
    """
    grid = np.asarray(epsilons, dtype=float)
    s, tau = 2.0 / (2.0 + grid), grid / (2.0 + grid)
    return {
        "epsilon": grid,
        "published_variance": s**2 + tau,
        "published_correlation": s,
        "bridge_correlation": [truths.bridge_correlation(float(epsilon)) for epsilon in grid],
        "refereed": list(refereed),
        "referee": [grid_coupling(float(epsilon)) for epsilon in refereed],
    }


def grid_coupling(epsilon: float) -> Record:
    """Scale the kernel to two standard normal margins on a grid; return moments of the plan."""
    points = np.linspace(-GRID_EDGE, GRID_EDGE, GRID_POINTS)
    log_mass = -0.5 * points**2
    log_mass -= logsumexp(log_mass)
    kernel = -((points[:, None] - points[None, :]) ** 2) / epsilon
    first = np.zeros(GRID_POINTS)
    for _ in range(10_000):
        second = -logsumexp(kernel + (first + log_mass)[:, None], axis=0)
        renewed = -logsumexp(kernel + (second + log_mass)[None, :], axis=1)
        # equal margins have equal potentials: the mean of the two halves converges geometrically
        change = np.abs(renewed - first).max()
        first = 0.5 * (renewed + second)
        if change < 1e-10:
            break
    second = -logsumexp(kernel + (first + log_mass)[:, None], axis=0)
    plan = np.exp(kernel + (first + log_mass)[:, None] + (second + log_mass)[None, :])
    return {
        "variance": float(plan.sum(axis=0) @ points**2),
        "correlation": float(points @ plan @ points),
        "marginal_error": float(np.abs(plan.sum(axis=1) - np.exp(log_mass)).sum()),
    }


def line_variances(
    function: Callable[[Floats], Floats], dimension: int, nodes: int = QUADRATURE_NODES
) -> Floats:
    r"""Return :math:`E\operatorname{Var}(f(Z) \mid Z_{-j})` of each j, and the variance.

    By a product of Gauss-Hermite rules; an independent twin of the closed forms.
    """
    at, weights = np.polynomial.hermite_e.hermegauss(nodes)
    weights = weights / weights.sum()
    mesh = np.stack(np.meshgrid(*[at] * dimension, indexing="ij"), axis=-1)
    values = function(mesh.reshape(-1, dimension)).reshape((nodes,) * dimension)

    def mean(array: Floats) -> Any:
        for _ in range(array.ndim):
            array = np.tensordot(weights, array, axes=(0, 0))
        return array

    found = []
    for j in range(dimension):
        line = np.tensordot(weights, values, axes=(0, j))
        found.append(float(mean(values**2) - mean(line**2)))
    return np.array([*found, float(mean(values**2) - mean(values) ** 2)])


def _pair_root(rho: float) -> Floats:
    high, low = np.sqrt(1 + rho), np.sqrt(1 - rho)
    return 0.5 * np.array([[high + low, high - low], [high - low, high + low]])


def m3_constants(rho: float, n: int, replications: int) -> Record:
    r"""Return the scores of X4 and X5 in M3, :math:`\frac14(\rho^2+2)`, in four ways.

    Given the sign of X3, the regression is a product of two correlated features: half of the
    time the second one, so the score of each is half of
    :math:`E\operatorname{Var}(X_4X_5 \mid Z_5)`.
    """
    root = _pair_root(rho)
    latent = 0.5 * line_variances(lambda z: np.prod(z @ root, axis=1), 2)[:2]
    scores = np.array(
        [
            _oracle(truths.m3(n, rho=rho, random_state=SEED + k)).scores[3:]
            for k in range(replications)
        ]
    )
    return {
        "rho": rho,
        "n": n,
        "replications": replications,
        "theory": (rho**2 + 2.0) / 4.0,
        "paper": (rho**2 + 2.0) / 8.0,
        "quadrature": root**2 @ latent,
        "closed_form": truths.m3(2, rho=rho).truth()[3:],
        "estimate": scores.mean(axis=0),
        "estimate_error": scores.std(axis=0, ddof=1) / np.sqrt(replications),
    }


def _oracle(data: Simulation, **options: Any) -> Any:
    explainer = DFI(estimator=data.regression, cv="prefit", **{"form": "loco", **QUIET, **options})
    return explainer.fit(data.X, data.y).result_


def m2_total(correlations: Sequence[float]) -> Record:
    """Return the total of M2's scores beside the variance of its regression, by quadrature."""
    totals, variances, closed = [], [], []
    for rho in correlations:
        root = _pair_root(rho)
        found = line_variances(lambda z, root=root: 5.0 * np.cos(z @ root).sum(axis=1), 2)  # type: ignore[misc]
        totals.append(float((root**2 @ found[:2]).sum()))
        variances.append(float(found[2]))
        closed.append(float(truths.m2(2, rho=rho).truth().sum()))
    return {
        "rho": list(correlations),
        "total": totals,
        "closed_form": closed,
        "variance": variances,
    }


def drawing_bias(draws: Sequence[int], n: int, replications: int) -> Record:
    r"""Return latent scores of M1 when m random values are averaged before squaring.

    :math:`E(Y - \bar\eta_m)^2 - E(Y - \eta)^2` is
    :math:`\phi_{Z_j} + E\operatorname{Var}(\eta \mid Z_{-j})/m`,
    which is :math:`(1 + 1/m)\,\phi_{Z_j}`. The true regression is used: nothing else is in error.
    """
    exact, drawn = [], []
    for k in range(replications):
        data = truths.m1(n, rho=0.8, d=3, random_state=SEED + k)
        exact.append(_latent(data, Quadrature(), k))
        drawn.append([_latent(data, Quadrature("draws", nodes=m), k) for m in draws])
    bias = np.asarray(drawn) - np.asarray(exact)[:, None, :]
    return {
        "draws": list(draws),
        "n": n,
        "replications": replications,
        "truth": truths.m1(2, rho=0.8, d=3).truth(space="latent"),
        "exact": np.mean(exact, axis=0),
        "bias": bias.mean(axis=0),
        "bias_error": bias.std(axis=0, ddof=1) / np.sqrt(replications),
    }


def _latent(data: Simulation, integration: Quadrature, seed: int) -> Floats:
    result = _oracle(data, integration=integration, random_state=seed)
    return np.asarray(result.latent.scores)


def singular_whitening(n: int, replications: int) -> Record:
    r"""Return scores of a duplicated column: by the pseudo-inverse, and with the random kernel.

    ``X1 = X2 = U``, ``Y = 2 X1 + X2 + e``. Through :math:`Z = L^+ x` the latent coordinates have
    variance 1/2 and are equal; the missing part is what the kernel draws.
    """
    kernel, inverse = [], []
    for k in range(replications):
        data = truths.equal_features(n, random_state=SEED + k)
        kernel.append(_oracle(data).scores)
        inverse.append(_pseudo_inverse_scores(data))
    return {
        "n": n,
        "replications": replications,
        "truth": truths.equal_features(2).truth(),
        "kernel": np.mean(kernel, axis=0),
        "kernel_error": np.std(kernel, axis=0, ddof=1) / np.sqrt(replications),
        "pseudo_inverse": np.mean(inverse, axis=0),
        "pseudo_inverse_error": np.std(inverse, axis=0, ddof=1) / np.sqrt(replications),
    }


def _pseudo_inverse_scores(data: Simulation) -> Floats:
    """Score ``Z = L^+ x`` as if its coordinates were independent, replaced by their own law."""
    rows = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    values, vectors = np.linalg.eigh(np.corrcoef(rows.T))
    roots = np.sqrt(np.where(values > 1e-10, values, 0.0))
    decoder = (vectors * roots) @ vectors.T
    latent = rows @ np.linalg.pinv(decoder)
    slopes = decoder @ (data.regression.beta * data.X.std(axis=0))  # type: ignore[attr-defined]
    residual = data.y - data.regression(data.X)
    moved = slopes * (latent - latent.mean(axis=0))
    influence = (residual[:, None] + moved) ** 2 - residual[:, None] ** 2
    return np.asarray(decoder**2 @ influence.mean(axis=0))


@dataclass(frozen=True)
class Factor:
    """The paper's disentangling of its examples: one latent coordinate is U, the other is noise.

    Attributes
    ----------
    square : bool
        Whether the first feature is ``(U^2 - 1)/sqrt(2)``; else it is ``U``.
    """

    square: bool
    attribution: ClassVar[str] = "slopes"

    def fit(self, X: Floats) -> Factor:
        """Nothing is learned."""
        del X
        return self

    def encode(self, X: Floats, generator: np.random.Generator) -> Floats:
        """Return the noise and U."""
        return np.column_stack([generator.standard_normal(len(X)), X[:, 1]])

    def decode(self, Z: Floats) -> Floats:
        """Return both features of U."""
        u = Z[:, 1]
        return np.column_stack([(u**2 - 1.0) / np.sqrt(2.0) if self.square else u, u])


def dependent_examples(n: int, replications: int) -> Record:
    """Return the two perfectly dependent examples under two disentanglings, beside their truths."""
    examples = {}
    for label, simulate, square in (
        ("X1 = X2 = U", truths.equal_features, False),
        ("X1 = (U² - 1)/√2, X2 = U", truths.square_and_factor, True),
    ):
        samples = [simulate(n, random_state=SEED + k) for k in range(replications)]
        whitened = np.array([_oracle(data).scores for data in samples])
        factor = np.array(
            [_oracle(d, transport=Factor(square), transport_error="ignore").scores for d in samples]
        )
        order = (1, 0) if square else None
        examples[label] = {
            "gaussian": whitened.mean(axis=0),
            "gaussian_error": whitened.std(axis=0, ddof=1) / np.sqrt(replications),
            "gaussian_truth": samples[0].truth(),
            "factor": factor.mean(axis=0),
            "factor_error": factor.std(axis=0, ddof=1) / np.sqrt(replications),
            "factor_truth": samples[0].truth(transport="knothe-rosenblatt", order=order),
        }
    return {"n": n, "replications": replications, "examples": examples}
