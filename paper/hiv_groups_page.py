"""The page of the HIV-1 analysis with groups as units: scores, ranks by split, what is missed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from paper.hiv import ALPHA, DEPENDENCE, OUTCOMES
from paper.hiv_figures import DRAWN_SE, Splits, draw_real_data
from paper.hiv_groups import group_tasks
from paper.reproduction import Study
from paper.writing import markdown_table, write_csv, write_page

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from paper.reproduction import Record, Records, Size

    Floats = NDArray[np.float64]

TITLE = "HIV-1: groups of features as units"

REMARKS = """
The [analysis of the paper](hiv.md) adds up the scores of 832 features with 611 rows, and its order
of the groups changes from split to split. Here the 14 groups are the units:
`dfi.explain(X, y, forest, feature_groups=groups, units="groups")`. The transport disentangles
groups from each other, not the features within ({factors} factors: there are fewer rows than
features), and a group is replaced as a whole by that of other rows. Groups overlap: 1, 2 and 3
share 103 features. A *joint* score leaves each group all of its sites; the *Shapley* value divides
what groups share evenly between them, and adds up to R² (of the products of two half-models).
Forests of {trees} trees, five folds, {splits} random splits, outcome of variance 1, cross form.
"""

SHARES = """
Shapley values over the explained variance, the largest first, from one call with all splits.
Groups divide the sites that they have in common.
The paper ranks sums over features and gives no shares.
"""

CAPTION = """
Run at {size}; {outcome}, {splits} random splits. (a) Joint scores, mean over splits; whiskers are
one standard error, se² = sd(ū)²/n + s²/R with ū the mean over R splits row by row and s the
deviation of the scores over splits; the transport counts as known. (b) Z-scores of single splits,
their mean and range; dashed: levels 0.05 and 0.05/14. (c) Stars and colours: significant at 0.05
(orange) and 0.05/14 (red) by the mean Z-score. (d) Mean absolute correlation over pairs of
different features, one of each group. (e) Above the dashed line a group has more where it
keeps the sites that it shares. (f) Entry (g, h) is
the part of the Shapley value of group g that comes from the latent coordinates of group h: rows add
up to the Shapley values, except for clipping.
"""

TITLES = (
    "joint group scores, one standard error",
    "Z-scores of single splits, one-sided (line: range)",
    "groups (number of features)",
    "mean absolute correlation between members",
    "shared sites divided (Shapley) against kept (joint)",
    "Shapley values: from latent groups (columns)",
)
AXES = (
    "joint score (share of the outcome's variance)",
    "Z-score of the joint score",
    "Shapley value",
    "joint score",
)


@dataclass(frozen=True)
class GroupSplits(Splits):
    """The records of one outcome: ``scores`` are joint; ``latent`` is what panel (e) has below."""

    score: str = "joint"

    @property
    def scores(self) -> Floats:
        """Scores, (splits, groups)."""
        return self._stack(lambda record: record[self.score])

    @property
    def latent(self) -> Floats:
        """Shapley values, (splits, groups)."""
        return self._stack(lambda record: record["shapley"])

    def se(self, kind: str = DRAWN_SE) -> Floats:
        """Return the standard errors of single splits, (splits, groups)."""
        del kind
        return self._stack(lambda record: record[f"{self.score}_se"])

    @property
    def error(self) -> Floats:
        """Standard errors of the means over splits."""
        rows = self._stack(lambda record: record["influence"][self.score]).mean(axis=0)
        own = rows.var(axis=0, ddof=1) / len(rows)
        return np.asarray(np.sqrt(own + self.spread**2 / len(self.records)))

    def ranks(self) -> NDArray[np.intp]:
        """Return the rank of each group on each split, (splits, groups)."""
        return np.argsort(np.argsort(-self.scores, axis=1, kind="stable"), axis=1) + 1


def write_groups(records: Records, folder: Path, size: Size) -> None:
    """Write the table of numbers, the figure and the page."""
    about = records[DEPENDENCE]
    found = {outcome: _of(records, outcome, "joint") for outcome in OUTCOMES}
    main = found[OUTCOMES[0]]
    together = {outcome: records[f"{outcome}-together"] for outcome in OUTCOMES}
    write_csv(folder / "hiv-groups.csv", _rows(records, about))
    for outcome, splits in found.items():
        name = "hiv-groups.png" if outcome == OUTCOMES[0] else "hiv-groups-censored.png"
        draw_real_data(splits, about, folder / name, TITLES, AXES)
    words = {"size": size.words, "splits": len(main.records)}
    write_page(
        folder / "hiv-groups.md",
        f"# {TITLE}",
        REMARKS.format(
            factors=together[OUTCOMES[0]]["factors"],
            trees=size.trees(quick=50, full=200),
            **words,
        ),
        "## Shares",
        SHARES,
        *(_shares(outcome, records, about) for outcome in OUTCOMES),
        "## What we asked, and what came out",
        _verdicts(found, records),
        f"![{TITLE}](hiv-groups.png)",
        CAPTION.format(outcome=OUTCOMES[0], **words),
        *(_block(outcome, found[outcome], records, about) for outcome in OUTCOMES),
        f"![{TITLE}, {OUTCOMES[1]}](hiv-groups-censored.png)",
        "## Beside others",
        "Groups by score, the largest first; orders of sums over features are in "
        "[hiv.md](hiv.md). LOCO leaves a group out and refits, so the others take over what it "
        "shares with them.",
        _orders(found, records, about),
        "## Groups without signal",
        _fakes(records),
    )


def _of(records: Records, outcome: str, score: str) -> GroupSplits:
    chosen = [r for r in records.values() if r.get("kind") == "split" and r["outcome"] == outcome]
    ordered = sorted(chosen, key=lambda record: int(record["split"]))
    return GroupSplits(outcome, score, tuple(ordered), score)


def _rows(records: Records, about: Record) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for outcome in OUTCOMES:
        together, loco = records[f"{outcome}-together"], records[f"{outcome}-loco"]
        for record in _of(records, outcome, "joint").records:
            rows += [
                {
                    "outcome": outcome,
                    "split": record["split"],
                    "group": name,
                    "number": k + 1,
                    **{key: record[key][k] for key in ("joint", "joint_se")},
                    **{key: record[key][k] for key in ("shapley", "shapley_se", "shapley_latent")},
                    "together": together["scores"][k],
                    "together_se": together["se"][k],
                    "loco": loco["scores"][k],
                    "loco_se": loco["se"][k],
                }
                for k, name in enumerate(about["groups"])
            ]
    return rows


def _verdicts(found: dict[str, GroupSplits], records: Records) -> str:
    """Return each demand with whether it is met."""
    sens50, censored = found[OUTCOMES[0]], found[OUTCOMES[1]]
    leaders = [frozenset(np.argsort(-row)[:4] + 1) for row in sens50.scores]
    same = max(map(leaders.count, leaders))
    often = ", ".join(map(str, sorted(max(leaders, key=leaders.count))))
    z = sens50.z()[:, :2]
    lead = sum(frozenset(np.argsort(-row)[:2]) == {0, 1} for row in censored.scores)
    fakes = _fake_tests(records)
    asked = [
        (
            f"{OUTCOMES[0]}: the leading four groups are the same on every split",
            f"{same} of {len(leaders)} ({often})", same == len(leaders),
        ),
        (
            f"{OUTCOMES[0]}: vrc01 (1) and cd4bs (2) have Z > 4 on each split",
            f"smallest Z {z.min():.1f}", bool(z.min() > 4),
        ),
        (
            f"{OUTCOMES[1]}: vrc01 and cd4bs lead on every split",
            f"{lead} of {len(censored.records)}", lead == len(censored.records),
        ),
        (
            f"{len(fakes)} fake groups: none significant at 5 % after Holm",
            f"smallest adjusted p {fakes.min():.2f}", bool(fakes.min() > ALPHA),
        ),
    ]  # fmt: skip
    rows = [[what, came, "met" if met else "**missed**"] for what, came, met in asked]
    return markdown_table(("asked", "found", ""), rows)


def _shares(outcome: str, records: Records, about: Record) -> str:
    """Return the verdict with its reasons, and the shares."""
    record = records[f"{outcome}-together"]
    rows = [
        [
            k + 1,
            about["groups"][k],
            f"{record['share'][k]:.2f}",
            f"{record['share_low'][k]:.2f} to {record['share_high'][k]:.2f}",
        ]
        for k in np.argsort(-np.asarray(record["share"]), kind="stable")
    ]
    reasons = "".join(f"\n- {reason}" for reason in record["reasons"])
    told = (
        f"Verdict: **{record['verdict']}**. R² {record['r2']:.2f}; "
        f"sum of shares {np.sum(record['share']):.2f}.\n{reasons}"
    )
    table = markdown_table(("", "group", "share", "95 % interval"), rows)
    return f"### Shares of {outcome}\n\n{told.rstrip()}\n\n{table}"


def _block(outcome: str, joint: GroupSplits, records: Records, about: Record) -> str:
    shapley, together = _of(records, outcome, "shapley"), records[f"{outcome}-together"]
    loco, ranks = records[f"{outcome}-loco"], joint.ranks()
    rows = [
        [
            k + 1,
            about["groups"][k],
            about["sizes"][k],
            f"{joint.scores.mean(axis=0)[k]:.4f}",
            f"{joint.error[k]:.4f}",
            f"{(joint.scores.mean(axis=0) / joint.error)[k]:.1f}",
            f"{together['scores'][k] / together['se'][k]:.1f}",
            f"{joint.z()[:, k].min():.1f} to {joint.z()[:, k].max():.1f}",
            ", ".join(map(str, ranks[:, k])),
            f"{shapley.scores.mean(axis=0)[k]:.4f}",
            f"{(shapley.scores.mean(axis=0) / shapley.error)[k]:.1f}",
            f"{loco['scores'][k]:.4f}",
            f"{loco['scores'][k] / loco['se'][k]:.1f}",
        ]
        for k in joint.order
    ]
    headings = (
        "", "group", "features", "joint", "se", "Z", "Z, transport-aware", "Z by split",
        "rank by split", "Shapley", "Z", "LOCO", "Z",
    )  # fmt: skip
    fidelity, ratios = together["fidelity"], together["of_atoms"]
    above = {name: ratio for name, ratio in ratios.items() if ratio > 1}
    total = np.mean([record["total"] for record in joint.records])
    notes = (
        f"R² {np.mean([record['r2'] for record in joint.records]):.3f} of the mean of two "
        f"half-models; Shapley values add up to {total:.3f}. With all groups drawn apart the "
        f"predictions have {fidelity['variance_ratio']:.2f} times the variance that they have at "
        f"the rows, and their mean is {fidelity['mean_shift']:.2f} standard deviations away: a "
        "linear map disentangles columns of 0 and 1 to second order only. *Z, transport-aware*: "
        "one call with all splits, the error of the fitted transport included (jackknife). The "
        "score of a group over the sum of its atoms', sites with the same memberships, is above "
        "1 if dependence remains between them: "
        + (", ".join(f"{name} {ratio:.2f}" for name, ratio in above.items()) or "nowhere")
        + f". One call took {together['cpu_seconds']:.0f} CPU seconds, fitting included."
    )
    return f"## {outcome}\n\n{notes}\n\n{markdown_table(headings, rows)}"


def _orders(found: dict[str, GroupSplits], records: Records, about: Record) -> str:
    rows: list[list[object]] = [
        [OUTCOMES[0], "paper", "5, 6, 1, 2, 3, 8, 4", None],
    ]
    for outcome, joint in found.items():
        scores = {
            "joint": joint.scores.mean(axis=0),
            "Shapley": _of(records, outcome, "shapley").scores.mean(axis=0),
            "LOCO": np.asarray(records[f"{outcome}-loco"]["scores"]),
        }
        for name, values in scores.items():
            order = ", ".join(str(k + 1) for k in np.argsort(-values, kind="stable")[:7])
            size = float(stats.spearmanr(values, about["sizes"]).statistic)
            rows.append([outcome, name, order, round(size, 2)])
    return markdown_table(("outcome", "score", "order", "ρ with size"), rows)


def _fake_tests(records: Records) -> Floats:
    """Return the p-values of all fake groups after Holm's correction."""
    fakes = [record for record in records.values() if record.get("kind") == "fakes"]
    p = np.sort(np.concatenate([record["p"] for record in fakes]))
    return np.minimum(1.0, np.maximum.accumulate(p * np.arange(len(p), 0, -1)))


def _fakes(records: Records) -> str:
    fakes = [record for record in records.values() if record.get("kind") == "fakes"]
    z = np.concatenate([record["z"] for record in fakes])
    copied = ", ".join(fakes[0]["groups"])
    return (
        f"Copies of {copied}, their rows permuted, as groups of their own beside the table "
        f"({len(fakes)} tables, {len(z)} copies, one split each, {fakes[0]['outcome']}): Z has "
        f"mean {z.mean():.2f} and deviation {z.std(ddof=1):.2f}, the largest is {z.max():.2f}; "
        f"{int(np.sum(z > stats.norm.isf(ALPHA)))} of {len(z)} exceed 1.645, and after Holm's "
        f"correction the smallest p is {_fake_tests(records).min():.2f}."
    )


HIV_GROUPS = Study("hiv-groups", TITLE, group_tasks, write_groups, figures=("censored",))
