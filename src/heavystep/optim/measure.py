"""A rule's view of a batch: the loss and inner products over all groups and all processes.

The loss is the mean over processes, as gradients are under data parallelism; inner products are
sums over what each process holds of a parameter (the shards of FSDP).
"""

import ctypes
import math
from array import array
from collections.abc import Callable, Iterable, Mapping
from math import inf, sqrt
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from heavystep.optim.options import Group
from heavystep.optim.ranks import Ranks
from heavystep.rules import PRODUCTS, Primitives, Rule, register_scalars

MANY = 1 << 18
"""Elements whose sum takes longer than the numbers of two decisions, some 60 microseconds."""
ROW, PART = 1 << 12, 1 << 17
"""Elements that are reduced at once: to keep digits, and to stay in the cache."""
LARGEST = torch.finfo(torch.float32).max
INNER = PRODUCTS.keys() - {"grad_sqnorm", "pull_sqnorm", "size"}
"""The products that are neither norms of gradients nor of parameters."""


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


def _ratio(a: Any, b: Any) -> Tensor:
    zero = b == 0.0
    # Both branches are evaluated: divide by 1 where b is 0.
    return _where(zero, 0.0, a / _where(zero, 1.0, b))  # type: ignore[no-any-return]


register_scalars(Tensor, Primitives(_where, _minimum, _maximum, _ratio))


def reads_for_free(device: torch.device) -> bool:
    """True if the host reads tensors there without waiting or breaking a compiled graph."""
    return device.type == "cpu" and not torch.compiler.is_compiling()


def as_scalar(value: Any, dtype: torch.dtype, device: Any) -> Tensor:
    """A detached 0-dim tensor; a number becomes one without a copy from the host."""
    if isinstance(value, Tensor):
        return value.detach().reshape(()).to(device=device, dtype=dtype)
    return torch.full((), float(value), dtype=dtype, device=device)


def single(value: float) -> float:
    """A number as float32 holds it; a finite one stays finite."""
    if LARGEST < abs(value) < inf:
        return math.copysign(LARGEST, value)
    return ctypes.c_float(value).value


def checked_loss(loss: Any, source: str) -> Any:
    """Refuse what cannot be a loss: ``source`` says where it came from."""
    if isinstance(loss, Tensor):
        if loss.is_complex():
            raise TypeError(f"{source} must be a real number, got dtype {loss.dtype}")
        if loss.numel() != 1:
            raise ValueError(
                f"{source} must be one number, got shape {tuple(loss.shape)}: "
                "reduce it, for example with .mean()"
            )
        return loss
    if isinstance(loss, (bool, str)) or not hasattr(loss, "__float__"):
        forgot = loss is None and "closure" in source
        hint = ": the closure must end with 'return loss'" if forgot else ""
        raise TypeError(f"{source} must be a number or a 0-dim tensor, got {loss!r}{hint}")
    return loss


def gathered(loss: Any) -> Any:
    """A loss as a plain tensor, should it be a DTensor."""
    full: Any = getattr(loss, "full_tensor", None)
    return loss if full is None else full()


def indices_by_dtype(tensors: list[Tensor]) -> list[list[int]]:
    """Places of the tensors of each format: kernels for many tensors ask for one."""
    found: dict[torch.dtype, list[int]] = {}
    for i, tensor in enumerate(tensors):
        found.setdefault(tensor.dtype, []).append(i)
    return list(found.values())


def joined(tensors: list[Tensor]) -> list[Tensor]:
    """The tensors as vectors: a long one by itself, short ones of one format in one."""
    vectors: list[Tensor] = []
    formats = dict.fromkeys(map(attrgetter("dtype"), tensors))
    for dtype in formats:
        short = tensors if len(formats) == 1 else [t for t in tensors if t.dtype == dtype]
        if max(map(Tensor.numel, short)) > ROW:
            vectors += [tensor.reshape(-1) for tensor in short if tensor.numel() > ROW]
            short = [tensor for tensor in short if tensor.numel() <= ROW]
        vectors += [torch._C._nn.flatten_dense_tensors(short)] if short else []
    return vectors


