"""Disentangled Feature Importance as a scikit-learn estimator and as one function."""

from __future__ import annotations

import dataclasses
import sys
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import sklearn
from sklearn.base import BaseEstimator
from tqdm.auto import tqdm

import dfi
from dfi.data import read_folds, read_groups, read_outcome, read_table, read_weights
from dfi.data.fingerprint import fingerprint
from dfi.importance.scores import PooledScores, pooled_scores
from dfi.inference.intervals import check_level
from dfi.inference.transport_terms import MapInfluence, attributed_influence, latent_terms
from dfi.lines.choose import LineOptions
from dfi.lines.quadrature import DEFAULT_MEMORY
from dfi.nuisance.crossfit import FoldModels, cross_fit
from dfi.nuisance.learners import check_learner_suits_outcome, resolve_learner
from dfi.nuisance.predictor import predictor_for
from dfi.quality import Quality
from dfi.result import Importance
from dfi.transport.diagnostics import latent_diagnostics
from dfi.transport.registry import resolve_transport
from dfi.warnings import ConstantColumnWarning, InferenceWarning, WeakModelWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from dfi.data import Outcome, Table, Weights
    from dfi.importance.latent import LatentScores, ScoreForm
    from dfi.lines.quadrature import QuadratureRule
    from dfi.transport.gaussian import Gaussian, LinearTransport, Semicontinuous

    Floats = NDArray[np.float64]


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
        The geometry that disentangles the features; part of the estimand.
    groups : mapping, frame or sequence, optional
        Groups of features that :meth:`~dfi.result.Importance.group` uses by default.
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
    G : {"covariance", "tilt"}, default="covariance"
        How the sensitivity to the transport's error is found: without further model calls, or
        by finite differences (2 d further passes, no assumption on the model).
    lines : {"auto", "equal", "gauss", "draws"}, default="auto"
        Averages along latent lines: exact or in closed form where the model allows it, else
        quadrature; ``"draws"`` reproduces the paper's random replacement values.
    n_nodes : int, optional
        Quadrature nodes, or draws, per line.
    memory : int, default=256 MiB
        Bound in bytes on the rows that a model is asked to predict at once.
    diagnose : bool, default=True
        Measure the dependence that the transport leaves behind; switch it off in simulations.
    weight_kind : {"auto", "frequency", "sampling"}, default="auto"
        What ``sample_weight`` means: counts of repeated rows (whole numbers), or sampling
        weights with a robust variance.
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
    transport_ : LinearTransport
        The fitted transport.
    pooled_ : PooledScores
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
    transport_: LinearTransport
    pooled_: PooledScores
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
        G: Literal["covariance", "tilt"] = "covariance",
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
        # The stages of the method, in order; each is a module of its own.
        if y is None:
            raise ValueError("DFI requires y to be passed, but the target y is None")
        check_level(self.level)
        design = resolve_transport(self.transport)
        form = self._score_form(design)
        table = read_table(X)
        outcome = read_outcome(y, table.n_rows)
        weights = read_weights(sample_weight, table.n_rows, kind=self.weight_kind)
        groups = None if self.groups is None else read_groups(self.groups, table.names)
        _warn_constant(table, table.constant, "")
        options = LineOptions(self.lines, self.n_nodes, self.memory)
        seeds = _seed_sequence(self.random_state).spawn(3)

        folds = self._models(
            table, outcome, None if sample_weight is None else weights, form, cv_groups, seeds[:2]
        )
        rows = np.unique(np.concatenate([fold.test for fold in folds]))
        constant = _constant_where(table, rows[weights.values[rows] > 0])
        _warn_constant(table, constant & ~table.constant, " among the rows that are explained")
        transport = design.fit(table.matrix[rows], weights.take(rows), constant)
        with _progress(self.progress, "explaining rows", sum(len(f.test) for f in folds)) as step:
            pooled = pooled_scores(
                folds,
                table.matrix,
                outcome.values,
                weights,
                transport,
                form=form,
                options=options,
                tilt=self.G == "tilt" and not self.fixed_transport,
                n_draws=getattr(design, "n_draws", 1),
                n_smoothing=getattr(design, "n_smoothing", 1),
                n_jobs=self.n_jobs,
                advance=step,
            )
        matrix = table.matrix[rows]
        latent, attributed = self._influence(pooled.scores, matrix, weights.take(rows), transport)
        quality = regression_quality(pooled.predictions, outcome.values, weights, self.cv)
        context = {
            "weights": weights.take(rows),
            "quality": quality,
            "level": self.level,
            "library": table.library,
            "default_groups": groups,
            "spec": {
                **self._specification(design, transport, form, table, weights, folds),
                "data_sha256": fingerprint(table.matrix, outcome.values, weights.values),
            },
            "diagnostics": self._diagnostics(transport, matrix, pooled, seeds[2]),
        }
        self.models_ = folds
        self.transport_ = transport
        self.pooled_ = pooled
        self.n_features_in_ = len(table.columns)
        if table.library != "numpy":
            self.feature_names_in_ = np.asarray(table.names, dtype=object)
        self.result_ = assemble(table, transport, latent, attributed, pooled.by_repeat, context)
        return self

    def _score_form(self, design: Gaussian | Semicontinuous) -> ScoreForm:
        prefit = isinstance(self.cv, str) and self.cv == "prefit"
        if self.score not in ("auto", "cross", "loco", "cpi"):
            raise ValueError(
                f"unknown score {self.score!r}: choose 'auto', 'cross', 'loco' or 'cpi'"
            )
        if self.G not in ("covariance", "tilt"):
            raise ValueError(f"unknown G {self.G!r}: choose 'covariance' or 'tilt'")
        if self.G == "tilt" and getattr(design, "epsilon", 0.0) > 0 and design.name == "gaussian":
            raise ValueError("G='tilt' holds for epsilon = 0; leave G='covariance' for the bridge")
        if prefit and self.score == "cross":
            raise ValueError(
                "score='cross' multiplies two models fitted on disjoint rows; cv='prefit' has one: "
                "use score='loco' or 'cpi', or let the models be fitted here"
            )
        if self.score == "auto":
            return "loco" if prefit else "cross"
        return self.score

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
            if self.cv != "prefit":
                raise ValueError(
                    f"unknown cv {self.cv!r}: pass a number of folds, a splitter or 'prefit'"
                )
            if isinstance(self.estimator, str):
                raise TypeError(
                    "cv='prefit' explains a fitted model: pass it (or a function of X) as "
                    f"estimator, not the name {self.estimator!r}"
                )
            predictor = predictor_for(self.estimator, table, prefit=True)
            check_learner_suits_outcome(self.estimator, outcome.kind)
            return (FoldModels(0, np.arange(table.n_rows), (predictor,), seeds[1]),)
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
        with _progress(self.progress, "fitting models", sum(map(len, repeats))) as step:
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

    def _influence(
        self, scores: LatentScores, matrix: Floats, weights: Weights, transport: LinearTransport
    ) -> tuple[Floats, Floats]:
        """Return latent and attributed influence values, the transport's error included."""
        phi = weights.mean(scores.influence)
        if self.fixed_transport:
            return scores.influence, attributed_influence(scores.influence, phi, transport, None)
        influence = MapInfluence(transport, transport.standardize(matrix))
        latent = scores.influence + latent_terms(influence, scores)
        return latent, attributed_influence(latent, phi, transport, influence)

    def _specification(
        self,
        design: Gaussian | Semicontinuous,
        transport: LinearTransport,
        form: ScoreForm,
        table: Table,
        weights: Weights,
        folds: tuple[FoldModels, ...],
    ) -> dict[str, Any]:
        """Return what the estimand and its estimate depend on."""
        return {
            "method": "dfi",
            **design.specification(),
            "reference": transport.reference.kind,
            "loss": "squared error",
            "score": form,
            "fixed_transport": self.fixed_transport,
            "estimator": _describe(self.estimator),
            "cv": _describe(self.cv),
            "n_folds": len(folds),
            "n_repeats": self.n_repeats,
            "weights": weights.kind,
            "random_state": self.random_state,
            "n_rows": table.n_rows,
            "n_features": len(table.columns),
            "versions": {
                "dfi": dfi.__version__,
                "numpy": np.__version__,
                "scikit-learn": sklearn.__version__,
            },
        }

    def _diagnostics(
        self,
        transport: LinearTransport,
        matrix: Floats,
        pooled: PooledScores,
        seed: np.random.SeedSequence,
    ) -> dict[str, Any]:
        """Return what a reader needs to judge the transport and the asymptotics."""
        n, d = len(matrix), transport.n_latent
        large = n >= 2 * d
        if not large:
            warnings.warn(
                f"{n} rows for {d} columns: below twice as many rows as columns the standard "
                "errors do not account fully for the estimated transport; read them as too small",
                InferenceWarning,
                stacklevel=4,
            )
        found: dict[str, Any] = {
            "lines": pooled.rule,
            "rank": transport.rank,
            "n_latent": d,
            "condition": transport.condition,
            "random_kernel": bool(transport.kernel_variance.any()),
            "standard_errors": "fixed transport" if self.fixed_transport else "transport-aware",
            "asymptotics": "rows >= 2 x columns" if large else "rows < 2 x columns: do not hold",
        }
        if self.diagnose:
            found["latent"] = latent_diagnostics(transport.encode(matrix), seed).as_dict()
        return found

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


