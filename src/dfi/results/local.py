"""Single rows: what each unit contributes to a prediction."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dfi._data.frames import as_frame
from dfi._docstrings import exemplified
from dfi._parameters import TABLE, shown, validated, whole
from dfi.results.columns import LOCAL, frame_of
from dfi.results.file import FrozenRecord, thaw
from dfi.results.numbers import SHOWN_ROWS, decimals, more_text, number, plain
from dfi.results.tables import place_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from dfi._types import Array, Floats, Frame, Ints, Plain
    from dfi.results.importance import Importance

__all__ = ["LocalAttributions", "positions_of", "saved_rows", "value_text"]

Layout = Literal["long", "wide"]

SPREAD_WORDS = "spread over models fitted on disjoint halves of the rows"
"""The wording for the spread, wherever it is shown."""

NO_SPREAD = "none: one model explains a row"

MUCH_LEFT = 1.0
"""Higher-order interactions above this share of the predictions' deviation are large."""

_WIDE = ("row", "base", "prediction", "higher_order")


@exemplified
@dataclass(frozen=True, eq=False, repr=False)
class LocalAttributions(FrozenRecord):
    r"""Contributions of units to the predictions of single rows.

    :math:`\sum_l c_{il} = \hat\mu(x_i) - \text{base}_i` in every row: the latent Shapley value of
    each coordinate, by a formula that is exact for interactions of two
    (:mod:`dfi._scoring.latent_shapley`), shared out as scores are. Correlated features share
    what they carry together, whichever of them the model reads.

    Made by :meth:`dfi.Importance.local` and :meth:`dfi.DFI.local`.

    Attributes
    ----------
    values : ndarray of shape (n, units)
        The contributions.
    base : ndarray of shape (n,)
        The mean prediction of the models that explain the row, over the rows that they were fitted
        on. Rows of different folds have different models, and slightly different bases.
    prediction : ndarray of shape (n,)
        The row's prediction by these models.
    spread : ndarray of shape (n, units)
        Spread of the contributions over models fitted on disjoint halves of the rows, each with a
        transport and its own background; NaN where there is one model. Not a confidence
        interval: it does not see what all models get wrong alike.
    total : ndarray of shape (n, units)
        Total effects, shared out in the same way. They count an interaction for each of its
        members, and do not add up.
    higher_order : ndarray of shape (n,)
        What the formula had left to divide, interactions of three and more, in standard deviations
        of the predictions. Above 1 ask for ``refine``.
    reliability : ndarray of shape (units,)
        Correlation over the rows of the contributions of models of disjoint halves; NaN for one
        model, for fewer than three rows and for units that contribute nothing.
    rows : ndarray of shape (n,)
        Positions of the rows in the caller's table.

    Examples
    --------
    >>> local.names, local.values.shape
    (('x0', 'x1', 'x2'), (3, 3))
    >>> bool(abs(local.base + local.values.sum(axis=1) - local.prediction).max() < 1e-9)
    True
    """

    values: Floats
    names: tuple[str, ...]
    base: Floats
    prediction: Floats
    spread: Floats
    total: Floats
    higher_order: Floats
    reliability: Floats
    rows: Ints
    features: Mapping[str, Array] = field(default_factory=lambda: MappingProxyType({}))
    spec: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    library: str = "numpy"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "names", tuple(self.names))

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        n, p = len(self.values), len(self.names)
        return {
            **dict.fromkeys(("values", "spread", "total"), (n, p)),
            **dict.fromkeys(("base", "prediction", "higher_order", "rows"), (n,)),
            "reliability": (p,),
        }

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def mean_absolute(self) -> Floats:
        """The mean absolute contribution of each unit over the rows, shape (units,)."""
        return np.asarray(np.mean(np.abs(self.values), axis=0))

    @property
    def has_spread(self) -> bool:
        """Whether several models explain the rows, so there is a spread."""
        return bool(np.isfinite(self.spread).any())

    @validated
    def take(self, which: int | Sequence[int] | Ints | slice) -> LocalAttributions:
        """Return some of the rows.

        Parameters
        ----------
        which : int, slice, mask or sequence of int
            Their places here.

        Examples
        --------
        >>> len(local.take([0, 2]))
        2
        """
        at = positions_of(which, len(self), "which")
        if at is None:
            return self
        return replace(
            self,
            **{
                name: getattr(self, name)[at]
                for name in (
                    "values", "base", "prediction", "spread", "total", "higher_order", "rows",
                )
            },
            features={name: values[at] for name, values in self.features.items()},
        )  # fmt: skip

    @validated
    def place_of(self, row: int) -> int:
        """Return the index of a row of the table; raise if it was not explained.

        Parameters
        ----------
        row : int
            Its position in the caller's table.

        Examples
        --------
        >>> local = dfi.explain(sample.X, sample.y, "linear", cv=2).local([7, 40])
        >>> local.place_of(40)
        1
        """
        found = np.flatnonzero(self.rows == row)
        if not len(found):
            known = ", ".join(map(str, self.rows[:10].tolist()))
            more = ", ..." if len(self) > 10 else ""
            raise ValueError(f"row {row!r} was not explained; the rows are {known}{more}")
        return int(found[0])

    @validated
    def unit(self, name: str) -> int:
        """Return the index of a unit; an unknown name raises with suggestions.

        Parameters
        ----------
        name : str
            The unit.

        Examples
        --------
        >>> local.unit("x1")
        1
        """
        return place_of(name, self.names)

    @validated
    def table(self, layout: Layout = "long") -> Frame:
        """Return the contributions in the caller's dataframe library.

        Parameters
        ----------
        layout : {"long", "wide"}, default="long"
            A line for each row and unit, or a line for each row with a column for the contribution
            of each unit.

        Examples
        --------
        >>> local.table("wide").columns.tolist()
        ['row', 'x0', 'x1', 'x2', 'base', 'prediction', 'higher_order']
        >>> len(local.table())
        9
        """
        n, p = self.values.shape
        if layout == "wide":
            taken = [name for name in _WIDE if name in self.names]
            if taken:
                raise ValueError(
                    f"a unit is called {taken[0]!r}, a name that layout='wide' reserves: use "
                    f"layout='long', or rename the column of {TABLE}"
                )
            units = {name: self.values[:, k] for k, name in enumerate(self.names)}
            ends = {name: getattr(self, name) for name in _WIDE[1:]}
            return as_frame({"row": self.rows, **units, **ends}, self.library)
        columns: dict[str, Array] = {
            "row": np.repeat(self.rows, p),
            "feature": np.tile(np.array(self.names, dtype=object), n),
            "contribution": self.values.ravel(),
            "spread": self.spread.ravel(),
            "total": self.total.ravel(),
        }
        for name in _WIDE[1:]:
            columns[name] = np.repeat(getattr(self, name), p)
        return frame_of(LOCAL, columns, self.library)

    def to_shap(self) -> Any:
        """Return the contributions as a ``shap.Explanation``, for the plots of shap.

        Base values are those of each row. Groups have no value of their own.

        Returns
        -------
        shap.Explanation
            It needs the package shap.

        Examples
        --------
        >>> local.to_shap().shape  # doctest: +SKIP
        (3, 3)
        """
        try:
            import shap
        except ImportError as error:
            raise ImportError(
                "to_shap needs the package shap, which is not installed: run pip install shap, or "
                "use dfi.plots.beeswarm, waterfall and dependence"
            ) from error
        data = np.empty(self.values.shape, dtype=object)
        for k, name in enumerate(self.names):
            data[:, k] = self.features.get(name, np.full(len(self), np.nan))
        numeric = all(np.asarray(values).dtype.kind in "fiub" for values in self.features.values())
        return shap.Explanation(
            values=np.array(self.values),
            base_values=np.array(self.base),
            data=data.astype(np.float64) if numeric else data,
            feature_names=list(self.names),
        )

    @validated
    def plot(self, kind: str = "beeswarm", **options: Any) -> Axes | NDArray[np.object_]:
        """Draw the rows: a function of :mod:`dfi.plots` by name; returns its Axes.

        Parameters
        ----------
        kind : {"beeswarm", "waterfall", "dependence"}, default="beeswarm"
            What to draw.
        **options
            ``row`` of a waterfall, ``feature`` of a dependence plot, ``top``, ``ax``.

        Examples
        --------
        >>> ax = local.plot("waterfall", row=1)
        >>> ax.get_xlabel()
        'the predicted y, row 1'
        """
        # pyplot takes half a second to import: only those who plot pay for it
        from dfi.plots import draw

        return draw(self, kind, options)

    def __repr__(self) -> str:
        n, p = self.values.shape
        lines = [
            f"LocalAttributions: {n} row{'s' * (n != 1)}, {p} contribution{'s' * (p != 1)} each; "
            f"{self.spec.get('explains')}",
            f"explained by {self.spec.get('models')}; base {np.mean(self.base):.4g}"
            + (f" (.spread: {SPREAD_WORDS})" if self.has_spread else " (one model: no spread)"),
        ]
        order = np.argsort(-self.mean_absolute, kind="stable").tolist()
        width = max((len(self.names[k]) for k in order[:SHOWN_ROWS]), default=0)
        size = self.mean_absolute
        first = order[:SHOWN_ROWS]
        if n == 1:
            lines[-1] = f"prediction {self.prediction[0]:.4g}, " + lines[-1]
            size = self.values[0]
        places = decimals(size[k] for k in first)
        told = [plain(size[k], places) for k in first]
        if n == 1:
            told = [text if text.startswith("-") else f"+{text}" for text in told]
        longest = max(map(len, told), default=0)
        lines += ["mean absolute contributions:"] * (n != 1)
        lines += [
            f"{self.names[k].ljust(width)}  {text.rjust(longest)}"
            for k, text in zip(first, told, strict=True)
        ]
        if p > SHOWN_ROWS:
            lines.append(more_text(p - SHOWN_ROWS, p))
        much = int(np.sum(self.higher_order > MUCH_LEFT))
        if much:
            lines.append(
                f"{much} row{'s have' if much > 1 else ' has'} large interactions of three or "
                "more features (higher_order above 1): try refine=128"
            )
        return "\n".join(lines)


