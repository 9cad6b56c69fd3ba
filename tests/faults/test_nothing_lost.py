"""Whatever happens at any step of writing: the old outputs or the new ones, and a true message.

The sweep over every step and every fault is slow; here each fault meets every step of the
exchange itself and some of those before.
"""

import os
import re
import shutil
import sys

import pytest

import dfi
import dfi._files
import dfi.cli.demo
import dfi.report.page
from dfi._files import finish_interrupted
from dfi.cli.app import (
    CHANGE_FILES,
    COMPARE_FILES,
    EXPLAIN_FILES,
    SENSITIVITY_FILES,
    table_files,
)

from .conftest import attempt, state
from .disk import KINDS, Disk

OUT = ("importance.csv", "importance.parquet", "log.txt", "report.html", "result.dfi")


def visible(folder):
    """Return the visible files; of the log what does not tell the time."""
    files, hidden = state(folder)
    for name in files:
        if name.endswith("log.txt"):
            text = (folder / name).read_text()
            files[name] = re.sub(r"^\S+|\([\d.]+ s\)", "", text)
    return files, hidden


class Explain:
    """``dfi explain --force`` over outputs that are there; a file and a folder are the caller's."""

    place = "out"

    def __init__(self, command, folder):
        self.command, self.folder = command, folder

    def prepare(self):
        assert self.run(0.9).exit_code == 0
        (self.folder / self.place / "mine.txt").write_text("mine")
        (self.folder / self.place / "notes").mkdir(exist_ok=True)
        (self.folder / self.place / "notes" / "more.txt").write_text("mine, too")

    def run(self, level=0.95):
        return self.command(
            "explain", "data.csv", "-y", "y", "--out", self.place, "--force", "--level", level, "-q"
        )

    def recover(self):
        finish_interrupted((self.folder / self.place).resolve())


class ExplainHere(Explain):
    """Into the working folder, whose files are replaced one by one."""

    place = "."


class ExplainAnew(Explain):
    """Where nothing was before."""

    def prepare(self):
        pass


class Report(Explain):
    """``dfi report --force``."""

    def prepare(self):
        assert self.command(
            "explain", "data.csv", "-y", "y", "--out", "out", "--level", 0.9
        ).exit_code == 0  # fmt: skip

    def run(self, level=0.95):
        return self.command("report", "out", "--force", "--title", f"level {level}")


class Change(Explain):
    """``dfi change --force`` over outputs that are there."""

    def run(self, level=0.95):
        return self.command(
            "change", "data.csv", "data.csv", "-y", "y", "--out", "out", "--force",
            "--level", level, "-q",
        )  # fmt: skip


class Study(Explain):
    """``dfi reproduce --resume`` with one record of three."""

    def prepare(self):
        assert self.command("reproduce", "three", "--out", "out", "--seeds", 1).exit_code == 0

    def run(self, level=0.95):
        return self.command("reproduce", "three", "--out", "out", "--resume", "--seeds", 3, "-q")


@pytest.fixture
def three(monkeypatch):
    """A study of three numbers."""
    from paper import catalogue
    from paper.reproduction import Study, Task
    from paper.writing import write_csv, write_page

    def tasks(size):
        return [Task(f"seed-{s}", one_number, {"seed": s}) for s in range(size.seeds)]

    def write(records, folder, size):
        write_csv(folder / "three.csv", list(records.values()))
        (folder / "three.png").write_bytes(b"no picture")
        write_page(folder / "three.md", "# Three", str(len(records)))

    known = {**catalogue.STUDIES, "three": Study("three", "three numbers", tasks, write)}
    monkeypatch.setattr(catalogue, "STUDIES", known)


def one_number(seed):
    return {"seed": seed}


@pytest.fixture
def cheap(monkeypatch, results):
    """The page is drawn once: writing is what is tested here."""
    pages = {id(result): dfi.report.page.report_html(result) for result in results}

    def drawn(result, *, title=None, **_):
        return pages.get(id(result), "<p>") + (title or "") + str(result.level)

    monkeypatch.setattr(dfi.report.objects, "report_html", drawn)


def steps_of(monkeypatch, folder, case):
    disk, done = attempt(monkeypatch, folder, case.run)
    assert done.exit_code == 0, done.output
    assert visible(folder)[1] == []
    return disk.steps


