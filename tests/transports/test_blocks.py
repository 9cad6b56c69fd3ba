"""Units of several columns: the transport between them, their joint scores and attribution."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import block_diag, sqrtm
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, Ridge

import dfi
from dfi._data.columns import Column
from dfi._data.weights import Weights
from dfi._estimates.within_units import RARE, rare_levels, within_units
from dfi._models.prepare import prepare
from dfi.methods.disentangled import Disentangled
from dfi.transports import Gaussian
from dfi.transports.blocks import BlockTransport, _linear_part

SIZES = (3, 2, 1, 2)
PLACES = np.split(np.arange(sum(SIZES)), np.cumsum(SIZES)[:-1])
GROUPS = {f"g{b}": [f"x{k}" for k in place] for b, place in enumerate(PLACES)}
WHOLE = Gaussian(components=None)


def sample(n=300, seed=0):
    rng = np.random.default_rng(seed)
    d = sum(SIZES)
    X = rng.standard_normal((n, d)) @ (np.eye(d) + 0.4 * rng.standard_normal((d, d)))
    slopes = rng.standard_normal(d)
    return X, X @ slopes + rng.standard_normal(n), slopes


def model_of(slopes, intercept=0.0):
    model = LinearRegression()
    model.coef_, model.intercept_, model.n_features_in_ = np.asarray(slopes), intercept, len(slopes)
    return model


def joint(X, y, model, groups=GROUPS, **options):
    options = {
        "transport": WHOLE, "cv": "prefit", "diagnose": False, "transport_error": "ignore",
        **options,
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dfi.explain(X, y, model, feature_groups=groups, units="groups", **options)


def explained(X, y, model, **options):
    options = {
        "transport": WHOLE, "cv": "prefit", "diagnose": False, "transport_error": "ignore",
        **options,
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dfi.explain(X, y, model, **options)


# --- truths and twins ---------------------------------------------------------------------------


def explicit(rows, places=PLACES):
    """Return D^1/2, C^1/2 and z by other routines than those of the library."""
    centred = rows - rows.mean(axis=0)
    covariance = centred.T @ centred / len(rows)
    within = sqrtm(block_diag(*(covariance[np.ix_(p, p)] for p in places))).real
    half = np.linalg.inv(within)
    root = sqrtm(half @ covariance @ half).real
    return within, root, centred @ half @ np.linalg.inv(root)


def fitted_to(X, groups=GROUPS, design=WHOLE):
    columns = tuple(
        Column(name, name, "real", (), tuple(int(member[1:]) for member in members))
        for name, members in groups.items()
    )
    weights = Weights(np.ones(len(X)), "frequency")
    return design.fit_matrix(X, weights, np.zeros(X.shape[1], bool), columns=columns)


def test_rows_are_white_between_units_and_decode_to_themselves():
    X, _, _ = sample()
    fitted = fitted_to(X)
    assert isinstance(fitted, BlockTransport)
    Z = fitted.encode(X)
    np.testing.assert_allclose(Z.T @ Z / len(X), np.eye(X.shape[1]), atol=1e-10)
    np.testing.assert_allclose(fitted.decode(Z), X, atol=1e-10)
    _, root, theirs = explicit(X)
    for own, place in zip(PLACES, fitted.inner.places, strict=True):
        # the same up to a rotation of the unit's coordinates
        turn = Z[:, place].T @ theirs[:, own] / len(X)
        np.testing.assert_allclose(turn @ turn.T, np.eye(len(own)), atol=1e-9)
    expected = [[np.sum(root[np.ix_(a, b)] ** 2) / len(b) for b in PLACES] for a in PLACES]
    np.testing.assert_allclose(fitted.even_shares(), expected, atol=1e-10)
    np.testing.assert_allclose(fitted.even_shares().sum(axis=0), 1.0, atol=1e-10)


def r_squared(effect, block):
    """Return the R2 of a regression with intercept."""
    design = np.column_stack([np.ones(len(block)), block])
    left = effect - design @ np.linalg.lstsq(design, effect, rcond=None)[0]
    return 1.0 - left @ left / np.sum((effect - effect.mean()) ** 2)


def test_linear_scores_are_closed_forms():
    """|gamma_b|^2, which add up to the variance, and the R2 of each unit's effect on each unit."""
    X, _, slopes = sample()
    y = X @ slopes
    found = joint(X, y, model_of(slopes))
    within, root, Z = explicit(X)
    gamma = root @ within @ slopes
    latent = np.array([gamma[p] @ gamma[p] for p in PLACES])
    shares = np.array([[r_squared(Z[:, b] @ gamma[b], X[:, a]) for b in PLACES] for a in PLACES])
    np.testing.assert_allclose(shares.sum(axis=0), 1.0, rtol=1e-9)
    np.testing.assert_allclose(found.latent.scores, latent, rtol=1e-9)
    np.testing.assert_allclose(found.latent.scores.sum(), y.var(), rtol=1e-9)
    np.testing.assert_allclose(found.scores, shares @ latent, rtol=1e-9)
    np.testing.assert_allclose(found.attribution, shares, atol=1e-9)
    even = joint(
        X, y, model_of(slopes), transport=Gaussian(components=None, attribution="isotropic")
    )
    np.testing.assert_allclose(even.latent.scores, latent, rtol=1e-9)
    blocks = np.array([[np.sum(root[np.ix_(a, b)] ** 2) / len(b) for b in PLACES] for a in PLACES])
    np.testing.assert_allclose(even.scores, blocks @ latent, rtol=1e-9)


