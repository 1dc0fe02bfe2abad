"""Generated pages are up to date, and what pages and the registry point at exists."""

import inspect
import json
import re
import runpy

import numpy as np
import pytest
import torch

from heavystep import theory
from heavystep.methods import METHODS
from heavystep.optimizers import optimizer_class
from heavystep.problems import paper_least_squares
from heavystep.theory.registry import OWN, RESULTS
from tests.helpers.places import ROOT
from tests.helpers.theory_cases import LAWS

PAPER = ROOT.parent / "shared" / "paper"
SOURCE = ROOT / "src" / "heavystep"
RELIABILITY = (ROOT / "docs" / "reliability.md").read_text()


def made(name):
    return runpy.run_path(str(ROOT / "docs" / f"make_{name}.py"))


@pytest.mark.parametrize(("page", "things"), [("methods", METHODS), ("theory", RESULTS + OWN)])
def test_an_index_is_up_to_date_and_has_a_row_of_each_thing(page, things):
    written = (ROOT / "docs" / f"{page}.md").read_text()
    page = made(page)["index"]()
    assert written == page, "run make pages"
    assert len(re.findall(r"^\| \[.*\]\(\.\./src/.*\|$", page, flags=re.MULTILINE)) == len(things)
    for table in re.findall(r"(?:^\|.*\n)+", page, flags=re.MULTILINE):
        heading, ruler, *_ = table.splitlines()  # a rule of another length makes it plain text
        assert re.sub(r"[^|]", "", heading) == re.sub(r"[^|]", "", ruler)


def test_pictures_are_there_for_light_and_dark_pages():
    for drawn in made("pictures")["DRAWN"]:
        kind = "gif" if drawn == "path" else "png"
        assert all((ROOT / "docs" / f"{drawn}{end}.{kind}").exists() for end in ("", "-dark"))


def test_the_rule_of_the_architecture_page_works():
    text = (ROOT / "docs" / "architecture.md").read_text()
    block = text.split("```python\n")[1].split("```")[0]
    try:
        exec(compile(block, "architecture.md", "exec"), {})
        theta = torch.tensor([3.0, -1.0], requires_grad=True)
        opt = optimizer_class("Gentle")([theta])
        for _ in range(200):
            opt.step(lambda: ((theta - 1.0) ** 2).sum())
        assert theta.detach().allclose(torch.ones(2), atol=0.05)
        from heavystep.lab import simulate

        simulate(paper_least_squares(), "Gentle", seeds=[0], iterations=10)
    finally:
        METHODS.pop("Gentle", None)


@pytest.mark.parametrize("place", re.findall(r"`(tests/\S+::\w+)`", RELIABILITY))
def test_every_promise_has_its_test(place):
    file, _, name = place.partition("::")
    assert re.search(rf"^def {name}\(", (ROOT / file).read_text(), flags=re.MULTILINE)


def test_every_file_that_a_page_names_is_there():
    """Of the walks of the architecture page: paths below the package, and functions in them."""
    text = (ROOT / "docs" / "architecture.md").read_text().partition("## Two walks")[2]
    files = re.findall(r"`((?:\w+/)+\w+\.py)`", text)
    assert len(files) > 8
    assert all((SOURCE / file).exists() for file in files)
    named = re.findall(r"`((?:\w+/)+\w+\.py)` \(`(\w+)`\)", text)
    assert len(named) > 2
    assert all(
        re.search(rf"(def|class) {name}\b", (SOURCE / file).read_text()) for file, name in named
    )


def test_measured_certificates_hold():
    rows = json.loads((ROOT / "docs" / "slack.json").read_text())["rows"]
    assert all(row["holds"] for row in rows)
    measured = {row["result"] for row in rows}
    assert measured >= {"Theorem 1", "Theorem 2", "Theorem 3", "Theorem 4", "Theorem 5"}


def test_every_result_of_the_paper_is_registered():
    ids = [result.id for result in RESULTS]
    assert ids == [
        *(f"Lemma {i}" for i in range(1, 8)),
        "Assumption 5",
        *(f"Theorem {i}" for i in range(1, 10)),
    ]
    assert len({result.name for result in RESULTS}) == len(RESULTS)


@pytest.mark.parametrize("result", RESULTS, ids=lambda result: result.id)
def test_results_are_public_and_documented(result):
    function = result.function
    assert getattr(theory, function.__name__) is function
    doc = inspect.getdoc(function)
    assert doc
    if "Args:" in doc or result.scalar:
        section = doc.split("Args:")[1].split("Raises:")[0]
        documented = re.findall(r"^    (\w+): \S", section, flags=re.MULTILINE)
        assert documented == list(inspect.signature(function).parameters)
        assert "Reference: Zhang, Shi and Gu" in doc


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's source is not here")
@pytest.mark.parametrize("result", RESULTS, ids=lambda result: result.id)
def test_labels_are_in_the_paper(result):
    text = "".join(path.read_text() for path in PAPER.glob("*.txt"))
    label = re.search(r"label (\w+)", result.location).group(1)
    assert re.search(rf"\\label{{(lemma|thm|assump):{label}}}", text)


def test_registry_readings_quote_true_numbers():
    """The counterexample and the constants that the pages of the theory state."""
    text = made("theory")["index"]() + (ROOT / "docs" / "readings.json").read_text()
    assert "K = -1 (all k)" in text
    assert "10^37900" in text
    # log10 of the product of 1 + beta_k, with the tail of the sum beyond k.
    k = np.arange(2_000_000)
    head = np.log1p(LAWS.beta(k)).sum()
    tail = 0.9 * 1e4 / 0.1 * (1 + k[-1] / 1e4) ** -0.1
    squares = 0.5 * 0.81 * 1e4 / 1.2 * (1 + k[-1] / 1e4) ** -1.2
    assert (head + tail - squares) / np.log(10) == pytest.approx(37_900, rel=5e-3)
