"""Pages of the site that are made: front page, methods, reference, and files of the root."""

import re
import runpy
from importlib import import_module
from pathlib import Path

from heavystep.methods import METHODS, Method

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


def pages(root: Path) -> dict[str, str]:
    """Text by name."""
    section = runpy.run_path(str(root / "docs" / "make_methods.py"))["section"]
    return {
        "index.md": front(root),
        "changelog.md": (root / "CHANGELOG.md").read_text(),
        "contributing.md": inside((root / "CONTRIBUTING.md").read_text()),
        "api.md": reference(),
        **{
            f"methods/{method.name}.md": method_page(method, section(method))
            for method in METHODS.values()
        },
    }


def front(root: Path) -> str:
    """The README, from within ``docs``."""
    return inside((root / "README.md").read_text())


def inside(text: str) -> str:
    """Links of a page of the root, from within ``docs``."""
    text = text.replace("](docs/", "](")
    text = re.sub(r"\]\((src|tests|examples|benchmarks)", r"](../\1", text)
    return text.replace("](CONTRIBUTING.md)", "](contributing.md)").replace(
        "](CHANGELOG.md)", "](changelog.md)"
    )


def method_page(method: Method, section: str) -> str:
    """One method: what the registry says."""
    body = re.sub(r"^## ", "# ", section, count=1)
    return "\n".join(
        [
            body,
            "## What it needs",
            "",
            f"It needs {method.needs}. Its publication proves: {method.guarantee or 'nothing'}. "
            f"The formula is from: {method.source}.",
            "",
        ]
    )


def reference() -> str:
    """Every public name, with its docstring."""
    lines = ["# API reference", ""]
    listed: set[str] = set()
    for module, words in MODULES.items():
        names = [name for name in public(module) if name not in listed]
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
