"""Tasks on backends of joblib that leave the process: same bits, progress told by the caller."""

import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from joblib import delayed
from joblib.parallel import ParallelBackendBase, register_parallel_backend
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression

import dfi
from dfi import _progress
from dfi._compiled import kernel_array
from dfi._models import parallel
from dfi._models.parallel import in_parallel

try:
    import cloudpickle
except ImportError:  # joblib before 1.6 brings its own
    from joblib.externals import cloudpickle

# in small tables one row may rule a score of noise
pytestmark = pytest.mark.filterwarnings("ignore:row .* alone:dfi.warnings.InferenceWarning")


class Done:
    """A result that is there, or the error that a task raised."""

    def __init__(self, task):
        try:
            self.result, self.error = task(), None
        except Exception as error:
            self.error = error

    def get(self, timeout=None):
        if self.error is not None:
            raise self.error
        return self.result


class Far(ParallelBackendBase):
    """Pickles every batch of tasks, runs the copy in this process, and knows no generators."""

    nesting_level = 0
    sizes: list[int] = []  # noqa: RUF012

    def effective_n_jobs(self, n_jobs):
        return 3 if n_jobs is None or n_jobs < 0 else n_jobs

    def configure(self, n_jobs=1, parallel=None, **_):
        self.parallel = parallel
        return self.effective_n_jobs(n_jobs)

    def submit(self, func, callback=None):
        # the copies are made of buffers that cannot be written to, as those of clusters are
        content = cloudpickle.dumps(func, protocol=5)
        self.sizes.append(len(content))
        done = Done(pickle.loads(content))  # noqa: S301
        if callback is not None:
            callback(done)
        return done

    apply_async = submit  # joblib before 1.5

    def get_nested_backend(self):
        return joblib.parallel.SequentialBackend(nesting_level=1), None


@pytest.fixture
def far(monkeypatch):
    register_parallel_backend("far", Far)
    monkeypatch.setattr(Far, "sizes", [])
    monkeypatch.setattr(parallel, "FEW_STEPS", 0)
    with joblib.parallel_config(backend="far"):
        yield Far
    joblib.parallel.BACKENDS.pop("far")


def numbers(n=240, d=4):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(n, d))
    X[:, 1] += X[:, 0]
    return X, X[:, 0] + X[:, 2] ** 2 + generator.normal(size=n)


def frame(n=240):
    X, y = numbers(n)
    data = pd.DataFrame(X, columns=list("abcd"))
    data["e"] = pd.Categorical(np.array(["p", "q", "r"])[np.arange(n) % 3])
    return data, y + (data["e"] == "p").to_numpy()


def assert_same(one, other):
    for found, same in ((one, other), (one.latent, other.latent)):
        if found is not None:
            np.testing.assert_array_equal(found.influence, same.influence)
            np.testing.assert_array_equal(found.se, same.se)


def boosting():
    return HistGradientBoostingRegressor(max_iter=10)


def fitted(n=240, **how):
    return dfi.explain(*numbers(n), boosting().fit(*numbers(400)), cv="prefit", **how)


def grouped(n=240, **how):
    groups = {"u": [0, 1], "v": [2], "w": [3]}
    return dfi.explain(*numbers(n), boosting(), units="groups", feature_groups=groups, **how)


def call(learner=None, data=numbers, **given):
    def run(n=240, **how):
        return dfi.explain(*data(n), "auto" if learner is None else learner(), **given, **how)

    return run


CALLS = {
    "default": call(),
    "boosting": call(boosting),
    "forest": call(lambda: RandomForestRegressor(8)),
    "linear": call(LinearRegression),
    "fitted": fitted,
    "categories": call(boosting, frame),
    "groups": grouped,
    "copula": call(boosting, transport="copula"),
    "knothe": call(boosting, transport="knothe-rosenblatt"),
}