def assemble(
    table: Table,
    transport: LinearTransport,
    latent: Floats,
    attributed: Floats,
    by_repeat: Floats,
    context: dict[str, Any],
) -> Importance:
    """Sum the columns of each unit and put both spaces into one result."""
    membership = unit_membership(table, transport)
    degenerate = membership.sum(axis=0) == 0
    squared = transport.attribution**2
    repeats = by_repeat @ squared.T
    spread = by_repeat @ membership, repeats @ membership
    columns = np.maximum(membership.sum(axis=0), 1)
    latent_result = Importance(
        influence=latent @ membership,
        names=table.names,
        space="latent",
        degenerate=degenerate,
        spread=_spread(spread[0]),
        **context,
    )
    return Importance(
        influence=attributed @ membership,
        names=table.names,
        space="attributed",
        degenerate=degenerate,
        spread=_spread(spread[1]),
        latent=latent_result,
        attribution=membership.T @ squared @ membership / columns,
        **context,
    )


def unit_membership(table: Table, transport: LinearTransport) -> Floats:
    """Return the 0/1 matrix (latent coordinates, units): which coordinates a column owns."""
    owner = np.zeros((table.matrix.shape[1], len(table.columns)))
    for unit, positions in enumerate(table.units):
        owner[list(positions), unit] = 1.0
    return np.asarray(owner[transport.active])


