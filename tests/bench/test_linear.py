"""``bench linear``: loops that are the simulation's, a harness that reports what happened, the twin."""

from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from heavystep.bench import linear as bench_linear
from heavystep.bench import linear_data as bench_linear_data
from heavystep.bench import linear_default as bench_linear_default
from heavystep.bench import linear_loss as bench_linear_loss
from heavystep.bench import linear_solvers as bench_linear_solvers
from heavystep.bench import timing
from heavystep.bench.linear import Target, kernel_job, polyak
from heavystep.bench.linear_data import TWIN, Task, scipy_matrix
from heavystep.bench.linear_default import MAKERS, compare_defaults, objective
from heavystep.bench.linear_loops import ScipyLoop, TorchLoop
from heavystep.bench.linear_loss import Comparison, Fit, Outcome, compare, wins
from heavystep.bench.linear_solvers import OURS, REFERENCE, SOLVERS, Solver, fitted
from heavystep.bench.made import CONDITION, ill_conditioned, power_law
from heavystep.bench.twin import POSITIVES, real_sim_twin
from heavystep.cli.app import app
from heavystep.problems import SparseLogistic
from heavystep.simulation.configuration import configure
from heavystep.simulation.run import Run
from heavystep.simulation.watch import TRAINING_METRICS
from tests.helpers.classified import problem

SMALL = {"n": 400, "dim": 60, "entries": 5}


@pytest.mark.parametrize("loop", [ScipyLoop, TorchLoop])
@pytest.mark.parametrize("max_step", [1.0, 50.0])
def test_loops_take_the_iterates_of_the_simulation(loop, max_step):
    problem = real_sim_twin(**SMALL)
    options = dict(polyak(problem).options) | {"max_step": max_step, "c": 0.8, "growth": 3.0}
    method = configure("SHBPolyak", **options)
    batches = np.random.default_rng(2).integers(0, problem.n, size=(50, 16))
    run = Run(problem, method, 0, np.array([len(batches)]))
    run.advance(len(batches), batches)
    ours, share_capped = run.state.theta, run.out[0, TRAINING_METRICS.index("capped")]
    np.testing.assert_allclose(loop(problem, method).run(batches), ours, rtol=0, atol=1e-9)
    assert abs(ours).max() > 0.1
    assert (share_capped < 1.0) == (max_step > 1.0)  # under the large cap the rule chooses


@pytest.mark.slow  # a kernel each
@pytest.mark.parametrize("name", bench_linear.CONTESTANTS)
def test_every_contestant_can_start_anew(name):
    problem, batches = real_sim_twin(**SMALL), np.arange(64).reshape(4, 16)
    first, second = (bench_linear.CONTESTANTS[name](problem, batches)() for _ in range(2))
    assert first.any()
    np.testing.assert_array_equal(first, second)


def test_a_run_that_stops_early_has_no_cost():
    twin = real_sim_twin(**SMALL)
    penalised = SparseLogistic(twin.rows, twin.y, 1.0)  # whose loss overflows after the first step
    job = kernel_job(penalised, configure("SHB", lr=1e200), np.arange(64).reshape(4, 16))
    with pytest.raises(ValueError, match="SHB stopped at step 1 of 4"):
        job()


def test_the_twin_is_of_the_size_of_real_sim():
    twin = real_sim_twin()
    assert (twin.n, twin.dim, len(twin.rows.values)) == (72_309, 20_958, 51 * 72_309)
    assert (twin.y > 0).sum() == 22_238
    popularity = np.sort(np.bincount(twin.rows.indices, minlength=twin.dim))[::-1] / twin.n
    assert popularity[0] > 0.3
    assert np.median(popularity) < 0.002


def test_the_twin_is_a_matter_of_its_seed():
    one, again, other = (real_sim_twin(**SMALL, seed=seed) for seed in (1, 1, 2))
    for name in ("indices", "values"):
        np.testing.assert_array_equal(getattr(one.rows, name), getattr(again.rows, name))
    np.testing.assert_array_equal(one.y, again.y)
    assert not np.array_equal(one.rows.indices, other.rows.indices)


