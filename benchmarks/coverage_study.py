"""Write docs/coverage.md: do the intervals of ``dfi.explain(X, y)`` cover, with every default?

Run as ``python -m benchmarks.coverage_study``: every model of :mod:`benchmarks.coverage_models` that
is not held back, at every size. Options choose cells (``--only NAME``, ``--n``), samples and
workers; ``--held-back`` runs the models that are held back, ``--oracle`` the true regression in
place of the learner, ``--paper`` the older cells of the paper's models, ``--page`` nothing: it
writes the page from what is known.

Every sample is kept at once, a line of JSON in ``--cache``, under a name of the code that was
measured (``--tag``; by default a fingerprint of the source, so that two versions never mix). What
was interrupted goes on where it stopped. Figures of cells, and the truths, are in
docs/coverage.json.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed, parallel_config
from threadpoolctl import threadpool_limits

import dfi
from benchmarks.coverage_models import MODELS, Model, by_name
from benchmarks.coverage_page import write_page
from paper.cells import LEARNED_CELLS, LINEAR_CELLS, ORACLE_CELLS, Cell

PAGE = Path(__file__).parents[1] / "docs" / "coverage.md"
FIGURES = PAGE.with_suffix(".json")
SOURCE = Path(dfi.__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dfi-coverage"
PAPER_CELLS = ORACLE_CELLS + LINEAR_CELLS + LEARNED_CELLS
LEVEL = 0.9
SIZE = 0.05
QUICK = 4
SAMPLES = 100
UNMEASURED = ("cli", "datasets", "plots", "report")
"""Parts of the source that no figure here depends on."""


# -- one sample


def explain_sample(name: str, n: int, number: int, *, oracle: bool) -> dict[str, Any]:
    """Explain one sample and return everything about it that a figure needs.

    The sample and its seed depend on the names only. The oracle is the true regression: the
    cross form of two equal models is the LOCO-type form of one.
    """
    model = by_name(name)
    sample = model.draw(n, model.generator(n, number))
    options: dict[str, Any] = {"random_state": number}
    if oracle:
        options |= {"estimator": model.regression, "cv": "prefit", "diagnose": False}
    start = time.process_time()
    with warnings.catch_warnings(record=True) as said, threadpool_limits(1):
        warnings.simplefilter("always")
        result = dfi.explain(sample.X, sample.y, **options)
    seconds = time.process_time() - start
    interval = result.interval(LEVEL)
    test = result.test(alternative="greater", adjust=None)
    if [str(name) for name in interval["feature"]] != list(model.features):
        raise ValueError(f"{name}: {list(interval['feature'])} is not {model.features}")
    return {
        "number": number,
        "scores": np.asarray(result.scores).tolist(),
        "se": np.asarray(result.se).tolist(),
        "low": np.asarray(interval["ci_low"]).tolist(),
        "high": np.asarray(interval["ci_high"]).tolist(),
        "p": test.set_index("feature")["p"].reindex(list(model.features)).tolist(),
        "r2": result.quality.r2,
        "r2_spread": result.quality.r2_spread,
        "seconds": seconds,
        "warnings": sorted({type(w.message).__name__ for w in said if _ours(w.category)}),
        "diagnostics": dict(leaves(result.diagnostics)),
    }


def _ours(category: type[Warning]) -> bool:
    return category.__module__.startswith("dfi")


def leaves(found: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the single values of nested diagnostics by their path; of lists their length."""
    if isinstance(found, Mapping):
        for key, value in found.items():
            yield from leaves(value, f"{path}.{key}" if path else str(key))
    elif isinstance(found, list | tuple):
        yield f"{path}.count", len(found)
    elif isinstance(found, bool | np.bool_):
        yield path, bool(found)
    elif isinstance(found, int | float | np.integer | np.floating):
        yield path, float(found)
    elif isinstance(found, str):
        yield path, found[:200]


# -- samples of a cell


def fingerprint() -> str:
    """Return a short name of the source that is measured."""
    files = sorted(
        file for file in SOURCE.rglob("*.py") if file.relative_to(SOURCE).parts[0] not in UNMEASURED
    )
    whole = hashlib.sha256()
    for file in files:
        whole.update(str(file.relative_to(SOURCE)).encode() + file.read_bytes())
    return whole.hexdigest()[:10]


def kept_samples(file: Path) -> dict[int, dict[str, Any]]:
    """Return the samples in a file by number; a line that was cut short is none."""
    found: dict[int, dict[str, Any]] = {}
    if file.exists():
        for line in file.read_text().splitlines():
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                continue
            found[row["number"]] = row
    return found


