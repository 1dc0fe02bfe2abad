"""Every Python block of every page runs as printed, and no link leads nowhere."""

import math
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.pages import DOCS, PAGES, blocks, name
from tests.helpers.places import ROOT

README = ROOT / "README.md"


def number(pattern, text):
    return float(re.search(pattern, text, re.MULTILINE).group(1))


def follows_recipes(printed):
    assert number(r"^loss (\S+), last step", printed) < 0.5
    assert 0 < number(r"last step (\S+)$", printed) < 1
    assert number(r"^loss at the average (\S+)$", printed) < 0.5


def certifies(printed):
    promise = r"F\(mean iterate\) - F\* <= 7\.55 in expectation; gamma_max < 3\.14e-05"
    assert re.match(promise, printed)
    for theorem in ("Theorem 1", "Theorem 2"):
        assert re.search(rf"^{theorem} .* yes$", printed, flags=re.MULTILINE)
    assert "estimated L" in printed
    assert "NO" not in printed


def derives(printed):
    """Theorem A lets the default's steps stay, wants longer ones to fall, and the counterexample tells the rules apart."""
    assert number(r"^tau = 1.00: a_100 <= (\S+) a_99$", printed) > 1
    assert number(r"^tau = 1.80: a_100 <= (\S+) a_99$", printed) == 1
    assert number(r"^tau = 1.90: a_100 <= (\S+) a_99$", printed) < 1
    wrong = number(r"^SPS: F - F\* = (\S+) after", printed)
    assert number(r"^HeavyStep: F - F\* = (\S+) after", printed) < 0.1 * wrong


def trains(count):
    """As many losses are printed, and all are below that of three classes before the first step."""

    def check(printed):
        losses = [float(line) for line in re.findall(r"^[\d.e-]+$", printed, re.MULTILINE)]
        assert len(losses) == count
        assert max(losses) < math.log(3) / 3

    return check


# What the blocks of a page print: a pattern, or a function that checks it.
CHECKS = {
    "README.md": r"loss \S+e-0[2-9], last step",
    "docs/start.md": r"loss \S+e-0[2-9], last step .*\n\d+ trials.*\nloss \S+e-0[2-9]\n$",
    "docs/recipes.md": follows_recipes,
    "docs/metric.md": r"[\s\S]*Use ",
    "docs/certify.md": certifies,
    "docs/how-it-works.md": derives,
    "docs/simulation.md": r"F - F\* after 2000 steps: \d\.\de-\d\d\n",
    "docs/faq.md": r"1.0 True\n$",
    "docs/moving.md": r"$",
    "docs/frameworks/lightning.md": trains(3),
    "docs/frameworks/accelerate.md": trains(2),
    "docs/frameworks/trainer.md": trains(2),
    "docs/frameworks/gradscaler.md": trains(2),
}
NEEDS = {"lightning": "lightning", "accelerate": "accelerate", "trainer": "transformers"}


def test_every_page_with_code_is_run():
    elsewhere = {"docs/architecture.md"}  # tests/test_docs.py
    assert {name(page) for page in PAGES if blocks(page, "python")} == {*CHECKS, *elsewhere}


@pytest.mark.filterwarnings("ignore:.*does not have many workers")
@pytest.mark.filterwarnings("ignore:.*LeafSpec.*is deprecated:FutureWarning")
@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true")  # Trainer's default
@pytest.mark.parametrize(
    "page", [pytest.param(p, marks=[pytest.mark.slow] * ("frameworks" in p)) for p in CHECKS]
)
def test_python_blocks_run_one_after_another(page, capsys, tmp_path, monkeypatch):
    pytest.importorskip(NEEDS.get(Path(page).stem, "torch"))
    monkeypatch.chdir(tmp_path)
    namespace, check = {"__name__": "page"}, CHECKS[page]
    for block in blocks(ROOT / page, "python"):
        exec(compile(block, page, "exec"), namespace)
    printed = capsys.readouterr().out
    assert re.match(check, printed) if isinstance(check, str) else check(printed) is None


@pytest.mark.parametrize("sign", ["-", "+"])
def test_both_sides_of_the_change_train(sign):
    """What is taken away is a loop of torch, what comes is one of ours, line for line."""
    (diff,) = blocks(README, "diff")
    code = "\n".join(line[1:] for line in diff.splitlines() if line[0] in (" ", sign))
    loader = "torch.manual_seed(0); x = torch.randn(8, 2); loader = [(x, x)] * 300"
    setting = "import torch, heavystep\nmodel = torch.nn.Linear(2, 2)\nloss_fn = torch.nn.functional.mse_loss"
    namespace = {}
    exec("\n".join([setting, loader, "first = loss_fn(model(x), x).item()", code]), namespace)
    assert namespace["loss"].item() < 0.9 * namespace["first"]


def test_commands_of_the_front_page_are_targets():
    (block,) = blocks(README, "sh")
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^make (\S+)", block, flags=re.MULTILINE)
    assert len(targets) == 2
    assert all(re.search(rf"^{target}:", makefile, flags=re.MULTILINE) for target in targets)


def test_the_table_of_the_front_page_is_that_of_the_results():
    pytest.importorskip("numba")
    made = runpy.run_path(str(DOCS / "make_readme_table.py"))
    assert made["updated"](README.read_text()) == README.read_text(), "run make pages"


@pytest.mark.slow
def test_the_line_that_checks_an_installation():
    (line,) = re.findall(r"^python -c.*$", (DOCS / "start.md").read_text(), flags=re.MULTILINE)
    _, *arguments = shlex.split(line)
    run = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)
    found = [float(each) for each in re.findall(r"\d\.\d*", run.stdout)]
    assert found == pytest.approx([3.0, 3.0], abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(("page", "count"), [("certify", 4), ("paper", 2)])
def test_commands_run_one_after_another(page, count, tmp_path):
    text = "\n".join(blocks(DOCS / f"{page}.md", "sh"))
    commands = re.findall(r"^heavystep (\S.*?)(?:\s+#.*)?$", text, flags=re.MULTILINE)
    assert len(commands) == count
    for command in commands:
        run = subprocess.run(
            [sys.executable, "-m", "heavystep", *shlex.split(command)],
            capture_output=True, text=True, check=False, cwd=tmp_path,
        )  # fmt: skip
        refused = "schedules" in command  # printed as an example of a refusal
        assert run.returncode == (2 if refused else 0), run.stderr
        assert ("beta_power > 1, got 1" in run.stderr) == refused


def without_code(page):
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors(page):
    """Of the headings of a page, as GitHub and mkdocs make them."""
    headings = re.findall(r"^#+ (.+)$", without_code(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each).strip().lower().replace(" ", "-") for each in headings}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(page)):
        if re.match(r"https?://|mailto:", link):
            continue
        place, _, anchor = link.partition("#")
        target = (page.parent / place).resolve() if place else page
        assert target.exists(), f"{name(page)} points at {link}"
        assert not anchor or anchor in anchors(target), f"{name(page)} points at {link}"
