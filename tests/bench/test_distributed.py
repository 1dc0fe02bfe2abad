"""``bench distributed``: real processes, messages as they were sent, errors in one line."""

import re

import pytest
import torch
from torch import distributed
from typer.testing import CliRunner

from heavystep.bench import distributed_ranks as bench_distributed_ranks
from heavystep.bench.distributed import QUICK, Tally, noted
from heavystep.bench.distributed_ranks import backend_for, ranks_cost, save, stored
from heavystep.cli.app import app

METHODS = ["SGD(fused)", "SHB", "SHBPolyak, paper", "SHBArmijo, paper", "SHBPolyak", "SHBAdam"]
GRADIENTS = 4 * (64 * 256 + 256 + 256 * 256 + 256 + 256 * 10 + 10)


@pytest.fixture(scope="module")
def two():
    return ranks_cost(2, QUICK)


@pytest.mark.slow
def test_messages_of_two_ranks(two):
    sgd, shb, polyak, armijo, steady, adam = two.steps
    assert [step.what for step in two.steps] == METHODS
    assert (sgd.messages, sgd.bytes, sgd.trials) == (0.0, 0.0, 0.0)
    # Loss, squared norm and the digest of the options in float32, together.
    for step in (shb, polyak, steady):
        assert (step.messages, step.bytes, step.trials) == (1.0, 12.0, 0.0)
    # The squared norm with the diagonal and without, in which an overflow is seen.
    assert (adam.messages, adam.bytes, adam.trials) == (1.0, 16.0, 0.0)
    assert armijo.trials >= 1.0
    assert armijo.messages == 1.0 + armijo.trials
    assert armijo.bytes == 12.0 + 4.0 * armijo.trials
    for step in two.steps:
        assert (step.gradient_messages, step.gradient_bytes) == (1.0, GRADIENTS)
        assert step.seconds > 0.0
    assert two.ranks == 2
    assert two.where.startswith(backend_for(2))
    assert min(two.latency, two.forward) > 0.0


@pytest.mark.slow
def test_figures_come_back_from_their_file(two, tmp_path):
    save(tmp_path / "figures.json", [two], load=0.5)
    assert stored(tmp_path / "figures.json") == [two]


@pytest.mark.slow
def test_the_table_of_one_rank(tmp_path):
    arguments = ["bench", "distributed", "--ranks", "1", "--quick", "--save", tmp_path / "f.json"]
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    rows = re.findall(
        r"│ (SGD\(fused\)|SHB\w*(?:, paper)?) +│ +[\d.]+ +│ +([\d.]+) +│ +([\d.]+)", result.stdout
    )
    assert [name for name, *_ in rows] == METHODS
    assert rows[0][1] == "1.000"
    assert {messages for *_, messages in rows} == {"0.00"}
    assert [cost.ranks for cost in stored(tmp_path / "f.json")] == [1]


@pytest.mark.parametrize("ranks", ["0", "-1"])
def test_nonsense_is_refused_in_one_line(ranks):
    result = CliRunner().invoke(app, ["bench", "distributed", "--ranks", "2", "--ranks", ranks])
    assert result.exit_code == 2
    assert result.stderr == f"ranks must be >= 1, got {ranks}\n"


def failing(rank, *arguments):
    if rank == 1:
        raise RuntimeError("no memory left")


@pytest.mark.slow
def test_an_error_in_a_rank_is_one_line(monkeypatch):
    monkeypatch.setattr(bench_distributed_ranks, "_rank", failing)
    with pytest.raises(ValueError, match=r"^rank 1 of 2 failed: RuntimeError: no memory left$"):
        ranks_cost(2, QUICK)


def test_notes_end_with_their_block(monkeypatch):
    sent = []
    monkeypatch.setattr(distributed, "all_reduce", sent.append)
    with noted() as (real, tally):
        distributed.all_reduce(torch.zeros(3, dtype=torch.float64))
        real(torch.zeros(5))
    distributed.all_reduce(torch.zeros(7))
    assert tally == Tally(messages=1, bytes=24)
    assert [len(tensor) for tensor in sent] == [3, 5, 7]


def test_nccl_needs_a_gpu_a_rank(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    found = [backend_for(ranks) for ranks in (1, 2, 3)]
    assert found == ["nccl", "nccl", "gloo"]