LONGER = {"default": pytest.mark.full, "groups": pytest.mark.slow, "knothe": pytest.mark.slow}
NAMES = [pytest.param(name, marks=LONGER.get(name, ())) for name in CALLS]


@pytest.mark.parametrize("name", NAMES)
def test_a_backend_that_ships_tasks_gives_the_same_bits(name, far):
    with joblib.parallel_config(backend="sequential"):
        here = CALLS[name](progress=False)
    assert not far.sizes
    assert_same(here, CALLS[name](n_jobs=2, progress=False))
    assert far.sizes


def test_other_methods_too(far):
    X, y = numbers(160, 3)
    with joblib.parallel_config(backend="sequential"):
        here = dfi.compare(X, y, estimator=LinearRegression())
    there = dfi.compare(X, y, estimator=LinearRegression(), n_jobs=2)
    assert far.sizes
    for name in here:
        assert_same(here[name], there[name])


class Bar:
    """A progress bar that cannot be shipped."""

    shown: list["Bar"] = []  # noqa: RUF012
    delay = 0
    postfix = None

    def __init__(self, total, desc, leave, postfix=None):
        self.total, self.told = total, []
        self.shown.append(self)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def __reduce__(self):
        raise AssertionError("a progress bar was sent away")

    def update(self, step):
        self.told.append(step)

    def set_postfix_str(self, text, refresh=True):
        pass


@pytest.mark.parametrize(
    "name", [pytest.param("default", marks=pytest.mark.full), "categories", "copula"]
)
def test_the_caller_tells_the_progress_of_tasks_that_left(name, far, monkeypatch):
    monkeypatch.setattr(_progress, "tqdm", Bar)
    monkeypatch.setattr(Bar, "shown", [])
    CALLS[name](n_jobs=2, progress=True)
    assert Bar.shown
    assert [sum(bar.told) for bar in Bar.shown] == [bar.total for bar in Bar.shown]


def test_loky_does_not_ship_it_either(monkeypatch):
    monkeypatch.setattr(parallel, "FEW_STEPS", 0)
    monkeypatch.setattr(_progress, "tqdm", Bar)
    monkeypatch.setattr(Bar, "shown", [])
    here = CALLS["linear"](progress=False)
    with joblib.parallel_config(backend="loky"):
        assert_same(here, CALLS["linear"](n_jobs=2, progress=True))
    assert [sum(bar.told) for bar in Bar.shown] == [bar.total for bar in Bar.shown]


@pytest.mark.parametrize(
    ("name", "copies"),
    # donors are a copy of the explained rows in memory, too
    [("boosting", 0), ("forest", 0), ("copula", 0), ("groups", 1), ("categories", 1)],
)
def test_the_table_goes_out_once_for_all_folds(name, copies, far, monkeypatch):
    """No large array, the table and the law among them, leaves twice in one round of tasks."""
    rounds, shared, pickled = [], parallel._shared, parallel._pickled

    def begin(calls):
        rounds.append([])
        return shared(calls)

    def count(thing):
        if isinstance(thing, tuple):
            # those of a forest are small, and its trees may be alike
            rounds[-1] += [a.tobytes() for a in thing[1].values() if a.nbytes >= 40_000]
        return pickled(thing)

    monkeypatch.setattr(parallel, "_shared", begin)
    monkeypatch.setattr(parallel, "_pickled", count)
    CALLS[name](n=1500, n_jobs=2)
    # under a normal law tasks that score take their own rows alone
    assert len(rounds) >= 2
    assert any(rounds)
    for each in rounds:
        assert len(each) - len(set(each)) <= copies


def test_what_tasks_share_goes_out_with_as_few_of_them_as_there_are_workers(far):
    shared = np.arange(500_000.0)
    tasks = [delayed(np.add)(shared, k) for k in range(8)]
    found = list(in_parallel(tasks, 2))
    for k, values in enumerate(found):
        np.testing.assert_array_equal(values, shared + k)
    assert len(far.sizes) == 2
    assert sum(far.sizes) < 2.1 * shared.nbytes


