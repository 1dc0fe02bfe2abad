"""Kernels for sparse logistic regression equal the literal loop on scipy matrices."""

import math

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp

from heavystep.problems import LogisticRegression, SparseLogistic
from heavystep.simulation.configuration import configure
from heavystep.simulation.layout import terms_of
from heavystep.simulation.run import Run, simulate
from heavystep.simulation.softplus import softplus_and_slope, softplus_minus
from heavystep.simulation.streams import index_stream
from heavystep.sparse import SparseRows
from tests.helpers import linear_reference
from tests.helpers.paper_symbols import configured

RNG = np.random.default_rng(11)
N, DIM, BATCH, STEPS = 150, 40, 16, 200


def random_data(density=0.15, seed=3):
    """Rows of very different length and scale, some of them empty, labels not balanced."""
    rng = np.random.default_rng(seed)
    dense = rng.normal(size=(N, DIM)) * (rng.random((N, DIM)) < density)
    dense *= np.exp(rng.normal(size=(N, 1)))
    dense[::13] = 0.0
    return sp.csr_matrix(dense), np.where(dense @ rng.normal(size=DIM) + 0.5 > 0, 1.0, -1.0)


def rows_of(matrix, dtype=np.float64):
    return SparseRows(
        matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32),
        matrix.data.astype(dtype), matrix.shape[1],
    )  # fmt: skip


def method_of(options, n_b):
    """The configuration for the options of the literal loop, where q is an epoch's growth."""
    if "c" not in options:  # the step is given
        return configure("SHB", lr=options["gamma_max"], momentum=options["beta"])
    return configured(
        options["rule"], beta=options["beta"], c=options["c"], gamma_max=options["gamma_max"],
        scaling="plain" if options.get("plain") else "practical", n_b=n_b, growth=options["q"],
    )  # fmt: skip


def literal(matrix, y, batches, options, n_b, **problem):
    growth = {"q": options["q"] ** (1 / n_b)} if "q" in options else {}
    return linear_reference.run(matrix, y, batches, **{**options, **growth}, **problem)


def engine_run(problem, method, batches):
    run = Run(problem, method, 0, np.arange(1, len(batches) + 1))
    assert run.advance(len(batches), batches) == len(batches)
    return run


STEEP = {
    name: {**linear_reference.PAPER[name], "gamma_max": 100.0, "q": 10.0}
    for name in ("SHB-PS", "SHB-ALS", "SPS", "SLS")
}
METHODS = linear_reference.PAPER | {f"{name}, large cap": STEEP[name] for name in STEEP}
PROBLEMS = {
    "plain": {},
    "penalised": {"l2": 0.03},
    "one penalty each": {"l2": np.where(np.arange(DIM) < DIM - 5, RNG.uniform(0, 0.3, DIM), 0.0)},
    "weighted": {"weights": RNG.uniform(0.0, 3.0, size=N), "l2": 1e-3},
}


@pytest.mark.parametrize("setting", PROBLEMS)
@pytest.mark.parametrize("name", METHODS)
def test_iterates_and_metrics_are_those_of_the_literal_loop(name, setting):
    matrix, y = random_data()
    # Large steps make the iteration chaotic: rounding grows from step to step.
    steep = name not in linear_reference.PAPER
    count = 40 if steep else STEPS
    batches = RNG.integers(0, N, size=(count, BATCH))
    n_b = math.ceil(N / BATCH)
    iterates, steps = literal(matrix, y, batches, METHODS[name], n_b, **PROBLEMS[setting])
    problem = SparseLogistic(rows_of(matrix), y, **PROBLEMS[setting])
    method = method_of(METHODS[name], n_b)
    run = engine_run(problem, method, batches)
    np.testing.assert_allclose(run.state.theta, iterates[-1], rtol=1e-9, atol=1e-11)
    loss, mean_step, capped, _, _ = run.out.T
    expected = [problem.objective(theta) for theta in iterates[1:]]
    np.testing.assert_allclose(loss, expected, rtol=1e-10)
    np.testing.assert_allclose(mean_step, steps, rtol=1e-8)
    has_cap = "q" in METHODS[name]  # a given step is at no cap
    at_cap = (steps >= METHODS[name]["gamma_max"] * (1 - 1e-12)) & has_cap
    np.testing.assert_array_equal(capped.astype(bool), at_cap)
    assert not steep or at_cap.sum() < count  # the rule chooses


