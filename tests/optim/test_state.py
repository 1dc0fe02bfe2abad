"""Checkpoints: nothing is lost, and a resumed run is the uninterrupted one to the bit."""

import copy
import io

import pytest
import torch

from heavystep import SHBPolyak
from tests.helpers.cases import case_of, every_kind, every_optimizer
from tests.helpers.training import equal_states, flat, make_batches, make_net, take_step


def through_a_file(state):
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


@every_optimizer
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_resume_is_exact_at_any_step(case, dtype):
    batches = make_batches(6, dtype=dtype)
    net, saved = make_net(dtype=dtype), []
    # The second half must not repeat the constructor's defaults, or their loss goes unseen.
    opt = case.make(net.parameters(), weight_decay=0.01)
    for batch in batches:
        saved.append(through_a_file({"net": net.state_dict(), "opt": opt.state_dict()}))
        take_step(opt, net, batch, case)

    for at in (0, 1, 4):
        resumed = make_net(seed=5, dtype=dtype)
        fresh = case_of(case.method.name, lr=0.7).make(resumed.parameters())
        resumed.load_state_dict(saved[at]["net"])
        fresh.load_state_dict(saved[at]["opt"])
        for batch in batches[at:]:
            take_step(fresh, resumed, batch, case)
        assert torch.equal(flat(net), flat(resumed)), at
        assert float(fresh.info.step) == float(opt.info.step)
        assert equal_states(fresh.state_dict(), opt.state_dict()), at


def test_a_checkpoint_with_other_groups_is_refused():
    opt = SHBPolyak(make_net().parameters())
    first, *rest = make_net().parameters()
    other = SHBPolyak([{"params": [first]}, {"params": rest}])
    with pytest.raises(ValueError, match="different number of parameter groups"):
        opt.load_state_dict(other.state_dict())


@every_kind
@pytest.mark.parametrize("in_place", [False, True])
def test_a_state_that_is_exchanged_in_the_middle_counts(case, in_place):
    """As one that was loaded does."""
    net, batches = make_net(), make_batches(4)
    opt = case.make(net.parameters())
    for batch in batches[:3]:
        take_step(opt, net, batch, case)
    last = list(net.parameters())[-1]
    kept = opt.state[last]
    halves = {name: 0.5 * value for name, value in kept.items()}
    opt.state[last] = kept if in_place else halves
    kept.update(halves if in_place else {})
    twin = copy.deepcopy(net)
    other = case.make(twin.parameters())
    other.load_state_dict(copy.deepcopy(opt.state_dict()))
    take_step(opt, net, batches[3], case)
    take_step(other, twin, batches[3], case)
    assert torch.equal(flat(net), flat(twin))


def test_half_precision_momentum_is_not_rounded_by_a_checkpoint():
    theta = torch.ones(3, dtype=torch.bfloat16, requires_grad=True)
    opt = SHBPolyak([theta])
    theta.grad = torch.tensor([0.1, 0.2, 0.3], dtype=torch.bfloat16)
    opt.step(loss=0.123)
    fresh = SHBPolyak([theta])
    fresh.load_state_dict(through_a_file(opt.state_dict()))
    before, after = (o.state[theta]["displacement"] for o in (opt, fresh))
    assert after.dtype == torch.float32
    assert torch.equal(before, after)
    assert before.data_ptr() != after.data_ptr()
