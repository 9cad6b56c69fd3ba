"""Dependence between latents lowers a verdict where it may have moved the scores."""

from dataclasses import replace

import pytest

import dfi
from dfi._diagnosis.independence import Independence
from dfi._diagnosis.latents import dependence
from dfi._diagnosis.totals import Totals

RIGHT = Totals(
    total=1.0, total_se=0.02, explained=1.0, explained_se=0.02, variance=1.5, of_variance=2 / 3,
    of_explained=1.0, latent_total=1.0, latent_total_se=0.02, order=1.0, n_latent=4,
    above_variance=(), interaction=0.001,
)  # fmt: skip


def left(auc):
    return Independence(auc, 0.53, ((0, 1),), (auc,), 0.1, 0.1, 0.05, 1000)


@pytest.mark.parametrize(
    ("auc", "changes", "grade"),
    [
        (0.95, {}, "note"),  # as with a category: nothing is independent of its other levels
        (0.95, {"latent_total": 1.2, "order": 1.2}, "care"),
        (0.95, {"latent_total": 0.8, "order": 0.8}, "care"),
        # interactions account for 1.15
        (0.95, {"latent_total": 1.35, "order": 1.35, "interaction": 0.05}, "care"),
        (0.95, {"latent_total": 1.2, "order": 1.2, "interaction": 0.05}, "note"),
        (0.95, {"latent_total_se": 0.1}, "care"),  # it may be off by as much
        (0.95, {"interaction": None}, "care"),  # nothing is known of it
        (0.95, {"interaction": 0.0}, "care"),  # the sum of an additive model is always right
        (0.8, {"latent_total": 1.2, "order": 1.2}, "note"),
    ],
)
def test_dependence_counts_where_the_sum_may_be_off(auc, changes, grade):
    found = dependence(
        dfi.transports.Gaussian(), left(auc), [["a", "b"]], replace(RIGHT, **changes)
    )
    assert found.severity == grade
    assert found.about == ("a", "b")
