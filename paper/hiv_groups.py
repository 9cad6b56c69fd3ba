r"""HIV-1 with groups as units: each of the 14 groups is disentangled and scored as one.

The study ``hiv`` adds up the scores of 832 columns, and finds that a sum over hundreds of tiny
coordinates is mostly noise. Here the groups are the units (``units="groups"``): the transport
disentangles groups from each other, with a factor covariance because rows are fewer than columns,
and a group is replaced as a whole. Forests of 200 trees, five folds, the cross form, and every
other default.

``split``
    One random split, the transport taken as known: joint scores, where a group keeps all of its
    sites, and Shapley values, where sites that several groups hold are divided between them.
``together``
    All splits in one call, with the error of the transport and the spread over splits: scores, and
    shares with intervals and verdict.
``loco``
    Group LOCO on the first split: the forest is fitted again without each group.
``fakes``
    Copies of four groups whose rows are permuted stand beside the table and are explained as units
    of their own: none of them carries anything.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor

import dfi
from paper.hiv import DEPENDENCE, OUTCOMES, check_data, describe_groups, read_hiv, standardized
from paper.reproduction import Task

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from paper.reproduction import Record, Size

    Floats = NDArray[np.float64]

SPLITS = 5
COPIED = ("covar", "vrc01", "sequons", "glyco")
FAKE_TABLES = 6
"""Tables with a copy of each of the four groups: 24 fake groups."""


def group_tasks(size: Size) -> list[Task]:
    """Return the tasks: splits of both outcomes, all of them together, LOCO and fakes.

    Raises
    ------
    ValueError
        The data are not there.
    """
    check_data(size)
    trees, splits = size.trees(quick=50, full=200), size.replications(quick=2, full=SPLITS)
    tasks = [Task(DEPENDENCE, describe_groups, {"data": size.data})]
    for outcome in OUTCOMES:
        shared = {"outcome": outcome, "trees": trees, "data": size.data}
        tasks += [
            Task(f"{outcome}-split-{split}", explain_split, {**shared, "split": split})
            for split in range(splits)
        ]
        tasks += [
            Task(
                f"{outcome}-together", explain_together, {**shared, "repeats": splits},
                measured=True,
            ),
            Task(f"{outcome}-loco", group_loco, shared),
        ]  # fmt: skip
    fakes = size.refits(quick=1, full=FAKE_TABLES)
    shared = {"outcome": OUTCOMES[0], "trees": trees, "data": size.data}
    tasks += [Task(f"fakes-{k}", explain_fakes, {**shared, "seed": k}) for k in range(fakes)]
    return tasks


def forest(trees: int, seed: int = 0) -> RandomForestRegressor:
    """Return the regression of the study."""
    return RandomForestRegressor(
        n_estimators=trees, max_features=1 / 3, min_samples_leaf=3, random_state=seed
    )


def explain_split(outcome: str, split: int, trees: int, data: str | None = None) -> Record:
    """Explain one outcome on one random split, by joint scores and by Shapley values."""
    hiv = read_hiv(outcome, data)
    found = explain_groups(
        hiv.X, standardized(hiv.y), hiv.positions, trees=trees, random_state=split
    )
    return {"outcome": outcome, "kind": "split", "split": split, **found}


def explain_groups(
    X: Floats,
    y: Floats,
    groups: Mapping[str, Sequence[int]],
    *,
    trees: int,
    random_state: int,
) -> Record:
    """Return scores of groups that are units, and the influence values that they are means of."""
    joint = _explained(
        X, y, groups, trees=trees, random_state=random_state, n_repeats=1, diagnose=False,
        transport_error="ignore",
    )  # fmt: skip
    shapley = joint.group(how="shapley")
    if shapley.latent is None or shapley.attribution is None:
        raise RuntimeError("a linear transport has a latent space")
    return {
        "joint": joint.scores,
        "joint_se": joint.se,
        "shapley": shapley.scores,
        "shapley_se": shapley.se,
        "shapley_latent": shapley.latent.scores,
        "flow": shapley.attribution * shapley.latent.scores,
        "total": shapley.total.value,
        "r2": joint.quality.r2,
        "influence": {
            "joint": np.round(joint.influence, 8),
            "shapley": np.round(shapley.influence, 8),
        },
    }


def _explained(
    X: Floats, y: Floats, groups: Mapping[str, Sequence[int]], *, trees: int, **options: Any
) -> dfi.Importance:
    settings: dict[str, Any] = {
        "feature_groups": groups,
        "units": "groups",
        "progress": False,
        **options,
    }
    return dfi.explain(X, y, forest(trees), **settings)


def explain_together(outcome: str, trees: int, repeats: int, data: str | None = None) -> Record:
    """Explain one outcome by one call, repeated splits and the transport's error included."""
    hiv = read_hiv(outcome, data)
    wall, cpu = time.perf_counter(), time.process_time()
    result = _explained(
        hiv.X, standardized(hiv.y), hiv.positions, trees=trees, n_repeats=repeats, random_state=0
    )
    told: Any = result.diagnostics
    return {
        "outcome": outcome,
        "kind": "together",
        "scores": result.scores,
        "se": result.se,
        "spread": result.spread,
        "p_adj": np.asarray(result.table(sort=False)["p_adj"]),
        **shares_and_verdict(result),
        "fidelity": {key: told["fidelity"][key] for key in ("variance_ratio", "mean_shift")},
        "of_atoms": dict(told["overlap"]["of_atoms"]),
        "factors": told["covariance"]["factors"],
        "seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time() - cpu,
    }


