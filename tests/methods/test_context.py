"""Seeds by name, Monte-Carlo errors over folds, and what the linear Sobol indices are made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dfi
from dfi.methods import PFI, prepare

HALVES = [(np.arange(30, 60), np.arange(30)), (np.arange(30), np.arange(30, 60))]


def test_every_name_has_a_seed_of_its_own() -> None:
    sample = dfi.datasets.m1(60, d=2)
    context, again, other = (
        prepare(sample.X, sample.y, estimator="linear", cv=2, random_state=seed)
        for seed in (0, 0, 1)
    )

    def drawn(place: Any, *names: str | int) -> int:
        return int(np.random.default_rng(place.child(*names)).integers(2**62))

    names = [("swaps", 0), ("swaps", 1), ("pcm", 0), ("pcm", 1), ("coalitions",), ("pcm", 0, 1)]
    found = [drawn(context, *name) for name in names]
    assert len(set(found)) == len(names)
    # whatever was asked for before
    assert [drawn(again, *name) for name in names[::-1]] == found[::-1]
    assert drawn(other, "swaps", 0) != found[0]


def test_monte_carlo_error_is_that_of_other_draws(oracle: Any) -> None:
    generator = np.random.default_rng(0)
    X = generator.standard_normal((60, 2))
    y = X[:, 0] * X[:, 1] + generator.standard_normal(60)
    scores, errors = [], []
    for seed in range(60):
        found = dfi.compare(
            X, y, PFI(n_permutations=4, debias=False), cv=HALVES, random_state=seed,
            estimator=oracle(lambda rows: rows[:, 0] * rows[:, 1]),
        )["pfi"]  # fmt: skip
        scores.append(found.scores)
        errors.append(found.diagnostics["monte_carlo_se"])
    ratio = np.sqrt(np.mean(np.square(errors), axis=0)) / np.std(scores, axis=0, ddof=1)
    # the standard deviation of 60 draws is known to about a tenth
    assert np.all((ratio > 0.7) & (ratio < 1.4)), ratio


def test_linear_sobol_indices_are_unbiased_variances() -> None:
    generator = np.random.default_rng(0)
    X = generator.standard_normal((60, 2)) * [1.0, 3.0]
    found = dfi.compare(X, X @ [2.0, -1.0], "sobol", estimator="linear", cv=HALVES)
    expected = np.mean([[4.0, 1.0] * X[test].var(axis=0, ddof=1) for _, test in HALVES], axis=0)
    for key in ("sobol_first", "sobol_total"):
        np.testing.assert_allclose(found[key].scores, expected)


def test_latent_sobol_indices_carry_the_transports_error() -> None:
    """Without noise they are DFI's LOCO-type latent scores, and so are their standard errors."""
    sample = dfi.datasets.m1(400, rho=0.8, d=2)
    y = sample.X @ [5.0, 0.0]
    found = dfi.compare(sample.X, y, "sobol", estimator="linear", cv=2)["sobol_latent_total"]
    aware, plain = (
        dfi.explain(
            sample.X, y, estimator="linear", cv=2, form="loco", transport_error=error,
            diagnose=False,
        ).latent
        for error in ("auto", "ignore")
    )  # fmt: skip
    assert found.scores == pytest.approx(aware.scores, rel=0.02)
    assert found.se == pytest.approx(aware.se, rel=0.05)
    assert found.se != pytest.approx(plain.se, rel=0.1)
