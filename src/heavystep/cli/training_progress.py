"""The progress of training: a bar on a terminal, and a few lines in a log."""

import time
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from heavystep.training.history import EpochRow

EVERY = 10.0
"""The least number of seconds between two lines of a log."""


def epoch_text(row: "EpochRow", images: int) -> str:
    """The numbers of an epoch in one line."""
    speed = f"{images / row.seconds:,.0f} images/s" if row.seconds > 0.0 else ""
    return (
        f"epoch {row.epoch}: loss {row.loss:.4g}, test {row.test_accuracy:.1%}, "
        f"step {row.step:.3g}, {row.trials:.1f} trials, {speed}"
    )


def duration(seconds: float) -> str:
    """A duration in hours, minutes and seconds.

    >>> duration(3725.4)
    '1:02:05'
    """
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


class _Account:
    """What bar and log have in common: they count runs and epochs, and know the run in flight."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._runs = self._done = self._epochs = 0
        self._trained = 0.0
        self._run = self._last = ""

    def start(self, runs: int, kept: int, epochs: int) -> None:
        """Remember how much there is to do."""
        self._runs, self._done, self._epochs = runs, kept, epochs
        if kept:
            self.note(f"{kept} of {runs} runs are there already")

    def note(self, text: str) -> None:
        """Print a line. It is not broken, so that what it names can be copied."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def begin(self, run: str) -> None:
        """Remember the name of the run that begins."""
        self._run, self._last = run, ""

    def advance(self, share: float) -> None:
        """Count a share of an epoch that was done."""
        self._trained += share

    def epoch(self, row: "EpochRow", images: int) -> None:
        """Remember the numbers of an epoch that is complete."""
        self._last = epoch_text(row, images)

    def finish(self) -> None:
        """Count a run that is complete."""
        self._done += 1


class TrainingBar(_Account):
    """A bar with a line below it, which stay in their place; implements ``TrainingProgress``."""

    def __init__(self) -> None:
        super().__init__()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[done]}/{task.fields[runs]} runs\n{task.fields[last]}"),
            console=self._console,
        )
        self._task = self._bar.add_task("", total=None, done=0, runs=0, last="")

    def __enter__(self) -> "TrainingBar":
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    def start(self, runs: int, kept: int, epochs: int) -> None:
        """Remember how much there is to do."""
        super().start(runs, kept, epochs)
        self._bar.update(self._task, total=max(epochs, 1), done=kept, runs=runs)
        if not epochs:
            self._bar.update(self._task, completed=1)

    def begin(self, run: str) -> None:
        """Remember the name of the run that begins."""
        super().begin(run)
        self._bar.update(self._task, description=run, last="")

    def advance(self, share: float) -> None:
        """Count a share of an epoch that was done."""
        self._bar.advance(self._task, share)

    def epoch(self, row: "EpochRow", images: int) -> None:
        """Show the numbers of the epoch below the bar."""
        super().epoch(row, images)
        self._bar.update(self._task, last=self._last)

    def finish(self) -> None:
        """Count a run that is complete."""
        super().finish()
        self._bar.update(self._task, done=self._done)


class TrainingLog(_Account):
    """A line now and then, and one at the end of each run; implements ``TrainingProgress``."""

    def __init__(self) -> None:
        super().__init__()
        self._began = self._told = time.monotonic()

    def __enter__(self) -> "TrainingLog":
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def start(self, runs: int, kept: int, epochs: int) -> None:
        """Remember how much there is to do."""
        super().start(runs, kept, epochs)
        self._began = self._told = time.monotonic()

    def epoch(self, row: "EpochRow", images: int) -> None:
        """Print the numbers of the epoch, unless another line has just been printed."""
        super().epoch(row, images)
        if time.monotonic() - self._told >= EVERY:
            self._tell("")

    def finish(self) -> None:
        """Print the last epoch of the run."""
        super().finish()
        self._tell("complete, ")

    def _tell(self, state: str) -> None:
        self._told = time.monotonic()
        left = ""
        if self._trained > 0.0:
            pace = (self._told - self._began) / self._trained
            left = f", {duration(max(self._epochs - self._trained, 0.0) * pace)} left"
        runs = f"{self._done}/{self._runs} runs"
        self.note(f"{self._run}: {state}{self._last}; {runs}{left}")


def training_progress() -> TrainingBar | TrainingLog:
    """A bar if stderr is a terminal, and a log otherwise."""
    return TrainingBar() if Console(stderr=True).is_terminal else TrainingLog()
