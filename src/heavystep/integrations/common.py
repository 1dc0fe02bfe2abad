"""Common parts of all frameworks: learn the loss from a module, log the step, unwrap models."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from heavystep.optim import RuleOptimizer
from heavystep.optimizers import HeavyStep


def heavy_ball(optimizer: Any) -> RuleOptimizer | None:
    """The optimizer of this package behind a framework's wrappers; None if it is another one."""
    while not isinstance(optimizer, RuleOptimizer):
        if not hasattr(optimizer, "optimizer"):
            return None
        optimizer = optimizer.optimizer
    return optimizer


def closure_fits(
    optimizer: RuleOptimizer, batches: tuple[str, int], scaler: Any, bf16: tuple[str, bool]
) -> None:
    """Refuse a closure that does not give the loss of the batch.

    A search is told of an autocast that the framework hides in the closure; a ``loss_eps`` of the
    user stays. Options come with the names that the framework gives them.
    """
    name = f"{type(optimizer).__name__} with a closure"
    if batches[1] > 1:
        raise ValueError(
            f"{name} needs {batches[0]}=1, got {batches[1]}: it would see the last micro-batch "
            "alone; use SHBPolyak, or larger batches"
        )
    if scaler is not None:
        raise ValueError(
            f"{name} does not go with a GradScaler, which takes none: use {bf16[0]}, or SHBPolyak"
        )
    for group in optimizer.param_groups:
        if bf16[1] and group.get("loss_eps", 0.0) is None:
            group["loss_eps"] = torch.finfo(torch.bfloat16).eps


def unscaled(loss: Tensor, scaler: Any) -> Tensor:
    """A loss before a GradScaler multiplied it; its factor is not read, which would wait."""
    loss = loss.to(torch.promote_types(loss.dtype, torch.float32))
    return loss if scaler is None else loss / scaler.scale(torch.ones_like(loss))


def forget_stale(optimizer: RuleOptimizer) -> None:
    """Drop losses of a step that was never taken, and whose gradients the model has dropped."""
    params = [param for group in optimizer.param_groups for param in group["params"]]
    if all(param.grad is None and not hasattr(param, "to_local") for param in params):
        optimizer._handed_over.clear()


def numbers(optimizer: Any) -> dict[str, float]:
    """Numbers of the last step, for a logger; none before the first step. Waits for the device."""
    inner = heavy_ball(optimizer)
    known = {} if inner is None or inner.info is None else inner.info.numbers()
    shown = {name: value for name, value in known.items() if not isinstance(value, str | None)}
    return {f"heavystep/{name}": float(value) for name, value in shown.items()}


def log_step(logger: Any, optimizer: Any, k: int) -> None:
    """Log step, loss and the other numbers of the last step.

    Args:
        logger: a ``SummaryWriter`` of TensorBoard, a run of Weights & Biases, an ``Accelerator``,
            or anything with their ``add_scalar`` or ``log``.
        optimizer: of this package, as it is or as a framework wrapped it.
        k: the number of the step.
    """
    found = numbers(optimizer)
    if hasattr(logger, "add_scalar"):
        for name, value in found.items():
            logger.add_scalar(name, value, k)
    elif found:
        logger.log(found, step=k)


def attach(module: nn.Module, optimizer: Any = None, *, scaler: Any = None) -> Any:
    """An optimizer whose ``step()`` alone is enough: it learns the loss from a module.

    For loops that are not yours. When ``backward()`` reaches the loss that the module returned,
    this loss is handed over, times the factor that ``backward()`` brings: so a loss that is divided
    among micro-batches counts as its gradient does. The loss is the module's output if that is one
    number, its ``.loss`` or ``["loss"]``, or the only number of a tuple. Copies of the module are
    not attached. What is added to the loss outside of the module is not seen.

    Args:
        module: the model if it returns the loss, else the criterion that does.
        optimizer: of this package, not a line search; by default :class:`HeavyStep` of the
            module's parameters.
        scaler: the GradScaler that multiplies the loss, if there is one.

    Returns:
        The optimizer.

    Raises:
        TypeError: the optimizer is not of this package, or searches.

    >>> model, criterion = nn.Linear(3, 2), nn.CrossEntropyLoss()
    >>> opt = attach(criterion, HeavyStep(model.parameters()))
    >>> criterion(model(torch.ones(4, 3)), torch.tensor([0, 1, 1, 1])).backward()
    >>> _ = opt.step()
    """
    if not isinstance(module, nn.Module):
        raise TypeError(f"attach needs a torch.nn.Module, got {type(module).__name__}")
    optimizer = HeavyStep(module.parameters()) if optimizer is None else optimizer
    inner = heavy_ball(optimizer)
    if inner is None:
        raise TypeError(f"attach is for optimizers of heavystep, got {type(optimizer).__name__}")
    if inner.method.rule.searches:
        raise TypeError(f"{type(inner).__name__} needs step(closure) and cannot be attached")
    if any(isinstance(hook, _HandOver) for hook in module._forward_hooks.values()):
        raise ValueError("the module is attached already: with two hooks losses would count twice")
    module.register_forward_hook(_HandOver(inner, scaler))
    return optimizer


class _HandOver:
    """The forward hook of :func:`attach`."""

    def __init__(self, optimizer: RuleOptimizer | None = None, scaler: Any = None) -> None:
        self._optimizer, self._scaler = optimizer, scaler

    def __reduce__(self) -> Any:  # a copy of the module, or one that was saved
        return _HandOver, ()

    def __call__(self, module: nn.Module, inputs: Any, output: Any) -> None:
        """Wait until ``backward()`` reaches the loss, if the output has one."""
        if self._optimizer is None:
            return
        optimizer = self._optimizer
        named = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
        output = named if isinstance(named, Tensor) else output
        found: list[Any] = [
            each
            for each in (output if isinstance(output, (tuple, list)) else [output])
            if isinstance(each, Tensor) and each.numel() == 1 and each.requires_grad
        ]
        if len(found) > 1:
            raise ValueError(
                f"{type(module).__name__} returned {len(found)} numbers that could be the loss: "
                "let it return one, or call hand_over(loss) of the optimizer"
            )
        for loss in found:
            known = loss.detach().clone()  # the script may divide it in place

            def reached(factor: Tensor, known: Tensor = known) -> None:
                forget_stale(optimizer)
                optimizer.hand_over((unscaled(known, self._scaler) * factor).sum())

            loss.register_hook(reached)
