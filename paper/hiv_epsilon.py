r"""The groups of the HIV-1 analysis over the regularisation epsilon, on the same fitted models.

Two forms: the paper's semicontinuous transport, and the Gaussian bridge, which is the exact
solution for whitened Gaussian data. In the published form epsilon enters through the attribution
alone: the whitened covariance of the sample is the identity, so every score is multiplied by the
same number, :math:`(s/(\tau+s^2))^2` with :math:`s = 2/(2+\varepsilon)` and
:math:`\tau = \varepsilon/(2+\varepsilon)`, and no rank can change.

The bridge smooths the regression over ``k`` points of the latent space, each row
over its own. The noise of that average adds up over 832 coordinates: the scores from half as many
points are kept beside, to show where it matters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.ensemble import RandomForestRegressor

from dfi import sensitivity
from dfi.transports import Gaussian, Semicontinuous
from paper.hiv import OUTCOMES, check_data, read_hiv, standardized
from paper.reproduction import Study, Task
from paper.style import BLACK, CYCLE, quiet_frame
from paper.writing import markdown_table, save_figure, write_csv, write_page

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from paper.reproduction import Record, Records, Size

    Floats = NDArray[np.float64]

NAME = "figure-hiv-epsilon"
TITLE = "Groups of the HIV-1 analysis over the regularisation ε"
FORMS = {
    "semicontinuous": "published semicontinuous form",
    "bridge": "exact Gaussian bridge",
}
GRIDS = {"quick": (1e-3, 0.1, 1.0), "full": (1e-3, 0.01, 0.1, 0.5, 1.0)}
SMOOTHING = {"quick": 4, "full": 8}
"""Points ``k`` of the bridge's smoothing; each is one more pass over all lines."""


def epsilon_tasks(size: Size) -> list[Task]:
    """Return one task for each form; a task fits the models once for all epsilons."""
    check_data(size)
    how = "full" if size.full else "quick"
    common = {
        "epsilons": list(GRIDS[how]),
        "trees": size.trees(quick=50, full=500),
        "data": size.data,
    }
    smoothing = {"semicontinuous": 1, "bridge": SMOOTHING[how]}
    return [
        Task(form, explain_form, {**common, "form": form, "smoothing": smoothing[form]})
        for form in FORMS
    ]


def explain_form(
    form: str, epsilons: Sequence[float], trees: int, smoothing: int, data: str | None = None
) -> Record:
    """Explain sens50 under one form of the transport for all epsilons, on the same models."""
    hiv = read_hiv(OUTCOMES[0], data)
    return explain_epsilons(
        hiv.X, standardized(hiv.y), hiv.positions,
        form=form, epsilons=epsilons, trees=trees, smoothing=smoothing,
    )  # fmt: skip


