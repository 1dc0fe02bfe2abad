"""Moving the parameters: buffers, the diagonal metric, kernels for many tensors.

A momentum form has one definition, its ``move`` for one element. For heavy ball and averaged heavy
ball there are kernels beside it: torch's fused SGD, which adds a multiple of one list of tensors to
another, and its fused Adam, which divides by the diagonal as it goes. Long tensors are cut into
blocks, so that what several kernels read stays in the cache.
"""

from collections.abc import Callable, MutableMapping
from math import sqrt
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
from heavystep.optim.measure import (
    Measure,
    as_scalar,
    local,
    reads_for_free,
    shards,
    single,
)
from heavystep.optim.options import Group, has_shape_of, misshapen, state_dtype

BLOCK = 1 << 17
"""Elements of a block: what the kernels of a step read of it, two megabytes, stays in the cache."""
_LONG_AGO = torch.tensor(1e30)
"""A number of steps after which the Adam kernel corrects no bias itself."""
State = MutableMapping[Any, Any]


class Active:
    """The parameters of one group that have a gradient, and what is kept of each.

    It lasts from step to step, until :meth:`refresh` says that something else has a gradient, or
    lies elsewhere, than when it was made.

    Args:
        method: whose state is made where it is missing.
        group: of the optimizer.
        state: of all parameters.
        groups: all groups, for messages.
        measure: which knows the processes.
    """

    def __init__(
        self, method: Method, group: Group, state: State, groups: list[Group], measure: Measure
    ) -> None:
        self._method, self.group, self._state, self._measure = method, group, state, measure
        self.metric: str | None = group.get("diagonal", method.diagonal)
        self.params: list[Tensor] = []
        self.grads: list[Tensor] = []
        self.slopes: list[Tensor] = []
        """What this process holds of the gradients, in the memory layout of the parameters."""
        self._all = list(group["params"])
        self._idle: list[Tensor] = []
        # What a rule remembers of products with the position fades, also where no gradient is.
        complete = "direction_position" in method.rule.reads
        self._lasting = not torch.compiler.is_compiling()
        for param in self._all:
            grad = param.grad
            if complete and grad is None and param in state:
                grad, self._lasting = torch.zeros_like(param), False
            if grad is None or not param.requires_grad:
                self._idle.append(param)
                continue
            if grad.layout != torch.strided:  # momentum moves every row, as with torch's SGD
                grad, self._lasting = grad.to_dense(), False
            if not has_shape_of(param, grad):
                raise misshapen("gradient", grad, param, groups)
            self.params.append(param)
            self.grads.append(grad)
        self.places = [local(param) for param in self.params]
        if any(place is not param for place, param in zip(self.places, self.params, strict=True)):
            self._lasting = False  # shards, which FSDP may exchange
        self.buffers: list[Tensor] = []
        if method.keeps_buffer:
            self.buffers = self._kept(method.form.buffer, torch.zeros_like, groups)
        self._squares: list[Tensor] = []
        self._weights: list[Tensor] = []
        if self.metric:
            alike = torch.zeros_like if self.metric == "element" else _zero
            self._squares = self._kept(SQUARES, alike, groups)
            self._weights = self._kept(SQUARE_WEIGHT, _zero, groups)
            self._sizes = [max(param.numel(), 1) for param in self.params]
        self._numbers: list[float] = []
        """The weights, where the host computes them."""
        if self._lasting:
            self._shapes = [param.shape for param in self.params]
            self._where = [param.data_ptr() for param in self.params]
            self._strides = [param.stride() for param in self.params]
            self._types = [param.dtype for param in self.params]
            self._ids = [id(buffer) for buffer in self.buffers]
            self._layouts = [torch.strided] * len(self.params)
        self.on_host = bool(self.params) and reads_for_free(self.places[0].device)
        self.by_kernel = self._has_kernel()
        self._chunks: list[Chunk] = []
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
            here = local(kept)
            if make is torch.zeros_like and not has_shape_of(param, kept):
                raise misshapen(name, kept, param, groups)
            found.append(here)
        return found

    def _format(self, param: Tensor, name: str) -> torch.dtype:
        """The format of one kind of state."""
        return state_dtype(param.dtype)

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

    def refresh(self) -> bool:
        """Take the new gradients; False if this must be made anew."""
        if not self._lasting:
            return False
        params = self.params
        grads: list[Any] = [param.grad for param in params]
        if len(self.group["params"]) != len(self._all):
            return False
        for param in self._idle:
            if param.grad is not None and param.requires_grad:
                return False
        state = self._state
        if self.buffers:
            name = self._method.form.buffer
            if [id(state[param].get(name)) for param in params] != self._ids:
                return False
        if self._squares and state[params[0]].get(SQUARES) is not self._squares[0]:
            return False
        try:
            if (
                False in [param.requires_grad for param in params]
                or [param.data_ptr() for param in params] != self._where
                or [grad.layout for grad in grads] != self._layouts
                or [grad.shape for grad in grads] != self._shapes
                or [param.dtype for param in params] != self._types
            ):
                return False
        except AttributeError:  # there is no gradient
            return False
        self.grads = grads
        self._set_slopes()
        return True

    def _set_slopes(self) -> None:
        decay = self.group["weight_decay"]
        self.in_objective = bool(decay) and self.group["decay"] == "objective"
        """Whether weight decay is part of loss and gradient."""
        if self.in_objective and self.params:
            self.grads = list(torch._foreach_add(self.grads, self.params, alpha=decay))
        self.slopes = self.grads if self._lasting else [local(grad) for grad in self.grads]
        if self.by_kernel:
            strides = [slope.stride() for slope in self.slopes]
            if not self._lasting or strides != self._strides:
                pairs = zip(self.slopes, self.places, strict=True)
                self.slopes = [_laid_out_as(slope, place) for slope, place in pairs]
        self._divisors: list[Any] = []

    @property
    def metric_in_use(self) -> bool:
        """Whether there is a gradient to be divided by the diagonal."""
        return bool(self.metric and self.params)

    def _has_kernel(self) -> bool:
        form, first = self._method.form, self.places[0] if self.params else None
        if first is None or (form is not HEAVY_BALL and form is not AVERAGED):
            return False
        if torch.compiler.is_compiling() or self._method.rule.steers:  # a compiler fuses itself
            return False
        if not first.is_cpu and not first.is_cuda:
            return False
        # On CUDA the kernel's factor is float32.
        known = (torch.float32, torch.float64) if first.is_cpu else (torch.float32,)
        return all(place.dtype in known and _is_dense(place) for place in self.places)

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
        return [self._method.form.direction(buffer, slope, momentum) for buffer, slope in pairs]

    def ways(self, steered: Any = None) -> list[Tensor]:
        """What trials of a line search go along."""
        if self._method.rule.along == "direction":
            return self.directions(steered)
        return self.slopes

    def divisors(self) -> list[Any]:
        """The diagonal D with this batch in it, of each parameter: a tensor or one number."""
        if self._divisors or not self.params:
            return self._divisors
        if self.metric == "tensor":
            old, weights = torch.stack(self._squares), torch.stack(self._weights)
            norms = torch._foreach_norm(self.slopes, 2, old.dtype)
            self._lengths = torch.stack(norms).square()
            means = self._over_shards(self._lengths) / old.new_tensor(self._sizes)
            new, weights = second_moment(old, means), second_moment(weights, 1.0)
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
        copies = [self._measure.count / shards(grad) for grad in self.grads]
        return self._measure.summed(lengths / lengths.new_tensor(copies))

    def metric_products(self, measure: Measure) -> tuple[Any, Any, Any]:
        """This process's part of ||g||^2, g' D^-1 g and ||D^-1 g||^2."""
        if self.by_kernel and self.on_host and self.metric == "element":
            return self._element_products()
        divisors = self.divisors()
        if self.metric == "tensor":
            plain = self._lengths.to(measure.dtype)
            divided, twice = plain / self._row, plain / self._row.square()
        else:
            slopes = [slope.to(state_dtype(slope.dtype)) for slope in self.slopes]
            pulls = [slope / each for slope, each in zip(slopes, divisors, strict=True)]
            lists: Any = slopes, torch._foreach_mul(slopes, pulls), pulls
            plain, divided, twice = (
                torch.stack(torch._foreach_norm(each, order, measure.dtype))
                for each, order in zip(lists, (2, 1, 2), strict=True)
            )
            plain, twice = plain.square(), twice.square()
        if measure.count > 1:
            copies = plain.new_tensor([measure.count / shards(grad) for grad in self.grads])
            plain, divided, twice = plain / copies, divided / copies, twice / copies
        return plain.sum(), divided.sum(), twice.sum()

    def _element_products(self) -> tuple[float, float, float]:
        """The same on the host, block by block; nothing of a block is kept."""
        plain = divided = twice = 0.0
        chunks = self.chunks()
        longest = max(sum(grad.numel() for grad in chunk.grads) for chunk in chunks)
        pulls, past = torch.zeros(2, longest, dtype=chunks[0].grads[0].dtype)
        for chunk in chunks:
            grad, squares = _together(chunk.grads), _together(chunk.squares)
            if len(chunk.squares) == 1:  # not a copy yet
                squares = squares.clone()
            size, copies = grad.numel(), chunk.copies
            pull = pulls[:size].zero_().to(grad.dtype)
            _adam([pull], [grad], [past[:size].to(grad.dtype)], [squares], -1.0, chunk.weight)
            plain += torch.dot(grad, grad).item() / copies
            divided += torch.dot(grad, pull).item() / copies
            twice += torch.dot(pull, pull).item() / copies
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
        if self.metric == "tensor" or (self.metric and not (self.by_kernel and self.on_host)):
            kept = [*self._squares, *self._weights]
            if accepted is not True:
                pairs = zip(self._news, kept, strict=True)
                self._news = [torch.where(accepted, new, old) for new, old in pairs]
            torch._foreach_copy_(kept, self._news)
        elif self.metric:
            kind = double_or_single(self._weights)
            self._numbers = [kind(second_moment(old, 1.0)) for old in self._numbers]
            for place, number in zip(self._weights, self._numbers, strict=True):
                place.fill_(number)
            for chunk in self._chunks:
                chunk.weight = self._numbers[chunk.first]

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
        form, dtype = self._method.form, state_dtype(self.places[i].dtype)
        theta = self.places[i].to(dtype)
        past = self.buffers[i].to(dtype) if self.buffers else 0.0
        if shrink is not None:
            theta = shrink * theta
            past = shrink * past if form.averages else past
        motion, new = form.move(past, self.slopes[i].to(dtype), step, momentum, weight)
        return theta + motion, new

    def _move_many(self, step: Any, momentum: Any, weight: Any, shrink: Any, accepted: Any) -> None:
        form = self._method.form
        kernel = _averaged if form is AVERAGED else _heavy_ball
        if not self.on_host:
            pulls = self.slopes
            if self.metric:
                pulls = list(torch._foreach_div(self.slopes, self.divisors()))
            chunks = [Chunk(self.places, pulls, self.buffers)]
        else:
            chunks = self.chunks()
        element = self.on_host and self.metric == "element"
        searched = self._method.rule.searches
        for chunk in chunks:
            dtype = chunk.places[0].dtype
            if shrink is not None:
                factor = _factor(shrink, accepted, dtype, chunk.places[0].device)
                torch._foreach_mul_(chunk.places, factor)
                if form.averages:
                    torch._foreach_mul_(chunk.buffers, factor)
            kernel(chunk, step, momentum, weight, accepted, element, searched)

    def chunks(self) -> list["Chunk"]:
        """The tensors in blocks, on the host."""
        if not self._chunks:
            if self.metric == "element":
                self._numbers = [weight.item() for weight in self._weights]
            self._chunks = list(self._cut_in_chunks())
        slopes = self.slopes
        if self.metric == "tensor":
            # Divided by its own number of each tensor, they are pulls.
            numbers = [1.0 / float(each) for each in self.divisors()]
            slopes = list(torch._foreach_mul(slopes, numbers))
        for chunk in self._chunks:
            chunk.take(slopes)
        return self._chunks

    def _cut_in_chunks(self) -> Any:
        count = self._measure.count
        open_chunks: dict[Any, Chunk] = {}
        for i, place in enumerate(self.places):
            copies = count / shards(self.params[i])
            weight = self._numbers[i] if self._numbers else 0.0
            buffer = self.buffers[i] if self.buffers else None
            squares = self._squares[i] if self.metric == "element" else None
            if place.numel() > BLOCK:
                wanted = [each for each in (place, buffer, squares) if each is not None]
                cuts = [torch.split(_flat(each), BLOCK) for each in wanted]
                for k in range(len(cuts[0])):
                    chunk = Chunk([], [], [], weight=weight, copies=copies, first=i)
                    own = iter(cut[k] for cut in cuts)
                    chunk.add(i, k, next(own), None if buffer is None else next(own),
                              None if squares is None else next(own))  # fmt: skip
                    yield chunk
                continue
            key = place.dtype, weight, copies
            chunk = open_chunks.get(key) or Chunk([], [], [], weight=weight, copies=copies, first=i)
            if chunk.size and chunk.size + place.numel() > BLOCK:
                yield chunk
                chunk = Chunk([], [], [], weight=weight, copies=copies, first=i)
            open_chunks[key] = chunk
            chunk.add(i, None, place, buffer, squares)
        yield from open_chunks.values()


