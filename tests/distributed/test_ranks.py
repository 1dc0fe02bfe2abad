"""Several real processes take the steps of one that has the whole batch, and all the same ones."""

import re
from functools import cache

import pytest
import torch
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

from heavystep import SHBPolyak
from tests.distributed import worker
from tests.helpers import rounding
from tests.helpers.averaged import literal
from tests.helpers.cases import every_row
from tests.helpers.launch import found_by
from tests.helpers.training import SUMMANDS, flat, loss_of, make_batches, make_net

ON_TWO = ["ddp/float64", "ddp/float32", "fsdp/float64", "fsdp/float32", "fsdp root/float64"]
ON_FOUR = ["hsdp/float64", "ddp/float64", "fsdp/float64"]
OTHERS_ON_TWO = ["normed/float64", "outsider/float64", "bad/float64", "groups of 1/float64"]
OF_EVERY_ROW = ["every row ddp/float64", "every row fsdp/float64"]
AVERAGED = ["averaged ddp/float64", "averaged fsdp/float64", "averaged fsdp root/float64"]
OTHERS_ON_TWO += AVERAGED
OTHERS_ON_TWO += ["disagreeing/float32", "own/float32", "warned/float64", "bounded/float64"]
CASES = [(2, job) for job in ON_TWO]
CASES += [pytest.param(4, job, marks=pytest.mark.slow) for job in ON_FOUR]


@pytest.fixture(scope="module")
def found_on(tmp_path_factory):
    """What each of so many ranks found in a job; few processes do many jobs, the long ones apart."""
    together = {
        2: (ON_TWO + OTHERS_ON_TWO, OF_EVERY_ROW),
        4: ([*ON_FOUR, "groups of 2/float64", "own/float32"],),
    }

    @cache
    def found(ranks, place):
        jobs = together[ranks][place]
        return found_by(ranks, worker.__file__, *jobs, tmp_path_factory.mktemp("ranks"))

    def of(ranks, job):
        (place,) = (i for i, jobs in enumerate(together[ranks]) if job in jobs)
        return [rank[job] for rank in found(ranks, place)]

    return of


def trained_alone(make, dtype, steps=worker.STEPS, device="cpu"):
    """Parameters and steps of one process with the whole batches."""
    net = make_net(dtype=dtype).to(device)
    batches = [[part.to(device) for part in b] for b in make_batches(steps, dtype=dtype)]
    taken = worker.train(net, make(net.parameters()), batches)
    return worker.whole(net).cpu(), taken


@pytest.mark.parametrize(("ranks", "job"), CASES)
def test_ranks_are_one_process_with_the_whole_batch(ranks, job, found_on):
    found = found_on(ranks, job)
    dtype = getattr(torch, job.split("/")[1])
    for name in worker.METHODS:
        parameters, taken = trained_alone(worker.METHODS[name], dtype)
        first = found[0][name]
        tolerance = rounding.of_a_run(worker.STEPS, SUMMANDS, parameters, dtype=dtype)
        torch.testing.assert_close(first["parameters"], parameters, rtol=0.0, atol=tolerance)
        assert [trials for *_, trials in first["taken"]] == [trials for *_, trials in taken]
        for other in found[1:]:  # to the bit
            assert torch.equal(other[name]["parameters"], first["parameters"])
            assert other[name]["taken"] == first["taken"]


@pytest.mark.slow
@pytest.mark.parametrize("job", OF_EVERY_ROW)
@every_row
def test_ranks_take_the_same_steps_with_every_method(case, job, found_on):
    """Those of one process; and one message a step is enough, and one a trial."""
    first, second = (rank[case.id] for rank in found_on(2, job))
    parameters, taken = trained_alone(case.make, torch.float64, worker.STEPS_OF_ROWS)
    torch.testing.assert_close(first["parameters"], parameters, rtol=0.0, atol=1e-11)
    assert torch.equal(first["parameters"], second["parameters"])
    assert first["taken"] == second["taken"]
    for found, expected in zip(first["taken"], taken, strict=True):
        assert found == pytest.approx(expected, rel=1e-9)
    assert first["messages"] == worker.STEPS_OF_ROWS + sum(trials for *_, trials in taken)


def test_the_searches_above_search():
    _, taken = trained_alone(worker.METHODS["SHBArmijo"], torch.float64)
    assert max(trials for *_, trials in taken) > 5


def test_trials_leave_the_statistics_of_each_rank_alone(found_on):
    """BatchNorm sees a rank's share; its statistics are those of rank 0, updated once a step."""
    found = found_on(2, "normed/float64")
    net = make_net(dtype=torch.float64, norm=True)
    opt = worker.make("SHBArmijo", net.parameters(), buffers=net.buffers)
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


def test_every_rank_says_the_same(found_on):
    first, second = found_on(2, "warned/float64")
    assert first == second
    (text,) = first
    assert text.startswith("25 of 25 recent batches had a loss or gradient that is NaN")


def test_a_process_outside_the_group_is_told(found_on):
    inside, outside = found_on(2, "outsider/float64")
    assert inside == 1  # also for a copy of the optimizer
    assert outside == "process_group: this process does not belong to it"


@pytest.mark.parametrize("group", ["gloo", [0, 1], 0])
def test_what_is_no_group_is_refused(group):
    with pytest.raises(TypeError, match="process_group must be a group of torch"):
        SHBPolyak(make_net().parameters(), process_group=group)


