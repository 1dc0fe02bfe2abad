"""A toy momentum form, halfway between the gradient and its average, and methods that use it."""

from heavystep.methods import Method
from heavystep.momentum import Form
from heavystep.rules import POLYAK
from tests.toys.forgiving import FORGIVING


def direction(buffer, gradient, momentum):
    return 0.5 * gradient + 0.5 * (momentum * buffer + (1.0 - momentum) * gradient)


def move(buffer, gradient, step, momentum, weight):
    average = momentum * buffer + (1.0 - momentum) * gradient
    return -step * (0.5 * gradient + 0.5 * average), average


HALF_AND_HALF = Form(
    name="half and half",
    buffer="average",
    formula=r"d_k = \beta d_{k-1} + (1 - \beta) g_k, \quad "
    r"\theta_{k+1} = \theta_k - \gamma_k (g_k + d_k) / 2",
    reference="a toy",
    move=move,
    direction=direction,
)
METHOD = Method("HalfPolyak", "toy", "The Polyak step, half averaged.", POLYAK, HALF_AND_HALF)
SEARCHING = Method("HalfSearch", "toy", "A toy search, half averaged.", FORGIVING, HALF_AND_HALF)
