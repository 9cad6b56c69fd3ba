"""The ``.dfi`` file: a zip of one JSON manifest and plain arrays, described in file-format.md.

Nothing in it is executed when it is read: no pickle, in either direction.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import sklearn
from numpy.typing import NDArray

import dfi
from dfi._data.dependence import Clusters, Ordered
from dfi._data.groups import Groups
from dfi._data.weights import Weights
from dfi._files import writable, written_whole
from dfi._models.quality import Quality
from dfi.inference.influence import InfluenceMoments, InfluenceRows

if TYPE_CHECKING:
    import os

    from dfi.inference.influence import Influence
    from dfi.results.importance import Importance

Json: TypeAlias = Any
"""What JSON can say: dicts with string keys, lists, strings, numbers, booleans, None."""
Arrays: TypeAlias = dict[str, NDArray[Any]]

FORMAT = "dfi-importance"
VERSION = 4
LONGEST = 300
"""Characters of a setting's description."""
_MANIFEST = "manifest.json"
_FLOAT = "__float__"
_ZIP_SIGNATURE = b"PK\x03\x04"
# What the zip and npy readers raise on bytes that make no sense.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    ValueError,
    RuntimeError,
    LookupError,
    TypeError,
    AttributeError,
)
# A fixed date keeps the bytes of a file a function of its content.
_EPOCH = (1980, 1, 1, 0, 0, 0)


_PLAIN = ("level", "library", "space", "nonnegative")
_ARRAYS = ("degenerate", "spread", "attribution", "unrelated", "undetected")
_MOMENTS = ("mean", "covariance", "third")


class FileFormatError(ValueError):
    """A file is not a dfi file, was written by a newer version, or is damaged."""


def describe_setting(value: object) -> str:
    """Return a setting on one line: names as they are, functions by name, the rest by ``repr``."""
    if isinstance(value, str):
        return value
    text = " ".join(repr(value).split())
    if callable(value) and not hasattr(value, "fit"):
        text = getattr(value, "__qualname__", type(value).__name__)
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def versions() -> dict[str, str]:
    """Return the versions of what the numbers come from."""
    return {
        "dfi": dfi.__version__,
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
    }


