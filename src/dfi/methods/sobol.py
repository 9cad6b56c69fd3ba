r"""Sobol indices: first-order and total effects of the regression under independent inputs.

With inputs made independent (each unit keeps its own law),

.. math:: S_j = \operatorname{Var}(E[f \mid X_j]), \qquad T_j = E\operatorname{Var}(f \mid X_{-j}),

in the units of the outcome's variance, for two functions: the regression :math:`\hat\mu` of the
features under the product of their margins (``sobol_first``, ``sobol_total``), and the latent
regression :math:`\hat\eta(z) = \hat\mu(\text{decode}(z))` of the disentangled coordinates
(``sobol_latent_first``, ``sobol_latent_total``), whose total effect is DFI's latent score
:math:`\phi_Z`. Under independent features all of them are the ordinary Sobol indices.

**Pick-freeze**, symmetrised, over rows composed of two held-out rows' parts per unit (A and B; the
two never coincide, so there is no diagonal), with :math:`A^j` = A with unit j of B and vice versa:

.. math:: T_j = \tfrac14 E[(f(A) - f(A^j))^2 + (f(B) - f(B^j))^2], \qquad
          S_j = \tfrac12 E[(f(A) - c)(f(B^j) - f(B)) + (f(B) - c)(f(A^j) - f(A))].

Linear regressions are in closed form: :math:`S_j = T_j = b_j'\operatorname{Cov}(X_j) b_j`.

**Influence.** The score is a mean over compositions: a row contributes through every unit that it
lent, :math:`\sum_k 2(E[\kappa \mid \text{unit k from row i}] - \hat\theta)` (Hoeffding projection).
The conditional means come from finitely many compositions; their Monte-Carlo variance is known and
is taken out by shrinking each of them to its between-row part, so that it is not sold as sampling
error, and is reported apart. The regression's error enters through the Riesz term of
:mod:`dfi.methods.model_error`; the transport's as in DFI (:mod:`dfi.inference.transport_terms`)
with a sensitivity for each kind of effect, that of the first-order effects being exact where the
latent regression is additive. Left out, the latent first-order effects of null features were found
to be rejected 11.5 % of the time at 5 %.

**Source.** Sobol (2001); the estimates are Jansen's (1999) for the total and Saltelli's (2010) for
the first-order effect, symmetrised. SALib, with which they agree on independent inputs, samples the
inputs from a law that is given, so its errors are Monte Carlo alone; here the law is the data's
own, and the rows that lend their values enter the standard error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dfi._lines.linear import LinearLines
from dfi._scoring.lines import LineScores
from dfi.methods.base import CONSERVATIVE, Part, check_at_least_two
from dfi.methods.donors import choose_shifts, donor_rows, donor_shares, swapped_predictions
from dfi.methods.pick_freeze import Indices, linear_indices, pick_freeze
from dfi.methods.shapley import players, refuse_overlap
from dfi.methods.swaps import riesz_span
from dfi.transports.gaussian import Gaussian
from dfi.transports.linear_error import latent_terms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfi._types import Floats
    from dfi.methods.context import Context
    from dfi.transports.gaussian import LinearTransport


N_DONORS = 32


@dataclass(frozen=True, kw_only=True)
class Sobol:
    """First-order and total effects under independent margins and in the latent space.

    Parameters
    ----------
    n_compositions : int, default=10
        How often every held-out row is composed anew (not used for linear regressions).
    latent : bool, default=True
        Whether the latent regression is decomposed too.
    """

    n_compositions: int = 10
    latent: bool = True

    name = "sobol"
    question = (
        "Variance of the regression under independent inputs: how much does the feature cause "
        "alone (first) and with interactions (total)?"
    )
    valid_intervals = True
    inference = (
        "Hoeffding projection over the lent units and the regression's error to first order, on "
        "the span of the columns and the fit: exact for linear regressions, approximate for "
        "others. Latent effects carry the transport's error too. " + CONSERVATIVE
    )

    def __post_init__(self) -> None:
        check_at_least_two("n_compositions", self.n_compositions)

    def refuses(self, context: Context) -> str | None:
        """Return why the units have no Sobol index, or None."""
        if min(len(fold.test) for fold in context.folds) < 3:
            return "sobol composes rows of at least three held-out ones: use fewer folds"
        return refuse_overlap(self.name, context)

    def compute(self, context: Context) -> dict[str, Part]:
        """Decompose the full model of every fold over its held-out rows."""
        groups = players(context)
        blocks = [
            np.array([p for c in group for p in context.table.columns[c].positions], dtype=np.intp)
            for group in groups
        ]
        active = list(context.units.active)
        found = self._pooled(context, blocks, None)
        parts = {}
        for k, kind in enumerate(("total", "first")):
            influence = np.zeros((len(context.rows), len(context.units)))
            influence[:, active] = found.influence[k][:, : len(active)]
            noise = np.zeros(len(context.units))
            noise[active] = found.noise[k][: len(active)]
            parts[f"sobol_{kind}"] = Part(influence, context.rows, monte_carlo_se=noise)
        if self.latent:
            parts |= self._latent(context)
        return parts

    def _latent(self, context: Context) -> dict[str, Part]:
        table, rows = context.table, context.rows
        transport = Gaussian().fit_matrix(
            table.matrix[rows], context.weights.take(rows), table.constant, columns=table.columns
        )
        if transport.kernel_variance.any():
            return {}  # collinear columns: latent rows are random, which DFI integrates
        d = transport.n_latent
        blocks = [np.array([j], dtype=np.intp) for j in range(d)]
        found = self._pooled(context, blocks, transport)
        carried = transport.influence(table.matrix[rows])
        influence = [
            values
            + latent_terms(
                carried,
                LineScores(values, np.zeros(len(rows)), tilt, np.zeros(d), np.zeros((d, d))),
            )
            for values, tilt in zip(found.influence, found.sensitivity, strict=True)
        ]
        owner = np.zeros((d, len(context.units)))
        place = {int(p): k for k, p in enumerate(transport.active)}
        for unit in context.units.active:
            inside = [place[int(p)] for p in context.units.positions[unit] if int(p) in place]
            owner[inside, unit] = 1.0
        return {
            f"sobol_latent_{kind}": Part(
                influence[k] @ owner,
                rows,
                monte_carlo_se=np.sqrt(found.noise[k] ** 2 @ owner),
                diagnostics={"transport": "gaussian"},
            )
            for k, kind in enumerate(("total", "first"))
        }

    def _pooled(
        self, context: Context, blocks: list[NDArray[Any]], transport: LinearTransport | None
    ) -> Indices:
        """Decompose every fold and pool rows, Monte-Carlo errors and sensitivities."""
        tasks = [
            (context, f, blocks, transport, self.n_compositions) for f in range(len(context.folds))
        ]
        by_fold = context.run(_decompose, tasks, "composing rows", threads=True)
        d = len(blocks)
        influence = np.zeros((2, context.table.n_rows, d))
        noise, sensitivity = np.zeros((2, d)), np.zeros((2, d, d))
        total = context.weights.values[context.rows].sum()
        for fold, indices in zip(context.folds, by_fold, strict=True):
            share = context.weights.values[fold.test].sum() / total
            influence[:, fold.test] = indices.influence
            noise += (share * indices.noise) ** 2
            sensitivity += share * indices.sensitivity
        return Indices(influence[:, context.rows], np.sqrt(noise), sensitivity)


def _own_functions(
    context: Context,
    f: int,
    coordinates: Floats,
    blocks: list[NDArray[Any]],
    transport: LinearTransport | None,
) -> Floats:
    """Return what the model does with each block at the held-out rows: value minus block mean."""
    model = context.line_models[f]
    value = context.predictions[context.folds[f].test]
    if isinstance(model, LinearLines):
        return np.zeros((len(value), len(blocks)))  # within the span of the columns
    generator = np.random.default_rng(context.child("own functions", f))
    donors = donor_rows(*choose_shifts(len(value), N_DONORS, generator))
    share = donor_shares(context.weights.values[context.folds[f].test], donors)

    def predict(points: Floats) -> Floats:
        return model.predict(points if transport is None else transport.decode(points))

    means = [
        np.sum(
            share * swapped_predictions(coordinates, block, donors, predict, context.memory), axis=1
        )
        for block in blocks
    ]
    return np.asarray(value[:, None] - np.column_stack(means))


def _decompose(
    context: Context,
    f: int,
    blocks: list[NDArray[Any]],
    transport: LinearTransport | None,
    n_compositions: int,
) -> Indices:
    """Return the influence values of one fold's rows, the regression's error included."""
    fold, model = context.folds[f], context.line_models[f]
    rows = context.table.matrix[fold.test]
    mass = context.mass(fold.test)
    value = context.predictions[fold.test]
    residual = context.outcome.values[fold.test] - value
    span = riesz_span(context, f)
    coordinates = rows if transport is None else transport.encode(rows)
    if isinstance(model, LinearLines):
        directions = np.eye(rows.shape[1]) if transport is None else transport.directions
        indices, derivative = linear_indices(
            model.coefficients, coordinates, directions, blocks, mass, span
        )
    else:
        generator = np.random.default_rng(
            context.child("compositions", f, "features" if transport is None else "latent")
        )
        decode = None if transport is None else transport.decode
        indices, derivative = pick_freeze(
            model.predict, coordinates, decode, blocks, mass, span, n_compositions, generator
        )
    own = _own_functions(context, f, coordinates, blocks, transport)
    influence = [
        part
        # two draws of a block differ by the model alone: the derivative along it is twice the score
        + span.correction(
            rows, value, residual, slope[:-1], slope[-1], own, 2.0 * (mass @ part), mass
        )
        for part, slope in zip(indices.influence, derivative, strict=True)
    ]
    return Indices(np.array(influence), indices.noise, indices.sensitivity)
