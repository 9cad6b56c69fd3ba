"""Joint effects of latent pairs against enumeration, and the projection on additive functions."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product
from typing import TYPE_CHECKING

import numpy as np
import pytest

from dfi._lines.base import LineMoments, Reference
from dfi._scoring.donors import Joint
from dfi._scoring.pairs import Additive, PairSpace, pair_effects, proxies

if TYPE_CHECKING:
    from collections.abc import Callable

    from dfi._lines.base import Lines
    from dfi._types import Floats

LEVELS = np.array([-1.3, 0.1, 1.2])


@dataclass(frozen=True)
class Enumerated:
    """A function whose line means are sums over the values of the law, one by one."""

    function: Callable[[Floats], Floats]

    @property
    def rule(self) -> str:
        return "enumerated"

    def predict(self, points: Floats) -> Floats:
        return self.function(points)

    def moments(self, lines: Lines) -> LineMoments:
        n, d = lines.latent.shape
        mean, hermite = np.zeros((2, 1, n, d))
        for j in range(d):
            values, mass = lines.reference.atoms(j)
            for value, share in zip(values, mass, strict=True):
                step = (value - lines.latent[:, j])[:, None]
                found = self.function(lines.points + step * lines.directions[:, j])
                mean[0, :, j] += share * found
                hermite[0, :, j] += share * value * found
        return LineMoments(mean, hermite)


def _function(x: Floats) -> Floats:
    return (
        np.exp(0.4 * x[:, 0]) * x[:, 1]
        + x[:, 0] * x[:, 1] * x[:, 2]
        + np.cos(x[:, 2] + x[:, 3])
        + x[:, 3] ** 2
    )


def _by_sets(values: Floats, d: int) -> dict[tuple[int, ...], float]:
    """Return the variance of each interaction by inclusion and exclusion over all 2^d sets."""
    whole = values.reshape((len(LEVELS),) * d)
    means = {}
    for size in range(d + 1):
        for kept in combinations(range(d), size):
            gone = tuple(set(range(d)) - set(kept))
            means[kept] = np.broadcast_to(whole.mean(axis=gone, keepdims=True), whole.shape)
    found = {}
    for kept in means:
        part = np.zeros(whole.shape)
        for size in range(len(kept) + 1):
            for inner in combinations(kept, size):
                part = part + (-1) ** (len(kept) - size) * means[inner]
        found[kept] = float(np.mean(part**2))
    return found


def _space(rows: Floats, pairs: list[tuple[int, int]]) -> PairSpace:
    d = rows.shape[1]
    joints = tuple(Joint(np.array([j]), np.eye(d)[:, [j]]) for j in range(d))
    share = np.full(len(rows), 1.0 / len(rows))
    return PairSpace(rows, rows, share, joints, Reference.empirical(rows), np.array(pairs))


def test_products_of_effects_by_two_sets_of_donors_are_sums_over_all_sets() -> None:
    d = 4
    rows = np.array(list(product(LEVELS, repeat=d)))
    pairs = list(combinations(range(d), 2))
    space, model = _space(rows, pairs), Enumerated(_function)
    variances = _by_sets(_function(rows), d)
    truth = [sum(v for kept, v in variances.items() if {j, k} <= set(kept)) for j, k in pairs]
    seeds = np.random.SeedSequence(5).spawn(120)
    found = []
    for one, other in zip(seeds[::2], seeds[1::2], strict=True):
        both = [pair_effects([model], np.arange(len(rows)), space, s) for s in (one, other)]
        found.append(np.mean(both[0].effect[0] * both[1].effect[0], axis=0))
    error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    np.testing.assert_array_less(np.abs(np.mean(found, axis=0) - truth), 4.5 * error + 1e-9)


@pytest.mark.parametrize("pair", [(0, 1), (1, 0)])
def test_an_effect_is_the_same_whichever_of_two_units_takes_donors(pair: tuple[int, int]) -> None:
    rows = np.array(list(product(LEVELS, repeat=3)))
    space = _space(rows, [pair])
    model = Enumerated(lambda x: np.exp(0.4 * x[:, 0]) * x[:, 1] ** 2 + x[:, 2])
    found = [
        pair_effects([model], np.arange(len(rows)), space, seed).effect[0, :, 0]
        for seed in np.random.SeedSequence(1).spawn(400)
    ]
    one, other = np.exp(0.4 * rows[:, 0]), rows[:, 1] ** 2
    truth = (one - one.mean()) * (other - other.mean())
    error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    np.testing.assert_array_less(np.abs(np.mean(found, axis=0) - truth), 4.5 * error + 1e-9)


def test_units_of_several_columns_take_donors_and_are_averaged_over_donors() -> None:
    generator = np.random.default_rng(3)
    rows = generator.standard_normal((200, 4))
    joints = tuple(Joint(np.array(at), np.eye(4)[:, at]) for at in ([0, 1], [2, 3]))
    share = np.full(200, 1 / 200)
    space = PairSpace(rows, rows, share, joints, Reference.empirical(rows), np.array([[0, 1]]))
    model = Enumerated(lambda x: (x[:, 0] + x[:, 1]) * x[:, 2] + x[:, 3] ** 2)
    found = np.mean(
        [
            pair_effects([model], np.arange(200), space, seed).effect[0, :, 0]
            for seed in np.random.SeedSequence(1).spawn(150)
        ],
        axis=0,
    )
    first, second = rows[:, 0] + rows[:, 1], rows[:, 2]
    truth = (first - first.mean()) * (second - second.mean())
    assert np.corrcoef(found, truth)[0, 1] > 0.99
    assert abs(np.polyfit(truth, found, 1)[0] - 1.0) < 0.05


def test_additive_functions_are_their_own_projection() -> None:
    rows = np.random.default_rng(0).standard_normal((500, 3))
    rows[:, 2] = rows[:, 2] > 0
    additive = Additive.of(rows, np.ones(500), np.random.SeedSequence(0))
    values = 1.0 + rows[:, 0] ** 2 - 2.0 * rows[:, 1] + 3.0 * rows[:, 2]
    np.testing.assert_allclose(additive.project(values), values, atol=1e-8)
    for half in (0, 1):
        model = additive.model(values, half, np.arange(100))
        np.testing.assert_allclose(model.predict(rows), values, atol=1e-8)
    smooth = np.tanh(2.0 * rows[:, 0]) + np.abs(rows[:, 1])
    left = smooth - additive.project(smooth)
    assert np.mean(left**2) < 0.01 * np.var(smooth)
    crossed = rows[:, 0] * rows[:, 1]
    assert np.mean(additive.project(crossed) ** 2) < 0.15 * np.var(crossed)


def test_weights_of_0_have_no_part_in_the_projection() -> None:
    rows = np.random.default_rng(0).standard_normal((300, 2))
    mass = np.ones(300)
    mass[200:] = 0.0
    values = rows[:, 0] * rows[:, 1]
    wild = values.copy()
    wild[200:] = 1e6
    additive = Additive.of(rows, mass, np.random.SeedSequence(0))
    np.testing.assert_allclose(additive.project(values)[:200], additive.project(wild)[:200])


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: np.tanh(a + b),
        lambda a, b: a * b**2,
        lambda a, b: (a > 0) * (b > 0.0),
        lambda a, b: np.cos(a + b),
    ],
)
def test_screening_sees_pairs_of_several_shapes(
    function: Callable[[Floats, Floats], Floats],
) -> None:
    generator = np.random.default_rng(0)
    latent = generator.standard_normal((4000, 4))
    y = function(latent[:, 1], latent[:, 3]) + 0.1 * generator.standard_normal(4000)
    found = proxies(latent, y, np.full(4000, 1 / 4000))
    assert np.unravel_index(np.argmax(found), found.shape) in ((1, 3), (3, 1))
    np.testing.assert_allclose(found, found.T)
