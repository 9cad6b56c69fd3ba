"""The result of a method: influence values by unit, and all inference on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from dfi._data.groups import Groups
from dfi._docstrings import exemplified
from dfi._models.quality import Quality
from dfi._parameters import argument, validated
from dfi._types import Space
from dfi.inference.influence import Influence, InfluenceRows, read_only
from dfi.inference.intervals import check_level
from dfi.inference.shares import UNLEARNED, UNSEEN, beside
from dfi.inference.tests import Estimate, UnitInference, estimate_one
from dfi.results import words
from dfi.results.algebra import subtracted
from dfi.results.columns import INTERVALS, OUTCOMES, RANKS, SHARES, TESTS, UNITS, frame_of, lists
from dfi.results.export import Exports
from dfi.results.file import FileFormatError, freeze, read_file, thaw, unpack
from dfi.results.local import unpack_local
from dfi.results.questions import Questions
from dfi.results.tables import (
    NO_SIGNAL,
    ShareOf,
    contrast_of,
    full_table,
    order_of,
    outcome_table,
    place_of,
    rank_table,
    ratios,
    share_table,
    total_estimate,
    unknown_total,
)
from dfi.results.text import result_text
from dfi.results.trust import findings_of, trust_of
from dfi.warnings import InferenceWarning, warn

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from dfi._data.weights import Weights
    from dfi._findings import Finding
    from dfi._types import Array, Bools, Floats, Frame, Ints
    from dfi.inference.intervals import Alternative, Expansion
    from dfi.inference.tests import Adjustment
    from dfi.results.columns import Column
    from dfi.results.file import Json
    from dfi.results.local import LocalAttributions
    from dfi.results.questions import ModelSource
    from dfi.results.trust import Trust

__all__ = ["Importance", "Quality", "load"]

_TOTALS = {"null": "the null loss", "sum": "the sum of the scores"}
_NO_UNITS = np.zeros(0, dtype=np.bool_)


@exemplified
@dataclass(frozen=True, eq=False, repr=False)
class Importance(Questions, Exports):
    r"""Importance of units, as a matrix of uncentred influence values :math:`u`.

    Score :math:`\hat\phi_l = \bar u_l` (weighted), standard error
    :math:`\operatorname{sd}(u_l)/\sqrt n`, covariance of scores
    :math:`\operatorname{Cov}(u_l, u_k)/n`, group = sum of columns, contrast = difference of
    columns, difference of two results = difference of their columns. Scores are never clipped;
    negative ones show the noise. If rows depend on each other, in clusters or in time, standard
    errors account for it (:mod:`dfi._data.dependence`), and ``spec["dependence"]`` says so.

    Made by :func:`dfi.explain`, :func:`dfi.compare` and :class:`dfi.DFI`.

    Attributes
    ----------
    basis : Influence
        Influence values by row, or their moments; those of degenerate units are set to 0.
    spec : mapping
        Specification of the estimand: transport, cost, reference law, ... (JSON-like).
    quality : Quality
        Fit of the regression.
    diagnostics : mapping
        Diagnostics of the transport and the inference (JSON-like).
    space : {"attributed", "latent", "group"}
        What the units are: features, latent coordinates or groups of features.
    degenerate : ndarray of bool of shape (p,)
        Units without variation: score 0, standard error, interval and p-value NaN.
    unrelated : ndarray of bool of shape (p,)
        Units whose dependence component no model reads: score and standard error exactly 0,
        p-value 1, interval from 0 to ``undetected``.
    undetected : ndarray of shape (p,) or None
        The score that dependence missed by the tests may give to unrelated units (95 %).
    components : tuple of tuples of str or None
        Dependence components of the features that vary; those of different ones share no signal.
    spread : ndarray of shape (p,) or None
        Standard deviation of the score between repeated splits; where halvings share a split, that
        of as many independent splits with the same error.
    nonnegative : bool
        Whether the parameter cannot be negative; intervals are then projected.
    latent : Importance or None
        The same units in the latent space.
    attribution : ndarray of shape (p, p) or None
        Entry (l, j): the share of latent unit j that is attributed to unit l.
    default_groups : Groups or None
        What :meth:`group` uses when called without groups.
    difference : bool
        Whether the scores are those of one result minus those of another. A unit that does not
        differ in any row then has a standard error of 0.
    source : ModelSource or None
        The fitted models. Neither files nor copies hold them.
    saved_local : LocalAttributions or None
        Contributions of the rows that a file holds (:meth:`save`).
    totals : Influence or None
        Two columns over the same rows: the null loss :math:`T`, and what the models explain of it,
        :math:`E`; with moments, those of the p units and of the two after them.
    parts : Influence or None
        Over the same rows: the Shapley-type part of each unit of what is explained, and last their
        sum (:mod:`dfi._latent.walks`).
    by_outcome : mapping of str to Importance
        The results of single classes or outcomes, whose sum the scores here are.

    Examples
    --------
    >>> result.scores.round(1)
    array([16.6,  7.5, -0. ])
    >>> result.se.round(1)
    array([1.6, 1.1, 0. ])
    >>> result.names, result.quality.n_rows
    (('x0', 'x1', 'x2'), 200)
    """

    basis: Influence
    names: tuple[str, ...]
    spec: Mapping[str, object]
    quality: Quality
    diagnostics: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    level: float = 0.95
    library: str = "numpy"
    space: Space = "attributed"
    degenerate: Bools = field(default_factory=lambda: _NO_UNITS)
    spread: Floats | None = None
    nonnegative: bool = True
    latent: Importance | None = None
    attribution: Floats | None = None
    default_groups: Groups | None = None
    unrelated: Bools = field(default_factory=lambda: _NO_UNITS)
    components: tuple[tuple[str, ...], ...] | None = None
    undetected: Floats | None = None
    difference: bool = False
    source: ModelSource | None = None
    totals: Influence | None = None
    parts: Influence | None = None
    by_outcome: Mapping[str, Importance] = field(default_factory=lambda: MappingProxyType({}))
    saved_local: LocalAttributions | None = None

    def __post_init__(self) -> None:
        for name, value in _checked_fields(self).items():
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[object, ...]:
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "source"}
        for name in ("spec", "diagnostics"):  # mapping proxies do not pickle
            values[name] = thaw(values[name])
        values["by_outcome"] = dict(self.by_outcome)
        return _rebuild, (values,)

    @cached_property
    def _units(self) -> UnitInference:
        return UnitInference(
            self.basis,
            self.degenerate,
            self.quality.outcome_variance,
            self.nonnegative,
            self.unrelated,
            self.undetected,
            self.difference,
            self._unlearned,
        )

    @property
    def _learning(self) -> bool:
        """Whether scores are those of models that more rows would change."""
        curve = self.diagnostics.get("learning_curve")
        # the true regression gains exactly nothing
        still = not isinstance(curve, Mapping) or curve.get("gained") != 0.0
        return still and self.spec.get("form") == "extrapolated"

    @property
    def _unlearned(self) -> float:
        """What models that still learn may miss of a score, known and unknown signal apart."""
        explained, whole = self.explained, self.null_loss
        if explained is None or not self._learning:
            return 0.0
        known = max(explained.value, 0.0)
        left = 0.0
        # most of the variance of an effect's pseudo-outcome is noise of its making
        if whole is not None and not words.is_effect(self.spec):
            left = max(whole.value - known, 0.0)
        return (UNLEARNED * known + UNSEEN * left) / float(np.sqrt(self.basis.size))

    @property
    def _by_row(self) -> InfluenceRows:
        if isinstance(self.basis, InfluenceRows):
            return self.basis
        raise ValueError(
            "this result keeps moments of its influence values, not their rows: explain with "
            f"{argument('keep_rows', True)} to keep the rows"
        )

    @property
    def influence(self) -> Floats:
        """Influence values, shape (n, p); raises ValueError if only their moments are kept."""
        return self._by_row.values

    @property
    def weights(self) -> Weights:
        """Weights of the n rows; raises ValueError if only moments are kept."""
        return self._by_row.weights

    @property
    def rows(self) -> Ints | None:
        """Positions of the n rows in the table; None if unknown, or for two tables."""
        return self._by_row.rows

    @cached_property
    def scores(self) -> Floats:
        """Scores of the units, shape (p,)."""
        return read_only(self._units.scores, np.float64)

    @cached_property
    def se(self) -> Floats:
        """Standard errors of the scores, shape (p,); NaN where none can be estimated."""
        return read_only(self._units.reported_errors, np.float64)

    @cached_property
    def skewness(self) -> Floats:
        """Skewness of the scores, shape (p,), which their intervals are corrected for."""
        return read_only(self.basis.skewness, np.float64)

    @property
    def covariance(self) -> Floats:
        """Covariance matrix of the scores, shape (p, p); NaN where ``se`` is NaN."""
        return self._units.covariance

    @property
    def total(self) -> Estimate:
        """The sum of the scores, with its standard error (overlapping groups count twice)."""
        return estimate_one(
            self.basis.total,
            level=self.level,
            alternative=self._alternative,
            nonnegative=self.nonnegative,
        )

    @property
    def explained(self) -> Estimate | None:
        """The part of the null loss that the models explain, with its error; None if unknown."""
        return total_estimate(self, 1)

    @property
    def null_loss(self) -> Estimate | None:
        """The loss of the mean outcome (the prevalence), with its error; None if unknown."""
        return total_estimate(self, 0)

    @property
    def interaction(self) -> Estimate | None:
        r"""An upper bound on the share of interactions: :math:`\sum_j T_j / E - 1`.

        :math:`T_j` are the total effects of the latent units, which count an interaction once for
        each of its units, :math:`E` what is explained. 0 for additive regressions, the share of the
        interactions where these are of pairs, more where three or more units act together. Latent
        units, as correlation alone makes one effect of several features. None where it is not
        known, and of a single unit.
        """
        if self.parts is not None:
            *parts, whole = self.parts.mean
            if abs(sum(parts) - whole) > 1e-6 * abs(whole):
                return None  # some units are in no group, or in several
        known = self.latent is not None and self.latent.totals is not None
        units = self.latent if self.latent is not None and known else self
        if len(units.names) == 1:
            return None
        found = ratios(units, "explained", np.ones((1, len(self.names))), scores=True)
        if found is None or not np.isfinite(found.values[0]):
            return None
        columns = found.columns(self.level, nonnegative=False)
        value, low, high, error = (
            float(columns[key][0]) for key in ("share", "ci_low", "ci_high", "se")
        )
        nan = float("nan")
        return Estimate(value - 1.0, error, low - 1.0, high - 1.0, nan, nan, self.level)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """All findings about the result, the most severe first."""
        return findings_of(self)

    @cached_property
    def trust(self) -> Trust:
        """How far to trust it: a grade, its reasons, and the same by feature."""
        return trust_of(self)

    @cached_property
    def _beside_totals(self) -> Influence | None:
        """Units and totals as columns of one; None where how they depend is not known."""
        if self.totals is None or self.totals.n_units > 2:
            return self.totals
        if isinstance(self.basis, InfluenceRows) and isinstance(self.totals, InfluenceRows):
            return beside(self.basis, self.totals)
        return None

    @validated
    @lists(SHARES)
    def shares(self, of: ShareOf = "explained", level: float | None = None) -> Frame:
        r"""Return shares with standard errors; those of the explained variance add up to 1.

        With :math:`e = \eta - \bar y` and :math:`\psi_l` the attributed Shapley value of a row, a
        unit's part of what is explained is :math:`u_l = (y - \eta + \tfrac12 e)\,2\psi_l`, for two
        models the mean of both products (:mod:`dfi._latent.walks`). Shares :math:`r_l = \bar u_l
        / \bar u^D` have the influence values :math:`u^r_{il} = r_l + (u_{il} - r_l u^D_i)/\bar
        u^D`: part and total come from the same rows, so common error cancels. Parts cannot be
        negative: where an estimate is, ``share`` is the nearest point at which none is. Errors and
        tests, which are one-sided, are those of the estimates.

        Parameters
        ----------
        of : {"explained", "null", "sum"}, default="explained"
            The total :math:`D`: the explained variance; or, for scores, the null loss (for squared
            error, the outcome's variance) or their sum. Shares of the explained variance divide an
            interaction evenly between its units; scores count it for each of them.

        Raises
        ------
        ValueError
            The result does not hold the total: a difference.

        Warns
        -----
        InferenceWarning
            The total is not clearly above 0, and shares of it are NaN.

        Examples
        --------
        >>> result.shares().iloc[:, :5].round(2)
          feature  share    se  ci_low  ci_high
        0      x0   0.69  0.02    0.65     0.73
        1      x1   0.31  0.02    0.27     0.35
        2      x2   0.00  0.00    0.00     0.00
        """
        columns = share_table(self, of, level)
        if not columns:
            raise ValueError(unknown_total(of))
        if np.isnan(columns["share"]).all():
            unclear = NO_SIGNAL.format(_TOTALS.get(of, words.explained_of(self.spec)))
            warn(f"{unclear}: shares of it mean nothing and are NaN", InferenceWarning)
        return self._frame(columns, SHARES)

    @property
    def _alternative(self) -> Alternative:
        return "two-sided" if self.difference else "greater"

    def _frame(
        self, columns: Mapping[str, Array], schema: Sequence[Column], order: Ints | None = None
    ) -> Frame:
        full = {"feature": np.array(self.names, dtype=object), **columns}
        return frame_of(schema, full, self.library, order)

    @validated
    @lists(UNITS)
    def table(
        self,
        *,
        level: float | None = None,
        alternative: Alternative | None = None,
        adjust: Adjustment | None = "holm",
        expansion: Expansion | None = None,
        simultaneous: bool = False,
        sort: bool = True,
        by: Literal["outcome"] | None = None,
    ) -> Frame:
        """Return all units with their inference, in the caller's dataframe library.

        ``share`` is that of what is explained, from ``share_low`` to ``share_high``, left out where
        the result does not know it; ``se``, ``ci_low`` and ``ci_high`` are those of the ``score``.
        A unit that is ``unrelated`` to everything that the model reads has a score of exactly 0, a
        p-value of 1, and an interval that ends where dependence could have been missed.

        Parameters
        ----------
        by : {None, "outcome"}, default=None
            ``"outcome"``: one row for each unit and class (or outcome), with the class in a column
            ``outcome``; shares and ``adjust`` apply within that class.

        Examples
        --------
        >>> result.table()[["feature", "share", "score", "se"]].round(2)
          feature  share  score    se
        0      x0   0.69  16.58  1.57
        1      x1   0.31   7.46  1.12
        2      x2   0.00  -0.01  0.02
        """
        options: dict[str, Any] = {
            "level": level,
            "alternative": alternative,
            "adjust": adjust,
            "expansion": expansion,
            "simultaneous": simultaneous,
        }
        order = order_of(self) if sort else None
        if by is None:
            return self._frame(full_table(self, **options), UNITS, order)
        if not self.by_outcome:
            raise ValueError("this result has one outcome: it has no table by outcome")
        rows = np.arange(len(self.names)) if order is None else order
        return frame_of(OUTCOMES, outcome_table(self, rows, **options), self.library)

    @validated
    def top(self, k: int) -> Frame:
        """Return the first ``k`` rows of :meth:`table`; ``p_adj`` still counts all units.

        A column ``certain`` tells which are surely among the first ``k`` (``rank_high <= k`` in
        :meth:`ranks`). Those with ``rank_low <= k`` there may be, and can be more than ``k``.

        Parameters
        ----------
        k : int
            How many rows, at least one.

        Examples
        --------
        >>> result.top(1)[["feature", "certain"]]
          feature  certain
        0      x0     True
        """
        columns: dict[str, Array] = dict(full_table(self))
        columns["certain"] = rank_table(self)["rank_high"] <= k
        return self._frame(columns, UNITS, order_of(self)[:k])

    @validated
    @lists(RANKS)
    def ranks(self, level: float | None = None, *, random_state: int = 0) -> Frame:
        """Return the rank of each unit with a confidence set, the largest share first.

        The rank of a unit is 1 and the number of units above it. The sets hold jointly, by a
        step-down max-t procedure on all differences of two units (:mod:`dfi.inference.ranks`). For
        one pair that was chosen before the scores were seen, :meth:`contrast` is sharper. Where the
        transport was taken as known (``transport_error="ignore"``) the sets are too narrow, and the
        bias of a regression is not in them.

        Examples
        --------
        >>> result.ranks()
          feature  rank  rank_low  rank_high
        0      x0     1         1          1
        1      x1     2         2          2
        2      x2     3         3          3
        """
        return self._frame(rank_table(self, level, random_state), RANKS, order_of(self))

    @validated
    @lists(INTERVALS)
    def interval(
        self,
        level: float | None = None,
        *,
        expansion: Expansion | None = None,
        simultaneous: bool = False,
        skewness: bool = True,
        alternative: Alternative = "two-sided",
        random_state: int = 0,
    ) -> Frame:
        """Return the confidence interval of each unit, in the order of ``names``.

        Parameters
        ----------
        skewness : bool, default=True
            Whether the intervals are corrected for the skewness of the influence values (Hall's
            transformation and a t distribution; :mod:`dfi.inference.intervals`). Expanded ones are
            not.
        alternative : {"two-sided", "greater", "less"}, default="two-sided"
            Intervals, lower bounds or upper bounds.

        Examples
        --------
        >>> result.interval(0.9).round(1)
          feature  ci_low  ci_high
        0      x0    14.2     19.7
        1      x1     5.7      9.5
        2      x2    -0.0      0.0
        """
        return self._frame(
            self._units.intervals(
                level=self.level if level is None else level,
                alternative=alternative,
                expansion=expansion,
                simultaneous=simultaneous,
                skewness=skewness,
                random_state=random_state,
            ),
            INTERVALS,
        )

    @validated
    @lists(TESTS)
    def test(
        self,
        alternative: Alternative | None = None,
        adjust: Adjustment | None = "holm",
        *,
        null: float = 0.0,
        expansion: Expansion | None = None,
    ) -> Frame:
        """Test each score against ``null``, in the order of ``names``.

        Parameters
        ----------
        null : float, default=0.0
            Value under the null hypothesis.

        Examples
        --------
        >>> tested = result.test(adjust="bh")
        >>> tested["feature"][tested["p_adj"] < 0.05].tolist()
        ['x0', 'x1']
        """
        tests = self._units.tests(
            level=self.level,
            alternative=self._alternative if alternative is None else alternative,
            adjust=adjust,
            null=null,
            expansion=expansion,
        )
        return self._frame({"score": self.scores, **tests}, TESTS)

    @validated
    def contrast(self, a: str, b: str, of: ShareOf | None = None) -> Estimate:
        """Return the difference of the scores (or shares) of ``a`` and ``b``, with inference.

        Interval and test are two-sided. With a degenerate unit there is no standard error. Ask it
        of two units that were chosen before the scores were seen, such as two measurements of one
        thing; who leads the list is for :meth:`ranks`, which compares all pairs at once.

        Parameters
        ----------
        a, b : str
            Names of two units.
        of : {None, "explained", "null", "sum"}, default=None
            Compare shares of this total (:meth:`shares`), not scores.

        Examples
        --------
        >>> difference = result.contrast("x0", "x1")
        >>> round(difference.value), difference.p < 0.001
        (9, True)
        >>> round(result.contrast("x0", "x1", of="explained").value, 2)
        0.37
        """
        first, second = place_of(a, self.names), place_of(b, self.names)
        if first == second:
            raise ValueError(f"contrast needs two different units, got {a!r} twice")
        signs = np.zeros((1, len(self.names)))
        signs[0, first], signs[0, second] = 1.0, -1.0
        found = contrast_of(self, of, signs)
        if self.degenerate[first] or self.degenerate[second]:
            nan = float("nan")
            found = Estimate(found.value, nan, nan, nan, nan, nan, self.level)
        return replace(found, contrast=True)

    @validated
    def moments(self, sample: int = 0, *, random_state: int = 0) -> Importance:
        """Return the same result without its rows: a few kilobytes, however many rows.

        Scores, standard errors, intervals, tests, groups and contrasts equal those of the rows up
        to rounding; simultaneous bands have the same law but other draws. Beyond 32 units the
        skewness of groups is estimated from the sample of rows; without one, ask for
        ``skewness=False``.

        Parameters
        ----------
        sample : int, default=0
            How many rows to keep.

        Examples
        --------
        >>> small = result.moments()
        >>> bool(abs(small.se - result.se).max() < 1e-9)
        True
        """

        def few(part: Any) -> Any:
            return None if part is None else part.moments(sample, random_state=random_state)

        return replace(
            self,
            basis=few(self.basis),
            source=None,
            saved_local=None,
            latent=few(self.latent),
            totals=few(self._beside_totals or self.totals),
            parts=few(self.parts),
            by_outcome={name: few(part) for name, part in self.by_outcome.items()},
        )

    def __sub__(self, other: Importance) -> Importance:
        if not isinstance(other, Importance):
            return NotImplemented
        return self.minus(other)

    @validated
    def minus(self, other: Importance, *, same_rows: bool | None = None) -> Importance:
        r"""Return how much more important each unit is here than in another result: ``a - b``.

        On the same rows influence values are subtracted row by row, :math:`\operatorname{sd}(u_l -
        v_l)/\sqrt n`: what the two results share cancels. On different tables variances add,
        :math:`\hat\sigma_u^2 + \hat\sigma_v^2`. Rows that two results share carry the covariance.
        Scores have either sign, tests are two-sided by default, intervals are not projected, and
        ``spec["difference"]`` says what differs.

        Parameters
        ----------
        other : Importance
            A result for the same units in the same space, by the same method and loss. Models,
            transports, splits, seeds and data may differ.
        same_rows : bool, optional
            Whether both are about one table, row by row. By default that is so where the
            fingerprints of the data (``spec["data_sha256"]``) agree; other tables are taken for
            independent samples. Pass True for the same rows with transformed features or other
            weights.

        Raises
        ------
        ValueError
            The units, the space, or an entry of ``MUST_AGREE`` in the specifications differ, or it
            is not known whether the rows are the same.

        Examples
        --------
        >>> linear = dfi.explain(sample.X, sample.y, "linear", cv=2)
        >>> ridge = dfi.explain(sample.X, sample.y, "ridge", cv=2)
        >>> bool(ridge.minus(linear).se[0] < linear.se[0])  # what they share cancels
        True
        """
        return subtracted(self, other, same_rows)

    @classmethod
    @validated
    def load(cls, path: str | os.PathLike[str]) -> Importance:
        """Read a result that :meth:`save` wrote, as :func:`dfi.load` does.

        Parameters
        ----------
        path : str or path
            The file.

        Examples
        --------
        >>> dfi.Importance.load(result.save("result.dfi")).names
        ('x0', 'x1', 'x2')
        """
        return load(path)

    def __repr__(self) -> str:
        return result_text(self)


def _rebuild(record: dict[str, Json]) -> Importance:
    """Return the result of its fields; latent and single results may come as fields too."""
    latent = record["latent"]
    parts = {
        name: _rebuild(part) if isinstance(part, dict) else part
        for name, part in record["by_outcome"].items()
    }
    latent = _rebuild(latent) if isinstance(latent, dict) else latent
    return Importance(**{**record, "latent": latent, "by_outcome": parts})


@validated
def load(path: str | os.PathLike[str]) -> Importance:
    """Read a result that :meth:`Importance.save` wrote, without the fitted models.

    Parameters
    ----------
    path : str or path
        The file.

    Raises
    ------
    FileFormatError
        A ValueError: it is not a dfi file, has another format version, or is damaged.

    Examples
    --------
    >>> path = result.save("result.dfi")
    >>> dfi.load(path).scores.round(1)
    array([16.6,  7.5, -0. ])
    """
    manifest, arrays = read_file(path)
    try:
        with np.errstate(over="ignore"):
            result = _rebuild(unpack(manifest, arrays))
            if manifest.get("local") is not None:
                result = replace(result, saved_local=unpack_local(manifest["local"], arrays))
            if not np.isfinite(result.scores).all():
                raise ValueError("its scores are too large to represent")  # noqa: TRY301
        return result  # noqa: TRY300
    except KeyError as error:
        raise FileFormatError(f"{path} is damaged: {error} is missing") from error
    except Exception as error:
        # a manifest that was made up may say anything, deeper than Python counts or larger than
        # memory is
        reason = " ".join(str(error).split()) or type(error).__name__
        raise FileFormatError(f"{path} is damaged: {reason}") from error


def _checked_fields(result: Importance) -> dict[str, object]:
    _check_totals(result)
    basis, names, level = result.basis, tuple(result.names), check_level(result.level)
    p = basis.n_units
    if p != len(names):
        raise ValueError(
            f"influence must have one column for each of the {len(names)} names, "
            f"got shape {(basis.n_rows, p)}"
        )
    if len(set(names)) != p:
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"names must be unique, but {repeated!r} appears more than once")
    by_row = (
        basis.values
        if isinstance(basis, InfluenceRows)
        else np.stack([basis.mean, np.diag(basis.covariance)])
    )
    finite = np.isfinite(by_row).all(axis=0)
    if not finite.all():
        raise ValueError(
            f"the influence values of {names[int(np.argmin(finite))]!r} have NaN or inf"
        )
    if result.space not in get_args(Space):
        raise ValueError(f"space must be one of {', '.join(get_args(Space))}, got {result.space!r}")
    flags = {}
    for name in ("degenerate", "unrelated"):
        flag = getattr(result, name)
        empty = flag is None or np.size(flag) == 0
        flags[name] = np.zeros(p, dtype=np.bool_) if empty else np.asarray(flag, dtype=np.bool_)
    arrays = {name: getattr(result, name) for name in ("undetected", "spread", "attribution")}
    for name, array in {**flags, **arrays}.items():
        shape = (p, p) if name == "attribution" else (p,)
        if array is not None and np.shape(array) != shape:
            raise ValueError(f"{name} must have shape {shape}, got {np.shape(array)}")
    if result.latent is not None and len(result.latent.names) != p:
        raise ValueError(f"the latent result has {len(result.latent.names)} units for {p} names")
    if not result.difference:  # what varies in one of two results differs all the same
        basis = basis.zeroed(flags["degenerate"])
    unrelated = flags["unrelated"] & ~flags["degenerate"]
    if by_row[:, unrelated].any():
        moved = names[int(np.argmax(unrelated & by_row.any(axis=0)))]
        raise ValueError(f"{moved!r} is listed as unrelated, but its influence values are not 0")
    for name, part in result.by_outcome.items():
        if part.names != names:
            raise ValueError(f"the result of the outcome {name!r} has other units")
    groups = result.default_groups
    return {
        "by_outcome": MappingProxyType(dict(result.by_outcome)),
        "basis": basis,
        "names": names,
        "default_groups": (
            None
            if groups is None
            else Groups(groups.names, read_only(groups.membership, np.bool_), result.names)
        ),
        "spec": freeze(result.spec, "spec"),
        "diagnostics": freeze(result.diagnostics, "diagnostics"),
        "level": level,
        "components": None if result.components is None else tuple(map(tuple, result.components)),
        **{name: read_only(flag, np.bool_) for name, flag in flags.items()},
        **{
            name: None if array is None else read_only(array, np.float64)
            for name, array in arrays.items()
        },
    }


def _check_totals(result: Importance) -> None:
    """Raise if the totals are not two columns over the rows of the units."""
    totals, p = result.totals, result.basis.n_units
    if totals is None:
        return
    if result.difference:
        raise ValueError("a difference of two results has no totals")
    joint = not isinstance(totals, InfluenceRows) and totals.n_units == p + 2
    if totals.n_units != 2 and not joint:
        raise ValueError(f"totals must have two columns, got {totals.n_units}")
    if totals.n_rows != result.basis.n_rows:
        raise ValueError(
            f"totals must be of the {result.basis.n_rows} rows of the units, got {totals.n_rows}"
        )
    parts = result.parts
    if parts is not None and (parts.n_units, parts.n_rows) != (p + 1, result.basis.n_rows):
        raise ValueError(
            f"parts must be {p + 1} columns of the {result.basis.n_rows} rows of the units, got "
            f"{parts.n_units} of {parts.n_rows}"
        )
