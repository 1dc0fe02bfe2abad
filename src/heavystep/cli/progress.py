"""The progress of runs that are simulated."""

from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from heavystep.cli.training_progress import training_progress


class _StepsPerSecond(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        if speed is None:
            return Text("")
        short = f"{speed / 1e6:.0f}M" if speed >= 1e6 else f"{speed / 1e3:.0f}k"
        return Text(f"{short} steps/s")


class RunProgress:
    """Shows runs done, steps a second and the time left; implements the runner's ``Progress``."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.percentage:>3.0f}%"),
            _StepsPerSecond(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[done]}/{task.fields[runs]} runs"),
            console=self._console,
        )
        self._task = self._bar.add_task("", total=None, done=0, runs=0)
        self._done = 0

    def __enter__(self) -> "RunProgress":
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    def start(self, runs: int, kept: int, steps: int) -> None:
        """Show how much there is to do."""
        self._done = kept
        self._bar.update(self._task, total=max(steps, 1), completed=0, done=kept, runs=runs)
        if kept:
            self.note(f"{kept} of {runs} runs are there already")
        if not steps:
            self._bar.update(self._task, completed=1)

    def note(self, text: str) -> None:
        """Print a line above the bar. It is not broken, so that what it names can be copied."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def begin(self, run: str) -> None:
        """Show the name of the run that begins."""
        self._bar.update(self._task, description=run)

    def advance(self, steps: int) -> None:
        """Count steps that were taken."""
        self._bar.advance(self._task, steps)

    def finish(self) -> None:
        """Count a run that is complete."""
        self._done += 1
        self._bar.update(self._task, done=self._done)


PROGRESS: dict[str, Callable[[], Any]] = {"steps": RunProgress, "epochs": training_progress}
"""What shows the progress, by what the length of a run is counted in."""


def progress_of(unit: str) -> Any:
    """The progress of runs whose length is counted in this unit."""
    return PROGRESS[unit]()
