"""Progress bars: for long calls that somebody watches, as text, never for short ones."""

import io
import re
import sys
import types

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import dfi
from dfi import _progress
from dfi._models import fits
from dfi._scoring.task import Task
from dfi.methods import expected, stages


class Terminal(io.StringIO):
    def isatty(self):
        return True


class ZMQInteractiveShell:
    """The shell of a notebook, by the name that IPython gives it."""


def at_terminal(monkeypatch):
    """Put a terminal in the place of standard error, in the test itself: capturing replaces it."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def advance(progress=None, started=None):
    with _progress.progress_bar(progress, "fitting models", 3, started) as move:
        if move is None:
            return False
        for _ in range(3):
            move(1)
    return True


def test_nothing_is_shown_where_nobody_watches(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(_progress, "PATIENCE", 0.0)
    assert not advance()
    assert sys.stderr.getvalue() == ""
    assert advance(progress=True)
    assert "fitting models" in sys.stderr.getvalue()


def test_short_calls_show_nothing_at_a_terminal(monkeypatch):
    terminal = at_terminal(monkeypatch)
    assert advance()
    assert terminal.getvalue() == ""
    assert not advance(progress=False)


def test_long_calls_show_what_is_done_and_the_time_left(monkeypatch):
    terminal = at_terminal(monkeypatch)
    monkeypatch.setattr(_progress.tqdm, "monitor_interval", 0)
    # a call that began long ago: its first stages took the seconds without a bar
    assert advance(started=_progress.time.monotonic() - 10.0)
    assert "fitting models" in terminal.getvalue()
    assert "<" in terminal.getvalue()


def test_notebooks_are_watched_and_need_no_widgets(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert not _progress.is_watched()
    notebook = types.SimpleNamespace(get_ipython=ZMQInteractiveShell)
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    assert _progress.is_watched()
    assert _progress.tqdm.__module__ == "tqdm.std"
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: None))
    assert not _progress.is_watched()


def test_a_text_beside_the_bar_waits_as_the_bar_does(monkeypatch):
    terminal = at_terminal(monkeypatch)
    with _progress.telling_bar(None, "explaining rows", 10) as bar:
        bar.tell("bmi 0.3", 20)
    assert terminal.getvalue() == ""
    with _progress.telling_bar(True, "explaining rows", 10) as bar:
        bar.tell("bmi 0.3", 20)
    assert "bmi 0.3" in terminal.getvalue()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "1 s"), (4.4, "4 s"), (37.0, "40 s"), (170.0, "3 min"), (5500.0, "2 h")],
)
def test_a_time_is_said_as_well_as_it_is_known(monkeypatch, seconds, words):
    terminal = at_terminal(monkeypatch)
    with _progress.telling_bar(True, "explaining rows", 10) as bar:
        bar.foretell(seconds)
    assert f"about {words} in all" in terminal.getvalue()


def test_a_few_rows_tell_how_long_all_of_them_take(monkeypatch):
    """A clock that ticks once a row: folds of 16 and 48 rows tell the price of each."""
    ticks = iter(range(10**9))
    clock = types.SimpleNamespace(perf_counter=lambda: float(next(ticks)))
    monkeypatch.setattr(stages, "time", clock)
    rows = []

    class Transport:
        refits_for_error = True

        def plain_scores(self, task):
            rows.append(len(task.folds[0].test))
            for _ in range(2 * rows[-1] + 5):
                next(ticks)

    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 2))
    fits = dfi.methods.prepare(X, X[:, 0], estimator="linear", cv=2)
    task = Task(
        fits, fits.halves, fits.data.blocks, "cross", dfi.Quadrature(), transport_error="ignore"
    )
    found = stages.seconds_ahead(Transport(), task, fits.halves)
    assert set(rows) == {16, 48}
    # reading the clock is a tick too
    assert found == pytest.approx(2 * 100 + 6 * len(fits.halves))


def test_classes_have_a_bar_of_their_own(monkeypatch):
    terminal = at_terminal(monkeypatch)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5]).astype(str)
    dfi.explain(X, y, "linear", cv=2, diagnose=False, progress=True)
    assert "classes" in terminal.getvalue()
    # that of all classes; what one of them takes is told as nothing
    assert set(re.findall("about .*? in all", terminal.getvalue())) == {"about 1 s in all"}


def test_explain_at_a_terminal(monkeypatch):
    terminal = at_terminal(monkeypatch)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    call = {"estimator": "linear", "cv": 2, "diagnose": False}
    dfi.explain(X, X[:, 0] + rng.standard_normal(60), **call, progress=True)
    told = terminal.getvalue()
    assert "s in all" in told
    assert "fitting models on halves" in told
    assert "explaining rows" in told


def test_long_calls_say_how_long_before_they_start(monkeypatch):
    terminal = at_terminal(monkeypatch)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    told = []

    def fitting(*arguments, **options):
        told.append(terminal.getvalue())
        return cross_fit(*arguments, **options)

    cross_fit = fits.cross_fit
    monkeypatch.setattr(fits, "cross_fit", fitting)
    call = {"estimator": "linear", "cv": 2, "diagnose": False}
    dfi.explain(X, X[:, 0], **call)
    monkeypatch.setitem(expected.COSTS, "linear", (40.0, 0.0, 0.0))
    dfi.explain(X, X[:, 0], **call)
    dfi.explain(X, X[:, 0], **call, progress=False)
    dfi.compare(X, X[:, 0], "loco", estimator="linear", cv=2)
    quick, long, quiet, other = (told[k] for k in (0, len(told) // 2, -2, -1))
    assert quick == ""
    assert "fitting models on halves" in long
    assert "about 40 s in all" in long
    assert quiet == other == terminal.getvalue()


def test_a_bar_that_waits_shows_at_once_what_takes_long(monkeypatch):
    terminal = at_terminal(monkeypatch)
    with _progress.expecting(2.0), _progress.telling_bar(None, "explaining rows", 10) as bar:
        assert terminal.getvalue() == ""
        bar.foretell(3.0)
        assert terminal.getvalue() == ""
        bar.foretell(70.0)
        assert "about 70 s in all" in terminal.getvalue()
        with _progress.telling_bar(None, "fitting models", 10):
            assert re.search("fitting models.*about 70 s in all", terminal.getvalue())
    with _progress.telling_bar(True, "explaining rows", 10):
        pass
    assert terminal.getvalue().count("in all") == 2


def test_the_time_of_a_call_grows_with_its_table_and_its_learner():
    rng = np.random.default_rng(0)
    method = dfi.methods.Disentangled()

    def seconds(rows, columns, estimator="auto", n_jobs=1, classes=None):
        X = rng.standard_normal((rows, columns))
        y = X[:, 0] if classes is None else np.digitize(X[:, 0], classes).astype(str)
        given = dfi.methods.prepare(X, y, estimator=estimator, n_jobs=n_jobs)
        return expected.seconds_before(given, method)

    assert seconds(200, 4, "linear") < seconds(200, 4) < seconds(400, 4) < seconds(400, 8)
    assert seconds(400, 8, n_jobs=2) < seconds(400, 8, n_jobs=1) < seconds(400, 8, classes=[-1, 1])
    assert seconds(60, 2, LinearRegression()) is None


def test_the_time_of_a_call_is_known_without_choosing_a_transport(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    given = dfi.methods.prepare(X, X[:, 0], estimator="linear", cv=2)
    monkeypatch.setattr(dfi.transports.Auto, "choose", lambda *_: pytest.fail("it takes seconds"))
    said = [
        expected.seconds_before(given, dfi.methods.Disentangled(transport=name))
        for name in ("gaussian", "auto")
    ]
    assert said[0] == said[1] > 0
