"""The numbers and text behind plots, reports and the command line."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.cluster.hierarchy import fcluster, leaves_list, linkage
from scipy.spatial.distance import squareform

from dfi.results.algebra import SUM_OF_COLUMNS
from dfi.results.file import thaw
from dfi.results.tables import SHARE_COLUMNS, order_of, score_table, share_table
from dfi.results.text import missing_shares

if TYPE_CHECKING:
    from dfi._types import Floats, Ints, Plain
    from dfi.inference.tests import Adjustment
    from dfi.results.importance import Importance

Columns: TypeAlias = dict[str, NDArray[Any]]
"""Columns of a table by name: names of units, numbers, booleans."""
Names: TypeAlias = "Sequence[str] | NDArray[np.object_]"

NAME_WIDTH = 28
BLOCK_OVERLAP = 0.5
"""Features whose average overlap is at least this belong to one correlated block."""
CHANCE = 0.05
SPACES = {
    "attributed": ("feature", "features"),
    "latent": ("latent coordinate", "latent coordinates"),
    "group": ("group", "groups"),
}
"""Words for one unit of a result, and for several."""
UNATTRIBUTED = (
    "overlapping groups have joint scores in the latent space, which are not attributed: shared "
    "columns count in each of their groups"
)
GROUP_SCORES = {
    SUM_OF_COLUMNS: "The score of a group is the sum over its columns.",
    "joint": (
        "Each group is moved and scored as a whole: signal shared by its columns counts once, "
        "and so does their noise."
    ),
    "shapley": (
        "Shapley values: what a group adds, averaged over the orders of replacing groups. They add "
        "up to R² times the outcome's variance."
    ),
}
"""How groups are scored, by ``spec["group_scores"]``."""

GROUP_LABELS = {
    "sum of columns": "sum over its features",
    "joint": "joint: replaced as one",
    "shapley": "Shapley value",
}


def group_score(result: Importance) -> str | None:
    """Return how groups are scored, for labels; None for other units, or if unknown."""
    return GROUP_LABELS.get(str(result.spec.get("group_scores")))


ResultsByLabel: TypeAlias = "Mapping[str, Importance]"
"""A comparison, or results by label."""


def shorten(name: str, width: int = NAME_WIDTH) -> str:
    """Return a name on one line, cut in the middle: derived features differ at their end."""
    printable = "".join(" " if unicodedata.category(c).startswith("C") else c for c in name)
    flat = " ".join(printable.split()) or "(no name)"
    if len(flat) <= width:
        return flat
    head = math.ceil((width - 1) * 0.6)
    return f"{flat[:head]}…{flat[len(flat) - (width - 1 - head) :]}"


def short_names(names: Names, width: int = NAME_WIDTH) -> list[str]:
    """Shorten names so different ones stay different, around where they differ or numbered."""
    labels = [shorten(name, width) for name in names]
    for again in (_around_difference, _numbered):
        alike: dict[str, list[int]] = {}
        for position, label in enumerate(labels):
            alike.setdefault(label, []).append(position)
        for positions in alike.values():
            if len(positions) > 1:
                apart = again([names[k] for k in positions], width)
                for position, label in zip(positions, apart, strict=True):
                    labels[position] = label
    return labels


def _around_difference(names: Sequence[str], width: int) -> list[str]:
    flat = [shorten(name, len(name) + 1) for name in names]
    first, last = min(flat), max(flat)
    different = (k for k, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1])
    start = max(next(different, len(first)) - 2, 0)
    return [shorten(f"{name[:4]}…{name[start : start + width - 6]}", width) for name in flat]


def _numbered(names: Sequence[str], width: int) -> list[str]:
    ends = [f" ({k})" for k in range(1, len(names) + 1)]
    return [shorten(n, width - len(end)) + end for n, end in zip(names, ends, strict=True)]


def ranking(scores: Floats) -> Ints:
    return np.argsort(-scores, kind="stable")


def leading(scores: Floats, top: int | None) -> Ints:
    return ranking(scores)[:top]


def unit_columns(
    result: Importance,
    *,
    level: float | None = None,
    adjust: Adjustment | None = "holm",
    simultaneous: bool = False,
) -> Columns:
    """Return the table of a result in the order of its names, with a column ``significant``."""
    inference = score_table(result, level=level, adjust=adjust, simultaneous=simultaneous)
    used = result.level if level is None else level
    return {
        "feature": np.array(result.names, dtype=object),
        **inference,
        # NaN (no standard error) compares as not significant
        "significant": inference["p_adj"] <= 1.0 - used,
    }


def share_columns(result: Importance, **options: Any) -> Columns:
    """Return ``share``, ``share_low`` and ``share_high``, in the order of the names."""
    shares = share_table(result, **options)
    unknown = np.full(len(result.names), np.nan)
    return {name: shares.get(key, unknown) for name, key in SHARE_COLUMNS.items()}


def finite(value: float) -> float | None:
    """Return a number, or None if JSON has no such number."""
    value = float(value)
    return value if math.isfinite(value) else None


def unit_rows(result: Importance) -> list[Plain]:
    """Return one plain dict per unit, the largest share first; unknown numbers are None.

    Beside :func:`unit_columns`: shares with their ends, the share ``of_null`` of the null loss, the
    ``latent`` score, the share ``own`` (:func:`own_shares`), ``missing``: the share of such rows.
    """
    unknown = np.full(len(result.names), np.nan)
    missing = {} if result.space == "group" else missing_shares(result)
    null = result.quality.null_loss if result.null_loss is None else result.null_loss.value
    own = own_shares(result)
    columns = unit_columns(result)
    names = columns.pop("feature")
    columns |= {
        "unrelated": result.unrelated,
        **share_columns(result),
        "of_null": result.scores / null if null > 0 else unknown,
        "latent": unknown if result.latent is None or overlaps(result) else result.latent.scores,
        "own": unknown if own is None else own,
        "spread": unknown if result.spread is None else result.spread,
        "missing": np.array([missing.get(name, np.nan) for name in names]),
    }
    return [
        {
            "rank": rank + 1,
            "name": names[unit],
            **{
                key: bool(values[unit]) if values.dtype == np.bool_ else finite(values[unit])
                for key, values in columns.items()
            },
        }
        for rank, unit in enumerate(order_of(result))
    ]


def survival_curve(result: Importance) -> Plain | None:
    """Return the Kaplan-Meier curve behind times to an event, with pointwise intervals; or None."""
    told = result.diagnostics.get("survival")
    curve = told.get("curve") if isinstance(told, Mapping) else None
    if not isinstance(curve, Mapping):
        return None
    height, error = np.asarray(curve["survival"]), np.asarray(curve["se"])
    half = float(stats.norm.isf(0.5 * (1.0 - result.level))) * error
    return {
        "name": str(curve["name"]),
        "horizons": [float(one) for one in curve["horizons"]],
        "time": np.asarray(curve["time"], dtype=float).tolist(),
        "survival": height.tolist(),
        "low": np.clip(height - half, 0.0, 1.0).tolist(),
        "high": np.clip(height + half, 0.0, 1.0).tolist(),
    }


def class_columns(result: Importance, top: int | None = None) -> Columns:
    """Return units times classes (or outcomes), tidy: shares of each class, scores, intervals.

    The leading units of the whole come first, and of each unit the classes in their order.
    """
    if not result.by_outcome:
        raise ValueError("this result has one outcome: there are no classes to show")
    order = leading(result.scores, top)
    parts = [unit_columns(part) | share_columns(part) for part in result.by_outcome.values()]
    names = np.array(list(result.by_outcome), dtype=object)
    found = {
        "feature": np.repeat(np.array(result.names, dtype=object)[order], len(parts)),
        "outcome": np.tile(names, len(order)),
    }
    for key in (*SHARE_COLUMNS, "score", "se", "ci_low", "ci_high", "p_adj", "significant"):
        found[key] = np.stack([part[key][order] for part in parts], axis=1).ravel()
    return found


def latent_measures(result: Importance) -> Columns:
    """Return the dependence that remains in latent coordinates: measure, value, chance level.

    Chance reaches the level of the largest correlation in one table of 20, that of the classifier
    in one of 100, and that of a margin in one margin (of however many) of 20.
    """
    latent = result.diagnostics.get("latent")
    if not isinstance(latent, Mapping):
        raise ValueError(  # noqa: TRY004 - the result lacks a part, its type is right
            "this result has no diagnostics of its latent coordinates: explain with "
            "diagnose=True (the default)"
        )
    n_rows = int(latent.get("n_rows", result.quality.n_rows))
    d = int(str(result.diagnostics.get("n_latent", len(result.names))))
    pairs = max(d * (d - 1) // 2, 1)
    # Fisher: independent columns reach this |correlation| in one of the pairs by chance.
    by_chance = float(
        np.tanh(stats.norm.isf(CHANCE / (2 * pairs)) / np.sqrt(max(result.quality.n_rows - 3, 1)))
    )
    measures = {
        "largest correlation": (latent.get("max_correlation"), by_chance),
        "dependence that a classifier detects (2 AUC - 1)": tuple(
            None if area is None else max(2.0 * area - 1.0, 0.0)
            for area in (latent.get("auc"), latent.get("chance_auc"))
        ),
        "largest distance of a margin from N(0, 1)": (
            latent.get("max_marginal_distance"),
            latent.get("null_marginal_distance"),
        ),
    }
    known = {label: pair for label, pair in measures.items() if None not in pair}
    return {
        "measure": np.array(list(known), dtype=object),
        "value": np.array([value for value, _ in known.values()], dtype=float),
        "chance": np.array([chance for _, chance in known.values()], dtype=float),
        "n_rows": np.full(len(known), n_rows),
    }


def overlaps(result: Importance) -> bool:
    """Return whether units are groups that overlap: latent scores, which are not attributed."""
    return "not attributed" in str(result.spec.get("unit_scores"))


def group_scores(result: Importance) -> str | None:
    """Say how groups are scored; None where units are not groups."""
    how = str(result.spec.get("group_scores"))
    if result.space != "group" or how not in GROUP_SCORES:
        return None
    return f"{GROUP_SCORES[how]} G{UNATTRIBUTED[1:]}." if overlaps(result) else GROUP_SCORES[how]


def members_of(result: Importance) -> Plain:
    """Return the contents of units of several columns, levels or missing values, by name."""
    units = thaw(result.diagnostics.get("units"))
    return {name: units[name] for name in result.names if name in units} if units else {}


def attribution_of(result: Importance) -> Floats:
    """Return the attribution weights of a result, or say that it has none."""
    if overlaps(result):
        raise ValueError(f"there are no attribution weights: {UNATTRIBUTED}")
    if result.attribution is None:
        raise ValueError(
            f"this result ({result.space}) has no attribution weights; "
            "draw the attributed result of explain"
        )
    return result.attribution


def own_shares(result: Importance) -> Floats | None:
    """Return each score's share from its own latent coordinate; None if it is no weighted sum."""
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