def test_small_tasks_are_sent_one_by_one(far):
    shared = np.arange(5.0)
    tasks = [delayed(np.multiply)(shared, k) for k in range(4)]
    assert [values.sum() for values in in_parallel(tasks, 2)] == [0.0, 10.0, 20.0, 30.0]
    assert len(far.sizes) == 4


class Counter:
    def __init__(self, values):
        self.values = values

    def total(self, k):
        return self.values.sum() + k

    def flags(self):
        return self.values.flags.aligned and self.values.flags.writeable


def test_methods_of_one_object_share_it(far):
    counter = Counter(np.ones(300_000))
    assert list(in_parallel([delayed(counter.total)(k) for k in range(6)], 3)) == [
        300_000.0 + k for k in range(6)
    ]
    assert len(far.sizes) == 3


def test_arrays_arrive_aligned_and_writable(far):
    counter = Counter(np.ones(300_000))
    assert all(in_parallel([delayed(counter.flags)() for _ in range(2)], 2))
    (found,) = in_parallel([delayed(np.add)(counter.values, 1.0)], 2)
    assert found.flags.aligned
    assert found.flags.writeable


def test_kernels_get_aligned_arrays():
    raw = bytearray(8 * 10 + 1)
    crooked = np.frombuffer(raw, dtype=np.uint8)[1:].view(np.float64)
    assert not crooked.flags.aligned
    taken = kernel_array(crooked, np.float64)
    assert taken.flags.aligned
    assert taken.flags.writeable
    np.testing.assert_array_equal(taken, crooked)


def fails():
    raise ValueError("this one fails")


def test_errors_come_back(far):
    with pytest.raises(ValueError, match=r"^this one fails$"):
        list(in_parallel([delayed(fails)(), delayed(abs)(-1)], 2))


def test_no_tasks(far):
    assert list(in_parallel([], 2)) == []


def test_a_few_rows_are_not_sent_away(far, monkeypatch):
    monkeypatch.setattr(parallel, "FEW_STEPS", 5)
    seen, told = [], []
    tasks = [delayed(seen.append)(k) for k in range(2)]
    list(in_parallel(tasks, 2, threads=True, advance=told.append, steps=[2, 3]))
    assert sorted(seen) == [0, 1]
    assert not told  # those that stay tell it themselves
    assert not far.sizes
    list(in_parallel([delayed(abs)(-1)] * 2, 2, threads=True, advance=told.append, steps=[3, 3]))
    assert told == [3, 3]
    assert far.sizes


@pytest.mark.parametrize("name", ["boosting", "categories"])
def test_of_a_large_table_only_explained_rows_go_out(name, far, monkeypatch):
    n = 6000
    monkeypatch.setattr("dfi._data.source.LARGE_ROWS", 5000)
    rows = {"explain_rows": 500, "keep_rows": True}
    with joblib.parallel_config(backend="sequential"):
        here = CALLS[name](n=n, **rows)
    rounds, shared, pickled = [], parallel._shared, parallel._pickled

    def begin(calls):
        rounds.append([])
        return shared(calls)

    def count(thing):
        if isinstance(thing, tuple):
            rounds[-1] += [len(array) for array in thing[1].values() if array.ndim == 2]
        return pickled(thing)

    monkeypatch.setattr(parallel, "_shared", begin)
    monkeypatch.setattr(parallel, "_pickled", count)
    assert_same(here, CALLS[name](n=n, n_jobs=2, **rows))
    fitted, *explained = rounds
    assert max(fitted) == n
    assert explained
    assert max(max(sizes, default=0) for sizes in explained) < n


def test_tasks_that_must_stay_do(far):
    seen = []
    list(in_parallel([delayed(seen.append)(k) for k in range(3)], 2, here=True))
    assert sorted(seen) == [0, 1, 2]
    assert not far.sizes
