"""From a table and an outcome to :class:`~dfi._models.fits.Fits`, before anything is fitted.

One random order of the rows decides which models are fitted on and which are gathered of a table
that is not in memory: the first ``fit_rows`` of it, and as many as are explained. It depends on the
places of the rows and on the seed, never on how the table is cut, so a table in memory and the
same table in parts give the same samples.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from dfi._data.frames import split_column, split_columns
from dfi._data.outcome import Outcome, Quantile, SurvivalTarget, Task
from dfi._data.problem import Data, UnitsKind, read_data, require_groups
from dfi._data.seeds import Seeds
from dfi._data.source import sampled_places, tickets
from dfi._data.splits import split_data
from dfi._data.survival import Times, are_times, check_horizons, read_times
from dfi._models.adapters import survival_model
from dfi._models.censoring import survival_outcome
from dfi._models.cluster import is_cluster_learner
from dfi._models.distribution import LocationScale, distribution_outcome
from dfi._models.fits import Cache, Fits, Scale
from dfi._models.learners import (
    check_learner_suits_outcome,
    predicts_classes,
    resolve_learner,
)
from dfi._models.parallel import Workers
from dfi._models.pseudo import require_every_row
from dfi._parameters import (
    TABLE,
    TARGET,
    InvalidParameterError,
    argument,
    one_of,
    taken_by,
    validated,
)
from dfi._progress import progress_bar
from dfi._streams.gather import gather_frame
from dfi._streams.keys import sorted_by_key
from dfi._streams.parts import unwatched
from dfi._streams.read import facts_of_rows, is_stream, open_stream
from dfi.losses import Loss, LossLike, resolve_loss

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dfi._data.everyday import Identifiers
    from dfi._data.table import Missing
    from dfi._streams.parts import Watch
    from dfi._types import (
        EstimatorLike,
        GroupsLike,
        HorizonLike,
        SplitsLike,
        TableLike,
        TargetLike,
        VectorLike,
    )

PREFIT_FOLDS = 5
"""Folds of the censoring models if the regression was fitted elsewhere."""

GROUP_REPEATS = 5
"""Number of splits if groups are units: scores of weak models differ between splits."""


@validated
def prepare(
    X: TableLike,
    y: VectorLike,
    *,
    estimator: EstimatorLike = "auto",
    cv: SplitsLike = 5,
    n_repeats: int | None = None,
    feature_groups: GroupsLike = None,
    units: UnitsKind = "columns",
    sample_weight: VectorLike = None,
    frequency_weight: VectorLike = None,
    clusters: VectorLike = None,
    missing: Missing = "indicator",
    identifiers: Identifiers = "drop",
    loss: LossLike = "auto",
    task: Task = "auto",
    pos_label: object = None,
    target: TargetLike = None,
    horizon: HorizonLike = None,
    scale: Scale = "response",
    n_jobs: int | None = None,
    random_state: int | None = 0,
    progress: bool | None = None,
    fit_rows: int | None = None,
    explain_rows: int | str | None = None,
    samples: bool = False,
    row_id: str | None = None,
    most_splits: int = 1,
) -> Fits:
    """Read the data and split them once; models are fitted when a method needs them.

    What comes back is what every method of :mod:`dfi.methods` computes from:
    ``LOCO().compute(prepare(X, y))``. Of a table of more than 20,000 rows that is not in memory so
    many are gathered, drawn at random. :func:`dfi.explain` says more of the parameters.

    Parameters
    ----------
    target : {"rmst", "probability"}, optional
        What of times to an event is explained, as for :func:`dfi.explain`.
    samples : bool, default=False
        Whether the methods that will be asked take sums over all rows of such a table, and a sample
        of ``fit_rows`` of them.
    most_splits : int, default=1
        How often the rows of a small table may be split where ``n_repeats`` is not given: twice,
        and more often where scores differ between splits. Methods that refit the regression take
        one split.

    Returns
    -------
    Fits
        What ``compute`` of a method takes.

    Examples
    --------
    >>> dfi.methods.LOCO().compute(fits)["loco"].influence.shape
    (200, 3)
    """
    given = dict(locals())
    chosen = resolve_loss(loss)
    prefit = isinstance(cv, str) and cv == "prefit"
    if scale == "margin" and not (prefit and chosen is None):
        raise ValueError(
            "scale='margin' describes a fitted classifier by squared errors of its log-odds: pass "
            f"{argument('cv', 'prefit')} and leave {argument('loss')} at 'auto'"
        )
    times = take_times(given)
    given["classified"] = not isinstance(estimator, str | type) and predicts_classes(estimator)
    given["counted"] = chosen is not None and chosen.domain == "positive"
    seeds = Seeds.of(random_state)
    read = read_streamed if is_stream(X) else read_here
    data = read(given, seeds, prefit=prefit)
    rest = {**given, "data": data, "loss": chosen, "seeds": seeds}
    if times is not None:
        return survival_fits(rest, times.take(data.kept))
    if target is not None:
        return distribution_fits(rest)
    return fits_of(**taken_by(fits_of, rest))


def take_times(given: dict[str, Any]) -> Times | None:
    """Return the times to an event if the outcome is one, and a stand-in outcome for the rest."""
    y, task, target = given["y"], given["task"], given["target"]
    known = isinstance(target, str) and target in get_args(SurvivalTarget)
    asked = task == "survival" or known or given["horizon"] is not None
    if not (asked or (task == "auto" and are_times(y))):
        return None
    if task not in ("auto", "survival"):
        raise InvalidParameterError(
            f"{argument('horizon')} is for {argument('task', 'survival')}, not for "
            f"{argument('task', task)}",
            "task",
            f"leave one of {argument('horizon')} and {argument('task')} out",
        )
    if given.get("loss") not in (None, "auto", "squared-error"):
        raise InvalidParameterError(
            "times to an event are explained by squared errors of their means, or of chances (the "
            "Brier score)",
            "loss",
            f"leave {argument('loss')} at 'auto'",
        )
    if given.get("scale") == "margin":
        raise InvalidParameterError(
            "scale='margin' is about classes, but this outcome is a time", "scale", "leave it out"
        )
    if is_stream(given["X"]):
        raise TypeError(
            f"{TABLE} is a {type(given['X']).__name__}, a table that is not in memory, but times "
            "to an event are explained in memory: read it, or a random sample of its rows, into a "
            "data frame first"
        )
    given["X"], times = read_times(given["X"], y)
    given |= {
        "y": times.time,
        "task": "regression",
        "horizon": check_horizons(given["horizon"], times),
        "target": one_of("target", target or "rmst", get_args(SurvivalTarget)),
    }
    return times


def survival_fits(given: Mapping[str, Any], times: Times) -> Fits:
    data: Data = given["data"]
    cv, horizons, target = given["cv"], given["horizon"], given["target"]
    data = replace(data, outcome=Outcome(times.event.astype(np.float64), times.names[0], "real"))
    prefit = isinstance(cv, str)
    estimator = given["estimator"]
    if prefit:
        estimator = survival_model(estimator, horizons, target)
    elif hasattr(estimator, "predict_survival_function"):
        raise InvalidParameterError(
            f"{type(estimator).__name__} learns times, but the outcome is a number for each row",
            "estimator",
            "pass a regressor, or fit this model on other rows and pass "
            f"{argument('cv', 'prefit')}",
        )
    fits = fits_of(**taken_by(fits_of, {**given, "data": data, "estimator": estimator}))
    repeats = fits.repeats
    if prefit:
        repeats = split_data(data, PREFIT_FOLDS, 1, fits.seeds.child("censoring"))
    else:
        require_every_row(fits, "a time to an event")
    outcome = survival_outcome(data, times, repeats, horizons, target)
    # the outcome holds the splits that there are
    return replace(fits, data=replace(fits.data, outcome=outcome), most_splits=0)


def distribution_fits(given: Mapping[str, Any]) -> Fits:
    data: Data = given["data"]
    target = given["target"]
    if data.outcome.kind not in ("real", "count"):
        raise InvalidParameterError(
            f"{argument('target', target)} is about the distribution of a quantity, but {TARGET} "
            f"has {'several columns' if data.outcome.kind == 'several' else 'classes'}",
            "target",
            "leave it out, or pass one quantity",
        )
    if isinstance(given["cv"], str):
        raise InvalidParameterError(
            f"{argument('target', target)} needs models of the whole distribution, which are "
            "fitted here",
            "cv",
            "pass a number of folds, and an unfitted estimator of the mean",
        )
    if given["loss"] is not None:
        raise InvalidParameterError(
            f"{argument('target', target)} is explained by the Brier score of lying below "
            "each quantile",
            "loss",
            f"leave {argument('loss')} at 'auto'",
        )
    level = target.level if isinstance(target, Quantile) else None
    outcome, thresholds, share = distribution_outcome(data.outcome, data.weights, level)
    learner = resolve_learner(given["estimator"])
    check_learner_suits_outcome(learner, data.outcome)
    model = LocationScale(estimator=learner, thresholds=thresholds, share=share)
    fits = fits_of(**taken_by(fits_of, {**given, "estimator": model}))
    settings = {**fits.settings, "estimator": given["estimator"]}
    if level is None:
        return replace(fits, data=replace(fits.data, outcome=outcome), settings=settings)
    # the models learn the quantity, and predict where it lies
    return replace(
        fits, data=replace(fits.data, outcome=outcome), settings=settings, whole=fits, cache=Cache()
    )


def fits_of(
    data: Data,
    *,
    estimator: EstimatorLike = "auto",
    cv: SplitsLike = 5,
    n_repeats: int | None = None,
    loss: Loss | None = None,
    scale: Scale = "response",
    n_jobs: int | None = None,
    random_state: int | None = 0,
    progress: bool | None = None,
    seeds: Seeds | None = None,
    most_splits: int = 1,
) -> Fits:
    """Split data that have been read, or use a fitted model for them, as ``cv`` says."""
    if data.dropped and not (isinstance(cv, int | np.integer | str) or hasattr(cv, "split")):
        raise ValueError(
            f"{data.dropped} rows with missing values are left out, so the row numbers in cv "
            f"are no longer those of {TABLE}: pass a number of folds or a splitter, or drop the "
            "rows first"
        )
    if isinstance(cv, str) and cv != "prefit":
        raise ValueError(f"unknown cv {cv!r}: pass a number of folds, a splitter or 'prefit'")
    if n_repeats is None:
        n_repeats = GROUP_REPEATS if data.joint and isinstance(cv, int) else None
    fit = partial(Fits.cross, cv=cv, most_splits=most_splits)
    if isinstance(cv, str):
        fit = partial(Fits.of_fitted, scale=scale)
    return fit(
        data,
        estimator,
        n_repeats=n_repeats,
        loss=loss,
        random_state=random_state,
        workers=Workers(n_jobs, progress),
        seeds=seeds,
    )


def read_here(
    given: Mapping[str, Any],
    seeds: Seeds,
    facts: Mapping[str, object] | None = None,
    *,
    prefit: bool,
) -> Data:
    """Read a table in memory; ``facts`` are those of a sample that was gathered from elsewhere."""
    row_id, facts = given["row_id"], facts or {}
    if row_id is not None:
        given = {**given, "X": sorted_by_key(given["X"], row_id, given)}
        facts = facts_of_rows(row_id, keyed=True)
    data = replace(read_data(**taken_by(read_data, given), prefit=prefit), facts=facts)
    return with_fit_rows(data, given["fit_rows"], seeds, cv=given["cv"], prefit=prefit)


FIT_ROWS = 200_000
"""Rows of a table not in memory that models are fitted on and that can be explained."""

ORDER = "explained rows"
"""The name of the seed of the random order of the rows."""


def check_streamed(cv: SplitsLike) -> None:
    if not isinstance(cv, int | np.integer | str) and not hasattr(cv, "split"):
        raise ValueError(
            f"{argument('cv')} is a list of row numbers, but the rows of {TABLE} are not in "
            "memory: pass a number of folds, or a splitter"
        )


def several_named(y: object) -> bool:
    return isinstance(y, list | tuple) and bool(y) and all(isinstance(name, str) for name in y)


def take_frame(
    given: Mapping[str, Any],
    seeds: Seeds,
    watch: Watch = unwatched,
    *,
    named: Sequence[str] = ("y", "sample_weight", "frequency_weight"),
) -> tuple[dict[str, Any], Mapping[str, object]]:
    """Return the call on a sample of a table that is not in memory, clusters drawn whole."""
    row_id, clusters, y = given.get("row_id"), given.get("clusters"), given["y"]
    for role in (*named, "clusters"):
        value = given.get(role)
        if value is None or isinstance(value, str) or (role == "y" and several_named(value)):
            continue
        raise TypeError(
            f"{role} is a {type(value).__name__}, but {TABLE} is a table that is not in memory: "
            f"name the column of {TABLE} that holds it, {argument(role, ...)}"
        )
    frame, facts = gather_frame(
        given["X"], seeds.child(ORDER).sequence(), row_id=row_id, together=clusters, watch=watch
    )
    if row_id is not None:
        frame, _ = split_column(frame, row_id, "row_id", "the rows")
    if clusters is not None:
        frame, clusters = split_column(frame, clusters, "clusters", "the clusters")
    if several_named(y):
        frame, y = split_columns(frame, list(y), "y")
    return {**given, "X": frame, "y": y, "clusters": clusters, "row_id": None}, facts


def read_streamed(given: Mapping[str, Any], seeds: Seeds, *, prefit: bool) -> Data:
    """Read a table in parts: all rows if few, else the first of a random order.

    Where sums over all rows are of no use, a sample of the rows is read like a table in memory.
    """
    check_streamed(given["cv"])
    watch: Watch = partial(progress_bar, given["progress"])
    clusters, several = given["clusters"] is not None, several_named(given["y"])
    if clusters or several or given["target"] is not None or not given["samples"]:
        sample, facts = take_frame(given, seeds, watch)
        return read_here(sample, seeds, facts, prefit=prefit)
    groups, units, fit_rows = given["feature_groups"], given["units"], given["fit_rows"]
    cluster = is_cluster_learner(given["estimator"]) and not prefit
    require_groups(units, groups)
    stream = open_stream(**taken_by(open_stream, given), watch=watch)
    n = stream.n_rows
    fit = FIT_ROWS if fit_rows is None else fit_rows
    if not stream.large:
        data = stream.gathered(groups=groups, units=units)
        return with_fit_rows(data, fit_rows, seeds)
    asked = given["explain_rows"]
    if asked is None and fit < n:
        raise ValueError(
            f"{argument('explain_rows', None)} explains all {n} rows, but {TABLE} is not in "
            f"memory: pass a number or 'auto', or {argument('fit_rows', n)} to gather them"
        )
    count = fit if asked is None or isinstance(asked, str) else max(fit, int(asked))
    if cluster:
        count = min(count, n)
    elif count >= n:
        data = stream.gathered(groups=groups, units=units)
        return with_fit_rows(data, fit, seeds)
    seed = seeds.child(ORDER).sequence()
    data = stream.gathered((count, seed), groups=groups, units=units)
    if prefit or cluster:
        return data
    order = np.argsort(tickets(data.places_of(np.arange(data.table.n_rows)), seed))
    return replace(data, fit=np.sort(order[:fit]))


def with_fit_rows(
    data: Data, fit_rows: int | None, seeds: Seeds, *, cv: SplitsLike = 5, prefit: bool = False
) -> Data:
    """Return a table in memory with the rows that models are fitted on: by default all."""
    if fit_rows is None:
        return data
    if prefit:
        raise ValueError(
            f"{argument('fit_rows')} applies to models fitted here, but "
            f"{argument('cv', 'prefit')} fits none: leave it out"
        )
    if data.row_groups is not None:
        raise ValueError(
            f"{argument('fit_rows')} takes a random sample of the rows, but "
            f"{argument('clusters')} keeps rows together: leave one of them out"
        )
    if not isinstance(cv, int | np.integer) and not hasattr(cv, "split"):
        raise ValueError(
            f"{argument('fit_rows')} takes a random sample of the rows, but {argument('cv')} is a "
            f"list of row numbers, which sets the rows to fit on: leave {argument('fit_rows')} out"
        )
    n = data.table.n_rows
    if fit_rows >= n:
        return data
    return replace(data, fit=sampled_places(n, fit_rows, seeds.child(ORDER).sequence()))
