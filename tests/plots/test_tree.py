"""The plot of the tree: many features with long names stay apart."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import dfi
from dfi import plots

from .test_plots import assert_apart, assert_inside, drawn


def shared(p=30):
    generator = np.random.default_rng(0)
    common = generator.normal(size=(300, p // 3)).repeat(3, axis=1)
    X = pd.DataFrame(common + 0.3 * generator.normal(size=(300, p)))
    X.columns = [f"a long name of measurement {k} in the $laboratory$" for k in range(p)]
    y = X.to_numpy() @ np.linspace(1.0, 0.0, p) + generator.normal(size=300)
    return dfi.explain(X, y, "linear", cv=2, diagnose=False, transport_error="ignore")


def test_names_and_numbers_stay_apart():
    result = shared()
    _, given = plt.subplots(figsize=(7, 6))
    assert plots.tree(result, ax=given) is given
    ax = plots.tree(result)
    renderer = drawn(ax)
    assert len(ax.get_yticklabels()) == 20
    assert "the 20 largest of 30" in ax.get_title(loc="left")
    assert_apart(ax.get_yticklabels(), renderer)
    assert_inside([*ax.get_yticklabels(), ax._left_title, *ax.texts], ax.figure, renderer)
    assert len(plots.tree_data(result, top=None)) == 29
    assert len(plots.tree(result, top=None).get_yticklabels()) == 30
