"""From problems and methods to files: runs, pictures, tables and a page."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heavystep.compare.outcome import Outcome
from heavystep.compare.page import section, write_page
from heavystep.compare.picture import picture
from heavystep.compare.plan import Plan
from heavystep.compare.table import grid_rows, table_of
from heavystep.files import write_atomically
from heavystep.paper.plot import save, styled
from heavystep.paper.table import Table, csv_text
from heavystep.sweeps.engines import Engine
from heavystep.sweeps.output_folder import claim_folder
from heavystep.sweeps.runner import FailedRunsError, Results, complete
from heavystep.sweeps.store import Store

DPI = 170
"""Three dozen lines with bands: at 300 dots an inch a picture would take more than a megabyte."""

RUNS = "runs"
"""The folder of the runs within the output folder."""


@dataclass(frozen=True)
class Comparison:
    """What was written, and what it says."""

    plans: list[Plan]
    """Without the methods some of whose runs failed."""
    tables: list[Table]
    paths: list[Path]


def check_names(plans: Sequence[Plan]) -> None:
    """Refuse two problems whose files would have the same name.

    Raises:
        ValueError: there are such.
    """
    slugs = [plan.problem.slug for plan in plans]
    for slug in slugs:
        if slugs.count(slug) > 1:
            raise ValueError(f"two problems would both write {slug}.png: compare them apart")


def compare(plans: Sequence[Plan], out: Path, engine: Engine, progress: Any) -> Comparison:
    """Make the runs that are missing, then draw a picture and write tables for each problem.

    Args:
        plans: one for each problem.
        out: the output folder.
        engine: does the runs.
        progress: told how far they are.

    Raises:
        ValueError: the folder holds other files, or no method is left on some problem.
    """
    check_names(plans)
    claim_folder(out)
    for plan in plans:
        for name, reason in plan.left_out.items():
            progress.note(f"{plan.problem.name}: {name} is left out: {reason}")
    done, results = _completed(plans, out, engine, progress)
    tables, paths = [], []
    for plan in done:
        outcome = Outcome.of(plan, results)
        tables.append(table_of(outcome))
        paths += _written(outcome, tables[-1], out)
    paths.append(write_page(out))
    return Comparison(done, tables, paths)


def _completed(
    plans: Sequence[Plan], out: Path, engine: Engine, progress: Any
) -> tuple[list[Plan], Results]:
    """The results, and the plans as far as their runs did not fail."""
    runs = {key: run for plan in plans for key, run in plan.runs().items()}
    try:
        return list(plans), complete(runs, Store(out / RUNS), progress, engine=engine)
    except FailedRunsError as error:
        left = [plan.without(error.failed) for plan in plans]
        for before, after in zip(plans, left, strict=True):
            for name in set(after.left_out) - set(before.left_out):
                progress.note(f"{before.problem.name}: {name} is left out, because runs failed")
        return left, error.results


def _written(outcome: Outcome, table: Table, out: Path) -> list[Path]:
    slug = outcome.plan.problem.slug
    with styled():
        paths = save(picture(outcome), out / slug, dpi=DPI)
    texts = {
        f"{slug}.csv": table.csv,
        f"{slug}_grid.csv": csv_text(grid_rows(outcome)),
        f"{slug}.md": section(outcome, table),
    }
    for name, text in texts.items():
        paths.append(out / name)
        write_atomically(paths[-1], lambda part: part.write_text(text))  # noqa: B023
    return paths
