"""The HIV-1 data: reading, finding and fetching them, against a local server."""

from __future__ import annotations

import hashlib
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

import dfi.datasets.hiv as hiv
from dfi.datasets import load_hiv
from dfi.datasets.hiv import cache_folder, fetch

DATA = Path(os.environ.get("DFI_DATA", "")) / "hiv"
with_data = pytest.mark.skipif(
    not os.environ.get("DFI_DATA") or not DATA.is_dir(),
    reason="set DFI_DATA to the folder that holds hiv/ to read the real data",
)
TABLE = b'"sens50","a","b","c"\n1,0,1,19\n0,1,1,22\n1,1,0,30\n'
GROUPS = (
    b'"","feature","group"\n"1","b","vrc01"\n"2","a","vrc01"\n"3","b","cd4bs"\n"4","c","geog"\n'
)
FILES = {"sens50_processed_dataset.csv": TABLE, "feature_group.csv": GROUPS}


def sha(content):
    return hashlib.sha256(content).hexdigest()


class Server:
    """A server of a few files, with the ways in which servers fail."""

    def __init__(self):
        outer = self
        self.files = dict(FILES)
        self.asked = []
        self.cut, self.answers = 0, threading.Event()
        self.answers.set()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append(self.path)
                outer.answers.wait()
                content = outer.files.get(self.path.rsplit("/", 1)[-1])
                if content is None:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content[: len(content) - outer.cut])

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/data/"
        self.thread = threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.01}
        )
        self.thread.start()

    def close(self):
        self.answers.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def server(monkeypatch, tmp_path):
    monkeypatch.setattr(hiv, "CHECKSUMS", {"feature_group.csv": sha(GROUPS), "sens50": sha(TABLE)})
    monkeypatch.delenv("DFI_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("no_proxy", "*")
    running = Server()
    yield running
    running.close()


def test_downloads_once_into_the_cache(server, tmp_path):
    data = load_hiv(download=True, base_url=server.url, as_frame=False)
    assert sorted(path.name for path in (tmp_path / "dfi" / "hiv").iterdir()) == sorted(FILES)
    assert server.asked == [f"/data/{name}" for name in FILES]
    assert data.names == ("a", "b", "c")
    np.testing.assert_array_equal(data.X, [[0, 1, 19], [1, 1, 22], [1, 0, 30]])
    np.testing.assert_array_equal(data.y, [1, 0, 1])
    # in the order of the columns and of the paper
    assert data.groups["vrc01"] == ["a", "b"]
    assert data.positions["cd4bs"] == [1]
    assert [group for group, members in data.groups.items() if members] == [
        "vrc01",
        "cd4bs",
        "geog",
    ]
    again = load_hiv(download=True, base_url=server.url)
    assert len(server.asked) == 2
    np.testing.assert_array_equal(again.y, data.y)
    assert load_hiv().names == data.names


def test_downloads_into_a_given_folder_what_it_lacks(server, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "feature_group.csv").write_bytes(GROUPS)
    load_hiv(folder=folder, download=True, base_url=server.url)
    assert server.asked == ["/data/sens50_processed_dataset.csv"]
    assert (folder / "sens50_processed_dataset.csv").read_bytes() == TABLE


def nothing_kept(tmp_path):
    return not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_truncated_file_is_not_kept(server, tmp_path):
    server.cut = 5
    with pytest.raises((ConnectionError, ValueError), match=r"broke off|cut short"):
        load_hiv(download=True, base_url=server.url)
    assert nothing_kept(tmp_path)


def test_a_changed_file_is_not_kept(server, tmp_path):
    server.files["sens50_processed_dataset.csv"] = TABLE + b"1,1,1,1\n"
    with pytest.raises(ValueError, match=r"SHA-256 checksum .* instead of .*nothing was kept"):
        load_hiv(download=True, base_url=server.url)
    assert nothing_kept(tmp_path)


def test_a_missing_page(server, tmp_path):
    server.files.clear()
    with pytest.raises(ConnectionError, match=r"answered 404 .*another base_url"):
        load_hiv(download=True, base_url=server.url)
    assert nothing_kept(tmp_path)


def test_a_server_that_does_not_answer(server):
    server.answers.clear()
    with pytest.raises(TimeoutError, match=r"did not answer within 0.1 seconds"):
        load_hiv(download=True, base_url=server.url, timeout=0.1)


def test_no_network(server):
    server.close()
    with pytest.raises(ConnectionError, match=r"could not be reached .*check the network"):
        load_hiv(download=True, base_url=server.url)


def test_only_web_addresses(tmp_path):
    with pytest.raises(ValueError, match="must start with http"):
        fetch("file:///etc/hosts", tmp_path / "hosts", "0")


def test_a_failed_write_leaves_nothing(server, tmp_path, monkeypatch):
    def refuse(source, target):
        raise OSError("disk is full")

    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(OSError, match="disk is full"):
        fetch(server.url + "feature_group.csv", tmp_path / "new" / "x.csv", sha(GROUPS))
    assert nothing_kept(tmp_path)


def test_missing_files_say_what_to_do(server, tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"no such folder: .*download=True.*DFI_DATA"):
        load_hiv()
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"is not in .*empty: pass download"):
        load_hiv(folder=tmp_path / "empty")
    monkeypatch.setenv("DFI_DATA", str(tmp_path / "shared"))
    with pytest.raises(FileNotFoundError, match=r"shared.hiv or .*dfi.hiv"):
        load_hiv()


