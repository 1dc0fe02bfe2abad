"""One seed's run, and the runs of several seeds side by side."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from heavystep.arrays import Array
from heavystep.methods import BETA2, DIAGONAL_EPS
from heavystep.problems import FiniteSum, SparseLogistic, VarianceReduced
from heavystep.problems.variance_reduced import original
from heavystep.simulation.choice import kernel_rule
from heavystep.simulation.configuration import Configuration
from heavystep.simulation.forms import kernel_form
from heavystep.simulation.fours import WIDTH
from heavystep.simulation.kernel_cache import inner_kernel, kernel
from heavystep.simulation.lanes import aligned, lane_of, one_of, side_by_side
from heavystep.simulation.layout import terms_of
from heavystep.simulation.parts import Kinds, Scene, State, Steps
from heavystep.simulation.streams import stream_key
from heavystep.simulation.stretching import kernel_diagonal
from heavystep.simulation.terms import evaluate_all, implements, objective, workspace
from heavystep.simulation.theory_watch import THEORY_METRICS, TheoryWatch
from heavystep.simulation.trajectory import advance
from heavystep.simulation.watch import TRAINING_METRICS, MeanWatch, TrainingWatch
from heavystep.simulation.widths import Four, One

Problem = FiniteSum | SparseLogistic | VarianceReduced


def metric_names(problem: Problem) -> tuple[str, ...]:
    """What is recorded of a problem's runs."""
    return TRAINING_METRICS if isinstance(original(problem), SparseLogistic) else THEORY_METRICS


def full_loss(run: "Run", point: Array) -> float:
    """F at a point, by the kernel of the run's problem."""
    return float(_objective(run.terms, point))


@kernel
def _objective(terms: Any, point: Any) -> Any:
    return _objective_with(terms, point, workspace(terms, point.reshape(1, -1), 1))


@inner_kernel
def _objective_with(terms: Any, point: Any, work: Any) -> Any:
    return objective(terms, point, lane_of(work, 0))


class Run:
    """One seed's state and records."""

    def __init__(
        self, problem: Problem, configuration: Configuration, seed: int, grid: Array
    ) -> None:
        self.terms = terms_of(problem)
        self.configuration = configuration
        theta = aligned(problem.theta0)
        self.state = State(
            theta,
            aligned(np.zeros_like(theta)),
            _memory(configuration, {}),
            *_averages(configuration, theta),
        )
        self.scene = Scene(
            grid, np.array([stream_key(seed)]), problem.n, configuration.loss_eps,
            _diagonal(configuration), *_batches(configuration),
        )  # fmt: skip
        self.watch: TheoryWatch | TrainingWatch | MeanWatch
        if isinstance(measured := original(problem), SparseLogistic):
            self.watch = TrainingWatch.empty()
        else:
            self.watch = TheoryWatch.of(measured, float(problem.L), configuration)
        self.out = np.full((len(grid), len(metric_names(problem))), np.nan)
        self.steps = 0

    def advance(self, count: int, indices: Any) -> int:
        """Take ``count`` steps and return how many succeeded.

        Args:
            count: how many.
            indices: (count, batch) samples, or (0, batch) for those of the seed's stream.
        """
        (done,) = Fleet([self]).advance(count, indices[None])
        return done

    def change(self, configuration: Configuration) -> None:
        """Go on with another configuration from where the run is.

        What both rules remember under the same name is taken over, and so is the diagonal.
        """
        before = dict(zip(self.configuration.rule.memory, self.state.memory, strict=True))
        self.state = self.state._replace(memory=_memory(configuration, before))
        if configuration.diagonal is not self.configuration.diagonal:
            squares, weight = _averages(configuration, self.state.theta)
            self.state = self.state._replace(squares=squares, weight=weight)
        kept, overlap = _batches(configuration)
        self.scene = self.scene._replace(
            loss_eps=configuration.loss_eps, diagonal=_diagonal(configuration), kept=kept,
            overlap=overlap,
        )  # fmt: skip
        self.configuration = configuration


class Fleet:
    """Runs side by side: of one problem and configuration, each with a seed of its own.

    They take their steps together; what each of them holds is its part of what is here. If one of
    them stops, all of them have come to their end.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = runs
        first = runs[0]
        self.configuration = first.configuration
        self.terms = side_by_side([run.terms for run in runs])
        self.state = side_by_side([run.state for run in runs])
        self.watch = side_by_side([run.watch for run in runs])
        self.scene = first.scene._replace(keys=np.concatenate([run.scene.keys for run in runs]))
        self.out = np.stack([run.out for run in runs]) if len(runs) > 1 else first.out[None]
        for lane, run in enumerate(runs if len(runs) > 1 else ()):
            run.terms, run.state = one_of(self.terms, lane), one_of(self.state, lane)
            run.watch, run.out = one_of(self.watch, lane), self.out[lane]

    def advance(self, count: int, indices: Any) -> list[int]:
        """Take ``count`` steps of each run and return how many succeeded.

        Args:
            count: how many.
            indices: (runs, count, batch) samples, or (runs, 0, batch) for those of the streams.
        """
        configuration, first = self.configuration, self.runs[0].steps
        rows = configuration.rows(count)
        taken = advance(
            self.terms,
            Kinds(
                kernel_rule(configuration.rule),
                kernel_form(configuration.form),
                kernel_diagonal(configuration.diagonal),
                Four() if self._in_fours() else One(),
            ),
            self.watch.prepare(configuration, first, rows),
            configuration.parameters(first, rows),
            self.state,
            self.scene,
            Steps(first, count),
            indices,
            self.out,
        )
        done = [int(steps) for steps in taken]
        for run, steps in zip(self.runs, done, strict=True):
            run.steps += steps
        return done

    def _in_fours(self) -> bool:
        """Whether there are four, of a problem that can be asked for four at once."""
        return len(self.runs) >= WIDTH and implements(type(self.terms), evaluate_all)


def _memory(configuration: Configuration, known: dict[str, Any]) -> Array:
    """The rule's memory as an array: what is known of it, and first values for the rest."""
    first = configuration.rule.memory
    return np.array([known.get(name, value) for name, value in first.items()], dtype=np.float64)


def _averages(configuration: Configuration, theta: Array) -> tuple[Array, Array]:
    """The state of the diagonal; empty without one."""
    size = 0 if configuration.diagonal is None else len(theta)
    return np.zeros(size, theta.dtype), np.zeros(min(size, 1))


def _diagonal(configuration: Configuration) -> Array:
    """The numbers of the diagonal; none without one."""
    names = () if configuration.diagonal is None else (BETA2.name, DIAGONAL_EPS.name)
    return np.array([configuration[name] for name in names], dtype=np.float64)


def _batches(configuration: Configuration) -> tuple[int, bool]:
    """For how many steps a batch is kept, and whether it shares a half with the one before."""
    kept_for, overlap = configuration.rule.batches
    return (int(configuration[kept_for]) if kept_for else 1), overlap
