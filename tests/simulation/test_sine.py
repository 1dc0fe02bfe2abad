"""Sine and cosine by polynomials, against the C library in a longer format."""

import numpy as np
import pytest

from heavystep.simulation.sine import FARTHEST, write_sines_and_cosines

EPS = np.finfo(np.float64).eps
ROUNDINGS = 1.0
"""Units in the last place: half of one is the rounding of the result, and the rest of the sums that
end in it are smaller than a quarter of it."""


def both(x):
    sines, cosines = np.empty_like(x), np.empty_like(x)
    write_sines_and_cosines(x, sines, cosines)
    return sines, cosines


@pytest.mark.skipif(
    np.finfo(np.longdouble).eps > 2.0**-60, reason="there is no longer format to compare with"
)
@pytest.mark.parametrize("size", [1e-200, 1e-5, 1.0, 30.0, 1e3, FARTHEST / 8.0])
def test_they_are_the_nearest_numbers_or_their_neighbours(size):
    x = np.random.default_rng(3).standard_normal(20_000) * size
    for got, function in zip(both(x), (np.sin, np.cos), strict=True):
        error = np.abs(got - function(x.astype(np.longdouble)))
        assert (error <= ROUNDINGS * np.spacing(np.abs(got))).all()


def test_quarters_have_their_signs():
    x = np.arange(-9, 10) * (np.pi / 2)
    sines, cosines = both(x)
    # The two parts of pi / 2 have 34 and 53 bits, and what they miss is taken nine times.
    missed = 9 * 2.0 ** -(34 + 53)
    np.testing.assert_allclose(sines, np.sin(x), rtol=EPS, atol=missed)
    np.testing.assert_allclose(cosines, np.cos(x), rtol=EPS, atol=missed)


def test_numbers_that_are_far_away_or_undefined():
    far = np.array([3.0 * FARTHEST, -1e300, 0.5])
    for got, function in zip(both(far), (np.sin, np.cos), strict=True):
        np.testing.assert_array_equal(got, function(far))
    for x in (np.nan, np.inf):
        assert np.isnan(both(np.array([x, 0.25, 1.0]))).any(axis=1).all()
    assert not np.isnan(both(np.array([np.nan, 0.25]))).T[1].any()
