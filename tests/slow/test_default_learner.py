"""The default regression recovers the scores of model M3."""

from __future__ import annotations

import numpy as np
import pytest

import dfi
from dfi.datasets import m3

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rho", [0.2, 0.8])
def test_m3_order_and_total(rho, seed):
    sample = m3(2000, rho=rho, random_state=seed)
    found = np.asarray(dfi.DFI(random_state=seed).fit(sample.X, sample.y).scores)
    first, last = 9 / 16 * (rho**2 + 2), (rho**2 + 2) / 4
    truth = np.array([first, first, (14 * rho**2 + 13) / 16, last, last])
    assert abs(found.sum() / truth.sum() - 1) < 0.25
    assert min(found[:2]) > found[2] > max(found[3:])
    # equal in truth: apart by less than the gap to the next
    assert abs(found[0] - found[1]) < min(found[:2]) - found[2]
    assert abs(found[3] - found[4]) < found[2] - max(found[3:])
