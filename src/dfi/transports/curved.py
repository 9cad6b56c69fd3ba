r"""Transports that are scored along the curves of their decoders; user-defined ones are.

Replacing a latent coordinate moves a row on a curve, for any decoder:

.. math:: m_{ij} = E_t[\mu(S(z_i^{(j)}(t)))], \qquad
          v_{jl}(z_i) = Var_t\big[S_l(z_i^{(j)}(t))\big],

both by the same nodes of the reference law; the attributed influence value is
:math:`u^X_{il} = \sum_j \omega_{jl}(z_i)\,u^Z_{ij}` with the shares :math:`\omega` of the line
(:mod:`dfi._scoring.line_shares`), since :math:`u^Z_{ij}` has the conditional mean
:math:`Var(\eta(Z) \mid Z_{-j})` given :math:`Z_{-j}`. With ``attribution="slopes"`` it is
:math:`E_t[(\partial S_l/\partial z_j)^2]` in place of :math:`\omega_{jl}`, as in the paper: on a
decoder that bends sharply such weights have no bound.

A user-defined transport is any object with ``fit``, ``encode`` and ``decode`` (and ``jacobian``).
It works on the columns that vary, as an array of floats:

- ``fit(X)`` or ``fit(X, sample_weight=...)`` learns from the rows;
- ``encode(X)`` returns independent latent coordinates, one per column of ``X``; it may take a
  ``generator`` (:class:`numpy.random.Generator`) for what is random in it;
- ``decode(Z)`` returns the row that belongs to each latent row;
- ``jacobian(Z)``, optional, returns ``d decode_l / d z_j`` as an array (n, l, j); central
  differences stand in for it;
- ``reference``, optional: ``"empirical"`` (default, the law of the encoded rows), ``"gaussian"`` or
  ``"uniform"``;
- ``attribution``, optional: ``"shares"`` (default) or ``"slopes"``.
"""

from __future__ import annotations

import copy
import inspect
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeAlias, TypeGuard, get_args

import numpy as np
from joblib import delayed

from dfi._data.weights import Weights
from dfi._lines.base import Reference, blocks
from dfi._lines.choose import is_smooth
from dfi._lines.quadrature import DEFAULT_NODES, equal_nodes, gauss_nodes
from dfi._models.parallel import in_parallel
from dfi._models.predictor import Predictor
from dfi._parameters import one_of
from dfi._scoring.error import CheckedRows, LineError, same, settle_nodes
from dfi._scoring.forms import calibrated, change_product, influence
from dfi._scoring.jackknife import both_means, kept_factors, thin
from dfi._scoring.line_shares import Attribution, line_shares, node_variance
from dfi._scoring.scores import FoldScores, Scores, calibrate, put_together, rows_held_out
from dfi.transports.base import FittedTransport, Transport, jackknifed, repeated_rows
from dfi.warnings import TransportWarning, warn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dfi._models.crossfit import FoldModels
    from dfi._scoring.error import Nodes
    from dfi._scoring.forms import Measure
    from dfi._scoring.task import Task
    from dfi._types import Floats, Ints, Plain
    from dfi.transports.base import Layout

UNIFORM_ATOMS = 1024
JACKKNIFE_ROWS = 400
"""Rows on which the scores of refitted transports are compared."""

ROUND_TRIP = 0.05
"""Root mean square error of decode(encode(X)), in standard deviations, that is worth a warning."""

AT_ONCE = 16_384
"""Rows up to which the curves of several coordinates are predicted together."""

STEP = 1e-3
FEW_ATOMS = 64
STEP_NODES = 128
"""Nodes for a coordinate whose decoder is a step: each probability is then right to 0.4 %."""

WeightedNodes: TypeAlias = tuple["Floats", "Floats"]
"""Nodes of a coordinate and their weights."""


