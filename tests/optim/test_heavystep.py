"""What the default must bear: wild losses, zeros, a change of the task, other units, a wrong bound."""

import math
import statistics

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

from heavystep import HeavyStep, create
from heavystep.optim.measure import Measure
from heavystep.problems import two_samples

METRICS = ("element", "tensor", None)
STEPS, WHEN = 500, 200
FACTOR = 2.0
"""A disturbed run may end at so many times the loss of the undisturbed one, 300 steps later."""


def waves():
    stream = torch.Generator().manual_seed(0)
    x = torch.randn(2000, 8, generator=stream)
    first = torch.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2]
    return x, first, torch.cos(x[:, 3]) + x[:, 4] * x[:, 5]


X, FIRST, SECOND = waves()


def trained(steps, told=None, change=None, diagonal="element", **options):
    """The final loss on all rows; ``told`` replaces losses that the optimizer is told."""
    told = told or {}
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)
    )
    opt = HeavyStep(network.parameters(), diagonal=diagonal, **options)
    stream = torch.Generator().manual_seed(9)
    for k in range(steps):
        target = FIRST if change is None or k < change else SECOND
        rows = torch.randint(len(X), (64,), generator=stream)
        opt.zero_grad()
        loss = mse_loss(network(X[rows]).squeeze(1), target[rows])
        loss.backward()
        opt.step(loss=torch.tensor(told[k]) if k in told else loss)
    with torch.no_grad():
        target = FIRST if change is None else SECOND
        return float(mse_loss(network(X).squeeze(1), target))


@pytest.fixture(scope="module")
def undisturbed():
    return {diagonal: trained(STEPS, diagonal=diagonal) for diagonal in METRICS}


@pytest.mark.parametrize("wild", [-100.0, -1e6, 1e12, 0.0])
@pytest.mark.parametrize(
    "when",
    [range(WHEN, WHEN + 1), range(WHEN, WHEN + 10), range(180, WHEN, 2), range(1), range(10)],
    ids=["one", "ten in a row", "ten, one at a time", "the first", "the first ten"],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # which name what is wrong
def test_wild_losses_do_no_harm(wild, when, undisturbed):
    ended = trained(STEPS, dict.fromkeys(when, wild))
    assert ended < FACTOR * undisturbed["element"]


@pytest.mark.parametrize("diagonal", METRICS)
def test_one_poisoned_loss_in_every_metric(diagonal, undisturbed):
    assert trained(STEPS, {WHEN: -100.0}, diagonal=diagonal) < FACTOR * undisturbed[diagonal]


def test_another_task_late_in_a_run_is_learnt_as_from_the_start():
    late, fresh = trained(2300, change=2000), trained(300, change=0)
    assert late < FACTOR * fresh


@pytest.mark.parametrize("diagonal", METRICS)
def test_an_unknown_bound_does_not_destroy_a_run_that_has_converged(diagonal):
    """Losses reach exactly 0 in float32; the level must neither jump nor freeze."""
    torch.manual_seed(0)
    x, network = torch.randn(256, 10), nn.Linear(10, 3)
    y = (x @ torch.randn(10, 3)).argmax(dim=1)
    opt = HeavyStep(network.parameters(), lower_bound=None, diagonal=diagonal)
    losses = []
    for k in range(3000):
        rows = torch.arange(32) + 32 * (k % 8)
        losses.append(float(opt.step(lambda: cross_entropy(network(x[rows]), y[rows]))))
    assert max(losses[1500:]) < 0.5 * losses[0]
    assert statistics.fmean(losses[-200:]) < 0.05 * losses[0]


@pytest.mark.filterwarnings("ignore:the loss stays below")
@pytest.mark.parametrize("lower_bound", [0.0, None])
@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1.0, 1e12])
@pytest.mark.parametrize("diagonal", METRICS)
def test_a_loss_below_its_bound_in_any_unit(scale, lower_bound, diagonal):
    """s (||t - x||^2/2 - 7): the least loss is negative, and nobody said so."""
    target, weights = torch.tensor([1.0, 2.0, -3.0]), torch.tensor([1.0, 0.5, 2.0])
    theta = torch.tensor([3.0, -1.0, 5.0], dtype=torch.float64, requires_grad=True)
    opt = HeavyStep([theta], lower_bound=lower_bound, diagonal=diagonal)
    for _ in range(1000):
        opt.step(lambda: scale * ((weights * (theta - target)).square().sum() / 2 - 7))
    assert float(opt.info.loss) / scale + 7 < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("diagonal", ["element", None])
def test_the_two_sample_problem_ends_at_the_right_point(diagonal):
    """A step that stays correlated with its sample ends elsewhere, with a gap of 0.3."""
    pytest.importorskip("numba")
    from heavystep.lab import simulate

    runs = simulate(two_samples(), "HeavyStep", seeds=20, iterations=200_000, diagonal=diagonal,
                    grid=np.array([20_000, 200_000]))  # fmt: skip
    gaps = runs.metrics["gap_last"]
    early, late = gaps.mean(axis=0)
    assert early <= 2e-3
    assert late <= 1e-3
    assert gaps.max() <= 1e-2


