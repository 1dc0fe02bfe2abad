"""The closure contract: both styles, loss=, what is left behind, how often it is called."""

import math
import warnings

import pytest
import torch

from heavystep import SHB, SHBArmijo, SHBPolyak
from tests.helpers import rounding
from tests.helpers.cases import OPTIMIZERS, every_optimizer, over
from tests.helpers.training import (
    SUMMANDS,
    Run,
    assert_equal_but_for_rounding,
    equal_states,
    flat,
    loss_of,
    make_batches,
    make_net,
    state_of,
    take_step,
)


def styles(opt, net, batch):
    """Every way of handing over the same batch."""

    def closure(*zeroed, backward=True, give=lambda loss: loss):
        def evaluate():
            for owner in zeroed:
                owner.zero_grad(set_to_none=False)
            if backward and not zeroed:
                opt.zero_grad()
            loss = loss_of(net, batch)
            if backward:
                loss.backward()
            return give(loss)

        return evaluate

    return (
        closure(backward=False),
        closure(),
        closure(opt),
        closure(opt, backward=False),
        closure(net, backward=False),
        closure(net, opt, backward=False),
        closure(give=lambda loss: loss.detach()),
        closure(give=lambda loss: loss.item()),
        closure(backward=False, give=lambda loss: loss.reshape(1)),
    )


@every_optimizer
@pytest.mark.parametrize("style", range(9))
def test_every_closure_style_gives_the_same_run(case, style):
    batches, nets = make_batches(4), [make_net(), make_net()]
    opts = [case.make(net.parameters()) for net in nets]
    apart = rounding.of_a_run(len(batches), SUMMANDS, 1.0)
    for batch in batches:
        expected = take_step(opts[0], nets[0], batch, case)
        closure = styles(opts[1], nets[1], batch)[style]
        loss = opts[1].step(closure)
        assert float(loss) == pytest.approx(float(expected), rel=apart)
        if isinstance(loss, torch.Tensor):
            assert not loss.requires_grad
    assert_equal_but_for_rounding(*nets, steps=len(batches))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for p, q in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad, rtol=0.0, atol=apart)


@every_optimizer
def test_stale_gradients_do_not_enter_a_closure_without_backward(case):
    batches, runs = make_batches(1), [Run(case.make), Run(case.make)]
    for p in runs[1].net.parameters():
        p.grad = torch.full_like(p, 1e3)
    assert torch.equal(*(run.train(batches).theta for run in runs))


@every_optimizer
@pytest.mark.parametrize("backward", [True, False])
def test_a_batch_is_evaluated_once_and_once_a_trial(case, backward):
    """And the loss that is told is that before the step; parameters keep their memory."""
    net, modes = make_net(norm=True), []
    guarded = {"buffers": net.buffers()} if case.needs_closure else {}
    opt, places = case.make(net.parameters(), **guarded), [p.data_ptr() for p in net.parameters()]
    for count, batch in enumerate(make_batches(3), 1):
        modes.clear()
        losses = []

        def closure(batch=batch, losses=losses):
            modes.append(torch.is_grad_enabled())
            opt.zero_grad()
            loss = loss_of(net, batch)
            if backward:
                loss.backward()
            losses.append(loss.item())
            return loss

        returned = opt.step(closure)
        # Only a closure that calls backward() itself needs gradients during trials.
        assert modes == [True] + [backward] * opt.info.trials
        assert float(returned) == float(opt.info.loss) == losses[0]
        assert int(net[1].num_batches_tracked) == count
    assert (opt.info.trials >= 1) == case.needs_closure
    assert [p.data_ptr() for p in net.parameters()] == places


def test_parameters_move_once_and_come_back_if_the_closure_breaks():
    net, batch = make_net(norm=True), make_batches(1)[0]
    opt = SHBArmijo(net.parameters(), buffers=net.buffers())
    opt.step(lambda: loss_of(net, batch))
    before, state, calls = flat(net), state_of(opt), []

    def interrupted():
        calls.append(None)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return loss_of(net, batch)

    with pytest.raises(KeyboardInterrupt):
        opt.step(interrupted)
    assert torch.equal(flat(net), before)
    assert equal_states(state_of(opt), state)
    assert all(p.grad is not None for p in net.parameters())
    assert int(net[1].num_batches_tracked) == 2  # the batch was seen, once


