"""The average of an optimizer's iterates, and a model at it."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer, swa_utils

from heavystep import validation
from heavystep.momentum import weight_of_next
from heavystep.optim.closure import put_back
from heavystep.optim.measure import forget_gathered
from heavystep.optim.optimizer import RuleOptimizer
from heavystep.optim.options import local, state_dtype
from heavystep.rules.heavystep import POWER


class Average:
    r"""The average of what an optimizer made of its parameters, step by step.

    Where the noise of the batches stays, iterates wander around the minimum and their average does
    not. Weights grow with the step k as k^p, so that neither a horizon nor a beginning has to be
    chosen; ``weight_of_next`` in :mod:`heavystep.momentum` has the formula.

    The average follows every ``optimizer.step()``. Training never sees it: :meth:`in_place` lends
    it to the model for a while, for validation or to be saved. A batch that an optimizer of this
    package refuses (``info.accepted`` is false) does not count, as if there had been no such step;
    nothing waits for the device to know. A GradScaler that skips a step skips it here too.

    Averages are kept in float32 at least, one a parameter that is to be trained. The average of
    a parameter that is added or thawed later begins at its value after its next step; that of a
    frozen one stays. With FSDP each process averages its shards. No process sends
    anything.

    Args:
        optimizer: of this package or any other of torch.
        power: p, >= 0; 0 is the mean of all iterates, 8 has half of its weight on the last 7%.
        automatic: whether steps are followed by themselves; :meth:`update` is then refused, since
            it would count a step twice. Otherwise call it after each step: a
            :class:`~heavystep.CapturedStep` calls no hooks, and takes ``report=average.update``.

    >>> import torch
    >>> theta = torch.zeros(1, requires_grad=True)
    >>> opt = torch.optim.SGD([theta], lr=0.5)
    >>> average = Average(opt, power=0.0)
    >>> for target in (1.0, -1.0) * 50:
    ...     loss = ((theta - target) ** 2).sum() / 2
    ...     opt.zero_grad()
    ...     loss.backward()
    ...     opt.step()
    >>> round(theta.item(), 3)
    -0.333
    >>> with average.in_place():
    ...     print(round(theta.item(), 3))
    0.003
    >>> round(theta.item(), 3)
    -0.333
    """

    def __init__(
        self, optimizer: Optimizer, *, power: float = POWER, automatic: bool = True
    ) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"optimizer must be one of torch's kind, got {optimizer!r}")
        validation.real("power", power, validation.NON_NEGATIVE)
        validation.choice("automatic", automatic, (False, True))
        self._optimizer, self._power = optimizer, float(power)
        self._averages: dict[Tensor, Tensor] = {}
        self._to_come: set[Tensor] = set()
        """Parameters of which no iterate has been seen: their averages mean nothing yet."""
        self._lent: dict[Any, tuple[Tensor, Tensor]] | None = None
        """Buffers to be put back, by module and name, while the model has the averages."""
        self._moves = True
        for param in self._params():
            self._average_of(param, param.requires_grad)
        first = next(iter(self._params()), torch.zeros(()))
        self._count = torch.zeros((), dtype=torch.int64, device=first.device)
        self._handles: list[Any] = []
        if automatic:
            self._follow()

    def _follow(self) -> None:
        before, after = map(torch.compiler.disable, (self._before_step, self._after_step))
        self._handles = [
            self._optimizer.register_step_pre_hook(before),
            self._optimizer.register_step_post_hook(after),
        ]

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        # By a step of length 0 torch.distributed.checkpoint asks what state there is.
        rates = [group.get("lr", 1.0) for group in optimizer.param_groups]
        on_device = any(isinstance(lr, Tensor) and lr.device.type != "cpu" for lr in rates)
        self._moves = bool(optimizer.state) or on_device or any(map(float, rates))

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._moves:
            self._take()

    def _refuse_within(self, call: str) -> None:
        if self._lent is not None:
            raise ValueError(
                f"{call} within in_place(): the model has the average there; do it outside of the "
                "block"
            )

    def __getstate__(self) -> dict[str, Any]:
        self._refuse_within("a copy")
        return {**vars(self), "_handles": bool(self._handles)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _handles=[])
        # A copy of an optimizer has no hooks: without these it would be followed no longer.
        if state["_handles"]:
            self._follow()

    @property
    def count(self) -> Tensor:
        """The number of averaged iterates, on the device of the parameters."""
        return self._count

    def detach(self) -> None:
        """Follow the optimizer no longer; the average stays as it is."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def update(self) -> None:
        """Take the parameters into the average, unless the optimizer refused the last batch."""
        self._refuse_within("update()")
        if self._handles:
            raise ValueError(
                "update() would count a step twice: this average follows its optimizer by itself. "
                "Leave the call out, or make it with automatic=False"
            )
        self._take()

    @torch.no_grad()
    def _take(self) -> None:
        info = self._optimizer.info if isinstance(self._optimizer, RuleOptimizer) else None
        accepted = True if info is None else info.accepted  # a tensor where the device decided
        if accepted is False:
            return
        alike: dict[Any, tuple[list[Tensor], list[Tensor]]] = {}
        for param in self._params():
            kept = self._average_of(param, param.requires_grad)
            if kept is None:
                continue
            place, average = local(param.detach()), local(kept)
            if param in self._to_come:  # averages begin where the parameters are
                if param.is_cuda and torch.cuda.is_current_stream_capturing():
                    raise ValueError(
                        "update() must be called once before it is part of a CUDA graph"
                    )
                average.copy_(place)
                self._to_come.remove(param)
            both = alike.setdefault((average.device, place.dtype, average.dtype), ([], []))
            both[0].append(place)
            both[1].append(average)
        for params, averages in alike.values():
            device, dtype = averages[0].device, averages[0].real.dtype
            share = weight_of_next(self._count.to(device, dtype), self._power)
            if accepted is not True:
                share = torch.where(accepted.to(device), share, 0.0)
            # The host need not know the share.
            distances = torch._foreach_sub(params, averages)
            torch._foreach_mul_(distances, share)
            torch._foreach_add_(averages, distances)
        self._count += accepted

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Lend the average to the model for the block; afterwards it goes on as if nothing was.

        Within the block the parameters have the values of the average, in their own format, so that
        the model can be validated, or saved. Afterwards, also after an exception, they have their
        own again, to the bit. Steps are refused within. Before the first step nothing changes.
        BatchNorm's statistics belong to the iterates and not to their average: see
        :meth:`update_bn`.
        """
        self._refuse_within("in_place()")
        pairs = [(p, a) for p, a in self._averages.items() if p not in self._to_come]
        params = [param for param, _ in pairs]
        places = [local(param.detach()) for param in params]
        own = [place.clone() for place in places]
        refusing = self._optimizer.register_step_pre_hook(lambda *_: self._refuse_within("step()"))
        self._lent = {}
        try:
            _fill(params, places, [local(average) for _, average in pairs])
            yield
        finally:
            _fill(params, places, own)
            with torch.no_grad():
                for (module, name), (buffer, value) in self._lent.items():
                    module._buffers[name] = buffer.copy_(value)
            self._lent = None
            refusing.remove()

    def update_bn(self, loader: Iterable[Any], model: nn.Module, device: Any = None) -> None:
        """Estimate BatchNorm's statistics at the average, until the end of the block.

        As ``torch.optim.swa_utils.update_bn``, one pass over batches. At the end of
        :meth:`in_place` all buffers of the model are again those of training, and right away every
        module is again in the mode, ``train()`` or ``eval()``, that it was in.

        Args:
            loader: batches: tensors, or tuples that begin with one.
            model: whose parameters the optimizer has.
            device: to which batches are brought, if they are elsewhere.
        """
        if self._lent is None:
            raise ValueError(
                "update_bn() belongs into the block of in_place(): at its end the model gets the "
                "statistics of training back"
            )
        modules = list(model.modules())
        for module in modules:
            for name, buffer in module._buffers.items():
                if buffer is not None and (module, name) not in self._lent:
                    self._lent[module, name] = buffer, buffer.detach().clone()
        found = [
            (vars(module), name, vars(module)[name])
            for module in modules
            for name in ("training", "momentum")  # which is one of BatchNorm
            if name in vars(module)
        ]
        try:
            swa_utils.update_bn(loader, model, device)
        finally:
            for attributes, name, value in found:
                attributes[name] = value

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on; averages by the place of the parameter in the optimizer."""
        places = {param: place for place, param in enumerate(self._params())}
        kept = {places[p]: average for p, average in self._averages.items() if p in places}
        return {"power": self._power, "count": self._count, "averages": kept}

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what :meth:`state_dict` returned; averaging then goes on as if uninterrupted.

        Raises:
            TypeError: a value is of another kind.
            ValueError: it lacks something, or a value is out of range; nothing is changed.
        """
        self._refuse_within("load_state_dict()")
        params = list(self._params())
        check_state(state_dict, params)
        loaded = state_dict["averages"]
        self._power = float(state_dict["power"])
        self._count.copy_(state_dict["count"])
        # Into the memory that is there: a CUDA graph may have been recorded with it.
        for place, value in loaded.items():
            average: Any = self._average_of(params[place], True)
            local(average).copy_(local(value))
        begun = {params[place] for place in loaded} if int(self._count) else set()
        self._to_come = self._averages.keys() - begun

    def _params(self) -> Iterator[Tensor]:
        for group in self._optimizer.param_groups:
            yield from group["params"]

    def _average_of(self, param: Tensor, wanted: bool) -> Tensor | None:
        """The average of a parameter, on its device, to which a model may have moved."""
        average = self._averages.get(param)
        if average is None and wanted:
            self._to_come.add(param)
            average = param.detach().to(state_dtype(param.dtype), copy=True)
        if average is not None:
            self._averages[param] = average = average.to(param.device)
        return average


@torch.no_grad()
def _fill(params: list[Tensor], places: list[Tensor], values: list[Tensor]) -> None:
    """Give parameters other values, and let go of what was made of the old ones."""
    put_back(places, values)
    forget_gathered(params)
    torch.clear_autocast_cache()


def check_state(state: Any, params: list[Tensor]) -> None:
    """Refuse what is no state of an average of these parameters."""
    if not isinstance(state, Mapping) or not state.keys() >= {"averages", "count", "power"}:
        got = sorted(map(str, state)) if isinstance(state, Mapping) else state
        raise ValueError(
            f"state_dict must be that of an Average, with averages, count, power, got {got!r}"
        )
    validation.real("power", state["power"], validation.NON_NEGATIVE)
    count, averages = state["count"], state["averages"]
    one = isinstance(count, Tensor) and not count.ndim
    validation.integer("count", count.item() if one else count, least=0)
    if not isinstance(averages, Mapping):
        raise TypeError(f"averages must be tensors by places of parameters, got {averages!r}")
    for place, value in averages.items():
        validation.integer("the place of an average", place, least=0)
        if place >= len(params):
            raise ValueError(f"got average {place} of {len(params)} parameters")
        if not isinstance(value, Tensor):
            raise TypeError(f"average {place} must be a tensor, got {value!r}")
        wanted, got = (
            f"{'complex' if each.is_complex() else 'real'} of shape {tuple(local(each).shape)}"
            for each in (params[place], value)
        )
        if got != wanted:
            raise ValueError(f"average {place} must be {wanted} as its parameter is, got {got}")
