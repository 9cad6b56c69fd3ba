"""Answers of a result are read-only, and come back from other processes as they went."""

import copy
import pickle
from types import MappingProxyType

import numpy as np
import pytest

import dfi

ANSWERS = {
    "interactions": lambda result: result.interactions(),
    "keep": lambda result: result.keep(share=0.8),
    "local": lambda result: result.local([0, 3]),
    "split": lambda result: result.split(),
    "tree": lambda result: result.tree(),
}


@pytest.fixture(scope="module")
def result():
    sample = dfi.datasets.m1(120, d=3, rho=0.5)
    return dfi.explain(sample.X, sample.y, "linear", cv=2, diagnose=False)


@pytest.mark.filterwarnings("ignore::dfi.warnings.DFIWarning")
@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])  # noqa: S301
def test_answers_are_rebuilt_as_they_were(result, name, copied):
    answer = ANSWERS[name](result)
    again = copied(answer)
    assert type(again) is type(answer)
    assert repr(again) == repr(answer)
    for field in answer.__dataclass_fields__:
        one, other = getattr(answer, field), getattr(again, field)
        if isinstance(one, MappingProxyType):
            assert isinstance(other, MappingProxyType), field
            assert list(one) == list(other)
            with pytest.raises(TypeError):
                other["new"] = 1
        elif isinstance(one, np.ndarray):
            np.testing.assert_array_equal(one, other)
            assert not other.flags.writeable, field
    assert again.spec == answer.spec
