"""A second process for pictures: to draw takes seconds, and one core of a process."""

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager

from heavystep.sweeps.process_engine import end_with_parent


@contextmanager
def second_process(
    prepare: Callable[[str], None], name: str, *, wanted: bool
) -> Iterator[Executor | None]:
    """Within the block there is a process that waits for something to draw.

    What it has to import takes as long as a picture, and is done in the meantime.

    Args:
        prepare: imports what is needed, a function at the top of a module.
        name: its argument.
        wanted: whether there is enough to do; if not, or without a second core, there is none.
    """
    if not wanted or (os.cpu_count() or 1) == 1:
        yield None
        return
    # Not forked: a copy of a process that has used OpenMP may hang.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context, end_with_parent) as pool:
        pool.submit(prepare, name)
        yield pool
