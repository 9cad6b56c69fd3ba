r"""Transports that are scored along the curves of their decoders; user-defined ones are.

Replacing a latent coordinate moves a row on a curve, for any decoder (:mod:`dfi._scoring.curves`).

A user-defined transport is any object with ``fit``, ``encode`` and ``decode`` (and ``jacobian``).
It works on the columns that vary, as an array of floats:

- ``fit(X)`` or ``fit(X, sample_weight=...)`` learns from the rows;
- ``encode(X)`` returns independent latent coordinates, one per column of ``X``; it may take a
  ``generator`` (:class:`numpy.random.Generator`) for what is random in it;
- ``decode(Z)`` returns the row that belongs to each latent row;
- ``jacobian(Z)``, optional, returns ``d decode_l / d z_j`` as an array (n, l, j); central
  differences stand in for it;
- ``reference``, optional: ``"empirical"`` (default, the law of the encoded rows), ``"gaussian"`` or
  ``"uniform"``.
"""

from __future__ import annotations

import copy
import inspect
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dfi._data.weights import Weights
from dfi._lines.base import Reference
from dfi._scoring.curves import curve_scores
from dfi.transports.base import (
    FittedTransport,
    Transport,
    both_means,
    jackknifed,
    repeated_rows,
    thin,
)
from dfi.warnings import TransportWarning, warn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfi._data.columns import Column
    from dfi._scoring.scores import Scores, Task
    from dfi._types import Bools, Floats, Ints

UNIFORM_ATOMS = 1024
JACKKNIFE_ROWS = 400
"""Rows on which the scores of refitted transports are compared."""

ROUND_TRIP = 0.05
"""Root mean square error of decode(encode(X)), in standard deviations, that is worth a warning."""

STEP = 1e-3


class CurvedTransport(FittedTransport):
    """A fitted transport that is scored along the curves of its decoder."""

    @property
    def draws_latents(self) -> bool:
        """Whether latent rows are draws, of which a row that counts ``w`` times has ``w``."""
        return False

    @abstractmethod
    def slopes(self, latent: Floats, j: int) -> Floats:
        """Return the change of each standardised feature per unit of latent ``j``, (n, d)."""

    def plain_scores(self, task: Task) -> Scores:
        """Score along the curves, and say where they do not pass through the rows."""
        copies = RowCopies.of(self, task.weights, task.rows)
        scores = self._along_curves(task, copies)
        error = _round_trip(self, task)
        if error > ROUND_TRIP:
            warn(
                f"decode(encode(X)) differs from X by {error:.2g} standard deviations (root mean "
                "square): the curves do not pass through the rows, and scores are biased",
                TransportWarning,
            )
        return replace(scores, diagnostics={**scores.diagnostics, "round_trip_error": error})

    def jackknife(self, scores: Scores, task: Task) -> Scores:
        """Compare refits on some of the rows, with the nodes that were found to be enough."""
        options = replace(task.options, nodes=scores.n_nodes)
        folds = thin(task.folds, JACKKNIFE_ROWS, task.weights)
        thinned = replace(task, folds=folds, options=options, advance=None)
        copies = RowCopies.of(self, task.weights, task.rows)

        def rescore(keep: Ints | None) -> Floats:
            fitted = self if keep is None else task.fit(self.design, keep, self)
            found = fitted._along_curves(thinned, copies, check=False)
            return both_means(found, task)

        return jackknifed(scores, task, task.child(1), rescore)

    def _along_curves(self, task: Task, copies: RowCopies | None, *, check: bool = True) -> Scores:
        # the same draws for every refit: only the transport differs
        generator, matrix = np.random.default_rng(task.child(0)), task.matrix
        if copies is not None:
            return copies.scores(task, self, generator=generator, check=check)
        latent = np.zeros((len(matrix), self.n_latent))
        latent[task.rows] = self.encode(matrix[task.rows], generator)
        return curve_scores(task, self, latent=latent, check=check)


def _round_trip(transport: FittedTransport, task: Task) -> float:
    """Return the root mean square of decode(encode(X)) - X in standard deviations."""
    matrix, weights = task.table.matrix[task.rows], task.weights.take(task.rows)
    # weighted, since rows of weight 0 were not fitted and may lie beyond all that were
    back = transport.decode(transport.encode(matrix, np.random.default_rng(task.child(0))))
    active = transport.active
    rows = matrix[:, active]
    variance = weights.mean((rows - weights.mean(rows)) ** 2)
    return float(np.sqrt(np.mean(weights.mean((back[:, active] - rows) ** 2) / variance)))


