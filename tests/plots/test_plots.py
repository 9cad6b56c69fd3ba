import inspect
import itertools
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import polars as pl
import pytest
from matplotlib.colors import to_hex

import dfi
from dfi import plots
from dfi._data.weights import Weights
from dfi.inference.influence import InfluenceRows
from dfi.plots.style import BLUE
from dfi.results.collection import Results
from dfi.results.importance import Importance, Quality

SINGLE = ["importance", "latent_attributed", "attribution", "amplification", "diagnostics"]


def drawn(ax):
    figure = ax.figure
    figure.canvas.draw()
    return figure.canvas.get_renderer()


def boxes(texts, renderer):
    return [t.get_window_extent(renderer) for t in texts if t.get_text() and t.get_visible()]


def assert_apart(texts, renderer):
    found = boxes(texts, renderer)
    assert found
    for i, first in enumerate(found):
        for second in found[i + 1 :]:
            overlap = first.shrunk(0.98, 0.98).overlaps(second.shrunk(0.98, 0.98))
            assert not overlap, (first, second)


def assert_inside(texts, figure, renderer):
    for box in boxes(texts, renderer):
        assert box.x0 >= -1
        assert box.y0 >= -1
        assert box.x1 <= figure.bbox.x1 + 1
        assert box.y1 <= figure.bbox.y1 + 1


@pytest.mark.parametrize("name", SINGLE)
def test_axes_in_axes_out(name, result):
    _, ax = plt.subplots()
    assert getattr(plots, name)(result, ax=ax) is ax
    assert getattr(plots, name)(result) is not ax


def test_no_plot_shows(monkeypatch, result):
    monkeypatch.setattr(plt, "show", lambda *_: pytest.fail("a plot called show()"))
    for name in SINGLE:
        getattr(plots, name)(result)


def test_every_plot_has_its_table():
    names = [n for n in plots.__all__ if not n.endswith("_data") and not n.startswith("plot_")]
    assert all(f"{name}_data" in plots.__all__ for name in names)
    for name in names:
        parameters = inspect.signature(getattr(plots, name)).parameters
        assert {"ax", "axes"} & set(parameters)


def test_tables_come_in_the_callers_library(build):
    result = build(library="polars")
    for name in SINGLE:
        assert isinstance(getattr(plots, f"{name}_data")(result), pl.DataFrame)


def test_bars_are_the_scores_and_lines_the_intervals(result):
    ax = plots.importance(result, top=7)
    data = plots.importance_data(result, top=7)
    bars = sorted((b.get_y() + b.get_height() / 2, b) for b in ax.patches)
    np.testing.assert_allclose([b.get_width() for _, b in bars], data["score"])
    segments = np.array(ax.collections[0].get_segments())
    np.testing.assert_allclose(segments[:, 0, 0], data["ci_low"])
    np.testing.assert_allclose(segments[:, 1, 0], data["ci_high"])
    assert [t.get_text() for t in ax.get_yticklabels()] == list(data["feature"])
    filled = [
        to_hex(b.get_facecolor()) == BLUE.lower() and b.get_facecolor()[3] == 1 for _, b in bars
    ]
    assert filled == list(data["significant"])
    assert sum(t.get_text() == "*" for t in ax.texts) == data["significant"].sum()
    assert data["significant"].tolist() == (data["p_adj"] <= 0.05).tolist()


def test_adjustment_counts_all_units_shown_or_not(result):
    few = plots.importance_data(result, top=3)
    every = plots.importance_data(result, top=None)
    assert few["p_adj"].tolist() == every["p_adj"].tolist()[:3]


def test_a_degenerate_unit_has_a_bar_without_an_interval(build):
    result = build(p=3, degenerate=np.array([False, False, True]))
    ax = plots.importance(result)
    drawn(ax)
    assert len(ax.collections[0].get_segments()) == 2
    assert len(ax.get_yticklabels()) == 3


@pytest.mark.parametrize("top", [0, -1, 1.5, True])
def test_top_must_be_a_positive_number(top, result):
    with pytest.raises(ValueError, match="top must be a whole number of 1 or more"):
        plots.importance(result, top=top)


