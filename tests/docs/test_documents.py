"""The examples of the README and of pages run as they stand."""

import ast
import functools
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "dfi"
HEAD = "feature share (95 % interval) score (95 % interval) se p_adj"
PYTHON_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.mark.filterwarnings("ignore::dfi.warnings.TransportWarning")
def test_readme_runs_as_it_stands(tmp_path, monkeypatch, capsys):
    """All blocks in order, in one namespace, as a reader would paste them."""
    monkeypatch.chdir(tmp_path)
    blocks = PYTHON_BLOCK.findall((ROOT / "README.md").read_text())
    assert blocks
    namespace = {}
    for block in blocks:
        # the reader has 442 rows and half a minute; the test has neither
        quick = block.replace("dfi.explain(X, y)", "dfi.explain(X, y, estimator='ridge')")
        exec(compile(quick, "README.md", "exec"), namespace)  # noqa: S102
    printed = capsys.readouterr().out
    assert " ".join(printed.splitlines()[3].split()) == HEAD


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text().split()) <= 600


def test_readme_shows_the_table_it_promises():
    text = (ROOT / "README.md").read_text()
    shown = re.search(r"```text\n(.*?)```", text, re.DOTALL).group(1)
    assert " ".join(shown.splitlines()[3].split()) == HEAD
    assert len(shown.strip().splitlines()) == 16


@pytest.mark.full
def test_page_on_outcomes_runs_as_it_stands():
    blocks = PYTHON_BLOCK.findall((ROOT / "docs" / "outcomes.md").read_text())
    assert len(blocks) >= 4
    namespace = {}
    for block in blocks:
        exec(compile(block, "outcomes.md", "exec"), namespace)  # noqa: S102
    result = namespace["result"]
    assert set(result.by_outcome) == {"Barolo", "Grignolino", "Barbera"}


def test_page_on_single_rows_runs_as_it_stands():
    blocks = PYTHON_BLOCK.findall((ROOT / "docs" / "local.md").read_text())
    namespace = {}
    for block in blocks:
        exec(compile(block, "local.md", "exec"), namespace)  # noqa: S102
    told = re.search(r"table\(\) +# (.*)", blocks[0]).group(1)
    assert list(namespace["table"].columns) == told.split(", ")


def test_page_on_effects_begins_with_what_it_promises():
    blocks = PYTHON_BLOCK.findall((ROOT / "docs" / "effects.md").read_text())
    namespace = {}
    exec(compile(blocks[0], "effects.md", "exec"), namespace)  # noqa: S102
    result = namespace["result"]
    assert result.names[int(result.scores.argmax())] == "age"
    average = result.diagnostics["average effect"]
    assert abs(average["value"] + 1.0) < 4 * average["se"]
    assert not result.diagnostics["overlap of treatment"]["poor"]


@pytest.mark.full
@pytest.mark.parametrize("page", ["survival", "distributions"])
def test_pages_on_other_targets_begin_with_what_they_promise(page):
    block = PYTHON_BLOCK.findall((ROOT / "docs" / f"{page}.md").read_text())[0]
    namespace = {}
    exec(compile(block, f"{page}.md", "exec"), namespace)  # noqa: S102
    result = namespace["result"]
    leader = {"survival": "nodes", "distributions": "place"}[page]
    assert result.names[int(result.scores.argmax())] == leader


