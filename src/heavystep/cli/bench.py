"""``heavystep bench``: what things cost, as ratios measured in one run."""

import typer
from rich.table import Table

from heavystep.cli.errors import told
from heavystep.cli.output import show

bench = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Measure costs.")


@bench.callback()
def root() -> None:
    """Measure costs; ratios within one run, because machines differ."""


@bench.command()
@told
def engine() -> None:
    """Nanoseconds an iteration and seed: the engine, loops in numpy and torch, and how it grows."""
    from heavystep.experiments.bench_engine import engine_costs, scaling_costs

    for title, costs in (("cost", engine_costs()), ("linear?", scaling_costs())):
        table = Table(title, "ns", "ratio")
        for cost in costs:
            table.add_row(cost.what, f"{cost.nanoseconds:.0f}", f"{cost.ratio:.2f}")
        show(table)
