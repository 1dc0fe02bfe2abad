"""An option that would change no step is refused, and the refusal says where it would."""

import re

import pytest
import torch

from heavystep import SHBArmijo, SHBPolyak
from heavystep.methods import METHODS
from heavystep.methods.effect import without_effect
from heavystep.rules import REQUIRED
from heavystep.simulation.configuration import configure
from tests.helpers.cases import others_of

IDLE = {
    "steady, reset": ({"steps_per_epoch": 30}, "'theory' or 'practical' or 'plain'"),
    "steady, growth": ({"growth": 3.0}, "'theory' or 'practical' or 'plain'"),
    "paper, outlook": ({"scaling": "practical", "outlook": 1.0}, "'steady'"),
    "paper, length": ({"scaling": "plain", "total_steps": 100}, "'steady'"),
}


@pytest.mark.parametrize("kind", [SHBPolyak, SHBArmijo])
@pytest.mark.parametrize(("options", "elsewhere"), IDLE.values(), ids=IDLE)
def test_what_another_scaling_reads_is_refused(kind, options, elsewhere):
    name, scaling = list(options)[-1], options.get("scaling", "steady")
    text = rf"^{name}( \(n_b\))? has no effect with scaling='{scaling}': leave it out, or "
    refused = pytest.raises(ValueError, match=text + f"choose scaling={re.escape(elsewhere)}$")
    with refused:
        kind([torch.zeros(2, requires_grad=True)], **options)
    with refused:
        configure(kind.__name__, **options)


def test_what_another_option_switches_off_may_be_given():
    assert configure("SPS", growth=3.0)["growth"] == 3.0
    assert configure("SHBPolyak", scaling="theory", growth=3.0)["growth"] == 3.0


@pytest.mark.parametrize("options", [
    {"scaling": "theory", "max_step": 1.0},  # the default, written out
    {"scaling": "practical", "steps_per_epoch": 500},
    {"steps_per_epoch": None},  # steady steps have no reset in any case
    {"growth": 4.0},
    {"scaling": "plain", "total_steps": None},
])  # fmt: skip
def test_defaults_may_be_written_out(options):
    configured = configure("SHBPolyak", **options)
    assert all(
        dict(configured.options).get(name, value) == value for name, value in options.items()
    )


def usual_of(method):
    return {o.name: 0.1 if o.default is REQUIRED else o.default for o in method.options}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_no_option_of_a_method_is_refused_that_acts(method):
    """Only where rules can be chosen is there a reset that the first of them does not have."""
    usual = usual_of(method)
    idle = set()
    for option in method.options:
        for value in others_of(option):
            idle |= set(without_effect(method, {**usual, option.name: value}))
    assert idle == ({"growth", "steps_per_epoch"} if method.by_scaling else set())
    on = {**usual, "steps_per_epoch": 10.0, "growth": 3.0}
    asked = {name: on[name] for name in usual}
    assert bool(without_effect(method, asked)) == bool(method.by_scaling)
