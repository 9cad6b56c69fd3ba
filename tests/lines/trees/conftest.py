"""A slow twin: every breakpoint of a line, and the model's own predict between them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import norm

from dfi._lines.base import Lines, Reference


def neighbours_in_float32(threshold):
    """All places where a rule that rounds to float32 could switch near a threshold."""
    near = [np.float32(threshold)]
    for _ in range(2):
        near.insert(0, np.nextafter(near[0], np.float32(-np.inf)))
        near.append(np.nextafter(near[-1], np.float32(np.inf)))
    exact = [float(x) for x in near]
    middles = [(a + b) / 2 for a, b in pairwise(exact)]
    return [float(threshold), *exact, *middles]


def twin(predict, splits, lines, *, power=1):
    """Moments by enumeration, shape (2, q, n, d): mean and first Hermite moment of f**power."""
    q, (n, d) = len(lines.offsets), lines.latent.shape
    out = np.empty((2, q, n, d))
    for i in range(n):
        for j in range(d):
            slope = lines.directions[:, j]
            for k in range(q):
                centre = lines.latent[i, j] + lines.offsets[k, j]

                def along(t, i=i, slope=slope, centre=centre):
                    return predict(lines.points[i] + np.outer(t - centre, slope)) ** power

                if lines.reference.kind == "empirical":
                    t = lines.reference.values[:, j]
                    mass = lines.reference.masses()[:, j]
                    value = along(t)
                    out[:, k, i, j] = mass @ value, mass @ (t * value)
                    continue
                breaks = [
                    centre + (c - lines.points[i, f]) / slope[f] for f, c in splits if slope[f] != 0
                ]
                breaks = np.unique(np.clip([-40.0, 40.0, *breaks], -40, 40))
                value = along((breaks[1:] + breaks[:-1]) / 2)
                out[0, k, i, j] = value @ np.diff(norm.cdf(breaks))
                out[1, k, i, j] = value @ -np.diff(norm.pdf(breaks))
    return out


def make_lines(points, *, kind, q, seed=0, p_constant=0):
    """Lines through rows, with far latents, and zero and tiny entries of the directions."""
    rng = np.random.default_rng(seed)
    p = points.shape[1]
    d = p - p_constant
    latent = rng.standard_normal((len(points), d))
    latent[0] = 9.5
    latent[1, 0] = -11.0
    directions = np.zeros((p, d))
    directions[:d] = rng.standard_normal((d, d)) * points.std(axis=0)[:d, None]
    directions[0, 1] = 0.0
    directions[1, 2] = 1e-15 * np.abs(directions[1]).max()
    directions[2, 0] *= 1e-7
    offsets = np.zeros((1, d)) if q == 1 else rng.standard_normal((q, d)) * 1.5
    if kind == "gaussian":
        reference = Reference.gaussian()
    else:
        sample = np.concatenate([rng.standard_normal((37, d)), latent])
        reference = Reference.empirical(sample, rng.uniform(0.5, 2, len(sample)))
    return Lines(points, latent, directions, reference, offsets)


@pytest.fixture(params=["gaussian", "empirical"])
def kind(request):
    return request.param


@pytest.fixture(scope="session")
def data():
    """Rows with a binary column, a column far from zero and a column in tiny units."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((240, 5))
    x[:, 1] = 0.8 * x[:, 0] + 0.6 * x[:, 1]
    x[:, 2] = x[:, 2] > 0
    x[:, 3] = 3e5 + x[:, 3]
    x[:, 4] *= 1e-9
    y = 3 * x[:, 0] + np.sin(x[:, 1]) + x[:, 2] * (x[:, 3] - 3e5) + 1e9 * x[:, 4]
    return x, y + 0.3 * rng.standard_normal(240)
