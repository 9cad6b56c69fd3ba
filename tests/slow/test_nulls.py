"""Features that carry nothing are rejected at 5 % in at most 7 % of samples, true regression."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow

_PATH = Path(__file__).parents[2] / "benchmarks" / "null_study.py"
_SPEC = importlib.util.spec_from_file_location("null_study", _PATH)
null_study = importlib.util.module_from_spec(_SPEC)
# parallel workers load the cells by the module's name
sys.modules["null_study"] = null_study
_SPEC.loader.exec_module(null_study)


@pytest.mark.parametrize("cell", null_study.CELLS, ids=lambda cell: cell.key)
def test_nulls_are_rarely_rejected(cell):
    found = cell.run(n_jobs=1)
    rejected = float(np.mean(found["p_now"] < null_study.LEVEL))
    error = float(np.sqrt(0.07 * 0.93 / len(found["p_now"])))
    print(null_study.line(cell, found))
    assert rejected <= 0.07 + 2 * error
