"""Bad outcomes, losses and classifiers through the front door: one sentence each, to act on."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import special
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LinearRegression, LogisticRegression

import dfi
from dfi.warnings import OutcomeWarning

GENERATOR = np.random.default_rng(0)
X = pd.DataFrame(GENERATOR.standard_normal((60, 3)), columns=["a", "b", "c"])
CHANCE = special.expit(2 * X["a"].to_numpy())
BINARY = (GENERATOR.random(60) < CHANCE).astype(int)
LABELS = np.where(BINARY == 1, "Yes", "No")
SPECIES = np.array(["Adelie", "Chinstrap", "Gentoo"])[np.arange(60) % 3]
QUANTITY = X["a"].to_numpy() + GENERATOR.standard_normal(60)
COUNTS = GENERATOR.poisson(np.exp(0.5 * X["a"].to_numpy()))


def explain(table=X, y=LABELS, **options):
    options = {"estimator": LogisticRegression(), "cv": 2, "diagnose": False, **options}
    return dfi.explain(table, y, **options)


def refuses(message, error=ValueError):
    return pytest.raises(error, match=message)


# --- classes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("y", [["Yes"] * 60, [True] * 60, np.ones(60)], ids=["text", "bool", "1"])
def test_one_class_only(y):
    with refuses("one class only|y is constant .*nothing to explain"):
        explain(y=y)


def test_a_class_with_fewer_members_than_folds():
    rare = LABELS.astype(object)
    rare[:3] = "Perhaps"
    with refuses("class 'Perhaps' of y has 3 rows, fewer than the 5 folds: use cv=3 or less"):
        explain(y=rare, cv=5)
    rare[3] = "Never"
    with refuses(
        r"2 classes of y have fewer rows than the 5 folds: 'Never' \(1\), 'Perhaps' \(3\)"
    ):
        explain(y=rare, cv=5)


@pytest.mark.parametrize("gap", [None, np.nan])
def test_labels_with_missing_values(gap):
    y = LABELS.astype(object)
    y[[7, 9]] = gap
    with refuses("y has 2 missing labels, the first in row 7. Drop those rows"):
        explain(y=y)


def test_missing_values_of_a_category():
    y = pd.Series(LABELS, dtype="category")
    y[11] = None
    with refuses("y has 1 missing labels, the first in row 11"):
        explain(y=y)


def test_unknown_positive_label():
    with refuses("pos_label='Yess' is not a class of y, which has 'No', 'Yes'; did you mean 'Yes'"):
        explain(pos_label="Yess")
    with refuses("pos_label=7 is not a class of y"):
        explain(y=SPECIES, pos_label=7)


def test_positive_of_a_quantity():
    with refuses("pos_label='Yes' names the class that is explained, but y is a quantity"):
        explain(y=QUANTITY, estimator=LinearRegression(), pos_label="Yes")


def test_task_misspelt():
    with refuses(
        "task must be 'auto', 'classification', 'regression' or 'survival', got 'clasification'"
    ):
        explain(task="clasification")


def test_labels_are_no_quantity():
    with refuses(r"y holds classes or strings \('No', 'Yes'\) and task='regression'", TypeError):
        explain(task="regression")


@pytest.mark.filterwarnings("ignore::dfi.warnings.WeakModelWarning")
def test_integers_that_look_like_classes():
    with pytest.warns(OutcomeWarning, match="3 different values .*Pass task='classification' if"):
        explain(y=np.arange(60) % 3, estimator=LinearRegression())


# --- models of classes --------------------------------------------------------------------------


def test_a_regressor_for_labels():
    with refuses(r"LinearRegression is a regressor, but y holds classes \(No, Yes\): pass a class"):
        explain(estimator=LinearRegression())


class Skewed(ClassifierMixin, BaseEstimator):
    """Gives shares that do not add up."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.fitted_ = True
        return self

    def predict_proba(self, X):
        return np.full((len(X), len(self.classes_)), 0.4)

    def predict(self, X):
        return np.repeat(self.classes_[:1], len(X))


@pytest.mark.parametrize("y", [LABELS, SPECIES], ids=["two", "three"])
def test_probabilities_that_do_not_add_up(y):
    with refuses("Skewed gives probabilities that do not add up to 1 in"):
        explain(y=y, estimator=Skewed())
    with refuses("Skewed gives probabilities that do not add up to 1 in"):
        explain(y=y, estimator=Skewed().fit(X, y), cv="prefit")


def test_a_fitted_model_of_other_labels():
    model = LogisticRegression().fit(X, np.where(BINARY == 1, "died", "lived"))
    with refuses("LogisticRegression predicts 'died', 'lived', but y has the class 'Yes'"):
        explain(estimator=model, cv="prefit")


def test_a_fitted_model_that_lacks_a_class():
    model = LogisticRegression().fit(X[:40], np.where(BINARY[:40] == 1, "Adelie", "Gentoo"))
    with refuses("predicts 'Adelie', 'Gentoo', but y has the class 'Chinstrap'"):
        explain(y=SPECIES, estimator=model, cv="prefit")


def test_a_function_of_one_column_for_three_classes():
    with refuses("a column for each class|probabilities of shape"):
        explain(y=SPECIES, estimator=lambda rows: np.full(len(rows), 0.5), cv="prefit")


