import dataclasses
import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

import dfi
from dfi.report import Report
from dfi.report.charts import Scale, bars, scatter
from dfi.report.page import compact_html, comparison_html, report_html
from dfi.report.summary import ranks_text, summarize, summarize_comparison
from dfi.results.call import call_text
from dfi.results.collection import MethodRecord, Results
from dfi.results.file import thaw
from dfi.results.numbers import nice_ticks, number, p_value, percent


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.text = [], [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_data(self, data):
        self.text += data


def parse(page):
    parser = Tags()
    parser.feed(page)
    return parser


def test_summary_is_plain_json(build):
    summary = summarize(build(groups={"g": ["f0", "f1"]}), target="y")
    assert json.loads(json.dumps(summary, allow_nan=False))["title"] == "What explains y?"


def test_summary_has_the_numbers_of_the_result(build):
    result = build()
    summary = summarize(result)
    table = result.table()
    assert [row["name"] for row in summary["features"]] == list(table["feature"])
    for key in ("score", "se", "ci_low", "ci_high", "z", "p", "p_adj"):
        np.testing.assert_allclose([row[key] for row in summary["features"]], table[key])
    assert summary["n_significant"] == int((table["p_adj"] <= 0.05).sum())
    first = summary["features"][0]
    assert first["of_null"] == pytest.approx(first["score"] / 4.0)
    assert first["share"] is None
    assert first["latent"] == pytest.approx(result.latent.scores[result.names.index(first["name"])])


def test_leading_sentences_carry_score_and_interval(build):
    result = build()
    lead = summarize(result, target="yield")["leading"][0]
    row = result.table().iloc[0]
    assert lead["name"] == row["feature"]
    assert f"score {number(row['score'])}" in lead["text"]
    assert f"({number(row['ci_low'])} to {number(row['ci_high'])})" in lead["text"]
    assert "of the variance of yield" in lead["text"]
    assert "distinguishable" not in lead["text"]


def test_ranks_are_told_in_words_and_in_the_table(build):
    result = build()
    summary = summarize(result)
    sets = result.ranks().set_index("feature")
    for row, lead in zip(summary["features"], summary["leading"], strict=False):
        low, high = sets.loc[row["name"], ["rank_low", "rank_high"]]
        assert (row["rank_low"], row["rank_high"]) == (low, high)
        assert f", {ranks_text(low, high)}" in lead["text"]
    assert any("st to " in lead["text"] for lead in summary["leading"])
    page = report_html(result)
    assert 'data-key="rank_low"' in page
    assert "jointly at 95 % confidence" in page


def test_ranks_are_not_told_where_intervals_are_not_valid_or_there_is_one_feature(build):
    plain = build()
    for result in (
        dataclasses.replace(plain, spec={**plain.spec, "valid_intervals": False}),
        build(p=1),
    ):
        page = report_html(result)
        assert "the ranks that each may have" not in page
        assert 'data-key="rank_low"' not in page


def test_own_share_of_a_feature(build):
    result = build()
    first = summarize(result)["features"][0]
    k = result.names.index(first["name"])
    own = result.attribution[k, k] * result.latent.scores[k] / result.scores[k]
    assert first["own"] == pytest.approx(own)


def test_own_share_is_unknown_where_scores_are_not_weighted_latent_scores(build):
    result = build(attribution=np.full((10, 10), 0.3))
    assert summarize(result)["features"][0]["own"] is None


def test_nothing_significant_is_said(build):
    noise = np.random.default_rng(0).standard_normal((150, 3))
    result = build(p=3, influence=noise - noise.mean(axis=0))
    page = report_html(result)
    assert "No feature is distinguishable from 0" in page
    assert "not distinguishable from 0" in summarize(result)["leading"][0]["text"]


@pytest.mark.parametrize(
    ("r2", "message"),
    [(0.5, None), (0.05, None), (-0.1, "explains nothing on held-out rows")],
)
def test_a_model_that_explains_nothing_is_told_by_the_verdict(build, r2, message):
    result = dataclasses.replace(build(r2=r2), diagnostics={})
    verdict = summarize(result)["trust"]
    page = report_html(result)
    assert page.index(f"Trust: {verdict['grade']}.") < page.index('id="chart"')
    if message is None:
        assert verdict["grade"] == "sound"
    else:
        assert message in verdict["line"]
        assert message in page


def test_blocks_say_how_signal_is_shared(build):
    result = build()
    blocks = summarize(result)["blocks"]
    assert blocks["n_blocks"] == 2
    block = blocks["shown"][0]
    assert summarize(result)["pair"] == "result.contrast('f0', 'f1')"
    assert "result.contrast(&#39;f0&#39;, &#39;f1&#39;)" in report_html(result)
    assert {m["name"] for m in block["members"]} == {"f0", "f1", "f2"}
    assert sum(m["share"] for m in block["members"]) == pytest.approx(1.0)
    assert block["total"] == pytest.approx(result.scores[:3].sum())
    assert "of the latent score of" in block["text"]
    kept = {m["name"]: m["kept"] for m in block["members"]}
    assert kept["f0"] == pytest.approx(result.attribution[0, 0])


def test_a_result_without_a_latent_side_is_reported_too(build):
    page = report_html(build(latent=None, attribution=None, diagnostics={}))
    assert "holds no attribution weights" in page
    assert 'class="heat"' not in page


@pytest.mark.parametrize("space", ["latent", "group"])
def test_latent_results_and_groups_have_reports(build, space):
    result = build(groups={"g": ["f0", "f1"], "h": ["f2"]})
    other = result.latent if space == "latent" else result.group()
    assert f"All {'latent coordinates' if space == 'latent' else 'groups'}" in report_html(other)


def test_single_feature_and_degenerate_feature(build):
    assert "f0" in report_html(build(p=1))
    page = report_html(build(p=3, degenerate=np.array([False, True, False])))
    assert "f1" in page


def test_sections_come_in_order(build):
    page = report_html(build(groups={"g": ["f0", "f1"]}))
    order = ["answer", "chart", "model", "blocks", "groups", "table", "meaning", "spec"]
    places = [page.index(f'<section id="{name}"') for name in [*order, "diagnostics", "reproduce"]]
    assert places == sorted(places)


def test_diagnostics_and_reproducibility_are_shown(build):
    page = parse(report_html(build())).text
    assert "The latent coordinates of 'f0' and 'f1' stay dependent" in page
    assert "ab" * 32 in page
    assert "dfi.explain(X, y, estimator='ridge', transport='gaussian', random_state=7)" in page


def test_page_refers_to_nothing_outside(build):
    parsed = parse(report_html(build(p=30)))
    links = [v for _, name, v in parsed.attributes if name in ("src", "href", "srcset", "action")]
    assert links
    assert all(link.startswith("#") for link in links)
    page = report_html(build())
    assert not re.search(r"url\(|@import|https?://", page)


def test_hostile_names_are_escaped_everywhere(evil):
    title = "<script>alert(1)</script>"
    page = report_html(evil, title=title, target="</title><script>")
    parsed = parse(page)
    assert parsed.tags.count("script") == 2
    assert "img" not in parsed.tags
    assert not [name for _, name, _ in parsed.attributes if name.startswith("on")]
    assert "<script>alert" not in page
    compact = compact_html(evil)
    assert "<script" not in compact
    assert 'onerror="' not in compact
    assert "{{ 7 * 7 }}" in parsed.text


def test_hundred_features_stay_below_three_megabytes(build):
    names = [f"a rather long name of a measurement, number {k}" for k in range(100)]
    assert len(report_html(build(p=100, names=names)).encode()) < 3e6


def test_same_result_same_page(build):
    assert report_html(build()) == report_html(build())


def test_compact_version_is_small_and_has_no_script(build):
    compact = compact_html(build(p=200))
    assert len(compact) < 20_000
    assert "<script" not in compact
    assert "<style" not in compact
    assert "and 190 more" in compact


def test_writing_is_all_or_nothing(build, tmp_path, monkeypatch):
    path = build().report(tmp_path / "r.html")
    first = path.read_bytes()
    with pytest.raises(FileExistsError, match="overwrite=True"):
        build(seed=1).report(path)
    with pytest.raises(FileNotFoundError, match="create it first"):
        build().report(tmp_path / "no" / "r.html")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        build().report(tmp_path)

    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr("dfi._files.os.replace", full)
    with pytest.raises(OSError, match="no space"):
        build(seed=1).report(path, overwrite=True)
    monkeypatch.undo()
    assert path.read_bytes() == first
    assert [p.name for p in tmp_path.iterdir()] == ["r.html"]
    assert build(seed=1).report(path, overwrite=True).read_bytes() != first


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (12345.6, "12,350"),
        (-5_778_000, "−5.778 million"),
        (6.99e9, "6.99 billion"),
        (1.2e16, "1.20e+16"),
        (-3.14159, "−3.142"),
        (0.012345, "0.0123"),
        (1e-9, "1.00e−09"),
        (float("nan"), "–"),
        (None, "–"),
    ],
)
def test_numbers_as_people_read_them(value, text):
    assert number(value) == text


