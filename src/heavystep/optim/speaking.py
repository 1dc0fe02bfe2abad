"""Warnings that point at the user's line, however deep they are found."""

import sys
import warnings
from pathlib import Path

import torch

_OURS = (str(Path(__file__).parents[1]), str(Path(torch.__file__).parent))
NOTHING_TO_TRAIN = (
    "no parameter has a gradient and nothing was updated: was backward() called, and is anything "
    "left to train?"
)


def warn_caller(text: str) -> None:
    """A RuntimeWarning at the nearest line outside this package and torch.

    Args:
        text: what happened and what to do.
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, RuntimeWarning, stacklevel=level)
