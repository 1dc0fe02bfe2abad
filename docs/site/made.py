"""Pages of the site that are made: front page, methods, reference, and files of the root."""

import csv
import re
import runpy
from importlib import import_module
from pathlib import Path

from heavystep.methods import METHODS, Method

PROBLEMS = ("mushrooms", "a9a", "w8a", "cosine")
MODULES = {
    "heavystep": "",
    "heavystep.optim": "What `heavystep` has not brought up already.",
    "heavystep.lower_bounds": "",
    "heavystep.certificates": "",
    "heavystep.theory": "",
    "heavystep.problems": "",
    "heavystep.data": "",
}
SUBPACKAGES = ("certificates", "lower_bounds", "problems", "theory")


def pages(root: Path) -> dict[str, str]:
    """Text by name."""
    tables = {problem: measured(root, problem) for problem in PROBLEMS}
    section = runpy.run_path(str(root / "docs" / "make_methods.py"))["section"]
    return {
        "index.md": front(root),
        "changelog.md": (root / "CHANGELOG.md").read_text(),
        "contributing.md": inside((root / "CONTRIBUTING.md").read_text()),
        "api.md": reference(),
        **{
            f"methods/{method.name}.md": method_page(method, section(method), tables)
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


def measured(root: Path, problem: str) -> list[dict[str, str]]:
    """The rows of the comparison on a problem, the least final loss first."""
    path = root / "docs" / "results" / "compare" / f"{problem}.csv"
    rows = list(csv.DictReader(path.read_text().splitlines()))
    return sorted(rows, key=lambda row: float(row["final_loss"] or "inf"))


def method_page(method: Method, section: str, tables: dict[str, list[dict[str, str]]]) -> str:
    """One method: what the registry says, and how it did in the comparison."""
    body = re.sub(r"^## ", "# ", section, count=1)
    body = body.replace("docs/notation.md", "[notation](../notation.md)")
    return "\n".join(
        [
            body,
            "## When it works, and when not",
            "",
            f"It needs {method.needs}. Its publication proves: {method.guarantee or 'nothing'}. "
            f"The formula is from: {method.evidence}.",
            "",
            *comparison(method, tables),
            "[Which method when](../choosing.md) has more measurements, and which to begin with.",
            "",
        ]
    )


def comparison(method: Method, tables: dict[str, list[dict[str, str]]]) -> list[str]:
    """Its place on each problem of the comparison."""
    lines = [
        "Its place among all methods of [the comparison](../compare.md), by the final loss with "
        "its default and by the sensitivity to its main constant; on mushrooms a point fits all "
        "samples, a9a and w8a are noisy, cosine is not convex:",
        "",
        "| problem | final loss | place | sensitivity | place |",
        "|---|---:|---:|---:|---:|",
    ]
    found = False
    for problem, rows in tables.items():
        names = [row["method"] for row in rows]
        if method.name not in names:
            continue
        found = True
        row = rows[names.index(method.name)]
        flat = sorted(rows, key=lambda each: float(each["sensitivity"] or "inf"))
        place = [each["method"] for each in flat].index(method.name) + 1
        lines.append(
            f"| {problem} | {number(row['final_loss'])} | {names.index(method.name) + 1} of "
            f"{len(rows)} | {number(row['sensitivity'])} | {place} |"
        )
    if not found:
        return []
    if method.by_scaling:
        lines += ["", 'These runs had the paper\'s rule, `scaling="practical"`, not steady steps.']
    return [*lines, ""]


def number(text: str) -> str:
    """Three digits, or a word for a run that did not end."""
    return f"{float(text):.3g}" if text else "none"


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