def sweep(monkeypatch, folder, case, kinds=KINDS, every=1, at_once=True):
    """Fail at each step, or at some of those before things change places; return how many."""
    case.prepare()
    kept = folder.parent / f"{folder.name}-kept"
    shutil.copytree(folder, kept)
    old = visible(folder)[0]
    steps = steps_of(monkeypatch, folder, case)
    new = visible(folder)[0]
    assert new != old
    moves = [k for k, s in enumerate(steps) if s.split()[0] in ("swap", "rename", "replace")]
    chosen = [k for k in range(len(steps)) if k % every == 0 or abs(k - moves[-1]) <= 2]
    for at in chosen:
        for kind in kinds:
            for entry in folder.iterdir():
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
            shutil.copytree(kept, folder, dirs_exist_ok=True)
            disk, done = attempt(monkeypatch, folder, case.run, at, kind)
            where = f"{kind} at step {at}, {steps[at]!r}: {done!r} {getattr(done, 'output', '')}"
            assert disk.failed, where
            if not at_once and kind in ("SIGKILL", "EROFS"):
                case.recover()  # nothing could be put back, so the next run does
            if kind == "SIGKILL" or (kind == "EROFS" and not at_once):
                check_killed(case, folder, where, old, new)
            else:
                check(case, folder, kind, done, where, old, new)
    shutil.rmtree(kept)
    return len(chosen) * len(kinds)


def outputs(found, old):
    """Leave out the records of a study: each of them is whole, and there may be more of them."""
    return {name: digest for name, digest in found.items() if "records/" not in name}


def check(case, folder, kind, done, where, old, new):
    found, hidden = visible(folder)
    found, old, new = (outputs(files, old) for files in (found, old, new))
    assert found in (old, new), where
    assert "Traceback" not in done.output, where
    if kind in ("SIGINT", "SIGTERM"):
        assert hidden == [], where
        assert done.exit_code == {"SIGINT": 130, "SIGTERM": 143}[kind], where
        if isinstance(case, Study):
            assert "--resume continues" in done.output, where
        else:
            told = "was already complete" if found == new else "nothing was written"
            assert told in done.output, where
        return
    assert (done.exit_code == 0) == (found == new), where
    if done.exit_code:
        assert done.exit_code == 5, where
        reason = {"ENOSPC": "no space left on device", "EROFS": "read-only file system"}[kind]
        assert reason in done.output, where
        assert re.search(r"^dfi: \S+: ", done.output, re.M), where
        assert ".tmp" not in done.output, where
    if kind == "ENOSPC":
        assert hidden == [], where


def check_killed(case, folder, where, old, new):
    found, _ = visible(folder)
    assert outputs(found, old) in (outputs(old, old), outputs(new, old)), where
    again = case.run()
    assert again.exit_code == 0, where + again.output
    assert visible(folder) == (new, []), where


@pytest.mark.parametrize(
    ("case", "every"), [(Explain, 40), (ExplainAnew, 60), (Report, 4), (Study, 45)]
)
def test_old_or_new_at_every_step(case, every, monkeypatch, command, cheap, three, tmp_path):
    assert sweep(monkeypatch, tmp_path, case(command, tmp_path), every=every) > 20


@pytest.mark.full
def test_old_or_new_where_folders_take_two_steps(monkeypatch, command, cheap, tmp_path):
    monkeypatch.setattr(dfi._files, "swap_folders", lambda *_: False)
    assert sweep(
        monkeypatch, tmp_path, Explain(command, tmp_path), every=25, at_once=False
    ) > 20  # fmt: skip


@pytest.mark.full
def test_old_or_new_where_files_are_replaced_one_by_one(monkeypatch, command, cheap, tmp_path):
    case = ExplainHere(command, tmp_path)
    assert sweep(monkeypatch, tmp_path, case, every=25, at_once=False) > 20
    assert {*OUT} <= {entry.name for entry in tmp_path.iterdir()}


