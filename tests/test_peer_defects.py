"""Defects of related implementations, one test each, that must never become ours.

Others have their test where they belong: resume in ``optim/test_state.py``, copies, None and
group values in ``test_parameters.py``, NaN, zero loss and zero gradient in ``test_failure.py``,
random streams and BatchNorm in ``test_replay.py``, ranks that take steps of their own in
``distributed/test_ranks.py``, momentum that is not heavy ball in ``conformance/``.
"""

import math
import warnings
from functools import cache, partial
from itertools import pairwise

import pytest
import torch

from tests.helpers.cases import OPTIMIZERS, every_optimizer, every_row, others_of, over
from tests.helpers.training import Run, make_batches

BASES = (
    {},
    {"scaling": "practical", "steps_per_epoch": 2, "growth": 1.5, "max_step": 3.0,
     "first_step": 0.01, "weight_decay": 0.05},
    {"steps_per_epoch": 2, "growth": 1.5, "max_step": 50.0, "c": 0.9, "weight_decay": 0.05},
    {"diagonal": None},
)  # fmt: skip
"""What modifies something needs something to modify: a decay, a cap, a reset or a search that bites,
and the rule that it belongs to."""
MORE_VALUES = {"max_step": [1e-4], "first_step": [1e-4], "loss_eps": [0.2], "steps_per_epoch": [3]}


def trajectory(case, options, count):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # max_trials=1 fails searches
        return Run(case.make, **case.taken(**options)).train(make_batches(count)).theta


def acts(case, options, count, plain):
    """True if options change a trajectory. Refused, they do not, but nobody trusts in them."""
    try:
        return not torch.equal(trajectory(case, options, count), plain())
    except ValueError as error:
        if "has no effect" not in str(error) and "needs diagonal=None" not in str(error):
            raise
        return False


@every_row
def test_every_argument_acts(case):
    """Accepted but unused arguments: weight_decay, f_star, nesterov, per-group values."""
    plain = cache(lambda base, count: trajectory(case, BASES[base], count))
    for option in (*case.method.options, case.option("weight_decay"), case.option("decay")):
        if option is None or (option.name == "lower_bound" and case.needs_closure):
            continue  # there it only saves evaluations: tested to change no step
        assert any(
            acts(case, {**base, option.name: value}, count, partial(plain, k, count))
            for count in (6, 40, 150)  # some show late
            for value in MORE_VALUES.get(option.name, []) + others_of(option)
            for k, base in enumerate(BASES)
        ), option.name


def bowl(theta, height=0.0):
    """Off-centre and anisotropic, with its minimum at that height."""
    weights = torch.tensor([1.0, 0.3], dtype=theta.dtype)
    return (weights * (theta - torch.tensor([3.0, -1.0])) ** 2).sum() + height


def start():
    return torch.tensor([1.0, 0.5], dtype=torch.float64, requires_grad=True)


VANISHED = {
    "zero gradient": lambda theta: (0.0 * theta).sum() + 1.0,
    "zero loss and gradient": lambda theta: (0.0 * theta).sum(),
    "loss below its bound": lambda theta: bowl(theta) - bowl(theta).detach() - 1.0,
    "bad": lambda theta: bowl(theta) * math.nan,
}


@every_optimizer
@pytest.mark.parametrize("what", VANISHED)
@pytest.mark.parametrize("first", [0, 2])
@pytest.mark.filterwarnings("ignore:line search failed")  # it may, below the least loss
@pytest.mark.filterwarnings("ignore:the gradient has norm")  # as the point is always the same
def test_no_step_is_absorbing(case, what, first):
    """A step of 0 that is remembered, and from which no factor leads away."""
    theta, twin = start(), start()
    options = case.taken(lower_bound=0.0)
    opt, usual = (case.make([each], **options) for each in (theta, twin))
    for _ in range(first):
        opt.step(lambda: bowl(theta))
    for _ in range(3):
        opt.step(lambda: VANISHED[what](theta))
    for _ in range(first + 1):
        with torch.no_grad():
            twin.copy_(start())
        usual.step(lambda: bowl(twin))
    steps = []
    for _ in range(30):  # in which an average forgets
        with torch.no_grad():
            theta.copy_(start())
        opt.step(lambda: bowl(theta))
        assert opt.info.accepted
        steps.append(float(opt.info.step))
    assert max(steps) > 0.01 * float(usual.info.step) > 0.0


