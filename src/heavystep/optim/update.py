"""Moving the parameters: buffers, the diagonal metric, kernels for many tensors.

A momentum form has one definition, its ``move`` for one element. For heavy ball and averaged heavy
ball there are kernels beside it: torch's fused SGD, which adds a multiple of one list of tensors to
another, and its fused Adam, which divides by the diagonal as it goes. Long tensors are cut into
blocks, so that what several kernels read stays in the cache.
"""

from collections.abc import Callable, MutableMapping
from math import sqrt
from operator import is_
from typing import Any

import torch
from torch import Tensor

from heavystep.methods import Method
from heavystep.momentum import (
    AVERAGED,
    BETA2,
    EPS,
    HEAVY_BALL,
    SQUARE_WEIGHT,
    SQUARES,
    divisor,
    second_moment,
)
from heavystep.optim.measure import Measure, as_scalar, reads_for_free, single
from heavystep.optim.options import Group, has_shape_of, local, misshapen, state_dtype
from heavystep.optim.ranks import shards

BLOCK = 1 << 17
"""Elements of a block: what the kernels of a step read of it, two megabytes, stays in the cache."""
LONG_AGO = torch.tensor(1e30)
"""A number of steps after which the Adam kernel corrects no bias itself."""
State = MutableMapping[Any, Any]
NOTHING: dict[str, Any] = {}


