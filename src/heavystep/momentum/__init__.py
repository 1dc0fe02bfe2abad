"""Momentum forms: how a step size and a gradient move a parameter, one file each; and diagonals."""

from heavystep.momentum.averaged import AVERAGED, POWER, share_of_next
from heavystep.momentum.contract import Form
from heavystep.momentum.diagonal import ADAM, Diagonal
from heavystep.momentum.exponential_average import EXPONENTIAL_AVERAGE
from heavystep.momentum.heavy_ball import HEAVY_BALL
from heavystep.momentum.nesterov import NESTEROV
from heavystep.momentum.torch_buffer import TORCH_BUFFER

__all__ = [
    "ADAM",
    "AVERAGED",
    "EXPONENTIAL_AVERAGE",
    "HEAVY_BALL",
    "NESTEROV",
    "POWER",
    "TORCH_BUFFER",
    "Diagonal",
    "Form",
    "share_of_next",
]
