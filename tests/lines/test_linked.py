"""Line means through a link, against sums over the law's atoms and fine grids."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import GammaRegressor, LogisticRegression, PoissonRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dfi._data.problem import read_data
from dfi._learners.glm import LinkedQuadratic, LinkedRidge
from dfi._learners.linked import (
    BoostedMargins,
    LinkedBoosting,
    LinkedNetwork,
    LinkedObliqueBoosting,
)
from dfi._learners.stack import SuperLearner
from dfi._lines.base import Lines, Reference
from dfi._lines.choose import Quadrature, line_model
from dfi._lines.closed_form import LinearLines, QuadraticLines, SumLines
from dfi._lines.linked import (
    MOST_ATOMS,
    LinkedLines,
    TreeMargin,
    _compressed,
    before_map,
    linked_lines,
)
from dfi._lines.quadrature import QuadratureLines, gauss_nodes
from dfi._models.predictor import predictor_for
from dfi.losses import LOG_LOSS, POISSON

rng = np.random.default_rng(0)
N, P = 150, 3
MIX = np.eye(P) + 0.3 * rng.standard_normal((P, P))
Z = rng.standard_normal((N, P))
X = Z @ MIX.T
MARGIN = X[:, 0] + 0.6 * X[:, 1] * X[:, 2]
CLASSES = (rng.random(N) < 1.0 / (1.0 + np.exp(-MARGIN))).astype(float)
COUNTS = rng.poisson(np.exp(0.5 * MARGIN)).astype(float)
TABLE = read_data(X, MARGIN).table
OUTCOMES = {"bernoulli": CLASSES, "poisson": COUNTS, "gamma": COUNTS + 0.5}
LAWS = {
    "gaussian": Reference.gaussian(),
    "empirical": Reference.empirical(Z),
    "weighted": Reference.empirical(Z, rng.integers(0, 4, N).astype(float)),
    "a large one": Reference.empirical(rng.gamma(4.0, 0.5, (6000, P)) - 2.0),
}


def lines_of(law, rows=slice(0, 8), offsets=None):
    shifts = np.zeros((1, P)) if offsets is None else offsets
    return Lines(X[rows], Z[rows], MIX, law, shifts)


def brute(predict, lines):
    """Predict rows moved to every atom, or to a fine grid under the normal density."""
    q, (n, d) = len(lines.offsets), lines.latent.shape
    mean, hermite = np.empty((2, q, n, d))
    for j in range(d):
        if lines.reference.values is None:
            t = np.linspace(-9.0, 9.0, 2001)
            mass = np.exp(-0.5 * t**2) / np.exp(-0.5 * t**2).sum()
        else:
            t, mass = lines.reference.atoms(j)
        for k in range(q):
            step = t - (lines.latent[:, [j]] + lines.offsets[k, j])
            moved = lines.points[:, None, :] + step[:, :, None] * lines.directions[:, j]
            value = predict(moved.reshape(-1, P)).reshape(n, -1)
            mean[k, :, j], hermite[k, :, j] = value @ mass, value @ (mass * t)
    return mean, hermite


def read(model, table=TABLE, sample=X, **options):
    return line_model(predictor_for(model, table, prefit=False), sample, Quadrature(), **options)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("family", OUTCOMES)
@pytest.mark.parametrize("kind", [LinkedRidge, LinkedQuadratic])
def test_smooth_margins_have_the_means_of_fine_sums(kind, family, law):
    model = kind(family=family).fit(X, OUTCOMES[family])
    found = read(model)
    assert isinstance(found, LinkedLines)
    assert np.allclose(found.predict(X), model.predict(X))
    # bounds of rates bend them where lines leave the rows far behind
    found = replace(found, bounds=(-30.0, 30.0))
    lines = lines_of(LAWS[law])
    moments = found.moments(lines)
    expected = brute(found.predict, lines)
    spread = np.std(expected[0])
    for own, true in zip((moments.mean, moments.hermite), expected, strict=True):
        assert np.abs(own - true).max() < 1e-5 * spread


@pytest.mark.parametrize("law", ["gaussian", "empirical", "a large one"])
def test_networks_have_the_means_of_fine_sums(law):
    model = LinkedNetwork(random_state=0).fit(X, CLASSES)
    lines = lines_of(LAWS[law])
    moments = read(model).moments(lines)
    mean, hermite = brute(model.predict, lines)
    assert np.abs(moments.mean - mean).max() < 1e-4
    assert np.sqrt(np.mean((moments.mean - mean) ** 2)) < 1e-5
    assert np.abs(moments.hermite - hermite).max() < 2e-4


@pytest.mark.parametrize("family", ["bernoulli", "poisson"])
@pytest.mark.parametrize("kind", [LinkedBoosting, LinkedObliqueBoosting])
def test_trees_behind_a_link_are_exact(kind, family):
    model = kind(family=family).fit(X, OUTCOMES[family])
    found = read(model)
    assert found.rule.startswith("exact: ")
    lines = lines_of(LAWS["weighted"])
    moments = found.moments(lines)
    mean, hermite = brute(model.predict, lines)
    assert np.allclose(moments.mean, mean, atol=1e-10)
    assert np.allclose(moments.hermite, hermite, atol=1e-10)


@pytest.mark.parametrize("family", ["bernoulli", "poisson"])
def test_trees_after_a_smooth_margin_are_exact_where_the_law_is_short(family):
    base, boosting = LinkedQuadratic(family=family), LinkedBoosting(family=family)
    model = BoostedMargins(base=base, boosting=boosting).fit(X, OUTCOMES[family])
    found = read(model)
    assert isinstance(found.margin, TreeMargin)
    for law in ("empirical", "weighted"):
        lines = lines_of(LAWS[law])
        moments = found.moments(lines)
        mean, hermite = brute(model.predict, lines)
        assert np.allclose(moments.mean, mean, atol=1e-10)
        assert np.allclose(moments.hermite, hermite, atol=1e-10)
    for law in ("gaussian", "a large one"):
        lines = lines_of(LAWS[law])
        moments = found.moments(lines)
        mean, _ = brute(model.predict, lines)
        error = np.sqrt(np.mean((moments.mean - mean) ** 2))
        # the fine grid errs at jumps too, by about as much
        assert error < 4e-3 * np.std(mean)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("family", ["bernoulli", "poisson"])
def test_trees_of_categories_after_a_smooth_margin_are_those_of_moved_rows(family, gaps):
    """Walked once a line, piece by piece; beside every moved row predicted on its own."""
    levels = np.array(["a", "b", "c", "d"])[np.digitize(X[:, 1], [-1.0, 0.0, 1.0])]
    value = np.where(rng.random(N) < 0.2, np.nan, X[:, 2]) if gaps else X[:, 2]
    frame = pd.DataFrame({"x": X[:, 0], "level": levels, "value": value})
    table = read_data(frame, MARGIN).table
    matrix, p = table.matrix, table.matrix.shape[1]
    model = BoostedMargins(
        base=LinkedQuadratic(family=family), boosting=LinkedBoosting(family=family)
    ).fit(matrix, OUTCOMES[family])
    found = read(model, table, matrix)
    assert isinstance(found.margin, TreeMargin)
    assert found.margin.trees.categories
    directions = np.random.default_rng(5).standard_normal((p, 2))
    latent = np.random.default_rng(6).standard_normal((N, 2))
    for size in (N, 2000):
        values = np.random.default_rng(7).standard_normal((size, 2))
        law = Reference.empirical(np.vstack([latent, values]))
        lines = Lines(matrix[:8], latent[:8], directions, law, np.zeros((1, 2)))
        moments = found.moments(lines)
        for j in range(2):
            t, mass = law.atoms(j)
            step = t - latent[:8, [j]]
            step[np.abs(step) < 1e-12] = 0.0
            moved = matrix[:8, None, :] + step[:, :, None] * directions[:, j]
            predicted = found.predict(moved.reshape(-1, p)).reshape(8, -1)
            both = ((moments.mean, mass), (moments.hermite, mass * t))
            for own, weight in both:
                true = predicted @ weight
                error = np.sqrt(np.mean((own[0, :, j] - true) ** 2))
                # values of a short law are summed, a long one is put into cells
                assert error < (1e-11 if size == N else 2e-2) * np.std(true)


def test_offsets_of_a_random_kernel_shift_the_rows():
    model = LinkedRidge().fit(X, CLASSES)
    offsets = np.array([[0.0, 0.0, 0.0], [0.4, 0.0, -0.3]])
    lines = lines_of(LAWS["gaussian"], offsets=offsets)
    moments = read(model).moments(lines)
    mean, hermite = brute(model.predict, lines)
    assert np.allclose(moments.mean, mean, atol=1e-8)
    assert np.allclose(moments.hermite, hermite, atol=1e-8)


@pytest.mark.parametrize("law", LAWS)
def test_steep_lines_take_more_nodes(law):
    for slope in (0.0, 1.0, 8.0, 25.0):
        found = LinkedLines(LinearLines(np.array([slope, 0.3, 0.0]), 0.2), "logistic")
        lines = lines_of(LAWS[law])
        moments = found.moments(lines)
        mean, hermite = brute(found.predict, lines)
        assert np.abs(moments.mean - mean).max() < 1e-6
        assert np.abs(moments.hermite - hermite).max() < 1e-5


def test_a_blocks_means_do_not_depend_on_the_other_rows():
    model = LinkedNetwork(random_state=0).fit(X, CLASSES)
    whole = read(model).moments(lines_of(LAWS["empirical"], slice(0, 40)))
    part = read(model).moments(lines_of(LAWS["empirical"], slice(10, 20)))
    assert np.allclose(whole.mean[:, 10:20], part.mean, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (LogisticRegression(), CLASSES.astype(int)),
        (make_pipeline(StandardScaler(), LogisticRegression(C=0.5)), CLASSES.astype(int)),
        (PoissonRegressor(), COUNTS),
        (make_pipeline(StandardScaler(), PoissonRegressor(alpha=0.1)), COUNTS),
        (make_pipeline(StandardScaler(), GammaRegressor()), COUNTS + 0.5),
    ],
)
def test_regressions_of_scikit_learn_are_read(model, y):
    model.fit(X, y)
    found = read(model)
    assert isinstance(found, LinkedLines)

    def predict(rows):
        if hasattr(model, "predict_proba"):
            return model.predict_proba(rows)[:, 1]
        return model.predict(rows)

    lines = lines_of(LAWS["weighted"])
    moments = found.moments(lines)
    mean, hermite = brute(predict, lines)
    assert np.allclose(moments.mean, mean, atol=1e-7 * np.std(mean))
    assert np.allclose(moments.hermite, hermite, atol=1e-6 * np.std(mean))


def test_several_classes_are_not_read_as_two():
    three = np.digitize(X[:, 0], [-0.5, 0.5])
    assert linked_lines(LogisticRegression().fit(X, three), P) is None


@pytest.mark.parametrize(("family", "loss"), [("bernoulli", LOG_LOSS), ("poisson", POISSON)])
def test_a_stack_of_a_family_is_a_sum_without_quadrature(family, loss):
    learner = SuperLearner(family=family, loss=loss, n_folds=0, random_state=0)
    model = learner.fit(X, OUTCOMES[family])
    found = read(model)
    assert isinstance(found, SumLines)
    assert not any(isinstance(part, QuadratureLines) for part in found.parts)
    assert np.allclose(found.predict(X), model.predict(X))
    lines = lines_of(LAWS["empirical"])
    mean, _ = brute(model.predict, lines)
    assert np.allclose(found.moments(lines).mean, mean, atol=1e-4 * np.std(mean))


def test_levels_and_missing_values_are_followed_by_trees_after_a_margin():
    generator = np.random.default_rng(1)
    n = 300
    frame = pd.DataFrame(
        {
            "a": generator.standard_normal(n),
            "whole": generator.integers(0, 4, n),
            "word": generator.choice(["u", "v", "w"], n),
        }
    )
    frame.loc[generator.random(n) < 0.2, "a"] = np.nan
    margin = frame["a"].fillna(0.0).to_numpy() + (frame["word"] == "v") + (frame["whole"] > 1)
    y = (generator.random(n) < 1.0 / (1.0 + np.exp(-margin.to_numpy()))).astype(float)
    data = read_data(frame, y)
    matrix = data.table.matrix
    for model in (
        LinkedBoosting(),
        BoostedMargins(base=LinkedQuadratic(bounded=True), boosting=LinkedBoosting()),
    ):
        model.fit(matrix, y)
        predictor = predictor_for(model, data.table, prefit=False)
        found = line_model(predictor, matrix, Quadrature())
        assert not isinstance(found, QuadratureLines)
        d = matrix.shape[1]
        some = Lines(
            matrix[:15], matrix[:15], np.eye(d), Reference.empirical(matrix), np.zeros((1, d))
        )
        mean = np.empty((15, d))
        smooth = model.base_ if isinstance(model, BoostedMargins) else None
        boosting = model.boosting_ if isinstance(model, BoostedMargins) else model
        for j in range(d):
            t, mass = some.reference.atoms(j)
            moved = np.repeat(matrix[:15, None], len(t), axis=1)
            moved[:, :, j] = t
            rows = moved.reshape(-1, d)
            # trees see the nearest levels, the smooth margin the row as it is
            total = boosting.margin(predictor.levels.nearest(rows))
            total += 0.0 if smooth is None else np.clip(smooth.margin(rows), *smooth.bounds_)
            mean[:, j] = (1.0 / (1.0 + np.exp(-total))).reshape(15, -1) @ mass
        gaps = [gap.value for gap in predictor.levels.gaps] + [
            gap.indicator for gap in predictor.levels.gaps
        ]
        free = [j for j in range(d) if j not in gaps]
        assert np.allclose(found.moments(some).mean[0][:, free], mean[:, free], atol=1e-9)


def test_a_law_of_many_values_keeps_its_moments_and_gauss_rules():
    values = np.sort(np.random.default_rng(0).standard_t(4, 3 * MOST_ATOMS))
    mass = np.full(len(values), 1.0 / len(values))
    nodes, weights = _compressed(values, mass)
    assert len(nodes) <= MOST_ATOMS
    assert np.all(weights > 0)
    for power in range(4):
        assert np.isclose(weights @ nodes**power, mass @ values**power, rtol=1e-9, atol=1e-12)
    smooth = 1.0 / (1.0 + np.exp(-2.0 * values))
    assert np.isclose(weights @ (1.0 / (1.0 + np.exp(-2.0 * nodes))), mass @ smooth, atol=1e-9)


def test_gauss_rules_that_go_on_are_those_made_at_once():
    law = Reference.empirical(np.random.default_rng(0).standard_normal((300, 1)))
    nodes, weights = gauss_nodes(law, 0, 24)
    found = LinkedLines(LinearLines(np.array([1.0]), 0.0), "exp")
    lines = Lines(np.zeros((1, 1)), np.zeros((1, 1)), np.eye(1), law, np.zeros((1, 1)))
    assert np.isclose(found.moments(lines).mean[0, 0, 0], weights @ np.exp(nodes), rtol=1e-12)


def test_bounds_keep_the_exponential_of_a_parabola_finite():
    margin = QuadraticLines(np.zeros(P), np.zeros(P), np.eye(P), 0.0)
    found = LinkedLines(margin, "exp", (-5.0, 2.0))
    moments = found.moments(lines_of(LAWS["gaussian"]))
    assert np.isfinite(moments.mean).all()
    assert moments.mean.max() <= np.exp(2.0) * (1.0 + 1e-12)


@pytest.mark.parametrize("family", ["gaussian", "bernoulli"])
def test_a_closed_form_of_columns_is_one_of_coordinates(family):
    y = MARGIN if family == "gaussian" else CLASSES
    model = SuperLearner(family=family, n_folds=0, random_state=0).fit(X, y)
    parts = {part.__class__.__name__: part for part in model.estimators_}
    origin = np.array([1.0, -2.0, 0.5])
    followed = 0
    for name, part in parts.items():
        lines = line_model(predictor_for(part, TABLE, prefit=False), X, Quadrature())
        found = before_map(lines, origin, MIX)
        if "Boost" in name or "Quadratic" in name:
            assert found is None
            continue
        followed += 1
        np.testing.assert_allclose(
            found.predict(Z), lines.predict(origin + Z @ MIX.T), rtol=1e-10, atol=1e-12
        )
    assert followed >= 3
    both = SumLines((LinearLines(np.ones(P), 0.5), LinearLines(MIX[0], -1.0)), (0.3, 0.7), 2.0)
    found = before_map(both, origin, MIX)
    np.testing.assert_allclose(found.predict(Z), both.predict(origin + Z @ MIX.T))


def test_rules_of_a_law_keep_its_moments_without_orthogonal_vectors():
    """Outliers are what the Lanczos process loses its orthogonality to."""
    values = np.sort(np.concatenate([rng.standard_normal(900), [9.0, 14.0, -11.0]]))
    law = Reference.empirical(values[:, None])
    for m, bound in ((8, 0.1), (32, 1e-3), (128, 1e-8), (256, 1e-10)):
        nodes, weights = gauss_nodes(law, 0, m)
        assert weights.sum() == pytest.approx(1.0, abs=1e-12)
        assert weights @ nodes**7 == pytest.approx(np.mean(values**7), rel=1e-9)
        assert weights @ np.tanh(nodes) == pytest.approx(np.tanh(values).mean(), abs=bound)
