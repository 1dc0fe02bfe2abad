"""A whole training step as CUDA graphs: recorded once, replayed with no Python in between.

A step of a small network is hundreds of kernels of a few microseconds, and Python takes longer to
ask for them than a GPU to run them. The optimizers are the same ones; only who calls their parts
is different:

- all but the line search: forward, backward and step are one graph, and nothing waits for the GPU;
- the line search: one graph for what goes before, one for forward and backward, one for a trial
  and one for the update. The host reads one small tensor a trial, and decides.
"""

import gc
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.optim import Optimizer

from heavystep import validation
from heavystep.optim.closure import Closure, RandomStreams, put_back
from heavystep.optim.decide import Decision, begin_search, finish_search
from heavystep.optim.measure import checked_loss, rates_are_in_range
from heavystep.optim.optimizer import RuleOptimizer
from heavystep.rules import Search

Action = Callable[[], object]
"""Work on tensors that stay in place, to be done again and again."""


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
            rule, group = optimizer.method.rule, optimizer.param_groups[0]
            optimizer._watched.see(optimizer._outcome, optimizer._measure.plain, rule, group)
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
    """A step with a line search: the host reads losses and decides, the device does the rest."""

    def __init__(
        self, optimizer: RuleOptimizer, closure: Closure, prepare: Action, report: Action
    ) -> None:
        self._optimizer, self._closure = optimizer, closure
        self._report = report
        optimizer._measure.look_at(optimizer._all_params)
        self._measure = measure = optimizer._measure
        self._trial, self._step, self._momentum = (measure.scalar(0.0) for _ in range(3))
        self._buffers = list(optimizer._buffers())
        self._before = [buffer.detach().clone() for buffer in self._buffers]
        self._after = [buffer.detach().clone() for buffer in self._buffers]
        self._streams = RandomStreams(measure.device)
        # Apart from the evaluation, so that trials can begin with the random numbers of that.
        self._prepare = Part(prepare)
        self._evaluate, self._try = Part(self._evaluated), Part(self._tried)
        self._update = Part(self._updated)
        self.parts: tuple[Part, ...] = (self._evaluate, self._try, self._update)
        if prepare is not nothing:  # of which there is no graph
            self.parts = (self._prepare, *self.parts)
        self._origin: list[Tensor] = []
        self._places: list[Tensor] = []
        self._names: list[str] = []
        self._facts: Any = None
        """The loss as the closure returned it, the objective and the inner products."""
        self._trial_loss: Any = None
        self._decided: Search | None = None

    def take(self) -> float:
        """Take the step, whatever number of trials it needs."""
        optimizer = self._optimizer
        optimizer._resolve()
        optimizer._opt_called = True  # type: ignore[attr-defined]  # what schedulers look at
        self._prepare()
        before = self._streams.state()
        self._evaluate()
        after = self._streams.state()
        try:
            returned, decision = self._searched(before)
        except BaseException:
            self._return_to(self._before)
            raise
        finally:
            self._streams.restore(after)
        if decision.accepted:
            self._step.fill_(decision.step)
            self._decided = decision.search
            self._update()
        else:
            self._return_to(self._before)
        optimizer._report(decision)
        self._report()
        return returned

    def settle(self) -> None:
        """All state is there: an evaluation made it."""

    def _searched(self, streams: list[Tensor]) -> tuple[float, Decision]:
        def tried(trial: float) -> float:
            self._trial.fill_(trial)
            self._streams.restore(streams)
            self._try()
            return float(self._trial_loss)

        optimizer, group = self._optimizer, self._optimizer.param_groups[0]
        rule, constants = optimizer.method.rule, optimizer._resolved["constants"]
        returned, *facts = self._facts.tolist()
        seen = optimizer._seen(facts, self._names, None, None)
        search = begin_search(rule, constants, group, seen, self._places)
        if search.momentum is not None:
            self._momentum.fill_(search.momentum)
        usable = rates_are_in_range(optimizer.param_groups, self._measure)
        known = rule, constants, group, seen, search, usable
        return returned, finish_search(*known, tried, optimizer._watched.tell)

    def _evaluated(self) -> None:
        put_back(self._before, self._buffers)
        loss = _evaluated(self._optimizer, self._closure)
        put_back(self._after, self._buffers)
        optimizer = self._optimizer
        with torch.no_grad():
            optimizer._take_active()
            products, value, _ = optimizer._measured(loss, None)
            self._names = list(products)
            numbers = (loss, value, *products.values())
            self._facts = torch.stack([self._measure.scalar(number) for number in numbers])
            self._places = optimizer._places
            self._origin = optimizer._copies.of(self._places)

    @torch.no_grad()
    def _tried(self) -> None:
        put_back(self._places, self._origin)
        steers = self._optimizer.method.rule.steers
        active = self._optimizer._active
        ways = [w for each in active for w in each.ways(self._momentum if steers else None)]
        torch._foreach_sub_(self._places, [way * self._trial.to(way.dtype) for way in ways])
        put_back(self._buffers, self._before)
        torch.clear_autocast_cache()  # an outer autocast keeps casts at another point
        loss = checked_loss(self._closure(), "the closure's return value")
        self._trial_loss = self._measure.objective_share(loss, active)

    @torch.no_grad()
    def _updated(self) -> None:
        self._return_to(self._after)
        search = self._decided
        assert search is not None
        if search.momentum is not None:
            search = search._replace(momentum=self._momentum)
        for active in self._optimizer._active:
            if active.params:
                self._optimizer._move(active, self._step, search, True, False)

    @torch.no_grad()
    def _return_to(self, buffers: list[Tensor]) -> None:
        put_back(self._places, self._origin)
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


