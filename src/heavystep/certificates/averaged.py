"""Theorem A along a run of averaged heavy ball: its Lyapunov function at every step."""

from collections.abc import Callable
from typing import Any

import numpy as np

from heavystep.arrays import Array
from heavystep.certificates.check import TINY, Certificate, Check
from heavystep.certificates.run import ROUNDINGS
from heavystep.momentum import weight_of_next
from heavystep.rules.heavystep import POWER
from heavystep.theory import conditions
from heavystep.theory.own import THEOREM_A, Averaged, averaged


def certify_averaged(
    a: Any,
    z: Any,
    x: Any,
    theta: Any,
    gradients: Any,
    *,
    objective: Callable[[Array], Array],
    theta_star: Any,
    tau: float,
    beta: float,
    power: float = POWER,
    diagonal: Any = 1.0,
    level_gap: float = 0.0,
) -> Certificate:
    r"""Check a run against Theorem A (:func:`heavystep.theory.averaged`), step by step.

    Five checks: the points are those of averaged heavy ball with these weights; no step is longer
    than tau Polyak steps; steps grow slowly enough; V never increases; and F(x_k) - F* is below
    its bound. The theorem is about the full loss: a run on samples may fail, and then proves
    nothing.

    Args:
        a: (K,) steps a_k by which z moved.
        z: (K + 1, d) points z_0 .. z_K.
        x: (K + 1, d) averages, x_0 = z_0.
        theta: (K, d) points where gradients were taken.
        gradients: (K, d) gradients g_k.
        objective: F, takes points (..., d).
        theta_star: (d,) a minimiser of F.
        tau: length that is claimed, in (0, 2).
        beta: momentum, in [0, 1).
        power: p of the weights.
        diagonal: D, a number or (d,), > 0; the same at every step.
        level_gap: F* - l >= 0 where the level of the run was l.

    Raises:
        ValueError: a constant is out of range, shapes do not fit, or an entry is not finite.

    >>> z, g = [[2.0], [1.0]], [[2.0]]  # of t^2 / 2, half a Polyak step of it: a = 1/2
    >>> found = certify_averaged([0.5], z, z, z[:1], g, objective=lambda t: 0.5 * t[..., 0]**2,
    ...                          theta_star=[0.0], tau=1.0, beta=0.9)
    >>> found.holds, found["Theorem A"].quantity
    (True, 'V_{k+1} = ||z_{k+1} - x*||^2 + L_{k+1} (F(x_k) - F*)')
    """
    promise = averaged(tau=tau, beta=beta, power=power)
    a, z, x, theta, g, star, D = conditions.finite_arrays(
        THEOREM_A, a=a, z=z, x=x, theta=theta, gradients=gradients, theta_star=theta_star,
        diagonal=diagonal,
    )  # fmt: skip
    steps, dim = len(a), star.shape
    if not (z.shape == x.shape == (steps + 1, *dim) and theta.shape == g.shape == (steps, *dim)):
        raise ValueError(f"{THEOREM_A} needs K steps, K + 1 points z and x, and K points theta")
    conditions.require(THEOREM_A, bool((D > 0.0).all()), "diagonal > 0", least=float(D.min()))
    least, near, before = float(objective(star)), objective(theta), objective(x[:-1])
    unit, size = ROUNDINGS * float(np.finfo(float).eps), sum(abs(p).max() for p in (z, x, star))
    blur = unit * (abs(near) + abs(before) + abs(least))
    blur = blur + unit * size * np.sqrt((g * g).sum(axis=-1))
    gap, moved = near - least + level_gap, a * (g * g / D).sum(axis=-1)
    k, error = np.arange(steps), form_error(a, z, x, theta, g / D, promise)
    checks = (
        Check("Averaged form", "error of z, x or theta", k, error, np.full(steps, unit * size)),
        Check(f"{THEOREM_A}, length", "a_k ||g_k||^2 <= tau (F(theta_k) - l)", k, moved, tau * gap,
              tau * blur + unit * moved + TINY),
    )  # fmt: skip
    try:
        L = promise.weights(a)
    except ValueError:
        return Certificate((*checks, too_fast(a, promise)), asked=(THEOREM_A,))
    S = before - least
    V = (D * (z - star) ** 2).sum(axis=-1) + np.append(0.0, L * S)
    rounding = unit * (V[:-1] + V[1:] + D.max() * size**2)
    rounding = rounding + np.append(0.0, L)[:-1] * blur + L * blur
    bound = promise.bound(a, dist0_sq=V[0], level_gap=level_gap)
    names = "V_{k+1} = ||z_{k+1} - x*||^2 + L_{k+1} (F(x_k) - F*)"
    return Certificate((
        *checks,
        Check(f"{THEOREM_A}, growth", "L_{k+1} >= 0", k, L, np.zeros(steps), lower=True),
        Check(THEOREM_A, names, k, V[1:], V[:-1] + tau * level_gap * a, rounding),
        Check(THEOREM_A, "F(x_k) - F*", k, S, bound, blur),
    ), asked=(THEOREM_A,))  # fmt: skip


def form_error(a: Array, z: Array, x: Array, theta: Array, pull: Array, form: Averaged) -> Array:
    """(K,) the largest error of theta, of the average and of the move of z."""
    w = weight_of_next(np.arange(len(a)), form.power)[:, None]
    parts = (
        theta - (1.0 - form.beta) * z[:-1] - form.beta * x[:-1],
        x[1:] - x[:-1] - w * (z[1:] - x[:-1]),
        z[1:] - z[:-1] + a[:, None] * pull,
    )
    error: Array = np.maximum(abs(np.stack(parts)).max(axis=(0, 2)), abs(x[0] - z[0]).max())
    return error


def too_fast(a: Array, promise: Averaged) -> Check:
    """The growth of steps that leave no V, against what is always allowed."""
    k = np.arange(1, len(a))
    ratio = np.divide(a[1:], a[:-1], out=np.full(len(k), np.inf), where=a[:-1] > 0.0)
    limit = np.append(ratio[:1], promise.growth(k[1:])) if len(k) > 1 else ratio
    return Check(f"{THEOREM_A}, growth", "a_k / a_{k-1}", k, ratio, limit, 1e-12 * limit)
