"""Odd inputs: each gives the right answer or one clear sentence, never another number."""

from __future__ import annotations

import decimal
import fractions
import sys
import types

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dfi
from dfi._data.everyday import read_everyday
from dfi._data.text import find_dates, find_numbers, is_date, spelling
from dfi.warnings import IdentifierWarning, LeakWarning, RefitWarning

N = 60
RNG = np.random.default_rng(0)
A = RNG.standard_normal((N, 3))
A[:, 1] = 0.7 * A[:, 0] + 0.7 * A[:, 1]
Y = 2 * A[:, 0] + A[:, 2] + 0.5 * RNG.standard_normal(N)
X, y = pd.DataFrame(A, columns=list("abc")), pd.Series(Y, name="y")
W = pd.Series(RNG.uniform(0.5, 2.0, N), name="w")
G = pd.Series(np.repeat(np.arange(15), 4), name="g")
ORDER = RNG.permutation(N)
TEXT = [f"{value:.3f}" for value in A[:, 2]]
FITTED = LinearRegression().fit(A, Y)
BIG = 2**60 + ORDER
TWO = (np.median(Y) < Y).astype(int)


def explain(X=X, y=y, **options):
    return dfi.explain(X, y, **{"estimator": "linear", "cv": 2, "diagnose": False, **options})


def fitted(model, X=X, y=y):
    return dfi.explain(X, y, model, cv="prefit", diagnose=False)


def predict(rows):
    return FITTED.predict(np.asarray(rows, dtype=float))


def with_column(values, name="c"):
    return X.assign(**{name: values})


def with_text(value):
    return with_column([value, *TEXT[1:]])


def relabelled(vector):
    return vector.iloc[ORDER]


