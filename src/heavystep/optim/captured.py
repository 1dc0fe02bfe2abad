"""A whole training step as CUDA graphs: recorded once, replayed with no Python in between.

A step of a small network is hundreds of kernels of a few microseconds, and Python takes longer to
ask for them than a GPU to run them. The optimizers are the same ones; only who calls their parts
is different:

- all but the line search: forward, backward and step are one graph, and nothing waits for the GPU;
- the line search: one graph for what goes before, one for forward and backward, one for a trial
  and one for the update. The host reads one small tensor a trial, and decides.
"""

import gc
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from heavystep import validation
from heavystep.optim.closure import Closure, Replay, copy_to, put_back
from heavystep.optim.measure import checked_loss
from heavystep.optim.optimizer import RuleOptimizer
from heavystep.rules import Search

Action = Callable[[], object]  # work on tensors that stay in place, to be done again and again


def nothing() -> None:
    """No work."""


@dataclass
class Part:
    """Work that is done as it is, or replayed once there is a graph of it."""

    action: Action
    graph: Any = None

    def __call__(self) -> None:
        """Do the work on what the tensors hold now."""
        (self.action if self.graph is None else self.graph.replay)()


class OneGraph:
    """A step that reads nothing on the host."""

    def __init__(
        self, optimizer: Optimizer, closure: Closure, prepare: Action, report: Action
    ) -> None:
        self._optimizer, self._closure = optimizer, closure
        self._prepare, self._report = prepare, report
        self.parts = (Part(self._once),)
        self._loss: Any = None

    def take(self) -> Any:
        """Take the step; the loss stays on the device."""
        self.parts[0]()
        optimizer = self._optimizer
        if self.parts[0].graph is not None and isinstance(optimizer, RuleOptimizer):
            optimizer._watch()  # what a replay, in which no Python runs, leaves to the host
        return self._loss

    def _once(self) -> None:
        self._prepare()
        self._loss = _evaluated(self._optimizer, self._closure)
        told: Any = {"loss": self._loss} if isinstance(self._optimizer, RuleOptimizer) else {}
        self._optimizer.step(**told)
        self._report()


