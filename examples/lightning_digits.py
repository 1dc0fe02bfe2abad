"""Lightning: one callback hands the loss over, all else is as ever.

``python examples/lightning_digits.py`` (``--quick`` for a short run); extra ``lightning``.
"""

import argparse
from collections.abc import Sequence

import lightning.pytorch as pl
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from heavystep import HeavyStep
from heavystep.integrations.lightning import HandOverLoss


class Digits(pl.LightningModule):
    """A small network, whose optimizer needs no learning rate."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    def training_step(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        """The loss, which the callback hands over."""
        x, y = batch
        return cross_entropy(self.net(x), y)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """No learning rate, and no scheduler."""
        return HeavyStep(self.parameters())


def main(words: Sequence[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description="Digits with Lightning.")
    parser.add_argument("--quick", action="store_true", help="fewer epochs")
    epochs = 5 if parser.parse_args(words).quick else 30
    pl.seed_everything(0, verbose=False)
    digits = load_digits()
    x, y = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
    loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
    trainer = pl.Trainer(
        max_epochs=epochs,
        callbacks=[HandOverLoss(log=True)],
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )
    model = Digits()
    trainer.fit(model, loader)
    with torch.no_grad():
        loss = cross_entropy(model.net(x), y).item()
    print(
        f"training loss {loss:.4f}, last step {float(trainer.logged_metrics['heavystep/step']):.3f}"
    )
    return loss


if __name__ == "__main__":
    main()