def neighbours(latent: Floats, j: int, step: float, unit_interval: bool) -> tuple[Floats, Floats]:
    """Return the latent rows with coordinate ``j`` a step lower and a step higher."""
    low, high = latent.copy(), latent.copy()
    low[:, j] -= step
    high[:, j] += step
    if unit_interval:
        low[:, j] = np.clip(low[:, j], 1e-9, 1 - 1e-9)
        high[:, j] = np.clip(high[:, j], 1e-9, 1 - 1e-9)
    return low, high


def differences(
    decode: Callable[[Floats], Floats], latent: Floats, j: int, step: float, unit_interval: bool
) -> Floats:
    """Return the derivative of a decoder in coordinate ``j`` by differences."""
    low, high = neighbours(latent, j, step, unit_interval)
    width = (high[:, j] - low[:, j])[:, None]
    return np.asarray((decode(high) - decode(low)) / width)


def uniform_reference(d: int) -> Reference:
    """Return the uniform law on the unit interval for every coordinate, by its midpoints."""
    levels = (np.arange(UNIFORM_ATOMS) + 0.5) / UNIFORM_ATOMS
    return Reference.empirical(np.repeat(levels[:, None], d, axis=1))


@dataclass(frozen=True)
class RowCopies:
    """The rows of a table, those that are explained as often as they count.

    Frequency weights are then repeated rows to the last draw, and a row's influence value is the
    mean over its own draws. Each copy is of a row of the table, with weight 1; rows of weight 0
    have one copy, at the end: the draws of the others are then the same as without them.
    """

    rows: Ints
    weights: Weights

    @classmethod
    def of(cls, transport: CurvedTransport, weights: Weights, rows: Ints) -> RowCopies | None:
        """Return the copies of some rows; None where one of each will do."""
        if weights.uniform or not transport.draws_latents:
            return None
        found = repeated_rows(weights.take(rows))
        if found is None:
            return None
        idle = rows[weights.values[rows] == 0]
        mass = np.concatenate([np.ones(len(found)), np.zeros(len(idle))])
        return cls(np.concatenate([rows[found], idle]), Weights(mass, "frequency"))

    def scores(
        self,
        task: Task,
        transport: CurvedTransport,
        *,
        generator: np.random.Generator,
        check: bool = True,
    ) -> Scores:
        """Return :func:`curve_scores` of the rows, from the mean over the draws of each."""
        drawn = self.weights.values > 0
        matrix, folds = task.matrix[self.rows], task.folds
        latent = np.concatenate(
            [transport.encode(matrix[part], generator) for part in (drawn, ~drawn)]
        )
        copied = [
            replace(fold, test=np.flatnonzero(np.isin(self.rows, fold.test))) for fold in folds
        ]
        of_copies = replace(
            task,
            folds=copied,
            table=replace(task.table, matrix=matrix, present=None),
            y=task.y[self.rows],
            weights=self.weights,
            advance=None,
        )
        found = curve_scores(of_copies, transport, latent=latent, check=check)
        if task.advance is not None:
            # a bar counts rows, not their copies
            task.advance(sum(len(fold.test) for fold in folds))
        rows, which, count = np.unique(
            self.rows[found.rows], return_inverse=True, return_counts=True
        )

        def mean(values: Floats) -> Floats:
            total = np.zeros((len(rows), values.shape[1]))
            np.add.at(total, which, values)
            return total / count[:, None]

        predictions = []
        for test, values in found.predictions:
            once, first = np.unique(self.rows[test], return_index=True)
            predictions.append((once, values[first]))
        return replace(
            found,
            rows=rows,
            latent=mean(found.latent),
            attributed=mean(found.attributed),
            predictions=tuple(predictions),
        )


