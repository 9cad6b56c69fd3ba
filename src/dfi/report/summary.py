"""What a report says about one result, as a plain dict: the template only arranges it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dfi.plots.columns import ranking, result_columns
from dfi.report.blocks import block_summaries
from dfi.report.numbers import finite
from dfi.report.provenance import call_text, flat_items, versions
from dfi.report.sentences import (
    alarm_sentences,
    diagnostic_sentences,
    leading_sentences,
    noise_sentence,
    quality_sentences,
)
from dfi.results.file import thaw

if TYPE_CHECKING:
    from dfi.results.importance import Importance

LEADING = 5
SPACES = {
    "attributed": ("feature", "features"),
    "latent": ("latent coordinate", "latent coordinates"),
    "group": ("group", "groups"),
}


def summarize(
    result: Importance,
    *,
    title: str | None = None,
    target: str | None = None,
    groups: Any = None,
) -> dict[str, Any]:
    """Return everything that a report shows.

    Parameters
    ----------
    result : Importance
        The result.
    title : str, optional
        Headline of the report.
    target : str, optional
        Name of the outcome; the one in the result's specification by default.
    groups : mapping, frame or Groups, optional
        Groups to report; by default those that the result was made with.

    Returns
    -------
    dict
        Strings, numbers, lists and dicts only; unknown numbers are None.
    """
    spec = thaw(result.spec)
    if target is None and isinstance(spec.get("target"), str):
        target = spec["target"]
    singular, plural = SPACES[result.space]
    features = unit_rows(result)
    grouped = _grouped(result, groups)
    return {
        "title": title or (f"What explains {target}?" if target else "Feature importance"),
        "target": target,
        "unit": singular,
        "units": plural,
        "method": str(spec.get("method", "dfi")),
        "question": spec.get("question"),
        "inference": spec.get("inference"),
        "valid_intervals": bool(spec.get("valid_intervals", True)),
        "level": result.level,
        "features": features,
        "n_features": len(features),
        "n_significant": sum(row["significant"] for row in features),
        "n_unrelated": sum(row["unrelated"] for row in features),
        "leading": leading_sentences(features[:LEADING], result.level, target),
        "alarms": alarm_sentences(result),
        "noise": _noise(result),
        "quality": quality_sentences(result.quality),
        "total": {
            "value": finite(result.total.value),
            "low": finite(result.total.ci_low),
            "high": finite(result.total.ci_high),
        },
        "blocks": block_summaries(result),
        "weights": _weights(result),
        "groups": None if grouped is None else unit_rows(grouped),
        "diagnostics": flat_items(_measured(thaw(result.diagnostics))),
        "diagnostic_notes": diagnostic_sentences(result),
        "spec": spec,
        "spec_items": flat_items(
            {k: v for k, v in spec.items() if k not in ("versions", "data_sha256", "call")}
        ),
        "versions": versions(spec),
        "data_sha256": spec.get("data_sha256"),
        "call": call_text(spec),
    }


def _noise(result: Importance) -> dict[str, Any]:
    """Return what noise scores: the floor where it is above 0, the probes, and a sentence."""
    found = result.diagnostics.get("noise_floor")
    known = thaw(found) if isinstance(found, Mapping) else {}
    floor = known.get("floor")
    return {
        "floor": finite(floor) if isinstance(floor, float) and floor > 0 else None,
        "probes": [
            {
                **probe,
                "name": f"{probe['like']}, permuted" if probe["like"] else "normal numbers",
            }
            for probe in known.get("probes", ())
        ],
        "text": noise_sentence(result),
    }


def _measured(diagnostics: dict[str, Any]) -> dict[str, Any]:
    """Return the diagnostics without what the page says in sentences and tables."""
    kept = {key: value for key, value in diagnostics.items() if key != "alarms"}
    if isinstance(kept.get("noise_floor"), dict):
        kept["noise_floor"] = {k: v for k, v in kept["noise_floor"].items() if k != "probes"}
    return kept


def unit_rows(result: Importance) -> list[dict[str, Any]]:
    """Return one dict per unit, the largest score first."""
    columns = result_columns(result)
    latent = None if result.latent is None else result.latent.scores
    own = own_shares(result)
    variance = result.quality.outcome_variance
    rows = []
    for rank, unit in enumerate(ranking(result.scores)):
        row: dict[str, Any] = {"rank": rank + 1, "name": result.names[unit]}
        for key in ("score", "se", "ci_low", "ci_high", "z", "p", "p_adj"):
            row[key] = finite(columns[key][unit])
        row["significant"] = bool(columns["significant"][unit])
        row["unrelated"] = bool(result.unrelated[unit])
        row["share"] = finite(result.scores[unit] / variance) if variance > 0 else None
        row["latent"] = None if latent is None else finite(latent[unit])
        row["own"] = None if own is None else finite(own[unit])
        row["spread"] = None if result.spread is None else finite(result.spread[unit])
        rows.append(row)
    return rows


def own_shares(result: Importance) -> np.ndarray[Any, np.dtype[np.float64]] | None:
    """Return the share of each attributed score that comes from the unit's own latent coordinate.

    None where the attributed scores are not the weighted latent ones (a nonlinear decoder, or
    categorical units whose columns were summed), so that no such share exists.
    """
    if result.latent is None or result.attribution is None:
        return None
    parts = result.attribution * result.latent.scores
    total = parts.sum(axis=1)
    scale = max(float(np.abs(result.scores).max()), 1e-300)
    if np.max(np.abs(total - result.scores)) > 0.02 * scale:
        return None
    own = np.diag(parts)
    valid = (total > 0) & (own >= 0)
    share = np.divide(own, total, out=np.full(len(total), np.nan), where=valid)
    # Noise below zero elsewhere can push a share past one.
    return np.where(share <= 1.0, share, np.nan)


def _weights(result: Importance) -> dict[str, Any] | None:
    """Return the attribution weights among the leading units, similar ones together."""
    from dfi.plots.attribution import clustered_weights

    if result.attribution is None or len(result.names) < 2:
        return None
    order, weights = clustered_weights(result, 20)
    rank = np.empty(len(result.names), dtype=int)
    rank[ranking(result.scores)] = np.arange(len(result.names))
    return {
        "rank": [int(rank[k]) for k in order],
        "values": [[round(float(v), 4) for v in row] for row in weights],
    }


def _grouped(result: Importance, groups: Any) -> Importance | None:
    if result.space == "group" or (groups is None and result.default_groups is None):
        return None
    return result.group(groups)
