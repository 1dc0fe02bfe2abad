"""A recorder comes and goes, survives failures and travels with nothing."""

import copy
import io
import pickle

import numpy as np
import pytest
import torch

from heavystep import SHBArmijo, SHBPolyak
from heavystep.optim import Recorder
from heavystep.optim import recorder as recorder_module
from tests.helpers.recorded import every_adaptive, quadratic, run, start
from tests.helpers.training import make_batches, make_net, take_step


def test_detach_stops_and_keeps():
    theta = start()
    opt = SHBPolyak([theta])
    with Recorder(opt) as recorder:
        run(opt, theta, 2)
    run(opt, theta, 3)
    assert recorder.record().steps == 2
    recorder.detach()
    assert not opt._optimizer_step_pre_hooks
    assert not opt._optimizer_step_post_hooks


def test_a_record_does_not_follow_the_run():
    theta = start()
    opt = SHBPolyak([theta], scaling="practical")
    recorder = Recorder(opt, iterates=True)
    run(opt, theta, 2)
    early = recorder.record()
    before = early.iterates.copy()
    run(opt, theta, 2)
    assert early.steps == 2
    assert np.array_equal(early.iterates, before)
    assert np.array_equal(recorder.record().iterates[:, :3], before)


def test_long_records_are_packed_without_loss(monkeypatch):
    records = []
    for block in (1024, 3):
        monkeypatch.setattr(recorder_module, "_BLOCK", block)
        theta = start()
        opt = SHBPolyak([theta])
        recorder = Recorder(opt)
        run(opt, theta, 4)
        run(opt, theta, 4, lower_bound=torch.tensor(-1.0))  # numbers and tensors in one column
        records.append(recorder.record())
    assert records[0].steps == 8
    assert records[0].f_star.tolist() == [[0.0] * 4 + [-1.0] * 4]
    for name in ("gamma", "loss", "grad_sqnorm", "f_star", "accepted", "eta", "beta"):
        assert np.array_equal(*(getattr(record, name) for record in records)), name


@pytest.mark.parametrize("iterates", [False, True])
def test_a_step_that_raised_is_not_recorded(iterates):
    theta = start()
    opt = SHBArmijo([theta], scaling="practical", max_step=50.0)
    recorder = Recorder(opt, iterates=iterates)
    calls = 0

    def fails(at):
        nonlocal calls
        calls += 1
        if calls == at:
            raise RuntimeError("out of data")
        return quadratic(theta, 0)

    for at in (1, 2):  # at theta, and at the first trial
        calls = 0
        with pytest.raises(RuntimeError, match="out of data"):
            opt.step(lambda: fails(at))
        with pytest.raises(ValueError, match="nothing recorded"):
            recorder.record()
    run(opt, theta, 2)
    calls = 0
    with pytest.raises(RuntimeError, match="out of data"):
        opt.step(lambda: fails(1))
    with pytest.raises(TypeError, match="closure must be callable, got 3"):
        opt.step(3)
    run(opt, theta, 1)
    record = recorder.record()
    assert record.steps == 3
    if iterates:
        assert record.iterates.shape == (1, 4, 3)
        assert record.gradients.shape == (1, 3, 3)


@every_adaptive
def test_copies_and_checkpoints_know_nothing_of_the_recorder(case):
    net, batches = make_net(), make_batches(4)
    opt = case.make(net.parameters())
    bare = case.make(make_net().parameters()).state_dict()
    assert opt.state_dict().keys() == bare.keys()
    recorder = Recorder(opt)
    assert str(opt.state_dict()) == str(bare)
    take_step(opt, net, batches[0], case)
    buffer = io.BytesIO()
    torch.save(opt.state_dict(), buffer)
    buffer.seek(0)
    torch.load(buffer, weights_only=True)
    twins = (pickle.loads(pickle.dumps(opt)), copy.deepcopy(opt))
    for twin in twins:
        twin.step(lambda: sum((p**2).sum() for g in twin.param_groups for p in g["params"]))
        assert twin.info.accepted
    assert recorder.record().steps == 1
    take_step(opt, net, batches[1], case)
    assert recorder.record().steps == 2


@every_adaptive
def test_a_resumed_run_records_what_the_whole_one_did(case):
    batches = make_batches(8)
    whole = make_net()
    opt = case.make(whole.parameters())
    recorder = Recorder(opt)
    for k, batch in enumerate(batches):
        if k == 5:
            saved = copy.deepcopy((whole.state_dict(), opt.state_dict()))
        take_step(opt, whole, batch, case)
    resumed = make_net(seed=3)
    fresh = case.make(resumed.parameters())
    second = Recorder(fresh)  # before the state is loaded
    resumed.load_state_dict(saved[0])
    fresh.load_state_dict(saved[1])
    for batch in batches[5:]:
        take_step(fresh, resumed, batch, case)
    first, rest = recorder.record(), second.record()
    for name in ("gamma", "loss", "grad_sqnorm"):
        assert np.array_equal(getattr(first, name)[:, 5:], getattr(rest, name)), name
