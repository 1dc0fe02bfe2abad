"""What is missing is run, in any order, and what is there is not run again."""

import os
from dataclasses import replace

import numpy as np
import pytest

from heavystep.paper.figure1.definition import figure1
from heavystep.records import Trajectories
from heavystep.simulation.configuration import configure
from heavystep.sweeps import runner
from heavystep.sweeps.engines import LocalEngine
from heavystep.sweeps.runner import FailedRunsError, complete, joined
from heavystep.sweeps.store import Store
from tests.helpers.told import Told


def test_what_is_there_is_not_run_again(small_figure1):
    figure, store, results = small_figure1
    progress = Told()
    again = complete(figure.runs(), store, progress, engine=LocalEngine(1))
    assert progress.started == (28, 28, 0)
    assert progress.begun == []
    for key, result in results.items():
        np.testing.assert_array_equal(again[key].k, result.k)
        assert again[key].seeds == result.seeds
        for name, values in result.metrics.items():
            np.testing.assert_array_equal(again[key].metrics[name], values)


def test_threads_change_nothing(small_figure1, tmp_path):
    figure, store, _ = small_figure1
    some = dict(list(figure.runs().items())[:3])
    complete(some, Store(tmp_path), Told(), engine=LocalEngine(1))
    for run in some.values():
        assert Store(tmp_path).path(run).read_bytes() == store.path(run).read_bytes()


def test_a_run_that_fails_is_reported_and_the_others_are_made(small_figure1, tmp_path, monkeypatch):
    figure, _, _ = small_figure1
    first, *others = figure.runs().values()
    monkeypatch.setattr(type(first), "together", 1)  # both its seeds fail
    wild = replace(first, method=configure("SHB", lr=1e200), label="wild")
    runs, progress = {run.key(): run for run in (wild, *others)}, Told()
    with pytest.raises(
        FailedRunsError, match=r"1 of 28 runs .*wild .* loss or gradient not finite"
    ):
        complete(runs, Store(tmp_path), progress, engine=LocalEngine(2))
    assert len(list(tmp_path.iterdir())) == len(others)
    (report,) = progress.notes
    assert "Traceback" in report


def test_seeds_are_joined_in_their_order(small_figure1):
    figure, _, results = small_figure1
    whole = results[next(iter(figure.runs()))]
    single = [
        Trajectories(whole.k, (seed,), {n: v[[seed]] for n, v in whole.metrics.items()})
        for seed in (1, 0)
    ]
    again = joined(single)
    assert again.seeds == whole.seeds == (0, 1)
    for name, values in whole.metrics.items():
        np.testing.assert_array_equal(again.metrics[name], values)


class Noting(LocalEngine):
    """Remembers which seeds were run together."""

    def outcomes(self, jobs, progress):
        self.__dict__["groups"] = [job.arguments[1] for job in jobs]
        assert sum(job.amount for job in jobs) == progress.started[2]
        return super().outcomes(jobs, progress)


@pytest.mark.parametrize(
    ("cores", "jobs", "groups"),
    [
        (1, 1, [tuple(range(8)), (8, 9)]),
        (1, 3, [(0, 1, 2), (3, 4, 5), (6, 7), (8, 9)]),
        (2, 3, [(seed,) for seed in range(10)]),
    ],
)
def test_seeds_that_share_a_job_have_the_same_bytes(cores, jobs, groups, tmp_path, monkeypatch):
    run = replace(next(iter(figure1(iterations=500).runs().values())), seeds=10)
    monkeypatch.setattr(runner, "JOBS_A_CORE", jobs)
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    engine = Noting(1)
    complete({"": run}, Store(tmp_path / "some"), Told(), engine=engine)
    assert engine.groups == groups
    monkeypatch.setattr(type(run), "together", 1)
    complete({"": run}, Store(tmp_path / "single"), Told(), engine=engine)
    assert len(engine.groups) == 10
    stored = [Store(tmp_path / name).path(run).read_bytes() for name in ("some", "single")]
    assert stored[0] == stored[1]


class Impatient(Told):
    """Stops after two runs."""

    def finish(self):
        super().finish()
        if self.finished == 2:
            raise KeyboardInterrupt


def test_stopped_it_keeps_what_is_complete(small_figure1, tmp_path):
    figure, _, _ = small_figure1
    with pytest.raises(KeyboardInterrupt):
        complete(figure.runs(), Store(tmp_path), Impatient(), engine=LocalEngine(2))
    assert len(list(tmp_path.iterdir())) == 2


def test_force_runs_everything_again(small_figure1, tmp_path):
    figure, _, results = small_figure1
    progress = Told()
    small = replace(figure, panels=figure.panels[2:3])
    complete(small.runs(), Store(tmp_path), Told(), engine=LocalEngine(2))
    again = complete(small.runs(), Store(tmp_path), progress, engine=LocalEngine(2), force=True)
    assert progress.finished == 2
    key = next(iter(small.runs()))
    np.testing.assert_array_equal(again[key].metrics["gap_last"], results[key].metrics["gap_last"])