def write(folder, table=TABLE, groups=GROUPS):
    folder.mkdir(parents=True)
    (folder / "sens50_processed_dataset.csv").write_bytes(table)
    (folder / "feature_group.csv").write_bytes(groups)


def test_reads_the_shared_folder_before_the_cache(server, tmp_path, monkeypatch):
    write(tmp_path / "shared" / "hiv")
    write(tmp_path / "dfi" / "hiv", table=b"not read")
    monkeypatch.setenv("DFI_DATA", str(tmp_path / "shared"))
    assert load_hiv().names == ("a", "b", "c")


def test_a_file_with_another_checksum(server, tmp_path):
    write(tmp_path / "mine", table=TABLE + b"0,0,0,25\n")
    with pytest.raises(ValueError, match=r"sens50_processed_dataset.csv has .*check=False"):
        load_hiv(folder=tmp_path / "mine")
    assert len(load_hiv(folder=tmp_path / "mine", check=False).y) == 4


@pytest.mark.parametrize(
    ("table", "groups", "message"),
    [
        (b'"a","b"\n1,2\n', GROUPS, "has no column 'sens50'"),
        (b'"sens50","a","b","c"\n1,NA,1,2\n', GROUPS, "is not all numbers"),
        (TABLE, GROUPS + b'"5","d","geog"\n', "puts 'd' into 'geog'"),
        (TABLE, GROUPS + b'"5","a","other"\n', "puts 'a' into 'other'"),
    ],
)
def test_files_of_another_form(server, tmp_path, table, groups, message):
    write(tmp_path / "mine", table, groups)
    with pytest.raises(ValueError, match=message):
        load_hiv(folder=tmp_path / "mine", check=False)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_tables_of_every_library(server, tmp_path, library):
    pytest.importorskip(library)
    write(tmp_path / "mine")
    X = load_hiv(folder=tmp_path / "mine", as_frame=library).X
    assert type(X).__module__.split(".")[0] == library
    assert X.shape == (3, 3)


def test_an_array_where_no_table_library_is_installed(server, tmp_path, monkeypatch):
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    write(tmp_path / "mine")
    assert isinstance(load_hiv(folder=tmp_path / "mine").X, np.ndarray)


def test_options_that_do_not_exist():
    for outcome in ("ic50", "feature_group.csv"):
        with pytest.raises(ValueError, match=r"outcome must be 'sens50', 'sens80' or 'ic50"):
            load_hiv(outcome)
    with pytest.raises(ValueError, match="as_frame must be True"):
        load_hiv(as_frame="excel")
    for options in ({"download": "no"}, {"check": 0}, {"timeout": "30"}, {"folder": 3}):
        (name,) = options
        with pytest.raises(TypeError, match=f"^{name} must be .*, got "):
            load_hiv(**options)


def test_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "dfi"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    assert cache_folder() == tmp_path / "home" / ".cache" / "dfi"


@with_data
@pytest.mark.parametrize(
    ("outcome", "rows", "ones"),
    [("sens50", 611, 376), ("sens80", 430, 148), ("ic50.censored", 611, 98)],
)
def test_the_real_data(outcome, rows, ones):
    data = load_hiv(outcome)
    assert data.X.shape == (rows, 832)
    assert data.y.sum() == ones
    sizes = [len(members) for members in data.groups.values()]
    assert sizes == [165, 154, 135, 81, 245, 229, 39, 70, 11, 9, 6, 4, 3, 4]
    assert set().union(*data.groups.values()) == set(data.names)
    assert list(data.groups) == list(data.descriptions) == list(data.numbers)
    assert data.numbers["covar"] == 5
    assert data.numbers["geog"] == 14
