"""Every momentum form of the torch driver equals its literal loop, with every kind of rule."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from heavystep import SHB, methods, momentum
from heavystep.optim.update import Active
from heavystep.optimizers import optimizer_class
from heavystep.rules import FIXED, POLYAK, Rule, Search
from tests import reference
from tests.helpers.problems import PROBLEMS, index_sequence

FORMS = {form.name: form for form in vars(momentum).values() if isinstance(form, momentum.Form)}
PROBLEM, INDICES = PROBLEMS["cosine"], index_sequence(80)


def along(constants, memory, seen):
    return Search(abs(seen.slope) / (1.0 + seen.direction_sqnorm), True, False)


ALONG = Rule(
    "along", "", "looks at the direction", (), along, frozenset({"direction_sqnorm", "slope"})
)


def eta(k):
    return 0.2 / (1.0 + k / 20.0)


def beta(k):
    """Some schedulers of the momentum reach 0 and come back: its buffer is kept all the while."""
    return 0.0 if k < 3 or 30 <= k < 35 else 0.8 / (1.0 + k / 50.0)


def polyak_steps(k, theta, i, g, d):
    f, f_star = PROBLEM.losses(theta, i), PROBLEM.f_star[i]
    return eta(k) * reference.polyak_plain(f, f_star, g @ g, 0.7, 0.8, np.inf)


RULES = {
    "fixed": (FIXED, {"lr": 1.0}, lambda k, theta, i, g, d: eta(k)),
    "polyak": (
        POLYAK,
        {"c": 0.7, "max_step": 0.8, "scaling": "plain", "steps_per_epoch": None},
        polyak_steps,
    ),
    "along": (ALONG, {}, lambda k, theta, i, g, d: eta(k) * abs(g @ d) / (1.0 + d @ d)),
}


@pytest.fixture
def optimizer(rule, form):
    """The rule with the form, in the registry for as long as the test runs."""
    plain = RULES[rule][0]

    def start(*numbers):
        return plain.start(*numbers)._replace(weight=reference.WEIGHT)

    weighing = replace(plain, start=start)
    made = methods.register(methods.Method("Test", "", "", weighing, FORMS[form]))
    yield optimizer_class(made.name)
    del methods.METHODS[made.name]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kernels", [True, False])
def test_torch_equals_the_literal_loop(optimizer, rule, form, kernels, monkeypatch):
    """Also where the kernels of some forms cannot be used."""
    if not kernels:
        monkeypatch.setattr(Active, "_has_kernel", lambda active: False)
    theta = torch.tensor(PROBLEM.theta0, dtype=torch.float64)
    parts = [theta[:1].clone().requires_grad_(True), theta[1:].clone().requires_grad_(True)]
    opt = optimizer(parts, **RULES[rule][1])
    reads_bound = "lower_bound" in RULES[rule][0].reads
    iterates = [theta.numpy()]
    for k, i in enumerate(INDICES):
        opt.param_groups[0]["lr"], opt.param_groups[0]["momentum"] = eta(k), beta(k)
        bound = {"lower_bound": PROBLEM.f_star[i]} if reads_bound else {}
        for part, gradient in zip(
            parts, np.split(PROBLEM.gradients(iterates[-1], i), [1]), strict=True
        ):
            part.grad = torch.from_numpy(gradient)
        opt.step(loss=float(PROBLEM.losses(iterates[-1], i)), **bound)
        iterates.append(torch.cat(parts).detach().numpy())
    loop = reference.MOMENTUM_FORMS[form]
    expected = loop(PROBLEM, PROBLEM.theta0, INDICES, RULES[rule][2], beta)
    np.testing.assert_allclose(np.array(iterates), expected, rtol=1e-12, atol=1e-12)
    assert set(opt.state[parts[0]]) == {FORMS[form].buffer}


def test_the_buffer_of_torch_is_that_of_sgd():
    """Heavy ball is not, once the step varies: SGD rescales past steps."""
    method = methods.register(methods.Method("Test", "", "", FIXED, momentum.TORCH_BUFFER))
    try:
        ours = optimizer_class(method.name)
    finally:
        del methods.METHODS[method.name]
    paths = []
    for make in (ours, torch.optim.SGD, SHB):
        theta = torch.tensor(PROBLEM.theta0, dtype=torch.float64, requires_grad=True)
        opt = make([theta], lr=0.05, momentum=0.9)
        for k, i in enumerate(INDICES):
            opt.param_groups[0]["lr"] = eta(k)
            theta.grad = torch.tensor(PROBLEM.gradients(theta.detach().numpy(), i))
            opt.step()
        paths.append(theta.detach())
    torch.testing.assert_close(*paths[:2], rtol=1e-13, atol=1e-13)
    assert (paths[2] - paths[1]).abs().max() > 1e-2
