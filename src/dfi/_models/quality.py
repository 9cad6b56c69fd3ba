r"""How well the model behind the scores predicts, in terms of the scores' loss.

Losses are of held-out rows. With :math:`\ell_0(y)` what a perfect prediction loses (0 for squared
error and log-loss), :math:`\bar y` the mean outcome and :math:`\hat\mu` the held-out prediction,

.. math:: M = \overline{\ell(y, \hat\mu) - \ell_0(y)}, \qquad
          N = \overline{\ell(y, \bar y) - \ell_0(y)}, \qquad \text{skill} = 1 - M/N :

R2 for squared error, the Brier skill, McFadden's R2 for log-loss, the share of the deviance that is
explained for counts.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.stats import norm

from dfi._findings import Finding, warn_of
from dfi._models.censoring import concordance
from dfi._parameters import worded
from dfi.losses import BRIER, LOG_LOSS, SQUARED_ERROR, Loss

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dfi._data.weights import Weights
    from dfi._models.fits import Fits
    from dfi._types import Floats, Ints, Plain

MOST_BINS = 10
"""Bins of a calibration table."""

SKILL_NAMES = {
    "squared-error": "R2",
    "brier": "Brier skill",
    "log-loss": "McFadden's R2",
    "poisson": "deviance explained",
    "gamma": "deviance explained",
}
"""What ``1 - model_loss / null_loss`` is called."""

LOSS_NAMES = {
    "squared-error": "mean squared error",
    "brier": "Brier score",
    "log-loss": "log-loss",
    "poisson": "half the Poisson deviance",
    "gamma": "half the gamma deviance",
}
"""What the mean loss is called."""


def skill_text(skill: float) -> str:
    """Return a skill with three decimals, or shorter if a gross outlier made it huge."""
    return f"{skill:.3g}" if abs(skill) >= 1e4 else f"{skill:.3f}"


class CalibrationBin(NamedTuple):
    predicted: float
    observed: float
    n_rows: int


@dataclass(frozen=True)
class Quality:
    """Out-of-fold fit of the model.

    Attributes
    ----------
    r2 : float
        Out-of-fold R2 over all rows (on the given rows for a fitted model).
    r2_by_fold : tuple of float
        R2 of each fold.
    r2_spread : float
        Standard deviation of ``r2_by_fold``; NaN for a fitted model.
    mse : float
        Out-of-fold mean squared error.
    outcome_variance : float
        Var(Y); the unit of the scores of squared error.
    n_rows : int
        Number of rows explained.
    loss : str, default="squared-error"
        The loss that scores are differences of.
    model_loss, null_loss : float
        Mean loss of held-out rows, of the model and of the mean outcome (the prevalence of a
        class), each less what a perfect prediction loses. The mean is the null of a loss without a
        generator too, although it need not be the constant that loses least.
    skill_by_fold : tuple of float
        :attr:`skill` of each fold.
    auc, auc_se : float or None
        Area under the ROC curve and its standard error (DeLong, DeLong and Clarke-Pearson 1988);
        None but for classes.
    brier, log_loss : float or None
        Brier score and log-loss of the probability; None but for classes.
    calibration : tuple of CalibrationBin
        Up to ten bins by predicted probability; empty but for classes.
    concordance : float or None
        Harrell's C of times to an event, up to the horizon: the share of the pairs whose order is
        known that held-out predictions have in that order.
    integrated_brier : float or None
        Mean squared error of the held-out survival curves of the Cox regression behind times to an
        event, over the times up to the (last) horizon, weighted for censoring. It is about that
        regression, which completes censored rows, not about the model that is explained.
    by_outcome : dict of str to Quality
        The same of each class, or of each outcome, where there are several: their losses add up.
    """

    r2: float
    r2_by_fold: tuple[float, ...]
    r2_spread: float
    mse: float
    outcome_variance: float
    n_rows: int
    loss: str = "squared-error"
    model_loss: float = float("nan")
    null_loss: float = float("nan")
    skill_by_fold: tuple[float, ...] = ()
    auc: float | None = None
    auc_se: float | None = None
    brier: float | None = None
    log_loss: float | None = None
    calibration: tuple[CalibrationBin, ...] = ()
    concordance: float | None = None
    integrated_brier: float | None = None
    by_outcome: dict[str, Quality] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if self.loss in ("squared-error", "brier"):  # they are the same there
            known = {"model_loss": self.mse, "null_loss": self.outcome_variance}
            for name, value in known.items():
                if math.isnan(getattr(self, name)):
                    object.__setattr__(self, name, value)
            if not self.skill_by_fold:
                object.__setattr__(self, "skill_by_fold", self.r2_by_fold)

    @property
    def skill(self) -> float:
        r"""Share of the null loss that the model explains, :math:`1 - M/N`."""
        if self.loss in ("squared-error", "brier"):
            return self.r2
        return 1.0 - self.model_loss / self.null_loss if self.null_loss > 0 else float("nan")

    @property
    def skill_name(self) -> str:
        return SKILL_NAMES.get(self.loss, f"share of the {self.loss} loss explained")

    @property
    def loss_name(self) -> str:
        return LOSS_NAMES.get(self.loss, f"mean {self.loss} loss")

    @property
    def skill_spread(self) -> float:
        """Standard deviation of ``skill_by_fold``; NaN where there are no folds to compare."""
        if self.loss in ("squared-error", "brier"):
            return self.r2_spread
        return _spread(self.skill_by_fold) if math.isfinite(self.r2_spread) else float("nan")

    def auc_interval(self, level: float = 0.95) -> tuple[float, float]:
        r"""Return :math:`\hat A \pm z\,\hat\sigma`, cut to where an area can be, 0 to 1."""
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must lie strictly between 0 and 1, got {level!r}")
        if self.auc is None or self.auc_se is None:
            raise ValueError("there is no area under a ROC curve: the outcome is not one class")
        half = float(norm.isf(0.5 * (1.0 - level))) * self.auc_se
        return max(self.auc - half, 0.0), min(self.auc + half, 1.0)

    def __repr__(self) -> str:
        if self.loss != "squared-error":
            spread = self.skill_spread
            parts = [f"{self.skill_name} {skill_text(self.skill)}"]
            parts += [f"spread over folds {skill_text(spread)}"] * math.isfinite(spread)
            parts += [f"{self.loss_name} {self.model_loss:.4g} of {self.null_loss:.4g}"]
            if self.auc is not None:
                parts += [f"AUC {self.auc:.3f}"]
            if self.by_outcome:
                parts += [f"{len(self.by_outcome)} outcomes"]
            return f"Quality({', '.join(parts)}, {self.n_rows} rows)"
        spread_text = (
            f", spread over folds {skill_text(self.r2_spread)}"
            if np.isfinite(self.r2_spread)
            else ""
        )
        return (
            f"Quality(R2 {skill_text(self.r2)}{spread_text}, mean squared error {self.mse:.4g} of "
            f"variance {self.outcome_variance:.4g}"
            + ("" if self.concordance is None else f", concordance {self.concordance:.3f}")
            + f", {self.n_rows} rows)"
        )

    def as_plain(self) -> Plain:
        plain = asdict(self)
        plain["calibration"] = [list(entry) for entry in self.calibration]
        plain["by_outcome"] = {name: part.as_plain() for name, part in self.by_outcome.items()}
        return plain

    @classmethod
    def from_plain(cls, plain: Plain) -> Quality:
        """Read what :meth:`as_plain` wrote."""
        bins = [CalibrationBin(float(p), float(o), int(n)) for p, o, n in plain["calibration"]]
        return cls(
            **{
                **plain,
                "r2_by_fold": tuple(plain["r2_by_fold"]),
                "skill_by_fold": tuple(plain["skill_by_fold"]),
                "calibration": tuple(bins),
                "by_outcome": {
                    name: cls.from_plain(part) for name, part in plain["by_outcome"].items()
                },
            }
        )


def averaged(predictions: Sequence[tuple[Ints, Floats]]) -> list[tuple[Ints, Floats]]:
    """Return the mean prediction of held-out rows over several pairs of models."""
    rows: dict[bytes, Ints] = {}
    values: dict[bytes, list[Floats]] = {}
    for test, value in predictions:
        key = test.tobytes()
        rows[key] = test
        values.setdefault(key, []).append(value)
    return [(rows[key], np.asarray(np.mean(values[key], axis=0))) for key in rows]


def judged(fits: Fits, predictions: Sequence[tuple[Ints, Floats]]) -> Quality:
    """Return the held-out quality; several classes share one warning."""
    if fits.described is not None:
        # a working response says nothing of how well classes are told apart
        chances = [(rows, 1.0 / (1.0 + np.exp(-margin))) for rows, margin in predictions]
        y = fits.described.values
        return regression_quality(chances, y, fits.weights, prefit=True, loss=BRIER)
    found = regression_quality(
        predictions,
        fits.data.y,
        fits.weights,
        prefit=fits.prefit,
        loss=fits.loss,
        warns=not fits.member,
        effect=bool(fits.outcome.effect),
    )
    survival = fits.outcome.survival
    if survival is None:
        return found
    rows = np.concatenate([rows for rows, _ in predictions])
    values = np.concatenate([values for _, values in predictions])
    counted = fits.weights.values[rows]
    in_order = concordance(values, survival.times.take(rows), survival.horizon, counted)
    return replace(found, concordance=in_order, integrated_brier=survival.brier)


def regression_quality(
    predictions: Sequence[tuple[Ints, Floats]],
    y: Floats,
    weights: Weights,
    *,
    prefit: bool = False,
    loss: Loss = SQUARED_ERROR,
    warns: bool = True,
    effect: bool = False,
) -> Quality:
    """Return the out-of-fold fit, for classes with AUC and calibration, and warn if it is weak."""
    rows = np.concatenate([test for test, _ in predictions])
    share = weights.values[rows] / weights.values[rows].sum()
    centre = float(share @ y[rows])
    variance = float(share @ (y[rows] - share @ y[rows]) ** 2)
    errors = [(test, (y[test] - value) ** 2) for test, value in predictions]
    mse = float(share @ np.concatenate([error for _, error in errors]))
    by_fold = []
    for test, error in errors:
        mass = weights.values[test]
        middle = np.average(y[test], weights=mass) if mass.sum() > 0 else 0.0
        scale = mass @ (y[test] - middle) ** 2
        by_fold.append(float(1.0 - mass @ error / scale) if scale > 0 else float("nan"))
    model_loss, null_loss, skills = mse, variance, tuple(by_fold)
    if not loss.is_square:
        lost = [(test, _lost(loss, y[test], value)) for test, value in predictions]
        model_loss = float(share @ np.concatenate([values for _, values in lost]))
        constant = centre if loss.quantile is None else loss.best_constant(y[rows], share)
        null_loss = float(share @ _lost(loss, y[rows], np.full(len(rows), constant)))
        skills = tuple(_fold_skill(loss, y[t], v, weights.values[t]) for t, v in lost)
    quality = Quality(
        r2=1.0 - mse / variance if variance > 0 else float("nan"),
        r2_by_fold=tuple(by_fold),
        r2_spread=float("nan") if prefit or len(by_fold) < 2 else _spread(by_fold),
        mse=mse,
        outcome_variance=variance,
        n_rows=len(np.unique(rows)),
        loss=loss.name,
        model_loss=model_loss,
        null_loss=null_loss,
        skill_by_fold=skills,
        **_of_class(predictions, y, weights, loss),
    )
    if warns:
        _warn_where_weak(quality, effect=effect)
    return quality


def _spread(values: Sequence[float]) -> float:
    known = [value for value in values if math.isfinite(value)]
    return float(np.std(known, ddof=1)) if len(known) > 1 else float("nan")


def _within(loss: Loss, predictions: Floats) -> Floats:
    """Return predictions where the loss is finite: fitted models may say 0 and 1."""
    edge = np.finfo(np.float64).eps
    if loss.domain == "probability":
        return np.clip(predictions, edge, 1.0 - edge)
    return np.maximum(predictions, edge) if loss.domain == "positive" else predictions


def _lost(loss: Loss, y: Floats, predictions: Floats) -> Floats:
    """Return the loss of rows beyond a perfect prediction, or the loss if that is undefined."""
    lost = loss.of(y, _within(loss, predictions))
    return lost - loss.least(y) if loss.has_generator else lost


def _fold_skill(loss: Loss, y: Floats, lost: Floats, mass: Floats) -> float:
    if mass.sum() <= 0:
        return float("nan")
    null = float(mass @ _lost(loss, y, np.full(len(y), loss.best_constant(y, mass))))
    # one class only in a fold: its prevalence loses nothing but the edge of the domain
    return 1.0 - float(mass @ lost) / null if null > 1e-12 * mass.sum() else float("nan")


def _of_class(
    predictions: Sequence[tuple[Ints, Floats]], y: Floats, weights: Weights, loss: Loss
) -> Plain:
    """Return quality measures of a probability besides its loss; empty for other outcomes."""
    if loss.name not in (BRIER.name, LOG_LOSS.name):
        return {}
    every = np.concatenate([test for test, _ in predictions])
    values = np.concatenate([value for _, value in predictions])
    rows, place, count = np.unique(every, return_inverse=True, return_counts=True)
    value = np.bincount(place, weights=values) / count
    kept = weights.values[rows] > 0
    rows, value = rows[kept], value[kept]
    seen = y[rows]
    if not np.isin(seen, (0.0, 1.0)).all() or len(np.unique(seen)) < 2:
        return {}
    chosen = weights.take(rows)
    area, error = area_under_curve(seen, value, chosen)
    share = chosen.shares
    return {
        "auc": area,
        "auc_se": error,
        "brier": float(share @ BRIER.of(seen, value)),
        "log_loss": float(share @ LOG_LOSS.of(seen, _within(LOG_LOSS, value))),
        "calibration": calibration_table(seen, value, chosen.values),
    }


def placements(values: Floats, others: Floats, mass: Floats) -> Floats:
    """Return, for each value, the share of ``others`` (by mass) below it, ties counted half."""
    order = np.argsort(others, kind="stable")
    ranked = others[order]
    below = np.concatenate([[0.0], np.cumsum(mass[order])])
    first = np.searchsorted(ranked, values, side="left")
    last = np.searchsorted(ranked, values, side="right")
    return np.asarray(0.5 * (below[first] + below[last]) / below[-1])


def area_under_curve(y: Floats, predictions: Floats, weights: Weights) -> tuple[float, float]:
    r"""Return the area under the ROC curve and its standard error, in O(n log n).

    With placement values :math:`V_i` (of a member of the class the share of other rows that are
    predicted lower, of another row the share of members predicted higher) and :math:`\hat A` their
    mean in either class, DeLong's variance is

    .. math:: \frac{1}{m(m-1)} \sum_{y_i = 1} (V_i - \hat A)^2
            + \frac{1}{k(k-1)} \sum_{y_i = 0} (V_i - \hat A)^2

    for :math:`m` members and :math:`k` others. Weighted, means are weighted and each sum is the
    variance of a weighted mean (:meth:`dfi._data.weights.Weights.covariance_of_mean`). Rows that
    depend on each other enter by the uncentred influence
    :math:`\hat A + y (V - \hat A)/\pi + (1 - y)(V - \hat A)/(1 - \pi)`, summed over clusters or
    windows.
    """
    member = y == 1.0
    mass = weights.values
    above = placements(predictions[member], predictions[~member], mass[~member])
    below = 1.0 - placements(predictions[~member], predictions[member], mass[member])
    area = float(np.average(above, weights=mass[member]))
    if weights.dependence is not None:
        prevalence = float(mass[member].sum() / mass.sum())
        influence = np.full(len(y), area)
        influence[member] += (above - area) / prevalence
        influence[~member] += (below - area) / (1.0 - prevalence)
        return area, float(weights.standard_error(influence)[0])
    squares = [
        float(weights.take(np.flatnonzero(chosen)).standard_error(values)[0]) ** 2
        for chosen, values in ((member, above), (~member, below))
    ]
    return area, math.sqrt(sum(squares))


def calibration_table(y: Floats, predictions: Floats, mass: Floats) -> tuple[CalibrationBin, ...]:
    """Return up to ten bins with the same number of rows; equal predictions stay together."""
    inner = np.quantile(predictions, np.arange(1, MOST_BINS) / MOST_BINS)
    place = np.searchsorted(np.unique(inner), predictions, side="left")
    found = []
    for number in np.unique(place):
        chosen = place == number
        of_bin = mass[chosen] / mass[chosen].sum()
        found.append(
            CalibrationBin(
                float(of_bin @ predictions[chosen]), float(of_bin @ y[chosen]), int(chosen.sum())
            )
        )
    return tuple(found)


def combined_quality(parts: Mapping[str, Quality], *, warns: bool = True) -> Quality:
    r"""Return the fit of several classes or outcomes: losses add up, folds are weighted means."""
    held = list(parts.values())
    mse = sum(part.mse for part in held)
    variance = sum(part.outcome_variance for part in held)
    by_fold = _folds_of([(part.outcome_variance, part.r2_by_fold) for part in held])
    quality = Quality(
        r2=1.0 - mse / variance if variance > 0 else float("nan"),
        r2_by_fold=by_fold,
        r2_spread=_spread(by_fold) if math.isfinite(held[0].r2_spread) else float("nan"),
        mse=mse,
        outcome_variance=variance,
        n_rows=max(part.n_rows for part in held),
        loss=held[0].loss,
        model_loss=sum(part.model_loss for part in held),
        null_loss=sum(part.null_loss for part in held),
        skill_by_fold=_folds_of([(part.null_loss, part.skill_by_fold) for part in held]),
        by_outcome=dict(parts),
    )
    if warns:
        _warn_where_weak(quality)
    return quality


def _folds_of(parts: Sequence[tuple[float, tuple[float, ...]]]) -> tuple[float, ...]:
    """Return the weighted mean of each fold over the parts that know it."""
    if len({len(folds) for _, folds in parts}) != 1:
        return ()
    scale = np.array([size for size, _ in parts])[:, None]
    values = np.array([folds for _, folds in parts], dtype=np.float64).reshape(len(parts), -1)
    known = np.isfinite(values)
    total = np.sum(scale * known, axis=0)
    summed = np.sum(np.where(known, scale * values, 0.0), axis=0)
    means = np.divide(summed, total, out=np.full(len(total), np.nan), where=total > 0)
    return tuple(float(value) for value in means)


WEAK = 0.1
"""Skill below which a model explains little."""


FAR_OFF = -1.0
"""R2 below which the predictions, not their precision, are wrong."""


def weak_model(quality: Quality, *, effect: bool = False) -> Finding | None:
    """Report a model that explains little; noisy ``effect`` outcomes have a lower bar."""
    skill, named = quality.skill, f"{quality.skill_name} = {skill_text(quality.skill)}"
    square = quality.loss == SQUARED_ERROR.name
    null = "the prevalence" if quality.loss in (BRIER.name, LOG_LOSS.name) else "the mean outcome"
    if skill <= 0:
        again = f"Try another {worded('estimator', '--model')} or more rows"
        if square and skill < FAR_OFF:
            again = (
                "Errors this large come from outlying rows, or from a model of another scale, such "
                "as the outcome's logarithm"
            )
        what = f"the regression explains nothing on held-out rows ({named})"
        if not square:
            what = (
                f"the model explains nothing on held-out rows: its {quality.loss_name} "
                f"{quality.model_loss:.4g} is not below that of {null}, {quality.null_loss:.4g} "
                f"({named})"
            )
        if effect:
            what = f"no differences between effects are found on held-out rows ({named})"
            again = (
                "Whether the treatment has an effect is another question, which the average effect "
                "answers"
            )
        noise = "Its scores describe noise: do not read them as findings"
        return Finding("weak model", "distrust", what, {"skill": skill}, f"{noise}. {again}")
    share = f"{100 * skill:.1f} %"
    if skill < WEAK and not effect:
        return Finding(
            "weak model",
            "note",
            f"the regression explains only {share} of the outcome's variance"
            if square
            else f"the model's {quality.loss_name} is only {share} below that of {null}",
            {"skill": skill},
            "Scores show which features that small part comes from, not what drives the outcome",
        )
    return None


def _warn_where_weak(quality: Quality, *, effect: bool = False) -> None:
    finding = weak_model(quality, effect=effect)
    warn_of(() if finding is None else (finding,))
