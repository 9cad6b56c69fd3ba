"""Parallel tasks: order, threads, and workers that leave Ctrl-C to their caller."""

import os
import signal
import sys
import threading

import pytest
from joblib import delayed

from dfi._models.parallel import in_parallel

INTERRUPTED = """
import pathlib, signal, sys, time
from joblib import delayed
from dfi._models.parallel import in_parallel

def hold(k):
    held = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    pathlib.Path(f"unfinished-{k}").write_text(str(held))
    pathlib.Path(f"unfinished-{k}").rename(f"worker-{k}")
    time.sleep(3600)  # for ever: the interrupt ends it, or the test does

def main():
    pathlib.Path("begun").touch()
    results = in_parallel((delayed(hold)(k) for k in range(2)), 2)
    pathlib.Path("dispatched").touch()
    list(results)

code = 0
try:
    main()
except KeyboardInterrupt:
    code = 130
sys.exit(code)  # nobody holds the results: joblib ends workers whose results are not read
"""


# A limit for a process that hangs; how long one takes is not tested.
pytestmark = pytest.mark.timeout(1200)


@pytest.mark.parametrize("n_jobs", [None, 1, 2])
@pytest.mark.parametrize("threads", [False, True])
def test_results_come_in_the_order_of_the_tasks(n_jobs, threads):
    # Workers cannot import this file, so their tasks come from elsewhere.
    tasks = [delayed(sum)(range(k)) for k in (2_000_000, 3, 4, 5)]
    assert list(in_parallel(tasks, n_jobs, threads=threads)) == [1_999_999_000_000, 3, 6, 10]


def test_threads_share_the_objects_of_the_caller():
    seen = []
    list(in_parallel([delayed(seen.append)(k) for k in range(3)], 2, threads=True))
    assert sorted(seen) == [0, 1, 2]


def test_the_signal_is_held_back_only_while_workers_start():
    masks = []

    def tasks():
        masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, []))
        yield delayed(abs)(-1)

    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    results = in_parallel(tasks(), 2, threads=True)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
    assert list(results) == [1]
    assert [signal.SIGINT in mask for mask in masks] == [True]
    assert signal.SIGINT not in before


def test_another_thread_may_call_it():
    found = []
    task = [delayed(abs)(-7)]
    thread = threading.Thread(target=lambda: found.extend(in_parallel(task, 2, threads=True)))
    thread.start()
    thread.join()
    assert found == [7]


@pytest.mark.parametrize("when", ["begun", "dispatched", "worker-1"])
def test_an_interrupt_of_the_whole_job_is_heard_once(when, tmp_path, start, wait_for):
    process = start([sys.executable, "-c", INTERRUPTED], cwd=tmp_path)
    wait_for((tmp_path / when).exists, process)
    os.killpg(process.pid, signal.SIGINT)
    _, stderr = process.communicate()
    assert process.returncode == 130
    # A worker that heard it too would say so. joblib's own thread may still be handing out a task
    # when its executor is taken down, and then complains of a missing key: not of the interrupt.
    assert "KeyboardInterrupt" not in stderr
    if when == "worker-1":
        assert (tmp_path / when).read_text() == "True"
