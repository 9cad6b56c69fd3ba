"""Measurements that judge a result, and the findings that follow.

Each check has its own module in this folder. The numbers go to ``result.diagnostics``, the
findings to ``result.findings``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dfi._data.problem import Blocks
from dfi._diagnosis.codes import codes
from dfi._diagnosis.fidelity import held_out_predictions, mean_of, model_fidelity
from dfi._diagnosis.independence import independence
from dfi._diagnosis.latents import carrying, dependence, other_transport
from dfi._diagnosis.leaks import leaks
from dfi._diagnosis.noise_floor import (
    NoiseFloor,
    below_noise,
    joined_floor,
    noise,
    noise_floor,
    smaller_than_noise,
)
from dfi._diagnosis.probes import named_seed, probed_table, read_some_folds
from dfi._diagnosis.rows import rows_per_column
from dfi._diagnosis.totals import (
    Totals,
    above_variance,
    joined_totals,
    score_totals,
    sum_of_scores,
    times_counted,
)
from dfi._findings import SEVERITIES, Finding, listed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dfi._diagnosis.fidelity import Predict
    from dfi._scoring.scores import Scores
    from dfi._scoring.task import Task
    from dfi._types import Floats, Ints, Plain
    from dfi.transports.base import FittedTransport


def explain_diagnostics(
    transport: FittedTransport,
    scored: Scores,
    gained: Floats,
    task: Task,
    *,
    diagnose: bool,
    say: bool,
    instead: str,
) -> tuple[dict[str, object], list[Finding], Totals | None]:
    """Return diagnostics of the transport, the scores and the asymptotics.

    ``gained`` (n, 2) is what the outcome's mean loses and what models explain of it, row by row.
    ``diagnose`` checks the scores and the dependence that is left, where ``say`` tries another
    transport.
    """
    found: dict[str, object] = {
        "lines": scored.rule,
        "n_latent": transport.n_latent,
        "standard_errors": scored.standard_errors,
        **scored.diagnostics,
    }
    few = rows_per_column(task.n_fitted, transport, len(task.blocks.columns), instead)
    findings = [] if few is None else [few]
    totals = None
    if instead:
        found["covariance_instead"] = instead
    found |= transport.diagnostics(transport.owner(task.blocks.columns))
    components = transport.unit_components(task.blocks.columns)
    if components is not None:
        found["n_components"] = len(components)
        found["largest_component"] = max(map(len, components))
    if diagnose:
        if not task.by_unit:
            found["overlap"] = _overlap(transport, scored, task)
        checks, more, totals = check_result(transport, scored, gained, task, say=say)
        found |= checks
        findings += more
    return found, findings, totals


def check_result(
    transport: FittedTransport,
    scored: Scores,
    gained: Floats,
    task: Task,
    *,
    say: bool,
) -> tuple[dict[str, object], list[Finding], Totals]:
    """Check a result; return the measurements and the findings."""
    seed = task.fits.child("diagnosis")
    design, membership = transport.design, transport.score_membership(task)
    names, weights = task.names, task.weights.take(scored.rows)
    reason = transport.why_unprobed(len(task.explained))
    influence = scored.attributed @ membership
    totals = score_totals(
        influence, scored.latent, gained, names, weights,
        n_latent=scored.latent.shape[1], square=task.fits.loss.is_square,
        times_counted=times_counted(task),
    )  # fmt: skip
    latent = transport.draw(task.matrix[scored.rows], np.random.default_rng(seed))
    floor: NoiseFloor | None = None
    below: tuple[str, ...] = ()
    predictions: list[tuple[Ints, Predict]]
    if reason is None:
        probed = probed_table(
            task.fits.table, task.blocks.columns, scored.rows, weights, task.fits.constant,
            named_seed(seed, "noise floor"),
        )  # fmt: skip
        folds = read_some_folds(task, probed.n_columns, transport.n_latent, seed)
        floor = noise_floor(
            transport, probed, scored.latent, folds, task,
            variance=totals.variance, stretch=scored.stretch,
        )  # fmt: skip
        below = below_noise(floor, influence, names, weights)
        predictions = [
            (fold.rows, mean_of([model.predict for model in fold.models])) for fold in folds
        ]
    else:
        predictions = held_out_predictions(task)
    fidelity = None if not transport.returns_rows else model_fidelity(
        predictions, task.matrix, task.weights, latent, weights.values, transport.decode,
        named_seed(seed, "fidelity"), transport.drawn_as_one,
        lambda orders: transport.undecoded(task.matrix, scored.rows[orders]),
    )  # fmt: skip
    if fidelity is not None and totals.square and task.by_unit:
        totals = replace(totals, interaction=fidelity.interaction)
    columns = task.blocks.columns
    owner = transport.owner(columns)
    carries = np.ones(len(columns), dtype=np.bool_)
    if task.by_unit:
        carries = carrying(weights.mean(scored.latent @ transport.membership(columns)))
    left = independence(latent, seed, owner, carries)
    told = left.as_dict()
    pairs = [[columns[unit].name for unit in pair] for pair in left.pairs]
    tried = ""
    if left.dependent and say:
        tried = other_transport(design, scored, task, named_seed(seed, "auto"))
    straight = transport.shares_variance
    findings = [
        None if task.fits.outcome.effect else leaks(task),
        codes(task, weights.mean(influence)),
        above_variance(totals, design, straight=straight),
        sum_of_scores(totals, design, task.form, straight=straight),
        *(
            [Finding("noise", "note", f"the noise floor was not measured: {reason}")]
            if floor is None
            else [noise(floor, totals), smaller_than_noise(floor, below, totals)]
        ),
        None if fidelity is None else fidelity.finding(design),
        dependence(design, left, pairs, totals, tried=tried),
    ]
    measured: dict[str, object] = {
        "latent": {**told, "pairs": pairs},
        "totals": totals.as_dict(),
        "noise_floor": (
            {"not_measured": reason}
            if floor is None
            else {**floor.as_dict(), "significant_below": list(below)}
        ),
        "fidelity": {} if fidelity is None else fidelity.as_dict(),
    }
    return measured, [finding for finding in findings if finding is not None], totals


def _overlap(transport: FittedTransport, scored: Scores, task: Task) -> dict[str, object]:
    r"""Compare the scores of overlapping groups with those of their atoms, on the first split.

    For independent atoms :math:`\max_a \psi_a \le \psi_G \le \sum_a \psi_a`: a ratio above 1 shows
    dependence that is left between atoms, one below 1 interactions between them.
    """
    columns, targets = task.blocks.columns, task.blocks.targets or ()
    folds = [fold for fold in task.folds if fold.repeat == 0]
    blocks = Blocks(columns, None, len(columns))
    apart = replace(task, folds=folds, blocks=blocks, transport_error="ignore", advance=None)
    atoms = transport.plain_scores(apart).latent_by_repeat[0] @ transport.membership(columns)
    joint = scored.known.latent_by_repeat[0] @ transport.score_membership(task)
    ratios = {}
    for target, score in zip(targets, joint, strict=True):
        total = float(atoms[list(target.units)].sum())
        if len(target.units) > 1 and total > 0:
            ratios[target.name] = float(score) / total
    held = sorted({unit for target in targets for unit in target.units})
    return {
        "atoms": {columns[unit].name: float(atoms[unit]) for unit in held},
        "of_atoms": ratios,
    }


def joined_checks(parts: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    """Return the checks of several classes, or outcomes, as one, if all have been made.

    Scores of probes and totals add up as those of features do. Their errors are added up too, as if
    they went together, so what is called noise here is noise whatever classes have in common.
    Of the fidelities the one that is furthest off is told.
    """
    found: dict[str, object] = {}

    def of_all(name: str) -> list[Plain]:
        told: list[Plain] = []
        for part in parts.values():
            check = part.get(name)
            if isinstance(check, dict):
                told.append(check)
        return told if len(told) == len(parts) else []

    totals, floors, fidelities = (of_all(key) for key in ("totals", "noise_floor", "fidelity"))
    if totals:
        joined = joined_totals(totals)
        found["totals"] = joined.as_dict()
        if all("probes" in floor for floor in floors) and floors:
            found["noise_floor"] = joined_floor(floors, joined.variance).as_dict()
    found["findings"] = [finding.as_dict() for finding in _joined_findings(parts)]
    curves, units = of_all("learning_curve"), of_all("units")
    if curves:
        # the class that is furthest from having learned enough speaks for all
        found["learning_curve"] = max(
            curves, key=lambda told: np.nan_to_num(told["gained"], nan=-np.inf)
        )
    if units:
        # levels have a mean outcome, which several classes do not: those of the first are shown
        name = next(iter(parts))
        found["units"] = {unit: {**told, "outcome": name} for unit, told in units[0].items()}
    if fidelities and all("variance_ratio" in told for told in fidelities):
        found["fidelity"] = max(
            fidelities, key=lambda told: abs(np.log(max(told["variance_ratio"], 1e-300)))
        )
    return found


def _joined_findings(parts: Mapping[str, Mapping[str, object]]) -> list[Finding]:
    """Return the most severe finding of each kind, limits of single classes by their name."""
    of_kind: dict[str, dict[str, Finding]] = {}
    for name, part in parts.items():
        records = part.get("findings")
        for record in records if isinstance(records, list | tuple) else ():
            finding = Finding.read(record)
            kinds = of_kind.setdefault(finding.kind, {})
            kept = kinds.get(name)
            if kept is None or _severity(finding) > _severity(kept):
                kinds[name] = finding
    found = []
    for by_class in of_kind.values():
        worst = max(by_class.values(), key=_severity)
        same = len(by_class) == len(parts) and all(f == worst for f in by_class.values())
        if same:
            found.append(worst)
        elif worst.severity != "note":
            names = [name for name, f in by_class.items() if f.severity != "note"]
            found.append(replace(worst, what=f"{listed(names)}: {worst.what}"))
    return found


def _severity(finding: Finding) -> int:
    return SEVERITIES.index(finding.severity)
