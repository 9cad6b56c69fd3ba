"""Shares of totals, results by class, and the words for both."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

import dfi
from dfi._data.weights import Weights
from dfi._models.quality import Quality, combined_quality
from dfi.inference.influence import InfluenceRows
from dfi.inference.intervals import simultaneous_critical_value, stretched
from dfi.inference.shares import beside, shares_of
from dfi.inference.tests import adjust_p_values
from dfi.results import words
from dfi.results.importance import Importance
from dfi.results.tables import ratios
from dfi.warnings import InferenceWarning

NAMES = ("a", "b", "c")
CLASSES = ("Adelie", "Chinstrap", "Gentoo")


def build(seed=0, n=200, explained=1.0, weights=None, **changes):
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(n, 3)) * 0.3 + [0.6, 0.3, 0.0]
    null = rng.normal(size=n) * 0.2 + 2.0
    totals = np.column_stack([null, u.sum(axis=1) * 0.5 + rng.normal(size=n) * 0.2 + explained])
    weights = Weights(np.ones(n), "frequency") if weights is None else weights
    rows = np.arange(n)
    values = {
        "names": NAMES,
        "spec": {"method": "dfi", "loss": "log-loss", "n_rows": n, "data_sha256": "0"},
        "quality": Quality(0.3, (0.3, 0.3), 0.0, 0.1, 0.2, n, "log-loss", 0.4, 0.6),
        "library": "pandas",
        "totals": InfluenceRows(totals, weights, rows),
    } | changes
    return Importance(InfluenceRows(u, weights, rows), **values)


def by_class(**changes):
    parts = {name: build(seed=k) for k, name in enumerate(CLASSES)}
    held = list(parts.values())
    values = sum(part.influence for part in held)
    totals = sum(part.totals.values for part in held)
    spec = {
        **build().spec,
        "outcome": {"name": "species", "kind": "classes", "classes": CLASSES, "positive": None},
    }
    quality = combined_quality({name: part.quality for name, part in parts.items()})
    basis = InfluenceRows(values, held[0].weights, held[0].rows)
    options = {
        "spec": spec,
        "quality": quality,
        "totals": InfluenceRows(totals, held[0].weights, held[0].rows),
        "by_outcome": parts,
        "names": NAMES,
        "library": "pandas",
    }
    return Importance(basis, **(options | changes))


@pytest.mark.parametrize("of", ["explained", "null", "sum"])
def test_error_of_a_share_is_that_of_its_influence_values(of):
    result = build()
    u, totals = result.influence, result.totals.values
    total = {"null": totals[:, 0], "explained": totals[:, 1], "sum": u.sum(axis=1)}[of]
    r = u.mean(axis=0) / total.mean()
    influence = r + (u - r * total[:, None]) / total.mean()
    found = result.shares(of)
    assert list(found.columns) == ["feature", "share", "se", "ci_low", "ci_high", "z", "p", "p_adj"]
    np.testing.assert_allclose(found["share"], r)
    np.testing.assert_allclose(influence.mean(axis=0), r)
    np.testing.assert_allclose(found["se"], influence.std(axis=0, ddof=1) / np.sqrt(len(u)))
    assert (found["ci_low"] <= found["share"]).all()
    assert (found["ci_high"] >= np.maximum(found["share"], 0.0)).all()
    assert (found["ci_low"] >= np.minimum(found["share"], 0.0)).all()
    np.testing.assert_allclose(found["p"], norm.sf(found["share"] / found["se"]))
    np.testing.assert_allclose(found["p_adj"], adjust_p_values(found["p"]))


@pytest.mark.parametrize("of", [None, "explained", "null", "sum"])
def test_contrast_of_shares_is_that_of_their_influence_values(of):
    result = build()
    u, totals = result.influence, result.totals.values
    total = {
        None: np.ones(len(u)), "null": totals[:, 0], "explained": totals[:, 1],
        "sum": u.sum(axis=1),
    }[of]  # fmt: skip
    r = u.mean(axis=0) / total.mean()
    influence = u if of is None else (u - r * total[:, None]) / total.mean()
    error = (influence[:, 0] - influence[:, 1]).std(ddof=1) / np.sqrt(len(u))
    found = result.contrast(result.names[0], result.names[1], of)
    assert found.value == pytest.approx(r[0] - r[1])
    assert found.se == pytest.approx(error)
    assert found.p == pytest.approx(2 * norm.sf(abs(r[0] - r[1]) / error))
    assert found.ci_low == pytest.approx(r[0] - r[1] - norm.isf(0.5 * (1 - result.level)) * error)


def test_contrast_of_shares_needs_their_total():
    result = build()
    with pytest.raises(ValueError, match="does not have the total that shares of 'explained'"):
        (result - result).contrast(*result.names[:2], "explained")


def test_error_of_a_share_agrees_with_the_grouped_jackknife():
    result = build(n=400)
    u, e = result.influence, result.totals.values[:, 1]
    left_out = np.array(
        [
            np.delete(u, k, axis=0).mean(axis=0) / np.delete(e, k).mean()
            for k in range(len(u))
        ]
    )  # fmt: skip
    jackknife = np.sqrt((len(u) - 1) * left_out.var(axis=0))
    np.testing.assert_allclose(result.shares()["se"], jackknife, rtol=0.02)


def test_counts_equal_repeated_rows():
    counts = np.random.default_rng(7).integers(1, 4, 200)
    weighted = build(weights=Weights(counts.astype(float), "frequency"))
    ones = Weights(np.ones(counts.sum()), "frequency")
    repeated = replace(
        weighted,
        basis=InfluenceRows(np.repeat(weighted.influence, counts, axis=0), ones),
        totals=InfluenceRows(np.repeat(weighted.totals.values, counts, axis=0), ones),
    )
    for key in ("share", "se", "ci_low"):
        np.testing.assert_allclose(weighted.shares()[key], repeated.shares()[key])


def test_table_has_the_share_first_and_only_where_it_is_known():
    result = build()
    table = result.table()
    assert list(table.columns)[:5] == ["feature", "share", "share_low", "share_high", "score"]
    own = result.shares().set_index("feature").loc[table["feature"]]
    for ours, theirs in (("share", "share"), ("share_low", "ci_low"), ("share_high", "ci_high")):
        assert table[ours].tolist() == own[theirs].tolist()
    wide = result.table(level=0.99)
    assert (wide["share_high"] > table["share_high"]).all()
    assert list(result.top(1).columns)[1] == "share"
    head = " ".join(repr(result).splitlines()[3].split())
    assert head == "feature share (95 % interval) score (95 % interval) se p_adj"
    without = replace(result, totals=None)
    assert "share" not in without.table().columns
    assert "share" not in repr(without)
    with pytest.raises(ValueError, match=r"does not have .* use of='sum'"):
        without.shares()
    assert without.shares("sum")["share"].sum() == pytest.approx(1.0)


def test_intervals_of_shares_follow_the_options_of_those_of_scores():
    result = build()
    plain, joint = result.table(), result.table(simultaneous=True)
    assert (joint["share_high"] > plain["share_high"]).all()
    # the critical value is that of the shares' own influence values, for all of them at once
    own = result.shares().set_index("feature").loc[joint["feature"]]
    steps = (joint["share_high"].to_numpy() - own["share"]) / own["se"]
    influence = ratios(result, "explained", np.eye(len(result.names))).influence
    critical = simultaneous_critical_value(influence, level=0.95, alternative="two-sided")
    expected = stretched(np.full(len(steps), critical), influence.skewness, critical)
    np.testing.assert_allclose(steps.loc[list(result.names)], expected)
    expanded = result.table(expansion="standard_error", level=0.9)
    size, n = result.quality.outcome_variance / result.explained.value, len(result.influence)
    error = own["se"].to_numpy() + size / np.sqrt(n) / norm.ppf(0.9)
    expected = expanded["share"] + norm.ppf(0.95) * error
    np.testing.assert_allclose(expanded["share_high"], expected)


def test_nothing_explained_has_no_shares_and_a_warning():
    result = build(explained=-0.45)
    assert result.explained.value < 2 * result.explained.se
    with pytest.warns(InferenceWarning, match="the explained loss is not clearly above 0"):
        assert result.shares()["share"].isna().all()
    assert result.table()["share"].isna().all()
    assert result.interaction is None
    assert result.shares("null")["share"].notna().all()
    flat = result.influence - result.influence.mean(axis=0) + 1e-6
    with pytest.warns(InferenceWarning, match="the sum of the scores is not clearly above 0"):
        replace(result, basis=replace(result.basis, values=flat)).shares("sum")
    square = replace(result, spec={**result.spec, "loss": "squared-error"})
    with pytest.warns(InferenceWarning, match="the explained variance is not clearly above 0"):
        square.shares()


def test_interaction_is_what_total_effects_count_more_than_once():
    result = build()
    ratio = result.total.value / result.explained.value
    assert result.interaction.value == pytest.approx(ratio - 1.0)
    u, e = result.influence.sum(axis=1), result.totals.values[:, 1]
    expected = ((u - ratio * e) / e.mean()).std(ddof=1) / np.sqrt(len(u))
    assert result.interaction.se == pytest.approx(expected)
    assert result.null_loss.value == pytest.approx(result.totals.values[:, 0].mean())


def test_degenerate_and_unrelated_units():
    u = build().influence.copy()
    u[:, 2] = 0.0
    base = build()
    basis = InfluenceRows(u, base.weights, base.rows)
    flag = np.array([False, False, True])
    constant = replace(base, basis=basis, degenerate=flag).shares()
    assert constant["share"][2] == 0.0
    assert constant[["se", "ci_low", "ci_high"]].loc[2].isna().all()
    ends = np.array([0.0, 0.0, 0.1])
    unrelated = replace(base, basis=basis, unrelated=flag, undetected=ends).shares()
    assert unrelated["ci_low"][2] == 0.0
    assert unrelated["ci_high"][2] == pytest.approx(0.1 / base.explained.value)


def test_groups_moments_files_and_copies_keep_shares(tmp_path):
    result = build()
    groups = {"g": ["a", "b"], "h": ["c"]}
    grouped = result.group(groups)
    both = result.shares()["share"]
    assert grouped.shares()["share"].tolist() == pytest.approx([both[0] + both[1], both[2]])
    short = result.moments()
    loaded = dfi.load(result.save(tmp_path / "r.dfi"))
    small = dfi.load(short.save(tmp_path / "s.dfi"))
    for other in (short, loaded, small, pickle.loads(pickle.dumps(result))):  # noqa: S301
        for key in ("share", "se", "ci_low", "ci_high"):
            np.testing.assert_allclose(other.shares()[key], result.shares()[key], atol=1e-12)
        np.testing.assert_allclose(
            other.group(groups).shares()["se"], grouped.shares()["se"], atol=1e-12
        )
        assert other.interaction.se == pytest.approx(result.interaction.se)


def test_differences_have_no_totals_and_are_refused_between_losses():
    first, second = build(0), build(1)
    difference = first - second
    assert difference.totals is None
    assert "share" not in difference.table().columns
    other = replace(second, spec={**second.spec, "loss": "brier"})
    with pytest.raises(ValueError, match="loss: 'log-loss' and 'brier'"):
        first.minus(other)
    words = {"kind": "binary", "classes": ["No", "Yes"]}
    yes, no = (
        replace(part, spec={**part.spec, "outcome": {**words, "positive": label}})
        for part, label in ((first, "Yes"), (second, "No"))
    )
    with pytest.raises(ValueError, match=r"outcome: .*'Yes'.* and .*'No'"):
        yes.minus(no)


def test_wrong_totals():
    ones = Weights(np.ones(200), "frequency")
    with pytest.raises(ValueError, match="two columns, got 3"):
        build(totals=InfluenceRows(np.ones((200, 3)), ones))
    few = InfluenceRows(np.ones((3, 2)), Weights(np.ones(3), "frequency"))
    with pytest.raises(ValueError, match="totals must be of the 200 rows of the units, got 3"):
        build(totals=few)
    with pytest.raises(ValueError, match="difference of two results has no totals"):
        build(difference=True)
    with pytest.raises(ValueError, match="of 200 and of 3 rows do not line up"):
        beside(build().basis, few)


def test_values_are_known_where_only_their_dependence_is_not():
    result = build()
    apart = replace(result, basis=result.basis.moments())
    np.testing.assert_allclose(apart.shares()["share"], result.shares()["share"])
    assert apart.shares()["se"].isna().all()


def test_shares_of_many_units_in_moments_have_intervals():
    rng = np.random.default_rng(0)
    values = np.column_stack([rng.normal(size=(100, 40)) + 1.0, rng.normal(size=100) + 30.0])
    found = shares_of(
        InfluenceRows(values, Weights(np.ones(100), "frequency")).moments(),
        np.eye(41)[40],
        np.eye(41)[:40],
    )
    assert np.isfinite(found.columns(0.95, nonnegative=True)["ci_high"]).all()


def test_table_by_outcome_is_tidy_and_adds_up(tmp_path):
    result = by_class()
    table = result.table(by="outcome")
    assert list(table.columns)[:4] == ["feature", "outcome", "share", "share_low"]
    assert len(table) == 9
    assert table["outcome"].tolist()[:3] == list(CLASSES)
    summed = table.groupby("feature")["score"].sum()
    np.testing.assert_allclose(summed[list(NAMES)], result.scores, rtol=1e-12)
    one = table[(table["feature"] == "b") & (table["outcome"] == "Gentoo")].iloc[0]
    part = result.by_outcome["Gentoo"]
    assert one["share"] == part.shares()["share"][1]
    assert one["se"] == part.se[1]
    unsorted = result.table(by="outcome", sort=False)
    assert unsorted["feature"].tolist()[::3] == list(NAMES)
    with pytest.raises(ValueError, match="has one outcome"):
        build().table(by="outcome")
    with pytest.raises(ValueError, match="by must be"):
        result.table(by="class")


def test_classes_survive_groups_moments_files_copies_and_differences(tmp_path):
    result = by_class()
    loaded = dfi.load(result.save(tmp_path / "r.dfi"))
    for other in (loaded, result.moments(), pickle.loads(pickle.dumps(result))):  # noqa: S301
        assert list(other.by_outcome) == list(CLASSES)
        np.testing.assert_allclose(
            other.table(by="outcome")["share"], result.table(by="outcome")["share"]
        )
    assert loaded.quality == result.quality
    grouped = result.group({"g": ["a", "b"]})
    assert grouped.by_outcome["Adelie"].names == ("g",)
    difference = result.minus(result)
    assert list(difference.by_outcome) == list(CLASSES)
    with pytest.raises(ValueError, match="'Adelie' has other units"):
        replace(result, names=("x", "y", "z"))


def test_text_of_a_result_names_classes_and_units():
    text = repr(by_class())
    assert "three classes: Adelie, Chinstrap, Gentoo" in text
    assert "McFadden's R2 0.333" in text
    assert "scores in nats" in text
    spec = {"outcome": {"name": "default", "kind": "binary", "classes": ["No", "Yes"],
                        "positive": "Yes"}, "loss": "brier"}  # fmt: skip
    quality = Quality(0.3, (0.3,), 0.1, 0.1, 0.2, 200, "brier", auc=0.8, auc_se=0.02)
    text = repr(replace(build(), spec=spec, quality=quality))
    assert "probability of Yes" in text
    assert "Brier skill 0.300 (spread over folds 0.100), AUC 0.800 (0.761 to 0.839)" in text


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        ({"name": "y", "kind": "real"}, None),
        ({"name": "y", "kind": "count"}, "expected count"),
        ({"kind": "binary", "classes": ["0", "1"], "positive": "1"}, "probability of 1"),
        ({"kind": "several", "classes": ["u", "v"]}, "two outcomes: u, v"),
        ({"kind": "classes", "classes": list("abcdefghijkl")},
         "12 classes: a, b, c, d, e, f and 6 more"),
    ],
)  # fmt: skip
def test_words_of_outcomes(outcome, text):
    assert words.outcome_of({"outcome": outcome, "loss": "poisson"}).text == text


def test_whole_numbers_are_counts_only_where_their_loss_says_so():
    """A mass in whole grams was an expected count."""
    assert words.outcome_of({"outcome": {"name": "mass", "kind": "count"}}).text is None


def test_words_of_losses():
    assert words.outcome_of({}) is None
    assert words.loss_of({}) == "squared-error"
    assert words.unit_of({"loss": "log-loss"}) == "nats"
    assert words.unit_of({"loss": "absolute", "unit": "absolute error"}) == "absolute error"
    assert words.null_of({"loss": "log-loss"}, "y") == "the entropy of y"
    assert words.null_of({"loss": "poisson"}) == "the null deviance"
    assert words.null_label({"loss": "gamma"}) == "of deviance"
