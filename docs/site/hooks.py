"""What mkdocs calls: pages that are made, and pages that are changed on their way."""

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "src"), str(HERE)]

import formulas  # noqa: E402
import made  # noqa: E402


def on_config(config: Any) -> Any:
    """Name the page of every method in the navigation, after the overview."""
    (methods,) = (part["Methods"] for part in config.nav if "Methods" in part)
    methods.append({"Each method": [f"methods/{name}.md" for name in made.METHODS]})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the front page, a page a method and the reference."""
    for name, text in made.pages(ROOT).items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Formulas as MathML; what is outside the site is named and not linked."""
    if page.file.src_uri == "methods.md":
        markdown = re.sub(r"\[`(\w+)`\]\(#\w+\)", method_link, markdown)
    return formulas.in_page(named_outside(markdown))


def method_link(row: re.Match[str]) -> str:
    """From the overview to the page of a method."""
    known = row[1] in made.METHODS
    return f"[`{row[1]}`](methods/{row[1]}.md)" if known else row[0]


def named_outside(markdown: str) -> str:
    """Links to sources, tests and examples as their names: the site has no copy of them."""
    outside = r"\[([^\]]+)\]\((?:\.\./)+((?:src|tests|examples|benchmarks)[^)]*)\)"
    return re.sub(outside, lambda m: m[1] if "`" in m[1] else f"{m[1]} (`{m[2]}`)", markdown)
