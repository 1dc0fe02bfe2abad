"""Theorems A and S of averaged heavy ball: literal loops on random convex problems."""

import numpy as np
import pytest
import torch

from heavystep import HeavyStep, theory
from heavystep.certificates import certify_averaged


def logistic(A, point):
    """Targets that `point` fits best: the gradient vanishes there."""
    p = 1.0 / (1.0 + np.exp(-A @ point))
    return (
        lambda t: (np.logaddexp(0.0, t @ A.T) - p * (t @ A.T)).mean(axis=-1),
        lambda t: A.T @ (0.5 + 0.5 * np.tanh(0.5 * (A @ t)) - p) / len(A),
    )


def of_residuals(value, slope):
    """The mean of a function of A (t - point), with its gradient."""

    def make(A, point):
        return (
            lambda t: value((t - point) @ A.T).mean(axis=-1),
            lambda t: A.T @ slope(A @ (t - point)) / len(A),
        )

    return make


absolute = of_residuals(abs, np.sign)
quadratic = of_residuals(lambda r: 0.5 * r * r, lambda r: r)
huber = of_residuals(
    lambda r: np.where(abs(r) < 1.0, 0.5 * r * r, abs(r) - 0.5), lambda r: np.clip(r, -1.0, 1.0)
)
LOSSES = [quadratic, absolute, huber, logistic]


def problem(rng):
    d = int(rng.integers(1, 5))
    A = rng.normal(size=(rng.integers(3, 9), d)) * np.exp(0.7 * rng.normal(size=d))
    point = 2.0 * rng.normal(size=d)
    value, gradient = LOSSES[rng.integers(len(LOSSES))](A, point)
    return value, gradient, point


def run(rng, *, tau, beta, power, steps=270, level_gap=0.0, cap=np.inf, claimed=None):
    """Averaged heavy ball with the longest steps that grow as Theorem A admits."""
    value, gradient, star = problem(rng)
    promise = theory.averaged(tau=claimed or tau, beta=beta, power=power)
    D = np.exp(rng.normal(size=len(star)))
    z = x = star + 3.0 * rng.normal(size=len(star))
    zs, xs, thetas, gradients, a = [z], [x], [], [], []
    for k in range(steps):
        theta = (1.0 - beta) * z + beta * x
        g = gradient(theta)
        square, gap = float((g * g / D).sum()), float(value(theta) - value(star))
        if square < 1e-24 or gap < 1e-12 * (1.0 + abs(float(value(star)))):
            break  # what is left is rounding of the loss
        step = min(tau * (gap + level_gap) / square, cap / square**0.5)
        if k >= 2:
            step = min(step, a[-1] * promise.growth(k))
        z = z - step * g / D
        x = x + (power + 1.0) / (k + power + 1.0) * (z - x)
        a.append(step)
        thetas.append(theta)
        gradients.append(g)
        zs.append(z)
        xs.append(x)
    return certify_averaged(
        a, zs, xs, thetas, gradients, objective=value, theta_star=star, diagonal=D,
        tau=claimed or tau, beta=beta, power=power, level_gap=level_gap,
    )  # fmt: skip


def test_theorem_a_on_a_hundred_thousand_steps():
    """Any tau < 2, momentum and weights; caps that change; levels below the minimum."""
    rng, steps = np.random.default_rng(31), 0
    while steps < 100_000:
        certificate = run(
            rng,
            tau=rng.choice([0.2, 1.0, 1.5, 1.9]),
            beta=rng.choice([0.0, 0.5, 0.9, 0.99]),
            power=rng.choice([0.0, 1.0, 3.0, 8.0]),
            level_gap=rng.choice([0.0, 0.0, 0.1]),
            cap=rng.choice([np.inf, 0.05]),
        )
        assert certificate.holds, str(certificate)
        assert certificate.covered
        steps += len(certificate["Theorem A"].k)


def test_longer_steps_than_claimed_are_caught():
    """tau = 5 is no length that Theorem A admits, and V rises on some of these runs."""
    rng, rises = np.random.default_rng(5), 0
    for _ in range(40):
        certificate = run(rng, tau=5.0, beta=0.9, power=8.0, claimed=1.9, steps=60)
        failed = {check.result for check in certificate.failures}
        assert "Theorem A, length" in failed
        rises += "Theorem A" in failed
    assert rises > 0


def test_larger_coefficients_break_it():
    """The L of the proof is the largest one: with more of it V rises somewhere."""
    broken = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        value, gradient = absolute(np.eye(1), np.zeros(1))
        z = x = np.array([1.0 + rng.random()])
        promise, a, V = theory.averaged(tau=1.5, beta=0.9), [], [float(z @ z)]
        for k in range(100):
            theta = 0.1 * z + 0.9 * x
            step = 1.5 * float(value(theta))
            step = min(step, a[-1] * promise.growth(k)) if k >= 2 else step
            a.append(step)
            gap = float(value(x))
            z = z - step * gradient(theta)
            x = x + 9.0 / (k + 9.0) * (z - x)
            V.append(float(z @ z) + 1.5 * promise.weights(a)[-1] * gap)
        broken += (np.diff(V) > 1e-12).any()
    assert broken == 20


def test_steps_that_jump_are_told():
    promise = theory.averaged(tau=1.0, beta=0.9)
    with pytest.raises(
        ValueError, match=r"Theorem A needs L_\{k\+1\} >= 0 \(steps grew\), got L = -"
    ):
        promise.weights([1.0, 1.0, 1.0, 1.0, 100.0])
    # Back from a cap a step may grow faster than `growth` says, and V still falls.
    weights = promise.weights([*[1.0] * 200, 0.1, 0.2])
    assert promise.growth(201) < 0.2 / 0.1
    assert (weights > 0.0).all()


