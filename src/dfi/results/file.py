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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

import numpy as np
import sklearn
from numpy.typing import NDArray

import dfi
from dfi._data.dependence import Clusters, Ordered
from dfi._data.frames import Library
from dfi._data.groups import Groups
from dfi._data.weights import WeightKind, Weights
from dfi._files import file_named, writable, written_whole
from dfi._models.quality import Quality
from dfi._parameters import shown
from dfi.inference.influence import InfluenceMoments, InfluenceRows, read_only
from dfi.inference.intervals import check_level

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from dfi.inference.influence import Influence
    from dfi.results.importance import Importance

Json: TypeAlias = Any
"""JSON values: dicts with string keys, lists, strings, numbers, booleans, None."""
Arrays: TypeAlias = dict[str, NDArray[Any]]
Test: TypeAlias = Callable[[Json], bool]
Tests: TypeAlias = Mapping[str, Test]

FORMAT = "dfi-importance"
VERSION = 4
LONGEST = 300
"""Characters of a setting's description."""
_MANIFEST = "manifest.json"
_FLOAT = "__float__"
_ZIP_SIGNATURE = b"PK\x03\x04"
# A fixed date keeps the bytes of a file a function of its content.
_EPOCH = (1980, 1, 1, 0, 0, 0)


_PLAIN = ("level", "library", "space", "nonnegative")
_ARRAYS = ("degenerate", "spread", "attribution", "unrelated", "undetected")
_MOMENTS = ("mean", "covariance", "third")

FREE_BYTES = 1 << 26
"""Bytes that a file of any size may hold, unpacked."""
RATIO = 8
"""Bytes beyond those for each byte of the file. Influence values hardly shrink."""
FREE_VALUES = 1_000_000
"""Values that a manifest of any size may hold."""
_LONGEST_HEADER = 1 << 14
_CHUNK = 1 << 20
_KINDS = {
    **dict.fromkeys(("influence", "weights", "spread", "attribution", "undetected"), "f"),
    **dict.fromkeys(_MOMENTS, "f"),
    **dict.fromkeys(("rows", "dependence"), "iu"),
    **dict.fromkeys(("degenerate", "unrelated", "groups"), "b"),
}
_WORDS = {"f": "float64", "iu": "int64", "b": "booleans"}


class FileFormatError(ValueError):
    """A file is not a dfi file, was written by a newer version, or is damaged."""


def describe_setting(value: object) -> str:
    """Return a setting on one line: names unchanged, functions by name, the rest by ``repr``."""
    if isinstance(value, str):
        return value
    text = " ".join(repr(value).split())
    if callable(value) and not hasattr(value, "fit"):
        text = getattr(value, "__qualname__", type(value).__name__)
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def versions() -> dict[str, str]:
    return {
        "dfi": dfi.__version__,
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
    }


def freeze(value: object, where: str) -> Json:
    """Return a read-only copy of a JSON-like value; errors call it ``where``."""
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
    """Undo :func:`freeze`: plain dicts and lists, for JSON and pickle."""
    if isinstance(value, Mapping):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [thaw(item) for item in value]
    return value


_DTYPES = {"Floats": np.float64, "Ints": np.intp}


