"""Everything that a trial changes, put back as it was: tensors, modes, loaders, random streams."""

import copy
import random
import sys
from collections import deque
from collections.abc import Iterator
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from heavystep.optim.closure import RandomStreams

DEEPEST = 4
"""How far from a loader its samplers and data sets are looked for."""
LONGEST = 64
"""Lists with more entries than this hold data, and no parts of a loader."""
CONTAINERS = (list, dict, set, deque)
GLOBAL_NUMPY: Any = np.random.mtrand._rand
"""The stream of ``np.random.rand`` and its like."""
NO_PARTS = (type, ModuleType, FunctionType, MethodType, Tensor, nn.Module, str, bytes, np.ndarray)


class Kept:
    """The state of a model, of what gives it batches and losses, and of all random streams.

    Args:
        model: its parameters, gradients, buffers, modes and plain attributes are kept.
        others: loaders and losses. Of modules the same is kept; of other objects the attributes,
            and the generators of random numbers that they or their parts hold.
        device: that of the model.
    """

    def __init__(self, model: nn.Module, others: tuple[Any, ...], device: torch.device) -> None:
        roots = [model, *(other for other in others if isinstance(other, nn.Module))]
        modules = list(dict.fromkeys(part for root in roots for part in root.modules()))
        tensors = [
            tensor
            for module in modules
            for held in (module._parameters, module._buffers)
            for tensor in held.values()
            if tensor is not None
        ]
        self._tensors = list({id(tensor): tensor for tensor in tensors}.values())
        self._values = [tensor.detach().clone() for tensor in self._tensors]
        self._grads = [tensor.grad for tensor in self._tensors]
        self._wants = [tensor.requires_grad for tensor in self._tensors]
        plain = [part for other in others for part in _parts(other)]
        self._attributes = [_Attributes(part) for part in (*modules, *plain)]
        self._generators = [_Generator(part) for part in plain if _is_generator(part)]
        self._streams = RandomStreams(device)
        self._drawn = self._streams.state()
        self._numpy, self._python = GLOBAL_NUMPY.get_state(), random.getstate()

    def restore(self) -> None:
        """Put everything back; it may be called more than once."""
        for attributes in self._attributes:
            attributes.restore()
        with torch.no_grad():
            for tensor, value in zip(self._tensors, self._values, strict=True):
                tensor.copy_(value)
        for tensor, grad, wants in zip(self._tensors, self._grads, self._wants, strict=True):
            tensor.requires_grad_(wants)
            tensor.grad = grad
        for generator in self._generators:
            generator.restore()
        self._streams.restore(self._drawn)
        GLOBAL_NUMPY.set_state(self._numpy)
        random.setstate(self._python)

    def drop_gradients(self) -> None:
        """Take the gradients away, so that nobody adds to those that are kept."""
        for tensor in self._tensors:
            tensor.grad = None


class _Attributes:
    """The attributes of an object, and what its own lists and dicts hold."""

    def __init__(self, owner: Any) -> None:
        self._owner = owner
        self._bound = dict(getattr(owner, "__dict__", {}))
        self._held = [
            (value, copy.copy(value))
            for value in self._bound.values()
            if isinstance(value, CONTAINERS)
        ]

    def restore(self) -> None:
        if self._bound:
            now = vars(self._owner)
            for name in [name for name in now if name not in self._bound]:
                del now[name]
            now.update(self._bound)
        for container, content in self._held:
            if isinstance(container, list):
                container[:] = content
            else:
                container.clear()
                (container.extend if isinstance(container, deque) else container.update)(content)


class _Generator:
    """A generator of random numbers of torch, numpy or Python, and where it was."""

    def __init__(self, generator: Any) -> None:
        self._generator = generator
        self._state = copy.deepcopy(self._now())

    def _now(self) -> Any:
        if isinstance(self._generator, np.random.Generator):
            return self._generator.bit_generator.state
        if isinstance(self._generator, random.Random):
            return self._generator.getstate()
        return self._generator.get_state()

    def restore(self) -> None:
        if isinstance(self._generator, np.random.Generator):
            self._generator.bit_generator.state = self._state
        elif isinstance(self._generator, random.Random):
            self._generator.setstate(self._state)
        else:
            self._generator.set_state(self._state)


def _is_generator(part: Any) -> bool:
    kinds = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)
    return isinstance(part, kinds)


def _parts(root: Any) -> Iterator[Any]:
    """An object and what its attributes hold, a few levels deep: samplers, data, generators."""
    seen: set[int] = set()
    level = [root]
    for _ in range(DEEPEST + 1):
        following: list[Any] = []
        for part in level:
            if id(part) in seen or isinstance(part, NO_PARTS):
                continue
            seen.add(id(part))
            if isinstance(part, (list, tuple)):
                following += part if len(part) <= LONGEST else ()
            elif _is_generator(part):
                yield part
            elif type(part).__module__.partition(".")[0] not in sys.stdlib_module_names:
                # Queues, locks and processes have a life of their own.
                yield part
                following += list(getattr(part, "__dict__", {}).values())
        level = following