def curved(table):
    x = np.asarray(table, dtype=float)
    return (
        np.sin(x[:, 0] + x[:, 3]) + x[:, 1] * x[:, 4] + 0.5 * x[:, 5] ** 2 + 0.3 * x[:, 7] + x[:, 2]
    )


def fold_task(X, y, model, donors, form):
    fits = prepare(X, y, estimator=model, cv="prefit", feature_groups=GROUPS, units="groups")
    method = Disentangled(
        transport=WHOLE, form=form, transport_error="ignore", diagnose=False,
        integration=dfi.Quadrature(donors=donors, nodes=len(X)),
    )  # fmt: skip
    return fits, method.explain(fits)


@pytest.mark.parametrize("form", ["loco", "cpi"])
@pytest.mark.parametrize("donors", [2, 5])
def test_scores_are_those_of_loops_over_donors(form, donors, monkeypatch):
    """A twin: loops over rows and donors, explicit matrices, regressions for the attribution."""
    X, noise, _ = sample(n=60, seed=3)
    y = curved(X) + 0.2 * noise
    laws = []
    made = BlockTransport.law
    monkeypatch.setattr(
        BlockTransport, "law", lambda *args, **known: laws.append(made(*args, **known)) or laws[-1]
    )
    _, ours = fold_task(X, y, curved, donors, form)
    assert laws[0].strata.places.shape == (60, donors)
    # two of each stratum, and three of the last where there is one left
    strata = np.split(np.arange(donors), np.arange(2, donors - 1, 2))
    half, root, Z = explicit(X)
    back = root @ half
    n, f = len(X), curved(X)
    means, influence = np.zeros((n, 4)), np.zeros((n, 4))
    for b, own in enumerate(PLACES):
        # a unit of one column takes every value that there is
        alone = len(own) == 1
        for i in range(n):
            replaced = []
            for k in range(n) if alone else laws[0].strata.chosen(b, slice(i, i + 1))[0]:
                z = Z[i].copy()
                z[own] = Z[k, own]
                replaced.append(float(curved((X.mean(axis=0) + z @ back)[None])[0]))
            means[i, b] = np.mean(replaced)
            within = sum(len(k) * np.var(np.take(replaced, k), ddof=1) for k in strata)
            excess = 0.0 if alone else within / donors**2
            if form == "loco":
                influence[i, b] = (y[i] - means[i, b]) ** 2 - excess - (y[i] - f[i]) ** 2
            else:
                influence[i, b] = (y[i] - means[i, b]) * (f[i] - means[i, b]) - excess
    np.testing.assert_allclose(ours.scores.latent, influence, atol=1e-9)
    attributed = np.zeros(4)
    for b, own in enumerate(PLACES):
        moved, left, z = f - means[:, b], y - f, Z[:, own]
        left = left if form == "loco" else 0.5 * left
        P, R = moved @ z / n, left @ z / n
        product = np.outer(P, R) + np.outer(R, P) + np.outer(P, P)
        rest_of_moved, rest_of_left = moved - z @ P, left - z @ R
        for one, other in (
            (rest_of_moved, rest_of_left), (rest_of_left, rest_of_moved),
            (rest_of_moved, rest_of_moved),
        ):  # fmt: skip
            product -= sum(one[i] * other[i] * np.outer(z[i], z[i]) for i in range(n)) / (
                n * (n - 1)
            )
        score = influence[:, b].mean()
        for a, other in enumerate(PLACES):
            part = root[np.ix_(other, own)]
            even = np.sum(part**2) / len(own)
            along = np.trace(part.T @ part @ product)
            attributed[a] += even * score if len(own) == 1 else (
                along + (score - np.trace(product)) * even
            )  # fmt: skip
    np.testing.assert_allclose(ours.scores.attributed.mean(axis=0), attributed, atol=1e-9)
    np.testing.assert_allclose(attributed.sum(), influence.mean(axis=0).sum(), atol=1e-9)


def test_single_columns_are_scored_as_without_groups():
    """One column a group, beside one group of two: forced blocks, latent and attributed."""
    X, y, _ = sample()
    alone = {f"x{k}": [f"x{k}"] for k in range(X.shape[1])}
    for model in (Ridge(), HistGradientBoostingRegressor(max_iter=20)):
        fitted = model.fit(X, y)
        plain = explained(X, y, fitted)
        grouped = joint(X, y, fitted, groups=alone)
        np.testing.assert_allclose(grouped.scores, plain.scores, rtol=1e-12)
        np.testing.assert_allclose(grouped.latent.scores, plain.latent.scores, rtol=1e-12)
    # a constant column beside a real one is a unit of one column: still no blocks
    assert not isinstance(fitted_to(X, alone), BlockTransport)


