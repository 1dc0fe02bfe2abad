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
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from heavystep import validation
from heavystep.optim.closures.closure import Closure
from heavystep.optim.graphs.parts import Action, nothing, step_of
from heavystep.optim.optimizer import RuleOptimizer


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
        if isinstance(self._optimizer, RuleOptimizer) and self._optimizer._ranks.count > 1:
            raise ValueError(
                "a CapturedStep is for one process, and there are several: call the optimizer's "
                "step, or give it a process_group of this process alone"
            )
        device = _device(self._optimizer)
        if device.type != "cuda":
            return self._step.take()
        with torch.cuda.device(device):
            return self._take_on(device)

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
        for group in optimizer.param_groups:
            for name, value in group.items():
                if isinstance(value, Tensor) and value.is_cuda:
                    self._tensors.append(value)
                elif name != "params" and name not in memory:
                    self._numbers.append(value.item() if isinstance(value, Tensor) else value)

    def equals(self, other: "_Constants") -> bool:
        """Whether what was recorded with one is right with the other."""
        same = len(self._tensors) == len(other._tensors)
        same = same and all(map(operator.is_, self._tensors, other._tensors))
        return same and self._numbers == other._numbers
