"""Native tables of pandas, polars and pyarrow: split into columns and rebuilt."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING, Literal, cast

import narwhals as nw
import numpy as np

from dfi._checks import did_you_mean
from dfi._parameters import TABLE, argument

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from dfi._data.columns import Column
    from dfi._types import Bools, Floats, Frame, Ints, Native

Library = Literal["numpy", "pandas", "polars", "pyarrow"]

_ACCEPTED = (
    "a numpy array, a pandas or polars DataFrame, a pyarrow Table, a scipy sparse matrix "
    "or a list of rows"
)


_INDEX = re.compile(r"__index_level_\d+__")


def is_stored_index(label: object) -> bool:
    """Return whether a column is an unnamed index that pandas stored in Parquet or Arrow."""
    return isinstance(label, str) and _INDEX.fullmatch(label) is not None


def is_table(values: object) -> bool:
    return bool(
        nw.dependencies.is_pandas_dataframe(values)
        or nw.dependencies.is_polars_dataframe(values)
        or nw.dependencies.is_polars_lazyframe(values)
        or _is_arrow_table(values)
    )


def _is_arrow_table(values: object) -> bool:
    kind = type(values)
    return kind.__module__.startswith("pyarrow") and kind.__name__ in ("Table", "RecordBatch")


def open_frame(
    X: Frame, what: str = "X"
) -> tuple[Library, list[object], list[nw.Series[Native]], object] | None:
    """Return library, labels, columns by position and pandas' column index; None for others."""
    if nw.dependencies.is_pandas_dataframe(X):
        X = X.iloc[:, [j for j, label in enumerate(X.columns) if not is_stored_index(label)]]
        columns = [_dense(X.iloc[:, j]) for j in range(X.shape[1])]
        return "pandas", list(X.columns), [_series(column) for column in columns], X.columns
    if nw.dependencies.is_polars_dataframe(X):
        X = X.select([label for label in X.columns if not is_stored_index(label)])
        return "polars", list(X.columns), [_series(column) for column in X.get_columns()], None
    if _is_arrow_table(X):
        if type(X).__name__ == "RecordBatch":
            X = importlib.import_module("pyarrow").Table.from_batches([X])
        kept = [j for j, label in enumerate(X.column_names) if not is_stored_index(label)]
        labels = [X.column_names[j] for j in kept]
        return "pyarrow", labels, [_series(X.column(j)) for j in kept], None
    refuse_dataset(X, what)
    if nw.dependencies.is_polars_lazyframe(X):
        raise TypeError(f"{what} is a LazyFrame: call .collect() first and pass the DataFrame.")
    if is_series(X):
        raise TypeError(
            f"{TABLE} is a single Series, not a table: pass X.to_frame() if it is a column, and a "
            "row as a table of one row, e.g. table.iloc[[7]]."
        )
    if (
        isinstance(X, (str, bytes, dict, set))
        or hasattr(X, "columns")
        or not (hasattr(X, "__array__") or hasattr(X, "__len__"))
    ):
        raise TypeError(f"{TABLE} is a {type(X).__name__}; pass {_ACCEPTED}.")
    return None


def refuse_dataset(values: object, what: str) -> None:
    if type(values).__module__.split(".")[0] == "xarray" and type(values).__name__ == "Dataset":
        raise TypeError(
            f"{what} is a Dataset of xarray: pass a table with a row for each observation, e.g. "
            f"{what}.to_dataframe(), or one of its variables, e.g. {what}['name'].to_numpy()"
        )


def refuse_duplicates(names: Sequence[str], where: object = TABLE) -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        shown = ", ".join(map(repr, repeated[:5]))
        raise ValueError(f"{where} has more than one column called {shown}; rename them.")


def column_named(X: Frame, value: object) -> str | None:
    if isinstance(value, str):
        return value
    if not (isinstance(value, tuple) and nw.dependencies.is_pandas_dataframe(X)):
        return None
    levels = X.columns.nlevels
    named = levels > 1 and (value in X.columns or len(value) == levels != len(X))
    return str(value) if named else None


def split_column(
    X: Frame, name: str, role: str = "y", what: str = "the outcome's column"
) -> tuple[Frame, Native]:
    """Split a column, called ``what``, off a table; return both."""
    opened = open_frame(X) if is_table(X) else None
    if opened is None:
        raise TypeError(
            f"{argument(role, name)} names a column of {TABLE}, but {TABLE} is a "
            f"{type(X).__name__} without names: pass a dataframe, or {role} as an array"
        )
    _, labels, columns, _ = opened
    places = [k for k, label in enumerate(labels) if str(label) == name]
    if len(places) != 1:
        found = "two columns of that name" if places else "no such column"
        hint = did_you_mean(name, map(str, labels))
        raise ValueError(f"{argument(role, name)} names {what}, but {TABLE} has {found}{hint}")
    rest = [k for k in range(len(labels)) if k != places[0]]
    if nw.dependencies.is_pandas_dataframe(X):
        return X.iloc[:, rest], X.iloc[:, places[0]]
    kept = [labels[k] for k in rest]
    return X.select(kept), columns[places[0]].to_native()


