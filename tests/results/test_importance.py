import copy
import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

import dfi
from dfi._data.groups import Groups
from dfi._data.weights import Weights
from dfi.inference.influence import InfluenceRows
from dfi.inference.tests import adjust_p_values
from dfi.results.importance import Importance, Quality
from dfi.results.text import BELOW_ZERO

COLUMNS = ["feature", "score", "se", "ci_low", "ci_high", "z", "p", "p_adj"]
QUALITY = Quality(0.7, (0.68, 0.72), 0.02, 1.1, 4.0, 60)


def build(n=60, p=4, seed=0, weights=None, **changes):
    rng = np.random.default_rng(seed)
    u = rng.standard_normal((n, p)) @ rng.standard_normal((p, p)) + np.linspace(0.0, 2.0, p)
    values = {
        "influence": u,
        "names": tuple("abcdefghij"[:p]),
        "weights": Weights(np.ones(n), "frequency") if weights is None else weights,
        "spec": {"transport": "gaussian", "folds": [1, 2], "inner": {"eps": np.float64(0.5)}},
        "quality": QUALITY,
        "diagnostics": {"condition": 3.0},
        "library": "pandas",
    }
    values |= changes
    basis = InfluenceRows(values.pop("influence"), values.pop("weights"))
    return Importance(basis, **values)


def with_latent(**changes):
    latent = build(seed=9, space="latent")
    share = np.random.default_rng(3).uniform(size=(4, 4))
    return build(latent=latent, attribution=share / share.sum(axis=0), **changes)


def test_scores_errors_and_covariance_against_numpy():
    result = build()
    u = result.influence
    np.testing.assert_allclose(result.scores, u.mean(axis=0))
    np.testing.assert_allclose(result.se, u.std(axis=0, ddof=1) / np.sqrt(60))
    np.testing.assert_allclose(result.covariance, np.cov(u.T) / 60)


def test_frequency_weights_equal_repeated_rows():
    counts = np.random.default_rng(1).integers(0, 4, 60)
    weighted = build(weights=Weights(counts.astype(float), "frequency"))
    repeated = build(
        influence=np.repeat(weighted.influence, counts, axis=0),
        weights=Weights(np.ones(counts.sum()), "frequency"),
    )
    for expansion in (None, "standard_error", "variance"):
        pd.testing.assert_frame_equal(
            weighted.table(expansion=expansion), repeated.table(expansion=expansion)
        )
    np.testing.assert_allclose(weighted.covariance, repeated.covariance)
    assert weighted.contrast("a", "b").se == pytest.approx(repeated.contrast("a", "b").se)
    assert weighted.total.se == pytest.approx(repeated.total.se)


def test_table_columns_order_and_content():
    result = build()
    table = result.table(level=0.9, adjust="by")
    assert list(table.columns) == COLUMNS
    assert table["score"].is_monotonic_decreasing
    row = table.set_index("feature").loc["b"]
    score, se = result.scores[1], result.se[1]
    interval = result.interval(0.9).set_index("feature").loc["b"]
    assert row["ci_high"] == interval["ci_high"]
    assert row["ci_low"] == interval["ci_low"]
    wald = result.interval(0.9, skewness=False).set_index("feature").loc["b"]
    assert wald["ci_high"] == pytest.approx(score + norm.ppf(0.95) * se)
    assert wald["ci_low"] == pytest.approx(max(0.0, score - norm.ppf(0.95) * se))
    assert row["z"] == pytest.approx(score / se)
    assert row["p"] == pytest.approx(norm.sf(score / se))
    unsorted = result.table(sort=False, adjust="by")
    assert unsorted["feature"].tolist() == list(result.names)
    np.testing.assert_allclose(unsorted["p_adj"], adjust_p_values(unsorted["p"], "by"))
    two_sided = result.table(sort=False, alternative="two-sided")
    np.testing.assert_allclose(two_sided["p"], 2 * norm.sf(np.abs(two_sided["z"])))


