"""Estimators of Dask where there is no cluster."""

from __future__ import annotations

import dask.dataframe as dd
import pytest
import xgboost.dask

import dfi


@pytest.mark.filterwarnings("ignore::dfi.warnings.DFIWarning")
def test_a_learner_of_dask_without_a_client(frame):
    with pytest.raises(ValueError, match="DaskXGBRegressor is fitted on the workers of"):
        dfi.explain(
            dd.from_pandas(frame, npartitions=2), "y", xgboost.dask.DaskXGBRegressor(),
            explain_rows=400,
        )  # fmt: skip
