"""Every toy with its literal loop, and how to register it for a while."""

from contextlib import contextmanager
from typing import NamedTuple

from heavystep import methods
from tests.toys import cautious, forgiving, half_and_half, history, literal


class Toy(NamedTuple):
    """A method and what it does in plain words."""

    method: methods.Method
    options: dict
    choose: object
    """Makes the literal rule, with nothing to remember yet."""
    form: object


TOYS = {
    "rule": Toy(
        cautious.METHOD,
        {"c": 0.7, "first_cap": 1.5},
        lambda: literal.cautious_steps(0.7, 1.5),
        literal.heavy_ball,
    ),
    "memory that is passed on": Toy(history.METHOD, {}, literal.history_steps, literal.heavy_ball),
    "line search": Toy(
        forgiving.METHOD,
        {"c": 0.5, "first": 0.3},
        lambda: literal.forgiving_steps(0.5, 0.3),
        literal.heavy_ball,
    ),
    "momentum form": Toy(
        half_and_half.METHOD,
        {"c": 1.2, "max_step": 0.8, "scaling": "plain", "steps_per_epoch": None},
        lambda: literal.polyak_steps(1.2, 0.8),
        literal.half_and_half,
    ),
    "all three": Toy(
        half_and_half.SEARCHING,
        {"c": 0.5, "first": 0.3},
        lambda: literal.forgiving_steps(0.5, 0.3),
        literal.half_and_half,
    ),
}


@contextmanager
def registered():
    """The toys are methods like all others within."""
    for toy in TOYS.values():
        methods.register(toy.method)
    try:
        yield
    finally:
        for toy in TOYS.values():
            del methods.METHODS[toy.method.name]
