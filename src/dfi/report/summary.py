"""The content of a report as plain dicts and sentences, which templates arrange."""

from __future__ import annotations

import math
import platform
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from dfi._models.quality import skill_text
from dfi.results import views, words
from dfi.results.call import call_text
from dfi.results.file import thaw
from dfi.results.numbers import number, ordinal, p_value, percent
from dfi.results.tables import SHARE_COLUMNS, order_of, rank_table
from dfi.results.text import UNRELATED, average_effects, everyday_text, missing_text

if TYPE_CHECKING:
    from dfi._findings import Finding
    from dfi._models.quality import Quality
    from dfi._types import Floats, GroupsLike, Plain
    from dfi.results.importance import Importance
    from dfi.results.views import Block, ResultsByLabel

LEADING = 5
_NEARLY_ALL = 0.95
SHOWN_WEIGHTS = 20
SHOWN_BLOCKS = 6
SHOWN_MEMBERS = 8
SHOWN_INSIDE = 60
SHOWN_BY_CLASS = 15
MEMBER_LABEL = 40
BLOCK_LABEL = 26
BELOW_ZERO = "Such an estimate is noise: the true score is 0 or a little above."
COLLINEAR = (
    "Some columns are duplicated or collinear; the signal of such columns is shared equally among "
    "them."
)
_NO_RECORD: Plain = {"question": None, "inference": None, "valid": True, "seconds": None}


def summarize(
    result: Importance,
    *,
    title: str | None = None,
    target: str | None = None,
    groups: GroupsLike = None,
) -> Plain:
    """Return everything that the page of a result shows."""
    spec = thaw(result.spec)
    if target is None and isinstance(spec.get("target"), str):
        target = spec["target"]
    outcome = words.outcome_of(spec, result.by_outcome)
    if target is None and outcome is not None:
        target = outcome.name or None
    about = target if outcome is None else outcome.subject(target) or None
    unit = words.unit_of(spec)
    singular, plural = views.SPACES[result.space]
    features = _with_ranks(result, views.unit_rows(result))
    total = result.total
    return {
        "title": title or (f"What explains {about}?" if about else "Feature importance"),
        "target": target,
        "outcome": None if outcome is None else outcome.text,
        "mean_name": _mean_name(outcome),
        "score_unit": words.variance_of(spec, target) if unit == words.VARIANCE else unit,
        "squares": unit == words.VARIANCE,
        "whole": words.explained_of(spec),
        "sampled_of": spec["explained_of"] if words.sample_text(spec) else None,
        "null_label": words.null_label(spec),
        "null_name": words.null_of(spec, target),
        "explained": _explained(result, target),
        "by_class": class_summary(result),
        "unit": singular,
        "units": plural,
        "method": str(spec.get("method", "dfi")),
        "question": spec.get("question"),
        "inference": spec.get("inference"),
        "valid_intervals": bool(spec.get("valid_intervals", True)),
        "level": result.level,
        "features": features,
        "n_features": len(features),
        "negative": negative_sentence(features),
        "n_significant": sum(row["significant"] for row in features),
        "n_unrelated": sum(row["unrelated"] for row in features),
        "leading": [
            {"name": row["name"], "text": leading_sentence(row, target, spec)}
            for row in features[:LEADING]
        ],
        "trust": trust_summary(result),
        "noise": _noise(result),
        "quality": quality_sentences(
            result.quality,
            None if outcome is None else outcome.positive,
            result.level,
            effect=words.is_effect(spec),
        ),
        "total": {
            "value": views.finite(total.value),
            "low": views.finite(total.ci_low),
            "high": views.finite(total.ci_high),
        },
        "scored": views.group_scores(result),
        "missing": missing_text(result),
        "everyday": everyday_text(result),
        "overlap": views.overlaps(result),
        "inside": _inside(result, features),
        "blocks": _blocks(result),
        "pair": _pair(result),
        "weights": _weights(result),
        **_groups(result, groups),
        "diagnostics": _items(_measured(thaw(result.diagnostics))),
        "average": average_effects(result),
        "diagnostic_notes": diagnostic_sentences(result),
        "spec": spec,
        "spec_items": _items(
            {k: v for k, v in spec.items() if k not in ("versions", "data_sha256", "call")}
        ),
        "versions": _versions(spec),
        "data_sha256": spec.get("data_sha256"),
        "call": call_text(spec),
    }


