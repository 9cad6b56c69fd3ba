"""The public calls: read the data, fit the models, compute the methods, collect the results."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from dfi._collect import importances
from dfi._data.survival import read_times
from dfi._models.crossfit import FIRST_SPLITS, MOST_SPLITS
from dfi._models.learners import warn_of_refits
from dfi._models.prepare import prepare
from dfi._parameters import (
    EPSILONS,
    InvalidParameterError,
    argument,
    check_one,
    taken_by,
    validated,
    worded,
)
from dfi._progress import expecting, is_shown
from dfi._streams.read import is_stream
from dfi.methods import resolve_methods
from dfi.methods.compute import refusal
from dfi.methods.disentangled import Disentangled
from dfi.methods.expected import seconds_before
from dfi.results.collection import MethodRecord, Results
from dfi.results.selection import Selection
from dfi.transports import resolve_transport
from dfi.transports.base import Transport, UnsuitableTransportError
from dfi.transports.entropic import EntropicOT
from dfi.transports.gaussian import Gaussian
from dfi.warnings import TransportWarning, warn

if TYPE_CHECKING:
    from dfi._data.everyday import Identifiers
    from dfi._data.outcome import Task as OutcomeTask
    from dfi._data.problem import UnitsKind
    from dfi._data.table import Missing
    from dfi._lines.choose import Quadrature
    from dfi._models.fits import Scale
    from dfi._scoring.forms import AskedForm
    from dfi._scoring.task import TransportError
    from dfi._types import (
        EstimatorLike,
        GroupsLike,
        HorizonLike,
        SplitsLike,
        TableLike,
        TargetLike,
        TransportLike,
        VectorLike,
    )
    from dfi.inference.tests import Adjustment
    from dfi.losses import LossLike
    from dfi.methods.base import Method
    from dfi.methods.stages import ExplainRows
    from dfi.results.importance import Importance


@validated
def explain(
    X: TableLike,
    y: VectorLike = None,
    estimator: EstimatorLike = "auto",
    *,
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
    fit_rows: int | None = None,
    sample_weight: VectorLike = None,
    frequency_weight: VectorLike = None,
    clusters: VectorLike = None,
    row_id: str | None = None,
    missing: Missing = "indicator",
    identifiers: Identifiers = "drop",
    loss: LossLike = "auto",
    task: OutcomeTask = "auto",
    pos_label: object = None,
    target: TargetLike = None,
    horizon: HorizonLike = None,
    time: str | None = None,
    event: str | None = None,
    scale: Scale = "response",
    level: float = 0.95,
    n_jobs: int | None = None,
    random_state: int | None = 0,
    progress: bool | None = None,
) -> Importance:
    """Explain ``y`` by the columns of ``X``: which features carry the signal, with inference.

    Parameters
    ----------
    X : dataframe or array of shape (n, d), or a table that is not in memory
        A numpy, pandas, polars, pyarrow or sparse table of numbers, booleans and categories; a
        category is one unit. Or the path of a Parquet file, a pattern (``"data/*.parquet"``), a
        folder or a list of paths; a polars LazyFrame, a pyarrow Dataset, anything with
        ``__arrow_c_stream__`` (a DuckDB relation, an Ibis table, a Daft frame); a Spark table; a
        dask.dataframe or dask array. These are not loaded into memory: the transport uses sums over
        all rows, and models are fitted and explained on a random sample.
    target : {"distribution", "rmst", "probability"} or Quantile, optional
        What to explain about the outcome; by default its mean. ``"distribution"``: the whole
        distribution, including spread and tails; a :class:`dfi.Quantile`: one tail. For times to an
        event, ``"rmst"``, the restricted mean survival time up to the ``horizon``, or
        ``"probability"``, the chance of surviving it.

    Returns
    -------
    Importance
        Scores, standard errors, intervals and tests of every feature.

    Examples
    --------
    >>> sample = dfi.datasets.m1(500, rho=0.8)
    >>> result = dfi.explain(sample.X, sample.y, estimator="linear")
    >>> bool(result.scores[0] > result.scores[1] > 4)
    True
    """
    given = dict(locals())
    if time is not None or event is not None:
        given["X"], given["y"] = read_times(X, y, time, event)
    elif y is None and not is_stream(X):
        raise InvalidParameterError(
            "explain needs y",
            "y",
            "pass the outcome, or name the columns of times to an event with "
            f"{argument('time', ...)} and {argument('event', ...)}",
        )
    method = Disentangled(**taken_by(Disentangled, given))
    method.check(prefit=isinstance(cv, str) and cv == "prefit")
    warn_of_refits(estimator, cv)
    fits = prepare(**taken_by(prepare, given), samples=True, most_splits=MOST_SPLITS)
    with expecting(seconds_before(fits, method) if is_shown(progress) else None):
        return importances(fits, method, level, keep_rows=keep_rows)[method.name]


@validated
def compare(
    X: TableLike,
    y: VectorLike,
    methods: str | Method | Sequence[str | Method] = "all",
    *,
    estimator: EstimatorLike = "auto",
    feature_groups: GroupsLike = None,
    units: UnitsKind = "columns",
    cv: SplitsLike = 5,
    keep_rows: bool = False,
    sample_weight: VectorLike = None,
    frequency_weight: VectorLike = None,
    clusters: VectorLike = None,
    row_id: str | None = None,
    missing: Missing = "indicator",
    identifiers: Identifiers = "drop",
    loss: LossLike = "auto",
    task: OutcomeTask = "auto",
    pos_label: object = None,
    target: TargetLike = None,
    horizon: HorizonLike = None,
    level: float = 0.95,
    n_jobs: int | None = None,
    random_state: int | None = 0,
    progress: bool | None = None,
) -> Results:
    """Compute several importances on the same folds and models, each with its inference.

    Parameters
    ----------
    methods : "all", str, method or list of these, default="all"
        ``"dfi"``, ``"loco"``, ``"nloco"``, ``"dloco"``, ``"pfi"``, ``"cpi"``, ``"shapley"``,
        ``"sobol"``, ``"pcm"``, ``"r2"``, or objects of :mod:`dfi.methods` with parameters of
        their own, e.g. ``dfi.methods.Disentangled(transport="copula")``.
    estimator : str or estimator, default="auto"
        The regression, as for :func:`dfi.explain`; refitted without features if a method needs
        that.
    feature_groups : mapping, frame or sequence, optional
        Score groups of features, not features: refits leave out a whole group, permutations move
        it as one; DFI adds up its members, unless ``units="groups"``.
    cv : int, splitter or iterable of splits, default=5
        One split that all methods share: every row is scored by models that have not seen it.
    target : {"rmst", "probability"}, optional
        What of times to an event is explained, as for :func:`dfi.explain`.

    Returns
    -------
    Results
        The results by name, with ``table()``, ``questions()``, ``ranks()`` and ``plot()``.

    Examples
    --------
    >>> sample = dfi.datasets.m1(500, rho=0.8)
    >>> both = dfi.compare(sample.X, sample.y, ["dfi", "loco"], estimator="linear")
    >>> bool(both["loco"].scores[1] < 0.1 < both["dfi"].scores[1])
    True
    """
    given = dict(locals())
    everything = isinstance(methods, str) and methods == "all"
    chosen = resolve_methods(methods)
    if isinstance(cv, str):
        raise TypeError(
            f"{argument('cv')} is {cv!r}: comparators refit the regression without features, so a "
            "fitted model cannot be compared; pass a number of folds"
            + worded(" or a splitter, and an unfitted estimator", ", and a --model by its name")
        )
    for method in chosen:
        if isinstance(method, Disentangled):
            method.check(prefit=False)
    n_repeats = 1 if units == "groups" else None
    fits = prepare(**taken_by(prepare, given), n_repeats=n_repeats)
    fits.require_one_split()
    results: dict[str, Importance] = {}
    records: list[MethodRecord] = []
    for method in chosen:
        start, fitting = time.perf_counter(), fits.seconds
        reason = refusal(method, fits)
        if reason is not None and not everything:
            raise ValueError(reason)
        found = {} if reason is not None else importances(fits, method, level, keep_rows=keep_rows)
        results |= {
            key: result if result.default_groups is None else result.group()
            for key, result in found.items()
        }
        records.append(
            MethodRecord(
                method.name,
                method.question,
                method.valid_intervals,
                method.inference,
                time.perf_counter() - start - (fits.seconds - fitting),
                tuple(found),
                reason,
            )
        )
    skipped = {r.name: r.skipped for r in records if r.skipped is not None}
    return Results(results, tuple(records), fits.seconds, skipped)


CONDITIONAL = ("pcm", "loco", "cpi")
"""Methods whose null is that a unit adds nothing once all others are known."""


@validated
def select(
    X: TableLike,
    y: VectorLike,
    method: str | Method = "pcm",
    *,
    alpha: float = 0.1,
    adjust: Adjustment = "bh",
    estimator: EstimatorLike = "auto",
    feature_groups: GroupsLike = None,
    units: UnitsKind = "columns",
    cv: SplitsLike = 5,
    sample_weight: VectorLike = None,
    frequency_weight: VectorLike = None,
    clusters: VectorLike = None,
    missing: Missing = "indicator",
    loss: LossLike = "auto",
    task: OutcomeTask = "auto",
    pos_label: object = None,
    n_jobs: int | None = None,
    random_state: int | None = 0,
    progress: bool | None = None,
) -> Selection:
    """Select the features that add something given all others, and control false discoveries.

    Parameters
    ----------
    method : {"pcm", "loco", "cpi"} or such a method, default="pcm"
        The test of each feature. PCM has the right size at the null, for quantities and two
        classes. LOCO works with every loss and three or more classes, but is conservative; so is
        CPI, which also needs a correct model of the feature given the others.
    alpha : float, default=0.1
        The false discovery rate to control.
    adjust : {"bh", "by", "holm", "bonferroni"}, default="bh"
        ``"bh"``: the false discovery rate, for tests that are independent or depend positively
        (Benjamini and Hochberg). ``"by"``: however they depend (Benjamini and Yekutieli).
        ``"holm"``, ``"bonferroni"``: the probability of any false discovery.
    estimator : str or estimator, default="auto"
        The regression, as for :func:`dfi.explain`; refitted without features.
    feature_groups : mapping, frame or sequence, optional
        Test groups of features, not features.
    cv : int, splitter or iterable of splits, default=5
        Every row is scored by models that did not see it.

    Returns
    -------
    Selection
        ``selected``, and every p-value in ``table()``.

    Raises
    ------
    ValueError
        The method does not test features given the others, or refuses these data.

    Examples
    --------
    >>> sample = dfi.datasets.m1(500, rho=0.8, d=4)
    >>> dfi.select(sample.X, sample.y, "loco", estimator="linear").selected
    ('x0',)
    """
    given = dict(locals())
    (chosen,) = resolve_methods([method])
    if chosen.name not in CONDITIONAL:
        raise ValueError(
            f"{chosen.name!r} does not test what a feature adds once all others are known: choose "
            f"one of {', '.join(map(repr, CONDITIONAL))}"
        )
    found = compare(methods=[chosen], **taken_by(compare, given))
    return Selection(found[chosen.name], adjust, alpha)


@validated
def sensitivity(
    X: TableLike,
    y: VectorLike,
    estimator: EstimatorLike = "auto",
    *,
    transports: Sequence[TransportLike] | None = None,
    epsilons: Sequence[float] | None = None,
    solved: bool = False,
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
    sample_weight: VectorLike = None,
    frequency_weight: VectorLike = None,
    clusters: VectorLike = None,
    row_id: str | None = None,
    missing: Missing = "indicator",
    identifiers: Identifiers = "drop",
    loss: LossLike = "auto",
    task: OutcomeTask = "auto",
    pos_label: object = None,
    target: TargetLike = None,
    horizon: HorizonLike = None,
    level: float = 0.95,
    n_jobs: int | None = None,
    random_state: int | None = 0,
    progress: bool | None = None,
) -> Results:
    """Explain the same fitted models under several transports, or over a grid of epsilon.

    Parameters
    ----------
    transports : sequence, optional
        Names or transports; without ``epsilons`` "gaussian", "copula" and "brenier" by default.
    epsilons : sequence of float, optional
        Entropy weights: of the Gaussian bridge, or with ``solved=True`` of entropic transport
        solved on the rows (0 is plain whitening in both cases).
    solved : bool, default=False
        Whether ``epsilons`` belong to entropic transport instead of the Gaussian bridge.
    target : {"rmst", "probability"}, optional
        What of times to an event is explained, as for :func:`dfi.explain`.

    Returns
    -------
    Results
        One result per setting. Settings that the data do not allow (too few rows for an entropic
        kernel, a missing package) are in ``skipped`` with the reason. When printed, it says whether
        the leading features depend on the setting (:attr:`Results.dependence`).

    Examples
    --------
    >>> sample = dfi.datasets.m1(300, rho=0.8, d=3)
    >>> found = dfi.sensitivity(sample.X, sample.y, epsilons=[0.0, 0.5], estimator="linear")
    >>> found.labels
    ('epsilon = 0', 'epsilon = 0.5')
    """
    given = dict(locals())
    settings = {
        label: Disentangled(**taken_by(Disentangled, {**given, "transport": transport}))
        for label, transport in _settings(transports, epsilons, solved).items()
    }
    warn_of_refits(estimator, cv)
    next(iter(settings.values())).check(prefit=isinstance(cv, str) and cv == "prefit")
    fits = prepare(**taken_by(prepare, given), most_splits=FIRST_SPLITS)
    results: dict[str, Importance] = {}
    skipped: dict[str, str] = {}
    for label, method in settings.items():
        try:
            results[label] = importances(fits, method, level, keep_rows=keep_rows)[method.name]
        except (UnsuitableTransportError, ImportError) as error:
            skipped[label] = str(error)
            warn(f"{label} is left out: {error}", TransportWarning)
    if not results:
        reasons = "; ".join(f"{label}: {reason}" for label, reason in skipped.items())
        raise ValueError(f"no setting could be explained. {reasons}")
    return Results(results, fit_seconds=fits.seconds, skipped=skipped, by="setting")


def _settings(
    transports: Sequence[TransportLike] | None, epsilons: Sequence[float] | None, solved: bool
) -> dict[str, Transport]:
    if transports is not None and epsilons is not None:
        raise TypeError(f"pass either {argument('transports', ...)} or {argument('epsilons', ...)}")
    if epsilons is None and transports is None:
        transports = COMPARED
    name, given = ("epsilons", epsilons) if transports is None else ("transports", transports)
    if isinstance(given, str) or not isinstance(given, Iterable):
        shown = given if name == "epsilons" else repr(given)
        raise TypeError(f"{name} must be a list, got {given!r}: pass {name}=[{shown}]")
    if epsilons is not None:
        kind = EntropicOT if solved else Gaussian
        found = {}
        for epsilon in epsilons:
            check_one("epsilons", epsilon, (EPSILONS,))
            # as many digits as tell the settings apart
            label = f"epsilon = {epsilon:g}"
            if label in found:
                label = f"epsilon = {float(epsilon)!r}"
            if label in found:
                raise ValueError(f"epsilons has {epsilon!r} twice")
            found[label] = Gaussian() if epsilon == 0 else kind(epsilon=epsilon)
    else:
        found = {}
        for transport in transports or ():
            design = resolve_transport(transport)
            label = design.name if isinstance(transport, str) else design.label()
            found[label if label not in found else f"{label} ({len(found) + 1})"] = design
    if not found:
        raise ValueError("there is no setting to compare: the list is empty")
    return found


COMPARED = ("gaussian", "copula", "brenier")
"""Transports that sensitivity compares by default; none depends on the order of columns."""