def test_blocks_of_one_column_are_the_plain_method(monkeypatch):
    """The block transport itself, forced on units of one column."""
    X, y, _ = sample()
    fitted = HistGradientBoostingRegressor(max_iter=20).fit(X, y)
    results = {}
    for model in (Ridge().fit(X, y), fitted):
        for form in ("loco", "cpi"):
            for shrinkage in (0.0, 0.2, "ledoit-wolf"):
                for reference in ("empirical", "gaussian"):
                    design = Gaussian(components=None, shrinkage=shrinkage, reference=reference)
                    key = type(model).__name__, form, shrinkage, reference
                    results[key] = explained(X, y, model, transport=design, form=form)
    import dfi._estimates.rows as home

    own = home.within_units

    def forced(*arguments, **options):
        return own(*arguments, **{**options, "single": True})

    monkeypatch.setattr(home, "within_units", forced)
    for model in (Ridge().fit(X, y), fitted):
        for form in ("loco", "cpi"):
            for shrinkage in (0.0, 0.2, "ledoit-wolf"):
                for reference in ("empirical", "gaussian"):
                    design = Gaussian(components=None, shrinkage=shrinkage, reference=reference)
                    plain = results[type(model).__name__, form, shrinkage, reference]
                    found = explained(X, y, model, transport=design, form=form)
                    np.testing.assert_allclose(found.scores, plain.scores, rtol=1e-12)
                    np.testing.assert_allclose(found.latent.scores, plain.latent.scores, rtol=1e-12)


# --- no coding matters --------------------------------------------------------------------------

LEVELS = ("low", "mid", "high", "top", "none")
EFFECTS = {"low": -1.0, "mid": 0.0, "high": 0.5, "top": 2.0, "none": 0.7}


def mixed(n=400, seed=1):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal(n)
    chance = np.exp(np.outer(a, [-0.8, 0.0, 0.4, 0.8, 0.1]))
    drawn = (chance.cumsum(axis=1) / chance.sum(axis=1)[:, None] < rng.random((n, 1))).sum(axis=1)
    colour = np.array(LEVELS, dtype=object)[drawn]
    table = pd.DataFrame({"a": a, "colour": colour, "b": 0.5 * a + rng.standard_normal(n)})
    return table, effect_of(table) + rng.standard_normal(n)


def effect_of(table):
    level = table["colour"].map(EFFECTS).astype(float).to_numpy()
    a, b = (table[name].to_numpy(dtype=float) for name in "ab")
    return a + level * (1.0 + 0.5 * np.tanh(b)) + 0.5 * np.sin(2 * b)


def codings(table):
    """Return the table with its category in other codings, each with its way back to the names."""
    colour = table["colour"]
    other = pd.CategoricalDtype(("top", "none", "low", "high", "mid"))
    numbers = {level: 10 * k for k, level in enumerate(("none", "high", "low", "top", "mid"))}
    renamed = {level: f"{9 - k} {level}" for k, level in enumerate(LEVELS)}
    return {
        "strings": (colour, None),
        "declared order": (colour.astype(other), None),
        "numbers": (colour.map(numbers).astype("category"), {v: k for k, v in numbers.items()}),
        "other names": (colour.map(renamed), {v: k for k, v in renamed.items()}),
        "unused levels": (colour.astype(pd.CategoricalDtype((*LEVELS, "never"))), None),
    }


@pytest.mark.parametrize("form", ["loco", pytest.param("cpi", marks=pytest.mark.full)])
@pytest.mark.parametrize("design", [Gaussian(), WHOLE, Gaussian(shrinkage=0.1)], ids=str)
def test_no_coding_of_a_category_matters(form, design):
    table, y = mixed()
    found = {}
    for name, (column, back) in codings(table).items():

        def model(rows, back=back):
            colour = rows["colour"].astype(object)
            return effect_of(rows.assign(colour=colour if back is None else colour.map(back)))

        recoded = table.assign(colour=column)
        found[name] = explained(
            recoded, y, model, form=form, transport=design, transport_error="auto"
        )
    first = found["strings"]
    assert first.diagnostics["blocks"] == {"colour": 4}
    for result in found.values():
        np.testing.assert_allclose(result.scores, first.scores, rtol=1e-10)
        np.testing.assert_allclose(result.latent.scores, first.latent.scores, rtol=1e-10)
        np.testing.assert_allclose(result.se, first.se, rtol=1e-8)