def _with_ranks(result: Importance, rows: list[Plain]) -> list[Plain]:
    """Return rows with the ranks that units may have; None where intervals are not valid."""
    if len(rows) < 2 or not result.spec.get("valid_intervals", True):
        return [{**row, "rank_low": None, "rank_high": None} for row in rows]
    sets = rank_table(result)
    order = order_of(result)
    return [
        {**row, **{key: int(sets[key][unit]) for key in ("rank_low", "rank_high")}}
        for row, unit in zip(rows, order, strict=True)
    ]


def _mean_name(outcome: words.OutcomeWords | None) -> str:
    if outcome is not None and outcome.kind == "binary" and outcome.positive is not None:
        return f"share of {outcome.positive}"
    if outcome is not None and outcome.kind == "classes" and outcome.classes:
        # what is inside of a unit is shown for the first class
        return f"share of {outcome.classes[0]}"
    return "mean outcome"


def _explained(result: Importance, target: str | None = None) -> Plain | None:
    """Return the explained variance and the part that is interaction, with a sentence."""
    explained, null, interaction = result.explained, result.null_loss, result.interaction
    if explained is None or null is None:
        return None
    # two models have no noise in common: what they explain together is more than either does
    crossed = result.spec.get("form") in ("cross", "extrapolated")
    who = (
        "Without the noise of single fits, the models explain" if crossed else "The model explains"
    )
    text = (
        f"{who} {number(explained.value)} of {number(null.value)}, "
        f"{words.null_of(result.spec, target)} ({percent(explained.value / null.value)}). Shares "
        "are parts of that."
    )
    if interaction is not None:
        text += f" {words.interaction_text(interaction, result.spec)}"
    return {
        "value": views.finite(explained.value),
        "null": views.finite(null.value),
        "interaction": None if interaction is None else views.finite(interaction.value),
        "text": text,
    }


def class_summary(result: Importance, top: int = SHOWN_BY_CLASS) -> Plain | None:
    """Return the leading units' scores for each class or outcome, and its model quality."""
    if not result.by_outcome:
        return None
    outcome = words.outcome_of(result.spec)
    names = list(result.by_outcome)
    columns = views.class_columns(result, top)
    highest = max(float(np.max(columns["score"])), 1e-12)
    cells = [
        {
            **{key: views.finite(columns[key][k]) for key in SHARE_COLUMNS},
            "score": views.finite(columns["score"][k]),
            "low": views.finite(columns["ci_low"][k]),
            "high": views.finite(columns["ci_high"][k]),
            "significant": bool(columns["significant"][k]),
            "ink": round(math.sqrt(max(float(columns["score"][k]), 0.0) / highest), 3),
        }
        for k in range(len(columns["score"]))
    ]
    rows = [
        {"index": start // len(names), "name": columns["feature"][start],
         "cells": cells[start : start + len(names)]}
        for start in range(0, len(cells), len(names))
    ]  # fmt: skip
    return {
        "part": "class" if outcome is None else outcome.part,
        "parts": "classes" if outcome is None else outcome.parts,
        "names": names,
        "labels": [f"{one:.2g}" for one in outcome.levels]
        if outcome is not None and outcome.levels
        else views.short_names(names, BLOCK_LABEL),
        "rows": rows,
        "n_hidden": len(result.names) - len(rows),
        "shared": any(cell["share"] is not None for cell in cells),
        "quality": [_class_quality(name, part.quality) for name, part in result.by_outcome.items()],
    }


