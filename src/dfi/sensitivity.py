"""How far the answer depends on the transport: scores over a grid, on the same fitted models."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dfi._data import as_frame
from dfi.estimator import DFI
from dfi.transports import resolve_transport
from dfi.transports.base import Transport, UnsuitableTransportError
from dfi.transports.entropic import EntropicOT
from dfi.transports.gaussian import Gaussian
from dfi.warnings import TransportWarning, warn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

    from dfi._types import Floats, Ints
    from dfi.results.importance import Importance


@dataclass(frozen=True)
class Sensitivity:
    """Results of the same models under several transports.

    Attributes
    ----------
    results : tuple of Importance
        One per setting, in the order given.
    labels : tuple of str
        The settings.
    skipped : mapping of str to str
        Settings that the data do not allow, with the reason.
    """

    results: tuple[Importance, ...]
    labels: tuple[str, ...]
    skipped: Mapping[str, str]

    def __getitem__(self, label: str) -> Importance:
        """Return the result of one setting."""
        if label not in self.labels:
            known = ", ".join(map(repr, self.labels))
            raise KeyError(f"no setting {label!r}: the settings are {known}")
        return self.results[self.labels.index(label)]

    @property
    def names(self) -> tuple[str, ...]:
        """The features."""
        return self.results[0].names

    def scores(self) -> Floats:
        """Return the attributed scores, shape (settings, features)."""
        return np.stack([result.scores for result in self.results])

    def ranks(self) -> Ints:
        """Return the rank of every feature under every setting, 1 for the largest score."""
        order = np.argsort(-self.scores(), axis=1, kind="stable")
        ranks = np.empty_like(order)
        np.put_along_axis(ranks, order, np.arange(1, order.shape[1] + 1)[None, :], axis=1)
        return ranks

    def rank_agreement(self) -> Floats:
        """Return Spearman's correlation of the ranks between settings, (settings, settings)."""
        if len(self.names) < 2:
            return np.ones((len(self.labels), len(self.labels)))
        return np.atleast_2d(np.corrcoef(self.ranks().astype(float)))

    def table(self) -> Any:
        """Return one row per setting and feature, in a dataframe of the input's library.

        Columns: setting, feature, score, se, share, rank and the latent score.
        """
        settings, features = len(self.labels), len(self.names)
        scores = self.scores()
        total = scores.sum(axis=1, keepdims=True)
        latent = np.stack(
            [r.latent.scores if r.latent is not None else r.scores for r in self.results]
        )
        return as_frame(
            {
                "setting": np.repeat(np.array(self.labels, dtype=object), features),
                "feature": np.tile(np.array(self.names, dtype=object), settings),
                "score": scores.ravel(),
                "se": np.stack([result.se for result in self.results]).ravel(),
                "share": (scores / total).ravel(),
                "rank": self.ranks().ravel(),
                "latent_score": latent.ravel(),
            },
            self.results[0].library,
        )

    def plot(self, **options: Any) -> Axes:
        """Draw every feature's score over the settings (:func:`dfi.plots.sensitivity`)."""
        from dfi import plots

        return plots.sensitivity(dict(zip(self.labels, self.results, strict=True)), **options)

    def __repr__(self) -> str:
        lines = [f"Sensitivity: {len(self.names)} features under {len(self.labels)} settings"]
        width = max(map(len, (*self.labels, *self.skipped)))
        for label, scores in zip(self.labels, self.scores(), strict=True):
            leading = np.argsort(-scores, kind="stable")[:3]
            shown = ", ".join(f"{self.names[unit]} {scores[unit]:.4g}" for unit in leading)
            lines.append(f"{label:{width}s}  {shown}")
        lines += [f"{label:{width}s}  skipped: {reason}" for label, reason in self.skipped.items()]
        return "\n".join(lines)


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
) -> Sensitivity:
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
    Sensitivity
        A setting that the data do not allow (too few rows for an entropic kernel, a missing
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
    return Sensitivity(tuple(results.values()), tuple(results), skipped)


def _settings(
    transports: Sequence[Any] | None, epsilons: Sequence[float] | None, solved: bool
) -> dict[str, Transport]:
    """Return the transports by label."""
    if (transports is None) == (epsilons is None):
        raise TypeError("pass either transports=[...] or epsilons=[...]")
    name, given = ("epsilons", epsilons) if transports is None else ("transports", transports)
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"{name} must be a list, got {given!r}: pass {name}=[{given!r}]")
    found: dict[str, Transport] = {}
    if epsilons is not None:
        kind = EntropicOT if solved else Gaussian
        for epsilon in epsilons:
            # as many digits as tell the settings apart
            label = f"epsilon = {epsilon:g}"
            if label in found:
                label = f"epsilon = {float(epsilon)!r}"
            if label in found:
                raise ValueError(f"epsilons has {epsilon!r} twice")
            found[label] = Gaussian() if epsilon == 0 else kind(epsilon=epsilon)
    else:
        for transport in transports or ():
            design = resolve_transport(transport)
            label = design.name if isinstance(transport, str) else design.label()
            found[label if label not in found else f"{label} ({len(found) + 1})"] = design
    if not found:
        raise ValueError("there is no setting to compare: the list is empty")
    return found


def _copy(seed: np.random.SeedSequence) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key)


def _reseeded(fold: Any) -> Any:
    return dataclasses.replace(fold, seed=_copy(fold.seed))
