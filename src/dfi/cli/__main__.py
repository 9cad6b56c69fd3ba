"""``python -m dfi.cli``."""

from __future__ import annotations

from dfi.cli import main

main()