def test_the_twins_rows_are_of_unit_length_with_ascending_columns():
    twin = real_sim_twin(**SMALL)
    np.testing.assert_allclose(twin.rows.norms(), 1.0, rtol=1e-12)
    columns = twin.rows.indices.reshape(twin.n, -1)
    assert (np.diff(columns, axis=1) > 0).all()
    assert (twin.y > 0).mean() == pytest.approx(POSITIVES, abs=1 / twin.n)
    with pytest.raises(ValueError, match=r"entries must be in 1 \.\. dim = 3, got 4"):
        real_sim_twin(n=5, dim=3, entries=4)


def test_the_twins_labels_depend_on_its_rows():
    """A linear model tells more of the labels of other rows than the frequent class does."""
    twin = real_sim_twin(n=2000, dim=100, entries=10)
    matrix = scipy_matrix(twin.rows)
    model = fitted(REFERENCE(1000), matrix[:1000], twin.y[:1000])
    assert model.score(matrix[1000:], twin.y[1000:]) > (1.0 - POSITIVES) + 0.05


EXACT = {"LogisticRegression, lbfgs", "LogisticRegression, liblinear"}


@pytest.mark.parametrize("name", SOLVERS)
def test_all_solvers_minimise_one_function(name):
    task = Task.of(real_sim_twin(n=1000, dim=80, entries=6))
    problem, matrix = task.problem, task.matrix
    best = problem.objective(fitted(REFERENCE(problem.n), matrix, problem.y).coef_[0])
    found = fitted(SOLVERS[name].make(problem.n, 400), matrix, problem.y)
    assert found.intercept_ == 0.0
    assert problem.objective(found.coef_[0]) <= best * (1 + (1e-9 if name in EXACT else 1e-3))
    assert abs(problem.full_gradient(found.coef_[0])).max() < (1e-6 if name in EXACT else 3e-3)


