"""The progress of runs, simulated or trained: a bar on a terminal, and a few lines in a log."""

import time
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

EVERY = 10.0
"""The least number of seconds between two lines of a log."""


class RunProgress:
    """Shows runs done, the work done in a second and the time left.

    It implements :class:`heavystep.lab.sweeps.Progress`, and what trainers report besides.

    Args:
        unit: what work is counted in: ``"steps"`` or ``"epochs"``.
    """

    def __init__(self, unit: str) -> None:
        self._console, self._unit = Console(stderr=True), unit
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[done]}/{task.fields[runs]} runs{task.fields[speed]}"),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("", total=None, done=0, runs=0, speed="")
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
        self._run, self._last = run, ""
        self._bar.update(self._task, description=run)

    def advance(self, amount: float) -> None:
        """Count work that was done."""
        self._work += amount
        speed = ""
        if self._unit == "steps":
            second = self._work / max(time.monotonic() - self._began, 1e-3)
            speed = f", {second / 1e6:.1f}M steps/s"
            self._tell("")
        self._bar.update(self._task, advance=amount, speed=speed)

    def epoch(self, row: Any, images: int) -> None:
        """Show the numbers of an epoch that is complete."""
        speed = f"{images / row.seconds:,.0f} images/s" if row.seconds > 0.0 else ""
        self._last = (
            f"epoch {row.epoch}: loss {row.loss:.4g}, test {row.test_accuracy:.1%}, "
            f"step {row.step:.3g}, {row.trials:.1f} trials, {speed}"
        )
        self._bar.update(self._task, description=f"{self._run}: {self._last}")
        self._tell("")

    def finish(self) -> None:
        """Count a run that is complete."""
        self._done += 1
        self._bar.update(self._task, done=self._done)
        if self._unit == "epochs":
            self._told = 0.0  # the last epoch of each run is told
            self._tell("complete, ")

    def _tell(self, state: str) -> None:
        """Write a line to a log, unless another one has just been written."""
        now = time.monotonic()
        if self._console.is_terminal or now - self._told < EVERY:
            return
        self._told = now
        left = ""
        if self._work > 0.0:
            seconds = max(self._total - self._work, 0.0) * (now - self._began) / self._work
            left = f", {timedelta(seconds=int(seconds))} left"
        run = f"{self._run}: {state}{self._last}".removesuffix(": ")
        self.note(f"{run}; {self._done}/{self._runs} runs{left}")
