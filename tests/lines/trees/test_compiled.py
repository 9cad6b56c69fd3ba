"""Kernels under numba: the same bits from disk, memory and Python, whatever the folder."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numba
import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

import dfi
from dfi import _compiled as compiled
from dfi._compiled import Kernel, only_ours
from dfi._lines.trees import engine as engine_module
from dfi._lines.trees.engine import line_moments
from dfi._lines.trees.kernels_blocks import find_leaving
from dfi._lines.trees.readers import read_trees
from dfi._progress import telling_bar

from .conftest import make_lines

KERNELS = ["arena", "shared", "path", "merged"]
COMPILED_ANEW = ["arena", *(pytest.param(name, marks=pytest.mark.full) for name in KERNELS[1:])]


def scale(x, factor, out):
    for k in range(x.size):
        out[k] = factor * x[k]


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
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def forest():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((300, 5))
    model = RandomForestRegressor(8, min_samples_leaf=3, random_state=0).fit(x, x @ np.arange(5))
    return read_trees(model)[0], x


def used_by(kernel):
    if kernel == "shared":
        return [engine_module.predict_sums, engine_module.arena_moments, find_leaving]
    return [engine_module.predict_sums, getattr(engine_module, f"{kernel}_moments")]


def everything(forest, kernel, kind, n=60):
    ensemble, x = forest
    ensemble = replace(ensemble, link="logistic" if kernel == "merged" else "identity")
    lines = make_lines(x[:n], kind=kind, q=2)
    moments = line_moments(ensemble, lines, kernel=kernel, n_threads=1)
    return moments.mean, moments.hermite, ensemble.predict(x[:n])


@pytest.mark.parametrize("kernel", COMPILED_ANEW)
def test_kernels_kept_on_disk_have_the_bits_of_those_in_memory(forest, kernel, kind, monkeypatch):
    kept = everything(forest, kernel, kind)
    for used in used_by(kernel):
        monkeypatch.setattr(used, "dispatcher", compiled._uncached(used.function))
    for ours, theirs in zip(kept, everything(forest, kernel, kind), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_bodies_of_kernels_run_outside_numba(forest, kernel, kind, monkeypatch):
    native = everything(forest, kernel, kind, n=4)
    for used in used_by(kernel):
        monkeypatch.setattr(used, "dispatcher", used.function)
    for ours, theirs in zip(native, everything(forest, kernel, kind, n=4), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
def test_rows_that_cannot_be_written_to_are_no_reason_to_compile(
    forest, kernel, kind, tmp_path, monkeypatch
):
    plain = everything(forest, kernel, kind)
    used = used_by(kernel)
    before = [list(one.dispatcher.signatures) for one in used]
    ensemble, x = forest
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    ensemble = replace(ensemble, threshold=ensemble.threshold.copy())
    ensemble.threshold.flags.writeable = False
    for ours, theirs in zip(plain, everything((ensemble, mapped), kernel, kind), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert before == [list(one.dispatcher.signatures) for one in used]


PROCESS = """
import hashlib, sys
import numpy as np
from dfi import _compiled as compiled
compiled.SOURCES += int(sys.argv[1])
from dfi._lines.base import Lines, Reference
from dfi._lines.trees.engine import arena_moments, line_moments
from dfi._lines.trees.ensemble import single_tree
tree = single_tree([0, -1, -1], [0.3, 0, 0], [1, -1, -1], [2, -1, -1], [0, 1, 7], n_features=1)
x = np.linspace(-1, 1, 9)[:, None]
lines = Lines(x, x, np.ones((1, 1)), Reference.gaussian(), np.zeros((1, 1)))
mean = line_moments(tree, lines, kernel="arena").mean
digest = hashlib.sha256(mean.tobytes() + tree.predict(x).tobytes()).hexdigest()
stats = getattr(arena_moments.dispatcher, "stats", None)
print(digest, stats and sum(stats.cache_hits.values()), stats and stats.cache_path)
"""


def start(folder, *, sources=0, **environment):
    command = [sys.executable, "-W", "error", "-c", PROCESS, str(sources)]
    variables = {**os.environ, "NUMBA_CACHE_DIR": str(folder), **environment}
    return subprocess.Popen(  # noqa: S603
        command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def outcome(process):
    """Return the digest, how often the arena kernel was loaded, and its folder."""
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    assert not errors
    digest, hits, path = out.split()
    return digest, hits, path


def test_numba_is_imported_by_the_first_exact_call_alone():
    code = "import sys, dfi; assert 'numba' not in sys.modules, 'numba'"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A folder of kernels that two processes compiled at once, and what they computed."""
    folder = tmp_path_factory.mktemp("kernels")
    first, other = start(folder), start(folder)
    digest = outcome(first)[0]
    assert outcome(other)[0] == digest
    return folder, digest


