"""Runs whose iterates are averaged, and the average written out."""

import torch

from tests.helpers.training import loss_of


def literal(iterates, power):
    """avg += (p + 1) / (k + p + 1) (theta_k - avg), k = 0, 1, ..., in float64."""
    average = iterates[0].double()
    for k, theta in enumerate(iterates):
        average = average + (power + 1) / (k + power + 1) * (theta.double() - average)
    return average


def vector(params):
    """All parameters in a row, copied."""
    return torch.cat([p.detach().reshape(-1).clone() for p in params])


def train(net, opt, batches):
    """The parameters after each step; closures suit every optimizer."""
    iterates = []
    for batch in batches:

        def closure():
            opt.zero_grad()
            loss = loss_of(net, batch)
            loss.backward()
            return loss

        opt.step(closure)
        iterates.append(vector(net.parameters()))
    return iterates


def lent(average, net):
    """The parameters that a model has while it has the average."""
    with average.in_place():
        return vector(net.parameters())
