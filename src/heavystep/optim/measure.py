"""What a rule sees of a batch: loss and inner products over all groups and all processes.

Every process must take the same step. The loss is the mean over processes, as gradients are under
data parallelism; inner products are sums over what each process holds of a parameter (the shards of
FSDP). All numbers of a batch travel in one message, and with them two checks: that all processes
have the same options, state and trained parameters, and that all of them gave a lower bound or
none.
"""

import ctypes
import gc
import hashlib
import math
from collections.abc import Iterable
from math import inf
from typing import Any
from weakref import ref

import torch
from torch import Tensor, distributed
from torch.nn.parallel import DistributedDataParallel

from heavystep.optim.options import Group
from heavystep.optim.options import local as local
from heavystep.rules import PRODUCTS, Primitives, Rule, register

_ROW = 4096
_LARGEST = torch.finfo(torch.float32).max
DIVIDED, PLAIN = ("grad_sqnorm", "pull_sqnorm"), "plain_sqnorm"
EXACT = 1 << 24
"""Whole numbers below it are exact in float32, and so are their sums."""
DIFFERENCES = {
    "gradients": "gradients of other parameters",
    "parameters": "other values in its parameters",
    "state": "other values in its state",
}
"""What processes may not have of their own, besides options and the memory of the rule."""
WORDS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
JOINED = (
    "step() cannot be used in model.join() of DistributedDataParallel: when a process runs out of "
    "batches, the others would wait for it. Give all processes as many batches (drop_last=True), "
    "or use model.join(throw_on_early_termination=True)"
)


def _where(condition: Any, if_true: Any, if_false: Any) -> Any:
    if not isinstance(condition, Tensor):  # a rule may say True where it means every batch
        return if_true if condition else if_false
    return torch.where(condition, if_true, if_false)


def _minimum(a: Any, b: Any) -> Tensor:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return torch.minimum(a, b)
    tensor, number = (a, b) if isinstance(a, Tensor) else (b, a)
    # A number beyond the tensor's format stands for its largest number.
    return tensor.clamp(max=min(number, torch.finfo(tensor.dtype).max))


def _maximum(a: Any, b: Any) -> Tensor:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return torch.maximum(a, b)
    return a.clamp(min=b) if isinstance(a, Tensor) else b.clamp(min=a)


register(Tensor, Primitives(_where, _minimum, _maximum))


def as_scalar(value: Any, dtype: torch.dtype, device: Any) -> Tensor:
    """A detached 0-dim tensor; a number becomes one without a copy from the host."""
    if isinstance(value, Tensor):
        return value.detach().reshape(()).to(device=device, dtype=dtype)
    return torch.full((), float(value), dtype=dtype, device=device)


def reads_for_free(device: torch.device) -> bool:
    """Whether the host can read a tensor there without waiting, or breaking a compiled graph."""
    return device.type == "cpu" and not torch.compiler.is_compiling()


def single(value: float) -> float:
    """A number as float32 holds it; a finite one stays finite."""
    if _LARGEST < abs(value) < inf:
        return math.copysign(_LARGEST, value)
    return ctypes.c_float(value).value


def double(value: float) -> float:
    """A number as float64 holds it."""
    return value


def whole(loss: Any) -> Any:
    """A loss as a plain tensor, should it be a DTensor."""
    full: Any = getattr(loss, "full_tensor", None)
    return loss if full is None else full()


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
        group: Any = (
            module._get_fsdp_state()._fsdp_param_group if isinstance(module, FSDPModule) else None
        )
        if group is not None and sharded & {each.sharded_param for each in group.fsdp_params}:
            module.reshard()  # type: ignore[operator]


def indices_by_dtype(tensors: list[Tensor]) -> list[list[int]]:
    """Places of the tensors of each format: kernels for many tensors ask for one."""
    dtypes = {tensor.dtype: None for tensor in tensors}
    if len(dtypes) == 1:
        return [list(range(len(tensors)))]
    return [[i for i, t in enumerate(tensors) if t.dtype == dtype] for dtype in dtypes]