@pytest.mark.full
def test_a_later_process_loads_what_two_compiled_at_once(filled):
    folder, digest = filled
    assert outcome(start(folder))[:2] == (digest, "1")
    names = {path.name.split("-")[0].split(".")[1] for path in folder.rglob("*.nbc")}
    assert names == {"arena_moments", "predict_sums", "preorder"}


@pytest.mark.full
def test_a_change_of_any_kernels_source_compiles_all_anew(filled, tmp_path):
    folder, digest = filled
    assert outcome(start(folder, sources=1))[:2] == (digest, "0")
    package = Path(compiled.__file__).parent
    files = [path for name in compiled.KERNEL_FILES for path in package.glob(name)]
    for path in files:
        (tmp_path / path.relative_to(package)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, tmp_path / path.relative_to(package))
    assert compiled._checksum(tmp_path) == compiled.SOURCES
    sums = {compiled.SOURCES}
    for path in files:
        with (tmp_path / path.relative_to(package)).open("a") as file:
            file.write("\n")
        sums.add(compiled._checksum(tmp_path))
    assert len(sums) == len(files) + 1
    marked = ("@Kernel", "@AllocatingKernel", "@inlined", "@chosen_by_type")
    for path in package.rglob("*.py"):
        if any(f"\n{mark}" in path.read_text() for mark in marked):
            assert path in files


