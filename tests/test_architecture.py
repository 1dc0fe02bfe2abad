"""Imports point down, signatures are those of the registry, and every name is documented."""

import ast
import inspect
import re
import subprocess
import sys

import pytest

import heavystep
from heavystep import validation
from heavystep.optim.options import common_options
from heavystep.optimizers import WRITTEN
from heavystep.rules import REQUIRED
from tests.helpers.places import ROOT

SOURCE = ROOT / "src" / "heavystep"
# A part imports itself and lower layers.
LAYERS = (
    {"validation", "arrays", "extras"},
    {"momentum", "schedules", "lower_bounds"},
    {"rules"},
    {"methods", "theory"},
    {"problems", "records"},
    {"certificates"},
    {"optim"},
    {"optimizers"},
    {"integrations", "suggestions", "smoothness", "pictures"},
    {"lab"},
    {"cli"},
)
HEIGHT = {part: height for height, layer in enumerate(LAYERS) for part in layer}
LIBRARY_NEEDS = {"torch", "numpy"}
EXTRAS = {
    "pictures": {"matplotlib"},
    "integrations/lightning": {"lightning"},
    "integrations/accelerate": {"accelerate"},
    "integrations/transformers": {"transformers"},
}


def modules():
    return sorted(SOURCE.rglob("*.py"))


def part_of(path):
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def imported_names(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in {path.name}"
            if node.module == "heavystep":
                yield from (f"heavystep.{alias.name}" for alias in node.names)
            else:
                yield node.module


def test_every_part_has_a_layer():
    assert {part_of(path) for path in modules()} - {"__init__", "__main__"} == set(HEIGHT)


@pytest.mark.parametrize("part", sorted(HEIGHT))
def test_imports_point_down(part):
    for path in (path for path in modules() if part_of(path) == part):
        outside = LIBRARY_NEEDS | EXTRAS.get(str(path.relative_to(SOURCE).with_suffix("")), set())
        for name in imported_names(path):
            top, _, inner = name.partition(".")
            below = inner.partition(".")[0]
            ours = f"{top}." == heavystep.__name__ + "."
            lower = HEIGHT.get(below, -1) < HEIGHT[part] or below == part
            free = part in ("lab", "cli") or top in sys.stdlib_module_names
            assert lower if ours else free or top in outside, f"{path} imports {name}"


def test_rules_need_nothing_but_python():
    """Formulas run on every back end, and so does the momentum that they share."""
    for path in (path for path in modules() if part_of(path) in ("rules", "momentum")):
        for name in imported_names(path):
            ours = re.match(r"heavystep\.(rules|momentum|validation)\b", name)
            assert ours or name.partition(".")[0] in sys.stdlib_module_names, f"{path}: {name}"


EXTRA = ["numba", "sklearn", "scipy", "matplotlib", "rich", "typer", "pyarrow", "ray", "joblib",
         "pooch", "plotly", "lightning", "accelerate", "transformers"]  # fmt: skip
NAMES = ", ".join(name for name in heavystep.__all__ if name not in heavystep._EXTRAS)


@pytest.mark.parametrize(
    ("imports", "unwanted"),
    [(f"from heavystep import {NAMES}", EXTRA), ("import heavystep", ["torch", "numpy"])],
)
def test_nothing_is_imported_before_it_is_needed(imports, unwanted):
    """Whoever only wants the version, or the help of a command, does not wait for torch."""
    code = f"import sys; {imports}; print([m for m in {unwanted} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_every_public_name_has_a_home():
    packages = {name for name in heavystep.__all__ if inspect.ismodule(getattr(heavystep, name))}
    assert set(heavystep._HOMES) == set(heavystep.__all__) - packages
    assert set(heavystep._EXTRAS) <= set(heavystep._HOMES)
    assert set(heavystep.__all__) <= set(dir(heavystep))
    with pytest.raises(AttributeError, match="no attribute 'SHBPolyack'"):
        heavystep.SHBPolyack  # noqa: B018


every_class = pytest.mark.parametrize(
    "cls", [*WRITTEN.values(), heavystep.Diminishing], ids=lambda cls: cls.__name__
)


@pytest.mark.parametrize("method", WRITTEN, ids=lambda method: method.name)
def test_a_written_signature_is_that_of_its_row(method):
    """Names and defaults, but for ``lr``, which groups may have."""
    written = inspect.signature(WRITTEN[method]).parameters
    options = {o.name: o.default for o in (*method.options, *common_options(method))}
    apart = {"params": inspect.Parameter.empty, "process_group": None}
    apart |= {"buffers": None} if method.rule.searches else {}
    row = {n: None if default is REQUIRED else default for n, default in options.items()}
    found = {name: each.default for name, each in written.items()}
    assert found == row | apart
    by_place = [name for name in ("params", "lr", "momentum") if name in written]
    assert list(written)[: len(by_place)] == by_place


@every_class
def test_every_argument_is_documented_once(cls):
    section = inspect.getdoc(cls).split("Args:")[1].split("Raises:")[0]
    documented = re.findall(r"^    (\w+): \S", section, flags=re.MULTILINE)
    assert documented == list(inspect.signature(cls).parameters)


def test_the_page_of_the_paper_has_every_symbol():
    page = (ROOT / "docs" / "paper.md").read_text()
    for name, symbol in validation.SYMBOLS.items():
        row = next(line for line in page.splitlines() if f"`{name}`" in line and line[0] == "|")
        assert symbol in row, name
