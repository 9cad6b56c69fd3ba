"""What is fuzzed: each takes bytes and returns a word for what came of them, or fails.

Right answers and one sentence of ours are fine; whatever else comes out is a finding.
"""

import contextlib
import functools
import gzip
import io
import os
import pickle
import tempfile
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.feather
import pyarrow.parquet

import dfi
from dfi._lines.trees.readers import read_trees
from dfi._streams.files import Files
from dfi.cli.console import INPUT, Failure, sentence
from dfi.cli.reading import read_file
from dfi.results.file import FileFormatError

from .mutations import craft_result, mutate

LONGEST = 2000
"""Characters of a sentence."""


@contextlib.contextmanager
def on_disk(content: bytes, ending: str):
    """Yield the path of a file, in memory where the system has room there for files."""
    folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108
    with tempfile.NamedTemporaryFile(suffix=ending, dir=folder, delete=False) as stream:
        stream.write(content)
    try:
        yield stream.name
    finally:
        Path(stream.name).unlink()


def one_sentence(error: object) -> None:
    text = str(error)
    assert text, "an empty message"
    assert "\n" not in text, f"more than one line: {text!r}"
    assert len(text) < LONGEST, f"a long message: {text[:200]!r}"


def results(content: bytes) -> str:
    """Load a result and look at all that it shows."""
    with on_disk(content, ".dfi") as path:
        try:
            result = dfi.load(path)
        except FileFormatError as error:
            one_sentence(error)
            return "refused"
    assert np.isfinite(result.scores).all()
    with np.errstate(all="ignore"):
        repr(result)
        result.table()
        repr(result.quality)
    return "read"


@functools.cache
def _scores_of_seeds() -> list[bytes]:
    return [_scores(content) for content in SEEDS["results"]()]


def _scores(content: bytes) -> bytes:
    with on_disk(content, ".dfi") as path:
        return dfi.load(path).scores.tobytes()


def damaged_results(content: bytes) -> str:
    """As results, but bytes that changed by accident must not give other numbers."""
    found = results(content)
    assert found == "refused" or _scores(content) in _scores_of_seeds(), "other scores"
    return found


def _table(content: bytes, ending: str) -> str:
    with on_disk(content, ending) as path:
        try:
            frame = read_file(path)
        except Failure as failure:
            code, told = failure.code, sentence(failure)
        else:
            assert frame.width
            assert frame.height
            return "read"
    assert code == INPUT
    one_sentence(told)
    return "refused"


def _stream(content: bytes, ending: str) -> str:
    with on_disk(content, ending) as path:
        try:
            opened = Files.open(path)
            for _, frame in opened.frames(list(opened.labels)[:3]):
                assert len(frame)
        except (ValueError, TypeError) as error:
            one_sentence(error)
            return "refused"
    return "read"


def models(content: bytes) -> str:
    """Read the trees of a model whose arrays were changed, and walk them."""
    model = pickle.loads(SEEDS["models"]()[0])  # noqa: S301 - written below
    state = model.tree_.__getstate__()
    nodes = state["nodes"].copy()
    raw = nodes.view(np.uint8)
    given = np.frombuffer(content[: raw.size].ljust(raw.size, b"\0"), np.uint8)
    raw[:] = given
    changed = _Tree(nodes, state["values"], model)
    ensemble, reason = read_trees(changed.model)
    if ensemble is None:
        assert reason
        return "refused"
    with np.errstate(all="ignore"):
        assert len(ensemble.predict(np.zeros((3, 3)))) == 3
    return "read"


class _Tree:
    """A decision tree whose nodes say what they are told to."""

    def __init__(self, nodes, values, model):
        self.model, self._nodes, self._values = model, nodes, values
        model.tree_ = self

    def __getattr__(self, name):
        names = {"children_left": "left_child", "children_right": "right_child"}
        if name == "value":
            return self._values
        if name == "node_count":
            return len(self._nodes)
        if name == "n_features":
            return 3
        fields = self._nodes.dtype.names
        found = names.get(name, name)
        if found in fields:
            return self._nodes[found]
        raise AttributeError(name)


@functools.cache
def _result_seeds() -> list[bytes]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 3))
    y = x @ [2.0, 1.0, 0.0] + rng.standard_normal(40)
    frame = pl.DataFrame(dict(zip("abc", x.T, strict=True)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = dfi.explain(
            frame, y, estimator="linear", cv=2, feature_groups={"g": ["a", "b"]}, diagnose=False
        )
    kept = [found, found.moments(3)]
    content = []
    for result in kept:
        with tempfile.TemporaryDirectory() as folder:
            content.append(result.save(Path(folder) / "r.dfi").read_bytes())
    return content


@functools.cache
def _frame() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "a": rng.standard_normal(30),
            "b": rng.integers(0, 9, 30),
            "c": rng.choice(["u", "v", "größe"], 30),
            "d": [None if k % 7 == 0 else k / 3 for k in range(30)],
            "y": rng.standard_normal(30),
        }
    )


@functools.cache
def _tables() -> dict[str, list[bytes]]:
    frame, arrow = _frame(), _frame().to_arrow()
    csv = frame.write_csv().encode()
    parquet, ipc, feather, stream = [], [], [], io.BytesIO()
    for codec in ("snappy", "zstd", "none"):
        sink = io.BytesIO()
        pyarrow.parquet.write_table(arrow, sink, compression=codec)
        parquet.append(sink.getvalue())
    for codec in ("uncompressed", "lz4", "zstd"):
        sink = io.BytesIO()
        pyarrow.feather.write_feather(arrow, sink, compression=codec)
        feather.append(sink.getvalue())
    sink = io.BytesIO()
    frame.write_ipc(sink)
    ipc.append(sink.getvalue())
    frame.write_ipc_stream(stream)
    return {
        ".csv": [csv],
        ".tsv": [csv.replace(b",", b"\t")],
        ".jsonl": [frame.write_ndjson().encode()],
        ".csv.gz": [gzip.compress(csv, mtime=0)],
        ".parquet": parquet,
        ".arrow": [*ipc, stream.getvalue()],
        ".feather": feather,
    }


@functools.cache
def _model_seeds() -> list[bytes]:
    from sklearn.tree import DecisionTreeRegressor

    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 3))
    return [pickle.dumps(DecisionTreeRegressor(max_depth=4, random_state=0).fit(x, x[:, 0]))]


def _nodes() -> list[bytes]:
    model = pickle.loads(_model_seeds()[0])  # noqa: S301 - written above
    return [model.tree_.__getstate__()["nodes"].tobytes()]


SEEDS = {"results": _result_seeds, "models": _model_seeds}

TARGETS = {
    "results": (damaged_results, _result_seeds, mutate),
    "crafted-results": (results, _result_seeds, craft_result),
    "models": (models, _nodes, mutate),
    **{
        f"tables{ending}": (
            functools.partial(_table, ending=ending),
            functools.partial(lambda e: _tables()[e], ending),
            mutate,
        )
        for ending in (".csv", ".tsv", ".jsonl", ".csv.gz", ".parquet", ".arrow", ".feather")
    },
    **{
        f"streams{ending}": (
            functools.partial(_stream, ending=ending),
            functools.partial(lambda e: _tables()[e], ending),
            mutate,
        )
        for ending in (".csv", ".parquet", ".feather")
    },
}
"""By name: what is done with bytes, bytes that are right, and what changes them."""