def run_cell(
    model: Model, n: int, samples: int, *, folder: Path, jobs: int, oracle: bool
) -> list[dict[str, Any]]:
    """Return the samples of a cell; those not kept are drawn, and kept one by one."""
    folder.mkdir(parents=True, exist_ok=True)
    kind = "oracle" if oracle else "default"
    file = folder / f"{kind}-{model.name.replace(', ', '-').replace(' ', '-')}-{n}.jsonl"
    known = kept_samples(file)
    todo = [number for number in range(samples) if number not in known]
    with parallel_config("loky", inner_max_num_threads=1), file.open("a") as out:
        rows = Parallel(n_jobs=jobs, return_as="generator_unordered")(
            delayed(explain_sample)(model.name, n, number, oracle=oracle) for number in todo
        )
        for row in rows:
            # a new line first: the last one may have been cut short
            out.write("\n" + json.dumps(row))
            out.flush()
            known[row["number"]] = row
    return [known[number] for number in range(samples)]


# -- figures of a cell


def summarise(model: Model, truth: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the figures of a cell."""
    count = len(rows)
    true, non_null = np.array(truth["scores"]), model.non_null
    scores, se, low, high, p = (
        np.array([row[key] for row in rows], dtype=float)
        for key in ("scores", "se", "low", "high", "p")
    )
    covers = (low <= true) & (true <= high)
    rejected = p < SIZE
    each = covers[:, non_null].mean(axis=1)
    wrong = rejected[:, ~non_null].mean(axis=1)
    seconds, r2 = (np.array([row[key] for row in rows]) for key in ("seconds", "r2"))
    deviation = scores.std(axis=0, ddof=1) if count > 1 else np.zeros(len(true))
    spread = np.divide(
        se.mean(axis=0), deviation, out=np.full(len(true), np.nan), where=deviation > 0
    )
    features = {
        name: {
            "covers": float(covers[:, k].mean()),
            "below": float((high[:, k] < true[k]).mean()),
            "ratio": float(scores[:, k].mean() / true[k]),
            "se_over_sd": float(spread[k]),
        }
        for k, name in enumerate(model.features)
        if non_null[k]
    }
    nulls = {
        name: {"rejected": float(rejected[:, k].mean()), "covers": float(covers[:, k].mean())}
        for k, name in enumerate(model.features)
        if not non_null[k]
    }
    return {
        "samples": count,
        "coverage": float(each.mean()),
        "coverage_error": _error(each),
        "null_rejected": float(wrong.mean()),
        "null_error": _error(wrong),
        "features": features,
        "nulls": nulls,
        "r2": float(r2.mean()),
        "r2_sd": float(r2.std()),
        "best_r2": truth["best_r2"],
        "cpu_seconds": float(seconds.mean()),
        "flags": _flags(rows),
    }


def _error(values: np.ndarray) -> float:
    """Return the Monte-Carlo error of a mean over samples."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def _flags(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return how often a sample warned, raised an alarm, or has a diagnostic that is true."""
    found: dict[str, float] = {}
    for row in rows:
        said = [f"warning {name}" for name in row["warnings"]]
        said += [key for key, value in row["diagnostics"].items() if value is True]
        said += ["alarms"] * (row["diagnostics"].get("alarms.count", 0) > 0)
        for name in said:
            found[name] = found.get(name, 0.0) + 1.0 / len(rows)
    return {name: round(found[name], 4) for name in sorted(found)}


# -- what is known


def read_figures() -> dict[str, Any]:
    """Return tables in parts, truths, cells, cells of the oracle, rows of the paper's models."""
    found = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    return {key: found.get(key, {}) for key in ("real", "truths", "cells", "oracle", "paper")}


def keep(part: str, key: str, value: Any) -> None:
    """Add a figure to those that are known, which another run may have added to, and the page."""
    known = read_figures()
    known[part][key] = shortened(value)
    FIGURES.write_text(json.dumps(known, indent=1) + "\n")
    write_page(PAGE, known, MODELS, [cell.name for cell in PAPER_CELLS])


def shortened(found: Any) -> Any:
    """Return figures of six digits, without NaN."""
    if isinstance(found, dict):
        return {key: shortened(value) for key, value in found.items()}
    if isinstance(found, list):
        return [shortened(value) for value in found]
    if isinstance(found, float):
        return float(f"{found:.6g}") if np.isfinite(found) else None
    return found


def known_truth(model: Model, *, again: bool = False) -> dict[str, Any]:
    """Return the true scores of a model, from the file if it knows them."""
    known = read_figures()["truths"]
    if model.name in known and not again:
        return known[model.name]
    start = time.process_time()
    scores, errors = model.truth()
    truth = {
        # what is independent of all that matters has no score, whatever rounding leaves
        "scores": np.where(model.non_null, scores, 0.0).tolist(),
        "errors": np.where(model.non_null, errors, 0.0).tolist(),
        "best_r2": model.best_r2(),
    }
    keep("truths", model.name, truth)
    print(f"{model.name}: truth in {time.process_time() - start:.0f} CPU s", flush=True)
    return read_figures()["truths"][model.name]


# -- the paper's models


def span(values: np.ndarray) -> str:
    if len(values) == 0:
        return "-"
    low, high = f"{values.min():.2f}", f"{values.max():.2f}"
    return low if low == high else f"{low} to {high}"


def paper_row(cell: Cell, samples: int | None, jobs: int) -> str:
    """Run a cell of the paper's models and return its line of the table."""
    study = cell.run(replications=samples, n_jobs=jobs)
    signal = study.truth > 0
    ours, plain = study.coverage(), study.coverage(plain=True)
    expanded = study.coverage(expand=True)
    return (
        f"| {cell.model} | {cell.n} | {cell.learner} | {len(study.scores)} ({study.error:.3f}) "
        f"| {', '.join(f'{v:.3f}' for v in ours[signal])} | {span(plain[signal])} "
        f"| {span(ours[~signal])} | {span(plain[~signal])} | {span(expanded[~signal])} |"
    )


def run_paper(arguments: argparse.Namespace) -> None:
    for cell in (cell for cell in PAPER_CELLS if arguments.only in cell.name):
        if arguments.n and cell.n not in arguments.n:
            continue
        start = time.perf_counter()
        row = paper_row(cell, 20 if arguments.quick else arguments.samples, arguments.jobs)
        print(row, f"{time.perf_counter() - start:.0f} s", flush=True)
        if not arguments.quick:
            keep("paper", cell.name, row)


# -- the command


def say(key: str, figures: dict[str, Any]) -> None:
    """Print a cell on a line, and its features below."""
    print(
        f"{key}: {figures['samples']} samples, covers {figures['coverage']:.3f} "
        f"({figures['coverage_error']:.3f}), nulls rejected {figures['null_rejected']:.3f} "
        f"({figures['null_error']:.3f}), R2 {figures['r2']:.3f} of {figures['best_r2']:.3f}, "
        f"{figures['cpu_seconds']:.1f} CPU s"
    )
    for name, found in figures["features"].items():
        print(
            f"    {name}: covers {found['covers']:.2f}, ratio {found['ratio']:.3f}, "
            f"SE/sd {found['se_over_sd']:.2f}"
        )
    print(f"    {figures['flags']}", flush=True)


def run_cells(arguments: argparse.Namespace) -> None:
    samples = arguments.samples or (QUICK if arguments.quick else SAMPLES)
    tag = arguments.tag or fingerprint()
    part = "oracle" if arguments.oracle else "cells"
    for model in MODELS:
        if arguments.only not in model.name or model.held_back != arguments.held_back:
            continue
        truth = known_truth(model, again=arguments.truths)
        if arguments.truths:
            continue
        for n in model.sizes:
            if arguments.n and n not in arguments.n:
                continue
            rows = run_cell(
                model, n, samples,
                folder=arguments.cache / tag, jobs=arguments.jobs, oracle=arguments.oracle,
            )  # fmt: skip
            figures = {**summarise(model, truth, rows), "code": tag}
            key = f"{model.name}, n = {n}"
            say(key, figures)
            if not arguments.quick:
                keep(part, key, figures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--n", type=int, nargs="*", help="these sizes only")
    parser.add_argument("--samples", type=int, help=f"samples of a cell, {SAMPLES} by default")
    parser.add_argument("--jobs", type=int, default=2, help="workers, of one thread each")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} samples, print only")
    parser.add_argument("--oracle", action="store_true", help="the true regression")
    parser.add_argument("--held-back", action="store_true", help="the models held back")
    parser.add_argument("--truths", action="store_true", help="compute truths again, nothing else")
    parser.add_argument("--paper", action="store_true", help="the cells of the paper's models")
    parser.add_argument("--page", action="store_true", help="write the page from what is known")
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder of samples")
    parser.add_argument("--tag", help="name of the code measured, a fingerprint by default")
    arguments = parser.parse_args()
    if arguments.page:
        write_page(PAGE, read_figures(), MODELS, [cell.name for cell in PAPER_CELLS])
    elif arguments.paper:
        run_paper(arguments)
    else:
        run_cells(arguments)


if __name__ == "__main__":
    main()
