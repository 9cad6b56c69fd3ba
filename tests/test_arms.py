"""Effects of several arms, of a dose, and on censored times: truths, twins, words."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

import dfi
from dfi.warnings import DFIWarning, OverlapWarning

ARMS = np.array(["placebo", "low", "high"])
SHARES = {"placebo": 0.5, "low": 0.25, "high": 0.25}
QUICK = {"outcome_model": "linear", "diagnose": False}


def trial(n=1500, seed=0):
    """Low helps by 1 + a, high by 2 - b; who gets which does not depend on the columns."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))
    arm = rng.choice(3, n, p=[0.5, 0.25, 0.25])
    effect = np.where(arm == 1, 1 + X["a"], np.where(arm == 2, 2 - X["b"], 0.0))
    return X, (X["c"] + effect + 0.5 * rng.normal(size=n)).rename("pain"), ARMS[arm]


X, Y, ARM = trial()


@pytest.fixture(scope="module")
def several():
    return dfi.effects(
        X, Y, pd.Series(ARM, name="drug"), "linear", control="placebo", propensity_model=SHARES,
        outcome_model="linear",
    )  # fmt: skip


def test_each_arm_is_an_outcome_with_its_own_truth(several):
    assert list(several.by_outcome) == ["high against placebo", "low against placebo"]
    for name, leader, mean in (("high", "b", 2.0), ("low", "a", 1.0)):
        part = several.by_outcome[f"{name} against placebo"]
        table = part.table().set_index("feature")
        assert table["score"].idxmax() == leader
        assert abs(table.loc[leader, "score"] - 1.0) < 4 * table.loc[leader, "se"]
        assert table.drop(leader)["p"].min() > 0.001
        average = part.diagnostics["average effect"]
        assert abs(average["value"] - mean) < 4 * average["se"]
    told = several.spec["outcome"]["effect"]
    assert told["pairs"] == ("high against placebo", "low against placebo")
    assert told["propensity_model"] == "known, by arm"


def test_an_arm_is_what_two_arms_are():
    """By hand: linear outcome models of each arm, known propensities, the folds of the call."""
    splits = [(np.flatnonzero(np.arange(1500) % 5 != k), np.arange(1500)[k::5]) for k in range(5)]
    found = dfi.effects(
        X, Y, ARM, "linear", treated="low", control="high", cv=splits, propensity_model=SHARES,
        outcome_model=LinearRegression(), diagnose=False,
    )  # fmt: skip
    matrix, y = X.to_numpy(), Y.to_numpy()
    psi = np.zeros(1500)
    for train, test in splits:
        parts = {}
        for name in ("low", "high"):
            rows = train[ARM[train] == name]
            mean = LinearRegression().fit(matrix[rows], y[rows]).predict(matrix[test])
            parts[name] = mean + (ARM[test] == name) * (y[test] - mean) / SHARES[name]
        psi[test] = parts["low"] - parts["high"]
    assert found.diagnostics["average effect"]["value"] == pytest.approx(psi.mean(), abs=1e-9)
    assert found.spec["outcome"]["name"] == "low against high"
    table = np.column_stack([np.full(1500, SHARES[name]) for name in ("high", "low", "placebo")])
    same = dfi.effects(
        X, Y, ARM, "linear", treated="low", control="high", cv=splits, propensity_model=table,
        outcome_model=LinearRegression(), diagnose=False,
    )  # fmt: skip
    assert np.array_equal(same.scores, found.scores)


def test_propensities_of_all_arms_are_fitted():
    rng = np.random.default_rng(3)
    chance = np.exp(np.column_stack([np.zeros(1500), X["a"] / 3, -X["a"] / 3]))
    chance /= chance.sum(axis=1, keepdims=True)
    arm = (rng.random(1500)[:, None] > chance.cumsum(axis=1)).sum(axis=1)
    y = 2 * X["a"] + (arm == 1) * 1.0 + (arm == 2) * X["b"] + 0.5 * rng.normal(size=1500)
    for learner in (LogisticRegression(), "ridge"):
        found = dfi.effects(X, y, arm, "linear", propensity_model=learner, **QUICK)
        first, second = found.by_outcome.values()
        average = first.diagnostics["average effect"]
        assert abs(average["value"] - 1.0) < 4 * average["se"]
        assert int(second.scores.argmax()) == 1
        overlap = found.diagnostics["overlap of treatment"]
        assert set(overlap) >= {"0", "1", "2", "clipped"}
        assert overlap["1"]["effective"] < overlap["1"]["rows"]
        assert "count as" in overlap["words"]


