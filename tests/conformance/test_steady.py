"""Steady steps follow their description in every driver, and have no units."""

import copy
import math
from functools import cache

import numpy as np
import pytest
import torch

from heavystep import SHBAdam, SHBArmijo, SHBPolyak, paper_settings
from heavystep.optim import optimizer_class, torch_primitives
from heavystep.simulation.batch import record_runs
from heavystep.simulation.configuration import configure
from heavystep.simulation.run import Run
from tests import reference_steady as literal
from tests.conformance.test_family import ETA, PROBLEM, SAMPLES, STEPS, close

CAP, OUTLOOK, TOTAL, ALIKE, REACH = 0.3, 1.7, 190, 0.2, 6.0
COMMON = {"lr": ETA, "outlook": OUTLOOK, "total_steps": TOTAL, "max_step": CAP}
POLYAK = {**COMMON, "c": 0.8, "momentum": 0.7, "alike": ALIKE, "reach": REACH}
ADAM = {**POLYAK, "beta2": 0.9, "diagonal_eps": 0.01}
ARMIJO = {**COMMON, "c": 0.4, "decrease_factor": 0.7, "momentum": 0.6}
OWN = {"alike": ALIKE, "reach": REACH}
SHARED = {"outlook": OUTLOOK, "total": TOTAL, "cap": CAP, "eta": ETA}
CASES = {
    "SHBPolyak": (POLYAK, lambda: literal.steady_polyak(0.8, 0.7, **OWN, **SHARED)),
    "SHBAdam": (
        ADAM,
        lambda: literal.steady_polyak(0.8, 0.7, beta2=0.9, eps=0.01, **OWN, **SHARED),
    ),
    "SHBArmijo": (ARMIJO, lambda: literal.steady_armijo(0.4, 0.7, 0.6, **SHARED)),
}
every_case = pytest.mark.parametrize("name", CASES)
KINDS = (SHBPolyak, SHBAdam, SHBArmijo)
FIRST = (SHBPolyak, *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS[1:]))
"""Where runs are long: the other two share its memory, and all but the norm or the search."""


PEAK = dict.fromkeys(range(105, 115), 9.0)
"""Factors of the loss at some steps, so that its averages have a peak."""


def expected(name, samples, factors=PEAK, problem=PROBLEM, step=None):
    """Iterates of the literal loop."""
    theta, step = np.array(problem.theta0), step or CASES[name][1]()
    iterates, searches = [theta], optimizer_class(name).method.rule.searches
    for k, i in enumerate(samples):
        w = factors.get(k, 1.0)
        f, g = w * float(problem.losses(theta, i)), w * problem.gradients(theta, i)
        beside = (lambda x, i=i, w=w: w * float(problem.losses(x, i)),) if searches else ()
        theta = step(theta, f, g, w * problem.f_star[i], *beside)
        iterates.append(theta)
    return np.array(iterates)


def iterated(name, samples, problem=PROBLEM):
    """Iterates and steps of the torch optimizer."""
    theta = torch.tensor(problem.theta0, requires_grad=True)
    opt = optimizer_class(name)([theta], **CASES[name][0])
    iterates, steps = [theta.detach().numpy().copy()], []
    for k, i in enumerate(samples):
        w = PEAK.get(k, 1.0)

        def closure(i=i, w=w):
            point = theta.detach().numpy()
            theta.grad = torch.tensor(w * problem.gradients(point, i))
            return w * float(problem.losses(point, i))

        opt.step(closure, lower_bound=w * float(problem.f_star[i]))
        iterates.append(theta.detach().numpy().copy())
        steps.append(float(opt.info.step))
    return np.array(iterates), steps


@every_case
@pytest.mark.parametrize("near", [True, False], ids=["host", "device"])
def test_torch(name, near, monkeypatch):
    monkeypatch.setattr(torch_primitives, "reads_for_free", lambda device: near)
    iterates, steps = iterated(name, SAMPLES[0])
    close(iterates, expected(name, SAMPLES[0]))
    assert steps[0] < max(steps) / 100
    assert len(np.unique(np.round(steps, 12))) > 50