def _class_quality(name: str, quality: Quality) -> Plain:
    area = None if quality.auc is None else quality.auc_interval()
    return {
        "name": name,
        "skill": views.finite(quality.skill),
        "model_loss": views.finite(quality.model_loss),
        "null_loss": views.finite(quality.null_loss),
        "auc": quality.auc,
        "auc_text": None
        if area is None or quality.auc is None
        else f"{quality.auc:.3f} ({area[0]:.3f} to {area[1]:.3f})",
    }


def _noise(result: Importance) -> Plain:
    """Return the scores of noise: the floor if above 0, the probes, and a sentence."""
    measured = result.diagnostics.get("noise_floor")
    known: Plain = thaw(measured) if isinstance(measured, Mapping) else {}
    floor = known.get("floor")
    return {
        "floor": views.finite(floor) if isinstance(floor, float) and floor > 0 else None,
        "probes": [
            {**probe, "name": f"{probe['like']}, permuted" if probe["like"] else "normal numbers"}
            for probe in known.get("probes", ())
        ],
        "text": next((f.sentence for f in result.findings if f.kind == "noise"), None),
    }


def _measured(diagnostics: Plain) -> Plain:
    """Return the diagnostics without what the page says in sentences and tables."""
    rest = {key: value for key, value in diagnostics.items() if key not in ("findings", "units")}
    if isinstance(rest.get("noise_floor"), dict):
        rest["noise_floor"] = {k: v for k, v in rest["noise_floor"].items() if k != "probes"}
    return rest


def _weights(result: Importance) -> Plain | None:
    """Return the attribution weights among the leading units, similar ones together."""
    if result.attribution is None or len(result.names) < 2:
        return None
    order, weights = views.clustered_weights(result, SHOWN_WEIGHTS)
    rank = np.argsort(order_of(result))
    return {
        "rank": [int(rank[k]) for k in order],
        "values": [[round(float(v), 4) for v in row] for row in weights],
    }


def _groups(result: Importance, groups: GroupsLike) -> Plain:
    """Return the sums of groups of columns, their members, and why they may be noise."""
    if result.space == "group" or (groups is None and result.default_groups is None):
        return {"groups": None, "group_members": [], "group_alarms": []}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = result.group(groups)
    rows = views.unit_rows(found)
    return {
        "groups": rows,
        "group_members": _inside(found, rows),
        "group_alarms": [str(warning.message) for warning in said],
    }


def _inside(result: Importance, rows: Sequence[Plain]) -> list[Plain]:
    """Return the members of units (levels, missing values, columns), the largest first."""
    members = views.members_of(result)
    pooled = result.diagnostics.get("pooled_levels")
    below = pooled if isinstance(pooled, Mapping) else {}
    found = []
    for index, row in enumerate(rows):
        if row["name"] not in members:
            continue
        unit = members[row["name"]]
        labels = views.short_names([member["name"] for member in unit["members"]], MEMBER_LABEL)
        listed = [{**m, "label": k} for m, k in zip(unit["members"], labels, strict=True)]
        found.append(
            {
                "index": index,
                "name": row["name"],
                "kind": unit["kind"],
                "score": row["score"],
                "missing": unit.get("missing"),
                "told": _told(unit),
                "text": _inside_sentence(unit),
                "pooled": below.get("below") if row["name"] in below.get("columns", ()) else None,
                "members": listed,
                "n_hidden": max(0, unit["n_members"] - len(listed)) * (unit["kind"] == "group"),
            }
        )
    return found[:SHOWN_INSIDE]


def _told(unit: Plain) -> str:
    count, missing = unit["n_members"], unit.get("missing")
    if unit["kind"] == "number":
        return f"{percent(missing)} missing"
    what = "column" if unit["kind"] == "group" else "level"
    count -= what == "level" and missing is not None  # gaps are listed with the levels
    told = f"{count} {what}{'s' * (count != 1)}"
    return told if missing is None else f"{told}, {percent(missing)} missing"


