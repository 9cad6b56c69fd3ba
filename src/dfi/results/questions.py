"""Further questions to a result: groups, levels, single rows, short lists, pairs, splits.

Most of it asks the fitted models, which files and copies of a result do not hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, cast

import numpy as np

from dfi._data.frames import as_frame
from dfi._data.groups import read_groups
from dfi._docstrings import exemplified
from dfi._parameters import InvalidParameterError, argument, name_groups, validated
from dfi.inference.influence import InfluenceRows
from dfi.results.algebra import summed, warn_of_sums
from dfi.results.columns import ASPECTS, LEVELS, lists
from dfi.results.interactions import named_pairs
from dfi.results.levels import aspect_columns, level_columns
from dfi.results.local import saved_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._types import Frame, GroupsLike, Ints, TableLike
    from dfi.results.importance import Importance
    from dfi.results.interactions import Interactions
    from dfi.results.keep import KeepList
    from dfi.results.local import LocalAttributions
    from dfi.results.split import Split
    from dfi.results.tree import SignalTree

GroupScores = Literal["sum", "joint", "shapley"]
"""How a group is scored: by the sum of its columns, as one, or by what it adds along orders."""


class ModelSource(Protocol):
    """The fitted models behind a result."""

    def grouped(self, groups: GroupsLike, how: Literal["joint", "shapley"]) -> Importance: ...

    def aspects(self) -> dict[str, Importance]: ...

    def local(
        self,
        rows: object = None,
        *,
        X: TableLike = None,
        sample: int | None = None,
        outcome: str | None = None,
        scale: Literal["response", "margin"] | None = None,
        refine: int | None = None,
        background: int = 200,
    ) -> LocalAttributions: ...

    def keep(self, share: float, level: float) -> KeepList: ...

    def interactions(
        self, pairs: Sequence[tuple[int, int]] | None, leading: Ints, top: int
    ) -> Interactions: ...

    def split(self, names: tuple[str, ...], parts: InfluenceRows) -> Split: ...


class Asked:
    """A part of :class:`dfi.Importance` in its own module."""

    @property
    def _result(self) -> Importance:
        return cast("Importance", self)


@exemplified
class Questions(Asked):
    """The further questions of an :class:`dfi.Importance`."""

    def _models(self, what: str, instead: str) -> ModelSource:
        """Return the fitted models, or raise where a result does not hold them."""
        result = self._result
        if result.spec.get("method") != "dfi":
            raise ValueError(
                f"{what} need a result of method 'dfi', but this one is from "
                f"{result.spec.get('method')!r}: {instead}"
            )
        if result.space == "latent":
            raise ValueError(
                f"{what} are for features, but this result is about latent coordinates: ask the "
                "result itself, not its latent part"
            )
        if result.source is None:
            raise ValueError(
                f"{what} need the fitted models, which loaded, copied, subtracted or reduced "
                f"results do not have: {instead}"
            )
        return result.source

    @validated
    def group(self, groups: GroupsLike = None, how: GroupScores = "sum") -> Importance:
        """Return the importance of groups of units.

        Parameters
        ----------
        groups : mapping, frame or Groups, optional
            ``{group: [units]}``, ``{unit: group}`` or a 0/1 frame; groups may overlap. By default
            the groups passed to ``explain``.
        how : {"sum", "joint", "shapley"}, default="sum"
            ``"sum"`` adds up the members' influence values, for every result. ``"joint"`` replaces
            each group as one, as ``explain(units="groups")`` does: shared signal and noise within a
            group count once. ``"shapley"`` is what a group adds to the loss, averaged over the
            orders of replacing groups: these scores add up to R2 times the variance, groups share
            evenly what they have in common, and columns of no group are one more unit. The latter
            two ask the fitted models.

        Returns
        -------
        Importance
            One unit per group; ``spec["group_scores"]`` says which. In a sum, degenerate members
            count as 0, and ``attribution`` adds over the members that receive and averages over the
            latent members that give.

        Warns
        -----
        InferenceWarning
            A sum over many columns: fewer than two rows for each, or 50 and more in a group.

        Examples
        --------
        >>> grouped = result.group({"pair": ["x0", "x1"], "other": ["x2"]})
        >>> grouped.names, grouped.scores.round(1)
        (('pair', 'other'), array([24., -0.]))
        >>> result.group({"pair": ["x0", "x1"]}, how="joint").spec["group_scores"]
        'joint'
        """
        result = self._result
        if how != "sum":
            again = f"{argument('feature_groups', ...)}, {argument('units', 'groups')}"
            instead = f"use how='sum', or explain again with {again}"
            source = self._models(f"{how} scores of groups", instead)
            if groups is not None or result.default_groups or result.spec.get("units") == "groups":
                return source.grouped(groups, how)
        chosen = result.default_groups if groups is None else read_groups(groups, result.names)
        if chosen is None:
            raise InvalidParameterError("no groups were given", "groups", name_groups())
        warn_of_sums(result, chosen)
        return summed(result, chosen)

    @validated
    @lists(LEVELS)
    def by_level(self, *, level: float | None = None) -> Frame:
        r"""Return the scores of a distribution at each of its levels.

        At level q the outcome is :math:`1\{y \le t_q\}`, scored by the Brier score: it shows which
        features move the lower tail, the middle and the upper tail. The mean over levels is the
        score.

        Examples
        --------
        >>> whole.by_level().shape
        (27, 8)
        """
        return as_frame(level_columns(self._result, level), self._result.library)

    @validated
    @lists(ASPECTS)
    def aspects(self, *, level: float | None = None) -> Frame:
        """Return scores for the mean, the spread and the tails side by side.

        The mean is explained as :func:`dfi.explain` does by default, the spread as the logarithm
        of absolute residuals, and tails are means over the levels of a third of the distribution.
        Aspects have different units: compare features within one, and p-values.

        Examples
        --------
        >>> list(whole.aspects()["aspect"][:5])
        ['mean', 'spread', 'lower tail', 'middle', 'upper tail']
        """
        return as_frame(aspect_columns(self._result, level), self._result.library)

    @validated
    def local(
        self,
        rows: object = None,
        *,
        X: TableLike = None,
        sample: int | None = None,
        outcome: str | None = None,
        scale: Literal["response", "margin"] | None = None,
        refine: int | None = None,
        background: int = 200,
    ) -> LocalAttributions:
        r"""Return what each unit contributes to the predictions of single rows.

        Contributions add up to the row's prediction minus the base, the mean prediction: :math:`c_l
        = \sum_j L_{lj}^2 \psi_j`, the latent Shapley values shared out as scores are
        (:mod:`dfi._latent.players`). A row of the table is explained by the models that did not see
        it, a new row by all models.

        Parameters
        ----------
        rows : int, slice, mask or sequence of int, optional
            Positions of rows in the table, as in ``X.iloc``; all rows by default.
        X : dataframe or array, optional
            New rows with the columns of the table, instead of ``rows``; the outcome and columns
            that were left out may be among them.
        sample : int, optional
            Number of rows to draw at random, instead of ``rows``.
        outcome : str, optional
            Which of several classes (its probability is explained) or outcomes; the last by
            default.
        scale : {"response", "margin"}, optional
            The prediction (a probability for classes), or the log-odds of a classifier of two
            classes; by default the scale of the scores.
        refine : int, optional
            The formula is exact for interactions of two features; with ``refine`` for those of
            four, up to the noise of so many random designs of coalitions, each of which calls the
            model two to four times per unit and row. Take 128 where ``higher_order`` is above 1;
            fewer may make things worse.

        Raises
        ------
        ValueError
            The result holds neither its models nor, from a file, contributions of these rows; its
            transport has no local contributions (``epsilon > 0``, curved ones); or a row is not
            there.

        Examples
        --------
        >>> local = result.local([0, 1])
        >>> local.values.shape
        (2, 3)
        >>> bool(abs(local.base + local.values.sum(axis=1) - local.prediction).max() < 1e-9)
        True
        """
        if sum(given is not None for given in (rows, X, sample)) > 1:
            raise ValueError(
                "pass one of the three: rows=... (positions in the table), sample=... (a number "
                "of rows) or X=... (new rows)"
            )
        saved = self._result.saved_local
        if self._result.source is None and saved is not None and X is None and sample is None:
            asked = {"outcome": outcome, "scale": scale, "refine": refine}
            return saved_rows(saved, rows, asked, self._result.quality.n_rows)
        source = self._models("local contributions", "call local on the result of explain")
        return source.local(
            rows,
            X=X,
            sample=sample,
            outcome=outcome,
            scale=scale,
            refine=refine,
            background=background,
        )

    @validated
    def keep(self, share: float = 0.95, level: float = 0.9) -> KeepList:
        r"""Return the smallest set of units that keeps a share of the signal, with confidence.

        A set ``S`` loses :math:`\{R(\mu_S) - R(\mu)\}/\{R(\bar y) - R(\mu)\}` of what all units
        explain. On half of the rows, units are left out one by one, each time the one whose absence
        costs refitted models least. On the other half, models refitted on these sets measure their
        losses, from the largest set down, until one may lose more than ``1 - share``
        (:mod:`dfi.methods.keep`). With probability ``level``, the chosen set loses less.

        Parameters
        ----------
        share : float, default=0.95
            The share of the signal that the set must keep.
        level : float, default=0.9
            The confidence that it does.

        Raises
        ------
        ValueError
            The result does not hold its models, or these cannot be refitted (``cv="prefit"``).

        Warns
        -----
        InferenceWarning
            The explained variance is not clearly above 0: all units are kept.

        Notes
        -----
        A category, a column with missing values and a group (``units="groups"``) stay or go as a
        whole. The loss includes the bias of the regression: a learner that misses what a unit adds
        will drop it.

        Examples
        --------
        >>> sample = dfi.datasets.m1(500, rho=0.8, d=4)
        >>> found = dfi.explain(sample.X, sample.y, "linear", cv=2).keep(share=0.8)
        >>> found.kept, len(found.dropped)
        (('x0',), 3)
        """
        models = self._models("lists of features to keep", "call keep on the result of explain")
        return models.keep(share, level)

    @validated
    def tree(self) -> SignalTree:
        """Return a tree of the units by how much signal they share.

        :class:`dfi.SignalTree` has the formula. It needs no models: results from files have it too.

        Raises
        ------
        ValueError
            The result has no shares of latent coordinates (other methods, differences), units
            overlap, or nothing is clearly explained.

        Examples
        --------
        >>> tree.cut(share=0.3)
        {'x0 + x1': ['x0', 'x1'], 'x2': ['x2']}
        """
        from dfi.results.tree import signal_tree

        return signal_tree(self._result)

    @validated
    def interactions(
        self, pairs: Sequence[tuple[str, str]] | None = None, top: int = 20
    ) -> Interactions:
        """Return which features act together: scores of pairs, beyond additive effects.

        The score of a pair is the variance that the two explain together and no sum of functions
        of single features explains, shared out to features as scores are
        (:mod:`dfi._scoring.pairs`).

        Parameters
        ----------
        pairs : sequence of tuples of two str, optional
            Pairs of units by name. By default all pairs of up to twelve units; of more units those
            of the ten leading ones and the ``top`` best of a screening without models (products of
            Hermite polynomials with the outcome).
        top : int, default=20
            How many pairs screening adds.

        Raises
        ------
        ValueError
            The result does not hold its models, its loss is not squared error or the Brier score,
            its transport has no straight lines, there is one unit, or a name is unknown.

        Notes
        -----
        The models that did not see a row are asked about it; of more than 4000 rows a random
        sample. Other pairs count as 0 where scores are attributed, and as tested where p-values
        are adjusted.

        Examples
        --------
        >>> X = np.random.default_rng(0).standard_normal((400, 3))
        >>> result = dfi.explain(X, X[:, 0] * X[:, 1] + X[:, 2], cv=2)
        >>> result.interactions().pairs[0]
        ('x0', 'x1')
        """
        source = self._models("interactions", "call interactions on the result of explain")
        result = self._result
        asked = None if pairs is None else named_pairs(pairs, result.names)
        return source.interactions(asked, np.argsort(-result.scores, kind="stable"), top)

    def split(self) -> Split:
        """Decompose the share of each feature: unique, shared (and with whom), interaction.

        :class:`dfi.Split` has the formula: the three parts add up to the share, and each has an
        interval of its own. Given the others, a feature is taken for their linear combination and a
        residual.

        Raises
        ------
        ValueError
            The result does not hold its models or its rows (``keep_rows``), its loss is not squared
            error or the Brier score, its transport has no straight lines, or it has no shares.

        Examples
        --------
        >>> split.with_whom("x1")[0][0]
        'x0'
        """
        source = self._models("splits", "call split on the result of explain")
        parts = self._result.parts
        if isinstance(parts, InfluenceRows):
            return source.split(self._result.names, parts)
        raise ValueError(
            "a split needs the parts of single rows, and this result keeps "
            + ("none" if parts is None else "moments alone")
            + f": explain no more than 20,000 rows, or with {argument('keep_rows', True)}, and "
            "groups that share no columns"
        )
