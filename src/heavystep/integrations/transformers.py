"""Hugging Face Trainer: it passes no closure, so the loss is handed over; and it can log the step.

The plain ``Trainer`` works with ``heavystep.attach(model)`` where the model returns its loss.
"""

from typing import Any

from torch import Tensor, nn

from heavystep.extras import needed_by
from heavystep.integrations.accelerate import hand_over
from heavystep.integrations.common import forget_stale, heavy_ball, numbers

with needed_by("heavystep.integrations.transformers", "transformers"):
    from transformers import Trainer


class HandOverTrainer(Trainer):
    """A Trainer for optimizers that need the loss, also where ``compute_loss`` is the user's.

    Give it the optimizer as ``optimizers=(optimizer, scheduler)`` or as
    ``optimizer_cls_and_kwargs=(HeavyStep, {...})``; all else is as in ``Trainer``. To combine it
    with another one, put it first: ``class Mine(HandOverTrainer, Seq2SeqTrainer)``. A
    ``training_step`` of your own must return what it called ``accelerator.backward`` on. A line
    search is refused at its first step, since Trainer has no closure for it: use a loop of your own
    with ``heavystep.integrations.accelerate.step``.
    """

    def training_step(
        self, model: nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Tensor:
        """Forward and backward of a micro-batch, whose loss is handed over."""
        inner = heavy_ball(self.optimizer)
        if inner is not None:
            forget_stale(inner)
        loss: Tensor = super().training_step(model, inputs, *args, **kwargs)
        hand_over(self.accelerator, self.optimizer, loss)
        return loss


def log_steps(trainer: Trainer) -> None:
    """Let a Trainer of any class log the step wherever it logs the loss (TensorBoard, W&B, ...)."""
    log = trainer.log

    def with_numbers(logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        log(logs | (numbers(trainer.optimizer) if "loss" in logs else {}), *args, **kwargs)

    trainer.log = with_numbers  # type: ignore[method-assign]