@pytest.mark.full
@pytest.mark.parametrize("name", ["importance", "latent_attributed", "attribution"])
@pytest.mark.parametrize("top", [20, None])
def test_labels_of_800_long_names_do_not_overlap(name, top, wide):
    ax = getattr(plots, name)(wide, top=top)
    renderer = drawn(ax)
    labels = ax.get_yticklabels()
    assert_apart(labels, renderer)
    assert_inside(labels, ax.figure, renderer)
    texts = [t.get_text() for t in labels]
    assert len(set(texts)) == len(texts)


def test_labels_fit_into_small_given_axes(wide):
    _, ax = plt.subplots(figsize=(4, 2))
    plots.importance(wide, top=100, ax=ax)
    assert_apart(ax.get_yticklabels(), drawn(ax))


def test_named_points_of_the_scatter_do_not_overlap(wide):
    ax = plots.amplification(wide, top=40)
    renderer = drawn(ax)
    assert_apart(ax.texts, renderer)


def test_dollar_signs_and_braces_are_text(build):
    result = build(p=3, names=["$x^{2$", "a_{b", "new\nline"])
    for name in SINGLE:
        ax = getattr(plots, name)(result)
        drawn(ax)
    labels = {t.get_text() for t in plots.importance(result).get_yticklabels()}
    assert labels == {"$x^{2$", "a_{b", "new line"}


def test_attribution_draws_the_weights_in_clustered_order(result):
    ax = plots.attribution(result, top=None)
    order = [int(t.get_text()[1:]) for t in ax.get_yticklabels()]
    image = np.asarray(ax.images[0].get_array())
    np.testing.assert_allclose(image, result.attribution[np.ix_(order, order)])
    blocks = [order[k] // 3 for k in range(len(order))]
    assert sum(a != b for a, b in itertools.pairwise(blocks)) == 3
    data = plots.attribution_data(result, top=None)
    row = data[(data["feature"] == "f1") & (data["latent"] == "f0")]
    assert row["weight"].item() == pytest.approx(result.attribution[1, 0])


def test_amplification_is_the_ratio_of_scores(result):
    data = plots.amplification_data(result).set_index("feature")
    expected = result.scores[4] / result.latent.scores[4]
    assert data.loc["f4", "amplification"] == pytest.approx(expected)
    points = [line for line in plots.amplification(result).lines if line.get_label() != "equal"]
    assert sum(len(line.get_xdata()) for line in points) == 12


def test_latent_attributed_has_both_scores(result):
    data = plots.latent_attributed_data(result, top=5)
    assert len(data) == 5
    ax = plots.latent_attributed(result, top=5)
    marks = {line.get_label(): line.get_xdata() for line in ax.lines}
    np.testing.assert_allclose(marks["latent"], data["latent_score"])
    np.testing.assert_allclose(marks["attributed"], data["attributed_score"])


@pytest.mark.parametrize("name", ["latent_attributed", "amplification"])
def test_plots_of_the_latent_side_say_when_there_is_none(name, result):
    with pytest.raises(ValueError, match=r"\(latent\) has no latent scores"):
        getattr(plots, name)(result.latent)


def test_attribution_says_when_there_is_none(result):
    with pytest.raises(ValueError, match="has no attribution weights"):
        plots.attribution(result.latent)


def test_diagnostics_against_chance(result, build):
    data = plots.diagnostics_data(result)
    assert (data["value"] > data["chance"]).tolist() == [False, True, False]
    hatched = [bar.get_hatch() for bar in plots.diagnostics(result).patches]
    assert [bool(h) for h in hatched] == [False, True, False]
    with pytest.raises(ValueError, match="diagnose=True"):
        plots.diagnostics(build(diagnostics={}))


GROUPS = {"first": ["f0", "f1", "f2"], "second": ["f3", "f4"], "last": ["f11"]}


def test_groups_in_four_panels(result):
    axes = plots.groups(result, GROUPS)
    assert axes.shape == (4,)
    data = plots.groups_data(result, GROUPS)
    grouped = result.group(GROUPS)
    assert list(data["feature"]) == ["first", "second", "last"]
    np.testing.assert_allclose([b.get_width() for b in axes[0].patches], data["score"])
    np.testing.assert_allclose(data["score"], grouped.scores)
    np.testing.assert_allclose(np.asarray(axes[3].images[0].get_array()), grouped.attribution)
    assert plots.groups(grouped, axes=list(axes))[0] is axes[0]


def test_group_correlation_is_the_mean_over_members(result):
    rng = np.random.default_rng(1)
    correlation = np.corrcoef(rng.standard_normal((12, 40)))
    axes = plots.groups(result, GROUPS, correlation=correlation)
    shown = np.asarray(axes[2].images[0].get_array())
    assert shown[0, 1] == pytest.approx(np.abs(correlation[:3, 3:5]).mean())
    inside = np.abs(correlation[:3, :3])[np.triu_indices(3, 1)]
    assert shown[0, 0] == pytest.approx(inside.mean())
    assert shown[2, 2] == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "no groups were given"),
        ({"groups": GROUPS, "axes": [None]}, "needs 4 axes, got 1"),
        ({"groups": GROUPS, "correlation": np.eye(3)}, r"shape \(12, 12\)"),
    ],
)
def test_group_panel_refuses(arguments, message, result):
    with pytest.raises(ValueError, match=message):
        plots.groups(result, **arguments)


