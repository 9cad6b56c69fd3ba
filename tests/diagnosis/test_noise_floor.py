"""Probes: scored like features, exactly 0 where nothing moves, and without effect on the result."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import dfi
from dfi._data.table import read_table
from dfi._data.weights import Weights
from dfi._diagnosis import checks
from dfi._diagnosis.noise_floor import NoiseFloor, Probe
from dfi._diagnosis.probes import probed_table
from dfi._models.crossfit import FoldModels
from dfi._scoring.sensitivity import hermite_sensitivity
from dfi.results.file import thaw
from dfi.transports import Copula, EntropicOT, Gaussian
from dfi.transports.base import Layout
from dfi.warnings import ImplausibleScoreWarning
from tests.scoring.tasks import task_of

SEED = np.random.SeedSequence(5)


def dependent_rows(n=400, d=4, seed=0):
    generator = np.random.default_rng(seed)
    root = np.linalg.cholesky(0.5 * np.eye(d) + 0.5)
    return generator.standard_normal((n, d)) @ root.T


def steps(X):
    return 2.0 * (X[:, 0] > 0.3) + 1.5 * (X[:, 1] + X[:, 2] > 0)


def smooth(X):
    return 1.5 * np.sin(1.3 * X[:, 0]) + X[:, 1] * X[:, 2]


@pytest.fixture
def every_row(monkeypatch):
    monkeypatch.setattr("dfi._diagnosis.probes.FEWEST_ROWS", 10**6)
    monkeypatch.setattr("dfi._diagnosis.probes.MOST_ROWS", 10**6)


def probes_of(result):
    return thaw(result.diagnostics)["noise_floor"]["probes"]


@pytest.mark.parametrize("transport", [Gaussian, Copula])
@pytest.mark.parametrize("function", [steps, smooth])
@pytest.mark.usefixtures("every_row")
def test_probes_are_scored_as_features_would_be(transport, function, monkeypatch):
    """The twin explains the table with the probes as its own columns, all lines of it."""
    seen = []
    monkeypatch.setattr(
        checks, "probed_table", lambda *given: seen.append(probed_table(*given)) or seen[-1]
    )
    X = dependent_rows()
    design = transport(components=None)
    y = function(X) + 0.5 * np.random.default_rng(1).standard_normal(len(X))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ImplausibleScoreWarning)
        result = dfi.explain(X, y, function, transport=design, cv="prefit")
    # what noise does to the columns may ask for more nodes than the table itself
    same_nodes = dfi.Quadrature(nodes=result.diagnostics["quadrature"]["n_nodes"])
    twin = dfi.explain(
        seen[0].table.matrix, y, lambda rows: function(rows[:, :4]),
        transport=design, cv="prefit", diagnose=False, integration=same_nodes,
    )  # fmt: skip
    found = probes_of(result)
    assert [probe["kind"] for probe in found] == ["normal", "real"]
    # probes keep the second-order bias, which puts the floor on the safe side
    bias = {
        space: np.array(list(twin.diagnostics["second_order"][space].values()))
        for space in ("latent", "attributed")
    }
    # latent scores of features are those without probes, and a copula's slopes are at their mean
    slack = 0.002 if transport is Gaussian else 0.15
    for k, probe in enumerate(found, start=4):
        latent = twin.latent.scores[k] + bias["latent"][k]
        attributed = twin.scores[k] + bias["attributed"][k]
        assert probe["latent"] == pytest.approx(latent, rel=1e-9)
        assert probe["score"] == pytest.approx(attributed, rel=slack, abs=1e-4)
        # the twin may take its own short cut for the transport's influence
        assert 0.5 < probe["se"] / twin.se[k] < 2.0


@pytest.mark.usefixtures("every_row")
def test_steps_of_dependent_columns_raise_the_floor():
    """Chance correlations alone: mean score of noise a^2 f(c) E|L| / sqrt(pi) > 0 for a step."""
    X = dependent_rows(1000)
    y = steps(X) + 0.3 * np.random.default_rng(1).standard_normal(len(X))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ImplausibleScoreWarning)
        result = dfi.explain(X, y, steps, transport=Gaussian(components=None), cv="prefit")
    floor = result.diagnostics["noise_floor"]
    assert 0 < floor["floor"] < 0.1 * np.var(y)
    assert floor["floor"] < floor["upper"]


@pytest.mark.parametrize("function", [steps, smooth])
def test_probes_in_components_of_their_own_score_exactly_nothing(function):
    X = dependent_rows(1000)
    y = function(X) + 0.3 * np.random.default_rng(1).standard_normal(len(X))
    found = dfi.explain(X, y, function, cv="prefit").diagnostics["noise_floor"]
    assert found["floor"] == found["upper"] == 0.0
    assert [probe["p"] for probe in found["probes"]] == [1.0, 1.0]


def test_lines_that_move_nothing_ask_no_model():
    """Probes orthogonal to the table: no chance correlation, a score of exactly 0."""
    X = dependent_rows(300)
    y = smooth(X)
    table = read_table(X)
    weights = Weights(np.ones(300), "frequency")
    probed = probed_table(table, table.columns, np.arange(300), weights, table.constant, SEED)

    class Independent:
        """A design that finds the probes independent of the table, as components do."""

        name = "gaussian"

        def fit_rows(self, matrix, weights, layout):
            fitted = Gaussian().fit_rows(matrix, weights, Layout(layout.constant))
            block = np.zeros((6, 6))
            block[:4, :4] = np.corrcoef(matrix[:, :4].T)
            block[4:, 4:] = np.eye(2)
            values, vectors = np.linalg.eigh(block)
            roots = np.sqrt(values)
            exact = {
                "decoder": (vectors * roots) @ vectors.T,
                "encoder": (vectors / roots) @ vectors.T,
            }
            for matrix in exact.values():
                matrix[4:, :4] = matrix[:4, 4:] = 0.0
            geometry = replace(fitted.geometry, values=values, vectors=vectors, **exact)
            return replace(fitted, geometry=geometry)

    class Refuses:
        rule = "none"

        def predict(self, points):
            raise AssertionError("no model is to be asked")

        moments = predict

    from dfi._diagnosis.noise_floor import noise_floor
    from dfi._diagnosis.probes import ReadFold

    found = noise_floor(
        replace(Gaussian().fit_matrix(X, weights, table.constant), design=Independent()),
        probed,
        np.ones((300, 4)),
        [ReadFold(np.arange(100), (Refuses(),))],
        task_of(
            [FoldModels(0, np.arange(300), (), SEED)],
            X,
            y,
            weights,
            table=table,
            transport_error="ignore",
        ),
        variance=1.0,
    )
    assert [probe.latent for probe in found.probes] == [0.0, 0.0]
    assert [probe.score for probe in found.probes] == [0.0, 0.0]
    assert [probe.p for probe in found.probes] == [1.0, 1.0]
    assert found.floor == found.upper == found.raised == 0.0


@pytest.mark.parametrize("transport", ["gaussian", "copula"])
@pytest.mark.parametrize("estimator", ["linear", "boosting"])
def test_checks_change_no_score(estimator, transport):
    generator = np.random.default_rng(2)
    X = pd.DataFrame(dependent_rows(200), columns=list("abcd")).assign(
        shape=generator.choice(["round", "square", "star"], 200), count=generator.poisson(3, 200)
    )
    y = X["a"] + X["count"] + generator.standard_normal(200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dfi.warnings.DFIWarning)
        first, second = (
            dfi.explain(X, y, estimator, transport=transport, cv=3, diagnose=diagnose)
            for diagnose in (True, False)
        )
    np.testing.assert_array_equal(first.influence, second.influence)
    np.testing.assert_array_equal(first.latent.influence, second.latent.influence)
    assert [probe["kind"] for probe in probes_of(first)] == [
        "normal", "real", "category", "levels",
    ]  # fmt: skip
    for key in ("noise_floor", "totals", "fidelity", "latent"):
        assert key not in second.diagnostics


def test_probes_are_copies_in_another_order():
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "x": generator.standard_normal(80),
            "few": generator.choice(list("abc"), 80),
            "many": generator.choice(list("abcdefgh"), 80),
            "flag": generator.random(80) < 0.5,
            "whole": np.arange(80),
            "same": np.ones(80),
        }
    )
    table = read_table(frame)
    mass = np.r_[np.zeros(5), np.ones(75)]
    probed = probed_table(
        table, table.columns, np.arange(80), Weights(mass, "frequency"), table.constant, SEED
    )
    assert {kind: like for kind, like, _ in probed.probes} == {
        "normal": None, "real": "x", "levels": "whole", "category": "many",
    }  # fmt: skip
    assert probed.table.matrix.shape[1] == len(probed.constant)
    np.testing.assert_array_equal(probed.table.matrix[:, : table.matrix.shape[1]], table.matrix)
    for _, like, positions in probed.probes[1:]:
        unit = table.columns[table.names.index(like)]
        source, copy = table.matrix[:, list(unit.positions)], probed.table.matrix[:, positions]
        assert not np.array_equal(source, copy)
        # rows that do not count keep theirs, the others are permuted
        np.testing.assert_array_equal(source[:5], copy[:5])
        np.testing.assert_array_equal(*(np.sort(part[5:], axis=0) for part in (source, copy)))
        assert np.array_equal(copy.sum(axis=1), source.sum(axis=1)) or len(positions) == 1
    again = probed_table(
        table, table.columns, np.arange(80), Weights(mass, "frequency"), table.constant, SEED
    )
    np.testing.assert_array_equal(again.table.matrix, probed.table.matrix)


def test_sensitivity_of_a_bilinear_regression_is_its_closed_form():
    """eta = b'z + z'Cz/2 without squares: G_kj = b_j b_k + sum_l C_jl C_kl for k other than j."""
    generator = np.random.default_rng(0)
    latent = generator.standard_normal((200_000, 4))
    b = np.array([1.0, -0.5, 0.3, 0.0])
    C = np.array([[0, 0.4, 0, 0.2], [0.4, 0, -0.3, 0], [0, -0.3, 0, 0.5], [0.2, 0, 0.5, 0]])
    share = np.full(len(latent), 1 / len(latent))
    coordinates = np.array([0, 3])
    hermite = b[coordinates] + latent @ C[:, coordinates]
    value = latent @ b + 0.5 * np.einsum("ij,jk,ik->i", latent, C, latent)
    mean = value[:, None] - latent[:, coordinates] * hermite
    found = hermite_sensitivity(latent, share, coordinates, hermite, mean)
    for column, j in enumerate(coordinates):
        truth = b[j] * b + C @ C[j] - C[:, j] * C[j, j]
        truth[j] = 0.0
        np.testing.assert_allclose(found[:, column], truth, atol=0.02)


def test_linear_model_of_independent_columns_does_not_warn():
    """Twenty tables of noise and signal: Holm at 1 % over two probes warns in one of a hundred."""
    alarms = 0
    for seed in range(20):
        sample = dfi.datasets.m1(200, rho=0.7, d=4, random_state=seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ImplausibleScoreWarning)
            dfi.explain(sample.X, sample.y, estimator="linear", cv=2)
        alarms += any(w.category is ImplausibleScoreWarning for w in caught)
    # a rate of 2 % passes with a probability of .99
    assert alarms <= 2


@pytest.mark.filterwarnings("ignore:.*blurs the rows:dfi.warnings.ImplausibleScoreWarning")
def test_what_is_not_measured_says_why():
    sample = dfi.datasets.m1(150, d=2)
    options = {"estimator": "linear", "cv": 2, "transport_error": "ignore"}
    bridge = dfi.explain(sample.X, sample.y, transport=Gaussian(epsilon=1.0), **options)
    assert "many lines" in bridge.diagnostics["noise_floor"]["not_measured"]
    solved = dfi.explain(
        sample.X, sample.y, transport=EntropicOT(epsilon=5.0, n_targets=512), **options
    )
    assert "second fit" in solved.diagnostics["noise_floor"]["not_measured"]
    assert solved.diagnostics["fidelity"] == {}


def probe(score, se, p_adj, kind="normal", like=None):
    return Probe(kind, like, score, se, p_adj, p_adj, score, score)


def test_floor_and_its_bounds():
    floor = NoiseFloor((probe(-0.2, 0.1, 0.9), probe(0.3, 0.05, 1e-6, "levels", "hr")), 100)
    assert floor.floor == 0.3
    assert floor.upper == pytest.approx(0.3 + 1.6449 * 0.05, abs=1e-4)
    assert [each.kind for each in floor.significant] == ["levels"]
    assert floor.raised == 0.3
    quiet = NoiseFloor((probe(0.2, 0.2, 0.4),), 100)
    assert quiet.floor == 0.2
    assert quiet.raised == 0.0
    assert quiet.significant == ()
    assert NoiseFloor((probe(-0.2, 0.1, 0.9),), 100).floor == 0.0


def test_noise_that_is_significant_is_named_and_features_below_it_too(monkeypatch):
    floor = NoiseFloor((probe(0.5, 0.1, 1e-5, "levels", "b"),), 100)
    monkeypatch.setattr(checks, "noise_floor", lambda *given, **more: floor)
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(generator.standard_normal((400, 2)), columns=["a", "b"])
    y = 3 * frame["a"] + 0.3 * frame["b"] + 0.2 * generator.standard_normal(400)
    said = (
        r"a column of pure noise \(a permuted copy of 'b'\) scores 50 % of the outcome's variance "
        r"here, .*No score of that size or smaller is a finding\. "
        r"'b' is significant, but scores less than pure noise"
    )
    with pytest.warns(ImplausibleScoreWarning, match=said):
        result = dfi.explain(frame, y, LinearRegression(), cv=2)
    assert result.diagnostics["noise_floor"]["significant_below"] == ("b",)
    assert result.trust.by_feature["b"] == "do not rely on it"


@pytest.mark.full
def test_a_probe_above_zero_has_the_error_of_its_transport_too():
    """Tests that join a probe with features by chance fit the transport to that chance.

    Counts repeat rows, so they see more of them than there are, and join more.
    """
    ratios = []
    for seed in range(8):
        generator = np.random.default_rng(seed)
        x = generator.standard_normal(300)
        kind = generator.integers(0, 4, 300)
        table = pd.DataFrame(
            {
                "x": np.where(generator.random(300) < 0.3, np.nan, x),
                "z": x + generator.standard_normal(300),
                "kind": np.array(list("abcd"))[kind],
            }
        )
        y = x + kind + generator.standard_normal(300)
        counts = generator.integers(0, 3, 300)
        known, aware = (
            probes(table, y, counts, transport_error) for transport_error in ("ignore", "auto")
        )
        ratios += [b["se"] / a["se"] for a, b in zip(known, aware, strict=True) if a["p"] <= 0.05]
        np.testing.assert_allclose(
            [p["score"] for p in aware], [p["score"] for p in known], rtol=0.05, atol=1e-9
        )
    assert len(ratios) > 3
    assert np.mean(ratios) > 1.2


def probes(table, y, counts, transport_error):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dfi.warnings.DFIWarning)
        found = dfi.explain(
            table, y, "linear", frequency_weight=counts, transport_error=transport_error
        )
    return found.diagnostics["noise_floor"]["probes"]
