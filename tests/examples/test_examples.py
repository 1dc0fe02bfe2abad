"""Every example runs in its quick mode and comes to what it shows."""

import json
import re
import runpy

import pytest

from tests.helpers.places import ROOT

EXAMPLES = ROOT / "examples"
NOTEBOOK = "quickstart.ipynb"
ELSEWHERE = {"parts.py", "train_ddp.py"}  # of others, and in tests/distributed
CHECKS = {
    "digits.py": lambda found: len(found) == 11 and found["HeavyStep"][0] < 1.5,
    "loops.py": lambda loss: loss["nanoGPT"] < 3.6 and loss["minGPT"] < 2.0 and loss["MNIST"] < 1.8,
    "fine_tuning.py": lambda rows: (
        len(rows) == 2 and all(ours < before and early < before for before, _, ours, early in rows)
    ),
    "bfloat16.py": lambda loss: (
        loss["stochastic rounding"] == pytest.approx(loss["float32"], rel=0.02)
    ),
    "diffusion.py": lambda loss: loss["HeavyStep"] < 0.45,
    "cifar_resnet.py": lambda found: found[1] > 0.9,  # the accuracy
}


def test_every_example_is_run():
    written = {path.name for path in EXAMPLES.glob("*.py")}
    assert written == {*CHECKS, *ELSEWHERE}


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKS)
def test_quick_mode(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLES)
    found = runpy.run_path(str(EXAMPLES / name))["main"](["--quick"])
    assert CHECKS[name](found), found
    assert not list(tmp_path.iterdir())


def test_the_clipping_of_diffusion_scripts_is_noticed(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    found = runpy.run_path(str(EXAMPLES / "diffusion.py"))
    with pytest.warns(RuntimeWarning, match=r"max_grad_norm\) and not the gradient. Leave"):
        found["train"](found["RIVALS"]["HeavyStep"], 30, clip=0.1)


def outputs_of(page):
    return [output for cell in page["cells"] for output in cell.get("outputs", [])]


def check(outputs):
    """It trains, draws the steps, and prints a line for each learning rate and one for ours."""
    text = "".join("".join(output.get("text", "")) for output in outputs)
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert len(re.findall(r"^AdamW, lr=", text, flags=re.MULTILINE)) == 5
    ours = re.search(r"^HeavyStep, nothing set: .* accuracy (\S+)%$", text, flags=re.MULTILINE)
    assert float(ours.group(1)) > 90


def test_the_notebook_is_stored_with_its_outputs():
    check(outputs_of(json.loads((EXAMPLES / NOTEBOOK).read_text())))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_the_notebook_runs(tmp_path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    page = nbformat.read(EXAMPLES / NOTEBOOK, as_version=4)
    nbclient.NotebookClient(page, timeout=300, resources={"metadata": {"path": tmp_path}}).execute()
    check(outputs_of(page))
