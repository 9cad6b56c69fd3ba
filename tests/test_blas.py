"""The kernels of OpenBLAS that `make test-blas` asks for are the ones that compute."""

import os

import pytest
import scipy.linalg  # noqa: F401  brings its own OpenBLAS, beside numpy's
from threadpoolctl import threadpool_info

# In the 64-bit library the kernels of Prescott go under the name of their predecessor.
NAMES = {"Prescott": {"Prescott", "Katmai"}}


@pytest.mark.skipif("OPENBLAS_CORETYPE" not in os.environ, reason="no kernels are asked for")
def test_the_kernels_asked_for_are_in_use():
    asked = os.environ["OPENBLAS_CORETYPE"]
    libraries = [found for found in threadpool_info() if found["internal_api"] == "openblas"]
    if not libraries:
        pytest.skip("numpy and scipy compute with another BLAS")
    for library in libraries:
        assert library["architecture"] in NAMES.get(asked, {asked}), library["filepath"]
