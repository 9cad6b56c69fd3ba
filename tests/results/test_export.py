"""Results in the files of other tools: a workbook of Excel, a run of MLflow."""

import posixpath
import re
import sys
import types
import zipfile
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd
import pytest

import dfi
from dfi.results.export import _about, _metrics_of

NAMES = ["=1+1", "b", "c"]
RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.standard_normal((80, 3)), columns=NAMES)
GROUPS = {"one": NAMES[:1], "two": NAMES[1:]}
KEYS = ("share", "score")


@pytest.fixture(scope="module")
def result():
    y = 2 * X["b"] + X["c"] + RNG.standard_normal(80)
    return dfi.explain(X, y, "linear", cv=2, diagnose=False, feature_groups=GROUPS)


@pytest.fixture(scope="module")
def several():
    """Return a result of two outcomes, with names that others must not take as they are."""
    rng = np.random.default_rng(1)
    odd = pd.DataFrame(rng.standard_normal((80, len(ODD))), columns=list(ODD))
    noise = rng.standard_normal((2, 80))
    outcomes = pd.DataFrame({"u": odd["a"] + noise[0], "/": 2 * odd["a/b"] + noise[1]})
    return dfi.explain(odd, outcomes, "linear", cv=2, diagnose=False)


def sheets(path):
    """Return the cells of a workbook as the standard says that they are stored."""
    space = {"m": "http://schemas.openxmlformats.org/spreadsheetml/2006/main"}
    with zipfile.ZipFile(path) as book:
        read = ET.fromstring  # our own file
        shared = read(book.read("xl/sharedStrings.xml"))
        texts = ["".join(node.itertext()) for node in shared]
        named = read(book.read("xl/workbook.xml")).findall(".//m:sheet", space)
        found = {}
        for k, sheet in enumerate(named, start=1):
            root = read(book.read(f"xl/worksheets/sheet{k}.xml"))
            assert not root.findall(".//m:f", space), "no formulas"
            found[sheet.get("name")] = {
                cell.get("r"): texts[int(value.text)] if cell.get("t") == "s" else float(value.text)
                for cell in root.findall(".//m:c", space)
                if (value := cell.find("m:v", space)) is not None
            }
    return found


def formats(path):
    """Return the number formats of the second row of the first sheet, by letter."""
    space = {"m": "http://schemas.openxmlformats.org/spreadsheetml/2006/main"}
    with zipfile.ZipFile(path) as book:
        read = ET.fromstring  # our own file
        styles, sheet = (read(book.read(f"xl/{x}.xml")) for x in ("styles", "worksheets/sheet1"))
    known = {"0": None, "1": "0", "2": "0.00", "11": "0.00E+00"}  # those that have no text
    known |= {n.get("numFmtId"): n.get("formatCode") for n in styles.findall(".//m:numFmt", space)}
    used = [style.get("numFmtId") for style in styles.findall(".//m:cellXfs/m:xf", space)]
    cells = sheet.findall(".//m:row[@r='2']/m:c", space)
    return {cell.get("r")[:-1]: known[used[int(cell.get("s", 0))]] for cell in cells}


