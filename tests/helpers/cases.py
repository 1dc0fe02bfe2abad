"""The tables that the tests run over: a new method or rule is tested by adding a row."""

import inspect
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, nan
from typing import Any

import pytest
import torch

from heavystep.methods import FAMILY, METHODS, Method
from heavystep.momentum import HEAVY_BALL
from heavystep.optim.options import common_options
from heavystep.optimizers import optimizer_class
from heavystep.rules import REQUIRED, Integers
from heavystep.validation import Interval

SMALL = 0.05
"""For options without a default."""


@dataclass(frozen=True)
class Case:
    """One optimizer with its capabilities; tests branch on these, never on a name."""

    id: str
    method: Method
    kwargs: dict[str, Any] = field(default_factory=dict)

    def make(self, params, **overrides):
        if self.option("decay") is None:
            overrides.pop("decay", None)
        return self.cls(params, **{**self.kwargs, **overrides})

    @property
    def cls(self):
        return optimizer_class(self.method.name)

    @property
    def rule(self):
        return self.method.rule.name

    @property
    def needs_closure(self):
        return self.method.rule.searches

    @property
    def adaptive(self):
        """True if the loss has a say in its step."""
        return "loss" in self.method.rule.reads

    @property
    def bounded(self):
        """True if it asks for a lower bound of the loss."""
        return "lower_bound" in self.method.rule.reads

    @property
    def estimates(self):
        """True if it estimates a lower bound that is missing or that the loss falls below."""
        option = self.option("lower_bound")
        return option is not None and option.optional and not self.needs_closure

    @property
    def sees_gradient_only(self):
        """True if its step depends on nothing but this gradient, losses and its memory."""
        return self.method.rule.reads <= {"loss", "lower_bound", "grad_sqnorm", "loss_eps"}

    @property
    def has_momentum(self):
        """One that a user may set, or that its rule steers."""
        return self.method.fixed.get("momentum") != 0.0 or self.method.rule.steers

    @property
    def heavy_ball(self):
        """True if its iterates are those of the paper, with other step sizes."""
        return self.method.form is HEAVY_BALL and not self.diagonal

    @property
    def buffer(self):
        """What the state of its momentum is called."""
        return self.method.form.buffer

    @property
    def state(self):
        """The names of the tensors that it keeps for each parameter."""
        return frozenset(self._state)

    @property
    def vectors(self):
        """Those of them that are of the parameter's shape."""
        return {name for name, shape in self._state.items() if shape}

    @cached_property
    def _state(self):
        """Names and shapes."""
        theta = torch.ones(2, requires_grad=True)
        opt = self.make([theta])
        opt.step(lambda: ((theta - 3.0) ** 2).sum())
        kept = opt.state[theta].items()
        return {name: value.shape for name, value in kept if torch.is_tensor(value)}

    @property
    def diagonal(self):
        """True if a parameter's elements have more of a state than their momentum."""
        return self.method.diagonal is not None

    @property
    def steers(self):
        """True if its momentum is another one at each step, from the first on."""
        return self.method.rule.steers and self.method.rule.searches

    @property
    def kind(self):
        """What it has in common with methods that differ in their formulas alone."""
        form = self.method.form.name if self.has_momentum else None
        own = self.steers, self.takes("momentum")
        return self.needs_closure, self.adaptive, form, self.diagonal, *own

    def option(self, name):
        """The option of that name; None if it has none."""
        options = (*self.method.options, *common_options(self.method))
        known = inspect.signature(self.cls).parameters
        return next((o for o in options if o.name == name and name in known), None)

    def takes(self, name):
        return self.option(name) is not None

    def means_none(self, name, value):
        """True if a number out of range says that there is no such limit."""
        optional = {option.name for option in METHODS[self.method.name].options if option.optional}
        return name == "max_step" and name in optional and value == inf

    def taken(self, **options):
        """Those of the options that it takes, with these values."""
        return {name: value for name, value in options.items() if self._allows(name, value)}

    def _allows(self, name, value):
        option = self.option(name)
        if isinstance(getattr(option, "allowed", None), Interval):
            return value is None or float(value) in option.allowed
        return option is not None


def row(method):
    """A method with its own defaults."""
    required = {option.name: SMALL for option in method.options if option.default is REQUIRED}
    return Case(method.name, method, required)


ROWS = [row(method) for method in METHODS.values()]
"""Every method of the registry."""


def case_of(name, /, **options):
    """The row of a method, with other options if some are given."""
    case = row(METHODS[name])
    return Case(case.id, case.method, {**case.kwargs, **options})


def variant(name, what, **options):
    """A method in one of its other uses, with the rule that they ask for."""
    return Case(f"{name}-{what}", METHODS[name], options)


OPTIMIZERS = [
    *ROWS,
    variant("HeavyStep", "tensor", diagonal="tensor"),
    variant("HeavyStep", "plain", diagonal=None),
    variant("SHBPolyak", "reset", scaling="practical", steps_per_epoch=20),
    variant("SHBPolyak", "theory", scaling="theory", c=0.75),
    variant("SHBArmijo", "reset", scaling="practical", steps_per_epoch=20),
    variant(
        "SHBArmijo", "theory", scaling="theory", c=0.6, lower_bound=0.0, decrease_factor=0.5
    ),
    variant("SHBArmijo", "bounded", lower_bound=0.0),
]  # fmt: skip


def _firsts(cases):
    """The first of each kind."""
    return [case for k, case in enumerate(cases) if case.kind not in {c.kind for c in cases[:k]}]


KINDS = _firsts([*ROWS[1:], *ROWS[:1]])
"""The first method of each kind, for what takes long."""


def over(cases):
    """Run a test for each of these; it is a slow test of those that are like another one."""
    return pytest.mark.parametrize(
        "case", [pytest.param(case, id=case.id, marks=marks_of(case.method)) for case in cases]
    )


def marks_of(method):
    """The mark of slow tests, for a relative that is not the first method of its kind."""
    first = method not in FAMILY or any(case.method is method for case in KINDS)
    return [] if first else [pytest.mark.slow]


every_optimizer = over(OPTIMIZERS)
every_row = over(ROWS)
every_kind = over(KINDS)
without_closure = over([case for case in OPTIMIZERS if not case.needs_closure])


def others_of(option):
    """Values that an option may have besides its default."""
    if isinstance(option.allowed, Interval):
        wanted = [value for value in (0.123, 0.77, 1.5, 7.0) if value in option.allowed]
    elif isinstance(option.allowed, Integers):
        wanted = [option.allowed.least, option.allowed.least + 1]
    else:
        wanted = list(option.allowed)
    return [value for value in wanted if value != option.default]


def another(option, value):
    """A value that an option may have besides this one."""
    return next(each for each in [*others_of(option), option.default] if each != value)


def out_of_range(allowed):
    """Numbers that are not in a range."""
    if isinstance(allowed, Integers):
        return [allowed.least - 1, -3]
    wanted = [nan, inf, -inf, -0.1, 0.0, 0.5, 1.0, 1.5, -1e300]
    return [value for value in wanted if value not in allowed]