def value_text(local: LocalAttributions, unit: int, place: int) -> str:
    """Return a row's own value of a unit in a few characters; empty for groups."""
    values = local.features.get(local.names[unit])
    if values is None:
        return ""
    value = values[place]
    if values.dtype.kind in "fiub":
        if not np.isfinite(value):
            return "missing"
        return number(float(value)) if abs(value) >= 1e4 else f"{float(value):.4g}"
    return "missing" if value is None else str(value)


_SAVED = ("values", "base", "prediction", "spread", "total", "higher_order", "reliability", "rows")


def rows_beside(
    result: Importance, rows: int | LocalAttributions, *, same_outcome: bool = False
) -> LocalAttributions:
    """Return contributions to keep or show with a result: those given, or of a random sample."""
    if not isinstance(rows, LocalAttributions):
        return result.local(sample=whole("rows", rows, 1))
    ours, theirs = (it.spec.get("outcome") for it in (result, rows))
    if rows.names != result.names or (same_outcome and ours != theirs):
        raise ValueError(
            "rows must be contributions from this result's local(...), but these belong to "
            f"another result (of {', '.join(map(repr, rows.names[:5]))})"
        )
    return rows


def pack_local(local: LocalAttributions) -> tuple[Plain, dict[str, Array]]:
    """Return the manifest and the arrays of contributions; labels become level numbers."""
    arrays = {f"local.{name}": getattr(local, name) for name in _SAVED}
    arrays["local.rows"] = arrays["local.rows"].astype("<i8")
    features: list[Plain] = []
    for place, (name, values) in enumerate(local.features.items()):
        entry: Plain = {"name": name, "levels": None}
        if values.dtype.kind in "fiub":
            arrays[f"local.feature{place}"] = values.astype(np.float64)
        else:
            texts = [None if value is None else str(value) for value in values.tolist()]
            entry["levels"] = sorted({text for text in texts if text is not None})
            number_of = {level: k for k, level in enumerate(entry["levels"])}
            codes = [-1 if text is None else number_of[text] for text in texts]
            arrays[f"local.feature{place}"] = np.array(codes, dtype="<i8")
        features.append(entry)
    plain = {"names": list(local.names), "spec": thaw(local.spec), "library": local.library}
    return {**plain, "features": features}, arrays