@pytest.mark.parametrize("dim", [300, pytest.param(70_000, marks=pytest.mark.slow)])
def test_columns_of_every_width_of_index(dim):
    """Indices take two bytes up to 65,536 columns, four beyond."""
    rng = np.random.default_rng(2)
    matrix, y = (
        sp.random(N, dim, density=20 / dim, rng=rng, format="csr"),
        rng.choice([-1.0, 1.0], N),
    )
    batches = rng.integers(0, N, size=(30, BATCH))
    iterates, _ = literal(matrix, y, batches, METHODS["SHB-ALS"], 10)
    problem = SparseLogistic(rows_of(matrix), y)
    run = engine_run(problem, method_of(METHODS["SHB-ALS"], 10), batches)
    np.testing.assert_allclose(run.state.theta, iterates[-1], rtol=1e-9, atol=1e-11)
    assert terms_of(problem).indices.itemsize == (2 if dim == 300 else 4)


@pytest.mark.slow
@pytest.mark.parametrize("name", linear_reference.PAPER)
def test_float32_follows_float64(name):
    matrix, y = random_data()
    batches = RNG.integers(0, N, size=(STEPS, BATCH))
    method = method_of(METHODS[name], 10)
    single = engine_run(SparseLogistic(rows_of(matrix, np.float32), y), method, batches)
    double = engine_run(SparseLogistic(rows_of(matrix), y), method, batches)
    assert single.state.theta.dtype == np.float32
    assert single.state.buffer.dtype == np.float32
    scale = abs(double.state.theta).max()
    np.testing.assert_allclose(single.state.theta, double.state.theta, rtol=0, atol=2e-4 * scale)


def test_dense_and_sparse_problems_are_one():
    """Objective, gradient and smoothness against the dense problem, off-centre."""
    matrix, y = random_data()
    sparse, dense = (
        SparseLogistic(rows_of(matrix), y, 0.1),
        LogisticRegression(matrix.toarray(), y, 0.1),
    )
    theta = RNG.normal(size=DIM)
    assert sparse.objective(theta) == pytest.approx(dense.objective(theta), rel=1e-13)
    np.testing.assert_allclose(sparse.full_gradient(theta), dense.full_gradient(theta), atol=1e-14)
    assert pytest.approx(dense.L, rel=1e-13) == sparse.L
    plain = LogisticRegression(matrix.toarray(), y)
    np.testing.assert_array_equal(SparseLogistic(rows_of(matrix), y).f_star, plain.f_star)


def test_weights_count_as_repetitions():
    matrix, y = random_data()
    counts = RNG.integers(0, 4, size=N)
    repeated = np.repeat(np.arange(N), counts)
    weighted = SparseLogistic(rows_of(matrix), y, 0.1, counts)
    longer = SparseLogistic(rows_of(matrix[repeated]), y[repeated], 0.1)
    theta = RNG.normal(size=DIM)
    assert weighted.objective(theta) == pytest.approx(longer.objective(theta), rel=1e-12)
    np.testing.assert_allclose(
        weighted.full_gradient(theta), longer.full_gradient(theta), atol=1e-14
    )


def test_streams_and_threads_change_nothing():
    matrix, y = random_data()
    problem, method = SparseLogistic(rows_of(matrix), y), method_of(METHODS["SHB-ALS"], 10)
    options = {"iterations": 50, "batch_size": BATCH, "grid": np.arange(10, 51, 10)}
    drawn = simulate(problem, method, seeds=[4, 5], threads=2, **options)
    indices = np.stack([index_stream(s, N, 50 * BATCH).reshape(50, BATCH) for s in (4, 5)])
    given = simulate(problem, method, seeds=[4, 5], threads=1, indices=indices, **options)
    assert set(drawn.metrics) == {"loss", "step", "capped", "limited", "trials"}
    for name, values in drawn.metrics.items():
        np.testing.assert_array_equal(values, given.metrics[name])


def test_shares_of_steps_are_since_the_last_record():
    matrix, y = random_data()
    problem, method = (
        SparseLogistic(rows_of(matrix), y),
        method_of(METHODS["SHB-ALS, large cap"], 10),
    )
    batches = RNG.integers(0, N, size=(60, BATCH))
    every = engine_run(problem, method, batches).out
    tenth = Run(problem, method, 0, np.arange(10, 61, 10))
    tenth.advance(60, batches)
    for column in (1, 2, 3):
        means = every[:, column].reshape(6, 10).mean(axis=1)
        np.testing.assert_allclose(tenth.out[:, column], means, rtol=1e-12)
    np.testing.assert_array_equal(tenth.out[:, 4], every[9::10, 4])


