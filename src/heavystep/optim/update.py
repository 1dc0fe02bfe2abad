"""Moving the parameters: buffers, the diagonal metric, kernels for many tensors.

A momentum form has one definition, its ``move`` for one element. For heavy ball and averaged heavy
ball there are kernels beside it: torch's fused SGD, which adds a multiple of one list of tensors to
another, and its fused Adam, which divides by the diagonal as it goes. Long tensors are cut into
blocks, so that what several kernels read stays in the cache.
"""

from collections.abc import Callable, MutableMapping
from functools import partial
from math import sqrt
from operator import attrgetter, is_
from typing import Any, NamedTuple

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
from heavystep.optim.measure import Measure, as_scalar, decay_of, reads_for_free, single
from heavystep.optim.options import (
    DRAWS,
    Group,
    has_shape_of,
    local,
    misshapen,
    state_dtype,
)
from heavystep.optim.ranks import shards

BLOCK = 1 << 17
"""Elements of a block: what the kernels of a step read of it, two megabytes, stays in the cache."""
LONG_AGO = torch.tensor(1e30)
"""A number of steps after which the Adam kernel corrects no bias itself."""


class Block(NamedTuple):
    """Tensors that kernels work on together: of one format, ``BLOCK`` elements at most."""

    places: list[Tensor]
    buffers: list[Tensor]
    squares: list[Tensor]
    grads: list[Tensor]
    weight: float = 0.0
    """Weight of the averages of squares, this step included."""


