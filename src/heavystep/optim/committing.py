"""Ctrl-C waits until a step is whole.

An interrupt may arrive between any two operations. Before a step is decided nothing of the run has
changed; from there on the memory of the rule, parameters and buffers change one after another. An
interrupt that arrives in between is held back until all of them have: what it finds are parameters
and state from before the step, or from after it.

Held back is SIGINT as Python handles it, in the main thread. A signal that ends the process at once
ends it in the middle of a step, too; a checkpoint is written whole or not at all.
"""

import signal
import threading
from types import TracebackType
from typing import Any

import torch

INTERRUPT = signal.SIGINT
MAIN = threading.main_thread()


class held_back:
    """Let an interrupt wait until the end of the block."""

    def __enter__(self) -> None:
        self._before: Any = None
        # A compiler of the step need not know.
        if torch.compiler.is_compiling() or threading.get_ident() != MAIN.ident:
            return
        before: Any = signal.getsignal(INTERRUPT)
        if callable(before):
            self._waiting: list[Any] = []
            signal.signal(INTERRUPT, self._wait)
            self._before = before

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._before is None:
            return
        signal.signal(INTERRUPT, self._before)
        if self._waiting:
            self._before(*self._waiting[-1])

    def _wait(self, *about: Any) -> None:
        self._waiting.append(about)
