r"""Figure 3: Appendix E's ResNet-18 on CIFAR-10 and CIFAR-100.

What the paper leaves open, and our choice: the network has a 3x3 stem and no max-pool; images are
scaled by the mean and the standard deviation of each colour over the training set, and cropped
from a black border before that; there is no weight decay; an epoch is a permutation of the
training images without the last incomplete minibatch, and n_b counts the others; the training
loss of an epoch is the mean of its minibatch losses, each before the step taken on it; the lower
bound of a loss is 0. On a GPU the network computes in bfloat16 (autocast) and parameters, losses
and steps are float32; on a CPU all is float32.
"""

from collections.abc import Mapping, Sequence

from heavystep import validation
from heavystep.data.cifar import CIFAR
from heavystep.experiments.appendix_e import (
    ADAPTIVE,
    BETA,
    FAMILIES,
    FIXED,
    FIXED_STEPS,
    MAX_STEP,
    Adaptive,
)
from heavystep.experiments.layout import Curve, Figure, Panel
from heavystep.experiments.training_spec import MethodSpec, Scale, TrainingRuns

PAPER = Scale()
QUICK = Scale(network="small", batch_size=64, train_images=256, test_images=128)
NETWORKS = {"resnet18": "ResNet-18", "small": "a small network"}
METRICS = {"loss": "training cross-entropy", "test_accuracy": "test accuracy [%]"}
"""Columns of a family."""
OPTIMIZERS = {"SHB-PS": "SHBPolyak", "SPS": "SPS", "SHB-ALS": "SHBArmijo", "SLS": "SLS"}


def figure3(
    *,
    seeds: int | tuple[int, ...] = 3,
    epochs: int | Mapping[str, int] = 200,
    data_sets: Sequence[str] = tuple(CIFAR),
    scale: Scale = PAPER,
) -> Figure[TrainingRuns]:
    """A row for each data set: loss and accuracy of the PS family, then of the ALS family.

    Args:
        seeds: runs of each method; or their seeds.
        epochs: of each run; or by data set.
        data_sets: 'cifar10', 'cifar100'.
        scale: what is trained; the paper speaks of the default only.

    Raises:
        ValueError: there is no such data set.
    """
    for name in data_sets:
        validation.choice("data set", name, CIFAR)
    panels: list[Panel[TrainingRuns]] = []
    for name in data_sets:
        length = epochs if isinstance(epochs, int) else epochs[name]
        runs = {
            method.name: TrainingRuns(name, method, scale, seeds, length)
            for method in methods().values()
        }
        panels += [_panel(runs, name, family, metric) for family in FAMILIES for metric in METRICS]
    return Figure("figure3", _title(data_sets, scale), tuple(panels), reduced=scale != PAPER)


def _title(data_sets: Sequence[str], scale: Scale) -> str:
    names = " and ".join(CIFAR[name].title for name in data_sets)
    part = "" if scale == PAPER else f" ({scale.train_images:,} images)"
    return f"{NETWORKS.get(scale.network, scale.network)} on {names}{part}"


def _panel(
    runs: dict[str, TrainingRuns], data_set: str, family: str, metric: str
) -> Panel[TrainingRuns]:
    curves = tuple(
        Curve(name, runs[name], metric, style=list(runs).index(name))
        for name in (*FAMILIES[family], *FIXED)
    )
    title = f"{CIFAR[data_set].title}, {family} family"
    missing = f"no runs on\n{CIFAR[data_set].title}"
    return Panel(f"{data_set}.{family}.{metric}", title, METRICS[metric], curves, missing)


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