def squared_norm(tensors: list[Tensor], dtype: torch.dtype) -> Tensor:
    """Sum of squares over all tensors, accumulated in ``dtype``.

    On the CPU a long float32 tensor is reduced in rows of 4096: summed in one go its
    squared norm would be wrong by 5e-5 (relative), in rows by 1e-8, and it is faster.
    """
    norms: list[Tensor] = []
    for indices in indices_by_dtype(tensors):
        alike = [tensors[i] for i in indices]
        if alike[0].device.type != "cpu":
            norms.append(torch.stack(torch._foreach_norm(alike, 2, dtype)))
            continue
        vectors = [tensor.reshape(-1) for tensor in alike if tensor.numel() > _ROW]
        short = [tensor for tensor in alike if tensor.numel() <= _ROW]
        if short:
            vectors.append(torch._C._nn.flatten_dense_tensors(short))
        for vector in vectors:
            size = vector.numel()
            full = size - size % _ROW
            if full:
                rows = vector[:full].view(-1, _ROW)
                norms.append(torch.linalg.vector_norm(rows, dim=1, dtype=dtype))
            if size > full:
                rest = vector[full:] if full else vector
                norms.append(torch.linalg.vector_norm(rest, dtype=dtype).unsqueeze(0))
    return (norms[0] if len(norms) == 1 else torch.cat(norms)).square().sum()


def host_sqnorm(tensors: list[Tensor], dtype: torch.dtype) -> float:
    """The same as a number, to the bit, of tensors on the host; those of a small model at once."""
    if dtype == torch.float32 and sum([tensor.numel() for tensor in tensors]) <= _ROW:
        try:
            vector = torch._C._nn.flatten_dense_tensors(tensors)
        except RuntimeError:  # formats are mixed
            return squared_norm(tensors, dtype).item()
        norm = torch.linalg.vector_norm(vector, dtype=dtype).item()
        return single(norm * norm)
    return squared_norm(tensors, dtype).item()