def certificate_of_growth(a):
    K = len(a)
    z = np.cumsum([0.0, *[-step for step in a]])[:, None] + 5.0
    x = [z[0]]
    for k in range(K):
        x.append(x[-1] + 9.0 / (k + 9.0) * (z[k + 1] - x[-1]))
    x = np.array(x)
    return certify_averaged(
        a, z, x, 0.1 * z[:-1] + 0.9 * x[:-1], np.ones((K, 1)), tau=1.0, beta=0.9,
        objective=lambda t: abs(t[..., 0]), theta_star=[0.0],
    )  # fmt: skip


def test_growth_and_form_are_checked():
    assert certificate_of_growth([0.01] * 50).holds
    jumped = certificate_of_growth([*[1e-4] * 30, 1.0])
    assert {check.result for check in jumped.failures} == {"Theorem A, growth"}
    assert not jumped.covered
    assert "BROKEN: Theorem A, growth" in str(jumped)
    z = np.full((3, 1), 2.0)
    moved = certify_averaged(
        [0.5, 0.5], z, z, z[:2], np.ones((2, 1)), objective=lambda t: abs(t[..., 0]),
        theta_star=[0.0], tau=1.0, beta=0.5,
    )  # fmt: skip
    assert "Averaged form" in {check.result for check in moved.failures}


def sampled_gaps(power, beta, tau, cap, seed, steps=400, runs=30):
    """Absolute values that one point fits: the mean gap of x_k, and what the bound needs."""
    rng = np.random.default_rng(seed)
    A, star = rng.normal(size=(6, 3)), rng.normal(size=3)
    start = star + 2.0 * rng.normal(size=3)
    gaps = np.zeros(steps + 1)
    for _ in range(runs):
        z = x = start
        for k in range(steps):
            gaps[k] += abs(A @ (x - star)).mean() / runs
            theta, row = (1.0 - beta) * z + beta * x, A[rng.integers(6)]
            g = np.sign(row @ (theta - star)) * row
            above = max(abs(row @ (theta - star)) + g @ (z - theta), 0.0)
            z = z - min(tau * above / max(g @ g, 1e-300), cap) * g
            x = x + (power + 1.0) / (k + power + 1.0) * (z - x)
        gaps[steps] += abs(A @ (x - star)).mean() / runs
    lengths = np.linalg.norm(A, axis=1)
    return gaps, {"G": lengths.max(), "dist0_sq": float((start - star) @ (start - star))}


@pytest.mark.parametrize(("power", "beta"), [(0.0, 0.0), (0.0, 0.9), (8.0, 0.9), (3.0, 0.5)])
@pytest.mark.parametrize(("tau", "cap"), [(1.0, np.inf), (1.5, 0.05)])
def test_theorem_s(power, beta, tau, cap):
    gaps, constants = sampled_gaps(power, beta, tau, cap, seed=1)
    promise = theory.averaged_sampled(**constants, tau=tau, power=power, least_cap=cap)
    k = np.arange(1, len(gaps))
    assert (gaps[1:] <= promise.bound(k)).all()
    assert gaps[-1] < 0.3 * gaps[0]


def test_order_of_theorem_s():
    """(p + 1) / sqrt((2 p + 1) k): 1 for plain averages, 2.18 for p = 8."""
    for power in (0.0, 1.0, 8.0):
        promise = theory.averaged_sampled(G=1.0, dist0_sq=1.0, power=power)
        limit = (power + 1.0) / (2.0 * power + 1.0) ** 0.5
        assert promise.bound(10**6) * 1e3 == pytest.approx(limit, rel=1e-3)
        r = [1.0]
        for m in range(2, 51):  # the weights of the average, from w_k literally
            w = (power + 1.0) / (m - 1.0 + power + 1.0)
            r.append(w * sum(r) / (1.0 - w))
        want = np.sqrt(np.sum(np.square(r))) / np.sum(r)
        assert promise.bound(50) == pytest.approx(want, rel=1e-9)


def run_of_the_default(rng, steps=400, **options):
    """HeavyStep on all data of a convex problem, from where it began to where rounding begins."""
    value, gradient, star = problem(rng)
    beta, least = float(rng.choice([0.0, 0.5, 0.9])), float(value(star))
    theta = torch.tensor(star + 3.0 * rng.normal(size=len(star)), requires_grad=True)
    opt = HeavyStep([theta], momentum=beta, lower_bound=least, diagonal=None, **options)
    zs, thetas, gradients, a = [theta.detach().numpy().copy()], [], [], []
    xs = zs.copy()
    for _ in range(steps):
        here = theta.detach().numpy().copy()
        g = gradient(here)
        if float(g @ g) < 1e-20 or value(here) - least < 1e-10 * (1.0 + abs(least)):
            break
        theta.grad = torch.from_numpy(g)
        opt.step(loss=float(value(here)))
        lead, there = opt.state[theta]["lead"].numpy(), theta.detach().numpy()
        zs.append(there + beta * lead)
        xs.append(there - (1.0 - beta) * lead)
        thetas.append(here)
        gradients.append(g)
        a.append(float(opt.info.step))
    return certify_averaged(
        a, zs, xs, thetas, gradients, objective=value, theta_star=star,
        tau=1.0 if options else 16 / (8 + beta), beta=beta,
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore:the gradient has norm")  # as that of absolute values has
def test_a_certified_run_keeps_theorem_a_throughout():
    """And one that is not does not: its first steps grow too fast."""
    rng = np.random.default_rng(5)
    assert all(run_of_the_default(rng, certified=True).holds for _ in range(60))
    rng = np.random.default_rng(5)
    assert not all(run_of_the_default(rng).holds for _ in range(60))