class Active:
    """The parameters of one group that have a gradient, and what is kept of each.

    It lasts from step to step, until :meth:`refresh` says that something else has a gradient, or
    lies elsewhere, than when it was made.
    """

    def __init__(
        self, method: Method, group: Group, groups: list[Group], state: MutableMapping[Any, Any],
        measure: Measure,
    ) -> None:  # fmt: skip
        self.group, self._method, self._form, self._measure = group, method, method.form, measure
        self._place = next(i for i, each in enumerate(groups) if each is group)
        self.metric: str | None = group.get("diagonal", method.diagonal)
        self.params: list[Tensor] = []
        self.grads: list[Tensor] = []
        self._all: list[Tensor] = list(group["params"])
        self._idle: list[Tensor] = []
        lasting = self._find_gradients(groups, state)
        self.places = [local(param) for param in self.params]
        """This process's part of the parameters."""
        # FSDP may exchange shards.
        lasting = lasting and all(map(is_, self.places, self.params))
        self.elements = sum(param.numel() for param in self.params)
        self.copies = [measure.count / shards(param) for param in self.params]
        """The number of processes that hold the same part of each tensor."""
        self.on_host = bool(self.params) and reads_for_free(self.places[0].device)
        self._rounds = bool(group.get("stochastic_rounding"))
        self.by_kernel = self._has_kernel()
        kept = partial(self._kept, state, groups)
        self.buffers = kept(self._form.buffer, True) if method.keeps_buffer else []
        self._squares = kept(SQUARES, self.metric == "element") if self.metric else []
        self._weights = kept(SQUARE_WEIGHT, False) if self.metric else []
        self._states = [state.get(param, {}) for param in self.params] if lasting else []
        self._lasting = self._signature(self.grads) if lasting else None
        self._aligned = False
        if self.metric == "tensor" and self.params:  # filled, since a copy cannot be recorded
            counts = [max(param.numel(), 1) for param in self.params]
            pairs = zip(self._squares, counts, strict=True)
            self._sizes = torch.stack([old.new_full((), count) for old, count in pairs])
        self._plan: list[tuple[list[int], int | None]] = []
        self._set_slopes()

    def _find_gradients(self, groups: list[Group], state: MutableMapping[Any, Any]) -> bool:
        """Note the parameters with a gradient; True if the next step may use the same tensors."""
        # What a rule remembers of products with the position fades, also where no gradient is.
        complete = "direction_position" in self._method.rule.reads
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
        return lasting

    def _kept(
        self, state: MutableMapping[Any, Any], groups: list[Group], name: str, alike: bool
    ) -> list[Tensor]:
        """This process's part of one kind of state, made where it is missing.

        ``alike``: it has the shape of its parameter, and is no single number.
        """
        found = []
        for param in self.params:
            short = alike and self._rounds and param.dtype == torch.bfloat16
            dtype = param.dtype if short else state_dtype(param.dtype)
            tensor, like = state[param].get(name), param if alike else param.new_empty(())
            if tensor is None:
                tensor = torch.zeros_like(like, dtype=dtype)
            elif tensor.get_device() != param.get_device() or tensor.dtype != dtype:
                tensor = tensor.to(param.device, dtype)  # the model was moved
            if alike and not has_shape_of(param, tensor):
                raise misshapen(name, tensor, param, groups)
            state[param][name] = tensor
            found.append(local(tensor))
        return found

    def _has_kernel(self) -> bool:
        first = self.places[0] if self.params else None
        if first is None or self._rounds or self._form not in (HEAVY_BALL, AVERAGED):
            return False
        if torch.compiler.is_compiling() or self._method.rule.steers:  # a compiler fuses itself
            return False
        # On CUDA the kernel's factor is float32.
        known = {"cpu": (torch.float32, torch.float64), "cuda": (torch.float32,)}
        formats = known.get(first.device.type, ())
        return all(place.dtype in formats and _is_dense(place) for place in self.places)

    def _signature(self, grads: list[Any]) -> list[Any]:
        """Everything that must not change while this is reused: addresses and kinds of tensors."""
        return [
            (p.data_ptr(), p.requires_grad, g.dtype, g.layout, g.shape, g.stride(),
             *map(id, kept.values()))
            for p, g, kept in zip(self.params, grads, self._states, strict=True)
        ]  # fmt: skip

    def refresh(self) -> bool:
        """Take the new gradients; False if this object must be made anew."""
        if self._lasting is None or len(self.group["params"]) != len(self._all):
            return False
        for param in self._idle:
            if param.grad is not None and param.requires_grad:
                return False
        grads: list[Any] = list(map(attrgetter("grad"), self.params))
        try:
            if self._signature(grads) != self._lasting:
                return False
        except AttributeError:  # there is no gradient
            return False
        self.grads = grads
        self._set_slopes()
        return True

    def _set_slopes(self) -> None:
        """This process's part of the gradients, in the memory layout of the parameters."""
        decay = decay_of(self.group, "objective")
        self.in_objective = bool(decay and self.params)
        """True if weight decay is part of loss and gradient."""
        if self.in_objective:
            self.grads = list(torch._foreach_add(self.grads, self.params, alpha=decay))
        self.slopes = self.grads
        if self._lasting is None:
            self.slopes = [local(grad) for grad in self.grads]
        if self.by_kernel and not self._aligned:
            laid_out = list(map(_laid_out_as, self.slopes, self.places))
            # An object that lasts gets gradients of the same layout at each step.
            self._aligned = self._lasting is not None and all(map(is_, laid_out, self.slopes))
            self.slopes = laid_out
        self._divisors: list[Any] = []
        self._blocks: list[Block] = []

    def trained(self) -> list[int]:
        """Which parameters of the group have a gradient."""
        ours = set(map(id, self.params))
        return [k for k, param in enumerate(self._all) if id(param) in ours]

    def replicated(self, what: str) -> list[Tensor]:
        """Parameters, or state, of which every process holds the whole."""
        kept = [self.places] if what == "parameters" else [self.buffers, self._squares]
        pairs = [pair for each in kept for pair in zip(self.params, each, strict=False)]
        return [tensor for param, tensor in pairs if shards(param) == 1]

    # -- What is measured --------------------------------------------------------------------

    def vectors(self, name: str, power: int) -> list[Any]:
        """This process's part of a vector for inner products, divided by D^power."""
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
        """The vectors that the step multiplies; ``steered`` is the momentum if the rule sets it."""
        past: list[Any] = self.buffers or [0.0] * len(self.params)
        momentum = self.group["momentum"] if steered is None else steered
        pairs = zip(past, self.slopes, strict=True)
        return [self._form.direction(buffer, slope, momentum) for buffer, slope in pairs]

    def ways(self, steered: Any = None) -> list[Tensor]:
        """The directions of a line search."""
        return self.directions(steered) if self._method.rule.along == "direction" else self.slopes

    def divisors(self) -> list[Any]:
        """The diagonal D with this batch in it, of each parameter: a tensor or one number."""
        if self._divisors or not self.params:
            return self._divisors
        if self.metric == "tensor":
            old, weights = torch.stack(self._squares), torch.stack(self._weights)
            self._lengths = torch.stack(torch._foreach_norm(self.slopes, 2, old.dtype)).square()
            lengths = self._lengths  # of whole gradients, also where they are shards
            if any(shards(param) > 1 for param in self.params):
                lengths = self._measure.summed(lengths / lengths.new_tensor(self.copies))
            new = second_moment(old, lengths / self._sizes)
            weights = second_moment(weights, 1.0)
            self._row = divisor(new, weights)
            self._news = [*new.unbind(), *weights.unbind()]
            self._divisors = self._row.tolist() if self.on_host else list(self._row.unbind())
        else:
            slopes = self._wide_slopes()
            squares = torch._foreach_mul(slopes, slopes)
            news = [second_moment(*pair) for pair in zip(self._squares, squares, strict=True)]
            heavy = [second_moment(old, 1.0) for old in self._weights]
            self._news = [*news, *heavy]
            self._divisors = [divisor(*pair) for pair in zip(news, heavy, strict=True)]
        return self._divisors

    def _wide_slopes(self) -> list[Tensor]:
        return [slope.to(state_dtype(slope.dtype)) for slope in self.slopes]

    def metric_products(self) -> tuple[Any, Any, Any]:
        """This process's part of ||g||^2, g' D^-1 g and ||D^-1 g||^2."""
        dtype = self._measure.dtype
        if self.metric == "element" and self.by_kernel and self.on_host:
            return self._block_products()
        if self.metric == "element" and self._rounds:  # nothing of a tensor is kept
            total = torch.zeros(3, dtype=dtype, device=self._measure.device)
            for i, copies in enumerate(self.copies):
                slope, _, divided_by = self._of_element(i)
                pull = slope / divided_by
                pairs = (slope, slope), (slope, pull), (pull, pull)
                total += torch.stack([(a * b).sum() for a, b in pairs]) / copies
            return total[0], total[1], total[2]
        divisors = self.divisors()
        if self.metric == "tensor":
            plain = self._lengths.to(dtype)
            divided, twice = plain / self._row, plain / self._row.square()
        else:
            slopes = self._wide_slopes()
            pulls = [slope / each for slope, each in zip(slopes, divisors, strict=True)]
            lists: Any = slopes, torch._foreach_mul(slopes, pulls), pulls
            plain, divided, twice = (
                torch.stack(torch._foreach_norm(each, order, dtype))
                for each, order in zip(lists, (2, 1, 2), strict=True)
            )
            plain, twice = plain.square(), twice.square()
        if self._measure.count > 1:
            held = plain.new_tensor(self.copies)
            plain, divided, twice = plain / held, divided / held, twice / held
        return plain.sum(), divided.sum(), twice.sum()

    def _block_products(self) -> tuple[float, float, float]:
        """The products on the host, block by block; no block is kept."""
        plain = divided = twice = 0.0
        for block, (some, _) in zip(self.blocks(), self._plan, strict=True):
            grad, squares = _together(block.grads), _together(block.squares)
            copies = self.copies[some[0]]
            if len(block.squares) == 1:  # not a copy yet
                squares = squares.clone()
            pull = torch.zeros_like(grad)
            _adam([pull], [grad], [torch.zeros_like(grad)], [squares], -1.0, block)
            plain += float(torch.dot(grad, grad)) / copies
            divided += float(torch.dot(grad, pull)) / copies
            twice += float(torch.dot(pull, pull)) / copies
        return plain, divided, twice

    def _of_element(self, i: int) -> tuple[Tensor, Tensor, Tensor]:
        """The gradient of a parameter, the average of its squares and the diagonal, in float32."""
        wide = state_dtype(self.places[i].dtype)
        slope = self.slopes[i].to(wide)
        squares = second_moment(self._squares[i].to(wide), slope * slope)
        return slope, squares, divisor(squares, second_moment(self._weights[i], 1.0))

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
        if not self.by_kernel:
            self._move_each(step, momentum, weight, shrink, accepted)
            return
        if self.on_host:
            blocks = self.blocks()
        else:
            pulls = self.slopes
            if self.metric:
                pulls = list(torch._foreach_div(self.slopes, self.divisors()))
            blocks = [Block(self.places, self.buffers, [], pulls)]
        # Kernels do nothing where this is 1. A product with a mask would not do: it turns an
        # infinite or NaN gradient into NaN.
        refused = None if accepted is True else accepted.logical_not().to(torch.float32)
        for block in blocks:
            if shrink is not None:
                factor = _factor(shrink, accepted, block.places[0])
                torch._foreach_mul_(block.places, factor)
                if self._form.averages:
                    torch._foreach_mul_(block.buffers, factor)
            if self._form is AVERAGED:
                _averaged(block, step, momentum, weight, accepted, refused)
            else:
                _heavy_ball(block, step, momentum, accepted, refused, self._method.rule.searches)
        if self.metric == "element" and self.on_host:  # the kernel has averaged the squares
            for (some, _), block in zip(self._plan, blocks, strict=True):
                wide = block.places[0].dtype == torch.float64
                weight = block.weight if wide else single(block.weight)
                for i in some:
                    self._numbers[i] = weight
                    self._weights[i].fill_(weight)
        elif self.metric:
            kept = [*self._squares, *self._weights]
            if accepted is not True:
                pairs = zip(self._news, kept, strict=True)
                self._news = [torch.where(accepted, new, old) for new, old in pairs]
            torch._foreach_copy_(kept, self._news)

    def _move_each(self, step: Any, momentum: Any, weight: Any, shrink: Any, accepted: Any) -> None:
        """The definition of the update, one tensor after another."""
        keep = self._keeper(accepted)
        by_element = self.metric == "element" and self._rounds
        divisors = self.divisors() if self.metric and not by_element else []
        for i, place in enumerate(self.places):
            own = step
            if by_element:
                _, squares, each = self._of_element(i)
                own = step / each
                keep(self._squares[i], squares)
                keep(self._weights[i], second_moment(self._weights[i], 1.0))
            elif divisors:
                own = step / divisors[i]
            dtype = state_dtype(place.dtype)
            theta = place.to(dtype)
            past = self.buffers[i].to(dtype) if self.buffers else 0.0
            if shrink is not None:
                theta = shrink * theta
                past = shrink * past if self._form.averages else past
            motion, new = self._form.move(past, self.slopes[i].to(dtype), own, momentum, weight)
            keep(place, theta + motion)
            if self.buffers:
                keep(self.buffers[i], new)
        if divisors:
            for old, new in zip([*self._squares, *self._weights], self._news, strict=True):
                keep(old, new)

    def _keeper(self, accepted: Any) -> Callable[[Tensor, Tensor], object]:
        """A function that writes a new value over an old one, unless the batch is refused.

        With ``stochastic_rounding`` random numbers depend on the group and the count of its steps.
        """
        generator: Any = None
        if self._rounds:
            device = self.places[0].device
            recorded = device.type == "cuda" and torch.cuda.is_current_stream_capturing()
            if recorded or torch.compiler.is_compiling():
                raise ValueError(
                    "stochastic_rounding draws new numbers at each step, which a recorded or "
                    "compiled step cannot: leave one of them out"
                )
            count = self.group[DRAWS] = int(self.group.get(DRAWS, 0)) + 1
            # On the host 32 bits of a seed count: 24 for steps, 8 for groups.
            generator = torch.Generator(device).manual_seed((self._place << 24) + count)

        def keep(old: Tensor, new: Tensor) -> None:
            new = new if accepted is True else torch.where(accepted, new, old)
            rounds = generator is not None and old.dtype == torch.bfloat16
            old.copy_(round_at_random(new, generator) if rounds else new)

        return keep

    def blocks(self) -> list[Block]:
        """The tensors in blocks, on the host, with the gradients of this step."""
        by_element = self.metric == "element"
        if not self._plan:
            weights = self._weights if by_element else [0.0] * len(self.params)
            self._numbers = list(map(float, weights))
            self._plan = self._planned()
            squares = self._squares if by_element else []
            self._cuts = [self._cut(each) for each in (self.places, self.buffers, squares)]
        if not self._blocks:
            slopes, heavier = self.slopes, [0.0] * len(self._plan)
            if self.metric == "tensor":
                # Divided by its own number of each tensor, they are pulls.
                numbers = [1.0 / float(each) for each in self.divisors()]
                slopes = list(torch._foreach_mul(slopes, numbers))
            if by_element:
                heavier = [second_moment(self._numbers[some[0]], 1.0) for some, _ in self._plan]
            self._blocks = list(map(Block, *self._cuts, self._cut(slopes), heavier))
        return self._blocks

    def _planned(self) -> list[tuple[list[int], int | None]]:
        """Each block: a part of a long tensor, or as many of other tensors, all alike, as fit."""
        plan: list[tuple[list[int], int | None]] = []
        filling: dict[Any, tuple[list[int], int]] = {}
        for i, place in enumerate(self.places):
            size = place.numel()
            if size > BLOCK:
                plan += [([i], k) for k in range(-(-size // BLOCK))]
                continue
            key = place.dtype, self._numbers[i], self.copies[i]
            some, full = filling.get(key, ([], 0))
            if some and full + size > BLOCK:
                plan.append((some, None))
                some, full = [], 0
            some.append(i)
            filling[key] = some, full + size
        return plan + [(some, None) for some, _ in filling.values()]

    def _cut(self, tensors: list[Tensor]) -> list[list[Tensor]]:
        """The tensors of each block; no tensors, where nothing of the kind is kept."""
        if not tensors:
            return [[]] * len(self._plan)
        return [
            [_part(tensors[some[0]], part)] if part is not None else [tensors[i] for i in some]
            for some, part in self._plan
        ]


def _heavy_ball(
    block: Block, step: Any, momentum: Any, accepted: Any, refused: Any, at_once: bool
) -> None:
    """Heavy ball: ``at_once`` in one kernel, which does not round momentum times buffer first.

    So line searches take it, whose step is not rounded either; closed forms round as on a device.
    """
    places, buffers = block.places, block.buffers
    if not buffers:
        _pull(places, block, step, refused)
        return
    exact = isinstance(step, float) and step > 1e-8 and places[0].dtype == torch.float32
    if at_once and exact and momentum:
        # buffer <- momentum * buffer + (1 - dampening) * gradient, parameter += buffer. In double
        # precision 1 - (1 + step) is the step to more digits than float32 has.
        _sgd(places, block.grads, buffers, -1.0, refused, momentum, 1.0 + float(step))
        return
    torch._foreach_mul_(buffers, _factor(momentum, accepted, places[0]))
    _pull(buffers, block, step, refused)
    _sgd(places, buffers, [], -1.0, refused)


def _averaged(
    block: Block, step: Any, momentum: Any, weight: Any, accepted: Any, refused: Any
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
    _sgd(places, leads, [], 1.0 - momentum, refused)
    _pull(leads, block, step, refused)
    _sgd(places, leads, [], -(1.0 - momentum) - momentum * weight, refused)
    torch._foreach_mul_(leads, _factor(rest, accepted, places[0]))


def _pull(places: list[Tensor], block: Block, step: Any, refused: Any) -> None:
    """Take ``step`` times the gradients from tensors, divided by Adam's diagonal if it is there."""
    if not block.squares:
        _sgd(places, block.grads, [], step, refused)
        return
    past = torch.zeros(max(map(Tensor.numel, block.grads)), dtype=places[0].dtype)
    pasts = [past[: grad.numel()] for grad in block.grads]
    _adam(places, block.grads, pasts, block.squares, step, block)


def _adam(
    places: list[Tensor], grads: list[Tensor], pasts: list[Tensor], squares: list[Tensor],
    step: float, block: Block,
) -> None:  # fmt: skip
    """Take ``step`` times g / D from tensors, and g into the averages of its squares.

    With beta_1 = 0 the kernel computes v <- beta_2 v + (1 - beta_2) g^2 and b <- b - gamma g /
    (eps + sqrt(v)) in one walk through memory, on the host. The weight w of the average goes into
    the two numbers: g / D is sqrt(w) g / (sqrt(w) eps + sqrt(v)). ``pasts``, which it writes to,
    may hold any finite numbers.
    """
    root = sqrt(block.weight)
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
    """The factor of a multiplication, as a tensor, which is faster; 1 if the batch is refused."""
    if accepted is True:
        return torch.full((), value, dtype=like.dtype, device=like.device)
    # Times 1 leaves a tensor as it was, to the bit.
    return torch.where(accepted, as_scalar(value, like.dtype, like.device), 1.0)


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


def round_at_random(value: Tensor, generator: torch.Generator) -> Tensor:
    """A float32 tensor as bfloat16, which is its first 16 bits: 16 random ones are added before.

    A bfloat16 number has 8 bits, so that a move of less than 1/512 of a parameter is rounded away,
    at every step. Rounded up or down at random, with the odds of where the exact result lies
    between its two neighbours, it is right on average.

    >>> generator = torch.Generator().manual_seed(0)
    >>> value = torch.full((100_000,), 1.001)
    >>> round(round_at_random(value, generator).double().mean().item(), 4)
    1.001
    """
    bits = torch.randint(
        1 << 16, value.shape, generator=generator, dtype=torch.int32, device=value.device
    )
    bits += value.contiguous().view(torch.int32)
    return (bits & -(1 << 16)).view(torch.float32).to(torch.bfloat16)
