"""Pages of the site that are made: front page, methods, results, reference, files of the root.

``docs`` and ``docs/site`` are on the path of modules.
"""

import re
from importlib import import_module
from pathlib import Path

import make_methods
import make_theory
from formulas import in_docstring

from heavystep.methods import METHODS
from heavystep.theory.registry import OWN, RESULTS

MODULES = {
    "heavystep": "",
    "heavystep.optim": "Beside what `heavystep` has.",
    "heavystep.lower_bounds": "",
    "heavystep.certificates": "",
    "heavystep.theory": "",
    "heavystep.problems": "",
    "heavystep.lab": "Extra `lab`.",
}
SUBPACKAGES = ("certificates", "lab", "lower_bounds", "problems", "theory")


SERIES = {
    "Methods": lambda: {"Each method": [f"methods/{name}.md" for name in METHODS]},
    "The paper": lambda: {
        "Each result": [f"theory/{make_theory.name(each)}.md" for each in RESULTS + OWN]
    },
}
"""By heading of the navigation: pages that are made, one of each thing."""


def pages(root: Path) -> dict[str, str]:
    """Text by name."""
    methods = {f"methods/{each.name}.md": make_methods.page(each) for each in METHODS.values()}
    results = {f"theory/{make_theory.name(r)}.md": make_theory.page(r) for r in RESULTS + OWN}
    return {
        "index.md": front((root / "README.md").read_text()),
        "changelog.md": (root / "CHANGELOG.md").read_text(),
        "contributing.md": inside((root / "CONTRIBUTING.md").read_text()),
        "api.md": reference(),
        **{name: in_docstring(text) for name, text in (methods | results).items()},
    }


def front(readme: str) -> str:
    """The README, from within ``docs``, with its picture in Markdown."""
    picture = r"<picture>.*?<img\s+alt=\"([^\"]*)\" src=\"([^\"]*)\".*?</picture>"
    return inside(re.sub(picture, r"![\1](\2)", readme, flags=re.DOTALL))


def inside(text: str) -> str:
    """Links of a page of the root, from within ``docs``."""
    text = text.replace("](docs/", "](")
    text = re.sub(r"\]\((src|tests|examples|benchmarks)", r"](../\1", text)
    return text.replace("](CONTRIBUTING.md)", "](contributing.md)").replace(
        "](CHANGELOG.md)", "](changelog.md)"
    )


def linked(markdown: str, page: str) -> str:
    """An index of sources, as it is in the repository, as an index of pages."""
    if page == "methods.md":
        return re.sub(r"\[`(\w+)`\]\(\.\./src[^)]*\)", r"[`\1`](methods/\1.md)", markdown)
    if page == "theory.md":
        for result in RESULTS + OWN:
            place = f"[{result.id}](theory/{make_theory.name(result)}.md)"
            markdown = re.sub(rf"\[{result.id}\]\(\.\./src[^)]*\)", place, markdown)
    return markdown


def reference() -> str:
    """Every public name, with its docstring."""
    lines = ["# API reference", ""]
    listed: set[str] = set()
    for module, words in MODULES.items():
        names = [name for name in public(module) if name not in listed]
        names.sort(key=lambda name: name != "HeavyStep")
        if module == "heavystep":
            names = [name for name in names if name not in SUBPACKAGES]
            listed.update(names)
        lines += [f"## {module}", "", words, ""]
        for name in names:
            lines += [f"::: {module}.{name}", ""]
            if name in METHODS:
                lines += [f"Formula, options and sources: [{name}](methods/{name}.md).", ""]
    return "\n".join(lines)


def public(module: str) -> list[str]:
    """The public names of a module."""
    return list(import_module(module).__all__)
