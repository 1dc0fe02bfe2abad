"""Hugging Face Accelerate: ``backward`` hands the loss over, ``step`` is for closures."""

from typing import Any

from torch import Tensor

from heavystep.extras import needed_by
from heavystep.integrations.common import closure_fits, heavy_ball
from heavystep.optim.closure import Closure

with needed_by("heavystep.integrations.accelerate", "accelerate"):
    from accelerate import Accelerator
    from accelerate.utils import DistributedType as Kind


def backward(accelerator: Accelerator, optimizer: Any, loss: Tensor, **kwargs: Any) -> None:
    """``accelerator.backward(loss)``, with the loss handed over to the optimizer.

    Call ``optimizer.step()`` and ``optimizer.zero_grad()`` as usual, within ``accumulate`` and with
    any ``mixed_precision``. An optimizer that is not of this package takes its gradients alone.

    Args:
        accelerator: the one that prepared the optimizer.
        optimizer: as ``accelerator.prepare`` returned it, or as it was before.
        loss: of the micro-batch, neither scaled nor divided.
        kwargs: for ``accelerator.backward``.
    """
    hand_over(accelerator, optimizer, loss)
    accelerator.backward(loss, **kwargs)


def hand_over(accelerator: Accelerator, optimizer: Any, loss: Tensor) -> None:
    """Hand over a loss that ``accelerator.backward`` is called on elsewhere; see there."""
    inner = heavy_ball(optimizer)
    if inner is not None:
        _refuse_hidden_gradients(accelerator)
        # accelerator.backward divides it by the same number.
        inner.hand_over(loss.detach() / accelerator.gradient_accumulation_steps)


def step(accelerator: Accelerator, optimizer: Any, closure: Closure) -> Any:
    """``optimizer.step(closure)``, for line searches; leave ``backward()`` to the optimizer.

    Accelerate passes over closures while gradients accumulate and hands them to a GradScaler that
    takes none; both are refused here.

    Args:
        accelerator: the one that prepared the optimizer.
        optimizer: of this package, as ``accelerator.prepare`` returned it.
        closure: returns the loss of the batch.

    Returns:
        The loss that the rule saw, before the step.
    """
    inner = heavy_ball(optimizer)
    if inner is None:
        raise TypeError(f"step is for optimizers of heavystep, got {type(optimizer).__name__}")
    _refuse_hidden_gradients(accelerator)
    batches = "gradient_accumulation_steps", accelerator.gradient_accumulation_steps
    bf16 = "mixed_precision='bf16'", accelerator.mixed_precision == "bf16"
    closure_fits(inner, batches, accelerator.scaler, bf16)
    if not accelerator.sync_gradients:
        raise ValueError(
            f"{type(inner).__name__} with a closure is called in the middle of an accumulated "
            "gradient, where Accelerate skips steps: leave accumulate() first"
        )
    optimizer.step(closure)
    return None if inner.info is None else inner.info.loss


def _refuse_hidden_gradients(accelerator: Accelerator) -> None:
    kind = accelerator.distributed_type
    first_fsdp = kind == Kind.FSDP and not getattr(accelerator, "is_fsdp2", False)
    if first_fsdp or kind in (Kind.DEEPSPEED, Kind.MEGATRON_LM):
        raise ValueError(
            f"{kind.value} keeps shards that heavystep cannot see: use data parallelism, or FSDP "
            "with fsdp_version=2"
        )