# --- losses -------------------------------------------------------------------------------------


def test_negative_counts():
    with refuses("loss='poisson' needs non-negative outcomes, but the smallest value of y is -1"):
        explain(y=COUNTS - 1, estimator="linear", loss="poisson", task="regression")


def test_zero_with_gamma():
    y = np.abs(QUANTITY)
    y[4] = 0.0
    with refuses("loss='gamma' needs positive outcomes, but the smallest value of y is 0"):
        explain(y=y, estimator="linear", loss="gamma")


@pytest.mark.parametrize("loss", ["brier", "log-loss", "zero-one"])
def test_losses_of_classes_for_a_quantity(loss):
    with refuses(f"loss='{loss}' is about classes, but y is a quantity: pass task='classif"):
        explain(y=QUANTITY, estimator=LinearRegression(), loss=loss)


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_losses_of_quantities_for_classes(loss):
    for task in ("auto", "classification"):
        with refuses(f"loss='{loss}' is for counts or positive quantities, but y holds classes"):
            explain(loss=loss, task=task)


def test_one_number_for_three_classes():
    with refuses("loss='absolute' is about one number, but y has 3 classes"):
        explain(y=SPECIES, loss="absolute")


def test_several_outcomes_have_squared_errors():
    two = np.column_stack([QUANTITY, QUANTITY**2])
    with refuses("several outcomes are explained by their summed squared error, not by loss="):
        explain(y=two, estimator=LinearRegression(), loss="poisson")
    with refuses("y has 2 columns, but several outcomes are explained as quantities"):
        explain(y=two, task="classification")


def test_unknown_loss():
    with refuses("unknown loss 'logloss'; did you mean 'log-loss'"):
        explain(loss="logloss")


@pytest.mark.parametrize("form", ["cpi", "calibrated"])
def test_forms_of_squared_errors(form):
    with refuses(f"form='{form}' works with squared errors only, but loss='log-loss' is not one"):
        explain(form=form, loss="log-loss")


@pytest.mark.parametrize("form", ["cross", "extrapolated", "cpi"])
def test_forms_of_two_models_without_a_generator(form):
    with refuses("loss='zero-one' has no generator, so two models cannot be scored together"):
        explain(form=form, loss="zero-one")


def test_transports_of_products_of_errors():
    with refuses("transport='entropic' multiplies errors, which loss='log-loss'"):
        explain(transport="entropic", loss="log-loss")


def test_shapley_values_of_groups_are_of_a_variance():
    groups = {"first": ["a", "b"], "last": ["c"]}
    result = explain(loss="log-loss", feature_groups=groups)
    with refuses("Shapley values of groups divide a variance, but loss='log-loss' is none"):
        result.group(how="shapley")


def test_predictions_below_zero_under_poisson():
    y = np.round(np.exp(1.5 * X["a"].to_numpy())).astype(int)
    with refuses("the model predicted -.*loss='poisson' needs positive numbers: choose a"):
        explain(y=y, estimator=LinearRegression(), loss="poisson", task="regression")


def test_predictions_beyond_one_under_log_loss():
    with refuses("predicted 1.4.*loss='log-loss' needs probabilities"):
        explain(y=BINARY, estimator=lambda rows: 1.5 + 0 * np.asarray(rows)[:, 0],
                cv="prefit", loss="log-loss")  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"cv": "prefit", "loss": "log-loss"},
        {"y": SPECIES, "cv": "prefit"},
        {"y": QUANTITY, "estimator": LinearRegression(), "cv": "prefit"},
    ],
    ids=["fitted here", "log-loss", "three classes", "regressor"],
)
def test_the_margin_where_there_is_none(options):
    given = {"y": LABELS, "estimator": LogisticRegression(), **options}
    if given.get("cv") == "prefit":
        given["estimator"] = given["estimator"].fit(X, given["y"])
    with refuses("scale='margin' (describes a fitted classifier|explains the log-odds)"):
        explain(scale="margin", **given)


def test_an_unknown_scale():
    with refuses("scale must be 'response' or 'margin', got 'logit'"):
        explain(scale="logit")


# --- the outcome by name ------------------------------------------------------------------------


def test_no_such_column():
    with refuses("y='specis' names the outcome's column, but X has no such column.*'species'"):
        explain(X.assign(species=SPECIES), "specis")


def test_a_name_and_an_array():
    with refuses("y='species' names a column of X, but X is a ndarray without names", TypeError):
        explain(X.to_numpy(), "species")


@pytest.mark.parametrize("fitted", [False, True])
def test_classifier_makes_few_whole_numbers_classes(fitted):
    y = np.digitize(QUANTITY, np.quantile(QUANTITY, [0.3, 0.7]))
    model = LogisticRegression()
    cv = "prefit" if fitted else 2
    with warnings.catch_warnings():
        warnings.simplefilter("error", OutcomeWarning)
        found = dfi.explain(X, y, model.fit(X, y) if fitted else model, cv=cv, diagnose=False)
    told = dfi.explain(X, y, model, cv=cv, task="classification", diagnose=False)
    np.testing.assert_array_equal(found.scores, told.scores)
