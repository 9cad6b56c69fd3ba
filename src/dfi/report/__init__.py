"""Reports: a result -> a summary (plain dict) -> a template -> one offline HTML file."""

from __future__ import annotations

from dfi.report.objects import Report

__all__ = ["Report"]