class FrozenRecord:
    """A frozen dataclass whose arrays and mappings are read-only; mappings pickle as plain ones."""

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            value: Any = getattr(self, field.name)
            if field.type in _DTYPES:
                value = read_only(value, _DTYPES[field.type])
            elif field.name == "level":
                value = check_level(value)
            elif isinstance(value, Mapping):
                value = freeze(value, "spec") if field.name == "spec" else dict(value)
                value = MappingProxyType(value) if isinstance(value, dict) else value
            object.__setattr__(self, field.name, value)
        for name, shape in self._shapes().items():
            if getattr(self, name).shape != shape:
                raise ValueError(f"{name} must have shape {shape}, got {getattr(self, name).shape}")

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the required shapes of arrays."""
        return {}

    def __reduce__(self) -> tuple[object, ...]:
        plain = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        for name, value in plain.items():
            if isinstance(value, MappingProxyType):
                plain[name] = thaw(value) if name == "spec" else dict(value)
        return partial(type(self), **plain), ()


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
    """Write a manifest, with checksums, and its arrays as one file, all or nothing."""
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

    with written_whole(target) as stream:
        for compression in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):
            stream.seek(0)
            stream.truncate()
            with zipfile.ZipFile(stream, "w") as archive:
                for member, content in {_MANIFEST: text.encode(), **members}.items():
                    info = zipfile.ZipInfo(member, date_time=_EPOCH)
                    info.compress_type = compression
                    archive.writestr(info, content)
            # what shrinks further than a reader believes is not compressed at all
            if sum(map(len, members.values())) <= _most(stream.tell()):
                break
    return target


def _most(size: int) -> int:
    return FREE_BYTES + RATIO * size


def read_file(path: str | os.PathLike[str]) -> tuple[dict[str, Json], Arrays]:
    """Return manifest and arrays; FileFormatError if it is not a dfi file, newer or damaged.

    Nothing is allocated before it is known that the file can hold it: a file of s bytes may hold
    :data:`FREE_BYTES` + :data:`RATIO` s bytes of arrays, of which each is as long as its header
    says, and a manifest of a quarter of that.
    """
    source = file_named(path)
    if not source.exists():
        raise FileNotFoundError(f"there is no file {source}")
    if not source.is_file():  # reading would wait, or never end
        raise FileFormatError(f"{source} is not a dfi file (it is a device or a pipe)")
    with source.open("rb") as stream:
        try:
            if stream.read(len(_ZIP_SIGNATURE)) != _ZIP_SIGNATURE:
                raise FileFormatError(  # noqa: TRY301
                    f"{source} is not a dfi file (it is not a zip archive)"
                )
            with zipfile.ZipFile(stream) as archive:
                _check_members(archive, source)
                manifest = _read_manifest(archive, source)
                return manifest, _read_arrays(archive, manifest, source)
        except FileFormatError:
            raise
        # bytes that make no sense lead the readers of zip, JSON and npy to raise almost anything
        except Exception as error:
            reason = " ".join(str(error).split())[:LONGEST] or type(error).__name__
            raise FileFormatError(f"{source} is damaged or truncated: {reason}") from error


def _check_members(archive: zipfile.ZipFile, source: Path) -> None:
    """Raise where an archive claims more than its bytes can hold, or what is never written."""
    size = source.stat().st_size
    members = archive.infolist()
    names = {info.filename for info in members}
    if len(names) < len(members):
        raise FileFormatError(f"{source} is damaged: it has members of the same name")
    for info in members:
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise FileFormatError(
                f"{source} is damaged: {info.filename!r} is compressed in a way that dfi never uses"
            )
        if info.flag_bits & 1:
            raise FileFormatError(f"{source} is damaged: {info.filename!r} is encrypted")
        if info.filename == _MANIFEST and info.file_size > _most(size) // 4:
            raise _too_large(source, info.file_size)
    claimed = sum(info.file_size for info in members if info.filename != _MANIFEST)
    if claimed > _most(size):
        raise _too_large(source, claimed)


def _too_large(source: Path, claimed: int) -> FileFormatError:
    return FileFormatError(
        f"{source} claims to hold {claimed:,} bytes, more than dfi packs into "
        f"{source.stat().st_size:,}: it is damaged, or made to fill the memory"
    )


def _read_manifest(archive: zipfile.ZipFile, source: Path) -> dict[str, Json]:
    if _MANIFEST not in archive.namelist():
        raise FileFormatError(f"{source} is not a dfi file (it has no {_MANIFEST})")
    content = archive.read(_MANIFEST)
    # every value takes some 60 bytes, of which the text may show two
    values = sum(map(content.count, (b",", b"[", b"{")))
    if values > FREE_VALUES + source.stat().st_size // 4:
        raise _too_large(source, 64 * values)
    try:
        manifest = json.loads(content, object_hook=_decode)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{source} is damaged: its manifest is not JSON ({error})") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise FileFormatError(f"{source} is not a dfi file (its manifest does not say {FORMAT!r})")
    version: Json = manifest.get("version")
    if not _is_whole(version) or version < 1:
        raise FileFormatError(f"{source} is damaged: its format version is {version!r}")
    if version != VERSION:
        cure = "upgrade dfi to read it" if version > VERSION else "explain the table again"
        raise FileFormatError(
            f"{source} has format version {version}, but this dfi reads {VERSION}; {cure}"
        )
    return manifest


def _read_arrays(archive: zipfile.ZipFile, manifest: dict[str, Json], source: Path) -> Arrays:
    entries = manifest["arrays"]
    members = [entry["member"] for entry in entries.values()]
    if len(set(members)) < len(members):  # one member, read again and again
        raise FileFormatError(f"{source} is damaged: two arrays share a member")
    arrays: Arrays = {}
    for name, entry in entries.items():
        if entry["member"] not in archive.namelist():
            raise FileFormatError(f"{source} is damaged: the array {name!r} is missing")
        try:
            kind = _KINDS.get(name.rpartition(".")[2])
            arrays[name], digest = _read_array(archive, entry["member"], kind)
        except (zipfile.BadZipFile, zlib.error, EOFError):
            raise
        except Exception as error:
            # numpy parses the header as Python, which may go wrong in any way
            reason = " ".join(str(error).split())[:LONGEST] or type(error).__name__
            raise FileFormatError(
                f"{source}: the array {name!r} cannot be read: {reason}"
            ) from error
        if digest != entry["sha256"]:
            raise FileFormatError(
                f"{source} is damaged: the checksum of the array {name!r} differs"
            )
    return arrays


def _read_array(
    archive: zipfile.ZipFile, member: str, kind: str | None
) -> tuple[NDArray[Any], str]:
    """Return an array and the SHA-256 of its member; its header must fit the member's size."""
    size = archive.getinfo(member).file_size
    with archive.open(member) as stream:
        head = io.BytesIO(stream.read(min(size, _LONGEST_HEADER)))
        version = np.lib.format.read_magic(head)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }.get(version)
        if read is None:
            raise ValueError(f"its npy version is {version}")
        shape, fortran, dtype = read(head)
        if dtype.hasobject:
            raise ValueError("Object arrays are not read: they could hold code")
        if kind is not None and (dtype.kind not in kind or dtype.itemsize not in (1, 8)):
            raise ValueError(f"it holds {dtype.name} where {_WORDS[kind]} are expected")
        if fortran or len(shape) > 3 or min(shape, default=1) < 0:
            raise ValueError("it is laid out in a way that dfi never writes")
        count = math.prod(shape)
        if count * dtype.itemsize != size - head.tell():
            raise ValueError(f"its header says {count} values, but its member has {size} bytes")
        array = np.empty(shape, dtype)
        content = array.reshape(-1).view(np.uint8)
        digest = hashlib.sha256(head.getvalue()[: head.tell()])
        chunk, filled = head.read(), 0
        while chunk:
            content[filled : filled + len(chunk)] = np.frombuffer(chunk, np.uint8)
            digest.update(chunk)
            filled += len(chunk)
            # at the end zip compares its own checksum
            chunk = stream.read(_CHUNK)
        if filled < len(content):
            raise EOFError(f"{member} ends early")
    return array, digest.hexdigest()


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
        "parts": None,
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
    for key, values in (("totals", result.totals), ("parts", result.parts)):
        if values is not None:
            manifest[key], nested = _pack_influence(values, f"{prefix}{key}.")
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
    """Return the fields that :func:`pack` took apart, those of the latent result nested."""
    _check_manifest(manifest)
    quality, groups, latent = (manifest[key] for key in ("quality", "default_groups", "latent"))
    return {
        **{name: manifest[name] for name in _PLAIN},
        **{name: arrays.get(f"{prefix}{name}") for name in _ARRAYS},
        "names": tuple(manifest["names"]),
        "difference": manifest["difference"],
        "components": manifest["components"],
        "spec": manifest["spec"],
        "diagnostics": manifest["diagnostics"],
        "quality": Quality.from_plain(quality),
        "basis": _unpack_influence(manifest, arrays, prefix),
        "default_groups": (
            None if groups is None else Groups(tuple(groups["names"]), arrays[f"{prefix}groups"])
        ),
        "latent": None if latent is None else unpack(latent, arrays, f"{prefix}latent."),
        **{
            key: (
                None
                if manifest[key] is None
                else _unpack_influence(manifest[key], arrays, f"{prefix}{key}.")
            )
            for key in ("totals", "parts")
        },
        "by_outcome": {
            entry["outcome"]: unpack(entry, arrays, f"{prefix}outcome{place}.")
            for place, entry in enumerate(manifest["by_outcome"])
        },
    }


