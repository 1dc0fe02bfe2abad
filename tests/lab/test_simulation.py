"""Compiled trajectories equal the literal loop and the torch optimizers, run by run."""

import os
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

from heavystep.lab.simulation import run
from heavystep.lab.simulation.configuration import configure
from heavystep.lab.simulation.loop import THEORY_METRICS as METRICS
from heavystep.lab.simulation.run import OneRun, simulate
from heavystep.methods import METHODS as REGISTRY
from heavystep.methods import method_of
from heavystep.optimizers import create
from heavystep.problems import Cosine, LeastSquares, LogisticRegression, paper_cosine
from heavystep.schedules import PowerLaw
from heavystep.theory import nonconvex_step_limit
from tests import reference
from tests.helpers.runs import torch_run

METHODS = {"polyak": "SHBPolyak", "armijo": "SHBArmijo"}
OPTIONS = {"beta": "momentum", "gamma_max": "max_step", "omega": "decrease_factor", "eta": "lr"}
RNG = np.random.default_rng(8)
A = RNG.normal(size=(12, 5)) * [0.4, 1.0, 2.0, 0.7, 1.3]
XI = RNG.normal(size=(6, 5))
PROBLEMS = {
    "least squares": LeastSquares(A, RNG.normal(size=12), theta0=RNG.normal(size=5)),
    "cosine": Cosine(
        RNG.uniform(0.5, 1.5, size=12), np.zeros((12, 5)), theta0=np.arange(5.0) - 1.5
    ),
    "tilted cosine": Cosine(np.full(12, 0.7), np.concatenate([XI, -XI]), theta0=np.ones(5)),
}
LAWS = {"beta": PowerLaw(0.9, 1.1, 10.0), "gamma_max": PowerLaw(0.5, 0.3, 10.0),
        "eta": PowerLaw(0.5, 0.4, 10.0)}  # fmt: skip
SETTINGS = {
    "theory": {"beta": 0.6, "gamma_max": 0.7, "scaling": "theory"},
    "practical": {"beta": 0.9, "gamma_max": 0.3, "eta": 0.8, "scaling": "practical"},
    "smooth reset": {"beta": 0.7, "gamma_max": 2.0, "n_b": 5, "growth": 1.5,
                     "scaling": "practical"},
    "diminishing": {**LAWS, "scaling": "plain", "average": "weighted"},
}  # fmt: skip
RULES = {"polyak": {"c": 0.6}, "armijo": {"c": 0.4, "omega": 0.7}}
SMALLEST = {
    "polyak": lambda L, c: 1 / (2 * c * L),
    "armijo": lambda L, c, omega: 2 * omega * (1 - c) / L,
}
"""Lemma 5, without the cap."""


def configured(rule, *, scaling="theory", n_b=None, average="uniform", **symbols):
    """In the paper's symbols; there is no smooth reset unless ``n_b`` is given."""
    given = {OPTIONS.get(name, name): value for name, value in symbols.items() if value is not None}
    return configure(METHODS[rule], scaling=scaling, steps_per_epoch=n_b, average=average, **given)


def index_stream(seed, n, count, first=0):
    """As literal SplitMix64: entries ``first`` .. of the samples that a seed draws."""
    position = np.arange(first + 1, first + count + 1, dtype=np.uint64)
    key = np.random.SeedSequence(seed).generate_state(1, np.uint64)
    z = key + position * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return ((z >> np.uint64(11)).astype(np.float64) * 2.0**-53 * n).astype(np.int64)


POLYAK = configured("polyak", beta=0.5, c=0.5, gamma_max=1.0)
STEPS, FEW = 70, 25
"""Steps; few where a method may be chaotic, as L4 is here, and make much of a rounding."""


class Literal:
    """Minibatches of a finite sum for the literal loop; an index is one batch."""

    def __init__(self, problem, batches):
        self.problem, self.batches = problem, batches
        self.f_star = problem.f_star[batches].mean(axis=1)

    def losses(self, theta, k):
        return float(np.mean([self.problem.losses(theta, i) for i in self.batches[k]]))

    def gradients(self, theta, k):
        return np.mean([self.problem.gradients(theta, i) for i in self.batches[k]], axis=0)


def literal(problem, rule, setting, batches):
    options = {k: v for k, v in SETTINGS[setting].items() if k != "average"}
    return reference.trajectory(
        rule, Literal(problem, batches), problem.theta0, range(len(batches)),
        **RULES[rule], **options,
    )  # fmt: skip


