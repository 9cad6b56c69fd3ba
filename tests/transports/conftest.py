"""What tests of several transports ask."""

from __future__ import annotations

import numpy as np
import pytest

from dfi.transports.auto import distance_correlations


@pytest.fixture
def largest_distance_correlation():
    """Return the largest distance correlation of two columns."""

    def largest(rows):
        squared = distance_correlations([rows[:, [j]] for j in range(rows.shape[1])]).max()
        return float(np.sqrt(max(squared, 0.0)))

    return largest
