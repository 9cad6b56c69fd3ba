"""How far the answer depends on the transport: scores over a grid, on the same fitted models."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from dfi.estimator import DFI
from dfi.results.collection import Results
from dfi.transports.base import UnsuitableTransportError
from dfi.transports.entropic import EntropicOT
from dfi.transports.gaussian import Gaussian
from dfi.transports.registry import resolve_transport
from dfi.warnings import TransportWarning, warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi.results.importance import Importance


def sensitivity(
    X: Any,
    y: Any,
    *,
    transports: Sequence[Any] | None = None,
    epsilons: Sequence[float] | None = None,
    solved: bool = False,
    sample_weight: Any = None,
    cv_groups: Any = None,
    **options: Any,
) -> Results:
    """Explain the same fitted models under several transports, or over a grid of epsilon.

    Parameters
    ----------
    X, y, sample_weight, cv_groups
        As for :func:`dfi.explain`.
    transports : sequence, optional
        Names or transports.
    epsilons : sequence of float, optional
        Entropy weights: of the Gaussian bridge, or with ``solved=True`` of entropic transport
        solved on the rows (0 is plain whitening in both cases).
    solved : bool, default=False
        What ``epsilons`` are the weights of.
    **options
        Further parameters of :class:`dfi.DFI`.

    Returns
    -------
    Results
        By setting. One that the data do not allow (too few rows for an entropic kernel, a missing
        package) is in ``skipped`` with its reason.

    Examples
    --------
    >>> import dfi
    >>> sample = dfi.datasets.m1(300, rho=0.8, d=3)
    >>> found = dfi.sensitivity(sample.X, sample.y, epsilons=[0.0, 0.5], estimator="linear")
    >>> found.labels
    ('epsilon = 0', 'epsilon = 0.5')
    """
    settings = _settings(transports, epsilons, solved)
    if "transport" in options:
        raise TypeError("pass the transports to compare as transports=[...], not transport")
    explainer = DFI(**options)
    fitted = explainer._fit_models(X, y, sample_weight, cv_groups, next(iter(settings.values())))
    results: dict[str, Importance] = {}
    skipped: dict[str, str] = {}
    for label, design in settings.items():
        # Seeds count what was drawn from them: every setting starts from the same state.
        fresh = dataclasses.replace(
            fitted,
            folds=tuple(_reseeded(fold) for fold in fitted.folds),
            diagnosis_seed=_copy(fitted.diagnosis_seed),
            transport_seed=_copy(fitted.transport_seed),
        )
        try:
            explainer._score_form(design)
            results[label] = explainer._explain(design, fresh)
        except (UnsuitableTransportError, ImportError) as error:
            skipped[label] = str(error)
            warn(f"{label} is left out: {error}", TransportWarning)
    if not results:
        reasons = "; ".join(f"{label}: {reason}" for label, reason in skipped.items())
        raise ValueError(f"no setting could be explained. {reasons}")
    return Results(results, skipped=skipped, by="setting")


def _settings(
    transports: Sequence[Any] | None, epsilons: Sequence[float] | None, solved: bool
) -> dict[str, Any]:
    """Return the transports by label."""
    if (transports is None) == (epsilons is None):
        raise TypeError("pass either transports=[...] or epsilons=[...]")
    name, given = ("epsilons", epsilons) if transports is None else ("transports", transports)
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"{name} must be a list, got {given!r}: pass {name}=[{given!r}]")
    if epsilons is not None:
        kind = EntropicOT if solved else Gaussian
        found = {}
        for epsilon in epsilons:
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
            label = design.name if isinstance(transport, str) else _label(design)
            found[label if label not in found else f"{label} ({len(found) + 1})"] = design
    if not found:
        raise ValueError("there is no setting to compare: the list is empty")
    return found


def _label(design: Any) -> str:
    """Return a transport's name with what its specification changes from the default."""
    if design.name == "custom":
        return type(design.transport).__name__
    default = type(design)()
    changed = [
        f"{field.name} = {getattr(design, field.name)}"
        for field in dataclasses.fields(design)
        if getattr(design, field.name) != getattr(default, field.name)
    ]
    return f"{design.name} ({', '.join(changed)})" if changed else str(design.name)


def _copy(seed: np.random.SeedSequence) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key)


def _reseeded(fold: Any) -> Any:
    return dataclasses.replace(fold, seed=_copy(fold.seed))
