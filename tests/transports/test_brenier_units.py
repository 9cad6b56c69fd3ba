"""Units of several columns under the Brenier map: blocks stay linear, single columns bend."""

import numpy as np
import pandas as pd
import pytest

import dfi
from dfi.transports import Brenier, Gaussian
from dfi.transports.brenier import BrenierUnits

PLAIN = {"cv": "prefit", "diagnose": False, "transport_error": "ignore", "random_state": 0}
LINEAR = Gaussian(components=None, covariance="sample", reference="empirical")


def mixed(n=300, seed=0):
    generator = np.random.default_rng(seed)
    x = generator.standard_normal(n)
    kind = np.digitize(x + generator.standard_normal(n), [-0.7, 0.7])
    gaps = np.where(generator.random(n) < 0.2, np.nan, x + generator.standard_normal(n))
    return pd.DataFrame(
        {
            "a": x,
            "b": x**2 + 0.5 * generator.standard_normal(n),
            "kind": np.array(list("xyz"))[kind],
            "gaps": gaps,
            "count": generator.integers(0, 3, n),
        }
    )


def effect(frame):
    """Return a regression with an interaction of a bent column and a category."""
    kind = (frame["kind"] == "x").to_numpy(float)
    gaps = frame["gaps"].fillna(0.5).to_numpy()
    a, b = frame["a"].to_numpy(), frame["b"].to_numpy()
    return a + 0.5 * b + (1.0 + a) * kind + 0.3 * gaps


def scores_under(transport, frame, **options):
    options = {**PLAIN, "integration": dfi.Quadrature("gauss", nodes=16), **options}
    return dfi.explain(frame, effect(frame), effect, transport=transport, **options)


def test_single_columns_bend_and_units_of_several_columns_are_blocks():
    fitted = Brenier(penalty=0.01).fit(mixed()).fitted_
    assert isinstance(fitted, BrenierUnits)
    assert fitted.bent.positions.tolist() == [0, 1]
    ranks = {block.name: block.rank for block in fitted.inner.blocks}
    assert ranks == {"a": 1, "b": 1, "kind": 2, "gaps": 2, "count": 1}


def test_blocks_score_as_under_the_linear_map_and_a_large_penalty_is_that_map():
    frame = mixed()
    linear = scores_under(LINEAR, frame)
    bent = scores_under(Brenier(penalty=0.01, margins=False), frame)
    stiff = scores_under(Brenier(penalty=1e9, margins=False), frame)
    for name in ("kind", "gaps"):
        at = list(linear.names).index(name)
        assert bent.latent.scores[at] == pytest.approx(linear.latent.scores[at], rel=1e-9)
    np.testing.assert_allclose(stiff.latent.scores, linear.latent.scores, atol=1e-8)
    np.testing.assert_allclose(stiff.scores, linear.scores, atol=1e-8)
    assert np.abs(bent.latent.scores - linear.latent.scores).max() > 0.05


@pytest.mark.parametrize("margins", [False, True])
def test_scores_of_bent_columns_are_those_of_a_slow_twin(margins):
    """Every row takes the latent value of every other one, and is decoded."""
    frame = mixed(120)
    transport = Brenier(penalty=0.01, margins=margins)
    result = scores_under(
        transport, frame, form="loco", integration=dfi.Quadrature("equal", nodes=120)
    )
    fitted = transport.fit(frame)
    latent = fitted.transform(frame)
    prediction = effect(frame)
    for name, j in (("a", 0), ("b", 1), ("count", 6)):
        changes = np.empty(120)
        for i in range(120):
            rows = np.repeat(latent[[i]], 120, axis=0)
            rows[:, j] = latent[:, j]
            changes[i] = prediction[i] - np.mean(effect(fitted.inverse_transform(rows)))
        found = result.latent.scores[list(result.names).index(name)]
        assert found == pytest.approx(np.mean(changes**2), rel=0.02)


@pytest.mark.parametrize("margins", ["auto", True])
def test_rows_come_back_and_sums_hold(margins):
    frame = mixed()
    frame["b"] = np.exp(0.3 * frame["b"])
    transport = Brenier(penalty=0.1, margins=margins).fit(frame)
    back = transport.inverse_transform(transport.transform(frame))
    pd.testing.assert_frame_equal(back[["a", "b"]], frame[["a", "b"]], atol=1e-7, rtol=0)
    assert (back["kind"].to_numpy() == frame["kind"].to_numpy()).all()
    result = scores_under(Brenier(penalty=0.1, margins=margins), frame)
    assert result.scores.sum() == pytest.approx(result.latent.scores.sum(), abs=1e-9)


@pytest.mark.filterwarnings("ignore::dfi.warnings.ExtrapolationWarning")
def test_groups_are_blocks():
    frame = mixed()[["a", "b", "count"]]
    frame["c"] = frame["a"] ** 2 + np.random.default_rng(1).standard_normal(300)
    groups = {"pair": ["a", "count"], "b": ["b"], "c": ["c"]}
    result = dfi.explain(
        frame, frame["a"] + frame["b"], "linear", transport=Brenier(penalty=0.1), cv=2,
        feature_groups=groups, units="groups", diagnose=False,
    )  # fmt: skip
    assert list(result.names) == ["pair", "b", "c"]
    assert "jackknife" in result.diagnostics["standard_errors"]
    assert (result.se > 0).all()
    with pytest.raises(
        ValueError, match=r"transport='brenier' does not support overlapping groups"
    ):
        dfi.explain(
            frame, frame["a"], "linear", transport="brenier", cv=2, units="groups",
            feature_groups={"one": ["a", "b"], "two": ["b", "c", "count"]},
        )  # fmt: skip


def test_weights_are_counts():
    frame = mixed(150)
    counts = np.random.default_rng(0).integers(1, 4, 150)
    repeated = frame.loc[np.repeat(np.arange(150), counts)].reset_index(drop=True)
    transport = Brenier(penalty=0.1)
    weighted = scores_under(transport, frame, frequency_weight=counts)
    np.testing.assert_allclose(
        weighted.scores, scores_under(transport, repeated).scores, rtol=0.02, atol=0.01
    )


def test_units_and_order_of_columns_do_not_matter():
    frame = mixed()
    other = frame[["gaps", "b", "count", "kind", "a"]].copy()
    transport = Brenier(penalty=0.1, margins=False)
    here = dict(zip(frame.columns, scores_under(transport, frame).scores, strict=True))
    there = dict(zip(other.columns, scores_under(transport, other).scores, strict=True))
    for name in frame.columns:
        assert there[name] == pytest.approx(here[name], abs=0.01)


def test_refits_predict_their_rows_as_the_model_does(monkeypatch):
    frame, asked = mixed(120).assign(b=lambda t: np.exp(t["b"])), []
    score = BrenierUnits._scores

    def watched(self, task, prepared, law):
        own = prepared[0][0].predict(self.points(task.matrix))
        asked.append((self.margins, own - task.folds[0].predictors[0](task.matrix)))
        return score(self, task, prepared, law)

    monkeypatch.setattr(BrenierUnits, "_scores", watched)
    transport = Brenier(penalty=0.1, margins=True)
    scores_under(transport, frame, transport_error="jackknife", integration="auto")
    assert len({margins[1].values.tobytes() for margins, _ in asked}) > 10
    for _, error in asked:
        # the outermost row of a margin may be left out of a refit
        assert np.median(np.abs(error)) < 1e-9
