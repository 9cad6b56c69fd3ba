"""The paper's application: which parts of the HIV-1 envelope predict resistance to VRC01.

611 viruses (430 for ``sens80``), 832 features of their envelope sequences in 14 overlapping groups,
and a binary measure of neutralisation by the antibody VRC01, as processed by the paper's authors
after Williamson and others (2023). The data are not part of this package: see :func:`load_hiv`.
"""

from __future__ import annotations

import csv
import hashlib
import http.client
import io
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dfi._data.frames import as_frame as build
from dfi._files import cache_folder, written_whole
from dfi._parameters import validated

if TYPE_CHECKING:
    from dfi._types import Floats

TIMEOUT = 30.0
LARGEST = 100 * 2**20

Outcome = Literal["sens50", "sens80", "ic50.censored"]

BASE_URL = "https://raw.githubusercontent.com/JinHongDu-Lab/FDFI/main/docs/case_studies/data"
GROUP_FILE = "feature_group.csv"
CHECKSUMS = {
    GROUP_FILE: "fc519731d770ca4672029877fbcb884a83f859e687851d0390908c15bbc80e97",
    "sens50": "a7831f7926706377ed9b81fd6c73f995f69f1d971374859828c9300b566a0287",
    "sens80": "61136592d1bff8e691582c2378a7d4aa3fa4e464a66bf600c7304c61d93b9849",
    "ic50.censored": "62308321d92c05bd0b9156f70faea66c770b21cac8cb1d65ee7dabaf4d98013f",
}
DESCRIPTIONS = {
    "vrc01": "VRC01 binding footprint",
    "cd4bs": "CD4 binding sites",
    "esa": "Sites with sufficient exposed surface area",
    "glyco": "Sites identified as important for glycosylation",
    "covar": "Sites with residues covarying with the VRC01 binding footprint",
    "pngs": "Sites linked to VRC01-specific potential N-linked glycosylation effects",
    "gp41": "gp41 sites important for VRC01 binding",
    "pngs_novrc01": "Sites indicating N-linked glycosylation",
    "subtype": "Majority virus subtypes",
    "sequons": "Region-specific counts of potential N-linked glycosylation sites",
    "geometry": "Viral geometry",
    "cysteines": "Cysteine counts",
    "steric_bulk": "Steric bulk at critical locations",
    "geog": "Geographic confounders",
}
"""The groups in the paper's order, 1 to 14."""


@dataclass(frozen=True, eq=False)
class HIVData:
    """The HIV-1 data for one outcome.

    Attributes
    ----------
    X : DataFrame, Table or ndarray
        832 features: residues at sites of the envelope (0 or 1), subtypes, counts and lengths.
    y : ndarray
        The outcome, 0 or 1.
    outcome : str
        Its name.
    names : tuple of str
        The features.
    groups : dict of str to list of str
        The 14 overlapping groups in the paper's order, with their features.
    descriptions : dict of str to str
        Each group in words.
    numbers : dict of str to int
        Each group's number in the paper, 1 to 14.

    Examples
    --------
    >>> from dfi.datasets import HIVData
    >>> data = HIVData(
    ...     X=[[0, 1], [1, 1]], y=[0.0, 1.0], outcome="sens50", names=("site 1", "site 2"),
    ...     groups={"both": ["site 1", "site 2"]}, descriptions={"both": "two sites"},
    ...     numbers={"both": 1},
    ... )
    >>> data.positions
    {'both': [0, 1]}
    """

    X: Any
    y: Floats
    outcome: str
    names: tuple[str, ...]
    groups: dict[str, list[str]]
    descriptions: dict[str, str]
    numbers: dict[str, int]

    @property
    def positions(self) -> dict[str, list[int]]:
        """The groups by position of their columns, for arrays."""
        place = {name: k for k, name in enumerate(self.names)}
        return {group: [place[name] for name in names] for group, names in self.groups.items()}


