"""Parameters that move in fours have the numbers that they have one by one, to the bit."""

import dataclasses

import numpy as np
import pytest
from numba.core import types

from heavystep.methods import METHODS
from heavystep.momentum import HEAVY_BALL
from heavystep.problems import LeastSquares
from heavystep.rules import is_finite, maximum, minimum, some, where
from heavystep.simulation import fours
from heavystep.simulation.addresses import four_from, put, row_of, start_of
from heavystep.simulation.configuration import configure
from heavystep.simulation.fleet import Run
from heavystep.simulation.forms import goes_by_fours, kernel_form
from heavystep.simulation.fours import FOUR, WIDTH, fits
from heavystep.simulation.kernel_cache import kernel, loop
from heavystep.simulation.least_squares import LeastSquaresTerms
from heavystep.simulation.moving import move_all
from heavystep.simulation.parts import Kinds
from heavystep.simulation.stretching import kernel_diagonal

FORMS = {method.form.name: method.form for method in METHODS.values()}
NOTHING = LeastSquaresTerms(*[np.empty((0, 0)), *[np.empty(0)] * 2, np.empty((0, 0)), np.empty(0)])
ODD = [np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, -1e-310, 1e308]


@loop
def _inside(terms, kinds, theta, buffer, g, step, momentum, weight):
    move_all(terms, kinds, theta, buffer, g, buffer, step, momentum, weight)


@kernel
def moved(terms, kinds, theta, buffer, g, step, momentum, weight):
    _inside(terms, kinds, theta, buffer, g, step, momentum, weight)


def by_hand(form, theta, buffer, g, step, momentum, weight):
    with np.errstate(all="ignore"):
        motion, kept = form.move(buffer, g, step, momentum, weight)
        motion, kept = (np.where(np.abs(x) > fours.TINY, x, 0.0) for x in (motion, kept))
        return theta + motion, kept


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("size", [1, WIDTH - 1, WIDTH, WIDTH + 1, 3 * WIDTH + 2])
def test_every_parameter_moves_as_it_would_alone(name, size):
    draw, form = np.random.default_rng(size), FORMS[name]
    kinds = Kinds(0, kernel_form(form), kernel_diagonal(None))
    assert goes_by_fours(type(kinds.form))
    for _ in range(4):
        arrays = draw.standard_normal((3, size)) * 10.0 ** draw.integers(-5, 5, (3, size))
        odd = draw.random((3, size)) < 0.3
        arrays[odd] = draw.choice(ODD, odd.sum())
        theta, buffer, g = (np.array(row) for row in arrays)
        moved(NOTHING, kinds, theta, buffer, g, 0.3, 0.9, 0.2)
        wanted = by_hand(form, *arrays, 0.3, 0.9, 0.2)
        for found, right in zip((theta, buffer), wanted, strict=True):
            np.testing.assert_array_equal(found, right)
            np.testing.assert_array_equal(np.signbit(found), np.signbit(right))
        np.testing.assert_array_equal(g, arrays[2])


def branching(buffer, gradient, step, momentum, weight):
    motion = momentum * buffer - step * gradient if buffer > 0.0 else -step * gradient
    return motion, motion


def test_a_form_that_is_not_plain_arithmetic_moves_one_by_one(monkeypatch):
    assert not fits(branching, FOUR, FOUR, types.float64, types.float64, types.float64)
    form = dataclasses.replace(HEAVY_BALL, name="branching", move=branching)
    kinds = Kinds(0, kernel_form(form), kernel_diagonal(None))
    assert not goes_by_fours(type(kinds.form))
    theta, buffer, g = np.zeros(5), np.array([1.0, -1.0, 1.0, -1.0, 1.0]), np.ones(5)
    moved(NOTHING, kinds, theta, buffer, g, 0.5, 0.5, 0.5)
    assert theta.tolist() == [0.0, -0.5, 0.0, -0.5, 0.0]


@loop
def _compare(x, y, out):
    a, b = four_from(start_of(x), 0), four_from(start_of(y), 0)
    put(row_of(out, 0), 0, minimum(a, b))
    put(row_of(out, 1), 0, maximum(a, b))
    put(row_of(out, 2), 0, where((a <= b) & (a != 0.0) | (b > 1.0), a, -1.0))
    put(row_of(out, 3), 0, where(some(a == b), abs(a), b))
    put(row_of(out, 4), 0, where(is_finite(a), 1, 0))


@kernel
def compared(x, y, out):
    _compare(x, y, out)


def test_fours_are_compared_as_numbers_are():
    draw = np.random.default_rng(0)
    for _ in range(50):
        x, y = draw.choice([*ODD, 1.0, -2.0, 3.0], (2, WIDTH))
        out = np.empty((5, WIDTH))
        compared(x, y, out)
        pairs = [(float(a), float(b)) for a, b in zip(x, y, strict=True)]
        equal = any(a == b for a, b in pairs)
        wanted = [
            [minimum(a, b) for a, b in pairs],
            [maximum(a, b) for a, b in pairs],
            [a if (a <= b and a != 0.0) or b > 1.0 else -1.0 for a, b in pairs],
            [abs(a) if equal else b for a, b in pairs],
            [float(np.isfinite(a)) for a, _ in pairs],
        ]
        np.testing.assert_array_equal(out, wanted)
        np.testing.assert_array_equal(np.signbit(out[:2]), np.signbit(wanted[:2]))


@pytest.mark.parametrize("dim", [1, 3, 4, 7])
def test_means_and_gradients_have_every_parameter(dim):
    draw = np.random.default_rng(dim)
    problem = LeastSquares(draw.standard_normal((12, dim)), draw.standard_normal(12))
    method = configure("SHBPolyak", scaling="theory")
    run = Run(problem, method, 0, np.array([9]))
    points = []
    for _ in range(9):
        points.append(np.array(run.state.theta))
        assert run.advance(1, np.empty((0, 1), dtype=np.int64)) == 1
    assert (np.array(points[-1]) != 0.0).all()
    np.testing.assert_allclose(run.watch.average, np.mean(points, axis=0), rtol=1e-13)