@dataclass(frozen=True)
class UserTransport(CurvedTransport):
    """A user's fitted transport, which sees the active columns alone.

    ``center`` and ``deviation`` are those of every column; ``unit_interval`` tells that latent
    coordinates lie between 0 and 1.
    """

    design: Transport
    transport: Any
    active: Ints
    center: Floats
    deviation: Floats
    reference: Reference
    unit_interval: bool = False

    def encode(self, matrix: Floats, generator: np.random.Generator | None = None) -> Floats:
        """Return the latent rows."""
        generator = np.random.default_rng(0) if generator is None else generator
        return _encode(self.transport, matrix[:, self.active], generator)

    def decode(self, latent: Floats) -> Floats:
        """Return the rows of the numeric matrix that belong to latent rows."""
        rows = np.broadcast_to(self.center, (len(latent), len(self.center))).copy()
        rows[:, self.active] = self._decode(latent)
        return rows

    def _decode(self, latent: Floats) -> Floats:
        # copies here and below: a transport that works in place must not move what is read again
        found = self.transport.decode(latent.copy())
        return _checked(self.transport, "decode", found, latent.shape)

    def slopes(self, latent: Floats, j: int) -> Floats:
        """Return the change of each standardised feature per unit of latent ``j``."""
        deviation = self.deviation[self.active]
        if hasattr(self.transport, "jacobian"):
            shape = (*latent.shape, self.n_latent)
            found = _checked(
                self.transport, "jacobian", self.transport.jacobian(latent.copy()), shape
            )
            return np.asarray(found[:, :, j] / deviation)
        return differences(self._decode, latent, j, STEP, self.unit_interval) / deviation


@dataclass
class Custom(Transport):
    """A user's transport as one of ours; made by passing the object as ``transport``."""

    transport: Any

    name: ClassVar[str] = "custom"
    straight: ClassVar[bool] = False

    def fit_matrix(
        self,
        matrix: Floats,
        weights: Weights,
        constant: Bools,
        *,
        columns: Sequence[Column] | None = None,
        like: FittedTransport | None = None,
    ) -> UserTransport:
        """Fit a copy of the user's transport to the columns that vary."""
        del columns, like
        active = np.flatnonzero(~constant)
        rows = np.ascontiguousarray(matrix[:, active])
        fitted = copy.deepcopy(self.transport)
        parameters = inspect.signature(fitted.fit).parameters
        if "sample_weight" in parameters:
            fitted.fit(rows.copy(), sample_weight=weights.values.copy())
        elif weights.uniform:
            fitted.fit(rows.copy())
        else:
            raise ValueError(
                f"{type(fitted).__name__}.fit takes no sample_weight, so the weights could not "
                "reach the transport: add the parameter, or drop sample_weight"
            )
        latent = _encode(fitted, rows, np.random.default_rng(0))
        kind = getattr(fitted, "reference", "empirical")
        if kind == "empirical":
            reference = Reference.empirical(latent, weights.values)
        elif kind == "gaussian":
            reference = Reference.gaussian()
        elif kind == "uniform":
            reference = uniform_reference(len(active))
        else:
            raise ValueError(
                f"{type(fitted).__name__}.reference is {kind!r}: it must be 'empirical', "
                "'gaussian' or 'uniform'"
            )
        share = weights.values / weights.values.sum()
        center = share @ matrix
        return UserTransport(
            design=self,
            transport=fitted,
            active=active,
            center=center,
            deviation=np.sqrt(share @ (matrix - center) ** 2),
            reference=reference,
            unit_interval=kind == "uniform",
        )

    def label(self) -> str:
        """Return the name of the user's class."""
        return type(self.transport).__name__

    def specification(self) -> dict[str, Any]:
        """Return what the estimand depends on."""
        return {
            "transport": "custom",
            "transport_form": type(self.transport).__name__,
            "epsilon": 0.0,
            "cost": "user-defined",
            "standardize": True,
        }


def is_transport(candidate: Any) -> bool:
    """Return whether an object can be used as a user-defined transport."""
    return not isinstance(candidate, type) and all(
        callable(getattr(candidate, method, None)) for method in ("fit", "encode", "decode")
    )


def _encode(transport: Any, rows: Floats, generator: np.random.Generator) -> Floats:
    if "generator" in inspect.signature(transport.encode).parameters:
        latent = transport.encode(rows.copy(), generator=generator)
    else:
        latent = transport.encode(rows.copy())
    return _checked(transport, "encode", latent, rows.shape)


def _checked(transport: Any, method: str, value: Any, shape: tuple[int, ...]) -> Floats:
    result = np.array(value, dtype=float)
    where = f"{type(transport).__name__}.{method}"
    if result.shape != shape:
        raise ValueError(f"{where} returned shape {result.shape}; {shape} is needed")
    if not np.isfinite(result).all():
        raise ValueError(f"{where} returned NaN or infinity")
    return result