@pytest.mark.parametrize("name", ["SHBPolyak", "SHBAdam"])
def test_points_go_further_while_losses_fall_fast(name):
    """What the tests above and below compare: otherwise they would not see the reach."""
    step = CASES[name][1]()
    expected(name, SAMPLES[0], step=step)
    assert min(step.further) == 1.0
    assert sum(further > 1.1 for further in step.further) > 20


@pytest.mark.slow  # a kernel each
@every_case
def test_numba(name):
    run = Run(PROBLEM, configure(name, **CASES[name][0]), seed=0, grid=np.array([STEPS]))
    wanted = expected(name, SAMPLES[0], {})
    for first, last in ((0, 70), (70, STEPS)):  # memory is carried from call to call
        assert run.advance(last - first, SAMPLES[0][first:last, None]) == last - first
        close(run.state.theta, wanted[last])


@every_case
def test_numpy(name):
    record = record_runs(PROBLEM, configure(name, **CASES[name][0]), SAMPLES)
    for run, samples in enumerate(SAMPLES):
        close(record.iterates[run], expected(name, samples, {}))


def noisy_regression(opt_of, unit=1.0, factor=1.0, steps=400, outlier=None, knock=None):
    """Losses, in the units of ``unit=1``, and steps of a linear fit to noisy targets.

    Args:
        opt_of: makes the optimizer, from the parameters.
        unit: that of the targets.
        factor: of the loss.
        steps: how many.
        outlier: the step whose gradient, and loss, are 100 times as large.
        knock: the step before which parameters are moved away.
    """
    rng = np.random.default_rng(3)
    inputs = torch.tensor(rng.normal(size=(steps, 16, 5)))
    truth = torch.tensor([3.0, -2.0, 0.5, 1.0, 4.0], dtype=torch.float64)
    targets = unit * (inputs @ truth + 0.3 * torch.tensor(rng.normal(size=(steps, 16))))
    theta = torch.zeros(5, dtype=torch.float64, requires_grad=True)
    opt, losses, taken = opt_of([theta]), [], []
    for k in range(steps):
        weight = factor * (100.0 if k == outlier else 1.0)
        if k == knock:
            theta.data += 3.0 * unit
        loss = opt.step(lambda k=k, w=weight: w * ((inputs[k] @ theta - targets[k]) ** 2).mean())
        losses.append(float(loss) / (factor * unit**2))
        taken.append(float(opt.info.step))
    return np.array(losses), np.array(taken)


@cache
def usual(kind, **options):
    """Losses and steps of the same fit in its own units, which several tests look at."""
    return noisy_regression(lambda p: kind(p, **options))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("unit", "factor"), [(2.0**-20, 1.0), (2.0**20, 1.0), (1.0, 2.0**30)])
def test_units_do_not_matter(kind, unit, factor):
    """Powers of two change no rounding, except where a diagonal adds its eps."""
    eps = {"diagonal_eps": 1e-300} if kind.method.diagonal else {}
    plain, _ = usual(kind, **eps)
    other, _ = noisy_regression(lambda p: kind(p, **eps), unit, factor)
    np.testing.assert_allclose(other, plain, rtol=1e-9)
    assert plain[-50:].mean() < plain[0] / 10


@pytest.mark.parametrize("kind", KINDS)
def test_an_outlier_costs_few_steps(kind):
    """A gradient a hundred times as large shortens the steps for fifty at most."""
    _, plain = usual(kind)
    _, hit = noisy_regression(kind, outlier=200)
    assert hit[200] < plain[200] / 20
    assert np.median(hit[211:251] / plain[211:251]) > 0.5
    assert np.median(hit[251:301] / plain[251:301]) > 0.8


@pytest.mark.parametrize("kind", FIRST)
def test_the_way_back_from_a_peak_is_no_progress(kind):
    """Otherwise a loss that once exploded would be answered with long steps, and explode again."""
    losses, steps = noisy_regression(kind, steps=800, knock=400)
    assert losses[400:420].mean() > 20 * losses[300:400].mean()
    assert losses[500:].mean() < 1.2 * losses[300:400].mean()
    assert steps[500:].mean() < 0.7 * steps[300:400].mean()


