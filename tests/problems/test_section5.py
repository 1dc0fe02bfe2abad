"""The problems of Section 5."""

import numpy as np
import pytest

from heavystep.problems import paper_cosine, paper_least_squares


def test_paper_least_squares():
    noisy, fitted = paper_least_squares(noise=0.3, seed=3), paper_least_squares(seed=3)
    rng = np.random.default_rng(3)
    rng.standard_normal((512, 20))
    drawn = rng.standard_normal(20)
    for problem in (noisy, fitted):
        assert problem.A.shape == (512, 20)
        np.testing.assert_allclose(problem.theta_star, drawn, rtol=0, atol=1e-12)
        np.testing.assert_array_equal(problem.theta0, np.zeros(20))
    np.testing.assert_array_equal(noisy.A, fitted.A)
    epsilon = (noisy.b - fitted.b) / 0.3
    assert epsilon @ epsilon == pytest.approx(512.0, rel=1e-12)
    np.testing.assert_allclose(noisy.A.T @ epsilon, 0.0, atol=1e-11)
    assert noisy.sigma2 == pytest.approx(0.045, rel=1e-12)
    assert fitted.sigma2 == 0.0
    assert not np.array_equal(fitted.A, paper_least_squares(seed=4).A)


def test_paper_cosine():
    strong, noisy = paper_cosine("strong_growth"), paper_cosine("noise", seed=3)
    assert (strong.rho, strong.delta, strong.L, strong.sigma2) == (1.25, 0.0, 4.5, 0.0)
    assert (noisy.rho, noisy.L) == (1.0, 3.0)
    assert noisy.delta == pytest.approx(1.8, rel=1e-14)
    assert [np.sum(strong.s == value) for value in (0.5, 1.5)] == [256, 256]
    assert set(np.unique(noisy.xi)) == {-0.3, 0.3}
    np.testing.assert_array_equal(noisy.xi[:256], -noisy.xi[256:])
    assert len(np.unique(noisy.xi[:256], axis=0)) > 250
    for problem in (strong, noisy):
        np.testing.assert_array_equal(problem.theta0, np.full(20, np.pi))
        assert problem.gap(problem.theta0) == pytest.approx(20 * (np.pi**2 / 2 + 4), rel=1e-14)
    np.testing.assert_allclose(noisy.f_star, noisy.f_star[0], rtol=1e-14)
    assert not np.array_equal(noisy.xi, paper_cosine("noise", seed=4).xi)