def shares_and_verdict(result: dfi.Importance) -> Record:
    """Return R2, the verdict, and shares; groups divide the sites that they have in common."""
    table = result.group(how="shapley").table(sort=False)
    return {
        "r2": result.quality.r2,
        **{key: np.asarray(table[key]) for key in ("share", "share_low", "share_high")},
        "verdict": result.trust.grade,
        "reasons": [reason.what for reason in result.trust.reasons],
    }


def group_loco(outcome: str, trees: int, data: str | None = None) -> Record:
    """Return group LOCO by refits on the first split."""
    hiv = read_hiv(outcome, data)
    found = dfi.compare(
        hiv.X, standardized(hiv.y), ["loco"], estimator=forest(trees), feature_groups=hiv.positions,
        random_state=0, progress=False,
    )["loco"]  # fmt: skip
    return {"outcome": outcome, "kind": "loco", "scores": found.scores, "se": found.se}


def explain_fakes(outcome: str, trees: int, seed: int, data: str | None = None) -> Record:
    """Explain a table with row-permuted copies of some groups, and return what these score."""
    hiv = read_hiv(outcome, data)
    copied = [name for name in COPIED if name in hiv.positions] or list(hiv.positions)[:2]
    parts, groups = [hiv.X], {name: list(places) for name, places in hiv.positions.items()}
    generator = np.random.default_rng(seed)
    for name in copied:
        start = sum(part.shape[1] for part in parts)
        parts.append(hiv.X[generator.permutation(len(hiv.X))][:, list(hiv.positions[name])])
        groups[f"{name}, permuted"] = list(range(start, start + parts[-1].shape[1]))
    result = _explained(
        np.hstack(parts), standardized(hiv.y), groups, trees=trees, n_repeats=1,
        random_state=seed, diagnose=False, transport_error="ignore",
    )  # fmt: skip
    table = result.test(adjust="none")
    places = [result.names.index(f"{name}, permuted") for name in copied]
    return {
        "outcome": outcome,
        "kind": "fakes",
        "seed": seed,
        "groups": copied,
        "scores": result.scores[places],
        "z": np.asarray(table["z"])[places],
        "p": np.asarray(table["p"])[places],
    }
