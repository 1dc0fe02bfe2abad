"""Finds a batch size that fits into the memory of the device."""

import gc
from collections.abc import Callable

import torch


def fitting_batch(attempt: Callable[[int], object], batch_size: int) -> int | None:
    """The first of batch_size / 2, / 4, ... with which ``attempt`` does not run out of memory.

    Args:
        attempt: takes a few steps with the batch size that it is given.
        batch_size: the one that did not fit.

    Returns:
        The batch size, or None if not even one image fits.
    """
    while batch_size > 1:
        batch_size //= 2
        free()
        try:
            attempt(batch_size)
        except torch.OutOfMemoryError:
            continue
        finally:
            free()
        return batch_size
    return None


def free() -> None:
    """Give memory back to which nothing refers any more."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
