"""A toy line search: a trial may be as bad as an average of past losses, less some decrease."""

from heavystep import validation
from heavystep.methods import Method
from heavystep.rules import Option, Rule, Search, batch_is_finite, is_finite, maximum, where
from heavystep.rules.contract import constants


def start(constants, memory, seen):
    finite = batch_is_finite(seen.loss, seen.grad_sqnorm)
    active = finite & (seen.grad_sqnorm > 0.0)
    return Search(0.0, finite, False, where(active, constants.first, 0.0), 0, active)


def advance(constants, memory, seen, search, trial_loss):
    level = maximum(memory.level, seen.loss) - constants.c * search.trial * seen.grad_sqnorm
    accepted = is_finite(trial_loss) & (trial_loss <= level)
    trials = search.trials + 1
    trial, over = where(accepted, search.trial, search.trial / 3.0), trials >= 60
    active = where(accepted | over, False, True)
    return Search(where(accepted, trial, 0.0), accepted, False, trial, trials, active)


def remember(constants, memory, seen, search):
    return (0.75 * memory.level + 0.25 * seen.loss,)


FORGIVING = Rule(
    name="forgiving",
    formula=r"f(\theta_k - t g_k) \le \max\{C_k, f_k\} - c\,t\,\|g_k\|^2",
    reference="a toy",
    options=(
        Option("c", 0.3, validation.OPEN_UNIT, "sufficient decrease, in (0, 1)."),
        Option("first", 5.0, validation.POSITIVE, "first trial step, > 0."),
    ),
    reads=frozenset({"loss", "grad_sqnorm"}), resolve=constants("c", "first"),
    memory={"level": 0.0}, start=start, advance=advance, remember=remember,
)  # fmt: skip
METHOD = Method("Forgiving", "toy", "Accepts what an average of past losses allows.", FORGIVING)