def test_a_group_of_dummies_is_the_category():
    """All dummies, one left out, effect coding, any invertible coding: under a linear model."""
    table, y = mixed()
    dummies = pd.get_dummies(table["colour"], dtype=float)[list(LEVELS)].to_numpy()
    rng = np.random.default_rng(5)
    effect = dummies[:, 1:] - dummies[:, :1]
    coded = {
        "all": dummies,
        "one left out": dummies[:, 1:],
        "another left out": dummies[:, :-1],
        "effects": effect,
        "any": dummies @ rng.standard_normal((5, 5)),
    }
    numbers = table[["a", "b"]].to_numpy()
    whole = np.column_stack([numbers, dummies])
    prediction = whole @ np.linalg.lstsq(np.column_stack([whole]), y, rcond=None)[0]
    results = []
    for block in coded.values():
        X = np.column_stack([numbers, block])
        design = np.column_stack([np.ones(len(X)), X])
        slopes = np.linalg.lstsq(design, prediction, rcond=None)[0]
        groups = {"a": ["x0"], "b": ["x1"], "colour": [f"x{k}" for k in range(2, X.shape[1])]}
        results.append(joint(X, y, model_of(slopes[1:], slopes[0]), groups=groups))
    for result in results[1:]:
        np.testing.assert_allclose(result.scores, results[0].scores, rtol=1e-10)
        np.testing.assert_allclose(result.latent.scores, results[0].latent.scores, rtol=1e-10)


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    curve=st.booleans(),
    attribution=st.sampled_from(["direction", "isotropic"]),
)
def test_no_invertible_recoding_within_units_matters(seed, curve, attribution):
    X, y, slopes = sample(n=120)
    rng = np.random.default_rng(seed)
    recoding = block_diag(
        *(np.eye(s) + 0.7 * rng.standard_normal((s, s)) + 0.1 * np.eye(s) for s in SIZES)
    ) * rng.uniform(0.1, 50.0)
    shift = 3.0 * rng.standard_normal(X.shape[1])
    if np.linalg.cond(recoding) > 1e3:
        return
    back = np.linalg.inv(recoding)
    before, after = curved, lambda rows: curved((np.asarray(rows) - shift) @ back)
    if not curve:
        before, after = model_of(slopes), model_of(back @ slopes, -shift @ back @ slopes)
    design = Gaussian(attribution=attribution)
    one = joint(X, y, before, transport=design)
    two = joint(X @ recoding + shift, y, after, transport=design)
    np.testing.assert_allclose(two.scores, one.scores, rtol=1e-9, atol=1e-10 * y.var())
    np.testing.assert_allclose(
        two.latent.scores, one.latent.scores, rtol=1e-9, atol=1e-10 * y.var()
    )
    np.testing.assert_allclose(two.se, one.se, rtol=1e-7, atol=1e-10 * y.var())


# --- orders, weights, workers -------------------------------------------------------------------


def boosted(table, y):
    coded = table.assign(colour=table["colour"].astype("category"))
    return coded, HistGradientBoostingRegressor(max_iter=30, categorical_features="from_dtype").fit(
        coded, y
    )


def test_neither_the_order_of_rows_nor_of_columns_matters():
    table, y = mixed()
    table, model = boosted(table, y)

    def ask(rows):
        return model.predict(rows[["a", "colour", "b"]])

    one = explained(table, y, ask, transport=Gaussian(), transport_error="ignore")
    order = np.random.default_rng(3).permutation(len(y))
    two = explained(table.iloc[order].reset_index(drop=True), y[order], ask, transport=Gaussian())
    np.testing.assert_allclose(two.scores, one.scores, rtol=1e-9)
    np.testing.assert_allclose(two.latent.scores, one.latent.scores, rtol=1e-9)
    np.testing.assert_allclose(two.se, one.se, rtol=1e-9)
    turned = explained(table[["b", "a", "colour"]], y, ask, transport=Gaussian())
    place = [turned.names.index(name) for name in one.names]
    np.testing.assert_allclose(turned.scores[place], one.scores, rtol=1e-9)
    np.testing.assert_allclose(turned.latent.scores[place], one.latent.scores, rtol=1e-9)


def test_workers_do_not_matter():
    table, y = mixed()
    table, _ = boosted(table, y)
    learner = HistGradientBoostingRegressor(max_iter=20, categorical_features="from_dtype")
    one, two = (
        explained(table, y, learner, cv=3, n_jobs=n, transport_error="auto") for n in (1, 2)
    )
    np.testing.assert_array_equal(two.scores, one.scores)
    np.testing.assert_array_equal(two.se, one.se)


def test_rows_of_weight_0_are_left_out():
    table, y = mixed()
    table, model = boosted(table, y)
    weight = np.ones(len(y))
    weight[::4] = 0.0
    kept = weight > 0
    many = dfi.Quadrature(donors=64)
    one = explained(table, y, model, sample_weight=weight, integration=many)
    two = explained(table[kept].reset_index(drop=True), y[kept], model, integration=many)
    # donors differ: the deviation of 64 is about .15 standard errors
    assert (np.abs(one.scores - two.scores) < 0.7 * two.se).all()
    linear = joint(*sample()[:2], Ridge().fit(*sample()[:2]), sample_weight=weight[:300])
    X, y, _ = sample()
    apart = joint(X[kept[:300]], y[kept[:300]], Ridge().fit(X, y))
    np.testing.assert_allclose(linear.scores, apart.scores, rtol=1e-9)


