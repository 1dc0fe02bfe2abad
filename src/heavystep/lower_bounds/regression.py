"""Bounds of losses of regression."""

import math
from typing import Any

import torch
from torch import Tensor

from heavystep import validation
from heavystep.lower_bounds.classification import REDUCTIONS

LOG_SQRT_TWO_PI = 0.5 * math.log(2.0 * math.pi)


def gaussian_nll(
    variance_floor: float | Tensor = 1e-6,
    *,
    full: bool = False,
    reduction: str = "mean",
    elements: int | None = None,
) -> Any:
    r"""Bound of the negative log-likelihood of a normal distribution whose variance has a floor.

    .. math:: \tfrac12 \log v_{\min} \; (+ \tfrac12 \log 2\pi)

    of the loss :math:`\tfrac12 (\log v + (y - \mu)^2 / v)`, v >= v_min, reached at mu = y and
    v = v_min; it may be negative. The floor of ``torch.nn.GaussianNLLLoss`` is its ``eps``. A loss
    far above its bound makes long steps: a floor that is near the true variance of the noise is
    better, and then belongs into the model too.

    Args:
        variance_floor: v_min, > 0.
        full: whether the loss has the constant; torch's ``full``.
        reduction: ``"mean"`` or ``"sum"``; as of the loss.
        elements: how many elements a sum has; only for ``"sum"``.

    Returns:
        A number; a tensor if ``variance_floor`` or ``elements`` is one.

    >>> round(gaussian_nll(1e-6), 4), round(gaussian_nll(1e-6, full=True), 4)
    (-6.9078, -5.9888)
    >>> round(gaussian_nll(0.25, reduction="sum", elements=8), 4)
    -5.5452
    """
    validation.choice("full", full, (False, True))
    half_log: Any
    if isinstance(variance_floor, Tensor):
        half_log = 0.5 * torch.log(variance_floor.detach())
    else:
        validation.real("variance_floor", variance_floor, validation.POSITIVE)
        half_log = 0.5 * math.log(variance_floor)
    return _reduced(half_log + (LOG_SQRT_TWO_PI if full else 0.0), reduction, elements)


def squared_error(
    noise_variance: float | Tensor = 0.0,
    *,
    factor: float = 1.0,
    reduction: str = "mean",
    elements: int | None = None,
) -> Any:
    r"""Floor of the squared error of targets with noise of a known variance.

    .. math:: a\,\sigma^2 \qquad\text{for the loss}\qquad a\,(\hat y - y)^2

    Without noise this is 0. With noise it bounds the *expected* loss of everything that knows the
    inputs only; a small batch may lie below by chance, and takes no gradient step then. A model
    that learns the noise by heart lies below always: the paper's rules (``scaling="practical"``,
    say) stop there, while steady steps, the default, no longer believe in the floor once the
    average of the losses is below it.

    Args:
        noise_variance: sigma^2, >= 0.
        factor: a, >= 0; 1/2 if the loss is half the square.
        reduction: ``"mean"`` or ``"sum"``; as of the loss.
        elements: how many elements a sum has; only for ``"sum"``.

    Returns:
        A number; a tensor if ``noise_variance`` or ``elements`` is one.

    >>> squared_error(0.25), squared_error(0.25, factor=0.5, reduction="sum", elements=64)
    (0.25, 8.0)
    """
    validation.real("factor", factor, validation.NON_NEGATIVE)
    if isinstance(noise_variance, Tensor):
        noise_variance = noise_variance.detach()
    else:
        validation.real("noise_variance", noise_variance, validation.NON_NEGATIVE)
    return _reduced(factor * noise_variance, reduction, elements)


def _reduced(bound: Any, reduction: str, elements: Any) -> Any:
    """The bound of the loss, from that of one element."""
    validation.choice("reduction", reduction, REDUCTIONS)
    if reduction == "mean":
        if elements is not None:
            raise ValueError("elements is for reduction='sum': a mean does not depend on it")
        return bound
    if not isinstance(elements, Tensor):
        if elements is None:
            raise ValueError("elements must be given with reduction='sum': how many are added up")
        validation.integer("elements", elements, least=0)
    return elements * bound
