r"""Heavy ball: past displacements keep the length that they were taken with.

.. math:: \theta_{k+1} = \theta_k - \gamma_k g_k + \beta_k (\theta_k - \theta_{k-1}),
          \qquad \theta_{-1} = \theta_0
"""

from typing import Any

from heavystep.momentum.contract import Form


def move(buffer: Any, gradient: Any, step: Any, momentum: Any, weight: Any) -> tuple[Any, Any]:
    """The buffer is the displacement theta_k - theta_{k-1}."""
    motion = momentum * buffer - step * gradient
    return motion, motion


HEAVY_BALL = Form(
    name="heavy ball",
    buffer="displacement",
    formula=r"\theta_{k+1} = \theta_k - \gamma_k g_k + \beta_k (\theta_k - \theta_{k-1})",
    reference="Polyak (1964); Zhang, Shi and Gu, eq. (shb)",
    move=move,
)
