import os
import shutil
from dataclasses import replace

import numpy as np
import pytest

from dfi._data.groups import read_groups
from dfi._data.weights import Weights
from dfi._models.quality import combined_quality, regression_quality
from dfi.inference.influence import InfluenceRows
from dfi.losses import BRIER, LOG_LOSS
from dfi.results.importance import Importance, Quality

EVIL = [
    "<script>alert(1)</script>",
    "</script><script>window.broken=1</script>",
    '"><img src=x onerror="window.broken=1">',
    "{{ 7 * 7 }}",
    "a & b < c",
    "' onmouseover='window.broken=1",
    "javascript:window.broken=1",
    'comma, "quote"\nnew line',
    "naïve Größe 数",
    "=1+1",
]

HOSTILE = [
    *EVIL,
    "<svg onload=window.broken=1>",
    "<img src=http://evil.example/pixel.png>",
    "<iframe src='javascript:parent.broken=1'></iframe>",
    "</title><script>window.broken=1</script>",
    "</style><script>window.broken=1</script>",
    "--><script>window.broken=1</script><!--",
    "<!--<script>",
    "]]><script>window.broken=1</script>",
    '"]}</script><script>window.broken=1//',
    "\\u003cscript\\u003ewindow.broken=1",
    "<meta http-equiv=refresh content='0;url=http://evil.example/'>",
    "<link rel=stylesheet href=//evil.example/style.css>",
    "<base href=http://evil.example/>",
    "<form action=http://evil.example/><input type=submit>",
    "<a href=javascript:window.broken=1>click</a>",
    "{% for x in ().__class__.__base__.__subclasses__() %}{{ x }}{% endfor %}",
    "url(http://evil.example/x.png)",
    "@import 'http://evil.example/x.css'",
    "a\u202egnp.exe\u2066",
    "line\u2028paragraph\u2029end",
    "escape \x1b]0;title\x07 and \x9b2J",
    "`${window.broken=1}`",
    "__proto__",
    "constructor",
    "&lt;script&gt;window.broken=1&lt;/script&gt;",
]


def build(p=10, n=150, seed=0, names=None, r2=0.5, groups=None, **changes):
    rng = np.random.default_rng(seed)
    names = tuple(f"f{k}" for k in range(p)) if names is None else tuple(names)
    latent = rng.standard_normal((n, p)) + np.linspace(2.0, 0.0, p)
    root = np.eye(p)
    for start in range(0, p // 2, 3):
        root[start : start + 3, start : start + 3] += 0.6
    weights = root**2 / np.sum(root**2, axis=0)
    ones = Weights(np.ones(n), "frequency")
    shared = {
        "names": names,
        "spec": {
            "method": "dfi",
            "transport": "gaussian",
            "estimator": "ridge",
            "random_state": 7,
            "versions": {"dfi": "0.1.0"},
            "data_sha256": "ab" * 32,
        },
        "quality": Quality(r2, (r2, r2 - 0.1, float("nan")), 0.05, 1.0, 4.0, n),
        "library": "pandas",
        "diagnostics": {
            "n_latent": p,
            "findings": [
                {
                    "kind": "dependence",
                    "severity": "care",
                    "about": list(names[:2]),
                    "what": "the latent coordinates of {!r} and {!r} stay dependent".format(
                        *names[:2]
                    ),
                }
            ]
            if p > 1
            else [],
            "latent": {
                "max_correlation": 0.01,
                "auc": 0.7,
                "chance_auc": 0.58,
                "max_marginal_distance": 0.03,
                "null_marginal_distance": 0.09,
                "n_rows": n,
            },
        },
        "default_groups": None if groups is None else read_groups(groups, names),
    }
    values = {
        "influence": latent @ weights.T,
        "latent": Importance(InfluenceRows(latent, ones), space="latent", **shared),
        "attribution": weights,
        **shared,
    }
    values |= changes
    return Importance(InfluenceRows(values.pop("influence"), ones), **values)


@pytest.fixture(name="build")
def build_fixture():
    return build


def with_totals(result, loss, outcome, seed=0, **changes):
    """The same under another loss: small scores, a null loss of .5, and most of it explained."""
    n, p = result.basis.n_rows, len(result.names)
    rng = np.random.default_rng(seed)
    u = np.linspace(0.1, 0.0, p) + 0.05 * rng.standard_normal((n, p))
    totals = np.column_stack([np.full(n, 0.5), 0.9 * u.sum(axis=1) + 0.05 * rng.uniform(size=n)])
    ones = Weights(np.ones(n), "frequency")
    return replace(
        result,
        basis=InfluenceRows(u, ones),
        totals=InfluenceRows(totals, ones),
        spec={**result.spec, "loss": loss, "outcome": outcome},
        **changes,
    )


def binary(seed=0, **changes):
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.02, 0.98, 150)
    y = (rng.uniform(size=150) < p).astype(float)
    ones = Weights(np.ones(150), "frequency")
    folds = [(np.arange(150)[k::3], p[k::3]) for k in range(3)]
    outcome = {
        "name": "default", "kind": "binary", "classes": ["No", "Yes"], "positive": "Yes",
    }  # fmt: skip
    quality = regression_quality(folds, y, ones, loss=BRIER)
    return with_totals(build(p=4), "brier", outcome, quality=quality, **changes)


def multiclass(classes=("Adelie", "Chinstrap", "Gentoo"), p=4, **changes):
    rng = np.random.default_rng(3)
    label = rng.integers(0, len(classes), 150)
    guess = rng.dirichlet(np.ones(len(classes)), 150) * 0.5 + 0.5 * np.eye(len(classes))[label]
    ones = Weights(np.ones(150), "frequency")
    outcome = {"name": "species", "kind": "classes", "classes": list(classes), "positive": None}
    parts = {}
    for k, name in enumerate(classes):
        folds = [(np.arange(150)[f::3], guess[f::3, k]) for f in range(3)]
        y = (label == k).astype(float)
        quality = regression_quality(folds, y, ones, loss=LOG_LOSS.each_class, warns=False)
        part = with_totals(build(p=p), "log-loss", outcome, seed=k, quality=quality)
        parts[name] = replace(part, latent=None, attribution=None)
    held = list(parts.values())
    whole = {
        "basis": InfluenceRows(sum(part.influence for part in held), ones),
        "totals": InfluenceRows(sum(part.totals.values for part in held), ones),
        "quality": combined_quality({name: part.quality for name, part in parts.items()}),
        "spec": held[0].spec,
        "by_outcome": parts,
    }
    return replace(build(p=p), **(whole | changes))


@pytest.fixture(name="binary")
def binary_fixture():
    return binary


@pytest.fixture(name="multiclass")
def multiclass_fixture():
    return multiclass


@pytest.fixture
def evil():
    return build(names=EVIL, groups={"<b>group</b>": EVIL[:3], "rest": EVIL[3:]})


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    """Debian's Chromium, cut off from any network, driven by selenium."""
    program = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    driver = shutil.which("chromedriver")
    missing = "chromium" if program is None else "chromedriver" if driver is None else None
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        missing = "selenium"
    if missing is not None:
        reason = f"{missing} is not installed (apt-get install chromium chromium-driver)"
        if os.environ.get("DFI_BROWSER") == "required":
            pytest.fail(reason)
        pytest.skip(reason)
    options = webdriver.ChromeOptions()
    options.binary_location = program
    folder = tmp_path_factory.mktemp("chromium")
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--user-data-dir={folder / 'profile'}",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(driver))
    downloads = folder / "downloads"
    downloads.mkdir()
    browser.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)}
    )
    browser.downloads = downloads
    yield browser
    browser.quit()
