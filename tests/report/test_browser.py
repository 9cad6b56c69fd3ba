"""The report in a real browser, opened from disk, with the network cut."""

import csv
import itertools
import json
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dfi
from dfi.report import Report

from .conftest import HOSTILE


def wait_until(condition):
    """Return what a condition finds, once it does: the test's own limit is the only one."""
    while not (found := condition()):
        time.sleep(0.05)
    return found


def resize(browser, width, height=900):
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
    )


def hover(browser, mark):
    from selenium.webdriver import ActionChains

    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", mark)
    ActionChains(browser).move_to_element(mark).perform()


@pytest.fixture
def open_report(chromium, tmp_path):
    """Open a report, and check at the end that it was quiet and asked nobody for anything."""
    opened = []

    def open_result(result, width=1400, **options):
        resize(chromium, width)
        chromium.get_log("browser")
        chromium.get_log("performance")
        path = Report(result, **options).write(tmp_path / f"report{len(opened)}.html")
        opened.append(path)
        chromium.get(path.as_uri())
        chromium.execute_script("localStorage.clear()")
        return chromium

    yield open_result
    messages = [entry["message"] for entry in chromium.get_log("browser")]
    assert messages == []
    requested = []
    for entry in chromium.get_log("performance"):
        event = json.loads(entry["message"])["message"]
        if event["method"] == "Network.requestWillBeSent":
            requested.append(event["params"]["request"]["url"])
    assert requested
    assert [url for url in requested if not url.startswith(("file:", "blob:", "data:"))] == []


def names(browser):
    return browser.execute_script(
        "return Array.from(document.querySelectorAll('#scores tbody tr'))"
        ".filter(r => !r.hidden).map(r => r.querySelector('th').textContent)"
    )


def test_table_sorts_by_any_column(open_report, build):
    result = build()
    browser = open_report(result)
    ranked = [result.names[k] for k in (-result.scores).argsort()]
    assert names(browser) == ranked
    head = browser.find_element("css selector", "th[data-key=name]")
    head.find_element("tag name", "button").click()
    assert names(browser) == sorted(ranked)
    assert head.get_attribute("aria-sort") == "ascending"
    head.find_element("tag name", "button").click()
    assert names(browser) == sorted(ranked, reverse=True)
    score = browser.find_element("css selector", "th[data-key=score] button")
    score.click()
    assert names(browser) == ranked
    score.click()
    assert names(browser) == ranked[::-1]
    assert head.get_attribute("aria-sort") is None


def test_table_filters_by_name_and_significance(open_report, build):
    result = build(p=12)
    browser = open_report(result)
    field = browser.find_element("id", "filter")
    field.send_keys("F1")
    assert set(names(browser)) == {"f1", "f10", "f11"}
    assert browser.find_element("id", "count").text == "3 of 12"
    field.clear()
    field.send_keys(" ")
    field.clear()
    browser.execute_script("document.getElementById('filter').dispatchEvent(new Event('input'))")
    browser.find_element("id", "only-sure").click()
    p_adj = result.table(sort=False)["p_adj"]
    assert set(names(browser)) == {n for n, p in zip(result.names, p_adj, strict=True) if p <= 0.05}


def test_hover_shows_values_and_links_the_plots(open_report, build):
    browser = open_report(build(groups={"g": ["f0", "f1"], "h": ["f2"]}))
    tip = browser.find_element("id", "tip")
    assert not tip.is_displayed()
    for selector in ("#chart .bar-row", "#blocks circle[data-u='0']", "#scores tbody tr"):
        hover(browser, browser.find_element("css selector", selector))
        wait_until(tip.is_displayed)
        assert tip.text.startswith("f0\nscore ")
        assert "95 % interval" in tip.text
        hot = browser.execute_script(
            "return Array.from(document.querySelectorAll('.hot')).map(e => e.tagName.toLowerCase())"
        )
        assert {"div", "circle", "tr", "li"} <= set(hot)
    cell = browser.find_element("css selector", ".heat-area rect[data-u='0'][data-v='1']")
    hover(browser, cell)
    assert "of the latent score of f1 is attributed to f0" in tip.text
    hover(browser, browser.find_element("css selector", "#groups .bar-row"))
    assert tip.text.startswith("g\nscore ")
    hover(browser, browser.find_element("css selector", "#meaning h2"))
    wait_until(lambda: not tip.is_displayed())