def unpack_local(manifest: Plain, arrays: Mapping[str, Array]) -> LocalAttributions:
    """Return the contributions that :func:`pack_local` took apart."""
    features: dict[str, Array] = {}
    for place, entry in enumerate(manifest["features"]):
        values, levels = arrays[f"local.feature{place}"], entry["levels"]
        if levels is not None:
            values = np.array([*map(str, levels), None], dtype=object)[values]
        features[str(entry["name"])] = values
    return LocalAttributions(
        **{name: arrays[f"local.{name}"] for name in _SAVED},
        names=tuple(map(str, manifest["names"])),
        features=features,
        spec=manifest["spec"],
        library=str(manifest["library"]),
    )


def saved_rows(
    saved: LocalAttributions, rows: object, asked: Mapping[str, object], n_rows: int
) -> LocalAttributions:
    """Return stored contributions of rows; raise for anything that only models could answer."""
    for name, value in asked.items():
        known = saved.spec.get(name)
        if name == "outcome" and isinstance(known, MappingProxyType):
            known = known.get("positive", known.get("name"))
        if value is not None and value != known:
            raise ValueError(
                f"a loaded result has no models, only saved contributions with {name} {known!r}: "
                f"leave {name} out, or call local on the result of explain"
            )
    at = positions_of(rows, max(n_rows, int(saved.rows.max()) + 1))
    return saved if at is None else saved.take([saved.place_of(int(row)) for row in at])