def test_a_workbook_has_the_table_and_what_it_is_about(result, tmp_path):
    path = result.to_excel(tmp_path / "importance.xlsx")
    found = sheets(path)
    assert list(found) == ["importance", "groups", "about"]
    table, cells = result.table(), found["importance"]
    assert [cells[f"{letter}1"] for letter in "ABCDE"] == table.columns[:5].tolist()
    for row, values in enumerate(table.itertuples(index=False), start=2):
        assert cells[f"A{row}"] == values[0]
        for letter, value in zip("BCDEFGHIJK", values[1:], strict=True):
            assert cells.get(f"{letter}{row}", np.nan) == pytest.approx(value, nan_ok=True)
    about = found["about"]
    told = {about[f"A{k}"]: about[f"B{k}"] for k in range(1, len(about) // 2 + 1)}
    assert told["trust"] == str(result.trust)
    assert told["rows"] == 80  # a number, which Excel does not mark as text


def test_workbooks_are_written_whole_and_never_over_others(result, tmp_path, monkeypatch):
    path = result.to_excel(tmp_path / "importance.xlsx")
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="pass overwrite=True to replace it"):
        result.to_excel(path)
    with pytest.raises(ValueError, match=r"must end in \.xlsx, got 'importance.xls'"):
        result.to_excel(tmp_path / "importance.xls")
    monkeypatch.setattr("dfi.results.export._about", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        result.to_excel(path, overwrite=True)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["importance.xlsx"]
    monkeypatch.undo()
    assert result.to_excel(path, overwrite=True) == path


@pytest.mark.parametrize(("call", "package"), [("to_excel", "xlsxwriter"), ("log", "mlflow")])
def test_what_is_not_installed_is_named(result, tmp_path, monkeypatch, call, package):
    monkeypatch.setitem(sys.modules, package, None)
    given = (tmp_path / "importance.xlsx",) if call == "to_excel" else ()
    with pytest.raises(ImportError, match=f"{call} needs the package {package}.*pip install"):
        getattr(result, call)(*given)


def test_a_workbook_of_several_outcomes_has_them_in_a_sheet_of_their_own(several, tmp_path):
    path = several.to_excel(tmp_path / "importance.xlsx")
    cells = sheets(path)["outcomes"]
    table = several.table(by="outcome")
    assert [cells[f"{letter}1"] for letter in "ABC"] == ["feature", "outcome", "share"]
    for row, values in enumerate(table.itertuples(index=False), start=2):
        assert (cells[f"A{row}"], cells[f"B{row}"]) == (values.feature, values.outcome)
        assert cells[f"C{row}"] == pytest.approx(values.share)


@pytest.mark.parametrize(
    ("scale", "text"), [(1.0, "0.000"), (30.0, "0"), (1e4, "0.00E+00"), (1e-3, "0.00E+00")]
)
def test_cells_are_formatted_by_what_they_are(scale, text, tmp_path):
    rng = np.random.default_rng(2)
    y = scale * (2 * X["b"] + X["c"] + rng.standard_normal(80))
    result = dfi.explain(X, y, "linear", cv=2, diagnose=False)
    found = formats(result.to_excel(tmp_path / "importance.xlsx"))
    assert found["A"] is None
    assert {found[letter] for letter in "BCD"} == {"0.0%"}
    assert {found[letter] for letter in "EFGH"} == {text}  # score, se, ci_low, ci_high
    assert found["I"] == "0.00"
    assert {found[letter] for letter in "JK"} == {'[<0.001]"<0.001";0.000'}


def test_openpyxl_and_polars_read_texts_and_numbers(result, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    pl = pytest.importorskip("polars")
    path = result.to_excel(tmp_path / "importance.xlsx")
    names, *columns = openpyxl.load_workbook(path)["importance"].iter_cols()
    assert {cell.data_type for cell in names} == {"s"}
    assert {cell.data_type for column in columns for cell in column[1:]} == {"n"}
    table = pl.read_excel(path, engine="openpyxl", sheet_name="importance")
    expected = result.table()
    assert table.schema == {
        "feature": pl.String, **dict.fromkeys(expected.columns[1:], pl.Float64)
    }  # fmt: skip
    assert table["feature"].to_list() == expected["feature"].tolist()
    assert table["score"].to_list() == pytest.approx(expected["score"].tolist())


def refuse(name):
    """Raise what MLflow raises for the name of a metric or a tag."""
    assert re.fullmatch(r"[/\w.\- ]{1,250}", name), name
    assert posixpath.normpath(name) == name, name
    assert not name.startswith("/"), name


@pytest.fixture
def logged(monkeypatch):
    """Stand in for MLflow, with its rules for names."""
    found = types.SimpleNamespace(metrics={}, tags={}, files={})

    def log_metrics(metrics):
        for name in metrics:
            refuse(name)
            # in a store of files a metric is one, and cannot hold others
            assert not any(other.startswith(f"{name}/") for other in metrics)
        found.metrics |= metrics

    def set_tag(name, value):
        refuse(name)
        found.tags[name] = value

    def log_artifacts(folder, artifact_path):
        found.files |= {f"{artifact_path}/{path.name}": path.stat().st_size
                        for path in Path(folder).iterdir()}  # fmt: skip

    stub = types.ModuleType("mlflow")
    stub.log_metrics, stub.set_tag, stub.log_artifacts = log_metrics, set_tag, log_artifacts
    monkeypatch.setitem(sys.modules, "mlflow", stub)
    return found


def test_a_run_of_mlflow_gets_numbers_verdict_page_and_file(result, logged):
    result.log()
    shares = result.table().set_index("feature")["share"]
    assert logged.metrics["dfi/share/b"] == pytest.approx(shares["b"])
    assert logged.metrics["dfi/share/_1_1"] == pytest.approx(shares["=1+1"])
    assert logged.metrics["dfi/skill"] == result.quality.skill
    assert logged.tags == {"dfi.trust": result.trust.grade}
    assert set(logged.files) == {"dfi/result.dfi", "dfi/report.html"}
    assert min(logged.files.values()) > 0


ODD = {"a/b": "a_b", "a": "a", "..": "_", "Größe (m²)": "Größe _m²_", "q" * 300: "q" * 240}


def test_names_are_made_such_as_mlflow_takes(several, logged):
    several.log("männer & frauen/1")
    start = "männer _ frauen/1"
    assert {name.rpartition("/")[0] for name in logged.metrics} == {
        start,
        *(f"{start}{part}/{key}" for part in ("", "/outcome/u", "/outcome/_") for key in KEYS),
        *(f"{start}/outcome/{name}" for name in ("u", "_")),
    }
    several.log("dfi")
    shares = several.by_outcome["/"].table().set_index("feature")["share"]
    for name, plain in ODD.items():
        key = f"dfi/outcome/_/share/{plain}"[:250]
        assert logged.metrics[key] == pytest.approx(shares[name])
    assert list(logged.tags) == [f"{start}.trust", "dfi.trust"]
    assert set(logged.files) == {
        f"{folder}/{name}" for folder in (start, "dfi") for name in ("result.dfi", "report.html")
    }


@pytest.mark.parametrize("prefix", ["", "/dfi", "dfi/", "../dfi", "a//b"])
def test_a_prefix_is_a_name(result, logged, prefix):
    with pytest.raises(ValueError, match="prefix must be a name such as 'dfi'"):
        result.log(prefix)
    assert not logged.metrics


def test_a_page_that_cannot_be_written_leaves_nothing_logged(result, logged, monkeypatch):
    monkeypatch.setattr("dfi.report.Report.write", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        result.log()
    assert not logged.metrics
    assert not logged.tags


@pytest.mark.parametrize("store", ["sqlite:///{}/runs.db", "file:{}/runs"])
def test_mlflow_itself_keeps_all_of_it(several, store, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    pytest.importorskip("alembic")  # the database of MLflow; it is not in mlflow-skinny
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(store.format(tmp_path))
    try:
        named = mlflow.create_experiment("odd", artifact_location=(tmp_path / "kept").as_uri())
        with mlflow.start_run(experiment_id=named) as run:
            several.log("a & b/1")
        found = mlflow.get_run(run.info.run_id).data
        files = mlflow.artifacts.download_artifacts(run_id=run.info.run_id, dst_path=str(tmp_path))
    finally:
        mlflow.set_tracking_uri(before)
    expected = dict(_metrics_of(several, "a _ b/1"))
    assert len(expected) == 3 * (1 + 2 * len(ODD))
    assert found.metrics == pytest.approx(expected)
    assert found.tags["a _ b/1.trust"] == several.trust.grade
    folder = Path(files) / "a _ b" / "1"
    assert np.array_equal(dfi.load(folder / "result.dfi").scores, several.scores)
    assert "<!doctype html>" in (folder / "report.html").read_text("utf-8")[:20]


def test_names_that_mlflow_would_log_as_one_are_refused(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", types.ModuleType("mlflow"))
    names = (*result.names[:-2], "a(b)", "a[b]")
    with pytest.raises(ValueError, match=r"would log several as 'dfi/share/a_b_': rename them"):
        replace(result, names=names, latent=None).log()


def test_scores_of_another_loss_are_not_units_of_a_unit(result):
    assert _about(result)["scores"] == "in units of the variance of the outcome"
    nats = replace(result, spec={**result.spec, "loss": "log-loss", "unit": "nats"})
    assert _about(nats)["scores"] == "in nats"
