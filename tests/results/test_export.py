"""Results in the files of other tools: a workbook of Excel, a run of MLflow."""

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
from dfi.results.export import _about

NAMES = ["=1+1", "b", "c"]
RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.standard_normal((80, 3)), columns=NAMES)
GROUPS = {"one": NAMES[:1], "two": NAMES[1:]}


@pytest.fixture(scope="module")
def result():
    y = 2 * X["b"] + X["c"] + RNG.standard_normal(80)
    return dfi.explain(X, y, "linear", cv=2, diagnose=False, feature_groups=GROUPS)


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
    assert told["rows"] == "80"


def test_workbooks_are_written_whole_and_never_over_others(result, tmp_path, monkeypatch):
    path = result.to_excel(tmp_path / "importance.xlsx")
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="pass overwrite=True to replace it"):
        result.to_excel(path)
    with pytest.raises(ValueError, match=r"must be called \.xlsx, got 'importance.xls'"):
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


def test_a_run_of_mlflow_gets_numbers_verdict_page_and_file(result, monkeypatch):
    logged = types.SimpleNamespace(metrics={}, tags={}, files={})

    def log_artifacts(folder, artifact_path):
        logged.files |= {f"{artifact_path}/{path.name}": path.stat().st_size
                         for path in Path(folder).iterdir()}  # fmt: skip

    stub = types.ModuleType("mlflow")
    stub.log_metrics = logged.metrics.update
    stub.set_tag = logged.tags.__setitem__
    stub.log_artifacts = log_artifacts
    monkeypatch.setitem(sys.modules, "mlflow", stub)
    result.log()
    shares = result.table().set_index("feature")["share"]
    assert logged.metrics["dfi/share/b"] == pytest.approx(shares["b"])
    assert logged.metrics["dfi/share/_1_1"] == pytest.approx(shares["=1+1"])
    assert logged.metrics["dfi/skill"] == result.quality.skill
    assert logged.tags == {"dfi.trust": result.trust.grade}
    assert set(logged.files) == {"dfi/result.dfi", "dfi/report.html"}
    assert min(logged.files.values()) > 0


def test_names_that_mlflow_would_log_as_one_are_refused(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", types.ModuleType("mlflow"))
    names = (*result.names[:-2], "a(b)", "a[b]")
    with pytest.raises(ValueError, match=r"would log several features as 'dfi/share/a_b_'"):
        replace(result, names=names, latent=None).log()


def test_scores_of_another_loss_are_not_units_of_a_unit(result):
    assert _about(result)["scores"] == "in units of the variance of the outcome"
    nats = replace(result, spec={**result.spec, "loss": "log-loss", "unit": "nats"})
    assert _about(nats)["scores"] == "in nats"
