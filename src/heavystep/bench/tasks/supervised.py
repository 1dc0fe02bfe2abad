"""A network that learns from examples in memory."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from heavystep.bench.tasks.batches import Examples, Shuffled, Split
from heavystep.bench.tasks.contract import Measured, Work

Criterion = Callable[[Any, Tensor], Tensor]
"""The loss of outputs and targets."""
Score = Callable[[Any, Examples], float]
"""The metric of outputs on examples."""


class Supervised(Work):
    """Shuffled batches of examples.

    Args:
        network: what is trained.
        data: to learn from and to test on.
        criterion: the loss.
        score: the metric, from the outputs on the test examples.
        batch_size: examples in a step.
        seed: of the order.
        device: where it is trained.
        draws: how often an evaluation is repeated and averaged, if the network draws.
    """

    def __init__(
        self, network: nn.Module, data: Split, criterion: Criterion, score: Score, *,
        batch_size: int, seed: int, device: torch.device, draws: int = 1,
    ) -> None:  # fmt: skip
        super().__init__(network, device)
        self.train, self.test = (part.to(device) for part in data)
        self._criterion, self._score, self._draws = criterion, score, draws
        self._batch_size = batch_size
        self._order = Shuffled(len(self.train.targets), batch_size, seed)
        self._batch = Examples(*(part[:batch_size].clone() for part in self.train))

    def next(self) -> None:
        """Copy the next examples into the batch."""
        which = self._order.next().to(self.device)
        for place, source in zip(self._batch, self.train, strict=True):
            torch.index_select(source, 0, which, out=place)

    def loss(self) -> Tensor:
        """That of the batch."""
        return self._criterion(self.forward(self._batch.inputs), self._batch.targets)

    def evaluate(self) -> Measured:
        """The loss of all training examples, and the metric of the test examples."""
        losses, metrics = [], []
        for _ in range(self._draws):
            outputs = self.network(self.train.inputs)
            losses.append(float(self._criterion(outputs, self.train.targets)))
            metrics.append(self._score(self.network(self.test.inputs), self.test))
        return Measured(sum(losses) / self._draws, sum(metrics) / self._draws)

    def inputs(self) -> Iterable[Tensor]:
        """The training examples in order, in whole batches."""
        norms = nn.modules.batchnorm._BatchNorm
        if not any(isinstance(module, norms) for module in self.network.modules()):
            return ()
        parts = torch.split(self.train.inputs, self._batch_size)
        return [part for part in parts if len(part) == self._batch_size]


def accuracy(outputs: Tensor, examples: Examples) -> float:
    """The share of right classes in percent.

    >>> outputs = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    >>> accuracy(outputs, Examples(outputs, torch.tensor([1, 1])))
    50.0
    """
    return 100.0 * float((outputs.argmax(dim=1) == examples.targets).float().mean())