class Measure:
    """How losses and inner products become numbers, alike on all processes.

    Args:
        group: of torch.distributed; None: all processes.

    Raises:
        TypeError: ``group`` is not a process group.
        ValueError: this process does not belong to the group.
    """

    dtype = torch.float32
    """Of numbers on a device: float64 if a parameter is."""
    device = torch.device("cpu")
    count = 1
    """The number of processes, as it was when something last had another gradient."""
    plain: Any = None
    """||g||^2 of the last batch where the rule reads g' D^-1 g."""

    def __init__(self, group: Any = None) -> None:
        if group is distributed.GroupMember.NON_GROUP_MEMBER:
            raise ValueError("process_group: this process does not belong to it")
        if group is not None and not isinstance(group, distributed.ProcessGroup):
            raise TypeError(
                f"process_group must be a group of torch.distributed, got {group!r}: make one with "
                "new_group(), or take get_group() of a device mesh"
            )
        self._group = group
        self._digest: int | None = None
        self._begun: dict[str, Any] | None = None
        self._own: dict[str, Any] = {}
        self._agreed = False
        self._replicas: list[Any] = []

    def __deepcopy__(self, memo: object) -> "Measure":
        return Measure(self._group)

    def __reduce__(self) -> tuple[type["Measure"], tuple[()]]:
        return Measure, ()  # a process group cannot leave its process

    def look_at(self, params: list[Tensor]) -> None:
        """Take format and place of numbers from the parameters."""
        wide = any(param.dtype == torch.float64 for param in params)
        self.dtype = torch.float64 if wide else torch.float32
        self.device = params[0].device if params else torch.device("cpu")
        self.held = double if wide else single
        several = distributed.is_available() and distributed.is_initialized()
        self.count = distributed.get_world_size(self._group) if several else 1

    held = staticmethod(single)
    """A number as the format holds it."""

    def compare_anew(self, loaded: bool = False) -> None:
        """Have other options, trained parameters or, if one was loaded, a state compared too."""
        self._digest = None
        if loaded:
            self._begun, self._agreed = None, False

    def scalar(self, value: Any) -> Tensor:
        """A number, or a tensor with one element, in this format and place."""
        return as_scalar(value, self.dtype, self.device)

    def total(self, parts: list[Tensor]) -> list[Tensor]:
        """The sum over processes of each 0-dim tensor, in one message."""
        return list(self.summed(torch.stack(parts)).unbind())

    def summed(self, numbers: Tensor) -> Tensor:
        """The sum over processes of each element; it is written to where they are."""
        distributed.all_reduce(numbers, group=self._group)
        return numbers

    def sqnorm_share(self, tensors: list[Tensor]) -> Any:
        """The part of a process in the squared norm: their sum over processes is the norm.

        Elements that several processes hold count once.
        """
        if not tensors:
            return 0.0
        count = self.count
        if count == 1 and reads_for_free(self.device):
            return host_sqnorm(tensors, self.dtype)
        if count == 1:
            return squared_norm([local(tensor) for tensor in tensors], self.dtype)
        held: dict[float, list[Tensor]] = {}
        for tensor in tensors:
            held.setdefault(count / shards(tensor), []).append(local(tensor))
        total: Any = 0.0
        for copies, some in held.items():
            total = total + squared_norm(some, self.dtype) / copies
        return self.scalar(total)

    def inner_share(
        self, left: list[Tensor], right: list[Tensor], cut_as: list[Tensor]
    ) -> Tensor | float:
        """The part of a process in an inner product of what it holds of two vectors."""
        total: Tensor | float = 0.0
        count = self.count
        for x, y, cut in zip(left, right, cut_as, strict=True):
            part = (x.to(self.dtype) * y.to(self.dtype)).sum()
            total = total + part / (count / shards(cut))
        return total

    def products(self, rule: Rule, groups: list[Any]) -> dict[str, Any]:
        """This process's part of each inner product that the rule reads."""
        grads = [grad for active in groups for grad in active.grads]
        found: dict[str, Any] = {}
        divided = [active.metric_products(self) for active in groups if active.metric_in_use]
        if any(active.metric for active in groups):  # as many numbers where there is no gradient
            divided = divided or [(0.0, 0.0, 0.0)]
            for name, parts in zip((PLAIN, *DIVIDED), zip(*divided, strict=True), strict=True):
                found[name] = sum(parts)
        else:
            found = dict.fromkeys(DIVIDED, self.sqnorm_share(grads))
        for name in PRODUCTS:
            if name in found or name not in rule.reads:
                continue
            left, right, power = PRODUCTS[name]
            if name == "position_sqnorm":
                params = [param for active in groups for param in active.params]
                found[name] = self.sqnorm_share(params)
            else:
                one = [x for active in groups for x in active.vectors(left, 0)]
                other = [y for active in groups for y in active.vectors(right, power)]
                found[name] = self.scalar(self.inner_share(one, other, grads))
        if "pull_sqnorm" not in rule.reads:
            del found["pull_sqnorm"]
        return found

    def decay_share(self, groups: list[Any]) -> Tensor | float:
        """This process's part of (lambda/2) ||theta||^2, where decay is in the objective."""
        total: Tensor | float = 0.0
        for active in groups:
            if active.params and active.in_objective:
                decay = 0.5 * active.group["weight_decay"]
                total = total + decay * self.sqnorm_share(active.params)
        return total

    def objective_share(self, loss: Any, groups: list[Any]) -> Tensor:
        """What this process adds to the objective: its part of the mean loss and of the decay."""
        share, count = self.scalar(whole(loss)), self.count
        return (share if count == 1 else share / count) + self.decay_share(groups)

    def objective(self, loss: Any, groups: list[Any]) -> Tensor:
        """The objective of all processes at the present parameters."""
        share = self.objective_share(loss, groups)
        return share if self.count == 1 else self.total([share])[0]

    def batch(
        self, rule: Rule, groups: list[Any], options: list[Group], names: list[str], loss: Any,
        bound: Any,
    ) -> tuple[dict[str, Any], Tensor | None, Any]:  # fmt: skip
        """Inner products, loss and lower bound of a batch, the same on all processes.

        Args:
            rule: which reads them.
            groups: parameters with a gradient.
            options: all parameter groups.
            names: of the options, which all processes must share.
            loss: of the batch; None if none was given.
            bound: the lower bound given for this step, or None.
        """
        found = self.products(rule, groups)
        value = None if loss is None else self.objective_share(loss, groups)
        count = self.count
        if count == 1:
            return self._without_plain(found), value, bound
        if self._begun is None:  # on a GPU to read a memory is to wait
            self._begin(rule, groups, options)
        for replica in self._replicas:
            join = getattr(replica(), "_join_config", None)
            if join is not None and join.enable and not join.throw_on_early_termination:
                raise ValueError(JOINED)
        if self._digest is None:
            self._own = {name: [_said(group[name]) for group in options] for name in names}
            self._own["gradients"] = [active.trained() for active in groups]
            self._own.update(self._begun or {})
            digest = hashlib.sha256(repr(self._own).encode()).digest()
            self._digest = int.from_bytes(digest[:8], "big")
        own = self._digest % (EXACT // count - 1) + 1
        given = bound is not None
        numbers = (*found.values(), 0.0 if value is None else value)
        numbers += (own, float(given), bound if given else 0.0)
        parts = [self.scalar(number) for number in numbers]
        *totals, mean, digests, givens, bounds = self.total(parts)
        # Reading waits for a GPU; it does so at the first step and after a state was loaded.
        fake = distributed.get_backend(self._group) == "fake"  # which adds nothing up
        due = digests.is_cpu or not self._agreed or rule.searches
        if due and not fake and not torch.compiler.is_compiling():
            self._compare(digests.item(), givens.item(), own, count)
            self._agreed = True
        named = self._without_plain(dict(zip(found, totals, strict=True)))
        return named, None if value is None else mean, bounds / count if given else None

    def _without_plain(self, found: dict[str, Any]) -> dict[str, Any]:
        """A gradient whose square overflows would vanish when it is divided by the diagonal."""
        self.plain = plain = found.pop(PLAIN, None)
        if isinstance(plain, Tensor):
            if reads_for_free(self.device):
                self.plain = plain.item()
            divided = found["grad_sqnorm"]
            found["grad_sqnorm"] = torch.where(plain.isfinite(), divided, plain)
        elif plain is not None and not math.isfinite(plain):
            found["grad_sqnorm"] = plain
        return found

    def _begin(self, rule: Rule, groups: list[Any], options: list[Group]) -> None:
        """Take in what must be alike at the first step, and after a state was loaded."""
        self._begun = {name: [_said(group[name]) for group in options] for name in rule.memory}
        if torch.compiler.is_compiling():
            return
        for name in ("parameters", "state"):
            self._begun[name] = [checksums(active.replicated(name)) for active in groups]
        found = (
            each for each in gc.get_objects() if issubclass(type(each), DistributedDataParallel)
        )
        self._replicas = [ref(each) for each in found]

    def _compare(self, digests: float, givens: float, own: int, count: int) -> None:
        if givens not in (0.0, count):
            raise ValueError(
                "lower_bound (f_star) must be given to step() on all processes that train "
                f"together or on none, got it on {givens:g} of {count}"
            )
        if digests == count * own:
            return
        found: list[Any] = [None] * count
        distributed.all_gather_object(found, self._own, group=self._group)
        rank, other = next((i, each) for i, each in enumerate(found) if each != found[0])
        name = next(name for name, value in found[0].items() if value != other.get(name))
        differs = f"rank {rank} has {DIFFERENCES.get(name)} than rank 0"
        if name not in DIFFERENCES:
            values = _told(found[0][name]), _told(other.get(name, []))
            differs = f"{name} is {values[0]} on rank 0 and {values[1]} on rank {rank}"
        raise ValueError(
            "processes that train together must have the same options, state and trained "
            f"parameters, and {differs}"
        )


def _said(value: Any) -> Any:
    return float(value) if isinstance(value, (int, float, Tensor)) else value


def _told(values: list[Any]) -> str:
    """The values of all groups; one value if they agree."""
    return repr(values[0] if len(set(map(repr, values))) == 1 else values)


def rates_are_in_range(groups: list[Group], measure: Measure) -> Any:
    """Whether learning rates in tensors are, of which no check has read the value."""
    right: Any = True
    for rate in (group["lr"] for group in groups):
        if isinstance(rate, Tensor):
            fits = ((rate >= 0.0) & (rate < inf)).all()
            # A copy from the host would wait, and cannot be recorded.
            right = right & (bool(fits) if reads_for_free(rate.device) else fits.to(measure.device))
    return right


def coarsest_eps(params: list[Tensor], loss: Any, device: torch.device) -> float:
    """Machine epsilon of the coarsest format that the loss is known to pass through."""
    formats = {param.dtype for param in params}
    if isinstance(loss, Tensor) and loss.is_floating_point() and params:
        formats.add(loss.dtype)
    if torch.is_autocast_enabled(device.type):
        formats.add(torch.get_autocast_dtype(device.type))
    formats = formats or {torch.float32}
    return max(torch.finfo(dtype).eps for dtype in formats)
