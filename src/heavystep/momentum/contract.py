"""What a momentum form is: how one step size and the gradient move one parameter.

The formulas are pure arithmetic on one element; drivers call them on tensors, on numpy arrays and,
element by element, inside numba kernels. With a constant step size several forms agree; once it
varies from step to step they do not, which is the main source of silent errors in this field.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


def along_gradient(buffer: Any, gradient: Any, momentum: Any) -> Any:
    """The direction of a form whose step size multiplies the gradient alone."""
    return gradient


def by_the_step(step: Any, momentum: Any, decay: Any) -> Any:
    """The factor of decoupled weight decay, 1 - gamma lambda."""
    return 1.0 - step * decay


@dataclass(frozen=True, eq=False)
class Form:
    """A momentum form. Make one at the end of its file.

    >>> plain = Form("plain", "unused", "none", "", lambda b, g, step, beta, w: (-step * g, b))
    >>> plain.move(0.0, 2.0, 0.25, 0.9, 1.0)
    (-0.5, 0.0)
    """

    name: str
    buffer: str
    """What the state of a parameter is called in a checkpoint. It starts at 0."""
    formula: str
    r"""The update in LaTeX, one line."""
    reference: str
    move: Callable[[Any, Any, Any, Any, Any], tuple[Any, Any]]
    """From (buffer, gradient, step, momentum, weight) to (motion of the parameter, new buffer)."""
    direction: Callable[[Any, Any, Any], Any] = along_gradient
    """From (buffer, gradient, momentum) to what the step size multiplies."""
    shrink: Callable[[Any, Any, Any], Any] = by_the_step
    """From (step, momentum, decay) to what decoupled weight decay multiplies a parameter by."""
    averages: bool = False
    """Whether it uses the weight: that of the next point in an average, which the rule gives."""
    version: int = 1
    """To be raised when the same numbers go in and others come out; part of the key of runs."""
