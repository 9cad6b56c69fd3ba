"""Studies made of tasks: what is kept, what is used again; interruptions leave no trace."""

import hashlib
import json
import os
import warnings
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from threadpoolctl import threadpool_info

import dfi
from paper import simulated_figures
from paper.catalogue import STUDIES, resolve_studies
from paper.reproduction import Checkpoints, Size, Study, Task, reproduce, run_tasks
from paper.writing import markdown_table, save_figure, shown, write_csv, write_page

CALLS = []
STOP_AT = []


def draw(seed, n):
    CALLS.append(seed)
    if STOP_AT and len(CALLS) == STOP_AT[0]:
        raise KeyboardInterrupt
    rows = np.random.default_rng(seed).standard_normal((n, 3))
    return {
        "seed": np.int64(seed),
        "mean": rows.mean(axis=0),
        "product": rows.T @ rows,
        "missing": np.nan,
        "endless": [np.inf, -np.inf],
        "sure": np.bool_(True),
    }


def other_draw(seed, n):
    return draw(seed + 1000, n)


def tiny_tasks(size, function=draw):
    n = 400 if size.full else 40
    count = size.replications(quick=5, full=7)
    return [Task(f"cell-0.5-{seed}", function, {"seed": seed, "n": n}) for seed in range(count)]


def write_tiny(records, folder, size):
    means = np.array([record["mean"] for record in records.values()])
    write_csv(
        folder / "tiny.csv",
        [{"key": key, "mean": record["mean"][0]} for key, record in records.items()],
    )
    figure = Figure(layout="constrained")
    figure.subplots().plot(means)
    save_figure(figure, folder / "tiny.png")
    table = markdown_table(("column", "mean"), enumerate(means.mean(axis=0).tolist()))
    write_page(folder / "tiny.md", "# Tiny", size.words, "", table)


TINY = Study("tiny", "A tiny study", tiny_tasks, write_tiny)


@pytest.fixture(autouse=True)
def fresh_calls():
    CALLS.clear()
    STOP_AT.clear()


def contents(folder):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_study_writes_its_files_and_one_record_for_every_task(tmp_path):
    reproduce(TINY, tmp_path)
    assert set(contents(tmp_path)) == {
        *TINY.files, *(f"records/tiny/cell-0.5-{seed}.json" for seed in range(5)),
    }  # fmt: skip
    assert CALLS == [0, 1, 2, 3, 4]


def test_records_hold_the_numbers_in_full_and_no_number_as_none(tmp_path):
    record = run_tasks(TINY, Size(), tmp_path)["cell-0.5-3"]
    rows = np.random.default_rng(3).standard_normal((40, 3))
    assert record["mean"] == rows.mean(axis=0).tolist()
    assert record["product"] == (rows.T @ rows).tolist()
    assert record["seed"] == 3
    assert record["missing"] is None
    assert record["endless"] == [None, None]
    assert record["sure"] is True


def test_records_appear_one_by_one(tmp_path):
    there = []

    def watched(seed, n):
        there.append(len(list((tmp_path / "tiny").glob("*.json"))))
        return draw(seed, n)

    study = Study("tiny", "", lambda size: tiny_tasks(size, watched), write_tiny)
    run_tasks(study, Size(), tmp_path)
    assert there == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("at", [1, 3, 5])
def test_an_interrupted_run_resumed_gives_the_bytes_of_one_that_was_not(at, tmp_path):
    reproduce(TINY, tmp_path / "whole")
    CALLS.clear()
    STOP_AT.append(at)
    with pytest.raises(KeyboardInterrupt):
        reproduce(TINY, tmp_path / "stopped")
    assert len(contents(tmp_path / "stopped")) == at - 1  # records only, no file of the study
    CALLS.clear()
    STOP_AT.clear()
    reproduce(TINY, tmp_path / "stopped", resume=True)
    assert list(range(at - 1, 5)) == CALLS
    assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")


def test_more_replications_begin_with_those_that_are_there(tmp_path):
    run_tasks(TINY, Size(seeds=2), tmp_path)
    CALLS.clear()
    records = run_tasks(TINY, Size(seeds=4), tmp_path, resume=True)
    assert CALLS == [2, 3]
    assert list(records) == [f"cell-0.5-{seed}" for seed in range(4)]