class CurvedTransport(FittedTransport):
    """A fitted transport that is scored along the curves of its decoder."""

    refit_rows: ClassVar[int] = JACKKNIFE_ROWS
    """Rows on which the scores of refits are compared."""
    refit_nodes: ClassVar[int | None] = None
    """Most nodes of a curve there; None for as many as were found to be enough."""

    @property
    def draws_latents(self) -> bool:
        """Whether latent rows are draws, of which a row that counts ``w`` times has ``w``."""
        return False

    def plain_scores(self, task: Task) -> Scores:
        copies = RowCopies.of(self, task.weights, task.explained)
        scores = curves_of(self, task, copies)
        error = _round_trip(self, task)
        if error > ROUND_TRIP:
            warn(
                f"decode(encode(X)) differs from X by {error:.2g} standard deviations (root mean "
                "square): the curves do not pass through the rows, and scores are biased",
                TransportWarning,
            )
        return replace(scores, diagnostics={**scores.diagnostics, "round_trip_error": error})

    def jackknife(self, scores: Scores, task: Task) -> Scores:
        """Compare refits on some of the rows, with as many nodes as proved enough."""
        nodes = scores.n_nodes
        if self.refit_nodes is not None and task.options.nodes is None:
            nodes = min(self.refit_nodes, nodes or self.refit_nodes)
        options = replace(task.options, nodes=nodes)
        folds = thin(task.folds, self.refit_rows, task.weights)
        factors = kept_factors(scores, task)
        thinned = replace(task, folds=folds, options=options, advance=None, factors=factors)
        copies = RowCopies.of(self, task.weights, task.explained)
        changes: list[Floats] = []

        def rescore(refit: FittedTransport | None, rows: Ints | None) -> Floats:
            del rows
            fitted = self if refit is None else refit
            found = curves_of(fitted, thinned, copies, check=False)
            changes.append(np.hstack([found.latent, found.attributed]))
            return both_means(found, task)

        def noise() -> Floats:
            # each refit's change is a mean over some rows, and has the error of one
            base, *refits = changes
            compared = np.unique(np.concatenate([fold.test for fold in folds]))
            weights = task.weights.take(compared)
            squares = [weights.standard_error(refit - base) ** 2 for refit in refits]
            left_out = 1.0 - len(compared) / np.count_nonzero(task.weights.values[scores.rows])
            return np.asarray(left_out * (len(refits) - 1) ** 2 * np.mean(squares, axis=0))

        few = sum(len(fold.test) for fold in folds) < sum(len(fold.test) for fold in task.folds)
        told = noise if few else None
        return jackknifed(scores, task, task.child(1), self.design, self, rescore, told)


def curves_of(
    transport: FittedTransport, task: Task, copies: RowCopies | None, *, check: bool = True
) -> Scores:
    """Score the rows of a task along curves."""
    # the same draws for every refit: only the transport differs
    generator, matrix = np.random.default_rng(task.child(0)), task.matrix
    if copies is not None:
        return copies.scores(task, transport, generator=generator, check=check)
    latent = np.zeros((len(matrix), transport.n_latent))
    latent[task.explained] = transport.encode(matrix[task.explained], generator)
    return curve_scores(task, transport, latent=latent, check=check)


