"""``python benchmarks/scale.py``: what many rows and many columns cost, stage by stage.

Boosting of 100 iterations against its own fit; growth with rows and with columns; 200 columns
against shap and WOODELF; with ``--million`` the memory and the file of 1,000,000 x 100. CPU seconds
of one core, ratios and exponents within one run. Writes its section of docs/benchmarks.md, part by
part (``--only``): parts that are not run again stay as they are.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from lightgbm import LGBMRegressor
from sklearn.ensemble import HistGradientBoostingRegressor

import dfi
from dfi.methods import Disentangled, disentangled
from dfi.transports.base import FittedTransport, Transport
from growth import exponent, one_core
from measure import cpu, in_own_process, peak_growth
from records import take

DOCS = Path(__file__).parents[1] / "docs"
BEGIN, END = "<!-- scale.py writes from here -->", "<!-- scale.py writes to here -->"

STAGES = ("reading", "transport", "line means", "own error", "diagnostics", "the rest")


def simulate(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return correlated columns, the first ten of which carry the signal."""
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((n, d)) + 0.7 * generator.standard_normal((n, 1))
    signal = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + X[:, 3] + 0.5 * X[:, 4:10].sum(axis=1)
    return X, signal + generator.standard_normal(n)


def with_categories(n: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the same with two categorical columns of 4 and 8 levels."""
    X, y = simulate(n, 8)
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(8)])
    for name, levels in (("four", 4), ("eight", 8)):
        codes = np.clip((X[:, 0] + 2.0) * levels / 4.0, 0, levels - 1).astype(int)
        frame[name] = pd.Categorical([f"level {code}" for code in codes])
    return frame, y + (frame["four"] == "level 1").to_numpy()


class Stages:
    """CPU seconds of the stages of a call; a stage within another is not part of it."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self._open: list[str] = []
        self._since = 0.0

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self._turn()
        self._open.append(name)
        try:
            yield
        finally:
            self._turn()
            self._open.pop()

    def _turn(self) -> None:
        now = time.process_time()
        if self._open:
            self.seconds[self._open[-1]] += now - self._since
        self._since = now

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Time the methods of transports, and what diagnoses, while they are called."""
        watched = [(disentangled, "explain_diagnostics", "diagnostics")]
        for kind in _kinds(Transport):
            watched += [(kind, "fit_source", "transport"), (kind, "fit_rows", "transport")]
        for kind in _kinds(FittedTransport):
            watched += [(kind, "plain_scores", "line means"), (kind, "finished", "own error")]
        before = []
        for owner, name, stage in watched:
            if name in vars(owner):
                before.append((owner, name, vars(owner)[name]))
                setattr(owner, name, self._timed(vars(owner)[name], stage))
        try:
            yield
        finally:
            for owner, name, function in before:
                setattr(owner, name, function)

    def _timed(self, function: Callable[..., Any], stage: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            # what a jackknife asks for is part of the own error, what a diagnosis tries of it
            if self._open and self._open[-1] in ("own error", "diagnostics"):
                return function(*arguments, **named)
            with self.stage(stage):
                return function(*arguments, **named)

        return call


def _kinds(kind: type) -> list[type]:
    return [kind, *(each for child in kind.__subclasses__() for each in _kinds(child))]


def explained(
    X: Any, y: np.ndarray, learner: Any, *, folds: int = 5, **given: Any
) -> tuple[float, dict[str, float], dict[str, Any]]:
    """Return the CPU seconds of fitting, of the stages of explaining, and the specification."""
    stages = Stages()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with stages.stage("reading"):
            fits = dfi.methods.prepare(X, y, estimator=learner, cv=folds, n_jobs=1, progress=False)
        fitting = cpu(lambda: fits.halves).cpu
        with stages.watching(), stages.stage("the rest"):
            found = Disentangled(**given).explain(fits)
    return fitting, stages.seconds, dict(found.part.specification)


def hist(iterations: int = 100) -> Any:
    return HistGradientBoostingRegressor(max_iter=iterations, random_state=0)


def light(iterations: int = 100) -> Any:
    return LGBMRegressor(n_estimators=iterations, random_state=0, n_jobs=1, verbose=-1)


def warm_up() -> None:
    """Compile or load the kernels, which is measured elsewhere, on a table of each kind."""
    for X, y in (simulate(30_000, 12), with_categories(30_000)):
        explained(X, y, hist(2), folds=2, explain_rows=500)


def ratios() -> Iterator[str]:
    """Explaining against fitting, with the automatic sample."""
    yield from (
        "### Explaining against fitting",
        "",
        'Boosting of 100 iterations, 20 columns, `explain_rows="auto"`, five folds with two models each (the cross',
        "form). Explaining is everything but fitting: reading the table too. The bar is 1.",
        "",
        "<!-- record: ratios -->",
        "| model | rows | explained | fitting | explaining | ratio | " + " | ".join(STAGES) + " |",
        "|---" * (6 + len(STAGES)) + "|",
    )
    for n in (20_000, 200_000):
        X, y = simulate(n, 20)
        for name, learner in (("HistGradientBoosting", hist()), ("LightGBM", light())):
            fitting, seconds, found = explained(X, y, learner, explain_rows="auto")
            whole = sum(seconds.values())
            yield (
                f"| {name} | {n:,} | {found['explained_rows']:,} ({found['why']}) | {fitting:.1f} | "
                f"{whole:.1f} | {whole / fitting:.2f} | {_each(seconds)} |"
            )
    yield from (
        "",
        "With 20,000 rows the precision requires all of them, and the line means alone take longer than the ten fits, so the",
        "target ratio is missed there. One table was simulated; how many rows are needed depends on its noise.",
    )


def _each(seconds: dict[str, float]) -> str:
    return " | ".join(f"{seconds[stage]:.2f}" for stage in STAGES)


ROWS = (10_000, 40_000, 160_000)
COLUMNS = (10, 20, 50, 100, 200)
SHORT = 0.3
"""CPU seconds of the largest size below which no exponent is told: it would be one of noise."""


def _power(sizes: tuple[int, ...], costs: list[float]) -> str:
    if costs[-1] < SHORT:
        return f"- ({costs[-1]:.2f} s)"
    return f"{exponent(sizes, [max(cost, 1e-3) for cost in costs]):.2f} ({costs[-1]:.1f} s)"


def rows() -> Iterator[str]:
    """Growth with the rows, all of which are explained, and of a sample of them."""
    yield from (
        "### Growth with the rows, stage by stage",
        "",
        "Exponent of the rows in the CPU seconds of each stage, and those of the last size in brackets: "
        + ", ".join(f"{n:,}" for n in ROWS)
        + f" rows, 10 columns, boosting of 30 iterations, two folds. The bar is 1.1. Below {SHORT} s",
        "at the last size no exponent is shown. The first size is treated as a small table.",
        "",
        "<!-- record: rows -->",
        "| path | " + " | ".join(STAGES) + " | all |",
        "|---" * (2 + len(STAGES)) + "|",
    )
    cases: dict[str, tuple[Callable[[int], Any], dict[str, Any]]] = {
        "numbers, all rows": (lambda n: simulate(n, 10), {"explain_rows": None}),
        "numbers, automatic sample": (lambda n: simulate(n, 10), {"explain_rows": "auto"}),
        "categories, all rows": (with_categories, {"explain_rows": None}),
        "categories, automatic sample": (with_categories, {"explain_rows": "auto"}),
        "copula, all rows": (
            lambda n: simulate(n, 10),
            {"explain_rows": None, "transport": "copula"},
        ),
    }
    for name, (make, given) in cases.items():
        found = [explained(*make(n), hist(30), folds=2, **given)[1] for n in ROWS]
        yield _growth_row(name, ROWS, found)


def columns() -> Iterator[str]:
    """Growth with the columns."""
    n = 10_000
    yield from (
        "### Growth with the columns",
        "",
        f"The same for {n:,} rows, all explained, boosting of 50 iterations, two folds, and "
        + ", ".join(map(str, COLUMNS))
        + " columns. The bar is 1.3.",
        "",
        "<!-- record: columns -->",
        "| path | " + " | ".join(STAGES) + " | all |",
        "|---" * (2 + len(STAGES)) + "|",
    )
    for name, learner in (("HistGradientBoosting", hist(50)), ("LightGBM", light(50))):
        found = [
            explained(*simulate(n, d), learner, folds=2, explain_rows=None)[1] for d in COLUMNS
        ]
        yield _growth_row(name, COLUMNS, found)


def _growth_row(name: str, sizes: tuple[int, ...], found: list[dict[str, float]]) -> str:
    by_stage = [_power(sizes, [each[stage] for each in found]) for stage in STAGES]
    whole = _power(sizes, [sum(each.values()) for each in found])
    return f"| {name} | " + " | ".join([*by_stage, whole]) + " |"


def sample() -> Iterator[str]:
    """A fitted model of many trees: all rows, and a sample of them."""
    n, d, trees, few = 20_000, 10, 500, 8192
    yield from (
        "### A fitted model of many trees",
        "",
        f"LightGBM, {trees} trees, {d} columns, fitted on {n:,} rows; another {n:,} are explained with every default. At most 4 fits",
        f"are asked for: all rows miss it, `explain_rows={few}` meets it. A sample's error is part of the standard errors; those",
        "of the table are medians over the scores.",
        "",
        "<!-- record: sample -->",
        "| rows explained | CPU s | in fits | standard error |",
        "|---|---|---|---|",
    )
    X, y = simulate(2 * n, d)
    model = light(trees)
    fitting = cpu(lambda: model.fit(X[:n], y[:n])).cpu
    errors = None
    for rows in (None, few):
        cost = cpu(
            lambda rows=rows: dfi.explain(
                X[n:], y[n:], model, cv="prefit", explain_rows=rows, n_jobs=1, progress=False
            )
        )
        found = cost.value.table().set_index("feature")["se"]
        errors = found if errors is None else errors
        ratio = float((found / errors).median())
        yield f"| {rows or n:,} | {cost.cpu:.2f} | {cost.cpu / fitting:.1f} | {ratio:.2f} |"


def peers() -> Iterator[str]:
    """200 columns against shap and WOODELF: one model, rows that it was not fitted on."""
    n, d, background = 10_000, 200, 100
    yield from (
        "### 200 columns against shap and WOODELF",
        "",
        f"LightGBM, 100 trees, fitted on {n:,} rows; another {n:,} are explained, with the LOCO-type form and the",
        f"transport's error. Interventional shap has {background} background rows, as its documentation advises;",
        "WOODELF takes all rows that the model was fitted on. Shapley values answer another question. The bar is path-dependent shap, and it is missed.",
        "",
        "<!-- record: peers -->",
        "| method | CPU s | times ours |",
        "|---|---|---|",
    )
    X, y = simulate(2 * n, d)
    model = light().fit(X[:n], y[:n])
    new, outcome = X[n:], y[n:]

    def ours(**given: Any) -> None:
        dfi.explain(new, outcome, model, cv="prefit", n_jobs=1, progress=False, **given)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = cpu(ours).cpu
        yield f"| dfi, exact, all {n:,} rows | {own:.2f} | 1.0 |"
        for name, call in {
            "dfi, automatic sample": lambda: ours(explain_rows="auto"),
            "shap.TreeExplainer, path-dependent": lambda: shap_values(model, new, None),
            "shap.TreeExplainer, interventional": lambda: shap_values(model, new, X[:background]),
            "WOODELF, path-dependent": lambda: woodelf_values(model, new, None),
            "WOODELF, interventional": lambda: woodelf_values(model, new, X[:n]),
        }.items():
            try:
                cost = cpu(call).cpu
            except ImportError as error:
                yield f"| {name} | not installed ({error.name}) | |"
                continue
            yield f"| {name} | {cost:.2f} | {cost / own:.1f} |"


def shap_values(model: Any, X: np.ndarray, background: np.ndarray | None) -> Any:
    import shap

    how = "tree_path_dependent" if background is None else "interventional"
    explainer = shap.TreeExplainer(model, background, feature_perturbation=how)
    with contextlib.redirect_stderr(io.StringIO()):
        return explainer.shap_values(X, check_additivity=False)


def woodelf_values(model: Any, X: np.ndarray, background: np.ndarray | None) -> Any:
    from woodelf import WoodelfExplainer

    names = model.feature_name_
    given = () if background is None else (pd.DataFrame(background, columns=names),)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return WoodelfExplainer(model, *given).shap_values(pd.DataFrame(X, columns=names))


def million() -> Iterator[str]:
    """Memory and file of 1,000,000 x 100."""
    growth, file, seconds, found = in_own_process(_million)
    yield from (
        "### 1,000,000 x 100",
        "",
        f"float32, boosting of 100 iterations, five folds, default settings: {found['explained_rows']:,} rows explained",
        f"({found['why']}), {seconds:,.0f} CPU s with all fits. The process grew by {growth:.2f} GiB above its input of 0.37 GiB",
        f"(3 is asked for), the result's file has {file:.2f} MB (5 is asked for).",
    )


def _million() -> tuple[float, float, float, dict[str, Any]]:
    one_core()
    generator = np.random.default_rng(0)
    X = generator.standard_normal((1_000_000, 100), dtype=np.float32)
    X += np.float32(0.7) * generator.standard_normal((1_000_000, 1), dtype=np.float32)
    y = (X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + X[:, 3] + X[:, 4:10].sum(axis=1)).astype(float)
    y += generator.standard_normal(len(y))
    seconds, growth, result = peak_growth(
        lambda: dfi.explain(X, y, hist(), n_jobs=1, progress=False)
    )
    with tempfile.TemporaryDirectory() as folder:
        size = result.save(Path(folder) / "result").stat().st_size
    return growth * 1e9 / 2**30, size / 1e6, seconds, dict(result.specification)


PARTS: dict[str, Callable[[], Iterator[str]]] = {
    "ratios": ratios,
    "rows": rows,
    "columns": columns,
    "sample": sample,
    "peers": peers,
    "million": million,
}


def kept_section(page: str) -> str:
    """Return this section of a page, empty where it has none."""
    start, end = page.find(BEGIN), page.find(END)
    return page[start : end + len(END)] + "\n" if 0 <= start < end else ""


def section(parts: dict[str, str]) -> str:
    head = (
        f"{BEGIN}\n## Scale\n\n`python benchmarks/scale.py` (1,000,000 rows: `--only million`): CPU seconds of one core, `n_jobs=1`,\n"
        "the default cross form, one run of each table on two cores, those of columns, samples and peers beside other work (load 8 to 20): read ratios\nand exponents, each within its run, and those of less than a second as rough.\n"
    )
    body = "".join(f"\n<!-- {name} -->\n{parts[name]}\n" for name in PARTS if name in parts)
    return f"{head}{body}{END}\n"


def kept_parts(kept: str) -> dict[str, str]:
    """Return the parts of this section, by name."""
    found = {}
    for name in PARTS:
        mark = f"<!-- {name} -->\n"
        if mark in kept:
            part = re.split(r"\n<!-- (?!record:)", kept.split(mark)[1])[0]
            found[name] = part.removesuffix(END).rstrip("\n")
    return found


def write_part(name: str, text: str) -> None:
    page = DOCS / "benchmarks.md"
    before = page.read_text()
    kept = kept_section(before)
    written = section({**kept_parts(kept), name: text})
    page.write_text(
        before.replace(kept, written) if kept else before.rstrip("\n") + "\n\n" + written
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--print-only", action="store_true", help="leave the page as it is")
    parser.add_argument("--only", choices=PARTS, action="append", help="parts to run")
    parser.add_argument("--million", action="store_true", help="1,000,000 x 100 too")
    options = parser.parse_args()
    one_core()
    warm_up()
    for name in options.only or [part for part in PARTS if part != "million" or options.million]:
        lines = []
        for line in PARTS[name]():
            print(line, flush=True)
            lines.append(line)
        if not options.print_only:
            write_part(name, "\n".join(lines))
            if f"<!-- record: {name} -->" in lines:
                take("benchmarks", name, f"python benchmarks/scale.py --only {name}")


if __name__ == "__main__":
    main()