def positions_of(rows: object, n_rows: int, name: str = "rows") -> Ints | None:
    """Return positions in a table of ``n_rows``, in the requested order; None for all."""
    if rows is None:
        return None
    if isinstance(rows, slice):
        found = np.arange(n_rows)[rows]
    elif isinstance(rows, int | np.integer) and not isinstance(rows, bool):
        found = np.array([int(rows)], dtype=np.intp)
    else:
        given = np.asarray(rows)
        if given.ndim != 1 or (given.dtype.kind not in "iub" and given.size):
            here = (
                "pass a table of new rows as X=..."
                if given.ndim == 2
                else "labels of a pandas index become positions by X.index.get_indexer(labels)"
            )
            raise TypeError(
                f"{name} must be positions of rows (a number, a list, a slice or a mask), got "
                f"{shown(rows)}: {here}"
            )
        if given.dtype.kind == "b":
            if len(given) != n_rows:
                raise ValueError(
                    f"{name} is a mask of {len(given)} rows, but there are {n_rows}: pass one "
                    "value for each row"
                )
            given = np.flatnonzero(given)
        found = given.astype(np.intp)
    if not len(found):
        raise ValueError(f"{name} names no row: pass at least one position")
    outside = (found < -n_rows) | (found >= n_rows)
    if outside.any():
        raise ValueError(
            f"{name} has the position {int(found[outside][0])}, but there are {n_rows} rows: "
            f"positions go from 0 to {n_rows - 1}"
        )
    return np.where(found < 0, found + n_rows, found)