def test_keyboard_reaches_the_values(open_report, build):
    browser = open_report(build())
    row = browser.find_elements("css selector", "#chart .bar-row")[1]
    browser.execute_script("arguments[0].focus()", row)
    tip = browser.find_element("id", "tip")
    assert tip.text.startswith("f1\nscore ")
    from selenium.webdriver.common.keys import Keys

    row.send_keys(Keys.ESCAPE)
    assert not tip.is_displayed()
    row.send_keys(Keys.TAB)
    assert tip.text.startswith("f2\nscore ")


def paper(browser):
    return browser.execute_script("return getComputedStyle(document.body).backgroundColor")


def scheme(browser, value):
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": value}]},
    )


def test_dark_and_light_by_system_and_by_button(open_report, build):
    browser = open_report(build())
    scheme(browser, "light")
    assert paper(browser) == "rgb(255, 255, 255)"
    scheme(browser, "dark")
    assert paper(browser) == "rgb(20, 24, 29)"
    browser.find_element("id", "theme").click()
    assert paper(browser) == "rgb(255, 255, 255)"
    browser.refresh()
    assert paper(browser) == "rgb(255, 255, 255)"
    browser.find_element("id", "theme").click()
    assert paper(browser) == "rgb(20, 24, 29)"
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": []})
    assert paper(browser) == "rgb(255, 255, 255)"
    assert not browser.find_element("id", "csv").is_displayed()
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    browser.execute_script("localStorage.clear()")


def downloaded(browser, name):
    path = browser.downloads / name
    path.unlink(missing_ok=True)
    return lambda: wait_until(lambda: path.exists() and path.stat().st_size > 0) and path


def test_downloads_are_the_table_and_the_specification(open_report, evil):
    browser = open_report(evil)
    get = downloaded(browser, "importance.csv")
    browser.find_element("id", "csv").click()
    with get().open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    table = evil.table()
    # a spreadsheet would run what begins as a formula does
    shown = [f"'{name}" if name[0] in "=+-@" else name for name in table["feature"]]
    assert [row["feature"] for row in rows] == shown
    assert any(name.startswith("'=") for name in shown)
    for key in ("score", "se", "ci_low", "ci_high", "z", "p", "p_adj"):
        assert [float(row[key]) for row in rows] == pytest.approx(list(table[key]))
    get = downloaded(browser, "specification.json")
    browser.find_element("id", "json").click()
    assert json.loads(get().read_text())["random_state"] == 7


def test_hostile_names_are_only_text(open_report, evil):
    browser = open_report(
        evil, title="<script>alert(1)</script>", target="<img src=x onerror=alert(1)>"
    )
    assert browser.execute_script("return window.broken") is None
    assert set(names(browser)) == set(evil.names)
    assert browser.find_element("tag name", "h1").text == "<script>alert(1)</script>"
    assert browser.execute_script("return document.scripts.length") == 2
    assert browser.execute_script("return document.images.length") == 0
    hover(browser, browser.find_element("css selector", "#chart .bar-row"))
    assert browser.find_element("id", "tip").text.startswith("<script>alert(1)</script>\n")


FOREIGN = """
const foreign = 'img, link, iframe, form, base, object, embed, meta[http-equiv=refresh], '
  + 'a[href^=java]';
const on = Array.from(document.querySelectorAll('*')).filter(e =>
  Array.from(e.attributes).some(a => a.name.startsWith('on'))).length;
return [window.broken === undefined, document.scripts.length,
        document.querySelectorAll(foreign).length, on];
"""
EVENTS = """
const kinds = ['mouseover', 'mouseenter', 'mousemove', 'focus', 'click', 'mouseout', 'blur'];
const marks = document.querySelectorAll(
  'svg *, th, td, summary, button:not(#csv):not(#json), input');
for (const mark of marks) for (const kind of kinds)
  mark.dispatchEvent(new MouseEvent(kind, {bubbles: true}));
return marks.length;
"""


