"""The Polyak step size."""

from typing import Any

from heavystep.rules.primitives import is_finite, maximum, minimum, where


def polyak_step(loss: Any, grad_sqnorm: Any, lower_bound: Any, c: Any, kappa: Any, cap: Any) -> Any:
    r"""Capped Polyak step for one sampled loss, before the outer multiplier.

    .. math:: \gamma_k / \eta_k = \min\Big\{
              \kappa\,\frac{f(\theta_k; x_k) - \ell_k}{c\,\|\nabla f(\theta_k; x_k)\|^2},\
              \mathrm{cap}_k\Big\}

    with :math:`f(\theta_k; x_k)` = ``loss``, :math:`\ell_k` = ``lower_bound`` and
    :math:`\|\nabla f(\theta_k; x_k)\|^2` = ``grad_sqnorm``. A vanished gradient gives
    step 0, so that only momentum moves the iterate, and so does a loss at or below its
    lower bound. A NaN among the arguments gives NaN; see :func:`batch_is_finite`.

    Args:
        loss: sampled loss f(theta_k; x_k).
        grad_sqnorm: squared norm of its gradient, >= 0.
        lower_bound: f*(x_k) or any lower bound of the sampled loss.
        c: divisor, > 0; Theorems 1 and 2 ask for c >= 1/2 and c > 1/2.
        kappa: scaling of the rule, from :func:`heavystep.rules.kappa`.
        cap: largest step, from :func:`heavystep.rules.step_cap`.

    >>> polyak_step(loss=3.0, grad_sqnorm=8.0, lower_bound=1.0, c=0.5, kappa=0.5, cap=10.0)
    0.25
    >>> polyak_step(loss=3.0, grad_sqnorm=0.0, lower_bound=1.0, c=0.5, kappa=0.5, cap=10.0)
    0.0

    Reference: Zhang, Shi and Gu, eq. (shb-ps); Section 4 with kappa = 1.
    """
    slope = c * grad_sqnorm
    vanished = slope == 0.0
    # `where` evaluates both branches: divide by 1 where the gradient vanished.
    ratio = kappa * maximum(loss - lower_bound, 0.0) / where(vanished, 1.0, slope)
    return where(vanished, 0.0, minimum(ratio, cap))


def batch_is_finite(loss: Any, grad_sqnorm: Any) -> Any:
    """Whether a batch may be used; one with a non-finite loss or gradient is refused.

    >>> batch_is_finite(1.0, 2.0), batch_is_finite(float("nan"), 2.0)
    (True, False)
    """
    return is_finite(loss) & is_finite(grad_sqnorm)
