"""What the caps of steady Polyak steps do when losses fall, stand, jump, or are all alike."""

import numpy as np
import pytest
import torch

from heavystep import SHBAdam, SHBPolyak
from heavystep.optim import torch_primitives
from heavystep.problems import Cosine
from heavystep.rules import STEADY_POLYAK, Seen
from heavystep.rules.steady_polyak import kappa_of
from heavystep.simulation.batch import record_runs
from heavystep.simulation.configuration import configure
from heavystep.simulation.run import Run
from tests.conformance.test_family import SAMPLES, STEPS, XI, close
from tests.conformance.test_steady import CASES, expected, iterated

QUIET = Cosine(
    1.0 + 0.001 * np.arange(12), 0.01 * np.concatenate([XI, -XI]), theta0=np.array([1.5, -0.7, 2.2])
)
QUIET.__dict__["f_star"] = QUIET.f_star - 4.0
"""Batches that are nearly alike, and bounds far below them, so that losses fall and then stay."""
every_name = pytest.mark.parametrize("name", ["SHBPolyak", "SHBAdam"])
KINDS = (SHBPolyak, SHBAdam)
every_kind = pytest.mark.parametrize("kind", KINDS)


def group(opt, name):
    return float(opt.param_groups[0][name])


@every_name
def test_the_literal_loop_comes_to_both_speeds(name):
    """Otherwise its comparison with the drivers would say nothing of one of them."""
    step = CASES[name][1]()
    expected(name, SAMPLES[0], problem=QUIET, step=step)
    assert 10 < sum(step.fallen) < len(step.fallen) - 10


@every_name
@pytest.mark.parametrize("near", [True, False], ids=["host", "device"])
def test_torch(name, near, monkeypatch):
    monkeypatch.setattr(torch_primitives, "reads_for_free", lambda device: near)
    iterates, _ = iterated(name, SAMPLES[0], QUIET)
    close(iterates, expected(name, SAMPLES[0], problem=QUIET))


@every_name
def test_numpy(name):
    record = record_runs(QUIET, configure(name, **CASES[name][0]), SAMPLES)
    for run, samples in enumerate(SAMPLES):
        close(record.iterates[run], expected(name, samples, {}, QUIET))


@pytest.mark.slow  # a kernel each
@every_name
def test_numba(name):
    run = Run(QUIET, configure(name, **CASES[name][0]), seed=0, grid=np.array([STEPS]))
    wanted = expected(name, SAMPLES[0], {}, QUIET)
    for first, last in ((0, 70), (70, STEPS)):
        assert run.advance(last - first, SAMPLES[0][first:last, None]) == last - first
        close(run.state.theta, wanted[last])


def test_no_longer_steps_at_a_bad_point():
    """The gradient vanishes where the loss is far from its bound: a ratio without an end."""
    rng = np.random.default_rng(2)
    theta = torch.tensor([3.0, -2.0], dtype=torch.float64, requires_grad=True)
    opt, losses, steps = SHBPolyak([theta], lower_bound=0.0), [], []
    for _ in range(900):
        noise = torch.tensor(0.02 * rng.normal(size=2))
        loss = opt.step(lambda noise=noise: 20.0 + ((theta - 1.0 - noise) ** 2).sum())
        losses.append(float(loss))
        steps.append(float(opt.info.step))
    assert group(opt, "fallen") == 1.0
    fell = int(np.argmax(np.array(losses) < 20.5))
    # As k^(3/2) at most, and no faster for being long on the way.
    assert max(steps[fell:]) < 3.0 * max(steps[:fell]) * (900 / fell) ** 1.5
    assert np.mean(losses[-100:]) < 20.2


@every_kind
def test_caps_double_in_ten_steps_until_losses_fall(kind):
    theta = torch.tensor([3.0, -2.0], dtype=torch.float64, requires_grad=True)
    opt, caps = kind([theta]), []
    for _ in range(30):  # the loss does not depend on where the parameters are
        opt.step(lambda: 1.0 + theta.sum() - theta.sum().detach())
        assert group(opt, "fallen") == 0.0
        caps.append(group(opt, "cap"))
    assert caps[29] == pytest.approx(2.0 * caps[19], rel=1e-9)


def constants(**options):
    usual = {option.name: option.default for option in STEADY_POLYAK.options}
    complete = STEADY_POLYAK.settle({**usual, "momentum": 0.9, **options})
    return STEADY_POLYAK.constants_of(complete)


