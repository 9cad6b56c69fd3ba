"""Settings shared by all tests."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# Two cores, several workers: threads inside numpy would only get in each other's way.
os.environ.setdefault("OMP_NUM_THREADS", "1")

settings.register_profile(
    "quick",
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("quick")
