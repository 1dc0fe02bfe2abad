r"""Heavy ball that averages: the longer a run, the more of its past is in the momentum.

.. math:: z_{k+1} = z_k - \frac{\gamma_k}{1 - \beta_k}\,g_k, \qquad
          x_{k+1} = x_k + w_k (z_{k+1} - x_k), \qquad
          \theta_{k+1} = \theta_k - \gamma_k g_k + \beta_k w_k (z_{k+1} - x_k)

with z_0 = x_0 = theta_0. Where heavy ball adds beta times the last displacement, this adds beta w_k
times the way from the average x of the points z to the next of them; weights w_k come from the
rule. For a constant beta that is

.. math:: \theta_k = (1 - \beta)\,z_k + \beta\,x_k

so that gradients are taken near the average, where the noise of z is gone. A gradient moves theta
as under heavy ball, and z by all that heavy ball makes of it in the end, gamma / (1 - beta).
Nothing is to be switched on for an evaluation: theta is the iterate. One vector is kept, z - x.

Weight decay lambda goes as far as a gradient does: theta is divided by 1 + lambda gamma /
(1 - beta), and x and z move with it, before the step moves them. That is about the decay of
``torch.optim.SGD`` with the same momentum, but as a proximal step of (lambda/2) ||theta||^2 it
never turns a parameter round, however long a step is.
"""

from typing import Any

from heavystep.momentum.contract import Form

POWER = 8.0
"""Of the number of points, as which their weights grow in an average, unless another is given."""


def share_of_next(count: Any, power: float) -> Any:
    r"""How much of an average the next point becomes, after ``count`` others.

    .. math:: \bar\theta_k = \bar\theta_{k-1} + \frac{p + 1}{k + p + 1}
              (\theta_k - \bar\theta_{k-1}), \qquad k = 0, 1, \dots

    with p = ``power`` and k = ``count``: weights that grow as k^p, so that the beginning is
    forgotten at a rate that needs no horizon. p = 0 is the mean of all points; at p = 8 half of
    the weight is on the last 7% of them.

    >>> [share_of_next(k, 0.0) for k in range(3)], share_of_next(0, 8.0)
    ([1.0, 0.5, 0.3333333333333333], 1.0)

    Reference: Shamir and Zhang (2013), Section 4, arXiv:1212.1824 (there eta = p).
    """
    return (power + 1.0) / (count + (power + 1.0))


def in_the_end(pull: Any, momentum: Any) -> Any:
    """What heavy ball makes of a pull in the end, and z at once."""
    return pull / (1.0 - momentum)


def move(buffer: Any, gradient: Any, step: Any, momentum: Any, weight: Any) -> tuple[Any, Any]:
    """The buffer is the lead z_k - x_k of the last point over the average of all."""
    pull = step * gradient
    lead = buffer - in_the_end(pull, momentum)
    return momentum * weight * lead - pull, (1.0 - weight) * lead


def shrink(step: Any, momentum: Any, decay: Any) -> Any:
    """The factor of decoupled weight decay."""
    return 1.0 / (1.0 + in_the_end(step * decay, momentum))


AVERAGED = Form(
    name="averaged heavy ball",
    buffer="lead",
    formula=r"\theta_{k+1} = \theta_k - \gamma_k g_k + \beta_k w_k (z_{k+1} - x_k), \quad "
    r"z_{k+1} = z_k - \tfrac{\gamma_k}{1 - \beta_k} g_k, \quad "
    r"x_{k+1} = x_k + w_k (z_{k+1} - x_k)",
    reference="Schedule-Free SGD of Defazio et al. (2024), evaluated where gradients are taken",
    move=move,
    shrink=shrink,
    averages=True,
    version=2,
)
