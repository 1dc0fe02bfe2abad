"""Processes that train together must have the same options, or their models drift apart.

A line search would even wait forever for a trial that another process does not make. So every
message about a batch carries one more number, a digest of the options, and each process compares
the sum with its own. Exact: sums of these whole numbers are below 2^24, which float32 holds.
"""

import hashlib
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from heavystep.optim.groups import Group

EXACT = 1 << 24


class Agreement:
    """The options of this process, and whether those of all others are the same."""

    def __init__(self) -> None:
        self._options: dict[str, list[Any]] = {}
        self._at_once = True
        self._news = False
        self._coming: tuple[Tensor, Any, int] | None = None

    def on(self, groups: list[Group], names: Iterable[str], *, at_once: bool) -> None:
        """Note what all processes must have.

        Args:
            groups: all parameter groups.
            names: of the options.
            at_once: whether to compare before anything else is done, even if it means to wait for
                the device; otherwise a difference may be told some steps later.
        """
        self._options = {name: [_plain(g[name]) for g in groups] for name in sorted(names)}
        self._at_once, self._news = at_once, True

    def number(self, count: int) -> float:
        """What this process sends to so many."""
        digest = hashlib.sha256(repr(self._options).encode()).digest()
        return float(int.from_bytes(digest[:8], "big") % (EXACT // count - 1) + 1)

    def check(self, total: Tensor, count: int) -> None:
        """Compare the sum over all processes.

        Raises:
            ValueError: another one has sent another number.
        """
        if torch.compiler.is_compiling():
            return
        if total.is_cpu or self._at_once:
            self._compare(total.item(), count)
            return
        if self._coming is not None and self._coming[1].query():
            (arrived, _, options), self._coming = self._coming, None
            if options == hash(repr(self._options)):
                self._compare(arrived.item(), count)
        if self._news and self._coming is None and not torch.cuda.is_current_stream_capturing():
            self._send(total)

    def _send(self, total: Tensor) -> None:
        """Have the sum copied to the host, to be read at a later step."""
        copied = torch.empty(total.shape, dtype=total.dtype, pin_memory=True)
        copied.copy_(total, non_blocking=True)
        event: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(total.device))
        self._coming, self._news = (copied, event, hash(repr(self._options))), False

    def _compare(self, total: float, count: int) -> None:
        if total == count * self.number(count):
            return
        own = ", ".join(f"{name}={_told(values)}" for name, values in self._options.items())
        raise ValueError(
            "processes that train together must have the same options, and another one has others "
            f"than this one (rank {torch.distributed.get_rank()} of {count}), which has {own}"
        )


def _plain(value: Any) -> Any:
    """A value as every process writes it. One on a device cannot be read, and is left out."""
    if isinstance(value, Tensor):
        return None
    return float(value) if isinstance(value, (int, float)) else value


def _told(values: list[Any]) -> str:
    first = values[0]
    return repr(first) if all(value == first for value in values) else repr(values)
