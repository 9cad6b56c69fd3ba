"""Weighted sums of models: line moments are linear in the model, so they are the same sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dfi._lines.base import LineModel, LineMoments, Lines

if TYPE_CHECKING:
    from dfi._types import Floats


@dataclass(frozen=True)
class SumLines:
    """The model ``intercept + sum_k weights[k] * parts[k]``.

    The second moment is not linear in the model: asking for it is refused, and the caller
    integrates the sum as a whole instead.
    """

    parts: tuple[LineModel, ...]
    weights: tuple[float, ...]
    intercept: float = 0.0

    @property
    def rule(self) -> str:
        """Say how the averages are taken."""
        return " + ".join(dict.fromkeys(part.rule for part in self.parts))

    def predict(self, points: Floats) -> Floats:
        """Return the model's value at each row."""
        value = np.full(len(points), self.intercept)
        for weight, part in zip(self.weights, self.parts, strict=True):
            value += weight * part.predict(points)
        return value

    def moments(self, lines: Lines, *, square: bool = False) -> LineMoments:
        """Return the moments along each line."""
        if square:
            raise TypeError("the second moment of a sum is not the sum of second moments")
        first, _ = lines.reference.moments(lines.latent.shape[1])
        shape = (len(lines.offsets), *lines.latent.shape)
        mean = np.full(shape, self.intercept)
        hermite = np.broadcast_to(self.intercept * first, shape).copy()
        for weight, part in zip(self.weights, self.parts, strict=True):
            moments = part.moments(lines)
            mean += weight * moments.mean
            hermite += weight * moments.hermite
        return LineMoments(mean, hermite)