@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", PROBLEMS)
def test_iterates_and_metrics_are_those_of_the_literal_loop(name, rule, setting, batch_size):
    problem, options, k = PROBLEMS[name], SETTINGS[setting], np.arange(1, STEPS + 1)
    indices = RNG.integers(0, 12, size=(STEPS, batch_size))
    iterates, steps = literal(problem, rule, setting, indices)
    one = OneRun(problem, configured(rule, **RULES[rule], **options), 0, k, batch_size)
    assert one.take_steps(STEPS, indices) == STEPS
    np.testing.assert_allclose(one.state.theta, iterates[-1], rtol=1e-12, atol=1e-13)
    metrics, close = one.out, {"rtol": 1e-9, "atol": 1e-14}
    if "average" in options:
        least = np.minimum(SMALLEST[rule](problem.L, **RULES[rule]), options["gamma_max"](k))
        weights = (options["eta"](k) * least)[:, None]
        average = np.cumsum(weights * iterates[1:], axis=0) / np.cumsum(weights, axis=0)
    else:
        average = np.cumsum(iterates[:-1], axis=0) / k[:, None]
    np.testing.assert_allclose(metrics["gap_average"], problem.gap(average), **close)
    np.testing.assert_allclose(metrics["gap_last"], problem.gap(iterates[1:]), **close)
    if not problem.convex:
        squares = (problem.full_gradient(iterates) ** 2).sum(axis=1)
        np.testing.assert_allclose(metrics["grad_last"], squares[1:], **close)
        np.testing.assert_allclose(metrics["best"], np.minimum.accumulate(squares)[:-1], **close)
        after = np.minimum.accumulate(squares[1:])
        np.testing.assert_allclose(metrics["best_after"], after, **close)
    assert (metrics["highest"] <= 1.0 + 1e-12).all()
    assert (metrics["trials"][-1] >= STEPS) == (rule == "armijo")
    if setting == "theory":
        constants = {"omega": None, **RULES[rule]}
        least = reference.gamma_min(rule, problem.L, 0.6, gamma_max=0.7, **constants)
        assert metrics["lowest"][-1] == pytest.approx(steps.min() / least, rel=1e-9)
        assert metrics["highest"][-1] == pytest.approx(steps.max() / 0.7, rel=1e-9)


def test_streams_threads_chunks_and_neighbours_change_nothing(monkeypatch):
    problem = PROBLEMS["tilted cosine"]
    method = configured("armijo", **RULES["armijo"], **SETTINGS["diminishing"])
    options = {"iterations": 500, "batch_size": 2}
    base = simulate(problem, method, seeds=[3, 4, 5], threads=1, **options)
    threads = simulate(problem, method, seeds=[3, 4, 5], threads=3, **options)
    alone = simulate(problem, method, seeds=[4], **options)
    drawn = np.stack([index_stream(s, 12, 1000).reshape(500, 2) for s in (3, 4, 5)])
    given = simulate(problem, method, seeds=[3, 4, 5], indices=drawn, **options)
    monkeypatch.setattr(run, "CHUNK", 37)
    chunks = simulate(problem, method, seeds=[3, 4, 5], **options)
    for name in METRICS:
        for other in (threads, given, chunks):
            np.testing.assert_array_equal(base.metrics[name], other.metrics[name])
        np.testing.assert_array_equal(base.metrics[name][1], alone.metrics[name][0])
    assert not np.array_equal(base.metrics["gap_last"][0], base.metrics["gap_last"][1])


def test_streams_are_uniform_and_apart():
    samples = index_stream(11, 7, 70_100)
    draws = samples[:70_000]
    assert (abs(np.bincount(draws) - 10_000) < 500).all()
    np.testing.assert_array_equal(draws[100:200], index_stream(11, 7, 100, first=100))
    later = (samples[shift : shift + 69_999] for shift in range(1, 100))
    for other in (index_stream(12, 7, 69_999), *later):
        assert abs(np.corrcoef(draws[:-1], other)[0, 1]) < 0.02


@pytest.mark.parametrize("rule", RULES)
def test_strong_growth_converges_to_the_smallest_normal_numbers(rule):
    problem, tiny = paper_cosine("strong_growth"), np.finfo(float).tiny
    constants = {**dict.fromkeys(RULES[rule], 0.5), "c": 0.75, "beta": 0.5}
    limit = nonconvex_step_limit(rule, L=problem.L, rho=problem.rho, **constants)
    method = configured(rule, gamma_max=0.8 * limit, **constants)
    one = OneRun(problem, method, 0, k := np.arange(100, 40_001, 100), 1)
    for _ in k:
        one.take_steps(100, np.empty((0, 1), dtype=np.int64))
        moves = abs(one.state.buffer)  # arithmetic on subnormal numbers is slow
        assert ((moves == 0.0) | (moves >= tiny)).all()
    assert (one.state.buffer == 0.0).all()
    assert one.out["gap_last"][-1] < 1e-300
    assert one.out["trials"][-1] < 2 * 40_000
    assert one.out["best"][-1] == 0.0  # squares below the normal numbers count as 0
    # The gap falls through every decade: no stall where 1 - cos would have.
    falling = one.out["gap_last"][(one.out["gap_last"] > 1e-290) & (k > 1000)]
    assert (np.diff(np.log10(falling)) < 0).all()