def test_fewer_replications_leave_records_out_of_the_study_and_on_disk(tmp_path):
    run_tasks(TINY, Size(seeds=4), tmp_path)
    assert len(run_tasks(TINY, Size(seeds=2), tmp_path, resume=True)) == 2
    assert len(list((tmp_path / "tiny").iterdir())) == 4


def test_without_resume_everything_is_computed_again(tmp_path):
    run_tasks(TINY, Size(), tmp_path)
    CALLS.clear()
    run_tasks(TINY, Size(), tmp_path)
    assert CALLS == [0, 1, 2, 3, 4]


def test_records_of_other_settings_are_not_used(tmp_path):
    quick = run_tasks(TINY, Size(seeds=2), tmp_path)
    CALLS.clear()
    full = run_tasks(TINY, Size(full=True, seeds=2), tmp_path, resume=True)
    assert CALLS == [0, 1]
    assert full["cell-0.5-0"] != quick["cell-0.5-0"]


def test_records_of_another_function_are_not_used(tmp_path):
    run_tasks(TINY, Size(seeds=2), tmp_path)
    CALLS.clear()
    other = Study("tiny", "", lambda size: tiny_tasks(size, other_draw), write_tiny)
    run_tasks(other, Size(seeds=2), tmp_path, resume=True)
    assert CALLS == [1000, 1001]


def test_records_of_another_version_are_not_used(tmp_path, monkeypatch):
    run_tasks(TINY, Size(seeds=2), tmp_path)
    CALLS.clear()
    monkeypatch.setattr(dfi, "__version__", "0.0.0")
    run_tasks(TINY, Size(seeds=2), tmp_path, resume=True)
    assert CALLS == [0, 1]


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"identity": "',
        "[1, 2]",
        "null",
        "\xff\xfe",
        '{"identity": "0", "record": {"seed": 0}}',
    ],
)
def test_a_record_that_is_not_whole_is_computed_again(text, tmp_path):
    records = run_tasks(TINY, Size(seeds=3), tmp_path)
    before = contents(tmp_path)
    (tmp_path / "tiny" / "cell-0.5-1.json").write_bytes(text.encode("latin-1"))
    CALLS.clear()
    assert run_tasks(TINY, Size(seeds=3), tmp_path, resume=True) == records
    assert CALLS == [1]
    assert contents(tmp_path) == before


def test_a_record_that_is_no_mapping_is_computed_again(tmp_path):
    run_tasks(TINY, Size(seeds=1), tmp_path)
    path = tmp_path / "tiny" / "cell-0.5-0.json"
    kept = json.loads(path.read_text())
    path.write_text(json.dumps({**kept, "record": [1.0]}))
    CALLS.clear()
    run_tasks(TINY, Size(seeds=1), tmp_path, resume=True)
    assert CALLS == [0]


