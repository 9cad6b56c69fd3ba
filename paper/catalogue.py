"""The figures and tables of the paper by name."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from paper import (
    claims_pages,
    coverage_table_pages,
    epsilon_figure,
    hiv_epsilon,
    hiv_groups_page,
    hiv_page,
    simulated_figures,
    timing_figure,
)

if TYPE_CHECKING:
    from paper.reproduction import Study

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        simulated_figures.M1,
        simulated_figures.M2,
        simulated_figures.M3,
        simulated_figures.M4,
        simulated_figures.M3_ORACLE,
        coverage_table_pages.COVERAGE_TABLE,
        timing_figure.TIME,
        epsilon_figure.EPSILON,
        hiv_page.HIV,
        hiv_groups_page.HIV_GROUPS,
        hiv_epsilon.HIV_EPSILON,
        claims_pages.WHAT_HOLDS,
    )
}
ALL = "all"


def resolve_studies(name: str) -> list[Study]:
    """Return the study of a name, or all of them.

    Raises
    ------
    ValueError
        There is no such study; the message lists those that there are.
    """
    if name == ALL:
        return list(STUDIES.values())
    if name in STUDIES:
        return [STUDIES[name]]
    close = difflib.get_close_matches(name, [*STUDIES, ALL], n=1)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    raise ValueError(f"unknown study {name!r}{hint} Known names: {', '.join(STUDIES)}, {ALL}")
