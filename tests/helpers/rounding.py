r"""How far two computations may be apart that add the same numbers in another order.

Ranks, micro-batches, parameter groups, a compiler, wider vector units and more threads change
the order of sums and nothing else. In a format with unit roundoff u = eps / 2, rounding errors of
n additions have random signs, and

.. math:: |\hat s - s| \le \lambda \sqrt n\, u \sum_i |t_i|

holds but for a chance of 2 exp(-lambda^2 / 2) (Higham and Mary, A New Approach to Probabilistic
Rounding Error Analysis, SIAM J. Sci. Comput. 41, 2019, Theorem 2.4). With lambda = 6 that is
3e-8 for each of the few thousand numbers that a test compares. Two orders of the same sum are
apart by at most twice as much, which is lambda sqrt(n) eps.
"""

import math

import torch

LAMBDA = 6.0
MOMENTUM = 0.9
ELEMENTARY = 10
"""Roundings besides those of sums: products, tanh, exp, log, the quotient that is the step."""


def of_a_sum(summands, dtype=torch.float32):
    """The relative difference of two orders of a sum of numbers of one sign, such as a loss.

    ``summands`` counts all additions in a row: those of the batch, and those of each layer whose
    outputs are added up.
    """
    return LAMBDA * math.sqrt(summands + ELEMENTARY) * torch.finfo(dtype).eps


def of_a_run(steps, summands, parameters, dtype=torch.float32):
    r"""The largest difference between parameters after some heavy-ball steps.

    A step theta + beta d - gamma g adds to the error of theta at most
    e = of_a_sum(summands) * size: the gradient is a sum of ``summands`` numbers, the step size is
    a quotient of two such sums, and no number in theta, d and gamma g is larger than ``size``,
    the largest of the parameters. Momentum goes on with every error, to e / (1 - beta) in all.
    Errors of different steps have random signs, so that those of ``steps`` steps add up to
    sqrt(steps) e / (1 - beta). The step sizes are those of a stable method, hence curvature lets
    no error grow.
    """
    size = max(1.0, float(torch.as_tensor(parameters).detach().abs().max()))
    return math.sqrt(steps) / (1.0 - MOMENTUM) * of_a_sum(summands, dtype) * size