def test_bad_batches_of_one_rank_are_refused_by_all(found_on):
    found = found_on(2, "bad/float64")
    for name in worker.METHODS | worker.EVERY_ROW:
        accepted = [rank[name]["accepted"] for rank in found]
        assert accepted[0] == accepted[1] == [True, False, True, False, True]
        assert torch.equal(found[0][name]["parameters"], found[1][name]["parameters"])
        assert torch.isfinite(found[0][name]["parameters"]).all()


@pytest.mark.parametrize("size", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_groups_of_processes_train_by_themselves(size, found_on):
    found = found_on(2 * size, f"groups of {size}/float64")
    for name in worker.METHODS:
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


def test_a_rank_with_other_options_is_noticed_before_it_moves(found_on):
    """A search would otherwise wait for trials that the other rank does not make."""
    for found in found_on(2, "disagreeing/float32"):
        for (name, begins), (text, k) in found.items():
            assert k == begins, name
            ((option, value),) = worker.OTHER_OPTIONS[name].items()
            assert re.search(rf" {option} is \S+ on rank 0 and {float(value)} on rank 1$", text)


OWN = {
    "parameters": "rank {} has other values in its parameters than rank 0",
    "state": "rank {} has other values in its state than rank 0",
    "memory": "age is 2.0 on rank 0 and 1.0 on rank {}",
    "frozen": "rank {} has gradients of other parameters than rank 0",
    "a gradient": "rank {} has gradients of other parameters than rank 0",
    "gradients": "rank {} has gradients of other parameters than rank 0",
    "bound": "on all processes that train together or on none, got it on 1 of",
    "join": "model.join(throw_on_early_termination=True)",
}


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_what_a_rank_has_of_its_own_is_told_on_all_ranks_at_once(ranks, found_on):
    for found in found_on(ranks, "own/float32"):
        assert found.keys() == OWN.keys()
        for what, (text, k, seconds) in found.items():
            assert OWN[what].format(ranks - 1) in text
            assert "\n" not in text
            assert k == (0 if what == "join" else 2)
            assert seconds < 1.0


def test_bounds_of_each_rank_are_averaged_as_losses_are(found_on):
    first, second = found_on(2, "bounded/float64")
    assert first.keys() > {"SHBPolyak", "SHBArmijo"}
    for name in first:
        net = make_net(dtype=torch.float64)
        opt, taken, means = worker.make(name, net.parameters()), [], []
        for k, batch in enumerate(make_batches(4, dtype=torch.float64)):
            mean = (float(worker.own_bound(k, 0)) + float(worker.own_bound(k, 1))) / 2
            opt.step(lambda: loss_of(net, batch), lower_bound=mean)
            taken.append((float(opt.info.step), int(opt.info.trials)))
            means.append(mean)
        assert first[name]["bounds"] == second[name]["bounds"] == pytest.approx(means, rel=1e-6)
        assert first[name]["taken"] == second[name]["taken"]
        assert torch.equal(first[name]["parameters"], second[name]["parameters"])
        for found, expected in zip(first[name]["taken"], taken, strict=True):
            assert found == pytest.approx(expected, rel=1e-9)
        torch.testing.assert_close(first[name]["parameters"], worker.whole(net), rtol=0, atol=1e-11)
        assert first[name]["messages"] == 4 + sum(trials for _, trials in taken)


@pytest.mark.parametrize("job", AVERAGED)
def test_averages_of_ranks_are_those_of_one_process(job, found_on):
    """Also after a checkpoint; training goes on as if no model had had the average."""
    parameters, _ = trained_alone(worker.METHODS["SHBPolyak"], torch.float64, 6)
    net, batches = make_net(dtype=torch.float64), make_batches(6, dtype=torch.float64)
    for rank, found in enumerate(found_on(2, job)):
        iterates = [own for own, *_ in found[0, 6]]
        torch.testing.assert_close(iterates[-1], parameters, rtol=0.0, atol=1e-11)
        for k, (_, lent, loss, messages, put_back) in enumerate(found[0, 6]):
            average = literal(iterates[: k + 1], 8.0)
            torch.testing.assert_close(lent, average, rtol=1e-12, atol=1e-14)
            torch.nn.utils.vector_to_parameters(average, net.parameters())
            expected = loss_of(net, worker.share(batches[k], rank, 2)).item()
            assert loss == pytest.approx(expected, rel=1e-11)
            assert (messages, put_back) == (1, True)
        resumed = found[0, 3] + found[3, 6]
        for (_, lent, *_), (_, expected, *_) in zip(resumed, found[0, 6], strict=True):
            assert torch.equal(lent, expected)


@every_row
def test_state_is_made_when_a_checkpoint_asks_for_it(case):
    def kinds():
        return [type(opt.param_groups[0][name]) for name in case.method.rule.memory]

    net = make_net()
    opt = case.make(net.parameters())
    before = flat(net).clone()
    state = get_optimizer_state_dict(net, opt)
    assert torch.equal(flat(net), before)
    assert all(set(kept) == case.state for kept in state["state"].values())
    assert len(state["state"]) == (len(list(net.parameters())) if case.state else 0)
    made = kinds()
    opt.step(lambda: loss_of(net, make_batches(1)[0]))
    # What is a tensor later is one now: a checkpoint tells them apart.
    assert kinds() == made
    if case.adaptive:
        with pytest.raises((TypeError, ValueError), match=r"needs (the loss|step\(closure\))"):
            opt.step()
