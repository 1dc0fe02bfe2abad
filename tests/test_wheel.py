"""What is published: a wheel and a source archive that work where nothing else of ours is."""

import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from heavystep import __version__
from tests.helpers.places import ROOT

BUILD = "import sys; from hatchling import build; print(getattr(build, sys.argv[1])(sys.argv[2]))"
USE = """
import sys, pathlib, torch, heavystep
assert pathlib.Path(heavystep.__file__).is_relative_to(sys.prefix), heavystep.__file__
theta = torch.tensor([3.0, -1.0], requires_grad=True)
opt = heavystep.HeavyStep([theta])
for _ in range(300):
    opt.zero_grad()
    loss = ((theta - torch.tensor([1.0, 2.0])) ** 2).sum()
    loss.backward()
    opt.step(loss=loss)
assert loss < 1e-3, loss
assert not {"numba", "scipy", "matplotlib", "pyarrow", "typer"} & set(sys.modules)
print(heavystep.__version__)
"""


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    kinds = ("build_wheel", "build_sdist")
    return [folder / run(sys.executable, "-c", BUILD, kind, folder, cwd=ROOT) for kind in kinds]


@pytest.mark.slow
def test_the_wheel_works_where_only_torch_and_numpy_are(built, tmp_path):
    """Installed in an empty environment, which finds torch and numpy where these tests have them."""
    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", built[0])
    shared = Path(find_spec("torch").origin).parents[1]
    (own,) = (tmp_path / "empty" / "lib").glob("python*/site-packages")
    (own / "torch_and_numpy.pth").write_text(f"{shared}\n")  # behind what is installed here
    assert run(python, "-c", USE, cwd=tmp_path).splitlines()[-1] == __version__


def test_what_is_in_the_archives(built):
    wheel, sdist = built
    names = zipfile.ZipFile(wheel).namelist()
    assert {"heavystep/py.typed", "heavystep/rules/heavystep.py"} <= set(names)
    assert all(
        name.split("/")[0] in {"heavystep", f"heavystep-{__version__}.dist-info"} for name in names
    )
    with tarfile.open(sdist) as archive:
        held = {"/".join(name.split("/")[1:]) for name in archive.getnames()}
    assert {"README.md", "Makefile", "tests/test_wheel.py", "src/heavystep/py.typed"} <= held