def test_level_of_the_result_is_the_default():
    result = build(level=0.8)
    pd.testing.assert_frame_equal(result.table(), result.table(level=0.8))
    pd.testing.assert_frame_equal(result.interval(), result.interval(0.8))
    wide = result.interval(0.99)
    assert (wide["ci_high"] > result.interval()["ci_high"]).all()


@pytest.mark.parametrize(
    ("library", "kind"),
    [("pandas", pd.DataFrame), ("polars", pl.DataFrame), ("pyarrow", pa.Table)],
)
def test_tables_come_in_the_callers_library(library, kind):
    result = build(library=library)
    reference = build().table()
    table = result.table()
    assert isinstance(table, kind)
    for frame in (
        result.interval(),
        result.test(),
        result.top(2),
        result.ranks(),
        result.group({"g": ["a"]}).table(),
    ):
        assert isinstance(frame, kind)
    for name in COLUMNS:
        values = table[name].to_pylist() if library == "pyarrow" else table[name].to_list()
        assert values == reference[name].tolist()


def test_interval_alternatives_and_expansion():
    result = build()
    lower = result.interval(0.95, alternative="greater", skewness=False)
    expected = np.maximum(0.0, result.scores - norm.ppf(0.95) * result.se)
    np.testing.assert_allclose(lower["ci_low"], expected)
    assert np.isinf(lower["ci_high"]).all()
    expanded = result.interval(0.95, alternative="greater", expansion="standard_error")
    moved = np.maximum(0.0, result.scores - norm.ppf(0.95) * result.se - 4.0 / np.sqrt(60))
    np.testing.assert_allclose(expanded["ci_low"], moved)
    tested = result.test(expansion="variance")
    wide = np.sqrt(result.se**2 + 16.0 / np.sqrt(60) / norm.ppf(0.95))
    np.testing.assert_allclose(tested["z"], result.scores / wide)
    assert list(tested.columns) == ["feature", "score", "z", "p", "p_adj"]


def test_simultaneous_bands_are_wider_and_share_one_critical_value():
    result = build(nonnegative=False)
    bands = result.interval(simultaneous=True, skewness=False)
    critical = (bands["ci_high"] - bands["ci_low"]) / (2 * result.se)
    assert np.ptp(critical) < 1e-10
    assert norm.ppf(0.975) < critical[0] < norm.ppf(1 - 0.025 / 4) + 0.1
    bands = result.interval(simultaneous=True)
    table = result.table(simultaneous=True, sort=False)
    np.testing.assert_allclose(table["ci_high"], bands["ci_high"])
    reseeded = result.interval(simultaneous=True, random_state=1)
    assert reseeded["ci_high"][0] != bands["ci_high"][0]


def test_null_value_of_the_tests():
    result = build()
    np.testing.assert_allclose(result.test(null=0.7)["z"], (result.scores - 0.7) / result.se)


def test_negative_scores_are_not_clipped():
    result = build()
    negative = replace(result, basis=InfluenceRows(-np.abs(result.influence), result.weights))
    assert (negative.scores < 0).all()
    assert (negative.table()["score"] < 0).all()
    assert (negative.interval()["ci_high"] == 0).any()
    assert (replace(negative, nonnegative=False).interval()["ci_low"] < 0).all()


def test_contrast_uses_the_dependence_between_units():
    result = build()
    difference = result.influence[:, 0] - result.influence[:, 3]
    contrast = result.contrast("a", "d")
    se = difference.std(ddof=1) / np.sqrt(60)
    c = result.covariance
    assert contrast.difference == pytest.approx(difference.mean())
    assert contrast.se == pytest.approx(se)
    assert contrast.se == pytest.approx(np.sqrt(c[0, 0] + c[3, 3] - 2 * c[0, 3]))
    assert contrast.ci_low == pytest.approx(difference.mean() - norm.ppf(0.975) * se)
    assert contrast.ci_high == pytest.approx(difference.mean() + norm.ppf(0.975) * se)
    assert contrast.p == pytest.approx(2 * norm.sf(abs(contrast.z)))
    back = result.contrast("d", "a")
    assert back.difference == pytest.approx(-contrast.difference)
    assert back.p == pytest.approx(contrast.p)
    assert min(contrast.ci_low, back.ci_low) < 0  # either sign: nothing is projected
    assert contrast.level == 0.95