class Chunk:
    """Tensors that kernels work on together: of one format, and a block in size at most."""

    def __init__(
        self, places: list[Tensor], grads: list[Tensor], buffers: list[Tensor],
        weight: float = 0.0, copies: float = 1.0, first: int = 0,
    ) -> None:  # fmt: skip
        self.places, self.grads, self.buffers = places, grads, buffers
        self.squares: list[Tensor] = []
        self.weight, self.copies, self.first = weight, copies, first
        self.size = 0
        self._from: list[tuple[int, int | None]] = []

    def add(
        self, i: int, part: int | None, place: Tensor, buffer: Tensor | None, squares: Any
    ) -> None:
        """Take a tensor in, or a part of it."""
        self._from.append((i, part))
        self.places.append(place)
        self.size += place.numel()
        if buffer is not None:
            self.buffers.append(buffer)
        if squares is not None:
            self.squares.append(squares)

    def take(self, slopes: list[Tensor]) -> None:
        """Take the gradients of this step."""
        i, part = self._from[0]
        if part is None:
            self.grads = [slopes[i] for i, _ in self._from]
        else:
            self.grads = [_flat(slopes[i])[part * BLOCK : (part + 1) * BLOCK]]


def _heavy_ball(
    chunk: Chunk, step: Any, momentum: Any, weight: Any, accepted: Any, element: bool,
    searched: bool,
) -> None:  # fmt: skip
    """Heavy ball: the kernels do nothing where ``refused`` is 1.

    A product with a mask would not do: it turns an infinite or NaN gradient into NaN.
    """
    places, grads, buffers = chunk.places, chunk.grads, chunk.buffers
    dtype, device, refused = places[0].dtype, places[0].device, _refused(accepted)
    if not buffers:
        _pull(places, chunk, step, refused, element)
        return
    if searched and isinstance(step, float) and step > 1e-8 and dtype == torch.float32 and momentum:
        # buffer <- momentum * buffer + (1 - dampening) * gradient, parameter += buffer. In double
        # precision 1 - (1 + step) is the step to more digits than float32 has.
        _sgd(places, grads, buffers, -1.0, refused, momentum, 1.0 + float(step))
        return
    torch._foreach_mul_(buffers, _factor(momentum, accepted, dtype, device))
    _pull(buffers, chunk, step, refused, element)
    _sgd(places, buffers, [], -1.0, refused)


