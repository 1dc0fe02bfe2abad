"""Stops training at a signal or after a time, while a checkpoint can still be written."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stopping:
    """Says whether to stop, and remembers the signal that asked for it."""

    def __init__(self, minutes: float | None = None) -> None:
        self._deadline = None if minutes is None else time.monotonic() + 60.0 * minutes
        self.signal: signal.Signals | None = None
        """The signal that came, if one did."""

    def __call__(self) -> bool:
        """Whether to stop now."""
        late = self._deadline is not None and time.monotonic() > self._deadline
        return late or self.signal is not None

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:  # the second time somebody does not want to wait
            raise KeyboardInterrupt
        self.signal = signal.Signals(number)


@contextmanager
def stopping(minutes: float | None = None) -> Iterator[Stopping]:
    """Within the block, SIGTERM and SIGINT do not end the process but ask it to stop.

    Args:
        minutes: after this time it is asked to stop, too; None: never.
    """
    wish = Stopping(minutes)
    if threading.current_thread() is not threading.main_thread():
        yield wish  # Python lets no other thread handle signals
        return
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, wish._note) for number in numbers]
    try:
        yield wish
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