def test_contrast_of_equal_columns_is_no_evidence():
    u = build().influence.copy()
    u[:, 1] = u[:, 0]
    contrast = build(influence=u).contrast("a", "b")
    assert contrast.difference == 0.0
    assert np.isnan(contrast.se)
    assert contrast.p == 1.0


def test_contrast_errors():
    result = build(names=("age", "income", "height", "weight"))
    with pytest.raises(ValueError, match="no unit 'incom'; did you mean 'income'"):
        result.contrast("incom", "age")
    with pytest.raises(ValueError, match="no unit 'zzz'; the first units are 'age', 'income'"):
        result.contrast("age", "zzz")
    with pytest.raises(ValueError, match="two different units, got 'age' twice"):
        result.contrast("age", "age")


def test_total_is_the_sum_with_its_error():
    result = build()
    total = result.influence.sum(axis=1)
    assert result.total.value == pytest.approx(result.scores.sum())
    assert result.total.se == pytest.approx(total.std(ddof=1) / np.sqrt(60))
    assert result.total.se == pytest.approx(np.sqrt(result.covariance.sum()))
    assert result.total.p == pytest.approx(norm.sf(result.total.z))


memberships = st.lists(
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=4, unique=True), min_size=1, max_size=4
)


@given(memberships)
def test_groups_are_sums(members):
    result = with_latent()
    grouped = result.group({f"g{i}": group for i, group in enumerate(members)})
    for i, group in enumerate(members):
        chosen = [result.names.index(name) for name in group]
        np.testing.assert_allclose(
            grouped.influence[:, i], result.influence[:, chosen].sum(axis=1), atol=1e-12
        )
        assert grouped.scores[i] == pytest.approx(result.scores[chosen].sum(), abs=1e-12)
        expected = np.sqrt(result.covariance[np.ix_(chosen, chosen)].sum())
        assert grouped.se[i] == pytest.approx(expected)
        latent = result.latent.scores[chosen].sum()
        assert grouped.latent.scores[i] == pytest.approx(latent, abs=1e-12)
    assert grouped.space == "group"
    assert grouped.latent.space == "latent"


def test_attribution_of_a_partition_still_shares_everything_out():
    grouped = with_latent().group({"ab": ["a", "b"], "cd": ["c", "d"]})
    np.testing.assert_allclose(grouped.attribution.sum(axis=0), 1.0)
    share = with_latent().attribution
    assert grouped.attribution[0, 1] == pytest.approx(share[:2, 2:].sum() / 2)


def test_default_groups_and_their_absence():
    groups = Groups(("first", "rest"), np.array([[1, 0, 0, 0], [0, 1, 1, 1]], dtype=bool))
    result = build(default_groups=groups)
    assert result.group().names == ("first", "rest")
    np.testing.assert_allclose(result.group().scores[1], result.scores[1:].sum())
    with pytest.raises(ValueError, match="no groups were given: pass feature_groups="):
        build().group()
    with pytest.raises(ValueError, match="the groups cover 4 units"):
        build(p=3).group(groups)
    with pytest.raises(ValueError, match="names 'zz', which is not a feature"):
        build().group({"g": ["zz"]})


