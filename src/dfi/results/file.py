"""The ``.dfi`` file: a zip of one JSON manifest and plain arrays, described in file-format.md.

Nothing in it is executed when it is read: no pickle, in either direction. The file is written
under a temporary name and moved into place, so a reader never meets half a file.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import uuid
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

FORMAT = "dfi-importance"
VERSION = 1
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


class FileFormatError(ValueError):
    """A file is not a dfi file, was written by a newer version, or is damaged."""


def freeze(value: object, where: str) -> Any:
    """Return a read-only copy of a JSON-like value.

    Mappings become ``MappingProxyType``, sequences and arrays become tuples, numpy scalars
    become Python numbers.

    Parameters
    ----------
    value : object
        Nested mappings (with string keys), sequences, arrays, strings, numbers, booleans, None.
    where : str
        Name of the value, for the error message.
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


def thaw(value: Any) -> Any:
    """Undo :func:`freeze`: plain dicts and lists, as JSON and pickle want them."""
    if isinstance(value, Mapping):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [thaw(item) for item in value]
    return value


def _encode(value: Any) -> Any:
    """Replace NaN and infinities, which JSON does not know, by ``{"__float__": name}``."""
    if isinstance(value, float) and not math.isfinite(value):
        return {_FLOAT: repr(value)}
    if isinstance(value, Mapping):
        return {key: _encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_encode(item) for item in value]
    return value


def _decode(record: dict[str, Any]) -> Any:
    return float(record[_FLOAT]) if record.keys() == {_FLOAT} else record


def write_file(
    path: str | os.PathLike[str],
    manifest: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    *,
    overwrite: bool = False,
) -> Path:
    """Write a manifest and its arrays as one file, all or nothing.

    Parameters
    ----------
    path : path-like
        Where to write.
    manifest : mapping
        JSON-like content. ``format``, ``version`` and ``arrays`` (checksums) are added.
    arrays : mapping of str to ndarray
        Numeric or boolean arrays, by name.
    overwrite : bool, default=False
        Whether an existing file may be replaced.

    Returns
    -------
    Path
        Where it was written.
    """
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder; give the name of a file")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder {target.parent} does not exist; create it first")
    if target.exists() and not overwrite:
        raise FileExistsError(f"{target} exists already; pass overwrite=True to replace it")

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

    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("xb") as stream:
            with zipfile.ZipFile(stream, "w") as archive:
                for member, content in {_MANIFEST: text.encode(), **members}.items():
                    info = zipfile.ZipInfo(member, date_time=_EPOCH)
                    info.compress_type = zipfile.ZIP_DEFLATED
                    archive.writestr(info, content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return target


def read_file(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read what :func:`write_file` wrote.

    Returns
    -------
    manifest : dict
        The manifest.
    arrays : dict of str to ndarray
        The arrays, checked against their checksums.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    FileFormatError
        A ValueError: it is not a dfi file, was written by a newer version, or is damaged.
    """
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


def _read_manifest(archive: zipfile.ZipFile, source: Path) -> dict[str, Any]:
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


def _read_arrays(
    archive: zipfile.ZipFile, manifest: dict[str, Any], source: Path
) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {}
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
