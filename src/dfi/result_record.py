"""The fields of a result as a manifest and arrays, and back: what file-format.md describes."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from dfi.data.groups import Groups
from dfi.data.weights import Weights
from dfi.result_file import thaw

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[Any]]

_PLAIN = ("level", "library", "space", "nonnegative")
_ARRAYS = ("influence", "degenerate", "spread", "attribution")


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


def unpack(manifest: dict[str, Any], arrays: Arrays, prefix: str = "") -> dict[str, Any]:
    """Return the fields of a result; ``quality`` and ``latent`` as dicts of their own fields."""
    fields: dict[str, Any] = {name: manifest[name] for name in _PLAIN}
    fields["names"] = tuple(manifest["names"])
    fields["spec"] = manifest["spec"]
    fields["diagnostics"] = manifest["diagnostics"]
    quality = manifest["quality"]
    fields["quality"] = {**quality, "r2_by_fold": tuple(quality["r2_by_fold"])}
    fields["weights"] = Weights(arrays[f"{prefix}weights"], manifest["weights"]["kind"])
    for name in _ARRAYS:
        fields[name] = arrays.get(f"{prefix}{name}")
    groups = manifest["default_groups"]
    fields["default_groups"] = (
        None if groups is None else Groups(tuple(groups["names"]), arrays[f"{prefix}groups"])
    )
    latent = manifest["latent"]
    fields["latent"] = None if latent is None else unpack(latent, arrays, f"{prefix}latent.")
    return fields
