r"""Figure 3: Appendix E's ResNet-18 on CIFAR-10 and CIFAR-100.

What the paper leaves open, and our choice: the network has a 3x3 stem and no max-pool; images are
scaled by the mean and the standard deviation of each colour over the training set, and cropped
from a black border before that; there is no weight decay; an epoch is a permutation of the
training images without the last incomplete minibatch, and n_b counts the others; the training
loss of an epoch is the mean of its minibatch losses, each before the step taken on it; the lower
bound of a loss is 0. On a GPU the network computes in bfloat16 (autocast) and parameters, losses
and steps are float32; on a CPU all is float32.
"""

from heavystep.experiments.appendix_e import (
    ADAPTIVE,
    BETA,
    FIXED,
    FIXED_STEPS,
    MAX_STEP,
    Adaptive,
)
from heavystep.experiments.training_spec import MethodSpec

OPTIMIZERS = {"SHB-PS": "SHBPolyak", "SPS": "SPS", "SHB-ALS": "SHBArmijo", "SLS": "SLS"}


def methods() -> dict[str, MethodSpec]:
    """All eight; n_b is the training set's."""
    return {
        **{name: _adaptive(name, rule) for name, rule in ADAPTIVE.items()},
        **{
            name: MethodSpec(name, "SHB", (("lr", step), ("momentum", BETA)))
            for name, step in zip(FIXED, FIXED_STEPS, strict=True)
        },
    }


def _adaptive(name: str, rule: Adaptive) -> MethodSpec:
    options: dict[str, float] = {"c": rule.c, "max_step": MAX_STEP, "growth": rule.growth}
    if rule.omega is not None:
        # A known bound spares trials that cannot succeed, and changes no step.
        options |= {"decrease_factor": rule.omega, "lower_bound": 0.0}
    if rule.momentum:
        options["momentum"] = rule.momentum
    return MethodSpec(name, OPTIMIZERS[name], tuple(sorted(options.items())))