def freeze(value: object, where: str) -> Json:
    """Return a read-only copy of a JSON-like value; ``where`` is its name, for the error message.

    Mappings become ``MappingProxyType``, sequences and arrays tuples, numpy scalars Python numbers.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, str, int, float)):
        return value
    if isinstance(value, np.ndarray):
        return freeze(value.tolist(), where)
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"{where} has the key {key!r}; keys must be strings")
            if key == _FLOAT:
                raise ValueError(f"{where} has the key {_FLOAT!r}, which the file format reserves")
        return MappingProxyType(
            {key: freeze(item, f"{where}[{key!r}]") for key, item in value.items()}
        )
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return tuple(freeze(item, f"{where}[{i}]") for i, item in enumerate(value))
    raise TypeError(f"{where} is of type {type(value).__name__}, which cannot be written as JSON")


def thaw(value: Json) -> Json:
    """Undo :func:`freeze`: plain dicts and lists, as JSON and pickle want them."""
    if isinstance(value, Mapping):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [thaw(item) for item in value]
    return value


def _encode(value: Json) -> Json:
    """Replace NaN and infinities, which JSON does not know, by ``{"__float__": name}``."""
    if isinstance(value, float) and not math.isfinite(value):
        return {_FLOAT: repr(value)}
    if isinstance(value, Mapping):
        return {key: _encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_encode(item) for item in value]
    return value


def _decode(record: dict[str, Json]) -> Json:
    return float(record[_FLOAT]) if record.keys() == {_FLOAT} else record


def write_file(
    path: str | os.PathLike[str],
    manifest: Mapping[str, Json],
    arrays: Arrays,
    *,
    overwrite: bool = False,
) -> Path:
    """Write a manifest and its arrays as one file, all or nothing, and return its path.

    ``format``, ``version`` and ``arrays`` (checksums) are added to the manifest.
    """
    target = writable(path, overwrite=overwrite)
    members: dict[str, bytes] = {}
    checksums: dict[str, dict[str, str]] = {}
    for name, array in arrays.items():
        buffer = io.BytesIO()
        np.save(buffer, np.ascontiguousarray(array), allow_pickle=False)
        member = f"arrays/{name}.npy"
        members[member] = buffer.getvalue()
        checksums[name] = {"member": member, "sha256": hashlib.sha256(members[member]).hexdigest()}
    header = {"format": FORMAT, "version": VERSION, **manifest, "arrays": checksums}
    text = json.dumps(_encode(header), indent=1, allow_nan=False, ensure_ascii=False)

    with written_whole(target) as stream, zipfile.ZipFile(stream, "w") as archive:
        for member, content in {_MANIFEST: text.encode(), **members}.items():
            info = zipfile.ZipInfo(member, date_time=_EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return target


def read_file(path: str | os.PathLike[str]) -> tuple[dict[str, Json], Arrays]:
    """Return manifest and arrays; FileFormatError if it is no dfi file, newer or damaged."""
    source = Path(path)
    if not source.exists():
        raise FileNotFoundError(f"there is no file {source}")
    if source.is_dir():
        raise IsADirectoryError(f"{source} is a folder; give the name of a file")
    content = source.read_bytes()
    if not content.startswith(_ZIP_SIGNATURE):
        raise FileFormatError(f"{source} is not a dfi file (it is not a zip archive)")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            manifest = _read_manifest(archive, source)
            return manifest, _read_arrays(archive, manifest, source)
    except FileFormatError:
        raise
    except _DAMAGE as error:
        raise FileFormatError(f"{source} is damaged or truncated: {error}") from error


def _read_manifest(archive: zipfile.ZipFile, source: Path) -> dict[str, Json]:
    if _MANIFEST not in archive.namelist():
        raise FileFormatError(f"{source} is not a dfi file (it has no {_MANIFEST})")
    content = archive.read(_MANIFEST)
    try:
        manifest = json.loads(content, object_hook=_decode)
    except ValueError as error:
        raise FileFormatError(f"{source} is damaged: its manifest is not JSON ({error})") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise FileFormatError(f"{source} is not a dfi file (its manifest does not say {FORMAT!r})")
    version = manifest.get("version")
    if not isinstance(version, int) or version < 1:
        raise FileFormatError(f"{source} is damaged: its format version is {version!r}")
    if version > VERSION:
        raise FileFormatError(
            f"{source} has format version {version}, but this dfi reads up to {VERSION}; "
            f"upgrade dfi to read it"
        )
    return manifest


def _read_arrays(archive: zipfile.ZipFile, manifest: dict[str, Json], source: Path) -> Arrays:
    arrays: Arrays = {}
    for name, entry in manifest["arrays"].items():
        if entry["member"] not in archive.namelist():
            raise FileFormatError(f"{source} is damaged: the array {name!r} is missing")
        content = archive.read(entry["member"])
        if hashlib.sha256(content).hexdigest() != entry["sha256"]:
            raise FileFormatError(
                f"{source} is damaged: the checksum of the array {name!r} differs"
            )
        try:
            arrays[name] = np.load(io.BytesIO(content), allow_pickle=False)
        except ValueError as error:
            raise FileFormatError(
                f"{source}: the array {name!r} cannot be read: {error}"
            ) from error
    return arrays


def pack(result: Importance, prefix: str = "") -> tuple[dict[str, Json], Arrays]:
    """Return the manifest and the arrays of a result; those of its latent result nest in them."""
    form, arrays = _pack_influence(result.basis, prefix)
    manifest: dict[str, Json] = {
        **{name: getattr(result, name) for name in _PLAIN},
        "difference": result.difference,
        "names": list(result.names),
        "components": None if result.components is None else [*map(list, result.components)],
        "spec": thaw(result.spec),
        "diagnostics": thaw(result.diagnostics),
        "quality": result.quality.as_plain(),
        **form,
        "default_groups": None,
        "latent": None,
        "totals": None,
        "by_outcome": [],
    }
    for name in _ARRAYS:
        if getattr(result, name) is not None:
            arrays[f"{prefix}{name}"] = getattr(result, name)
    if result.default_groups is not None:
        manifest["default_groups"] = {"names": list(result.default_groups.names)}
        arrays[f"{prefix}groups"] = result.default_groups.membership
    if result.latent is not None:
        manifest["latent"], nested = pack(result.latent, f"{prefix}latent.")
        arrays.update(nested)
    if result.totals is not None:
        manifest["totals"], nested = _pack_influence(result.totals, f"{prefix}totals.")
        arrays.update(nested)
    for place, (name, part) in enumerate(result.by_outcome.items()):
        # names of classes are text of any kind, those of arrays are files
        entry, nested = pack(part, f"{prefix}outcome{place}.")
        manifest["by_outcome"].append({"outcome": name, **entry})
        arrays.update(nested)
    return manifest, arrays


def _pack_influence(influence: Influence, prefix: str) -> tuple[dict[str, Json], Arrays]:
    if isinstance(influence, InfluenceRows):
        arrays = {
            f"{prefix}influence": influence.values,
            f"{prefix}weights": influence.weights.values,
        }
        if influence.rows is not None:
            arrays[f"{prefix}rows"] = influence.rows.astype("<i8")
        dependence = influence.weights.dependence
        form: dict[str, Json] = {"weights": {"kind": influence.weights.kind}}
        if dependence is not None:
            arrays[f"{prefix}dependence"] = dependence.places.astype("<i8")
            form["dependence"] = {"kind": "clusters"}
            if isinstance(dependence, Ordered):
                form["dependence"] = {"kind": "time", "bandwidth": dependence.bandwidth}
        return form, arrays
    if not isinstance(influence, InfluenceMoments):
        raise TypeError(f"influence values of type {type(influence).__name__} cannot be written")
    manifest: dict[str, Json] = {
        "moments": {
            "size": influence.size,
            "n_rows": influence.n_rows,
            "sample": None,
            "degrees": influence.degrees,
            "words": influence.words,
        }
    }
    arrays = {f"{prefix}{name}": getattr(influence, name) for name in _MOMENTS}
    if influence.sample is not None:
        manifest["moments"]["sample"], kept = _pack_influence(influence.sample, f"{prefix}sample.")
        arrays.update(kept)
    return manifest, arrays


def unpack(manifest: dict[str, Json], arrays: Arrays, prefix: str = "") -> dict[str, Json]:
    """Return the fields of the result that :func:`pack` took apart, those of the latent one nested.

    Files of formats 1 to 3 are read too.
    """
    quality, groups, latent = (manifest[key] for key in ("quality", "default_groups", "latent"))
    return {
        **{name: manifest[name] for name in _PLAIN},
        **{name: arrays.get(f"{prefix}{name}") for name in _ARRAYS},
        "names": tuple(manifest["names"]),
        # format 1 knows no differences, and its first files no components
        "difference": manifest.get("difference", False),
        "components": manifest.get("components"),
        "spec": manifest["spec"],
        "diagnostics": manifest["diagnostics"],
        "quality": Quality.from_plain(quality),
        "basis": _unpack_influence(manifest, arrays, prefix),
        "default_groups": (
            None if groups is None else Groups(tuple(groups["names"]), arrays[f"{prefix}groups"])
        ),
        "latent": None if latent is None else unpack(latent, arrays, f"{prefix}latent."),
        # formats 1 to 3 know neither totals nor several outcomes
        "totals": (
            None
            if manifest.get("totals") is None
            else _unpack_influence(manifest["totals"], arrays, f"{prefix}totals.")
        ),
        "by_outcome": {
            entry["outcome"]: unpack(entry, arrays, f"{prefix}outcome{place}.")
            for place, entry in enumerate(manifest.get("by_outcome", ()))
        },
    }


def _unpack_influence(manifest: dict[str, Json], arrays: Arrays, prefix: str) -> Influence:
    moments = manifest.get("moments")
    if moments is not None:
        sample = moments["sample"]
        mean, covariance, third = (arrays[f"{prefix}{name}"] for name in _MOMENTS)
        return InfluenceMoments(
            mean,
            covariance,
            third,
            size=moments["size"],
            n_rows=moments["n_rows"],
            sample=None if sample is None else _unpack_rows(sample, arrays, f"{prefix}sample."),
            # formats 1 and 2 know independent rows only
            degrees=moments.get("degrees", math.inf),
            words=moments.get("words", "independent rows"),
        )
    found = _unpack_rows(manifest, arrays, prefix)
    if "difference" not in manifest and manifest.get("spec", {}).get("n_rows") == found.n_rows:
        # format 1 keeps no index of rows; where all are there, they stand in order
        return InfluenceRows(found.values, found.weights, np.arange(found.n_rows))
    return found


def _unpack_rows(manifest: dict[str, Json], arrays: Arrays, prefix: str) -> InfluenceRows:
    told, dependence = manifest.get("dependence"), None
    if told is not None:
        places = arrays[f"{prefix}dependence"]
        clustered = told["kind"] == "clusters"
        dependence = Clusters(places) if clustered else Ordered(places, told["bandwidth"])
    weights = Weights(arrays[f"{prefix}weights"], manifest["weights"]["kind"], dependence)
    return InfluenceRows(arrays[f"{prefix}influence"], weights, arrays.get(f"{prefix}rows"))