def _inside_sentence(unit: Plain) -> str | None:
    """Compare the outcome where a value is missing with where it is observed."""
    if unit["kind"] == "group" or not unit.get("missing"):
        return None
    *observed, gap = unit["members"]
    share = sum(member["share"] for member in observed)
    if share <= 0:
        return "Missing in every row."
    mean = sum(member["share"] * member["mean"] for member in observed) / share
    name = f"mean of {unit['outcome']}" if "outcome" in unit else "mean outcome"
    return (
        f"Missing in {percent(gap['share'])} of the rows. The {name} is {number(mean)} where "
        f"it is observed and {number(gap['mean'])} where it is missing. Being missing counts as a "
        "value: the score is not that of the complete variable."
    )


def _blocks(result: Importance) -> Plain:
    """Return the correlated blocks with the largest scores, ``tested`` if they are components."""
    known = result.attribution is not None and result.latent is not None
    blocks = views.component_blocks(result) if known else None
    tested = blocks is not None
    shown: list[Plain] = []
    if result.attribution is not None and result.latent is not None:
        blocks = views.correlated_blocks(result.attribution) if blocks is None else blocks
        blocks.sort(key=lambda block: -float(result.scores[list(block.members)].sum()))
        weights, latent = result.attribution, result.latent.scores
        shown = [_block(result, weights, latent, block) for block in blocks[:SHOWN_BLOCKS]]
    return {
        "known": known,
        "n_blocks": len(blocks or ()),
        "shown": shown,
        "tested": tested,
        "n_components": len(result.components or ()),
    }


def _pair(result: Importance) -> str | None:
    """Return the call that compares the leading two of a block; None without one."""
    if result.attribution is None or result.latent is None or len(result.names) < 2:
        return None
    blocks = views.component_blocks(result) or views.correlated_blocks(result.attribution)
    if not blocks:
        return None
    members = np.array(max(blocks, key=lambda b: result.scores[list(b.members)].sum()).members)
    a, b = (result.names[k] for k in members[views.ranking(result.scores[members])][:2])
    return f"result.contrast({a!r}, {b!r})"


def _block(result: Importance, weights: Floats, latent: Floats, block: Block) -> Plain:
    members = np.array(block.members, dtype=np.intp)
    members = members[views.ranking(result.scores[members])]
    scores = result.scores[members]
    total = float(scores.sum())
    labels = views.short_names([result.names[k] for k in members], BLOCK_LABEL)
    received = weights[np.ix_(members, members)].copy()
    np.fill_diagonal(received, 0.0)
    rows = [
        {
            "name": result.names[k],
            "label": label,
            "latent": views.finite(latent[k]),
            "score": views.finite(result.scores[k]),
            "share": views.finite(result.scores[k] / total) if total > 0 else None,
            "kept": views.finite(weights[k, k]),
        }
        for k, label in zip(members, labels, strict=True)
    ]
    others = f" and {len(labels) - 3} more" if len(labels) > 3 else ""
    return {
        "heading": ", ".join(labels[:3]) + others,
        "overlap": block.mean_overlap,
        "total": total,
        "members": rows[:SHOWN_MEMBERS],
        "n_hidden": max(0, len(rows) - SHOWN_MEMBERS),
        "text": _block_sentence(labels, scores, latent[members], received),
    }


def _block_sentence(labels: list[str], scores: Floats, latent: Floats, received: Floats) -> str:
    total = float(scores.sum())
    if total <= 0:
        return f"They have no measurable signal: their scores add up to {number(total)}."
    lead = (
        f"Together they are attributed {number(total)}; {labels[0]} gets "
        f"{percent(float(scores[0]) / total)} of it."
    )
    carried = received * np.clip(latent, 0.0, None)
    to, source = np.unravel_index(int(np.argmax(carried)), carried.shape)
    share = float(received[to, source])
    if share < 0.01 or latent[source] <= 0:
        return lead
    return (
        f"{lead} The largest exchange: {percent(share)} of the latent score of {labels[source]} "
        f"is attributed to {labels[to]}, because the two are correlated."
    )


