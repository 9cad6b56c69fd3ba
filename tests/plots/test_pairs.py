"""Plots of pairs and of splits: what is drawn is what their tables say, and names are text."""

import matplotlib.pyplot as plt
import numpy as np
import polars as pl
import pytest

from dfi import Interactions, Split, plots
from dfi._data.weights import Weights
from dfi.inference.influence import InfluenceRows


def pairs(p=6, n=60, names=None, library="pandas", features=None):
    rng = np.random.default_rng(0)
    names = tuple(f"f{k}" for k in range(p)) if names is None else tuple(names)
    chosen = [(names[i], names[j]) for i in range(p) for j in range(i + 1, p)][: 3 * p]
    values = rng.standard_normal((n, len(chosen))) + np.linspace(2.0, -0.2, len(chosen))
    basis = InfluenceRows(
        np.column_stack([values, 10 + rng.standard_normal(n)]),
        Weights(np.ones(n), "frequency"),
        np.arange(n),
    )
    if features is None:
        features = {name: rng.standard_normal(n) for name in names[: p - 1]}
        features[names[-1]] = np.array(["one", "two", None], dtype=object)[np.arange(n) % 3]
    return Interactions(
        pairs=tuple(chosen),
        basis=basis,
        whole=np.zeros(len(chosen)),
        names=names,
        own=np.zeros(p),
        effects=rng.standard_normal((n, len(chosen))),
        features=features,
        library=library,
    )


def parted(p=6, n=60, names=None, library="pandas"):
    rng = np.random.default_rng(0)
    names = tuple(f"f{k}" for k in range(p)) if names is None else tuple(names)
    means = np.concatenate([np.linspace(3, 0, p), np.linspace(1, -1, p), np.ones(p), [20.0]])
    values = means + rng.standard_normal((n, 3 * p + 1))
    basis = InfluenceRows(values, Weights(np.ones(n), "frequency"), np.arange(n))
    return Split(names=names, basis=basis, partners=np.full((p, p), 0.1), library=library)


@pytest.mark.parametrize("kind", ["interactions", "surface", "split"])
def test_axes_in_axes_out(kind, monkeypatch):
    monkeypatch.setattr(plt, "show", lambda *_: pytest.fail("a plot called show()"))
    make = parted if kind == "split" else pairs
    _, ax = plt.subplots()
    assert getattr(plots, kind)(make(), ax=ax) is ax
    assert isinstance(getattr(plots, f"{kind}_data")(make(library="polars")), pl.DataFrame)
    assert (make().plot() if kind == "split" else make().plot(kind)) is not ax


@pytest.mark.parametrize(
    "page", ["default", pytest.param("dark_background", marks=pytest.mark.full)]
)
def test_wide_tables_and_hostile_names_are_drawn(page):
    names = [f"a long name of $measurement$ {k} <b>_panel^{k % 7}\n" for k in range(40)]
    with plt.style.context(page):
        for ax in (pairs(40, names=names).plot(), parted(40, names=names).plot()):
            ax.figure.canvas.draw()
            labels = [text.get_text() for text in ax.get_yticklabels()]
            assert len(set(labels)) == len(labels)


def test_a_heat_map_has_the_scores_of_its_pairs():
    scored = pairs(4)
    data = plots.interactions_data(scored)
    assert data["score"].to_numpy() == pytest.approx(scored.table()["score"].to_numpy())
    texts = [text.get_text() for text in plots.interactions(scored).texts]
    assert len(texts) == 2 * len(scored)
    assert any(text.endswith("*") for text in texts)
    assert len(plots.interactions(pairs(20), top=5).get_yticklabels()) == 5


def test_a_surface_is_of_one_pair_and_of_values():
    scored = pairs(3)
    ax = scored.plot("surface", pair=("f2", "f0"))
    assert [text.get_text() for text in ax.get_xticklabels()] == ["missing", "one", "two"]
    data = plots.surface_data(scored, pair=("f2", "f0"))
    at = scored.place_of(("f0", "f2"))
    assert data["effect"].to_numpy() == pytest.approx(scored.effects[:, at])
    flat = pairs(3, features={name: np.ones(60) for name in ("f0", "f1", "f2")})
    assert flat.plot("surface").get_xlabel() == "f0"
    with pytest.raises(ValueError, match="is a group of columns"):
        pairs(3, features={}).plot("surface")
    with pytest.raises(ValueError, match="unknown plot 'heat'"):
        scored.plot("heat")


def test_bars_of_a_split_end_where_its_parts_do():
    found = parted()
    shown = plots.split_data(found)
    ax = plots.split(found)
    ends = [0.0, 0.0]
    for patch in ax.patches:
        ends = [min(ends[0], patch.get_x() + patch.get_width(), patch.get_x()),
                max(ends[1], patch.get_x() + patch.get_width())]  # fmt: skip
    parts = shown[["unique", "shared", "interaction"]].to_numpy()
    assert ends[1] == pytest.approx(np.where(parts > 0, parts, 0).sum(axis=1).max())
    assert ends[0] == pytest.approx(np.where(parts < 0, parts, 0).sum(axis=1).min())
