"""What tests of several transports ask."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def largest_distance_correlation():
    """Return the largest distance correlation of two columns."""

    def largest(rows):
        squared = distance_correlations([rows[:, [j]] for j in range(rows.shape[1])]).max()
        return float(np.sqrt(max(squared, 0.0)))

    return largest


def distance_correlations(blocks):
    """Return ``R`` of every pair of blocks: ``-inf`` with itself, 0 where one does not vary."""
    n = len(blocks[0])
    centred = np.empty((len(blocks), n * n), dtype=np.float32)
    for j, block in enumerate(blocks):
        if block.shape[1] == 1:
            distance = np.abs(block - block.T)
        else:
            square = np.sum(block**2, axis=1)
            distance = square[:, None] + square[None, :] - 2.0 * block @ block.T
            distance = np.sqrt(np.maximum(distance, 0.0))
        total = distance.sum(axis=0)
        distance -= (total[:, None] + total[None, :]) / (n - 2)
        distance += total.sum() / ((n - 1) * (n - 2))
        np.fill_diagonal(distance, 0.0)
        centred[j] = distance.ravel()
    covariance = (centred @ centred.T).astype(float)
    variance = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    ratio = np.divide(covariance, variance, out=np.zeros_like(covariance), where=variance > 0)
    np.fill_diagonal(ratio, -np.inf)
    return np.asarray(ratio)