def test_all_pairs():
    found = dfi.effects(X, Y, ARM, "linear", contrasts="pairwise", propensity_model=SHARES, **QUICK)
    assert list(found.by_outcome) == [
        "low against high",
        "placebo against high",
        "placebo against low",
    ]
    values = [part.diagnostics["average effect"]["value"] for part in found.by_outcome.values()]
    assert values[1] == pytest.approx(values[0] + values[2], abs=1e-9)


def test_page_file_rows_and_groups_of_several_arms(several, tmp_path):
    page = several.report(tmp_path / "page.html").read_text()
    assert "Average effects: high against placebo" in page
    assert "count as" in page
    several.save(tmp_path / "arms.dfi")
    loaded = dfi.load(tmp_path / "arms.dfi")
    assert list(loaded.by_outcome) == list(several.by_outcome)
    assert several.local([0], outcome="low against placebo").values.shape == (1, 3)
    joint = several.group({"left": ["a"], "right": ["b", "c"]}, how="joint")
    assert "overlap of treatment" in joint.diagnostics


def test_a_dose_has_the_effect_of_a_unit():
    rng = np.random.default_rng(1)
    dose = 0.7 * X["c"] + rng.normal(size=1500)
    y = X["c"] + dose * (1.0 + X["a"]) + 0.5 * rng.normal(size=1500)
    found = dfi.effects(X, y, dose, "linear", propensity_model="linear", **QUICK)
    average = found.diagnostics["average effect"]
    assert abs(average["value"] - 1.0) < 4 * average["se"]
    table = found.table().set_index("feature")
    assert table["score"].idxmax() == "a"
    assert abs(table.loc["a", "score"] - 1.0) < 4 * table.loc["a", "se"]
    assert table.drop("a")["p"].min() > 0.001
    assert found.spec["outcome"]["effect"]["contrast"] == "one unit more of the dose"
    assert 0.5 < found.diagnostics["overlap of treatment"]["left"] < 0.85
    tenth = dfi.effects(X, y, 10 * dose, "linear", propensity_model="linear", **QUICK)
    assert np.allclose(100 * tenth.scores, found.scores, rtol=1e-5)


@pytest.mark.filterwarnings("ignore::dfi.warnings.WeakModelWarning")
def test_a_dose_that_columns_tell_has_no_effect_to_compare():
    y = X["a"] + X["b"]
    with pytest.raises(ValueError, match=r"determine the dose .* to compare; leave out columns"):
        dfi.effects(X, y, 2 * X["a"] + X["c"], "linear", propensity_model="linear", **QUICK)
    rng = np.random.default_rng(0)
    nearly = X["a"] + 0.27 * rng.normal(size=1500)
    with pytest.warns(OverlapWarning, match="keeps 7 % of its variance"):
        dfi.effects(X, y + rng.normal(size=1500), nearly, "linear", propensity_model="linear",
                    **QUICK)  # fmt: skip


@pytest.mark.filterwarnings("ignore::dfi.warnings.WeakModelWarning")
def test_the_effect_on_censored_times():
    """Exponential times of mean exp(.4 a) or twice that; censoring differs by arm."""
    rng = np.random.default_rng(2)
    n = 3000
    table = pd.DataFrame(rng.normal(size=(n, 2)), columns=list("ab"))
    arm = rng.random(n) < 0.5
    scale = np.exp(0.4 * table["a"].to_numpy()) * (1 + arm)
    time, end = rng.exponential(scale), rng.exponential(np.where(arm, 1.5, 4.0))
    y = pd.DataFrame({"years": np.minimum(time, end), "event": time <= end})
    found = dfi.effects(table, y, arm, "ridge", outcome_model="ridge", propensity_model=0.5,
                        horizon=1.5, diagnose=False)  # fmt: skip
    each = [(1 - np.exp(-1.5 / s)) * s for s in (scale / (1 + arm), 2 * scale / (1 + arm))]
    average = found.diagnostics["average effect"]
    assert abs(average["value"] - np.mean(each[1] - each[0])) < 4 * average["se"]
    naive = np.minimum(y["years"], 1.5)[arm].mean() - np.minimum(y["years"], 1.5)[~arm].mean()
    assert abs(naive - np.mean(each[1] - each[0])) > 4 * average["se"]
    assert found.spec["outcome"]["effect"]["survival"]["horizon"] == 1.5
    assert found.plot("survival").get_xlabel() == "years"


