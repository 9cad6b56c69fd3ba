"""From a table and an outcome to :class:`~dfi._models.fits.Fits`, nothing fitted yet."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from dfi._data.problem import read_data
from dfi._data.streams.read import is_stream
from dfi._models.cluster import is_cluster_learner
from dfi._models.fits import Fits
from dfi._models.parallel import Workers, progress_bar
from dfi._models.samples import SampleSizes, check_streamed, read_streamed, with_fit_rows
from dfi._models.seeds import Seeds
from dfi._parameters import TABLE, argument, taken_by, validated
from dfi.losses import resolve_loss

if TYPE_CHECKING:
    from dfi._data.everyday import Identifiers
    from dfi._data.outcome import Task
    from dfi._data.problem import Data, UnitsKind
    from dfi._data.table import Missing
    from dfi._models.fits import Scale
    from dfi._types import EstimatorLike, GroupsLike, SplitsLike, TableLike, VectorLike
    from dfi.losses import Loss, LossLike

GROUP_REPEATS = 5
"""Splits of the rows where groups are units: scores of weak models differ between splits."""


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
    scale: Scale = "response",
    n_jobs: int | None = None,
    random_state: int | None = 0,
    progress: bool | None = None,
    fit_rows: int | None = None,
    explain_rows: int | str | None = None,
    samples: bool = False,
) -> Fits:
    """Read the data and split them once; models are fitted when a method asks for them.

    What comes back is what every method of :mod:`dfi.methods` computes from:
    ``LOCO().compute(prepare(X, y))``. Of a large table that is not in memory some rows are
    gathered, for methods that are about such ``samples``. :func:`dfi.explain` says more of the
    parameters.

    Parameters
    ----------
    samples : bool, default=False
        Whether the methods that will be asked take a sample of the rows of such a table.

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
    seeds = Seeds.of(random_state)
    given["counted"] = chosen is not None and chosen.domain == "positive"
    if is_stream(X):
        cluster = is_cluster_learner(estimator) and not prefit
        sizes = SampleSizes(fit_rows, explain_rows, prefit=prefit, samples=samples, cluster=cluster)
        check_streamed(cv, clusters)
        data = read_streamed(given, sizes, seeds, partial(progress_bar, progress))
    else:
        data = read_data(**taken_by(read_data, given), prefit=prefit)
        data = with_fit_rows(data, fit_rows, seeds, cv=cv, prefit=prefit)
    return fits_of(**taken_by(fits_of, {**given, "data": data, "loss": chosen, "seeds": seeds}))


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
) -> Fits:
    """Split data that were read already, or take a fitted model for them, as ``cv`` says."""
    if data.dropped and not (isinstance(cv, int | np.integer | str) or hasattr(cv, "split")):
        raise ValueError(
            f"{data.dropped} rows with missing values are left out, so that the row numbers in cv "
            f"are no longer those of {TABLE}: pass a number of folds or a splitter, or drop the "
            "rows first"
        )
    if isinstance(cv, str) and cv != "prefit":
        raise ValueError(f"unknown cv {cv!r}: pass a number of folds, a splitter or 'prefit'")
    if n_repeats is None:
        n_repeats = GROUP_REPEATS if data.joint and isinstance(cv, int) else None
    fit = partial(Fits.cross, cv=cv)
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
