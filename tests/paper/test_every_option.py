"""The figures leave nothing to the defaults of optimizers, which may change."""

from dataclasses import replace

import pytest
import torch

from heavystep.methods import METHODS
from heavystep.lab.figures.figure1 import figure1, slope
from heavystep.lab.figures.figure2 import methods
from heavystep.lab.figures.figure3 import methods as trained
from heavystep.rules import REQUIRED
from heavystep.training.resnet import NETWORKS
from heavystep.training.setup import optimizer_of
from heavystep.lab.training.runs import UNSAID

PAPER = {"scaling": "practical"}


@pytest.fixture
def without_defaults(monkeypatch):
    """Every option of the paper's rules must be given; simulations have no lower bound to give."""
    for name, row in list(METHODS.items()):
        method = row.chosen(PAPER)
        needed = {o.name: REQUIRED for o in method.options if o.name != "lower_bound"}
        monkeypatch.setitem(METHODS, name, replace(method, defaults=needed, described=()))


def test_figure_1_names_all_options(without_defaults):
    assert len(figure1().runs()) == 28


def test_figure_2_names_all_options(without_defaults):
    assert len(methods(1000, 1.0)) == 8


def test_figure_3_names_all_options():
    """In its specifications, or in what its protocol says of them."""
    for spec in trained().values():
        options = {option.name for option in METHODS[spec.optimizer].chosen(PAPER).options}
        given = {*dict(spec.options), *UNSAID[spec.optimizer], "steps_per_epoch"}
        assert options <= given, spec.name


def test_what_protocol_1_leaves_unsaid():
    """The numbers that runs of protocol 1 were made with."""
    expected = {
        "SHB-PS": {"momentum": 0.9, "c": 1.0, "max_step": 1.0, "lower_bound": 0.0,
                   "scaling": "practical", "growth": 4.0},
        "SPS": {"momentum": 0.0, "c": 0.1, "max_step": 1.0, "lower_bound": 0.0,
                "scaling": "plain", "growth": 4.0},
        "SHB-ALS": {"momentum": 0.9, "c": 0.1, "max_step": 1.0, "decrease_factor": 0.9,
                    "lower_bound": 0.0, "scaling": "practical", "growth": 2.0, "max_trials": 100,
                    "loss_eps": None},
        "SLS": {"momentum": 0.0, "c": 0.1, "max_step": 1.0, "decrease_factor": 0.9,
                "lower_bound": 0.0, "scaling": "plain", "growth": 2.0, "max_trials": 100,
                "loss_eps": None},
    }  # fmt: skip
    network = NETWORKS["small"](10)
    for name, options in expected.items():
        made = optimizer_of(trained()[name], network, 195, torch.device("cpu"))
        found = made.param_groups[0]
        for option, value in {**options, "lr": 1.0, "steps_per_epoch": 195}.items():
            assert found[option] == value, (name, option)
        assert found["weight_decay"] == 0.0