def test_group_panel_of_groups_takes_no_groups(result):
    grouped = result.group(GROUPS)
    with pytest.raises(ValueError, match="already has groups"):
        plots.groups(grouped, GROUPS)


def test_comparison_keeps_the_order_of_the_first_method(result, build):
    other = build(seed=5)
    reordered = build(seed=5, names=[f"f{k}" for k in range(12)])
    axes = plots.comparison({"dfi": result, "other $": other, "third": reordered}, top=6)
    assert [ax.get_title() for ax in axes] == ["dfi", "other $", "third"]
    data = plots.comparison_data({"dfi": result, "other": other}, top=6)
    first = data[data["method"] == "dfi"]
    assert first["score"].is_monotonic_decreasing
    assert data[data["method"] == "other"]["feature"].tolist() == first["feature"].tolist()
    shares = plots.comparison_data({"dfi": result}, top=None, share=True)
    assert shares["score"].sum() == pytest.approx(1.0)
    drawn(axes[0])


def test_comparison_takes_results_by_label_and_refuses_others(result, build):
    assert len(plots.comparison(Results({"dfi": result}))) == 1
    settings = {"one": result, "two": result}
    assert [ax.get_title() for ax in plots.comparison(settings)] == ["one", "two"]
    with pytest.raises(TypeError, match=r"pass \{label: result"):
        plots.comparison(3)
    with pytest.raises(ValueError, match="no results"):
        plots.comparison({})
    with pytest.raises(ValueError, match="'b' has other units"):
        plots.comparison({"a": result, "b": build(p=5)})
    with pytest.raises(ValueError, match="1 methods need 1 axes"):
        plots.comparison({"a": result}, axes=[])


def test_bump_chart_has_the_ranks(result, build):
    settings = {"eps 0": result, "eps 1": build(seed=3), "eps 2": build(seed=4)}
    data = plots.sensitivity_data(settings, top=12)
    assert data[data["setting"] == "eps 0"]["rank"].tolist() == list(range(1, 13))
    for setting, group in data.groupby("setting"):
        expected = (-settings[setting].scores).argsort().argsort() + 1
        found = group.set_index("feature")["rank"]
        assert [found[f"f{k}"] for k in range(12)] == expected.tolist()
    ax = plots.sensitivity(settings, top=5)
    assert len(ax.lines) == 5
    renderer = drawn(ax)
    assert_apart(ax.get_yticklabels(), renderer)
    assert_apart(ax.get_xticklabels(), renderer)


