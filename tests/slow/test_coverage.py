"""Intervals cover what they say: replicated simulations, nominal 90 %.

The asked ranges are those of the design; a cell passes if its coverage lies in the range or
within two Monte-Carlo standard errors of it, and its figures are printed either way.
"""

import numpy as np
import pytest

from paper.cells import LEARNED_CELLS, LINEAR_CELLS, ORACLE_CELLS

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("cell", ORACLE_CELLS + LINEAR_CELLS + LEARNED_CELLS, ids=lambda c: c.name)
def test_coverage(cell):
    study = cell.run()
    covered = study.coverage()
    plain = study.coverage(plain=True)
    slack = 2 * np.sqrt(0.09 / len(study.scores))
    signal = study.truth > 0
    print(f"{cell.name}: {covered.round(3)}, plain {plain.round(3)}, MC error {slack / 2:.3f}")
    low, high = cell.non_null
    assert (covered[signal] >= low - slack).all()
    assert (covered[signal] <= high + slack).all()
    assert (covered[~signal] >= cell.null - slack).all()
    assert (study.coverage(expand=True)[~signal] >= cell.null_expanded - slack).all()
    if cell.learner == "oracle" and cell.model.startswith("M1"):
        assert plain[1] < 0.8, "a known transport would have been enough: the terms do nothing"