def clustered_weights(result: Importance, top: int | None) -> tuple[Ints, Floats]:
    """Return the leading units, similar ones together, and the weights among them."""
    weights = attribution_of(result)
    chosen = np.sort(leading(result.scores, top))
    order = chosen[clustered_order(overlap(weights)[np.ix_(chosen, chosen)])]
    return order, weights[np.ix_(order, order)]


def overlap(attribution: Floats) -> Floats:
    r"""Return how much latent signal every pair of units shares, from the weights alone.

    With attribution weights :math:`A_{lj} = W_{lj}^2`, the overlap of features :math:`l` and
    :math:`k` is

    .. math:: o_{lk} = \frac{\sum_j \sqrt{A_{lj} A_{kj}}}{\sqrt{\sum_j A_{lj} \sum_j A_{kj}}}
              \ge |\mathrm{corr}(X_l, X_k)|,

    with equality where the products :math:`W_{lj} W_{kj}` have one sign: a pair of correlated
    features has an overlap of exactly their absolute correlation. It needs no data, so it can be
    shown from a saved result. It is 1 on the diagonal, 0 for units without weight.
    """
    root = np.sqrt(np.clip(attribution, 0.0, None))
    norm = np.sqrt(np.sum(root**2, axis=1))
    scale = np.outer(norm, norm)
    product = np.asarray(root @ root.T)
    ratio = np.divide(product, scale, out=np.zeros_like(product), where=scale > 0)
    return np.asarray(np.clip(ratio, 0.0, 1.0))


