"""The result of a method: influence values by unit, with everything that follows from them."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from dfi.data import as_frame
from dfi.data.groups import Groups, read_groups
from dfi.inference.estimate import Contrast, Estimate, estimate_mean
from dfi.inference.hypotheses import p_values, z_statistics
from dfi.inference.intervals import (
    Alternative,
    Expansion,
    check_alternative,
    check_level,
    expand_standard_errors,
    wald_interval,
)
from dfi.inference.multiplicity import Adjustment, adjust_p_values, check_adjustment
from dfi.inference.simultaneous import max_t_critical_value
from dfi.inference.standard_errors import row_count, standard_errors
from dfi.result_file import freeze, read_file, thaw, write_file
from dfi.result_record import pack, unpack

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from dfi.data.weights import Weights

    Floats = NDArray[np.float64]
    Booleans = NDArray[np.bool_]

Space = Literal["attributed", "latent", "group"]


@dataclass(frozen=True)
class Quality:
    """How well the regression behind the scores predicts.

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
        Var(Y), the unit of the scores.
    n_rows : int
        Number of rows explained.
    """

    r2: float
    r2_by_fold: tuple[float, ...]
    r2_spread: float
    mse: float
    outcome_variance: float
    n_rows: int


def _read_only(values: Any, dtype: type) -> NDArray[Any]:
    if (
        isinstance(values, np.ndarray)
        and values.dtype == dtype
        and not values.flags.writeable
        and values.base is None
    ):
        return values
    array = np.array(values, dtype=dtype, order="C")
    array.flags.writeable = False
    return array


@dataclass(frozen=True, eq=False, repr=False)
class Importance:
    r"""Importance of units, as a matrix of uncentred influence values :math:`u`.

    Score :math:`\hat\phi_l = \bar u_l` (weighted), standard error
    :math:`\operatorname{sd}(u_l)/\sqrt n`, covariance of scores
    :math:`\operatorname{Cov}(u_l, u_k)/n`, group = sum of columns, contrast = difference of
    columns. Scores are never clipped: a negative one is a fact about noise.

    Parameters
    ----------
    influence : ndarray of shape (n, p)
        Influence values; the columns of degenerate units are set to 0.
    names : tuple of str
        Names of the p units.
    weights : Weights
        Weights of the n rows.
    spec : mapping
        Specification of the estimand: transport, cost, reference law, ... (JSON-like).
    quality : Quality
        Fit of the regression.
    diagnostics : mapping
        Diagnostics of the transport and the inference (JSON-like).
    level : float, default=0.95
        Confidence level where none is given.
    library : str, default="numpy"
        Dataframe library of the caller, for the tables.
    space : {"attributed", "latent", "group"}, default="attributed"
        What the units are: features, latent coordinates or groups of features.
    degenerate : ndarray of bool of shape (p,), optional
        Units without variation: score 0, standard error, interval and p-value NaN.
    spread : ndarray of shape (p,), optional
        Standard deviation of the score from one repeated split to the next.
    nonnegative : bool, default=True
        Whether the parameter cannot be negative; intervals are then projected.
    latent : Importance, optional
        The same units in the latent space.
    attribution : ndarray of shape (p, p), optional
        Entry (l, j): the share of latent unit j that is attributed to unit l.
    default_groups : Groups, optional
        What :meth:`group` uses when called without groups.
    """

    influence: Floats
    names: tuple[str, ...]
    weights: Weights
    spec: Mapping[str, object]
    quality: Quality
    diagnostics: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    level: float = 0.95
    library: str = "numpy"
    space: Space = "attributed"
    degenerate: Booleans = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    spread: Floats | None = None
    nonnegative: bool = True
    latent: Importance | None = None
    attribution: Floats | None = None
    default_groups: Groups | None = None

    def __post_init__(self) -> None:
        for name, value in self._checked().items():
            object.__setattr__(self, name, value)

    def _checked(self) -> dict[str, object]:
        """Return the fields that are validated and made read-only."""
        influence = np.asarray(self.influence, dtype=np.float64)
        names = tuple(self.names)
        if influence.ndim != 2 or influence.shape[1] != len(names):
            raise ValueError(
                f"influence must have one column for each of the {len(names)} names, "
                f"got shape {influence.shape}"
            )
        n, p = influence.shape
        if len(set(names)) != p:
            repeated = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"names must be unique, but {repeated!r} appears more than once")
        if len(self.weights.values) != n:
            raise ValueError(f"got {len(self.weights.values)} weights for {n} rows")
        finite = np.isfinite(influence).all(axis=0)
        if not finite.all():
            raise ValueError(
                f"the influence values of {names[int(np.argmin(finite))]!r} have NaN or inf"
            )
        if self.space not in get_args(Space):
            raise ValueError(
                f"space must be one of {', '.join(get_args(Space))}, got {self.space!r}"
            )
        degenerate = np.asarray(self.degenerate, dtype=np.bool_)
        if degenerate.size == 0:
            degenerate = np.zeros(p, dtype=np.bool_)
        shapes = {
            "degenerate": (degenerate, (p,)),
            "spread": (self.spread, (p,)),
            "attribution": (self.attribution, (p, p)),
        }
        for name, (array, shape) in shapes.items():
            if array is not None and np.shape(array) != shape:
                raise ValueError(f"{name} must have shape {shape}, got {np.shape(array)}")
        if self.latent is not None and self.latent.influence.shape[1] != p:
            raise ValueError(
                f"the latent result has {self.latent.influence.shape[1]} units for {p} names"
            )
        if influence[:, degenerate].any():
            influence = influence.copy()
            influence[:, degenerate] = 0.0
        else:
            influence = self.influence
        return {
            "influence": _read_only(influence, np.float64),
            "names": names,
            "spec": freeze(self.spec, "spec"),
            "diagnostics": freeze(self.diagnostics, "diagnostics"),
            "level": check_level(self.level),
            "degenerate": _read_only(degenerate, np.bool_),
            "spread": None if self.spread is None else _read_only(self.spread, np.float64),
            "attribution": (
                None if self.attribution is None else _read_only(self.attribution, np.float64)
            ),
        }

    def __reduce__(self) -> tuple[Any, ...]:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        for name in ("spec", "diagnostics"):  # mapping proxies do not pickle
            values[name] = thaw(values[name])
        return _rebuild, (values,)

    @cached_property
    def scores(self) -> Floats:
        """Scores of the units, shape (p,)."""
        return _read_only(self.weights.mean(self.influence), np.float64)

    @cached_property
    def se(self) -> Floats:
        """Standard errors of the scores, shape (p,); NaN where none can be estimated."""
        return _read_only(np.where(self._errors > 0.0, self._errors, np.nan), np.float64)

    @cached_property
    def _errors(self) -> Floats:
        return standard_errors(self.influence, self.weights, degenerate=self.degenerate)

    @property
    def covariance(self) -> Floats:
        """Covariance matrix of the scores, shape (p, p); NaN where ``se`` is NaN."""
        covariance = np.array(self.weights.covariance_of_mean(self.influence), dtype=np.float64)
        unknown = np.isnan(self.se)
        covariance[unknown, :] = np.nan
        covariance[:, unknown] = np.nan
        return covariance

    @property
    def total(self) -> Estimate:
        """The sum of the scores, with its standard error (overlapping groups count twice)."""
        return estimate_mean(
            self.influence.sum(axis=1),
            self.weights,
            level=self.level,
            alternative="greater",
            nonnegative=self.nonnegative,
        )

    def _widened(self, expansion: Expansion | None, level: float) -> Floats:
        return expand_standard_errors(
            self._errors,
            expansion=expansion,
            n=row_count(self.weights),
            outcome_variance=self.quality.outcome_variance,
            level=level,
        )

    def _endpoints(
        self,
        level: float | None,
        alternative: Alternative,
        expansion: Expansion | None,
        simultaneous: bool,
        random_state: int = 0,
    ) -> tuple[Floats, Floats]:
        level = self.level if level is None else check_level(level)
        alternative = check_alternative(alternative)
        critical = None
        if simultaneous:
            critical = max_t_critical_value(
                self.influence,
                self.weights,
                level=level,
                alternative=alternative,
                random_state=random_state,
            )
        return wald_interval(
            self.scores,
            self._widened(expansion, level),
            level=level,
            alternative=alternative,
            nonnegative=self.nonnegative,
            critical=critical,
        )

    def _tests(
        self,
        alternative: Alternative,
        adjust: Adjustment | None,
        null: float,
        expansion: Expansion | None,
        level: float,
    ) -> dict[str, Floats]:
        check_adjustment(adjust)
        errors = self._widened(expansion, level)
        p = p_values(self.scores, errors, alternative=alternative, null=null)
        return {
            "z": z_statistics(self.scores, errors, null=null),
            "p": p,
            "p_adj": adjust_p_values(p, adjust),
        }

    def _frame(self, columns: Mapping[str, Floats], order: NDArray[np.intp] | None = None) -> Any:
        names = np.array(self.names, dtype=object)
        full = {"feature": names, **columns}
        if order is not None:
            full = {key: values[order] for key, values in full.items()}
        return as_frame({key: np.array(values) for key, values in full.items()}, self.library)

    def _table(
        self,
        level: float | None,
        alternative: Alternative,
        adjust: Adjustment | None,
        expansion: Expansion | None,
        simultaneous: bool,
    ) -> dict[str, Floats]:
        level = self.level if level is None else check_level(level)
        low, high = self._endpoints(level, "two-sided", expansion, simultaneous)
        tests = self._tests(alternative, adjust, 0.0, expansion, level)
        return {"score": self.scores, "se": self.se, "ci_low": low, "ci_high": high, **tests}

    def table(
        self,
        *,
        level: float | None = None,
        alternative: Alternative = "greater",
        adjust: Adjustment | None = "holm",
        expansion: Expansion | None = None,
        simultaneous: bool = False,
        sort: bool = True,
    ) -> Any:
        """Return all units with their inference, in the caller's dataframe library.

        Parameters
        ----------
        level : float, optional
            Confidence level of the two-sided intervals; that of the result by default.
        alternative : {"greater", "less", "two-sided"}, default="greater"
            Alternative of the tests against 0.
        adjust : {"none", "bonferroni", "holm", "bh", "by"}, default="holm"
            Multiplicity adjustment behind ``p_adj``.
        expansion : {None, "standard_error", "variance"}, default=None
            Expansion near the null, for intervals and tests (not the ``se`` column); see
            :mod:`dfi.inference.intervals`.
        simultaneous : bool, default=False
            Whether the intervals hold for all units at once (max-t).
        sort : bool, default=True
            Whether the largest score comes first; else the order of ``names``.

        Returns
        -------
        frame
            Columns feature, score, se, ci_low, ci_high, z, p, p_adj.
        """
        columns = self._table(level, alternative, adjust, expansion, simultaneous)
        return self._frame(columns, self._ranking if sort else None)

    @property
    def _ranking(self) -> NDArray[np.intp]:
        return np.argsort(-self.scores, kind="stable")

    def top(self, k: int) -> Any:
        """Return the first ``k`` rows of :meth:`table`; ``p_adj`` still counts all units."""
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
            raise ValueError(f"k must be a positive integer, got {k!r}")
        columns = self._table(None, "greater", "holm", None, simultaneous=False)
        return self._frame(columns, self._ranking[:k])

    def interval(
        self,
        level: float | None = None,
        *,
        expansion: Expansion | None = None,
        simultaneous: bool = False,
        alternative: Alternative = "two-sided",
        random_state: int = 0,
    ) -> Any:
        """Return the confidence interval of each unit, in the order of ``names``.

        Parameters
        ----------
        level : float, optional
            Confidence level; that of the result by default.
        expansion : {None, "standard_error", "variance"}, default=None
            Expansion near the null; see :mod:`dfi.inference.intervals`.
        simultaneous : bool, default=False
            Whether the intervals hold for all units at once (max-t, multiplier bootstrap).
        alternative : {"two-sided", "greater", "less"}, default="two-sided"
            Intervals, lower bounds or upper bounds.
        random_state : int, default=0
            Seed of the multiplier bootstrap.

        Returns
        -------
        frame
            Columns feature, ci_low, ci_high.
        """
        low, high = self._endpoints(level, alternative, expansion, simultaneous, random_state)
        return self._frame({"ci_low": low, "ci_high": high})

    def test(
        self,
        alternative: Alternative = "greater",
        adjust: Adjustment | None = "holm",
        *,
        null: float = 0.0,
        expansion: Expansion | None = None,
    ) -> Any:
        """Test each score against ``null``, in the order of ``names``.

        Parameters
        ----------
        alternative : {"greater", "less", "two-sided"}, default="greater"
            Direction of the alternative.
        adjust : {"none", "bonferroni", "holm", "bh", "by"}, default="holm"
            Multiplicity adjustment behind ``p_adj``.
        null : float, default=0.0
            Value under the null hypothesis.
        expansion : {None, "standard_error", "variance"}, default=None
            Expansion near the null, at the level of the result.

        Returns
        -------
        frame
            Columns feature, score, z, p, p_adj.
        """
        tests = self._tests(alternative, adjust, null, expansion, self.level)
        return self._frame({"score": self.scores, **tests})

    def contrast(self, a: str, b: str) -> Contrast:
        """Return the score of ``a`` minus the score of ``b`` with its inference.

        The interval is two-sided at the level of the result, the test two-sided. With a
        degenerate unit the difference has no standard error.
        """
        first, second = self._position(a), self._position(b)
        if first == second:
            raise ValueError(f"contrast needs two different units, got {a!r} twice")
        estimate = estimate_mean(
            self.influence[:, first] - self.influence[:, second],
            self.weights,
            level=self.level,
            alternative="two-sided",
            nonnegative=False,
        )
        if self.degenerate[first] or self.degenerate[second]:
            nan = float("nan")
            return Contrast(estimate.value, nan, nan, nan, nan, nan, self.level)
        return Contrast(
            estimate.value,
            estimate.se,
            estimate.ci_low,
            estimate.ci_high,
            estimate.z,
            estimate.p,
            self.level,
        )

    def _position(self, name: str) -> int:
        if name in self.names:
            return self.names.index(name)
        close = difflib.get_close_matches(str(name), self.names)
        known = close or list(self.names[:10])
        lead = "did you mean" if close else "the first units are"
        raise ValueError(f"there is no unit {name!r}; {lead} {', '.join(map(repr, known))}")

    def group(self, groups: object = None) -> Importance:
        """Return the importance of groups: the sums of their members' influence values.

        Parameters
        ----------
        groups : mapping, frame or Groups, optional
            ``{group: [units]}``, ``{unit: group}`` or a 0/1 frame; groups may overlap. By
            default the groups that were given when the result was made.

        Returns
        -------
        Importance
            One unit per group. Degenerate members count as 0; a group of degenerate units
            only is degenerate. Its ``attribution`` adds over the members that receive and
            averages over the latent members that give.
        """
        if groups is None:
            if self.default_groups is None:
                raise ValueError("no groups were given: pass groups={'name': ['unit', ...], ...}")
            return self._sum_units(self.default_groups)
        if not isinstance(groups, Groups):
            groups = read_groups(groups, self.names)
        return self._sum_units(groups)

    def _sum_units(self, groups: Groups) -> Importance:
        membership = np.asarray(groups.membership, dtype=np.float64)
        if membership.shape[1] != len(self.names):
            raise ValueError(
                f"the groups are over {membership.shape[1]} units, the result has {len(self.names)}"
            )
        attribution = None
        if self.attribution is not None:
            attribution = (
                membership
                @ self.attribution
                @ (membership / membership.sum(axis=1, keepdims=True)).T
            )
        return replace(
            self,
            influence=self.influence @ membership.T,
            names=tuple(groups.names),
            space="latent" if self.space == "latent" else "group",
            degenerate=~np.any(groups.membership & ~self.degenerate, axis=1),
            spread=None,
            latent=None if self.latent is None else self.latent._sum_units(groups),
            attribution=attribution,
            default_groups=None,
        )

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the result to a file (a zip of JSON and arrays, no pickle) and return its path.

        Parameters
        ----------
        path : path-like
            Where to write; ``.dfi`` is the customary ending.
        overwrite : bool, default=False
            Whether an existing file may be replaced.
        """
        manifest, arrays = pack(self)
        return write_file(path, manifest, arrays, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Importance:
        """Read a result that :meth:`save` wrote."""
        return load(path)

    def __repr__(self) -> str:
        shown = self._ranking[:10]
        columns = self._table(None, "greater", "holm", None, simultaneous=False)
        wanted = ("score", "se", "ci_low", "ci_high", "p_adj")
        rows = [("feature", *wanted)]
        rows += [(self.names[i], *(f"{columns[key][i]:.4g}" for key in wanted)) for i in shown]
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        lines = [
            "  ".join(
                [row[0].ljust(widths[0])]
                + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
            )
            for row in rows
        ]
        n, p = self.influence.shape
        if p > len(shown):
            lines.append(f"... and {p - len(shown)} more")
        head = f"Importance ({self.space}): {p} units, {n} rows, {self.level:.4g} intervals"
        quality = f"R2 {self.quality.r2:.3f}"
        if np.isfinite(self.quality.r2_spread):
            quality += f" (spread over folds {self.quality.r2_spread:.3f})"
        return "\n".join([head, quality, *lines])


def _rebuild(values: dict[str, Any]) -> Importance:
    return Importance(**values)


def _from_fields(values: dict[str, Any]) -> Importance:
    latent = values["latent"]
    return Importance(
        **{
            **values,
            "quality": Quality(**values["quality"]),
            "latent": None if latent is None else _from_fields(latent),
        }
    )


def load(path: str | os.PathLike[str]) -> Importance:
    """Read a result that :meth:`Importance.save` wrote.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        It is not a dfi file, was written by a newer version, or is damaged.
    """
    manifest, arrays = read_file(path)
    try:
        values = unpack(manifest, arrays)
    except KeyError as error:
        raise ValueError(f"{path} is damaged: {error} is missing") from error
    return _from_fields(values)
