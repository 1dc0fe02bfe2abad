"""A toy rule that passes its memory on: the step of this batch was decided by the last one."""

from heavystep.methods import Method
from heavystep.rules import Rule, Search, batch_is_finite


def start(constants, memory, seen):
    finite = batch_is_finite(seen.loss, seen.grad_sqnorm)
    return Search(memory.next_step, finite, capped=False)


def remember(constants, memory, seen, search):
    return 0.1 / (1.0 + memory.before), seen.grad_sqnorm, memory.last


HISTORY = Rule(
    name="history",
    formula=r"\gamma_{k+1} = 1 / (10 + 10 \|g_{k-2}\|^2)",
    reference="a toy",
    options=(),
    start=start,
    memory={"next_step": 0.1, "last": 1.0, "before": 2.0},
    remember=remember,
)
METHOD = Method("History", "toy", "Looks two batches back.", HISTORY)
