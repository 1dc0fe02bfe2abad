"""What the TAB key completes the value of an option or argument to.

Nothing here may import torch: a shell asks on every press of the key. Names that only modules with
torch know are written down once more, and a test compares them with those modules.
"""

from collections.abc import Callable, Iterable

FIGURES = ("figure1", "figure2", "figure3")
ENGINES = ("local", "ray")
DEVICES = ("cpu", "cuda")
PROBLEMS = ("least squares", "noisy least squares", "cosine", "noisy cosine", "digits")
"""What ``heavystep compare`` knows beside data sets."""
CPU_TASKS = (
    "mlp", "cnn", "frozen", "vae", "regression", "nll", "units", "targets-0.01", "targets-100",
    "inputs-100", "summed", "diabetes", "a9a", "cod-rna", "ijcnn1", "mushrooms", "phishing",
    "svmguide1", "w8a", "charlm",
)  # fmt: skip
GPU_TASKS = ("gpt", "cifar10")
RIVALS = ("SGD", "AdamW", "momo-opt", "momo-opt-Adam", "Prodigy", "ScheduleFree")
"""Contenders of ``heavystep bench sensitivity`` that are not methods of the registry."""
Completion = Callable[[str], list[str]]


def _one_of(names: Callable[[], Iterable[str]]) -> Completion:
    """Complete a word to one of the names."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete


def _list_of(names: Callable[[], Iterable[str]]) -> Completion:
    """Complete the last of several words with commas between them."""
    complete = _one_of(names)

    def complete_last(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in complete(last)]

    return complete_last


def _methods() -> list[str]:
    from heavystep.methods import METHODS

    return list(METHODS)


def _data_sets() -> list[str]:
    from heavystep.data.registry import entries

    return list(entries())


def _problems() -> list[str]:
    from heavystep.data.catalogue import CATALOGUE

    return [*PROBLEMS, *CATALOGUE]


figures = _one_of(lambda: FIGURES)
engines = _one_of(lambda: ENGINES)
devices = _one_of(lambda: DEVICES)
method_names = _one_of(_methods)
method_list = _list_of(_methods)
data_sets = _one_of(_data_sets)
problem_names = _one_of(_problems)
task_names = _list_of(lambda: (*CPU_TASKS, *GPU_TASKS))
contenders = _list_of(lambda: (*_methods(), *RIVALS))