def split_columns(X: Frame, names: list[str], role: str) -> tuple[Frame, Frame]:
    rest = X
    for name in names:
        rest, _ = split_column(rest, name, role)
    return rest, X[names] if nw.dependencies.is_pandas_dataframe(X) else X.select(names)


def row_labels(values: object) -> Native | None:
    if nw.dependencies.is_pandas_dataframe(values) or nw.dependencies.is_pandas_series(values):
        return cast("Native", values).index
    return None


def check_same_order(X: Frame, vectors: Mapping[str, object]) -> None:
    """Raise if row labels of pandas objects contradict their positions, by which rows match."""
    labelled = [
        (name, index)
        for name, values in {"X": X, **vectors}.items()
        if (index := row_labels(values)) is not None
    ]
    for (known, others), (name, index) in combinations(labelled, 2):
        if len(index) != len(others) or index.equals(others):
            continue
        if Counter(index) == Counter(others):
            raise ValueError(
                f"{argument(name)} has the row labels of {argument(known)} in another order, but "
                f"rows are matched by position: pass {name}.loc[{known}.index] if the labels are "
                f"right, {name}.to_numpy() if the positions are"
            )
        if shared := _shared_in_part(index, others):
            raise ValueError(
                f"{argument(name)} and {argument(known)} share only {shared} row labels of "
                f"{len(index)}, but rows are matched by position: pass what pd.concat([{known}, "
                f"{name}], axis=1, join='inner') matches if the labels are right, "
                f"{name}.to_numpy() if the positions are"
            )


def _shared_in_part(one: Native, other: Native) -> int:
    shared = len(set(one) & set(other))
    if not shared:
        return 0
    for numbered, drawn in ((one, other), (other, one)):
        if _in_place(numbered).all() and _drawn(drawn):
            return 0
    return shared


def _in_place(index: Native) -> Bools:
    labels = np.asarray(index)
    if labels.dtype.kind not in "iu":
        return np.zeros(len(labels), dtype=bool)
    return np.asarray(labels == np.arange(len(labels)))


def _drawn(index: Native) -> bool:
    if not index.is_unique:
        return True
    ordered = index.is_monotonic_increasing or index.is_monotonic_decreasing
    return not ordered and float(np.mean(_in_place(index))) < 0.5


def ordered_like(X: Frame, like: Frame) -> Frame:
    if not (is_table(X) and is_table(like)):
        return X
    ours, theirs = ([str(label) for label in _labels(table)] for table in (X, like))
    if ours == theirs or len(set(ours)) < len(ours):
        return X
    for names, others, which in ((theirs, ours, "the second"), (ours, theirs, "the first")):
        absent = [name for name in names if name not in others]
        if absent:
            shown = ", ".join(map(repr, absent[:3])) + (", ..." if len(absent) > 3 else "")
            raise ValueError(
                f"{which} table has no column {shown}{did_you_mean(absent[0], others)}: both need "
                "the same columns; drop columns that only one of them has"
            )
    places = [ours.index(name) for name in theirs]
    if nw.dependencies.is_pandas_dataframe(X):
        return X.iloc[:, places]
    labels = _labels(X)
    return X.select([labels[k] for k in places])


def _labels(X: Frame) -> list[object]:
    opened = open_frame(X)
    return [] if opened is None else opened[1]


def is_series(values: object) -> bool:
    return bool(
        nw.dependencies.is_pandas_series(values)
        or nw.dependencies.is_polars_series(values)
        or nw.dependencies.is_pyarrow_chunked_array(values)
        or is_arrow_array(values)
    )


def is_arrow_array(values: object) -> bool:
    """Return whether ``values`` is a pyarrow Array, which narwhals takes only in chunked form."""
    kind = type(values)
    return kind.__module__.startswith("pyarrow") and kind.__name__.endswith("Array")


def sparse_bytes(X: Frame) -> int:
    """Return the size that the sparse columns of a pandas frame take once they are dense."""
    if not nw.dependencies.is_pandas_dataframe(X):
        return 0
    return 8 * len(X) * sum(_is_sparse(dtype) for dtype in X.dtypes)


def _is_sparse(dtype: object) -> bool:
    return type(dtype).__name__ == "SparseDtype"


def _dense(column: Native) -> Native:
    return column.sparse.to_dense() if _is_sparse(column.dtype) else column


def _series(native: Native) -> nw.Series[Native]:
    if is_arrow_array(native) and not nw.dependencies.is_pyarrow_chunked_array(native):
        native = importlib.import_module("pyarrow").chunked_array([native])
    return nw.from_native(native, series_only=True)


