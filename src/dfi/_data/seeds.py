"""Seeds by name, so no draw depends on what was drawn before it or on scheduling."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Seeds:
    """A tree of seeds: every name has its own child, whatever else is drawn."""

    entropy: int
    key: tuple[int, ...] = ()

    @classmethod
    def of(cls, random_state: int | None) -> Seeds:
        if random_state is None:
            return cls(int(np.random.SeedSequence().entropy))  # type: ignore[arg-type]
        return cls(int(random_state))

    def child(self, *names: str | int) -> Seeds:
        return Seeds(self.entropy, (*self.key, *(zlib.crc32(str(name).encode()) for name in names)))

    def sequence(self) -> np.random.SeedSequence:
        """Return this seed for numpy; a new object each time, because spawning has memory."""
        return np.random.SeedSequence(self.entropy, spawn_key=self.key)

    def generator(self) -> np.random.Generator:
        return np.random.default_rng(self.sequence())

    def integer(self) -> int:
        return int(self.sequence().generate_state(1)[0])
