"""A tiny network on made-up images, trained by the package and by a literal loop."""

import json

import numpy as np
import torch
from torch import nn

from heavystep.lab.cost.training import made_up_images
from heavystep.lab.figures.figure3 import methods
from heavystep.lab.training.images import PADDING
from heavystep.lab.training.run import optimizer_of
from heavystep.lab.training.trainer import Trainer

CPU = torch.device("cpu")
METHODS = methods()
TRAIN, TEST = made_up_images(70), made_up_images(26, seed=1)
BATCH, STEPS = 16, 4


class Net(nn.Module):
    """Dropout and BatchNorm in a few hundred parameters."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3, stride=4)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 10)

    def forward(self, x):
        x = torch.relu(self.norm(self.convolution(x))).mean(dim=(2, 3))
        x = 8.0 * x  # so that a step of 1 is too long, and searches search
        return self.head(nn.functional.dropout(x, 0.2, self.training))


SUMMANDS = 3 * 3 * 3 + BATCH * 8 * 8 + 4 + 10
"""Additions in a row: of a convolution, of BatchNorm over batch and places, of the head."""


def trainer(name, device="cpu", seed=3, network=Net, train=TRAIN, compiled=False):
    torch.manual_seed(seed)
    return Trainer(
        network(),
        lambda net, steps: optimizer_of(METHODS[name], net, steps, torch.device(device)),
        train,
        TEST,
        batch_size=BATCH,
        seed=seed,
        device=torch.device(device),
        compiled=compiled,
    )


def literal_batch(images, plan, scale):
    """Pad, crop, mirror, normalise; pixel by pixel."""
    found = np.zeros((plan.shape[1], 3, 32, 32), np.float32)
    for place, (which, top, left, flip) in enumerate(plan.T):
        black = np.zeros((3, 32 + 2 * PADDING, 32 + 2 * PADDING))
        black[:, PADDING:-PADDING, PADDING:-PADDING] = images[which]
        crop = black[:, top : top + 32, left : left + 32]
        crop = crop[:, :, ::-1] if flip else crop
        for colour in range(3):
            found[place, colour] = (crop[colour] - scale.mean[colour]) / scale.deviation[colour]
    return found


RUN = json.dumps({"run": {"method": {"options": [["c", 1.0]]}}, "precision": "float32"})