@pytest.mark.parametrize("kind", ["SIGINT", "SIGKILL", "ENOSPC", "EROFS"])
def test_saving_at_every_step(kind, results, monkeypatch, tmp_path):
    path = tmp_path / "result.dfi"
    disk, _ = attempt(monkeypatch, tmp_path, lambda: results[1].save(path))
    new = path.read_bytes()
    results[0].save(path, overwrite=True)
    old = path.read_bytes()
    assert old != new
    for at in range(len(disk.steps)):
        path.write_bytes(old)
        failing, done = attempt(
            monkeypatch, tmp_path, lambda: results[1].save(path, overwrite=True), at, kind
        )
        assert failing.failed
        assert path.read_bytes() in (old, new)
        if isinstance(done, OSError):
            assert done.filename == str(path)
            assert path.read_bytes() == old
        if kind in ("SIGINT", "ENOSPC"):
            assert [entry.name for entry in tmp_path.iterdir()] == ["result.dfi"]
    results[1].save(path, overwrite=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["result.dfi"]
    assert path.read_bytes() == new


@pytest.mark.slow
@pytest.mark.parametrize("case", [Explain, ExplainAnew, Report, Change, Study, ExplainHere])
def test_every_step_of_every_command(case, monkeypatch, command, three, tmp_path, capsys):
    at_once = case is not ExplainHere
    number = sweep(monkeypatch, tmp_path, case(command, tmp_path), at_once=at_once)
    with capsys.disabled():
        sys.stdout.write(f"\n{case.__name__}: {number} faults, none lost anything\n")


def test_the_disk_counts_what_changes_it(monkeypatch, tmp_path):
    disk = Disk(tmp_path)
    with monkeypatch.context() as patch:
        disk.install(patch)
        with dfi._files.written_whole(tmp_path / "a") as stream:
            stream.write(b"1")
    names = [step.split()[0] for step in disk.steps]
    assert names == ["open", "write", "fsync", "replace", "fsync", "unlink"]


class Fitted(AssertionError):
    """Something was computed that nobody could keep."""


@pytest.fixture
def unfitted(command, three, results, monkeypatch, tmp_path):
    """Run a command that must end before anything is computed; return what it says."""
    from paper import reproduction

    def fail(*_, **__):
        raise Fitted

    for name in ("explain", "compare", "sensitivity"):
        monkeypatch.setattr(dfi, name, fail)
    monkeypatch.setattr(dfi.report.objects, "report_html", fail)
    monkeypatch.setattr(dfi.cli.demo, "run", fail)
    monkeypatch.setattr(reproduction, "reproduce", fail)
    results[0].save(tmp_path / "a.dfi")
    (tmp_path / "groups.csv").write_text("feature,group\na,one\nb,two\n")
    (tmp_path / "out").mkdir()

    def run(*arguments):
        before = state(tmp_path)
        done = command(*arguments, "--force")
        assert done.exit_code == 5, done.output
        assert state(tmp_path) == before
        return done.stderr

    return run


ARGUMENTS = {
    "explain": ("data.csv", "-y", "y", "--groups", "groups.csv", "--out", "out"),
    "compare": ("data.csv", "-y", "y", "--out", "out"),
    "sensitivity": ("data.csv", "-y", "y", "--out", "out"),
    "change": ("data.csv", "data.csv", "-y", "y", "--out", "out"),
    "demo": ("--out", "out"),
    "reproduce": ("three", "--out", "out", "--seeds", "1"),
    "report": ("a.dfi", "--out", "out/report.html"),
}
WRITTEN = {
    "explain": (*EXPLAIN_FILES, *table_files("groups"), *table_files("classes")),
    "compare": (*COMPARE_FILES, "loco.dfi"),
    "sensitivity": (*SENSITIVITY_FILES, "epsilon-0.dfi"),
    "change": CHANGE_FILES,
    "demo": ("report.html", "result.dfi"),
    "reproduce": ("three.csv", "three.md", "three.png"),
    "report": ("report.html",),
}


@pytest.mark.parametrize("command_name", WRITTEN)
def test_no_folder_gives_way_to_a_file(command_name, unfitted, tmp_path):
    def refused():
        return unfitted(command_name, *ARGUMENTS[command_name])

    for name in WRITTEN[command_name]:
        place = tmp_path / "out" / name
        place.mkdir()
        (place / "part-0.parquet").write_text("mine")
        assert f"out/{name} is a folder" in refused()
        shutil.rmtree(place)
    place.mkdir()
    assert f"out/{name} is a folder" in refused()
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    assert f"out/{name} is a folder" in refused()
    place.unlink()
    os.mkfifo(place)
    assert f"out/{name} is a pipe" in refused()


def link_by(kind, place, tmp_path):
    """Return the name of an input that is the file in a place."""
    if kind == "itself":
        return place
    if kind == "a linked folder":
        (tmp_path / "linked").symlink_to(place.parent)
        return tmp_path / "linked" / place.name
    name = tmp_path / f"mine{place.suffix}"
    if kind == "a hard link":
        os.link(place, name)
    elif kind == "a link":
        name.symlink_to(place)
    else:
        os.rename(place, name)
        place.symlink_to(name)
    return name


READ = {
    ("explain", "data"): "importance.csv",
    ("explain", "groups"): "groups.csv",
    ("explain", "class table"): "classes.parquet",
    ("explain", "model"): "result.dfi",
    ("compare", "data"): "comparison.parquet",
    ("compare", "class table"): "mine.dfi",
    ("sensitivity", "data"): "sensitivity.csv",
    ("sensitivity", "class table"): "epsilon-0.dfi",
    ("change", "data"): "change.csv",
    ("change", "after"): "change.parquet",
    ("report", "data"): "report.html",
    ("report", "groups"): "report.html",
}


@pytest.mark.parametrize(
    "kind", ["itself", "a hard link", "a link", "a linked folder", "a link in its place"]
)
@pytest.mark.parametrize(("command_name", "role"), READ)
def test_no_input_gives_way_to_an_output(command_name, role, kind, unfitted, results, tmp_path):
    place = tmp_path / "out" / READ[command_name, role]
    if (command_name, role) == ("report", "data"):
        results[0].save(place)
    else:
        place.write_text((tmp_path / "data.csv").read_text())
    given = str(link_by(kind, place, tmp_path))
    arguments = list(ARGUMENTS[command_name])
    if role in ("data", "class table"):
        arguments[0] = given
    elif role == "after":
        arguments[1] = given
    else:
        arguments += [f"--{role}", given]
    assert f"out/{place.name} would be replaced, but is an input" in unfitted(
        command_name, *arguments
    )


def test_tables_of_a_folder_and_of_a_pattern_are_inputs(unfitted, tmp_path):
    (tmp_path / "out" / "importance.parquet").write_bytes(b"PAR1")
    for data in ("out", "out/*.parquet", "o*/importance.parquet"):
        said = unfitted("explain", data, *ARGUMENTS["explain"][1:])
        assert "out/importance.parquet would be replaced, but is an input" in said


def test_standard_input_is_an_input(unfitted, tmp_path):
    place = tmp_path / "out" / "importance.csv"
    place.write_text("a,y\n1,2\n")
    kept = os.dup(0)
    with place.open("rb") as stream:
        os.dup2(stream.fileno(), 0)
        try:
            said = unfitted("explain", "-", *ARGUMENTS["explain"][1:])
        finally:
            os.dup2(kept, 0)
            os.close(kept)
    assert "would be replaced, but is an input (as standard input)" in said


def test_a_folder_that_comes_while_files_are_written(monkeypatch, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()

    def fill():
        with dfi._files.folder_filled(folder) as stage:
            (stage / "a").write_text("new")
            (folder / "a").mkdir(exist_ok=True)
            (folder / "a" / "mine").write_text("mine")

    for _ in range(2):
        with pytest.raises(OSError, match="is where a file would be written") as told:
            fill()
        assert told.value.filename == str(folder / "a")
        assert (folder / "a" / "mine").read_text() == "mine"
        assert [entry.name for entry in tmp_path.iterdir()] == ["out"]
        # files one by one
        monkeypatch.setattr(dfi._files, "_can_change_places", lambda _: False)


def test_what_else_is_in_the_folder_keeps_what_is_known_of_it(command, cheap, tmp_path):
    case = Explain(command, tmp_path)
    case.prepare()
    notes = tmp_path / "out" / "notes"
    os.utime(notes, (1, 1))
    os.utime(notes / "more.txt", (2, 2))
    before = (notes / "more.txt").stat()
    assert case.run().exit_code == 0
    assert notes.stat().st_mtime == 1
    assert (notes / "more.txt").stat()[:9] == before[:9]


@pytest.mark.parametrize("name", ["result.dfi", "page.html", "page.md", "page.json"])
def test_files_of_python_replace_files_alone(name, results, monkeypatch, tmp_path):
    def write(path, **options):
        if name == "result.dfi":
            return results[0].save(path, **options)
        return results[0].report(path, **options)

    folder, pipe, link, end = (tmp_path / f"{kind}-{name}" for kind in ("a", "b", "c", "d"))
    folder.mkdir()
    os.mkfifo(pipe)
    link.symlink_to(tmp_path / "nowhere")
    end.symlink_to(folder)
    for place in (folder, end):
        with pytest.raises(IsADirectoryError, match="is a folder; give the name of a file"):
            write(place, overwrite=True)
    with pytest.raises(OSError, match="is a pipe or a device"):
        write(pipe, overwrite=True)
    with pytest.raises(FileExistsError, match="exists already"):
        write(link)
    assert link.is_symlink()
    assert len(list(tmp_path.iterdir())) == 4