def squared_norm(tensors: list[Tensor], dtype: torch.dtype) -> Tensor:
    """Sum of squares over all tensors, accumulated in ``dtype``.

    On the CPU a long float32 tensor is reduced in rows of 4096: summed in one go its
    squared norm would be wrong by 5e-5 (relative), in rows by 1e-8, and it is faster.
    """
    if not tensors[0].is_cpu:
        return _norms(tensors, 2, dtype).square().sum()
    vectors = joined(tensors)
    norms: list[Tensor] = []  # a compiler does not know list[Tensor]()
    if len(vectors) == 1 and vectors[0].numel() <= ROW:  # the same, at once
        norm: Tensor = torch.linalg.vector_norm(vectors[0], dtype=dtype)
        return norm.square()
    for vector in vectors:
        size = vector.numel()
        full = size - size % ROW
        if full:
            rows = vector[:full].view(-1, ROW)
            norms.append(torch.linalg.vector_norm(rows, dim=1, dtype=dtype))
        if size > full:
            norms.append(torch.linalg.vector_norm(vector[full:], dtype=dtype).reshape(1))
    return (norms[0] if len(norms) == 1 else torch.cat(norms)).square().sum()


def absolute_sum(tensors: list[Tensor], dtype: torch.dtype) -> Tensor:
    """Sum of absolute values over all tensors, accumulated in ``dtype``.

    On the CPU a norm of order 1 is wrong by 2e-4 in float32, and takes three times as long.
    """
    if not tensors[0].is_cpu:
        return _norms(tensors, 1, dtype).sum()
    sums: list[Tensor] = []
    for vector in joined(tensors):
        if vector.numel() <= PART:
            sums.append(vector.abs().sum(dtype=dtype))
            continue
        room = vector.new_empty(PART)  # that stays in the cache
        for part in torch.split(vector, PART):
            sums.append(torch.abs(part, out=room[: part.numel()]).sum(dtype=dtype))
    return sums[0] if len(sums) == 1 else torch.stack(sums).sum()


def _norms(tensors: list[Tensor], order: int, dtype: torch.dtype) -> Tensor:
    norms: list[Tensor] = []
    for indices in indices_by_dtype(tensors):
        norms += torch._foreach_norm([tensors[i] for i in indices], order, dtype)
    return torch.stack(norms)


def decay_of(group: Mapping[str, Any], kind: str) -> Any:
    """The weight decay of a group if it is of this kind, else 0."""
    return group["weight_decay"] if group.get("decay", "decoupled") == kind else 0.0


