r"""Momentum forms and diagonal metrics: the motion of parameters from step size and gradient.

The formulas are arithmetic on one element; the drivers call them on tensors, on numpy arrays and
inside numba kernels. With a constant step size several forms agree. Once it varies they do not,
which is the main source of silent errors in this field.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Pair = tuple[Any, Any]


@dataclass(frozen=True, eq=False)
class Form:
    """A momentum form: how it moves one parameter.

    >>> plain = Form("plain", "unused", "none", "", lambda b, g, step, beta, w: (-step * g, b))
    >>> plain.move(0.0, 2.0, 0.25, 0.9, None)
    (-0.5, 0.0)
    """

    name: str
    buffer: str
    """The name of a parameter's state in a checkpoint. It starts at 0."""
    formula: str
    r"""The update in LaTeX, one line."""
    reference: str
    move: Callable[[Any, Any, Any, Any, Any], Pair]
    """From (buffer, gradient, step, momentum, weight) to (motion of the parameter, new buffer). The
    step is divided by the diagonal, if the method has one; the weight is that of the rule's
    :class:`~heavystep.rules.Search`."""
    direction: Callable[[Any, Any, Any], Any] = lambda buffer, gradient, momentum: gradient
    """From (buffer, gradient, momentum) to what the step size multiplies."""
    shrink: Callable[[Any], Any] = lambda amount: 1.0 - amount
    """The factor of decoupled weight decay, from gamma lambda, or from what the rule puts in the
    place of gamma (``decay`` of its :class:`~heavystep.rules.Search`)."""
    averages: bool = False
    """True: it uses the weight, which the rule then must give. Weight decay then shrinks the
    buffer, too: theta, z and x are multiplied by the same factor."""


def exponential(old: Any, new: Any, keeping: Any) -> Any:
    """An exponential average; ``keeping`` is the weight of the past.

    >>> exponential(2.0, 6.0, 0.75)
    3.0
    """
    return keeping * old + (1.0 - keeping) * new


def _heavy_ball(buffer: Any, gradient: Any, step: Any, momentum: Any, weight: Any) -> Pair:
    motion = momentum * buffer - step * gradient
    return motion, motion


HEAVY_BALL = Form(
    name="heavy ball",
    buffer="displacement",
    formula=r"\theta_{k+1} = \theta_k - \gamma_k g_k + \beta_k (\theta_k - \theta_{k-1})",
    reference="Polyak (1964); Zhang, Shi and Gu, eq. (shb)",
    move=_heavy_ball,
)
"""Past displacements keep the length that they were taken with; theta_{-1} = theta_0."""


def _nesterov(buffer: Any, gradient: Any, step: Any, momentum: Any, weight: Any) -> Pair:
    pulled = step * gradient
    ahead = momentum * buffer - pulled
    return momentum * ahead - pulled, ahead


NESTEROV = Form(
    name="Nesterov",
    buffer="velocity",
    formula=r"b_{k+1} = \beta_k b_k - \gamma_k g_k, \quad "
    r"\theta_{k+1} = \theta_k - \gamma_k g_k + \beta_k b_{k+1}",
    reference="Berrada et al. (2020), ALI-G",
    move=_nesterov,
)
"""Nesterov's look-ahead with the step size inside the buffer."""


def _summed(buffer: Any, gradient: Any, momentum: Any) -> Any:
    return momentum * buffer + gradient


def _torch_buffer(buffer: Any, gradient: Any, step: Any, momentum: Any, weight: Any) -> Pair:
    summed = _summed(buffer, gradient, momentum)
    return -step * summed, summed


TORCH_BUFFER = Form(
    name="torch buffer",
    buffer="momentum_buffer",
    formula=r"d_k = \beta_k d_{k-1} + g_k, \quad \theta_{k+1} = \theta_k - \gamma_k d_k",
    reference="torch.optim.SGD",
    move=_torch_buffer,
    direction=_summed,
)
"""The buffer of ``torch.optim.SGD``: the step size multiplies all past gradients anew."""


def _ema_buffer(buffer: Any, gradient: Any, step: Any, momentum: Any, weight: Any) -> Pair:
    average = exponential(buffer, gradient, momentum)
    return -step * average, average