def _versions(spec: Plain) -> dict[str, str]:
    """Return the recorded versions of the libraries, and the Python that wrote the report."""
    recorded = spec.get("versions")
    known = {str(k): str(v) for k, v in recorded.items()} if isinstance(recorded, dict) else {}
    return {**known, "Python (of the report)": platform.python_version()}


def _items(values: Plain, prefix: str = "") -> list[dict[str, str]]:
    items: list[dict[str, str]] = []
    for key, value in values.items():
        if isinstance(value, dict):
            items += _items(value, f"{prefix}{key}, ")
        else:
            items.append({"name": f"{prefix}{key}".replace("_", " "), "value": _text(value)})
    return items


def _text(value: object) -> str:
    if value is None or value == []:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        shown = ", ".join(_text(item) for item in value[:30])
        return shown + (f", … ({len(value)} in all)" if len(value) > 30 else "")
    return str(value)


def summarize_comparison(
    results: ResultsByLabel, *, title: str | None = None, target: str | None = None
) -> Plain:
    """Return everything that the page of several results shows; a comparison's records too."""
    by_label = views.read_results(results)
    first = next(iter(by_label.values()))
    records, skipped = _records(results)
    ranked = {label: views.unit_rows(result) for label, result in by_label.items()}
    names = [row["name"] for row in next(iter(ranked.values()))]
    methods: list[Plain] = []
    for label, rows in ranked.items():
        by_name = {row["name"]: row for row in rows}
        aligned = [by_name[name] for name in names]
        leaders = [f"{row['name']} ({number(row['score'])})" for row in rows[:3]]
        methods.append(
            {
                "label": label,
                "rows": aligned,
                "agreement": _agreement(methods[0]["rows"] if methods else aligned, aligned),
                "leaders": ", ".join(leaders),
                "trust": trust_summary(by_label[label]),
                **records.get(label, _NO_RECORD),
            }
        )
    singular, plural = views.SPACES[first.space]
    outcome = words.outcome_of(first.spec, first.by_outcome)
    if target is None and outcome is not None:
        target = outcome.name or None
    return {
        "title": title or f"{len(by_label)} answers side by side",
        "target": target,
        "unit": singular,
        "units": plural,
        "level": first.level,
        "names": names,
        "methods": methods,
        "skipped": skipped,
        "quality": quality_sentences(
            first.quality, None if outcome is None else outcome.positive, first.level
        ),
        "outcome": None if outcome is None else outcome.text,
        "score_unit": words.unit_of(first.spec),
        "versions": _versions(thaw(first.spec)),
        "specs": {label: thaw(result.spec) for label, result in by_label.items()},
    }


def _records(results: ResultsByLabel) -> tuple[dict[str, Plain], list[str]]:
    """Return a comparison's methods by label, and why some were left out."""
    methods = getattr(results, "methods", ())
    records: dict[str, Plain] = {}
    for record in methods:
        for label in record.results:
            records[label] = {
                "question": record.question,
                "inference": record.inference,
                "valid": record.valid_intervals,
                "seconds": record.seconds,
            }
    return records, [f"{m.name}: {m.skipped}" for m in methods if m.skipped is not None]


def _agreement(first: Sequence[Plain], other: Sequence[Plain]) -> float | None:
    """Return Spearman's rank correlation of the scores, None where it does not exist."""
    a, b = ([row["score"] for row in rows] for rows in (first, other))
    if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return None
    return float(stats.spearmanr(a, b).statistic)


