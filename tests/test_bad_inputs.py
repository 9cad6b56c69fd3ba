"""Bad inputs through the front door: each is refused, or warned of, in words a user can act on."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GroupKFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

import dfi
from dfi.warnings import ConstantColumnWarning, OutcomeWarning, WeakModelWarning

GENERATOR = np.random.default_rng(0)
X = pd.DataFrame(GENERATOR.standard_normal((60, 3)), columns=["a", "b", "c"])
Y = X["a"].to_numpy() + GENERATOR.standard_normal(60)


def explain(table=X, y=Y, **options):
    options = {"estimator": "linear", "cv": 2, "diagnose": False, **options}
    return dfi.explain(table, y, **options)


def with_cell(column, row, value, dtype=None):
    frame = X.copy()
    if dtype is not None:
        frame[column] = frame[column].astype(dtype)
    frame.loc[row, column] = value
    return frame


def refuses(message, error=ValueError):
    return pytest.raises(error, match=message)


# --- the table ---------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_missing_or_infinite_values_name_their_column(value):
    what = r"missing \(NaN, null\) or infinite" if np.isnan(value) else "X has infinite"
    with refuses(rf"{what} values in 'b' \(1 .*first in row 7"):
        explain(with_cell("b", 7, value), missing="error")


def test_one_row():
    with refuses("X has one row; an importance needs many"):
        explain(X.iloc[:1], Y[:1])


def test_fewer_rows_than_two_per_fold():
    with refuses("X has 7 rows, too few for 4 folds: each fold needs two rows or more"):
        explain(X.iloc[:7], Y[:7], cv=4)


def test_duplicate_names():
    twice = X.set_axis(["a", "b", "a"], axis=1)
    with refuses("X has more than one column called 'a'; rename them"):
        dfi.explain(twice, Y, lambda rows: rows.to_numpy()[:, 0], cv="prefit")


def test_complex_column():
    with refuses("'b' holds complex numbers", TypeError):
        explain(X.assign(b=X["b"] + 1j))


def test_object_column_of_mixed_types():
    mixed = X.assign(b=pd.Series([1.0, "x"] * 30, dtype=object))
    with refuses("'b' mixes objects of type float and str", TypeError):
        explain(mixed)


def test_datetime_column():
    dated = X.assign(b=pd.date_range("2020-01-01", periods=60))
    with refuses("'b' holds dates or times.*Make days of it, e.g. X\\['b'\\] = ", TypeError):
        explain(dated, estimator=lambda rows: rows[:, 0], cv="prefit")


def test_sparse_matrix_is_made_dense_or_refused_by_size():
    dense = explain(X.to_numpy())
    assert np.array_equal(explain(sparse.csr_array(X.to_numpy())).scores, dense.scores)
    huge = sparse.csr_array((200_000, 2_000))
    with refuses("X is sparse with shape 200000 x 2000 and would take 2.98 GiB"):
        explain(huge, np.arange(200_000.0))


def test_all_columns_constant():
    with refuses("every column of X is constant: there is nothing to explain"):
        explain(np.ones((60, 2)))


def test_constant_column_is_kept_with_a_warning():
    with pytest.warns(ConstantColumnWarning, match="'k' is constant: it scores 0"):
        result = explain(X.assign(k=3.0))
    assert result.scores[3] == 0.0
    assert np.isnan(result.se[3])
    assert np.isnan(result.interval()["ci_high"].iloc[3])
    assert result.latent.scores[3] == 0.0
    assert np.allclose(result.scores[:3], explain().scores, rtol=1e-10)


@pytest.mark.filterwarnings("ignore::dfi.warnings.WeakModelWarning")
@pytest.mark.filterwarnings("ignore:.* rows are few:dfi.warnings.InferenceWarning")
@pytest.mark.parametrize("how", ["sample_weight", "frequency_weight", "time"])
def test_column_that_varies_only_where_no_row_is_explained(how):
    from sklearn.model_selection import TimeSeriesSplit

    late = X.assign(k=np.eye(60)[0])
    options = {"cv": TimeSeriesSplit(3)}
    if how != "time":
        options = {how: 1.0 - np.eye(60)[0]}
    with pytest.warns(ConstantColumnWarning, match="'k' is constant among the rows"):
        result = explain(late, **options)
    assert result.scores[3] == 0.0
    assert np.isnan(result.se[3])
    assert np.isfinite(result.scores).all()


# --- the outcome -------------------------------------------------------------------------------


def test_missing_outcome():
    with refuses("y has 1 missing .* first in row 3"):
        explain(y=np.where(np.arange(60) == 3, np.nan, Y))


def test_outcome_of_strings_as_a_quantity():
    with refuses(r"y holds classes or strings \('no', 'yes'\) and task='regression'", TypeError):
        explain(y=np.where(Y > 0, "yes", "no"), task="regression")


def test_three_classes_given_as_integers_are_warned_of():
    with pytest.warns(OutcomeWarning, match=r"only 3 different values \(0, 1, 2\): they look"):
        explain(y=pd.qcut(Y, 3, labels=False))


def test_lengths_differ():
    with refuses("X has 60 rows and y has 59 values"):
        explain(y=Y[:-1])


def test_constant_outcome():
    with refuses("y is constant"):
        explain(y=np.ones(60))


@pytest.mark.filterwarnings("ignore::dfi.warnings.WeakModelWarning")
def test_boolean_outcome_is_a_probability():
    result = explain(y=Y > 0)
    assert np.allclose(result.scores, explain(y=(Y > 0).astype(float)).scores)


def test_two_outcomes_at_once_are_quantities():
    with refuses("several outcomes are explained as quantities"):
        explain(y=np.column_stack([Y, Y]), task="classification")


# --- weights, groups, level, names -------------------------------------------------------------


def test_negative_weights():
    with refuses("sample_weight is negative in row 0"):
        explain(sample_weight=-np.ones(60))


def test_all_zero_weights():
    with refuses("sample_weight is 0 in every row"):
        explain(sample_weight=np.zeros(60))


def test_weights_of_another_length():
    with refuses("X has 60 rows and sample_weight has 59 values"):
        explain(sample_weight=np.ones(59))


def test_counts_that_are_no_whole_numbers():
    with refuses("must be whole numbers, but row 0 has 1.5; pass sampling weights as sample_w"):
        explain(frequency_weight=np.full(60, 1.5))


def test_counts_of_another_length():
    with refuses("X has 60 rows and frequency_weight has 59 values"):
        explain(frequency_weight=np.ones(59))


def test_weights_of_both_kinds():
    with refuses("Pass sample_weight or frequency_weight, not both"):
        explain(sample_weight=np.ones(60), frequency_weight=np.ones(60))


def test_unknown_group_member():
    with refuses("names 'd', which is not a feature.*'a', 'b', 'c'"):
        explain(feature_groups={"serum": ["a", "d"]})


def test_empty_group():
    with refuses("serum"):
        explain(feature_groups={"serum": []})


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 95])
def test_level_outside_its_range(level):
    with refuses("level must be a number strictly between 0 and 1"):
        explain(level=level)


def test_unknown_estimator_name_lists_the_known_ones():
    with refuses("unknown estimator 'linaer'; did you mean 'linear'.*'auto', 'linear', 'ridge'"):
        explain(estimator="linaer")


def test_unknown_transport_name_lists_the_known_ones():
    with refuses("unknown transport 'gausian', did you mean 'gaussian'.*'semicontinuous'"):
        explain(transport="gausian")


def test_transport_of_another_type():
    with refuses("transport must be a name .* or an object with fit, encode and", TypeError):
        explain(transport=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"form": "lco"},
            "form must be 'auto', 'extrapolated', 'cross', 'calibrated', 'loco' or 'cpi', "
            "got 'lco'; did you mean 'loco'?",
        ),
        (
            {"transport_error": "exact"},
            "transport_error must be 'auto', 'derived', 'finite-difference', "
            "'jackknife' or 'ignore', got 'exact'",
        ),
        ({"random_state": "x"}, "random_state must be a whole number of 0 or more"),
        ({"random_state": -1}, "random_state must be a whole number of 0 or more"),
        ({"n_repeats": 0}, "n_repeats must be a whole number of 1 or more, got 0"),
        ({"cv": 1}, "cv=1: at least 2 folds are needed"),
        ({"cv": "kfold"}, "unknown cv 'kfold': pass a number of folds, a splitter or 'prefit'"),
        ({"cv": GroupKFold(3)}, "GroupKFold splits by groups of rows, but none were given"),
        (
            {
                "transport": dfi.transports.Gaussian(epsilon=1.0),
                "transport_error": "finite-difference",
            },
            "transport_error='finite-difference' holds for epsilon = 0",
        ),
    ],
)
def test_options_that_do_not_exist(options, message):
    with refuses(re.escape(message) if "(" not in message else message):
        explain(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": -1.0}, "epsilon must be a number of at least 0, got -1.0"),
        ({"epsilon": "small"}, "epsilon must be a number of at least 0, got 'small'"),
        ({"epsilon": float("nan")}, "epsilon must be a number of at least 0, got nan"),
        ({"shrinkage": 1.0}, "shrinkage must be a number in [0, 1) or 'ledoit-wolf', got 1.0"),
        ({"shrinkage": "oas"}, "shrinkage must be a number in [0, 1) or 'ledoit-wolf', got 'oas'"),
        (
            {"reference": "uniform"},
            "reference must be 'auto', 'empirical' or 'gaussian'",
        ),
        ({"reference": "empirical", "epsilon": 1.0}, "couples X with N(0, I)"),
        ({"n_draws": 0}, "n_draws must be a whole number of 1 or more, got 0"),
        ({"n_smoothing": 2.5}, "n_smoothing must be a whole number of 1 or more, got 2.5"),
    ],
)
def test_transport_options_are_checked_before_any_model_is_fitted(options, message):
    with refuses(re.escape(message)):
        dfi.transports.Gaussian(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rule": "random"}, "rule must be 'auto', 'equal', 'gauss' or 'draws', got 'random'"),
        ({"nodes": 0}, "nodes must be a whole number of 1 or more, got 0"),
        ({"memory": -1}, "memory must be a whole number of 1 or more, got -1"),
    ],
)
def test_quadrature_is_checked_when_it_is_made(options, message):
    with refuses(re.escape(message)):
        dfi.Quadrature(**options)


def test_integration_is_no_name_of_a_rule():
    with refuses("integration must be 'auto' or a dfi.Quadrature, got 'gauss'", TypeError):
        explain(integration="gauss")


def test_unknown_option_of_explain():
    with refuses("explain\\(\\) has no option 'folds'; did you mean 'cv'", TypeError):
        explain(folds=3)


# --- the model ---------------------------------------------------------------------------------


def test_unfitted_model_as_prefit():
    for model in (LinearRegression(), make_pipeline(StandardScaler(), Ridge())):
        with refuses("cv='prefit' needs a fitted model, but this .* is not fitted: call fit first"):
            explain(estimator=model, cv="prefit")


def test_class_in_place_of_a_model():
    with refuses(r"the class LinearRegression.*LinearRegression\(...\).fit", TypeError):
        explain(estimator=LinearRegression, cv="prefit")
    with refuses(r"not an instance: pass LinearRegression\(\)", TypeError):
        explain(estimator=LinearRegression)


def test_name_as_prefit():
    with refuses("not the name 'linear'", TypeError):
        explain(cv="prefit")


def test_neither_model_nor_function():
    with refuses("needs a fitted model or a function of X, got int", TypeError):
        explain(estimator=3, cv="prefit")
    with refuses("estimator must have fit and predict, got function.*cv='prefit'", TypeError):
        explain(estimator=lambda rows: rows["a"])


def test_cross_form_needs_two_models():
    with refuses("form='cross' needs two models fitted on disjoint rows"):
        explain(estimator=LinearRegression().fit(X, Y), cv="prefit", form="cross")


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda rows: np.zeros((len(rows), 2)), ValueError, r"shape \(60, 2\) for 60 rows"),
        (lambda rows: 1.0, ValueError, r"shape \(\) for 60 rows: one number per row is needed"),
        (lambda rows: np.zeros(3), ValueError, r"shape \(3,\) for 60 rows"),
        (lambda rows: np.full(len(rows), np.nan), ValueError, "predicted NaN or infinity for 60"),
        (lambda rows: ["a"] * len(rows), TypeError, "must predict numbers, got list"),
        (lambda rows: 1 / 0, ValueError, "could not predict 60 rows.*ZeroDivisionError"),
    ],
)
def test_predictions_of_the_wrong_kind(function, error, message):
    with refuses(message, error):
        explain(estimator=function, cv="prefit")


def test_classifier_where_a_regressor_is_needed():
    with refuses("LogisticRegression is a classifier, but y is a quantity: pass task="):
        explain(estimator=LogisticRegression())
    with refuses("LogisticRegression is a classifier, but y is a quantity"):
        explain(estimator=LogisticRegression().fit(X, Y > 0), cv="prefit")
    with refuses("LinearSVC has no predict_proba"):
        explain(estimator=LinearSVC(), y=(Y > 0).astype(float))
    three = LogisticRegression().fit(X, np.arange(60) % 3)
    with refuses("has 3 classes, but the scores explain the probability of one"):
        explain(estimator=three, y=(Y > 0).astype(float), cv="prefit")


def test_learner_that_cannot_take_weights():
    with refuses("KNeighborsRegressor.fit takes no sample_weight"):
        explain(estimator=KNeighborsRegressor(), sample_weight=np.ones(60))
    with refuses("KNeighborsRegressor.fit takes no sample_weight"):
        explain(
            estimator=make_pipeline(StandardScaler(), KNeighborsRegressor()),
            sample_weight=np.ones(60),
        )


def test_learner_that_fails_says_which_and_why():
    with refuses("RandomForestRegressor could not be fitted on 15 rows .*max_features"):
        explain(estimator=RandomForestRegressor(max_features="all"))


def test_columns_of_the_wrong_name_under_prefit():
    model = LinearRegression().fit(X, Y)
    with refuses(r"missing \['a'\]; not known to the model \['age'\]"):
        explain(X.rename(columns={"a": "age"}), estimator=model, cv="prefit")
    with refuses(r"not known to the model \['d'\]"):
        explain(X.assign(d=Y), estimator=model, cv="prefit")
    with refuses(r"in another order: pass X\[\['a', 'b', 'c'\]\]"):
        explain(X[["b", "a", "c"]], estimator=model, cv="prefit")


def test_number_of_columns_under_prefit():
    model = LinearRegression().fit(X.to_numpy(), Y)
    with refuses("was fitted on 3 columns, but X has 2"):
        explain(X.to_numpy()[:, :2], estimator=model, cv="prefit")


def words(levels, n=60):
    return pd.Series(np.resize(np.array(levels, dtype=object), n))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_unseen_categories_under_prefit(library):
    table = X.assign(w=words(["u", "v"]))
    encoder = make_column_transformer((OneHotEncoder(), ["w"]), remainder="passthrough")
    model = make_pipeline(encoder, Ridge()).fit(table, Y)
    unseen = X.assign(w=words(["u", "v", "zz"]))
    given = pl.from_pandas(unseen) if library == "polars" else unseen
    with refuses(r"column 'w' has 'zz', which its OneHotEncoder has never seen \(it knows 'u', 'v"):
        explain(given, estimator=model, cv="prefit")
    tolerant = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["w"]), remainder="passthrough"
    )
    model = make_pipeline(tolerant, Ridge()).fit(table, Y)
    assert np.isfinite(explain(given, estimator=model, cv="prefit").scores).all()


def test_level_that_some_training_rows_lack():
    table = X.assign(w=words(["u", "v"]))
    table.loc[5, "w"] = "rare"
    encoder = make_column_transformer((OneHotEncoder(), ["w"]), remainder="passthrough")
    with refuses("column 'w' has 'rare', which its OneHotEncoder has never seen"):
        explain(table, estimator=make_pipeline(encoder, Ridge()))


def test_regression_that_explains_nothing_is_warned_of():
    noise = np.random.default_rng(1).standard_normal(60)
    with pytest.warns(WeakModelWarning, match=r"explains nothing on held-out rows \(R2 = -"):
        explain(y=noise)


def test_good_input_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        explain()
        explain(X.to_numpy()[:, :1])


# --- numbers beyond double precision -----------------------------------------------------------


@pytest.mark.parametrize("factor", [1e-200, 1e200])
def test_columns_and_outcomes_whose_squares_are_no_numbers(factor):
    with refuses(r"column 'b' spans .*e[+-]\d+.* give it other units"):
        explain(X.assign(b=factor * X["b"]))
    with refuses(r"y spans .*e[+-]\d+.* give it other units"):
        explain(y=factor * Y)
    with refuses(r"y spans .*e[+-]\d+.* give it other units"):
        dfi.compare(X, factor * Y, "loco", estimator="linear")


@pytest.mark.parametrize("factor", [1e-44, 1e44])
def test_any_other_units_do(factor):
    plain = explain()
    table = explain(X.assign(b=factor**3 * X["b"]))
    outcome = explain(y=factor * Y)
    np.testing.assert_allclose(table.scores, plain.scores, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(outcome.scores, factor**2 * plain.scores, rtol=1e-6)
    np.testing.assert_allclose(outcome.se, factor**2 * plain.se, rtol=1e-6)
    np.testing.assert_allclose(outcome.table().p, plain.table().p, rtol=1e-6)


# --- what a fitted model cannot be asked -------------------------------------------------------


def test_repeats_of_no_split():
    model = LinearRegression().fit(X, Y)
    with refuses("n_repeats=3 repeats the split of the rows, but cv='prefit' splits none"):
        explain(estimator=model, cv="prefit", n_repeats=3)


def test_classes_that_are_not_0_and_1_are_named():
    y = (Y > 0).astype(float)
    model = LogisticRegression().fit(X, np.where(y > 0, "died", "lived"))
    with pytest.warns(OutcomeWarning, match="of 'lived' is explained, so y must be 1 for 'lived'"):
        result = explain(X, 1 - y, estimator=model, cv="prefit")
    assert result.quality.r2 > 0
    for classes in (y, y.astype(int), y > 0):
        explain(X, y, estimator=LogisticRegression().fit(X, classes), cv="prefit")


def test_no_workers():
    with refuses("n_jobs must be a whole number of 1 or more, or -1 for all processors, got 0"):
        explain(n_jobs=0)