def multi(places):
    return pd.MultiIndex.from_arrays([places // 10, places % 10])


def objects(values):
    return pd.Series(values, dtype=object)


ANOTHER_ORDER = "{0} has the row labels of {1} in another order, .* pass {0}.loc\\[{1}.index\\]"
OF_X = [
    ("y", lambda: explain(y=relabelled(y))),
    ("y", lambda: explain(y=relabelled(y).to_frame())),
    ("y", lambda: explain(y=y.iloc[[1, 0, *range(2, N)]])),
    ("y", lambda: explain(X.set_axis(multi(np.arange(N))), y.set_axis(multi(ORDER)))),
    ("y", lambda: explain(X.set_axis(np.arange(N) // 2), y.set_axis(np.arange(N) % 30))),
    ("sample_weight", lambda: explain(sample_weight=relabelled(W))),
    ("frequency_weight", lambda: explain(frequency_weight=relabelled(G + 1))),
    ("clusters", lambda: explain(clusters=relabelled(G))),
    ("treatment", lambda: dfi.effects(X, y, relabelled(G % 2 == 0), "linear", cv=2)),
    ("sample_weight", lambda: dfi.DFI(estimator="linear").fit(X, y, relabelled(W))),
    ("clusters", lambda: dfi.compare(X, y, "loco", clusters=relabelled(G))),
]


@pytest.mark.parametrize(("name", "call"), OF_X)
def test_row_labels_in_another_order(name, call):
    with pytest.raises(ValueError, match=ANOTHER_ORDER.format(name, "X")):
        call()


def test_row_labels_of_vectors_beside_an_array():
    with pytest.raises(ValueError, match=ANOTHER_ORDER.format("sample_weight", "y")):
        explain(A, relabelled(y), sample_weight=W)


def test_other_row_labels_are_matched_by_position():
    expected = explain().scores
    for vector in (y.set_axis(range(1000, 1000 + N)), y.set_axis([f"r{i}" for i in range(N)])):
        np.testing.assert_array_equal(explain(y=vector).scores, expected)


def test_dates_as_text_are_no_classes():
    days = [f"2024-01-{1 + row % 28:02d}" for row in range(N)]
    ambiguous = [f"{1 + row % 12}/{1 + row % 11}/2024" for row in range(N)]
    with pytest.raises(
        TypeError,
        match=r"Column 'd' holds dates as text, such as '1/1/2024', where the day or the month may",
    ):
        explain(with_column(ambiguous, "d"))
    with pytest.raises(TypeError, match=r"pd\.to_datetime\(X\['d'\], dayfirst=True, utc=True\)"):
        explain(with_column(ambiguous, "d"))
    several = [f"14.12.{2000 + row}" if row % 2 else f"{2000 + row}-12-14" for row in range(N)]
    with pytest.raises(TypeError, match=r"different formats, .*: write all of them like"):
        explain(with_column(several, "d"))
    with pytest.raises(TypeError, match=r"59 of its 60 values are dates and '2024-02-30' is not"):
        explain(with_column(["2024-02-30", *days[1:]], "d"))
    declared = with_column(pd.Categorical([f"{1 + row % 3}.1.2024" for row in range(N)]), "d")
    assert explain(declared).names[-1] == "d"
    for text in ("31.12.2024", "3/4/2024", "2024-01-31T10:00:00Z", "2024/1/5 3:04"):
        assert is_date(text)
    for text in ("1.2.10", "12-34-5678", "99.99.2024", "2024-13-01", "2024-01", "31/2/2024"):
        assert not is_date(text)
    assert find_dates(["2024-01-01", "2024-01-02"] * 9) is None


SPELT = {
    "17 %": "a per-cent sign", "$17": "a currency sign", "17€": "a currency sign",
    "-$17": "a currency sign", "1,5": "a decimal comma", "1.234,5": "a decimal comma",
    "0,640": "a decimal comma", "17,000": "a separator of thousands",
    "1\u00a0000": "a separator of thousands", "1_000": "a separator of thousands",
    "0x11": "a hexadecimal number", "\u22121.5": "a minus sign that is not a hyphen",
    "1.5D+02": "an exponent after D", "(17)": "brackets",
    " 7 ": "", "1e5": "", "+3": "", ".5": "", "5.": "", "-0": "",
}  # fmt: skip


@pytest.mark.parametrize("text", SPELT)
def test_ways_to_write_a_number(text):
    assert spelling(text) == SPELT[text]


@pytest.mark.parametrize("text", ["", "x", "1-2", "2020-01-31", "1.2.3", "12 apples", "--", "e5"])
def test_what_is_no_number(text):
    assert spelling(text) is None


@pytest.mark.parametrize("value", ["x", "inf", "#DIV/0!"])
def test_one_value_that_is_no_number(value):
    message = (
        f"^Column 'c' is text, but 59 of its 60 values are numbers and {value!r} is not: make it "
        "numbers, e.g. pandas.to_numeric"
    )
    with pytest.raises(TypeError, match=message.replace("?", r"\?").replace(".", r"\.")):
        explain(with_text(value))


@pytest.mark.parametrize("value", [text for text, how in SPELT.items() if how])
def test_numbers_written_otherwise_are_read_or_named(value):
    read = ("a currency sign", "a separator of thousands", "a decimal comma", "brackets",
            "a minus sign that is not a hyphen")  # fmt: skip
    if SPELT[value] in read and value != "1_000":
        assert read_everyday(with_text(value), "drop")[1].spec() == {"numbers": ["c"]}
        return
    with pytest.raises(TypeError, match=f"numbers as text with {SPELT[value]} .*make it numbers"):
        explain(with_text(value))


TABLES = {
    "array": lambda: np.array([[row, text] for row, text in zip(A[:, 0], TEXT, strict=True)]),
    "lazy": lambda: pl.DataFrame({"a": A[:, 0], "c": TEXT, "y": Y}).lazy(),
}


@pytest.mark.parametrize("table", TABLES)
def test_a_column_of_numbers_as_text(table):
    given = TABLES[table]()
    with pytest.raises(TypeError, match=r"holds numbers as text: make it numbers, .*category"):
        explain(given, "y" if table == "lazy" else Y)


def test_text_that_is_no_number_and_declared_classes_stay_categories():
    digits = [str(row % 3) for row in range(N)]
    declared = explain(with_column(pd.Categorical(digits)))
    words = explain(with_column([f"k{digit}" for digit in digits]))
    np.testing.assert_array_equal(declared.scores, words.scores)
    assert find_numbers(["a", "b", "1"]) is None
    assert find_numbers(["0", "1"]) is None


def test_an_outcome_of_numbers_as_text():
    texts = [f"{value:.2f}" for value in Y]
    with pytest.raises(TypeError, match=r"^y holds numbers as text: .* task='classification'"):
        explain(y=texts)
    with pytest.raises(TypeError, match=r"^y is text, but .* are numbers and '\?' is not"):
        explain(y=["?", *texts[1:]])
    assert explain(y=TWO.astype(str)).spec["outcome"]["kind"] == "binary"


NUMBERED = {
    "years": with_column(np.arange(1950, 1950 + N), "k"),
    "of an array": np.column_stack([A, np.arange(N)]),
}


@pytest.mark.parametrize("table", NUMBERED)
def test_whole_numbers_that_name_the_rows_are_hinted_at(table):
    with pytest.warns(IdentifierWarning, match="looks like an identifier or a count of the rows"):
        explain(NUMBERED[table], Y)


def test_whole_numbers_that_are_quantities_are_not():
    explain(with_column(RNG.choice(10**5, N, replace=False), "income"))
    explain(with_column(ORDER % 7, "row"))


class Stateful:
    def __init__(self):
        self.calls = 0

    def predict(self, rows):
        self.calls += 1
        return predict(rows) + self.calls


class NoisyLearner(LinearRegression):
    def predict(self, rows):
        return super().predict(rows) + np.random.default_rng().standard_normal(len(rows))


class NoisyForest(RandomForestRegressor):
    def predict(self, rows):
        return super().predict(rows) + RNG.standard_normal(len(rows))


REPLACED = RandomForestRegressor(5, random_state=0).fit(A, Y)
REPLACED.predict = lambda rows: predict(rows) + RNG.standard_normal(len(rows))

UNSTEADY = {
    "a noisy forest": NoisyForest(5, random_state=0).fit(A, Y),
    "a forest with another predict": REPLACED,
    "random": lambda rows: predict(rows) + RNG.standard_normal(len(rows)),
    "a little random": lambda rows: predict(rows) + 0.05 * RNG.standard_normal(len(rows)),
    "standardised": lambda rows: predict(rows) / predict(rows).std(),
    "ranked": lambda rows: np.argsort(np.argsort(predict(rows))),
    "sorted": lambda rows: np.sort(predict(rows)),
    "reversed": lambda rows: predict(rows)[::-1],
    "of the first row": lambda rows: np.full(len(rows), predict(rows)[0]),
    "stateful": Stateful(),
    "of batches of 50 rows": lambda rows: predict(rows) * (2 if len(rows) > 50 else 1),
    "of batches of 500 rows": lambda rows: predict(rows) * (2 if len(rows) > 500 else 1),
}


@pytest.mark.parametrize("model", UNSTEADY)
def test_predictions_that_are_no_function_of_the_row(model):
    with pytest.raises(ValueError, match=r"depends on the other rows: row .* dropout"):
        fitted(UNSTEADY[model])


class LargeBatches(KNeighborsRegressor):
    def predict(self, rows):
        return super().predict(rows) + (len(rows) > 500)


@pytest.mark.parametrize("learner", [NoisyLearner, LargeBatches])
def test_learners_whose_predictions_are_no_function_of_the_row(learner):
    with pytest.raises(ValueError, match=f"{learner.__name__}: the prediction of a row depends"):
        explain(estimator=learner())


HONEST = {
    "rounding": lambda rows: predict(rows) * (1 + 1e-7 * RNG.standard_normal(len(rows))),
    "single precision": lambda rows: predict(rows).astype(np.float32),
    "far from 0": lambda rows: (predict(rows) + 1e6).astype(np.float32).astype(float) - 1e6,
    "a list": lambda rows: predict(rows).tolist(),
    "a frame": lambda rows: pd.DataFrame({"p": predict(rows)}),
    "an array with an empty mask": lambda rows: np.ma.array(predict(rows), mask=False),
}


@pytest.mark.parametrize("model", HONEST)
def test_honest_models_pass(model):
    found = fitted(HONEST[model]).scores
    np.testing.assert_allclose(found, fitted(predict).scores, rtol=0.01, atol=0.02)


ANSWERS = [
    (lambda rows: np.ma.masked_greater(predict(rows), 1), "returned a masked array in which"),
    (lambda rows: predict(rows) + 0j, "must predict real numbers, got complex ones"),
    (lambda rows: pd.Series(predict(rows)).sample(frac=1, random_state=0), "row|another order"),
    (lambda rows: 1.0, r"predictions of shape \(\) for 60 rows"),
    (lambda rows: (value for value in predict(rows)), "must predict numbers, got generator"),
    (lambda rows: 1 / 0, "could not predict 60 rows.*ZeroDivisionError.*it gets a DataFrame with"),
    (lambda rows: None, "returned None: one number per row is needed"),
]


@pytest.mark.parametrize(("model", "message"), ANSWERS)
def test_answers_that_are_no_predictions(model, message):
    with pytest.raises((ValueError, TypeError), match=message):
        fitted(model)


class KerasLike:
    """With ``fit`` and ``predict`` that prints, and nothing of scikit-learn."""

    def fit(self, *_):
        return self

    def predict(self, rows, batch_size=None, verbose="auto"):
        if verbose != 0:
            print("1/1 ====")  # noqa: T201
        return predict(rows).astype(np.float32)[:, None]


class Probabilities:
    classes_ = np.array([0, 1])

    def predict_proba(self, rows):
        share = 1 / (1 + np.exp(-predict(rows)))
        return np.column_stack([1 - share, share])


class Port:
    def __init__(self, name, kind="tensor(float)"):
        self.name, self.type = name, kind


class Session:
    """What an ``onnxruntime.InferenceSession`` can do."""

    def __init__(self, inputs, answer):
        self.inputs, self.answer = inputs, answer

    def get_inputs(self):
        return [Port(name) for name in self.inputs]

    def get_outputs(self):
        return [Port("out")]

    def run(self, _names, given):
        rows = np.column_stack([given[name] for name in self.inputs])
        assert rows.dtype == np.float32
        return self.answer(rows)


def test_models_like_those_of_keras(capsys):
    found = fitted(KerasLike())
    np.testing.assert_allclose(found.scores, fitted(predict).scores, rtol=1e-4)
    assert capsys.readouterr().out == ""


def test_classifiers_with_probabilities_alone():
    function = fitted(lambda rows: Probabilities().predict_proba(rows)[:, 1], y=TWO)
    np.testing.assert_allclose(fitted(Probabilities(), y=TWO).scores, function.scores, rtol=1e-6)
    with pytest.raises(ValueError, match="is a classifier, but y is a quantity"):
        fitted(Probabilities())


@pytest.mark.parametrize("inputs", [["rows"], ["a", "b", "c"]])
def test_sessions_of_onnx(inputs):
    session = Session(inputs, lambda rows: [predict(rows).astype(np.float32)[:, None]])
    np.testing.assert_allclose(fitted(session).scores, fitted(predict).scores, rtol=1e-4)


def test_sessions_of_onnx_that_classify():
    def answer(rows):
        shares = Probabilities().predict_proba(rows)
        return [np.array(["no"] * len(rows)), [dict(enumerate(row)) for row in shares.tolist()]]

    species = np.where(TWO, "yes", "no")
    found = fitted(Session(["rows"], answer), y=species).scores
    expected = fitted(lambda rows: Probabilities().predict_proba(rows), y=species).scores
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.fixture
def module(monkeypatch):
    """A module of PyTorch with dropout, made of what is asked of one."""

    class Tensor:
        def __init__(self, values):
            self.values = values

        def detach(self):
            return self

        cpu = detach

        def to(self, _dtype):
            return self

        def numpy(self):
            return self.values

    class NoGrad:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

    torch = types.SimpleNamespace(
        as_tensor=lambda values, **_: Tensor(np.asarray(values)), no_grad=NoGrad, float64=float
    )
    monkeypatch.setitem(sys.modules, "torch", torch)

    class Module:
        __module__ = "torch.nn.modules.module"
        training = True

        def parameters(self):
            return iter(())

        def train(self, mode):
            self.training = mode

        def eval(self):
            self.training = False

        def __call__(self, rows):
            noise = RNG.standard_normal(len(rows.values)) if self.training else 0.0
            return Tensor((predict(rows.values) + noise)[:, None])

    return Module()


def test_modules_of_torch_are_evaluated_and_left_as_they_were(module):
    np.testing.assert_allclose(fitted(module).scores, fitted(predict).scores, rtol=1e-4)
    assert module.training


def test_boosters_are_explained_by_their_trees():
    xgboost = pytest.importorskip("xgboost")
    lightgbm = pytest.importorskip("lightgbm")
    options = {"max_depth": 3, "verbosity": 0, "seed": 0, "nthread": 1}
    booster = xgboost.train(options, xgboost.DMatrix(X, y), 8)
    found = fitted(booster)
    assert found.diagnostics["lines"] == fitted(_sklearn_of(xgboost, booster)).diagnostics["lines"]
    slow = fitted(lambda rows: booster.predict(xgboost.DMatrix(rows)))
    np.testing.assert_allclose(found.scores, slow.scores, rtol=0.05)
    table = with_column(pd.Categorical(np.where(A[:, 2] > 0, "u", np.where(ORDER % 2, "v", "w"))))
    options = {"verbosity": -1, "num_leaves": 4, "min_data_in_leaf": 5, "num_threads": 1}
    light = lightgbm.train(options, lightgbm.Dataset(table, y), 8)
    assert np.isfinite(fitted(light, table).scores).all()


def _sklearn_of(xgboost, booster):
    model = xgboost.XGBRegressor()
    model.load_model(bytearray(booster.save_raw("ubj")))
    return model


@pytest.mark.parametrize("model", [LinearRegression(), make_pipeline(StandardScaler(), Ridge())])
def test_a_fitted_model_without_prefit_is_hinted_at(model):
    model = clone(model).fit(X, y)
    with pytest.warns(RefitWarning, match=r"is already fitted.*pass cv='prefit'.*clone"):
        found = explain(estimator=model)
    np.testing.assert_array_equal(found.scores, explain(estimator=clone(model)).scores)


def test_groups_of_another_order_of_columns_go_by_name():
    groups = explain(feature_groups={"g": ["a", "b"]}).default_groups
    expected = explain(feature_groups={"g": ["a", "b"]}).group().scores
    found = explain(X[["c", "b", "a"]], feature_groups=groups).group().scores
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    with pytest.raises(ValueError, match="Group 'g' names 'a', which is not a feature"):
        explain(X.rename(columns={"a": "z"}), feature_groups=groups)
    with pytest.raises(ValueError, match="labels of rows are clusters"):
        explain(feature_groups=G)


@pytest.mark.parametrize("factor", [1e300, 8e307, 1e-300, 1e-310])
def test_weights_near_the_ends_of_double_precision(factor):
    expected = explain(sample_weight=W)
    found = explain(sample_weight=W * factor)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-6)
    np.testing.assert_allclose(found.se, expected.se, rtol=1e-6)


REFUSED = {
    "weights of all sizes": (
        lambda: explain(sample_weight=np.where(ORDER < 30, 1e-200, 1.0)),
        "sample_weight goes from 1e-200 to 1: ",
    ),
    "counts beyond counting": (
        lambda: explain(frequency_weight=np.full(N, 1e300)),
        "frequency_weight adds up to 6e.301 rows",
    ),
    "weights of text": (
        lambda: explain(with_column(["u"] * N, "w"), sample_weight="w"),
        r"sample_weight \(column 'w'\) holds strings or classes, such as 'u'",
    ),
    "sparse weights": (
        lambda: explain(sample_weight=sparse.csr_matrix(W.to_numpy()[:, None])),
        "sample_weight is a sparse matrix; pass sample_weight.toarray",
    ),
    "one column for two": (
        lambda: explain(X.assign(y=Y), "y", sample_weight="y"),
        "y and sample_weight both name the column 'y'",
    ),
    "large integers": (lambda: explain(with_column(BIG, "k")), "Column 'k' has .* beyond 2..53"),
    "unsigned": (lambda: explain(with_column(BIG.astype("uint64"), "k")), "Column 'k' .* 2..53"),
    "an array of them": (lambda: explain(np.c_[BIG, BIG], Y), "Column 'x0' has whole numbers"),
    "polars": (lambda: explain(pl.DataFrame({"k": BIG, "a": Y}), Y), "Column 'k' has whole"),
    "python": (lambda: explain(with_column(objects([2**70 + int(i) for i in ORDER]))), "'c' has"),
    "large outcomes": (lambda: explain(y=BIG), "^y has whole numbers beyond 2..53"),
    "beyond all numbers": (lambda: explain(with_column(objects([10**400] * N))), "in row 0 that"),
    "outcomes beyond": (lambda: explain(y=[10**400, *range(N - 1)]), "y has a number in row 0"),
    "labels of two columns": (lambda: explain(clusters=np.c_[G, G]), "clusters has 2 columns"),
    "missing labels": (lambda: explain(clusters=G.where(G > 0)), "clusters has a missing label"),
    "few labels": (lambda: explain(clusters=G[:9]), "X has 60 rows and clusters has 9 values"),
    "records": (lambda: explain(X.to_records(index=False), Y), "X is a structured array: pass"),
    "sparse outcomes": (lambda: explain(y=sparse.csr_matrix(Y[:, None])), "y is a sparse matrix"),
    "four rows": (lambda: explain(A[:4], Y[:4]), "X has 4 rows, too few for two models"),
    "six rows": (lambda: dfi.explain(A[:6], Y[:6]), "X has 6 rows, too few for 5 folds"),
    "a class of losses": (lambda: explain(loss=dict), "loss is the class dict: pass a name"),
    "text among epsilons": (
        lambda: dfi.sensitivity(X, y, epsilons=["0.5"], estimator="linear"),
        "epsilons must be numbers of at least 0, got '0.5'",
    ),
    "a list of dicts": (lambda: explain(X.to_dict("records"), Y), "X is a list of dicts: pass a"),
    "no weight for a class": (
        lambda: explain(y=TWO, sample_weight=TWO),
        "y is constant among the 30 rows of positive weight",
    ),
    "weights of three rows": (
        lambda: explain(sample_weight=np.arange(N) < 3),
        "X has 3 rows of positive weight, too few for 2 folds",
    ),
    "weights of other folds": (
        lambda: explain(sample_weight=np.arange(N) < 30, cv=[(np.arange(30, N), np.arange(30))]),
        "the weights of all 15 rows that a model would be fitted on are 0",
    ),
    "a class of one row": (
        lambda: explain(y=np.arange(N) == 0),
        "class 'True' of y has 1 row, fewer than the 2 folds: leave its rows out",
    ),
    "a loss of all rows": (
        lambda: explain(loss=lambda y, p: ((y - p) ** 2).mean(), form="loco"),
        r"the loss '<lambda>' returned shape \(\) for .* not a mean over rows",
    ),
    "a loss of one argument": (
        lambda: explain(loss=lambda p: p, form="loco"),
        "the loss '<lambda>' failed .*TypeError.*: it must take both",
    ),
    "a loss without a number": (
        lambda: explain(loss=lambda y, p: np.where(p > y, np.nan, p), form="loco"),
        "the loss '<lambda>' gives nan for the outcome .* and the prediction",
    ),
    "a picture in place of axes": (lambda: explain().plot(ax=3), "ax must be Axes of matplotlib"),
    "no name of a file": (lambda: explain().save("a\0b"), "'a.x00b' contains a NUL character"),
    "a page as a document": (lambda: explain().report("r.pdf"), "cannot be written as PDF: name"),
    "rows of another result": (
        lambda: explain(X[["a", "b"]]).report(rows=explain().local([0])).html(),
        "these belong to another result",
    ),
    "numbers that become classes": (
        lambda: dfi.change(
            (with_column(TWO, "k"), y),
            (with_column(list("uvw") * 20, "k"), y),
            estimator="linear",
            cv=2,
            diagnose=False,
        ),
        "column 'k' is integer before and categorical after: its two scores mean different",
    ),
    "a number as a file": (lambda: dfi.load(3), "path must be the path of a file, got 3"),
    "a number less a result": (lambda: explain().minus(3), "other must be a dfi.Importance, got 3"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_one_sentence(name):
    call, message = REFUSED[name]
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def chance(rows):
    return 1 / (1 + np.exp(-predict(rows)))


def chances(rows):
    return np.column_stack([1 - chance(rows), chance(rows)])


WORDS = np.where(TWO == 1, "yes", "no")


@pytest.mark.parametrize(
    ("outcome", "model", "positive"),
    [
        (TWO, chances, None), (TWO, chances, 0), (TWO == 1, chances, False),
        (WORDS, chances, None), (WORDS, chances, "yes"), (WORDS, chances, "no"),
    ],
)  # fmt: skip
def test_functions_predict_the_class_that_is_explained(outcome, model, positive):
    """Of two classes either has the same scores, where its own probability is explained."""
    options = {"cv": "prefit", "diagnose": False}
    expected = dfi.explain(A, TWO, chance, **options).scores
    found = dfi.explain(A, outcome, model, pos_label=positive, **options)
    np.testing.assert_allclose(found.scores, expected, rtol=1e-9)


def test_fitted_classifiers_predict_the_class_that_is_explained():
    model, options = LogisticRegression().fit(A, TWO), {"cv": "prefit", "diagnose": False}
    for loss, scale in (("auto", "response"), ("log-loss", "response"), ("auto", "margin")):
        settings = {"loss": loss, "scale": scale, **options}
        first, second = (dfi.explain(A, TWO, model, pos_label=k, **settings) for k in (1, 0))
        np.testing.assert_allclose(second.scores, first.scores, rtol=1e-9)
    three = np.digitize(Y, [-1.0, 1.0])
    one = dfi.explain(
        A, np.array(list("xyz"))[three],
        lambda rows: np.column_stack([1 - chance(rows), 0.5 * chance(rows), 0.5 * chance(rows)]),
        pos_label="x", **options,
    )  # fmt: skip
    same = dfi.explain(A, three == 0, lambda rows: 1 - chance(rows), **options)
    np.testing.assert_allclose(one.scores, same.scores, rtol=1e-9)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda rows: WORDS[: len(rows)], "must predict numbers, got ndarray of .*, and of class"),
        (lambda rows: 100 * chance(rows), "neither its log-odds nor a percentage"),
        (
            lambda rows: np.c_[chances(rows), chance(rows)],
            "an array of shape .1, 3. for one row, but y",
        ),
    ],
)
def test_answers_that_are_no_probabilities(model, message):
    with pytest.raises((ValueError, TypeError), match=message):
        fitted(model, y=WORDS)


class Forgetful(LinearRegression):
    """An estimator whose ``fit`` does not return it."""

    def fit(self, X, y):
        super().fit(X, y)


def test_an_estimator_that_does_not_return_itself():
    found = explain(estimator=Forgetful())
    np.testing.assert_array_equal(found.scores, explain(estimator=LinearRegression()).scores)


def test_columns_that_hold_the_outcome_are_named():
    options = {"estimator": "linear", "cv": 2}
    for leak in (Y, 1.8 * Y + 32.0):
        with pytest.warns(LeakWarning, match="'z' holds the outcome itself, or determines it in"):
            result = dfi.explain(with_column(leak, "z"), y, **options)
    assert "'z' holds the outcome itself" in result.trust.reasons[0].what
    words = with_column(WORDS, "answer")
    with pytest.warns(LeakWarning, match="'answer' holds the outcome itself"):
        dfi.explain(words, WORDS, **options)


def test_numbers_of_other_kinds_are_what_they_are():
    np.testing.assert_array_equal(explain(clusters=2**60 + G).se, explain(clusters=G).se)
    for labels in (G.to_frame(), G.to_numpy()[:, None]):
        np.testing.assert_array_equal(explain(clusters=labels).se, explain(clusters=G).se)
    whole = with_column(ORDER % 7)
    expected = explain(whole).scores
    for cells in ([decimal.Decimal(int(i)) for i in ORDER % 7], list((ORDER % 7).tolist())):
        np.testing.assert_array_equal(explain(with_column(objects(cells))).scores, expected)
    sevenths = [fractions.Fraction(int(i), 7) for i in ORDER % 7]
    np.testing.assert_allclose(explain(with_column(objects(sevenths))).scores, expected, rtol=1e-6)
    missing = [decimal.Decimal("sNaN"), *(decimal.Decimal(int(i)) for i in ORDER[1:] % 7)]
    gap = pd.Series(np.where(np.arange(N) == 0, np.nan, ORDER % 7))
    np.testing.assert_array_equal(
        explain(with_column(objects(missing))).scores, explain(with_column(gap)).scores
    )


LEVELS = np.array(list("uvw"))[ORDER % 3]
UNUSED = {
    "two levels": (
        pd.Categorical(np.where(TWO, "u", "v"), ["u", "v", "z"]),
        pd.Categorical(np.where(TWO, "u", "v"), ["u", "v"]),
    ),
    "three levels": (pd.Categorical(LEVELS, list("quvzw")), pd.Categorical(LEVELS, list("uvw"))),
    "missing ones": (
        pd.Categorical(["u", None] * 30, ["u", "v"]),
        pd.Categorical(["u", None] * 30, ["u"]),
    ),
}


@pytest.mark.parametrize("name", UNUSED)
def test_levels_that_do_not_occur_change_no_bit(name):
    more, fewer = (explain(with_column(values)) for values in UNUSED[name])
    np.testing.assert_array_equal(more.scores, fewer.scores)
    np.testing.assert_array_equal(more.se, fewer.se)


def test_levels_that_do_not_occur_in_an_enum_change_no_bit():
    kind = pl.Enum(["u", "v", "q", "w"])
    one, other = (
        explain(pl.DataFrame({"a": A[:, 0], "c": pl.Series(LEVELS.tolist(), dtype=dtype)}), Y)
        for dtype in (kind, pl.String)
    )
    np.testing.assert_array_equal(one.se, other.se)


def test_boosting_that_counts_levels_counts_those_that_do_not_occur():
    """XGBoost goes by the numbers of levels in the dtype: its trees are read by them too."""
    xgboost = pytest.importorskip("xgboost")
    table = with_column(pd.Categorical(LEVELS, list("quvzw")))
    model = xgboost.XGBRegressor(
        n_estimators=5, enable_categorical=True, n_jobs=1, tree_method="hist"
    ).fit(table, y)
    found = fitted(model, table)
    slow = fitted(model.predict, table)
    np.testing.assert_allclose(found.scores, slow.scores, rtol=0.1, atol=0.02)


@pytest.mark.parametrize("model", [LinearRegression().fit(A, Y), KerasLike()])
def test_no_warning_of_numpy_where_all_are_errors(model):
    with np.errstate(all="raise"):
        assert np.isfinite(fitted(model, A, Y).scores).all()
        assert np.isfinite(explain(sample_weight=W * 1e300).se).all()
