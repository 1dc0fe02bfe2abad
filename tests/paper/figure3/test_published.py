"""What the pages of Figure 3 say is what their runs say."""

import csv
import json
import re

import pytest

from heavystep.paper.appendix_e import METHODS
from heavystep.lab.figures.figure3 import PAPER
from heavystep.paper.reproduce import evaluate_claims
from heavystep.sweeps.output_folder import runs_folder
from heavystep.training.results import survey
from heavystep.lab.training.runs import TrainingStore
from tests.helpers.pages import table
from tests.helpers.places import ROOT

RESULTS = ROOT / "docs" / "results"
EPOCHS = {"figure3": 200, "figure3_30_epochs": 30}
SEEDS = {
    "figure3": {"cifar10": {0}, "cifar100": {0}},
    "figure3_30_epochs": {"cifar10": {0, 1, 2}, "cifar100": {0}},
}
"""Those that every method has."""
HOLDS = {
    "figure3": (8, "Eight of the paper's twelve claims hold"),
    "figure3_30_epochs": (9, "Nine of the paper's twelve claims hold"),
}


@pytest.fixture(scope="module", params=list(EPOCHS))
def name(request):
    return request.param


@pytest.fixture(scope="module")
def runs(name):
    return dict(survey(TrainingStore(runs_folder(RESULTS / name, "figure3")), pytest.fail))


def test_all_methods_are_there_to_the_same_epoch(name, runs):
    for data_set, seeds in SEEDS[name].items():
        for method in METHODS:
            found = {
                run.seed: stored.epochs
                for run, stored in runs.items()
                if (run.data_set, run.method.name) == (data_set, method)
            }
            assert {found[seed] for seed in seeds} == {EPOCHS[name]}, (data_set, method)
            assert max(found.values()) == EPOCHS[name]
    assert {run.scale for run in runs} == {PAPER}


def test_the_page_names_where_they_were_made(name, runs):
    page = (RESULTS / name / "README.md").read_text()
    stretches = [stretch for stored in runs.values() for stretch in stored.stretches]
    assert {stretch.precision for stretch in stretches} == {"bfloat16 autocast"}
    for device in {stretch.device for stretch in stretches}:
        assert device in page
    minutes = sum(stretch.seconds for stretch in stretches) / 60.0
    assert f"{minutes:.1f} minutes for {len(runs)} runs" in page


def test_the_page_quotes_the_table():
    folder = RESULTS / "figure3"
    with (folder / "figure3" / "table.csv").open() as file:
        rows = {(row["data_set"], row["method"]): row for row in csv.DictReader(file)}
    quoted = table(folder / "README.md", "Means over the last twenty epochs")
    assert len(quoted) == 5
    for method, *cells in quoted:
        for data_set, (loss, accuracy) in zip(
            SEEDS["figure3"], (cells[:2], cells[2:]), strict=True
        ):
            row = rows[data_set, method]
            digits = max(len(loss.lstrip("0.")), 2)
            assert float(loss) == float(f"{float(row['final_loss']):.{digits}g}")
            assert accuracy == f"{100.0 * float(row['final_accuracy']):.1f}%"


def test_the_page_tells_how_far_every_run_went(name, runs):
    page = (RESULTS / name / "README.md").read_text()
    for stored in runs.values():
        assert re.search(rf"\b{stored.epochs}\b", page)


def test_claims_are_those_of_the_runs(name):
    folder, (count, words) = RESULTS / name, HOLDS[name]
    claims = [claim.as_json() for claim in evaluate_claims(folder, lambda text: None)]
    stored = json.loads((folder / "figure3" / "claims.json").read_text())
    assert [{**claim, "id": claim["id"].removeprefix("figure3.")} for claim in claims] == stored
    assert sum(claim["holds"] for claim in stored) == count
    assert words in (folder / "README.md").read_text()