class Active:
    """The parameters of one group that have a gradient, and what is kept of each.

    It lasts from step to step, until :meth:`refresh` says that something else has a gradient, or
    lies elsewhere, than when it was made.
    """

    def __init__(
        self, method: Method, group: Group, state: State, groups: list[Group], measure: Measure
    ) -> None:
        self._method, self.group, self._state, self._measure = method, group, state, measure
        self._form = method.form
        self.metric: str | None = group.get("diagonal", method.diagonal)
        self.params: list[Tensor] = []
        self.grads: list[Tensor] = []
        self._all, self._idle = list(group["params"]), []
        # What a rule remembers of products with the position fades, also where no gradient is.
        complete = "direction_position" in method.rule.reads
        lasting = not torch.compiler.is_compiling()
        for param in self._all:
            grad = param.grad
            if complete and grad is None and param in state:
                grad, lasting = torch.zeros_like(param), False
            if grad is None or not param.requires_grad:
                self._idle.append(param)
                continue
            if grad.layout != torch.strided:  # momentum moves every row, as with torch's SGD
                grad, lasting = grad.to_dense(), False
            if not has_shape_of(param, grad):
                raise misshapen("gradient", grad, param, groups)
            self.params.append(param)
            self.grads.append(grad)
        self.places = [local(param) for param in self.params]
        """What this process holds of the parameters."""
        if any(place is not param for place, param in zip(self.places, self.params, strict=True)):
            lasting = False  # shards, which FSDP may exchange
        self.buffers: list[Tensor] = []
        self._squares: list[Tensor] = []
        self._weights: list[Tensor] = []
        if method.keeps_buffer:
            self.buffers = self._kept(self._form.buffer, torch.zeros_like, groups)
        if self.metric:
            self._squares = self._kept(
                SQUARES, torch.zeros_like if self.metric == "element" else _zero, groups
            )
            self._weights = self._kept(SQUARE_WEIGHT, _zero, groups)
        self._numbers: list[float] = []  # the weights, where the host computes them
        self._lasting = self._signature(self.grads) if lasting else None
        self.on_host = bool(self.params) and reads_for_free(self.places[0].device)
        self.by_kernel = self._has_kernel()
        self._aligned = False
        self._blocks: list[Block] = []
        self._set_slopes()

    def _kept(self, name: str, make: Callable[..., Tensor], groups: list[Group]) -> list[Tensor]:
        """What this process holds of one kind of state, made where it is missing."""
        found = []
        for param in self.params:
            own, dtype = self._state[param], self._format(param, name)
            kept = own.get(name)
            if kept is None:
                kept = own[name] = make(param, dtype=dtype)
            elif kept.get_device() != param.get_device() or kept.dtype != dtype:
                kept = own[name] = kept.to(param.device, dtype)  # the model was moved
            if make is torch.zeros_like and not has_shape_of(param, kept):
                raise misshapen(name, kept, param, groups)
            found.append(local(kept))
        return found

    def _format(self, param: Tensor, name: str) -> torch.dtype:
        """The format of one kind of state."""
        return state_dtype(param.dtype)

    def _signature(self, grads: list[Any]) -> list[Any]:
        """What must stay for this to last: where parameters and state are, and what gradients."""
        state = self._state
        return [
            (p.data_ptr(), p.requires_grad, g.dtype, g.layout, g.shape, g.stride(),
             *map(id, state.get(p, NOTHING).values()))
            for p, g in zip(self.params, grads, strict=True)
        ]  # fmt: skip

    def refresh(self, state: State) -> bool:
        """Take the new gradients; False if this must be made anew."""
        if self._lasting is None or state is not self._state:
            return False
        if len(self.group["params"]) != len(self._all):
            return False
        for param in self._idle:
            if param.grad is not None and param.requires_grad:
                return False
        grads: list[Any] = [param.grad for param in self.params]
        try:
            if self._signature(grads) != self._lasting:
                return False
        except AttributeError:  # there is no gradient
            return False
        self.grads = grads
        self._set_slopes()
        return True

    def _set_slopes(self) -> None:
        """What this process holds of the gradients, in the memory layout of the parameters."""
        decay = self.group["weight_decay"]
        self.in_objective = bool(decay and self.params) and self.group["decay"] == "objective"
        """Whether weight decay is part of loss and gradient."""
        if self.in_objective:
            self.grads = list(torch._foreach_add(self.grads, self.params, alpha=decay))
        self.slopes = self.grads
        if self._lasting is None:
            self.slopes = [local(grad) for grad in self.grads]
        if self.by_kernel and not self._aligned:
            laid_out = list(map(_laid_out_as, self.slopes, self.places))
            # What lasts has gradients of the same layout at each step.
            self._aligned = self._lasting is not None and all(map(is_, laid_out, self.slopes))
            self.slopes = laid_out
        self._divisors: list[Any] = []
        self._taken = False

    def _has_kernel(self) -> bool:
        first = self.places[0] if self.params else None
        if first is None or (self._form is not HEAVY_BALL and self._form is not AVERAGED):
            return False
        if torch.compiler.is_compiling() or self._method.rule.steers:  # a compiler fuses itself
            return False
        if not first.is_cpu and not first.is_cuda:
            return False
        # On CUDA the kernel's factor is float32.
        known = (torch.float32, torch.float64) if first.is_cpu else (torch.float32,)
        return all(place.dtype in known and _is_dense(place) for place in self.places)

    def trained(self) -> list[int]:
        """Which parameters of the group have a gradient."""
        ours = set(map(id, self.params))
        return [k for k, param in enumerate(self._all) if id(param) in ours]

    def replicated(self, what: str) -> list[Tensor]:
        """Parameters, or state, of which every process holds the whole."""
        kept = [self.places] if what == "parameters" else [self.buffers, self._squares]
        return [
            each
            for tensors in kept
            for param, each in zip(self.params, tensors, strict=False)
            if shards(param) == 1
        ]

    # -- What is measured --------------------------------------------------------------------

    def vectors(self, name: str, power: int) -> list[Any]:
        """What this process holds of a vector that products are taken of, divided by D^power."""
        if name == "buffer":
            return self.buffers
        if name == "position":
            return self.places
        found = self.slopes if name == "gradient" else self.directions()
        if not power or not self.metric:
            return found
        pairs = zip(found, self.divisors(), strict=True)
        return [x.to(state_dtype(x.dtype)) / d**power for x, d in pairs]

    def directions(self, steered: Any = None) -> list[Tensor]:
        """What the step size will multiply, with the momentum that the rule sets if it does."""
        past: list[Any] = self.buffers or [0.0] * len(self.params)
        momentum = self.group["momentum"] if steered is None else steered
        pairs = zip(past, self.slopes, strict=True)
        return [self._form.direction(buffer, slope, momentum) for buffer, slope in pairs]

    def ways(self, steered: Any = None) -> list[Tensor]:
        """What trials of a line search go along."""
        return self.directions(steered) if self._method.rule.along == "direction" else self.slopes

    def divisors(self) -> list[Any]:
        """The diagonal D with this batch in it, of each parameter: a tensor or one number."""
        if self._divisors or not self.params:
            return self._divisors
        if self.metric == "tensor":
            old, weights = torch.stack(self._squares), torch.stack(self._weights)
            self._lengths = torch.stack(torch._foreach_norm(self.slopes, 2, old.dtype)).square()
            sizes = old.new_tensor([max(param.numel(), 1) for param in self.params])
            new = second_moment(old, self._over_shards(self._lengths) / sizes)
            weights = second_moment(weights, 1.0)
            self._row = divisor(new, weights)
            self._news = [*new.unbind(), *weights.unbind()]
            self._divisors = self._row.tolist() if self.on_host else list(self._row.unbind())
        else:
            slopes = [slope.to(state_dtype(slope.dtype)) for slope in self.slopes]
            squares = torch._foreach_mul(slopes, slopes)
            pairs = zip(self._squares, squares, strict=True)
            news = [second_moment(old, square) for old, square in pairs]
            heavy = [second_moment(old, 1.0) for old in self._weights]
            self._news = [*news, *heavy]
            self._divisors = [divisor(*pair) for pair in zip(news, heavy, strict=True)]
        return self._divisors

    def _over_shards(self, lengths: Tensor) -> Tensor:
        """Squared norms of whole gradients, from those of the parts that this process holds."""
        if all(shards(grad) == 1 for grad in self.grads):
            return lengths
        return self._measure.ranks.summed(lengths / lengths.new_tensor(self._copies()))

    def _copies(self) -> list[float]:
        """How many processes hold the same part of each tensor."""
        return [self._measure.ranks.count / shards(param) for param in self.params]

    def metric_products(self) -> tuple[Any, Any, Any]:
        """This process's part of ||g||^2, g' D^-1 g and ||D^-1 g||^2."""
        if self.by_kernel and self.on_host and self.metric == "element":
            return self._element_products()
        divisors, dtype = self.divisors(), self._measure.dtype
        if self.metric == "tensor":
            plain = self._lengths.to(dtype)
            divided, twice = plain / self._row, plain / self._row.square()
        else:
            slopes = [slope.to(state_dtype(slope.dtype)) for slope in self.slopes]
            pulls = [slope / each for slope, each in zip(slopes, divisors, strict=True)]
            lists: Any = slopes, torch._foreach_mul(slopes, pulls), pulls
            plain, divided, twice = (
                torch.stack(torch._foreach_norm(each, order, dtype))
                for each, order in zip(lists, (2, 1, 2), strict=True)
            )
            plain, twice = plain.square(), twice.square()
        if self._measure.ranks.count > 1:
            copies = plain.new_tensor(self._copies())
            plain, divided, twice = plain / copies, divided / copies, twice / copies
        return plain.sum(), divided.sum(), twice.sum()

    def _element_products(self) -> tuple[float, float, float]:
        """The same on the host, block by block; nothing of a block is kept."""
        plain = divided = twice = 0.0
        blocks = self.blocks()
        for block in blocks:
            grad, squares = _together(block.grads), _together(block.squares)
            if len(block.squares) == 1:  # not a copy yet
                squares = squares.clone()
            pull, past = torch.zeros(2, block.size, dtype=grad.dtype)
            _adam([pull], [grad], [past], [squares], -1.0, block.weight)
            plain += torch.dot(grad, grad).item() / block.copies
            divided += torch.dot(grad, pull).item() / block.copies
            twice += torch.dot(pull, pull).item() / block.copies
        return plain, divided, twice

    # -- What is moved -----------------------------------------------------------------------

    def move(self, step: Any, momentum: Any, weight: Any, shrink: Any, accepted: Any) -> None:
        """Take the step that was decided, unless the batch is refused.

        Args:
            step: times ``lr``: a number on the host, a 0-dim tensor on a device.
            momentum: of this step.
            weight: of the next point, where momentum averages.
            shrink: the factor of weight decay, or None.
            accepted: True on the host, a 0-dim tensor on a device.
        """
        if self.by_kernel:
            self._move_many(step, momentum, weight, shrink, accepted)
        else:
            self._move_each(step, momentum, weight, shrink, accepted)
        if self.metric == "element" and self.by_kernel and self.on_host:
            kind = float if self._weights[0].dtype == torch.float64 else single
            known = {old: kind(second_moment(old, 1.0)) for old in set(self._numbers)}
            self._numbers = [known[old] for old in self._numbers]
            for place, number in zip(self._weights, self._numbers, strict=True):
                place.fill_(number)
            for block in self._blocks:
                block.weight = self._numbers[block.first]
        elif self.metric:
            kept = [*self._squares, *self._weights]
            if accepted is not True:
                pairs = zip(self._news, kept, strict=True)
                self._news = [torch.where(accepted, new, old) for new, old in pairs]
            torch._foreach_copy_(kept, self._news)

    def _move_each(self, step: Any, momentum: Any, weight: Any, shrink: Any, accepted: Any) -> None:
        """The definition of the update, one tensor after another."""
        divisors = self.divisors() if self.metric else [None] * len(self.params)
        for i, place in enumerate(self.places):
            own = step if divisors[i] is None else step / divisors[i]
            moved, new = self._moved(i, own, momentum, weight, shrink)
            place.copy_(moved if accepted is True else torch.where(accepted, moved, place))
            if self.buffers:
                kept = self.buffers[i]
                kept.copy_(new if accepted is True else torch.where(accepted, new, kept))

    def _moved(self, i: int, step: Any, momentum: Any, weight: Any, shrink: Any) -> tuple[Any, Any]:
        """A parameter after the step, and its buffer, in the format of state."""
        form, dtype = self._form, state_dtype(self.places[i].dtype)
        theta = self.places[i].to(dtype)
        past = self.buffers[i].to(dtype) if self.buffers else 0.0
        if shrink is not None:
            theta = shrink * theta
            past = shrink * past if form.averages else past
        motion, new = form.move(past, self.slopes[i].to(dtype), step, momentum, weight)
        return theta + motion, new

    def _move_many(self, step: Any, momentum: Any, weight: Any, shrink: Any, accepted: Any) -> None:
        """The same by kernels."""
        if self.on_host:
            blocks = self.blocks()
        else:
            pulls = self.slopes
            if self.metric:
                pulls = list(torch._foreach_div(self.slopes, self.divisors()))
            blocks = [Block(places=self.places, grads=pulls, buffers=self.buffers)]
        move = _averaged if self._form is AVERAGED else _heavy_ball
        fused = self._method.rule.searches
        for block in blocks:
            if shrink is not None:
                factor = _factor(shrink, accepted, block.places[0])
                torch._foreach_mul_(block.places, factor)
                if self._form.averages:
                    torch._foreach_mul_(block.buffers, factor)
            move(block, step, momentum, weight, accepted, fused)

    def blocks(self) -> list["Block"]:
        """The tensors in blocks, on the host, with the gradients of this step."""
        if not self._blocks:
            if self.metric == "element":
                self._numbers = [weight.item() for weight in self._weights]
            self._blocks = self._cut_in_blocks()
        if self._taken:
            return self._blocks
        slopes, self._taken = self.slopes, True
        if self.metric == "tensor":
            # Divided by its own number of each tensor, they are pulls.
            numbers = [1.0 / float(each) for each in self.divisors()]
            slopes = list(torch._foreach_mul(slopes, numbers))
        for block in self._blocks:
            block.take(slopes)
        return self._blocks

    def _cut_in_blocks(self) -> list["Block"]:
        """Long tensors in blocks of their own; others that are alike together."""
        found: list[Block] = []
        filling: dict[Any, Block] = {}
        kinds = [self.places, self.buffers, self._squares if self.metric == "element" else []]
        copies = self._copies()
        for i, place in enumerate(self.places):
            weight = self._numbers[i] if self._numbers else 0.0
            if place.numel() > BLOCK:
                for k in range(-(-place.numel() // BLOCK)):
                    block = Block(weight=weight, copies=copies[i], first=i)
                    block.add(i, k, [[_part(each[i], k)] if each else [] for each in kinds])
                    found.append(block)
                continue
            key = place.dtype, weight, copies[i]
            if key in filling and filling[key].size + place.numel() > BLOCK:
                found.append(filling[key])
                filling[key] = Block(weight=weight, copies=copies[i], first=i)
            block = filling.setdefault(key, Block(weight=weight, copies=copies[i], first=i))
            block.add(i, None, [[each[i]] if each else [] for each in kinds])
        return [*found, *filling.values()]


class Block:
    """Tensors that kernels work on together: of one format, ``BLOCK`` elements at most."""

    def __init__(
        self, *, places: Any = (), grads: Any = (), buffers: Any = (), weight: float = 0.0,
        copies: float = 1.0, first: int = 0,
    ) -> None:  # fmt: skip
        self.places, self.grads, self.buffers = list(places), list(grads), list(buffers)
        self.squares: list[Tensor] = []
        self.weight, self.copies, self.first = weight, copies, first
        self.size = 0
        self._from: list[int] = []
        self._part: int | None = None

    def add(self, i: int, part: int | None, kinds: list[list[Tensor]]) -> None:
        """Take in a tensor, or a part of it, with its buffer and squares."""
        self._from.append(i)
        self._part = part
        for held, new in zip((self.places, self.buffers, self.squares), kinds, strict=True):
            held += new
        self.size += kinds[0][0].numel()

    def take(self, slopes: list[Tensor]) -> None:
        """Take the gradients of this step."""
        if self._part is None:
            self.grads = [slopes[i] for i in self._from]
        else:
            self.grads = [_part(slopes[self._from[0]], self._part)]


def _heavy_ball(
    block: Block, step: Any, momentum: Any, weight: Any, accepted: Any, fused: bool
) -> None:
    """Heavy ball: the kernels do nothing where ``refused`` is 1.

    A product with a mask would not do: it turns an infinite or NaN gradient into NaN.
    """
    places, buffers, refused = block.places, block.buffers, _refused(accepted)
    if not buffers:
        _pull(places, block, step, refused)
        return
    exact = isinstance(step, float) and step > 1e-8 and places[0].dtype == torch.float32
    if fused and exact and momentum:
        # buffer <- momentum * buffer + (1 - dampening) * gradient, parameter += buffer. In double
        # precision 1 - (1 + step) is the step to more digits than float32 has.
        _sgd(places, block.grads, buffers, -1.0, refused, momentum, 1.0 + float(step))
        return
    torch._foreach_mul_(buffers, _factor(momentum, accepted, places[0]))
    _pull(buffers, block, step, refused)
    _sgd(places, buffers, [], -1.0, refused)


def _averaged(
    block: Block, step: Any, momentum: Any, weight: Any, accepted: Any, fused: bool
) -> None:
    """Averaged heavy ball: from theta to x, from z to the next z, and back to theta."""
    places, leads, rest = block.places, block.buffers, 1.0 - weight
    exact = accepted is True and places[0].dtype == torch.float32
    if exact and not block.squares and rest * step > 1e-8:
        # The lead that is kept is the rest of the one that theta follows. Dampening: see above.
        follow = -momentum * weight / rest
        _sgd(places, block.grads, leads, follow, None, rest, 1.0 + rest * step)
        _sgd(places, block.grads, [], (1.0 - momentum) * step, None)
        return
    refused = _refused(accepted)
    _sgd(places, leads, [], 1.0 - momentum, refused)
    _pull(leads, block, step, refused)
    _sgd(places, leads, [], -(1.0 - momentum) - momentum * weight, refused)
    torch._foreach_mul_(leads, _factor(rest, accepted, places[0]))


def _pull(places: list[Tensor], block: Block, step: Any, refused: Any) -> None:
    """Take ``step`` times the gradients from tensors, divided by Adam's diagonal if it is there."""
    if not block.squares:
        _sgd(places, block.grads, [], step, refused)
        return
    sizes = [grad.numel() for grad in block.grads]
    past = torch.zeros(max(sizes), dtype=places[0].dtype)
    pasts = {size: past[:size] for size in set(sizes)}
    _adam(places, block.grads, [pasts[n] for n in sizes], block.squares, step, block.weight)


def _adam(
    places: list[Tensor], grads: list[Tensor], pasts: list[Tensor], squares: list[Tensor],
    step: float, weight: float,
) -> None:  # fmt: skip
    """Take ``step`` times g / D from tensors, and g into the averages of its squares.

    With beta_1 = 0 the kernel computes v <- beta_2 v + (1 - beta_2) g^2 and b <- b - gamma g /
    (eps + sqrt(v)) in one walk through memory, on the host. The weight w of the average goes into
    the two numbers: g / D is sqrt(w) g / (sqrt(w) eps + sqrt(v)). ``pasts``, which it writes to,
    may hold any finite numbers.
    """
    root = sqrt(second_moment(weight, 1.0))
    torch._fused_adam_(
        places, grads, pasts, squares, [], [LONG_AGO] * len(places), lr=step * root, beta1=0.0,
        beta2=BETA2, weight_decay=0.0, eps=EPS * root, amsgrad=False, maximize=False,
    )  # fmt: skip


def _sgd(
    params: list[Tensor], grads: list[Tensor], buffers: list[Tensor], lr: Any, refused: Any,
    momentum: float = 0.0, dampening: float = 0.0,
) -> None:  # fmt: skip
    torch._fused_sgd_(
        params, grads, buffers, weight_decay=0.0, momentum=momentum, lr=lr, dampening=dampening,
        nesterov=False, maximize=False, is_first_step=False, found_inf=refused,
    )  # fmt: skip


def _factor(value: Any, accepted: Any, like: Tensor) -> Tensor:
    """What tensors are multiplied by: a tensor, which is faster, and 1 where it is refused."""
    if accepted is True:
        return torch.full((), value, dtype=like.dtype, device=like.device)
    # Times 1 leaves a tensor as it was, to the bit.
    return torch.where(accepted, as_scalar(value, like.dtype, like.device), 1.0)


def _refused(accepted: Any) -> Tensor | None:
    return None if accepted is True else accepted.logical_not().to(torch.float32)


def _zero(param: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.zeros((), dtype=dtype, device=param.device)


def _is_dense(place: Tensor) -> bool:
    return place.is_contiguous() or (
        place.dim() == 4 and place.is_contiguous(memory_format=torch.channels_last)
    )


def _laid_out_as(slope: Tensor, place: Tensor) -> Tensor:
    """A gradient in the memory layout of its parameter, which kernels walk without looking."""
    if slope.stride() == place.stride() and slope.dtype == place.dtype:
        return slope
    return torch.empty_like(place).copy_(slope)


def _flat(tensor: Tensor) -> Tensor:
    """All elements in the order of memory."""
    return tensor.as_strided((tensor.numel(),), (1,))


def _part(tensor: Tensor, k: int) -> Tensor:
    """The k-th block of a long tensor."""
    return _flat(tensor)[k * BLOCK : (k + 1) * BLOCK]


def _together(tensors: list[Tensor]) -> Tensor:
    if len(tensors) == 1:
        return _flat(tensors[0])
    return torch._C._nn.flatten_dense_tensors(tensors)
