"""Result files that were made to do harm: one sentence of one class, and no memory to speak of."""

import contextlib
import hashlib
import io
import json
import os
import sys
import zipfile

import numpy as np
import pytest

from dfi.results import file
from dfi.results.file import FileFormatError
from dfi.results.importance import load

from .test_file import build, full, rewrite


@pytest.fixture
def path(tmp_path):
    return full().save(tmp_path / "result.dfi")


def with_array(path, name, content):
    """Put other bytes in an array's place, with their own checksum."""

    def trust(manifest):
        manifest["arrays"][name]["sha256"] = hashlib.sha256(content).hexdigest()

    rewrite(path, manifest=trust, replace={f"arrays/{name}.npy": content})


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def header(text, version=1):
    length = len(text).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode()


def archive(path, compression, members):
    with zipfile.ZipFile(path, "w", compression) as written:
        for name, content in members.items():
            written.writestr(name, content)


def members_of(path):
    with zipfile.ZipFile(path) as read:
        return {name: read.read(name) for name in read.namelist()}


@pytest.mark.parametrize("padded", ["manifest.json", "arrays/influence.npy"])
def test_a_small_file_cannot_claim_much(path, padded):
    members = members_of(path)
    members[padded] += b" " * (file.FREE_BYTES + 2_000_000)
    archive(path, zipfile.ZIP_DEFLATED, members)
    assert path.stat().st_size < 200_000
    with pytest.raises(FileFormatError, match=r"more than dfi packs into .* fill the memory"):
        load(path)


def test_a_manifest_of_nothing_but_brackets(path):
    members = members_of(path)
    members["manifest.json"] = b"[" + b"[]," * 1_200_000 + b"[]]"
    archive(path, zipfile.ZIP_DEFLATED, members)
    with pytest.raises(FileFormatError, match="fill the memory"):
        load(path)


def test_what_is_saved_can_be_loaded_however_well_it_shrinks(tmp_path, monkeypatch):
    monkeypatch.setattr(file, "FREE_BYTES", 1 << 12)
    influence = np.zeros((20_000, 3))
    influence[:, 0] = 1.0
    weights = file.Weights(np.ones(20_000), "frequency")
    saved = build(influence=influence, weights=weights).save(tmp_path / "zeros.dfi")
    assert load(saved).scores.tolist() == [1.0, 0.0, 0.0]
    with zipfile.ZipFile(saved) as read:
        assert {info.compress_type for info in read.infolist()} == {zipfile.ZIP_STORED}


