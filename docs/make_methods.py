"""Write ``docs/methods.md`` from the registry of methods.

python docs/make_methods.py, or ``make pages``
"""

import inspect
from pathlib import Path

from heavystep.methods import METHODS, Method
from heavystep.optimizers import optimizer_class
from heavystep.problems.variance_reduced import EVIDENCE, FORMULAS, PUBLISHED, REFERENCE
from heavystep.rules import REQUIRED, Option, Whole
from heavystep.validation import SYMBOLS, Interval

DOCS = Path(__file__).parent
HEAD = """# The methods

A method is a rule, which chooses the step size, and a momentum form, which says how a step moves
the parameters; some have a diagonal metric. Every method is a torch optimizer
(`heavystep.create(NAME, params)`) and runs in `heavystep.lab.simulate` and `heavystep.lab.sweep`.
The guarantee is what the publication says; only that of the paper's own methods is checked here.
The last rows are methods on another problem and run in simulation only.

This page is generated from the registry; `heavystep methods NAME` prints the same.
"""
REDUCED = "Variance reduction"


def main():
    """Write the page."""
    (DOCS / "methods.md").write_text(render())


def render() -> str:
    """The page."""
    sections = [section(method) for method in METHODS.values()]
    return "\n".join([HEAD, *overview(), *sections, reduced()])


def overview() -> list[str]:
    """One row a method."""
    rows = [
        "| method | paper | what it is | momentum form | needs | guarantee | formula from |",
        "|" + "---|" * 7,
    ]
    for method in METHODS.values():
        rows.append(
            f"| [`{method.name}`](#{method.name.lower()}) | {method.title} | {method.summary} | "
            f"{method.form.name} | {method.needs} | {method.guarantee or 'none'} | "
            f"{method.source} |"
        )
    place = REDUCED.lower().replace(" ", "-")
    for name, method in PUBLISHED.items():
        rows.append(
            f"| [`{name}`](#{place}) | {name} | `{method}` with variance-reduced losses, in "
            f"simulation only: `{call(method)}` | heavy ball | the problem | none | {EVIDENCE} |"
        )
    return [*rows, ""]


def call(method: str) -> str:
    """How a method runs with variance-reduced losses."""
    return f'simulate(VarianceReduced(problem), "{method}", ...)'


def reduced() -> str:
    """What a method sees then."""
    names = ", ".join(f"`{call(method)}` is {name}" for name, method in PUBLISHED.items())
    return "\n".join(
        [
            f"## {REDUCED}",
            "",
            "`heavystep.problems.VarianceReduced(problem, probability, curvature)` is a problem on "
            "which every method runs in simulation. In place of the sampled loss it gives a "
            "surrogate, with a lower bound:",
            "",
            *(line for formula in FORMULAS for line in (f"$${formula}$$", "")),
            f"{names}. The docstring has the defaults of p and mu, and says which rules need a "
            "largest step.",
            "",
            f"Reference: {REFERENCE} ({EVIDENCE}).",
            "",
        ]
    )


def section(method: Method) -> str:
    """Formulas, options and sources of one method."""
    lines = [
        f"## {method.name}",
        "",
        method.summary if method.verified else f"**Not verified.** {method.summary}",
        "",
        *formula_lines(method),
        *((method.explained, "") if method.explained else ()),
        *((f"Differs from its publication: {method.differs}.", "") if method.differs else ()),
        "| option | symbol | default | range | meaning |",
        "|" + "---|" * 5,
    ]
    lines += [row(option) for option in method.options]
    signature = ", ".join(inspect.signature(optimizer_class(method.name)).parameters)
    memory = ", ".join(f"`{name}`" for name in method.rule.memory) or "nothing"
    fixed = ", ".join(f"`{name}` = {value!r}" for name, value in method.fixed.items()) or "nothing"
    main = f"`{method.main}`" if method.main else "none"
    return "\n".join(
        [
            *lines,
            "",
            f"Carried from step to step: {memory}. Fixed: {fixed}. Main constant: {main}.",
            "",
            f'`heavystep.create("{method.name}", {signature})`',
            "",
            f"Reference: {method.reference}.",
            "",
        ]
    )


def formula_lines(method: Method) -> list[str]:
    """The formulas."""
    return [line for formula in method.formulas for line in (f"$${formula}$$", "")]


def row(option: Option) -> str:
    """One option of a method."""
    default = "" if option.default is REQUIRED else f"`{option.default!r}`"
    symbol = option.symbol or SYMBOLS.get(option.name, "")
    return f"| `{option.name}` | {symbol} | {default} | {allowed(option)} | {option.text} |"


def allowed(option: Option) -> str:
    """The range of an option."""
    if isinstance(option.allowed, Whole):
        text = f">= {option.allowed.least}"
    elif isinstance(option.allowed, Interval):
        text = str(option.allowed)
    else:
        text = ", ".join(f"`{word!r}`" for word in option.allowed)
    return f"{text}, or None" if option.optional else text


if __name__ == "__main__":
    main()