def test_bump_chart_names_every_setting_in_full(result, build):
    names = ["gaussian", "knothe-rosenblatt", "semicontinuous", "entropic (epsilon = 0.25)"]
    ax = plots.sensitivity({name: build(seed=k) for k, name in enumerate(names)})
    assert [label.get_text() for label in ax.get_xticklabels()] == names
    assert ax.get_xlabel() == "setting"
    renderer = drawn(ax)
    assert_inside([*ax.get_xticklabels(), ax.xaxis.label], ax.figure, renderer)


def test_profile_of_a_linear_model_is_a_straight_line(explainer):
    data = plots.line_profile_data(explainer, "a")
    slopes = np.diff(data["mean"]) / np.diff(data["latent"])
    np.testing.assert_allclose(slopes, slopes[0])
    active = list(explainer.transport_.active)
    table = explainer.models_[0].predictors[0].table
    direction = explainer.transport_.directions[:, active.index(0)]
    models = [p for fold in explainer.models_ for p in fold.predictors]
    base = table.matrix[:1]
    expected = np.mean([(m(base + direction) - m(base))[0] for m in models])
    assert slopes[0] == pytest.approx(expected, rel=0.02)
    assert plots.line_profile(explainer, "a").get_ylabel() == "prediction"


def test_profile_of_a_level_and_its_errors(explainer):
    assert "kind = y" in plots.line_profile(explainer, "kind", level="y").get_xlabel()
    with pytest.raises(ValueError, match="categorical; pass level= one of 'x', 'y', 'z'"):
        plots.line_profile(explainer, "kind")
    with pytest.raises(ValueError, match="'flat' is constant"):
        plots.line_profile(explainer, "flat")
    with pytest.raises(ValueError, match="there is no feature 'A'"):
        plots.line_profile(explainer, "A")


def test_profile_needs_a_fitted_explainer():
    import dfi

    with pytest.raises(ValueError, match="call fit first"):
        plots.line_profile(dfi.DFI(), "a")


def test_result_draws_by_name(result):
    _, ax = plt.subplots()
    assert result.plot(top=3, ax=ax) is ax
    assert len(ax.get_yticklabels()) == 3
    assert result.plot("amplification").get_ylabel() == "attributed score"
    with pytest.raises(ValueError, match="unknown plot 'amplfication'; did you mean 'ampl"):
        result.plot("amplfication")


@pytest.mark.filterwarnings("ignore::dfi.warnings.ExtrapolationWarning")
def test_profile_follows_the_curve_of_a_nonlinear_transport():
    import dfi

    sample = dfi.datasets.m1(200, rho=0.8, d=3)
    straight = dfi.DFI(estimator="linear", cv=2, diagnose=False).fit(sample.X, sample.y)
    curved = dfi.DFI(estimator="linear", transport="copula", cv=2, diagnose=False)
    curved.fit(np.exp(sample.X), sample.y)
    data = plots.line_profile_data(curved, "x0")
    slopes = np.diff(data["mean"]) / np.diff(data["latent"])
    assert slopes.max() > 2 * slopes.min() > 0
    gaussian = dfi.DFI(estimator="linear", transport="copula", cv=2, diagnose=False)
    gaussian.fit(sample.X, sample.y)
    same = plots.line_profile_data(gaussian, "x0")
    reference = plots.line_profile_data(straight, "x0")
    rise = [d["mean"].iloc[30] - d["mean"].iloc[10] for d in (same, reference)]
    assert rise[0] == pytest.approx(rise[1], rel=0.15)


@pytest.mark.parametrize(
    ("how", "words"),
    [("sum", "sum over its features"), ("joint", "replaced as one"), ("shapley", "Shapley value")],
)
def test_group_panels_say_how_groups_are_scored(how, words):
    generator = np.random.default_rng(0)
    X = generator.standard_normal((80, 4))
    y = X @ [1.0, 0.5, 0.0, 1.0] + generator.standard_normal(80)
    groups = {"a": ["x0", "x1"], "b": ["x1", "x2"], "c": ["x3"]}
    result = dfi.explain(X, y, "linear", cv=2, diagnose=False)
    panels = result.plot("groups", groups=groups, how=how)
    assert words in panels[0].get_xlabel()
    assert words in result.group(groups, how=how).plot().get_xlabel()


