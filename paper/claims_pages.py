"""The page "What holds and what does not", written from the numbers of its claims."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from paper import claims
from paper.claims_figures import draw_drawing, draw_variance
from paper.coverage_table import (
    AWARE,
    AWARE_BELOW,
    CORRELATIONS,
    FAMILIES,
    PLAIN,
    SAMPLE_SIZES,
    coverage_tasks,
)
from paper.coverage_table_cells import NULLS_LABEL, collect, select
from paper.coverage_table_pages import NAME as COVERAGE
from paper.coverage_table_words import plain_words, verdict
from paper.reproduction import Study, Task
from paper.writing import markdown_table, shown, write_csv, write_page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from paper.coverage_table_cells import Coverage
    from paper.reproduction import Record, Records, Size

NAME = "what-holds"
TESTS = "tests/paper/test_claims.py"
EPSILONS = (0.001, 0.01, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0)
REFEREED = (0.1, 0.5, 1.0, 2.0, 5.0)
DRAWS = (1, 2, 5, 10, 20, 50)
M3_CORRELATIONS = (0.2, 0.8)
LEARNED_LOCO, LEARNED_CROSS = ("boosting-loco", "forest-loco"), ("boosting", "forest")


def claim_tasks(size: Size) -> list[Task]:
    """Return one task per claim (two for M3), besides those of the coverage table."""
    # the pages give Monte-Carlo errors, which take two samples
    few = max(2, size.replications(quick=10, full=100))
    cheap = max(2, size.replications(quick=20, full=200))
    listed: list[tuple[str, Callable[..., Record], Mapping[str, object]]] = [
        ("variance", claims.conditional_variance, {"epsilons": EPSILONS, "refereed": REFEREED}),
        ("m2", claims.m2_total, {"correlations": (0.0, 0.2, 0.4, 0.8)}),
        ("drawing", claims.drawing_bias, {"draws": DRAWS, "n": 1000, "replications": few}),
        ("singular", claims.singular_whitening, {"n": 1000, "replications": cheap}),
        ("dependent", claims.dependent_examples, {"n": 1000, "replications": few}),
        *(
            (f"m3-{rho}", claims.m3_constants, {"rho": rho, "n": 2000, "replications": cheap})
            for rho in M3_CORRELATIONS
        ),
    ]
    return [Task(f"claim-{key}", function, arguments) for key, function, arguments in listed]


def all_tasks(size: Size) -> list[Task]:
    """Return the tasks of the coverage table, which the first claim reads, and of the others."""
    return [*coverage_tasks(size), *claim_tasks(size)]


def write_claims(records: Records, folder: Path, size: Size) -> None:
    """Write the numbers, the figures and the page."""
    found = {key.removeprefix("claim-"): record for key, record in records.items()}
    write_csv(folder / f"{NAME}.csv", _numbers(found))
    draw_variance(found["variance"], folder / f"{NAME}.png")
    draw_drawing(found["drawing"], folder / f"{NAME}-drawing.png")
    write_page(folder / f"{NAME}.md", *_page(records, found, size))


def _numbers(found: dict[str, Record]) -> list[dict[str, object]]:
    """Return every number of every claim as a row of its own."""
    rows: list[dict[str, object]] = []
    for key in ("variance", *(f"m3-{rho}" for rho in M3_CORRELATIONS), "m2", "drawing", "singular"):
        rows += _flat(key, found[key])
    for label, example in found["dependent"]["examples"].items():
        rows += _flat(f"dependent: {label}", example)
    return rows


def _flat(claim: str, record: Record) -> list[dict[str, object]]:
    rows = []
    for quantity, value in record.items():
        for place, entry in _entries(value, ""):
            rows.append({"claim": claim, "quantity": quantity, "place": place, "value": entry})
    return rows


def _entries(value: object, place: str) -> Iterable[tuple[str, object]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _entries(item, f"{place}{key} ")
    elif isinstance(value, list):
        for k, item in enumerate(value):
            yield from _entries(item, f"{place}{k} ")
    else:
        yield place.strip(), value


def _test(*names: str) -> str:
    return "Shown by " + ", ".join(f"`{TESTS}::{name}`" for name in names) + "."


def _page(records: Records, found: dict[str, Record], size: Size) -> list[str]:
    return [
        "# What holds and what does not",
        f"Claims of the paper and of this library, each with its numbers and the test that shows "
        f"it. Written by `dfi reproduce {NAME}`, run at {size.words}; the numbers are in "
        f"`{NAME}.csv`, those of the first claim in `{COVERAGE}.csv`.",
        *_coverage(records),
        *_variance(found["variance"]),
        *_m3([found[f"m3-{rho}"] for rho in M3_CORRELATIONS]),
        *_m2(found["m2"]),
        *_drawing(found["drawing"]),
        *_singular(found["singular"]),
        "## 7. HIV-1: one split is one draw",
        "The application is repeated over splits, with its total, its leading groups and the "
        "number of significant features per reading of the variance inflation: see "
        "[the page of the application](hiv.md), which `dfi reproduce hiv` writes.",
        *_dependent(found["dependent"]),
    ]


def _coverage(records: Records) -> list[str]:
    rows = select(collect(records), epsilon=0.0, method="DFI")
    body = []
    for family in (
        "oracle",
        "linear-loco",
        "linear",
        "boosting-loco",
        "boosting",
        "forest-loco",
        "forest",
    ):
        for rho in CORRELATIONS:
            for n in SAMPLE_SIZES:
                here = select(rows, family=family, rho=rho, n=n)
                if here:
                    body.append(_coverage_row(here))
    kinds = [
        f"{feature}, {kind}" for feature in ("X1", "X2") for kind in ("plain", "aware")
    ]  # fmt: skip
    headings = [
        "regression and form", "ρ", "n", "samples", *kinds, "nulls, plain", "nulls, aware",
        "nulls, aware, not projected",
    ]  # fmt: skip
    return [
        "## 1. The transport is estimated, and that is of first order",
        "The paper's influence functions take the transport as known. Coverage of nominal 90 % "
        "intervals on M1, *plain* (as in the paper) and *aware* of the transport's error (the "
        f"library's default); [the coverage table]({COVERAGE}.md) has the rest. X2 is null at "
        "ρ = 0.",
        f"- {verdict(rows)}\n- {plain_words(rows)}",
        markdown_table(headings, body),
        "*Not projected* counts an interval below 0 as a miss; the library's endpoints are "
        "projected on [0, ∞). The cross form multiplies two models fitted on disjoint rows; "
        "with learned regressions (boosting and forests) transport-aware intervals of nulls lie "
        f"below 0 in {_below(rows, LEARNED_LOCO)} of cases with LOCO-type scores, in "
        f"{_below(rows, LEARNED_CROSS)} with the cross form.",
        _test("test_plain_intervals_miss_what_aware_ones_cover")
        + f" The whole grid: `dfi reproduce {COVERAGE} --full`.",
    ]


def _below(rows: Sequence[Coverage], families: Sequence[str]) -> str:
    """Return how often aware intervals of nulls lie wholly below 0, over some families."""
    nulls = [row for row in select(rows, feature=NULLS_LABEL) if row.family in families]
    if not nulls:
        return "- %"
    signs = {AWARE: 1.0, AWARE_BELOW: -1.0}
    lost = sum(signs.get(row.interval, 0.0) * row.share * row.replications for row in nulls)
    samples = sum(row.replications for row in nulls if row.interval == AWARE)
    return f"{100 * lost / samples:.1f} %"


def _coverage_row(here: Sequence[Coverage]) -> list[object]:
    first = here[0]
    pairs = [
        *((feature, kind) for feature in ("X1", "X2") for kind in (PLAIN, AWARE)),
        (NULLS_LABEL, PLAIN),
        (NULLS_LABEL, AWARE),
        (NULLS_LABEL, AWARE_BELOW),
    ]
    shares = [f"{select(here, feature=f, interval=k)[0].share:.3f}" for f, k in pairs]
    return [FAMILIES[first.family].label, f"{first.rho:g}", first.n, first.replications, *shares]


def _variance(record: Record) -> list[str]:
    referee = dict(zip(record["refereed"], record["referee"], strict=True))
    body = []
    for k, epsilon in enumerate(record["epsilon"]):
        judge = referee.get(epsilon)
        body.append(
            [
                f"{epsilon:g}", record["published_variance"][k], 1.0,
                None if judge is None else judge["variance"],
                record["published_correlation"][k], record["bridge_correlation"][k],
                None if judge is None else judge["correlation"],
            ]
        )  # fmt: skip
    lowest = int(np.argmin(record["published_variance"]))
    return [
        "## 2. The closed-form entropic conditional is not a coupling",
        "The appendix gives Z | X ~ N(sX, τI) with s = 2/(2 + ε), τ = ε/(2 + ε) for whitened X. "
        f"Then Var Z = s² + τ < 1 for every ε > 0: "
        f"{shown(record['published_variance'][lowest], 3)} at ε = {record['epsilon'][lowest]:g}, "
        "so Z is not standard normal, although the coupling requires it. The target "
        "potential was dropped. The exact bridge has s = √(1 + ε²/16) - ε/4 and Z | X ~ "
        "N(sX, (1 - s²)I). A Sinkhorn scaling on a grid decides between the two.",
        f"![Variance and correlation against ε]({NAME}.png)",
        markdown_table(
            [
                "ε", "Var Z, published", "exact", "Sinkhorn", "Cor(X, Z), published", "exact",
                "Sinkhorn",
            ],
            body,
        ),
        f"At ε = {record['epsilon'][0]:g}, the paper's choice, the variances differ by "
        f"{1 - record['published_variance'][0]:.4f} and the correlations by "
        f"{record['bridge_correlation'][0] - record['published_correlation'][0]:.5f}.",
        _test("test_published_conditional_is_not_a_coupling", "test_bridge_is_what_sinkhorn_finds"),
    ]  # fmt: skip


def _m3(records: Sequence[Record]) -> list[str]:
    body = [
        [
            f"{record['rho']:g}", record["paper"], record["theory"], record["quadrature"][0],
            *(
                f"{value:.4f} ± {error:.4f}"
                for value, error in zip(
                    record["estimate"], record["estimate_error"], strict=True
                )
            ),
        ]
        for record in records
    ]  # fmt: skip
    first = records[0]
    return [
        "## 3. M3: φ4 = φ5 = (ρ² + 2)/4",
        "The paper's text and the attributed row of its table have half of it. Quadrature over "
        "the latent law gives (ρ² + 2)/4; the estimates with the true regression "
        f"({first['replications']} samples of n = {first['n']}, mean ± Monte-Carlo error) lie "
        f"within {_gap(records, 'theory'):.1f} Monte-Carlo errors of it, and at least "
        f"{_gap(records, 'paper', nearest=True):.0f} from the paper's.",
        markdown_table(
            ["ρ", "paper", "(ρ² + 2)/4", "quadrature", "estimate of φ4", "estimate of φ5"], body
        ),
        _test("test_m3_constants_by_quadrature", "test_m3_constants_by_estimation"),
    ]


def _gap(records: Sequence[Record], reference: str, *, nearest: bool = False) -> float:
    """Return the largest (smallest) distance of an estimate from a value, in its errors."""
    gaps = [
        abs(value - record[reference]) / error
        for record in records
        for value, error in zip(record["estimate"], record["estimate_error"], strict=True)
    ]
    return float(min(gaps) if nearest else max(gaps))


def _m2(record: Record) -> list[str]:
    body = [
        [f"{rho:g}", total, variance, total / variance]
        for rho, total, variance in zip(
            record["rho"], record["total"], record["variance"], strict=True
        )
    ]
    return [
        "## 4. M2: the total exceeds the signal's variance at strong correlation",
        "The paper says that DFI's total stays close to Var μ(X). In the latent coordinates "
        "cos X1 + cos X2 is not additive once the features are correlated, interactions count "
        f"once for each of their coordinates, and the total is {record['total'][-1]:.3f} where "
        f"the variance is {record['variance'][-1]:.3f} (ρ = {record['rho'][-1]:g}).",
        markdown_table(["ρ", "total of the scores", "Var μ(X)", "ratio"], body),
        _test("test_m2_total_exceeds_the_variance"),
    ]


def _drawing(record: Record) -> list[str]:
    truth = record["truth"]
    body = [
        [
            m,
            f"{bias[0]:.3f} ± {error[0]:.3f}", truth[0] / m,
            f"{bias[1]:.3f} ± {error[1]:.3f}", truth[1] / m,
        ]
        for m, bias, error in zip(
            record["draws"], record["bias"], record["bias_error"], strict=True
        )
    ]  # fmt: skip
    return [
        "## 5. Drawing m values and averaging before squaring adds Var/m",
        "With m random replacement values the average along a line has variance "
        "Var(η | Z₋ⱼ)/m, and the LOCO-type score squares it: every score is too large by "
        "E Var(η | Z₋ⱼ)/m = φⱼ/m. Exact averages have no such term. Latent scores of M1 "
        f"(ρ = 0.8, true regression, φ = {truth[0]:g} and {truth[1]:g}), "
        f"{record['replications']} samples of n = {record['n']}: drawn minus exact, with its "
        "Monte-Carlo error.",
        f"![Bias of drawing against m]({NAME}-drawing.png)",
        markdown_table(
            ["m", "bias of φ(Z1)", "φ/m", "bias of φ(Z2)", "φ/m"], body
        ),
        "The paper's m = 50 adds 2 % to every score, whatever n is.",
        _test("test_drawing_adds_the_variance_over_m"),
    ]  # fmt: skip


def _singular(record: Record) -> list[str]:
    total = sum(record["truth"])
    lost = 1.0 - sum(record["pseudo_inverse"]) / total
    body = [
        ["population", *record["truth"], total],
        ["random kernel (the library)", *record["kernel"], sum(record["kernel"])],
        ["pseudo-inverse", *record["pseudo_inverse"], sum(record["pseudo_inverse"])],
    ]
    return [
        "## 6. Singular whitening needs a random kernel",
        "X1 = X2 = U, Y = 2 X1 + X2 + e. Through Z = L⁺x the latent coordinates have variance "
        "1/2 and are equal, not independent: "
        f"{100 * lost:.0f} % of the signal is lost ({record['replications']} samples of "
        f"n = {record['n']}, true regression). Adding (I - P)ξ, ξ ~ N(0, I), makes Z standard "
        "normal again, and the pair has its signal back.",
        markdown_table(["transport", "X1", "X2", "total"], body),
        _test("test_pseudo_inverse_loses_what_the_kernel_keeps"),
    ]


def _dependent(record: Record) -> list[str]:
    body = []
    for label, example in record["examples"].items():
        for name, transport in (("factor", "Z = U (the paper's)"), ("gaussian", "Gaussian")):
            body.append(
                [
                    label, transport,
                    *(
                        f"{value:.3f} ± {error:.3f}"
                        for value, error in zip(
                            example[name], example[f"{name}_error"], strict=True
                        )
                    ),
                    ", ".join(f"{value:g}" for value in np.round(example[f"{name}_truth"], 6)),
                ]
            )  # fmt: skip
    return [
        "## 8. Perfect dependence: the answer is the disentangling's",
        "In the paper's two examples each feature has the whole signal, times its squared slope in "
        "U. That holds when one latent coordinate is U itself, which is not the optimal "
        "(Gaussian) transport: under that one, two equal features share the signal in halves, and "
        "a factor and its square, which are uncorrelated, stay unchanged. True regression, "
        f"{record['replications']} samples of n = {record['n']}, mean ± Monte-Carlo error.",
        markdown_table(["features", "disentangling", "X1", "X2", "population"], body),
        _test("test_both_features_have_everything_only_if_a_coordinate_is_the_factor"),
    ]


WHAT_HOLDS = Study(
    NAME,
    "What holds and what does not",
    all_tasks,
    write_claims,
    figures=("drawing",),
    shared=COVERAGE,
)
