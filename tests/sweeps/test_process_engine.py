"""Jobs in processes of their own: outcomes, reports, ends."""

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from heavystep.sweeps.engines import Job, LocalEngine, Outcome
from heavystep.sweeps.process_engine import ProcessEngine, isolated
from tests.helpers.places import ROOT
from tests.helpers.told import Told
from tests.sweeps.test_engines import Seven, add

PATIENCE = 60.0


def whereabouts(data, folder, advance):
    """Leaves a file with the name of its process, and goes on for long."""
    (Path(folder) / str(os.getpid())).touch()
    for _ in range(600):
        time.sleep(0.1)
        advance(1)


def test_one_at_a_time_stays_in_this_process():
    assert isolated(LocalEngine(1)) == LocalEngine(1)
    assert isolated(LocalEngine(3)) == ProcessEngine(3)
    assert isolated(LocalEngine()) == ProcessEngine()
    assert isolated(ProcessEngine(2)) == ProcessEngine(2)


@pytest.mark.slow
def test_outcomes_and_reports_are_those_of_threads():
    told = Told()
    jobs = [Job(f"job {k}", add, (k,), 2, Seven()) for k in range(4)]
    first, second, failed, last = sorted(ProcessEngine(2).outcomes(jobs, told))
    assert [first, second, last] == [Outcome(0, 7), Outcome(1, 8), Outcome(3, 10)]
    assert "ArithmeticError: no such number" in failed.failure
    assert told.amount == 8
    assert sorted(told.begun) == [f"job {k}" for k in range(4)]


@pytest.mark.slow
def test_closed_it_gives_up_what_is_under_way(tmp_path):
    quick, long = Job("quick", add, (0,), 2, Seven()), Job("long", whereabouts, (tmp_path,), 1)
    begin = time.monotonic()
    with closing(ProcessEngine(2).outcomes([quick, long, long], Told())) as outcomes:
        assert next(outcomes).value == 7
        _wait(lambda: any(tmp_path.iterdir()))
    assert time.monotonic() - begin < PATIENCE / 2.0  # one job would take a minute


CODE = """
import sys
from heavystep.sweeps.engines import Job
from heavystep.sweeps.process_engine import ProcessEngine
from tests.helpers.told import Told
from tests.sweeps.test_process_engine import whereabouts
if __name__ == "__main__":
    list(ProcessEngine(1).outcomes([Job("long", whereabouts, (sys.argv[1],), 1)], Told()))
"""


@pytest.mark.slow
def test_killed_it_leaves_no_process_behind(tmp_path):
    script, folder = tmp_path / "driver.py", tmp_path / "begun"
    script.write_text(CODE)
    folder.mkdir()
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    driver = subprocess.Popen(
        [sys.executable, script, folder], cwd=ROOT, env={**os.environ, "PYTHONPATH": paths}
    )
    try:
        _wait(lambda: any(folder.iterdir()))
        worker = int(next(folder.iterdir()).name)
        os.kill(worker, 0)
    finally:
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    _wait(lambda: not _alive(worker))


def _alive(process):
    try:
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


def _wait(true):
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)
