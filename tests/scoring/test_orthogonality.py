"""Dependent latents: what an error of the regression does to a score at first order."""

from __future__ import annotations

import numpy as np
import pytest

import dfi


def curve_table(n=4000):
    """Return a column and its noisy square: uncorrelated, so whitening leaves them dependent."""
    generator = np.random.default_rng(0)
    x = generator.standard_normal(n)
    square = 0.6 * (x**2 - 1) + 0.6 * generator.standard_normal(n)
    return np.column_stack([x, square, generator.standard_normal(n)])


def regression(rows):
    return rows[:, 0] ** 2 + rows[:, 1] + 0.5 * rows[:, 2]


def explained(X, y, function):
    design = dfi.transports.Gaussian(components=None)
    return dfi.explain(
        X,
        y,
        function,
        transport=design,
        cv="prefit",
        form="loco",
        diagnose=False,
        transport_error="ignore",
    )


def test_change_is_that_of_a_shrunken_regression():
    """Half the difference between a shrunken and an inflated regression is first order only."""
    X = curve_table()
    y = regression(X)
    center = y.mean()
    down, up = (
        explained(X, y, lambda rows, s=s: regression(rows) - s * 0.1 * (regression(rows) - center))
        for s in (1.0, -1.0)
    )
    found = explained(X, y, regression)
    told = found.diagnostics["orthogonality"]
    change = (down.latent.scores - up.latent.scores) / 2 / np.abs(found.latent.scores).max()
    j = found.names.index(told["coordinate"])
    assert told["shrunk_by"] == 0.1
    assert j == np.argmax(np.abs(change))
    assert told["change"] == pytest.approx(change[j], rel=0.05)
    assert abs(told["change"]) > 4 * told["error"] > 0


def test_independent_latents_show_none_beyond_noise():
    X = np.random.default_rng(1).standard_normal((4000, 3))
    told = explained(X, regression(X), regression).diagnostics["orthogonality"]
    assert abs(told["change"]) < 4 * told["error"]
    assert told["error"] < 0.01


def test_two_models_and_weights():
    X = curve_table(300)
    y = regression(X) + np.random.default_rng(2).standard_normal(300)
    weights = np.random.default_rng(3).integers(1, 4, 300)
    told = dfi.explain(X, y, "linear", sample_weight=weights, diagnose=False).diagnostics
    assert np.isfinite(told["orthogonality"]["change"])


def test_nothing_to_say_of_a_regression_that_says_nothing():
    X = curve_table(100)
    y = np.random.default_rng(4).standard_normal(100)
    with pytest.warns(dfi.warnings.WeakModelWarning):
        found = dfi.explain(
            X, y, lambda rows: np.zeros(len(rows)), cv="prefit", form="loco", diagnose=False
        )
    assert found.diagnostics["orthogonality"] == {}
