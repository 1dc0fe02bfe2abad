"""The minimiser of a logistic regression, or the reason why there is none."""

import numpy as np

from heavystep.arrays import Array, inner
from heavystep.problems.sigmoid import sigmoid

EPS = float(np.finfo(float).eps)


def fit_logistic(Z: Array, l2: float) -> Array:
    r"""The unique minimiser of :math:`\frac1n\sum_i \log(1 + e^{-z_i^\top\theta})` plus penalty.

    Newton's method from 0 with the penalty :math:`\frac{\lambda}2\|\theta\|^2`. Let :math:`\delta`
    be Newton's step and :math:`r = \max_i |z_i^\top\delta|` the most it changes a margin.

    *Damping.* Along :math:`t\delta` no second derivative grows faster than :math:`e^{rt}`, because
    that of the logistic loss satisfies :math:`|\ell'''| \le \ell''`. So F falls by at least
    :math:`\Delta^2 (t - (e^{rt} - 1 - rt)/r^2)`, with :math:`\Delta` Newton's decrement. This is
    largest, and positive, at :math:`t = \log(1 + r)/r`: the step taken. It needs no line
    search, and the method converges from anywhere when there is a minimiser.

    *Existence.* Without penalty, r < 1 proves that there is a minimiser. With weights
    :math:`p_i = 1/(1 + e^{z_i^\top\theta}) > 0`, Newton's equation says that
    :math:`\sum_i p_i (1 - (1 - p_i) z_i^\top\delta) z_i = 0`. For r < 1 all these coefficients are
    positive; and positive coefficients that cancel leave no direction that separates the data,
    even weakly. The method stops only at r <= 1e-9, far on the safe side, and gives up where
    rounding could hide a step of 1; see :func:`newton_step`. Conversely, a theta with every
    margin positive proves that there is no minimiser.

    Args:
        Z: (n, d) rows :math:`z_i = y_i a_i`.
        l2: :math:`\lambda \ge 0`.

    Raises:
        ValueError: there is no minimiser, or more than one, to working precision.
    """
    basis = orthonormal_basis(Z) if l2 == 0.0 else np.diag(1.0 / np.sqrt(np.mean(Z**2, 0) + l2))
    rows, penalty = Z @ basis, l2 * basis.T @ basis
    point = np.zeros(Z.shape[1])
    for _ in range(1000):
        if l2 == 0.0 and separates(basis @ point, Z):
            raise ValueError("no minimiser: the data are separable; use l2 > 0")
        step, resolved = newton_step(point, rows, penalty)
        if l2 == 0.0 and not resolved:
            break
        change = float(np.abs(rows @ step).max())
        if change <= 1e-9:
            point = point + step
            # One more step: what is then left is at rounding level.
            last, _ = newton_step(point, rows, penalty)
            theta: Array = basis @ (point + last)
            if stationary(theta, Z, l2):
                return theta
            break
        point = point + (np.log1p(change) / change) * step
    raise ValueError(
        "no minimiser to working precision: Newton's method stopped at margins of "
        f"{np.abs(rows @ point).max():.3g}; use a larger l2"
    )


def orthonormal_basis(Z: Array) -> Array:
    """A matrix T for which Z T has orthonormal columns. A rank of Z below d is refused.

    Without penalty the coordinates are free to choose. In these the Hessian is ill conditioned
    only if the weights p of the rows are.
    """
    n, dim = Z.shape
    lengths = np.linalg.norm(Z, axis=0)
    lengths = np.where(lengths > 0.0, lengths, 1.0)
    _, S, V = np.linalg.svd(Z / lengths, full_matrices=False)
    rank = int(np.sum(max(n, dim) * EPS * S[0] < S))
    if rank < dim:
        raise ValueError(f"no unique minimiser: A has rank {rank} < d = {dim}; use l2 > 0")
    basis: Array = V.T / S / lengths[:, None]
    return basis


def separates(theta: Array, Z: Array) -> bool:
    """Whether every margin is positive beyond rounding; zero rows do not count."""
    rounding = Z.shape[1] * EPS * (np.abs(Z) @ np.abs(theta))
    return bool(np.all((Z @ theta > rounding) | (inner(Z, Z) == 0.0)))


def newton_step(point: Array, rows: Array, penalty: Array) -> tuple[Array, bool]:
    """Newton's step with the penalty point.penalty.point / 2, and whether it is resolved.

    The relative error of the step is of the order of (n + d) eps times the condition number of
    the Hessian. Resolved means that this is below 0.01.
    """
    n, dim = rows.shape
    margins = rows @ point
    p, q = sigmoid(-margins), sigmoid(margins)
    hessian = (rows * (p * q)[:, None]).T @ rows / n + penalty
    gradient = penalty @ point - p @ rows / n
    # Not `solve`: with a tiny penalty a direction without data may be lost to rounding.
    step, _, _, curvature = np.linalg.lstsq(hessian, -gradient, rcond=dim * EPS)
    return step, bool(curvature[-1] > 100 * (n + dim) * EPS * curvature[0])


def stationary(theta: Array, Z: Array, l2: float) -> bool:
    """Whether each partial derivative of F is at the rounding level of its summands."""
    n, dim = Z.shape
    size, margins = np.abs(Z), Z @ theta
    p, q = sigmoid(-margins), sigmoid(margins)
    gradient = l2 * theta - p @ Z / n
    # The margins err by about eps |Z| |theta|, which moves the weights p by p q times that.
    summands = l2 * np.abs(theta) + (p + p * q * (size @ np.abs(theta))) @ size / n
    return bool(np.all(np.abs(gradient) <= 10 * (dim + np.sqrt(n)) * EPS * summands))