def _spread(by_repeat: Floats) -> Floats | None:
    return by_repeat.std(axis=0, ddof=1) if len(by_repeat) > 1 else None


def regression_quality(
    predictions: tuple[tuple[NDArray[np.intp], Floats], ...], y: Floats, weights: Weights, cv: Any
) -> Quality:
    """Return the out-of-fold R2, overall and by fold, and warn where it is not positive."""
    rows = np.concatenate([test for test, _ in predictions])
    share = weights.values[rows] / weights.values[rows].sum()
    variance = float(share @ (y[rows] - share @ y[rows]) ** 2)
    errors = [(test, (y[test] - value) ** 2) for test, value in predictions]
    mse = float(share @ np.concatenate([error for _, error in errors]))
    by_fold = []
    for test, error in errors:
        mass = weights.values[test]
        centre = np.average(y[test], weights=mass) if mass.sum() > 0 else 0.0
        scale = mass @ (y[test] - centre) ** 2
        by_fold.append(float(1.0 - mass @ error / scale) if scale > 0 else float("nan"))
    prefit = isinstance(cv, str)
    quality = Quality(
        r2=1.0 - mse / variance,
        r2_by_fold=tuple(by_fold),
        r2_spread=float("nan") if prefit or len(by_fold) < 2 else float(np.nanstd(by_fold, ddof=1)),
        mse=mse,
        outcome_variance=variance,
        n_rows=len(np.unique(rows)),
    )
    if quality.r2 <= 0:
        warnings.warn(
            f"the regression explains nothing on held-out rows (R2 = {quality.r2:.3f}): "
            "its importances describe noise; try another estimator or more rows",
            WeakModelWarning,
            stacklevel=3,
        )
    return quality


def _constant_where(table: Table, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return which matrix columns do not vary among some rows.

    A time splitter never holds out the first rows, and a weight of 0 leaves rows out: a column may
    vary in the table and not among the rows that are explained.
    """
    return dataclasses.replace(table, matrix=table.matrix[rows]).constant


def _warn_constant(table: Table, constant: NDArray[np.bool_], where: str) -> None:
    """Warn of units without variation; refuse a table that has no other."""
    names = [column.name for column in table.columns if constant[list(column.positions)].all()]
    if len(names) == len(table.columns):
        raise ValueError(f"every column of X is constant{where}: there is nothing to explain")
    if names:
        shown = ", ".join(repr(name) for name in names[:5]) + (", ..." if len(names) > 5 else "")
        warnings.warn(
            f"constant column(s) {shown}{where}: kept, with score 0 and no standard error",
            ConstantColumnWarning,
            stacklevel=3,
        )


def _seed_sequence(random_state: object) -> np.random.SeedSequence:
    """Return the root of all seeds."""
    whole = isinstance(random_state, int | np.integer) and not isinstance(random_state, bool)
    if random_state is not None and not (whole and int(random_state) >= 0):  # type: ignore[call-overload]
        raise ValueError(
            f"random_state must be a whole number of 0 or more, or None, got {random_state!r}"
        )
    return np.random.SeedSequence(random_state)  # type: ignore[arg-type]


def _describe(value: Any) -> str:
    if isinstance(value, str):
        return value
    text = " ".join(repr(value).split())
    if callable(value) and not hasattr(value, "fit"):
        text = getattr(value, "__qualname__", type(value).__name__)
    return text if len(text) <= 300 else text[:297] + "..."


@contextmanager
def _progress(
    progress: bool | None, label: str, total: int
) -> Iterator[Callable[[int], object] | None]:
    """Yield the advance of a progress bar, or None where none is wanted."""
    shown = sys.stderr.isatty() if progress is None else progress
    if not shown:
        yield None
        return
    with tqdm(total=total, desc=label, leave=False) as bar:
        yield bar.update