def _check_manifest(manifest: dict[str, Json]) -> None:
    """Raise by the key where a manifest has a value of another type, or out of range."""
    _check(manifest, _IN_MANIFEST)
    _check_quality(manifest["quality"])
    for entry in manifest["by_outcome"]:
        _expect(entry, "outcome", _is_text)
    if manifest["default_groups"] is not None:
        _expect(manifest["default_groups"], "names", _is_names)


def _check_quality(quality: dict[str, Json]) -> None:
    _check(quality, _IN_QUALITY)
    if (quality["auc"] is None) != (quality["auc_se"] is None):
        raise ValueError("'auc' and 'auc_se' must come together")
    for part in quality["by_outcome"].values():
        _check_quality(part)


def _check(record: Json, tests: Tests) -> None:
    for key, test in tests.items():
        _expect(record, key, test)


def _expect(record: Json, key: str, test: Test, *, optional: bool = False) -> None:
    if not isinstance(record, dict):
        raise TypeError(f"{key!r} is missing: {type(record).__name__} is not an object")
    if optional and key not in record:
        return
    if not test(record[key]):
        raise ValueError(f"{key!r} is {shown(record[key])}")


def _of(kind: type) -> Test:
    return lambda value: isinstance(value, kind)


def _list_of(test: Test) -> Test:
    return lambda value: isinstance(value, list) and all(map(test, value))