class Clock:
    """Time that passes only where a toy says so."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: self.now))

    def solver(self, near_from, seconds):
        """Comes within 0.1% with the budget ``near_from``, 0.5% one before; never if None."""

        def make(n, budget):
            def fit(matrix, y):
                self.now += seconds * budget
                good = fitted(REFERENCE(n), matrix, y).coef_
                if near_from is None:
                    toy.coef_ = 0.0 * good
                else:
                    toy.coef_ = good * (1.0 if budget >= near_from else 0.97)
                return toy

            toy = SimpleNamespace(fit=fit)
            return toy

        return Solver(make)


@pytest.fixture(scope="module")
def task():
    return Task.of(real_sim_twin(n=300, dim=30, entries=5))


def test_the_toys_are_where_they_say(task):
    """0.97 of the best point is between 0.1% and 1%, and 0 is beyond."""
    problem = task.problem
    good = fitted(REFERENCE(problem.n), task.matrix, problem.y).coef_[0]
    gaps = [problem.objective(s * good) / problem.objective(good) - 1 for s in (0.97, 0.0)]
    assert gaps[1] > 0.01
    assert gaps[0] < 0.01


def test_times_are_those_of_the_least_budget(task, monkeypatch):
    clock = Clock(monkeypatch)
    monkeypatch.setattr(bench_linear_loss, "TOLERANCES", (0.01, 1e-6))
    solvers = {
        "slow": clock.solver(3, 0.5),
        "fast": clock.solver(4, 0.01),
        "never": clock.solver(None, 0.09),
        "full": clock.solver(1, 0.005),
    }
    found = compare(task, solvers, repeats=2)
    assert found.n == 300
    reached = {name: outcome.reached for name, outcome in found.outcomes.items()}
    assert reached["slow"][0.01].budget == 1
    assert reached["slow"][1e-6].budget == 3
    assert reached["slow"][1e-6].seconds == pytest.approx(1.5)
    assert reached["fast"][1e-6].budget == 5  # 4 is not tried
    assert reached["fast"][1e-6].seconds == pytest.approx(0.05)
    assert reached["never"] == {}
    # 10 times the fastest, 0.05 s: the first fit beyond 0.5 s is the last.
    assert [fit.budget for fit in found.outcomes["never"].fits] == [1, 2, 3, 5, 8]
    assert found.outcomes["never"].gave_up == pytest.approx(0.72)
    assert found.fastest(1e-6) == "full"
    assert found.fastest(1e-6, without="full") == "fast"
    assert found.ratio("slow", 1e-6) == pytest.approx(300.0)
    assert found.ratio("full", 1e-6) == 1.0


def test_nobody_is_fastest_where_nobody_arrives(task, monkeypatch):
    clock = Clock(monkeypatch)
    monkeypatch.setattr(bench_linear_loss, "LONGEST", 1.0)
    ours = {OURS: clock.solver(1, 0.1)}
    found = compare(task, {"never": clock.solver(None, 0.3)} | ours, repeats=1)
    assert found.fastest(0.01) == OURS
    assert found.fastest(0.01, without=OURS) is None
    assert np.isnan(found.ratio(OURS, 0.01))
    assert found.outcomes["never"].gave_up == pytest.approx(1.5)


def test_a_solver_that_stops_by_itself_is_not_run_for_ever(task, monkeypatch):
    clock = Clock(monkeypatch)
    monkeypatch.setattr(bench_linear_loss, "MOST_EPOCHS", 20)
    found = compare(task, {"idle": clock.solver(None, 0.0)}, repeats=1)
    assert [fit.budget for fit in found.outcomes["idle"].fits] == [1, 2, 3, 5, 8, 13]


def test_a_better_loss_than_the_references_is_the_best(task, monkeypatch):
    monkeypatch.setattr(
        bench_linear_loss, "REFERENCE", lambda n: SOLVERS["LogisticRegression, lbfgs"].make(n, 1)
    )
    found = compare(task, {"exact": Solver(lambda n, budget: REFERENCE(n))}, repeats=1)
    exact = fitted(REFERENCE(task.problem.n), task.matrix, task.problem.y).coef_[0]
    assert found.best == pytest.approx(float(task.problem.objective(exact)), rel=1e-12)


def comparison(n, seconds):
    fits = {name: Fit(1, time, 0.5) for name, time in seconds.items()}
    return Comparison(n, 0.5, {name: Outcome([fit], {0.01: fit}) for name, fit in fits.items()})


def test_wins_count_sets():
    times = {"a": 1.0, "b": 2.0}, {"a": 1.0, "b": 2.0}, {"a": 3.0, "b": 2.0}
    found = [comparison(100, seconds) for seconds in times]
    assert wins(found, "a", 0.01) == "2 of 3"
    assert wins(found, "a", 0.001) == "0 of 3"


def test_ratios_are_to_the_best_of_the_others():
    found = comparison(100, {OURS: 1.0, "a": 4.0, "b": 2.0})
    assert [found.ratio(name, 0.01) for name in (OURS, "a", "b")] == [0.5, 2.0, 1.0]


@pytest.mark.parametrize("make", [ill_conditioned, power_law])
def test_made_sets_are_a_matter_of_their_seed(make):
    one, again, other = (make(n=200, dim=30, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.rows.values, again.rows.values)
    np.testing.assert_array_equal(one.y, again.y)
    assert not np.array_equal(one.rows.values, other.rows.values)
    assert 0.3 < (one.y > 0).mean() < 0.7


def test_made_sets_are_what_they_say():
    dense = ill_conditioned(n=2000, dim=20).rows.values.reshape(2000, 20)
    sizes = np.linalg.svd(dense, compute_uv=False)
    assert CONDITION / 2 < sizes[0] / sizes[-1] < CONDITION * 2
    rare = power_law(n=5000, dim=500, entries=10)
    counts = np.sort(np.bincount(rare.rows.indices, minlength=500))[::-1]
    assert counts[0] > 0.5 * rare.n
    assert np.median(counts) < 0.02 * rare.n


def test_a_dense_task_has_a_dense_matrix(monkeypatch):
    small = ill_conditioned(n=50, dim=4)
    monkeypatch.setitem(bench_linear_data.MADE, bench_linear_data.DENSE, lambda: small)
    task = bench_linear_data.task_on(bench_linear_data.DENSE)
    assert task.matrix.shape == (50, 4)
    np.testing.assert_array_equal(task.matrix.ravel(), small.rows.values)


@pytest.mark.parametrize("classes", [2, 3])
def test_default_fits_are_brought_to_one_gap(classes):
    X, y = problem(n=300, classes=classes)
    found = compare_defaults(X, y, 1.0, repeats=1)
    assert set(found.default) == set(found.even) == {"ours", "lbfgs"}
    gaps = {name: stop.gap for name, stop in found.default.items()}
    late, early = sorted(gaps, key=gaps.get)[::-1]
    assert -1e-12 < gaps[early] <= gaps[late] < 1e-2
    assert found.even[early] == found.default[early]
    assert found.even[late].gap <= max(gaps[early], 1e-11)


def test_objectives_are_those_of_the_models():
    """The derivative vanishes at the minimum, so that a small move changes the value little."""
    X, y = problem(n=300, classes=3)
    for make in MAKERS.values():
        model = make(0.5, 1e-12, 20_000).fit(X, y)
        best = objective(model, X, y, 0.5)
        size = 1e-3 * np.random.default_rng(0).normal(size=model.coef_.shape)
        for move in (size, -size):
            model.coef_ = model.coef_ + move
            assert 0.0 < objective(model, X, y, 0.5) - best < 1e-3
            model.coef_ = model.coef_ - move


def test_jobs_take_turns(monkeypatch):
    clock, order = Clock(monkeypatch), []
    costs = {"a": iter([4.0, 2.0, 3.0, 5.0]), "b": iter([1.0] * 4)}

    def job(name):
        order.append(name)
        clock.now += next(costs[name])

    best = timing.interleaved({name: lambda name=name: lambda: job(name) for name in costs}, 2)
    assert best == {"a": 2.0, "b": 1.0}
    assert "".join(order) == "aabbaabb"


@pytest.mark.parametrize(
    ("least", "measured", "met"),
    [(True, 5.0, True), (True, 4.9, False), (False, 5.0, True), (False, 5.1, False)],
)
def test_targets_are_met_on_their_side(least, measured, met):
    assert Target("", least, 5.0, measured).met is met


def test_scipy_rows_are_the_same():
    rows = real_sim_twin(**SMALL).rows
    theta = np.random.default_rng(0).normal(size=rows.dim)
    np.testing.assert_allclose(scipy_matrix(rows) @ theta, rows.dot(theta), rtol=1e-12)


@pytest.mark.slow  # compiles kernels
def test_costs_of_all_contestants_and_their_targets():
    costs = bench_linear.iteration_costs(real_sim_twin(**SMALL), steps=3, repeats=1)
    assert list(costs) == list(bench_linear.CONTESTANTS)
    assert min(costs.values()) > 0.0
    for data in bench_linear.MICROSECONDS:
        us, scipy, torch, *searches = bench_linear.targets(data, dict.fromkeys(costs, 30.0))
        assert (us.measured, scipy.measured, torch.measured) == (30.0, 1.0, 1.0)
        assert not scipy.met
        assert not torch.met
        assert all(search.met for search in searches)


@pytest.fixture
def tiny_tables(monkeypatch):
    """Two small data sets, one with targets, two solvers and costs that are not measured."""
    monkeypatch.setattr(bench_linear_data, "sets_at_hand", lambda: ["mushrooms", TWIN])
    monkeypatch.setattr(bench_linear_data, "plain_problem", lambda name: real_sim_twin(**SMALL))
    costs = dict.fromkeys(bench_linear.CONTESTANTS, 30.0)
    monkeypatch.setattr(bench_linear, "iteration_costs", lambda *args, **kwargs: costs)
    never = Solver(lambda n, budget: SOLVERS["SGDClassifier"].make(n, 1))
    monkeypatch.setattr(bench_linear_loss, "MOST_EPOCHS", 8)
    solvers = {OURS: SOLVERS[OURS], "one epoch only": never}
    monkeypatch.setattr(bench_linear_solvers, "SOLVERS", solvers)
    small = {"mushrooms": (problem, 1.0), "digits": (lambda: problem(classes=3), 1.0)}
    monkeypatch.setattr(bench_linear_default, "default_sets", lambda: small)


@pytest.mark.usefixtures("tiny_tables")
def test_command():
    done = CliRunner().invoke(app, ["bench", "linear"])
    assert done.exit_code == 0, done.output
    texts = (
        "kernel, SHB-ALS",
        "torch / SHB-PS",
        "400 x 60",
        "to 0.1%",
        "not within",
        "near the best: mushrooms",
    )
    for text in (*texts, f"{OURS} is the fastest solver to 1.0% on", "at the same gap", "digits"):
        assert text in done.stdout, text


@pytest.mark.usefixtures("tiny_tables")
def test_quick_command_leaves_out_sets_without_targets():
    done = CliRunner().invoke(app, ["bench", "linear", "--quick"])
    assert done.exit_code == 0, done.output
    assert "near the best: mushrooms" not in done.stdout
    assert f"near the best: {TWIN}" in done.stdout
