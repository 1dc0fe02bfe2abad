"""One file a rule, a line search or a momentum form is enough: everything else finds it."""

import inspect
import math
import pickle
import runpy
from functools import partial

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import heavystep
from heavystep.cli.app import app
from heavystep.lab.simulation.configuration import configure
from heavystep.lab.simulation.run import OneRun, simulate
from heavystep.methods import METHODS, Method
from heavystep.optim import measure, update
from heavystep.optim import optimizer as driver
from heavystep.optimizers import optimizer_class, searches
from heavystep.rules import POLYAK, Option, Rule, Search
from heavystep.validation import POSITIVE
from tests.helpers.places import ROOT
from tests.helpers.problems import PROBLEMS, index_sequence
from tests.helpers.runs import torch_run
from tests.helpers.training import equal_states, state_of
from tests.toys import literal
from tests.toys.toys import TOYS, registered

STEPS, LR, BETA, CLOSE = 120, 0.8, 0.6, {"rtol": 1e-12, "atol": 1e-12}
every_toy = pytest.mark.parametrize("name", TOYS)
PROBLEM, SAMPLES = PROBLEMS["least squares"], index_sequence(STEPS)


@pytest.fixture(autouse=True)
def toys():
    with registered():
        yield


def expected(toy):
    value, gradient = PROBLEM.losses, PROBLEM.gradients
    return literal.run(value, gradient, PROBLEM.theta0, SAMPLES, toy.choose(), toy.form, LR, BETA)


def optimizer(toy, params, **options):
    cls = optimizer_class(toy.method.name)
    return cls(params, lr=LR, momentum=BETA, **{**toy.options, **options})


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
def test_resume_and_pickle(name):
    toy, half = TOYS[name], STEPS // 2
    whole, *_ = torch_run(partial(optimizer, toy), PROBLEM, SAMPLES)
    *_, opt = torch_run(partial(optimizer, toy), PROBLEM, SAMPLES[:half])
    state = opt.state_dict()
    assert set(toy.method.rule.memory) <= set(state["param_groups"][0])
    assert set(state["state"][0]) == {toy.method.form.buffer}

    def resumed(params):
        params[0].data.copy_(opt.param_groups[0]["params"][0].detach())
        other = optimizer(toy, params)
        other.load_state_dict(pickle.loads(pickle.dumps(state)))
        return other

    rest, *_, other = torch_run(resumed, PROBLEM, SAMPLES[half:])
    np.testing.assert_array_equal(rest[1:], whole[half + 1 :])
    assert type(pickle.loads(pickle.dumps(other))) is type(other)


@every_toy
def test_arguments_the_command_line_and_the_page(name):
    method, params = TOYS[name].method, [torch.zeros(2, requires_grad=True)]
    cls = optimizer_class(method.name)
    listed = CliRunner().invoke(app, ["methods"], env={"COLUMNS": "200"})
    assert method.name in listed.output
    told = CliRunner().invoke(app, ["methods", method.name], env={"COLUMNS": "200"}).output
    assert f"Momentum form: {method.form.name}." in told
    words = " ".join(told.replace("│", " ").split())
    page = runpy.run_path(str(ROOT / "docs" / "make_methods.py"))["page"](method)
    for text in (inspect.getdoc(cls), page):
        assert method.rule.formula in text
        assert method.form.formula in text
    for option in method.options:
        assert inspect.signature(cls).parameters[option.name].default == option.default
        assert f"    {option.name}: " in inspect.getdoc(cls)
        assert f"{option.name} {option.default!r}" in words
        assert f"**`{option.name}`**" in page
    with pytest.raises(TypeError, match="has no option 'growt'"):
        cls(params, growt=1.0)
    assert searches(optimizer(TOYS[name], params)) == method.rule.searches


@pytest.mark.parametrize("name", [name for name in TOYS if "c" in TOYS[name].options])
def test_an_option_out_of_range_is_refused_everywhere(name):
    method, params = TOYS[name].method, [torch.zeros(2, requires_grad=True)]
    cls, other = optimizer_class(method.name), [torch.zeros(1, requires_grad=True)]
    for make in (partial(cls, params), partial(configure, method.name)):
        with pytest.raises(ValueError, match=r"c must be .*, got -1.0"):
            make(c=-1.0)
    with pytest.raises(ValueError, match=r"c must be the same in all parameter groups"):
        cls([{"params": params}, {"params": other, "c": 0.123}])
    opt = optimizer(TOYS[name], params)
    opt.param_groups[0]["c"] = -2.0
    with pytest.raises(ValueError, match=r"c must be .*, got -2.0"):
        opt.step(lambda: (params[0] ** 2).sum())


def one(constants, memory, seen):
    return Search(1.0, True, False)


REFUSED = [
    (lambda: heavystep.methods.register(METHODS["SPS"]), "there is a method 'SPS' already"),
    (lambda: Method("Bad", "", "", POLYAK, defaults={"cc": 1.0}), "'Bad': its rule has no option"),
    (lambda: Method("Bad", "", "", POLYAK, fixed={"momentm": 0.0}), "'Bad': its rule has no option"),
    (lambda: Rule("bad", "", "", (), one, memory={"last": 0.0}),
     "rule 'bad': memory without remember: last"),
    (lambda: Rule("bad", "", "", (), one, frozenset({"grad_sqnrm"})),
     "rule 'bad': reads what no driver gives: grad_sqnrm"),
    (lambda: Rule("bad", "", "", (Option("c", 1.0, POSITIVE, "one."),), one, memory={"c": 0.0},
                  remember=lambda *seen: (0.0,)),
     "rule 'bad': memory and option of one name: c"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_what_cannot_work_is_refused_when_it_is_made(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_step_that_is_not_finite_is_refused(near):
    """Whatever a rule says of it."""
    rule = Rule("nan", "", "", (), lambda constants, memory, seen: Search(
        seen.loss * math.nan, True, False))  # fmt: skip
    method = heavystep.methods.register(Method("NaN", "", "", rule))
    try:
        theta = torch.ones(2, requires_grad=True)
        opt = optimizer_class(method.name)([theta])
        opt.step(lambda: (theta**2).sum())
        assert not opt.info.accepted
        assert theta.tolist() == [1.0, 1.0]
        run = OneRun(PROBLEM, configure(method.name), 0, np.array([2]), 1)
        assert run.take_steps(2, np.array([[0], [1]])) == 0
    finally:
        del METHODS[method.name]