class GraphsOfSearch:
    """A step with a line search: the host reads losses and decides, the device does the rest."""

    def __init__(
        self, optimizer: RuleOptimizer, closure: Closure, prepare: Action, report: Action
    ) -> None:
        self._optimizer, self._closure, self._report = optimizer, closure, report
        self._measure = measure = optimizer._measure
        measure.look_at(optimizer._all_params)
        self._trial, self._step, self._momentum = (measure.scalar(0.0) for _ in range(3))
        self._buffers = list(optimizer._buffers())
        self._before = [buffer.detach().clone() for buffer in self._buffers]
        self._after = [buffer.detach().clone() for buffer in self._buffers]
        self._streams = Replay(measure.device)
        # Apart from the evaluation: trials repeat its random numbers.
        self._prepare = Part(prepare)
        self._evaluate, self._try = Part(self._evaluated), Part(self._tried)
        self._update = Part(self._updated)
        self.parts: tuple[Part, ...] = (self._evaluate, self._try, self._update)
        if prepare is not nothing:  # of which there is no graph
            self.parts = (self._prepare, *self.parts)
        self._origin: list[Tensor] = []
        self._names: list[str] = []
        self._loss: Any = None
        """As the closure returned it; its format says how it was rounded."""
        self._facts: Any = None
        """This loss, the objective and the inner products."""
        self._trial_loss: Any = None
        self._decided = Search(0.0, True, False)  # of the last batch that was not refused

    def take(self) -> float:
        """Take the step, whatever number of trials it needs."""
        optimizer = self._optimizer
        optimizer._resolve()
        optimizer._opt_called = True  # type: ignore[attr-defined]  # what schedulers look at
        self._prepare()
        before = self._streams.state()
        self._evaluate()
        after = self._streams.state()
        returned, known, *numbers = self._facts.tolist()

        def ready(search: Search) -> AbstractContextManager[object]:
            if search.momentum is not None:
                self._momentum.fill_(search.momentum)
            return nullcontext()

        def loss_at(trial: float) -> float:
            self._trial.fill_(trial)
            self._streams.restore(before)
            self._try()
            return float(self._trial_loss)

        try:
            products = dict(zip(self._names, numbers, strict=True))
            seen = optimizer._seen(known, None, products, self._loss)
            search = optimizer._decide_by_trials(seen, ready, loss_at)
        except BaseException:
            self._return_to(self._before)
            raise
        finally:
            self._streams.restore(after)
        if search.accepted:
            self._step.fill_(search.step)
            self._decided = search
            self._update()
        else:
            self._return_to(self._before)
        optimizer._report(search, seen, seen.loss)
        self._report()
        return float(returned)

    def _evaluated(self) -> None:
        put_back(self._before, self._buffers)
        self._loss = loss = _evaluated(self._optimizer, self._closure)
        put_back(self._after, self._buffers)
        optimizer = self._optimizer
        with torch.no_grad():
            optimizer._take_active()
            products, value, _ = self._measure.batch(
                optimizer.method.rule, optimizer._active, optimizer.param_groups,
                optimizer._names, loss, None,
            )  # fmt: skip
            self._names = list(products)
            numbers = (loss, value, *products.values())
            self._facts = torch.stack([self._measure.scalar(number) for number in numbers])
            self._origin = copy_to(optimizer._copies, optimizer._places)

    @torch.no_grad()
    def _tried(self) -> None:
        optimizer = self._optimizer
        put_back(optimizer._places, self._origin)
        ways = optimizer._ways(self._momentum if optimizer.method.rule.steers else None)
        moves = [way * self._trial.to(way.dtype) for way in ways]
        torch._foreach_sub_(optimizer._places, moves)
        put_back(self._buffers, self._before)
        torch.clear_autocast_cache()  # an outer autocast keeps casts at another point
        loss = checked_loss(self._closure(), "the closure's return value")
        self._trial_loss = self._measure.objective_share(loss, optimizer._active)

    @torch.no_grad()
    def _updated(self) -> None:
        self._return_to(self._after)
        search = self._decided._replace(step=self._step)
        if search.momentum is not None:
            search = search._replace(momentum=self._momentum)
        for active in self._optimizer._active:
            if active.params:
                self._optimizer._move(active, search, on_host=False)

    @torch.no_grad()
    def _return_to(self, buffers: list[Tensor]) -> None:
        put_back(self._optimizer._places, self._origin)
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
        kind: Any = OneGraph
        if isinstance(optimizer, RuleOptimizer) and optimizer.method.rule.searches:
            kind = GraphsOfSearch
        self._optimizer, self._warmup = optimizer, warmup
        self._step: OneGraph | GraphsOfSearch = kind(optimizer, closure, prepare, report)
        self._calls = 0
        self._recorded_with: list[Any] | None = None
        optimizer.register_load_state_dict_post_hook(lambda _: self.forget())

    def __call__(self) -> Any:
        """Take the step on the batch that is in place now.

        Returns:
            The loss before the step, detached: a tensor that the next call overwrites, or a number
            if the optimizer is a line search.
        """
        optimizer = self._optimizer
        if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
            raise ValueError(
                "a CapturedStep does not call the hooks of its optimizer (those of a Recorder, "
                "say): remove them, or call the optimizer yourself; an Average(optimizer, "
                "automatic=False) has none and is updated by report=average.update"
            )
        if isinstance(optimizer, RuleOptimizer) and optimizer._measure.count_processes() > 1:
            raise ValueError(
                "a CapturedStep is for one process, and there are several: call the "
                "optimizer's step, or give it a process_group of this process alone"
            )
        device = optimizer.param_groups[0]["params"][0].device
        if device.type != "cuda":
            return self._step.take()
        with torch.cuda.device(device):
            if self._recorded_with and self._recorded_with != _seen_by_graphs(optimizer):
                self.forget()
            if self._calls < self._warmup:
                self._calls += 1
                return self._warm_up(device)
            if self._recorded_with is None:
                self._record()
                self._recorded_with = _seen_by_graphs(optimizer)
            return self._step.take()

    def forget(self) -> None:
        """Drop what was recorded: the next calls warm up and record anew."""
        for part in self._step.parts:
            part.graph = None
        self._recorded_with, self._calls = None, 0

    def _warm_up(self, device: torch.device) -> Any:
        """A step as it is, on a stream of its own as recording asks for."""
        current, side = torch.cuda.current_stream(), _side_stream(device)
        side.wait_stream(current)
        with torch.cuda.stream(side):
            loss = self._step.take()
        current.wait_stream(side)
        return loss

    def _record(self) -> None:
        # One pool: what a part leaves for the next stays alive, all else is shared.
        pool = torch.cuda.graph_pool_handle()
        # CUDA does not allow a graph, of which there may be one among Python's garbage, to be
        # destroyed while another one is recorded, and then neither is usable.
        collects = gc.isenabled()
        gc.disable()
        try:
            for part in self._step.parts:
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, pool=pool):
                    part.action()
                part.graph = graph
        finally:
            if collects:
                gc.enable()


@cache
def _side_stream(device: torch.device) -> Any:
    # One for all steps: libraries keep work space for every stream that they have seen.
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def _seen_by_graphs(optimizer: Optimizer) -> list[Any]:
    """Everything whose change a recorded step would not notice: numbers, and addresses of tensors.

    A tensor on the GPU is read anew at each step and has to stay in place. One on the CPU is a
    number to a graph.
    """
    seen: list[Any] = [optimizer.param_groups[0]["params"][0].data_ptr()]
    # What a rule on the host remembers changes at every step and is in no graph.
    memory = optimizer.method.rule.memory if isinstance(optimizer, RuleOptimizer) else {}
    for group in optimizer.param_groups:
        for name, value in group.items():
            if isinstance(value, Tensor) and value.is_cuda:
                seen += [] if name == "step" else [value.data_ptr()]
            elif name not in {"params", "step", *memory}:
                seen.append(value.item() if isinstance(value, Tensor) else value)
    return seen
