r"""An exponential average of gradients, as in Adam and MoMo, without a correction of its bias.

.. math:: d_k = \beta_k d_{k-1} + (1 - \beta_k) g_k, \qquad \theta_{k+1} = \theta_k - \gamma_k d_k
"""

from typing import Any

from heavystep.momentum.contract import Form


def averaged(old: Any, new: Any, weight: Any) -> Any:
    """An exponential average: ``weight`` is that of the past.

    >>> averaged(2.0, 6.0, 0.75)
    3.0
    """
    return weight * old + (1.0 - weight) * new


def direction(buffer: Any, gradient: Any, momentum: Any) -> Any:
    """The new buffer."""
    return averaged(buffer, gradient, momentum)


def move(buffer: Any, gradient: Any, step: Any, momentum: Any, weight: Any) -> tuple[Any, Any]:
    """The buffer is the average d_{k-1} of past gradients."""
    average = direction(buffer, gradient, momentum)
    return -step * average, average


EXPONENTIAL_AVERAGE = Form(
    name="exponential average",
    buffer="average_gradient",
    formula=r"d_k = \beta_k d_{k-1} + (1 - \beta_k) g_k, \quad "
    r"\theta_{k+1} = \theta_k - \gamma_k d_k",
    reference="Schaipp et al. (2024), MoMo",
    move=move,
    direction=direction,
)
