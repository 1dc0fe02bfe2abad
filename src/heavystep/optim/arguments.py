"""What ``step()`` may be called with."""

from typing import TYPE_CHECKING, Any

from heavystep.optim.closures.closure import Closure

if TYPE_CHECKING:
    from heavystep.optim.optimizer import RuleOptimizer


def check_arguments(
    optimizer: "RuleOptimizer",
    closure: Closure | None,
    loss: Any,
    lower_bound: Any,
    *,
    handed_over: bool,
) -> None:
    """Refuse a call of ``step`` from which the rule does not learn, once, what it reads.

    Args:
        optimizer: whose step is called.
        closure: an argument of ``step``.
        loss: an argument of ``step``.
        lower_bound: an argument of ``step``.
        handed_over: whether a loss was handed over before.
    """
    rule, name = optimizer.method.rule, type(optimizer).__name__
    if lower_bound is not None and "lower_bound" not in rule.reads:
        raise TypeError(f"lower_bound means nothing to {name}, whose step does not use it")
    if rule.searches and closure is None:
        raise needs_closure(optimizer)
    if "loss" in rule.reads and closure is None and loss is None and not handed_over:
        raise ValueError(
            f"{name}.step() needs the loss: call step(loss=loss) after loss.backward(), or "
            "step(closure), or where a framework calls step(), hand_over(loss) before (see "
            "heavystep.integrations)"
        )
    if loss is not None and handed_over:
        raise ValueError("step() takes loss= or what was handed over, not both")
    if closure is not None and loss is not None:
        raise ValueError("step() takes a closure or loss=, not both")
    if closure is not None and not callable(closure):
        raise TypeError(
            f"closure must be callable, got {closure!r}: pass the loss as step(loss=loss)"
        )


def needs_closure(optimizer: "RuleOptimizer") -> TypeError:
    """The refusal of a single loss, where several are wanted."""
    return TypeError(
        f"{type(optimizer).__name__} evaluates the loss at trial points and needs "
        "step(closure); SHBPolyak works with step(loss=loss) and hand_over(loss)"
    )
