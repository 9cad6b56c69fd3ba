r"""As many rows as the answer needs: line means of a random sample, a transport of all rows.

The transport and the models use all ``n`` rows; the influence values :math:`u_i` of the transport
taken as known are computed for ``m`` of them, drawn at random. With :math:`T_i` the influence of a
row through the fitted transport the estimate is :math:`\bar u_m + \bar T_n`, up to terms of second
order, and its variance

.. math:: se^2 = \frac{Var(u)}{m} + \frac{Var(u + T) - Var(u)}{n} .

Both variances are taken from the ``m`` rows (:func:`dfi._scoring.sampling.of_sample`). Rows are
explained in an order that a ticket of their place gives (:func:`dfi._data.source.sampled_order`),
stage by stage: every stage is a random sample of its own, and what stands after any of them is a
valid answer, with a larger error than the next. So a run can stop where the error is small enough,
where time is up, or where somebody asks for it.
"""

from __future__ import annotations

import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from dfi._data import source
from dfi._data.source import sampled_order, tickets
from dfi._models.predictor import UnpredictedError
from dfi._models.prepare import ORDER
from dfi._parameters import TABLE, argument, worded
from dfi._scoring.sampling import merged_scores, restricted
from dfi._scoring.sensitivity import Summed
from dfi._scoring.task import LineModels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._data.weights import Weights
    from dfi._models.crossfit import FoldModels
    from dfi._models.fits import Fits
    from dfi._scoring.scores import Scores
    from dfi._scoring.task import Task
    from dfi._types import Floats, Ints
    from dfi.transports.base import FittedTransport, Transport

ExplainRows = int | Literal["default", "auto"] | None

BLOCK = 4096
"""Rows of the first stage, and of which later ones have a whole number."""

BLOCKS_AT_ONCE = 4
"""Blocks of a later stage at the most: what an interrupted run may lose."""

MOST_SECONDS = 10**9
"""A longer time limit counts as none."""

FEWEST_COUNTED = 20
"""Fewest rows of positive weight among the first explained rows for scores."""

OF_TOTAL = 0.01
"""The automatic sample ends where the standard error of the total is below this share of it."""

LARGE_SHARE, OF_SCORE = 0.05, 0.05
"""And that of every score above the first share of the total is below the second share of it."""

MOST_CELLS = 1 << 23
"""Rows times coordinates that the automatic sample takes at the most: 64 MB for each matrix of
influence values, of which there are about 16 at a time."""

PILOT_ROWS = 16, 48
"""Rows timed to predict how long all of them take."""

QUICK = 0.1
"""Seconds of a pilot that is repeated."""

REFITTED_ROWS = 21 * 150
"""Rows that 20 refits score, and the transport itself."""

Told = Callable[["Running", int], None]
"""Called after each stage with the sums and the likely number of explained rows."""

answers_interrupts: ContextVar[bool] = ContextVar("answers_interrupts", default=False)
"""Whether Ctrl-C ends a run with the answer so far; a second one ends it at once."""


def seconds_ahead(transport: FittedTransport, task: Task, folds: Sequence[FoldModels]) -> float:
    """Return how long it will take to explain the rows of all folds, from a few rows of the first.

    A fold of ``m`` rows takes :math:`a + b m`, both known from :data:`PILOT_ROWS`; refits score
    :data:`REFITTED_ROWS` more, where the transport's own error is found by them. What follows the
    scores (walks, checks) is not in it.
    """
    few = replace(task, folds=task.folds[:1], transport_error="ignore", advance=None, sample=None)

    def taken(count: int) -> float:
        fold = replace(task.folds[0], test=task.folds[0].test[:count], repeat=0)
        start = time.perf_counter()
        transport.plain_scores(replace(few, folds=[fold], readings=LineModels()))
        return time.perf_counter() - start

    with warnings.catch_warnings():
        # what there is to say is said when the rows are scored
        warnings.simplefilter("ignore")
        try:
            # the first compiles, and tabulates the law; a quick one is not known well from one time
            rounds = 3 if taken(PILOT_ROWS[0]) < QUICK else 1
            short, long = (min(taken(m) for _ in range(rounds)) for m in PILOT_ROWS)
        except (ArithmeticError, TypeError, ValueError, UnpredictedError):
            return 0.0
    each = max(long - short, 0.0) / (PILOT_ROWS[1] - PILOT_ROWS[0])
    rows = sum(len(fold.test) for fold in folds)
    if transport.refits_for_error and not task.fixed:
        rows += REFITTED_ROWS
    return len(folds) * max(short - each * PILOT_ROWS[0], 0.0) + each * rows


