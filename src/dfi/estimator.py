"""Disentangled Feature Importance as a scikit-learn estimator and as one function."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dfi._data import read_folds, read_groups, read_outcome, read_table, read_weights
from dfi._data.constant import constant_among, warn_constant
from dfi._data.fingerprint import fingerprint
from dfi._data.magnitude import refuse_extreme
from dfi._lines.choose import LineOptions
from dfi._lines.quadrature import DEFAULT_MEMORY
from dfi._models.crossfit import FoldModels, cross_fit
from dfi._models.learners import check_learner_suits_outcome, resolve_learner
from dfi._models.prefit import prefit_models
from dfi._models.progress import progress_bar
from dfi._models.quality import regression_quality
from dfi._models.seeds import seed_sequence
from dfi._scoring.scores import Task
from dfi.explained import FittedModels, assemble
from dfi.inference.intervals import check_level
from dfi.methods.diagnosis import explain_diagnostics, unit_membership
from dfi.results.specification import describe, versions
from dfi.transports import resolve_transport
from dfi.transports.base import resolve_form
from dfi.transports.linear_error import FIXED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfi._data import Outcome, Table, Weights
    from dfi._lines.quadrature import QuadratureRule
    from dfi._scoring.forms import ScoreForm
    from dfi._scoring.scores import Scores, SensitivityMethod
    from dfi._types import Floats
    from dfi.results.importance import Importance
    from dfi.transports.base import FittedTransport, Transport


class DFI(BaseEstimator):
    """Disentangled Feature Importance.

    Parameters
    ----------
    estimator : str, estimator or callable, default="auto"
        The regression: a name (``"auto"``, ``"linear"``, ``"ridge"``, ``"boosting"``,
        ``"forest"``, ``"extra_trees"``), any scikit-learn regressor, a binary classifier with
        probabilities, or a pipeline on the raw columns. With ``cv="prefit"`` a fitted model or a
        function of ``X``.
    transport : str or transport, default="gaussian"
        The geometry that disentangles the features; part of the estimand: ``"gaussian"``,
        ``"copula"``, ``"entropic"``, ``"knothe-rosenblatt"``, ``"semicontinuous"`` (see
        :mod:`dfi.transports`), ``"auto"``, or any object with ``fit``, ``encode`` and ``decode``.
    groups : mapping, frame or sequence, optional
        Groups of features that :meth:`~dfi.Importance.group` uses by default.
    cv : int, splitter, iterable of splits or "prefit", default=5
        Cross-fitting folds; ``"prefit"`` explains a fitted model on held-out rows.
    n_repeats : int, default=1
        Repeated random splits, averaged; their spread is reported.
    score : {"auto", "cross", "loco", "cpi"}, default="auto"
        The estimator of the latent scores: the cross form where models are fitted here, the
        LOCO-type form for a fitted model.
    fixed_transport : bool, default=False
        Take the transport as known in the standard errors, as the paper does. Such intervals of
        non-null scores are too short.
    G : {"auto", "hermite", "covariance", "tilt"}, default="auto"
        How the sensitivity to the transport's error is found: by the Hermite short cut, without
        further model calls; by an older and cruder one; or by tilting lines, 2 d further passes
        and no assumption on the model. ``"auto"`` checks the first by differences on up to 384
        rows, and uses these where they change a standard error by more than a tenth.
    lines : {"auto", "equal", "gauss", "draws"}, default="auto"
        Averages along latent lines: exact or in closed form where the model allows it, else
        quadrature; ``"draws"`` reproduces the paper's random replacement values.
    n_nodes : int, optional
        Quadrature nodes, or draws, per line. By default 16 or 32, and up to sixteen times as many
        where scores still change; a number given here is kept, and its error measured and said.
    memory : int, default=256 MiB
        Bound in bytes on the rows that a model is asked to predict at once.
    diagnose : bool, default=True
        Check the result: what noise scores here, whether the scores exceed the variance, how far
        the model was taken from its rows, what dependence the transport leaves. The scores do not
        depend on it; switch it off in simulations.
    weight_kind : {"auto", "frequency", "sampling"}, default="auto"
        What ``sample_weight`` means: counts of repeated rows (whole numbers), or sampling
        weights with a robust variance. ``"auto"`` takes whole numbers for counts and warns where
        they sum to more than three times the rows.
    level : float, default=0.95
        Confidence level of the result's intervals.
    n_jobs : int, optional
        Parallel tasks (joblib); the result does not depend on it.
    random_state : int, default=0
        Seed of splits, fits and draws.
    progress : bool, optional
        Show progress bars; by default only at a terminal.

    Attributes
    ----------
    result_ : Importance
        The scores with their inference.
    models_ : tuple of FoldModels
        The fitted models and their held-out rows.
    transport_ : FittedTransport
        The fitted transport.
    pooled_ : Scores
        The rows' latent scores before the transport's own error enters.
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
    pooled_: Scores
    n_features_in_: int
    feature_names_in_: NDArray[Any]

    def __init__(
        self,
        *,
        estimator: Any = "auto",
        transport: Any = "gaussian",
        groups: Any = None,
        cv: Any = 5,
        n_repeats: int = 1,
        score: ScoreForm | Literal["auto"] = "auto",
        fixed_transport: bool = False,
        G: SensitivityMethod = "auto",
        lines: QuadratureRule | Literal["auto"] = "auto",
        n_nodes: int | None = None,
        memory: int = DEFAULT_MEMORY,
        diagnose: bool = True,
        weight_kind: Literal["auto", "frequency", "sampling"] = "auto",
        level: float = 0.95,
        n_jobs: int | None = None,
        random_state: int = 0,
        progress: bool | None = None,
    ) -> None:
        self.estimator = estimator
        self.transport = transport
        self.groups = groups
        self.cv = cv
        self.n_repeats = n_repeats
        self.score = score
        self.fixed_transport = fixed_transport
        self.G = G
        self.lines = lines
        self.n_nodes = n_nodes
        self.memory = memory
        self.diagnose = diagnose
        self.weight_kind = weight_kind
        self.level = level
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: Any, y: Any, sample_weight: Any = None, cv_groups: Any = None) -> Self:
        """Explain ``y`` by the columns of ``X``.

        Parameters
        ----------
        X : dataframe or array of shape (n, d)
            numpy, pandas, polars or pyarrow.
        y : array-like of shape (n,)
            The outcome: a quantity, or 0/1.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows; they reach the regression, the transport and the variance.
        cv_groups : array-like of shape (n,), optional
            Labels of rows that must stay in one fold, for group splitters.

        Returns
        -------
        self
        """
        if y is None:
            raise ValueError("DFI requires y to be passed, but the target y is None")
        # The stages of the method, in order; each is a module of its own.
        design = resolve_transport(self.transport)
        fitted = self._fit_models(X, y, sample_weight, cv_groups, design)
        self.models_ = fitted.folds
        self.n_features_in_ = len(fitted.table.columns)
        if fitted.table.library != "numpy":
            self.feature_names_in_ = np.asarray(fitted.table.names, dtype=object)
        self.result_ = self._explain(design, fitted)
        return self

    def with_fixed_transport(self) -> Importance:
        r"""Return the result with standard errors that take the transport as known.

        What ``fixed_transport=True`` gives, from the scores that are there: with :math:`u_j` the
        influence values of latent score j before the transport's own error enters, those of
        feature l are :math:`\sum_j W_{lj}^2 u_j`. Nothing is fitted or predicted again. Scores keep
        the second-order bias that ``result_`` is free of.

        Returns
        -------
        Importance
            In both spaces; the checks in its ``diagnostics`` are those of ``result_``.

        Raises
        ------
        ValueError
            The transport is not linear: fit again with ``fixed_transport=True``.
        """
        check_is_fitted(self, "result_")
        if self.fixed_transport:
            return self.result_
        weight = self.transport_.attribution
        if weight is None:
            raise ValueError(
                f"with_fixed_transport needs a linear transport ('gaussian' or 'semicontinuous'), "
                f"this one is {self.result_.spec['transport']!r}: fit again with "
                f"fixed_transport=True"
            )
        latent = self.pooled_.latent
        attributed = latent @ (weight**2).T

        def known(result: Importance, influence: Floats, **changed: Any) -> Importance:
            by_unit = influence @ self._membership
            by_unit[:, result.unrelated] = 0.0
            told = {key: item for key, item in result.diagnostics.items() if key != "sensitivity"}
            return replace(
                result,
                influence=by_unit,
                spec={**result.spec, "fixed_transport": True},
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

    def _fit_models(
        self, X: Any, y: Any, sample_weight: Any, cv_groups: Any, design: Transport
    ) -> FittedModels:
        """Read the data and fit the regression: what does not depend on the transport."""
        check_level(self.level)
        form = self._score_form(design)
        options = LineOptions(self.lines, self.n_nodes, self.memory)
        table = read_table(X)
        design.check_columns(table.columns)
        outcome = read_outcome(y, table.n_rows)
        weights = read_weights(sample_weight, table.n_rows, kind=self.weight_kind)
        table = table.without(weights.values == 0)
        groups = None if self.groups is None else read_groups(self.groups, table.names)
        refuse_extreme(table, outcome)
        warn_constant(table, table.constant, "")
        seeds = seed_sequence(self.random_state).spawn(4)
        folds = self._models(
            table, outcome, None if sample_weight is None else weights, form, cv_groups, seeds[:2]
        )
        rows = np.unique(np.concatenate([fold.test for fold in folds]))
        constant = constant_among(table, rows[weights.values[rows] > 0])
        warn_constant(table, constant & ~table.constant, " among the rows that are explained")
        return FittedModels(
            folds, table, outcome, weights, groups, rows, constant, form, options, *seeds[2:]
        )

    def _explain(self, design: Transport, fitted: FittedModels) -> Importance:
        """Score the held-out rows under one transport."""
        table, rows, weights = fitted.table, fitted.rows, fitted.weights
        explained = table.matrix[rows], weights.take(rows), fitted.constant
        choice = design.choose(*explained, table.columns, fitted.diagnosis_seed)
        if choice.reasons:
            design = choice.design
            self._score_form(design)
        transport = design.fit_matrix(*explained, columns=table.columns)
        total = sum(len(fold.test) for fold in fitted.folds)
        with progress_bar(self.progress, "explaining rows", total) as step:
            task = Task(
                folds=fitted.folds,
                table=table,
                y=fitted.outcome.values,
                weights=weights,
                rows=rows,
                constant=fitted.constant,
                form=fitted.form,
                options=fitted.options,
                sensitivity=self.G,
                fixed=self.fixed_transport,
                seed=fitted.transport_seed,
                n_jobs=self.n_jobs,
                advance=step,
            )
            scored = transport.score(task)
        values = fitted.outcome.values
        quality = regression_quality(
            scored.predictions, values, weights, prefit=isinstance(self.cv, str)
        )
        found = explain_diagnostics(
            transport, scored, task, fitted.diagnosis_seed,
            diagnose=self.diagnose, say=not choice.reasons,
        )  # fmt: skip
        context = {
            "weights": weights.take(rows),
            "quality": quality,
            "level": self.level,
            "library": table.library,
            "default_groups": fitted.groups,
            "spec": {
                **self._specification(transport, fitted),
                "data_sha256": fingerprint(table.matrix, values, weights.values),
            },
            "diagnostics": {**found, "auto": choice.as_dict()} if choice.reasons else found,
        }
        self.transport_ = transport
        self._membership = unit_membership(table, transport)
        self.pooled_ = scored.known
        return assemble(table, transport, scored, context)

    def _score_form(self, design: Transport) -> ScoreForm:
        """Return the form of the scores; refuse options that the transport does not honour."""
        form = resolve_form(self.score, prefit=isinstance(self.cv, str) and self.cv == "prefit")
        options = LineOptions(self.lines, self.n_nodes, self.memory)
        design.check(G=self.G, options=options, fixed=self.fixed_transport)
        return form

    def _models(
        self,
        table: Table,
        outcome: Outcome,
        weights: Weights | None,
        form: ScoreForm,
        cv_groups: Any,
        seeds: list[np.random.SeedSequence],
    ) -> tuple[FoldModels, ...]:
        """Fit the regression for every fold, or take the fitted one."""
        if isinstance(self.cv, str):
            return prefit_models(
                self.estimator, self.cv, table, outcome, seeds[1], n_repeats=self.n_repeats
            )
        learner = resolve_learner(self.estimator)
        check_learner_suits_outcome(learner, outcome.kind)
        repeats = read_folds(
            self.cv,
            table.n_rows,
            matrix=table.matrix,
            y=outcome.values,
            groups=cv_groups,
            n_repeats=self.n_repeats,
            random_state=seeds[0],
        )
        labels = None if cv_groups is None else np.asarray(cv_groups)
        with progress_bar(self.progress, "fitting models", sum(map(len, repeats))) as step:
            return cross_fit(
                learner,
                table,
                outcome,
                weights,
                repeats,
                halves=form == "cross",
                seed=seeds[1],
                labels=labels,
                n_jobs=self.n_jobs,
                advance=step,
            )

    def _specification(self, transport: FittedTransport, fitted: FittedModels) -> dict[str, Any]:
        """Return what the estimand and its estimate depend on."""
        return {
            "method": "dfi",
            **transport.design.specification(),
            "reference": transport.reference.kind,
            "loss": "squared error",
            "score": fitted.form,
            "fixed_transport": self.fixed_transport,
            "G": self.G,
            "estimator": describe(self.estimator),
            "cv": describe(self.cv),
            "n_folds": len(fitted.folds),
            "n_repeats": self.n_repeats,
            "weights": fitted.weights.kind,
            "random_state": self.random_state,
            "n_rows": fitted.table.n_rows,
            "n_features": len(fitted.table.columns),
            "versions": versions(),
        }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def explain(
    X: Any,
    y: Any,
    estimator: Any = "auto",
    transport: Any = "gaussian",
    groups: Any = None,
    cv: Any = 5,
    n_repeats: int = 1,
    sample_weight: Any = None,
    level: float = 0.95,
    n_jobs: int | None = None,
    random_state: int = 0,
    progress: bool | None = None,
    *,
    cv_groups: Any = None,
    **options: Any,
) -> Importance:
    """Explain ``y`` by the columns of ``X``: :class:`DFI` in one call.

    Parameters are those of :class:`DFI` and of its :meth:`~DFI.fit`; ``options`` are its less
    common ones (``score``, ``fixed_transport``, ``G``, ``lines``, ``n_nodes``, ``memory``,
    ``diagnose``, ``weight_kind``).

    Returns
    -------
    Importance
        Scores, standard errors, intervals and tests of every feature.

    Examples
    --------
    >>> import dfi
    >>> sample = dfi.datasets.m1(500, rho=0.8)
    >>> result = dfi.explain(sample.X, sample.y, estimator="linear")
    >>> bool(result.scores[0] > result.scores[1] > 4)
    True
    """
    explainer = DFI(
        estimator=estimator,
        transport=transport,
        groups=groups,
        cv=cv,
        n_repeats=n_repeats,
        level=level,
        n_jobs=n_jobs,
        random_state=random_state,
        progress=progress,
        **options,
    )
    return explainer.fit(X, y, sample_weight=sample_weight, cv_groups=cv_groups).result_
