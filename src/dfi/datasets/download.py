"""Fetch a file once, check it, and keep it: whole or not at all."""

from __future__ import annotations

import hashlib
import http.client
import os
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

TIMEOUT = 30.0
LARGEST = 100 * 2**20


def cache_folder() -> Path:
    """Return the user's cache folder for data: ``$XDG_CACHE_HOME/dfi``, else ``~/.cache/dfi``."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The specification says that a relative path is to be ignored.
    root = Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache"
    return root / "dfi"


def checksum(content: bytes) -> str:
    """Return the SHA-256 digest in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def verify(content: bytes, expected: str, where: str, remedy: str) -> None:
    """Refuse content that is not what the checksum says."""
    found = checksum(content)
    if found != expected:
        raise ValueError(
            f"{where} has the SHA-256 checksum {found[:16]}... instead of {expected[:16]}... "
            f"({len(content)} bytes): {remedy}"
        )


def fetch(url: str, target: Path, expected: str, *, timeout: float = TIMEOUT) -> Path:
    """Download a file, check it and move it into place.

    Parameters
    ----------
    url : str
        Address, http or https.
    target : Path
        Where the file goes. It appears only when it is whole and its checksum is right: the
        content is written beside it under another name, and renamed.
    expected : str
        SHA-256 checksum.
    timeout : float
        Seconds to wait for the server.

    Raises
    ------
    ConnectionError
        The server cannot be reached, refuses, or breaks off.
    TimeoutError
        It does not answer in time.
    ValueError
        The checksum is another, or the address is none of http.
    """
    content = _read(url, timeout)
    verify(content, expected, url, "the file was cut short or has changed; nothing was kept")
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return target


def _read(url: str, timeout: float) -> bytes:
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"the address must start with http:// or https://, got {url!r}")
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer:  # noqa: S310
            content: bytes = answer.read(LARGEST)
    except urllib.error.HTTPError as error:
        error.close()
        raise ConnectionError(
            f"{url} answered {error.code} ({error.reason}): pass another base_url, or a folder "
            "that has the file"
        ) from None
    except TimeoutError:
        raise _late(url, timeout) from None
    except urllib.error.URLError as error:
        if isinstance(error.reason, TimeoutError):
            raise _late(url, timeout) from None
        raise ConnectionError(
            f"{url} could not be reached ({error.reason}): check the network, or pass a folder "
            "that has the file"
        ) from None
    except (http.client.HTTPException, OSError) as error:
        raise ConnectionError(f"the transfer of {url} broke off ({error}): try again") from None
    return content


def _late(url: str, timeout: float) -> TimeoutError:
    return TimeoutError(f"{url} did not answer within {timeout:g} seconds: try again later")