def test_the_papers_rule_is_throttled_by_an_outlier():
    """What steady steps are for: the smooth reset needs hundreds of steps to recover."""
    settings = paper_settings("SHBPolyak")
    _, plain = noisy_regression(lambda p: SHBPolyak(p, **settings))
    _, hit = noisy_regression(lambda p: SHBPolyak(p, **settings), outlier=200)
    assert np.median(hit[250:300] / plain[250:300]) < 0.2


@pytest.mark.parametrize("kind", FIRST)
def test_noise_that_stays_shortens_the_steps(kind):
    losses, steps = noisy_regression(kind, steps=2000)
    assert steps[1900:].mean() < 0.6 * steps[100:200].mean()
    assert losses[1900:].mean() < 1.5 * 0.3**2


@pytest.mark.parametrize("kind", KINDS)
def test_without_noise_the_share_is_whole(kind):
    """The steps of a loss that falls to its bound do not decay."""
    theta = torch.full((3,), 2.0, dtype=torch.float64, requires_grad=True)
    opt, scale = kind([theta]), torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)
    for _ in range(600):
        loss = opt.step(lambda: (scale * theta**2).sum())
    assert float(loss) < 1e-8


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bound", [0.0, None])
@pytest.mark.filterwarnings("ignore:the loss stays below its lower_bound")
def test_a_loss_that_becomes_negative_trains_on(kind, bound):
    theta = torch.full((3,), 2.0, dtype=torch.float64, requires_grad=True)
    opt = kind([theta], lower_bound=bound)
    losses = [float(opt.step(lambda: (theta**2).sum() - 7.0)) for _ in range(600)]
    assert np.mean(losses[-100:]) < -6.7


def test_a_bound_that_is_reached_by_rounding_stays():
    theta = torch.ones(2, dtype=torch.float64, requires_grad=True)
    opt = SHBPolyak([theta], lower_bound=1.0)
    opt.step(lambda: (theta**2).sum() + 1.0)
    opt.step(lambda: (theta**2).sum() * 1e-9 + 1.0 - 1e-6)
    assert float(opt.param_groups[0]["level"]) == math.inf
    assert float(opt.info.step) == 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_of_single_batches_are_of_those_alone(kind):
    theta = torch.full((3,), 2.0, dtype=torch.float64, requires_grad=True)
    opt = kind([theta], lower_bound=5.0)
    for k in range(60):
        bound = 0.0 if k % 2 else None
        opt.step(lambda k=k: (theta**2).sum() + (0.0 if k % 2 else 5.0), lower_bound=bound)
    assert float(opt.param_groups[0]["level"]) == math.inf


@pytest.mark.parametrize("kind", FIRST)
def test_a_bound_of_the_mean_survives_batches_below_it(kind):
    """The noise floor bounds the mean, and single batches are below it."""
    bound, made = 0.5 * 0.3**2, []
    losses, _ = noisy_regression(
        lambda params: made.append(kind(params, lower_bound=bound)) or made[0], steps=1200
    )
    assert (losses < bound).any()
    assert float(made[0].param_groups[0]["level"]) == math.inf


@pytest.mark.parametrize("kind", KINDS)
def test_a_first_loss_of_0_is_no_bound_if_none_is_known(kind):
    theta = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    opt = kind([theta], lower_bound=None)
    losses = [float(opt.step(lambda: ((theta - 3.0) ** 2).sum() - 36.0)) for _ in range(600)]
    assert np.mean(losses[-200:]) < -30.0


@pytest.mark.parametrize("kind", KINDS)
def test_a_known_length_ends_in_steps_of_0(kind):
    _, steps = noisy_regression(lambda p: kind(p, total_steps=300), steps=310)
    assert steps[299] < 0.05 * steps[170:180].mean()
    assert (steps[300:] == 0.0).all()