@over([case for case in OPTIMIZERS if case.needs_closure])
def test_gradient_accumulation_in_a_closure(case):
    """Mean loss and mean gradient over micro-batches are one batch; see also hand_over."""
    (x, y), whole, run = make_batches(1)[0], Run(case.make), Run(case.make)

    def closure():
        run.opt.zero_grad()
        total = 0.0
        for half in ((x[:8], y[:8]), (x[8:], y[8:])):
            loss = loss_of(run.net, half) / 2
            loss.backward()
            total += loss.detach()
        return total

    for _ in range(4):
        whole.step((x, y))
        run.opt.step(closure)
    assert_equal_but_for_rounding(whole.net, run.net, steps=4)


@pytest.mark.parametrize(
    "bound", [math.nan, math.inf, torch.tensor(math.nan), torch.tensor(-math.inf)]
)
@over([case for case in OPTIMIZERS if case.bounded])
def test_a_bound_that_is_no_number_harms_nothing(case, bound):
    net, batch = make_net(), make_batches(1)[0]
    opt = case.make(net.parameters())
    before = flat(net)
    if bound == -math.inf and case.option("lower_bound").optional and not case.needs_closure:
        take_step(opt, net, batch, case, lower_bound=bound)  # it says that none is known
        assert opt.info.accepted
        assert torch.isfinite(flat(net)).all()
        return
    if case.needs_closure or not isinstance(bound, torch.Tensor):
        with pytest.raises(ValueError, match=r"lower_bound \(f_star\) must be finite, got"):
            take_step(opt, net, batch, case, lower_bound=bound)
    else:
        take_step(opt, net, batch, case, lower_bound=bound)  # cannot be read without waiting
        assert not opt.info.accepted
    assert torch.equal(flat(net), before)


@every_optimizer
@pytest.mark.parametrize("bound", ["low", torch.ones(2), [1.0]])
def test_a_bound_must_be_one_number_and_mean_something(case, bound):
    message = r"lower_bound \(f_star\) must be a real number" if case.bounded else "means nothing"
    with pytest.raises(TypeError, match=message):
        take_step((run := Run(case.make)).opt, run.net, make_batches(1)[0], case, lower_bound=bound)


MISUSE = {
    "nothing": (lambda o: o.step(), ValueError, r"needs the loss: call step\(loss=loss\)"),
    "both": (lambda o: o.step(lambda: 1.0, loss=1.0), ValueError, "a closure or loss=, not both"),
    "loss as closure": (lambda o: o.step(torch.tensor(1.0)), TypeError, "closure must be callable"),
    "None": (lambda o: o.step(lambda: None), TypeError, "must end with 'return loss'"),
    "vector": (lambda o: o.step(lambda: torch.ones(3)), ValueError, r"one number, got shape \(3,\)"),
    "string": (lambda o: o.step(lambda: "low"), TypeError, "number or a 0-dim tensor, got 'low'"),
    "complex": (lambda o: o.step(lambda: torch.tensor(1j)), TypeError, "real number, got dtype"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISUSE)
@every_optimizer
def test_misuse_of_step(case, mistake):
    run = Run(case.make)
    before, (call, error, message) = run.theta, MISUSE[mistake]
    if mistake in ("nothing", "None") and not case.adaptive:
        pytest.skip("a fixed step needs no loss")
    if mistake in ("nothing", "loss as closure") and case.needs_closure:
        error, message = TypeError, r"needs step\(closure\); SHBPolyak works with"
    with pytest.raises(error, match=message):
        call(run.opt)
    assert torch.equal(run.theta, before)


def test_a_search_takes_no_loss_alone():
    opt = SHBArmijo(make_net().parameters())
    for call in (opt.step, opt.hand_over):
        with pytest.raises(TypeError, match=r"needs step\(closure\); SHBPolyak works with"):
            call(loss=torch.tensor(1.0))


def test_a_fixed_step_needs_no_loss_of_a_closure():
    runs = [Run(SHB, lr=0.1), Run(SHB, lr=0.1)]
    for batch in make_batches(3):

        def closure(batch=batch):
            runs[0].opt.zero_grad()
            loss_of(runs[0].net, batch).backward()

        assert runs[0].opt.step(closure) is None
        runs[1].step(batch)
    assert torch.equal(runs[0].theta, runs[1].theta)
    assert runs[0].opt.info.loss is None


@pytest.mark.parametrize("make", [SHBPolyak, SHBArmijo, lambda params: SHB(params, lr=0.1)])
def test_a_loss_that_was_used_up_is_told(make):
    run = Run(make)
    before, loss = run.theta, loss_of(run.net, make_batches(1)[0])
    loss.backward()
    message = r"backward\(\) was called before: call step\(loss=loss\)"
    with pytest.raises(RuntimeError, match=message):
        run.opt.step(lambda: loss)
    assert torch.equal(run.theta, before)
