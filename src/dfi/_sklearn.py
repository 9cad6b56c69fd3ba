"""Disentangled Feature Importance as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dfi._collect import FittedSource, importance, importances
from dfi._docstrings import exemplified
from dfi._models.crossfit import MOST_SPLITS, FoldModels
from dfi._models.learners import warn_of_refits
from dfi._models.prepare import prepare
from dfi._parameters import check, documented, named_only, taken_by, validated
from dfi._scoring.map_error import FIXED
from dfi.inference.influence import InfluenceRows
from dfi.methods.compute import refusal
from dfi.methods.disentangled import Disentangled
from dfi.methods.row_models import BACKGROUND, LocalScale

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfi._data.everyday import Identifiers
    from dfi._data.outcome import Task as OutcomeTask
    from dfi._data.problem import UnitsKind
    from dfi._data.table import Missing
    from dfi._lines.choose import Quadrature
    from dfi._models.fits import Scale
    from dfi._scoring.forms import AskedForm
    from dfi._scoring.scores import Scores
    from dfi._scoring.task import TransportError
    from dfi._types import (
        EstimatorLike,
        Floats,
        GroupsLike,
        HorizonLike,
        SplitsLike,
        TableLike,
        TargetLike,
        TransportLike,
        VectorLike,
    )
    from dfi.losses import LossLike
    from dfi.methods.stages import ExplainRows
    from dfi.results.importance import Importance
    from dfi.results.local import LocalAttributions
    from dfi.results.questions import ModelSource
    from dfi.transports.base import FittedTransport


OPTIONAL = (
    "fit_rows", "max_seconds", "n_jobs", "n_repeats", "progress", "random_state", "target"
)  # fmt: skip
"""Parameters of the estimator that may be None."""


@exemplified
@documented
class DFI(BaseEstimator):
    """Disentangled Feature Importance.

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
        Their names, if ``X`` is a dataframe.

    Examples
    --------
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
    _source: ModelSource | None

    @named_only
    def __init__(
        self,
        *,
        estimator: EstimatorLike = "auto",
        transport: TransportLike = "gaussian",
        feature_groups: GroupsLike = None,
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
        missing: Missing = "indicator",
        identifiers: Identifiers = "drop",
        loss: LossLike = "auto",
        task: OutcomeTask = "auto",
        pos_label: object = None,
        target: TargetLike = None,
        horizon: HorizonLike = None,
        scale: Scale = "response",
        level: float = 0.95,
        n_jobs: int | None = None,
        random_state: int | None = 0,
        progress: bool | None = None,
    ) -> None:
        self.estimator = estimator
        self.transport = transport
        self.feature_groups = feature_groups
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
        self.identifiers = identifiers
        self.loss = loss
        self.task = task
        self.pos_label = pos_label
        self.target = target
        self.horizon = horizon
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
        clusters: VectorLike = None,
    ) -> Self:
        """Explain ``y`` by the columns of ``X``.

        Returns
        -------
        self

        Examples
        --------
        >>> explainer.result_.names
        ('x0', 'x1', 'x2')
        """
        given, settings = dict(locals()), self.get_params(deep=False)
        check("DFI", settings, optional=OPTIONAL)
        warn_of_refits(self.estimator, self.cv)
        method = Disentangled(**taken_by(Disentangled, settings))
        method.check(prefit=isinstance(self.cv, str) and self.cv == "prefit")
        fits = prepare(**taken_by(prepare, {**given, **settings}), most_splits=MOST_SPLITS)
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
        fits = fits.settled
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

        All fitted models explain a new row, each with the transport of its training rows;
        ``result_.local(rows)`` explains the rows of :meth:`fit` by models that have not seen them.

        Parameters
        ----------
        X : dataframe or array
            New rows with the columns of :meth:`fit`, in any order if they have names.
        outcome : str, optional
            Which of several classes or outcomes, as for :meth:`dfi.Importance.local`.
        scale : {"response", "margin"}, optional
            The prediction, or the log-odds of a classifier of two classes.

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
        >>> new = dfi.datasets.m1(2, d=3, random_state=1).X
        >>> explainer.local(new).values.shape
        (2, 3)
        """
        check_is_fitted(self, "result_")
        if self._source is None:
            raise ValueError(
                "this estimator was pickled, but without the table that holds its rows: fit it "
                "again"
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
        r"""Return the result with standard errors that treat the transport as known.

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
        >>> known = explainer.with_fixed_transport()
        >>> bool(known.se[1] < explainer.result_.se[1])  # the transport's own error is left out
        True
        """
        check_is_fitted(self, "result_")
        if not hasattr(self, "transport_"):
            raise ValueError(
                "with_fixed_transport explains one outcome, but y has several classes or columns: "
                "fit again with transport_error='ignore'"
            )
        if self.transport_error == "ignore":
            return self.result_
        if self.transport_.design.name not in ("gaussian", "semicontinuous"):
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
