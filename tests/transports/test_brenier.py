"""The Brenier map: rows come back, units and order do not matter, known truths, what is refused."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dfi
from dfi._diagnosis.independence import independence
from dfi.transports import Brenier, Gaussian, curved
from dfi.transports.brenier import BrenierTransport
from dfi.transports.held_out import Gain, searched


def parabola(n, seed=0):
    generator = np.random.default_rng(seed)
    x = generator.standard_normal(n)
    return np.column_stack([x, x**2 + 0.5 * generator.standard_normal(n)])


def ring(n, seed=0):
    generator = np.random.default_rng(seed)
    angle, radius = generator.uniform(0, 2 * np.pi, n), 2 + 0.3 * generator.standard_normal(n)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])


def radius(X):
    return 3.0 * np.hypot(X[:, 0], X[:, 1])


@pytest.mark.parametrize("law", [parabola, ring])
def test_latents_of_fresh_rows_are_independent_and_rows_come_back(law):
    transport = Brenier().fit(law(600))
    fresh = law(600, 1)
    latent = transport.transform(fresh)
    linear = Gaussian().fit(law(600)).transform(fresh)
    seed = np.random.SeedSequence(0)
    assert independence(linear, seed).auc > 0.65
    assert independence(latent, seed).auc < 0.6
    np.testing.assert_allclose(transport.inverse_transform(latent), fresh, atol=1e-8)


def test_jacobian_is_that_of_the_decoder():
    X = np.column_stack([parabola(300), np.exp(np.random.default_rng(1).standard_normal(300))])
    fitted = Brenier().fit(X).fitted_
    assert isinstance(fitted, BrenierTransport)
    latent, step = fitted.encode(X)[:40], 1e-6
    found = fitted.jacobian(latent)
    for j in range(3):
        move = step * np.eye(3)[j]
        change = (fitted.decode(latent + move) - fitted.decode(latent - move)) / (2 * step)
        # knots of margins lie between the two points of few rows
        close = np.isclose(found[:, :, j], change / X.std(axis=0), rtol=1e-3, atol=1e-4)
        assert close.mean() > 0.95


def test_a_large_penalty_is_the_linear_map():
    X = parabola(200)
    linear = Gaussian(components=None).fit(X).transform(X)
    for penalty in (1e9, np.inf):
        found = Brenier(penalty=penalty, margins=False).fit(X)
        np.testing.assert_allclose(found.transform(X), linear, atol=1e-8)
    # scores as well, along lines instead of curves
    y = X[:, 0] + X[:, 1]
    scores = [
        dfi.explain(
            X, y, lambda X: X[:, 0] + X[:, 1], cv="prefit", transport=transport, diagnose=False,
            integration=dfi.Quadrature("gauss", nodes=16), transport_error="ignore",
        ).scores
        for transport in (Brenier(penalty=1e9, margins=False), Gaussian(components=None))
    ]  # fmt: skip
    np.testing.assert_allclose(*scores, atol=1e-8)


def test_gaussian_rows_keep_the_linear_map():
    X = dfi.datasets.m1(400, d=3).X
    assert type(Brenier().fit(X).fitted_) is type(Gaussian().fit(X).fitted_)


@settings(max_examples=5, deadline=None)
@given(st.permutations(range(3)), st.lists(st.sampled_from([-100.0, 0.01, 7.0]), min_size=3))
def test_units_and_order_of_columns_do_not_matter(order, units):
    X = np.column_stack([parabola(250), np.random.default_rng(3).standard_normal(250)])
    order, scale = list(order), np.array(units[:3])
    plain = Brenier(penalty=0.1, margins=False).fit(X).transform(X)
    other = Brenier(penalty=0.1, margins=False).fit((X * scale + 3.0)[:, order])
    latent = other.transform((X * scale + 3.0)[:, order])
    np.testing.assert_allclose(latent, (plain * np.sign(scale))[:, order], atol=2e-3)


def exact_ring_score():
    """E Var of y = 3 r along z1 under S(z) = q(F(|z|)) z/|z|, by a fine grid."""
    from scipy import stats

    points = stats.norm.ppf((np.arange(801) + 0.5) / 801)
    size = np.hypot(points[:, None], points[None, :])
    chance = np.clip(-np.expm1(-(size**2) / 2), 1e-12, 1 - 1e-12)
    return np.var(3.0 * stats.norm.ppf(chance, 2, 0.3), axis=0).mean()


def test_scores_approach_those_of_the_exact_ring():
    """phi_Z = .427 for both; the linear map gives 1.9."""
    truth = exact_ring_score()
    assert truth == pytest.approx(0.427, abs=0.005)
    X = ring(2000)
    found = dfi.explain(
        X, radius(X), radius, cv="prefit", transport="brenier", diagnose=False,
        transport_error="ignore",
    )  # fmt: skip
    np.testing.assert_allclose(found.latent.scores, truth, rtol=0.25)
    assert found.scores.sum() == pytest.approx(found.latent.scores.sum(), abs=1e-9)
    linear = dfi.explain(X, radius(X), radius, cv="prefit", diagnose=False)
    assert (linear.latent.scores > 3 * truth).all()


@pytest.mark.full
def test_more_rows_come_closer_to_the_exact_ring():
    """Within a few percent: ridges along 16 directions are not quite the exact map."""

    def score(n):
        found = [
            dfi.explain(
                X, radius(X), radius, cv="prefit", transport="brenier", diagnose=False,
                transport_error="ignore",
            ).latent.scores
            for X in (ring(n, seed) for seed in (20, 21, 22))
        ]  # fmt: skip
        return np.mean(found)

    truth = exact_ring_score()
    few, many = abs(score(200) / truth - 1.0), abs(score(2000) / truth - 1.0)
    assert many < few
    assert many < 0.1


def test_half_of_the_rows_on_one_value_stay_where_they_are():
    generator = np.random.default_rng(4)
    X = generator.multivariate_normal([0, 0, 0], 0.5 + 0.5 * np.eye(3), 400)
    X[:, 0] = np.maximum(X[:, 0], 0.0)
    X[:, 2] += X[:, 1] ** 2
    transport = Brenier(penalty=0.1).fit(X)
    assert transport.fitted_.bent.positions.tolist() == [1, 2]
    np.testing.assert_allclose(transport.inverse_transform(transport.transform(X)), X, atol=1e-8)
    result = dfi.explain(
        X, X[:, 0] + X[:, 2], "linear", transport="brenier", cv=2, transport_error="ignore",
        diagnose=False,
    )  # fmt: skip
    assert result.scores.sum() == pytest.approx(result.latent.scores.sum(), abs=1e-9)


def test_weights_are_counts():
    X, counts = parabola(150), np.random.default_rng(0).integers(1, 4, 150)
    y = X[:, 0] + 0.3 * X[:, 1]
    options = {"cv": "prefit", "transport": "brenier", "transport_error": "ignore"}
    options |= {"diagnose": False}
    model = lambda X: X[:, 0] + 0.3 * X[:, 1]  # noqa: E731
    weighted = dfi.explain(X, y, model, frequency_weight=counts, **options)
    repeated = dfi.explain(np.repeat(X, counts, axis=0), np.repeat(y, counts), model, **options)
    np.testing.assert_allclose(weighted.scores, repeated.scores, rtol=1e-6)


def test_levels_categories_gaps_and_constant_columns_stay_linear():
    generator = np.random.default_rng(0)
    X = parabola(300)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    frame["count"] = generator.integers(0, 3, 300)
    frame["kind"] = generator.choice(list("xyz"), 300)
    frame["gaps"] = np.where(generator.random(300) < 0.2, np.nan, X[:, 0])
    frame["same"] = 1.0
    transport = Brenier().fit(frame)
    fitted = transport.fitted_
    assert fitted.bent.positions.tolist() == [0, 1]
    back = transport.inverse_transform(transport.transform(frame))
    np.testing.assert_allclose(back[["a", "b"]], frame[["a", "b"]], atol=1e-8)
    with pytest.warns(dfi.warnings.ConstantColumnWarning):
        result = dfi.explain(
            frame, X[:, 0] + X[:, 1], "linear", transport="brenier", cv=2, diagnose=False
        )
    assert np.isfinite(result.se[:-1]).all()
    assert result.scores[-1] == 0.0
    assert result.scores.sum() == pytest.approx(result.latent.scores.sum(), abs=1e-9)


def test_own_error_comes_from_refits_that_keep_what_was_chosen():
    X = parabola(300)
    design = Brenier()
    fitted = design.fit(X).fitted_
    weights = dfi._data.weights.Weights(np.ones(270), "frequency")
    again = design.fit_matrix(X[:270], weights, np.zeros(2, dtype=bool), like=fitted)
    assert again.bent.penalty == fitted.bent.penalty
    assert again.bent.potential.ridges is fitted.bent.potential.ridges
    y = X[:, 0] + np.random.default_rng(1).standard_normal(300)
    options = {"cv": "prefit", "transport": "brenier", "diagnose": False}
    result = dfi.explain(X, y, lambda X: X[:, 0], **options)
    assert "jackknife" in result.diagnostics["standard_errors"]
    known = dfi.explain(X, y, lambda X: X[:, 0], transport_error="ignore", **options)
    np.testing.assert_allclose(result.scores, known.scores)
    assert (result.se >= 0.8 * known.se).all()


@pytest.mark.full
def test_fifty_columns():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((300, 50))
    X[:, 30] += X[:, 7] ** 2
    transport = Brenier(penalty=0.1).fit(X)
    np.testing.assert_allclose(transport.inverse_transform(transport.transform(X)), X, atol=1e-8)


def test_what_is_refused():
    with pytest.raises(
        ValueError, match="as many rows as columns that vary, and there are 10 rows"
    ):
        Brenier().fit(np.random.default_rng(0).standard_normal((10, 12)))
    with pytest.raises(ValueError, match="penalty must be a number of at least 0 or 'auto'"):
        Brenier(penalty=-1.0)
    with pytest.raises(ValueError, match="margins"):
        Brenier(margins="all")


def test_held_out_gains_are_means_with_their_errors():
    gains = np.array([1.0, 3.0, 2.0, 2.0])
    found = Gain.of(gains, np.ones(4))
    assert (found.mean, found.error) == (2.0, pytest.approx(np.sqrt(0.5 / 4)))
    assert found.clear(3.0)
    assert not found.clear(9.0)


def test_margins_are_asked_for_by_columns_that_are_not_normal():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((400, 3))
    X[:, 1] = np.exp(X[:, 1])
    found = searched(
        X, np.ones(400), np.arange(3), np.zeros(3, dtype=bool), np.random.SeedSequence(0)
    )
    assert found.asked == (1,)
    assert found.gain.clear(3.0)


def test_many_rows_are_explained_by_a_sample():
    X = parabola(2500)
    result = dfi.explain(
        X, X[:, 0], lambda X: X[:, 0], cv="prefit", transport=Brenier(penalty=0.1), diagnose=False,
        transport_error="ignore",
    )  # fmt: skip
    assert len(result.influence) == 2000


@pytest.mark.parametrize("most", [1, 40, 300, 10**9])
def test_curves_are_predicted_in_pieces_that_fit_in_memory(most):
    nodes, n = [7, 3, 7, 50, 2], 11
    seen = np.zeros((n, len(nodes)), dtype=int)
    for part, coordinates in curved._pieces(n, nodes, most):
        seen[part][:, coordinates] += 1
        rows = (part.stop - part.start) * sum(nodes[j] for j in coordinates)
        assert rows <= most or (part.stop - part.start == 1 and len(coordinates) == 1)
    assert (seen == 1).all()


def test_memory_does_not_change_scores():
    X = np.column_stack([parabola(120), parabola(120, 1)])
    scores = [
        dfi.explain(
            X, X[:, 0] + X[:, 1], lambda X: X[:, 0] + X[:, 1], cv="prefit", diagnose=False,
            transport=Brenier(penalty=0.1), transport_error="ignore",
            integration=dfi.Quadrature("gauss", nodes=8, memory=memory),
        ).scores
        for memory in (4 * 8 * 4 * 100, 2**28)
    ]  # fmt: skip
    np.testing.assert_allclose(*scores, rtol=1e-9)
