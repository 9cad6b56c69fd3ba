"""Explain scikit-learn's bundled diabetes data: ``make demo``, ``python -m dfi.cli.demo``.

Ten baseline variables of 442 patients, and the progression of their disease after a year. The six
serum measurements are strongly correlated: a method that scores each given all others would call
most of them useless.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sklearn.datasets import load_diabetes

from dfi import explain
from dfi._data.frames import as_frame
from dfi._files import folder_filled

if TYPE_CHECKING:
    from dfi import Importance

FILES = ("report.html", "result.dfi")
LABELS = {
    "s1": "s1 total cholesterol",
    "s2": "s2 low-density lipoproteins",
    "s3": "s3 high-density lipoproteins",
    "s4": "s4 cholesterol ratio",
    "s5": "s5 log triglycerides",
    "s6": "s6 blood sugar",
    "bp": "blood pressure",
    "bmi": "body mass index",
}
GROUPS = {
    "person": ["age", "sex"],
    "body": ["body mass index", "blood pressure"],
    "serum": [label for name, label in LABELS.items() if name.startswith("s")],
}


def demo_result() -> Importance:
    """Return the explanation of the diabetes data, with readable names and groups."""
    data = load_diabetes(scaled=False)
    names = tuple(LABELS.get(name, name) for name in data.feature_names)
    table = as_frame(dict(zip(names, data.data.T, strict=True)), "numpy")
    if isinstance(table, dict):  # no dataframe library: plain arrays, named afterwards
        places = {group: [names.index(m) for m in members] for group, members in GROUPS.items()}
        result = explain(data.data, data.target, feature_groups=places)
    else:
        result = explain(table, data.target, feature_groups=GROUPS)
    spec = {**result.spec, "target": "disease progression"}
    latent = None if result.latent is None else replace(result.latent, names=names, spec=spec)
    return replace(result, names=names, spec=spec, latent=latent)


def run(folder: str | Path = "dfi-demo") -> Path:
    """Print the table, write report and result into a folder, and end with the report's path."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        result = demo_result()
    where = Path(folder)
    where.parent.mkdir(parents=True, exist_ok=True)
    with folder_filled(where) as stage:
        result.save(stage / "result.dfi")
        result.report(stage / "report.html")
    page = where / "report.html"
    notes = "".join(f"Note: {warning.message}\n\n" for warning in caught)
    sys.stdout.write(f"{result!r}\n\nThe groups:\n{result.group()!r}\n\n{notes}")
    sys.stdout.write(f"Report: {page.resolve()}\n")
    return page


if __name__ == "__main__":
    run(*sys.argv[1:2])
