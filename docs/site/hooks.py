"""What mkdocs calls: pages that are made, and pages that are changed on their way."""

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "src"), str(HERE), str(HERE.parent)]

import formulas  # noqa: E402
import make_methods  # noqa: E402
import make_theory  # noqa: E402

from heavystep.methods import METHODS  # noqa: E402
from heavystep.theory.registry import OWN, RESULTS  # noqa: E402

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
METHOD_PAGES = {name: f"methods/{name}.md" for name in METHODS}
RESULT_PAGES = {each.id: f"theory/{make_theory.name(each)}.md" for each in RESULTS + OWN}


def on_config(config: Any) -> Any:
    """Name the pages of methods and results in the navigation, after their overviews."""
    for part in config.nav:
        for title, entries in part.items():
            if title == "Methods":
                entries.append({"Each method": list(METHOD_PAGES.values())})
            elif title == "The paper":
                entries.append({"Each result": list(RESULT_PAGES.values())})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the front page, a page a method, a page a result and the reference."""
    for name, text in pages().items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Formulas as MathML, pictures twice; what is outside the site is named and not linked."""
    markdown = linked(markdown, page.file.src_uri)
    return formulas.in_page(named_outside(with_dark(markdown)))


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """Letters of formulas as they are in formulas."""
    return formulas.in_prose(html)


def pages() -> dict[str, str]:
    """The text of each page that is made, by its name."""
    made = {METHOD_PAGES[each.name]: make_methods.page(each) for each in METHODS.values()}
    made |= {RESULT_PAGES[each.id]: make_theory.page(each) for each in RESULTS + OWN}
    picture = r"<picture>.*?<img\s+alt=\"([^\"]*)\" src=\"([^\"]*)\".*?</picture>"
    readme = (ROOT / "README.md").read_text()
    return {
        "index.md": inside(re.sub(picture, r"![\1](\2)", readme, flags=re.DOTALL)),
        "changelog.md": (ROOT / "CHANGELOG.md").read_text(),
        "contributing.md": inside((ROOT / "CONTRIBUTING.md").read_text()),
        "api.md": reference(),
        **{name: formulas.in_docstring(text) for name, text in made.items()},
    }


def inside(text: str) -> str:
    """Links of a page of the root, from within ``docs``."""
    text = re.sub(r"\]\((src|tests|examples|benchmarks)", r"](../\1", text.replace("](docs/", "]("))
    return re.sub(r"\]\((CONTRIBUTING|CHANGELOG)", lambda found: found[0].lower(), text)


def linked(markdown: str, page: str) -> str:
    """An index of sources, as it is in the repository, as an index of pages."""
    if page == "methods.md":
        return re.sub(r"\[`(\w+)`\]\(\.\./src[^)]*\)", r"[`\1`](methods/\1.md)", markdown)
    if page == "theory.md":
        for name, place in RESULT_PAGES.items():
            markdown = re.sub(rf"\[{name}\]\(\.\./src[^)]*\)", f"[{name}]({place})", markdown)
    return markdown


def reference() -> str:
    """Every public name, with its docstring."""
    lines, listed = ["# API reference", ""], set(SUBPACKAGES)
    for module, words in MODULES.items():
        names = [name for name in import_module(module).__all__ if name not in listed]
        names.sort(key=lambda name: name != "HeavyStep")
        if module == "heavystep":
            listed.update(names)
        lines += [f"## {module}", "", words, ""]
        for name in names:
            lines += [f"::: {module}.{name}", ""]
            if name in METHODS:
                lines += [f"Formula, options and sources: [{name}](methods/{name}.md).", ""]
    return "\n".join(lines)


def with_dark(markdown: str) -> str:
    """A picture that has a dark twin, twice: the theme shows the one that fits."""

    def twice(found: re.Match[str]) -> str:
        start, name, kind = found.groups()
        if not (HERE.parent / f"{name}-dark.{kind}").exists():
            return found[0]
        light, dark = f"{start}({name}.{kind}#only-light)", f"{start}({name}-dark.{kind}#only-dark)"
        return f"{light}{{.small}}{dark}{{.small}}"

    return re.sub(r"(!\[[^\]]*\])\((\w+)\.(png|gif)\)", twice, markdown)


def named_outside(markdown: str) -> str:
    """Links to sources, tests and examples as their names: the site has no copy of them."""
    outside = r"\[([^\]]+)\]\((?:\.\./)+((?:src|tests|examples|benchmarks)[^)]*)\)"
    return re.sub(outside, lambda m: m[1] if "`" in m[1] else f"{m[1]} (`{m[2]}`)", markdown)
