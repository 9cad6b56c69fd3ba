r"""From a matrix of influence values to scores, standard errors and covariances.

Every method ends in an n x p matrix of uncentred influence values :math:`u_{il}`. The score of
unit :math:`l` is the (weighted) mean of its column and its standard error is the standard
deviation of the column over :math:`\sqrt n`; this is all the rest of the inference sees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dfi._data.weights import Weights
    from dfi._types import Bools, Floats

# A model that never uses a feature leaves a column of rounding errors behind, and their mean
# over their own tiny standard error can look significant. Errors below these fractions of the
# largest standard error and of the largest score are rounding.
_OF_LARGEST_ERROR = 1e-10
_OF_LARGEST_SCORE = 1e-14


def standard_errors(
    influence: Floats, weights: Weights, *, degenerate: Bools | None = None
) -> Floats:
    """Return the standard error of each column mean.

    Parameters
    ----------
    influence : ndarray of shape (n, p)
        Uncentred influence values.
    weights : Weights
        Weights of the rows.
    degenerate : ndarray of bool of shape (p,), optional
        Units without variation.

    Returns
    -------
    ndarray of shape (p,)
        NaN for degenerate units; exactly 0 for columns that do not vary beyond rounding.
    """
    errors = np.array(weights.standard_error(influence), dtype=np.float64)
    scores = np.abs(weights.mean(influence))
    floor = max(
        _OF_LARGEST_ERROR * float(np.max(errors, initial=0.0, where=~np.isnan(errors))),
        _OF_LARGEST_SCORE * float(np.max(scores, initial=0.0)),
    )
    errors[errors <= floor] = 0.0
    if degenerate is not None:
        errors[degenerate] = np.nan
    return errors
