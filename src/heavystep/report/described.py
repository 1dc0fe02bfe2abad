"""What a stored run says that it is: its specification, in the words that a page shows."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from heavystep.methods import METHODS

Options = dict[str, Any]


@dataclass(frozen=True)
class Description:
    """The problem, method and size of a run."""

    problem: str
    method: str
    """The name that a legend shows before the options."""
    options: Options
    unit: str
    """What the length is counted in: ``"step"`` or ``"epoch"``."""
    length: int
    """0 if the run does not say how long it should be."""
    batch_size: int
    seed: int | None
    """If each seed has a file of its own."""
    versions: dict[str, Any]
    """Of what decides the numbers."""
    content: dict[str, Any]
    """The whole of it, without the seed."""

    def identity(self) -> str:
        """The same for runs that differ in their seeds alone."""
        return json.dumps(self.content, sort_keys=True)


def described(text: str) -> Description:
    """Read a specification, of a simulated or of a trained run.

    Args:
        text: the JSON that a stored file holds.

    Raises:
        ValueError: it says nothing that this package would have written.
    """
    try:
        content = json.loads(text)
        run = content.get("run", content)
        method = run["method"]
        options, versions = dict(method["options"]), dict(content.get("versions") or {})
        trained = "protocol" in content
        seed = run.pop("seed", None)
        scale = run.get("scale", run)
        return Description(
            problem=_problem(run),
            method=_method(method),
            options=options,
            unit="epoch" if trained else "step",
            length=int(run.get("iterations", 0)),
            batch_size=int(scale.get("batch_size", 1)),
            seed=None if seed is None else int(seed),
            versions=versions,
            content=content,
        )
    except (ArithmeticError, AttributeError, KeyError, RecursionError, TypeError, ValueError):
        raise ValueError("it does not say which method ran on which problem") from None


def _problem(run: dict[str, Any]) -> str:
    """The problem in words.

    >>> _problem({"problem": {"name": "libsvm", "setting": "a9a"}}), _problem({"task": "mlp"})
    ('a9a', 'mlp')
    >>> _problem({"problem": {"name": "least squares", "setting": 0.3}})
    'least squares, noise 0.3'
    """
    if "problem" not in run:
        return str(run["task"] if "task" in run else run["data_set"])
    name, setting = str(run["problem"]["name"]), run["problem"].get("setting", "")
    if name == "libsvm":
        return str(setting)
    if isinstance(setting, float):
        return f"{name}, noise {setting:g}"
    return f"{name}, {setting}".replace("_", " ").removesuffix(", ")


def _method(method: dict[str, Any]) -> str:
    """The name in the legend: that of the registry, or of a class without its module.

    >>> _method({"name": "torch.optim.SGD", "cosine": True}), _method({"name": "SHB 0.001"})
    ('SGD+cosine', 'SHB 0.001')
    """
    name = str(method["name"])
    if all(word.isidentifier() for word in name.split(".")):
        name = name.rpartition(".")[2]
    return f"{name}+cosine" if method.get("cosine") else name


def labels(runs: Iterable[Description]) -> list[str]:
    """Names that tell the runs of a panel apart: the method, and options while these are needed.

    Args:
        runs: those of one panel.

    >>> given = [{"c": 0.1, "d": 1}, {"c": 0.2, "d": 2}]
    >>> some = [{"task": "t", "method": {"name": "SPS", "options": each}} for each in given]
    >>> one, two = (described(json.dumps(each)) for each in some)
    >>> labels([one, two]), labels([one])
    (['SPS, c 0.1', 'SPS, c 0.2'], ['SPS'])
    """
    runs = list(runs)
    named = [run.method for run in runs]
    names = dict.fromkeys(name for run in runs for name in run.options)
    order = sorted(names, key=lambda name: name != "momentum")
    for name in (*order, "average", "batch_size", "iterations", "seeds"):
        values = [_option(run, name) for run in runs]
        longer = [f"{label}, {name} {_value(v)}" for label, v in zip(named, values, strict=True)]
        for method in dict.fromkeys(run.method for run in runs):
            own = [number for number, run in enumerate(runs) if run.method == method]
            if len({longer[number] for number in own}) > len({named[number] for number in own}):
                for number in own:
                    named[number] = longer[number]
    return named


def _option(run: Description, name: str) -> Any:
    method = run.content.get("method")
    beside = method.get(name) if isinstance(method, dict) else None
    return run.options.get(name, run.content.get(name, beside))


def _value(value: Any) -> str:
    """An option in few letters; a power law is three numbers.

    >>> _value(0.00057286), _value([0.9, 1.1, 10000.0]), _value(None)
    ('0.000573', 'from 0.9, falling', 'none')
    """
    if value is None:
        return "none"
    if isinstance(value, (list, tuple)) and value:
        return f"from {_value(value[0])}, falling"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{value:.3g}" if isinstance(value, float) else str(value)
    return str(value)


def title_of(method: str) -> str:
    """The name of a method in its paper, if that is another one."""
    known = METHODS.get(method)
    return known.title if known is not None and known.title != method else ""
