"""The verdict of a result: from findings to a grade, by feature, in files, in JSON and in print."""

import ast
import json
import re
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dfi
from dfi._findings import WARNINGS, Finding, warn_of
from dfi.results.trust import GRADES

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def plain():
    sample = dfi.datasets.m1(300, d=4)
    return dfi.explain(sample.X, sample.y, "linear")


def judged(result, *findings):
    records = [finding.as_dict() for finding in findings]
    return replace(result, diagnostics={**result.diagnostics, "findings": records})


def finding(severity, *about, kind="sum"):
    return Finding(kind, severity, f"{kind} of {severity}", {"value": 2.0}, "Look", about)


def test_sound_result_has_no_reasons_and_gives_no_warning(plain):
    assert plain.trust == "sound"
    assert plain.trust.reasons == ()
    assert set(plain.trust.by_feature) == set(plain.names)
    assert all(part == "sound" for part in plain.trust.by_feature.values())
    assert plain.findings  # what was looked at
    assert str(plain).splitlines()[1] == "Trust: sound"


def test_a_weak_model_whose_intervals_say_so_is_sound():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((800, 2))
    y = 0.25 * X[:, 0] + generator.standard_normal(800)
    result = dfi.explain(X, y, "linear", cv=20)
    assert 0 < result.quality.r2 < 0.1
    assert result.trust == "sound"
    assert {"weak model", "folds"} <= {told.kind for told in result.findings}


def test_scores_of_what_is_hardly_learned_are_read_as_at_least():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((300, 2))
    y = 0.25 * X[:, 0] + generator.standard_normal(300)
    cross, far = (
        dfi.explain(X, y, "linear", form=form, diagnose=False) for form in ("cross", "extrapolated")
    )
    assert 0 < far.quality.r2 < 0.1
    assert cross.trust == "sound"
    assert far.trust == "with care"
    (reason,) = (told for told in far.trust.reasons if told.kind == "weak model")
    assert reason.what.endswith('read scores as "at least"')


@pytest.mark.parametrize(("severity", "grade"), GRADES.items())
def test_a_finding_about_the_whole_grades_all_of_it(plain, severity, grade):
    trust = judged(plain, finding(severity)).trust
    assert trust == grade
    assert all(part == grade for part in trust.by_feature.values())
    assert len(trust.reasons) == (severity != "note")


def test_a_feature_is_graded_alone_and_the_whole_by_what_holds_half_of_its_score(plain):
    first, *_, last = (plain.names[k] for k in np.argsort(-plain.scores))
    small = judged(plain, finding("care", last)).trust
    assert small == "sound"
    assert small.reasons == ()
    assert small.by_feature[last] == "with care"
    assert small.by_feature[last].reasons[0].about == (last,)
    assert small.by_feature[first] == "sound"
    unsafe = judged(plain, finding("distrust", last)).trust
    assert (unsafe.grade, unsafe.by_feature[last].grade) == ("with care", "do not rely on it")
    assert unsafe.reasons[0].severity == "care"
    assert unsafe.by_feature[last].reasons[0].severity == "distrust"
    leading = judged(plain, finding("distrust", first)).trust
    assert leading == "do not rely on it"
    assert leading.by_feature[last] == "sound"


def test_one_line_tells_the_most_severe_first_and_counts_the_rest(plain):
    told = [finding("care", kind=f"k{k}") for k in range(3)]
    trust = judged(plain, *told, finding("distrust")).trust
    assert str(trust) == "do not rely on it — sum of distrust; k0 of care; and 2 more"
    assert str(judged(plain, *told, finding("distrust"))).splitlines()[1:5] == [
        "Trust: do not rely on it",
        "- sum of distrust",
        "- k0 of care",
        "- and 2 more",
    ]
    assert [reason.severity for reason in trust.reasons] == ["distrust", "care", "care", "care"]