@pytest.mark.parametrize("compression", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_other_compression_is_refused_unread(path, compression):
    archive(path, compression, members_of(path))
    with pytest.raises(FileFormatError, match="compressed in a way that dfi never uses"):
        load(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (header("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }\n"), "says"),
        (header("{'descr': '|V0', 'fortran_order': False, 'shape': (1000000000, 3), }\n"), "holds"),
        (header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 3), }\n"), "never writes"),
        (header("{'descr': '<f8', 'fortran_order': True, 'shape': (0, 3), }\n"), "never writes"),
        (header("(" * 200), "cannot be read"),
        (header("'''"), "cannot be read"),
        (
            header("{'descr': '<f8', 'fortran_order': False, 'shape': (" + "9" * 5000 + ",), }"),
            "read",
        ),
        (b"", "cannot be read"),
        (b"\x93NUMPY\x03\x00", "npy version"),
        (npy(np.zeros((30, 3), dtype=bool)), "holds bool where float64"),
        (npy(np.zeros((30, 3), dtype="datetime64[s]")), "holds datetime64.* where float64"),
        (npy(np.zeros((30, 3), dtype=complex)), "holds complex128 where float64"),
        (npy(np.full((30, 3), np.nan)), "NaN or inf"),
        (npy(np.zeros((30, 3, 1))), "two dimensions"),
        (npy(np.zeros((30, 3))) + b"more", "but its member has"),
    ],
)
def test_arrays_that_are_none(path, content, message):
    with_array(path, "influence", content)
    with pytest.raises(FileFormatError, match=message):
        load(path)


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("weights", np.full(30, np.nan), "weights must be finite"),
        ("weights", np.full(30, -1.0), "weights must be finite"),
        ("weights", np.zeros(30), "weights must be finite"),
        ("weights", np.ones(29), "29 weights for 30 rows"),
        ("degenerate", np.full(3, 0.5), "holds float64 where booleans"),
        ("groups", np.ones((2, 3)), "holds float64 where booleans"),
    ],
)
def test_arrays_of_another_kind(path, name, array, message):
    with_array(path, name, npy(array))
    with pytest.raises(FileFormatError, match=message):
        load(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("names", [1, 2, 3]), ("names", None), ("names", "abc"), ("level", "0.9"), ("level", 2),
        ("level", True), ("library", "os"), ("library", 3), ("space", "evil"),
        ("nonnegative", "no"), ("difference", 1), ("components", "a"), ("components", [["a", 1]]),
        ("spec", []), ("diagnostics", None), ("quality", {}), ("weights", {"kind": "evil"}),
        ("weights", None), ("weights", []), ("default_groups", []),
        ("default_groups", {"names": 1}), ("latent", []), ("by_outcome", {}),
        ("by_outcome", [1]), ("totals", [1]), ("dependence", {"kind": "evil"}), ("dependence", 3),
        ("moments", []),
        ("moments", {"size": "many"}), ("arrays", []), ("arrays", None),
    ],
)  # fmt: skip
def test_manifests_of_other_types(path, key, value):
    rewrite(path, manifest=lambda manifest: manifest.update({key: value}))
    with pytest.raises(FileFormatError, match=r"result\.dfi"):
        load(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("r2", "0.5"), ("r2", None), ("r2_by_fold", "abc"), ("r2_by_fold", ["a"]), ("mse", []),
        ("n_rows", 3.5), ("n_rows", -1), ("loss", 3), ("auc", "x"), ("calibration", [[1, 2]]),
        ("calibration", 3), ("by_outcome", []), ("by_outcome", {"a": 1}),
    ],
)  # fmt: skip
def test_qualities_of_other_types(path, key, value):
    rewrite(path, manifest=lambda manifest: manifest["quality"].update({key: value}))
    with pytest.raises(FileFormatError, match="damaged"):
        load(path)


def test_deeper_than_python_counts(path):
    depth = 100_000
    members = members_of(path)
    text = members["manifest.json"].decode()
    members["manifest.json"] = text.replace(
        '"spec": {', '"spec": {"deep": ' + "[" * depth + "]" * depth + ",", 1
    ).encode()
    archive(path, zipfile.ZIP_DEFLATED, members)
    with pytest.raises(FileFormatError, match="its manifest is not JSON"):
        load(path)
    members["manifest.json"] = text.replace(
        '"spec": {', '"spec": {"deep": ' + "[" * 900 + "]" * 900 + ",", 1
    ).encode()
    archive(path, zipfile.ZIP_DEFLATED, members)
    with contextlib.suppress(FileFormatError):  # whether 900 are too many is Python's to say
        load(path)


def test_members_that_are_shared_or_there_twice(path):
    def share(manifest):
        manifest["arrays"]["spread"] = manifest["arrays"]["weights"]

    rewrite(path, manifest=share)
    with pytest.raises(FileFormatError, match="two arrays share a member"):
        load(path)
    with (
        pytest.warns(UserWarning, match="Duplicate name"),
        zipfile.ZipFile(path, "a") as opened,
    ):
        opened.writestr("manifest.json", json.dumps({}))
    with pytest.raises(FileFormatError, match="members of the same name"):
        load(path)


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes of that kind")
def test_pipes_and_devices_are_refused_unopened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(FileFormatError, match="it is a device or a pipe"):
            load(place)
