"""Disentangled Feature Importance, a method among methods: transport, scores, their errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dfi._lines.choose import LineOptions
from dfi._lines.quadrature import DEFAULT_MEMORY
from dfi._models.parallel import progress_bar
from dfi._models.quality import regression_quality
from dfi._scoring.scores import Task
from dfi.methods.base import Method, Part
from dfi.methods.diagnosis import (
    explain_diagnostics,
    undetected_scores,
    unit_components,
    unit_membership,
)
from dfi.transports import resolve_transport
from dfi.transports.base import resolve_form

if TYPE_CHECKING:
    from dfi._lines.quadrature import QuadratureRule
    from dfi._models.crossfit import FoldModels
    from dfi._models.fits import Fits
    from dfi._scoring.forms import ScoreForm
    from dfi._scoring.scores import Scores, SensitivityMethod
    from dfi._types import Floats
    from dfi.transports.base import FittedTransport, Transport


@dataclass(frozen=True)
class Explained:
    """A table explained under one transport: the part that becomes a result, and what made it.

    Attributes
    ----------
    part : Part
        Attributed scores of the units, with the latent ones in ``part.latent``.
    models : tuple of FoldModels
        The models that were explained.
    transport : FittedTransport
        Fitted on the explained rows.
    scores : Scores
        Scores of the matrix columns.
    membership : ndarray of shape (latent coordinates, units)
        Which coordinates a unit owns, as 0 and 1.
    """

    part: Part
    models: tuple[FoldModels, ...]
    transport: FittedTransport
    scores: Scores
    membership: Floats


@dataclass(frozen=True, kw_only=True)
class Disentangled(Method):
    """Disentangled Feature Importance: shared signal, attributed through independent coordinates.

    Parameters
    ----------
    transport : str or transport, default="gaussian"
        The geometry that disentangles the features; part of the estimand.
    score : {"auto", "cross", "loco", "cpi"}, default="auto"
        The estimator of the latent scores: the cross form where models are fitted here, the
        LOCO-type form for a fitted model.
    fixed_transport : bool, default=False
        Take the transport as known in the standard errors, as the paper does.
    G : {"auto", "hermite", "covariance", "tilt"}, default="auto"
        How the sensitivity to the transport's error is found.
    lines, n_nodes, memory
        Averages along latent lines, see :class:`dfi.DFI`.
    diagnose : bool, default=True
        Check the result; the scores do not depend on it.
    """

    transport: Any = "gaussian"
    score: ScoreForm | Literal["auto"] = "auto"
    fixed_transport: bool = False
    G: SensitivityMethod = "auto"
    lines: QuadratureRule | Literal["auto"] = "auto"
    n_nodes: int | None = None
    memory: int = DEFAULT_MEMORY
    diagnose: bool = True

    name = "dfi"
    question = (
        "Shared-signal attribution: how much of the signal does the feature carry, alone and "
        "through the factors that it shares with correlated features?"
    )
    valid_intervals = True
    inference = (
        "Influence values with the transport's own error; products of two independently fitted "
        "models, so that scores of null features are not pulled below 0."
    )

    @property
    def options(self) -> LineOptions:
        """How averages along lines are taken."""
        return LineOptions(self.lines, self.n_nodes, self.memory)

    def form(self, design: Transport, *, given: bool) -> ScoreForm:
        """Return the form of the scores; raise if the transport does not honour an option.

        Parameters
        ----------
        design : Transport
            The transport, resolved.
        given : bool
            Whether the model was fitted elsewhere.
        """
        form = resolve_form(self.score, prefit=given)
        design.check(G=self.G, options=self.options, fixed=self.fixed_transport)
        return form

    def check(self, *, given: bool) -> None:
        """Raise if parameters contradict each other, before any data are read."""
        self.form(resolve_transport(self.transport), given=given)

    def compute(self, fits: Fits) -> dict[str, Part]:
        """Return the attributed scores as ``"dfi"``, the latent ones inside."""
        return {self.name: self.explain(fits).part}

    def explain(self, fits: Fits) -> Explained:
        """Fit the transport on the explained rows and score them.

        The algorithm of the paper: transport, line means of the held-out rows' models along latent
        lines, latent influence values, their attribution, the transport's own error.
        """
        table, rows, weights = fits.table, fits.rows, fits.weights
        design = resolve_transport(self.transport)
        form = self.form(design, given=fits.given)
        design.check_columns(table.columns)
        models = fits.halves if form == "cross" else fits.full
        explained = table.matrix[rows], weights.take(rows), fits.constant
        choice = design.choose(*explained, table.columns, fits.child("auto"))
        if choice.reasons:
            design = choice.design
            self.form(design, given=fits.given)
        transport = design.fit_matrix(*explained, columns=table.columns)
        total = sum(len(fold.test) for fold in models)
        with progress_bar(fits.workers.progress, "explaining rows", total) as advance:
            task = Task(
                folds=models,
                table=table,
                y=fits.outcome.values,
                weights=weights,
                rows=rows,
                constant=fits.constant,
                form=form,
                options=self.options,
                sensitivity=self.G,
                fixed=self.fixed_transport,
                seed=fits.child("transport"),
                n_jobs=fits.workers.n_jobs,
                advance=advance,
            )
            scores = transport.score(task)
        diagnostics = explain_diagnostics(
            transport,
            scores,
            task,
            fits.child("diagnosis"),
            diagnose=self.diagnose,
            say=not choice.reasons,
        )
        if choice.reasons:
            diagnostics["auto"] = choice.as_dict()
        specification = {
            **design.specification(),
            "reference": transport.reference.kind,
            "score": form,
            "fixed_transport": self.fixed_transport,
            "G": self.G,
        }
        membership = unit_membership(table, transport)
        part = _part(fits, transport, scores, membership, diagnostics, specification)
        return Explained(part, models, transport, scores, membership)


def _part(
    fits: Fits,
    transport: FittedTransport,
    scores: Scores,
    membership: Floats,
    diagnostics: dict[str, Any],
    specification: dict[str, Any],
) -> Part:
    """Sum the columns of each unit, in both spaces."""
    owned = membership.sum(axis=0)
    degenerate = owned == 0
    unrelated = np.zeros(len(owned), dtype=np.bool_)
    if scores.unread is not None:
        unrelated = ~degenerate & ((~scores.unread).astype(np.float64) @ membership == 0)
    quality = regression_quality(
        scores.predictions, fits.outcome.values, fits.weights, prefit=fits.given
    )
    shared: dict[str, Any] = {
        "rows": scores.rows,
        "names": fits.table.names,
        "degenerate": degenerate,
        "unrelated": unrelated,
        "undetected": undetected_scores(transport, scores, membership) * unrelated,
        "components": unit_components(fits.table, transport),
        "diagnostics": diagnostics,
        "specification": specification,
        "quality": quality,
    }
    latent = Part(
        influence=scores.latent @ membership,
        space="latent",
        spread=_spread(scores.latent_by_repeat @ membership),
        **shared,
    )
    return Part(
        influence=scores.attributed @ membership,
        spread=_spread(scores.attributed_by_repeat @ membership),
        latent=latent,
        attribution=membership.T @ scores.attribution @ membership / np.maximum(owned, 1),
        **shared,
    )


def _spread(by_repeat: Floats) -> Floats | None:
    return by_repeat.std(axis=0, ddof=1) if len(by_repeat) > 1 else None