def assert_only_text(browser):
    assert browser.execute_script(FOREIGN) == [True, 2, 0, 0]
    assert browser.execute_script(EVENTS) > 100
    assert browser.execute_script(FOREIGN) == [True, 2, 0, 0]
    source = browser.execute_script("return document.documentElement.outerHTML")
    assert not set(source) & set("\u202e\u2066\u2028\u2029\x1b\x9b\x07")


def test_many_hostile_names_are_only_text(open_report, build):
    assert len(HOSTILE) >= 30
    p = len(HOSTILE)
    unit = {
        "kind": "category", "n_members": 2, "missing": 0.1,
        "members": [{"name": name, "share": 0.5, "mean": 0.0} for name in HOSTILE[:20]],
    }  # fmt: skip
    result = build(
        p=p,
        names=HOSTILE,
        groups={name: HOSTILE[k : k + 3] for k, name in enumerate(HOSTILE[: p - 3])},
        diagnostics={"units": dict.fromkeys(HOSTILE[:4], unit), "asymptotics": HOSTILE[0]},
    )
    spec = {**result.spec, "call": HOSTILE[1], "estimator": HOSTILE[8], HOSTILE[9]: HOSTILE[2]}
    result = replace(result, spec=spec)
    for target in HOSTILE[10:13]:
        browser = open_report(result, title=target, target=target)
        assert len(names(browser)) == p
        assert_only_text(browser)


def test_hostile_labels_and_classes_are_only_text(open_report, build, multiclass):
    results = {name: build(p=4, names=HOSTILE[:4]) for name in HOSTILE[10:16]}
    assert_only_text(open_report(results, target=HOSTILE[0]))
    assert_only_text(open_report(multiclass(classes=HOSTILE[10:14])))


def test_comparison_works_in_the_browser(open_report, build):
    results = {"dfi": build(), "other, one": build(seed=4)}
    browser = open_report(results)
    hover(browser, browser.find_element("css selector", "#chart .bar-row"))
    lines = browser.find_element("id", "tip").text.splitlines()
    assert lines[0] == "f0"
    assert lines[1].startswith("▸ dfi: ")
    assert lines[2].startswith("other, one: ")
    hover(browser, browser.find_elements("css selector", "#chart .bars")[1])
    lines = browser.find_element("id", "tip").text.splitlines()
    assert lines[1].startswith("dfi: ")
    assert lines[2].startswith("▸ other, one: ")
    browser.find_element("css selector", "th[data-key=m1] button").click()
    other = results["other, one"]
    assert names(browser) == [other.names[k] for k in (-other.scores).argsort()]
    get = downloaded(browser, "comparison.csv")
    browser.find_element("id", "csv").click()
    with get().open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert set(rows[0]) == {"rank", "feature", "dfi", "other, one"}