def _is_whole(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Json) -> bool:
    return isinstance(value, float) or _is_whole(value)


_is_text, _is_flag, _is_dict, _is_list = map(_of, (str, bool, dict, list))
_is_numbers, _is_names = _list_of(_is_number), _list_of(_is_text)
_IN_MANIFEST: Tests = {
    "names": _is_names,
    "level": lambda value: _is_number(value) and 0 < value < 1,
    "library": lambda value: value in get_args(Library),
    "nonnegative": _is_flag,
    **dict.fromkeys(("spec", "diagnostics", "quality"), _is_dict),
    "difference": _is_flag,
    "components": lambda value: value is None or _list_of(_is_names)(value),
    "by_outcome": _is_list,
}
_IN_QUALITY: Tests = {
    **dict.fromkeys(
        ("r2", "r2_spread", "mse", "outcome_variance", "model_loss", "null_loss"), _is_number
    ),
    **dict.fromkeys(
        ("auc", "auc_se", "brier", "log_loss", "concordance", "integrated_brier"),
        lambda value: value is None or _is_number(value),
    ),
    **dict.fromkeys(("r2_by_fold", "skill_by_fold"), _is_numbers),
    "n_rows": lambda value: _is_whole(value) and value >= 0,
    "loss": _is_text,
    "calibration": _list_of(_is_numbers),
    "by_outcome": _is_dict,
}


def _unpack_influence(manifest: dict[str, Json], arrays: Arrays, prefix: str) -> Influence:
    moments = manifest.get("moments")
    if moments is not None:
        _expect(moments, "size", lambda value: _is_number(value) and 0 < value < math.inf)
        _expect(moments, "n_rows", lambda value: _is_whole(value) and value > 0)
        _expect(moments, "degrees", lambda value: _is_number(value) and value > 0)
        _expect(moments, "words", _is_text)
        sample = moments["sample"]
        mean, covariance, third = (arrays[f"{prefix}{name}"] for name in _MOMENTS)
        return InfluenceMoments(
            mean,
            covariance,
            third,
            size=moments["size"],
            n_rows=moments["n_rows"],
            sample=None if sample is None else _unpack_rows(sample, arrays, f"{prefix}sample."),
            degrees=moments["degrees"],
            words=moments["words"],
        )
    return _unpack_rows(manifest, arrays, prefix)


def _unpack_rows(manifest: dict[str, Json], arrays: Arrays, prefix: str) -> InfluenceRows:
    told, dependence = manifest.get("dependence"), None
    _expect(manifest["weights"], "kind", lambda value: value in get_args(WeightKind))
    values = arrays[f"{prefix}weights"]
    if not (np.isfinite(values).all() and (values >= 0).all() and values.any()):
        raise ValueError("weights must be finite numbers of 0 or more, and some above")
    if values.ndim != 1:
        raise ValueError(f"weights must have one dimension, got shape {values.shape}")
    if told is not None:
        _expect(told, "kind", lambda value: value in ("clusters", "time"))
        _expect(
            told,
            "bandwidth",
            lambda value: value is None or (_is_whole(value) and value >= 0),
            optional=told["kind"] == "clusters",
        )
        places = arrays[f"{prefix}dependence"]
        clustered = told["kind"] == "clusters"
        dependence = Clusters(places) if clustered else Ordered(places, told["bandwidth"])
    weights = Weights(values, manifest["weights"]["kind"], dependence)
    return InfluenceRows(arrays[f"{prefix}influence"], weights, arrays.get(f"{prefix}rows"))