EXPONENTIAL_AVERAGE = Form(
    name="exponential average",
    buffer="average_gradient",
    formula=r"d_k = \beta_k d_{k-1} + (1 - \beta_k) g_k, \quad "
    r"\theta_{k+1} = \theta_k - \gamma_k d_k",
    reference="Schaipp et al. (2024), MoMo",
    move=_ema_buffer,
    direction=exponential,
)
"""An exponential average of gradients as in Adam and MoMo, without a correction of its bias."""


def weight_of_next(count: Any, power: float) -> Any:
    r"""Weight of the next point in an average of ``count`` others.

    .. math:: \bar\theta_k = \bar\theta_{k-1} + \frac{p + 1}{k + p + 1}
              (\theta_k - \bar\theta_{k-1}), \qquad k = 0, 1, \dots

    with p = ``power`` and k = ``count``: weights that grow as k^p, so that the beginning is
    forgotten at a rate that needs no horizon. p = 0 is the mean of all points.

    >>> [weight_of_next(k, 0.0) for k in range(3)], weight_of_next(0, 8.0)
    ([1.0, 0.5, 0.3333333333333333], 1.0)

    Reference: Shamir and Zhang (2013), Section 4, arXiv:1212.1824 (there eta = p).
    """
    return (power + 1.0) / (count + (power + 1.0))


def _averaged(buffer: Any, gradient: Any, step: Any, momentum: Any, weight: Any) -> Pair:
    pulled = step * gradient
    lead = buffer - pulled
    return momentum * weight * lead - (1.0 - momentum) * pulled, (1.0 - weight) * lead


AVERAGED = Form(
    name="averaged heavy ball",
    buffer="lead",
    formula=r"z_{k+1} = z_k - a_k D_k^{-1} g_k, \quad x_{k+1} = x_k + w_k (z_{k+1} - x_k), \quad "
    r"\theta_{k+1} = (1 - \beta)\,z_{k+1} + \beta\,x_{k+1}",
    reference="Schedule-Free SGD of Defazio et al. (2024), evaluated where gradients are taken",
    move=_averaged,
    shrink=lambda amount: 1.0 / (1.0 + amount),  # proximal
    averages=True,
)
r"""Heavy ball that averages: gradients are taken near the average x of the points z.

The step a_k is the length that z moves in pulls; theta moves by 1 - beta + beta w_k of it at once.
One vector is kept, the lead z - x. Nothing is to be switched on for an evaluation: theta is the
iterate. Weight decay divides theta, z and x before the move by 1 + lambda times what the rule says:
a proximal step, which never turns a parameter round.
"""

BETA2, EPS = 0.999, 1e-20
"""beta_2 is Adam's. Its 1e-8 has the unit of a gradient; squares of 1e-20 leave float32, and an
element that small does not move."""
SQUARES, SQUARE_WEIGHT = "average_square", "square_weight"
"""Names of a parameter's state in a checkpoint; both start at 0."""


def second_moment(squares: Any, square: Any) -> Any:
    r"""The average of squared gradients, v_k = beta_2 v_{k-1} + (1 - beta_2) g_k^2.

    The same average of 1 is its weight 1 - beta_2^{k+1}, by which the bias is corrected.
    """
    return exponential(squares, square, BETA2)


def divisor(squares: Any, weight: Any) -> Any:
    """D_k: the root of the mean square, and a little more, so that it can be divided by."""
    return EPS + (squares / weight) ** 0.5


_DIAGONAL = (
    r"D_k = \varepsilon + \sqrt{v_k / (1 - \beta_2^{k+1})}, \quad "
    r"v_k = \beta_2 v_{k-1} + (1 - \beta_2) "
)
DIAGONALS = {
    "element": _DIAGONAL + "g_k^2",
    "tensor": _DIAGONAL + r"\,\mathrm{mean}(g_k^2) \text{ of each tensor}",
}
"""Diagonal metrics by name: Adam's second moment of each element, or one of each tensor.

Each parameter moves with the step divided by its own entry of D_k, and squared norms of the rule
are g' D_k^-1 g and d' D_k^-1 d.
"""
METRIC = (
    "Squared norms are in the metric of the diagonal, g' D_k^-1 g, and the step of a parameter is "
    "divided by its entry of D_k."
)
"""The sentence that pages add to every method with a diagonal."""
