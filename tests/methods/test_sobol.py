"""Sobol indices against SALib, closed forms and DFI's latent scores."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import dfi
from dfi.methods import Sobol


def ishigami(X: np.ndarray) -> np.ndarray:
    return np.sin(X[:, 0]) + 7 * np.sin(X[:, 1]) ** 2 + 0.1 * X[:, 2] ** 4 * np.sin(X[:, 0])


def test_independent_inputs_agree_with_salib(oracle: Any) -> None:
    pytest.importorskip("SALib")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from SALib.analyze import sobol as analyze
        from SALib.sample import sobol as sample

        problem = {
            "num_vars": 3,
            "names": ["x1", "x2", "x3"],
            "bounds": [[-np.pi, np.pi]] * 3,
        }
        points = sample.sample(problem, 4096, calc_second_order=False, seed=0)
        values = ishigami(points)
        peer = analyze.analyze(problem, values, calc_second_order=False, seed=0)
    generator = np.random.default_rng(0)
    X = generator.uniform(-np.pi, np.pi, (3000, 3))
    y = ishigami(X) + 0.1 * generator.standard_normal(3000)
    found = dfi.compare(X, y, Sobol(latent=False), estimator=oracle(ishigami), cv=2)
    variance = values.var()
    for key, other in (("sobol_total", "ST"), ("sobol_first", "S1")):
        result = found[key]
        noise = np.array(result.diagnostics["monte_carlo_se"])
        error = np.sqrt(result.se**2 + noise**2 + (variance * peer[f"{other}_conf"] / 1.96) ** 2)
        assert np.all(np.abs(result.scores - variance * peer[other]) < 3 * error), key
    # interactions: X3 acts only through X1
    assert found["sobol_first"].scores[2] < 0.5 < found["sobol_total"].scores[2]


def test_pick_freeze_agrees_with_the_closed_form(
    oracle: Any, linear_sample: dict[str, Any]
) -> None:
    X, y = linear_sample["X"][:1500], linear_sample["y"][:1500]
    closed = dfi.compare(X, y, "sobol", estimator="linear")
    assert not np.any(closed["sobol_total"].diagnostics["monte_carlo_se"])
    np.testing.assert_allclose(closed["sobol_total"].scores, closed["sobol_first"].scores)
    coefficients = np.linalg.lstsq(np.column_stack([np.ones(len(X)), X]), y, rcond=None)[0]

    def fitted(rows: np.ndarray) -> np.ndarray:
        return coefficients[0] + rows @ coefficients[1:]

    drawn = dfi.compare(X, y, Sobol(n_compositions=32), estimator=oracle(fitted))
    for key in closed.results:
        noise = np.array(drawn[key].diagnostics["monte_carlo_se"])
        assert np.all(np.abs(drawn[key].scores - closed[key].scores) < 4 * noise + 0.03), key
        np.testing.assert_allclose(drawn[key].se, closed[key].se, rtol=0.15)


def test_latent_total_is_the_latent_score_of_dfi() -> None:
    sample = dfi.datasets.m2(800, rho=0.6, d=3)
    disentangled = dfi.methods.Disentangled(form="loco", diagnose=False)
    found = dfi.compare(sample.X, sample.y, [disentangled, Sobol()], estimator="boosting")
    latent, sobol = found["dfi"].latent, found["sobol_latent_total"]
    assert latent is not None
    gap = np.abs(latent.scores - sobol.scores)
    assert np.all(gap < 3 * np.hypot(latent.se, sobol.se))
    assert np.all((sobol.se / latent.se > 0.6) & (sobol.se / latent.se < 1.7))


def test_collinear_columns_leave_the_latent_part_to_dfi() -> None:
    sample = dfi.datasets.m1(100, d=3)
    X = np.column_stack([sample.X, sample.X[:, 0]])
    found = dfi.compare(X, sample.y, "sobol", estimator="linear")
    assert set(found.results) == {"sobol_total", "sobol_first"}


def test_parameters_are_checked() -> None:
    with pytest.raises(ValueError, match="n_compositions must be a whole number of 2"):
        Sobol(n_compositions=1)
