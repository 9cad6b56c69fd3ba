"""``python -m paper NAME``, from a clone: the command ``dfi reproduce NAME``."""

from __future__ import annotations

import sys

from dfi.cli import main

if __name__ == "__main__":
    sys.argv.insert(1, "reproduce")
    main()