def _averaged(
    chunk: Chunk, step: Any, momentum: Any, weight: Any, accepted: Any, element: bool,
    searched: bool,
) -> None:  # fmt: skip
    """Averaged heavy ball: from theta to x, from z to the next z, and back to theta."""
    places, grads, leads = chunk.places, chunk.grads, chunk.buffers
    dtype, device, refused = places[0].dtype, places[0].device, _refused(accepted)
    rest = 1.0 - weight
    if accepted is True and not element and dtype == torch.float32 and rest * step > 1e-8:
        # The lead that is kept is the rest of the one that theta follows. Dampening: see above.
        _sgd(places, grads, leads, -momentum * weight / rest, None, rest, 1.0 + rest * step)
        _sgd(places, grads, [], (1.0 - momentum) * step, None)
        return
    _sgd(places, leads, [], 1.0 - momentum, refused)
    _pull(leads, chunk, step, refused, element)
    _sgd(places, leads, [], -(1.0 - momentum) - momentum * weight, refused)
    torch._foreach_mul_(leads, _factor(rest, accepted, dtype, device))


def _pull(places: list[Tensor], chunk: Chunk, step: Any, refused: Any, element: bool) -> None:
    """Take ``step`` times the gradients from tensors, divided by Adam's diagonal if ``element``."""
    if not element:
        _sgd(places, chunk.grads, [], step, refused)
        return
    sizes = [grad.numel() for grad in chunk.grads]
    past = torch.zeros(max(sizes), dtype=places[0].dtype)
    pasts = {size: past[:size] for size in set(sizes)}
    _adam(places, chunk.grads, [pasts[n] for n in sizes], chunk.squares, step, chunk.weight)


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
        places, grads, pasts, squares, [], [_LONG_AGO] * len(places), lr=step * root, beta1=0.0,
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


def _factor(value: Any, accepted: Any, dtype: torch.dtype, device: torch.device) -> Tensor:
    """What tensors are multiplied by: a tensor, which is faster, and 1 where it is refused."""
    if accepted is True:
        return torch.full((), value, dtype=dtype, device=device)
    # Times 1 leaves a tensor as it was, to the bit.
    return torch.where(accepted, as_scalar(value, dtype, device), 1.0)


def _refused(accepted: Any) -> Tensor | None:
    return None if accepted is True else accepted.logical_not().to(torch.float32)


def _zero(param: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.zeros((), dtype=dtype, device=param.device)


def double_or_single(tensors: list[Tensor]) -> Callable[[float], float]:
    """How the format of state holds a number."""
    return float if tensors[0].dtype == torch.float64 else single


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


def _together(tensors: list[Tensor]) -> Tensor:
    if len(tensors) == 1:
        return _flat(tensors[0])
    return torch._C._nn.flatten_dense_tensors(tensors)
