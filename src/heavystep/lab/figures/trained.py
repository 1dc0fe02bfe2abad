"""Figures whose runs are trained, epoch by epoch."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from heavystep import validation
from heavystep.lab.data import CIFAR
from heavystep.lab.figures.figure import Chosen, Claim, Figure, Reproducible, UnfinishedError
from heavystep.lab.sweeps import Engine
from heavystep.lab.training.run import DEVICES, How, images_of, the_device, train_missing
from heavystep.lab.training.runs import (
    MethodSpec,
    Scale,
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

HOW = ("device", "minutes", "force")  # choices that do not decide the numbers of a run
WHERE = ("engine", "address")  # choices that say who does the training


@dataclass(frozen=True)
class TrainedFigure(Reproducible):
    """A figure whose runs are trained and can grow: one of 200 epochs begins with one of 30.

    When time runs out nothing is drawn: pictures made before stay, and ``no_train`` draws the
    epochs that are there.
    """

    methods: tuple[MethodSpec, ...] = ()  # those of the figure; runs of others do not count

    unit: ClassVar[str] = "epochs"
    least: ClassVar[dict[str, int]] = {"seeds": 1, "epochs": 1}

    def choices(self) -> tuple[str, ...]:
        return (*self.least, "seed", "datasets", "methods", *HOW, *WHERE, "no_train")

    def figures(self, *, quick: bool, chosen: Chosen, folder: Path) -> list[Figure]:
        """The figure. With ``no_train`` and no number of epochs, it reaches as far as the runs."""
        sizes = self.sizes(quick=quick, chosen=chosen)
        names = [name.strip() for name in chosen.get("datasets", ",".join(CIFAR)).split(",")]
        for name in names:
            validation.choice("datasets", name, CIFAR)
        sizes["data_sets"] = tuple(dict.fromkeys(names))
        if "seed" in chosen:
            if "seeds" in chosen:
                raise ValueError("--seed and --seeds exclude each other: which, or how many")
            for seed in chosen["seed"]:
                validation.integer("seed", seed, least=0)
            sizes["seeds"] = tuple(dict.fromkeys(chosen["seed"]))
        _check(chosen)
        store = TrainingStore(folder)
        if not chosen.get("no_train"):
            wanted = self._of_methods(self.make(**sizes), chosen)
            for run in wanted.runs().values():  # so that faults of their images are told now
                if chosen.get("force") or missing([run], store)[0]:
                    images_of(run.data_set)
            return [wanted]
        note = ""
        if "epochs" not in chosen:
            scale = sizes.get("scale", Scale())
            here = [each for each in self._extents(survey(store)) if each.scale == scale]
            limits = [each.limit() for each in here if each.data_set in sizes["data_sets"]]
            note = "; ".join(filter(None, limits))
            reached = {each.data_set: each.epochs for each in here}
            sizes["epochs"] = dict.fromkeys(sizes["data_sets"], sizes["epochs"]) | reached
        figure = replace(self._of_methods(self.make(**sizes), chosen), note=note)
        if not curves(figure.runs(), store):
            raise ValueError(_nothing(figure, store))
        return [figure]

    def complete(
        self, runs: dict[str, TrainingRuns], folder: Path, progress: Any, chosen: Chosen
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
        extents = self._extents(survey(store, note))
        for each in sorted(extents, key=lambda each: -each.epochs * each.scale.train_images):
            if each.data_set in done:
                continue
            figure = self.make(seeds=each.seeds, epochs=each.epochs, data_sets=(each.data_set,),
                               scale=each.scale)  # fmt: skip
            results = curves(figure.runs(), store, note)
            found = self.claims(figure.only(results), results)
            note(f"{name}: {figure.title}, {sizes_text(results)}")
            if limit := each.limit():
                note(f"{name}: {limit}")
            if not found:
                note(f"{name}: only {len(results)} of {len(figure.runs())} methods are there")
                continue
            done.add(each.data_set)
            claims += found
        return claims

    def _of_methods(self, figure: Figure, chosen: Chosen) -> Figure:
        """The figure with the methods that were chosen, so that its parts can be made anywhere."""
        known = [method.name for method in self.methods]
        names = chosen.get("methods") or known
        for name in names:
            validation.choice("methods", name, known)
        runs = figure.runs()
        return figure.only({key for key, run in runs.items() if run.method.name in names})

    def _extents(self, found: Iterable[tuple[TrainingSpec, int]]) -> Iterator["Extent"]:
        """The extent of the runs, for each data set and scale."""
        groups: dict[tuple[str, Scale], list[tuple[TrainingSpec, int]]] = {}
        for run, epochs in found:
            if run.method in self.methods:
                groups.setdefault((run.data_set, run.scale), []).append((run, epochs))
        for (data_set, scale), runs in groups.items():
            reach: dict[str, int] = {}
            for run, epochs in runs:  # a short seed does not shorten the others of its method
                reach[run.method.name] = max(reach.get(run.method.name, 0), epochs)
            seeds = 1 + max(run.seed for run, _ in runs)
            yield Extent(data_set, scale, seeds, reach)


def _engine(chosen: Chosen) -> Engine:
    local = chosen.get("engine", "local") == "local"
    gpus = 0.0 if local or (chosen.get("device") or the_device(None).type) == "cpu" else 1.0
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
    here = {(run.scale, run.data_set) for run in runs}
    found = [epochs for run, epochs in survey(store) if (run.scale, run.data_set) in here]
    if not found:
        return f"no runs to draw in {store.folder}: leave out --no-train to train them"
    return f"no run reaches epoch {runs[0].epochs}, the longest has {counted(max(found), 'epoch')}"


class Extent(NamedTuple):
    """The runs that are there on one data set at one scale."""

    data_set: str
    scale: Scale
    seeds: int  # one more than the largest seed that is there
    reach: dict[str, int]  # the last epoch of each method

    @property
    def epochs(self) -> int:
        """The last epoch that every method reaches; a method without any run does not count."""
        return min(self.reach.values())

    def limit(self) -> str:
        """Say which methods keep the others from being shown to their end; empty if none does."""
        longest = max(self.reach.values())
        shortest = [name for name, epochs in self.reach.items() if epochs == self.epochs < longest]
        if not shortest:
            return ""
        return (
            f"{self.data_set}: only the first {counted(self.epochs, 'epoch')} of up to {longest}, "
            f"because there are no more of {', '.join(shortest)}"
        )