def test_percentages_p_values_and_ticks():
    assert percent(0.256) == "26 %"
    assert percent(0.0256) == "2.6 %"
    assert percent(0.0997) == "10 %"
    assert percent(-0.0256) == "−2.6 %"
    assert percent(-0.0003) == "0.0 %"
    assert p_value(1e-5) == "< 0.001"
    assert p_value(0.0312) == "0.031"
    assert nice_ticks(0.0, 1.03, 5) == pytest.approx([0.0, 0.5, 1.0])
    assert nice_ticks(0.0, 1.0, 5) == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert nice_ticks(-1.0, 7.0, 4) == pytest.approx([0.0, 2.0, 4.0, 6.0])
    assert nice_ticks(3.0, 3.0) == [3.0]


def test_bars_lie_inside_their_area(build):
    chart = bars(summarize(build(seed=3))["features"])
    for row in chart["rows"]:
        assert 0 <= row["x"] <= row["x"] + row["width"] <= 100
        assert 0 <= row["low"] <= row["high"] <= 100
    scale = Scale(0.0, 0.0)
    assert 0 < scale(0.0) < 100


def test_scatter_places_every_point(build):
    chart = scatter(summarize(build(p=40))["features"])
    assert len(chart["points"]) == 40
    assert all(0 <= p["x"] <= 100 and 0 <= p["y"] <= 100 for p in chart["points"])


