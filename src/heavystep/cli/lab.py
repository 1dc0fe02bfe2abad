"""``heavystep compare``, ``report``, ``bench`` and ``data``: the commands of the laboratory."""

import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from heavystep.cli.common import DEVICES, ENGINES, list_of, option, show, table_of, with_options
from heavystep.methods import METHODS

# Written down once more, because the TAB key must not import torch; a test compares them.
TASKS = (
    "mlp", "cnn", "frozen", "vae", "regression", "nll", "units", "targets-0.01", "targets-100",
    "inputs-100", "summed", "diabetes", "a9a", "cod-rna", "ijcnn1", "mushrooms", "phishing",
    "svmguide1", "w8a", "recommender", "diffusion", "toy-30", "toy-110", "digits-30", "digits-110",
    "charlm", "gpt", "source", "lstm", "lora", "cifar10", "vit", "least squares",
    "noisy least squares", "cosine", "noisy cosine",
)  # fmt: skip
RIVALS = ("SGD", "AdamW", "NadamW", "Adadelta", "momo-opt", "momo-opt-Adam", "Prodigy",
          "ScheduleFree")  # fmt: skip
DATA = ("a9a", "cod-rna", "ijcnn1", "mushrooms", "phishing", "real-sim", "svmguide1", "w8a",
        "cifar10", "cifar100", "tinyshakespeare")  # fmt: skip
TASKS_HELP = f"Names with commas between them, or paths of LIBSVM files: {', '.join(TASKS)}."
METHODS_HELP = (
    f"Names with commas between them: methods of 'heavystep methods', {', '.join(RIVALS)}; also "
    "with options (SHBArmijo:c=0.5, SGD:weight_decay=0.0005), or with a schedule (AdamW+cosine)."
)


def _listed(option: str, texts: list[str] | None) -> tuple[str, ...]:
    """The names of an option, with commas between them or given again; none if it was not given."""
    names = tuple(name.strip() for text in texts or () for name in text.split(",") if name.strip())
    if texts and not names:
        raise ValueError(f"{option} names none: leave it out for the usual ones")
    return names


OPTIONS = (
    ("tasks", list[str] | None, None, TASKS_HELP, TASKS),
    ("methods", list[str] | None, None, METHODS_HELP, (*METHODS, *RIVALS)),
    ("seeds", int | None, None, "Runs of each; default: 3 or 1, by task."),
    ("per_decade", int | None, None,
     "Values of the main constant in a decade; 0: none; default: 1."),
    ("steps", int | None, None, "Steps of a run; default: by task."),
    ("average", bool, False, "Measure our averaged iterates, too."),
    ("quick", bool, False, "Five tasks, a fifth of the steps, one seed, no grid."),
    ("stored", bool, False, "Run nothing: the tables and pictures of what is in runs.csv."),
    ("jobs", int | None, None, "How many at a time; default: all cores."),
    ("engine", str, "local", "Who does the runs: local, ray or dask.", ENGINES),
    ("address", str | None, None, "That of a started cluster; default: one is started."),
    ("device", str | None, None, "cpu or cuda; default: that of the task.", DEVICES),
    ("data", Path | None, None, "The data folder; default: $HEAVYSTEP_DATA."),
    ("out", Path, Path("results"), "Where files and runs are kept."),
)  # fmt: skip


def _compare(*, tasks: Any, methods: Any, data: Path | None, **chosen: Any) -> None:
    # Torch and matplotlib take seconds to import.
    from heavystep.lab.comparison.page import EXPLAINED, compare, short
    from heavystep.lab.data import VARIABLE
    from heavystep.lab.store import expanded
    from heavystep.lab.sweeps import ShownProgress

    if data is not None:  # processes that do the runs inherit it
        os.environ[VARIABLE] = str(expanded(data).absolute())
    names = _listed("--tasks", tasks), _listed("--methods", methods)
    command = " ".join(["heavystep", *sys.argv[1:]])
    progress = ShownProgress()
    with progress.bar:
        made = compare(*names, progress=progress, command=command, **chosen)
    rows = [
        (row.method, short(row.regret), short(row.worst), row.worst_on, f"{row.level}/{row.tasks}",
         short(row.behind), f"{row.metric_level}/{row.tasks}", short(row.tuned))
        for row in made.rows
    ]  # fmt: skip
    heading = ("method", "regret", "worst", "on", "level", "behind", "level", "tuned")
    done, counted = len(made.outcomes), max((row.tasks for row in made.rows), default=0)
    some = f"{counted} of {done} tasks: those that every method has done"
    show(table_of(f"{done} tasks" if counted == done else some, heading, rows), EXPLAINED)
    for path in made.paths:
        typer.echo(path)
    if made.failed:
        raise typer.Exit(1)


compare = with_options(
    _compare,
    [option(*row) for row in OPTIONS],
    "Compare methods on tasks.\n\n"
    "Losses, costs, and how much depends on their main constant. It writes tables, pictures and a "
    "page to OUT/compare. Runs that are in OUT/compare/runs.csv are not made again. Status 1: runs "
    "failed and are left out; 2: something is wrong.",
)


