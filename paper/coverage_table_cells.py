"""The cells of the coverage table: blocks added up, with their errors and the paper's numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from paper.coverage_table import AWARE, CORRELATIONS, FAMILIES, SAMPLE_SIZES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from paper.reproduction import Record, Records

NULLS_LABEL = "X3 to X10"
BAND = (0.86, 0.94)
"""Coverage of nominal 90 % intervals that is asked for non-null scores."""

JUDGED_FROM = 250

PAPER: dict[tuple[str, float], tuple[float, ...]] = {
    ("DFI", 0.0): (
        0.942, 0.968, 0.987, 0.990, 0.942, 0.981, 0.987, 1.000, 0.962, 0.974, 0.994, 1.000,
    ),
    ("DFI", 0.001): (
        0.907, 0.946, 0.978, 0.978, 0.917, 0.952, 0.958, 0.987, 0.929, 0.939, 0.978, 0.990,
    ),
    ("DFI", 0.01): (
        0.907, 0.939, 0.974, 0.971, 0.920, 0.952, 0.958, 0.984, 0.946, 0.942, 0.987, 0.984,
    ),
    ("DFI", 0.1): (
        0.904, 0.939, 0.971, 0.968, 0.913, 0.952, 0.965, 0.987, 0.946, 0.942, 0.987, 0.987,
    ),
    ("DFI", 1.0): (
        0.910, 0.939, 0.974, 0.971, 0.913, 0.955, 0.965, 0.984, 0.946, 0.946, 0.987, 0.987,
    ),
    ("LOCO", 0.0): (
        0.987, 0.955, 0.942, 0.958, 0.987, 0.968, 0.952, 0.942, 0.939, 0.971, 0.968, 0.955,
    ),
    ("nLOCO", 0.0): (
        0.984, 0.955, 0.942, 0.955, 0.990, 0.968, 0.952, 0.939, 0.942, 0.974, 0.968, 0.952,
    ),
}  # fmt: skip
"""The paper's table: coverage of the nulls by correlation, then by sample size."""


def paper_coverage(method: str, epsilon: float, rho: float, n: int) -> float | None:
    """Return the paper's coverage of the nulls, None where it has none."""
    row = PAPER.get((method, epsilon))
    if row is None or rho not in CORRELATIONS or n not in SAMPLE_SIZES:
        return None
    return row[len(SAMPLE_SIZES) * CORRELATIONS.index(rho) + SAMPLE_SIZES.index(n)]


@dataclass(frozen=True)
class Coverage:
    """How often one kind of interval held the truth in one cell.

    Attributes
    ----------
    family, method, transport, epsilon, rho, n, interval : str or number
        The cell; see :mod:`paper.coverage_table`.
    feature : str
        X1, X2, or the pooled nulls.
    truth : float
        The score in the population.
    share : float
        The coverage.
    replications : int
        Samples.
    error : float
        Monte-Carlo standard error of the coverage.
    """

    family: str
    method: str
    transport: str
    epsilon: float
    rho: float
    n: int
    interval: str
    feature: str
    truth: float
    share: float
    replications: int
    error: float

    @property
    def paper(self) -> float | None:
        """The paper's number."""
        if self.feature != NULLS_LABEL or self.transport == "bridge":
            return None
        return paper_coverage(self.method, self.epsilon, self.rho, self.n)

    @property
    def beyond(self) -> float:
        """Distance from the asked band in Monte-Carlo errors of a coverage of 90 %, 0 inside."""
        low, high = BAND
        distance = max(low - self.share, self.share - high, 0.0)
        return distance / float(np.sqrt(0.09 / self.replications))


KEYS = ("method", "transport", "epsilon", "interval")


def collect(records: Records) -> list[Coverage]:
    """Add up the blocks of every cell."""
    pooled: dict[tuple[Any, ...], Record] = {}
    for record in records.values():
        if record.get("family") not in FAMILIES:
            continue
        for cell in record["cells"]:
            place = (record["family"], record["rho"], record["n"], *(cell[key] for key in KEYS))
            total = pooled.setdefault(
                place,
                {"count": 0, "hits": 0.0, "shares": 0.0, "squares": 0.0, "truth": cell["truth"]},
            )
            total["count"] += record["count"]
            total["hits"] = total["hits"] + np.asarray(cell["hits"], dtype=float)
            total["shares"] += cell["null_shares"]
            total["squares"] += cell["null_squares"]
    return [
        row for place, total in pooled.items() for row in _coverages(place, total)
    ]  # fmt: skip


def _coverages(place: tuple[Any, ...], total: Record) -> list[Coverage]:
    family, rho, n, method, transport, epsilon, interval = place
    count = total["count"]
    found = {
        f"X{j + 1}": (total["truth"][j], total["hits"][j] / count, None) for j in range(2)
    }  # fmt: skip
    share = total["shares"] / count
    spread = np.sqrt(max(total["squares"] / count - share**2, 0.0) / count)
    found[NULLS_LABEL] = (0.0, share, spread)
    return [
        Coverage(
            family, method, transport, epsilon, rho, n, interval, feature, float(truth),
            float(value), count,
            float(np.sqrt(value * (1 - value) / count) if error is None else error),
        )
        for feature, (truth, value, error) in found.items()
    ]  # fmt: skip


def select(rows: Iterable[Coverage], **wanted: Any) -> list[Coverage]:
    """Return the rows whose attributes are those wanted."""
    return [row for row in rows if all(getattr(row, key) == wanted[key] for key in wanted)]


def judged(rows: Iterable[Coverage]) -> list[Coverage]:
    """Return what is asked to lie in the band: non-null, least squares, n of at least 250."""
    found = select(rows, family="linear", interval=AWARE, epsilon=0.0)
    return [row for row in found if row.truth > 1e-12 and row.n >= JUDGED_FROM]
