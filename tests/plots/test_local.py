"""Plots of single rows: what is drawn is what their tables say, and names are text."""

import matplotlib.pyplot as plt
import numpy as np
import polars as pl
import pytest

from dfi import plots
from dfi.results.local import LocalAttributions

KINDS = ["beeswarm", "waterfall", "dependence"]


def build(p=10, n=60, names=None, seed=0, library="pandas", spread=True):
    rng = np.random.default_rng(seed)
    names = tuple(f"f{k}" for k in range(p)) if names is None else tuple(names)
    values = rng.standard_normal((n, p)) * np.linspace(2.0, 0.1, p)
    base = np.full(n, 1.5)
    features = {name: rng.standard_normal(n) for name in names[: p - 1]}
    features[names[-1]] = np.array(["one", "two", None], dtype=object)[np.arange(n) % 3]
    return LocalAttributions(
        values=values,
        names=names,
        base=base,
        prediction=base + values.sum(axis=1),
        spread=np.full((n, p), 0.1 if spread else np.nan),
        total=values,
        higher_order=np.zeros(n),
        reliability=np.ones(p),
        rows=np.arange(100, 100 + n),
        features=features,
        spec={"explains": "the predicted y"},
        library=library,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_axes_in_axes_out(kind, monkeypatch):
    monkeypatch.setattr(plt, "show", lambda *_: pytest.fail("a plot called show()"))
    local = build()
    _, ax = plt.subplots()
    assert getattr(plots, kind)(local, ax=ax) is ax
    assert local.plot(kind) is not ax
    assert isinstance(getattr(plots, f"{kind}_data")(build(library="polars")), pl.DataFrame)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "page", ["default", pytest.param("dark_background", marks=pytest.mark.full)]
)
def test_wide_tables_and_hostile_names_are_drawn(kind, page):
    names = [f"a long name of $measurement$ {k} <b>_panel^{k % 7}\n" for k in range(200)]
    with plt.style.context(page):
        ax = build(200, names=names, spread=False).plot(kind)
        ax.figure.canvas.draw()
    labels = [text.get_text() for text in ax.get_yticklabels()]
    assert len(set(labels)) == len(labels)


def test_a_waterfall_leads_from_the_base_to_the_prediction():
    local = build()
    data = plots.waterfall_data(local, row=103, top=4)
    assert list(data.feature[-1:]) == ["6 other units"]
    assert data.start.iloc[-1] == pytest.approx(1.5)
    assert data.end.iloc[0] == pytest.approx(local.prediction[3])
    np.testing.assert_allclose(data.start[:-1], data.end[1:])
    np.testing.assert_allclose(data.contribution, data.end - data.start)
    ax = plots.waterfall(local, row=103, top=4)
    bars = sorted(ax.patches, key=lambda bar: bar.get_y())
    np.testing.assert_allclose([bar.get_width() for bar in bars], data.contribution)
    told = [text.get_text() for text in ax.get_legend().get_texts()]
    assert any("not a confidence interval" in text for text in told)
    with pytest.raises(ValueError, match="row 3 was not explained; the rows are 100"):
        plots.waterfall(local, row=3)


def test_a_beeswarm_has_every_row_of_the_largest_units():
    local = build(p=30)
    data = plots.beeswarm_data(local, top=5)
    order = np.argsort(-local.mean_absolute)[:5]
    assert list(dict.fromkeys(data.feature)) == [local.names[k] for k in order]
    np.testing.assert_array_equal(
        data.contribution.to_numpy().reshape(5, -1), local.values[:, order].T
    )
    ax = plots.beeswarm(local, top=5)
    assert "5 largest of 30" in ax.get_title(loc="left")
    drawn = sum(len(points.get_offsets()) for points in ax.collections)
    assert drawn == 5 * len(local)


def test_dependence_takes_levels_and_refuses_groups():
    local = build()
    ax = plots.dependence(local, feature="f9")
    assert [text.get_text() for text in ax.get_xticklabels()] == ["missing", "one", "two"]
    data = plots.dependence_data(local, feature="f0", color="f1")
    np.testing.assert_array_equal(data.contribution, local.values[:, 0])
    np.testing.assert_array_equal(data.color, local.features["f1"])
    with pytest.raises(ValueError, match="there is no unit 'f77'"):
        plots.dependence(local, feature="f77")
    grouped = build()
    object.__setattr__(grouped, "features", {})
    with pytest.raises(ValueError, match="is a group of columns and has no value of its own"):
        plots.dependence(grouped, feature="f0")


def test_other_kinds_are_refused_by_name():
    with pytest.raises(ValueError, match="unknown plot 'waterfal'; did you mean 'waterfall'"):
        build().plot("waterfal")


def test_labels_of_a_category_fit_beside_its_name():
    local = build(n=20)
    local.features["f9"][:] = np.resize([f"label {k} of many" for k in range(4)], 20)
    labels = [text.get_text() for text in plots.beeswarm(local).get_yticklabels()]
    (label,) = [text for text in labels if text.startswith("f9")]
    assert label.count("…") == 3  # of both labels, and between them
    assert len(label) <= 40
