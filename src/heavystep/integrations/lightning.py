"""Lightning: a callback that hands the loss over and refuses what cannot be right."""

from typing import Any

from torch import Tensor

from heavystep.extras import needed_by
from heavystep.integrations.common import closure_fits, heavy_ball, unscaled

with needed_by("heavystep.integrations.lightning", "lightning"):
    from lightning.pytorch import Callback, LightningModule, Trainer

# By name: ``pytorch_lightning`` has classes of its own.
HIDING = {"DeepSpeedStrategy", "FSDPStrategy"}


class HandOverLoss(Callback):
    """Gives each optimizer of this package the loss that belongs to its gradients.

    Lightning adds up the gradients of micro-batches, and calls ``step()`` without a closure where a
    GradScaler is at work (``precision="16-mixed"``); with this callback both come out right. A line
    search gets its closure from Lightning: here it is told about the rounding of ``"bf16-mixed"``,
    and refused together with gradient accumulation or a GradScaler. In manual optimization call
    ``hand_over(loss)`` of the optimizer yourself.

    Args:
        log: whether to log the fields of ``info``, as ``heavystep/step``, ``heavystep/loss`` and so
            on. What ``training_step`` logs is of the last trial if the optimizer is a line search.
    """

    def __init__(self, log: bool = False) -> None:
        self._log = log

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Refuse strategies that hide gradients, and a second callback."""
        if not _ours(trainer):
            return
        callbacks: list[Any] = trainer.callbacks  # type: ignore[attr-defined]
        if sum(isinstance(callback, HandOverLoss) for callback in callbacks) > 1:
            raise ValueError("one HandOverLoss is enough: with two, losses would count twice")
        if HIDING & {cls.__name__ for cls in type(trainer.strategy).__mro__}:
            raise ValueError(
                f"{type(trainer.strategy).__name__} keeps shards that heavystep cannot see: use "
                'strategy="ddp", or FSDP 2 (ModelParallelStrategy)'
            )

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Refuse a line search where it would see one micro-batch, or no closure."""
        # Batches pass for their statistics alone, as at the end of weight averaging. Lightning
        # calls step() all the same, with the gradients of the last batch before.
        passing = getattr(trainer.fit_loop, "_skip_backward", False)
        for inner in _ours(trainer):
            if passing:
                inner.zero_grad()
            elif inner.method.rule.searches:
                batches = "accumulate_grad_batches", trainer.accumulate_grad_batches
                bf16 = 'precision="bf16-mixed"', trainer.precision == "bf16-mixed"
                closure_fits(inner, batches, _scaler(trainer), bf16)

    def on_before_backward(
        self, trainer: Trainer, pl_module: LightningModule, loss: Tensor
    ) -> None:
        """Hand over what ``backward()`` is about to be called on."""
        if not pl_module.automatic_optimization:  # only the user knows whose loss it is
            return
        for inner in _ours(trainer):
            if not inner.method.rule.searches:
                inner.hand_over(unscaled(loss.detach(), _scaler(trainer)))

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Log what the last step did; numbers stay on their device."""
        ours = _ours(trainer) if self._log else []
        for index, inner in enumerate(ours):
            prefix = f"heavystep{index}/" if len(ours) > 1 else "heavystep/"
            for name, value in ({} if inner.info is None else vars(inner.info)).items():
                if value is not None:
                    number = value.float() if isinstance(value, Tensor) else float(value)
                    pl_module.log(prefix + name, number)


def _ours(trainer: Trainer) -> list[Any]:
    return [inner for inner in map(heavy_ball, trainer.optimizers) if inner is not None]


def _scaler(trainer: Trainer) -> Any:
    return getattr(trainer.precision_plugin, "scaler", None)