def moved_by_the_first_step(*params):
    """How far, as a part of sqrt(n), parameters whose gradients promise much."""
    params = [torch.tensor(each, dtype=torch.float64, requires_grad=True) for each in params]
    opt, before = HeavyStep(params, diagonal=None), [each.detach().clone() for each in params]
    for each in params:
        each.grad = 1e-6 * torch.ones_like(each)
    opt.step(loss=1.0)
    square = sum((a.detach() - b).square().sum() for a, b in zip(params, before, strict=True))
    return float(square / sum(each.numel() for each in params)) ** 0.5


def test_no_move_is_longer_than_a_fifth_of_the_mean_size():
    assert moved_by_the_first_step([0.5, -0.5], [1.0, 2.0]) == pytest.approx(0.2, rel=1e-12)
    few_gains = moved_by_the_first_step([0.01] * 9_900, [1.0] * 100)  # which are most of the norm
    assert few_gains == pytest.approx(0.2 * 0.0199, rel=1e-12)


@pytest.mark.parametrize("diagonal", METRICS)
def test_the_size_is_measured_where_it_matters_and_no_step_is_another(diagonal, monkeypatch):
    found, measured = [], []
    size = Measure.size
    monkeypatch.setattr(Measure, "size", lambda *all: measured.append(all) or size(*all))
    for most in (1 << 18, 0):  # elements up to which it is always measured
        monkeypatch.setattr("heavystep.optim.measure.MANY", most)
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
        for weights in network.parameters():  # small ones: trust holds the first moves
            weights.data.mul_(0.5)
        opt, rows = HeavyStep(network.parameters(), diagonal=diagonal), []
        for k in range(100):
            opt.step(lambda: mse_loss(network(X[k::100]), (FIRST, SECOND)[k // 50][k::100, None]))
            rows.append(opt.info.step)
        found.append((rows, len(measured), [weights.tolist() for weights in network.parameters()]))
    (steps, always, ends), (late_steps, both, late_ends) = found
    assert (steps, ends) == (late_steps, late_ends)
    assert always == 100
    assert 1 < both - always < 100


def test_what_begins_at_0_is_stopped_only_if_all_does():
    polyak = 16 / 8.9 * 1.0 / (2 * 1e-12) / 20  # the first of 20 steps of a warm-up
    assert moved_by_the_first_step([0.0, 0.0]) == pytest.approx(1e-6 * polyak, rel=1e-12)
    assert moved_by_the_first_step([0.0, 0.0], [1.0, 1.0]) == pytest.approx(0.1, rel=1e-12)


@pytest.mark.parametrize("certified", [False, True])
def test_gradients_of_0_at_the_start_stop_nothing(certified):
    theta = torch.tensor([3.0, -1.0], dtype=torch.float64, requires_grad=True)
    opt = HeavyStep([theta], diagonal=None, certified=certified)
    for k in range(300):
        opt.zero_grad()
        loss = ((theta - 1.0) ** 2).sum()
        loss.backward()
        if k < 3:
            theta.grad.zero_()
        opt.step(loss=loss)
    assert float(loss.detach()) < 1e-3


@pytest.mark.parametrize("share", [0.03, 0.1, 1.0])
def test_decay_is_a_power_of_the_number_of_steps(share):
    """A weight that no gradient renews falls as k^-lambda, whatever the units of the loss."""
    ends = []
    for scale in (1e-6, 1.0, 1e6):
        idle = torch.tensor([2.0], dtype=torch.float64, requires_grad=True)
        theta = torch.tensor([3.0], dtype=torch.float64, requires_grad=True)
        opt = HeavyStep([idle, theta], weight_decay=share)
        for _ in range(1000):
            opt.step(lambda: (scale * (theta - 1) ** 2 + 0.0 * idle).sum())
        ends.append(float(idle.detach()))
    expected = 2.0 * math.prod(1.0 / (1.0 + share / (k + 9.0)) for k in range(1000))
    assert ends == pytest.approx([expected] * 3, rel=1e-12)
    assert expected == pytest.approx(2.0 * (1009 / 9) ** -share, rel=0.06 * share)


def test_decay_that_eats_the_step_is_told_of_an_averaging_rule_that_does_not_set_it():
    weights = torch.full((3,), 5.0, requires_grad=True)
    opt = create("SFPolyak", [weights], weight_decay=0.1)

    def train():
        for k in range(300):
            opt.step(lambda k=k: ((weights - math.sin(k)) ** 2).sum())

    with pytest.warns(RuntimeWarning, match="little that is older than a hundred steps remains"):
        train()
