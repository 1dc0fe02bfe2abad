"""Several real processes take the steps of one that has the whole batch, and all the same ones."""

import pytest
import torch
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

import heavystep
from tests.distributed import worker
from tests.helpers.launch import found_by
from tests.helpers.training import flat, loss_of, make_batches, make_net

TOLERANCE = {"float64": 1e-12, "float32": 1e-6}
CASES = [
    ("ddp", "float64", 2),
    ("ddp", "float32", 2),
    ("fsdp", "float64", 2),
    ("fsdp", "float32", 2),
    ("fsdp root", "float64", 2),
    pytest.param(("hsdp", "float64", 4), marks=pytest.mark.slow),
    pytest.param(("ddp", "float64", 4), marks=pytest.mark.slow),
    pytest.param(("fsdp", "float64", 4), marks=pytest.mark.slow),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_ranks_are_one_process_with_the_whole_batch(case, tmp_path):
    how, dtype, ranks = case
    found = found_by(ranks, worker.__file__, how, dtype, tmp_path)
    for name in worker.OPTIONS:
        net = make_net(dtype=getattr(torch, dtype))
        opt = worker.make(name, net.parameters())
        batches = make_batches(worker.STEPS, dtype=getattr(torch, dtype))
        taken = worker.train(net, opt, batches)
        first = found[0][name]
        torch.testing.assert_close(
            first["parameters"], worker.whole(net), rtol=0.0, atol=TOLERANCE[dtype]
        )
        assert [trials for *_, trials in first["taken"]] == [trials for *_, trials in taken]
        for other in found[1:]:  # to the bit
            assert torch.equal(other[name]["parameters"], first["parameters"])
            assert other[name]["taken"] == first["taken"]


def test_the_searches_above_search():
    net = make_net(dtype=torch.float64)
    opt = worker.make("SHBArmijo", net.parameters())
    taken = worker.train(net, opt, make_batches(worker.STEPS, dtype=torch.float64))
    assert max(trials for *_, trials in taken) > 5


def test_trials_leave_the_statistics_of_each_rank_alone(tmp_path):
    """BatchNorm sees a rank's share; its statistics are those of rank 0, updated once a step."""
    found = found_by(2, worker.__file__, "normed", "float64", tmp_path)
    net = make_net(dtype=torch.float64, norm=True)
    opt = worker.make("SHBArmijo", net.parameters())
    mean, trials = torch.zeros(16, dtype=torch.float64), []
    for batch in make_batches(4, dtype=torch.float64):
        shares = [worker.share(batch, rank, 2) for rank in range(2)]
        mean = 0.9 * mean + 0.1 * net[0](shares[0][0]).mean(dim=0).detach()
        opt.step(lambda: sum(loss_of(net, share) for share in shares) / 2)
        trials.append(opt.info.trials)
    assert max(trials) > 1
    for rank in found:
        assert [each for *_, each in rank["taken"]] == trials
        torch.testing.assert_close(rank["parameters"], worker.whole(net), rtol=0.0, atol=1e-12)
        assert int(rank["buffers"][2]) == 4
    torch.testing.assert_close(found[0]["buffers"][0], mean, rtol=0.0, atol=1e-12)


def test_a_process_outside_the_group_is_told(tmp_path):
    inside, outside = found_by(2, worker.__file__, "outsider", "float64", tmp_path)
    assert inside == 1  # also for a copy of the optimizer
    assert outside == "process_group: this process does not belong to it"


@pytest.mark.parametrize("group", ["gloo", [0, 1], 0])
def test_what_is_no_group_is_refused(group):
    with pytest.raises(TypeError, match="process_group must be a group of torch"):
        heavystep.SHBPolyak(make_net().parameters(), process_group=group)


def test_bad_batches_of_one_rank_are_refused_by_all(tmp_path):
    found = found_by(2, worker.__file__, "bad", "float64", tmp_path)
    for name in worker.OPTIONS:
        accepted = [rank[name]["accepted"] for rank in found]
        assert accepted[0] == accepted[1] == [True, False, True, False, True]
        assert torch.equal(found[0][name]["parameters"], found[1][name]["parameters"])
        assert torch.isfinite(found[0][name]["parameters"]).all()


@pytest.mark.parametrize("size", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_groups_of_processes_train_by_themselves(size, tmp_path):
    found = found_by(2 * size, worker.__file__, f"groups of {size}", "float64", tmp_path)
    for name in worker.OPTIONS:
        for group in range(2):
            net = make_net(dtype=torch.float64)
            opt = worker.make(name, net.parameters())
            batches = make_batches(4, dtype=torch.float64)
            taken = worker.train(net, opt, [worker.share(batch, group, 2) for batch in batches])
            for member in found[group * size : (group + 1) * size]:
                torch.testing.assert_close(
                    member[name]["parameters"], worker.whole(net), rtol=0.0, atol=1e-12
                )
                trials = sum(trials for *_, trials in taken)
                assert member[name]["messages"] == (4 + trials if size > 1 else 0)
        assert not torch.equal(found[0][name]["parameters"], found[-1][name]["parameters"])


def test_messages_of_a_step(tmp_path):
    found = found_by(2, worker.__file__, "messages", "float64", tmp_path)
    for rank in found:
        assert rank["SHBPolyak"] == [([(2,)], 0)] * 3
        for messages, trials in rank["SHBArmijo"]:
            assert messages == [(2,)] + [(1,)] * trials
            assert trials > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SHBPolyak", "SHBArmijo", "SLS"])
def test_checkpoints_for_another_number_of_ranks(name, tmp_path):
    """2 -> 1 -> 4."""
    taken = []
    for ranks in (2, 1, 4):
        found = found_by(ranks, worker.__file__, f"stretch {name}", "float64", tmp_path)
        taken += found[0]["taken"]
    assert found[0]["done"] == worker.STEPS
    net = make_net(dtype=torch.float64)
    opt = worker.make(name, net.parameters())
    expected = worker.train(net, opt, make_batches(worker.STEPS, dtype=torch.float64))
    torch.testing.assert_close(found[0]["parameters"], worker.whole(net), rtol=0.0, atol=1e-12)
    assert [trials for *_, trials in taken] == [trials for *_, trials in expected]


@pytest.mark.parametrize("name", [*worker.OPTIONS])
def test_state_is_made_when_a_checkpoint_asks_for_it(name):
    net = make_net()
    opt = worker.make(name, net.parameters())
    before = flat(net).clone()
    state = get_optimizer_state_dict(net, opt)
    assert torch.equal(flat(net), before)
    kinds = {type(group["last_step"]) for group in opt.param_groups if "last_step" in group}
    momentum = opt.param_groups[0]["momentum"]
    assert len(state["state"]) == (len(list(net.parameters())) if momentum else 0)
    if name != "SHB":
        opt.step(lambda: loss_of(net, make_batches(1)[0]))
        # What is a tensor later is one now: a checkpoint tells them apart.
        assert kinds == {type(group["last_step"]) for group in opt.param_groups}
        with pytest.raises((TypeError, ValueError), match=r"needs (the loss|step\(closure\))"):
            opt.step()


def test_one_process_sends_nothing(monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("a message")

    monkeypatch.setattr(torch.distributed, "all_reduce", refuse)
    net = make_net()
    opt = heavystep.SHBArmijo(net.parameters())
    opt.step(lambda: loss_of(net, make_batches(1)[0]))
    assert opt.info.accepted