def _tree(similarity: Floats) -> Floats:
    distance = 1.0 - similarity
    distance = (distance + distance.T) / 2.0
    np.fill_diagonal(distance, 0.0)
    return np.asarray(linkage(squareform(distance, checks=False), method="average"))


def clustered_order(similarity: Floats) -> Ints:
    """Return an order of the units that puts similar ones next to each other."""
    if len(similarity) < 3:
        return np.arange(len(similarity))
    return np.asarray(leaves_list(_tree(similarity)), dtype=np.intp)


@dataclass(frozen=True)
class Block:
    """Positions of units that share latent signal, and the average overlap of their pairs."""

    members: tuple[int, ...]
    mean_overlap: float


def _block(members: Sequence[int], similarity: Floats) -> Block:
    pairs = similarity[np.ix_(members, members)][np.triu_indices(len(members), k=1)]
    return Block(tuple(members), float(pairs.mean()))


def correlated_blocks(attribution: Floats) -> list[Block]:
    """Return the blocks of at least two units whose average overlap is large."""
    similarity = overlap(attribution)
    if len(similarity) < 2:
        return []
    labels = fcluster(_tree(similarity), t=1.0 - BLOCK_OVERLAP, criterion="distance")
    groups = [np.flatnonzero(labels == label).tolist() for label in np.unique(labels)]
    blocks = [_block(members, similarity) for members in groups if len(members) > 1]
    return sorted(blocks, key=lambda block: block.members)


def component_blocks(result: Importance) -> list[Block] | None:
    """Return the dependence components of two features or more; None if overlaps tell more."""
    components = result.components
    if components is None or len(components) == 1 or result.space == "group":
        return None
    place = {name: k for k, name in enumerate(result.names)}
    if not all(name in place for group in components for name in group):
        return None
    similarity = overlap(attribution_of(result))
    return [
        _block([place[name] for name in group], similarity)
        for group in components
        if len(group) > 1
    ]


def read_results(results: ResultsByLabel) -> dict[str, Importance]:
    """Return results by label, or raise if their units differ."""
    if not isinstance(results, Mapping):
        raise TypeError(
            f"pass {{label: result, ...}} or a comparison, got {type(results).__name__}"
        )
    by_label = {str(label): result for label, result in results.items()}
    if not by_label:
        raise ValueError("there are no results to draw")
    first = next(iter(by_label.values()))
    for label, result in by_label.items():
        if set(result.names) != set(first.names):
            raise ValueError(f"the result {label!r} has other units than the first")
    return by_label