def test_losses_and_slopes_are_exact_in_both_tails():
    margins = np.concatenate(
        [np.linspace(-40, 40, 4001), np.linspace(-700, 700, 501), np.logspace(-300, 2, 99), [0.0]]
    )
    losses, slopes, again = (np.empty_like(margins) for _ in range(3))
    softplus_and_slope(margins, losses, slopes)
    softplus_minus(margins, again)
    np.testing.assert_array_equal(losses, again)
    with mpmath.workdps(40):
        powers = [mpmath.exp(mpmath.mpf(float(m))) for m in margins]
        exact = np.array([float(mpmath.log1p(1 / e)) for e in powers])
        slope = np.array([float(-1 / (1 + e)) for e in powers])
    np.testing.assert_allclose(losses, exact, rtol=6e-16)
    np.testing.assert_allclose(slopes, slope, rtol=6e-16)


def test_losses_at_the_ends():
    margins = np.array([np.nan, np.inf, -np.inf, 710.0, -1e6])
    losses, slopes = np.empty(5), np.empty(5)
    softplus_and_slope(margins, losses, slopes)
    np.testing.assert_array_equal(losses, [np.nan, 0.0, np.inf, 0.0, 1e6])
    np.testing.assert_array_equal(slopes, [np.nan, 0.0, -1.0, 0.0, -1.0])


def test_a_run_that_diverges_is_told():
    matrix, y = random_data()
    matrix.data[5] = 1e100
    problem = SparseLogistic(rows_of(matrix), y)
    method = configure("SHB", lr=1e250)
    with pytest.raises(ValueError, match="loss or gradient not finite"):
        simulate(problem, method, seeds=[0], iterations=20, batch_size=N)


BAD_ROWS = [
    ({"indptr": np.array([0, 2, 1, 3])}, "indptr must not decrease"),
    ({"indptr": np.array([0, 1, 2, 4])}, "indptr must go from 0 to the number of entries, 3"),
    ({"indices": np.array([0, 1, 4], dtype=np.int32)}, r"indices must be in 0 .. 3, got 0 .. 4"),
    ({"indices": np.array([0, -1, 1], dtype=np.int32)}, r"indices must be in 0 .. 3, got -1 .. 1"),
    ({"indices": np.array([0, 1, 2])}, "indices must be one contiguous row of int32, got int64"),
    ({"values": np.ones(6)[::2]}, "values must be one contiguous row of float64 or float32"),
]


@pytest.mark.parametrize(("change", "message"), BAD_ROWS)
def test_kernels_get_only_what_they_can_read(change, message):
    good = {
        "indptr": np.array([0, 1, 2, 3]), "indices": np.array([0, 1, 3], dtype=np.int32),
        "values": np.ones(3),
    }  # fmt: skip
    SparseRows(**good, dim=4)
    with pytest.raises(ValueError, match=message):
        SparseRows(**{**good, **change}, dim=4)


BAD_PROBLEMS = [
    ({"y": [1, 0]}, "labels -1 and \\+1 only"),
    ({"y": [1]}, "y must have shape"),
    ({"l2": -1.0}, "l2 must be >= 0"),
    ({"weights": [1.0, -1.0]}, "weights must be >= 0 and not all 0"),
    ({"weights": [0.0, 0.0]}, "weights must be >= 0 and not all 0"),
    ({"l2": [1.0, -2.0]}, "l2 must be >= 0, got -2.0"),
]


@pytest.mark.parametrize(("change", "message"), BAD_PROBLEMS)
def test_problems_are_in_range(change, message):
    rows = SparseRows.from_dense([[1.0, 0.0], [0.0, 2.0]])
    with pytest.raises(ValueError, match=message):
        SparseLogistic(**{"rows": rows, "y": [1, -1], **change})


def test_rows_of_unit_length():
    dense = np.array(
        [[3e200, 4e200, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 5e-320], [1e-200, 1e-200, 0]]
    )
    unit = SparseRows.from_dense(dense).unit_length()
    np.testing.assert_allclose(unit.norms(), [1.0, 0.0, 1.0, 1.0], rtol=1e-12)
    np.testing.assert_array_equal(np.diff(unit.indptr), [2, 0, 1, 2])


def test_terms_carry_the_labels():
    matrix, y = random_data()
    terms = terms_of(SparseLogistic(rows_of(matrix), y))
    signed = sp.csr_matrix((terms.values, terms.indices, terms.indptr), matrix.shape)
    np.testing.assert_array_equal(signed.toarray(), matrix.toarray() * y[:, None])


def test_what_is_not_looked_at_is_the_same():
    matrix, y = random_data()
    weights, penalties = RNG.random(N) + 0.1, RNG.random(DIM)
    checked = SparseLogistic(rows_of(matrix), y, penalties, weights)
    plain = SparseLogistic.unchecked(checked.rows, y.astype(float), penalties, weights)
    for name in ("y", "l2", "weights"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(checked, name))
        assert not getattr(plain, name).flags.writeable
    assert plain.objective(np.ones(DIM)) == checked.objective(np.ones(DIM))