def test_call_is_the_recorded_one_or_rebuilt():
    assert (
        call_text({"call": "dfi explain data.csv --target y"}) == "dfi explain data.csv --target y"
    )
    assert call_text({}) == "not recorded"
    rebuilt = call_text({"estimator": "auto", "transport": "gaussian", "epsilon": 0.5, "cv": "5"})
    assert rebuilt == (
        "dfi.explain(X, y, estimator='auto', transport=dfi.transports.Gaussian(epsilon=0.5), cv=5)"
    )
    assert call_text({"method": "loco", "cv": "[(array([1, 2...", "estimator": "Ridge()"}) == (
        "dfi.compare(X, y, ['loco'], estimator=Ridge(), cv=splits)"
    )


def test_other_methods_are_described_by_their_own_question(build):
    spec = {"method": "loco", "question": "What is lost?", "valid_intervals": False}
    text = parse(report_html(build(spec=spec))).text
    assert "What is lost?" in text
    assert "The intervals of this method are not valid." in text
    assert "independent latent coordinates and their signal" not in text


def test_result_writes_its_report_and_shows_itself(build, tmp_path):
    result = build()
    path = result.report(tmp_path / "r.html", target="y")
    assert "What explains y?" in path.read_text(encoding="utf-8")
    assert result._repr_html_() == compact_html(result)


def test_neither_a_notebook_nor_a_report_loads_pyplot(build, tmp_path):
    saved = build(groups={"g": ["f0", "f1"]}).save(tmp_path / "result.dfi")
    code = f"""
import sys
import dfi
result = dfi.load({str(saved)!r})
assert "<table" in result._repr_html_()
assert "matplotlib.pyplot" not in sys.modules, "a notebook"
result.report({str(tmp_path / "r.html")!r})
dfi.report.Report({{"a": result, "b": result}}).write({str(tmp_path / "c.html")!r})
assert not [name for name in sys.modules if name.startswith("matplotlib")], "a report"
"""
    done = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_comparison_report_in_the_order_of_the_first(build):
    results = {"dfi": build(), "other <b>": build(seed=4)}
    summary = summarize_comparison(results, target="y")
    assert json.dumps(summary, allow_nan=False)
    order = [row["name"] for row in summarize(results["dfi"])["features"]]
    assert summary["names"] == order
    for method in summary["methods"]:
        assert [row["name"] for row in method["rows"]] == order
    assert summary["methods"][0]["agreement"] == pytest.approx(1.0)
    page = comparison_html(results, target="y")
    parsed = parse(page)
    assert "other <b>" in parsed.text
    assert "b" not in parsed.tags
    assert "significant for dfi only" in parsed.text
    # every chart's bars say whose they are, to those who do not see the headline too
    assert re.findall(r'role="list" aria-label="([^"]*)"', page) == ["dfi", "other &lt;b&gt;"]


