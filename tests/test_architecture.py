"""Layers, names and documents stay in step with the code."""

import ast
import inspect
import re
import runpy
import subprocess
import sys

import pytest

import heavystep
from heavystep import rules, validation
from tests.helpers.places import ROOT

SOURCE = ROOT / "src" / "heavystep"

# Each package may import itself, what is below it, and the rooms named here: every folder counts, not
# only the first. A package that is not named has the rights of the one that it lies in.
BASE = {"validation", "arrays"}
LAYERS = {
    "validation": set(),
    "extras": set(),
    "documentation": set(),
    "arrays": set(),
    "files": set(),
    "parquet": {"arrays", "files"},
    "sparse": BASE,
    "data": {*BASE, "files", "sparse"},
    "rules": {"validation", "momentum"},
    "momentum": set(),
    "methods": {"validation", "momentum", "rules"},
    "schedules": {"validation"},
    "lower_bounds": {"validation"},
    "records": {*BASE, "rules", "theory.rules"},
    "theory": {*BASE, "rules", "schedules", "documentation"},
    "problems": {*BASE, "sparse"},
    "certificates": {*BASE, "rules", "schedules", "theory", "problems", "records"},
    "simulation": {
        *BASE, "files", "methods", "momentum", "rules", "schedules", "sparse", "theory", "problems",
        "records",
    },
    "optim": {*BASE, "documentation", "methods", "momentum", "records", "rules", "schedules"},
    "optim.averaging": {
        "validation", "momentum", "optim.closures.replay", "optim.optimizer", "optim.ranks", "optim.vectors",
    },
    "optim.closures": {"optim.committing", "optim.ranks", "optim.speaking", "optim.vectors"},
    "optim.graphs": {
        "validation", "momentum", "rules", "optim.closures", "optim.deciding", "optim.optimizer",
        "optim.fused", "optim.sample", "optim.state", "optim.vectors",
    },
    "optim.recording": {
        *BASE, "momentum", "records", "optim.deciding", "optim.groups", "optim.optimizer",
    },
    "suggestions": {"validation", "methods", "optim"},
    "integrations": {"extras", "optim"},
    "linear": {*BASE, "extras", "sparse", "problems", "simulation", "data"},
    "training": {
        *BASE, "__version__", "data", "files", "methods", "optim", "parquet", "records", "rules",
    },
    "sweeps": {
        *BASE, "methods", "schedules", "data", "files", "parquet", "problems", "records", "simulation", "training",
    },
    "paper": {
        *BASE, "certificates", "methods", "data", "files", "problems", "records", "schedules", "simulation", "sweeps",
        "theory", "training",
    },
    "bench": {
        *BASE, "compare", "methods", "data", "extras", "files", "linear", "optim", "paper", "problems", "records", "rules",
        "schedules", "simulation", "sparse", "sweeps", "training",
    },
    "pictures": {"arrays", "optim", "paper.plot", "records", "theory"},
    "report": {
        *BASE, "__version__", "certificates", "files", "methods", "parquet", "problems",
    },
    "compare": {
        *BASE, "methods", "data", "files", "optim", "paper", "problems", "records", "rules",
        "simulation", "sweeps", "training",
    },
    "cli": {
        "__version__", "validation", "bench", "compare", "data", "documentation", "extras", "files",
        "methods", "optim", "paper", "problems", "report", "schedules", "sweeps", "theory", "training",
    },
    "__main__": {"cli"},
    "__init__": {
        "certificates", "extras", "lower_bounds", "methods", "optim", "pictures", "problems",
        "simulation", "suggestions", "sweeps", "theory",
    },
}  # fmt: skip
OUTSIDE = {
    "arrays": {"numpy"},
    "schedules": {"numpy"},
    "records": {"numpy"},
    "sparse": {"numpy"},
    "parquet": {"numpy", "pyarrow"},
    "data": {"numpy"},
    "linear": {"numpy", "scipy", "sklearn"},
    "theory": {"numpy"},
    "problems": {"numpy"},
    "certificates": {"numpy"},
    "report": {"numpy"},
    "pictures": {"numpy", "matplotlib"},
    "lower_bounds": {"torch"},
    "optim": {"torch", "numpy"},
    "integrations": {"torch"},
    "suggestions": {"torch", "numpy"},
    "training": {"torch", "numpy"},
    "simulation": {"llvmlite", "numba", "numpy"},
    "sweeps": {"numpy", "torch", "ray"},
    "paper": {"numpy", "matplotlib", "scipy"},
    "bench": {"torch", "numpy", "matplotlib", "scipy", "sklearn", "threadpoolctl"},
    "compare": {"torch", "numpy", "matplotlib", "sklearn"},
    "cli": {"typer", "rich", "numpy"},
}
# A framework is imported in its own module, where one adapter may build on another.
FRAMEWORKS = {
    "integrations/lightning.py": {"lightning"},
    "integrations/accelerate.py": {"accelerate"},
    "integrations/transformers.py": {"transformers"},
}


