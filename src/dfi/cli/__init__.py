"""The command line: explain, compare, sensitivity, show, report, demo, reproduce.

Modules that ``dfi --help`` loads import no library of numbers: the commands do, when they run.
"""

from __future__ import annotations

import importlib.util
import sys

NEEDED = ("typer", "rich", "polars", "pyarrow")


def main() -> None:
    """Run the command line; say what to install where the extra is missing."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        sys.stderr.write(
            f"dfi: the command line needs {', '.join(missing)}: run pip install 'dfi[cli]'\n"
        )
        raise SystemExit(1)
    from dfi.cli.app import app

    app(prog_name="dfi")
