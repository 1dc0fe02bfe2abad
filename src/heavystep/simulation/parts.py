"""What the kernel of the iteration is given, sorted by how long it lasts."""

from typing import Any, NamedTuple

from heavystep.arrays import Array
from heavystep.simulation.lanes import has_lanes
from heavystep.simulation.widths import One


class Kinds(NamedTuple):
    """The rule, the momentum form, the diagonal and how many seeds go at once, as types."""

    rule: Any
    form: Any
    diagonal: Any
    width: Any = One()
    """A kernel for few seeds is compiled without what only four need."""


class State(NamedTuple):
    """What a run carries from call to call; in a kernel, with an entry for each seed.

    A seed is a row of each array, and a column of the memory.
    """

    theta: Array
    buffer: Array
    """The momentum form's state of each parameter."""
    memory: Array
    """The rule's memory, in its order."""
    squares: Array
    """The average square of each gradient; empty without a diagonal."""
    weight: Array
    """The sum of the weights in those averages: one number, or none."""


class Room(NamedTuple):
    """Arrays that one call works with; first axes are seeds, but for ``wide``."""

    gradient: Array
    way: Array
    """What trials go along, if that is not the gradient."""
    divisors: Array
    """The diagonal; empty without one."""
    batch: Array
    work: Any
    """The workspace of the problem."""
    seen: Array
    """(seeds, 4) loss, lower bound and squared norm of the batch, and ||grad F||^2."""
    chosen: Array
    """(seeds, 3) step, momentum, and the weight of the next point in an average."""
    taken: Array
    """(seeds,) steps taken so far."""
    wide: Array
    """(6, seeds) the same numbers, the step and that weight, of seeds that go in fours."""
    drawn: Array
    """(seeds, steps) samples of some steps ahead."""


class Steps(NamedTuple):
    """The steps of one call."""

    first: int
    length: int
    """How many."""


class Scene(NamedTuple):
    """What stays fixed."""

    grid: Array
    """Steps after which metrics are recorded, increasing."""
    keys: Array
    """(seeds,) the stream of each seed."""
    n: int
    """Number of terms."""
    loss_eps: float
    """Relative rounding error of losses."""
    diagonal: Array
    """beta_2 and eps of the diagonal, if there is one."""
    kept: int
    """For how many steps a batch is kept."""
    overlap: bool
    """Whether the first half of a batch is the second half of the one before."""


has_lanes(State, "theta", "buffer", "squares", "weight", columns=("memory",))
