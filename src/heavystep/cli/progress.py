"""The progress of runs: a bar on a terminal, and a few lines in a log."""

import time
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from heavystep.lab.sweeps import Progress

EVERY = 10.0
"""The least number of seconds between two lines of a log."""


class RunProgress(Progress):
    """Shows the run that began last, how many are complete, and the time left."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[done]}/{task.fields[runs]} runs"),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("", total=None, done=0, runs=0)
        self._runs = self._done = 0
        self._work, self._total = 0.0, 1.0
        self._run = self._last = ""
        self._began = self._told = time.monotonic()

    def __enter__(self) -> "RunProgress":
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    def start(self, runs: int, kept: int, work: float) -> None:
        """Show how much there is to do."""
        self._runs, self._done, self._total = runs, kept, max(work, 1.0)
        self._began = self._told = time.monotonic()
        completed = 0.0 if work else self._total
        self._bar.update(self._task, total=self._total, completed=completed, done=kept, runs=runs)
        if kept:
            self.note(f"{kept} of {runs} runs are there already")

    def note(self, text: str) -> None:
        """Print a line above the bar. It is not broken, so that what it names can be copied."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def begin(self, run: str) -> None:
        """Show the name of the run that begins."""
        self._run = self._last = run
        self._bar.update(self._task, description=run)

    def advance(self, amount: float) -> None:
        """Count work that was done."""
        self._work += amount
        self._bar.update(self._task, advance=amount)
        self._tell()

    def report(self, numbers: str) -> None:
        """Show how far the run is."""
        self._last = f"{self._run}: {numbers}"
        self._bar.update(self._task, description=self._last)

    def finish(self) -> None:
        """Count a run that is complete."""
        self._done += 1
        self._bar.update(self._task, done=self._done)

    def _tell(self) -> None:
        """Write a line to a log, unless another one has just been written."""
        now = time.monotonic()
        if self._console.is_terminal or now - self._told < EVERY:
            return
        self._told = now
        seconds = max(self._total - self._work, 0.0) * (now - self._began) / max(self._work, 1e-9)
        left = timedelta(seconds=int(seconds))
        self.note(f"{self._last}; {self._done}/{self._runs} runs, {left} left")
