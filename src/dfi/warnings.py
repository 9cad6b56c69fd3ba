"""The warnings of dfi: one class per kind, so that each can be silenced on its own."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

_PACKAGE = str(Path(__file__).parent)


class DFIWarning(UserWarning):
    """Base class of every warning that dfi raises."""


class ConstantColumnWarning(DFIWarning):
    """A column does not vary: it is kept, scores 0 and has no standard error."""


class IdentifierWarning(DFIWarning):
    """A column of whole numbers seems to name or to count the rows."""


class RefitWarning(DFIWarning):
    """A model that is fitted already is fitted again on each fold, because ``cv`` asks for it."""


class MissingValuesWarning(DFIWarning):
    """Rows with missing values are left out, as ``missing="drop"`` asks."""


class OutcomeWarning(DFIWarning):
    """The outcome is used as a quantity, but looks like something else (classes, a flag)."""


class WeakModelWarning(DFIWarning):
    """The regression explains little or nothing out of fold; its importances mean little."""


class TransportWarning(DFIWarning):
    """The transport does not suit the data: dependence is left, rows are decoded far from them."""


class InferenceWarning(DFIWarning):
    """The sample is too small for the scores, or for the theory behind their standard errors."""


class ImplausibleScoreWarning(DFIWarning):
    """Scores that cannot be right: noise is significant, or they are far from the variance."""


class ExactnessWarning(DFIWarning):
    """A model that could have been integrated exactly falls back to quadrature."""


class QuadratureWarning(DFIWarning):
    """The nodes along latent lines are too few: scores are off by an estimated share."""


class ManyLevelsWarning(DFIWarning):
    """A categorical column has so many levels that most have few rows."""


class ApproximationWarning(DFIWarning):
    """An exact calculation would be too large, and a sampled one with its own error is used."""


class OverlapWarning(DFIWarning):
    """Treated and untreated rows hardly overlap: effects rest on few rows, or on extrapolation."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line that called into dfi, however deep in it the warning arises.

    A fixed ``stacklevel`` cannot: ``explain``, ``DFI.fit``, ``compare`` and ``sensitivity`` reach
    the same place by ways of different length.
    """
    frame, depth, level = sys._getframe(1), 2, 2
    while frame.f_back is not None:
        if frame.f_code.co_filename.startswith(_PACKAGE):
            level = depth + 1
        frame, depth = frame.f_back, depth + 1
    warnings.warn(message, category, stacklevel=level)