def explain_epsilons(
    X: Floats,
    y: Floats,
    groups: Any,
    *,
    form: str,
    epsilons: Sequence[float],
    trees: int,
    smoothing: int,
) -> Record:
    """Return the groups' scores in both spaces for every epsilon."""
    transports: list[Any]
    if form == "semicontinuous":
        transports = [Semicontinuous(epsilon=epsilon) for epsilon in epsilons]
    else:
        transports = [
            Gaussian(epsilon=epsilon, n_draws=1, n_smoothing=points, components=None)
            for points in (smoothing // 2, smoothing)
            for epsilon in epsilons
        ]
    found = sensitivity(
        X,
        y,
        transports=transports,
        feature_groups=groups,
        estimator=RandomForestRegressor(n_estimators=trees, min_samples_leaf=5, random_state=0),
        cv=2,
        form="loco",
        transport_error="ignore",
        diagnose=False,
        progress=False,
        random_state=0,
    )
    grouped = [result.group() for result in found.values()]
    scores = np.stack([result.scores for result in grouped])
    count = len(epsilons)
    return {
        "form": form,
        "epsilons": list(epsilons),
        "groups": list(grouped[0].names),
        "scores": scores[-count:],
        "half": None if form == "semicontinuous" else scores[:count],
        "se": [result.se for result in grouped[-count:]],
    }


def ranks(scores: Floats) -> NDArray[np.intp]:
    """Return the rank of every group at every epsilon, 1 for the largest, (epsilons, groups)."""
    order = np.argsort(-scores, axis=1, kind="stable")
    return np.argsort(order, axis=1, kind="stable") + 1


def rank_agreement(scores: Floats) -> Floats:
    """Return Spearman's correlation of the groups' ranks at each epsilon with the first."""
    found = ranks(scores).astype(np.float64)
    return np.array([float(np.corrcoef(found[0], row)[0, 1]) for row in found])


def write_epsilon(records: Records, folder: Path, size: Size) -> None:
    """Write the table of numbers, the figure and the page."""
    forms = {form: _checked(records[form]) for form in FORMS}
    write_csv(folder / f"{NAME}.csv", _rows(forms))
    figure = Figure(figsize=(15.0, 10.5), layout="constrained")
    grid = figure.subplots(2, len(forms))
    for column, (form, record) in enumerate(forms.items()):
        draw_scores(grid[0, column], record, f"({'ab'[column]}) scores, {FORMS[form]}")
        draw_ranks(grid[1, column], record, f"({'cd'[column]}) ranks, {FORMS[form]}")
    save_figure(figure, folder / f"{NAME}.png")
    write_page(
        folder / f"{NAME}.md",
        f"# {TITLE}",
        'The paper: "the ranks are relatively stable across a range of ε". sens50, LOCO-type '
        "score, two folds, the same fitted models for every ε of a form. In the published form ε "
        "multiplies every score by the same number, so its ranks cannot change; the bridge "
        "smooths the regression in the latent space, so its can.",
        f"![{TITLE}]({NAME}.png)",
        f"Run at {size.words}. The bridge's smoothing is averaged over "
        f"{SMOOTHING['full' if size.full else 'quick']} points. The noise of that average, and "
        "of the rows' latent draws, adds up over 832 coordinates: *half the points* has the sum "
        "from half as many; where the sums differ, ignore the bridge's scores and ranks. "
        "The forms differ at small ε too: replacement values come from the empirical law of "
        "each latent coordinate in the published form, from N(0, 1) in the bridge, which also "
        "draws the random part that a singular correlation matrix leaves. Sums over groups count "
        "shared features more than once.",
        *(_form_block(form, record) for form, record in forms.items()),
    )


def _checked(record: Record) -> Record:
    return {**record, "scores": np.asarray(record["scores"], dtype=np.float64)}


def _positions(epsilons: Sequence[float]) -> Floats:
    return np.arange(len(epsilons), dtype=np.float64)


def _draw_lines(ax: Axes, values: NDArray[Any], record: Record, title: str) -> None:
    """Draw one line per group, epsilon at equal distances."""
    at = _positions(record["epsilons"])
    for k, name in enumerate(record["groups"]):
        ax.plot(
            at, values[:, k], marker="os^D"[k // len(CYCLE) % 4], ms=5, lw=1.6,
            color=CYCLE[k % len(CYCLE)], ls="-" if k < len(CYCLE) else "--",
            label=f"{k + 1} {name}",
        )  # fmt: skip
    ax.set_xticks(at, [f"{epsilon:g}" for epsilon in record["epsilons"]])
    ax.set_xlabel("ε")
    ax.set_title(title, loc="left", fontsize=11)
    quiet_frame(ax)


def draw_scores(ax: Axes, record: Record, title: str) -> None:
    """Draw the groups' attributed scores."""
    _draw_lines(ax, record["scores"], record, title)
    ax.axhline(0.0, color=BLACK, lw=0.8)
    ax.set_ylabel("attributed importance")
    ax.legend(ncols=1, fontsize=9, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))


def draw_ranks(ax: Axes, record: Record, title: str) -> None:
    """Draw the groups' ranks, the largest score on top."""
    _draw_lines(ax, ranks(record["scores"]), record, title)
    count = len(record["groups"])
    ax.set_yticks(range(1, count + 1))
    ax.set_ylim(count + 0.6, 0.4)
    ax.set_ylabel("rank")


def _rows(forms: dict[str, Record]) -> list[dict[str, object]]:
    return [
        {
            "form": form,
            "epsilon": epsilon,
            "group": name,
            "number": k + 1,
            "score": float(record["scores"][row, k]),
            "se": record["se"][row][k],
            "rank": int(ranks(record["scores"])[row, k]),
        }
        for form, record in forms.items()
        for row, epsilon in enumerate(record["epsilons"])
        for k, name in enumerate(record["groups"])
    ]


def _form_block(form: str, record: Record) -> str:
    scores = record["scores"]
    agreement = rank_agreement(scores)
    rows = [
        [
            f"{epsilon:g}",
            f"{scores[row].sum():.3f}",
            None if record["half"] is None else f"{np.sum(record['half'][row]):.3f}",
            f"{agreement[row]:.2f}",
            leading,
        ]
        for row, epsilon in enumerate(record["epsilons"])
        for leading in [", ".join(str(k + 1) for k in np.argsort(-scores[row], kind="stable")[:7])]
    ]
    agreed = "Spearman's ρ with the first ε"
    headings = ("ε", "sum over groups", "half the points", agreed, "leading groups")
    return f"## {FORMS[form][0].upper()}{FORMS[form][1:]}\n\n{markdown_table(headings, rows)}"


HIV_EPSILON = Study(NAME, TITLE, epsilon_tasks, write_epsilon)
