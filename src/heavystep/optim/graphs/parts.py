"""The parts of a training step that can be recorded, and the host's work between them."""

from collections.abc import Callable
from math import inf
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.optim import Optimizer

from heavystep.momentum import HEAVY_BALL
from heavystep.optim.closures.closure import Closure, checked_loss
from heavystep.optim.closures.replay import RandomStreams, put_back
from heavystep.optim.deciding import Decision, HostRule, host_numbers
from heavystep.optim.fused import Update
from heavystep.optim.optimizer import RuleOptimizer
from heavystep.optim.sample import Sample
from heavystep.optim.state import make_state, ways_of
from heavystep.optim.vectors import move
from heavystep.rules import Seen

Action = Callable[[], object]
"""Work on tensors that stay in place, to be done again and again."""

ANY_BATCH = Seen(loss=1.0, lower_bound=-inf, grad_sqnorm=1.0)
"""For a rule whose first trial is the same for every batch."""


def nothing() -> None:
    """No work."""


class Part:
    """Work that is done as it is, or replayed once there is a graph of it."""

    def __init__(self, action: Action) -> None:
        self.action = action
        self.graph: Any = None

    def __call__(self) -> None:
        """Do the work on what the tensors hold now."""
        if self.graph is None:
            self.action()
        else:
            self.graph.replay()


class Step(Protocol):
    """A training step in parts."""

    parts: tuple[Part, ...]

    def take(self) -> Any:
        """Take it, and return the loss before it."""

    def settle(self) -> None:
        """Make what must not be made while recording, because each replay would make it again."""


def step_of(optimizer: Optimizer, closure: Closure, prepare: Action, report: Action) -> Step:
    """The training step that a :class:`CapturedStep` takes with an optimizer."""
    if isinstance(optimizer, RuleOptimizer) and optimizer.method.rule.searches:
        return Searched(optimizer, closure, prepare, report)
    return Whole(optimizer, closure, prepare, report)


class Whole:
    """A step that reads nothing on the host."""

    def __init__(
        self, optimizer: Optimizer, closure: Closure, prepare: Action, report: Action
    ) -> None:
        self._optimizer, self._closure = optimizer, closure
        self._prepare, self._report = prepare, report
        self._train = Part(self._once)
        self.parts: tuple[Part, ...] = (self._train,)
        self._loss: Any = None

    def take(self) -> Any:
        """Take the step; the loss stays on the device."""
        self._train()
        optimizer = self._optimizer
        if self._train.graph is not None and isinstance(optimizer, RuleOptimizer):
            # What a replay, in which no Python runs, leaves to the host.
            group = optimizer.param_groups[0]
            optimizer._watched.see(optimizer._outcome, optimizer.method.rule, group)
        return self._loss

    def settle(self) -> None:
        """Nothing is left to make: a step has been taken, if only to be refused on the device."""

    def _once(self) -> None:
        self._prepare()
        loss = _evaluated(self._optimizer, self._closure)
        if isinstance(self._optimizer, RuleOptimizer):
            self._optimizer.step(loss=loss)
        else:
            self._optimizer.step()
        self._loss = loss
        self._report()


