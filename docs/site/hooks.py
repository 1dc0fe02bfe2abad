"""What mkdocs calls: pages that are made, and pages that are changed on their way."""

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "src"), str(HERE), str(HERE.parent)]

import formulas  # noqa: E402
import made  # noqa: E402


def on_config(config: Any) -> Any:
    """Name the pages of methods and results in the navigation, after their overviews."""
    for part in config.nav:
        for title, entries in part.items():
            if title in made.SERIES:
                entries.append(made.SERIES[title]())
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the front page, a page a method, a page a result and the reference."""
    for name, text in made.pages(ROOT).items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Formulas as MathML, pictures twice; what is outside the site is named and not linked."""
    markdown = made.linked(markdown, page.file.src_uri)
    return formulas.in_page(named_outside(with_dark(markdown)))


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """Letters of formulas as they are in formulas."""
    return formulas.in_prose(html)


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
