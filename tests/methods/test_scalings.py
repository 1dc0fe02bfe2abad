"""One argument chooses between steady steps and the rules of the paper, with all that is theirs."""

import copy

import numpy as np
import pytest
import torch

from heavystep import SHBArmijo, SHBPolyak, certify, paper_settings
from heavystep.methods import METHODS
from heavystep.optim import Recorder
from heavystep.rules import SCALINGS
from heavystep.simulation.configuration import configure
from tests.helpers.recorded import run, start

CLASSES = {
    "SHBPolyak": (SHBPolyak, {"steady": 1.0, "paper": 1.0}),
    "SHBArmijo": (SHBArmijo, {"steady": 0.3, "paper": 0.1}),
}
"""By name: the class, and its c."""
every_class = pytest.mark.parametrize("name", CLASSES)


@every_class
def test_defaults_depend_on_the_scaling(name):
    """Those of the paper are what they were before there were steady steps."""
    cls, c = CLASSES[name]
    steady = cls([start()]).defaults
    assert (steady["scaling"], steady["max_step"], steady["c"]) == ("steady", None, c["steady"])
    assert steady["steps_per_epoch"] is None
    for scaling in SCALINGS:
        paper = cls([start()], scaling=scaling).defaults
        assert (paper["max_step"], paper["c"]) == (1.0, c["paper"])
        assert paper["steps_per_epoch"] == (500 if scaling == "practical" else None)
        assert steady.keys() - paper.keys() >= {"outlook", "total_steps", "level", "cap"}
        assert paper.keys() - steady.keys() == {"last_step"}


@every_class
@pytest.mark.parametrize("endless", [float("inf"), np.inf, torch.tensor(torch.inf)])
def test_no_largest_step_may_be_asked_for_as_infinity(name, endless):
    cls, _ = CLASSES[name]
    assert cls([start()], max_step=endless).param_groups[0]["max_step"] is None
    for scaling in SCALINGS:
        with pytest.raises(
            ValueError, match=r'^max_step \(gamma_max\) must be finite, got inf: .*"steady"'
        ):
            cls([start()], max_step=endless, scaling=scaling)


@every_class
def test_the_settings_of_the_paper(name):
    cls, _ = CLASSES[name]
    settings = paper_settings(name, steps_per_epoch=195)
    assert set(settings) == {"scaling", "steps_per_epoch", "c", "max_step", "growth"}
    expected = cls([start()], scaling="practical", steps_per_epoch=195).defaults
    assert cls([start()], **settings).defaults == expected


@every_class
def test_a_configuration_has_the_options_of_its_rule_alone(name):
    steady, practical = configure(name), configure(name, scaling="practical")
    assert (steady["max_step"], practical["max_step"]) == (None, 1.0)
    assert (steady["steps_per_epoch"], practical["steps_per_epoch"]) == (None, 500)
    more = {option for option, _ in steady.options} - {option for option, _ in practical.options}
    own = set() if steady.rule.searches else {"alike", "reach"}
    assert more == {"outlook", "total_steps"} | own
    assert configure(name, **dict(steady.options)) == steady
    assert np.isinf(steady.largest_steps(0, 3)).all()
    assert practical.theory
    assert not steady.theory


@every_class
def test_the_rows_other_rules_have_no_option_of_their_own(name):
    """What the row lists and checks is all that there is."""
    row = METHODS[name]
    known = [option.name for option in row.options]
    for scaling in SCALINGS:
        chosen = row.chosen({"scaling": scaling})
        assert chosen is row.chosen({"scaling": scaling})
        assert [o.name for o in chosen.options] == [n for n in known if n in chosen.complete({})]
    assert row.chosen({"scaling": "steady"}) is row


@every_class
def test_the_rule_cannot_change_in_the_middle_of_a_run(name):
    cls, _ = CLASSES[name]
    theta = start()
    opt = cls([theta])
    run(opt, theta, 2)
    before = theta.detach().clone()
    opt.param_groups[0]["scaling"] = "theory"
    message = rf"^scaling must stay what it was .*, got 'theory', .* give {name} itself this"
    with pytest.raises(ValueError, match=message):
        run(opt, theta, 1)
    assert torch.equal(theta, before)
    opt.param_groups[0]["scaling"] = "steady"
    run(opt, theta, 1)
    with pytest.raises(ValueError, match=message):
        cls([{"params": [start()], "scaling": "theory"}])

    opt = cls([theta], scaling="theory")
    opt.param_groups[0]["scaling"] = "plain"  # the same rule, with another kappa
    run(opt, theta, 1)
    opt.param_groups[0]["scaling"] = "steady"
    with pytest.raises(ValueError, match="scaling must be one of 'theory', 'practical', 'plain'"):
        run(opt, theta, 1)


@every_class
@pytest.mark.parametrize("scaling", [["theory"], {"theory"}, 1, None, "Steady"])
def test_a_scaling_that_is_none_is_refused(name, scaling):
    with pytest.raises(
        ValueError, match=r"^scaling must be one of 'steady', 'theory', 'practical'"
    ):
        CLASSES[name][0]([start()], scaling=scaling)


@every_class
@pytest.mark.parametrize(("saved", "made"), [("steady", "theory"), ("theory", "steady")])
def test_a_checkpoint_brings_its_rule(name, saved, made):
    cls, _ = CLASSES[name]
    theta, twin = start(), start()
    opt, other = cls([theta], scaling=saved), cls([twin], scaling=made)
    run(opt, theta, 3)
    other.load_state_dict(copy.deepcopy(opt.state_dict()))
    with torch.no_grad():
        twin.copy_(theta)
    assert other.method is opt.method
    for one, each in ((opt, theta), (other, twin)):
        run(one, each, 3, first=3)
    assert torch.equal(theta, twin)
    added = start()
    other.add_param_group({"params": [added]})
    assert other.param_groups[1]["scaling"] == saved
    other.step(lambda: (added**2).sum())
    assert other.info.accepted


def test_no_theorem_covers_steady_steps():
    theta = start()
    opt = SHBPolyak([theta])
    recorder = Recorder(opt)
    run(opt, theta, 2)
    with pytest.raises(
        ValueError, match=r"no theorem covers the rule 'SHBPolyak \(steady polyak\)"
    ):
        certify(recorder.record(), L=1.0)
