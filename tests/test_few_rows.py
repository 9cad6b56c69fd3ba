"""Tables of a few rows: what cannot be had is refused in words about rows, what can be says so."""

import numpy as np
import pytest

import dfi


def few_rows(result):
    return [reason for reason in result.trust.reasons if reason.kind == "few rows"]


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return X, X[:, 0] + 0.5 * rng.standard_normal(n)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", ["auto", "linear", "boosting", "forest"])
@pytest.mark.parametrize("n", range(2, 10))
def test_a_few_rows_are_refused_in_words_about_rows(estimator, n):
    X, y = table(n)
    with pytest.raises(ValueError, match=rf"X has {n} rows, too few for 5 folds.* more data"):
        dfi.explain(X, y, estimator)
    if n < 8:
        with pytest.raises(ValueError, match=rf"X has {n} rows, too few for .*more (rows|data)"):
            dfi.explain(X, y, estimator, cv=2)
    elif estimator != "auto":
        assert np.isfinite(dfi.explain(X, y, estimator, cv=2, diagnose=False).scores).all()


def test_five_rows_are_not_sent_to_fewer_than_two_folds():
    with pytest.raises(ValueError, match=r"Use cv=2, or more data\.$"):
        dfi.explain(*table(5))


@pytest.mark.parametrize(
    ("estimator", "n"),
    [
        ("linear", 10),
        ("linear", 11),
        ("linear", 12),
        ("boosting", 10),
        pytest.param("forest", 12, marks=pytest.mark.full),
    ],
)
@pytest.mark.filterwarnings("ignore::dfi.warnings.WeakModelWarning")
@pytest.mark.filterwarnings("ignore:.*columns that may depend:dfi.warnings.InferenceWarning")
def test_what_can_be_had_says_how_little_it_is(estimator, n):
    X, y = table(n)
    (few,) = few_rows(dfi.explain(X, y, estimator, diagnose=False))
    assert few.what.startswith(f"{n} rows are few (each model learned from 4 of them)")
    assert few.severity == "care"


def test_halves_speak_of_rows_and_one_model_a_fold_may_do():
    X, y = table(6)
    with pytest.raises(ValueError, match=r"two models in each of 2 folds: .* halves of 3 training"):
        dfi.explain(X, y, "linear", cv=2)
    result = dfi.explain(X, y, "linear", cv=2, form="loco", diagnose=False)
    assert np.isfinite(result.scores).all()
    assert few_rows(result)


def test_sixty_rows_are_not_few():
    X, y = table(60)
    assert not few_rows(dfi.explain(X, y, "linear", diagnose=False))


def test_a_fitted_model_is_not_warned_of(recwarn):
    X, y = table(40)
    result = dfi.explain(X, y, lambda rows: rows[:, 0], cv="prefit", diagnose=False)
    (few,) = few_rows(result)
    assert "learned" not in few.what
    assert not recwarn.list
