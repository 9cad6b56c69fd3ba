"""Object code of the kernels on disk.

A file is found by a key of everything that the code depends on: the sources of the kernels, the
versions of numba and llvmlite, the processor with its features, numba's settings, the kernel and
the kind of its arguments. It starts with a checksum of the key and the rest, so that a damaged file
is not used. Python's version is no part of the key: the code does not know Python.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import sys
import uuid
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

logger = logging.getLogger(__name__)

HERE = Path(__file__).parent
# Read when the kernels are imported: a file changed later is not what this process compiles.
SOURCES = [
    path.read_bytes() for path in sorted(HERE.glob("*.py")) if path.stem[:4] in ("comp", "kern")
]
# Settings of numba that change the code it makes.
SETTINGS = ("CPU_NAME", "CPU_FEATURES", "ENABLE_AVX", "OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE")
CHECKSUM_SIZE = 32


class Code(NamedTuple):
    """Object code of a kernel, and the symbols it wants from the process that links it."""

    symbols: tuple[str, ...]
    machine: bytes


def checksum(*parts: bytes) -> bytes:
    """Return a checksum of the parts and of where one ends and the next begins."""
    total = hashlib.sha256()
    for part in parts:
        total.update(len(part).to_bytes(8, "little") + part)
    return total.digest()


@functools.cache
def environment() -> bytes:
    """Return a checksum of all that decides the code, apart from the kernel and its arguments."""
    import llvmlite.binding as llvm

    if not SOURCES:
        raise RuntimeError("without its source, the version of a kernel is not known")
    facts = [
        version("numba"),
        version("llvmlite"),
        llvm.get_process_triple(),
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
        *(os.environ.get(f"NUMBA_{setting}", "") for setting in SETTINGS),
    ]
    return checksum(*SOURCES, *(fact.encode() for fact in facts))


def folders() -> Iterator[Path]:
    """Yield where code is kept, best place first: numba's habits."""
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(chosen) / "dfi"
        return
    yield HERE / "__pycache__"
    if sys.platform == "win32":
        home = os.environ.get("LOCALAPPDATA", "~/AppData/Local")
    else:
        home = "~/Library/Caches" if sys.platform == "darwin" else "~/.cache"
        home = os.environ.get("XDG_CACHE_HOME") or home
    yield Path(home).expanduser() / "dfi"


def read_code(name: str, key: bytes) -> Code | None:
    """Return the code kept under a name and key; None where there is none or it is damaged."""
    for folder in folders():
        path = folder / f"{name}.kernel"
        try:
            content = path.read_bytes()
        except OSError:
            continue
        rest = content[CHECKSUM_SIZE:]
        if content[:CHECKSUM_SIZE] == checksum(key, rest):
            symbols, _, machine = rest.partition(b"\n")
            return Code(tuple(symbols.decode().split()), machine)
        logger.info("%s is damaged", path)
    return None


def write_code(name: str, key: bytes, code: Code) -> None:
    """Keep code under a name and key, in the first place that can be written to."""
    rest = " ".join(code.symbols).encode() + b"\n" + code.machine
    for folder in folders():
        # Other processes see the whole file or none.
        part = folder / f"{name}.{uuid.uuid4().hex}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            part.write_bytes(checksum(key, rest) + rest)
            part.replace(folder / f"{name}.kernel")
        except OSError as error:
            logger.info("compiled kernels cannot be kept in %s: %s", folder, error)
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
            continue
        return
