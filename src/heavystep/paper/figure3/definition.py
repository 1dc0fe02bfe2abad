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
from heavystep.methods import method_of
from heavystep.paper.appendix_e import FAMILIES, FIXED, MAX_STEP, METHODS
from heavystep.paper.figure import Curve, Figure, Panel
from heavystep.training.specification import MethodSpec, Scale, TrainingRuns

PAPER = Scale()
QUICK = Scale(network="small", batch_size=64, train_images=256, test_images=128)
NETWORKS = {"resnet18": "ResNet-18", "small": "a small network"}
METRICS = {"loss": "training cross-entropy", "test_accuracy": "test accuracy [%]"}
"""The two metrics that are drawn for each family, with the names of their axes."""


def figure3(
    *,
    seeds: int | tuple[int, ...] = 3,
    epochs: int | Mapping[str, int] = 200,
    data_sets: Sequence[str] = tuple(CIFAR),
    scale: Scale = PAPER,
) -> Figure[TrainingRuns]:
    """A row for each data set: loss and accuracy of the PS family, then of the ALS family.

    Args:
        seeds: the number of runs of each method, or the seeds of these runs.
        epochs: the length of each run, or one length for each data set.
        data_sets: ``"cifar10"``, ``"cifar100"`` or both.
        scale: what is trained; the paper's is the default.

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
    names = " and ".join(CIFAR[name].title for name in data_sets)
    part = "" if scale == PAPER else f" ({scale.train_images:,} images)"
    title = f"{NETWORKS.get(scale.network, scale.network)} on {names}{part}"
    return Figure("figure3", title, tuple(panels), reduced=scale != PAPER)


def _panel(
    runs: dict[str, TrainingRuns], data_set: str, family: str, metric: str
) -> Panel[TrainingRuns]:
    curves = tuple(
        Curve(name, runs[name], metric, style=list(runs).index(name))
        for name in (*FAMILIES[family], *FIXED)
    )
    title = f"{CIFAR[data_set].title}, {family} family"
    missing = f"no runs on\n{CIFAR[data_set].title}"
    return Panel(f"{data_set}.{family}.{metric}", title, METRICS[metric], curves, missing, data_set)


def methods() -> dict[str, MethodSpec]:
    """All eight methods. The trainer adds n_b, which depends on the training set."""
    found = {}
    for label, (name, constants) in METHODS.items():
        method, options = method_of(name), dict(constants)
        if "max_step" in {option.name for option in method.options}:
            options["max_step"] = MAX_STEP
        if method.rule.searches:
            # A known bound spares trials that cannot succeed, and changes no step.
            options["lower_bound"] = 0.0
        found[label] = MethodSpec(label, name, tuple(sorted(options.items())))
    return found