def test_degenerate_units():
    u = build().influence.copy()
    u[:, 2] = 1e-18
    result = build(influence=u, degenerate=np.array([False, False, True, False]), latent=None)
    assert result.scores[2] == 0.0
    assert np.isnan(result.se[2])
    assert np.isnan(result.covariance[2]).all()
    assert np.isnan(result.covariance[:, 2]).all()
    for options in ({}, {"expansion": "variance"}, {"simultaneous": True}):
        row = result.table(sort=False, **options).iloc[2]
        assert row["score"] == 0.0
        assert row[["se", "ci_low", "ci_high", "z", "p", "p_adj"]].isna().all()
        assert result.table(sort=False, **options).drop(index=2).notna().all(axis=None)
    p = result.table(sort=False)["p"].to_numpy()
    np.testing.assert_allclose(
        result.table(sort=False, adjust="bonferroni")["p_adj"].to_numpy()[:2],
        np.minimum(1, 3 * p[:2]),
    )
    contrast = result.contrast("a", "c")
    assert contrast.difference == pytest.approx(result.scores[0])
    assert np.isnan([contrast.se, contrast.ci_low, contrast.ci_high, contrast.z, contrast.p]).all()
    grouped = result.group({"ac": ["a", "c"], "c": ["c"]})
    assert grouped.degenerate.tolist() == [False, True]
    assert grouped.se[0] == pytest.approx(result.se[0])
    assert np.isnan(grouped.se[1])


def test_a_unit_the_model_ignores_still_counts_as_a_hypothesis():
    u = build().influence.copy()
    u[:, 2] = 0.0
    result = build(influence=u)
    row = result.table(sort=False, adjust="bonferroni")
    assert row["score"][2] == 0.0
    assert np.isnan(row["se"][2])
    assert row["p"][2] == 1.0
    assert row["p_adj"][0] == pytest.approx(min(1.0, 4 * row["p"][0]))
    assert result.table(sort=False, expansion="standard_error")["ci_high"][2] > 0


def test_top():
    result = build()
    top = result.top(2)
    pd.testing.assert_frame_equal(top.drop(columns="certain"), result.table().head(2))
    assert top["certain"].dtype == bool
    assert len(result.top(99)) == 4
    for k in (0, -1, True, 1.5):
        with pytest.raises(ValueError, match=f"k must be a whole number of 1 or more, got {k!r}"):
            result.top(k)


