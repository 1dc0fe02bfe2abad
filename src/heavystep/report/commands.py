"""The command that makes the runs of a folder again."""

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from heavystep.methods import METHODS
from heavystep.methods.named import differing, written
from heavystep.report.reading import Part, Run

SECTION_5 = {
    "least squares, noise 0": "least squares",
    "least squares, noise 0.3": "noisy least squares",
    "cosine, strong growth": "cosine",
    "cosine, noise": "noisy cosine",
}
"""What commands call the problems of Section 5, by the words of a page."""
TOLD = ("steps_per_epoch", "max_trials")
"""Options that ``compare`` sets by itself."""
QUICK_NETWORK = "small"
"""The network of ``--quick``."""


def commands(part: Part) -> list[str]:
    """The commands, one for each size of runs; empty if there are no runs.

    Args:
        part: a folder within the results. What it is called, or holds, says what made it.
    """
    if not part.runs:
        return []
    sizes = dict.fromkeys(_size(run) for run in part.runs)
    made = [_command(part, [run for run in part.runs if _size(run) == size]) for size in sizes]
    return list(dict.fromkeys(made))


def _size(run: Run) -> tuple[Any, ...]:
    return len(run.seeds), run.about.length or len(run.k), run.about.batch_size


def _command(part: Part, runs: list[Run]) -> str:
    seeds, length, batch_size = _size(runs[0])
    where = part.folder.resolve()
    problems = list(dict.fromkeys(run.about.problem for run in runs))
    methods = list(dict.fromkeys(run.about.method for run in runs))
    if part.name in ("figure1", "figure2"):
        words = ["reproduce", part.name, "--seeds", seeds, "--iterations", length]
        return _line([*words, "--out", where.parent])
    if runs[0].about.unit == "epoch":
        networks = {_scale(run).get("network") for run in runs}
        quick = ["--quick"] if networks == {QUICK_NETWORK} else []
        words = ["reproduce", "figure3", *quick, "--seeds", seeds, "--epochs", length]
        return _line([*words, "--datasets", ",".join(problems), "--out", where.parent])
    if part.name == "sweep":
        call = f"iterations={length}, seeds={seeds}, batch_size={batch_size}"
        return (
            f"python: heavystep.sweep({problems!r}, {methods!r}, {call}, out={str(where.parent)!r})"
        )
    if "evaluations" in runs[0].about.content:
        words = ["bench", "sensitivity", "--tasks", ",".join(problems), "--seeds", seeds]
        return _line([*words, "--out", where.parent])
    given = [word for name in problems for word in ("--problem", SECTION_5.get(name, name))]
    named = ",".join(dict.fromkeys(map(_named, runs)))
    size = ["--seeds", seeds, "--iterations", length, "--batch-size", batch_size]
    return _line(["compare", *given, "--methods", named, *size, "--out", where])


def _named(run: Run) -> str:
    """A method as ``compare`` was told it: with the options that are no defaults."""
    method = METHODS.get(run.about.method)
    if method is None:
        return run.about.method
    given = differing(method, run.about.options)
    return method.name + written(
        tuple(each for each in given if each[0] not in (method.main, *TOLD))
    )


def _scale(run: Run) -> dict[str, Any]:
    scale = run.about.content.get("run", {}).get("scale", {})
    return scale if isinstance(scale, dict) else {}


def _line(words: Iterable[str | int | Path]) -> str:
    return shlex.join(["heavystep", *map(str, words)])
