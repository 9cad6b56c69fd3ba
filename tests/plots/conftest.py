import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import dfi
from dfi._data.weights import Weights
from dfi.inference.influence import InfluenceRows
from dfi.results.importance import Importance, Quality

mpl.use("Agg")


@pytest.fixture(autouse=True)
def close_figures():
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


def build(p=12, n=200, seed=0, names=None, library="pandas", **changes):
    """A result whose scores fall from 2 to 0, in correlated blocks of three."""
    rng = np.random.default_rng(seed)
    names = tuple(f"f{k}" for k in range(p)) if names is None else tuple(names)
    latent = rng.standard_normal((n, p)) + np.linspace(2.0, 0.0, p)
    root = np.eye(p)
    for start in range(0, p, 3):
        root[start : start + 3, start : start + 3] += 0.6
    weights = root**2 / np.sum(root**2, axis=0)
    ones = Weights(np.ones(n), "frequency")
    shared = {
        "names": names,
        "spec": {"transport": "gaussian"},
        "quality": Quality(0.5, (0.5, 0.5), 0.0, 1.0, 4.0, n),
        "library": library,
        "diagnostics": {
            "n_latent": p,
            "latent": {
                "max_correlation": 0.01,
                "auc": 0.7,
                "chance_auc": 0.58,
                "max_marginal_distance": 0.03,
                "null_marginal_distance": 0.09,
                "n_rows": n,
            },
        },
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


@pytest.fixture
def result():
    return build()


@pytest.fixture
def wide():
    """800 features whose long names differ only in the middle or at the end."""
    return build(
        p=800,
        names=[
            f"a long name of measurement {k} in the $laboratory$ panel_{k % 7}" for k in range(800)
        ],
    )


@pytest.fixture(scope="session")
def explainer():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.standard_normal(120), "b": rng.standard_normal(120)})
    frame["c"] = frame["a"] + 0.3 * rng.standard_normal(120)
    frame["kind"] = rng.choice(["x", "y", "z"], 120)
    frame["flat"] = 1.0
    y = 3 * frame["a"] + rng.standard_normal(120)
    with pytest.warns(dfi.warnings.ConstantColumnWarning):
        return dfi.DFI(estimator="linear", cv=3).fit(frame, y)