@dataclass(frozen=True)
class RowPlan:
    """Which rows are explained, and when to stop.

    ``order`` has the rows in which they are explained, of a ``population`` in all, and ``reason``
    says why no more. Stop as soon as the errors are small enough if ``precise``, and begin no stage
    after the ``deadline``, by :func:`time.monotonic`.
    """

    order: Ints
    population: int
    reason: str
    precise: bool = False
    deadline: float | None = None


def row_plan(
    fits: Fits, design: Transport, explain_rows: ExplainRows, max_seconds: float | None
) -> RowPlan | None:
    """Return which rows are explained and when to stop; None for all of them at once."""
    rows, asked, seed = fits.rows, explain_rows, fits.child(ORDER)
    n, here = fits.population.n_rows, len(rows)
    if asked == "default":
        asked = "auto" if n > source.LARGE_ROWS else None
        if design.scored_rows is not None and n > design.scored_rows:
            asked = design.scored_rows
    every = asked is None or (not isinstance(asked, str) and asked >= n)
    if every and here == n <= source.LARGE_ROWS and max_seconds is None:
        return None
    if fits.weights.dependence is not None:
        if explain_rows in ("default", None) and max_seconds is None:
            return None
        raise ValueError(
            f"{argument('explain_rows')} and {argument('max_seconds')} need independent rows, "
            f"but these depend on each other ({argument('clusters')}, "
            f"{worded('or folds along time', '--time')}): leave both out"
        )
    count = here if asked is None or isinstance(asked, str) else min(asked, here)
    deadline = None
    if max_seconds is not None:
        # a number of seconds may be larger than any float
        deadline = fits.workers.started + float(min(max_seconds, MOST_SECONDS))
    if fits.data.places is None:
        order = rows[sampled_order(n, count, seed)]
    else:
        order = rows[np.argsort(tickets(fits.data.places[rows], seed))[:count]]
    counted = fits.weights.values > 0
    drawn = int(np.count_nonzero(counted[order[:BLOCK]]))
    # a table of few such rows altogether is what it is
    all_there = int(np.count_nonzero(counted[rows])) if here == n else FEWEST_COUNTED
    if drawn < min(FEWEST_COUNTED, all_there):
        raise ValueError(
            f"only {drawn} of the first {min(len(order), BLOCK)} explained rows have a weight "
            f"above 0, but scores need {FEWEST_COUNTED}: remove rows of weight 0 from "
            f"{TABLE}, or pass a larger {argument('explain_rows')}"
        )
    reason = "asked for"
    if count == n:
        reason = "all rows"
    elif count == here:
        reason = "all rows in memory"
    return RowPlan(order, n, reason, precise=asked == "auto", deadline=deadline)


@dataclass(frozen=True)
class Sampled:
    """How many rows were explained, of how many, and why no more."""

    rows: int
    population: int
    reason: str

    def as_dict(self) -> dict[str, object]:
        return {"explained_rows": self.rows, "explained_of": self.population, "why": self.reason}