@pytest.mark.parametrize("case", [c for c in OPTIMIZERS if c.adaptive], ids=lambda case: case.id)
def test_no_loss_makes_a_step_uphill(case):
    """Without a clip at 0, a loss below its bound gives a negative step."""
    for height in (-100.0, -float(bowl(start().detach())), -4.0, -1.0, 0.0):
        theta = start()
        before = theta.detach().clone()
        opt = case.make([theta], **case.taken(lower_bound=0.0))
        opt.step(lambda: bowl(theta, height))
        assert opt.info.accepted
        assert 0.0 <= float(opt.info.step) < math.inf
        assert float(theta.grad @ (theta.detach() - before)) <= 0.0
        loss = float(bowl(before, height))
        stays = loss == 0.0 if case.estimates else loss <= 0.0
        if case.bounded:
            assert torch.equal(theta, before) == stays


@over([case for case in OPTIMIZERS if case.takes("decay")])
def test_decay_in_the_objective_is_a_loss_with_a_penalty(case):
    """Penalties that reach the gradient and not the loss, nor the trials."""
    thetas = [start(), start()]
    opts = [
        case.make([thetas[0]], weight_decay=0.25, decay="objective"),
        case.make([thetas[1]]),
    ]
    for _ in range(4):
        opts[0].step(lambda: bowl(thetas[0]))
        opts[1].step(lambda: bowl(thetas[1]) + 0.125 * (thetas[1] ** 2).sum())
        assert float(opts[0].info.step) == pytest.approx(float(opts[1].info.step), rel=1e-9)
    torch.testing.assert_close(*thetas, rtol=1e-9, atol=1e-9)


@over([case for case in OPTIMIZERS if case.takes("growth")])
@pytest.mark.filterwarnings("ignore:the gradient has norm")
def test_a_step_that_shrank_grows_again_as_fast_as_it_may(case):
    """A step that can only shrink."""
    theta = start()
    opt = case.make([theta], steps_per_epoch=4, **case.taken(momentum=0.0))
    steps = []

    def steep():
        return 5000.0 * bowl(theta)

    def low():
        return bowl(theta) - bowl(theta).detach() + 1e-5

    shrinking = steep if case.needs_closure else low
    for closure in [lambda: bowl(theta), shrinking, *[lambda: bowl(theta)] * 60]:
        with torch.no_grad():
            theta.copy_(start())
        opt.step(closure)
        steps.append(float(opt.info.step))
    factor = opt.param_groups[0]["growth"] ** (1 / 4)
    assert steps[1] < 0.1 * steps[0]
    if not case.takes("increase_factor"):  # of searches that also go upwards
        assert all(b <= a * factor * (1 + 1e-9) for a, b in pairwise(steps[1:]))
    assert steps[-1] > 10.0 * steps[1]


@over([case for case in OPTIMIZERS if case.needs_closure])
def test_all_groups_are_searched_together(case):
    """Searching one group after another compares a stale loss with a moved point."""
    a, b = (torch.tensor([x], dtype=torch.float64, requires_grad=True) for x in (2.0, 5.0))
    opt = case.make([{"params": [a]}, {"params": [b]}])
    for _ in range(3):
        seen = []

        def loss():
            seen.append(torch.cat((a, b)).detach().clone())
            return (a**2 + 9.0 * b**2).sum()

        opt.step(loss)
        moves = [point - seen[0] for point in seen[1:]]
        for move in moves:
            assert (move != 0.0).all()
            torch.testing.assert_close(move[0] / move[1], moves[0][0] / moves[0][1])