def report(
    results: Annotated[
        Path, typer.Argument(help="The folder that --out of a command named, or one within it.")
    ] = Path("results"),
    page: Annotated[
        Path | None, typer.Option(help="The file; default: RESULTS/report.html.")
    ] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Write one HTML page about a results folder.

    It has curves, claims, tables and commands, and needs no network. Curves can be zoomed and
    toggled, by method and by metric, on linear and logarithmic axes.
    """
    from heavystep.lab.report import write_report
    from heavystep.lab.store import expanded

    folder = expanded(results)
    target = expanded(page or folder / "report.html")
    write_report(folder, target)
    typer.echo(target)
    if open_it:
        typer.launch(str(target))


GROUP: Any = {"no_args_is_help": True, "rich_markup_mode": None}
bench = typer.Typer(help="Measure costs, as ratios within one run: machines differ.", **GROUP)
Quick = Annotated[bool, typer.Option(help="A few steps: does it run?")]


def _show_costs(costs: Iterable[tuple[str, Sequence[Any]]]) -> None:
    """Show the machine, and measurements: titles with named tuples that have a name first."""
    from heavystep.lab.cost.networks import machine

    show(machine())
    with warnings.catch_warnings(action="ignore"):  # of optimizers about losses that are made up
        for title, rows in costs:
            cells = [[f"{v:.3g}" if isinstance(v, float) else str(v) for v in row] for row in rows]
            show(table_of(title, [name.replace("_", " ") for name in rows[0]._fields], cells))


@bench.command()
def step(
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu", quick: Quick = False
) -> None:
    """Time the optimizers' own work in a step, against SGD."""
    from heavystep.lab.cost.networks import WORKLOADS, step_costs
    from heavystep.lab.training.trainer import the_device

    place, rounds = the_device(device).type, 2 if quick else 40
    _show_costs((workload, step_costs(workload, place, rounds)) for workload in WORKLOADS)
    show("kept, peak: memory besides parameters and gradients, in copies of the parameters")


@bench.command()
def simulation(quick: Quick = False) -> None:
    """Time an iteration of one seed, and how it grows."""
    from heavystep.lab.cost.simulation import growth_costs, simulation_costs

    turns, share = (1, 0.01) if quick else (25, 1.0)
    _show_costs([("an iteration of one seed", simulation_costs(turns, share)),
                 ("growth", growth_costs(turns, share))])  # fmt: skip


@bench.command()
def train(
    device: Annotated[
        str | None, typer.Option(help="cpu or cuda; default: the GPU if there is one.")
    ] = None,
    full: Annotated[bool, typer.Option(help="ResNet-18 and batches of 256 on a CPU, too.")] = False,
) -> None:
    """Time a training step of SGD and of our optimizers.

    They take turns in one loop, on images that are made up.
    """
    from heavystep.lab.cost.networks import FULL, SMALL, training_costs
    from heavystep.lab.training.trainer import the_device

    place = the_device(device)
    size = FULL if full or place.type == "cuda" else SMALL
    title = f"{size.network}, batches of {size.batch_size}, {size.steps} steps an epoch"
    _show_costs([(title, training_costs(size, place))])


@bench.command()
def ranks(
    count: Annotated[
        list[int] | None,
        typer.Option("--ranks", help="Processes; may be given again. [default: 1 and 2]"),
    ] = None,
    quick: Quick = False,
) -> None:
    """Time a step under DistributedDataParallel.

    SGD and ours; messages are counted. Each process has one thread; gloo on the CPU, NCCL where
    each process has a GPU of its own.
    """
    from heavystep.lab.cost.ranks import FULL, QUICK, ranks_cost

    size = QUICK if quick else FULL
    _show_costs((f"{number} processes", ranks_cost(number, size)) for number in count or [1, 2])


data = typer.Typer(help="List, fetch and verify the data sets.", **GROUP)
Names = typer.Argument(help="Names, or: all.", autocompletion=list_of(DATA))


@data.command("list")
def list_() -> None:
    """List every data set, its size and where it is."""
    from heavystep.lab.data import SETS, data_folder, present

    here = present(SETS)
    rows = [(name, f"{each.n:,}", f"{each.dim:,}", here.get(name, "not here"))
            for name, each in SETS.items()]  # fmt: skip
    show(table_of("data sets", ("name", "examples", "features", "where"), rows))
    show(f"data folder: {data_folder()}")


@data.command()
def fetch(names: Annotated[list[str], Names]) -> None:
    """Download data sets; what is here and whole is left alone."""
    from heavystep.lab import data as sets

    for name in sets.SETS if names == ["all"] else dict.fromkeys(names):
        if sets.present([name]):
            try:
                typer.echo(f"{name}: already here, {sets.verify(name)}")
                continue
            except ValueError as error:
                typer.echo(f"{error}; fetching it again", err=True)
        typer.echo(f"{name}: fetched, {sets.fetch(name)}")


@data.command()
def verify(names: Annotated[list[str] | None, Names] = None) -> None:
    """Compare files with what was published.

    Status 1: one is damaged; 2: one is missing.
    """
    from heavystep.lab import data as sets

    wanted = list(sets.SETS) if not names or names == ["all"] else list(dict.fromkeys(names))
    here, damaged = sets.present(wanted), False
    for name in wanted:
        try:
            found = f"ok, {sets.verify(name)}" if name in here else "missing"
        except ValueError as error:
            found, damaged = f"damaged, {error}", True
        typer.echo(f"{name}: {found}")
    if damaged:
        raise typer.Exit(1)
    if not here or (names and len(here) < len(wanted)):
        raise ValueError(sets.missing_text(wanted))
