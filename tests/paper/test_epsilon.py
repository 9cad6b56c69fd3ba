"""The figure of the sensitivity to epsilon: forms, refusals, and claims judged by the numbers."""

import csv

import numpy as np
import pytest

from paper.epsilon import EPSILONS, FORMS, epsilon_tasks, explain_grid, transports
from paper.epsilon_figure import EPSILON, Curve, claims, collect_curve, write_epsilon
from paper.reproduction import Size, run_tasks

# The framework keeps such warnings from simulations.
pytestmark = [
    pytest.mark.filterwarnings("ignore::dfi.warnings.TransportWarning"),
    pytest.mark.filterwarnings("ignore::dfi.warnings.WeakModelWarning"),
]


@pytest.fixture(scope="module")
def analytical():
    return explain_grid("analytical", "true", n=200, seed=0, trees=5, epsilons=[0.01, 0.5, 2.0])


@pytest.fixture(scope="module")
def oversampled():
    return explain_grid("oversampled", "true", n=200, seed=0, trees=5, epsilons=[0.01, 0.5, 2.0])


def test_forms_of_a_grid():
    assert [t.epsilon for t in transports("analytical", 10, [0.1, 1.0])] == [0.1, 1.0]
    assert {t.name for form in FORMS for t in transports(form, 10, [1.0])} == {
        "semicontinuous", "gaussian", "entropic",
    }  # fmt: skip
    assert transports("oversampled", 10, [1.0])[0].n_targets == 40


def test_the_forest_is_part_of_the_full_version():
    assert {t.arguments["regression"] for t in epsilon_tasks(Size())} == {"true"}
    full = epsilon_tasks(Size(full=True, seeds=3, refit_seeds=2))
    assert {t.arguments["n"] for t in full} == {2000}
    counts = [t.arguments["regression"] for t in full]
    assert (counts.count("true"), counts.count("forest")) == (9, 6)


def test_the_published_form_scales_all_scores_alike(analytical):
    """Its factor is c^2 with c = s / (tau + s^2), s = 2 / (2 + eps), tau = eps / (2 + eps)."""
    scores = np.array([point["scores"] for point in analytical["grid"]])
    epsilon = np.array([0.01, 0.5, 2.0])
    s, tau = 2 / (2 + epsilon), epsilon / (2 + epsilon)
    factor = (s / (tau + s**2)) ** 2
    np.testing.assert_allclose(scores / scores[0], np.outer(factor / factor[0], np.ones(5)))


def test_a_kernel_of_few_rows_is_refused_and_shown_beside(oversampled):
    small, refused, scored = oversampled["grid"]
    assert small == {"epsilon": 0.01, "scores": None, "forced": None, "refused": None}
    assert refused["scores"] is None
    assert "the entropic kernel averages over" in refused["refused"]
    assert len(refused["forced"]) == 5
    assert len(scored["scores"]) == 5
    assert scored["forced"] is scored["refused"] is None


def test_forests_are_scored_on_held_out_rows():
    record = explain_grid("bridge", "forest", n=60, seed=0, trees=2, epsilons=[2.0])
    assert len(record["grid"][0]["scores"]) == 5


def test_changes_over_the_grid():
    scores = np.array([[8.0, 2.0], [3.0, 1.0], [1.0, 1.0]])
    curve = Curve(np.array([0.1, 1.0, 2.0]), scores, np.ones((3, 2)))
    assert curve.share_change() == pytest.approx(0.8 - 0.5)
    assert curve.score_change() == pytest.approx(7 / 8)
    assert curve.share_change(theory=True) == curve.score_change(theory=True) == 0.0
    assert curve.at([0.1, 1.0]).share_change() == pytest.approx(0.8 - 0.75)


def test_claims_follow_the_numbers():
    epsilons = np.array([0.5, 1.0])
    flat, steep = np.array([[4.0, 1.0], [3.9, 1.0]]), np.array([[4.0, 1.0], [1.0, 1.0]])
    curves = {
        "analytical": Curve(epsilons, steep, steep),
        "oversampled": Curve(epsilons, flat, flat),
    }
    text = claims(curves)
    assert text.count("the claim *holds* here") == 2
    assert "move by at most 0.300 (theory 0.300), *not stable*" in text
    assert "move by at most 0.004 (theory 0.004), *stable*" in text
    turned = claims({"analytical": curves["oversampled"], "oversampled": curves["analytical"]})
    assert turned.count("the claim *does not hold* here") == 2
    assert "refused at every ε" in claims({"analytical": curves["analytical"]})


def test_replications_are_averaged_where_they_have_scores():
    def record(seed, values):
        grid = [{"epsilon": e, "scores": v, "forced": None} for e, v in values.items()]
        return {"form": "bridge", "regression": "true", "seed": seed, "grid": grid}

    records = {
        "a": record(0, {0.1: None, 1.0: [1.0] * 5}),
        "b": record(1, {0.1: [5.0] * 5, 1.0: [3.0] * 5}),
    }
    curve = collect_curve(records, "bridge", "true")
    np.testing.assert_array_equal(curve.epsilons, [0.1, 1.0])
    np.testing.assert_array_equal(curve.scores[:, 0], [5.0, 2.0])
    # M3 at rho = 0.5 and epsilon to 0: 9/16 (rho^2 + 2)
    assert curve.theory[0, 0] < 9 / 16 * 2.25
    assert collect_curve(records, "analytical", "true") is None


@pytest.mark.full
def test_the_files(analytical, oversampled, tmp_path):
    bridge = {**analytical, "form": "bridge"}
    names = [*FORMS]
    records = dict(zip(names, (analytical, bridge, oversampled), strict=True))
    records = {key: {**record, "grid": plain(record["grid"])} for key, record in records.items()}
    write_epsilon(records, tmp_path, Size())
    assert {path.name for path in tmp_path.iterdir()} == set(EPSILON.files)
    page = (tmp_path / "figure-epsilon.md").read_text()
    assert "- ε = 0.5: at epsilon = 0.5 the entropic kernel averages over" in page
    assert "reduced sizes" in page
    with (tmp_path / "figure-epsilon.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * 3 * 5
    status = [(r["form"], r["epsilon"], r["status"]) for r in rows if r["feature"] == "X1"]
    assert ("oversampled", "0.01", "not solved") in status
    assert ("oversampled", "0.5", "refused") in status
    assert ("oversampled", "2.0", "scored") in status
    shares = [float(r["share"]) for r in rows if (r["form"], r["epsilon"]) == ("bridge", "2.0")]
    assert sum(shares) == pytest.approx(1.0)


def plain(grid):
    """As a record has it after it was written and read."""
    return [
        {
            key: value.tolist() if isinstance(value, np.ndarray) else value
            for key, value in p.items()
        }
        for p in grid
    ]


def test_the_tasks_run_in_the_framework(tmp_path):
    tasks = [t for t in epsilon_tasks(Size(seeds=1)) if t.arguments["form"] == "analytical"]
    study = type(EPSILON)("e", "", lambda size: tasks, write_epsilon)
    (record,) = run_tasks(study, Size(), tmp_path).values()
    assert [point["epsilon"] for point in record["grid"]] == list(EPSILONS)
