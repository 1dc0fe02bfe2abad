"""The closure contract: both styles, loss=, what is left behind, how often it is called."""

import math
import warnings

import pytest
import torch

from heavystep import SHBArmijo, SHBPolyak
from tests.helpers import rounding
from tests.helpers.cases import OPTIMIZERS, every_optimizer, over
from tests.helpers.training import (
    SUMMANDS,
    assert_equal_but_for_rounding,
    flat,
    loss_of,
    make_batches,
    make_net,
    same,
    snapshot,
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
    batch, nets = make_batches(1)[0], [make_net(), make_net()]
    opts = [case.make(net.parameters()) for net in nets]
    for p in nets[1].parameters():
        p.grad = torch.full_like(p, 1e3)
    for opt, net in zip(opts, nets, strict=True):
        opt.step(lambda net=net: loss_of(net, batch))
    assert torch.equal(flat(nets[0]), flat(nets[1]))


@pytest.mark.parametrize("backward", [True, False])
def test_armijo_calls_the_closure_once_and_once_a_trial(backward):
    """And reports the loss before the step."""
    net, batches, modes = make_net(), make_batches(), []
    opt = SHBArmijo(net.parameters(), scaling="practical", max_step=50.0, decrease_factor=0.5)
    for batch in batches:
        modes.clear()
        expected = loss_of(net, batch).item()

        def closure():
            modes.append(torch.is_grad_enabled())
            opt.zero_grad()
            loss = loss_of(net, batch)
            if backward:
                loss.backward()
            return loss

        returned = opt.step(closure)
        assert len(modes) == 1 + opt.info.trials
        # Only a closure that calls backward() itself needs gradients during trials.
        assert modes == [True] + [backward] * opt.info.trials
        # The closure is evaluated at the same point, with or without gradients.
        assert opt.info.loss == pytest.approx(expected, rel=rounding.of_a_sum(SUMMANDS))
        assert returned.item() == opt.info.loss
    assert opt.info.trials >= 1


def test_parameters_move_once_and_come_back_if_the_closure_breaks():
    net, batch = make_net(norm=True), make_batches(1)[0]
    opt = SHBArmijo(net.parameters(), buffers=net.buffers())
    opt.step(lambda: loss_of(net, batch))
    before, calls = snapshot(net), []
    state = {k: v.clone() for k, v in opt.state[net[0].weight].items()}

    def interrupted():
        calls.append(None)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return loss_of(net, batch)

    with pytest.raises(KeyboardInterrupt):
        opt.step(interrupted)
    for name, value in net.named_parameters():
        assert torch.equal(value, before[name]), name
    assert same(state, opt.state[net[0].weight])
    assert all(p.grad is not None for p in net.parameters())
    assert int(net[1].num_batches_tracked) == 2  # the batch was seen, once


@over([case for case in OPTIMIZERS if case.needs_closure])
def test_gradient_accumulation_in_a_closure(case):
    """Mean loss and mean gradient over micro-batches are one batch; see also hand_over."""
    (x, y), nets = make_batches(1)[0], [make_net(), make_net()]
    halves = [(x[:8], y[:8]), (x[8:], y[8:])]
    opts = [case.make(net.parameters()) for net in nets]
    for _ in range(4):
        take_step(opts[0], nets[0], (x, y), case)

        def closure():
            opts[1].zero_grad()
            total = 0.0
            for half in halves:
                loss = loss_of(nets[1], half) / 2
                loss.backward()
                total += loss.detach()
            return total

        opts[1].step(closure)
    assert_equal_but_for_rounding(*nets, steps=4)


@pytest.mark.parametrize(
    "bound", [float("nan"), float("inf"), torch.tensor(float("nan")), torch.tensor(-math.inf)]
)
@over([case for case in OPTIMIZERS if case.bounded])
def test_a_bound_that_is_no_number_harms_nothing(case, bound):
    net, batch = make_net(), make_batches(1)[0]
    opt = case.make(net.parameters())
    before = snapshot(net)
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
    assert same(before, net.state_dict())


@pytest.mark.parametrize("bound", ["low", torch.ones(2), [1.0]])
def test_a_bound_must_be_one_number(bound):
    net, batch = make_net(), make_batches(1)[0]
    for cls in (SHBPolyak, SHBArmijo):
        opt = cls(net.parameters())
        with pytest.raises(TypeError, match=r"lower_bound \(f_star\) must be a real number"):
            opt.step(lambda: loss_of(net, batch), lower_bound=bound)


@over([case for case in OPTIMIZERS if not case.bounded])
def test_a_bound_that_means_nothing_is_refused(case):
    net, batch = make_net(), make_batches(1)[0]
    with pytest.raises(TypeError, match="lower_bound means nothing"):
        take_step(case.make(net.parameters()), net, batch, case, lower_bound=0.0)


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
    net = make_net()
    opt = case.make(net.parameters())
    call, error, message = MISUSE[mistake]
    if mistake in ("nothing", "None") and not case.adaptive:
        pytest.skip("a fixed step needs no loss")
    if mistake in ("nothing", "loss as closure") and case.needs_closure:
        error, message = TypeError, r"needs step\(closure\); SHBPolyak works with"
    before = snapshot(net)
    with pytest.raises(error, match=message):
        call(opt)
    assert same(before, net.state_dict())


def test_a_search_takes_no_loss_alone():
    opt = SHBArmijo(make_net().parameters())
    for call in (opt.step, opt.hand_over):
        with pytest.raises(TypeError, match=r"needs step\(closure\); SHBPolyak works with"):
            call(loss=torch.tensor(1.0))


def test_clipped_gradients_are_direction_and_norm():
    net, batch = make_net(), make_batches(1)[0]
    opt = SHBPolyak(net.parameters(), scaling="plain", c=2.0, max_step=1e6)
    loss = loss_of(net, batch)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 0.01)
    old = flat(net)
    opt.step(loss=loss)
    assert float(opt.info.grad_sqnorm) == pytest.approx(0.01**2, rel=1e-3)
    assert float(opt.info.step) == pytest.approx(0.5 * loss.item() / 0.01**2, rel=1e-3)
    grad = torch.cat([p.grad.reshape(-1) for p in net.parameters()])
    torch.testing.assert_close(flat(net), old - float(opt.info.step) * grad)
