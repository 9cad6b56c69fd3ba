"""The fields of a result: checked and made read-only, packed for a file, and unpacked."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import numpy as np

from dfi._data.groups import Groups
from dfi._data.weights import Weights
from dfi._models.quality import Quality
from dfi.inference.intervals import check_level
from dfi.results.file import FileFormatError, freeze, read_file, thaw

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[Any]]

Space = Literal["attributed", "latent", "group"]
Result = TypeVar("Result")

_PLAIN = ("level", "library", "space", "nonnegative")
_ARRAYS = ("influence", "degenerate", "spread", "attribution", "unrelated", "undetected")


def read_only(values: Any, dtype: type) -> NDArray[Any]:
    """Return a read-only copy, or the array itself where it is one already."""
    if (
        isinstance(values, np.ndarray)
        and values.dtype == dtype
        and not values.flags.writeable
        and values.base is None
    ):
        return values
    array: NDArray[Any] = np.array(values, dtype=dtype, order="C")
    array.flags.writeable = False
    return array


def checked_fields(result: Any) -> dict[str, Any]:
    """Return the fields that are validated and made read-only."""
    influence = np.asarray(result.influence, dtype=np.float64)
    names = tuple(result.names)
    if influence.ndim != 2 or influence.shape[1] != len(names):
        raise ValueError(
            f"influence must have one column for each of the {len(names)} names, "
            f"got shape {influence.shape}"
        )
    n, p = influence.shape
    if len(set(names)) != p:
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"names must be unique, but {repeated!r} appears more than once")
    if len(result.weights.values) != n:
        raise ValueError(f"got {len(result.weights.values)} weights for {n} rows")
    finite = np.isfinite(influence).all(axis=0)
    if not finite.all():
        raise ValueError(
            f"the influence values of {names[int(np.argmin(finite))]!r} have NaN or inf"
        )
    if result.space not in get_args(Space):
        raise ValueError(f"space must be one of {', '.join(get_args(Space))}, got {result.space!r}")
    degenerate = np.asarray(result.degenerate, dtype=np.bool_)
    if degenerate.size == 0:
        degenerate = np.zeros(p, dtype=np.bool_)
    unrelated = np.zeros(p, dtype=np.bool_)
    if result.unrelated is not None and np.size(result.unrelated):
        unrelated = np.asarray(result.unrelated, dtype=np.bool_)
    shapes = {
        "degenerate": (degenerate, (p,)),
        "unrelated": (unrelated, (p,)),
        "undetected": (result.undetected, (p,)),
        "spread": (result.spread, (p,)),
        "attribution": (result.attribution, (p, p)),
    }
    for name, (array, shape) in shapes.items():
        if array is not None and np.shape(array) != shape:
            raise ValueError(f"{name} must have shape {shape}, got {np.shape(array)}")
    if result.latent is not None and result.latent.influence.shape[1] != p:
        raise ValueError(
            f"the latent result has {result.latent.influence.shape[1]} units for {p} names"
        )
    if influence[:, degenerate].any():
        influence = influence.copy()
        influence[:, degenerate] = 0.0
    else:
        influence = result.influence
    if influence[:, unrelated].any():
        moved = names[int(np.argmax(unrelated & influence.any(axis=0)))]
        raise ValueError(f"{moved!r} is called unrelated, but its influence values are not 0")
    groups = result.default_groups
    return {
        "influence": read_only(influence, np.float64),
        "weights": Weights(read_only(result.weights.values, np.float64), result.weights.kind),
        "default_groups": (
            None if groups is None else Groups(groups.names, read_only(groups.membership, np.bool_))
        ),
        "names": names,
        "spec": freeze(result.spec, "spec"),
        "diagnostics": freeze(result.diagnostics, "diagnostics"),
        "level": check_level(result.level),
        "degenerate": read_only(degenerate, np.bool_),
        "unrelated": read_only(unrelated, np.bool_),
        "components": (None if result.components is None else tuple(map(tuple, result.components))),
        "undetected": (
            None if result.undetected is None else read_only(result.undetected, np.float64)
        ),
        "spread": None if result.spread is None else read_only(result.spread, np.float64),
        "attribution": (
            None if result.attribution is None else read_only(result.attribution, np.float64)
        ),
    }


def pack(result: Any, prefix: str = "") -> tuple[dict[str, Any], Arrays]:
    """Return the manifest and the arrays of a result; those of its latent result nest in them.

    Parameters
    ----------
    result : Importance
        The result.
    prefix : str, default=""
        Put before the names of the arrays.
    """
    manifest: dict[str, Any] = {name: getattr(result, name) for name in _PLAIN}
    manifest["names"] = list(result.names)
    manifest["components"] = None
    if result.components is not None:
        manifest["components"] = [list(group) for group in result.components]
    manifest["spec"] = thaw(result.spec)
    manifest["diagnostics"] = thaw(result.diagnostics)
    manifest["quality"] = asdict(result.quality)
    manifest["weights"] = {"kind": result.weights.kind}
    arrays: Arrays = {f"{prefix}weights": result.weights.values}
    for name in _ARRAYS:
        if getattr(result, name) is not None:
            arrays[f"{prefix}{name}"] = getattr(result, name)
    manifest["default_groups"] = None
    if result.default_groups is not None:
        manifest["default_groups"] = {"names": list(result.default_groups.names)}
        arrays[f"{prefix}groups"] = result.default_groups.membership
    manifest["latent"] = None
    if result.latent is not None:
        manifest["latent"], nested = pack(result.latent, f"{prefix}latent.")
        arrays.update(nested)
    return manifest, arrays


def unpack(
    manifest: dict[str, Any], arrays: Arrays, build: Callable[..., Result], prefix: str = ""
) -> Result:
    """Return the result that :func:`pack` took apart.

    Parameters
    ----------
    manifest, arrays
        What ``pack`` returned.
    build : callable
        Makes a result from its fields; the latent result comes first.
    prefix : str, default=""
        Stands before the names of the arrays.
    """
    fields: dict[str, Any] = {name: manifest[name] for name in _PLAIN}
    fields["names"] = tuple(manifest["names"])
    # files that were written before there were components have none
    fields["components"] = manifest.get("components")
    fields["spec"] = manifest["spec"]
    fields["diagnostics"] = manifest["diagnostics"]
    quality = manifest["quality"]
    fields["quality"] = Quality(**{**quality, "r2_by_fold": tuple(quality["r2_by_fold"])})
    fields["weights"] = Weights(arrays[f"{prefix}weights"], manifest["weights"]["kind"])
    for name in _ARRAYS:
        fields[name] = arrays.get(f"{prefix}{name}")
    groups = manifest["default_groups"]
    fields["default_groups"] = (
        None if groups is None else Groups(tuple(groups["names"]), arrays[f"{prefix}groups"])
    )
    latent = manifest["latent"]
    fields["latent"] = None if latent is None else unpack(latent, arrays, build, f"{prefix}latent.")
    return build(**fields)


def read_result(path: str | os.PathLike[str], build: Callable[..., Result]) -> Result:
    """Return the result in a file; one that cannot be put together is damaged."""
    manifest, arrays = read_file(path)
    try:
        return unpack(manifest, arrays, build)
    except KeyError as error:
        raise FileFormatError(f"{path} is damaged: {error} is missing") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise FileFormatError(f"{path} is damaged: {error}") from error
