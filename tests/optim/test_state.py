"""Checkpoints: nothing is lost, and a resumed run is the uninterrupted one to the bit."""

import copy

import pytest
import torch

from tests.helpers.cases import case_of, every_kind, every_optimizer
from tests.helpers.training import Run, equal_states, make_batches


@every_optimizer
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_resume_is_exact_at_any_step(case, dtype):
    batches, saved = make_batches(6, dtype=dtype), []
    # The second half must not repeat the constructor's defaults, or their loss goes unseen.
    run = Run(case.make, {"dtype": dtype}, weight_decay=0.01)
    for batch in batches:
        saved.append(run.saved)
        run.step(batch)
    for at in (0, 1, 4):
        other = Run(case_of(case.method.name, lr=0.7).make, {"dtype": dtype, "seed": 5})
        other.load(saved[at]).train(batches[at:])
        assert torch.equal(other.theta, run.theta), at
        assert float(other.opt.info.step) == float(run.opt.info.step)
        assert equal_states(other.opt.state_dict(), run.opt.state_dict()), at


@every_kind
@pytest.mark.parametrize("in_place", [False, True])
def test_a_state_that_is_exchanged_in_the_middle_counts(case, in_place):
    """As one that was loaded does."""
    *batches, last = make_batches(4)
    run, other = Run(case.make).train(batches), Run(case.make)
    param = list(run.net.parameters())[-1]
    kept = run.opt.state[param]
    halves = {name: 0.5 * value for name, value in kept.items()}
    run.opt.state[param] = kept if in_place else halves
    kept.update(halves if in_place else {})
    other.net.load_state_dict(run.net.state_dict())
    other.opt.load_state_dict(copy.deepcopy(run.opt.state_dict()))
    assert torch.equal(run.train([last]).theta, other.train([last]).theta)
