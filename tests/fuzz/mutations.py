"""Bytes that were right and are not any more: the same for the same seed, on every machine."""

import hashlib
import io
import json
import random
import zipfile

import numpy as np

INTERESTING = (
    b"\x00",
    b"\xff",
    b"\x7f",
    b"\x80",
    b"\r",
    b"\n",
    b'"',
    b",",
    b"\xff" * 4,
    b"\x00" * 8,
)
VALUES = (
    None, True, False, 0, 1, -1, 2**31, 2**63, 10**400, 0.5, 1e308, "", "evil", "0.5", [], [[]], {},
    [None], {"a": 1}, {"__float__": "nan"}, {"__float__": "x"}, {"__float__": []}, "\x00", "\u202e",
)  # fmt: skip


def mutate(content: bytes, seed: int) -> bytes:
    """Change some bytes: flipped, set, cut, inserted, removed, doubled or exchanged."""
    rng = random.Random(seed)
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        if not changed:
            break
        at = rng.randrange(len(changed))
        size = rng.choice((1, 2, 4, 8, 64, 512))
        kind = rng.randrange(8)
        if kind == 0:
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            changed[at] = rng.randrange(256)
        elif kind == 2:
            del changed[at:]
        elif kind == 3:
            changed[at:at] = rng.randbytes(size)
        elif kind == 4:
            del changed[at : at + size]
        elif kind == 5:
            changed[at:at] = changed[at : at + size]
        elif kind == 6:
            changed[at : at + size] = rng.choice(INTERESTING)
        else:
            other = rng.randrange(len(changed))
            changed[at : at + size], changed[other : other + size] = (
                changed[other : other + size],
                changed[at : at + size],
            )
    return bytes(changed)


def craft_result(content: bytes, seed: int) -> bytes:
    """Change the manifest or an array of a result file, and put the checksums right again."""
    rng = random.Random(seed)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members["manifest.json"])
    for _ in range(rng.choice((1, 1, 2, 5))):
        if rng.random() < 0.6:
            _change_value(manifest, rng)
        else:
            name = rng.choice(sorted(name for name in members if name.endswith(".npy")))
            members[name] = _change_array(members[name], rng)
            entries = manifest.get("arrays")
            for entry in entries.values() if isinstance(entries, dict) else ():
                if isinstance(entry, dict) and entry.get("member") == name:
                    entry["sha256"] = hashlib.sha256(members[name]).hexdigest()
    members["manifest.json"] = json.dumps(manifest).encode()
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, member in members.items():
            archive.writestr(zipfile.ZipInfo(name), member)
    return stream.getvalue()


def _change_value(manifest, rng):
    """Replace, remove or add a value somewhere in a nest of dicts and lists."""
    place = manifest
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = rng.choice(keys)
        if isinstance(place[key], (dict, list)) and place[key] and rng.random() < 0.7:
            place = place[key]
            continue
        kind = rng.randrange(4)
        if kind == 0:
            del place[key]
        elif kind == 1 and isinstance(place, list):
            place.append(place[key])
        else:
            place[key] = rng.choice(VALUES)
        return


def _change_array(content, rng):
    if rng.random() < 0.3:
        return mutate(content, rng.randrange(2**32))
    try:
        array = np.load(io.BytesIO(content))
    except Exception:  # it was changed before
        return mutate(content, rng.randrange(2**32))
    if array.ndim == 0 or array.dtype.kind not in "fiub":
        return mutate(content, rng.randrange(2**32))
    kind = rng.randrange(5)
    if kind == 0:
        array = array.astype(rng.choice(["<f4", "<i8", "|b1", "<c16", "<U3", "<i2", ">f8"]))
    elif kind == 1:
        array = array[: rng.randrange(len(array) + 1)]
    elif kind == 2 and array.dtype.kind == "f" and array.size:
        array = array.copy()
        array.flat[rng.randrange(array.size)] = rng.choice([np.nan, np.inf, -np.inf, 1e308, -1.0])
    elif kind == 3:
        array = array[..., None]
    else:
        array = np.concatenate([array, array])
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()