def test_the_minimum_after_the_start_leaves_the_start_out():
    """From the optimum, pushed away by tilted samples: theta_0 is best, but not among 1 .. k."""
    problem = Cosine(np.full(12, 0.7), np.concatenate([XI, -XI]), theta0=np.zeros(5))
    result = simulate(problem, POLYAK, seeds=[0], iterations=30)
    assert (result.metrics["best"] == 0.0).all()
    assert (result.metrics["best_after"] > 0.0).all()


def refused(method=POLYAK, problem=PROBLEMS["cosine"], **options):
    return lambda: simulate(problem, method, **{"seeds": [0], "iterations": 50, **options})


SEARCH = configure("SHBArmijo", c=0.75, decrease_factor=0.99, scaling="theory", max_trials=1)
WILD = LeastSquares(1e6 * A, RNG.normal(size=12), theta0=np.full(5, 1e150))
BAD = [
    (lambda: configure("Adam"), ValueError, "no method is named 'Adam'"),
    (lambda: configure("SHB"), TypeError, "SHB needs lr"),
    (lambda: configure("SPS", momentum=0.5), TypeError, "SPS has no option 'momentum'"),
    (lambda: configure("SHBPolyak", lower_bound=0.0), TypeError, "the problem knows the infimum"),
    (lambda: configure("SHBPolyak", c=PowerLaw(1.0, 0.5)), TypeError, "c cannot follow a schedule"),
    (lambda: configure("SHBPolyak", average="best"), ValueError, "average must be one of"),
    (lambda: configure("SHB", lr=1.0, average="weighted"), ValueError, "does not cover SHB"),
    (refused(problem=LogisticRegression(A, np.sign(A[:, 0]), l2=0.1)), TypeError, "no compiled kernels for"),
    (refused(SEARCH, PROBLEMS["least squares"]), ValueError, "no trial step accepted"),
    (refused(problem=WILD, seeds=[7]), ValueError, "seed 7 stopped at step 0: loss or gradient"),
    (refused(momentum=0.5), TypeError, r"options \(momentum\) go with the name of a method"),
    (refused(None), TypeError, "method must be the name of a method"),
    # Kernels get only what they can read.
    (refused(indices=np.zeros((1, 5, 1), dtype=int)), ValueError, r"whole numbers of shape \(1, 50, 1\), got int64 \(1, 5, 1\)"),
    (refused(indices=np.full((1, 50, 1), 12)), ValueError, "indices must be in 0 .. 11, got 12 .. 12"),
    (refused(indices=np.full((1, 50, 1), -3)), ValueError, "indices must be in 0 .. 11, got -3 .. -3"),
    (refused(indices=np.zeros((1, 50, 1))), ValueError, "indices must be whole numbers"),

    (refused(grid=np.array([50, 10])), ValueError, "grid must increase within 1 .. 50"),
    (refused(grid=np.array([0, 90])), ValueError, "grid must increase within 1 .. 50"),
    (refused(seeds=[]), ValueError, "seeds must name at least one run"),
    (refused(threads=0), ValueError, "threads must be >= 1, got 0"),
    (refused(batch_size=0), ValueError, "batch_size must be >= 1, got 0"),
    (refused(iterations=0), ValueError, "iterations must be >= 1, got 0"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "error", "message"), BAD)
def test_bad_input(make, error, message):
    with pytest.raises(error, match=message):
        make()


DRIVEN = [
    *(("tilted cosine", name, {}, FEW) for name in REGISTRY),
    *(("least squares", "HeavyStep", {"diagonal": d}, STEPS) for d in ("element", "tensor", None)),
]


@pytest.mark.slow  # a kernel each
@pytest.mark.parametrize(("problem", "name", "options", "steps"), DRIVEN)
def test_every_method_takes_the_steps_of_its_optimizer(problem, name, options, steps):
    """Two drivers of one rule; tests of the family hold one of them to literal loops."""
    needed = {option.name: 0.01 for option in method_of(name).options if option.default is ...}
    problem, options = PROBLEMS[problem], needed | options
    samples = RNG.integers(0, 12, size=(2, steps))
    indices, configuration = samples[:, :, None], configure(name, **options)
    found = simulate(problem, configuration, seeds=2, iterations=steps, indices=indices)
    make = partial(create, name, **options)
    ends = np.array([torch_run(make, problem, each)[0][-1] for each in samples])
    gaps = problem.gap(ends)
    np.testing.assert_allclose(found.metrics["gap_last"][:, -1], gaps, rtol=1e-9, atol=1e-13)
    assert abs(ends - problem.theta0).max() > 1e-3


def test_without_the_compiler_one_line_says_so(tmp_path):
    command = [sys.executable, "-m", "heavystep", "reproduce", "figure1", "--quick"]
    around = {"cwd": tmp_path, "env": {**os.environ, "NUMBA_DISABLE_JIT": "1"}}
    made = subprocess.run(command, capture_output=True, text=True, check=False, **around)
    assert made.returncode == 2
    assert "unset NUMBA_DISABLE_JIT" in made.stderr
    assert "Traceback" not in made.stderr
