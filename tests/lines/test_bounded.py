"""Linear functions and polynomials within bounds, against sums over atoms and fine grids."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dfi
from dfi._learners.boosting import BoostedResiduals
from dfi._learners.glm import LinkedQuadratic, LinkedRidge
from dfi._learners.linked import BoostedMargins, LinkedBoosting, LinkedNetwork
from dfi._learners.network import FURTHER, BentHingeNetwork
from dfi._learners.quadratic import BoundedRidge, QuadraticRidge
from dfi._learners.stack import default_members, family_members
from dfi._lines import kernels_hinges
from dfi._lines.base import LineModel, Lines, Reference
from dfi._lines.closed_form import BoundedLines, LinearLines, QuadraticLines, linear_part
from dfi._models.prepare import prepare
from dfi.warnings import ExtrapolationWarning, WeakModelWarning

P = 3
RNG = np.random.default_rng(0)
VALUES = np.round(RNG.exponential(size=(30, P)), 1) - 0.5
MASS = RNG.integers(0, 4, 30).astype(float)
LAWS = {
    "normal": Reference.gaussian(),
    "ties": Reference.empirical(VALUES),
    "weighted": Reference.empirical(VALUES, MASS),
    "one value": Reference.empirical(VALUES[:1]),
}
Q = RNG.standard_normal((P, P))
MODELS = {
    "linear": LinearLines(np.array([1.0, -2.0, 0.0]), 0.3),
    "quadratic": QuadraticLines(RNG.standard_normal(P), np.array([0.5, 1.0, 0.0]), Q + Q.T, 0.2),
    "opens down": QuadraticLines(np.zeros(P), np.array([0.5, 1.0, 0.0]), -np.eye(P), 0.2),
}
OFFSETS = np.array([[0.0, 0.0, 0.0], [0.5, 0.0, -1.0]])


def lines_of(reference, seed=1):
    points, latent = np.random.default_rng(seed).standard_normal((2, 6, P))
    return Lines(2.0 * points, latent, np.eye(P) + 0.2 * Q, reference, OFFSETS)


def brute(predict, lines, j, q):
    if lines.reference.values is None:
        t = np.linspace(-9.0, 9.0, 40_001)
        mass = np.exp(-0.5 * t**2)
    else:
        t, mass = lines.reference.atoms(j)
    step = t - (lines.latent[:, [j]] + lines.offsets[q, j])
    moved = lines.points[:, None, :] + step[:, :, None] * lines.directions[:, j]
    value = predict(moved.reshape(-1, P)).reshape(len(step), -1)
    return value @ (mass / mass.sum()), value @ (mass * t / mass.sum())


def check(model, lines, tolerance):
    found = model.moments(lines)
    for j, q in np.ndindex(P, len(lines.offsets)):
        mean, hermite = brute(model.predict, lines, j, q)
        scale = 1.0 + np.abs(found.mean).max() + np.abs(found.hermite).max()
        np.testing.assert_allclose(found.mean[q, :, j], mean, atol=tolerance * scale)
        np.testing.assert_allclose(found.hermite[q, :, j], hermite, atol=tolerance * scale)


@pytest.mark.parametrize("bounds", [(-1.0, 1.5), (0.4, 0.4), (-1e6, 0.0), (-2.0, 1e6)])
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("kind", MODELS)
def test_means_are_those_of_sums_and_fine_grids(kind, law, bounds):
    model = BoundedLines(MODELS[kind], *bounds)
    assert isinstance(model, LineModel)
    check(model, lines_of(LAWS[law]), 1e-6 if law == "normal" else 1e-10)


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.floats(-3.0, 3.0), st.floats(0.0, 4.0))
def test_any_parabola_within_any_bounds(seed, low, width):
    generator = np.random.default_rng(seed)
    # whole coefficients: parabolas that touch a bound, and lines along which nothing changes
    curved, linear = generator.integers(-1, 2, (P, P)), generator.integers(-1, 2, P)
    inner = QuadraticLines(np.zeros(P), linear.astype(float), (curved + curved.T) / 2.0, 0.0)
    points = generator.integers(-2, 3, (6, P)).astype(float)
    law = Reference.empirical(generator.integers(-3, 4, (20, P)).astype(float))
    lines = Lines(points, points, np.eye(P), law, np.zeros((1, P)))
    check(BoundedLines(inner, np.round(low), np.round(low) + width), lines, 1e-10)


def test_the_body_of_the_kernel_runs_outside_numba(monkeypatch):
    for reference in (LAWS["normal"], LAWS["weighted"]):
        lines, model = lines_of(reference), BoundedLines(MODELS["quadratic"], -1.0, 1.0)
        native = model.moments(lines)
        with monkeypatch.context() as patch:
            used = kernels_hinges.exceeding_moments
            patch.setattr(used, "dispatcher", used.function)
            bare = model.moments(lines)
        np.testing.assert_allclose(bare.mean, native.mean, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(bare.hermite, native.hermite, rtol=1e-12, atol=1e-12)


def test_linear_parts_are_those_without_bounds():
    model = BoundedLines(MODELS["linear"], -1.0, 1.0)
    np.testing.assert_array_equal(linear_part(model), MODELS["linear"].coefficients)
    assert linear_part(BoundedLines(MODELS["quadratic"], -1.0, 1.0)) is None


ROWS = RNG.standard_normal((80, P))
OUTCOME = ROWS[:, 0] + ROWS[:, 1] * ROWS[:, 2] + RNG.standard_normal(80)
FAR = np.vstack([1e4 * np.eye(P), -1e4 * np.eye(P)])


@pytest.mark.parametrize("model", [m for _, m in default_members(0)], ids=lambda m: str(m)[:40])
def test_no_member_goes_far_beyond_what_it_gives_its_training_rows(model):
    fitted = model.fit(ROWS, OUTCOME)
    inside, far = fitted.predict(ROWS), fitted.predict(FAR)
    # a network is bounded unit by unit, boosting goes on from what is bounded
    further = {BoundedRidge: FURTHER, QuadraticRidge: FURTHER}.get(type(fitted), 3.0)
    width = further * np.ptp(inside) + 1e-9
    assert far.min() >= inside.min() - width
    assert far.max() <= inside.max() + width


@pytest.mark.parametrize(
    "model", [m for _, m in family_members("bernoulli", 0)], ids=lambda m: str(m)[:40]
)
def test_no_margin_of_a_class_goes_far_beyond_those_of_the_training_rows(model):
    fitted = model.fit(ROWS, (OUTCOME > 0.0).astype(float))
    inside, far = fitted.predict(ROWS), fitted.predict(FAR)
    log_odds = [np.log(p) - np.log1p(-p) for p in (inside, far)]
    width = np.ptp(log_odds[0]) + 1e-9
    assert log_odds[1].min() >= log_odds[0].min() - width
    assert log_odds[1].max() <= log_odds[0].max() + width


def test_training_rows_are_predicted_as_without_bounds_and_rows_of_weight_0_set_none():
    model = QuadraticRidge().fit(ROWS, OUTCOME)
    np.testing.assert_array_equal(model.predict(ROWS), model.value(ROWS))
    rows, outcome = np.vstack([ROWS, FAR]), np.append(OUTCOME, np.full(len(FAR), 1e3))
    weight = np.append(np.ones(len(ROWS)), np.zeros(len(FAR)))
    for kind in (BoundedRidge, QuadraticRidge):
        plain, weighted = kind().fit(ROWS, OUTCOME), kind().fit(rows, outcome, weight)
        np.testing.assert_allclose(weighted.bounds_, plain.bounds_)
    network = BentHingeNetwork(random_state=0)
    reach = network.fit(rows, outcome, weight).reach_
    np.testing.assert_allclose(reach, network.fit(ROWS, OUTCOME).reach_)


@pytest.mark.parametrize("kind", [LinkedRidge, LinkedQuadratic, LinkedNetwork])
@pytest.mark.parametrize("law", ["normal", "ties"])
def test_bounded_margins_have_the_means_of_fine_sums(kind, law):
    from dfi._lines.linked import linked_lines

    given = {"random_state": 0} if kind is LinkedNetwork else {"bounded": True}
    model = kind(**given).fit(ROWS, (OUTCOME > 0.0).astype(float))
    check(linked_lines(model, P), lines_of(LAWS[law]), 2e-4)


def test_boosting_goes_on_from_a_bounded_margin():
    classes = (OUTCOME > 0.0).astype(float)
    base = LinkedQuadratic(bounded=True)
    model = BoostedMargins(base=base, boosting=LinkedBoosting()).fit(ROWS, classes)
    smooth = np.clip(model.base_.margin(FAR), *model.base_.bounds_)
    np.testing.assert_allclose(model.margin(FAR), smooth + model.boosting_.margin(FAR))
    assert model.bounds_ == (-30.0, 30.0)


def test_residuals_of_rows_left_out_are_those_of_bounded_predictions():
    rows = np.vstack([ROWS, FAR[:1]])
    outcome = np.append(OUTCOME, 0.0)
    for base in (QuadraticRidge(), BentHingeNetwork(random_state=0)):
        model = BoostedResiduals(base=base, boosting=BoundedRidge()).fit(rows, outcome)
        inside = model.base_.predict(rows)
        assert np.abs(model.base_.held_out_residuals_[-1]) <= np.abs(inside).max() + np.ptp(inside)


def test_one_far_row_does_not_decide_a_score():
    generator = np.random.default_rng(2)
    X = pd.DataFrame(generator.standard_normal((90, 3)), columns=list("abc"))
    y = X["a"] + 0.5 * X["b"] + 0.7 * generator.standard_normal(90)
    X.loc[0, "c"] = 60.0
    result = dfi.explain(X, y, random_state=0)
    assert result.quality.r2 > 0.4
    assert np.abs(result.scores[2]) < 0.1 * np.var(y)


def test_a_linear_model_by_name_goes_on_and_says_so():
    generator = np.random.default_rng(2)
    X = pd.DataFrame(generator.standard_normal((90, 3)), columns=list("abc"))
    y = X["a"] + 0.5 * X["b"] + 0.7 * generator.standard_normal(90)
    X.loc[7, "a"] = 60.0
    said = r"far at row 7, because of 'a': .* One such row can decide a score"
    for name in ("linear", "ridge"):
        with pytest.warns(ExtrapolationWarning, match=said):
            assert prepare(X, y, estimator=name).halves
    # the row's own label, also where rows before it are left out
    beside = X.assign(y=y.where(X.index != 3))
    with pytest.warns(ExtrapolationWarning, match="far at row 7, "), pytest.warns(WeakModelWarning):
        dfi.explain(beside, "y", "ridge", diagnose=False)
    far = prepare(X, np.exp(0.3 * y), estimator="linear", loss="poisson")
    with pytest.warns(ExtrapolationWarning, match="row 7"):
        assert far.halves
    assert prepare(X.drop(index=7), y.drop(index=7), estimator="linear").halves
    assert prepare(X, y).halves
