"""What docs/results/figure3 says is what its runs say."""

import json

import pytest

from heavystep.paper.appendix_e import METHODS
from heavystep.paper.figure3.definition import PAPER
from heavystep.paper.reproduce import evaluate_claims
from heavystep.sweeps.output_folder import runs_folder
from heavystep.training.results import survey
from heavystep.training.store import TrainingStore
from tests.helpers.places import ROOT

FOLDER = ROOT / "docs" / "results" / "figure3"
SEEDS = {"cifar10": {0, 1, 2}, "cifar100": {0}}


@pytest.fixture(scope="module")
def runs():
    return dict(survey(TrainingStore(runs_folder(FOLDER, "figure3")), pytest.fail))


def test_all_methods_are_there_to_the_same_epoch(runs):
    for data_set, seeds in SEEDS.items():
        for method in METHODS:
            found = {
                run.seed: stored.epochs
                for run, stored in runs.items()
                if (run.data_set, run.method.name) == (data_set, method)
            }
            assert found == dict.fromkeys(seeds, 30), (data_set, method)
    assert {run.scale for run in runs} == {PAPER}


def test_the_page_names_where_they_were_made(runs):
    page = (FOLDER / "README.md").read_text()
    stretches = [stretch for stored in runs.values() for stretch in stored.stretches]
    assert {stretch.precision for stretch in stretches} == {"bfloat16 autocast"}
    for device in {stretch.device for stretch in stretches}:
        assert device in page
    minutes = sum(stretch.seconds for stretch in stretches) / 60.0
    assert f"{minutes:.1f} minutes for {len(runs)} runs" in page


def test_claims_are_those_of_the_runs():
    claims = [claim.as_json() for claim in evaluate_claims(FOLDER, lambda text: None)]
    stored = json.loads((FOLDER / "figure3" / "claims.json").read_text())
    assert [{**claim, "id": claim["id"].removeprefix("figure3.")} for claim in claims] == stored
    assert sum(claim["holds"] for claim in stored) == 9
    assert "Nine of twelve predicates hold" in (FOLDER / "README.md").read_text()
