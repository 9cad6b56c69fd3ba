"""Reports: a result -> a summary (plain dict) -> a template -> one offline HTML file."""

from __future__ import annotations

from dfi.report.change import change_html, compact_change_html, write_change_report
from dfi.report.objects import Report
from dfi.report.page import (
    compact_html,
    comparison_html,
    report_html,
    write_comparison_report,
    write_report,
)
from dfi.report.summary import summarize, summarize_comparison

__all__ = [
    "Report",
    "change_html",
    "compact_change_html",
    "compact_html",
    "comparison_html",
    "report_html",
    "summarize",
    "summarize_comparison",
    "write_change_report",
    "write_comparison_report",
    "write_report",
]