def test_page_on_change_begins_with_what_it_promises(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = PYTHON_BLOCK.findall((ROOT / "docs" / "change.md").read_text())
    namespace = {}
    exec(compile(blocks[0], "change.md", "exec"), namespace)  # noqa: S102
    change = namespace["change"]
    assert change.any_change.feature == "income"
    assert change.test_any("concept").p < 0.01
    assert (tmp_path / "change.html").exists()


@functools.cache
def definitions():
    """Return what every file of the source defines: names, and names of classes' members."""
    found = {}
    for file in SOURCE.rglob("*.py"):
        names = found[file] = set()
        scopes = [("", ast.parse(file.read_text()).body)]
        for prefix, body in scopes:
            for node in body:
                targets = node.targets if isinstance(node, ast.Assign) else [node]
                names |= {prefix + ast.unparse(target) for target in targets if target is not node}
                if isinstance(node, ast.AnnAssign):
                    names.add(prefix + ast.unparse(node.target))
                elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                    names.add(prefix + node.name)
                    if isinstance(node, ast.ClassDef):
                        scopes.append((f"{prefix}{node.name}.", node.body))
    return found


def is_there(name):
    """Whether a file or folder, or a dotted name of the source, exists."""
    if "/" in name or name.endswith((".py", ".toml", ".txt", ".md")):
        return any((home / name).exists() for home in (ROOT, SOURCE))
    module, parts = SOURCE, name.split(".")
    while parts and ((module / parts[0]).is_dir() or (module / f"{parts[0]}.py").is_file()):
        module, *parts = module / parts[0], *parts[1:]
    homes = (
        [module / "__init__.py", module.with_suffix(".py")] if module != SOURCE else definitions()
    )
    return not parts or any(".".join(parts) in definitions().get(home, ()) for home in homes)


def test_contributing_names_only_what_is_there():
    """Files and folders, modules and their names, targets of make."""
    text = re.sub(r"```.*?```", "", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.DOTALL)
    quoted = set(re.findall(r"`([^`]+)`", text))
    targets = {name.split()[1] for name in quoted if name.startswith("make ")}
    assert targets <= set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    commands = [name for name in quoted if " " in name or name.startswith(".")]
    named = {name.partition("(")[0] for name in quoted - set(commands)}
    of_this_page = {"dfi", "src", "compute", "full", "merge", "figure-time"}
    assert len(named) > 80
    assert sorted(name for name in named - of_this_page if not is_there(name)) == []
    placed = re.findall(r"`([\w.]+)` \(`([\w/]+\.py)`", text)
    assert len(placed) > 15
    for name, path in placed:
        code = (ROOT / "src" / "dfi" / path).read_text()
        last = name.rpartition(".")[2]
        assert re.search(rf"(def|class) {last}\b|^{last} = ", code, re.MULTILINE), (name, path)


@pytest.mark.parametrize("variable", ["BLAS_TESTS", "OLDEST_TESTS"])
def test_make_names_only_tests_that_are_there(variable):
    """A test that has moved would end the whole target."""
    command = ["make", "--print-data-base", "--dry-run", "help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603
    (value,) = re.findall(rf"^{variable} := (.*)$", done.stdout, re.MULTILINE)
    named = value.split()
    assert len(named) > 15
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("_scoring/forms.py", True),
        ("_scoring/loss.py", False),
        ("_scoring", True),
        ("_models.prepare.prepare", True),
        ("_models.prepare.prepared", False),
        ("Fits.halves", True),
        ("Fits.thirds", False),
        ("_lines.choose", True),
        ("READERS", True),
    ],
)
def test_names_that_are_not_there_are_noticed(name, there):
    assert is_there(name) == there


BANNED = (
    "of what can be known",
    "careful hand",
    "counted for all",
    "all of these statements",
    "of what is seen",
    "unrelated to everything",
    "the prevalence loses",
    "taken away from its data",
    "told apart into",
    "no result of a table",
    "tells it in every row",
    "is not followed",
    "they stay there",
    "read of parquet",
    "libraries of numbers",
    "mended by it",
    "own latent signal",
    "concept are not told apart",
    "goes on from models",
    "the floor is what",
    "deserves the",
    "another whole number",
    "is no column of",
    "is no text",
    "is no table",
    "are no means",
    "laid beside",
    ": see that ",
    "a table that stays",
    "start anew",
    "one object a line",
    "spell it alike",
    "beyond what numbers can be",
    "share of what is explained",
    "% of what is explained",
    "a method among methods",
    "how sure is that",
    "how sure are we",
    "read off its answers",
    "where nothing is told",
    "models are asked about",
    "what follows as a",
    "as they stand",
    "as one looks",
    "that was asked for",
    "are asked for, and",
    "of which markdown makes",
    "turns the order of letters",
    "in words of its own",
    "each of its own.",
    "which is there twice",
    "a feature that carries nothing",
    "ratios of hazards",
    "something together beyond",
    "join it with another",
    "would be replaced, and is",
    "a group of its own",
    "consists of levels",
)
"""Phrases that no native speaker would write; the glossary has the words for things."""


@pytest.mark.parametrize("folder", ["src", "docs", "examples", "README.md", "CONTRIBUTING.md"])
def test_nobody_meets_a_phrase_that_reads_as_translated(folder):
    place = ROOT / folder
    files = [place] if place.is_file() else sorted(place.rglob("*"))
    for path in files:
        made = {"gallery", "project", "generated", "__pycache__"} & set(path.parts)
        if made or path.suffix not in (".py", ".md", ".html", ".rst"):
            continue
        text = " ".join(path.read_text(encoding="utf-8").lower().replace('"', "").split())
        found = [phrase for phrase in BANNED if phrase in text]
        assert not found, f"{path}: {found}"