def test_frequency_weights_are_repeated_rows():
    X, y, _ = sample(n=200)
    count = np.random.default_rng(2).integers(0, 4, len(y))
    model = Ridge().fit(X, y)
    one = joint(X, y, model, frequency_weight=count)
    two = joint(np.repeat(X, count, axis=0), np.repeat(y, count), model)
    np.testing.assert_allclose(one.scores, two.scores, rtol=1e-8)
    np.testing.assert_allclose(one.latent.scores, two.latent.scores, rtol=1e-8)
    np.testing.assert_allclose(one.se, two.se, rtol=1e-8)


# --- edges --------------------------------------------------------------------------------------


def test_a_constant_unit_scores_0():
    X, y, _ = sample()
    X[:, PLACES[1]] = 3.0
    found = joint(X, y, Ridge().fit(X, y))
    assert found.scores[1] == 0.0
    assert found.se[1] == 0.0 or np.isnan(found.se[1])
    assert (found.scores[[0, 2, 3]] > 0).all()


def test_a_unit_that_no_model_reads_scores_exactly_0():
    table, y = mixed()
    rng = np.random.default_rng(8)
    table = table.assign(noise=rng.choice(list("pqrst"), len(table)))
    table["colour"] = table["colour"].astype("category")
    design = Gaussian(components=[["a", "colour", "b"]])
    found = explained(table, y, effect_of, transport=design, transport_error="auto")
    place = found.names.index("noise")
    assert found.scores[place] == 0.0
    assert found.latent.scores[place] == 0.0
    assert (found.influence[:, place] == 0.0).all()
    assert (np.delete(found.scores, place) > 0).all()


@pytest.mark.parametrize("kind", ["a category twice", "a category and its dummies"])
def test_collinear_units_share(kind):
    table, y = mixed()
    if kind == "a category twice":
        again = {"again": table["colour"].map(lambda level: f"{level}!")}
    else:
        again = {f"is {level}": (table["colour"] == level).astype(float) for level in LEVELS[1:]}
    one = explained(table, y, effect_of)
    two = explained(table.assign(**again), y, effect_of)
    assert two.diagnostics["collinear_units"]
    assert np.isfinite(two.scores).all()
    assert np.isfinite(two.se).all()
    colour = two.names.index("colour")
    shared = [two.names.index(name) for name in again]
    assert (two.scores[shared] > 0).all()
    # the category gives half of its coordinates' signal away and no more is made of it
    assert two.scores[colour] < one.scores[1]
    assert two.scores[[colour, *shared]].sum() < 1.15 * one.scores[1]
    if kind == "a category twice":
        np.testing.assert_allclose(two.scores[shared[0]], two.scores[colour], rtol=0.35)


def test_more_columns_than_rows_in_groups():
    rng = np.random.default_rng(4)
    n, d = 60, 90
    X = rng.standard_normal((n, d)) + rng.standard_normal((n, 1))
    y = X[:, :5].sum(axis=1) + rng.standard_normal(n)
    groups = {f"g{k}": [f"x{j}" for j in range(10 * k, 10 * k + 10)] for k in range(9)}
    found = joint(
        X, y, Ridge(10.0), groups=groups, cv=3, transport_error="auto", transport="gaussian"
    )
    assert np.isfinite(found.scores).all()
    assert np.isfinite(found.se).all()
    assert found.names[int(np.argmax(found.scores))] == "g0"


def high_cardinality(n=2000, levels=60, seed=0):
    rng = np.random.default_rng(seed)
    share = 1.0 / np.arange(1, levels + 1) ** 1.5
    label = rng.choice(levels, n, p=share / share.sum())
    table = pd.DataFrame({"label": [f"L{k:04d}" for k in label], "a": rng.standard_normal(n)})
    return table, 0.3 * (label % 7) + table["a"].to_numpy() + rng.standard_normal(n)


def test_rare_levels_are_pooled_for_the_transport_and_arrive_at_the_model():
    table, y = high_cardinality(n=1000)
    share = table["label"].value_counts(normalize=True)
    rare = set(share.index[share < RARE])
    assert len(rare) > 5
    seen = []

    def model(rows):
        seen.append(rows["label"].astype(str).to_numpy())
        return (
            0.3 * (rows["label"].astype(str).str[1:].astype(int) % 7).to_numpy()
            + rows["a"].to_numpy()
        )

    found = explained(table, y, model, integration=dfi.Quadrature(donors=8))
    assert found.diagnostics["pooled_levels"] == {"columns": ("label",), "below": RARE}
    assert found.diagnostics["blocks"] == {"label": len(share) - len(rare)}
    assert set(np.concatenate(seen)) == set(table["label"])
    # every level arrives as often as it is there: 8 donors for each row
    (given,) = (rows for rows in seen if len(rows) == 8 * len(table))
    counts = pd.Series(given).value_counts()
    expected = table["label"].value_counts()
    place = found.names.index("label")
    truth = np.var(0.3 * (table["label"].str[1:].astype(int) % 7).to_numpy())
    assert abs(found.scores[place] - truth) < 3 * found.se[place] + 0.1 * truth
    np.testing.assert_array_equal(counts.reindex(expected.index), 8 * expected)


