"""A toy rule with a memory of two numbers: the largest squared norm seen, and a count of steps."""

from heavystep import validation
from heavystep.methods import Method
from heavystep.rules import Option, Rule, Search, batch_is_finite, maximum, minimum
from heavystep.rules.contract import constants


def start(constants, memory, seen):
    steepest = maximum(memory.steepest, seen.grad_sqnorm)
    gap = maximum(seen.loss - seen.lower_bound, 0.0)
    cap = constants.first_cap / (memory.count + 1.0) ** 0.5
    step = minimum(gap / (constants.c * steepest), cap)
    return Search(step, batch_is_finite(gap, seen.grad_sqnorm), capped=step == cap)


def remember(constants, memory, seen, search):
    return maximum(memory.steepest, seen.grad_sqnorm), memory.count + 1.0


CAUTIOUS = Rule(
    name="cautious",
    formula=r"\gamma_k = \eta_k \min\{(f_k - \ell_k) / (c \max_j \|g_j\|^2),\ a / \sqrt{k + 1}\}",
    reference="a toy",
    options=(
        Option("c", 0.5, validation.POSITIVE, "divisor, > 0."),
        Option("first_cap", 2.0, validation.POSITIVE, "cap of the first step, > 0.", symbol="a"),
        Option("lower_bound", 0.0, validation.FINITE, "lower bound of the loss."),
    ),
    resolve=constants("c", "first_cap"),
    memory={"steepest": 1e-30, "count": 0.0},
    start=start,
    remember=remember,
)
METHOD = Method("Cautious", "toy", "Takes no step that the steepest batch forbids.", CAUTIOUS)