def test_files_pages_and_json_keep_the_verdict(plain, tmp_path):
    result = judged(plain, finding("care"), finding("distrust", plain.names[-1]))
    loaded = dfi.load(result.save(tmp_path / "result.dfi"))
    assert loaded.findings == result.findings
    assert loaded.trust == result.trust
    assert loaded.moments().trust == result.trust
    summary = json.loads(result.report().json())["trust"]
    assert summary["grade"] == "with care"
    assert summary["by_feature"][plain.names[-1]] == "do not rely on it"
    assert summary["reasons"][0]["numbers"] == {"value": 2.0}
    page = result.report().html()
    assert page.index("Trust: with care.") < page.index('id="chart"')
    assert "<strong>Trust:</strong> with care — sum of distrust" in result._repr_html_()
    assert (
        "> **Trust: with care.** Sum of distrust. Sum of care. Look." in result.report().markdown()
    )


def test_alarms_of_older_files_are_reasons(plain):
    older = replace(plain, diagnostics={"alarms": ["the scores add up to 9"]})
    assert str(older.trust) == "with care — the scores add up to 9"


def test_groups_and_differences_keep_what_limits_their_parts(plain):
    result = judged(plain, finding("distrust", plain.names[0]), finding("note"))
    groups = result.group({"a": list(plain.names[:2]), "b": list(plain.names[2:])})
    assert groups.trust.by_feature["a"] == "do not rely on it"
    assert groups.trust.by_feature["b"] == "sound"
    assert (result - plain).trust.by_feature[plain.names[0]] == "do not rely on it"
    assert (plain - plain).trust == "sound"


def test_only_what_makes_numbers_wrong_is_a_warning():
    quiet = [finding("care"), finding("distrust", kind="ruling row"), finding("note")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of(quiet)
    with pytest.warns(dfi.warnings.ImplausibleScoreWarning, match="^sum of distrust. Look$"):
        warn_of([*quiet, finding("distrust")])
    with pytest.warns(dfi.warnings.ImplausibleScoreWarning, match="^sum of .* Look. Sum of .*"):
        warn_of([finding("distrust"), finding("distrust")])


def test_classes_are_judged_together_and_apart():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((240, 3))
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + 0.3 * X[:, 1], [-0.4, 0.4])]
    X[5, 1] = 60.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = dfi.explain(X, y, "linear", diagnose=True)
    assert set(result.by_outcome) == {"a", "b", "c"}
    for part in result.by_outcome.values():
        assert part.trust.grade in GRADES.values()
    kinds = {reason.kind for part in result.by_outcome.values() for reason in part.findings
             if reason.severity != "note"}  # fmt: skip
    own = {"weak model", "unclear", "folds", "splits"}  # of each class alone
    assert kinds - own <= {reason.kind for reason in result.findings}


def kinds():
    """Return the kinds of all findings that the code makes."""
    for path in (ROOT / "src" / "dfi").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Finding":
                yield node.args[0].value


def test_the_page_about_verdicts_names_every_kind():
    page = (ROOT / "docs" / "howto" / "trust.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `([a-z ]+)` \|", page, re.M))
    # of older files; notes alone
    assert set(kinds()) - listed == {"alarm", "calibration", "gathered rows", "transport"}
    assert listed <= set(kinds())
    assert set(WARNINGS) <= listed


def test_an_error_above_all_that_is_explained_is_not_to_be_relied_on(plain):
    first = int(np.argmax(plain.scores))
    influence = plain.influence.copy()
    influence[:, first] = plain.scores[first] + 100.0 * (influence[:, first] - plain.scores[first])
    result = replace(plain, basis=replace(plain.basis, values=influence))
    assert result.trust.by_feature[plain.names[first]] == "do not rely on it"
    (reason,) = (found for found in result.findings if found.kind == "errors")
    assert reason.about == (plain.names[first],)
    assert reason.numbers["se"] > reason.numbers["explained"] == plain.explained.value
    assert "exceeds the whole explained variance" in reason.what