@pytest.mark.full
@pytest.mark.parametrize(
    ("ending", "damage"),
    [
        ("nbc", lambda content: content[: len(content) // 2]),
        pytest.param("nbc", lambda _: b"", marks=pytest.mark.slow),
        pytest.param("nbi", lambda _: b"", marks=pytest.mark.slow),
        ("nbi", lambda _: b"\n" * 40),
    ],
)
def test_damaged_files_are_passed_over(filled, tmp_path, damage, ending):
    folder, digest = filled
    shutil.copytree(folder, tmp_path / "copy")
    for path in (tmp_path / "copy").rglob(f"*.{ending}"):
        path.write_bytes(damage(path.read_bytes()))
    assert outcome(start(tmp_path / "copy"))[0] == digest


@pytest.mark.full
def test_a_package_that_cannot_be_written_to_without_a_home(filled, tmp_path):
    source = Path(dfi.__file__).parent
    shutil.copytree(source, tmp_path / "dfi", ignore=shutil.ignore_patterns("__pycache__"))
    # A file where the folder would be, for a user who may write anywhere.
    (tmp_path / "dfi" / "_lines" / "trees" / "__pycache__").touch()
    (tmp_path / "file").touch()
    nowhere = str(tmp_path / "file" / "folder")
    process = start(
        nowhere,
        PYTHONPATH=str(tmp_path),
        HOME=nowhere,
        XDG_CACHE_HOME=nowhere,
        LOCALAPPDATA=nowhere,
    )
    digest, hits, path = outcome(process)
    assert (digest, hits, path) == (filled[1], "0", "None")


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="folders have no modes there")
def test_nothing_is_read_from_or_kept_in_a_folder_that_others_may_write(filled, tmp_path):
    folder, digest = filled
    shutil.copytree(folder, tmp_path / "shared")
    (tmp_path / "shared").chmod(0o777)
    for path in (tmp_path / "shared").rglob("*.nb?"):
        path.write_bytes(b"poison")
    assert outcome(start(tmp_path / "shared")) == (digest, "0", "None")
    assert {path.read_bytes() for path in (tmp_path / "shared").rglob("*.nb?")} == {b"poison"}


@pytest.mark.skipif(sys.platform == "win32", reason="folders have no modes there")
@pytest.mark.parametrize(
    ("above", "mode", "safe"),
    [
        (0o755, 0o755, True),
        (0o700, 0o700, True),
        (0o755, 0o757, False),
        (0o755, 0o1777, False),
        (0o755, 0o775, False),
        (0o1777, 0o755, True),
        (0o777, 0o755, False),
        (0o775, 0o755, False),
    ],
)
def test_which_folders_are_only_ours(tmp_path, monkeypatch, above, mode, safe):
    monkeypatch.setattr(compiled, "_is_private_group", lambda _: False)
    folder = tmp_path / "above" / "folder"
    folder.mkdir(parents=True)
    folder.chmod(mode)
    folder.parent.chmod(above)
    assert only_ours(folder) == safe
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert only_ours(link) == safe


@pytest.mark.skipif(sys.platform == "win32", reason="folders have no modes there")
def test_folders_of_others_of_our_group_and_none(tmp_path, monkeypatch):
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(0o775)
    monkeypatch.setattr(compiled, "_is_private_group", lambda number: number == os.getegid())
    os.chown(folder, -1, os.getegid())
    assert only_ours(folder)
    assert not only_ours(tmp_path / "missing")
    if os.geteuid() == 0:
        link = tmp_path / "link"
        link.symlink_to(folder)
        os.chown(link, 12345, -1, follow_symlinks=False)
        assert not only_ours(link)
        os.chown(folder, 12345, -1)
    else:
        monkeypatch.setattr(compiled.os, "geteuid", lambda: 12345)
    assert not only_ours(folder)


@pytest.mark.skipif(sys.platform == "win32", reason="no groups there")
@pytest.mark.parametrize(
    ("group_name", "members", "private"),
    [("ann", [], True), ("ann", ["ann"], True), ("ann", ["ann", "bob"], False), ("lab", [], False)],
)
def test_a_private_group_has_the_users_name_and_nobody_else(
    monkeypatch, group_name, members, private
):
    import grp
    import pwd

    user = pwd.struct_passwd(("ann", "x", 7, 8, "", "/", "/bin/sh"))
    group = grp.struct_group((group_name, "x", 8, members))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: user)
    monkeypatch.setattr(grp, "getgrgid", lambda _: group)
    compiled._is_private_group.cache_clear()
    assert compiled._is_private_group(8) == private
    assert not compiled._is_private_group(9)

    def unknown(_):
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    compiled._is_private_group.cache_clear()
    assert not compiled._is_private_group(8)
    compiled._is_private_group.cache_clear()


@pytest.mark.full
def test_kernels_run_without_compilation(filled):
    digest, hits, path = outcome(start(filled[0], NUMBA_DISABLE_JIT="1"))
    assert (digest, hits, path) == (filled[1], "None", "None")


def test_a_full_disk_is_no_error(folder, monkeypatch, caplog):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numba.core.caching.IndexDataCacheFile.save", full)
    kernel = Kernel(scale)
    with caplog.at_level(logging.INFO):
        scaled(kernel)
    scaled(kernel, 5.0)
    assert "scale is compiled in memory" in caplog.text
    assert not list(folder.rglob("*.nbc"))


def test_kernels_are_kept_by_kind_of_arguments(folder):
    scaled(Kernel(scale))
    scaled(Kernel(scale), 2)
    kernel = Kernel(scale)
    scaled(kernel)
    scaled(kernel, 2)
    assert sum(kernel.dispatcher.stats.cache_hits.values()) == 2
    assert len(list(folder.rglob("*.nbc"))) == 2


