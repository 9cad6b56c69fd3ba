"""Correlated blocks: which features share signal, and how it was divided among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dfi.plots.overlap import Block, correlated_blocks, overlap
from dfi.plots.style import short_names
from dfi.report.numbers import finite, number, percent

if TYPE_CHECKING:
    from dfi._types import Floats
    from dfi.results.importance import Importance

SHOWN_BLOCKS = 6
SHOWN_MEMBERS = 8
LABEL_WIDTH = 26


def block_summaries(result: Importance) -> dict[str, Any]:
    """Return the blocks with the largest scores, each with a sentence and its members.

    Returns
    -------
    dict
        ``shown`` (list of blocks), ``n_blocks``, ``known`` (False where the result holds no
        attribution weights), ``tested`` (whether the blocks are the result's dependence
        components) and ``n_components``.
    """
    n_components = 0 if result.components is None else len(result.components)
    if result.attribution is None or result.latent is None:
        return {
            "known": False, "n_blocks": 0, "shown": [], "tested": False,
            "n_components": n_components,
        }  # fmt: skip
    blocks = component_blocks(result)
    tested = blocks is not None
    if blocks is None:
        blocks = correlated_blocks(np.asarray(result.attribution))
    blocks.sort(key=lambda block: -float(result.scores[list(block.members)].sum()))
    return {
        "known": True,
        "n_blocks": len(blocks),
        "shown": [_summary(result, block) for block in blocks[:SHOWN_BLOCKS]],
        "tested": tested,
        "n_components": n_components,
    }


def component_blocks(result: Importance) -> list[Block] | None:
    """Return the dependence components of at least two features.

    None where there are no components, where the units are not the features that they are of, or
    where all features are one: overlaps then tell more.
    """
    found = result.components
    if found is None or len(found) == 1 or result.space == "group":
        return None
    place = {name: k for k, name in enumerate(result.names)}
    if not all(name in place for group in found for name in group):
        return None
    similarity = overlap(np.asarray(result.attribution))
    blocks = []
    for group in found:
        members = [place[name] for name in group]
        if len(members) > 1:
            pairs = similarity[np.ix_(members, members)][np.triu_indices(len(members), k=1)]
            blocks.append(Block(tuple(members), float(pairs.mean())))
    return blocks


def _summary(result: Importance, block: Block) -> dict[str, Any]:
    members = np.array(block.members, dtype=np.intp)
    members = members[np.argsort(-result.scores[members], kind="stable")]
    weights = np.asarray(result.attribution)
    latent = np.zeros(len(result.names)) if result.latent is None else result.latent.scores
    total = float(result.scores[members].sum())
    labels = short_names([result.names[k] for k in members], LABEL_WIDTH)
    received = weights[np.ix_(members, members)].copy()
    np.fill_diagonal(received, 0.0)
    rows = [
        {
            "name": result.names[k],
            "label": label,
            "latent": finite(latent[k]),
            "score": finite(result.scores[k]),
            "share": finite(result.scores[k] / total) if total > 0 else None,
            "kept": finite(weights[k, k]),
        }
        for k, label in zip(members, labels, strict=True)
    ]
    return {
        "heading": _listed(labels),
        "overlap": block.mean_overlap,
        "total": total,
        "members": rows[:SHOWN_MEMBERS],
        "n_hidden": max(0, len(rows) - SHOWN_MEMBERS),
        "text": _sentence(labels, result.scores[members], latent[members], received),
    }


def _listed(labels: list[str]) -> str:
    return ", ".join(labels[:3]) + (f" and {len(labels) - 3} more" if len(labels) > 3 else "")


def _sentence(labels: list[str], scores: Floats, latent: Floats, received: Floats) -> str:
    total = float(scores.sum())
    if total <= 0:
        return f"They share no measurable signal: their scores add up to {number(total)}."
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
        f"is attributed to {labels[to]}, because the two move together."
    )
