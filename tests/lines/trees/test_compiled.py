"""Kernels on disk: the bits of numba's dispatch, without numba, whatever happens to the files."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

from dfi._lines.trees import compilation, compiled, stored
from dfi._lines.trees import engine as engine_module
from dfi._lines.trees.compiled import Compiled
from dfi._lines.trees.engine import line_moments
from dfi._lines.trees.readers import read_trees

from .conftest import make_lines


def scale(x, factor, out):
    for k in range(x.size):
        out[k] = factor * x[k]


def allocate(x, factor, out):
    double = np.empty(x.size)
    for k in range(x.size):
        double[k] = factor * x[k]
        out[k] = double[k]


def refuse(x, factor, out):
    if factor > 0:
        raise ValueError("no")
    out[0] = x[0]


def scaled(kernel, factor=3.0):
    x, out = np.arange(4.0), np.empty(4)
    kernel(x, factor, out)
    np.testing.assert_array_equal(out, factor * x)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    return tmp_path / "dfi"


@pytest.fixture
def compilations(monkeypatch):
    """Names of the kernels compiled since."""
    names = []
    compile_kernel = compilation.compile_kernel

    def noted(function, *rest):
        names.append(function.__name__)
        return compile_kernel(function, *rest)

    monkeypatch.setattr(compilation, "compile_kernel", noted)
    return names


@pytest.fixture(scope="module")
def forest():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((300, 5))
    model = RandomForestRegressor(8, min_samples_leaf=3, random_state=0).fit(x, x @ np.arange(5))
    return read_trees(model)[0], x


@pytest.mark.parametrize("kernel", ["arena", "path", "merged"])
def test_every_kernel_has_the_bits_of_numbas_dispatch(forest, kernel, kind, monkeypatch):
    ensemble, x = forest
    link = "logistic" if kernel == "merged" else "identity"
    ensemble = replace(ensemble, link=link)
    lines = make_lines(x[:60], kind=kind, q=2)

    def everything():
        moments = line_moments(ensemble, lines, kernel=kernel, n_threads=1)
        square = moments.mean if moments.square is None else moments.square
        return moments.mean, moments.hermite, square, ensemble.predict(x)

    linked = everything()
    for name in ("predict_sums", f"{kernel}_moments"):
        used = getattr(engine_module, name)
        assert used._native
        assert None not in used._native.values()
        monkeypatch.setattr(used, "_native", defaultdict(lambda: None))
    monkeypatch.setattr(Compiled, "_load", lambda *_: None)
    for ours, theirs in zip(linked, everything(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


PROCESS = """
import hashlib, sys
import numpy as np
from dfi._lines.base import Lines, Reference
from dfi._lines.trees.engine import line_moments
from dfi._lines.trees.ensemble import single_tree
tree = single_tree([0, -1, -1], [0.3, 0, 0], [1, -1, -1], [2, -1, -1], [0, 1, 7], n_features=1)
x = np.linspace(-1, 1, 9)[:, None]
lines = Lines(x, x, np.ones((1, 1)), Reference.gaussian(), np.zeros((1, 1)))
mean = line_moments(tree, lines, kernel="arena").mean
digest = hashlib.sha256(mean.tobytes() + tree.predict(x).tobytes()).hexdigest()
print(digest, "numba" in sys.modules)
"""


def test_a_later_process_needs_no_numba_and_two_may_compile_at_once(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}

    def start():
        command = [sys.executable, "-W", "error", "-c", PROCESS]
        return subprocess.Popen(  # noqa: S603
            command, env=environment, stdout=subprocess.PIPE, text=True
        )

    first, other = start(), start()
    digest, with_numba = first.communicate()[0].split()
    assert with_numba == "True"
    assert other.communicate()[0].split()[0] == digest
    names = sorted(path.name.split("-")[0] for path in (tmp_path / "dfi").iterdir())
    assert names == ["arena_moments", "predict_sums", "preorder"]
    assert start().communicate()[0].split() == [digest, "False"]


def cut_short(content):
    return content[: len(content) // 2]


def one_bit_flipped(content):
    return content[:-100] + bytes([content[-100] ^ 1]) + content[-99:]


@pytest.mark.parametrize(
    "damage", [cut_short, one_bit_flipped, lambda _: b"", lambda _: b"\n" * 40]
)
def test_a_damaged_file_is_compiled_again(folder, compilations, damage):
    scaled(Compiled(scale))
    scaled(Compiled(scale))
    assert compilations == ["scale"]
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    scaled(Compiled(scale))
    assert compilations == ["scale", "scale"]
    scaled(Compiled(scale))
    assert compilations == ["scale", "scale"]
    assert [path] == list(folder.iterdir())


def test_a_file_under_another_name_is_not_taken(folder, compilations):
    scaled(Compiled(scale))
    (path,) = folder.iterdir()
    assert stored.read_code(path.stem, b"another key") is None


def test_a_folder_that_cannot_be_written_compiles_in_memory(tmp_path, monkeypatch, compilations):
    (tmp_path / "file").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    kernel = Compiled(scale)
    scaled(kernel)
    scaled(kernel, 5.0)
    assert compilations == ["scale"]
    assert None not in kernel._native.values()


def test_the_users_folder_is_used_where_the_package_cannot_be_written(
    tmp_path, monkeypatch, compilations
):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(stored.sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert list(stored.folders()) == [stored.HERE / "__pycache__", tmp_path / "dfi"]
    (tmp_path / "file").touch()
    monkeypatch.setattr(stored, "HERE", tmp_path / "file")
    scaled(Compiled(scale))
    scaled(Compiled(scale))
    assert compilations == ["scale"]
    assert len(list((tmp_path / "dfi").iterdir())) == 1


def test_the_key_knows_sources_versions_processor_and_settings(monkeypatch):
    import llvmlite.binding as llvm

    def key():
        stored.environment.cache_clear()
        return stored.environment()

    keys = {key()}
    changes = [
        (stored, "SOURCES", [*stored.SOURCES[:-1], stored.SOURCES[-1] + b" "]),
        (stored, "version", lambda _: "0.1"),
        (llvm, "get_host_cpu_name", lambda: "a processor"),
        (llvm, "get_process_triple", lambda: "a-b-c"),
    ]
    for place, name, value in changes:
        with monkeypatch.context() as patch:
            patch.setattr(place, name, value)
            keys.add(key())
    monkeypatch.setenv("NUMBA_OPT", "1")
    keys.add(key())
    stored.environment.cache_clear()
    assert len(keys) == 6
    names = b"".join(stored.SOURCES)
    for name in (b"def arena_moments", b"def _rank", b"def compile_kernel", b"class Compiled"):
        assert name in names


def test_another_key_or_kind_of_arguments_is_another_file(folder, compilations, monkeypatch):
    scaled(Compiled(scale))
    monkeypatch.setattr(compiled, "environment", lambda: b"another")
    kernel = Compiled(scale)
    scaled(kernel)
    scaled(kernel, 2)
    assert compilations == ["scale"] * 3
    assert len(list(folder.iterdir())) == 3


@pytest.mark.parametrize("symbols", ["missing", "none"])
def test_what_cannot_be_linked_is_left_to_numba(folder, monkeypatch, caplog, symbols):
    if symbols == "missing":
        monkeypatch.setattr(compilation, "_symbols", lambda _: ("no_such_symbol",))
    else:
        monkeypatch.setattr(compiled, "_engine", lambda: None)
    kernel = Compiled(scale)
    with caplog.at_level(logging.INFO):
        scaled(kernel)
    assert list(kernel._native.values()) == [None]
    assert "scale is left to numba" in caplog.text


def test_a_kernel_that_allocates_is_left_to_numba(folder, caplog):
    kernel = Compiled(allocate)
    with caplog.at_level(logging.INFO):
        scaled(kernel)
    assert list(kernel._native.values()) == [None]
    assert not folder.exists()


def test_an_error_inside_a_kernel_is_not_lost(folder):
    kernel = Compiled(refuse)
    kernel(np.zeros(1), -1.0, np.zeros(1))
    with pytest.raises(RuntimeError, match="the compiled kernel refuse failed"):
        kernel(np.zeros(1), 1.0, np.zeros(1))


def test_arguments_given_before_are_those_given_together(folder, compilations):
    x, out = np.arange(4.0), np.empty((2, 4))
    kernel = Compiled(scale)
    double = kernel.bind(x, 2.0)
    for row in out:
        double(row)
    np.testing.assert_array_equal(out, [2 * x, 2 * x])
    scaled(kernel)
    assert compilations == ["scale"]


def test_arrays_must_be_contiguous():
    with pytest.raises(TypeError, match="contiguous"):
        Compiled(scale)(np.zeros(6)[::2], 1.0, np.zeros(3))


def test_compilation_is_announced_once_and_on_a_terminal_only(
    folder, monkeypatch, caplog, capsys, compilations
):
    for at_terminal in (False, True):
        compiled.announce_compilation.cache_clear()
        monkeypatch.setenv("NUMBA_OPT", f"{2 + at_terminal}")
        stored.environment.cache_clear()
        monkeypatch.setattr(compiled.sys.stderr, "isatty", lambda at=at_terminal: at)
        with caplog.at_level(logging.INFO):
            scaled(Compiled(scale))
            scaled(Compiled(scale), 2)
        assert caplog.text.count("compiling kernels, once") == 1
        assert capsys.readouterr().err.count("compiling kernels, once") == at_terminal
        compiled.announce_compilation.cache_clear()
        caplog.clear()
        with caplog.at_level(logging.INFO):
            scaled(Compiled(scale))
        assert "compiling" not in caplog.text
    stored.environment.cache_clear()
    assert compilations == ["scale"] * 4
