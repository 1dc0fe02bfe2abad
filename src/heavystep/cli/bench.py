"""``heavystep bench``: what things cost, as ratios that are measured in one run."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from heavystep.cli.completing import devices
from heavystep.cli.errors import told
from heavystep.cli.groups import group_of_commands
from heavystep.cli.output import show
from heavystep.cli.saving import saved
from heavystep.cli.sensitivity import sensitivity
from heavystep.data.catalogue import CATALOGUE
from heavystep.data.locate import missing_text

if TYPE_CHECKING:
    from heavystep.bench.distributed import RanksCost
    from heavystep.bench.linear_loss import Comparison

bench = group_of_commands(
    "Measure what things cost, as ratios within one run, because machines differ."
)
bench.command()(sensitivity)


@bench.command()
@bench.command("engine", hidden=True)  # what it was called before
@told
@saved("heavystep bench simulation")
def simulation() -> None:
    """Time an iteration of one seed, in nanoseconds: our kernels, loops in numba, numpy and torch.

    Then how time and memory grow with parameters, terms, batch and seeds.
    """
    from heavystep.bench.growth import growth_costs
    from heavystep.bench.simulation import scaling_costs, simulation_costs
    from heavystep.bench.timing import load_average

    show(f"load average {load_average():.1f}: close calls need one near 0")
    for title, costs in (("cost", simulation_costs()), ("linear?", scaling_costs())):
        table = Table(title, "ns", "ratio")
        for cost in costs:
            table.add_row(cost.what, f"{cost.nanoseconds:.0f}", f"{cost.ratio:.2f}")
        show(table)
    table = Table("d", "n", "batch", "seeds", "ns", "ns a number", "bytes a seed", "bytes of data")
    for row in growth_costs():
        size = (str(number) for number in row[:4])
        held = (f"{row.seed_bytes:,}", f"{row.data_bytes:,}")
        table.add_row(*size, f"{row.nanoseconds:.0f}", f"{row.each:.2f}", *held)
    show(table)


@bench.command()
@told
@saved("heavystep bench linear")
def linear(
    quick: Annotated[
        bool, typer.Option("--quick", help="Only a9a and the twin, with fewer repetitions.")
    ] = False,
) -> None:
    """Time logistic regression: an iteration, the way to a training loss, and default fits.

    It uses the data sets that are here ('heavystep data list') and three that are made.
    """
    from heavystep.bench.linear import MICROSECONDS
    from heavystep.bench.linear_data import sets_at_hand
    from heavystep.bench.linear_solvers import OURS, SOLVERS, warm_up
    from heavystep.bench.timing import load_average

    # Those that wait for memory suffer most from what else fills the caches.
    show(f"load average {load_average():.1f}: close calls need one near 0")
    if missing := missing_text(CATALOGUE):
        show(missing)
    # Before anything else, so that this is what a first fit costs.
    first = warm_up(SOLVERS)[OURS]
    show(f"{OURS}: {first:.2f} s to compile or load its kernels, not counted below")
    names = [name for name in sets_at_hand() if name in MICROSECONDS or not quick]
    for name in names:
        if name in MICROSECONDS:
            _show_iterations(name, quick)
    _show_times(names, quick)
    _show_defaults(names, quick)


@bench.command()
@told
@saved("heavystep bench train")
def train(
    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            help="The device, cpu or cuda; default: the GPU if there is one.",
            autocompletion=devices,
        ),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="ResNet-18 and batches of 256 on a CPU too.")
    ] = False,
) -> None:
    """Time a training step of SGD(fused), of the paper's methods and of our defaults in one loop.

    On a GPU it trains ResNet-18 in bfloat16 with batches of 256, on a CPU a small network. The
    images are made up.
    """
    from heavystep.bench.train import FULL, SMALL, size_of, training_costs
    from heavystep.training.resnet import NETWORKS
    from heavystep.training.setup import device_name, the_device, versions

    place = the_device(device)
    size = FULL if full or place.type == "cuda" else SMALL
    copy = size_of(NETWORKS[size.network](10))
    show(f"{device_name(place)}, {versions()}: {size.network}, batches of {size.batch_size}")
    costs = training_costs(size, place)
    table = Table(
        f"{size.steps} steps an epoch", "ms a step", "ratio", "plain loop", "s an epoch",
        "with evaluation", "peak MiB", "extra copies", "waits a step", "trials a step",
    )  # fmt: skip
    for cost in costs:
        first = costs[0]
        extra = (cost.memory - first.memory) / copy
        table.add_row(
            cost.what,
            f"{cost.step * 1e3:.3f}",
            f"{cost.step / first.step:.3f}",
            f"{cost.eager / first.step:.3f}",
            f"{cost.step * size.steps:.3f}",
            f"{cost.epoch:.3f}",
            f"{cost.memory / 2**20:.0f}" if cost.memory else "-",
            f"{extra:.3f}" if cost.memory else "-",
            f"{cost.waits:.2f}" if place.type == "cuda" else "-",
            f"{cost.trials:.2f}",
        )
    show(table)
    show(
        "ratio and plain loop (no CUDA graphs): to the first line; extra copies: peak memory above "
        "the first line's, in copies of parameters and buffers"
    )


@bench.command()
@told
def distributed(
    ranks: Annotated[
        list[int] | None,
        typer.Option(
            "--ranks", help="A number of processes; may be given again. [default: 1 and 2]"
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A few steps: does it run?")] = False,
    out: Annotated[
        Path | None, typer.Option("--save", help="Write the figures to this JSON file too.")
    ] = None,
) -> None:
    """Time a step of SGD and ours under DistributedDataParallel, and count messages.

    Each process has one thread; gloo on the CPU, NCCL where each process has a GPU of its own.
    """
    from heavystep.bench.distributed import FULL, QUICK
    from heavystep.bench.distributed_ranks import ranks_cost, save
    from heavystep.bench.timing import load_average
    from heavystep.training.setup import versions
    from heavystep.validation import integer

    counts = ranks or [1, 2]
    for count in counts:  # before the first minute is spent
        integer("ranks", count, least=1)
    if out is not None and not out.parent.is_dir():
        raise ValueError(f"cannot write {out}: there is no folder {out.parent}")
    size = QUICK if quick else FULL
    load = load_average()
    show(f"{versions()}, {os.cpu_count()} cores, load average {load:.1f}")
    show(f"batches of {size.batch} a rank; {size.turns * size.batches} steps in turns, medians")
    found = []
    for count in counts:
        found.append(ranks_cost(count, size))
        _show_ranks(found[-1])
    show(
        "ratio: to the first line; messages and bytes: a step and rank, counted as they were sent; "
        "own: asked for by the optimizer, gradients: buckets of DistributedDataParallel"
    )
    if out is not None:
        save(out, found, load)


def _show_ranks(cost: "RanksCost") -> None:
    table = Table(
        f"ranks: {cost.ranks}", "ms a step", "ratio", "own messages", "own bytes",
        "gradient messages", "gradient bytes", "trials a step",
    )  # fmt: skip
    for step in cost.steps:
        table.add_row(
            step.what,
            f"{step.seconds * 1e3:.3f}",
            f"{step.seconds / cost.steps[0].seconds:.3f}",
            f"{step.messages:.2f}",
            f"{step.bytes:.1f}",
            f"{step.gradient_messages:.2f}",
            f"{step.gradient_bytes:,.0f}",
            f"{step.trials:.2f}",
        )
    message = f"all-reduce of two numbers {cost.latency * 1e6:.0f} us"
    forward = f"forward without gradients {cost.forward * 1e3:.3f} ms"
    show(f"{cost.where}: {message}, {forward}", table)


def _show_iterations(name: str, quick: bool) -> None:
    from heavystep.bench.linear import POLYAK, iteration_costs, targets
    from heavystep.bench.linear_data import plain_problem
    from heavystep.paper.figure2.definition import BATCH

    problem = plain_problem(name)
    costs = iteration_costs(problem, steps=300 if quick else 500, repeats=2 if quick else 5)
    table = Table(f"an iteration, batch {BATCH}, one core: {name}", "us", f"ratio to {POLYAK}")
    for what, microseconds in costs.items():
        table.add_row(what, f"{microseconds:.1f}", f"{microseconds / costs[POLYAK]:.2f}")
    aims = Table(f"targets: {name}", "target", "measured", "met")
    for target in targets(name, costs):
        sign = ">=" if target.least else "<="
        met = "yes" if target.met else "no"
        aims.add_row(target.what, f"{sign} {target.aim:g}", f"{target.measured:.2f}", met)
    show(f"{name}: {problem.n:,} x {problem.dim:,}", table, aims)


def _show_times(names: list[str], quick: bool) -> None:
    from heavystep.bench.linear_data import task_on
    from heavystep.bench.linear_loss import TOLERANCES, compare, wins
    from heavystep.bench.linear_solvers import OURS, SOLVERS

    found = []
    for name in names:
        found.append(compare(task_on(name), SOLVERS, repeats=2 if quick else 3))
        show(*_times(name, found[-1]))
    for tolerance in TOLERANCES:
        count = wins(found, OURS, tolerance)
        show(f"{OURS} is the fastest solver to {tolerance:.1%} on {count} sets")


def _show_defaults(names: list[str], quick: bool) -> None:
    from heavystep.bench.linear_default import compare_defaults, default_sets

    table = Table(
        "default fit, features as they are", "ours, ms", "gap", "lbfgs, ms", "gap", "ratio",
        "at the same gap: ours, ms", "lbfgs, ms", "gap", "ratio",
    )  # fmt: skip
    for name, (load, c) in default_sets().items():
        if name not in names and quick:
            continue
        found = compare_defaults(*load(), c, repeats=2 if quick else 5)
        cells = []
        for stops in (found.default, found.even):
            ours, theirs = stops["ours"], stops["lbfgs"]
            gaps = [f"{stop.gap:.0e}" for stop in (ours, theirs)]
            times = [f"{stop.seconds * 1e3:.1f}" for stop in (ours, theirs)]
            if stops is found.default:
                cells += [times[0], gaps[0], times[1], gaps[1]]
            else:
                cells += [*times, f"{max(ours.gap, theirs.gap):.0e}"]
            cells.append(f"{ours.seconds / theirs.seconds:.2f}")
        table.add_row(name, *cells)
    show(table)
    show("gap: objective over its least value, less 1; C = 1 unless named; with an intercept")


def _times(name: str, comparison: "Comparison") -> tuple[str, Table]:
    """The heading and the table of one data set."""
    from heavystep.bench.linear_loss import TOLERANCES

    table = Table(f"fit until the loss is near the best: {name}")
    for tolerance in TOLERANCES:
        for column in (f"to {tolerance:.1%}", "ratio", "epochs"):
            table.add_column(column, justify="right")
    for solver, outcome in comparison.outcomes.items():
        cells = []
        for tolerance in TOLERANCES:
            if fit := outcome.reached.get(tolerance):
                ratio = comparison.ratio(solver, tolerance)
                cells += [f"{fit.seconds * 1e3:.1f} ms", f"{ratio:.2f}", str(fit.budget)]
            else:
                cells += [f"not within {outcome.gave_up:.2g} s", "", ""]
        table.add_row(solver, *cells)
    heading = f"{name}: {comparison.n:,} rows, best known loss {comparison.best:.9f}"
    notes = "ratios to the fastest solver of scikit-learn; epochs, or iterations on all rows"
    return f"{heading}; {notes}", table
