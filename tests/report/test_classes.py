"""The page of a result of classes: shares first, the loss' words, class names everywhere."""

import html
import re
from dataclasses import replace

import pytest

from dfi._models.quality import Quality, weak_model
from dfi.report.page import comparison_html, report_html
from dfi.report.summary import summarize
from dfi.results.words import interaction_text


def text_of(page):
    page = re.sub(r"<(script|style)[^>]*>.*?</\1>", " ", page, flags=re.DOTALL)
    return html.unescape(" ".join(re.sub(r"<[^>]+>", " ", page).split()))


def test_answers_begin_with_the_share_and_name_the_class(binary):
    result = binary()
    summary = summarize(result)
    assert summary["title"] == "What explains default = Yes?"
    first = summary["leading"][0]["text"]
    share = result.shares()["share"].max()
    assert first.startswith(f"{100 * share:.0f} % of the explained variance (")
    page = text_of(report_html(result))
    assert "outcome default (probability of Yes)" in page
    assert "Shares of the explained variance, each with its own 95 % interval" in page


def test_quality_of_a_class_has_area_interval_and_calibration(binary):
    result = binary()
    quality = result.quality
    page = report_html(result)
    text = text_of(page)
    low, high = quality.auc_interval()
    assert f"AUC {quality.auc:.3f}, 95 % interval {low:.3f} to {high:.3f}" in text
    assert "a row of class Yes and another" in text
    assert f"Brier skill = {quality.skill:.3f}" in text
    assert "Its log-loss is" in text
    for entry in quality.calibration:
        assert f"<td>{entry.predicted:.3f}</td><td>{entry.observed:.3f}</td>" in page
    assert page.count('<circle class="sure" cx=') >= len(quality.calibration)


def test_by_class_is_shown_only_where_there_are_classes(binary, multiclass, build):
    for result in (binary(), build()):
        assert 'id="classes"' not in report_html(result)
    assert "Calibration" not in report_html(build())
    result = multiclass()
    page = report_html(result)
    text = text_of(page)
    assert "three classes: Adelie, Chinstrap, Gentoo" in text
    section = page[page.index('id="classes"') : page.index('id="model"')]
    for name in ("Adelie", "Chinstrap", "Gentoo"):
        assert name in section
    cells = summarize(result)["by_class"]["rows"][0]["cells"]
    part = result.by_outcome["Chinstrap"]
    assert cells[1]["score"] == part.scores[0]
    assert cells[1]["share"] == part.shares()["share"][0]
    assert f"{100 * cells[1]['share']:.0f} %" in section
    assert result.by_outcome["Gentoo"].quality.auc_interval()[0] > 0
    assert "AUC against the others" in section


def test_loss_and_unit_of_several_classes(multiclass):
    result = multiclass()
    summary, text = summarize(result), text_of(report_html(result))
    assert summary["score_unit"] == "nats"
    assert "the scores behind them, in nats and with intervals of their own" in text
    assert " % of the explained loss (" in summary["leading"][0]["text"]
    assert "explained variance" not in text
    assert "the model's log-loss is" in text
    assert "that of the prevalences alone is" in text
    assert "of entropy" in text
    assert "variance" not in summary["quality"]["text"]
    interaction = result.interaction
    assert interaction_text(interaction, result.spec) in text
    assert summary["explained"]["interaction"] == interaction.value


def test_interactions_beyond_all_that_is_explained_are_told_as_a_multiple(multiclass):
    found = replace(multiclass().interaction, value=1.7, ci_low=1.59, ci_high=1.81)
    assert interaction_text(found, {}) == (
        "Interactions: up to all of the explained variance: the scores add up to 2.7 times it "
        "(95 % interval 2.6 to 2.8)."
    )


def test_interactions_that_may_be_everything_or_nothing_are_too_uncertain_to_say(multiclass):
    found = replace(multiclass().interaction, value=0.0, ci_low=0.0, ci_high=8.35)
    assert interaction_text(found, {}) == (
        "Interactions: too uncertain to say (the 95 % interval reaches beyond all of the "
        "explained variance)."
    )


def test_table_of_the_page_begins_with_the_share(multiclass, build):
    head = report_html(multiclass())
    keys = re.findall(r'data-key="(\w+)"', head)
    assert keys[:6] == ["rank", "name", "share", "rank_low", "rank_high", "share_low"]
    assert [label for label in ("share low", "score low") if f">{label}</button>" not in head] == []
    assert "share" not in re.findall(r'data-key="(\w+)"', report_html(build()))


def test_names_of_classes_are_text(multiclass):
    evil = ("<script>window.broken=1</script>", "{{ 7 * 7 }}", "a\"b'c")
    page = report_html(multiclass(classes=evil))
    assert "<script>window.broken" not in page
    assert "{{ 7 * 7 }}" in page
    assert "&lt;script&gt;window.broken=1" in page
    assert "<script>window.broken" not in multiclass(classes=evil)._repr_html_()


def test_notebook_has_shares_class_names_and_the_words_of_the_loss(multiclass, binary, build):
    shown = multiclass()._repr_html_()
    for words in ("McFadden", "Adelie", "share by class", ">share (95 %", "scores: nats"):
        assert words in shown
    assert "probability of Yes" in binary()._repr_html_()
    plain = build()._repr_html_()
    assert ">share (95 %" not in plain
    assert ">score (95 %" in plain
    assert "out-of-fold R² 0.500" in plain


def test_many_features_and_many_classes(multiclass):
    result = multiclass(classes=tuple(f"digit {k}" for k in range(12)), p=30)
    summary = summarize(result)
    assert len(summary["by_class"]["rows"]) == 15
    assert summary["by_class"]["n_hidden"] == 15
    assert "12 classes: digit 0" in summary["outcome"]
    assert "15 more features are in" in text_of(report_html(result))


@pytest.mark.parametrize(
    ("loss", "null"),
    [("brier", "the prevalence"), ("log-loss", "the prevalence"), ("poisson", "the mean outcome")],
)
def test_weak_models_are_warned_of_in_the_words_of_the_loss(loss, null):
    def quality(model):
        r2 = 1 - model / 0.5
        return Quality(r2, (r2,), float("nan"), model, 0.5, 100, loss, model, 0.5)

    nothing, little = weak_model(quality(0.51)), weak_model(quality(0.48))
    assert f"is not below that of {null}" in nothing.what
    assert f"only 4.0 % below that of {null}" in little.what
    assert (nothing.severity, little.severity) == ("distrust", "note")
    assert weak_model(quality(0.3)) is None


def test_comparison_names_outcome_and_quality(multiclass):
    result = multiclass()
    page = text_of(comparison_html({"dfi": result, "loco": replace(result, level=0.9)}))
    assert "outcome species" in page
    assert "McFadden's R² =" in page
