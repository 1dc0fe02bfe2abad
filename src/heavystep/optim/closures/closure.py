"""The closure contract: what a closure may return and whether it called ``backward()``."""

import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from heavystep.optim.closures.handed_over import HandedOver
from heavystep.optim.ranks import local
from heavystep.optim.speaking import warn_caller

Closure = Callable[[], Any]


class GradientWatch:
    """Tells whether gradients were computed since it was made.

    A gradient that is another tensor than before was computed. One that was changed in place
    may have been accumulated or merely zeroed, so one parameter is asked by a hook: if its
    gradient changed although nothing was accumulated into it, in-place changes are zeroing.
    Tensors are held weakly: ``zero_grad()`` in a closure must be able to free the old
    gradients before the forward needs their memory.
    """

    def __init__(self, params: Sequence[Tensor], weigh: bool = False) -> None:
        self._params = params
        self._seen = [
            None if param.grad is None else (weakref.ref(param.grad), param.grad._version)
            for param in params
        ]
        self._accumulated = False
        self.added = False
        """Whether gradients were added to those that were there, as far as one can tell."""
        self._handle: Any = None
        askable = (
            index
            for index, param in enumerate(params)
            if param.grad is not None and param.requires_grad and param.is_leaf
        )
        self._witness = next(askable, None)
        self.leftover: Tensor | None = None
        """The sum of the absolute values of a gradient that was there; None unless ``weigh``."""
        if weigh and self._witness is not None:
            grad = self._params[self._witness].grad
            assert grad is not None
            self.leftover = local(grad.detach()).abs().sum()

    def __enter__(self) -> "GradientWatch":
        if self._witness is not None:
            witness = self._params[self._witness]
            register: Any = witness.register_post_accumulate_grad_hook
            self._handle = register(self._note)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._handle is not None:
            self._handle.remove()

    def _note(self, param: Tensor) -> None:
        if not self._accumulated and self._witness is not None:
            # Zeroing in place would have been a second change; clipping comes later.
            self.added = self._changes(self._witness) == 1
        self._accumulated = True

    def _changes(self, index: int) -> int | None:
        """In-place changes of one gradient; None if it is another tensor or there is none."""
        grad, seen = self._params[index].grad, self._seen[index]
        if grad is None or seen is None or seen[0]() is not grad:
            return None
        return grad._version - seen[1]

    def fired(self) -> bool:
        """Whether any parameter has a gradient that was not there before."""
        if self._accumulated:
            return True
        zeroed = (self._changes(self._witness) or 0) if self._witness is not None else 0
        for index, param in enumerate(self._params):
            if param.grad is None:
                continue
            changes = self._changes(index)
            if changes is None or changes > zeroed:
                return True
        return False


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


class Evaluated(NamedTuple):
    """What a closure did."""

    loss: Any
    """The loss whose gradients are in ``p.grad``, detached."""
    calls_backward: bool
    """Whether the closure itself calls ``backward()``."""
    part_only: bool = False
    """Whether the loss is that of the last part of an accumulated gradient, or seems to be."""
    leftover: Tensor | None = None
    """How large the earlier parts are, if that was asked for; 0 if there are none."""

    def tell_of_earlier_parts(self) -> None:
        """A closure added to gradients that were there, which may be zero if nobody looked.

        Raises:
            ValueError: they were weighed, and are not zero.
        """
        text = (
            "the closure added to gradients that were there, and its loss does not belong to all "
            "of them: call zero_grad() in it, or hand_over() every loss (in Lightning: "
            "callbacks=[HandOverLoss()] of heavystep.integrations.lightning)"
        )
        if self.leftover is None:
            warn_caller(text)
        elif self.leftover.item() != 0.0:
            raise ValueError(text)


def evaluate_with_gradients(
    closure: Closure,
    params: Sequence[Tensor],
    handed_over: HandedOver,
    weigh: bool = False,
    wanted: bool = True,
) -> Evaluated:
    """Call ``closure`` and see to it that ``p.grad`` belongs to the loss.

    If the closure calls ``backward()``, losses that were handed over in it or before, for the
    gradients that it adds to, count instead of the one it returns. If it does not, ``backward()``
    is called here on fresh gradients: those that a caller forgot to zero belong to another batch.
    To ``weigh`` gradients that were there before costs a pass over one of them. A loss that is not
    ``wanted`` need not be returned.
    """
    before = handed_over.sum
    with torch.enable_grad(), GradientWatch(params, weigh) as watch:
        returned = closure()
        fired = watch.fired()
        leaves_backward = isinstance(returned, Tensor) and returned.requires_grad and not fired
        if handed_over and not leaves_backward:
            if fired and handed_over.sum is before:
                raise ValueError(
                    "a loss was handed over before, but not the one of which the closure took the "
                    "gradient: call zero_grad() of the optimizer in it, or hand_over(loss)"
                )
            return Evaluated(handed_over.take(), fired)
        if returned is None and not wanted:
            return Evaluated(None, fired)
        loss = checked_loss(returned, "the closure's return value")
        if not leaves_backward:
            loss = loss.detach() if isinstance(loss, Tensor) else loss
            return Evaluated(loss, fired, watch.added, watch.leftover)
        handed_over.drop()
        for param in params:
            param.grad = None
        _backward(loss)
    return Evaluated(loss.detach(), False)


def _backward(loss: Any) -> None:
    try:
        loss.backward()
    except RuntimeError as error:
        if "backward through the graph a second time" not in str(error):
            raise
        raise RuntimeError(
            "the closure returned a loss of which backward() was called before: call "
            "step(loss=loss) after loss.backward(), or let the closure compute the loss"
        ) from None
