r"""The buffer of ``torch.optim.SGD``: the step size multiplies all past gradients anew.

.. math:: d_k = \beta_k d_{k-1} + g_k, \qquad \theta_{k+1} = \theta_k - \gamma_k d_k
"""

from typing import Any

from heavystep.momentum.contract import Form


def direction(buffer: Any, gradient: Any, momentum: Any) -> Any:
    """The new buffer."""
    return momentum * buffer + gradient


def move(buffer: Any, gradient: Any, step: Any, momentum: Any, weight: Any) -> tuple[Any, Any]:
    """The buffer is the sum d_{k-1} of past gradients."""
    summed = direction(buffer, gradient, momentum)
    return -step * summed, summed


TORCH_BUFFER = Form(
    name="torch buffer",
    buffer="momentum_buffer",
    formula=r"d_k = \beta_k d_{k-1} + g_k, \quad \theta_{k+1} = \theta_k - \gamma_k d_k",
    reference="torch.optim.SGD",
    move=move,
    direction=direction,
)