def test_an_error_inside_a_kernel_is_not_lost(folder):
    kernel = Kernel(refuse)
    kernel(np.zeros(1), -1.0, np.zeros(1))
    with pytest.raises(ValueError, match="no"):
        kernel(np.zeros(1), 1.0, np.zeros(1))


def test_compilation_is_announced_once_and_on_a_terminal_only(folder, monkeypatch, caplog, capsys):
    for at_terminal in (False, True):
        compiled.announce_compilation.cache_clear()
        monkeypatch.setattr(compiled.sys.stderr, "isatty", lambda at=at_terminal: at)
        kinds = (np.float32, np.float64) if at_terminal else (np.int32, np.int64)
        with caplog.at_level(logging.INFO):
            for kind in kinds:
                Kernel(scale)(np.ones(2, kind), 2.0, np.empty(2))
        assert caplog.text.count("compiling kernels, once") == 1
        assert capsys.readouterr().err.count("compiling kernels, once") == at_terminal
        compiled.announce_compilation.cache_clear()
        caplog.clear()
        with caplog.at_level(logging.INFO):
            Kernel(scale)(np.ones(2, kinds[0]), 2.0, np.empty(2))
        assert "compiling" not in caplog.text


def test_compilation_shows_beside_the_progress_bar(folder, capsys):
    with telling_bar(True, "explaining rows", 3) as bar:
        bar.tell("about 20 s in all", 3)
        Kernel(scale)(np.ones(2), 2.0, np.empty(2))
        assert bar.bar.postfix == "about 20 s in all"
    assert "compiling, once" in capsys.readouterr().err


def test_garbage_is_collected_again_after_a_kernel_is_loaded(folder):
    Kernel(scale)(np.ones(2), 2.0, np.empty(2))
    assert gc.isenabled()


def test_what_others_compile_is_not_announced(caplog):
    compiled.announce_compilation.cache_clear()
    with caplog.at_level(logging.INFO):
        numba.njit(lambda x: x + 1)(1.0)
    assert "compiling" not in caplog.text


@pytest.mark.parametrize("value", ["off", "OFF", "no", "0", "false"])
def test_a_switch_keeps_nothing(folder, monkeypatch, value):
    monkeypatch.setenv("DFI_CACHE", value)
    assert compiled.kernels_folder() is None
    scaled(Kernel(scale))
    assert list(folder.iterdir()) == []


def test_where_kernels_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.delenv("DFI_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    usual = tmp_path / "cache" / "dfi" / "kernels"
    assert compiled.kernels_folder() == usual
    scaled(Kernel(scale))
    assert list(usual.rglob("*.nbc"))
    if sys.platform != "win32":
        assert usual.stat().st_mode & 0o777 == 0o700
    # a relative path would lead into whatever folder the program is run from
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "here")
    monkeypatch.setenv("DFI_CACHE", "there")
    assert compiled.kernels_folder() == usual
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "numba"))
    assert compiled.kernels_folder() == tmp_path / "numba"
    monkeypatch.setenv("DFI_CACHE", str(tmp_path / "ours"))
    assert compiled.kernels_folder() == tmp_path / "ours"
    assert str(tmp_path / "numba") == numba.config.CACHE_DIR


def test_nothing_is_kept_in_the_package():
    """What lies there after an uninstallation could still be imported."""
    kernel = Kernel(scale)
    path = getattr(getattr(kernel.dispatcher, "stats", None), "cache_path", None)
    assert path is None or Path(compiled.__file__).parent not in Path(path).parents


@pytest.mark.skipif(sys.platform == "win32", reason="files have no modes there")
def test_a_file_that_others_may_write_or_a_link_is_not_ours(tmp_path):
    (tmp_path / "kernel.nbc").touch(mode=0o644)
    assert only_ours(tmp_path)
    (tmp_path / "kernel.nbc").chmod(0o666)
    assert not only_ours(tmp_path)
    (tmp_path / "kernel.nbc").chmod(0o644)
    (tmp_path / "link.nbi").symlink_to(tmp_path / "kernel.nbc")
    assert not only_ours(tmp_path)