@pytest.mark.parametrize("form", ["loco", "cpi"])
def test_a_linear_model_of_pooled_levels_is_scored_by_all_donors_at_once(form):
    """The closed form is the limit of many donors, remainders of pooled levels included."""
    table, y = high_cardinality(n=400)
    levels = sorted(set(table["label"]))
    slope = {level: 0.3 * (int(level[1:]) % 7) for level in levels}
    encoded = pd.get_dummies(table["label"], dtype=float)[levels].to_numpy()
    model = model_of([*slope.values(), 1.0])

    def ask(rows):
        return rows["label"].astype(str).map(slope).to_numpy(dtype=float) + rows["a"].to_numpy()

    assert encoded.shape[1] == len(levels)
    one = explained(table, y, model, form=form)
    many = explained(table, y, ask, form=form, integration=dfi.Quadrature(donors=400))
    np.testing.assert_allclose(many.latent.scores[0], one.latent.scores[0], rtol=0.02)


@pytest.mark.parametrize("error", ["derived", "finite-difference"])
def test_own_errors_of_straight_lines_are_refused(error):
    table, y = mixed()
    with pytest.raises(
        ValueError, match=f"transport_error='{error}' needs units of one column, but 'colour'"
    ):
        explained(table, y, effect_of, transport_error=error)
    X, y, _ = sample()
    with pytest.raises(ValueError, match="'g0' has several"):
        joint(X, y, Ridge(), cv=3, transport_error=error)
    # groups of one column each are straight
    joint(X, y, Ridge().fit(X, y), groups={"g": ["x0"], "h": ["x1"]}, transport_error=error)


def test_own_errors_are_jackknifed():
    X, y, slopes = sample()
    aware = joint(X, y, model_of(slopes), transport_error="auto")
    asked = joint(X, y, model_of(slopes), transport_error="jackknife")
    known = joint(X, y, model_of(slopes), transport_error="ignore")
    assert aware.diagnostics["standard_errors"].startswith("transport jackknife (20 groups")
    np.testing.assert_array_equal(aware.se, asked.se)
    np.testing.assert_allclose(aware.scores, known.scores, rtol=1e-12)
    assert (aware.se != known.se).all()


@pytest.mark.parametrize("donors", [1, 0, 2.5, True, "8"])
def test_fewer_than_two_donors_are_refused(donors):
    with pytest.raises(ValueError, match="donors must be a whole number of 2 or more"):
        dfi.Quadrature(donors=donors)


@pytest.mark.parametrize(
    "design",
    [Gaussian(reference="gaussian"), Gaussian(shrinkage=0.3), Gaussian(shrinkage="ledoit-wolf")],
    ids=str,
)
@pytest.mark.parametrize("form", ["loco", "cpi"])
def test_other_references_and_shrinkage_are_near(design, form):
    X, y, _ = sample(n=1000)
    model = Ridge().fit(X, y)
    plain = joint(X, y, model, form=form)
    other = joint(X, y, model, form=form, transport=design)
    curve = joint(X, y, lambda rows: model.predict(np.asarray(rows)), form=form, transport=design)
    assert np.isfinite(other.scores).all()
    np.testing.assert_allclose(other.latent.scores, curve.latent.scores, atol=0.1 * y.var())
    if design.shrinkage != 0.3:
        np.testing.assert_allclose(other.scores, plain.scores, atol=0.15 * y.var())
    assert other.scores.sum() == pytest.approx(other.latent.scores.sum(), rel=1e-9)


@pytest.mark.parametrize("levels", [1, 3])
def test_a_level_of_one_row_is_absent_from_some_refits(levels):
    """Levels of a row each, alone or pooled: the jackknife leaves their rows out in turn."""
    table, y = mixed()
    for k in range(levels):
        table.loc[7 * k, "colour"] = f"once {k}"
    effects = {**EFFECTS, **{f"once {k}": 1.0 for k in range(levels)}}

    def model(rows):
        return rows["a"].to_numpy() + rows["colour"].astype(object).map(effects).to_numpy(float)

    with np.errstate(all="raise"):
        found = explained(table, y, model, transport_error="auto")
    assert np.isfinite(found.se).all()
    assert (found.se < 0.5).all()


@pytest.mark.parametrize("kind", ["numbers", "labels"])
def test_two_rows_that_lack_a_value_do_not_move_the_errors(kind):
    rng = np.random.default_rng(3)
    n = 1500
    a = rng.standard_normal(n)
    owns = (a + rng.standard_normal(n) > 0).astype(float)
    other = (0.5 * a + rng.standard_normal(n) > 0.3).astype(float)
    table = pd.DataFrame({"a": a, "owns": owns, "other": other})
    y = a + 0.5 * owns + rng.standard_normal(n)
    if kind == "labels":
        table["owns"] = table["owns"].map({0.0: "no", 1.0: "yes"}).astype(object)
    learner = HistGradientBoostingRegressor(max_iter=30)
    options = {"cv": 3, "transport_error": "jackknife"}
    whole = explained(table, y, learner, **options)
    holes = table.copy()
    holes.loc[[7, 400], "owns"] = None
    found = explained(holes, y, learner, **options)
    key = "rare_missing" if kind == "numbers" else "pooled_levels"
    assert found.diagnostics[key]["columns"] == ("owns",)
    # a refit without a group that has both rows must not be another transport
    assert np.all(found.se < 2.0 * whole.se + 0.01)
    np.testing.assert_allclose(found.scores, whole.scores, atol=0.05)


