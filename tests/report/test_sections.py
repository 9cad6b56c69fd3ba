"""Sections of a page: pairs and splits, of the result that the page is about."""

import json

import numpy as np
import pytest

import dfi
from dfi._learners.quadratic import QuadraticRidge


@pytest.fixture(scope="module")
def result():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((400, 4))
    X[:, 1] = 0.6 * X[:, 0] + 0.8 * X[:, 1]
    y = X[:, 0] * X[:, 2] + X[:, 1] + 0.5 * generator.standard_normal(400)
    return dfi.explain(X, y, QuadraticRidge(), cv=2)


@pytest.fixture(scope="module")
def sections(result):
    return [result.interactions(), result.split()]


def test_a_page_has_the_sections_that_it_is_given(result, sections):
    page = result.report(sections=sections).html()
    assert 'id="interactions"' in page
    assert "x0 × x2" in page
    assert 'id="split"' in page
    assert "piece-unique" in page
    plain = result.report().html()
    assert 'id="interactions"' not in plain
    assert 'id="split"' not in plain
    one = result.report(sections=sections[1]).html()
    assert 'id="split"' in one
    assert 'id="interactions"' not in one


def test_data_and_text_have_them_too(result, sections):
    report = result.report(sections=sections)
    found = json.loads(report.json())
    assert found["interactions"]["rows"][0]["name"] == "x0 × x2"
    assert found["interactions"]["n_tested"] == 6
    assert {row["name"] for row in found["split"]["rows"]} == set(result.names)
    text = report.markdown()
    assert "## Pairs" in text
    assert "## Shares, split" in text
    assert "interactions" not in json.loads(result.report().json())


@pytest.mark.filterwarnings("ignore::dfi.warnings.WeakModelWarning")
def test_pages_without_signal_and_without_pairs_say_so():
    generator = np.random.default_rng(1)
    X, y = generator.standard_normal((200, 3)), generator.standard_normal(200)
    result = dfi.explain(X, y, "linear", cv=2, diagnose=False)
    page = result.report(sections=[result.interactions(), result.split()]).html()
    assert "No pair has a clear joint effect" in page
    assert "there is nothing to decompose" in page


def test_sections_of_something_else_are_refused(result, sections):
    generator = np.random.default_rng(0)
    X = generator.standard_normal((100, 2))
    other = dfi.explain(X, X[:, 0] + generator.standard_normal(100), "linear", cv=2)
    with pytest.raises(ValueError, match="has features that differ"):
        other.report(sections=sections).html()
    with pytest.raises(TypeError, match=r"must be results of result\.interactions"):
        result.report(sections=[result]).html()
