"""Averaged heavy ball: what it is made of, and what it is for."""

import numpy as np
import pytest
import torch

from heavystep import SHBPolyak
from heavystep.methods import METHODS, Method
from heavystep.momentum import AVERAGED, HEAVY_BALL
from heavystep.optim.optimizer import RuleOptimizer
from heavystep.rules import POLYAK, STEADY_POLYAK
from heavystep.rules.steady_polyak import momentum_of
from tests.conformance.test_steady import noisy_regression


def with_form(form):
    """Steady Polyak steps that move parameters so."""
    method = Method("Unnamed", "", "", STEADY_POLYAK, form)
    kind = type("Unnamed", (RuleOptimizer,), {"method": method})
    return lambda params: kind(params, {})


def test_a_gradient_moves_it_as_heavy_ball_and_the_lead_tells_the_average():
    """Theta is (1 - beta) z + beta x all the time, so that x is theta - (1 - beta) (z - x)."""
    beta, z, x, theta, lead = 0.8, 3.0, 3.0, 3.0, 0.0
    for k, gradient in enumerate((1.0, -0.5, 2.0, 0.25)):
        weight = 2.0 / (k + 2.0)
        motion, lead = AVERAGED.move(lead, gradient, 0.1, beta, weight)
        theta += motion
        z -= 0.1 * gradient / (1 - beta)
        x += weight * (z - x)
        assert theta == pytest.approx((1 - beta) * z + beta * x)
        assert theta - (1 - beta) * lead == pytest.approx(x)


def test_an_average_of_the_last_point_alone_is_gradient_descent():
    motion, lead = AVERAGED.move(0.0, 2.0, 0.1, 0.9, 1.0)
    assert (motion, lead) == (pytest.approx(-2.0), 0.0)
    assert AVERAGED.move(0.7, 2.0, 0.1, 0.0, 0.3)[0] == -0.2


def test_the_last_iterate_is_calm():
    """What it is for: the excess over the noise of the targets, without an average beside it."""
    floor = 0.3**2
    calm, wandering = (
        noisy_regression(with_form(form), steps=1500)[0][1000:].mean() - floor
        for form in (AVERAGED, HEAVY_BALL)
    )
    assert calm < 0.5 * wandering


def variance(form, damping, weight, curvature, reach):
    """Of theta on a quadratic with noise in its gradients: the Lyapunov equation of a step, solved."""

    def moved(theta, buffer, noise):
        gradient = curvature * theta + noise
        motion, buffer = form.move(buffer, gradient, reach * damping, 1.0 - damping, weight)
        return theta + motion, buffer

    one = np.array([moved(1.0, 0.0, 0.0), moved(0.0, 1.0, 0.0)]).T
    noise = np.array(moved(0.0, 0.0, 1.0))
    return np.linalg.solve(np.eye(4) - np.kron(one, one), np.kron(noise, noise))[0]


@pytest.mark.parametrize(
    ("damping", "weight", "curvature"),
    [(0.1, 1.5e-3, 0.1), (0.1, 1.5e-4, 0.01), (0.02, 4e-3, 0.05), (0.4, 1e-3, 0.02)],
)
def test_how_calm_it_is_on_a_quadratic(damping, weight, curvature):
    """Its variance over heavy ball's, as the notes on runs on a GPU have it.

    With curvature h, points that go s along a gradient and constant weights w the ratio is
    (w + (1 - beta)^2 s h) / (w + (1 - beta) s h) as s h and w go to 0; what is left out are terms
    of these sizes, relatively. Halved, they halve the difference.
    """
    reach, differences = 0.7, []
    for scale in (1.0, 0.5):
        w, h = scale * weight, scale * curvature
        calm = (w + damping**2 * reach * h) / (w + damping * reach * h)
        mild, heavy = (variance(form, damping, w, h, reach) for form in (AVERAGED, HEAVY_BALL))
        differences.append(abs(mild / heavy / calm - 1.0))
    assert differences[0] < reach * curvature + weight
    assert differences[1] < 0.55 * differences[0]


