"""A captured step of every method is its step: on a CPU in parts, on a GPU replayed."""

import pytest
import torch

from tests.helpers.captured import Run, both_runs, plain_step
from tests.helpers.cases import every_row
from tests.helpers.training import DEVICES, equal_states, flat, make_batches

every_device = pytest.mark.parametrize("device", DEVICES)
COUNT = 7
"""Three calls warm up, and the others are replayed."""


def maker(case, **options):
    def make(net):
        guarded = {"buffers": net.buffers()} if case.needs_closure else {}
        return case.make(net.parameters(), **guarded, **options)

    return make


@every_device
@every_row
def test_equals_the_plain_loop(case, device):
    plain, other, (expected, found) = both_runs(maker(case), device, dropout=0.4, count=COUNT)
    for one, another in zip(expected, found, strict=True):
        assert another == pytest.approx(one, rel=1e-9)
    torch.testing.assert_close(flat(plain.net), flat(other.net), rtol=1e-9, atol=1e-12)
    for one, another in zip(plain.net.buffers(), other.net.buffers(), strict=True):
        torch.testing.assert_close(one, another, rtol=1e-9, atol=1e-12)


@every_device
@every_row
def test_a_bad_batch_changes_nothing(case, device):
    run = Run(maker(case), device)
    step = run.captured()
    for k, (x, y) in enumerate(make_batches(COUNT, dtype=torch.float64)):
        bad = k in (1, COUNT - 2)  # in the warm-up, and replayed
        run.load((torch.full_like(x, torch.nan) if bad else x, y))
        before = flat(run.net).clone(), [b.clone() for b in run.net.buffers()]
        kept = {name: float(run.opt.param_groups[0][name]) for name in case.method.rule.memory}
        step()
        assert bool(run.opt.info.accepted) is not bad
        assert torch.equal(flat(run.net), before[0]) is bad
        if bad:
            now = {name: float(run.opt.param_groups[0][name]) for name in kept}
            assert equal_states(now, kept)
            for buffer, value in zip(run.net.buffers(), before[1], strict=True):
                buffer.copy_(value)  # a step that never waits for the device cannot know in time
    assert torch.isfinite(flat(run.net)).all()


@every_device
@every_row
def test_options_and_states_may_change(case, device):
    plain, other = (Run(maker(case, weight_decay=0.1), device) for _ in range(2))
    step = other.captured(warmup=1)
    for k, batch in enumerate(make_batches(COUNT, dtype=torch.float64)):
        for run in (plain, other):
            run.load(batch)
            if k == 2:
                run.opt.param_groups[0]["lr"] *= 0.5
            if k == 4:
                run.opt.load_state_dict(run.opt.state_dict())
        plain_step(plain.opt, plain.net, plain.batch)
        step()
        torch.testing.assert_close(flat(plain.net), flat(other.net), rtol=1e-9, atol=1e-12)