class CapturedStep:
    """One training step to be called again and again, as CUDA graphs where there is a GPU.

    Calling it does what ``optimizer.zero_grad()``, ``loss = closure()``, ``loss.backward()`` and
    ``optimizer.step()`` do, or ``optimizer.step(closure)`` for a line search; on a CPU just so.
    On a GPU the first calls are warm-up, then the kernels are recorded, and from there on replayed.
    They read and write the tensors that they were recorded with: copy each batch into the same
    memory. The memory of a model or an optimizer may not be exchanged either; loading a state and
    changing an option (a learning rate, say) are noticed and recorded anew, which takes about as
    long as a few steps. A learning rate that changes at every step should be a tensor on the GPU.
    What else a forward depends on, such as ``train()`` and ``eval()``, must stay as it was recorded
    (or call :meth:`forget`). Hooks of the optimizer, such as a :class:`~heavystep.Recorder`'s,
    would not be called, and are refused; for an average of the iterates give
    ``report=Average(optimizer, automatic=False).update``.

    Args:
        optimizer: of this package, or one of torch that can be captured, such as ``SGD``.
        closure: returns the loss of the batch, and leaves ``backward()`` to the step.
        prepare: what goes before each step and belongs to it, such as augmentation.
        report: what comes after each step, such as adding up ``optimizer.info``. It is recorded
            too, unless the optimizer is a line search, whose ``info`` holds numbers of the host.
        warmup: calls before recording, >= 1; libraries choose their algorithms there.

    >>> import torch, heavystep
    >>> theta = torch.tensor([3.0, -1.0], requires_grad=True)
    >>> target = torch.tensor([1.0, 2.0])
    >>> step = CapturedStep(heavystep.SHBPolyak([theta]), lambda: ((theta - target) ** 2).sum())
    >>> for _ in range(200):
    ...     loss = step()
    >>> print(theta.detach().round(decimals=2))
    tensor([1., 2.])
    """

    def __init__(
        self,
        optimizer: Optimizer,
        closure: Closure,
        *,
        prepare: Action = nothing,
        report: Action = nothing,
        warmup: int = 3,
    ) -> None:
        validation.integer("warmup", warmup, least=1)
        self._optimizer = optimizer
        self._step = step_of(optimizer, closure, prepare, report)
        self._warmup = warmup
        self._calls = 0
        self._recorded_with: _Constants | None = None
        optimizer.register_load_state_dict_post_hook(lambda _: self.forget())

    def __call__(self) -> Any:
        """Take the step on the batch that is in place now.

        Returns:
            The loss before the step, detached: a tensor that the next call overwrites, or a number
            if the optimizer is a line search.
        """
        self._refuse_hooks()
        if self._several():
            raise ValueError(
                "a CapturedStep is for one process, and there are several: call the optimizer's "
                "step, or give it a process_group of this process alone"
            )
        device = _device(self._optimizer)
        if device.type != "cuda":
            return self._step.take()
        with torch.cuda.device(device):
            return self._take_on(device)

    def _several(self) -> bool:
        optimizer = self._optimizer
        if not isinstance(optimizer, RuleOptimizer):
            return False
        optimizer._measure.look_at(optimizer._all_params)
        return optimizer._measure.ranks.count > 1

    def _take_on(self, device: torch.device) -> Any:
        recorded = self._recorded_with
        if recorded is not None and not recorded.equals(_Constants(self._optimizer)):
            self.forget()
        if self._calls < self._warmup:
            self._calls += 1
            return self._warm_up(device)
        if self._recorded_with is None:
            self._record()
            self._recorded_with = _Constants(self._optimizer)
        return self._step.take()

    def forget(self) -> None:
        """Drop what was recorded: the next calls warm up and record anew."""
        for part in self._step.parts:
            part.graph = None
        self._recorded_with, self._calls = None, 0

    def _refuse_hooks(self) -> None:
        optimizer = self._optimizer
        if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
            raise ValueError(
                "a CapturedStep does not call the hooks of its optimizer (those of a Recorder, "
                "say): remove them, or call the optimizer yourself; an Average(optimizer, "
                "automatic=False) has none and is updated by report=average.update"
            )

    def _warm_up(self, device: torch.device) -> Any:
        """A step as it is, on a stream of its own as recording asks for."""
        current, side = torch.cuda.current_stream(), _side_stream(device)
        side.wait_stream(current)
        with torch.cuda.stream(side):
            loss = self._step.take()
        current.wait_stream(side)
        return loss

    def _record(self) -> None:
        self._step.settle()
        # One pool: what a part leaves for the next stays alive, all else is shared.
        pool = torch.cuda.graph_pool_handle()
        for part in self._step.parts:
            graph = torch.cuda.CUDAGraph()
            with _nothing_collected(), torch.cuda.graph(graph, pool=pool):
                part.action()
            part.graph = graph


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Within the block Python looks for no garbage: there may be graphs of another step among it.

    A step and its optimizer refer to each other, so that only the collector finds them, at any
    allocation. CUDA does not allow a graph to be destroyed while another one is recorded, and then
    neither is usable.
    """
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


@cache
def _side_stream(device: torch.device) -> Any:
    # One for all steps: libraries keep work space for every stream that they have seen.
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def _device(optimizer: Optimizer) -> torch.device:
    device: torch.device = optimizer.param_groups[0]["params"][0].device
    return device


class _Constants:
    """What a recorded step cannot see changing: numbers, and where tensors are.

    A tensor on the GPU is read anew at each step and has to stay in place. One on the CPU is a
    number to a graph.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self._numbers: list[Any] = [optimizer.param_groups[0]["params"][0].data_ptr()]
        self._tensors: list[Tensor] = []
        # What a rule on the host remembers changes at every step and is in no graph.
        memory = optimizer.method.rule.memory if isinstance(optimizer, RuleOptimizer) else {}
        passing = {"params", "step", *memory}
        for group in optimizer.param_groups:
            for name, value in group.items():
                if isinstance(value, Tensor) and value.is_cuda and name != "step":
                    self._tensors.append(value)
                elif name not in passing:
                    self._numbers.append(value.item() if isinstance(value, Tensor) else value)

    def equals(self, other: "_Constants") -> bool:
        """Whether what was recorded with one is right with the other."""
        same = len(self._tensors) == len(other._tensors)
        same = same and all(map(operator.is_, self._tensors, other._tensors))
        return same and self._numbers == other._numbers