@pytest.mark.parametrize("level", [0, 1, 1.5, -0.2])
def test_levels_outside_are_named(level):
    message = f"level must be a number strictly between 0 and 1, got {level!r}"
    result = build()
    for call in (
        lambda: build(level=level),
        lambda: result.table(level=level),
        lambda: result.interval(level),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_unknown_options():
    result = build()
    with pytest.raises(ValueError, match=r"alternative must be .* got 'upper'"):
        result.test("upper")
    with pytest.raises(ValueError, match=r"adjust must be 'none', .* got 'fdr'"):
        result.test(adjust="fdr")
    with pytest.raises(ValueError, match="expansion must be 'standard_error'"):
        result.interval(expansion="wide")


def test_immutable():
    u = np.random.default_rng(0).standard_normal((60, 4))
    spec = {"folds": [1, 2]}
    result = build(influence=u, spec=spec)
    u[:] = 0.0
    spec["folds"].append(3)
    assert result.scores.any()
    assert result.spec["folds"] == (1, 2)
    for array in (
        result.influence,
        result.scores,
        result.se,
        result.degenerate,
        result.weights.values,
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(FrozenInstanceError):
        result.level = 0.5
    with pytest.raises(TypeError, match="does not support item assignment"):
        result.spec["new"] = 1
    with pytest.raises(TypeError, match="does not support item assignment"):
        build().spec["inner"]["eps"] = 1


def test_pickle_and_deepcopy():
    result = with_latent(degenerate=np.array([True, False, False, False]))
    for other in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):  # noqa: S301
        pd.testing.assert_frame_equal(other.table(), result.table())
        assert other.spec == result.spec
        assert not other.influence.flags.writeable
        np.testing.assert_array_equal(other.latent.scores, result.latent.scores)


def test_latent_of_latent_is_none():
    assert with_latent().latent.latent is None


def test_estimates_below_zero_are_explained_where_they_stand():
    found = build(p=3)
    lowered = found.influence - np.array([0.0, 0.0, 50.0])
    low = replace(found, basis=InfluenceRows(lowered, found.weights))
    assert BELOW_ZERO in repr(low)
    assert BELOW_ZERO in low._repr_html_()
    assert BELOW_ZERO not in repr(replace(low, nonnegative=False))


def test_repr_is_short_and_says_what_matters():
    text = repr(build(p=4))
    assert text.splitlines()[0] == "Importance: 4 features, 60 rows, 95 % intervals"
    assert text.splitlines()[1:3] == ["Trust: sound", "R2 0.700 (spread over folds 0.020)"]
    head, *rows = text.splitlines()[3:]
    assert " ".join(head.split()) == "feature score (95 % interval) se p_adj"
    # a column has as many decimals in each row, so points stand below each other
    for mark in (".", "(", "to"):
        assert len({row.index(mark) for row in rows}) == 1
    assert text.splitlines()[4].split()[0] == build().table()["feature"][0]
    many = build(p=10, names=tuple(f"x{i}" for i in range(10)))
    long = replace(
        many,
        basis=InfluenceRows(np.repeat(many.influence, 2, axis=1), many.weights),
        names=tuple(f"x{i}" for i in range(20)),
        degenerate=np.zeros(20, bool),
        unrelated=np.zeros(20, bool),
        quality=replace(QUALITY, r2_spread=float("nan")),
    )
    assert repr(long).endswith("... and 10 more of 20; .table() has all of them")
    assert "spread" not in repr(long)
    assert len(repr(long).splitlines()) == 15


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"names": ("a", "b")}, r"one column for each of the 2 names, got shape \(60, 4\)"),
        ({"influence": np.zeros(4)}, r"got shape \(4,\)"),
        ({"names": ("a", "b", "b", "c")}, "unique, but 'b' appears more than once"),
        ({"weights": Weights(np.ones(3), "frequency")}, "got 3 weights for 60 rows"),
        ({"influence": np.full((60, 4), np.nan)}, "influence values of 'a' have NaN or inf"),
        ({"space": "raw"}, "space must be one of attributed, latent, group, got 'raw'"),
        ({"degenerate": np.zeros(2, bool)}, r"degenerate must have shape \(4,\), got \(2,\)"),
        ({"spread": np.zeros(2)}, r"spread must have shape \(4,\), got \(2,\)"),
        ({"attribution": np.zeros((2, 4))}, r"attribution must have shape \(4, 4\), got \(2, 4\)"),
        ({"latent": build(p=3)}, "latent result has 3 units for 4 names"),
    ],
)
def test_wrong_fields(changes, message):
    with pytest.raises(ValueError, match=message):
        build(**changes)


def test_spec_must_be_json():
    with pytest.raises(TypeError, match=r"spec\['model'\] is of type object, which cannot be"):
        build(spec={"model": object()})
    with pytest.raises(TypeError, match=r"diagnostics\['a'\]\[1\] is of type set"):
        build(diagnostics={"a": [1, {2}]})
    with pytest.raises(TypeError, match="spec has the key 3; keys must be strings"):
        build(spec={3: 1})


def test_quality_is_one_short_line():
    folds = (0.4987654321, 0.5012345678)
    quality = Quality(0.5012345678, folds, 0.0123456, 2.3456789, 4.7123456, 300)
    assert repr(quality) == (
        "Quality(R2 0.501, spread over folds 0.012, mean squared error 2.346 of variance 4.712, "
        "300 rows)"
    )
    prefit = Quality(0.5, (0.5,), float("nan"), 1.0, 2.0, 10)
    assert repr(prefit) == "Quality(R2 0.500, mean squared error 1 of variance 2, 10 rows)"


def test_single_feature_has_no_interactions():
    rows = np.random.default_rng(0).standard_normal((60, 1))
    y = rows[:, 0] + np.random.default_rng(1).standard_normal(60)
    result = dfi.explain(rows, y, "linear", cv=2, diagnose=False)
    assert result.interaction is None
    assert "nteractions:" not in repr(result)
    assert repr(result).startswith("Importance: 1 feature, 60 rows")
    assert repr(result.local([0])).startswith("LocalAttributions: 1 row, 1 contribution each; ")
