"""A rule that passes its memory on, a line search and a momentum form that nobody needs: one row each
is enough, and everything else finds it."""

import inspect
import math
import runpy
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from heavystep import methods, validation
from heavystep.cli.app import app
from heavystep.lab.simulation.configuration import configure
from heavystep.lab.simulation.run import OneRun, simulate
from heavystep.methods import METHODS, Method
from heavystep.momentum import Form
from heavystep.optim import measure, update
from heavystep.optim import optimizer as driver
from heavystep.optimizers import optimizer_class
from heavystep.rules import (
    POLYAK,
    Option,
    Rule,
    Search,
    batch_is_finite,
    is_finite,
    maximum,
    where,
)
from heavystep.rules.contract import constants
from tests.helpers.places import ROOT
from tests.helpers.problems import PROBLEMS, index_sequence
from tests.helpers.runs import torch_run
from tests.helpers.training import equal_states, state_of


def start_history(constants, memory, seen):
    """The step of this batch was decided by the last one."""
    return Search(memory.next_step, batch_is_finite(seen.loss, seen.grad_sqnorm), capped=False)


HISTORY = Rule(
    name="history",
    formula=r"\gamma_{k+1} = 1 / (10 + 10 \|g_{k-2}\|^2)",
    reference="a toy",
    options=(),
    start=start_history,
    memory={"next_step": 0.1, "last": 1.0, "before": 2.0},
    remember=lambda constants, memory, seen, search: (
        0.1 / (1.0 + memory.before), seen.grad_sqnorm, memory.last,
    ),
)  # fmt: skip


def start_forgiving(constants, memory, seen):
    """A trial may be as bad as an average of past losses, less some decrease."""
    finite = batch_is_finite(seen.loss, seen.grad_sqnorm)
    active = finite & (seen.grad_sqnorm > 0.0)
    return Search(0.0, finite, False, where(active, constants.first, 0.0), 0, active)


def advance_forgiving(constants, memory, seen, search, trial_loss):
    level = maximum(memory.level, seen.loss) - constants.c * search.trial * seen.grad_sqnorm
    accepted = is_finite(trial_loss) & (trial_loss <= level)
    trials = search.trials + 1
    trial, over = where(accepted, search.trial, search.trial / 3.0), trials >= 60
    active = where(accepted | over, False, True)
    return Search(where(accepted, trial, 0.0), accepted, False, trial, trials, active)


FORGIVING = Rule(
    name="forgiving",
    formula=r"f(\theta_k - t g_k) \le \max\{C_k, f_k\} - c\,t\,\|g_k\|^2",
    reference="a toy",
    options=(
        Option("c", 0.3, validation.OPEN_UNIT, "sufficient decrease, in (0, 1)."),
        Option("first", 5.0, validation.POSITIVE, "first trial step, > 0."),
    ),
    reads=frozenset({"loss", "grad_sqnorm"}),
    resolve=constants("c", "first"),
    memory={"level": 0.0},
    start=start_forgiving,
    advance=advance_forgiving,
    remember=lambda constants, memory, seen, search: (0.75 * memory.level + 0.25 * seen.loss,),
)


def half(buffer, gradient, momentum):
    return 0.5 * gradient + 0.5 * (momentum * buffer + (1.0 - momentum) * gradient)


def move_half(buffer, gradient, step, momentum, weight):
    average = momentum * buffer + (1.0 - momentum) * gradient
    return -step * (0.5 * gradient + 0.5 * average), average


HALF_AND_HALF = Form(
    name="half and half",
    buffer="average",
    formula=r"d_k = \beta d_{k-1} + (1 - \beta) g_k, \quad "
    r"\theta_{k+1} = \theta_k - \gamma_k (g_k + d_k) / 2",
    reference="a toy",
    move=move_half,
    direction=half,
)


# The same as literal loops.


def history_steps():
    following, last, before = 0.1, 1.0, 2.0
    while True:
        _, g2, _ = yield following
        following, last, before = 0.1 / (1.0 + before), g2, last


def forgiving_steps(c=0.5, first=0.3):
    level, t = 0.0, 0.0
    while True:
        f, g2, value = yield t
        t = first
        while value(t) > max(level, f) - c * t * g2:
            t /= 3.0
        level = 0.75 * level + 0.25 * f


class Toy(NamedTuple):
    method: Method
    options: dict
    steps: object
    """Its literal loop."""
    ahead: bool
    """True if that gives a step before it sees the batch."""


STEPS, LR, BETA, CLOSE = 120, 0.8, 0.6, {"rtol": 1e-12, "atol": 1e-12}
PROBLEM, SAMPLES = PROBLEMS["least squares"], index_sequence(STEPS)
TOYS = {
    "rule": Toy(Method("HalfHistory", "toy", "Looks two batches back.", HISTORY, HALF_AND_HALF),
                {}, history_steps, True),
    "line search": Toy(Method("HalfSearch", "toy", "A search.", FORGIVING, HALF_AND_HALF),
                       {"c": 0.5, "first": 0.3}, forgiving_steps, False),
}  # fmt: skip
every_toy = pytest.mark.parametrize("name", TOYS)


def expected(toy):
    """Iterates and steps of the literal loop."""
    theta = np.array(PROBLEM.theta0, dtype=np.float64)
    average, iterates, steps, rule = np.zeros_like(theta), [theta], [], toy.steps()
    step = next(rule)
    for i in SAMPLES:
        f, g = PROBLEM.losses(theta, i), PROBLEM.gradients(theta, i)
        seen = f, g @ g, lambda t, i=i, g=g, theta=theta: PROBLEM.losses(theta - t * g, i)
        taken, step = (step, rule.send(seen)) if toy.ahead else (rule.send(seen), 0.0)
        average = BETA * average + (1 - BETA) * g
        theta = theta - LR * taken * (g + average) / 2
        iterates.append(theta)
        steps.append(LR * taken)
    return np.array(iterates), np.array(steps)