REFUSED = {
    "both": ({"treated": "low", "control": "low"}, "treated='low' is control='low' too"),
    "unknown": ({"control": "none"}, "control='none' is not a level of treatment"),
    "pairs": ({"contrasts": "pairwise", "treated": "low"}, "compares all arms: leave treated"),
    "contrasts": ({"contrasts": "all"}, "contrasts must be 'control' or 'pairwise'"),
    "shares": ({"propensity_model": {"low": 0.5}}, "no probability of the arm high"),
    "sum": ({"propensity_model": {**SHARES, "low": 0.5}}, "do not add up to 1"),
    "shape": ({"propensity_model": np.ones(1500)}, r"shape \(1500,\).*need \(1500, 3\)"),
    "horizons": ({"y": "times", "horizon": [1, 2]}, "horizon has 2 times, and effects takes one"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_odd_inputs_are_refused_in_words(name):
    options, words = REFUSED[name]
    y = Y
    if options.get("y") == "times":
        y = pd.DataFrame({"t": np.exp(Y), "e": np.arange(1500) % 3 > 0})
        options = {"horizon": options["horizon"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DFIWarning)
        with pytest.raises((TypeError, ValueError), match=words):
            dfi.effects(X, y, ARM, "linear", **{**QUICK, **options})


def test_too_many_arms_and_arms_of_a_dose():
    many = np.array(list("abcdefghijk"))[np.arange(1500) % 11]
    with pytest.raises(ValueError, match="treatment has 11 arms, more than the 10"):
        dfi.effects(X, Y, many, "linear", **QUICK)
    with pytest.raises(ValueError, match=r"treatment is a dose .* names an arm: leave it out"):
        dfi.effects(X, Y, Y * 1.5, "linear", treated=1, **QUICK)
    with pytest.raises(TypeError, match="the treatment is a dose, which has none"):
        dfi.effects(X, Y, Y * 1.5, "linear", propensity_model=0.5, **QUICK)
    with pytest.raises(ValueError, match="'a' of X says who was treated"):
        dfi.effects(X, Y, 1.5 * X["a"] - 3.0, "linear", **QUICK)
    with pytest.raises(TypeError, match="control needs y and treatment"):
        dfi.effects(X, pseudo_outcome=Y, control="a")


def test_a_column_that_holds_the_arm_is_refused():
    copy = X.assign(group=pd.Series(ARM).map({"placebo": 7, "low": 5, "high": 6}))
    with pytest.raises(ValueError, match="'group' of X says who was treated"):
        dfi.effects(copy, Y, ARM, "linear", **QUICK)


def test_the_page_begins_with_average_effects_and_orders_what_has_no_shares(tmp_path):
    """Where no effect differs there are no shares, and scores are told from large to small."""
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(300, 4)), columns=list("abcd"))
    arm = rng.choice(["none", "some", "much"], 300)
    y = 2.0 * (arm == "much") + rng.normal(size=300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = dfi.effects(
            X, y, arm, "linear", control="none", outcome_model="linear", diagnose=False,
            propensity_model=dict.fromkeys(["none", "some", "much"], 1 / 3),
        )  # fmt: skip
        table = result.table()
        page = result.report(tmp_path / "page.html").read_text()
    assert table["share"].isna().all()
    assert table["score"].is_monotonic_decreasing
    assert result.parts.mean.argmax() != result.scores.argmax()
    answer = page.split("The answer", 1)[1].split("How much each", 1)[0]
    assert "Average effects: much against none " in answer
    assert page.count("Average effects: ") == 1
    assert "change the effect" in answer