def leading_sentence(row: Plain, target: str | None, spec: Mapping[str, object]) -> str:
    """Describe the share or score of a unit, its ranks, and their uncertainty."""
    outcome, unit = words.null_of(spec, target), words.unit_of(spec)
    unit = f" {unit}" if " " not in unit else ""
    if row["unrelated"]:
        text = f"score exactly 0: {UNRELATED}."
        if row["ci_high"]:
            text += f" Dependence too weak to detect could give it up to {number(row['ci_high'])}."
        return text
    if row["ci_low"] is None or row["ci_high"] is None:
        return (
            f"does not vary, or has no standard error: score {number(row['score'])}, no interval."
        )
    if row.get("share") is not None:
        text = f"{percent(row['share'])} of {words.explained_of(spec)}"
        ends = [percent(row[key]) for key in ("share_low", "share_high") if row[key] is not None]
    else:
        text = f"score {number(row['score'])}{unit}"
        ends = [number(row["ci_low"]), number(row["ci_high"])]
        if row.get("of_null") is not None:
            text += f", {percent(row['of_null'])} of {outcome}"
    if len(ends) == 2:
        text += f" ({ends[0]} to {ends[1]})"
    if row.get("rank_low") is not None:
        text += f", {ranks_text(row['rank_low'], row['rank_high'])}"
    if not row["significant"]:
        p = p_value(row["p_adj"])
        text += f"; not distinguishable from 0 (adjusted p {p if p[0] == '<' else f'= {p}'})"
    elif (row["latent"] or 0.0) < 0:
        text += "; all of it comes from correlated features"
    elif row["own"] is not None and row["own"] <= _NEARLY_ALL:
        text += f"; {percent(row['own'])} of it is its own"
    if row["missing"] is not None:
        text += f"; missing in {percent(row['missing'])} of the rows"
    return f"{text}."


def negative_sentence(features: Sequence[Plain]) -> str | None:
    """Explain estimates below zero; None if there are none."""
    below = [row["name"] for row in features if row["score"] is not None and row["score"] < 0]
    if not below:
        return None
    count = "One estimate is" if len(below) == 1 else f"{len(below)} estimates are"
    return f"{count} below zero. {BELOW_ZERO}"


def ranks_text(low: int, high: int) -> str:
    first, last = ordinal(low), ordinal(high)
    return f"clearly {first}" if low == high else f"{first} to {last}"


def quality_sentences(
    quality: Quality, positive: str | None = None, level: float = 0.95, *, effect: bool = False
) -> Plain:
    """Return the quality of the model in terms of its loss."""
    spread, skill = quality.skill_spread, quality.skill
    name = quality.skill_name.replace("R2", "R²")
    over = (
        f", standard deviation over folds {skill_text(spread)})." if math.isfinite(spread) else ")."
    )
    if quality.loss == "squared-error":
        whole = "the variance of the pseudo-outcomes" if effect else "the outcome's variance"
        text = (
            f"On held-out rows, the regression explains {percent(skill)} of {whole} (R² = "
            f"{skill_text(skill)}{over}"
        )
    else:
        null = "prevalence" if quality.loss in ("brier", "log-loss") else "mean outcome"
        null += "s" * (null == "prevalence" and bool(quality.by_outcome))
        text = (
            f"On held-out rows, the model's {quality.loss_name} is {number(quality.model_loss)}; "
            f"that of the {null} alone is {number(quality.null_loss)}. The model explains "
            f"{percent(skill)} of it ({name} = {skill_text(skill)}{over}"
        )
    if quality.auc is not None:
        low, high = quality.auc_interval(level)
        member = f"a row of class {positive}" if positive else "a row of the class"
        text += (
            f" Given {member} and another row, it gives the first the higher probability in "
            f"{percent(quality.auc)} of all pairs (AUC {quality.auc:.3f}, {percent(level)} "
            f"interval {low:.3f} to {high:.3f})."
        )
        if quality.log_loss is not None and quality.loss == "brier":
            text += f" Its log-loss is {number(quality.log_loss)}."
        elif quality.brier is not None:
            text += f" Its Brier score is {number(quality.brier)}."
    if quality.concordance is not None:
        text += (
            f" It orders {percent(quality.concordance)} of the comparable pairs of rows correctly "
            "(concordance)."
        )
    return {
        "r2": quality.r2,
        "r2_by_fold": [r if math.isfinite(r) else None for r in quality.r2_by_fold],
        "loss": quality.loss,
        "skill": views.finite(skill),
        "skill_name": name,
        "skill_by_fold": [r if math.isfinite(r) else None for r in quality.skill_by_fold],
        "auc": quality.auc,
        "calibration": [
            {"predicted": entry.predicted, "observed": entry.observed, "n_rows": entry.n_rows}
            for entry in quality.calibration
        ],
        "n_rows": quality.n_rows,
        "mse": quality.mse,
        "outcome_variance": quality.outcome_variance,
        "text": text,
    }


