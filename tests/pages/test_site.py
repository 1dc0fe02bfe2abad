"""The site: every public name is documented, formulas become MathML, and a build has no warning."""

import importlib
import inspect
import os
import re
import subprocess
import sys

import pytest
import yaml

import heavystep
from heavystep.methods import METHODS
from heavystep.theory.registry import OWN, RESULTS
from tests.helpers.pages import DOCS
from tests.helpers.places import ROOT

pytest.importorskip("mkdocs")
pytest.importorskip("latex2mathml")
sys.path.insert(0, str(DOCS / "site"))  # as mkdocs has it
import hooks
from hooks import formulas


def test_every_public_name_is_on_the_page_and_has_words():
    documented = re.findall(r"^::: \S+\.(\w+)$", hooks.reference(), flags=re.MULTILINE)
    for module in hooks.MODULES:
        package = importlib.import_module(module)
        for name in package.__all__:
            assert name in documented or name in hooks.SUBPACKAGES, f"{module}.{name}"
            assert len(inspect.getdoc(getattr(package, name)) or "") > 20, f"{module}.{name}"
    modules = {name for name in heavystep.__all__ if inspect.ismodule(getattr(heavystep, name))}
    assert modules == set(hooks.SUBPACKAGES)
    assert {f"heavystep.{name}" for name in modules} <= set(hooks.MODULES)


def test_arguments_are_documented_as_they_are_called():
    checked = 0
    for module in hooks.MODULES:
        for name in importlib.import_module(module).__all__:
            member = getattr(importlib.import_module(module), name)
            _, found, section = (inspect.getdoc(member) or "").partition("Args:\n")
            if not found:
                continue
            section = re.split(r"\n\w|\n\n", section)[0]
            documented = re.findall(r"^    \*{0,2}(\w+): \S", section, flags=re.MULTILINE)
            assert documented == list(inspect.signature(member).parameters), f"{module}.{name}"
            checked += 1
    assert checked > 40


def test_there_is_a_page_a_method_with_all_that_it_has():
    pages = hooks.pages()
    for method in METHODS.values():
        page = pages[f"methods/{method.name}.md"]
        assert page.startswith(f"# {method.name}\n")
        assert all(f"$${formula}$$" in page for formula in method.formulas)
        assert all(f"**`{option.name}`**" in page for option in method.options)
        assert all(option.text[:30] in page for option in method.options)
        assert f"- Published: {method.reference}" in page


def test_there_is_a_page_a_result_with_all_that_is_known():
    pages = hooks.pages()
    for result in RESULTS + OWN:
        page = pages[hooks.RESULT_PAGES[result.id]]
        assert page.startswith(f"# {result.id}\n")
        assert f"heavystep.theory.{result.function.__name__}" in page
        assert ("## Proof" in page) == (result in OWN)


def test_formulas_become_mathml():
    for formula in (formula for method in METHODS.values() for formula in method.formulas):
        drawn = formulas.in_page(f"$${formula}$$")
        assert drawn.startswith('<div class="formula"><math')
        assert "\\" not in drawn  # a command that the converter did not know


@pytest.mark.parametrize(
    ("prose", "shown"),
    [
        ("gamma_k", "<i>γ</i><sub><i>k</i></sub>"),
        ("gamma_max,k", "<i>γ</i><sub>max,<i>k</i></sub>"),
        ("||g||^2 &lt;= L", "‖<i>g</i>‖<sup>2</sup> ≤ <i>L</i>"),
        ("theta_{k+1} - theta*", "<i>θ</i><sub><i>k</i>+1</sub> - <i>θ</i><sup>*</sup>"),
        ("f_star(x), sigma2", "<i>f</i><sup>*</sup>(<i>x</i>), <i>σ</i><sup>2</sup>"),
        ("sqrt(1 - beta)", "√(1 - <i>β</i>)"),
        ("A step a changes, e.g. don't: I do", "A step a changes, e.g. don't: I do"),
        ("Theorem A, 1e-06, 4.9e+03", "Theorem A, 1e-06, 4.9e+03"),
        ("weight_decay, thetas, per_k", "weight_decay, thetas, per_k"),
        (
            "<code>theta_k</code> <b title='k'>k</b>",
            "<code>theta_k</code> <b title='k'><i>k</i></b>",
        ),
    ],
)
def test_letters_in_prose_are_those_of_formulas(prose, shown):
    assert formulas.in_prose(prose) == shown


def test_docstrings_lose_roles_and_keep_sessions():
    text = "See :func:`f`, :math:`a_1`.\n\n.. math:: b_2\n\n>>> 1 + 1\n2\n"
    changed = formulas.in_docstring(text)
    assert "See `f`, <span><math" in changed
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
    generated = hooks.pages()
    assert all((DOCS / name).exists() or name in generated for name in named)


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_needs_no_network(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path)]
    around = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(
        command, cwd=ROOT, env=around, capture_output=True, text=True, check=False
    )
    assert (built.returncode, built.stderr) == (0, "")
    for page in ("index.html", "api.html", "methods/SHBPolyak.html", "theory/theorem-a.html"):
        text = (tmp_path / page).read_text()
        loaded = re.findall(r'<(?:script|img|iframe)[^>]*src="([^"]+)"', text)
        loaded += re.findall(r'<link[^>]*rel="stylesheet"[^>]*href="([^"]+)"', text)
        assert loaded
        assert not [each for each in loaded if "//" in each]
    front = (tmp_path / "methods.html").read_text()
    assert all(f'href="methods/{name}.html"' in front for name in METHODS)
    assert ".. math::" not in (tmp_path / "api.html").read_text()
