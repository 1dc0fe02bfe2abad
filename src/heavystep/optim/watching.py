"""An optimizer looks at its own run, now and then, and never waits for the device to do so.

At the first steps and at an eighth of the later ones four numbers are put aside where they are, on
the device. A few dozen of them at once are copied to the host, and read at a later step, when they
have arrived. No number of the run depends on it, and it is no part of any state.

Not watched: steps within ``torch.compile``, graphs that the user recorded, and devices other than
CPUs and CUDA.
"""

import gc
from collections.abc import Iterable
from itertools import pairwise
from math import inf
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _NormBase

from heavystep.optim.findings import Row, Story, found_in
from heavystep.optim.speaking import warn_caller
from heavystep.rules import Rule

FIRST, RECENT = 5, 25
"""Rows that are kept of the beginning, and of the end."""
PACE = 0.6180339887498949
"""Multiples of it, without their whole part, are even in [0, 1) along every period of batches."""
SHARE = 0.125
EARLY, EVERY = (25, 50), 100
"""Steps at which rows are sent to the host."""

Numbers = Tensor | tuple[float, ...]


class Watch:
    """What one optimizer has seen of its run, and what it has said."""

    def __init__(self) -> None:
        self._steps = 0
        self._put_aside: list[tuple[Numbers, float]] = []
        self._on_the_way: _Arrival | None = None
        self._first: list[Row] = []
        self._recent: list[Row] = []
        self._said: set[str] = set()
        self._searched = False

    def see(self, outcome: dict[str, Any], rule: Rule, group: dict[str, Any]) -> None:
        """Take in one step, and warn of what has come to light.

        Args:
            outcome: the fields of ``info``.
            rule: that chose the step.
            group: its options.
        """
        if torch.compiler.is_compiling() or not _can_be_watched(outcome["grad_sqnorm"]):
            return
        self._steps += 1
        steps = self._steps
        if steps <= RECENT or steps * PACE % 1.0 < SHARE:
            largest = outcome["max_step"]
            self._put_aside.append((_numbers(outcome), inf if largest is None else float(largest)))
        if self._on_the_way is None and (steps % EVERY == 0 or steps in EARLY):
            self._on_the_way, self._put_aside = _Arrival(self._put_aside), []
        if self._on_the_way is not None and self._on_the_way.is_here():
            self._take_in(self._on_the_way.rows())
            self._on_the_way = None
            self._speak(Story(steps, self._first, self._recent, rule, group))

    def _take_in(self, rows: list[Row]) -> None:
        usable = [row for row in rows if row.finite]
        self._first += usable[: FIRST - len(self._first)]
        self._recent = (self._recent + rows)[-RECENT:]

    def _speak(self, story: Story) -> None:
        for kind, text in found_in(story).items():
            if kind not in self._said:
                self._said.add(kind)
                warn_caller(text)

    def about_to_search(self, params: list[Tensor], buffers: Iterable[Tensor]) -> None:
        """Warn, before the first trial of all, if trials would change running statistics.

        Args:
            params: all parameters of the optimizer.
            buffers: what the search puts back after its trials.
        """
        if self._searched:
            return
        self._searched = True
        kind = _without_buffers(params, buffers)
        if kind is not None:
            warn_caller(
                f"the running statistics of a {kind} are not among the buffers of this line "
                "search: each trial changes them once more. Give buffers=model.buffers"
            )


def _can_be_watched(value: Any) -> bool:
    """Whether it can be put aside: there is no reading while a graph is recorded."""
    if not isinstance(value, Tensor) or value.is_cpu:
        return True
    return value.is_cuda and not torch.cuda.is_current_stream_capturing()


def _numbers(outcome: dict[str, Any]) -> Numbers:
    """The first fields of a :class:`Row`: one small tensor where the step was chosen on a device.

    It is a copy: the next replay of a graph writes to where the fields are.
    """
    loss, norm, step = outcome["loss"], outcome["grad_sqnorm"], outcome["base_step"]
    bound = -inf if outcome["lower_bound"] is None else outcome["lower_bound"]
    if not isinstance(norm, Tensor):
        return loss, loss - bound, norm, step
    loss = torch.zeros_like(norm) if loss is None else loss
    return torch.stack((loss, loss - bound, norm, step))


class _Arrival:
    """Rows on their way to the host."""

    def __init__(self, put_aside: list[tuple[Numbers, float]]) -> None:
        last = put_aside[-1][0]
        # The parameters may have moved to another device, or taken another format.
        alike = [(n, largest) for n, largest in put_aside if _place(n) == _place(last)]
        self._largest = [largest for _, largest in alike]
        self._numbers: Any = [n for n, _ in alike]
        self._event: Any = None
        if isinstance(last, Tensor):
            self._numbers = torch.stack(self._numbers)
            if last.is_cuda:
                self._send(last.device)

    def _send(self, device: torch.device) -> None:
        packed = self._numbers
        self._numbers = torch.empty(packed.shape, dtype=packed.dtype, pin_memory=True)
        self._numbers.copy_(packed, non_blocking=True)
        self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._event.record(torch.cuda.current_stream(device))

    def is_here(self) -> bool:
        """Whether reading would not wait."""
        return self._event is None or self._event.query()

    def rows(self) -> list[Row]:
        """The rows, once they are here."""
        found = self._numbers
        rows = [Row(*four) for four in (found.tolist() if isinstance(found, Tensor) else found)]
        return [row._replace(max_step=m) for row, m in zip(rows, self._largest, strict=True)]


def _place(numbers: Numbers) -> Any:
    return (numbers.device, numbers.dtype) if isinstance(numbers, Tensor) else None


def _without_buffers(params: list[Tensor], buffers: Iterable[Tensor]) -> str | None:
    """The kind of a module in training whose running statistics are not among the buffers.

    An optimizer knows parameters and no modules. Weight and bias of a norm follow each other and
    are alike; where there are such, the module of the weight is looked for among all objects. Not a
    hook on forwards: with one set, ``torch.compile`` compiles once more.
    """
    weights = {id(p) for p, q in pairwise(params) if p.dim() == 1 and p.shape == q.shape}
    if not weights:
        return None
    known = {id(buffer) for buffer in buffers}
    for module in gc.get_objects():
        # By its type: some objects do work when they are asked for their class.
        if issubclass(type(module), _NormBase) and id(module.weight) in weights:
            statistics = module.running_mean
            if module.training and statistics is not None and id(statistics) not in known:
                return type(module).__name__
    return None
