"""The root of all seeds."""

from __future__ import annotations

import numpy as np


def seed_sequence(random_state: object) -> np.random.SeedSequence:
    """Return the root of all seeds of a call.

    Parameters
    ----------
    random_state : int or None
        A whole number of 0 or more; None asks the operating system, for a result that no second
        call repeats.
    """
    whole = isinstance(random_state, int | np.integer) and not isinstance(random_state, bool)
    if random_state is not None and not (whole and int(random_state) >= 0):  # type: ignore[call-overload]
        raise ValueError(
            f"random_state must be a whole number of 0 or more, or None, got {random_state!r}"
        )
    return np.random.SeedSequence(random_state)  # type: ignore[arg-type]


def named_seed(seed: np.random.SeedSequence, name: str) -> np.random.SeedSequence:
    """Return a child of a seed that depends on a name only, not on what was spawned before it."""
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, *name.encode()))
