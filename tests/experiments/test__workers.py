from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from itertools import islice
from operator import floordiv, pow  # workers import by name; a test module has none to import

import pytest

from proxyprox.experiments.tournament import WorkerLostError, _portable, spread


class OddError(Exception):
    def __init__(self, text: str, more: int) -> None:
        super().__init__(text)


def test_every_job_once() -> None:
    found = dict(spread(range(1, 8), floordiv, 60, workers=2))
    assert found == {n: 60 // n for n in range(1, 8)}
    assert multiprocessing.active_children() == []


def test_errors_come_back_with_their_traceback() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        list(spread([1, 0, 2], floordiv, 60, workers=2))
    assert "Traceback" in str(caught.value.__cause__)
    assert multiprocessing.active_children() == []


def test_ended_early_it_leaves_no_process() -> None:
    # The second job would take for ever: 3 to a power of hundreds of millions.
    results = spread([2, 10**9], pow, 3, workers=2)
    assert list(islice(results, 1)) == [(2, 9)]
    begun = time.monotonic()
    results.close()  # type: ignore[attr-defined]
    assert time.monotonic() - begun < 30
    assert multiprocessing.active_children() == []


@pytest.mark.skipif(os.name == "nt", reason="signals are POSIX")
def test_a_lost_worker_is_noticed() -> None:
    results = spread([2, 10**9], pow, 3, workers=2)
    next(results)
    for child in multiprocessing.active_children():
        os.kill(child.pid or 0, signal.SIGKILL)
    with pytest.raises(WorkerLostError, match="ended from outside"):
        next(results)


@pytest.mark.skipif(os.name == "nt", reason="signals are POSIX")
def test_the_first_workers_of_a_process_never_see_an_interrupt() -> None:
    """Not even while they still import, before they can say that they ignore it."""
    script = (
        "import signal; from proxyprox.experiments.tournament import spread\n"
        "if __name__ == '__main__':\n"
        "    (_, masks), = spread([()], signal.pthread_sigmask, signal.SIG_BLOCK, workers=1)\n"
        "    print(signal.SIGINT in masks)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "True"


def test_errors_that_cannot_travel_become_words() -> None:
    assert isinstance(_portable(ValueError("a")), ValueError)
    assert str(_portable(OddError("text", 1))) == "OddError: text"
