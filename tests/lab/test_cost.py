"""Measurements of cost run, count right, and compare what they say they compare."""

import gc
import weakref

import numpy as np
import pytest
import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from typer.testing import CliRunner

from heavystep.cli.app import app
from heavystep.lab.cost import networks as cost
from heavystep.lab.cost import ranks


def test_jobs_take_turns_and_the_shortest_time_counts(monkeypatch):
    order, clock = [], iter(np.cumsum(2 * [0.0, 3.0, 0.0, 1.0, 0.0, 5.0, 0.0, 9.0]))
    monkeypatch.setattr(cost.time, "perf_counter", lambda: next(clock))
    jobs = {name: (lambda name=name: order.append(name)) for name in "ab"}
    found = cost.in_turns(jobs, 1, before=lambda: order.append("-"))
    assert order == list("-a-a-b-b")
    assert found == {"a": [3.0, 1.0], "b": [5.0, 9.0]}
    assert cost.shortest(jobs, 1) == {"a": 1.0, "b": 5.0}


def test_memory_of_sgd_and_of_ours_in_copies_of_the_parameters(monkeypatch):
    monkeypatch.setitem(cost.WORKLOADS, "small", [(50, 20)] * 3)
    found = {each.optimizer: each for each in cost.step_costs("small", rounds=1)}
    assert found["SGD(foreach=True)"].ratio == 1.0
    assert found["SGD(foreach=True)"].kept == pytest.approx(1.0)
    assert found["AdamW(foreach=True)"].kept == pytest.approx(2.0, abs=0.01)  # and a step count
    assert found["SHBPolyak"].kept == pytest.approx(1.0, abs=0.01)
    assert all(each.peak >= each.kept and each.ms > 0.0 for each in found.values())


def test_training_costs_of_every_method():
    size = cost.Size("small", 8, 3, 1)
    found = cost.training_costs(size, torch.device("cpu"))
    assert [each.optimizer for each in found] == ["SGD", *cost.MEASURED]
    assert all(each.ms > 0.0 and each.plain_ratio > 0.0 for each in found)
    assert found[0].peak_mib == 0
    assert {each.optimizer for each in found if each.trials} <= {"SHBArmijo"}


@pytest.mark.slow  # two processes
def test_messages_of_two_ranks():
    found = {each.optimizer: each for each in ranks.ranks_cost(2, ranks.QUICK)}
    assert found["SGD"].messages == 0.0
    assert found["SHBPolyak"].messages == 1.0  # loss and agreement in one
    assert found["SHBArmijo"].messages == 1.0 + found["SHBArmijo"].trials
    with pytest.raises(ValueError, match="ranks must be >= 1"):
        ranks.ranks_cost(0, ranks.QUICK)


def test_no_network_outlives_the_group_of_ranks(monkeypatch, tmp_path):
    """One that did would hang now and then when the group is destroyed."""
    alive = weakref.WeakSet()

    class Watched(DistributedDataParallel):
        def __init__(self, net):
            super().__init__(net)
            alive.add(self)

    monkeypatch.setattr(ranks, "DistributedDataParallel", Watched)
    gc.disable()
    distributed.init_process_group("gloo", f"file://{tmp_path}/store", world_size=1, rank=0)
    try:
        found = ranks.costs_in_group(ranks.QUICK, torch.device("cpu"))
        assert len(found) > 3
        assert not alive
    finally:
        distributed.destroy_process_group()
        gc.enable()


@pytest.mark.slow  # compiles
def test_the_literal_loop_makes_the_same_run():
    simulation = pytest.importorskip("heavystep.lab.cost.simulation")
    from heavystep.lab.simulation.run import OneRun

    for problem, method, _, batch in simulation.cases().values():
        run = OneRun(problem, method, 0, np.array([200]), batch)
        run.take_steps(200, np.empty((0, batch), dtype=np.int64))
        theta = simulation.literal_run(problem, method, 200, batch)
        np.testing.assert_allclose(run.state.theta, theta, rtol=1e-9, atol=1e-12)


@pytest.mark.slow  # compiles
@pytest.mark.parametrize("name", ["step", "simulation", "train"])
def test_the_command_shows_tables(name, monkeypatch):
    monkeypatch.setattr(cost, "SMALL", cost.Size("small", 8, 2, 1))
    quick = [] if name == "train" else ["--quick"]
    result = CliRunner().invoke(app, ["bench", name, *quick])
    assert result.exit_code == 0, result.output
    assert "ratio" in result.output
    assert "load average" in result.output
