"""Single rows on a page: only where they are asked for, small, searchable, by keyboard too."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import dfi
from dfi.report.page import local_summary, report_html

HOSTILE = "</script><script>window.broken=1</script>"


@pytest.fixture(scope="module")
def explained():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({f"f{k}": rng.standard_normal(150) for k in range(14)})
    X[HOSTILE] = X.f0 + rng.standard_normal(150)
    X["kind"] = rng.choice(["x", "<b>bold</b>", "z"], 150)
    y = X.f0 + (X.kind == "x") + 0.5 * rng.standard_normal(150)
    return dfi.explain(X, y, "linear", cv=2, diagnose=False, progress=False)


def numbers(page):
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(found[1])


def test_others_that_are_none_leave_nothing():
    sample = dfi.datasets.m1(100, d=3)
    local = dfi.explain(sample.X, sample.y, "ridge", cv=2, diagnose=False).local(sample=5)
    assert [row["rest"] for row in local_summary(local)["list"]] == [0.0] * 5


def test_a_page_holds_no_row_unless_it_is_asked_for(explained):
    page = report_html(explained)
    assert "rows" not in numbers(page)
    assert 'id="rows"' not in page


def test_rows_are_few_numbers_that_add_up(explained):
    page = report_html(explained, rows=20)
    rows = numbers(page)["rows"]
    assert len(rows["list"]) == 20
    assert len(page) - len(report_html(explained)) < 40_000
    for row in rows["list"]:
        total = sum(part[1] for part in row["parts"]) + row["rest"]
        assert total == pytest.approx(row["prediction"] - row["base"], abs=1e-4)
        assert len(row["parts"]) == 12
    assert "share the page as you would share them" in page
    assert "not a confidence interval" in page
    assert "It does not mean" in page
    assert HOSTILE not in page
    chosen = explained.local([3, 8])
    given = numbers(report_html(explained, rows=chosen))["rows"]["list"]
    assert [row["row"] for row in given] == [3, 8]
    assert report_html(explained, rows=20) == page


def test_what_a_page_cannot_show_is_refused(explained, tmp_path):
    with pytest.raises(ValueError, match="rows must be a whole number of 1 or more, got 0"):
        report_html(explained, rows=0)
    with pytest.raises(ValueError, match="rows=501 is more than the 500 that a page holds"):
        report_html(explained, rows=501)
    loaded = dfi.load(explained.save(tmp_path / "r.dfi"))
    with pytest.raises(ValueError, match="local contributions need the fitted models"):
        report_html(loaded, rows=5)


@pytest.mark.parametrize("width", [1400, 400])
def test_a_row_is_found_and_drawn_by_keyboard(chromium, explained, tmp_path, width):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    chromium.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False},
    )
    path = explained.report(tmp_path / "report.html", rows=20)
    chromium.get(path.as_uri())
    rows = numbers(path.read_text(encoding="utf-8"))["rows"]["list"]
    name = chromium.find_element(By.ID, "row-name")
    assert name.text.startswith(f"Row {rows[0]['row']}: the predicted y")
    choice = chromium.find_element(By.ID, "row-choice")
    choice.send_keys(Keys.ARROW_DOWN)
    assert name.text.startswith(f"Row {rows[1]['row']}:")
    bars = chromium.find_elements(By.CSS_SELECTOR, "#waterfall [role=listitem]")
    assert len(bars) == 12 + 3  # prediction, the others, base
    assert all(bar.get_attribute("aria-label") for bar in bars)
    sizes = [bar.text.split()[-1] for bar in bars[1:-1]]
    assert len({len(size.partition(".")[2]) for size in sizes}) == 1
    chromium.find_element(By.ID, "row-filter").send_keys(f"row {rows[5]['row']} ")
    assert chromium.find_element(By.ID, "row-count").text == "1 of 20"
    assert name.text.startswith(f"Row {rows[5]['row']}:")
    assert chromium.execute_script("return window.broken") is None
    assert chromium.execute_script("return document.documentElement.scrollWidth") <= width
    assert [entry["message"] for entry in chromium.get_log("browser")] == []
