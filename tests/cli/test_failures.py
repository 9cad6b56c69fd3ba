"""Every failure: one sentence, its exit code, nothing left behind."""

import gzip

import joblib
import numpy as np
import polars as pl
import pytest

from dfi.cli import main
from dfi.cli.console import Failure
from dfi.cli.outputs import OutputFolder

BASE = "a,b,y\n" + "".join(f"{k % 7},{k % 5},{k % 11 + 0.5}\n" for k in range(60))

BAD_FILES = {
    "empty": (b"", 3, "is empty"),
    "blank": (b"\n \n", 3, "is empty"),
    "header only": (b"a,b,y\n", 3, "has no rows"),
    "long line": (BASE.encode() + b"1,2,3,4\n", 3, "line 62 has 4 fields where the header has 3"),
    "a title above the header": (
        b"Exported today\n" + BASE.encode(),
        3,
        "line 2 has 3 fields where the header has 1: delete what stands above the names",
    ),
    "short line": (
        BASE.encode() + b"1,2\n1,2,3\n",
        3,
        "line 62 has 2 fields where the header has 3",
    ),
    "latin-1": ("a,b,y\n1,2,3\n1,é,3\n".encode("latin-1"), 3, "is not UTF-8 (line 3); say"),
    "long line among semicolons": (
        BASE.replace(",", ";").encode() + b"1;2;3;4\n",
        3,
        "line 62 has 4 fields where the header has 3",
    ),
    "damaged gzip": (gzip.compress(BASE.encode())[:-20], 3, "is a damaged gzip file"),
    "no target": (BASE.replace("y\n", "z\n", 1).encode(), 4, "there is no column 'y'"),
    "date as target": (
        b"a,b,y\n" + b"1,2,2020-01-01\n2,1,2020-01-02\n" * 30,
        4,
        "'y' is of type Date (for instance '2020-01-01'): it must be a quantity, or labels",
    ),
    "no outcome at all": (b"a,b,y\n" + b"1,2,\n2,1,\n" * 30, 4, "'y' is missing in every row"),
    "constant target": (b"a,b,y\n" + b"1,2,3\n2,5,3\n3,1,3\n" * 20, 4, "constant"),
    "one row": (b"a,b,y\n1,2,3\n", 4, "row"),
    "infinite": (BASE.encode() + b"inf,2,3\n", 4, "'a'"),
    "dates": (
        b"a,b,y\n" + b"1/2/2020,2,3\n2/1/2020,1,5\n3/4/2020,1,4\n" * 20,
        4,
        "may be read as",
    ),
    "only the target": (b"y\n" + b"1\n2\n3\n" * 20, 4, "no feature is left"),
    "all constant": (b"a,b,y\n" + b"1,1,3\n1,1,5\n" * 30, 4, "constant"),
}


def assert_one_sentence(done, code, message):
    assert done.exit_code == code, done.output
    lines = [line for line in done.stderr.splitlines() if line.startswith("dfi: ")]
    assert len(lines) == 1
    assert done.stderr.splitlines()[-1] == lines[0]
    assert message in lines[0]
    assert "Traceback" not in done.output


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_tables(name, run, place):
    content, code, message = BAD_FILES[name]
    (place / "data.csv").write_bytes(content)
    done = run("explain", "data.csv", "--target", "y", "--model", "linear")
    assert_one_sentence(done, code, message)
    assert [file.name for file in place.iterdir()] == ["data.csv"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("d.parquet", b"PAR1 nonsense", "cannot be read as Parquet: "),
        ("d.parquet", b"a,y\n1,2\n", "as Parquet, it is text: say what it is with --format"),
        ("d.feather", b"a,y\n1,2\n", "as Arrow, it is text: say what it is with --format"),
        (
            "d.csv",
            b"PAR1\x15\x04",
            "d.csv is Parquet and read as CSV: say so with --format parquet",
        ),
        ("d.jsonl", b"ARROW1\0\0", "is Arrow and read as JSON lines: say so with --format arrow"),
        ("d.arrow", b"ARROW1 nonsense", "cannot be read as Arrow"),
        ("d.feather", b"FEA1 nonsense", "Feather version 1"),
        ("d.jsonl", b'{"a": 1}\n{"a": \n', "line 2 is not JSON lines"),
        ("d.xlsx", b"PK\x03\x04", "is a spreadsheet; save it as CSV first"),
    ],
)
def test_damaged_files_of_other_formats(name, content, message, run, place):
    (place / name).write_bytes(content)
    assert_one_sentence(run("explain", name, "-y", "y"), 3, message)


