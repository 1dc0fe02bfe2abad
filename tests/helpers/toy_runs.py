"""Runs of a sweep that cost nothing, fail, kill their worker or wait, and a progress that listens."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from heavystep.lab.sweeps import Run


@dataclass(frozen=True)
class Toy(Run):
    number: int
    mark: Path | None = None
    """A file that says that the run was begun: ``kills`` only the first time."""
    kills: bool = False
    fails: bool = False
    seconds: float = 0.0

    @property
    def label(self):
        return f"toy {self.number}"

    def content(self):
        return {"number": self.number, "versions": {"toy": 1}}

    def compute(self, advance):
        time.sleep(self.seconds)
        if self.fails:
            raise ValueError(f"number {self.number} is refused")
        if self.kills and self.mark is not None and not self.mark.exists():
            self.mark.write_text("")
            os.kill(os.getpid(), signal.SIGKILL)
        advance(1.0)
        return {"k": np.arange(3), "value": self.number * np.array([1.0, np.pi, np.nan])}


class Threaded(Toy):
    threads = True


class Told:
    """Keeps what it was told."""

    def __init__(self):
        self.notes, self.begun, self.reports, self.amount, self.finished = [], [], [], 0, 0

    def start(self, runs, kept, amount):
        self.started = (runs, kept, amount)

    def note(self, text):
        self.notes.append(text)

    def begin(self, run):
        self.begun.append(run)

    def advance(self, amount):
        self.amount += amount

    def report(self, numbers):
        self.reports.append(numbers)

    def finish(self):
        self.finished += 1
