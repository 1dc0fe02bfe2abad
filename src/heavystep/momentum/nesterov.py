r"""Nesterov's look-ahead with the step size inside the buffer, as in ALI-G.

.. math:: b_{k+1} = \beta_k b_k - \gamma_k g_k, \qquad
          \theta_{k+1} = \theta_k - \gamma_k g_k + \beta_k b_{k+1}
"""

from typing import Any

from heavystep.momentum.contract import Form


def move(buffer: Any, gradient: Any, step: Any, momentum: Any, weight: Any) -> tuple[Any, Any]:
    """The buffer is the sum b_k of past displacements."""
    pull = step * gradient
    ahead = momentum * buffer - pull
    return momentum * ahead - pull, ahead


NESTEROV = Form(
    name="Nesterov",
    buffer="velocity",
    formula=r"b_{k+1} = \beta_k b_k - \gamma_k g_k, \quad "
    r"\theta_{k+1} = \theta_k - \gamma_k g_k + \beta_k b_{k+1}",
    reference="Berrada et al. (2020), ALI-G",
    move=move,
)
