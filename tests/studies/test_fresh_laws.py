"""The study of laws that nothing was chosen on prints what it counts."""

import json

from benchmarks import fresh_laws


def test_true_regression_prints_a_line_for_each_law_and_keeps_the_truth(
    tmp_path, monkeypatch, capsys
):
    laws = {name: fresh_laws.LAWS[name] for name in ("parabola", "counts")}
    monkeypatch.setattr(fresh_laws, "LAWS", laws)
    monkeypatch.setattr(fresh_laws, "MANY", 1)
    monkeypatch.setattr(fresh_laws, "BATCH", 2000)
    file = tmp_path / "true.json"
    fresh_laws.true_regression(file, 3)
    lines = capsys.readouterr().out.splitlines()[2:]
    assert [line.split(" | ")[0] for line in lines] == ["| parabola", "| counts"]
    for line in lines:
        _, samples, *cells = line.strip("| ").split(" | ")
        assert samples == "3"
        assert all(0.0 <= float(cell.split()[0]) <= 1.0 for cell in cells[:3])
    truths = json.loads(file.read_text())
    assert set(truths) == set(laws)
    fresh_laws.true_regression(file, 2)  # with the truth that is known
    assert json.loads(file.read_text()) == truths