def test_comparison_report_tells_questions_and_validity(build, tmp_path):
    record = MethodRecord(
        name="dfi",
        question="Who carries it?",
        inference="asymptotic",
        valid_intervals=False,
        seconds=1.5,
        results=("dfi",),
        skipped=None,
    )
    left = dataclasses.replace(record, name="slow", results=(), skipped="too many columns")
    compared = Results({"dfi": build()}, methods=(record, left))
    page = parse(Report(compared).write(tmp_path / "c.html").read_text()).text
    assert "Who carries it?" in page
    assert "Its intervals are not valid." in page
    assert "slow: too many columns" in page
    with pytest.raises(FileExistsError):
        Report(compared).write(tmp_path / "c.html")


def test_a_comparison_writes_its_own_report(tmp_path):
    sample = dfi.datasets.m1(120, rho=0.5, d=3)
    both = dfi.compare(sample.X, sample.y, ["dfi", "loco"], estimator="linear", cv=2)
    page = both.report(tmp_path / "c.html", target="y").read_text()
    assert "Each method answers its own question" in page
    assert ">loco<" in page


def test_alarms_come_first_and_noise_stands_beside_the_chart(build):
    result = with_checks(build, floor=0.4)
    summary = summarize(result)
    assert summary["trust"]["sentences"] == [
        "The latent scores add up to 9 times it. They cannot be right."
    ]
    assert summary["trust"]["grade"] == "do not rely on it"
    page = report_html(result)
    assert page.index("They cannot be right") < page.index("significantly above 0")
    assert 'class="floor"' in page
    assert "The dashed line: A column of <noise>".replace("<", "&lt;").replace(">", "&gt;") in page
    assert "&lt;b&gt;, permuted" in page
    assert "<b>, permuted" not in page
    notes = summary["diagnostic_notes"]
    assert {"serious": False, "text": "A column of <noise>."} in notes
    assert {"serious": True, "text": summary["trust"]["sentences"][0]} in notes


def test_a_remedy_of_several_findings_is_told_once(build):
    result = with_checks(build, floor=0.4)
    rows = [
        {"kind": "ruling row", "severity": "distrust", "what": f"row {k} rules", "remedy": "Look"}
        for k in (3, 5)
    ]
    told = {**thaw(result.diagnostics), "findings": rows}
    summary = summarize(dataclasses.replace(result, diagnostics=told))
    assert summary["trust"]["sentences"] == ["Row 3 rules.", "Row 5 rules. Look."]
    page = report_html(dataclasses.replace(result, diagnostics=told))
    assert "The dashed line: the largest score of a column of pure noise." in page


def test_no_line_of_noise_is_drawn_at_zero(build):
    assert 'class="floor"' not in report_html(with_checks(build, floor=0.0))


def with_checks(build, *, floor):
    """Return a result with the diagnostics of every check."""
    probe = {"kind": "real", "like": "<b>", "score": floor, "se": floor / 10, "p": 1e-9,
             "p_adj": 1e-9, "latent": floor, "share": 0.1}  # fmt: skip
    measured = {"probes": [probe], "floor": floor, "upper": 1.2 * floor, "n_rows": 200,
                "level": 0.01, "significant_below": []}  # fmt: skip
    result = build()
    return dataclasses.replace(
        result,
        diagnostics={
            **thaw(result.diagnostics),
            "findings": [
                {"kind": "sum", "severity": "distrust", "numbers": {"order": 9.0}, "about": [],
                 "what": "the latent scores add up to 9 times it",
                 "remedy": "They cannot be right"},
                {"kind": "noise", "severity": "note", "what": "a column of <noise>"},
            ],
            "noise_floor": measured,
        },
    )  # fmt: skip
