"""From tasks and contenders to files: runs, pictures, tables and a page."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heavystep.bench.sensitivity.outcome import Outcome
from heavystep.bench.sensitivity.overview import TITLES, overview
from heavystep.bench.sensitivity.page import (
    ENDING,
    facts_in,
    facts_of,
    notes_in,
    task_page,
    write_page,
)
from heavystep.bench.sensitivity.picture import picture
from heavystep.bench.sensitivity.plan import OneRun, Plan
from heavystep.bench.sensitivity.table import grid_rows, table_of
from heavystep.bench.sensitivity.verdict import Verdict, verdicts_of
from heavystep.files import write_atomically
from heavystep.paper.plot import save, styled
from heavystep.paper.table import csv_text
from heavystep.sweeps.engines import Engine
from heavystep.sweeps.output_folder import claim_folder, runs_folder
from heavystep.sweeps.process_engine import isolated
from heavystep.sweeps.runner import FailedRunsError, Results, complete, kept
from heavystep.sweeps.store import Store

FOLDER = "sensitivity"
"""Within the output folder."""
DPI = 170


@dataclass(frozen=True)
class Made:
    """What was written, and what it says."""

    verdicts: list[Verdict]
    paths: list[Path]
    failed: bool
    """Whether runs failed, and their contenders are left out."""


def measure(
    plans: Sequence[Plan],
    out: Path,
    engine: Engine,
    progress: Any,
    endings: Sequence[str] = ("png", "pdf"),
) -> Made:
    """Make the runs that are missing, then draw and write what they say.

    Args:
        plans: one for each task.
        out: the output folder.
        engine: does the runs; threads become processes, because torch's random numbers are shared.
        progress: told how far they are.
        endings: of the pictures.

    Raises:
        ValueError: the folder holds other files, or notes that cannot be read.
    """
    claim_folder(out)
    notes_in(out / FOLDER)  # refused now, not when all runs are made
    reasons = {name: why for plan in plans for name, why in plan.left_out.items()}
    for name, why in reasons.items():
        progress.note(f"{name} is left out: {why}")
    done, results = _completed(plans, out, isolated(engine), progress)
    outcomes = [Outcome.of(plan, results) for plan in done if plan.entries]
    folder, paths = out / FOLDER, []
    for outcome in outcomes:
        paths += _written(outcome, folder, endings)
    with styled():
        for what in TITLES:
            facts = [task for task in facts_in(folder) if what in task]
            paths += save(overview(facts, what), folder / what, DPI, endings) if facts else []
    paths += write_page(folder)
    verdicts = [each for outcome in outcomes for each in verdicts_of(outcome)]
    return Made(verdicts, paths, done != list(plans))


def _completed(
    plans: Sequence[Plan], out: Path, engine: Engine, progress: Any
) -> tuple[list[Plan], Results]:
    """The results, and the plans as far as their runs did not fail."""
    runs = {key: run for plan in plans for key, run in plan.runs().items()}
    store = Store(runs_folder(out, FOLDER))
    spared = _spared(plans, runs, store, engine, progress)
    if spared:
        progress.note(f"{len(spared)} runs are not made: no step comes near their largest step")
    runs = {key: run for key, run in runs.items() if key not in spared}
    try:
        return list(plans), complete(runs, store, progress, engine=engine) | spared
    except FailedRunsError as error:
        left = [plan.without(error.failed) for plan in plans]
        for before, after in zip(plans, left, strict=True):
            for name in after.left_out.keys() - before.left_out.keys():
                progress.note(f"{before.task.name}: {name} is left out, because runs failed")
        return left, error.results | spared


def _spared(
    plans: Sequence[Plan], runs: dict[str, OneRun], store: Store, engine: Engine, progress: Any
) -> Results:
    """Runs that equal untouched ones, with their results; the untouched ones are made first."""
    deciding = {key: run for key, run in runs.items() if run.decides}
    results = kept(deciding, store, progress.note)
    missing = {key: run for key, run in deciding.items() if key not in results}
    if missing:
        with suppress(FailedRunsError):  # they are tried again with all others, which tells why
            results |= complete(missing, store, progress, engine=engine)
    entries = (entry for plan in plans for entry in plan.entries)
    return {key: found for entry in entries for key, found in entry.spared(results).items()}


def _written(outcome: Outcome, folder: Path, endings: Sequence[str]) -> list[Path]:
    name, table = outcome.plan.task.name, table_of(outcome)
    with styled():
        paths = save(picture(outcome), folder / name, DPI, endings)
    texts = {
        f"{name}.csv": table.csv,
        f"{name}.md": task_page(outcome, table),
        f"{name}_grid.csv": csv_text(grid_rows(outcome)),
        f"{name}{ENDING}": json.dumps(facts_of(outcome), indent=1),
    }
    for file, text in texts.items():
        paths.append(folder / file)
        write_atomically(paths[-1], lambda part: part.write_text(text))  # noqa: B023
    return paths
