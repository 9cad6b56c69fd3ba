"""Line moments of all classes, kept for the classes that follow.

The kernel for a softmax gives the moments of every class in one sweep of a line. Callers explain
one class after another, each by line models of its own, along the same lines: what the first class
computed is kept here, and the others find it.

Moments are found by what they were computed from, by digests of the trees, the lines and the law,
never by the identity of an object: a model that is fitted again in place finds nothing. They are
kept as long as the fitted model that they belong to (those of models that cannot be referred to
weakly are not kept), and up to :data:`MOST_BYTES` in the whole process, the oldest dropped first:
beyond that each class sweeps the lines again.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import OrderedDict
from dataclasses import dataclass, fields
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from dfi._lines.base import LineMoments, Lines, Reference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dfi._lines.trees.ensemble import Category, TreeEnsemble
    from dfi._types import Floats

MOST_BYTES = 256 * 2**20
"""Bound on the moments that are kept."""

Key = tuple[int, bytes, bytes]


def digest(parts: Iterable[object]) -> bytes:
    """Return a digest of arrays and plain values, equal only if they are."""
    name = blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, np.ndarray):
            name.update(f"{part.shape}{part.dtype}".encode())
            name.update(np.ascontiguousarray(part).data)
        else:
            name.update(repr(part).encode())
        name.update(b";")
    return name.digest()


def digest_of_trees(ensemble: TreeEnsemble, categories: Iterable[Category]) -> bytes:
    """Return the digest of an ensemble of all classes, whichever of them is explained."""
    parts: list[object] = [
        *(ensemble.feature, ensemble.threshold, ensemble.left, ensemble.right, ensemble.value),
        *(ensemble.roots, ensemble.n_features),
    ]
    if ensemble.classes is not None:
        parts += [ensemble.classes.of_tree, ensemble.classes.intercepts]
    for category in categories:
        # the levels of one number decide rows, not lines: what cuts these is in the other fields
        parts += [getattr(category, f.name) for f in fields(category) if f.name != "grid"]
    return digest(parts)


def digest_of_lines(lines: Lines) -> bytes:
    law = lines.reference.kept(_digest_of_law)
    return digest([lines.points, lines.latent, lines.directions, lines.offsets, law])


def _digest_of_law(reference: Reference) -> bytes:
    return digest([reference.kind, reference.values, reference.cumulative])


@dataclass
class MomentCache:
    """Moments by their inputs, up to a number of bytes; thread-safe."""

    most_bytes: int = MOST_BYTES

    def __post_init__(self) -> None:
        self._found: OrderedDict[Key, LineMoments] = OrderedDict()
        self._bytes = 0
        self._lock = threading.RLock()
        # by identity: some libraries' models have no hash
        self._owners: dict[int, tuple[weakref.ref[object], int]] = {}
        self._numbers = itertools.count()

    def owner(self, model: object) -> int | None:
        """Return the number of a fitted model, None if it cannot be referenced weakly."""
        with self._lock:
            known = self._owners.get(id(model))
            if known is not None and known[0]() is model:
                return known[1]
            number = next(self._numbers)
            try:
                weakref.finalize(model, self.forget, number).atexit = False
                self._owners[id(model)] = weakref.ref(model), number
            except TypeError:
                return None
        return number

    def moments(self, key: Key, make: Callable[[], LineMoments]) -> LineMoments:
        """Return the cached value, or compute and cache it; two threads may compute the same."""
        with self._lock:
            found = self._found.get(key)
        if found is None:
            found = make()
            self._keep(key, found)
        return found

    def forget(self, owner: int) -> None:
        """Drop the moments of a model that no longer exists."""
        with self._lock:
            for key in [key for key in self._found if key[0] == owner]:
                self._bytes -= _size(self._found.pop(key))
            gone = [place for place, (_, number) in self._owners.items() if number == owner]
            for place in gone:
                del self._owners[place]

    @property
    def n_bytes(self) -> int:
        return self._bytes

    def _keep(self, key: Key, moments: LineMoments) -> None:
        size = _size(moments)
        if size > self.most_bytes:
            return
        with self._lock:
            if key in self._found:
                return
            self._found[key] = moments
            self._bytes += size
            while self._bytes > self.most_bytes:
                self._bytes -= _size(self._found.popitem(last=False)[1])


def _size(moments: LineMoments) -> int:
    return moments.mean.nbytes + moments.hermite.nbytes


def of_class(moments: LineMoments, k: int, n_classes: int) -> LineMoments:
    """Return a copy of the moments of one class; those of all stay unchanged."""

    def part(values: Floats) -> Floats:
        return np.array(values.reshape(n_classes, -1, *values.shape[1:])[k])

    return LineMoments(part(moments.mean), part(moments.hermite))


MOMENTS = MomentCache()
