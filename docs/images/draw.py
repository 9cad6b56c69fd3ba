"""Draw the pictures of pages, some from `make demo`: python docs/images/draw.py dfi-demo.

Needs chromium and selenium, as the browser tests do.
"""

import io
import shutil
import sys
from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from sklearn.datasets import load_diabetes

import dfi

HERE = Path(__file__).parent
HEIGHT = 1300
WIDE, NARROW, GAP = 1160, 400, 24


def photograph(page: Path, width: int, scheme: str) -> Image.Image:
    """Return the top of the page in a window of some width, dark or light."""
    options = webdriver.ChromeOptions()
    for switch in ("--headless=new", "--no-sandbox", "--hide-scrollbars"):
        options.add_argument(switch)
    browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        window = {"width": width, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", window)
        scheme_feature = {"name": "prefers-color-scheme", "value": scheme}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme_feature]})
        browser.get(page.resolve().as_uri())
        return Image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB")
    finally:
        browser.quit()


def draw_report(page: Path) -> None:
    """Put the page on a desk beside the page on a telephone at night."""
    picture = Image.new("RGB", (WIDE + GAP + NARROW, HEIGHT), (200, 204, 210))
    picture.paste(photograph(page, WIDE, "light"), (0, 0))
    picture.paste(photograph(page, NARROW, "dark"), (WIDE + GAP, 0))
    picture.quantize(128).save(HERE / "report.png", optimize=True)


def draw_plots(result: dfi.Importance) -> None:
    """Put four plots of one result side by side."""
    figure = Figure(figsize=(14.0, 9.6), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12)
    kinds = ("importance", "latent_attributed", "amplification", "attribution")
    for ax, kind in zip(figure.subplots(2, 2).flat, kinds, strict=True):
        result.plot(kind, ax=ax)
    stream = io.BytesIO()
    figure.savefig(stream, dpi=80)
    Image.open(stream).convert("RGB").quantize(128).save(HERE / "plots.png", optimize=True)


def draw_shares() -> None:
    """Draw the bar charts of the README's example and of the site's first page."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    for name, learner in (("readme", "auto"), ("home", "linear")):
        figure = dfi.explain(X, y, learner).plot().figure
        figure.savefig(HERE / f"{name}.png", dpi=150)


if __name__ == "__main__":
    demo = Path(sys.argv[1] if len(sys.argv) > 1 else "dfi-demo")
    draw_shares()
    draw_report(demo / "report.html")
    draw_plots(dfi.load(demo / "result.dfi"))