BAD_OPTIONS = {
    "missing file": (["explain", "nothing.csv", "-y", "y"], 3, "there is no file nothing.csv"),
    "folder": (["explain", ".", "-y", "y"], 3, "is a folder"),
    "near miss": (["explain", "data.csv", "-y", "Y"], 4, "did you mean 'y'?"),
    "drop unknown": (["explain", "data.csv", "-y", "y", "--drop", "q"], 4, "--drop: there is no"),
    "drop target": (["explain", "data.csv", "-y", "y", "--drop", "y"], 4, "also named by --drop"),
    "weights unknown": (
        ["explain", "data.csv", "-y", "y", "--weights", "q"],
        4,
        "--weights: there",
    ),
    "model unknown": (
        ["explain", "data.csv", "-y", "y", "-m", "forrest"],
        4,
        "did you mean 'forest'",
    ),
    "model missing": (["explain", "data.csv", "-y", "y", "-m", "m.joblib"], 3, "no file m.joblib"),
    "transport unknown": (
        ["explain", "data.csv", "-y", "y", "-m", "linear", "--transport", "gausian"],
        4,
        "unknown transport 'gausian'",
    ),
    "level": (["explain", "data.csv", "-y", "y", "-m", "linear", "--level", "95"], 4, "level"),
    "format unknown": (["explain", "data.csv", "-y", "y", "--format", "xml"], 3, "unknown format"),
    "encoding unknown": (["explain", "data.csv", "-y", "y", "--encoding", "x"], 3, "no encoding"),
    "folds": (["explain", "data.csv", "-y", "y", "-m", "linear", "--folds", "50"], 4, "fold"),
    "groups missing": (["explain", "data.csv", "-y", "y", "--groups", "g.csv"], 3, "no file g.csv"),
    "weights of both kinds": (
        ["explain", "data.csv", "-y", "y", "--weights", "n", "--frequency-weights", "n"],
        4,
        "Pass --weights or --frequency-weights, not both",
    ),
    "no column of counts": (
        ["explain", "data.csv", "-y", "y", "--frequency-weights", "counts"],
        4,
        "--frequency-weights: there is no column 'counts'",
    ),
    "negative counts": (
        ["explain", "data.csv", "-y", "y", "-m", "linear", "--frequency-weights", "n"],
        4,
        "--frequency-weights is negative",
    ),
    "negative weights": (
        ["explain", "data.csv", "-y", "y", "-m", "linear", "--weights", "n"],
        4,
        "negative",
    ),
    "out is a file": (["explain", "data.csv", "-y", "y", "-o", "data.csv"], 5, "is a file"),
    "out in nowhere": (["explain", "data.csv", "-y", "y", "-o", "no/where"], 5, "create it first"),
    "result missing": (["show", "r.dfi"], 3, "there is no file r.dfi"),
    "result damaged": (["show", "data.csv"], 3, "not a dfi file"),
    "report of nothing": (["report", "r.dfi"], 3, "there is no file r.dfi"),
}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_bad_options(name, run, place):
    arguments, code, message = BAD_OPTIONS[name]
    frame = pl.read_csv(BASE.encode()).with_columns(pl.Series("n", -np.ones(60)))
    frame.write_csv(place / "data.csv")
    if "--weights" not in arguments and "explain" in arguments:
        arguments = [*arguments, "--drop", "n"]
    assert_one_sentence(run(*arguments), code, message)
    assert [file.name for file in place.iterdir()] == ["data.csv"]


def test_wrong_usage_is_two(run):
    assert run("explain").exit_code == 2
    assert run("explain", "x.csv", "--nonsense").exit_code == 2
    assert run("nonsense").exit_code == 2
    assert run("explain", "x.csv", "-y", "y", "--folds", "1").exit_code == 2


def test_no_permission_to_read(run, place, monkeypatch):
    (place / "data.csv").write_text(BASE)

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.read_bytes", refuse)
    assert_one_sentence(
        run("explain", "data.csv", "-y", "y"), 3, "may not be read: permission denied"
    )


def test_no_permission_to_write(run, place, monkeypatch):
    (place / "data.csv").write_text(BASE)
    monkeypatch.setattr("os.access", lambda *_: False)
    done = run("explain", "data.csv", "-y", "y")
    assert_one_sentence(done, 5, "nothing may be written")


def test_full_disk(run, place, monkeypatch):
    (place / "data.csv").write_text(BASE)

    def full(*_, **__):
        raise OSError(28, "No space left on device", "report.html")

    monkeypatch.setattr("dfi.report.Report.write", full)
    done = run("explain", "data.csv", "-y", "y", "-m", "linear")
    assert_one_sentence(done, 5, "no space left on device")
    assert [file.name for file in place.iterdir()] == ["data.csv"]


def test_group_member_that_is_no_feature(run, place):
    (place / "data.csv").write_text(BASE)
    (place / "g.json").write_text('{"g": ["a", "q"]}')
    done = run("explain", "data.csv", "-y", "y", "-m", "linear", "--groups", "g.json")
    assert_one_sentence(done, 4, "'q'")


