"""Hugging Face Trainer: one that hands the loss over, since Trainer passes no closure."""

from typing import Any

from torch import Tensor, nn

from heavystep.extras import needed_by
from heavystep.integrations.accelerate import hand_over
from heavystep.integrations.wrapped import heavy_ball, line_search
from heavystep.optim import RuleOptimizer

with needed_by("heavystep.integrations.transformers", "transformers"):
    from transformers import Trainer


class HandOverTrainer(Trainer):
    """A Trainer for optimizers that need the loss, such as SHBPolyak and SPS.

    Give it the optimizer as ``optimizers=(optimizer, scheduler)`` or as
    ``optimizer_cls_and_kwargs=(SHBPolyak, {...})``; all else is as in ``Trainer``. To combine it
    with another one, put it first: ``class Mine(HandOverTrainer, Seq2SeqTrainer)``. A
    ``training_step`` of your own must return what it called ``accelerator.backward`` on. Line
    searches are refused: Trainer has no closure for them.

    Args:
        args: those of ``Trainer``.
        kwargs: those of ``Trainer``.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._begins_anew = True
        chosen: Any = (self.optimizer_cls_and_kwargs or (None, None))[0]
        ours = isinstance(chosen, type) and issubclass(chosen, RuleOptimizer)
        if ours and chosen.method.rule.searches:
            raise _no_line_search(chosen)
        if line_search(self.optimizer) is not None:
            raise _no_line_search(type(self.optimizer))

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Train, as ``Trainer`` does.

        Args:
            args: those of ``Trainer.train``.
            kwargs: those of ``Trainer.train``.

        Returns:
            What ``Trainer.train`` returns.
        """
        self._begins_anew = True
        return super().train(*args, **kwargs)

    def training_step(
        self, model: nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Tensor:
        """Forward and backward of a micro-batch, whose loss is handed over.

        Args:
            model: the model.
            inputs: the micro-batch.
            args: as in ``Trainer``.
            kwargs: as in ``Trainer``.

        Returns:
            The loss.
        """
        inner = heavy_ball(self.optimizer)
        if inner is not None and self._begins_anew:
            # Trainer zeroes the gradients of the model alone; there may be losses of a step that
            # a GradScaler skipped, or of a run that was interrupted.
            inner.zero_grad()
        self._begins_anew = True  # if this micro-batch fails
        loss: Tensor = super().training_step(model, inputs, *args, **kwargs)
        hand_over(self.accelerator, self.optimizer, loss)
        self._begins_anew = self.accelerator.sync_gradients
        return loss


def _no_line_search(optimizer: type) -> TypeError:
    return TypeError(
        f"{optimizer.__name__} needs a closure, and Trainer has none: use SHBPolyak (or SPS), or a "
        "loop of your own with heavystep.integrations.accelerate.step"
    )
