"""Imports point down, signatures are the design, and every name is documented."""

import ast
import inspect
import re
import subprocess
import sys

import pytest

import heavystep
from heavystep import validation
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
NO_DEFAULT = inspect.Parameter.empty


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


def test_import_needs_torch_and_numpy_only():
    extras = ["numba", "sklearn", "scipy", "matplotlib", "rich", "typer", "pyarrow", "ray"]
    extras += ["joblib", "pooch", "plotly", "lightning", "accelerate", "transformers"]
    names = [name for name in heavystep.__all__ if name not in heavystep._EXTRAS]
    code = f"import sys; from heavystep import {', '.join(names)}; "
    code += f"print([m for m in {extras} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_the_package_imports_nothing_before_it_is_asked_for():
    """Whoever only wants the version, or the help of a command, does not wait for torch."""
    code = "import sys, heavystep; print([m for m in ('torch', 'numpy') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_every_public_name_has_a_home():
    packages = {name for name in heavystep.__all__ if inspect.ismodule(getattr(heavystep, name))}
    assert set(heavystep._HOMES) == set(heavystep.__all__) - packages
    assert set(heavystep._EXTRAS) <= set(heavystep._HOMES)
    assert set(heavystep.__all__) <= set(dir(heavystep))
    with pytest.raises(AttributeError, match="no attribute 'SHBPolyack'"):
        heavystep.SHBPolyack  # noqa: B018


# The arguments that the design fixes, with their defaults.
POLYAK = {
    "c": 1.0, "max_step": 1.0, "lower_bound": 0.0, "scaling": "practical",
    "steps_per_epoch": None, "growth": 4.0, "weight_decay": 0.0, "decay": "decoupled",
}  # fmt: skip
ARMIJO = {
    "c": 0.1, "max_step": 1.0, "decrease_factor": 0.9, "lower_bound": None, "scaling": "practical",
    "steps_per_epoch": None, "growth": 2.0, "max_trials": 100, "weight_decay": 0.0,
    "decay": "decoupled", "buffers": None,
}  # fmt: skip
COMMON = {"params": NO_DEFAULT, "lr": 1.0, "momentum": 0.9}
SIGNATURES = {
    heavystep.HeavyStep: {
        **COMMON, "lower_bound": 0.0, "max_step": None, "diagonal": "element",
        "weight_decay": 0.0, "process_group": None,
    },
    heavystep.SHBPolyak: {**COMMON, **POLYAK},
    heavystep.SHBArmijo: {**COMMON, **ARMIJO},
    heavystep.SHB: {**COMMON, "lr": None, "weight_decay": 0.0},
    heavystep.SPS: {"params": NO_DEFAULT, "lr": 1.0, "c": 0.1, "max_step": 1.0},
    heavystep.SLS: {"params": NO_DEFAULT, "lr": 1.0, "c": 0.1, "max_step": 1.0},
    heavystep.Diminishing: {
        "optimizer": NO_DEFAULT, "eta0": 0.5, "eta_power": 0.4, "beta0": None, "beta_power": 1.1,
        "max_step_power": 0.3, "horizon": 1e4,
    },
}  # fmt: skip


@pytest.mark.parametrize("cls", SIGNATURES, ids=lambda cls: cls.__name__)
def test_signature_is_the_design(cls):
    parameters, design = inspect.signature(cls).parameters, SIGNATURES[cls]
    assert {name: parameters[name].default for name in design} == design
    assert [name for name in parameters if name in design] == list(design)


@pytest.mark.parametrize("cls", SIGNATURES, ids=lambda cls: cls.__name__)
def test_every_argument_is_documented_once(cls):
    section = inspect.getdoc(cls).split("Args:")[1].split("Raises:")[0]
    documented = re.findall(r"^    (\w+): \S", section, flags=re.MULTILINE)
    assert documented == list(inspect.signature(cls).parameters)


def test_the_page_of_the_paper_has_every_symbol():
    page = (ROOT / "docs" / "paper.md").read_text()
    for name, symbol in validation.SYMBOLS.items():
        row = next(line for line in page.splitlines() if f"`{name}`" in line and line[0] == "|")
        assert symbol in row, name