@validated
def load_hiv(
    outcome: Outcome = "sens50",
    *,
    folder: str | Path | None = None,
    download: bool = False,
    as_frame: bool | str = True,
    check: bool = True,
    base_url: str = BASE_URL,
    timeout: float = TIMEOUT,
) -> HIVData:
    """Load the HIV-1 data of the paper's application.

    The files are looked for in ``folder``; without one in ``$DFI_DATA/hiv``, then in the user's
    cache (``$XDG_CACHE_HOME/dfi/hiv`` or ``~/.cache/dfi/hiv``). With ``download=True`` files that
    are in none of these are fetched once, into ``folder`` or the cache.

    Parameters
    ----------
    outcome : {"sens50", "sens80", "ic50.censored"}, default="sens50"
        Sensitivity at 50 % or 80 % inhibition, or whether the 50 % inhibitory concentration is
        beyond the assay's range.
    folder : str or Path, optional
        Folder with ``feature_group.csv`` and ``<outcome>_processed_dataset.csv``.
    download : bool, default=False
        Fetch missing files from ``base_url``.
    as_frame : bool or {"pandas", "polars", "pyarrow"}, default=True
        True: a table of whichever data frame library is installed (an array where none is).
        False: an array.
    check : bool, default=True
        Compare the files with the checksums of those the paper's results were computed from.
    base_url : str, default=the repository of the authors
        Folder on the web.
    timeout : float, default=30
        Seconds to wait for the server.

    Returns
    -------
    HIVData

    Raises
    ------
    FileNotFoundError
        The files are nowhere, and ``download`` is False.
    ConnectionError, TimeoutError
        The download fails.
    ValueError
        The checksum of a file differs, or the outcome is unknown.

    Notes
    -----
    The address was not tried when this was written, for want of a network. What was checked in a
    stored copy of the authors' repository: it lists the SHA-256 checksums of ``sens50`` and
    ``feature_group.csv`` at this path, and they are those used here; ``sens80`` and
    ``ic50.censored`` were there at this path under its earlier owner (``jaydu1/FDFI``), with the
    sizes of the files used here. The authors state no licence for the data. If the address has
    moved, ``base_url`` takes another; the checksums still say whether the files are the same.

    Examples
    --------
    >>> from dfi.datasets import load_hiv
    >>> data = load_hiv("sens50", download=True)  # doctest: +SKIP
    >>> dfi.explain(data.X, data.y, feature_groups=data.groups)  # doctest: +SKIP
    """
    texts = []
    for name, key in ((f"{outcome}_processed_dataset.csv", outcome), (GROUP_FILE, GROUP_FILE)):
        paths = (place / name for place in _places(folder))
        path = next((path for path in paths if path.is_file()), None)
        if path is None:
            if not download:
                raise FileNotFoundError(_missing(name, folder))
            target = (cache_folder() / "hiv" if folder is None else Path(folder)) / name
            path = fetch(f"{base_url.rstrip('/')}/{name}", target, CHECKSUMS[key], timeout=timeout)
        content = path.read_bytes()
        if check:
            verify(
                content,
                CHECKSUMS[key],
                str(path),
                "it is not the paper's file; move it away and load with download=True, or "
                "pass check=False to use it as it is",
            )
        texts.append(content.decode("utf-8"))
    names, y, matrix = _table(texts[0], outcome)
    return HIVData(
        X=_features(names, matrix, as_frame),
        y=y,
        outcome=outcome,
        names=names,
        groups=_groups(texts[1], names),
        descriptions=dict(DESCRIPTIONS),
        numbers={group: number for number, group in enumerate(DESCRIPTIONS, start=1)},
    )


def _places(folder: str | Path | None) -> list[Path]:
    if folder is not None:
        return [Path(folder)]
    shared = os.environ.get("DFI_DATA", "")
    return [*([Path(shared) / "hiv"] if shared else []), cache_folder() / "hiv"]


def _missing(name: str, folder: str | Path | None) -> str:
    places = _places(folder)
    absent = [str(place) for place in places if not place.is_dir()]
    where = " or ".join(str(place) for place in places)
    nowhere = f" (no such folder: {', '.join(absent)})" if absent else ""
    return (
        f"{name} is not in {where}{nowhere}: pass download=True to fetch it, folder= where you "
        "have it, or set DFI_DATA to the folder that holds hiv/"
    )


def _table(text: str, outcome: str) -> tuple[tuple[str, ...], Floats, Floats]:
    rows = csv.reader(io.StringIO(text))
    header = next(rows, [])
    if outcome not in header:
        raise ValueError(f"the data file has no column {outcome!r}: it is not the paper's file")
    try:
        values = np.array([[float(cell) for cell in row] for row in rows], dtype=np.float64)
    except ValueError as error:
        raise ValueError(f"the data file for {outcome!r} is not all numbers: {error}") from None
    at = header.index(outcome)
    names = tuple(name for name in header if name != outcome)
    return names, values[:, at].copy(), np.delete(values, at, axis=1)


def _groups(text: str, names: tuple[str, ...]) -> dict[str, list[str]]:
    members: dict[str, set[str]] = {group: set() for group in DESCRIPTIONS}
    known = set(names)
    for row in csv.DictReader(io.StringIO(text)):
        group, feature = row.get("group"), row.get("feature")
        if group not in members or feature not in known:
            raise ValueError(
                f"{GROUP_FILE} puts {feature!r} into {group!r}: no such feature or group"
            )
        members[group].add(feature)
    return {group: [name for name in names if name in members[group]] for group in DESCRIPTIONS}


def _features(names: tuple[str, ...], matrix: Floats, as_frame: bool | str) -> Any:
    if as_frame is False:
        return matrix
    library = "numpy" if as_frame is True else str(as_frame)
    table = build(dict(zip(names, matrix.T, strict=True)), library)
    return matrix if isinstance(table, dict) else table


def verify(content: bytes, expected: str, where: str, remedy: str) -> None:
    """Raise a ValueError if the content has another SHA-256 checksum."""
    digest = hashlib.sha256(content).hexdigest()
    if digest != expected:
        raise ValueError(
            f"{where} has the SHA-256 checksum {digest[:16]}... instead of {expected[:16]}... "
            f"({len(content)} bytes): {remedy}"
        )


def fetch(url: str, target: Path, expected: str, *, timeout: float = TIMEOUT) -> Path:
    """Download a file over http, check it, and move it into place, all or nothing."""
    content = _read(url, timeout)
    verify(content, expected, url, "the file was cut short or has changed; nothing was kept")
    target.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(target) as stream:
        stream.write(content)
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
        raise ConnectionError(f"the download of {url} broke off ({error}): try again") from None
    return content


def _late(url: str, timeout: float) -> TimeoutError:
    return TimeoutError(f"{url} did not answer within {timeout:g} seconds: try again later")