def as_series(values: Native) -> nw.Series[Native]:
    return _series(_dense(values) if nw.dependencies.is_pandas_series(values) else values)


def level_column(column: Column, codes: Ints, library: Library) -> Native:
    levels = objects([column.gap if level is None else level for level in column.levels])
    missing = codes == len(levels) - 1 if column.missing else None
    dtype: Native = column.dtype
    if library == "numpy":
        return levels[codes]
    module: Native = importlib.import_module(library)
    if library == "pandas":
        if isinstance(dtype, module.CategoricalDtype):
            # the dtype may declare more levels than occur
            known = [level for level in column.levels if level is not None]
            places = np.append(dtype.categories.get_indexer(known), -1)
            codes = places[codes if missing is None else np.where(missing, -1, codes)]
            return module.Categorical.from_codes(codes, dtype=dtype)
        if dtype == np.dtype(object):
            return module.Series(levels[codes], dtype=object)
        return module.array(levels, dtype=dtype).take(codes)
    if library == "polars":
        return module.Series(list(column.levels), dtype=dtype).gather(codes)
    if module.types.is_dictionary(dtype):
        known = [level for level in column.levels if level is not None]
        return module.DictionaryArray.from_arrays(
            module.array(codes, mask=missing).cast(dtype.index_type),
            module.array(known, type=dtype.value_type),
            ordered=dtype.ordered,
        )
    # take() has no kernel for every string type: it is done on the plain one
    return module.array(list(column.levels)).take(module.array(codes)).cast(dtype)


def number_column(column: Column, values: Floats, library: Library) -> Native:
    dtype: Native = column.dtype
    missing = np.isnan(values)
    if dtype == np.dtype(object):
        python = {"boolean": bool, "integer": int}.get(column.kind, float)
        cells = zip(values, missing, strict=True)
        return objects([column.gap if gap else python(value) for value, gap in cells])
    if library == "numpy":
        return values.astype(dtype)
    module: Native = importlib.import_module(library)
    if missing.all():
        # what is wholly missing may have a dtype that numbers cannot be cast to
        nothing = [None] * len(values)
        if library == "pyarrow":
            return module.nulls(len(values), dtype)
        return module.Series(nothing, dtype=dtype)
    if library == "pandas":
        return module.Series(values).astype(dtype)
    if library == "polars":
        return module.Series(values).fill_nan(None).cast(dtype)
    if module.types.is_boolean(dtype):
        return module.array(values != 0, mask=missing)
    return module.array(values, mask=missing).cast(dtype)


def real_column(column: Column, values: Floats, library: Library) -> Native:
    missing = np.isnan(values)
    if not missing.any() or library == "numpy":
        return values
    if missing.all():
        return number_column(column, values, library)
    module: Native = importlib.import_module(library)
    if library == "pandas":
        # nullable floats (Float64, double[pyarrow]) have a missing value of their own
        numpy_dtype = getattr(column.dtype, "numpy_dtype", None)
        nullable = numpy_dtype is not None and numpy_dtype.kind == "f"
        return module.Series(values).astype(column.dtype) if nullable else values
    if library == "polars":
        return module.Series(values).fill_nan(None)
    return module.array(values, mask=missing)


def build_frame(
    labels: Sequence[object], columns: Sequence[Native], library: Library, header: object = None
) -> Frame:
    if library == "numpy":
        return np.column_stack([objects(list(column)) for column in columns])
    module: Native = importlib.import_module(library)
    if library == "pandas":
        frame = module.DataFrame(dict(enumerate(columns)))
        frame.columns = module.Index(labels) if header is None else header
        return frame
    if library == "polars":
        return module.DataFrame(
            [module.Series(label, column) for label, column in zip(labels, columns, strict=True)]
        )
    return module.table(
        [column if is_series(column) else module.array(column) for column in columns],
        names=list(labels),
    )


def matrix_frame(matrix: Floats, header: object) -> Frame:
    return importlib.import_module("pandas").DataFrame(matrix, columns=header)


def objects(values: Sequence[object]) -> NDArray[np.object_]:
    """Return a one-dimensional object array, whatever the elements are."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def as_frame(columns: Mapping[str, ArrayLike], library: str) -> Frame:
    """Build a table in the caller's library; for "numpy" whichever is installed, else a dict."""
    arrays = {name: np.asarray(values) for name, values in columns.items()}
    if library == "numpy":
        known = ("pandas", "polars", "pyarrow")
        present = [name for name in known if importlib.util.find_spec(name) is not None]
        if not present:
            return arrays
        library = present[0]
    cells = [
        values.tolist() if values.dtype.kind in "OU" and library != "pandas" else values
        for values in arrays.values()
    ]
    return build_frame(list(arrays), cells, cast("Library", library))
