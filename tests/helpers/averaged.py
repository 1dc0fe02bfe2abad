"""Runs whose iterates are averaged, and the average written out."""

import torch

import heavystep
from tests.helpers.training import Run, loss_of, make_batches


def literal(iterates, power):
    """avg += (p + 1) / (k + p + 1) (theta_k - avg), k = 0, 1, ..., in float64."""
    average = iterates[0].double()
    for k, theta in enumerate(iterates):
        average = average + (power + 1) / (k + power + 1) * (theta.double() - average)
    return average


class Averaged(Run):
    """A run, the average of its iterates, and these."""

    def __init__(
        self, make=heavystep.SHBPolyak, dtype=torch.float64, options=None, device="cpu", **net
    ):
        super().__init__(make, {"dtype": dtype, **net})
        self.net.to(device)
        self.dtype, self.iterates = dtype, []
        self.average = heavystep.Average(self.opt, **(options or {}))

    @property
    def lent(self):
        """The parameters that the model has while it has the average."""
        with self.average.in_place():
            return self.theta

    @property
    def count(self):
        return int(self.average.count)

    @property
    def state(self):
        return self.average.state_dict()

    def step(self, batch):
        """With a closure that suits torch's optimizers, too."""

        def closure():
            self.opt.zero_grad()
            loss = loss_of(self.net, batch)
            loss.backward()
            return loss

        self.opt.step(closure)
        self.iterates.append(self.theta)

    def train(self, batches):
        """So many, or these."""
        return super().train(
            make_batches(batches, dtype=self.dtype) if isinstance(batches, int) else batches
        )

    def check(self, power=8.0):
        """The average is that of the literal loop; 8 is the default."""
        expected = literal(self.iterates, power)
        torch.testing.assert_close(self.lent, expected, rtol=1e-12, atol=1e-14)
