"""Files larger than memory should be: 10 GB of Parquet are explained within 4 GiB.

``DFI_STREAM_GB`` sets the size of the files, to try it with less.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]

GIGABYTES = float(os.environ.get("DFI_STREAM_GB", "10"))
COLUMNS = 100
FILE_ROWS = 250_000

CODE = """
import json, sys, threading, time
import dfi
from sklearn.ensemble import HistGradientBoostingRegressor

def resident():
    with open("/proc/self/status") as status:
        return int(status.read().split("VmRSS:")[1].split()[0]) / 2**20

before, peak, done = resident(), 0.0, False

def watch():
    global peak
    while not done:
        peak = max(peak, resident())
        time.sleep(0.05)

threading.Thread(target=watch, daemon=True).start()
result = dfi.explain(
    sys.argv[1], "y", HistGradientBoostingRegressor(max_iter=100), explain_rows=8192, progress=True
)
done = True
print(json.dumps({
    "gib": peak - before, "n_rows": result.spec["n_rows"], "fit_rows": result.spec["fit_rows"],
    "scores": result.scores.tolist(), "se": result.se.tolist(),
}))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Equally correlated columns, the outcome the sum of five of them and noise."""
    path = tmp_path_factory.mktemp("large")
    rng = np.random.default_rng(0)
    left = int(GIGABYTES * 1e9 / (8 * (COLUMNS + 1)))
    number = 0
    while left > 0:
        n = min(FILE_ROWS, left)
        X = rng.standard_normal((n, COLUMNS))
        X += 0.5 * rng.standard_normal((n, 1))
        y = X[:, :5].sum(axis=1) + rng.standard_normal(n)
        columns = {f"x{j}": X[:, j] for j in range(COLUMNS)}
        pq.write_table(
            pa.table({**columns, "y": y}),
            path / f"{number:05d}.parquet",
            compression="none",
            use_dictionary=False,
        )
        left, number = left - n, number + 1
    yield path
    for file in path.iterdir():
        file.unlink()


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux to see memory")
def test_files_are_explained_in_bounded_memory(folder):
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", CODE, str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    print(f"{GIGABYTES:g} GB, {found['n_rows']} rows: {found['gib']:.2f} GiB above the start")
    assert found["gib"] < 4.0
    assert found["fit_rows"] == min(200_000, found["n_rows"])
    for label in ("reading columns", "gathering rows", "moments", "laws", "explaining rows"):
        assert label in done.stderr
    scores, se = np.array(found["scores"]), np.array(found["se"])
    assert scores[:5].min() > scores[5:].max() + 5 * se.max()