def missing_together(n, seed):
    """Two columns that lack values in the same rows, which a third one tells of."""
    rng = np.random.default_rng(seed)
    a, c, d, e = rng.standard_normal((4, n))
    missing = c + 0.5 * rng.standard_normal(n) > 0.3
    y = a + 0.8 * np.where(missing, 0.0, d) + missing + 0.5 * c + rng.standard_normal(n)
    table = pd.DataFrame({"a": a, "m1": d, "m2": 0.5 * d + 0.87 * e, "c": c})
    table.loc[missing, ["m1", "m2"]] = np.nan
    return table, y


def test_a_refit_keeps_the_coordinates_of_a_value_with_gaps():
    # value and indicator are uncorrelated where the mean fills gaps: singular vectors are anything
    table, y = missing_together(400, 0)
    data = prepare(table, y, estimator="linear", cv=2).data
    columns, n = data.blocks.columns, len(y)
    constant = np.zeros(data.matrix.shape[1], dtype=bool)
    whole = within_units(data.matrix, np.full(n, 1 / n), constant, columns, n)
    for left_out in range(20):
        rows = np.flatnonzero(np.arange(n) % 20 != left_out)
        share = np.full(len(rows), 1 / len(rows))
        refit = within_units(data.matrix[rows], share, constant, columns, len(rows), like=whole)
        for block, again in zip(whole.blocks, refit.blocks, strict=True):
            moved = np.linalg.norm(again.encoder - block.encoder, axis=0)
            assert np.all(moved < 0.2 * np.linalg.norm(block.encoder, axis=0))


def test_errors_of_columns_that_are_missing_together_do_not_depend_on_the_seed():
    # the random part of their shared indicator is drawn in the same coordinates by every refit
    table, y = missing_together(1500, 1)
    found = [dfi.explain(table, y, "linear", diagnose=False, random_state=k) for k in range(6)]
    errors = np.array([result.se for result in found])
    assert np.all(errors.max(axis=0) < 1.6 * errors.min(axis=0))


def test_the_only_row_that_tells_two_gaps_apart_does_not_decide_their_errors():
    table, y = missing_together(1500, 1)
    together = dfi.explain(table, y, "linear", diagnose=False).se
    table.loc[np.flatnonzero(table["m1"].isna())[0], "m2"] = 0.0
    found = [dfi.explain(table, y, "linear", diagnose=False, random_state=k) for k in range(4)]
    errors = np.array([result.se for result in found])
    # a sample of the rows made them 20 times as large, a slope by one group 30 times too small
    assert np.all(errors > 0.5 * together)
    assert np.all(errors < 2.0 * together)


def test_rare_missing_values_arrive_at_the_model():
    rng = np.random.default_rng(4)
    n = 1000
    table = pd.DataFrame(rng.standard_normal((n, 2)), columns=["a", "b"])
    table.loc[[1, 5, 9], "b"] = np.nan
    seen = []

    def model(rows):
        seen.append(rows["b"].isna().to_numpy())
        return rows["a"].to_numpy() + np.where(rows["b"].isna(), 30.0, 0.0)

    y = table["a"].to_numpy() + np.where(table["b"].isna(), 30.0, 0.0)
    found = explained(table, y, model, integration=dfi.Quadrature(donors=8))
    (given,) = (rows for rows in seen if len(rows) == 8 * n)
    assert given.sum() == 8 * 3
    truth = 30.0**2 * 0.003 * 0.997
    assert found.latent.scores[1] == pytest.approx(truth, rel=0.05)


@pytest.mark.parametrize(
    ("share", "pooled"),
    [
        ([0.6, 0.395, 0.005], (1, 2)),
        ([0.005, 0.6, 0.395], (0, 2)),
        ([0.995, 0.005], ()),
        ([0.5, 0.5], ()),
        ([0.99, 0.005, 0.005], (1, 2)),
        # of two that are equally frequent the one that comes first in the table
        ([0.005, 0.4975, 0.4975], (0, 2)),
    ],
)
def test_a_single_rare_level_is_pooled_with_the_next_in_frequency(share, pooled):
    first = np.array([9, 5, 2])[: len(share)]
    assert rare_levels(np.array(share), lambda: first) == pooled


def test_a_category_of_rare_levels_alone_keeps_one():
    rng = np.random.default_rng(6)
    n = 600
    table = pd.DataFrame({"label": [f"s{k % 150:03d}" for k in range(n)], "a": rng.normal(size=n)})
    y = 0.01 * table["label"].str[1:].astype(float).to_numpy() + table["a"].to_numpy()
    y = y + rng.standard_normal(n)

    def model(rows):
        return 0.01 * rows["label"].astype(str).str[1:].astype(float) + rows["a"]

    one = explained(table, y, model)
    assert one.diagnostics["pooled_levels"]["columns"] == ("label",)
    truth = 0.01**2 * (150**2 - 1) / 12
    assert abs(one.scores[0] - truth) < 3 * one.se[0]
    # other names, in another order
    renamed = table.assign(label=table["label"].map(lambda s: f"{999 - int(s[1:])}{s}"))
    two = explained(renamed, y, lambda rows: model(rows.assign(label=rows["label"].str[3:])))
    np.testing.assert_allclose(two.scores, one.scores, rtol=1e-10)


