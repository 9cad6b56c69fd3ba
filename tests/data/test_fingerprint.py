import numpy as np
import pandas as pd
import polars as pl

import dfi
from dfi._data.problem import fingerprint


def test_fingerprint_knows_values_order_and_shape():
    a = np.arange(6.0).reshape(2, 3)
    assert fingerprint(a) == fingerprint(np.asfortranarray(a))
    assert fingerprint(a) != fingerprint(a.reshape(3, 2))
    assert fingerprint(a) != fingerprint(a[::-1])
    assert fingerprint(a, a[0]) != fingerprint(a[0], a)
    assert fingerprint(np.array([-0.0])) == fingerprint(np.array([0.0]))
    assert len(fingerprint(np.zeros((70_000, 2)))) == 64


def test_a_result_carries_the_fingerprint_of_its_data():
    sample = dfi.datasets.m1(100, rho=0.5, d=3)
    frame = {f"f{j}": sample.X[:, j] for j in range(3)}
    found = [
        dfi.explain(X, sample.y, estimator="linear", diagnose=False).spec["data_sha256"]
        for X in (sample.X, pd.DataFrame(frame), pl.DataFrame(frame))
    ]
    assert len(set(found)) == 1
    other = dfi.explain(sample.X, sample.y + 1, estimator="linear", diagnose=False)
    assert other.spec["data_sha256"] not in found
