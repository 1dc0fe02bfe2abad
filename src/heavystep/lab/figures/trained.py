"""Figures whose runs are trained, epoch by epoch."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch

from heavystep import validation
from heavystep.lab.data import CIFAR
from heavystep.lab.figures.figure import Chosen, Claim, Figure, Reproducible, UnfinishedError
from heavystep.lab.figures.figure3 import methods
from heavystep.lab.sweeps import Engine
from heavystep.lab.training.run import (
    DEVICES,
    How,
    images_of,
    the_device,
    train_missing,
)
from heavystep.lab.training.runs import (
    Scale,
    Stored,
    TrainedResults,
    TrainingRuns,
    TrainingSpec,
    TrainingStore,
    counted,
    curves,
    missing,
    sizes_text,
    survey,
)

HOW = ("device", "tensorboard", "minutes", "force", "no_compile")
"""Choices that do not decide the numbers of a run."""
WHERE = ("engine", "address")
"""Choices that say who does the training."""


def quietly(text: str) -> None:
    """Ignore a note, because it will be told again when the runs are drawn."""


@dataclass(frozen=True)
class TrainedFigure(Reproducible):
    """A figure whose runs are trained and can grow: one of 200 epochs begins with one of 30.

    When time runs out nothing is drawn: pictures made before stay, and ``no_train`` draws the
    epochs that are there.
    """

    unit: ClassVar[str] = "epochs"
    least: ClassVar[dict[str, int]] = {"seeds": 1, "epochs": 1}

    def choices(self) -> tuple[str, ...]:
        """Sizes, data sets, methods, whether to train, where and how."""
        return (*self.least, "seed", "datasets", "methods", *HOW, *WHERE, "no_train")

    def figures(self, *, quick: bool, chosen: Chosen, folder: Path) -> list[Figure]:
        """The figure. With ``no_train`` and no number of epochs, it reaches as far as the runs."""
        sizes = self.sizes(quick=quick, chosen=chosen)
        sizes["data_sets"] = _data_sets(chosen)
        if "seed" in chosen:
            sizes["seeds"] = _seeds(chosen)
        _check(chosen)
        store, limits = TrainingStore(folder), list[str]()
        if not chosen.get("no_train"):
            wanted = _of_methods(self.make(**sizes), chosen)
            _read_data(wanted.runs().values(), store, force=bool(chosen.get("force")))
            return [wanted]
        if "epochs" not in chosen:
            scale = sizes.get("scale", Scale())
            here = [each for each in extents(survey(store, quietly)) if each.scale == scale]
            limits = [each.limit() for each in here if each.data_set in sizes["data_sets"]]
            sizes["epochs"] = dict.fromkeys(sizes["data_sets"], sizes["epochs"]) | {
                each.data_set: each.epochs for each in here
            }
        figure = _of_methods(self.make(**sizes), chosen)
        figure = replace(figure, note="; ".join(filter(None, limits)))
        if not curves(figure.runs(), store, quietly):
            raise ValueError(_nothing(figure, store))
        return [figure]

    def complete(
        self,
        runs: dict[str, TrainingRuns],
        folder: Path,
        progress: Any,
        chosen: Chosen,
    ) -> TrainedResults:
        """The results of all runs; with ``no_train``, of those that are there."""
        store = TrainingStore(folder)
        if not chosen.get("no_train"):
            how = How(**{name: chosen[name] for name in HOW if name in chosen})
            engine = _engine(chosen) if chosen.get("engine", "local") != "local" else None
            if not train_missing(runs.values(), store, progress, how, engine):
                lacking, epochs = missing(runs.values(), store)
                raise UnfinishedError(
                    f"time is up: {counted(epochs, 'epoch')} of {counted(lacking, 'run')} "
                    "are missing; the same command goes on there, --no-train draws what is there"
                )
        return curves(runs, store, progress.note)

    def evaluated(self, name: str, folder: Path, note: Callable[[str], None]) -> list[Claim]:
        """The claims; each data set counts at the largest scale at which all methods are there."""
        store, claims, done = TrainingStore(folder), [], set()
        for extent in sorted(extents(survey(store, note)), key=lambda each: -each.images):
            if extent.data_set in done:
                continue
            figure: Figure = self.make(
                seeds=extent.seeds,
                epochs=extent.epochs,
                data_sets=(extent.data_set,),
                scale=extent.scale,
            )
            results = curves(figure.runs(), store, note)
            found = self.claims(figure.only(results), results)
            note(f"{name}: {figure.title}, {sizes_text(results)}")
            if limit := extent.limit():
                note(f"{name}: {limit}")
            if not found:
                note(f"{name}: only {len(results)} of {len(figure.runs())} methods are there")
                continue
            done.add(extent.data_set)
            claims += found
        return claims


def _data_sets(chosen: Chosen) -> tuple[str, ...]:
    names = [name.strip() for name in chosen.get("datasets", ",".join(CIFAR)).split(",")]
    for name in names:
        validation.choice("datasets", name, CIFAR)
    return tuple(dict.fromkeys(names))


def _seeds(chosen: Chosen) -> tuple[int, ...]:
    if "seeds" in chosen:
        raise ValueError("--seed and --seeds exclude each other: which, or how many")
    for seed in chosen["seed"]:
        validation.integer("seed", seed, least=0)
    return tuple(dict.fromkeys(chosen["seed"]))


def _of_methods(figure: Figure, chosen: Chosen) -> Figure:
    """The figure with the methods that were chosen, so that its parts can be made anywhere."""
    runs = figure.runs()
    names = chosen.get("methods") or [run.method.name for run in runs.values()]
    for name in names:
        validation.choice("methods", name, {run.method.name: None for run in runs.values()})
    return figure.only({key for key, run in runs.items() if run.method.name in names})


def _read_data(runs: Iterable[Any], store: TrainingStore, *, force: bool) -> None:
    """Read the images of the runs that will be trained, so that their faults are told now."""
    for run in runs:
        if force or missing([run], store)[0]:
            images_of(run.data_set)


def _engine(chosen: Chosen) -> Engine:
    device = chosen.get("device") or ("cuda" if torch.cuda.is_available() else "cpu")
    gpus = 1.0 if device == "cuda" else 0.0
    engine = Engine(chosen.get("engine", "local"), address=chosen.get("address"), gpus=gpus)
    engine.check()
    return engine


def _check(chosen: Chosen) -> None:
    _engine(chosen)
    if chosen.get("engine", "local") == "local":
        the_device(chosen.get("device"))
    elif "minutes" in chosen:
        raise ValueError("--minutes is not for a cluster: such a sweep can be stopped at any time")
    elif "device" in chosen:  # which this machine need not have
        validation.choice("device", chosen["device"], DEVICES)
    if "minutes" in chosen:
        validation.real("minutes", chosen["minutes"], validation.POSITIVE)
    if chosen.get("force") and "minutes" in chosen:
        raise ValueError("--force and --minutes exclude each other: a forced run begins anew")
    idle = [n for n in (*HOW, *WHERE) if n in chosen] if chosen.get("no_train") else []
    if idle:
        raise ValueError(f"--no-train leaves nothing to do for --{idle[0].replace('_', '-')}")


def _nothing(figure: Figure, store: TrainingStore) -> str:
    """Say why there is nothing to draw."""
    runs = list(figure.runs().values())
    found = [
        stored.epochs
        for run, stored in survey(store, quietly)
        if run.scale == runs[0].scale and run.data_set in {each.data_set for each in runs}
    ]
    if not found:
        return f"no runs to draw in {store.folder}: leave out --no-train to train them"
    return f"no run reaches epoch {runs[0].epochs}, the longest has {counted(max(found), 'epoch')}"


class Extent(NamedTuple):
    """The runs that are there on one data set at one scale."""

    data_set: str
    scale: Scale
    seeds: int
    """One more than the largest seed that is there."""
    epochs: int
    """The last epoch that every method reaches; a method without any run does not count."""
    methods: frozenset[str]
    shortest: tuple[str, ...]
    """The methods that go no further than that; empty if all go equally far."""
    longest: int
    """The last epoch that some method reaches."""

    def limit(self) -> str:
        """Say which methods keep the others from being shown to their end; empty if none does."""
        if not self.shortest:
            return ""
        names = ", ".join(self.shortest)
        return (
            f"{self.data_set}: only the first {counted(self.epochs, 'epoch')} of up to "
            f"{self.longest}, because there are no more of {names}"
        )

    @property
    def images(self) -> int:
        """How many images one run has seen, by which extents are compared."""
        return self.epochs * self.scale.train_images


def extents(found: Iterable[tuple[TrainingSpec, Stored]]) -> Iterator[Extent]:
    """The extent of the runs, for each data set and scale.

    A seed that is shorter than others of its method does not shorten the others. Runs of methods
    that are not the figure's do not count.

    Args:
        found: runs with their epochs.
    """
    groups: dict[tuple[str, Scale], list[tuple[TrainingSpec, Stored]]] = {}
    known = methods().values()
    for run, stored in found:
        if run.method not in known or not stored.epochs:
            continue
        groups.setdefault((run.data_set, run.scale), []).append((run, stored))
    for (data_set, scale), runs in groups.items():
        reach: dict[str, int] = {}
        for run, stored in runs:
            reach[run.method.name] = max(reach.get(run.method.name, 0), stored.epochs)
        seeds = 1 + max(run.seed for run, _ in runs)
        least, most = min(reach.values()), max(reach.values())
        shortest = tuple(name for name, epochs in reach.items() if epochs == least < most)
        yield Extent(data_set, scale, seeds, least, frozenset(reach), shortest, most)