OVERLAPS = """
const boxes = Array.from(document.querySelectorAll(arguments[0]))
  .filter(e => e.textContent.trim() && e.getClientRects().length)
  .map(e => [e.textContent, e.getBoundingClientRect()]);
const found = [];
for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length; j++) {
  const a = boxes[i][1], b = boxes[j][1];
  const x = Math.min(a.right, b.right) - Math.max(a.left, b.left);
  const y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
  if (x > 1 && y > 3) found.push([boxes[i][0], boxes[j][0], x, y]);
}
return found;
"""


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("p", [10, 800])
def test_nothing_overlaps_or_leaves_the_page(open_report, build, p, width):
    long = [f"a long name of measurement {k} in the laboratory panel_{k % 7}" for k in range(p)]
    result = build(p=p, names=long, groups={"first half": long[: p // 2], "second": long[p // 2 :]})
    browser = open_report(result, width=width)
    size = browser.execute_script(
        "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert size[0] <= size[1]
    for selector in (
        "svg text",
        ".bar-label, .bar-value",
        ".heat-rows span, .heat-columns span",
        "h1, h2, h3, nav a, header button, .controls > *, figcaption, .warning",
    ):
        assert browser.execute_script(OVERLAPS, selector) == [], selector
    outside = browser.execute_script(
        "return Array.from(document.querySelectorAll('svg text, .bar-value, h1, figcaption'))"
        ".filter(e => e.getBoundingClientRect().right > innerWidth + 1"
        " || e.getBoundingClientRect().left < -1).map(e => e.textContent)"
    )
    assert outside == []


@pytest.mark.parametrize("width", [400, 1400])
def test_ticks_of_the_tree_stay_apart_and_shares_stay_whole(open_report, width):
    generator = np.random.default_rng(0)
    common = generator.standard_normal((200, 1))
    X = common + 0.5 * generator.standard_normal((200, 3))
    names = ["a", "b", "a long name of a measurement in a laboratory"]
    frame = pd.DataFrame(X, columns=names)
    y = X.sum(axis=1) + generator.standard_normal(200)
    browser = open_report(dfi.explain(frame, y, "linear", cv=2), width=width)
    ticks = browser.execute_script(
        "return Array.from(document.querySelectorAll('.tree-axis text'))"
        ".filter(e => e.getClientRects().length).map(e => e.getBoundingClientRect())"
    )
    assert len(ticks) == (3 if width == 400 else 5)
    assert all(b["left"] - a["right"] >= 8 for a, b in itertools.pairwise(ticks))
    cut = browser.execute_script(
        "return Array.from(document.querySelectorAll('.tree-rows small'))"
        ".filter(e => e.scrollWidth > e.clientWidth + 1 && e.clientWidth).length"
    )
    assert cut == 0


def test_headings_and_alternatives_for_screen_readers(open_report, build):
    browser = open_report(build(p=30))
    levels = browser.execute_script(
        "return Array.from(document.querySelectorAll('h1,h2,h3')).map(h => Number(h.tagName[1]))"
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
    silent = browser.execute_script(
        "return Array.from(document.querySelectorAll('svg')).filter(s =>"
        " !s.closest('[aria-hidden=true]') && !s.getAttribute('aria-label')).length"
    )
    assert silent == 0
    unnamed = browser.execute_script(
        "return Array.from(document.querySelectorAll('button, input')).filter(e =>"
        " !(e.textContent.trim() || e.ariaLabel || (e.labels && e.labels.length))).length"
    )
    assert unnamed == 0
    assert browser.execute_script("return document.documentElement.lang") == "en"


@pytest.mark.parametrize("width", [400, 1400])
def test_units_open_to_show_what_is_inside(open_report, build, width):
    parts = [("a level with a long name, in all its words", 0.5, 1.0), ("b", 0.2, -3.0)]
    members = [{"name": n, "share": s, "mean": m} for n, s, m in (*parts, ("missing", 0.3, 2.0))]
    unit = {"kind": "category", "n_members": 3, "missing": 0.3, "members": members}
    browser = open_report(build(diagnostics={"units": {"f0": unit, "f3": unit}}), width)
    first, second = browser.find_elements("css selector", "#inside details")
    table = first.find_element("css selector", "table")
    assert not table.is_displayed()
    first.find_element("css selector", "summary").click()
    wait_until(table.is_displayed)
    assert not second.find_element("css selector", "table").is_displayed()
    assert [row.text for row in table.find_elements("css selector", "tbody th")][1:] == [
        "b",
        "missing",
    ]
    wide, right = browser.execute_script(
        "return [document.documentElement.scrollWidth, arguments[0].getBoundingClientRect().right]",
        table,
    )
    assert wide <= width
    assert right <= width


NOTEBOOK = """
.jp-RenderedHTMLCommon table { border-collapse: collapse; table-layout: fixed; font-size: 12px }
.jp-RenderedHTMLCommon td, .jp-RenderedHTMLCommon th { padding: 0.5em; white-space: normal }
"""
"""What notebooks and nbconvert say of tables."""


@pytest.mark.parametrize("width", [600, 1000])
def test_columns_of_a_notebook_table_do_not_overprint(chromium, build, tmp_path, width):
    path = tmp_path / "notebook.html"
    path.write_text(
        f"<!doctype html><meta charset=utf-8><style>{NOTEBOOK}</style>"
        f"<div class=jp-RenderedHTMLCommon style='width:{width}px'>{build()._repr_html_()}</div>"
    )
    resize(chromium, 1200)
    chromium.get(path.as_uri())
    wide = chromium.execute_script(
        "return Array.from(document.querySelectorAll('td, th'))"
        ".filter(cell => cell.scrollWidth > cell.clientWidth + 1).map(cell => cell.textContent)"
    )
    assert wide == []
