"""Agreement of the processes that train one model together.

Every process must take the same step. All numbers of a batch are summed over processes in one
message, and with them travel two checks: that all processes have the same options, state and
trained parameters, and that all of them gave a lower bound or none.
"""

import math
import zlib
from collections.abc import Iterable
from typing import Any
from weakref import ref

import torch
from torch import Tensor, distributed
from torch.nn.parallel import DistributedDataParallel

from heavystep.optim.options import Group
from heavystep.rules import Rule

EXACT = 1 << 24  # whole numbers below it are exact in float32, and so are their sums
DIFFERENCES = {
    "gradients": "gradients of other parameters",
    "parameters": "other values in its parameters",
    "state": "other values in its state",
}
"""Differences between processes that are refused, besides options and memory of the rule."""
JOINED = (
    "step() cannot be used in model.join() of DistributedDataParallel: when a process runs out of "
    "batches, the others would wait for it. Give all processes as many batches (drop_last=True), "
    "or use model.join(throw_on_early_termination=True)"
)
WORDS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


class Ranks:
    """The processes that take the same steps.

    Args:
        process_group: of torch.distributed; None: all processes.
        params: as a user gave them; ``model.parameters()`` knows its model.

    Raises:
        TypeError: ``process_group`` is none.
        ValueError: this process does not belong to it.
    """

    count = 1
    """The number of processes."""

    def __init__(self, process_group: Any = None, params: Any = None) -> None:
        if process_group is distributed.GroupMember.NON_GROUP_MEMBER:
            raise ValueError("process_group: this process does not belong to it")
        if process_group is not None and not isinstance(process_group, distributed.ProcessGroup):
            raise TypeError(
                f"process_group must be a group of torch.distributed, got {process_group!r}: make "
                "one with new_group(), or take get_group() of a device mesh"
            )
        self._group = process_group
        self._begun: dict[str, Any] | None = None
        self._own: dict[str, Any] = {}  # what must be alike on all processes, as this one has it
        self._digest: int | None = None
        self._agreed = False
        frame = getattr(params, "gi_frame", None)  # of the generator that parameters() is
        model = frame.f_locals.get("self") if frame else None
        self._model = ref(model) if isinstance(model, DistributedDataParallel) else None

    def __deepcopy__(self, memo: object) -> "Ranks":
        return type(self)(self._group)

    def __reduce__(self) -> tuple[type["Ranks"], tuple[()]]:
        return type(self), ()  # a process group cannot leave its process

    def count_processes(self) -> int:
        """Count the processes that take the same steps, now."""
        several = distributed.is_available() and distributed.is_initialized()
        self.count = distributed.get_world_size(self._group) if several else 1
        return self.count

    def compare_anew(self, loaded: bool = False) -> None:
        """Compare options, trained parameters and a loaded state at the next step."""
        self._digest = None
        if loaded:
            self._begun, self._agreed = None, False

    def summed(self, numbers: Tensor) -> Tensor:
        """The sum over processes of each element; it is written to where they are."""
        distributed.all_reduce(numbers, group=self._group)
        return numbers

    def agree(
        self, numbers: list[Tensor], bounded: bool, rule: Rule, actives: list[Any],
        groups: list[Group], names: list[str],
    ) -> list[Tensor]:  # fmt: skip
        """The sum of each number over the processes, after a check that they are alike.

        ``bounded``: this process was given a lower bound. For the others see :meth:`Measure.batch`.
        """
        join = getattr(self._model and self._model(), "_join_config", None)
        if join is not None and join.enable and not join.throw_on_early_termination:
            raise ValueError(JOINED)
        compiling = torch.compiler.is_compiling()
        if self._begun is None:  # on a GPU to read a memory is to wait
            self._begun = options_of(rule.memory, groups)
            for what in () if compiling else ("parameters", "state"):
                self._begun[what] = [checksums(active.replicated(what)) for active in actives]
        if self._digest is None:
            trained = {"gradients": [active.trained() for active in actives]}
            self._own = {**options_of(names, groups), **trained, **self._begun}
            self._digest = zlib.crc32(repr(self._own).encode())
        own = self._digest % (EXACT // self.count - 1) + 1
        checks = [numbers[0].new_full((), float(each)) for each in (own, bounded)]
        *sums, digests, givens = self.summed(torch.stack([*numbers, *checks]))
        # Reading waits for a GPU; it does so at the first step and after a state was loaded.
        fake = distributed.get_backend(self._group) == "fake"  # that backend adds nothing up
        due = digests.is_cpu or not self._agreed or rule.searches
        if due and not fake and not compiling:
            self._compare(digests.item(), givens.item(), own)
            self._agreed = True
        return sums

    def _compare(self, digests: float, givens: float, own: int) -> None:
        if givens not in (0.0, self.count):
            raise ValueError(
                "lower_bound (f_star) must be given to step() on all processes that train "
                f"together or on none, got it on {givens:g} of {self.count}"
            )
        if digests == self.count * own:
            return
        found: list[Any] = [None] * self.count
        distributed.all_gather_object(found, self._own, group=self._group)
        rank, other = next((i, each) for i, each in enumerate(found) if each != found[0])
        name = next(name for name in {**found[0], **other} if found[0].get(name) != other.get(name))
        differs = f"rank {rank} has {DIFFERENCES.get(name)} than rank 0"
        if name not in DIFFERENCES:
            values = _told(found[0].get(name, [])), _told(other.get(name, []))
            differs = f"{name} is {values[0]} on rank 0 and {values[1]} on rank {rank}"
        raise ValueError(
            "processes that train together must have the same options, state and trained "
            f"parameters, and {differs}"
        )


def options_of(names: Iterable[str], groups: list[Group]) -> dict[str, Any]:
    """The values of all groups, as processes compare them."""

    def plain(value: Any) -> Any:
        return float(value) if isinstance(value, (int, float, Tensor)) else value

    return {name: [plain(group[name]) for group in groups] for name in names}


def _told(values: list[Any]) -> str:
    """The values of all groups; one value if they agree."""
    return repr(values[0] if len(set(map(repr, values))) == 1 else values)


def shards(tensor: Tensor) -> int:
    """Into how many parts, held by different processes, a tensor is cut."""
    placements: Any = getattr(tensor, "placements", None)
    if placements is None:
        return 1
    mesh: Any = getattr(tensor, "device_mesh", None)
    return math.prod(mesh.size(d) for d, where in enumerate(placements) if where.is_shard())


def checksums(tensors: list[Tensor]) -> list[int]:
    """The sum of the bits of each tensor, read as whole numbers: exact, in whatever order."""
    vectors = (tensor.reshape(-1) for tensor in tensors)
    sums = [vector.view(WORDS[vector.element_size()]).sum() for vector in vectors]
    return torch.stack(sums).tolist() if sums else []