def test_a_record_that_cannot_be_written_leaves_nothing_half_written(tmp_path):
    task = Task("cell", draw, {"seed": 0, "n": 4})
    checkpoints = Checkpoints(tmp_path)
    checkpoints.write(task, {"a": 1})
    with pytest.raises(TypeError, match="not JSON serializable"):
        checkpoints.write(task, {"a": object()})
    assert checkpoints.read(task) == {"a": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["cell.json"]


def test_a_failing_task_keeps_the_records_before_it(tmp_path):
    def fails(seed, n):
        if seed == 2:
            raise ValueError("no such thing")
        return draw(seed, n)

    study = Study("tiny", "", lambda size: tiny_tasks(size, fails), write_tiny)
    with pytest.raises(ValueError, match="no such thing"):
        run_tasks(study, Size(), tmp_path)
    assert len(list((tmp_path / "tiny").iterdir())) == 2


def test_measured_tasks_come_last_and_in_order(tmp_path):
    def mixed(size):
        return [
            Task(f"t{seed}", draw, {"seed": seed, "n": 4}, measured=seed % 2 == 0)
            for seed in range(6)
        ]

    records = run_tasks(Study("tiny", "", mixed, write_tiny), Size(), tmp_path)
    assert CALLS == [1, 3, 5, 0, 2, 4]
    assert list(records) == [f"t{seed}" for seed in range(6)]


def test_tasks_run_on_one_thread_and_their_warnings_are_not_errors(tmp_path):
    seen = []

    def task():
        warnings.warn("known", UserWarning, stacklevel=1)
        seen.extend(pool["num_threads"] for pool in threadpool_info())
        return {}

    study = Study("tiny", "", lambda size: [Task("only", task)], write_tiny)
    run_tasks(study, Size(), tmp_path)
    assert set(seen) == {1}


def test_studies_with_tasks_in_common_share_their_records(tmp_path):
    first, second = (Study(name, "", tiny_tasks, write_tiny, shared="both") for name in ("a", "b"))
    run_tasks(first, Size(), tmp_path)
    CALLS.clear()
    run_tasks(second, Size(), tmp_path, resume=True)
    assert CALLS == []
    assert [path.name for path in tmp_path.iterdir()] == ["both"]


def test_sizes():
    assert Size().replications(quick=2, full=100) == 2
    assert Size(full=True).replications(quick=2, full=100) == 100
    assert Size(full=True, seeds=7).replications(quick=2, full=100) == 7
    assert Size(full=True, seeds=7).refits(quick=2, full=100) == 7
    assert Size(full=True, seeds=7, refit_seeds=3).refits(quick=2, full=100) == 3
    assert Size(seeds=2, refit_seeds=3).refits(quick=2, full=100) == 2
    assert Size(full=True, refit_trees=20).trees(quick=100, full=500) == 500
    assert Size(full=True, refit_trees=20).trees(quick=100, full=500, refit=True) == 20
    for name in ("seeds", "refit_seeds", "refit_trees"):
        with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
            Size(**{name: 0})


@pytest.mark.parametrize("name", list(STUDIES))
def test_the_tasks_of_every_study_can_be_kept(name):
    study = STUDIES[name]
    if "hiv" in name and not Path(os.environ.get("DFI_DATA", "nowhere"), "hiv").is_dir():
        pytest.skip("DFI_DATA names no folder of the data")
    for size in (Size(), Size(full=True, seeds=3, refit_seeds=2)):
        tasks = list(study.tasks(size))
        keys = [task.key for task in tasks]
        assert len(set(keys)) == len(keys) > 0
        assert all(set(key) <= set(ALLOWED) for key in keys)
        assert all(len(task.identity) == 64 for task in tasks)


ALLOWED = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-"


def test_studies_that_share_records_agree_on_what_a_key_means():
    by_file = {}
    for study in STUDIES.values():
        if "hiv" in study.name:
            continue
        for task in study.tasks(Size()):
            known = by_file.setdefault((study.kept_in, task.key), task.identity)
            assert known == task.identity, (study.name, task.key)


def test_names():
    assert [study.name for study in resolve_studies("all")] == list(STUDIES)
    assert resolve_studies("figure-3")[0].name == "figure-3"
    with pytest.raises(
        ValueError, match=r"unknown study 'figure-4'; did you mean 'figure-m4'\? Kno"
    ):
        resolve_studies("figure-4")
    with pytest.raises(ValueError, match=r"unknown study 'xyz'\. Known names: figure-1, .*, all$"):
        resolve_studies("xyz")


def test_the_documents_list_every_study():
    page = (Path(__file__).parents[2] / "docs" / "reproduce.md").read_text()
    assert [name for name in STUDIES if f"`{name}`" not in page] == []


def test_numbers_are_shown_in_a_few_digits_and_tables_keep_all(tmp_path):
    assert [shown(v) for v in (None, 0.0, 1e-9, 0.123456, 12345.6, 3, "a")] == [
        "-", "0", "0", "0.1235", "12346", "3", "a",
    ]  # fmt: skip
    write_csv(tmp_path / "a.csv", [{"a": 1 / 3, "b": "x, y"}])
    assert (tmp_path / "a.csv").read_text() == f'a,b\n{1 / 3!r},"x, y"\n'


def test_a_figure_carries_neither_date_nor_version(tmp_path):
    figure = Figure()
    figure.subplots().plot([0, 1], [2, 3])
    save_figure(figure, tmp_path / "a.png")
    content = (tmp_path / "a.png").read_bytes()
    assert b"tEXt" not in content
    assert mpl.__version__.encode() not in content


def test_what_scores_exactly_0_in_every_sample_has_no_gap():
    scores = np.array([[1.0, 0.0], [1.2, 0.0], [0.9, 0.0], [1.1, 0.0], [0.8, 0.0]])
    table = simulated_figures.panel_table([simulated_figures.Bars("m", scores, np.array([1.0, 0]))])
    read, unread = table.splitlines()[-2:]
    assert read.split("|")[-2].strip() == "+0.0"
    assert unread.split("|")[-2].strip() == "-"
