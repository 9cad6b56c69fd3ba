"""Pairs of features: their joint effects, with intervals."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from dfi._docstrings import exemplified
from dfi._parameters import validated
from dfi.inference.influence import read_only
from dfi.inference.shares import is_clear, shares_of
from dfi.inference.tests import Estimate, UnitInference, adjust_p_values
from dfi.results.columns import PAIRS, frame_of, lists, text_lines
from dfi.results.file import FrozenRecord
from dfi.results.tables import SHARE_COLUMNS, place_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from dfi._types import Array, Floats, Frame, Plain
    from dfi.inference.influence import InfluenceRows

JOINED = " × "
"""Between the names of a pair."""

UNDERFITS = (
    "boosted trees learn interactions slowly: in simulations with 1000 rows they found about "
    "three quarters of a pair's score, and 90 % intervals covered it in a quarter to two thirds "
    "of the samples. Read these scores as lower bounds, or use the default learner"
)


@exemplified
@dataclass(frozen=True, eq=False, repr=False)
class Interactions(FrozenRecord):
    r"""Scores of pairs of features: what two of them explain together, beyond additive effects.

    With :math:`D_{jk}` the joint effect of two latent coordinates and :math:`g` the least-squares
    projection of the regression on sums of functions of single features, the score of a latent
    pair is :math:`\psi_{jk} = E\,D_{jk}(\eta - g)^2`, and pairs of features share these as features
    share scores: :math:`M = (L*L)\,\psi\,(L*L)'` (:mod:`dfi.methods.pairs`). A curve of a single
    feature is not a pair, whatever it is correlated with. Interactions of three features count for
    each of their pairs.

    Made by :meth:`dfi.Importance.interactions`; a mapping from pairs to estimates.

    Attributes
    ----------
    pairs : tuple of tuples of two str
        The scored pairs, largest score first.
    basis : InfluenceRows
        Influence values, a column for each pair and last what the same models explain.
    whole : ndarray of shape (pairs,)
        Scores in which curves of single features, seen through correlation, count as pairs.
    own : ndarray of shape (units,)
        What latent pairs attribute to a feature with itself; scores and these add up to the sum of
        the latent scores.
    effects : ndarray of shape (n, pairs)
        What a pair adds to the predictions of the rows.
    latent : Interactions, optional
        The same pairs of latent coordinates.

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((400, 3))
    >>> found = dfi.explain(X, X[:, 0] * X[:, 1] + X[:, 2], cv=2).interactions()
    >>> found.pairs[0], len(found)
    (('x0', 'x1'), 3)
    >>> found["x0", "x1"].p < 0.001
    True
    """

    pairs: tuple[tuple[str, str], ...]
    basis: InfluenceRows
    whole: Floats
    names: tuple[str, ...]
    own: Floats
    effects: Floats
    features: Mapping[str, Array] = field(default_factory=lambda: MappingProxyType({}))
    spec: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    latent: Interactions | None = None
    level: float = 0.95
    library: str = "numpy"

    def __post_init__(self) -> None:
        if self.basis.n_units != len(self.pairs) + 1:
            raise ValueError(
                f"basis must have a column for each of the {len(self.pairs)} pairs and one more, "
                f"got {self.basis.n_units}"
            )
        super().__post_init__()
        object.__setattr__(self, "pairs", tuple((str(a), str(b)) for a, b in self.pairs))

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        count = len(self.pairs)
        effects = (self.basis.n_rows, count)
        return {"whole": (count,), "own": (len(self.names),), "effects": effects}

    def __len__(self) -> int:
        return len(self.pairs)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.pairs)

    def __contains__(self, pair: object) -> bool:
        return isinstance(pair, tuple) and (pair in self.pairs or pair[::-1] in self.pairs)

    def __getitem__(self, pair: tuple[str, str]) -> Estimate:
        at = self.place_of(pair)
        columns = pair_columns(self, self.level)
        score, error, low, high, z, p = (
            float(columns[key][at]) for key in ("score", "se", "ci_low", "ci_high", "z", "p")
        )
        return Estimate(score, error, low, high, z, p, self.level)

    @validated
    def place_of(self, pair: Sequence[str]) -> int:
        """Return the position of a pair, named in either order; raise if it was not scored.

        Parameters
        ----------
        pair : tuple of two str
            Two units.

        Examples
        --------
        >>> pairs.place_of(("x2", "x1")) == pairs.place_of(("x1", "x2"))
        True
        """
        one, other = named_pair(pair, self.names)
        wanted = self.names[one], self.names[other]
        for at, known in enumerate(self.pairs):
            if known in (wanted, wanted[::-1]):
                return at
        raise KeyError(
            f"{JOINED.join(wanted)} was not scored: call interactions(pairs=[{wanted!r}])"
        )

    @property
    def scores(self) -> Floats:
        """Scores of the pairs."""
        return read_only(self.basis.mean[:-1], np.float64)

    @property
    def n_tested(self) -> int:
        """Number of pairs of the table; p-values are adjusted for all of them."""
        return len(self.names) * (len(self.names) - 1) // 2

    @validated
    @lists(PAIRS)
    def table(self, *, level: float | None = None) -> Frame:
        """Return the pairs in the caller's dataframe library, largest score first.

        ``p_adj`` is Holm's over all pairs of the table, those not asked about included.

        Examples
        --------
        >>> sorted(pairs.table()["partner"])
        ['x1', 'x2', 'x2']
        """
        values: dict[str, Array] = {
            "feature": np.array([one for one, _ in self.pairs], dtype=object),
            "partner": np.array([other for _, other in self.pairs], dtype=object),
            **pair_columns(self, self.level if level is None else level),
        }
        return frame_of(PAIRS, values, self.library)

    def rows(self) -> list[Plain]:
        """Return the pairs as dicts of plain values, for pages and programs.

        Examples
        --------
        >>> pairs.rows()[0]["p_adj"]
        1.0
        """
        columns = pair_columns(self, self.level)
        return [
            {
                "name": JOINED.join(pair),
                "feature": pair[0],
                "partner": pair[1],
                **{key: float(values[at]) for key, values in columns.items()},
            }
            for at, pair in enumerate(self.pairs)
        ]

    def to_shapiq(self) -> dict[tuple[int, int], float]:
        """Return the scores keyed by tuples of positions, as in shapiq.

        Returns
        -------
        dict
            ``{(i, j): score}`` with ``i < j``, positions in ``names``: what
            ``shapiq.InteractionValues`` has as ``interactions``.

        Examples
        --------
        >>> sorted(pairs.to_shapiq())
        [(0, 1), (0, 2), (1, 2)]
        """
        places = {name: place for place, name in enumerate(self.names)}
        found = {}
        for (one, other), score in zip(self.pairs, self.scores.tolist(), strict=True):
            first, last = sorted((places[one], places[other]))
            found[first, last] = score
        return found

    @validated
    def plot(self, kind: str = "interactions", **options: Any) -> Axes | NDArray[np.object_]:
        """Draw the pairs: a function of :mod:`dfi.plots` by name; returns its Axes.

        Parameters
        ----------
        kind : {"interactions", "surface"}, default="interactions"
            A heat map of all pairs, or what one pair adds to predictions.
        **options
            ``pair`` of a surface, ``top``, ``ax``.

        Examples
        --------
        >>> pairs.plot("surface", pair=("x0", "x1")).get_xlabel()
        'x0'
        """
        # pyplot takes half a second to import: only those who plot pay for it
        from dfi.plots import draw

        return draw(self, kind, options)

    def __repr__(self) -> str:
        left = self.n_tested - len(self)
        screened = f"; the other {left} were screened out" if left else ""
        lines = [
            f"Interactions: {len(self)} of {self.n_tested} pairs of {len(self.names)} "
            f"features{screened}; beyond any sum of single effects",
        ]
        rows = self.rows()
        if rows and not any(row["score"] for row in rows):
            return f"{lines[0]}; all are 0: the model adds up functions of single features"
        lines += text_lines(PAIRS, [row["name"] for row in rows], rows, self.level, "pair")
        if self.spec.get("caution"):
            lines.append(str(self.spec["caution"]))
        return "\n".join(lines)


def named_pair(pair: object, names: Sequence[str]) -> tuple[int, int]:
    """Return the positions of the two units of a pair, or raise with the name."""
    if isinstance(pair, str) or not isinstance(pair, tuple | list) or len(pair) != 2:
        raise TypeError(f"a pair is a tuple of two names, got {pair!r}: pass e.g. ('x1', 'x2')")
    places = [place_of(name, names) for name in pair]
    if places[0] == places[1]:
        raise ValueError(
            f"{pair[0]!r} with itself is not a pair: name two units; a curve of one feature is "
            "part of its own score"
        )
    return places[0], places[1]


def named_pairs(pairs: Iterable[object], names: Sequence[str]) -> list[tuple[int, int]]:
    """Return the sorted positions of distinct pairs, or raise with the name."""
    if isinstance(pairs, tuple) and len(pairs) == 2 and all(isinstance(it, str) for it in pairs):
        raise TypeError(f"pairs is a list of pairs: pass pairs=[{pairs!r}]")
    found = [named_pair(pair, names) for pair in pairs]
    if not found:
        raise ValueError("pairs is empty: leave it out to test all pairs that matter")
    return list(dict.fromkeys((min(pair), max(pair)) for pair in found))


def pair_columns(scored: Interactions, level: float) -> dict[str, Floats]:
    """Return the columns of :meth:`table` as arrays."""
    count = len(scored.pairs)
    some = np.eye(count, count + 1)
    basis = scored.basis.summed(some)
    quiet = ~np.any(scored.basis.values[:, :-1], axis=0)
    units = UnitInference(basis, np.zeros(count, dtype=np.bool_), 1.0, True, quiet)
    found = units.columns(level=level, alternative="greater", adjust="none")
    # pairs that screening left out are hypotheses too, with p-values of 1
    every = np.concatenate([found["p"], np.ones(scored.n_tested - count)])
    found["p_adj"] = adjust_p_values(every, "holm")[:count]
    total = np.eye(count + 1)[count]
    if is_clear(scored.basis.summed(total[None, :])):
        shares = shares_of(scored.basis, total, some).columns(level, nonnegative=True)
        found |= {name: shares[key] for name, key in SHARE_COLUMNS.items()}
    else:
        found |= {name: np.full(count, np.nan) for name in SHARE_COLUMNS}
    found["whole"] = scored.whole
    if scored.latent is not None:
        found["latent"] = scored.latent.scores
    return found
