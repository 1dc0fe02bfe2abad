"""One text for each constructor argument, so that no argument is described twice."""

from collections.abc import Callable
from inspect import cleandoc
from typing import TypeVar

from heavystep.documentation import args_section

T = TypeVar("T", bound=type)

_TEXTS = {
    "params": "parameters to optimize, or dicts that define parameter groups.",
    "lr": "outer multiplier eta of the step, >= 0 (default 1.0). Any torch LR scheduler "
    "drives it; it need not be tuned. May differ by group.",
    "momentum": "heavy-ball momentum beta, in [0, 1).",
    "max_step": "largest step gamma_max before the multiplier, > 0.",
    "decrease_factor": "factor omega between trial steps, in (0, 1).",
    "lower_bound": "lower bound l of the sampled loss; cross-entropy and squared losses "
    "have 0. ``step(..., lower_bound=)`` overrides it for one batch.",
    "scaling": '"theory", "practical" or "plain": the factor kappa above.',
    "steps_per_epoch": "n_b of the smooth reset, >= 1; None turns the reset off. Default: "
    "500 with practical scaling, None otherwise. The number of batches in an epoch is right.",
    "growth": "how much the step may grow over n_b steps, >= 1.",
    "max_trials": "trial losses after which a search gives up, >= 1.",
    "weight_decay": "decay lambda, >= 0. May differ by group.",
    "decay": '"decoupled": parameters are multiplied by 1 - gamma_k * lambda and the rule '
    'sees the data loss alone; "objective": (lambda/2) ||theta||^2 is part of the loss, '
    "of the gradient and of trial losses.",
    "buffers": "buffers that a forward pass changes in place, such as BatchNorm statistics: pass "
    "``model.buffers()``, or ``model.buffers`` if the model changes device or format later. They "
    "change once a step, however many trials are made, and not at all if the batch is refused.",
    "loss_eps": "relative rounding error of the loss, in [0, 1); trial losses are compared with a "
    "tolerance of four times that. None takes the coarsest format in sight: parameters, loss and "
    "an autocast around ``step``. An autocast inside the closure cannot be seen: give 2**-7 for "
    "bfloat16.",
    "process_group": "the processes that train one model together: their losses are averaged and "
    "all take the same step. None: all of torch.distributed, if it is initialised.",
    "foreach": "multi-tensor kernels (None or True), or one tensor after another (False).",
}


def documented(*names: str, **overrides: str) -> Callable[[T], T]:
    """Append the ``Args`` section for the named arguments to a class docstring."""

    def decorate(cls: T) -> T:
        section = args_section(names, _TEXTS | overrides)
        cls.__doc__ = f"{cleandoc(cls.__doc__ or '')}\n\n{section}\n"
        return cls

    return decorate
