"""The site: every public name is documented, formulas become MathML, and a build has no warning."""

import inspect
import os
import re
import runpy
import subprocess
import sys

import pytest
import yaml

import heavystep
from heavystep.methods import METHODS
from tests.helpers.pages import DOCS
from tests.helpers.places import ROOT

pytest.importorskip("mkdocs")
pytest.importorskip("latex2mathml")
SITE = DOCS / "site"
MADE = runpy.run_path(str(SITE / "made.py"))
FORMULAS = runpy.run_path(str(SITE / "formulas.py"))


def public_objects():
    for module in MADE["MODULES"]:
        package = __import__(module, fromlist=["*"])
        for name in package.__all__:
            yield f"{module}.{name}", getattr(package, name)


def test_every_public_name_is_on_the_page():
    page = MADE["reference"]()
    documented = {name.rpartition(".")[2] for name in re.findall(r"^::: (\S+)", page, re.MULTILINE)}
    packages = {f"heavystep.{name}" for name in MADE["SUBPACKAGES"]}
    for place, _ in public_objects():
        assert place.rpartition(".")[2] in documented or place in packages, place
    assert packages <= set(MADE["MODULES"])
    modules = {name for name in heavystep.__all__ if inspect.ismodule(getattr(heavystep, name))}
    assert modules == set(MADE["SUBPACKAGES"])


# Named by the place alone: processes that share the tests must agree on names, and the text of a
# function has its address.
@pytest.mark.parametrize(
    ("place", "thing"), [pytest.param(*each, id=each[0]) for each in public_objects()]
)
def test_every_public_name_has_words(place, thing):
    assert len(inspect.getdoc(thing) or "") > 20, place


def test_there_is_a_page_a_method_with_all_that_it_has():
    pages = MADE["pages"](ROOT)
    for method in METHODS.values():
        page = pages[f"methods/{method.name}.md"]
        assert page.startswith(f"# {method.name}\n")
        assert all(f"$${formula}$$" in page for formula in method.formulas)
        assert all(f"| `{option.name}` |" in page for option in method.options)
        assert f"Reference: {method.reference}" in page
        assert "## What it needs" in page


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.name)
def test_formulas_become_mathml(method):
    for formula in method.formulas:
        drawn = FORMULAS["in_page"](f"$${formula}$$")
        assert drawn.startswith('<div class="formula"><math')
        assert "\\" not in drawn  # a command that the converter did not know


def test_code_keeps_its_dollars():
    block = "```sh\n$$HOME$$\n```"
    assert FORMULAS["in_page"](block) == block


def test_docstrings_lose_roles_and_keep_sessions():
    text = "See :func:`f`, :math:`a_1`.\n\n.. math:: b_2\n\n>>> 1 + 1\n2\n"
    changed = FORMULAS["in_docstring"](text)
    assert "See `f`, <math" in changed
    assert '<div class="formula"><math' in changed
    assert "```pycon\n>>> 1 + 1\n2\n```" in changed


def entries(nav):
    for entry in nav:
        if isinstance(entry, str):
            yield entry
        else:
            for inner in entry.values():
                yield from entries(inner if isinstance(inner, list) else [inner])


def test_every_page_is_in_the_navigation():
    named = set(entries(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    written = {path.name for path in DOCS.glob("*.md")}
    written |= {f"frameworks/{path.name}" for path in (DOCS / "frameworks").glob("*.md")}
    assert written <= named
    made = set(MADE["pages"](ROOT))
    assert all((DOCS / name).exists() or name in made for name in named)


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_needs_no_network(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path)]
    around = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(
        command, cwd=ROOT, env=around, capture_output=True, text=True, check=False
    )
    assert (built.returncode, built.stderr) == (0, "")
    for page in ("index.html", "api.html", "methods/SHBPolyak.html"):
        text = (tmp_path / page).read_text()
        loaded = re.findall(r'<(?:script|img|iframe)[^>]*src="([^"]+)"', text)
        loaded += re.findall(r'<link[^>]*rel="stylesheet"[^>]*href="([^"]+)"', text)
        assert loaded
        assert not [each for each in loaded if "//" in each]
    front = (tmp_path / "methods.html").read_text()
    assert all(f'href="methods/{name}.html"' in front for name in METHODS)
    assert ".. math::" not in (tmp_path / "api.html").read_text()
