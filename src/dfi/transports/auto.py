r"""``transport="auto"``: the linear map, unless held-out rows are clearly likelier under another.

A map is judged by the likelihood that it gives to rows it was not fitted to
(:mod:`dfi.transports.held_out`), with the standard error of the gain. Columns whose held-out values
are clearly likelier as normal scores call for the copula; a potential that gains more than
:data:`ERRORS` standard errors beyond that calls for the Brenier map; nothing else does. On Gaussian
rows the linear map is taken *exactly*. Every candidate is free of the order of the columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dfi._data.seeds import Seeds
from dfi._parameters import validated_fields
from dfi.transports.base import FittedTransport, Transport, TransportChoice, repeated_rows
from dfi.transports.brenier import Brenier
from dfi.transports.copula import Copula
from dfi.transports.gaussian import Gaussian
from dfi.transports.held_out import curved_columns, searched

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._data.columns import Column
    from dfi._data.weights import Weights
    from dfi._types import Bools, Floats, Plain
    from dfi.transports.base import Layout

ERRORS = 2.5
"""Standard errors of likelihood that a potential has to gain."""

FEWEST_ROWS = 100
"""Rows below which nothing but the linear map is considered."""


@validated_fields
@dataclass(kw_only=True)
class Auto(Transport):
    """The linear map, unless held-out rows are clearly likelier under another one.

    The choice is part of the result.

    Parameters
    ----------
    random_state : int or None, default=0
        For ``fit`` and ``transform`` alone: the rows that are held out, and draws.

    Examples
    --------
    >>> X = dfi.datasets.m1(300, d=3).X
    >>> type(dfi.transports.Auto().fit(X).transform(X)).__name__
    'ndarray'
    """

    random_state: int | None = 0

    name: ClassVar[str] = "auto"
    chooses: ClassVar[bool] = True

    def choose(
        self,
        matrix: Floats,
        weights: Weights,
        constant: Bools,
        columns: Sequence[Column] | None,
        seed: np.random.SeedSequence,
    ) -> TransportChoice:
        """Return the linear map, the copula or the Brenier map, with the reasons."""
        repeated, mass = repeated_rows(weights), weights.values
        if repeated is not None:
            matrix, mass = matrix[repeated], np.ones(len(repeated))
        n = int(np.count_nonzero(mass))
        curved = curved_columns(matrix, mass, constant, columns)
        if n < max(FEWEST_ROWS, 3 * int(np.sum(~constant))) or len(curved) == 0:
            few = f"{n} rows are too few to fit another map"
            if len(curved) == 0:
                few = "every column is categorical, which only the linear map handles"
            return TransportChoice(Gaussian(), (few,))
        found = searched(matrix, mass, curved, constant, seed, columns=columns)
        told = {"gain": found.gain.mean, "gain_se": found.gain.error}
        names = {k: f"x{k}" for k in range(matrix.shape[1])}
        for unit in columns or ():
            # of a group only its name is known, and none of its columns is asked about
            names.update(zip(unit.positions, unit.matrix_names(), strict=False))
        reasons = ["normal scores clearly fit no column better"]
        if found.asked:
            shown = ", ".join(repr(names[k]) for k in found.asked[:3])
            more = f" and {len(found.asked) - 3} more" if len(found.asked) > 3 else ""
            reasons = [f"normal scores clearly fit held-out values of {shown}{more} better"]
        design: Transport = Copula() if found.asked else Gaussian()
        if np.isfinite(found.penalty) and found.beyond.clear(ERRORS):
            design = Brenier(penalty=found.penalty, margins="auto" if found.margins else False)
            reasons = reasons if found.margins else []
            reasons.append(f"a convex potential gains {found.beyond} of held-out log-likelihood")
        elif len(curved) > 1:
            reasons.append(
                f"a convex potential does not clearly gain held-out log-likelihood: {found.beyond}"
            )
        return TransportChoice(design, tuple(reasons), told)

    def fit_rows(self, matrix: Floats, weights: Weights, layout: Layout) -> FittedTransport:
        seed = Seeds.of(self.random_state).child("auto").sequence()
        design = self.choose(matrix, weights, layout.constant, layout.columns, seed).design
        return design.fit_rows(matrix, weights, layout)

    def specification(self) -> Plain:
        return {"transport": "auto"}