@pytest.mark.parametrize("kind", [SHBPolyak, SHBArmijo])
def test_a_length_that_would_do_nothing_is_refused(kind):
    text = "total_steps has no effect with scaling='practical': .* choose scaling='steady'"
    with pytest.raises(ValueError, match=text):
        kind([torch.ones(2, requires_grad=True)], scaling="practical", total_steps=100)


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_beyond_its_length_is_told(kind):
    with pytest.warns(RuntimeWarning, match=r"longer than total_steps \(30\)"):
        noisy_regression(lambda p: kind(p, total_steps=30), steps=420)


@pytest.mark.parametrize("kind", KINDS)
def test_resume_is_exact(kind):
    def go(opt, theta, count):
        for k in range(count):
            opt.step(lambda k=k: (1.0 + 0.1 * (k % 3)) * ((theta - 1.0) ** 2).sum() + 0.5)
        return theta.detach().clone()

    theta = torch.tensor([3.0, -1.0], requires_grad=True)
    opt = kind([theta])
    middle, saved = go(opt, theta, 25), copy.deepcopy(opt.state_dict())
    again = middle.clone().requires_grad_(True)
    other = kind([again])
    other.load_state_dict(saved)
    assert torch.equal(go(other, again, 25), go(opt, theta, 25))


@pytest.mark.parametrize("kind", [SHBPolyak, SHBArmijo])
def test_a_checkpoint_of_the_papers_rule_goes_on_with_it(kind):
    """The options of a checkpoint decide, as with every optimizer of torch."""
    theta = torch.tensor([3.0, -1.0], requires_grad=True)
    old = kind([theta], scaling="practical")
    old.step(lambda: (theta**2).sum())
    new = kind([theta])
    new.load_state_dict(copy.deepcopy(old.state_dict()))
    assert new.method.rule is old.method.rule
    new.step(lambda: (theta**2).sum())
    back = kind([theta], scaling="practical")
    back.load_state_dict(copy.deepcopy(kind([theta]).state_dict()))
    assert back.method.rule.name.startswith("steady")
    back.step(lambda: (theta**2).sum())


@pytest.mark.parametrize("kind", [SHBPolyak, SHBArmijo])
def test_the_rule_does_not_change_in_the_middle(kind):
    theta = torch.tensor([3.0, -1.0], requires_grad=True)
    opt = kind([theta])
    opt.param_groups[0]["scaling"] = "practical"
    with pytest.raises(ValueError, match="scaling must stay what it was"):
        opt.step(lambda: (theta**2).sum())


@pytest.mark.parametrize("kind", KINDS)
def test_a_first_batch_without_a_gradient_sets_nothing(kind):
    theta = torch.tensor([3.0, -1.0], dtype=torch.float64, requires_grad=True)
    opt = kind([theta])
    opt.step(lambda: 0.0 * (theta**2).sum() + 1.0)
    assert float(opt.info.step) == 0.0
    for _ in range(300):
        loss = opt.step(lambda: (theta**2).sum())
    assert float(loss) < 1e-3


def test_an_enormous_ratio_is_no_infinity():
    """A squared norm that underflows must not poison the typical step."""
    theta = torch.tensor([3.0, -1.0], requires_grad=True)
    opt = SHBPolyak([theta])
    for k in range(40):
        scale = 1e-22 if k == 20 else 1.0
        opt.step(lambda scale=scale: scale * (theta**2).sum() + 1.0)
        assert all(
            math.isfinite(float(opt.param_groups[0][name])) for name in ("cap", "typical", "fast")
        )


@pytest.mark.parametrize("kind", [SHBPolyak, SHBAdam])
def test_one_batch_below_a_bound_of_the_mean_takes_no_step_and_proves_nothing(kind):
    """The noise of the targets bounds the average of the losses, not each of them."""
    theta = torch.ones(2, requires_grad=True)
    opt = kind([theta], lower_bound=0.5)

    def step(value):
        opt.step(lambda: (theta**2).sum() - (theta**2).sum().detach() + value)
        return float(opt.info.step)

    for _ in range(20):
        assert step(1.0) > 0.0
    assert step(0.2) == 0.0
    assert step(1.0) > 0.0
    assert float(opt.param_groups[0]["level"]) == float("inf")  # it still stands
