"""Groups as units: joint scores with the models of a result, and Shapley values over atoms."""

import copy
import itertools
import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import dfi
from dfi._data.groups import read_groups
from dfi._data.problem import covering, group_blocks
from dfi._data.table import read_table
from dfi._data.weights import Weights
from dfi._models.prepare import prepare
from dfi.methods.disentangled import Disentangled, widened
from dfi.warnings import InferenceWarning

OVERLAPPING = {"first": ["x0", "x1"], "second": ["x1", "x2"], "third": ["x3"]}
DISJOINT = {"first": ["x0", "x1"], "second": ["x2"], "third": ["x3", "x4"]}


def interacting(X):
    """The specification's eta: Shapley values .583, .583, 2.333 for independent normals."""
    x = np.asarray(X, dtype=float)
    return x[:, 0] * x[:, 1] + 1.5 * x[:, 2] + 0.5 * x[:, 0] * x[:, 1] * x[:, 2]


def sample(n=300, d=5, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((n, d))
    X[:, 1] += 0.8 * X[:, 0]
    y = X[:, 0] + X[:, 1] * X[:, 2] + X[:, 3] + generator.standard_normal(n)
    return X, y


def shapley(X, y, groups, estimator=interacting, **changes):
    fits = prepare(X, y, estimator=estimator, cv="prefit", feature_groups=groups, units="groups")
    method = Disentangled(additive=True, diagnose=False, transport_error="ignore", **changes)
    return method.explain(fits).part


@pytest.fixture(scope="module")
def explained():
    X, y = sample()
    return dfi.explain(X, y, "boosting", cv=3, feature_groups=OVERLAPPING, diagnose=False)


@pytest.mark.parametrize("groups", [OVERLAPPING, DISJOINT])
def test_joint_scores_afterwards_are_those_of_groups_as_units(groups):
    X, y = sample()
    shared = {"estimator": Ridge(), "cv": 3, "feature_groups": groups, "diagnose": False}
    later = dfi.explain(X, y, n_repeats=2, **shared).group(how="joint")
    units = dfi.explain(X, y, n_repeats=2, units="groups", **shared)
    assert later.names == units.names == tuple(groups)
    np.testing.assert_array_equal(later.influence, units.influence)
    np.testing.assert_array_equal(later.latent.influence, units.latent.influence)
    np.testing.assert_array_equal(later.spread, units.spread)
    assert later.spec == units.spec
    assert later.spec["group_scores"] == "joint"


def test_models_are_not_fitted_again(monkeypatch):
    X, y = sample(120)
    result = dfi.explain(X, y, "linear", cv=2, feature_groups=DISJOINT, diagnose=False)
    monkeypatch.setattr(
        "dfi._models.fits.cross_fit", lambda *_, **__: pytest.fail("models were fitted again")
    )
    assert result.group(how="joint").names == tuple(DISJOINT)
    assert result.group({"all": ["x0", "x1", "x2", "x3", "x4"]}, how="joint").names == ("all",)


def test_everything_as_one_group_carries_the_whole_explained_variance():
    X, y = sample(500)
    groups = {"all": list(range(5))}
    fits = prepare(
        X, y, estimator="linear", cv=2, n_repeats=1, feature_groups=groups, units="groups"
    )
    part = Disentangled(form="loco", diagnose=False, transport_error="ignore").explain(fits).part
    explained = np.var(y) - np.mean(fits.residuals**2)
    # the mean of a fold's model over all rows is not that of the outcome to the last digit
    assert part.influence.mean() == pytest.approx(explained, rel=0.02)


def test_shapley_values_of_an_interaction_are_its_parts_divided_evenly():
    X = np.random.default_rng(2).standard_normal((6000, 3))
    y = interacting(X) + np.random.default_rng(3).standard_normal(6000)
    part = shapley(X, y, {"a": [0], "b": [1], "c": [2]})
    error = part.influence.std(axis=0) / np.sqrt(len(y))
    truth = np.array([7 / 12, 7 / 12, 7 / 3])
    assert np.all(np.abs(part.influence.mean(axis=0) - truth) < 3.5 * error)
    assert np.all(error < 0.1)


@pytest.mark.parametrize("groups", [OVERLAPPING, DISJOINT, {"one": ["x2", "x4"]}])
def test_shapley_values_add_up_to_the_explained_variance(groups):
    X, noise = sample(400, seed=4)
    y = interacting(X) + 0.3 * noise
    part = shapley(X, y, groups)
    explained = np.mean((y - y.mean()) ** 2) - np.mean((y - interacting(X)) ** 2)
    for found in (part, part.latent):
        assert found.influence.sum(axis=1).mean() == pytest.approx(explained, abs=1e-9)
    covered = {name for members in groups.values() for name in members}
    assert (part.names[-1] == "other columns") == (len(covered) < 5)


def test_shapley_values_of_halves_add_up_to_the_cross_form_of_r2(explained):
    found = explained.group(how="shapley")
    models = explained.source.fits.halves
    y, lost = explained.source.fits.outcome.values, 0.0
    for fold in models:
        X = explained.source.fits.table.matrix[fold.test]
        first, last = (predict(X) for predict in fold.predictors)
        lost += np.sum((y[fold.test] - first) * (y[fold.test] - last))
    assert found.total.value == pytest.approx(np.var(y) - lost / len(y), rel=1e-9)
    assert found.spec["group_scores"] == "shapley"
    assert "Importance (group, shapley): 4 groups" in repr(found)


def test_shared_atoms_are_divided_evenly():
    X = np.random.default_rng(5).standard_normal((3000, 3))
    y = X.sum(axis=1)
    overlapping = {"a": ["x0", "x1"], "b": ["x1", "x2"]}
    part = shapley(X, y, overlapping, estimator=lambda rows: np.asarray(rows).sum(axis=1))
    np.testing.assert_allclose(part.influence.mean(axis=0), [1.5, 1.5], atol=0.15)


def test_shapley_twin_over_all_orders():
    """Of a linear model every mean is known: all orders by hand."""
    X, y = sample(200, seed=6)
    beta = np.array([1.0, -0.5, 0.7, 0.3, 0.0])
    predictor = Ridge(alpha=1e-9).fit(X, X @ beta)
    groups = {"a": [0, 1], "b": [2], "c": [3, 4]}
    fits = prepare(X, y, estimator=predictor, cv="prefit", feature_groups=groups, units="groups")
    method = Disentangled(additive=True, diagnose=False, transport_error="ignore")
    explained = method.explain(fits)
    latent = explained.transport.draw(X, np.random.default_rng(0))
    gamma = explained.transport.inner.directions(explained.transport.geometry.decoder).T @ beta
    owner = explained.transport.inner.owner
    effect = np.stack([latent[:, owner == b] @ gamma[owner == b] for b in range(3)], axis=1)
    effect -= effect.mean(axis=0)
    f, expected = predictor.predict(X), np.zeros(3)
    for order in itertools.permutations(range(3)):
        before = np.mean((y - f) ** 2)
        for step, unit in enumerate(order):
            replaced = f - effect[:, list(order[: step + 1])].sum(axis=1)
            after = np.var(y) if step == 2 else np.mean((y - replaced) ** 2)
            expected[unit] += (after - before) / 6
            before = after
    # order and reverse are exact for pairs; only who stands last, next to the mean, is drawn
    np.testing.assert_allclose(explained.part.latent.influence.mean(axis=0), expected, atol=0.01)


def test_the_order_of_columns_does_not_matter():
    X, noise = sample(250, seed=7)
    y = interacting(X) + 0.3 * noise
    names = ["x0", "x1", "x2", "x3", "x4"]
    moved = [3, 1, 4, 0, 2]

    def scores(columns):
        table = {names[j]: X[:, j] for j in columns}
        pandas = pytest.importorskip("pandas")
        return shapley(
            pandas.DataFrame(table), y, OVERLAPPING, lambda rows: interacting(rows[names[:3]])
        ).influence

    np.testing.assert_allclose(scores(moved), scores(range(5)), atol=1e-9)


def test_a_unit_that_the_model_does_not_read_is_no_player():
    X = np.random.default_rng(8).standard_normal((500, 5))
    y = interacting(X)
    part = shapley(X, y, {"read": [0, 1, 2], "unread": [3, 4]})
    np.testing.assert_array_equal(part.influence[:, 1], 0.0)


def test_errors_include_what_differs_from_split_to_split():
    X, y = sample()
    result = dfi.explain(
        X, y, "boosting", cv=2, n_repeats=3, feature_groups=DISJOINT, diagnose=False
    )
    found = result.group(how="shapley")
    assert found.spread is not None
    assert np.all(found.se**2 >= found.spread**2 / 3)


def test_the_transports_own_error_is_counted():
    X, y = sample()
    apart = {"a": ["x0", "x3"], "b": ["x1", "x2"]}
    known, aware = (
        dfi.explain(
            X, y, Ridge(), cv=2, feature_groups=apart, diagnose=False, transport_error=error
        ).group(how="shapley")
        for error in ("ignore", "auto")
    )
    np.testing.assert_allclose(known.scores, aware.scores)
    assert not np.allclose(known.se, aware.se)


def test_atoms_are_sets_of_columns_with_the_same_memberships():
    table = read_table(np.random.default_rng(0).standard_normal((9, 5)))
    groups = read_groups(OVERLAPPING, table.names)
    blocks = group_blocks(groups, table.columns)
    assert [block.name for block in blocks.columns] == [
        "first", "first & second", "second", "third", "x4",
    ]  # fmt: skip
    assert [target.units for target in blocks.targets] == [(0, 1), (1, 2), (3,)]
    assert covering(groups).names == (*OVERLAPPING, "other columns")
    taken = read_groups({"other columns": ["x0"]}, table.names)
    assert covering(taken).names == ("other columns", "all other columns")


def test_a_ratio_tells_what_dependence_is_left_between_atoms():
    X, y = sample(400)
    shared = {"estimator": "boosting", "cv": 2, "n_repeats": 1, "units": "groups"}
    found = dfi.explain(X, y, feature_groups=OVERLAPPING, **shared).diagnostics["overlap"]
    assert set(found["of_atoms"]) == {"first", "second"}  # the third is one atom
    # x1 x2 counts for both of its atoms
    assert 0.4 < found["of_atoms"]["second"] < 1.0
    atoms = {"first": ["x0"], "both": ["x1"], "second": ["x2"], "third": ["x3"]}
    apart = dfi.explain(X, y, feature_groups=atoms, diagnose=False, **shared)
    np.testing.assert_allclose(
        [found["atoms"][name] for name in ("first", "second", "third")],
        [apart.latent.scores[apart.names.index(name)] for name in ("first", "second", "third")],
        rtol=1e-3,  # single columns apart are averaged along lines
    )
    disjoint = dfi.explain(X, y, feature_groups=DISJOINT, **shared)
    assert "overlap" not in disjoint.diagnostics


def test_overlapping_groups_of_single_columns_are_scored_as_one():
    X, y = sample(200)
    groups = {"a": [0, 1], "b": [1, 2]}
    result = dfi.explain(
        X[:, :3], y, "linear", cv=2, feature_groups=groups, units="groups", diagnose=False
    )
    assert result.names == ("a", "b")
    assert np.all(result.scores > 0)


@pytest.mark.parametrize(
    "change",
    [
        lambda result: pickle.loads(pickle.dumps(result)),  # noqa: S301
        copy.copy,
        lambda result: result.moments(),
        lambda result: result.group(),
        lambda result: result - result,
    ],
)
@pytest.mark.parametrize("how", ["joint", "shapley"])
def test_a_result_without_its_models_says_what_to_do(explained, change, how):
    changed = change(explained)
    assert changed.source is None
    with pytest.raises(ValueError, match=r"need the fitted models.*how='sum'.*units='groups'"):
        changed.group(OVERLAPPING, how=how)


def test_a_loaded_result_says_what_to_do(explained, tmp_path):
    loaded = dfi.load(explained.save(tmp_path / "result.dfi"))
    with pytest.raises(ValueError, match=r"joint scores of groups need the fitted models"):
        loaded.group(how="joint")
    np.testing.assert_array_equal(loaded.group().scores, explained.group().scores)


def test_other_refusals(explained):
    with pytest.raises(ValueError, match="how must be 'sum', 'joint' or 'shapley'"):
        explained.group(how="mean")
    with pytest.raises(ValueError, match=r"joint scores of groups .* not its latent part"):
        explained.latent.group(how="joint")
    with pytest.raises(ValueError, match="no groups were given"):
        replace(explained, default_groups=None).group(how="joint")
    X, y = sample(100)
    loco = dfi.compare(X, y, ["loco"], estimator="linear", cv=2)["loco"]
    with pytest.raises(ValueError, match=r"need a result of method 'dfi'.*'loco'"):
        loco.group({"a": ["x0"]}, how="joint")
    copula = dfi.explain(X, y, "linear", cv=2, transport="copula", diagnose=False)
    with pytest.raises(ValueError, match=r"linear map between groups.*'copula'.*adds up columns"):
        copula.group(DISJOINT, how="shapley")
    cpi = dfi.explain(X, y, "linear", cv=2, form="cpi", diagnose=False)
    with pytest.raises(ValueError, match="without form='cpi'"):
        cpi.group(DISJOINT, how="shapley")
    with pytest.raises(ValueError, match=r"pass feature_groups=.* and units='groups'"):
        Disentangled(additive=True).explain(prepare(X, y, estimator="linear"))


def test_a_joint_score_and_a_sum_are_not_subtracted(explained):
    with pytest.raises(ValueError, match="group_scores: 'joint' and 'sum of columns'"):
        explained.group(how="joint").minus(explained.group())


def test_sums_over_many_columns_are_warned_of():
    X, y = sample(70, 36)
    X += X[:, :1]
    result = dfi.explain(X, y, "ridge", cv=2, diagnose=False)
    groups = {"many": [f"x{j}" for j in range(30)], "few": ["x30", "x31"]}
    with pytest.warns(
        InferenceWarning, match=r"70 rows for 36 columns that share.*how='joint'.*units="
    ):
        grouped = result.group(groups)
    assert grouped.spec["group_scores"] == "sum of columns"
    assert grouped.latent.spec["group_scores"] == "sum of columns"
    result.group({"one": ["x0"]})  # nothing is added up


def test_values_are_stretched_by_the_spread_over_splits():
    """The variance of the mean over splits row by row, and that of the scores over splits."""
    rng = np.random.default_rng(0)
    influence, spread = rng.standard_normal((50, 3)) + 1.0, np.array([0.0, 0.1, 2.0])
    weights = Weights(np.ones(50), "frequency")
    stretched = widened(influence, spread**2 / 4, weights)
    np.testing.assert_allclose(weights.mean(stretched), weights.mean(influence))
    np.testing.assert_allclose(
        weights.standard_error(stretched) ** 2,
        weights.standard_error(influence) ** 2 + spread**2 / 4,
    )


def test_rows_far_from_near_collinear_columns_leave_errors_that_mean_something():
    """Curves of four sources, recorded with heavy-tailed noise of a hundred thousandth."""
    generator = np.random.default_rng(0)
    grid = np.linspace(0.0, 1.0, 30)
    basis = np.exp(-0.5 * ((grid - np.array([[0.1], [0.35], [0.6], [0.9]])) / 0.2) ** 2)
    sources = generator.standard_normal((120, 4))
    X = sources @ basis + 1e-5 * np.clip(generator.standard_t(1, (120, 30)), -100.0, 100.0)
    y = sources @ [1.0, 0.5, -0.8, 0.3] + 0.2 * generator.standard_normal(120)
    bands = {f"b{k}": [f"x{10 * k + i}" for i in range(10)] for k in range(3)}
    result = dfi.explain(X, y, "ridge", feature_groups=bands, units="groups", diagnose=False)
    assert np.all(result.se < 0.5 * result.scores)
    assert np.all(result.se > 0.01 * result.scores)