def optimizer(toy, params, **options):
    cls = optimizer_class(toy.method.name)
    return cls(params, lr=LR, momentum=BETA, **{**toy.options, **options})


@pytest.fixture(autouse=True)
def toys(monkeypatch):
    """The toys are methods like all others."""
    for toy in TOYS.values():
        monkeypatch.setitem(METHODS, toy.method.name, toy.method)


@pytest.fixture(params=[True, False], ids=["host", "device"])
def near(request, monkeypatch):
    """Decide on numbers of the host, and on tensors as where the host would have to wait."""
    for module in (driver, measure, update):
        monkeypatch.setattr(module, "reads_for_free", lambda device: request.param)


@every_toy
def test_torch(name, near):
    toy = TOYS[name]
    iterates, steps, _, opt = torch_run(partial(optimizer, toy), PROBLEM, SAMPLES)
    wanted, wanted_steps = expected(toy)
    np.testing.assert_allclose(steps, wanted_steps, rtol=1e-10)
    np.testing.assert_allclose(iterates, wanted, **CLOSE)
    assert len(set(steps.round(12))) >= 3
    before, theta = state_of(opt), opt.param_groups[0]["params"][0]
    assert set(toy.method.rule.memory) <= set(before["param_groups"][0])
    assert set(before["state"][0]) == {toy.method.form.buffer}
    opt.step(lambda: (theta * torch.nan).sum())
    assert not opt.info.accepted
    assert equal_states(before, opt.state_dict())
    np.testing.assert_array_equal(theta.detach(), iterates[-1])


@every_toy
def test_numba(name):
    toy = TOYS[name]
    method = configure(toy.method.name, lr=LR, momentum=BETA, **toy.options)
    run = OneRun(PROBLEM, method, seed=0, grid=np.array([STEPS]), size=1)
    wanted, _ = expected(toy)
    for first, last in ((0, 50), (50, STEPS)):  # memory is carried from call to call
        assert run.take_steps(last - first, SAMPLES[first:last, None]) == last - first
        np.testing.assert_allclose(run.state.theta, wanted[last], **CLOSE)
    result = simulate(PROBLEM, method, seeds=[0], iterations=STEPS, indices=SAMPLES[None, :, None])
    gap = PROBLEM.gap(wanted[-1])
    np.testing.assert_allclose(result.metrics["gap_last"][0, -1], gap, rtol=1e-8)


@every_toy
def test_arguments_the_command_line_and_the_page(name):
    method = TOYS[name].method
    cls = optimizer_class(method.name)
    assert method.name in CliRunner().invoke(app, ["methods"]).output
    told = CliRunner().invoke(app, ["methods", method.name], env={"COLUMNS": "200"}).output
    assert f"Momentum form: {method.form.name}." in told
    page = runpy.run_path(str(ROOT / "docs" / "make_methods.py"))["page"](method)
    for text in (inspect.getdoc(cls), page):
        assert method.rule.formula in text
        assert method.form.formula in text
    for option in method.options:
        assert inspect.signature(cls).parameters[option.name].default == option.default
        assert f"    {option.name}: " in inspect.getdoc(cls)
        assert f"{option.name} {option.default!r}" in " ".join(told.replace("│", " ").split())
        assert f"**`{option.name}`**" in page


def one(constants, memory, seen):
    return Search(1.0, True, False)


REFUSED = [
    (lambda: methods.register(METHODS["SPS"]), "there is a method 'SPS' already"),
    (lambda: Method("Bad", "", "", POLYAK, defaults={"cc": 1.0}), "'Bad': its rule has no option"),
    (lambda: Method("Bad", "", "", POLYAK, fixed={"momentm": 0.0}), "'Bad': its rule has no option"),
    (lambda: Rule("bad", "", "", (), one, memory={"last": 0.0}),
     "rule 'bad': memory without remember: last"),
    (lambda: Rule("bad", "", "", (), one, frozenset({"grad_sqnrm"})),
     "rule 'bad': reads what no driver gives: grad_sqnrm"),
    (lambda: Rule("bad", "", "", (Option("c", 1.0, validation.POSITIVE, "one."),), one,
                  memory={"c": 0.0}, remember=lambda *seen: (0.0,)),
     "rule 'bad': memory and option of one name: c"),
    (lambda: Rule("bad", "", "", (), one, memory={"weight_decay": 0.0},
                  remember=lambda *seen: (0.0,)),
     "rule 'bad': memory and option of one name: weight_decay"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_what_cannot_work_is_refused_when_it_is_made(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_step_that_is_not_finite_is_refused(near, monkeypatch):
    """Whatever a rule says of it."""
    rule = Rule("nan", "", "", (), lambda constants, memory, seen: Search(
        seen.loss * math.nan, True, False))  # fmt: skip
    monkeypatch.setitem(METHODS, "NaN", Method("NaN", "", "", rule))
    theta = torch.ones(2, requires_grad=True)
    opt = optimizer_class("NaN")([theta])
    opt.step(lambda: (theta**2).sum())
    assert not opt.info.accepted
    assert theta.tolist() == [1.0, 1.0]
    run = OneRun(PROBLEM, configure("NaN"), 0, np.array([2]), 1)
    assert run.take_steps(2, np.array([[0], [1]])) == 0