def test_weight_decay_goes_as_far_as_a_gradient():
    """The fixed points of heavy ball whose gradient holds the decay, as torch.optim.SGD has it."""
    decay, curvature, centre = 0.25, 2.0, 3.0
    theta, lead = torch.tensor(-1.0, dtype=torch.float64), 0.0
    for _ in range(4000):
        gradient = curvature * (theta - centre)
        motion, lead = AVERAGED.move(lead, gradient, 1e-3, 0.9, 0.05)
        theta = AVERAGED.shrink(1e-3, 0.9, decay) * theta + motion
    # The proximal step is short of the decay by 1e-2 * 0.25 of it, theta by a ninth of that.
    assert float(theta) == pytest.approx(curvature * centre / (curvature + decay), rel=5e-4)


@pytest.mark.parametrize("step", [1e-12, 0.3, 1e6, 1e30])
def test_weight_decay_never_turns_a_parameter_round(step):
    assert 0.0 <= AVERAGED.shrink(step, 0.9, 0.1) < 1.0


def test_no_momentum_stays_none_while_the_loss_falls():
    """Points that go further would need some: the rule sets a momentum of its own else."""
    theta = torch.tensor([3.0, -1.0], dtype=torch.float64, requires_grad=True)
    opt = SHBPolyak([theta], momentum=0.0)
    for _ in range(200):
        before = theta.detach().clone()
        opt.step(lambda: (theta**2).sum())
        torch.testing.assert_close(theta.detach(), before - opt.info.step * theta.grad)


def test_while_the_loss_falls_the_iterate_is_nearer_to_the_average():
    """The share (1 - beta) of the lead that theta has is what points go further by."""
    constants = STEADY_POLYAK.Constants(
        **dict.fromkeys(STEADY_POLYAK.constants, 0.0)
        | {"damping": 0.1, "outlook": 3.0, "reach": 4.0}
    )
    memory = STEADY_POLYAK.Memory(**{**STEADY_POLYAK.memory, "steps": 500.0, "fast": 1.0})
    cases = [(1.1, 1000.0, 1.0), (1.5, 1000.0, 1.5), (2.0, 1000.0, 2.5), (2.0, 0.0, 1.0)]
    for slow, count, further in cases:
        found = momentum_of(constants, memory._replace(slow=slow, averaged=count), 0.0)
        assert found == pytest.approx(1.0 - 0.1 / further)
    # Ways of more than thirty steps are the user's own.
    falling = memory._replace(slow=2.0, averaged=1e9)
    for damping, longest in ((0.1, 30.0), (0.05, 30.0), (0.01, 100.0)):
        found = momentum_of(constants._replace(damping=damping), falling, 0.0)
        assert found == pytest.approx(1.0 - 1.0 / longest)


def test_paper_rules_keep_heavy_ball():
    method = METHODS["SHBPolyak"]
    assert method.form is AVERAGED
    for scaling in ("theory", "practical", "plain"):
        assert method.chosen({"scaling": scaling}).form is HEAVY_BALL


def test_a_form_that_averages_needs_a_rule_that_says_how():
    with pytest.raises(ValueError, match="momentum form averages, and its rule does not say how"):
        Method("Unnamed", "", "", POLYAK, AVERAGED)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_fused_and_plain_paths_agree_where_a_batch_is_refused(dtype, decay):
    """The fourth batch is NaN: it changes nothing, to the bit, and does not count in the average."""
    made = METHODS["SHBPolyak"]
    kind = type("Fused", (RuleOptimizer,), {"method": made})
    start = torch.linspace(-1.0, 2.0, 5000, dtype=dtype)
    thetas = [start.clone().requires_grad_(True) for _ in range(2)]
    opts = [
        kind([theta], {"weight_decay": decay})
        for theta, foreach in zip(thetas, (True, False), strict=True)
    ]
    for k in range(40):
        for theta, opt in zip(thetas, opts, strict=True):
            before, lead = theta.detach().clone(), opt.state.get(theta, {}).get("lead")
            lead = None if lead is None else lead.clone()
            spoilt = float("nan") if k == 3 else 1.0
            opt.step(lambda t=theta, s=spoilt: s * ((t - 0.5) ** 2).mean())
            if k == 3:
                assert torch.equal(theta, before)
                assert torch.equal(opt.state[theta]["lead"], lead)
    # Each step adds a few roundings of numbers of size 2; steps shrink distances, never add to them.
    tolerance = 40 * 8 * torch.finfo(dtype).eps
    torch.testing.assert_close(*thetas, rtol=0, atol=tolerance)
    assert float(opts[0].param_groups[0]["averaged"]) == 39.0
