"""Makes a command of a function: each argument is an option, with its text in the docstring."""

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer

from heavystep.schedules import Schedules

SECTION_5 = {
    "eta0": 0.5,
    "eta_power": 0.4,
    "beta0": 0.9,
    "beta_power": 1.1,
    "gamma_max_power": 0.3,
    "horizon": 1e4,
}
"""The defaults of the schedules. gamma_max0 depends on the problem and must be given."""
WHOLE_NUMBERS = {"K"}
STEPS = "1,10,100,1000,10000,100000"


def argument_texts(function: Callable[..., Any]) -> dict[str, str]:
    """The text of each argument, from the Args section of the docstring, without its markup."""
    section = (inspect.getdoc(function) or "").partition("Args:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^    (\w+): (.+(?:\n        .+)*)", section, flags=re.MULTILINE)
    plain = {name: re.sub(r":\w+:`~?([^`]+)`", r"\1", text) for name, text in entries}
    return {name: re.sub(r"\s+", " ", text).replace("``", "") for name, text in plain.items()}


def parameters(function: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    """The options of a command that calls ``function``."""
    texts = argument_texts(function)
    for name, parameter in inspect.signature(function).parameters.items():
        if name == "schedules":
            yield from schedule_options()
            continue
        required = parameter.default is inspect.Parameter.empty
        kind: Any = str if name == "rule" else int if name in WHOLE_NUMBERS else float
        yield option(name, kind if required else kind | None, parameter.default, texts[name])


def schedule_options() -> Iterator[inspect.Parameter]:
    """The options that make up the three power laws."""
    names = inspect.signature(Schedules.power_laws).parameters
    for name in names:
        default = SECTION_5.get(name, inspect.Parameter.empty)
        yield option(name, float, default, "schedules: a (1 + k / horizon)^-power")


def option(
    name: str, kind: Any, default: Any, text: str, complete: Callable[..., Any] | None = None
) -> inspect.Parameter:
    """An option ``--name`` of a command. If its default is False, it is a switch."""
    flag = "--" + name.replace("_", "-")
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, typer.Option(flag, help=text, autocompletion=complete)],
    )


def optional_number(name: str) -> inspect.Parameter:
    """An option that may be left out."""
    return option(name, float | None, None, "for the bound that the proof carries")


def step_counts() -> inspect.Parameter:
    """The option ``--k``."""
    return option("k", str, STEPS, "numbers of steps, separated by commas")


def with_options(
    command: Callable[..., None], taken: list[inspect.Parameter], text: str
) -> Callable[..., None]:
    """Give options and a help text to a command that takes any arguments, for typer to show."""
    command.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
    command.__annotations__ = {option.name: option.annotation for option in taken}
    command.__doc__ = text
    return command


def arguments(function: Callable[..., Any], values: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a function, from the values of the options."""
    names = inspect.signature(function).parameters
    found = {name: values[name] for name in names if name in values}
    if "schedules" in names:
        laws = inspect.signature(Schedules.power_laws).parameters
        found["schedules"] = Schedules.power_laws(**{name: values[name] for name in laws})
    return found