def memory(**given):
    return STEADY_POLYAK.Memory(**{**STEADY_POLYAK.memory, "steps": 50.0, "fast": 3.0, **given})


@pytest.mark.parametrize(
    ("momentum", "deviation", "alike", "steps", "expected"),
    [
        (0.9, 0.0, 0.01, 50.0, 0.1),  # all alike: 1 - beta
        (0.9, 1e15, 0.01, 50.0, 0.5),  # all different: Appendix E's 1/2
        (0.9, 0.02, 0.01, 50.0, 1 / 6),  # half way, at 0.01 of the gap of 2
        (0.8, 0.02, 0.01, 50.0, 1 / 3.5),
        (0.3, 0.0, 0.01, 50.0, 0.5),  # a small momentum lengthens nothing
        (0.9, 0.0, 0.0, 50.0, 0.5),  # turned off, without 0 / 0
        (0.9, 0.0, 0.01, 5.0, 1 / (2 + 8 * 0.01 / 1.01)),  # not known yet
    ],
)
def test_kappa_is_between_a_sum_of_steps_and_their_average(
    momentum, deviation, alike, steps, expected
):
    found = kappa_of(
        constants(momentum=momentum, alike=alike), memory(deviation=deviation, steps=steps), 1.0
    )
    assert found == pytest.approx(expected, rel=1e-12)


def test_a_new_level_begins_anew():
    """And nothing else makes a fall forgotten."""
    known, place = (
        memory(fallen=1.0, cap=1e-3, typical=1e-3),
        list(STEADY_POLYAK.memory).index("fallen"),
    )
    after = {
        loss: STEADY_POLYAK.remember(constants(), known, Seen(loss, 0.0, 1.0), None)[place]
        for loss in (2.0, 1e6, -5.0)
    }
    assert after == {2.0: 1.0, 1e6: 1.0, -5.0: 0.0}


def test_two_unusual_losses_in_a_row_widen_the_gap():
    """Usual are 3 and four deviations, above a level of 1; 11 is 4 more."""
    known = memory(slow=3.0, deviation=1.0, gaps=1e6, cap=1e-3, typical=1e-3)

    def step(last, loss, steps=50.0):
        before = known._replace(last_loss=last, steps=steps)
        return STEADY_POLYAK.start(constants(), before, Seen(loss, 1.0, 1.0)).step

    usual = pytest.approx(1e-3 * np.sqrt(2.0 / (2.0 + 1e6)), rel=1e-9)
    assert [step(2.0, 2.0), step(7.0, 7.0), step(2.0, 11.0), step(11.0, 2.0)] == [usual] * 4
    assert step(11.0, 90.0) == pytest.approx(1e-3 * np.sqrt(6.0 / (6.0 + 1e6)), rel=1e-9)
    assert step(11.0, 11.0, steps=5.0) == usual


@every_kind
def test_a_wrong_target_now_and_then_does_little_harm(kind):
    """Squared losses do not shorten the ratio of a batch with one of them: it must not be longer."""
    rng, truth = np.random.default_rng(1), torch.arange(10, dtype=torch.float64) / 5.0 - 1.0
    theta = torch.zeros(10, dtype=torch.float64, requires_grad=True)
    opt, errors = kind([theta]), []
    for k in range(2000):
        x = torch.tensor(rng.normal(size=(16, 10)))
        y = x @ truth + 0.3 * torch.tensor(rng.normal(size=16))
        y[0] += 30.0 * (k % 100 == 50)
        opt.step(lambda x=x, y=y: ((x @ theta - y) ** 2).mean())
        errors.append(float(((theta.detach() - truth) ** 2).sum()))
    assert np.mean(errors[1000:]) < 0.4


def test_steps_do_not_stay_small_after_an_explosion():
    """At a loss of 1e-8 next to nothing is left of a step; not so when it is 1 again."""
    theta = torch.full((3,), 2.0, dtype=torch.float64, requires_grad=True)
    opt, scale = SHBPolyak([theta]), torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)
    rng, losses = np.random.default_rng(4), []
    for k in range(700):
        if k == 500:
            theta.data += 1.0
        weight = float(np.exp(rng.normal()))  # so that batches differ
        loss = opt.step(lambda weight=weight: weight * (scale * theta**2).sum())
        losses.append(float(loss) / weight)
    assert losses[499] < 1e-6
    assert min(losses[500:600]) < 1e-2 * losses[500]