def by_class(p=5, n=200, classes=("Adelie", "Chinstrap", "Gentoo"), totals=True):
    """A result of three classes, whose influence values are their sums."""
    ones = Weights(np.ones(n), "frequency")
    outcome = {"name": "species", "kind": "classes", "classes": list(classes), "positive": None}
    parts = {}
    for k, name in enumerate(classes):
        rng = np.random.default_rng(k)
        u = rng.normal(size=(n, p)) * 0.1 + np.linspace(0.2, 0.0, p)
        explained = np.column_stack([np.full(n, 0.6), u.sum(axis=1) + 0.05])
        parts[name] = Importance(
            InfluenceRows(u, ones),
            tuple(f"f{k}" for k in range(p)),
            {"loss": "log-loss", "outcome": outcome},
            Quality(0.5, (0.5,), 0.1, 0.1, 0.2, n, "log-loss", 0.3, 0.6),
            library="pandas",
            totals=InfluenceRows(explained, ones) if totals else None,
        )
    held = list(parts.values())
    return replace(
        held[0],
        basis=InfluenceRows(sum(part.influence for part in held), ones),
        totals=InfluenceRows(sum(p.totals.values for p in held), ones) if totals else None,
        by_outcome=parts,
    )


def test_classes_are_drawn_with_their_shares_and_add_up():
    result = by_class()
    data = plots.classes_data(result)
    shares = ["share", "share_low", "share_high"]
    assert list(data.columns)[:6] == ["feature", "outcome", *shares, "score"]
    summed = data.groupby("feature")["score"].sum()
    np.testing.assert_allclose(summed[list(result.names)], result.scores)
    ax = result.plot("classes")
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["Adelie", "Chinstrap", "Gentoo"]
    texts = [text.get_text() for text in ax.texts]
    assert texts[0].startswith(f"{100 * data['share'][0]:.0f} %")
    assert texts[0].endswith("*")
    assert "share of the explained loss of the class" in ax.get_title(loc="left")
    assert len(plots.classes_data(result, top=2)) == 6
    assert "the 2 largest of 5" in result.plot("classes", top=2).get_title(loc="left")


def test_the_title_of_classes_stays_within_the_figure():
    result = by_class(p=12)
    names = tuple(f"a measurement of length {k}" for k in range(12))
    parts = {name: replace(part, names=names) for name, part in result.by_outcome.items()}
    result = replace(result, names=names, by_outcome=parts)
    figure = result.plot("classes", top=8).figure
    figure.canvas.draw()
    title = figure.axes[0]._left_title.get_window_extent()
    assert title.x1 <= figure.bbox.x1
    assert title.x0 >= figure.bbox.x0


def test_the_axis_of_a_difference_says_that_it_is_one():
    result = by_class(totals=False).by_outcome["Adelie"]
    assert result.plot().get_xlabel().startswith("importance")
    label = replace(result, difference=True).plot().get_xlabel()
    assert label.startswith("difference of importance")


def test_classes_without_totals_show_scores_and_one_outcome_has_none():
    result = by_class(totals=False)
    first = plots.classes_data(result)["score"][0]
    assert result.plot("classes").texts[0].get_text().startswith(f"{first:.2g}")
    with pytest.raises(ValueError, match="has one outcome: there are no classes"):
        plots.classes(next(iter(result.by_outcome.values())))


def test_many_classes_have_names_but_no_numbers():
    ax = by_class(classes=tuple(f"class number {k}" for k in range(14))).plot("classes")
    assert not ax.texts
    assert len(ax.get_xticklabels()) == 14


def test_scores_tell_shares_unit_and_outcome():
    result = by_class()
    ax = result.plot()
    assert "share of the explained loss (%)" in ax.get_xlabel()
    assert "three classes: Adelie, Chinstrap, Gentoo" in ax.get_xlabel()
    widths = sorted(bar.get_width() for bar in ax.patches)
    np.testing.assert_allclose(widths, sorted(100 * result.shares()["share"]))
    assert "share" in plots.importance_data(result).columns
    assert "nats attributed to the feature" in by_class(totals=False).plot().get_xlabel()