def _round_trip(transport: FittedTransport, task: Task) -> float:
    """Return the root mean square of decode(encode(X)) - X in standard deviations."""
    matrix, weights = task.matrix[task.explained], task.weights.take(task.explained)
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
        """Return the copies of some rows; None if one of each is enough."""
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
        transport: FittedTransport,
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
        data = replace(
            task.fits.data,
            table=replace(task.fits.table, matrix=matrix, present=None),
            outcome=replace(task.fits.outcome, values=task.y[self.rows]),
            weights=self.weights,
        )
        of_copies = replace(
            task,
            folds=copied,
            fits=replace(task.fits, data=data),
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


def curve_nodes(reference: Reference, j: int, rule: str, count: int) -> tuple[Floats, Floats]:
    """Return nodes and weights of coordinate ``j``; a law of few atoms is summed exactly."""
    if reference.values is not None and len(np.unique(reference.values[:, j])) <= FEW_ATOMS:
        return gauss_nodes(reference, j, FEW_ATOMS)
    return (gauss_nodes if rule == "gauss" else equal_nodes)(reference, j, count)


def curve_scores(
    task: Task, transport: FittedTransport, *, latent: Floats, check: bool = True
) -> Scores:
    """Score held-out rows along curves; ``check`` takes more nodes where that matters."""
    curves = _Curves.of(task, transport, latent)
    nodes: Nodes = same
    error: LineError | None = None
    if check:
        nodes, error = curves.settled()
    y = [task.y[fold.test] for fold in task.folds]
    results = curves.scores(task.folds, y, nodes, task.measure)
    mass = np.concatenate([task.weights.values[fold.test] for fold in task.folds])
    received = np.concatenate([result.received for result in results], axis=0)
    found = [result.scores for result in results]
    calibration = calibrate(
        task, [scores.latent for scores in found], [result.product for result in results]
    )
    if calibration is not None:
        found = [
            result.calibrated(factor)
            for result, factor in zip(results, calibration.factors, strict=True)
        ]
    n_nodes = None if error is None else nodes(curves.base)
    return put_together(
        task,
        found,
        attribution=np.average(received, axis=0, weights=mass),
        rule=curves.describe(nodes),
        diagnostics=(
            {} if error is None or n_nodes is None else {"quadrature": error.as_dict(n_nodes)}
        ),
        n_nodes=n_nodes,
        calibration=calibration,
    )


def received_along(
    transport: FittedTransport,
    rows: Floats,
    decoded: Floats,
    j: int,
    nodes: Floats,
    weights: Floats,
) -> Floats:
    """Return each feature's part of coordinate ``j`` along each curve, (n, d)."""
    if transport.by_slopes:
        return transport.mean_squared_slopes(rows, j, nodes, weights)
    active = transport.active
    features = (decoded[:, active] / transport.deviation[active]).reshape(
        -1, len(nodes), len(active)
    )
    return line_shares(node_variance(features, weights), np.eye(len(active))[j])


@dataclass(frozen=True)
class _FoldCurves:
    """The scores of a fold, and what features receive of its rows' coordinates, (n, l, j).

    ``product`` (n, d) is that of both models' changes; until the scores are calibrated they are of
    the cross form.
    """

    scores: FoldScores
    received: Floats
    product: Floats

    def calibrated(self, factor: Floats) -> FoldScores:
        latent = calibrated(self.scores.latent, self.product, factor)
        attributed = np.einsum("ilj,ij->il", self.received, latent)
        return replace(self.scores, latent=latent, attributed=attributed)


@dataclass(frozen=True)
class _Curves:
    """Rows that are scored along curves, by a rule with ``base`` nodes."""

    task: Task
    transport: FittedTransport
    latent: Floats
    rule: str
    base: int

    @classmethod
    def of(cls, task: Task, transport: FittedTransport, latent: Floats) -> _Curves:
        """Choose the rule: Gauss nodes where all models are smooth."""
        rule: str = task.options.rule
        if rule == "auto":
            smooth = all(
                is_smooth(predictor.model) and not predictor.levels
                for fold in task.folds
                for predictor in fold.predictors
                if isinstance(predictor, Predictor)
            )
            rule = "gauss" if smooth else "equal"
        nodes = task.options.nodes or DEFAULT_NODES["gauss" if rule == "gauss" else "equal"]
        return cls(task, transport, latent, rule, nodes)

    def laws(self, nodes: Nodes) -> list[WeightedNodes]:
        """Return nodes and weights of every coordinate; steps of the decoder take more nodes."""
        transport = self.transport
        return [
            curve_nodes(transport.reference, j, "equal", nodes(max(self.base, STEP_NODES)))
            if is_step
            else curve_nodes(transport.reference, j, self.rule, nodes(self.base))
            for j, is_step in enumerate(transport.steps)
        ]

    def describe(self, nodes: Nodes) -> str:
        return f"curves ({max(len(at) for at, _ in self.laws(nodes))} {self.rule} nodes)"

    def scores(
        self,
        folds: Sequence[FoldModels],
        outcomes: Sequence[Floats],
        nodes: Nodes,
        measure: Measure,
    ) -> list[_FoldCurves]:
        """Score the held-out rows of folds, with an outcome for each."""
        matrix, laws = self.task.matrix, self.laws(nodes)
        jobs = (
            delayed(_fold_curves)(
                fold.predictors, matrix[fold.test], y, self.latent[fold.test],
                self.transport, laws, measure,
            )
            for fold, y in zip(folds, outcomes, strict=True)
        )  # fmt: skip
        steps, n_jobs = rows_held_out(folds), self.task.fits.workers.n_jobs
        found = in_parallel(jobs, n_jobs, threads=True, advance=measure.advance, steps=steps)
        return list(found)

    def settled(self) -> tuple[Nodes, LineError]:
        """Return the nodes that the scores need, and the error that is left."""
        task = self.task
        predictions = [
            np.mean([predictor(task.matrix[fold.test]) for predictor in fold.predictors], axis=0)
            for fold in task.folds
        ]
        checked = CheckedRows.of(
            task.folds, predictions, task.matrix, task.y, task.weights, self.latent.shape[1]
        )

        folds = [
            replace(fold, test=rows) for fold, rows in zip(task.folds, checked.rows, strict=True)
        ]
        silent = replace(task.measure, advance=None)

        def evaluate(nodes: Nodes) -> Floats:
            results = self.scores(folds, checked.prediction, nodes, silent)
            return np.concatenate([result.scores.latent for result in results])

        nodes, error = settle_nodes(
            evaluate, self.describe, checked, asked=task.options.nodes is not None
        )
        error.say()
        return nodes, error


def _fold_curves(
    predictors: Sequence[Predictor],
    matrix: Floats,
    y: Floats,
    latent: Floats,
    transport: FittedTransport,
    laws: list[WeightedNodes],
    measure: Measure,
) -> _FoldCurves:
    """Score rows along the curves of their latent coordinates."""
    n, d = len(y), transport.n_latent
    values = np.stack([predictor(matrix) for predictor in predictors])
    scores, received = np.empty((n, d)), np.empty((n, d, d))
    product = np.zeros((n, d))
    at_once = measure.memory // (4 * 8 * matrix.shape[1])
    for part, coordinates in _pieces(n, [len(nodes) for nodes, _ in laws], at_once):
        lines, decoded = [], []
        for j in coordinates:
            nodes = laws[j][0]
            lines.append(np.repeat(latent[part], len(nodes), axis=0))
            lines[-1][:, j] = np.tile(nodes, part.stop - part.start)
            decoded.append(transport.decode(lines[-1]))
        together = np.concatenate(decoded) if len(decoded) > 1 else decoded[0]
        predicted = np.stack([predictor(together) for predictor in predictors])
        starts = np.cumsum([0, *(len(rows) for rows in lines)])
        for k, j in enumerate(coordinates):
            nodes, weights = laws[j]
            along = predicted[:, starts[k] : starts[k + 1]]
            means = along.reshape(len(along), -1, len(nodes)) @ weights
            known = values[:, part]
            scores[part, j] = influence(measure.form, y[part], known, means, measure.loss)
            if measure.form == "calibrated":
                product[part, j] = change_product(known, means)
            received[part, :, j] = received_along(
                transport, lines[k], decoded[k], j, nodes, weights
            )
    if measure.advance is not None:
        measure.advance(n)
    attributed = np.einsum("ilj,ij->il", received, scores)
    found = FoldScores(scores, attributed, values.mean(axis=0))
    return _FoldCurves(found, received, product)


def _pieces(n: int, nodes: list[int], most: int) -> Iterator[tuple[slice, list[int]]]:
    """Yield rows and coordinates whose curves are predicted at once, by ``most`` rows or fewer."""
    together: list[int] = []
    for j, count in enumerate(nodes):
        if together and n * (count + sum(nodes[k] for k in together)) > min(most, AT_ONCE):
            yield slice(0, n), together
            together = []
        if n * count > most:
            for part in blocks(n, most // count):
                yield part, [j]
        else:
            together.append(j)
    if together:
        yield slice(0, n), together


class UserMap(Protocol):
    """A user's transport, as described above; ``jacobian`` and ``reference`` are optional."""

    fit: Callable[..., object]
    encode: Callable[..., object]
    decode: Callable[[Floats], object]


@dataclass(frozen=True)
class UserTransport(CurvedTransport):
    """A user's fitted transport, which sees the active columns alone.

    ``center`` and ``deviation`` are those of every column; ``unit_interval`` tells that latent
    coordinates lie between 0 and 1.
    """

    design: Transport
    transport: UserMap
    active: Ints
    center: Floats
    deviation: Floats
    reference: Reference
    unit_interval: bool = False

    def encode(self, matrix: Floats, generator: np.random.Generator | None = None) -> Floats:
        generator = np.random.default_rng(0) if generator is None else generator
        return _encode(self.transport, matrix[:, self.active], generator)

    def decode(self, latent: Floats) -> Floats:
        rows = np.broadcast_to(self.center, (len(latent), len(self.center))).copy()
        rows[:, self.active] = self._decode(latent)
        return rows

    def _decode(self, latent: Floats) -> Floats:
        # copies here and below: a transport that works in place must not move what is read again
        found = self.transport.decode(latent.copy())
        return _checked(self.transport, "decode", found, latent.shape)

    def slopes(self, latent: Floats, j: int) -> Floats:
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

    transport: UserMap

    @property
    def attribution(self) -> str:  # type: ignore[override]
        """What features receive of a latent score."""
        return str(getattr(self.transport, "attribution", "shares"))

    def check_parameters(self) -> None:
        super().check_parameters()
        one_of("attribution", self.attribution, get_args(Attribution))

    name: ClassVar[str] = "custom"
    straight: ClassVar[bool] = False

    def fit_rows(self, matrix: Floats, weights: Weights, layout: Layout) -> UserTransport:
        active = np.flatnonzero(~layout.constant)
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
        share = weights.shares
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
        return type(self.transport).__name__

    def specification(self) -> Plain:
        return {
            "transport": "custom",
            "transport_form": type(self.transport).__name__,
            "epsilon": 0.0,
            "cost": "user-defined",
            "standardize": True,
            "attribution": self.attribution,
        }


def is_transport(candidate: object) -> TypeGuard[UserMap]:
    return not isinstance(candidate, type) and all(
        callable(getattr(candidate, method, None)) for method in ("fit", "encode", "decode")
    )


def _encode(transport: UserMap, rows: Floats, generator: np.random.Generator) -> Floats:
    if "generator" in inspect.signature(transport.encode).parameters:
        latent = transport.encode(rows.copy(), generator=generator)
    else:
        latent = transport.encode(rows.copy())
    return _checked(transport, "encode", latent, rows.shape)


def _checked(transport: UserMap, method: str, value: object, shape: tuple[int, ...]) -> Floats:
    result = np.array(value, dtype=float)
    where = f"{type(transport).__name__}.{method}"
    if result.shape != shape:
        raise ValueError(f"{where} returned shape {result.shape}; {shape} is needed")
    if not np.isfinite(result).all():
        raise ValueError(f"{where} returned NaN or infinity")
    return result
