"""Several processes that train one model: what they add up, and what each of them holds.

Every process must take the same step. The loss is therefore the mean over processes, as gradients
are under data parallelism, and the squared norm a sum over what each process holds of a gradient.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, distributed

from heavystep.optim.agreeing import Agreement
from heavystep.optim.vectors import squared_norm


class Ranks:
    """The processes of a group; without torch.distributed there is one.

    Args:
        group: of torch.distributed; None: all processes.

    Raises:
        TypeError: ``group`` is not a process group.
        ValueError: this process does not belong to the group.
    """

    def __init__(self, group: Any = None) -> None:
        self._group = _checked(group)
        self.agreement = Agreement()

    def __deepcopy__(self, memo: object) -> "Ranks":
        return Ranks(self._group)

    def __reduce__(self) -> tuple[type["Ranks"], tuple[()]]:
        return Ranks, ()  # a process group cannot leave its process

    @property
    def count(self) -> int:
        """The number of processes."""
        return distributed.get_world_size(self._group) if _several() else 1

    def total(self, *parts: Tensor) -> list[Tensor]:
        """The sum over processes of each 0-dim tensor: one message, and none if there is one."""
        if self.count == 1:
            return list(parts)
        together = torch.stack(parts)
        distributed.all_reduce(together, group=self._group)
        return list(together.unbind())

    def total_of_batch(self, *parts: Tensor) -> list[Tensor]:
        """The same, for what every step begins with: options are compared along with it.

        Raises:
            ValueError: another process has other options.
        """
        count = self.count
        if count == 1:
            return list(parts)
        number = self.agreement.number(count)
        *totals, digest = self.total(*parts, torch.full_like(parts[0], number))
        if distributed.get_backend(self._group) != "fake":  # which adds nothing up
            self.agreement.check(digest, count)
        return totals

    def share(self, loss: Tensor) -> Tensor:
        """The part of a process in the mean loss."""
        count = self.count
        return loss if count == 1 else loss / count

    def sqnorm_share(
        self, tensors: list[Tensor], dtype: torch.dtype, foreach: bool
    ) -> Tensor | float:
        """The part of a process in the squared norm: their sum over processes is the norm.

        Elements that several processes hold count once.
        """
        parts = [local(tensor) for tensor in tensors]
        return self.total_share(
            tensors, lambda some: squared_norm([parts[i] for i in some], dtype, foreach)
        )

    def total_share(
        self, cut_as: list[Tensor], part_of: Callable[[list[int]], Tensor]
    ) -> Tensor | float:
        """The part of a process in a sum over elements, of which those held by several count once.

        Args:
            cut_as: tensors that are cut as what is summed.
            part_of: the sum over what this process holds of some of them, by their places.
        """
        if not _several():  # nothing is cut
            return part_of(list(range(len(cut_as)))) if cut_as else 0.0
        held: dict[float, list[int]] = {}
        count = self.count
        for i, tensor in enumerate(cut_as):
            held.setdefault(count / shards(tensor), []).append(i)
        total: Tensor | float = 0.0
        for copies, some in held.items():
            part = part_of(some)
            total = total + (part if copies == 1.0 else part / copies)
        return total

    def inner_share(
        self,
        left: Iterable[Tensor],
        right: Iterable[Tensor],
        cut_as: Iterable[Tensor],
        dtype: torch.dtype,
    ) -> Tensor | float:
        """The part of a process in an inner product: their sum over processes is the product.

        Args:
            left: what this process holds of one vector.
            right: what it holds of the other, or the tensors themselves.
            cut_as: tensors that are cut as the vectors are.
            dtype: in which products are added.
        """
        total: Tensor | float = 0.0
        count = self.count
        for x, y, whole_tensor in zip(left, right, cut_as, strict=True):
            part = (local(x).to(dtype) * local(y).to(dtype)).sum()
            total = total + part / (count / shards(whole_tensor))
        return total


def _several() -> bool:
    """Whether there may be other processes."""
    return distributed.is_available() and distributed.is_initialized()


def _checked(group: Any) -> Any:
    if group is None or isinstance(group, distributed.ProcessGroup):
        return group
    if group is distributed.GroupMember.NON_GROUP_MEMBER:
        raise ValueError("process_group: this process does not belong to it")
    raise TypeError(
        f"process_group must be a group of torch.distributed, got {group!r}: make one with "
        "new_group(), or take get_group() of a device mesh"
    )


def shards(tensor: Tensor) -> int:
    """Into how many parts, held by different processes, a tensor is cut."""
    placements: Any = getattr(tensor, "placements", None)
    if placements is None:
        return 1
    mesh: Any = getattr(tensor, "device_mesh", None)
    return math.prod(mesh.size(d) for d, where in enumerate(placements) if where.is_shard())


def local(tensor: Tensor) -> Tensor:
    """What this process holds of a tensor: of a DTensor its shard, else the tensor itself."""
    shard: Any = getattr(tensor, "to_local", None)
    return tensor if shard is None else shard()


def forget_gathered(params: Iterable[Tensor]) -> None:
    """Let go of parameters that FSDP gathered for a forward without a backward.

    It keeps those of a root module for a backward to come, and would use them in the next
    forward, although the shards have moved since.
    """
    sharded = {param for param in params if hasattr(param, "to_local")}
    if not sharded:
        return
    from torch.distributed._composable_state import _module_state_mapping
    from torch.distributed.fsdp import FSDPModule

    for module in list(_module_state_mapping):
        if isinstance(module, FSDPModule) and sharded.intersection(_parameters(module)):
            module.reshard()


def _parameters(module: Any) -> set[Tensor]:
    """The sharded parameters of the group that a module gathers."""
    group: Any = module._get_fsdp_state()._fsdp_param_group
    return set() if group is None else {each.sharded_param for each in group.fsdp_params}


def whole(loss: Any) -> Any:
    """A loss as a plain tensor, should it be a DTensor."""
    full: Any = getattr(loss, "full_tensor", None)
    return loss if full is None else full()