def sampled_scores(
    transport: FittedTransport,
    task: Task,
    plan: RowPlan,
    membership: Floats,
    told: Told | None = None,
) -> tuple[Scores, Task, Sampled]:
    """Explain rows stage by stage; return their scores, the task of these rows, and why no more.

    ``membership`` (scores, units) tells which scores add up to those that are judged.
    """
    first = _some(task, plan.order[:BLOCK])
    stages = [transport.plain_scores(first)]
    following = _following(task, stages[0])
    running, done = Running.of(stages[0], task, membership), len(first.explained)
    # what the transport's error adds to the squared errors does not depend on the sample's size
    extra: Floats | None = None
    found: Scores | None = None
    reason = plan.reason
    limit = max(BLOCK, MOST_CELLS // max(1, stages[0].latent.shape[1]))
    with _interrupts() as interrupted:
        while True:
            wanted = len(plan.order)
            if plan.precise:
                needed = _rows_needed(running, done, extra)
                wanted = int(min(wanted, needed, limit))
            if told is not None:
                told(running, max(wanted, done))
            if plan.precise and wanted <= done < len(plan.order):
                if needed > done:
                    reason = "memory"
                    break
                if found is None:
                    stages = [merged_scores(stages, task)]
                    found = transport.finished(stages[0], _some(task, plan.order[:done]))
                if extra is None:
                    extra = _added(found, task, membership)
                    continue
                reason = "precise"
                break
            if done >= len(plan.order):
                break
            if interrupted():
                reason = "interrupted"
                break
            if plan.deadline is not None and time.monotonic() > plan.deadline:
                reason = "time"
                break
            found = None
            size = int(np.clip(-(-(wanted - done) // BLOCK), 1, BLOCKS_AT_ONCE)) * BLOCK
            with warnings.catch_warnings():
                # what there is to say of the models and the transport was said of the first rows
                warnings.simplefilter("ignore")
                stages.append(
                    transport.plain_scores(_some(following, plan.order[done : done + size]))
                )
            running = running + Running.of(stages[-1], task, membership)
            done = min(done + size, len(plan.order))
    here = _some(task, plan.order[:done])
    if found is None:
        merged = merged_scores(stages, task)
        stages.clear()
        found = transport.finished(merged, here)
    return found, here, Sampled(done, plan.population, reason)


@dataclass(frozen=True)
class Running(Summed):
    r"""Sums over the rows so far: scores of units and, last, of their total, and their errors.

    ``mass`` and ``count`` are :math:`\sum w` and the effective number of observations; ``first``
    (units + 1,) is :math:`\sum w u`; ``weighed``, ``product`` and ``square`` are :math:`\sum a`,
    :math:`\sum a u` and :math:`\sum a u^2`, with ``a`` the weight itself for counts and its square
    for sampling weights (:meth:`dfi._data.weights.Weights.covariance_of_mean`).
    """

    mass: float
    count: float
    weighed: float
    first: Floats
    product: Floats
    square: Floats
    counts: bool

    @classmethod
    def of(cls, scores: Scores, task: Task, membership: Floats) -> Running:
        """Return the sums over the rows of a stage, treating the transport as known."""
        weights = task.weights.take(scores.rows)
        values = scores.known.attributed @ membership
        values = np.column_stack([values, values.sum(axis=1)])
        w, counts = weights.values, weights.kind == "frequency"
        a = w if counts else w**2
        return cls(
            float(w.sum()), weights.total, float(a.sum()), w @ values, a @ values, a @ values**2,
            counts,
        )  # fmt: skip

    def __add__(self, other: Running) -> Running:
        return replace(super().__add__(other), counts=self.counts)

    @property
    def mean(self) -> Floats:
        return self.first / self.mass

    @property
    def variance(self) -> Floats:
        mean = self.mean
        spread = self.square - 2.0 * mean * self.product + mean**2 * self.weighed
        scale = 1.0 / self.count if self.counts else self.count / self.mass**2
        return np.maximum(spread, 0.0) * scale / max(self.count - 1.0, 1.0)


def _some(task: Task, rows: Ints) -> Task:
    return replace(task, folds=restricted(task.folds, rows), sample=np.sort(rows))


def _following(task: Task, first: Scores) -> Task:
    """Return the task of further rows: what was settled on the first ones is kept."""
    nodes = task.options.nodes if first.n_nodes is None else first.n_nodes
    return replace(
        task,
        options=replace(task.options, nodes=nodes),
        transport_error="derived" if task.transport_error == "auto" else task.transport_error,
        factors=task.factors if first.calibration is None else first.calibration.factors,
        settled=True,
    )


def _rows_needed(running: Running, m: int, extra: Floats | None) -> float:
    r"""Return how many rows the errors ask for, from the ``m`` rows that have been explained.

    :math:`m \ge m_0 \, se_0^2 / (t^2 - e)`, ``t`` the error that is small enough and ``e`` what the
    transport adds whatever the sample.
    """
    mean, square = running.mean, running.variance
    total = abs(float(mean[-1]))
    wanted = np.append(OF_SCORE * np.abs(mean[:-1]), OF_TOTAL * total)
    matters = np.append(np.abs(mean[:-1]) > LARGE_SHARE * total, True)
    room = wanted**2 - (0.0 if extra is None else extra)
    with np.errstate(divide="ignore", invalid="ignore"):
        needed = np.where(room > 0, m * square / room, np.inf)
    needed = np.where(square > 0, needed, 0.0)
    return float(np.max(needed[matters], initial=0.0))


def _errors(influence: Floats, weights: Weights) -> Floats:
    """Return squared standard errors of units and, last, of their total."""
    both = np.column_stack([influence, influence.sum(axis=1)])
    return np.asarray(weights.standard_error(both) ** 2)


def _added(scores: Scores, task: Task, membership: Floats) -> Floats:
    """Return the part of the squared errors that comes from the transport."""
    weights = task.weights.take(scores.rows)
    aware = _errors(scores.attributed @ membership, weights)
    return aware - _errors(scores.known.attributed @ membership, weights)


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Yield a question: whether Ctrl-C was heard, where it asks for the answer so far."""
    heard = threading.Event()
    main = threading.current_thread() is threading.main_thread()
    if not (answers_interrupts.get() and main):
        yield heard.is_set
        return
    before = signal.getsignal(signal.SIGINT)

    def once(number: int, frame: object) -> None:
        del number, frame
        heard.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, once)
    try:
        yield heard.is_set
    finally:
        signal.signal(signal.SIGINT, before)