class Measure(Ranks):
    """How losses and inner products become numbers, alike on all processes."""

    dtype = torch.float32
    """Format of numbers on a device: float64 if a parameter is."""
    device = torch.device("cpu")
    near = True
    """True if the host reads them without waiting; it then decides the step."""
    held: Callable[[float], float] = staticmethod(single)
    """A number as the format holds it; a finite one stays finite."""
    plain: Any = None
    """||g||^2 of the last batch where the rule reads g' D^-1 g."""

    def look_at(self, params: list[Tensor]) -> None:
        """Take format and place of numbers from the parameters, and count the processes."""
        wide = any(param.dtype == torch.float64 for param in params)
        self.dtype = torch.float64 if wide else torch.float32
        self.device = params[0].device if params else torch.device("cpu")
        self.held = float if wide else single
        self.count_processes()

    def all_held(self, numbers: Iterable[float]) -> list[float]:
        """Numbers as the format holds them."""
        numbers = list(numbers)
        if self.dtype == torch.float64:
            return [float(number) for number in numbers]
        found = array("f", numbers).tolist()
        beyond = inf in found or -inf in found
        return [single(number) for number in numbers] if beyond else found

    def scalar(self, value: Any) -> Tensor:
        """A detached 0-dim tensor in this format and place, from a number or a tensor."""
        return as_scalar(value, self.dtype, self.device)

    def total(
        self, reduced: Callable[[list[Tensor], torch.dtype], Tensor], actives: list[Any], kind: str
    ) -> Any:
        """This process's part of a sum; a tensor that several processes hold counts once."""
        if self.count == 1:
            tensors = [tensor for active in actives for tensor in getattr(active, kind)]
            if not tensors:
                return 0.0
            found = reduced(tensors, self.dtype)
            return found.item() if self.near else found
        held: dict[float, list[Tensor]] = {}
        for active in actives:
            for tensor, copies in zip(getattr(active, kind), active.copies, strict=True):
                held.setdefault(copies, []).append(tensor)
        return self.scalar(sum(reduced(some, self.dtype) / copies for copies, some in held.items()))

    def size(self, actives: list[Any]) -> Any:
        """This process's part of the mean size of the elements, as a distance."""
        count = sum(map(attrgetter("elements"), actives))
        return self.total(absolute_sum, actives, "places") / sqrt(max(count, 1))

    def waits_for_size(self, actives: list[Any]) -> bool:
        """True if the size is measured only where it matters, which :func:`decide` finds out."""
        many = sum(map(attrgetter("elements"), actives)) > MANY
        return many and self.near and self.count == 1

    def products(self, rule: Rule, actives: list[Any]) -> dict[str, Any]:
        """This process's part of each inner product that the rule reads."""
        reads = rule.reads
        if actives[0].metric:  # as many numbers where there is no gradient
            parts = [a.metric_products() for a in actives if a.params] or [(0.0, 0.0, 0.0)]
            sums = parts[0] if len(parts) == 1 else map(sum, zip(*parts, strict=True))
            found: dict[str, Any] = dict(
                zip(("plain", "grad_sqnorm", "pull_sqnorm"), sums, strict=True)
            )
        else:
            sqnorm = self.total(squared_norm, actives, "slopes")
            found = {"grad_sqnorm": sqnorm, "pull_sqnorm": sqnorm}
        if "size" in reads and not self.waits_for_size(actives):
            found["size"] = self.size(actives)
        for name in sorted(reads & INNER):
            left, right, power = PRODUCTS[name]
            product: Any = 0.0
            for active in actives:
                vectors = active.vectors(left, 0), active.vectors(right, power)
                for x, y, copies in zip(*vectors, active.copies, strict=True):
                    product = product + (x.to(self.dtype) * y.to(self.dtype)).sum() / copies
            found[name] = self.scalar(product)
        if "pull_sqnorm" not in reads:
            del found["pull_sqnorm"]
        return found

    def objective_share(self, loss: Any, actives: list[Any]) -> Any:
        """This process's summand of the objective: its part of the mean loss and of the decay."""
        share = loss
        if type(loss) is not Tensor or loss.dtype != self.dtype or loss.dim():
            share = self.scalar(gathered(loss))
        if self.count > 1:
            share = share / self.count
        decay: Any = 0.0
        for active in actives:
            if active.in_objective:  # (lambda/2) ||theta||^2
                sqnorm = self.total(squared_norm, [active], "places")
                decay = decay + 0.5 * active.group["weight_decay"] * sqnorm
        return share + decay if isinstance(decay, Tensor) or decay else share

    def objective(self, loss: Any, actives: list[Any]) -> Tensor:
        """The objective of all processes at the present parameters."""
        share = self.objective_share(loss, actives)
        return share if self.count == 1 else self.summed(share.reshape(1))[0]

    def batch(
        self, rule: Rule, actives: list[Any], groups: list[Group], names: list[str], loss: Any,
        bound: Any,
    ) -> tuple[dict[str, Any], Any, Any]:  # fmt: skip
        """Inner products, loss and lower bound of a batch, the same on all processes.

        ``actives`` are the parameters with a gradient, those of each group together, and ``names``
        the options that all processes must share.
        """
        found = self.products(rule, actives)
        value = None if loss is None else self.objective_share(loss, actives)
        if self.count > 1:
            given = bound is not None
            numbers = (*found.values(), 0.0 if value is None else value, bound if given else 0.0)
            packed = [*map(self.scalar, numbers)]
            *sums, total, bounds = self.agree(packed, given, rule, actives, groups, names)
            found = dict(zip(found, sums, strict=True))
            value = None if value is None else total
            bound = bounds / self.count if given else None
        self.plain = sqnorm = found.pop("plain", None)
        # A gradient whose square overflows would vanish when it is divided by the diagonal.
        if isinstance(sqnorm, Tensor):
            divided = found["grad_sqnorm"]
            found["grad_sqnorm"] = torch.where(sqnorm.isfinite(), divided, sqnorm)
            self.plain = sqnorm.item() if self.near else sqnorm
        elif sqnorm is not None and not math.isfinite(sqnorm):
            found["grad_sqnorm"] = sqnorm
        return found, value, bound


def rates_are_in_range(groups: list[Group], measure: Measure) -> Any:
    """True if learning rates that are tensors are finite and not negative; no check read them."""
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
    return max(torch.finfo(dtype).eps for dtype in formats or {torch.float32})


def growth_of_rounding(loss: float, example_loss: float) -> float:
    """Relative rounding error of a loss, in units of that of a large loss.

    A mean over n examples whose losses are rounded by eps times themselves, and are at most
    e = example_loss, has an error of eps sqrt(sum of squares) / n <= eps sqrt(e loss / n).

    >>> growth_of_rounding(0.01, 1.0), growth_of_rounding(2.0, 1.0), growth_of_rounding(0.01, 0.0)
    (10.0, 1.0, 1.0)
    """
    size = abs(loss)
    return sqrt(example_loss / size) if 0.0 < size < example_loss else 1.0


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
