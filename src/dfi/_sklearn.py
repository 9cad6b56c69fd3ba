"""Disentangled Feature Importance as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dfi._models.fits import prepare
from dfi._models.learners import warn_of_refits
from dfi._parameters import check, named_only, validated
from dfi._run import FittedSource, importance, importances, refusal
from dfi.inference.influence import InfluenceRows
from dfi.methods.disentangled import Disentangled
from dfi.methods.local import BACKGROUND, LocalScale
from dfi.transports.linear_error import FIXED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfi._data.outcome import Task as OutcomeTask
    from dfi._data.problem import UnitsKind
    from dfi._data.table import Missing
    from dfi._lines.choose import Quadrature
    from dfi._models.crossfit import FoldModels
    from dfi._models.fits import Scale
    from dfi._scoring.forms import AskedForm
    from dfi._scoring.scores import Scores, TransportError
    from dfi._types import (
        EstimatorLike,
        Floats,
        GroupsLike,
        SplitsLike,
        TableLike,
        TransportLike,
        VectorLike,
    )
    from dfi.losses import LossLike
    from dfi.methods.disentangled import ExplainRows
    from dfi.results.importance import GroupSource, Importance
    from dfi.results.local import LocalAttributions
    from dfi.transports.base import FittedTransport


OPTIONAL = ("fit_rows", "max_seconds", "n_jobs", "n_repeats", "progress", "random_state")
"""Parameters of the estimator that may be None."""


class DFI(BaseEstimator):
    """Disentangled Feature Importance.

    Parameters
    ----------
    estimator : str, estimator or callable, default="auto"
        The regression: a name (``"auto"``, ``"linear"``, ``"ridge"``, ``"boosting"``,
        ``"forest"``, ``"extra_trees"``), any scikit-learn regressor, a classifier with
        probabilities, or a pipeline on the raw columns. ``"auto"`` averages ridge, a quadratic
        polynomial, small networks and boosting, with weights chosen for the scores. With
        ``cv="prefit"`` a fitted model or a function of ``X``, which gives a column for each
        class, in their order, or of 0 and 1 the probability of 1.
    transport : str or transport, default="gaussian"
        The geometry that disentangles the features; part of the estimand: ``"gaussian"``,
        ``"copula"``, ``"entropic"``, ``"knothe-rosenblatt"``, ``"semicontinuous"`` (see
        :mod:`dfi.transports`), ``"auto"``, or any object with ``fit``, ``encode`` and ``decode``.
    groups : mapping, frame or sequence, optional
        Groups of features that :meth:`~dfi.Importance.group` uses by default.
    units : {"columns", "groups"}, default="columns"
        What is given a score. With ``"groups"`` the transport disentangles the groups from each
        other, not their columns, and each is scored as one: shared signal within a group counts
        once. Groups may overlap.
    cv : int, splitter, iterable of splits or "prefit", default=5
        Cross-fitting folds; ``"prefit"`` explains a fitted model on held-out rows.
    n_repeats : int, optional
        How often the scores are computed on another division of the rows and averaged; their spread
        is reported, and part of the standard errors. Every repeat splits the rows anew, except with
        ``estimator="auto"`` and ``cv=5``: there every third does, and the two after it only halve
        the training rows in another way, with the models that are there already. By default 3 in
        that case, up to 5,000 rows, and 1 otherwise; 5 where groups are units and ``cv`` is a
        number, because their scores differ from split to split.
    form : {"auto", "extrapolated", "cross", "calibrated", "loco", "cpi"}, default="auto"
        The estimator of the latent scores. ``"auto"`` is ``"extrapolated"`` with
        ``estimator="auto"`` and 200 to 5,000 rows, ``"cross"`` where models are fitted here
        otherwise, and ``"loco"`` for a fitted model. ``"cross"`` multiplies the errors of two
        models fitted on disjoint rows. ``"extrapolated"`` is twice the cross form less that of
        models fitted on half as many rows, which lessens the bias of a regression that is still
        learning; ``result.diagnostics["learning_curve"]`` has both. ``"calibrated"`` is the cross
        form with a factor for each coordinate, from the other folds, that makes up for models
        that shrink; ``result.diagnostics["calibration"]`` has the factors and the cross scores.
        ``"loco"`` is the difference of two squared errors of one model, ``"cpi"`` half of what
        random replacement values add to its squared error.
    transport_error : str, default="auto"
        How the error of the fitted transport enters the standard errors. ``"derived"``: by its
        influence function, without further model calls; ``"finite-difference"``: the same with
        lines tilted numerically, 2 d further passes and no assumption on the model;
        ``"jackknife"``: by fitting it again without groups of rows; ``"covariance"``: an older and
        cruder derivation; ``"ignore"``: the transport is taken as known, as the paper does, and
        intervals of non-null scores are too short. ``"auto"`` checks the derived terms by
        differences on up to 384 rows, and uses these where a standard error would change by more
        than 5 %.
    integration : "auto" or Quadrature, default="auto"
        Averages along latent lines: exact or in closed form where the model allows it, else
        quadrature; a :class:`dfi.Quadrature` sets its rule, nodes and memory.
    diagnose : bool, default=True
        Check the result: what noise scores here, whether the scores exceed the variance, how far
        the model was taken from its rows, what dependence the transport leaves. The scores do not
        depend on it; switch it off in simulations.
    explain_rows : {"default", "auto"}, int or None, default="default"
        How many rows are explained, drawn at random; the transport and the models use all rows.
        ``"auto"`` goes on in blocks of 4096 until the standard error of the total is 1 % of it and
        that of every score above 5 % of the total is 5 % of the score, or until there are no more
        rows; a number is that many, None all. By default all rows of a table of up to 20,000, and
        ``"auto"`` beyond. How many were explained, and why no more, is in ``result_.spec``.
    max_seconds : float, optional
        After so many seconds no further rows are explained: the answer is that of the rows so far,
        with the error of so many. The first 4096 rows are explained whatever it takes.
    keep_rows : bool, default=False
        Keep the influence values of every explained row of a table of more than 20,000 rows.
        Without it the result has their moments and a sample of them, and a file of it is small;
        differences of results on the same rows need the rows.
    missing : {"unit", "error", "drop"}, default="unit"
        Missing values of ``X``. ``"unit"``: part of what is seen of their column, whose score is
        that of value and missingness together; models that take NaN, and pipelines with imputers,
        get NaN, others the mean of the observed and an indicator. ``"error"``: refused.
        ``"drop"``: rows that have some are left out, with a warning.
    loss : str, Loss or callable, default="auto"
        What scores are differences of; ``"auto"`` is Brier's score for classes and squared error
        otherwise. See :func:`dfi.explain`.
    task : {"auto", "classification", "regression"}, default="auto"
        Whether the outcome is a class.
    positive : object, optional
        The class whose probability is explained.
    scale : {"response", "margin"}, default="response"
        ``"margin"`` describes a fitted classifier of two classes by its log-odds.
    level : float, default=0.95
        Confidence level of the intervals.
    n_jobs : int, optional
        Parallel tasks (joblib); the result does not depend on it.
    random_state : int, default=0
        Seed of splits, fits and draws.
    progress : bool, optional
        Show progress bars, with what is done and the time left; by default at a terminal and in
        notebooks, in calls of more than five seconds.

    Attributes
    ----------
    result_ : Importance
        The scores with their inference.
    models_ : tuple of FoldModels
        The fitted models and their held-out rows.
    transport_ : FittedTransport
        The fitted transport.
    scores_ : Scores
        The rows' scores, before and after the transport's own error enters.
    n_features_in_ : int
        Number of columns of ``X``.
    feature_names_in_ : ndarray of str
        Their names, where ``X`` is a dataframe.

    Examples
    --------
    >>> import dfi
    >>> sample = dfi.datasets.m1(500, rho=0.8)
    >>> result = dfi.DFI(estimator="linear").fit(sample.X, sample.y).result_
    >>> [result.names[k] for k in result.scores.argsort()[::-1][:2]]
    ['x0', 'x1']
    """

    result_: Importance
    models_: tuple[FoldModels, ...]
    transport_: FittedTransport
    scores_: Scores
    pooled_: Scores
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    _source: GroupSource | None

    @named_only
    def __init__(
        self,
        *,
        estimator: EstimatorLike = "auto",
        transport: TransportLike = "gaussian",
        groups: GroupsLike = None,
        units: UnitsKind = "columns",
        cv: SplitsLike = 5,
        n_repeats: int | None = None,
        form: AskedForm = "auto",
        transport_error: TransportError = "auto",
        integration: Quadrature | Literal["auto"] = "auto",
        diagnose: bool = True,
        explain_rows: ExplainRows = "default",
        max_seconds: float | None = None,
        keep_rows: bool = False,
        missing: Missing = "unit",
        loss: LossLike = "auto",
        task: OutcomeTask = "auto",
        positive: object = None,
        scale: Scale = "response",
        level: float = 0.95,
        n_jobs: int | None = None,
        random_state: int | None = 0,
        progress: bool | None = None,
    ) -> None:
        self.estimator = estimator
        self.transport = transport
        self.groups = groups
        self.units = units
        self.cv = cv
        self.n_repeats = n_repeats
        self.form = form
        self.transport_error = transport_error
        self.integration = integration
        self.diagnose = diagnose
        self.explain_rows = explain_rows
        self.max_seconds = max_seconds
        self.keep_rows = keep_rows
        self.missing = missing
        self.loss = loss
        self.task = task
        self.positive = positive
        self.scale = scale
        self.level = level
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    @validated
    def fit(
        self,
        X: TableLike,
        y: VectorLike,
        sample_weight: VectorLike = None,
        *,
        frequency_weight: VectorLike = None,
        cv_groups: VectorLike = None,
    ) -> Self:
        """Explain ``y`` by the columns of ``X``.

        Parameters
        ----------
        X : dataframe or array of shape (n, d)
            numpy, pandas, polars, pyarrow or sparse; numbers, booleans and categories.
        y : array-like of shape (n,)
            The outcome: a quantity, a count, or classes; several columns are several quantities.
        sample_weight : array-like of shape (n,), optional
            Sampling weights: how many units of the population a row stands for. They reach the
            regression, the transport and the variance, which is robust.
        frequency_weight : array-like of shape (n,), optional
            Counts: each row stands for that many equal rows. Not together with ``sample_weight``.
        cv_groups : array-like of shape (n,), optional
            Labels of rows that depend on each other (patients, schools): they stay in one fold, and
            standard errors are cluster-robust. Where the folds of ``cv`` go along time and no
            labels are given, rows are taken in their order and errors are of Newey and West (HAC).

        Returns
        -------
        self

        Examples
        --------
        >>> import dfi
        >>> sample = dfi.datasets.m1(200, d=3)
        >>> explainer = dfi.DFI(estimator="linear", cv=2).fit(sample.X, sample.y)
        >>> explainer.result_.names
        ('x0', 'x1', 'x2')
        """
        check("DFI", self.get_params(deep=False), optional=OPTIONAL)
        warn_of_refits(self.estimator, self.cv)
        method = Disentangled(
            transport=self.transport,
            form=self.form,
            transport_error=self.transport_error,
            integration=self.integration,
            diagnose=self.diagnose,
            explain_rows=self.explain_rows,
            max_seconds=self.max_seconds,
        )
        method.check(given=isinstance(self.cv, str) and self.cv == "prefit")
        fits = prepare(
            X,
            y,
            estimator=self.estimator,
            cv=self.cv,
            n_repeats=self.n_repeats,
            groups=self.groups,
            units=self.units,
            sample_weight=sample_weight,
            frequency_weight=frequency_weight,
            cv_groups=cv_groups,
            missing=self.missing,
            loss=self.loss,
            task=self.task,
            positive=self.positive,
            scale=self.scale,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
            progress=self.progress,
        )
        self.n_features_in_ = len(fits.table.columns)
        if fits.table.library != "numpy":
            self.feature_names_in_ = np.asarray(fits.table.names, dtype=object)
        if fits.outcome.members:
            # the parts of several classes are their own explanations, and the result has them all
            found = importances(fits, method, self.level, keep_rows=self.keep_rows)
            self.result_ = found[method.name]
            self._source = self.result_.source
            return self
        reason = refusal(method, fits)
        if reason is not None:
            raise ValueError(reason)
        explained = method.explain(fits)
        self.models_ = explained.models
        self.transport_ = explained.transport
        self.scores_ = explained.scores
        self._membership = explained.membership
        self.pooled_ = explained.scores.known
        self._weights = fits.weights.take(explained.scores.rows)
        self.result_ = importance(
            fits, method, method.name, explained.part, self.level, keep_rows=self.keep_rows
        )
        self._source = self.result_.source
        return self

    @validated
    def local(
        self,
        X: TableLike,
        *,
        outcome: str | None = None,
        scale: LocalScale | None = None,
        refine: int | None = None,
        background: int = BACKGROUND,
    ) -> LocalAttributions:
        """Return what each unit contributes to the predictions of new rows.

        All fitted models explain a new row, each with the transport of the rows that it was fitted
        on; ``result_.local(rows)`` explains the rows of :meth:`fit` by the models that did not see
        them.

        Parameters
        ----------
        X : dataframe or array
            New rows with the columns of :meth:`fit`, in any order where they have names.
        outcome : str, optional
            Which of several classes or outcomes, as for :meth:`dfi.Importance.local`.
        scale : {"response", "margin"}, optional
            The prediction, or the log-odds of a classifier of two classes.
        refine : int, optional
            Random designs of coalitions, 128 say, for interactions of more than two units.
        background : int, default=200
            Rows that stand for the others where main effects are averaged.

        Returns
        -------
        LocalAttributions
            Contributions, which add up to the mean prediction of the models less their base.

        Raises
        ------
        ValueError, TypeError
            Columns, dtypes or levels are not those of :meth:`fit`.

        Examples
        --------
        >>> import dfi
        >>> sample = dfi.datasets.m1(200, d=3)
        >>> explainer = dfi.DFI(estimator="linear", cv=2).fit(sample.X, sample.y)
        >>> new = dfi.datasets.m1(2, d=3, random_state=1).X
        >>> explainer.local(new).values.shape
        (2, 3)
        """
        check_is_fitted(self, "result_")
        if self._source is None:
            raise ValueError(
                "this estimator was pickled, and the table that it read its rows from is not part "
                "of it: fit it again"
            )
        return self._source.local(
            X=X, outcome=outcome, scale=scale, refine=refine, background=background
        )

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        source = state.get("_source")
        if isinstance(source, FittedSource) and source.fits.data.source is not None:
            # connections and open files stay where they are
            state["_source"] = None
        return state

    def with_fixed_transport(self) -> Importance:
        r"""Return the result with standard errors that take the transport as known.

        What ``transport_error="ignore"`` gives, from the scores that are there: with :math:`u_j`
        the influence values of latent score j before the transport's own error enters, those of
        feature l are :math:`\sum_j W_{lj}^2 u_j`. Nothing is fitted or predicted again. Scores keep
        the second-order bias that ``result_`` is free of.

        Returns
        -------
        Importance
            In both spaces; the checks in its ``diagnostics`` are those of ``result_``.

        Raises
        ------
        ValueError
            The transport is not linear: fit again with
            ``transport_error="ignore"``.

        Examples
        --------
        >>> import dfi
        >>> sample = dfi.datasets.m1(200, d=3)
        >>> explainer = dfi.DFI(estimator="linear", cv=2).fit(sample.X, sample.y)
        >>> known = explainer.with_fixed_transport()
        >>> bool(known.se[1] < explainer.result_.se[1])  # the transport's own error is left out
        True
        """
        check_is_fitted(self, "result_")
        if not hasattr(self, "transport_"):
            raise ValueError(
                "with_fixed_transport explains one outcome, and y has several classes or columns: "
                "fit again with transport_error='ignore'"
            )
        if self.transport_error == "ignore":
            return self.result_
        if self.transport_.attribution is None and self.transport_.blocked is None:
            raise ValueError(
                f"with_fixed_transport needs a linear transport ('gaussian' or 'semicontinuous'), "
                f"this one is {self.result_.spec['transport']!r}: fit again with "
                "transport_error='ignore'"
            )
        latent, attributed = self.pooled_.latent, self.pooled_.attributed

        def known(result: Importance, influence: Floats, **changed: Any) -> Importance:
            by_unit = influence @ self._membership
            by_unit[:, result.unrelated] = 0.0
            told = {key: item for key, item in result.diagnostics.items() if key != "sensitivity"}
            return replace(
                result,
                basis=InfluenceRows(by_unit, self._weights, self.pooled_.rows),
                spec={**result.spec, "transport_error": "ignore"},
                source=None,  # it would count the transport's error
                diagnostics={
                    **told,
                    "standard_errors": "fixed transport",
                    "second_order": {"subtracted": False, "reason": FIXED},
                },
                **changed,
            )

        below = self.result_.latent
        return known(
            self.result_, attributed, latent=None if below is None else known(below, latent)
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = self.missing != "error"
        return tags
