"""Tables that are packed, that say what separates their fields, or whose bytes were flipped."""

import bz2
import gzip
import io
import lzma

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dfi._streams.files import Files, parquet_batches
from dfi.cli import reading
from dfi.cli.console import Failure
from dfi.cli.reading import read_file, scan_files

FRAME = pl.DataFrame({"a": [1.5, 2.5, 3.5], "b": [1, 2, 3], "y": [0.5, 1.0, 2.0]})


def zstd(content):
    packed = pa.BufferOutputStream()
    with pa.CompressedOutputStream(packed, "zstd") as stream:
        stream.write(content)
    return packed.getvalue().to_pybytes()


PACKERS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstd}


def written(ending, separator=","):
    content = io.BytesIO()
    if ending == "csv":
        FRAME.write_csv(content, separator=separator)
    else:
        FRAME.write_parquet(content)
    return content.getvalue()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("packer", PACKERS)
def test_packed_tables(packer, ending, tmp_path):
    packed = PACKERS[packer](written(ending))
    for name in (f"a.{ending}.{packer}", f"a.{ending}", "a"):
        (tmp_path / name).write_bytes(packed)
        assert read_file(str(tmp_path / name)).equals(FRAME)
    (tmp_path / name).write_bytes(packed[:-5])
    with pytest.raises(Failure, match=r"a is a damaged (gzip|bzip2|xz|zstd) file"):
        read_file(str(tmp_path / name))


@pytest.mark.parametrize("packer", PACKERS)
def test_packed_tables_cannot_fill_the_memory(packer, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "FREE_BYTES", 1000)
    (tmp_path / "a.csv").write_bytes(PACKERS[packer](b"a,y\n" + b"1,2\n" * 50_000))
    with pytest.raises(Failure, match=r"unpacks to more than .* --max-unpacked"):
        read_file(str(tmp_path / "a.csv"))


def test_a_packed_file_is_not_read_in_parts(tmp_path):
    (tmp_path / "a.csv").write_bytes(zstd(written("csv")))
    with pytest.raises(ValueError, match=r"a\.csv cannot be read as CSV, it is zstd"):
        Files.open(tmp_path / "a.csv")


def test_other_bytes_are_no_text_of_another_encoding(tmp_path):
    (tmp_path / "a.csv.lz4").write_bytes(b"\x04\x22\x4d\x18\x64\x40\xa7" + bytes(range(256)))
    with pytest.raises(
        Failure, match="is neither text nor a format that dfi reads: write it as CSV"
    ):
        read_file(str(tmp_path / "a.csv.lz4"))
    (tmp_path / "b.csv").write_bytes("straße,y\n1,2\n".encode("latin-1"))
    with pytest.raises(Failure, match=r"is not UTF-8 .* --encoding latin-1"):
        read_file(str(tmp_path / "b.csv"))


@pytest.mark.parametrize("line", ["sep={}\n", "SEP={}\r\n", '"sep={}"\n', "\ufeffsep={}\r\n"])
@pytest.mark.parametrize("separator", [";", ",", "\t", "|", ":"])
def test_a_line_that_says_what_separates_fields(separator, line, tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(line.format(separator).encode() + written("csv", separator))
    assert read_file(str(path)).equals(FRAME)
    ((_, batch),) = Files.open(path).frames(["a", "b", "y"])
    assert batch.equals(FRAME)


def test_lines_are_counted_with_the_one_about_fields(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("sep=;\na;y\n1;2\n1;2;3\n")
    with pytest.raises(Failure, match="line 4 has 3 fields where the header has 2"):
        read_file(str(path))


def flipped(content, value, other):
    """Return a file in which some bytes of a number are others."""
    assert content.count(value) >= 1
    return content.replace(value, other)


@pytest.fixture
def numbers():
    return pa.table({"a": np.arange(1.0, 1001.0), "y": np.arange(1000.0)})


def plain(table, **options):
    content = io.BytesIO()
    settings = {"use_dictionary": False, "compression": "none", "row_group_size": 400}
    pq.write_table(table, content, **settings, **options)
    return content.getvalue()


def refusal(content, tmp_path):
    """Return why a file is refused, by the three ways to read it."""
    path = tmp_path / "a.parquet"
    path.write_bytes(content)
    told = []
    with pytest.raises(ValueError, match=r"a\.parquet cannot be read") as error:
        list(Files.open(path).frames(["a", "y"]))
    told.append(str(error.value))
    for read in (read_file, lambda path: scan_files(str(tmp_path))):
        with pytest.raises(Failure, match=r"a\.parquet (is damaged|cannot be read)") as failure:
            read(str(path))
        assert failure.value.code == 3
        told.append(str(failure.value))
    return told


def test_flipped_bits_under_a_checksum(numbers, tmp_path):
    content = plain(numbers, write_page_checksum=True)
    # within the range of the column: nothing but the checksum tells
    damaged = flipped(content, np.float64(500.0).tobytes(), np.float64(501.0).tobytes())
    assert all("checksum" in why for why in refusal(damaged, tmp_path))
    assert sum(batch.num_rows for batch in parquet_batches(io.BytesIO(content))) == 1000


@pytest.mark.parametrize("value", [2.7e216, -1.0, np.inf])
def test_flipped_bits_without_checksums(value, numbers, tmp_path):
    damaged = flipped(plain(numbers), np.float64(333.0).tobytes(), np.float64(value).tobytes())
    for why in refusal(damaged, tmp_path):
        assert f"column 'a' has the value {value:g}, and the file says that it holds 1 to" in why


@pytest.mark.parametrize("write", ["pyarrow", "polars", "polars without", "duckdb"])
def test_sound_files_of_all_kinds_pass(write, tmp_path):
    rng = np.random.default_rng(0)
    n = 500
    table = pa.table(
        {
            "normal": rng.standard_normal(n),
            "single": rng.standard_normal(n).astype("f4"),
            "gaps": pa.array([None if k % 3 else float(k) for k in range(n)]),
            "some nan": np.where(rng.random(n) < 0.3, np.nan, 1.0),
            "nan": np.full(n, np.nan),
            "infinite": np.where(rng.random(n) < 0.3, -np.inf, np.inf),
            "zeros": np.where(rng.random(n) < 0.5, -0.0, 0.0),
            "none": pa.nulls(n, pa.float64()),
            "late": pa.array([None] * (n // 2) + [1.0] * (n // 2)),
            "large": np.where(rng.random(n) < 0.5, 2**63 - 1, -(2**63)),
            "unsigned": rng.integers(0, 2**64 - 1, n, dtype="u8"),
            "flag": rng.random(n) < 0.5,
            "text": rng.choice(["x", "y"], n),
            "when": pa.array(range(n), pa.timestamp("us")),
            "money": pa.array(range(n)).cast(pa.decimal128(25, 2)),
        }
    )
    path = str(tmp_path / "a.parquet")
    if write == "pyarrow":
        pq.write_table(table, path, row_group_size=70, write_page_checksum=True)
    elif write == "duckdb":
        duckdb = pytest.importorskip("duckdb")
        duckdb.from_arrow(table).write_parquet(path, row_group_size=70)
    else:
        statistics = write == "polars"
        pl.from_arrow(table).write_parquet(path, row_group_size=70, statistics=statistics)
    for rows in (30, 10_000):
        assert sum(batch.num_rows for batch in parquet_batches(path, rows)) == n
    nested = table.append_column("normal.x", pa.array([1.0] * n)).append_column(
        "other", pa.array([{"x": 9.0}] * n)
    )
    pq.write_table(nested, path)
    assert sum(batch.num_rows for batch in parquet_batches(path)) == n
