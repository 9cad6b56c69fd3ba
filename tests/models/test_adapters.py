"""Fitted models of other libraries, and functions: which of their numbers is of which class."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

import dfi

N = 60
RNG = np.random.default_rng(0)
A = RNG.standard_normal((N, 3))
A[:, 1] = 0.7 * A[:, 0] + 0.7 * A[:, 1]
X = pd.DataFrame(A, columns=["a", "b", "c"])
Y = 2 * A[:, 0] + A[:, 2] + 0.5 * RNG.standard_normal(N)
TWO = (np.median(Y) < Y).astype(int)
SORTS = np.array(["a", "b", "c"])[np.digitize(Y, [-1.0, 1.0])]


def predict(rows):
    return np.asarray(rows, dtype=float) @ [2.0, 0.0, 1.0]


def fitted(model, y=Y, table=A, **options):
    return dfi.explain(table, y, model, cv="prefit", diagnose=False, **options)


class Session:
    """An ``onnxruntime.InferenceSession`` with some inputs, as far as it is asked."""

    class Port:
        def __init__(self, name):
            self.name, self.type = name, "tensor(float)"

    def __init__(self, inputs):
        self.inputs = inputs

    def get_inputs(self):
        return [self.Port(name) for name in self.inputs]

    def get_outputs(self):
        return [self.Port("out")]

    def run(self, _names, given):
        return [given[self.inputs[0]]]


def of_three(rows):
    """Give a column for each of three classes."""
    steep = 2.0 * predict(rows)
    shares = np.exp(np.column_stack([-steep, np.full(len(steep), 2.0), steep]))
    return shares / shares.sum(axis=1, keepdims=True)


class Sorts:
    """The same, as a classifier that says which column is of which class."""

    classes_ = np.array(["a", "b", "c"])

    def predict_proba(self, rows):
        return of_three(rows)


@pytest.mark.parametrize("positive", ["a", "b", "c"])
def test_functions_have_their_columns_in_the_order_of_the_classes(positive):
    found = fitted(of_three, y=SORTS, pos_label=positive).scores
    np.testing.assert_array_equal(found, fitted(Sorts(), y=SORTS, pos_label=positive).scores)


@pytest.mark.parametrize("scale", ["response", "margin"])
def test_the_explained_class_of_0_and_1_may_be_0(scale):
    """It was explained by the probability of 1: R2 was -1.8 in place of 0.6."""
    model = LogisticRegression().fit(A, TWO)
    found = fitted(model, y=TWO, pos_label=0, scale=scale)
    np.testing.assert_allclose(found.scores, fitted(model, y=TWO, scale=scale).scores, rtol=1e-9)
    both = fitted(lambda rows: model.predict_proba(rows), y=TWO, pos_label=0)
    one = fitted(lambda rows: model.predict_proba(rows)[:, 1], y=TWO)
    np.testing.assert_allclose(both.scores, one.scores, rtol=1e-9)


LETTERS = pd.Series(pd.Categorical(SORTS, categories=["b", "a", "c"]))
UNCLEAR = [
    (of_three, LETTERS, None, "does not say which of its columns belongs to which class"),
    (lambda rows: of_three(rows)[:, 0], SORTS, "b", "one number for each row.* class of y is 'b'"),
    (lambda rows: of_three(rows)[:, :2], SORTS, "b", r"\(1, 2\) for one row, but y has 3 classes"),
    (lambda rows: of_three(rows)[:, 0], TWO, 0, "the explained class of y is 0: pass y as 0 and 1"),
    (of_three, Y, None, r"\(60, 3\) for 60 rows.*; for probabilities .* task='classification'"),
]


@pytest.mark.parametrize(("model", "y", "positive", "message"), UNCLEAR)
def test_which_class_a_number_is_of_is_not_guessed(model, y, positive, message):
    with pytest.raises(ValueError, match=message):
        fitted(model, y=y, pos_label=positive)


@pytest.mark.parametrize(
    ("inputs", "table", "message"),
    [
        (["a", "z"], X, "it asks for the column 'z', which X does not have"),
        (["a", "b", "c", "d"], A, "it has 4 inputs, but X has 3 columns"),
    ],
)
def test_sessions_that_ask_for_other_columns(inputs, table, message):
    with pytest.raises(ValueError, match=message):
        fitted(Session(inputs), table=table)


def test_sessions_of_onnxruntime():
    onnxruntime = pytest.importorskip("onnxruntime")
    to_onnx = pytest.importorskip("skl2onnx").to_onnx

    def session(model):
        content = to_onnx(model, A[:1].astype(np.float32)).SerializeToString()
        return onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])

    for kind, y in ((LinearRegression, Y), (LogisticRegression, TWO), (LogisticRegression, SORTS)):
        model = kind().fit(A, y)
        predicted = model.predict if kind is LinearRegression else model.predict_proba
        found, expected = (fitted(one, y=y).scores for one in (session(model), predicted))
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6)


def test_modules_of_pytorch():
    torch = pytest.importorskip("torch")
    with torch.no_grad():
        linear = torch.nn.Linear(3, 1)
        linear.weight[:], linear.bias[:] = torch.tensor([[2.0, 0.0, 1.0]]), 0.0
    module = torch.nn.Sequential(linear, torch.nn.Dropout(0.5))
    expected = fitted(predict).scores

    def waits_for_gradients(rows):
        return linear(torch.as_tensor(np.asarray(rows), dtype=torch.float32))

    for model in (module, waits_for_gradients, linear.bfloat16()):
        found = fitted(model).scores
        np.testing.assert_allclose(found, expected, rtol=0.02, atol=1e-3)
        linear.float()
    assert module.training

    class Three(torch.nn.Module):
        def forward(self, rows):
            return torch.as_tensor(of_three(rows.numpy()))

    np.testing.assert_allclose(
        fitted(Three(), y=SORTS).scores, fitted(of_three, y=SORTS).scores, rtol=1e-3
    )

    class Pair(torch.nn.Module):
        def forward(self, rows):
            return rows, rows

    with pytest.raises(ValueError, match="the module returns a tuple, not predictions"):
        fitted(Pair())


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_formulas_of_statsmodels(library):
    """The formula names raw columns, a category and a square among them."""
    formula = pytest.importorskip("statsmodels.formula.api")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((200, 2)), columns=["a", "b"])
    frame["g"] = rng.choice(["u", "v", "w"], 200)
    y = frame["a"] + frame["b"] ** 2 + (frame["g"] == "u") + rng.standard_normal(200)
    model = formula.ols("y ~ a + I(b**2) + C(g)", frame.assign(y=y)).fit()
    table = frame if library == "pandas" else pl.from_pandas(frame)
    found = dfi.explain(table, y.to_numpy(), model, cv="prefit", diagnose=False)
    effects = model.params
    levels = {"u": 0.0, "v": effects["C(g)[T.v]"], "w": effects["C(g)[T.w]"]}

    def by_hand(rows):
        square = effects["I(b ** 2)"] * rows["b"] ** 2
        return effects["Intercept"] + effects["a"] * rows["a"] + square + rows["g"].map(levels)

    expected = dfi.explain(frame, y, by_hand, cv="prefit", diagnose=False)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-9)
    with pytest.raises(ValueError, match="its formula names columns: pass X as a dataframe"):
        dfi.explain(frame[["a", "b"]].to_numpy(), y, model, cv="prefit")