def modules():
    return sorted(SOURCE.rglob("*.py"))


def room_of(path, table):
    """The entry of the table for the innermost package that has one."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts
    names = [".".join(parts[:end]) for end in range(len(parts), 0, -1)]
    return next((name for name in names if name in table), None)


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


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_down(path):
    room, outer = room_of(path, LAYERS), room_of(path, OUTSIDE)
    assert room is not None, f"{path} is in no room: add it to LAYERS"
    outside = OUTSIDE.get(outer, set()) | FRAMEWORKS.get(path.relative_to(SOURCE).as_posix(), set())
    for name in imported_names(path):
        top, _, inner = name.partition(".")
        if top == "heavystep":
            allowed = LAYERS[room] | {room}
            assert any(inner == a or inner.startswith(f"{a}.") for a in allowed), (
                f"{room} imports {name}"
            )
        elif top not in sys.stdlib_module_names:
            assert top in outside, f"{room} imports {name}"


def test_import_needs_torch_and_numpy_only():
    extras = ["numba", "sklearn", "scipy", "matplotlib", "rich", "typer", "pyarrow", "ray", "jax"]
    extras += ["lightning", "accelerate", "transformers"]
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


def test_every_public_name_has_a_home_and_every_room_is_an_attribute():
    modules = {name for name in heavystep.__all__ if inspect.ismodule(getattr(heavystep, name))}
    assert set(heavystep._HOMES) == set(heavystep.__all__) - modules
    assert set(heavystep._EXTRAS) <= set(heavystep._HOMES)
    assert set(heavystep.__all__) <= set(dir(heavystep))
    code = "import heavystep; print(heavystep.optim.Average is heavystep.Average)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "True"
    with pytest.raises(AttributeError, match="no attribute 'SHBPolyack'"):
        heavystep.SHBPolyack  # noqa: B018


def test_files_and_functions_stay_small():
    for path in modules():
        text = path.read_text()
        assert len(text.splitlines()) <= 300, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                length = node.end_lineno - body[0].lineno + 1 if body else 0
                assert length <= 40, f"{path.name}: {node.name} has {length} lines"


# The arguments that the design fixes, with their defaults.
NO_DEFAULT = inspect.Parameter.empty
SIGNATURES = {
    heavystep.SHB: {"params": NO_DEFAULT, "lr": None, "momentum": 0.9, "weight_decay": 0.0},
    heavystep.SHBPolyak: {
        "params": NO_DEFAULT, "lr": 1.0, "momentum": 0.9, "c": 1.0, "max_step": "auto",
        "lower_bound": 0.0, "scaling": "steady", "steps_per_epoch": "auto", "growth": 4.0,
        "outlook": 3.0, "total_steps": None, "weight_decay": 0.0, "decay": "decoupled",
    },
    heavystep.SHBArmijo: {
        "params": NO_DEFAULT, "lr": 1.0, "momentum": 0.9, "c": "auto", "max_step": "auto",
        "decrease_factor": 0.9, "lower_bound": None, "scaling": "steady",
        "steps_per_epoch": "auto", "growth": 2.0, "max_trials": 100, "outlook": 3.0,
        "total_steps": None, "weight_decay": 0.0, "decay": "decoupled", "buffers": None,
    },
    heavystep.HeavyStep: {
        "params": NO_DEFAULT, "lr": 1.0, "momentum": 0.9, "c": 1.0, "max_step": "auto",
        "lower_bound": 0.0, "outlook": 3.0, "alike": 0.006, "total_steps": None, "beta2": 0.999,
        "diagonal_eps": 1e-8, "weight_decay": 0.0, "decay": "decoupled",
    },
    heavystep.SPS: {"params": NO_DEFAULT, "lr": 1.0, "c": 0.1, "max_step": 1.0},
    heavystep.SLS: {"params": NO_DEFAULT, "lr": 1.0, "c": 0.1, "max_step": 1.0},
    heavystep.Diminishing: {
        "optimizer": NO_DEFAULT, "eta0": 0.5, "eta_power": 0.4, "beta0": None, "beta_power": 1.1,
        "max_step_power": 0.3, "horizon": 1e4,
    },
}  # fmt: skip


SHARED = {
    "L": NO_DEFAULT,
    "beta": NO_DEFAULT,
    "c": NO_DEFAULT,
    "gamma_max": NO_DEFAULT,
    "omega": None,
}
THEORY_SIGNATURES = {
    "step_bounds": SHARED,
    "strongly_convex": {**SHARED, "mu": NO_DEFAULT, "sigma2": 0.0},
    "convex": {**SHARED, "sigma2": 0.0, "dist0_sq": NO_DEFAULT},
    "nonconvex": {**SHARED, "rho": NO_DEFAULT, "delta": NO_DEFAULT, "gap0": NO_DEFAULT},
    "nonconvex_step_limit": {
        "L": NO_DEFAULT, "rho": NO_DEFAULT, "beta": NO_DEFAULT, "c": NO_DEFAULT, "omega": None,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", THEORY_SIGNATURES)
def test_theory_signature_is_the_design(name):
    parameters = inspect.signature(getattr(heavystep.theory, name)).parameters
    assert next(iter(parameters)) == "rule"
    for argument, default in THEORY_SIGNATURES[name].items():
        assert parameters[argument].default == default, argument
        assert parameters[argument].kind is inspect.Parameter.KEYWORD_ONLY


@pytest.mark.parametrize("cls", SIGNATURES, ids=lambda cls: cls.__name__)
def test_signature_is_the_design(cls):
    parameters = inspect.signature(cls).parameters
    for name, default in SIGNATURES[cls].items():
        assert parameters[name].default == default, name
    fixed = list(SIGNATURES[cls])
    assert [name for name in parameters if name in fixed] == fixed


@pytest.mark.parametrize("cls", SIGNATURES, ids=lambda cls: cls.__name__)
def test_every_argument_is_documented_once(cls):
    section = inspect.getdoc(cls).split("Args:")[1].split("Raises:")[0]
    documented = re.findall(r"^    (\w+): \S", section, flags=re.MULTILINE)
    assert documented == list(inspect.signature(cls).parameters)


def arguments_of(node):
    """Names in a signature, that of ``__init__`` for a class."""
    if isinstance(node, ast.ClassDef):
        node = next(n for n in node.body if getattr(n, "name", "") == "__init__")
    spec = node.args
    stars = [star for star in (spec.vararg, spec.kwarg) if star is not None]
    names = [a.arg for a in (*spec.args, *spec.kwonlyargs, *stars)]
    return [name for name in names if name != "self"]


@pytest.mark.parametrize("path", sorted(FRAMEWORKS))
def test_adapters_document_their_arguments(path):
    """Read, not imported: a framework may be missing."""
    found = 0
    for node in ast.walk(ast.parse((SOURCE / path).read_text())):
        is_definition = isinstance(node, (ast.FunctionDef, ast.ClassDef))
        doc = (ast.get_docstring(node) or "") if is_definition else ""
        if "Args:" in doc:
            section = doc.split("Args:")[1].split("Returns:")[0]
            documented = re.findall(r"^    (\w+): \S", section, flags=re.MULTILINE)
            assert documented == arguments_of(node), node.name
            found += 1
    assert found


def made(cls, **options):
    import torch

    return cls([torch.zeros(1, requires_grad=True)], **options).defaults


def test_default_of_the_smooth_reset():
    def make(cls, **options):
        return made(cls, **options)["steps_per_epoch"]

    for cls in (heavystep.SHBPolyak, heavystep.SHBArmijo):
        assert make(cls) is None
        assert make(cls, scaling="practical") == 500
        assert make(cls, scaling="theory") is None
        assert make(cls, scaling="plain") is None
        assert make(cls, scaling="practical", steps_per_epoch=None) is None
    assert make(heavystep.SPS) is None
    assert make(heavystep.SLS) is None


def test_every_public_name_has_a_docstring():
    for name in heavystep.__all__:
        assert inspect.getdoc(getattr(heavystep, name)), name
    for name in rules.__all__:
        if inspect.isroutine(getattr(rules, name)) or inspect.isclass(getattr(rules, name)):
            assert inspect.getdoc(getattr(rules, name)), name
    public = [name for name in heavystep.__all__ if not inspect.ismodule(getattr(heavystep, name))]
    assert len(public) <= 19  # 17 until suggest and plot_steps came


def test_notation_lists_names_symbols_and_deviations():
    notation = (ROOT / "docs" / "notation.md").read_text()
    for name, symbol in validation.SYMBOLS.items():
        row = next(line for line in notation.splitlines() if f"`{name}`" in line)
        assert symbol in row, name
    for path in modules():
        if "Differs from the paper" in path.read_text():
            assert path.relative_to(SOURCE).as_posix() in notation, path


def test_the_picture_shows_every_room_above_what_it_imports():
    drawn = runpy.run_path(str(ROOT / "docs" / "make_architecture.py"))
    assert (ROOT / "docs" / "architecture.svg").read_text() == drawn["render"]()
    places = {room: (y, x) for y, row in enumerate(drawn["ROWS"]) for x, room in enumerate(row)}
    rooms = {room for room in LAYERS if "." not in room and not room.startswith("__")}
    assert set(places) == rooms
    for room in rooms:
        for below in {each.partition(".")[0] for each in LAYERS[room]} - {"__version__"}:
            assert places[room] < places[below], f"{room} imports {below}, which is drawn above it"
