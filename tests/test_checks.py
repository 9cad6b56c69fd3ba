"""The checks that every folder shares."""

import os

import pytest

from dfi._checks import did_you_mean, printable
from dfi._files import writable, written_whole
from dfi._parameters import one_of, whole


@pytest.mark.parametrize("value", [2, 7])
def test_whole_numbers_pass(value):
    assert whole("n_draws", value, 2) == value


@pytest.mark.parametrize("value", [1, True, 2.0, "3", None])
def test_what_is_no_whole_number_is_refused_by_name(value):
    with pytest.raises(ValueError, match=f"n_draws must be a whole number of 2 .*, got {value!r}"):
        whole("n_draws", value, 2)


def test_choices():
    assert one_of("form", "cross", ("loco", "cross")) == "cross"
    assert one_of("form", None, (None, "cross")) is None
    with pytest.raises(ValueError, match=r"^form must be 'loco', 'cross' or 'cpi', got 3$"):
        one_of("form", 3, ("loco", "cross", "cpi"))
    with pytest.raises(ValueError, match=r"got 'crss'; did you mean 'cross'\?"):
        one_of("form", "crss", ("loco", "cross"))
    assert did_you_mean("zzz", ["loco"]) == ""


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "file"
    with written_whole(path) as stream:
        stream.write(b"first")
        assert not path.exists()
    assert path.read_bytes() == b"first"

    def interrupted():
        with written_whole(path) as stream:
            stream.write(b"second")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["file"]


def test_paths_are_refused_before_any_work(tmp_path):
    there = tmp_path / "there"
    there.touch()
    assert writable(there, overwrite=True) == there
    with pytest.raises(FileExistsError, match="overwrite=True"):
        writable(there, overwrite=False)
    with pytest.raises(IsADirectoryError, match="is a folder"):
        writable(tmp_path, overwrite=True)
    with pytest.raises(FileNotFoundError, match="does not exist; create it first"):
        writable(tmp_path / "no" / "file", overwrite=False)


def test_printable_texts():
    assert printable("plain") == "plain"
    assert printable("größe 数 👩\u200d🔬") == "größe 数 👩\u200d🔬"
    assert printable("a\x1b[0m\x9b\u202eb\ud800") == "a\ufffd[0m\ufffd\ufffdb\ufffd"
    assert printable("a\nb\tc\u2028d") == "a b c d"
    assert printable("a\nb\tc", keep="\n") == "a\nb c"