def test_pooled_levels_are_drawn_apart_where_fidelity_is_measured():
    table, _ = high_cardinality(n=600)
    level = table["label"].str[1:].astype(int)
    assert level.nunique() > 30

    def model(rows):
        return 2.0 * (rows["label"].astype(str).str[1:].astype(int) % 7) + rows["a"]

    found = explained(table, 2.0 * (level % 7) + table["a"], model, diagnose=True)
    assert not found.diagnostics["fidelity"]["far"]


def test_refits_pool_the_levels_that_the_whole_table_pools():
    """A level near one in a hundred would be pooled in some refits and not in others."""
    rng = np.random.default_rng(0)
    kind = np.concatenate([np.repeat(list("ab"), 486), np.repeat(list("cde"), [10, 9, 9])])
    matrix = np.column_stack([rng.standard_normal(1000), kind[:, None] == np.array(list("abcde"))])
    columns = (
        Column("x", "x", "real", (), (0,)),
        Column("kind", "kind", "categorical", tuple("abcde"), (1, 2, 3, 4, 5)),
    )
    constant = np.zeros(6, dtype=bool)
    whole = Gaussian().fit_matrix(
        matrix, Weights(np.ones(1000), "frequency"), constant, columns=columns
    )
    # without three of its ten rows "c" is below one in a hundred as well
    kept = np.r_[:972, 975:1000]
    weights = Weights(np.ones(len(kept)), "frequency")
    alone = Gaussian().fit_matrix(matrix[kept], weights, constant, columns=columns)
    refit = Gaussian().fit_matrix(matrix[kept], weights, constant, columns=columns, like=whole)
    assert [transport.inner.blocks[1].rare for transport in (whole, alone, refit)] == [
        (3, 4), (2, 3, 4), (3, 4)
    ]  # fmt: skip


def test_what_thinned_rows_add_to_refits_is_no_error_of_the_transport(monkeypatch):
    """A step of all columns: compared on few rows, refits differ by the noise of those rows."""
    import dfi.transports.blocks as module

    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 9)) @ (np.eye(9) + 0.3 * rng.standard_normal((9, 9)))
    slopes = rng.standard_normal(9)

    def step(rows):
        return 2.0 * (rows @ slopes > 0)

    y = step(X) + rng.standard_normal(600)
    groups = {f"g{k}": [f"x{j}" for j in range(k, 9, 3)] for k in range(3)}
    errors = {}
    for rows in (60, 600):
        monkeypatch.setattr(module, "JACKKNIFE_ROWS", rows)
        found = explained(X, y, step, feature_groups=groups, units="groups", transport_error="auto")
        errors[rows] = found.latent.se
    # 1.2 here, 2.0 with the noise left in
    assert np.mean(errors[60] / errors[600]) < 1.6


def test_refits_that_are_compared_on_all_rows_have_no_noise_of_a_sample(monkeypatch):
    # 190 of 200 rows are left in a refit: a sample of half of them errs by its other half
    import dfi.transports.base as base
    import dfi.transports.blocks as module

    X, noise, _ = sample(n=200, seed=5)
    y = curved(X) + 0.2 * noise
    whole, seen = base.with_transport_error, []

    def noted(influence, weights, groups, psi, noise=None):
        seen.append(noise)
        return whole(influence, weights, groups, psi, noise)

    monkeypatch.setattr(base, "with_transport_error", noted)
    noises = []
    for rows in (100, 200):
        monkeypatch.setattr(module, "JACKKNIFE_ROWS", rows)
        monkeypatch.setattr(module, "LINEAR_ROWS", rows)
        explained(X, y, curved, feature_groups=GROUPS, units="groups", transport_error="auto")
        noises.append(seen[-1])
    # .05/190 to .525/95; without the correction for a finite population a half
    assert np.mean(noises[1]) < 0.15 * np.mean(noises[0])


def test_the_direction_of_a_unit_is_that_of_the_outcome_less_its_means():
    """``f - m`` and ``y - f`` of two models add up to ``y - m`` of either: gamma averages both."""
    rng = np.random.default_rng(7)
    y, (f, g), (m, k) = rng.standard_normal(40), *rng.standard_normal((2, 2, 40))
    coordinates, mass = rng.standard_normal((40, 3)), rng.uniform(0.5, 2.0, 40)
    values = [each[:, None] for each in (f - m, g - k, y - f, y - g)]
    _, _, gamma = _linear_part(values, coordinates, np.eye(3)[None], Weights(mass, "sampling"))
    slopes = [np.average((y - mean)[:, None] * coordinates, 0, mass) for mean in (m, k)]
    np.testing.assert_allclose(gamma, np.mean(slopes, axis=0))
