"""The result of a method: influence values by unit, with everything that follows from them."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from dfi._data.groups import read_groups
from dfi._models.quality import Quality
from dfi.inference.estimate import Contrast, Estimate, contrast_means, estimate_mean
from dfi.inference.units import UnitInference
from dfi.results.file import thaw, write_file
from dfi.results.groups import sum_units
from dfi.results.record import Space, checked_fields, pack, read_only, read_result
from dfi.results.tables import known_errors, position_of, unit_columns, unit_frame
from dfi.results.text import describe

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from pathlib import Path

    from dfi._data.groups import Groups
    from dfi._data.weights import Weights
    from dfi._types import Bools, Floats, Ints
    from dfi.inference.intervals import Alternative, Expansion
    from dfi.inference.multiplicity import Adjustment

    Booleans = Bools

__all__ = ["Importance", "Quality", "load"]


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
    unrelated : ndarray of bool of shape (p,), optional
        Units whose dependence component no model reads: score and standard error exactly 0,
        p-value 1, interval from 0 to ``undetected``.
    undetected : ndarray of shape (p,), optional
        Of unrelated units, the score that dependence missed by the tests may give them (95 %);
        0 where the caller said what belongs together, and for other units.
    components : tuple of tuples of str, optional
        The dependence components of the features, those that do not vary left out; None where
        the transport has none. Features of different components share no signal.
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
    unrelated: Booleans = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    components: tuple[tuple[str, ...], ...] | None = None
    undetected: Floats | None = None

    def __post_init__(self) -> None:
        for name, value in checked_fields(self).items():
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        for name in ("spec", "diagnostics"):  # mapping proxies do not pickle
            values[name] = thaw(values[name])
        return _rebuild, (values,)

    @cached_property
    def _units(self) -> UnitInference:
        return UnitInference(
            self.influence,
            self.weights,
            self.degenerate,
            self.quality.outcome_variance,
            self.nonnegative,
            self.unrelated,
            self.undetected,
        )

    @cached_property
    def scores(self) -> Floats:
        """Scores of the units, shape (p,)."""
        return read_only(self._units.scores, np.float64)

    @cached_property
    def se(self) -> Floats:
        """Standard errors of the scores, shape (p,); NaN where none can be estimated."""
        return read_only(known_errors(self._units), np.float64)

    @cached_property
    def skewness(self) -> Floats:
        """Skewness of the scores, shape (p,), which their intervals are corrected for."""
        return read_only(self._units.skewness, np.float64)

    @property
    def covariance(self) -> Floats:
        """Covariance matrix of the scores, shape (p, p); NaN where ``se`` is NaN."""
        return self._units.covariance

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

    @property
    def _ranking(self) -> Ints:
        return np.argsort(-self.scores, kind="stable")

    def _frame(self, columns: Mapping[str, Floats], order: Ints | None = None) -> Any:
        return unit_frame(self.names, columns, self.library, order)

    def _table(self, **options: Any) -> dict[str, Floats]:
        return unit_columns(self._units, self.level, **options)

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
            Columns feature, score, se, ci_low, ci_high, z, p, p_adj. A unit that is
            ``unrelated`` to everything that the model reads has a score of exactly 0, a p-value
            of 1, and an interval that ends where dependence could have been missed.
        """
        columns = self._table(
            level=level,
            alternative=alternative,
            adjust=adjust,
            expansion=expansion,
            simultaneous=simultaneous,
        )
        return self._frame(columns, self._ranking if sort else None)

    def top(self, k: int) -> Any:
        """Return the first ``k`` rows of :meth:`table`; ``p_adj`` still counts all units."""
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
            raise ValueError(f"k must be a positive integer, got {k!r}")
        return self._frame(self._table(), self._ranking[:k])

    def interval(
        self,
        level: float | None = None,
        *,
        expansion: Expansion | None = None,
        simultaneous: bool = False,
        skewness: bool = True,
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
        skewness : bool, default=True
            Whether the intervals are corrected for the skewness of the influence values (Hall's
            transformation; :mod:`dfi.inference.skewness`). Simultaneous and expanded ones are not.
        alternative : {"two-sided", "greater", "less"}, default="two-sided"
            Intervals, lower bounds or upper bounds.
        random_state : int, default=0
            Seed of the multiplier bootstrap.

        Returns
        -------
        frame
            Columns feature, ci_low, ci_high.
        """
        return self._frame(
            self._units.intervals(
                level=self.level if level is None else level,
                alternative=alternative,
                expansion=expansion,
                simultaneous=simultaneous,
                skewness=skewness,
                random_state=random_state,
            )
        )

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
        tests = self._units.tests(
            level=self.level,
            alternative=alternative,
            adjust=adjust,
            null=null,
            expansion=expansion,
        )
        return self._frame({"score": self.scores, **tests})

    def contrast(self, a: str, b: str) -> Contrast:
        """Return the score of ``a`` minus the score of ``b`` with its inference.

        The interval is two-sided at the level of the result, the test two-sided. With a
        degenerate unit the difference has no standard error.
        """
        first, second = position_of(a, self.names), position_of(b, self.names)
        if first == second:
            raise ValueError(f"contrast needs two different units, got {a!r} twice")
        return contrast_means(
            self.influence[:, first],
            self.influence[:, second],
            self.weights,
            level=self.level,
            known=not (self.degenerate[first] or self.degenerate[second]),
        )

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
            return sum_units(self, self.default_groups)
        return sum_units(self, read_groups(groups, self.names))

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

    def plot(self, kind: str = "importance", **options: Any) -> Any:
        """Draw the result: a function of :mod:`dfi.plots` by name; returns its Axes.

        Parameters
        ----------
        kind : {"importance", "latent_attributed", "attribution", "amplification", "groups", \
                "diagnostics"}, default="importance"
            What to draw.
        **options
            ``top``, ``ax`` and what else the function takes.
        """
        # pyplot takes half a second to import: only those who plot pay for it
        from dfi.plots import plot_result

        return plot_result(self, kind, **options)

    def report(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write one offline HTML page about the result and return its path.

        ``options`` are those of :func:`dfi.report.write_report`: ``title``, ``target``,
        ``groups``, ``overwrite``.
        """
        from dfi.report import write_report

        return write_report(self, path, **options)

    def _repr_html_(self) -> str:
        from dfi.report import compact_html

        return compact_html(self)

    def __repr__(self) -> str:
        n, p = self.influence.shape
        order = self._ranking
        return describe(
            f"Importance ({self.space}): {p} units, {n} rows, {self.level:.4g} intervals",
            self.quality,
            [self.names[unit] for unit in order],
            {key: values[order] for key, values in self._table().items()},
            unrelated=int(np.sum(self.unrelated)),
        )


def _rebuild(values: dict[str, Any]) -> Importance:
    return Importance(**values)


def load(path: str | os.PathLike[str]) -> Importance:
    """Read a result that :meth:`Importance.save` wrote.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    FileFormatError
        A ValueError: it is not a dfi file, was written by a newer version, or is damaged.
    """
    return read_result(path, Importance)