@pytest.mark.parametrize(("content", "message"), [("{", "is not JSON"), ("[1]", "JSON object")])
def test_bad_group_files(content, message, run, place):
    (place / "data.csv").write_text(BASE)
    (place / "g.json").write_text(content)
    assert_one_sentence(run("explain", "data.csv", "-y", "y", "--groups", "g.json"), 3, message)


def test_model_files_that_are_no_models(run, place):
    (place / "data.csv").write_text(BASE)
    (place / "text.joblib").write_text("hello")
    joblib.dump([1, 2], place / "list.joblib")
    start = ("explain", "data.csv", "-y", "y", "--trust-model", "-m")
    assert_one_sentence(run(*start, "text.joblib"), 3, "not a model that joblib can load")
    # the reader of pickles raises whatever the bytes lead it to
    (place / "text.joblib").write_text("junk")
    assert_one_sentence(run(*start, "text.joblib"), 3, "not a model that joblib can load")
    assert_one_sentence(run(*start, "list.joblib"), 4, "holds a list, which has no predict")


def test_unforeseen_errors_are_one_sentence_or_a_traceback(run, place, monkeypatch):
    (place / "data.csv").write_text(BASE)

    def broken(*_, **__):
        raise RuntimeError("the engine fell off")

    monkeypatch.setattr("dfi.explain", broken)
    done = run("explain", "data.csv", "-y", "y")
    assert_one_sentence(
        done, 1, "unexpected RuntimeError: the engine fell off (run again with --debug"
    )
    debugged = run("explain", "data.csv", "-y", "y", "--debug")
    assert isinstance(debugged.exception, RuntimeError)


def test_interruption(run, place, monkeypatch):
    (place / "data.csv").write_text(BASE)

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("dfi.explain", interrupt)
    assert_one_sentence(
        run("explain", "data.csv", "-y", "y"), 130, "interrupted: nothing was written"
    )


def fill(folder, text, error):
    with folder.filling() as stage:
        (stage / "a").write_text(text)
        raise error


def test_a_folder_is_filled_whole_or_not_at_all(tmp_path):
    target = tmp_path / "out"
    with pytest.raises(RuntimeError):
        fill(OutputFolder(target, ["a"], force=False), "half", RuntimeError)
    assert list(tmp_path.iterdir()) == []
    with OutputFolder(target, ["a", "b"], force=False).filling() as stage:
        (stage / "a").write_text("1")
        (stage / "b").write_text("1")
    with pytest.raises(Failure, match="already has a, b"):
        OutputFolder(target, ["a", "b", "c"], force=False)
    with pytest.raises(KeyboardInterrupt):
        fill(OutputFolder(target, ["a"], force=True), "2", KeyboardInterrupt)
    assert (target / "a").read_text() == "1"
    with OutputFolder(target, ["a"], force=True).filling() as stage:
        (stage / "a").write_text("3")
    assert {f.name: f.read_text() for f in target.iterdir()} == {"a": "3", "b": "1"}
    assert [f.name for f in tmp_path.iterdir()] == ["out"]


def fill_with(folder, *names):
    with folder.filling() as stage:
        for name in names:
            (stage / name).write_text("1")


def test_a_file_whose_name_was_not_foreseen_is_not_replaced_unasked(tmp_path):
    (tmp_path / "epsilon-0.dfi").write_text("mine")
    folder = OutputFolder(tmp_path, ["a"], force=False)
    with pytest.raises(Failure, match=r"already has epsilon-0\.dfi"):
        fill_with(folder, "a", "epsilon-0.dfi")
    assert {f.name: f.read_text() for f in tmp_path.iterdir()} == {"epsilon-0.dfi": "mine"}
    folder = OutputFolder(tmp_path, ["a"], force=True)
    fill_with(folder, "a")
    fill_with(folder, "a")
    assert folder.outputs() == {"a": str(tmp_path / "a")}


def test_missing_extra_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "rich" else name)
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 1
    assert capsys.readouterr().err == (
        "dfi: the command line needs rich: in a clone of the repository run pip install '.[cli]'\n"
    )


def test_a_limit_of_memory_that_libraries_do_not_survive(run, place, monkeypatch):
    """They ended the process, printed tracebacks of imports, or tried for ever."""
    resource = pytest.importorskip("resource")
    (place / "data.csv").write_text("a,y\n1,2\n")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (600 * 2**20, resource.RLIM_INFINITY))
    done = run("explain", "data.csv", "-y", "y")
    assert_one_sentence(done, 4, "may take 0.59 GB of addresses here, but the numerical libraries")
    assert "ulimit -v unlimited" in done.stderr