def trust_summary(result: Importance) -> Plain:
    """Return the verdict in one line, as plain values, and each reason as a sentence."""
    trust = result.trust
    return {
        **trust.as_dict(),
        "line": str(trust),
        "sentences": _sentences(trust.reasons),
    }


def _sentences(findings: Sequence[Finding]) -> list[str]:
    """Return a sentence for each, a remedy of several only with the last of them."""
    last = {finding.remedy: place for place, finding in enumerate(findings)}
    return [
        (one if last[one.remedy] == place else replace(one, remedy="")).sentence
        for place, one in enumerate(findings)
    ]


def diagnostic_sentences(result: Importance) -> list[Plain]:
    """Return the diagnostics in words; ``serious`` marks those that limit the reading."""
    told = [_effect(result), _survival(result), _sample(result)]
    serious = [finding.severity != "note" for finding in result.findings]
    told += list(zip(_sentences(result.findings), serious, strict=True))
    if result.diagnostics.get("collinear_units"):
        told.append((COLLINEAR, False))
    return [{"serious": serious, "text": text} for text, serious in told if text]


def _sample(result: Importance) -> tuple[str, bool]:
    """Say where a random sample of the rows was explained."""
    text = words.sample_text(result.spec)
    if not text:
        return "", False
    return (
        f"A random sample: {text}. The transport and the models use all rows, but the standard "
        "errors are those of the sample."
    ), result.spec.get("why") in ("time", "interrupted")


def _effect(result: Importance) -> tuple[str, bool]:
    """Say what is explained where it is an effect, and who overlaps."""
    if not average_effects(result):
        return "", False
    text = (
        "This explains how an effect differs from row to row. Pseudo-outcomes are noisy "
        "observations of the effect, so a small R² does not mean a weak result."
    )
    overlap = result.diagnostics.get("overlap of treatment")
    if not isinstance(overlap, Mapping):
        return text, False
    poor = bool(overlap["poor"])
    return f"{text} Overlap{' is poor' * poor}: {overlap['words']}.", poor


def _survival(result: Importance) -> tuple[str, bool]:
    """Say up to when times to an event are explained, and how many rows were censored before."""
    parts = result.by_outcome.values() if result.by_outcome else (result,)
    found = [part.diagnostics.get("survival") for part in parts]
    told = [one for one in found if isinstance(one, Mapping) and "horizon" in one]
    if not told:
        return "", False
    what = "the mean time up to" if told[0]["target"] == "rmst" else "the chance of surviving"
    times = ", ".join(
        f"{number(float(one['horizon']))} ({one['events']} events, "
        f"{percent(float(one['censored']))} of the rows censored before)"
        for one in told
    )
    return (
        f"The outcome is {what} {times}. Cox regressions of the event and of censoring complete "
        "censored rows (augmented inverse weights): the answer is right if either regression is "
        "right and nothing outside the table drives both event and censoring."
    ), False
