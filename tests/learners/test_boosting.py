"""Boosting of small trees, against a slow twin that grows them row by row."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from dfi._learners.boosting import LeastSquaresBoosting, ObliqueBoosting, _cuts, varies_freely
from dfi._lines.trees import read_trees

GENERATOR = np.random.default_rng(0)
N = 60
X = GENERATOR.standard_normal((N, 4))
Y = X[:, 0] * X[:, 1] + (X[:, 2] > 0) + 0.3 * GENERATOR.standard_normal(N)
WEIGHT = GENERATOR.uniform(0.2, 3.0, N)
FEW = {"n_trees": 12, "max_leaves": 5}

# Models are compared at the rows that they were fitted to: where two columns part the rows of a
# leaf alike rounding chooses between them, which is seen by other rows only.


def slow_twin(X, y, weight, *, n_trees, max_leaves, rate=0.1, min_rows=5, bins=64):
    """Return the predictions at the rows: leaves are lists of rows, every split is tried."""
    codes = [np.searchsorted(_cuts(column, bins), column) for column in X.T]
    start = np.average(y, weights=weight)
    residual = y - start

    def error(rows):
        mean = np.average(residual[rows], weights=weight[rows])
        return weight[rows] @ (residual[rows] - mean) ** 2

    def best(rows):
        found = (0.0, rows, rows)
        for code in codes:
            for c in np.unique(code[rows])[:-1]:
                left, right = rows[code[rows] <= c], rows[code[rows] > c]
                if min(len(left), len(right)) >= min_rows:
                    gain = error(rows) - error(left) - error(right)
                    found = max(found, (gain, left, right), key=lambda split: split[0])
        return found

    for _ in range(n_trees):
        leaves = [(best(rows), rows) for rows in [np.arange(len(y))]]
        while len(leaves) < max_leaves:
            place = int(np.argmax([split[0] for split, _ in leaves]))
            gain, left, right = leaves[place][0]
            if gain <= 1e-12:
                break
            leaves[place : place + 1] = [(best(left), left), (best(right), right)]
        for _, rows in leaves:
            residual[rows] -= rate * np.average(residual[rows], weights=weight[rows])
    return y - residual


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("options", [{}, {"min_rows": 1}, {"bins": 7}])
def test_trees_are_those_of_the_slow_twin(weighted, options):
    weight = WEIGHT if weighted else np.ones(N)
    expected = slow_twin(X, Y, weight, **FEW, **options)
    given = {"max_bins": options["bins"]} if "bins" in options else options
    model = LeastSquaresBoosting(**FEW, **given).fit(X, Y, WEIGHT if weighted else None)
    np.testing.assert_allclose(model.predict(X), expected, rtol=0, atol=1e-10)
    assert np.bincount(model.feature_ >= 0)[0] <= 5 * 12
    assert model.intercept_ == pytest.approx(np.average(Y, weights=weight))


def test_ties_are_binned_by_their_value():
    rough = np.round(X * 2) / 2
    expected = slow_twin(rough, Y, WEIGHT, **FEW)
    found = LeastSquaresBoosting(**FEW).fit(rough, Y, WEIGHT).predict(rough)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


def test_kernel_runs_outside_numba(monkeypatch):
    from dfi._learners import kernels_boosting

    native = LeastSquaresBoosting(**FEW).fit(X, Y, WEIGHT).predict(X)
    for name in ("grow", "walk"):
        used = getattr(kernels_boosting, name)
        monkeypatch.setattr(used, "dispatcher", used.function)
    bare = LeastSquaresBoosting(**FEW).fit(X, Y, WEIGHT).predict(X)
    np.testing.assert_allclose(bare, native, rtol=0, atol=1e-12)


def test_order_of_columns_does_not_matter():
    plain = LeastSquaresBoosting(**FEW).fit(X, Y)
    order = [2, 0, 3, 1]
    other = LeastSquaresBoosting(**FEW).fit(X[:, order], Y)
    np.testing.assert_allclose(other.predict(X[:, order]), plain.predict(X), rtol=0, atol=1e-10)


@pytest.mark.parametrize("bins", [8, 64])
@pytest.mark.parametrize("change", [lambda x: 3.7 * x + 100.0, lambda x: 1e-9 * x, np.exp])
def test_scales_that_keep_the_order_of_values_change_nothing(change, bins):
    plain = LeastSquaresBoosting(**FEW, max_bins=bins).fit(X, Y)
    other = LeastSquaresBoosting(**FEW, max_bins=bins).fit(change(X), Y)
    np.testing.assert_array_equal(other.predict(change(X)), plain.predict(X))
    np.testing.assert_array_equal(other.feature_, plain.feature_)


def test_outcome_is_shifted_and_scaled_along():
    plain = LeastSquaresBoosting(**FEW).fit(X, Y).predict(X)
    other = LeastSquaresBoosting(**FEW).fit(X, 1e3 * Y + 5.0).predict(X)
    np.testing.assert_allclose(other, 1e3 * plain + 5.0, rtol=1e-9)


@pytest.mark.parametrize("model", [LeastSquaresBoosting(**FEW), ObliqueBoosting()])
def test_rows_of_weight_0_are_not_there(model):
    weight = np.where(np.arange(N) % 3 == 0, 0.0, WEIGHT)
    kept = weight > 0
    far = X.copy()
    far[~kept] *= 100.0
    whole = clone(model).fit(far, Y, weight)
    part = clone(model).fit(X[kept], Y[kept], weight[kept])
    np.testing.assert_allclose(whole.predict(X), part.predict(X), rtol=0, atol=1e-12)


def test_whole_weights_are_repeated_rows():
    counts = GENERATOR.integers(1, 4, N)
    options = {**FEW, "min_rows": 1}
    weighted = LeastSquaresBoosting(**options).fit(X, Y, counts)
    repeated = LeastSquaresBoosting(**options).fit(np.repeat(X, counts, axis=0), Y.repeat(counts))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=0, atol=1e-10)


def test_scale_of_the_weights_does_not_matter():
    plain = LeastSquaresBoosting(**FEW).fit(X, Y, WEIGHT).predict(X)
    other = LeastSquaresBoosting(**FEW).fit(X, Y, 1e6 * WEIGHT).predict(X)
    np.testing.assert_allclose(other, plain, rtol=0, atol=1e-10)


def test_constant_columns_are_never_split():
    wide = np.column_stack([np.full(N, 3.0), X, np.zeros(N)])
    model = LeastSquaresBoosting(**FEW).fit(wide, Y)
    assert not {0, 5} & set(model.feature_.tolist())
    assert model.gains_[0] == model.gains_[5] == 0.0
    plain = LeastSquaresBoosting(**FEW).fit(X, Y)
    np.testing.assert_array_equal(model.predict(wide), plain.predict(X))
    flat = LeastSquaresBoosting().fit(np.ones((N, 2)), Y)
    assert set(flat.feature_.tolist()) == {-1}
    np.testing.assert_allclose(flat.predict(np.zeros((3, 2))), Y.mean(), rtol=1e-12)


def test_constant_outcome_is_predicted():
    model = LeastSquaresBoosting().fit(X, np.full(N, 0.1))
    np.testing.assert_allclose(model.predict(3 * X), 0.1, rtol=1e-12)


def test_two_rows():
    rows, y = np.array([[0.0], [1.0]]), np.array([1.0, 3.0])
    whole = LeastSquaresBoosting().fit(rows, y)
    np.testing.assert_allclose(whole.predict(rows), 2.0)
    parted = LeastSquaresBoosting(min_rows=1, n_trees=200).fit(rows, y)
    np.testing.assert_allclose(parted.predict(rows), y, atol=1e-8)
    assert set(parted.threshold_[parted.feature_ >= 0].tolist()) == {0.5}


def test_one_leaf_is_the_mean():
    model = LeastSquaresBoosting(max_leaves=1, n_trees=3).fit(X, Y)
    np.testing.assert_allclose(model.predict(X), Y.mean(), atol=1e-12)
    assert len(model.feature_) == 3


@pytest.mark.parametrize("at", [0.0, 1.0, -1.0, 1e300, 5e-324, -5e-324, 1e-310])
def test_thresholds_part_neighbouring_numbers(at):
    low, high = at, np.nextafter(at, np.inf)
    rows = np.repeat([low, high], 5)[:, None]
    y = np.repeat([-1.0, 1.0], 5)
    assert _cuts(rows[:, 0], 64).tolist() == [low]
    model = LeastSquaresBoosting().fit(rows, y)
    np.testing.assert_array_equal(np.sign(model.predict(rows)), y)


def test_cuts_lie_between_values_that_occur():
    values = GENERATOR.standard_normal(500)
    for most in (2, 10, 256, 600):
        cuts = _cuts(values, most)
        assert len(cuts) == min(most, 500) - 1
        assert np.all(np.diff(cuts) > 0)
        counts = np.diff(np.searchsorted(np.sort(values), np.r_[-np.inf, cuts, np.inf]))
        assert counts.min() >= 1
        assert counts.max() <= np.ceil(500 / min(most, 500)) + 1
    skewed = np.r_[np.zeros(400), values[:100]]
    assert 0 < len(_cuts(skewed, 10)) < 10
    assert len(_cuts(np.ones(5), 10)) == 0


def test_more_bins_than_a_byte_are_not_made():
    rows = np.arange(600.0)[:, None]
    model = LeastSquaresBoosting(max_bins=1000, n_trees=5).fit(rows, np.sin(rows[:, 0] / 50))
    assert np.isfinite(model.predict(rows)).all()
    few = LeastSquaresBoosting(max_bins=256, n_trees=5).fit(rows, np.sin(rows[:, 0] / 50))
    np.testing.assert_array_equal(model.predict(rows), few.predict(rows))


def test_gains_are_what_the_splits_took_from_the_error():
    model = LeastSquaresBoosting(n_trees=1, learning_rate=1.0).fit(X, Y)
    before, after = np.sum((Y - Y.mean()) ** 2), np.sum((Y - model.predict(X)) ** 2)
    assert model.gains_.sum() == pytest.approx(before - after)
    used = np.unique(model.feature_[model.feature_ >= 0])
    assert np.flatnonzero(model.gains_).tolist() == used.tolist()


def test_trees_as_they_are_read_predict_the_same():
    model = LeastSquaresBoosting().fit(X, Y, WEIGHT)
    ensemble, reason = read_trees(model)
    assert not reason
    assert ensemble.n_trees == 80
    fresh = GENERATOR.standard_normal((200, 4))
    total = np.full(200, ensemble.intercept)
    for root in ensemble.roots:
        for i, row in enumerate(fresh):
            node = root
            while ensemble.feature[node] >= 0:
                below = row[ensemble.feature[node]] <= ensemble.threshold[node]
                node = ensemble.left[node] if below else ensemble.right[node]
            total[i] += ensemble.value[node]
    np.testing.assert_allclose(model.predict(fresh), total, rtol=0, atol=1e-12)


@pytest.mark.parametrize("model", [LeastSquaresBoosting(n_trees=7), ObliqueBoosting(n_columns=3)])
def test_they_are_cloned_pickled_and_told_their_parameters(model):
    fitted = clone(model).fit(X, Y)
    assert clone(fitted).get_params() == model.get_params()
    assert not hasattr(clone(fitted), "n_features_in_")
    again = pickle.loads(pickle.dumps(fitted))  # noqa: S301
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    np.testing.assert_array_equal(clone(model).fit(X, Y).predict(X), fitted.predict(X))
    assert fitted.score(X, Y) > 0.2
    with pytest.raises(AttributeError):
        _ = model.n_features_in_


@pytest.mark.parametrize("model", [LeastSquaresBoosting(), ObliqueBoosting()])
def test_bad_input_is_refused(model):
    holes = X.copy()
    holes[3, 1] = np.nan
    with pytest.raises(ValueError, match="contains NaN"):
        model.fit(holes, Y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(X, Y[:-1])
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        model.fit(X[:1], Y[:1])
    with pytest.raises(ValueError, match=r"sample_weight\.shape"):
        model.fit(X, Y, np.ones(3))
    with pytest.raises(ValueError, match="expecting 4 features"):
        model.fit(X, Y).predict(X[:, :2])
    with pytest.raises(ValueError, match="not fitted yet"):
        clone(model).predict(X)


def test_rows_are_left_as_they_were_and_may_lie_in_any_order():
    rows, y, weight = X.copy(), Y.copy(), WEIGHT.copy()
    for array in (rows, y, weight):
        array.flags.writeable = False
    plain = LeastSquaresBoosting(**FEW).fit(rows, y, weight).predict(rows)
    turned = np.asfortranarray(X)
    other = LeastSquaresBoosting(**FEW).fit(turned, Y, WEIGHT).predict(turned)
    np.testing.assert_array_equal(other, plain)


def test_a_step_across_two_columns_is_found_along_their_sum():
    generator = np.random.default_rng(1)
    rows, fresh = generator.standard_normal((200, 5)), generator.standard_normal((2000, 5))

    def step(x):
        return 2.0 * (x[:, 0] + x[:, 1] > 0)

    y = step(rows) + 0.3 * generator.standard_normal(200)
    straight = LeastSquaresBoosting().fit(rows, y).score(fresh, step(fresh))
    oblique = ObliqueBoosting().fit(rows, y).score(fresh, step(fresh))
    assert oblique > straight + 0.1


def test_pairs_are_of_the_columns_that_gain_most():
    model = ObliqueBoosting(n_columns=3).fit(X, Y)
    assert model.map_.shape == (4, 4 + 3 * 2)
    np.testing.assert_array_equal(model.map_[:, :4], np.eye(4))
    gains = LeastSquaresBoosting().fit(X, Y).gains_
    paired = np.flatnonzero(np.any(model.map_[:, 4:] != 0, axis=1))
    assert set(paired) == set(np.argsort(-gains)[:3])
    pairs = model.map_[:, 4:] * X.std(axis=0)[:, None]
    np.testing.assert_allclose(np.abs(pairs).sum(axis=0), 2.0)
    assert ObliqueBoosting(n_columns=1).fit(X, Y).map_.shape == (4, 4)


def test_levels_and_counts_enter_no_pair():
    whole = GENERATOR.permutation(np.arange(N)).astype(float)
    few = np.round(X[:, 0], 0) / 2
    rows = np.column_stack([X[:, :2], whole, few, np.full(N, 0.5)])
    np.testing.assert_array_equal(varies_freely(rows), [True, True, False, False, False])
    y = X[:, 0] + few + whole / 10.0
    model = ObliqueBoosting().fit(rows, y)
    assert model.map_.shape == (5, 7)
    assert not model.map_[2:, 5:].any()