class Searched:
    """A step with a line search: the host reads losses and decides, the device does the rest.

    If the rule foresees its first trial, that is asked for together with the gradient: one wait
    less, for a forward in vain at the few steps whose first trial cannot succeed.
    """

    def __init__(
        self, optimizer: RuleOptimizer, closure: Closure, prepare: Action, report: Action
    ) -> None:
        self._optimizer, self._closure = optimizer, closure
        self._report = report
        self._measure = optimizer._measure()
        device = self._measure.device
        self._trial, self._step = self._measure.scalar(0.0), self._measure.scalar(0.0)
        self._momentum = self._measure.scalar(0.0)
        """That of a rule that steers."""
        self._weight = self._measure.scalar(1.0)
        self._yes = torch.ones((), dtype=torch.bool, device=device)
        self._buffers = list(optimizer._buffers())
        self._before = [buffer.detach().clone() for buffer in self._buffers]
        self._after = [buffer.detach().clone() for buffer in self._buffers]
        self._streams = RandomStreams(device)
        # Apart from the evaluation, so that trials can begin with the random numbers of that.
        self._prepare = Part(prepare)
        self._evaluate, self._try = Part(self._evaluated), Part(self._tried)
        self._update = Part(self._updated)
        self.parts: tuple[Part, ...] = (self._evaluate, self._try, self._update)
        if prepare is not nothing:  # of which there is no graph
            self.parts = (self._prepare, *self.parts)
        self._sample: Any = None
        self._origin: list[Tensor] = []
        self._facts: Any = None
        """The loss as the closure returned it, and what the rule sees of the batch."""
        self._numbers: Any = None
        """The trial loss and the facts, to be read at once."""
        self._returned = 0.0

    def take(self) -> float:
        """Take the step, whatever number of trials it needs."""
        optimizer = self._optimizer
        optimizer._check_groups()
        optimizer._opt_called = True  # type: ignore[attr-defined]  # what schedulers look at
        self._prepare()
        before = self._streams.state()
        self._evaluate()
        optimizer._watched.about_to_search(optimizer._all_params, self._buffers)
        after = self._streams.state()
        try:
            decision = self._searched(self._sample, before)
        except BaseException:
            self._return_to(self._before)
            raise
        finally:
            self._streams.restore(after)
        if decision.accepted:
            self._step.fill_(decision.base_step)
            self._weight.fill_(decision.weight)
            self._update()
        else:
            self._return_to(self._before)
        optimizer._report(decision)
        self._report()
        return self._returned

    def settle(self) -> None:
        """The state of parameters, which is not there if the host refused every batch so far."""
        make_state(self._optimizer.method, self._sample.groups, self._optimizer.state)

    def _searched(self, sample: Sample, streams: list[Tensor]) -> Decision:
        def tried(trial: float) -> list[float]:
            self._trial.fill_(trial)
            self._streams.restore(streams)
            self._try()
            numbers: list[float] = self._numbers.tolist()
            return numbers

        method = self._optimizer.method
        rule = HostRule(method.rule, *self._optimizer._numbers, sample)
        known: dict[float, float] = {}
        if method.rule.foresees:
            first = rule.begun(ANY_BATCH).trial
            known[first], self._returned, *facts = tried(first)
        else:
            self._returned, *facts = self._facts.tolist()
        seen = rule.seen(facts)
        begun = rule.begun(seen)
        self._momentum.fill_(begun.momentum)
        search = rule.finished(
            seen,
            begun,
            lambda trial: known[trial] if trial in known else tried(trial)[0],
        )
        return rule.conclude(seen, search)

    def _evaluated(self) -> None:
        self._sample = None  # the last gradients: their memory is wanted for the new ones
        put_back(self._before, self._buffers)
        loss = _evaluated(self._optimizer, self._closure)
        put_back(self._after, self._buffers)
        with torch.no_grad():
            self._sample = self._optimizer._sample(loss)
            returned = self._measure.scalar(loss).unsqueeze(0)
            self._facts = torch.cat((returned, host_numbers(self._sample)))
            self._origin = self._optimizer._copies.of(self._sample.params)

    @torch.no_grad()
    def _tried(self) -> None:
        sample = self._sample
        put_back(sample.params, self._origin)
        ways = ways_of(self._optimizer.method, sample, self._optimizer.state, self._momentum)
        straight = Update(HEAVY_BALL, self._trial, 0.0, 1.0, shrink=None, accepted=self._yes)
        move(sample.params, ways, None, straight, self._optimizer._foreach)
        put_back(self._buffers, self._before)
        torch.clear_autocast_cache()  # an outer autocast keeps casts at another point
        loss = checked_loss(self._closure(), "the closure's return value")
        share = self._measure.objective_share(loss, sample.groups)
        self._numbers = torch.cat((share.unsqueeze(0), self._facts))

    @torch.no_grad()
    def _updated(self) -> None:
        self._return_to(self._after)
        steers = self._optimizer.method.rule.steers
        decision = Decision(
            self._step, self._yes, capped=None, loss=None, grad_sqnorm=None,
            momentum=self._momentum if steers else None, weight=self._weight,
        )  # fmt: skip
        self._optimizer._apply(self._sample, decision)

    @torch.no_grad()
    def _return_to(self, buffers: list[Tensor]) -> None:
        put_back(self._sample.params, self._origin)
        put_back(self._buffers, buffers)


def _evaluated(optimizer: Optimizer, closure: Closure) -> Tensor:
    """The loss, detached, with its gradients in ``p.grad``."""
    optimizer.zero_grad(set_to_none=True)
    # An autocast around the step keeps casts of the parameters before the last one.
    torch.clear_autocast_cache()
    with torch.enable_grad():
        loss = checked_loss(closure(), "the closure's return value")
        if not isinstance(loss, Tensor) or not loss.requires_grad:
            raise TypeError(
                "the closure of a CapturedStep must return the loss as a tensor with a gradient, "
                "and leave backward() to the step"
            )
        loss.backward()  # type: ignore[no-untyped-call]
    return loss.detach()
