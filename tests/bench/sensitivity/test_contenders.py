"""Grids, names, and packages that are not there."""

import sys

import numpy as np
import pytest
import torch

from heavystep.bench.sensitivity.contenders import USUAL, contender_of
from heavystep.bench.sensitivity.others import OTHERS, REFERENCE
from heavystep.bench.sensitivity.plan import Wanted, plans
from heavystep.extras import install
from tests.helpers.tiny_task import PLAIN

PACKAGED = {name: other for name, other in OTHERS.items() if other.package}


@pytest.mark.parametrize("name", [*USUAL, "SHB", "NGN", "SHBArmijo:c=0.5+cosine", "AdamW:lr=3"])
@pytest.mark.parametrize("per_decade", [0, 1, 2])
def test_the_grid_spans_six_decades_around_the_default(name, per_decade):
    contender = contender_of(name)
    values = contender.values(per_decade)
    assert np.log10(values[-1] / values[0]) == pytest.approx(6.0)
    assert contender.centre in values
    assert len(values) == (6 * per_decade or 2) + 1
    assert set(contender.values(0)) <= set(contender.values(1)) <= set(contender.values(2))


def entry_of(name):
    found, _ = plans(Wanted(tasks=("tiny",), methods=(name,), seeds=2))
    (entry,) = found[0].entries
    return entry


@pytest.mark.parametrize("name", [*OTHERS, "SHB", "MomSPS"])
def test_the_default_is_the_run_in_the_middle(name):
    """Nothing set and the default written out are one run, made once."""
    entry = entry_of(name)
    middle = entry.values.index(entry.contender.centre)
    assert [run.key() for run in entry.default] == [run.key() for run in entry.grid[middle]]
    assert len(entry.runs()) == 7 * 2
    assert entry.on_grid


@pytest.mark.parametrize("name", ["SHBPolyak", "SHBAdam", "SHBArmijo"])
def test_a_default_that_is_no_number_is_a_run_beside_the_grid(name):
    entry = entry_of(name)
    assert len(entry.runs()) == (7 + 1) * 2
    assert not entry.on_grid
    assert entry.contender.identity(None, steps=12)["options"]["max_step"] is None


def test_who_is_usually_compared():
    ours = ("SHBPolyak", "SHBAdam", "SHBArmijo")
    assert USUAL[:6] == (*ours, *(f"{name}+horizon" for name in ours))
    assert set(OTHERS) | {"SGD+cosine", "AdamW+cosine"} == set(USUAL[6:])


CHOSEN = {
    "SHBPolyak:scaling=practical": (1.0, {"scaling": "practical", "steps_per_epoch": 500}),
    'SHBPolyak:scaling="practical"': (1.0, {"scaling": "practical", "max_step": 1.0}),
    "SHBPolyak:max_step=3": (3.0, {"max_step": 3}),
    "SHBPolyak:weight_decay=0.0005+horizon": (1000.0, {"weight_decay": 5e-4, "total_steps": 12}),
    "SHBArmijo+horizon": (1000.0, {"total_steps": 12}),
    "AdamW:lr=3": (3, {"lr": 3, "weight_decay": 0.0}),
    "SGD:weight_decay=0.0005+cosine": (1e-3, {"weight_decay": 5e-4, "momentum": 0.9, "lr": 1e-3}),
    "SGD:nesterov=true:lr=1e+2": (100.0, {"nesterov": True}),
}


@pytest.mark.parametrize(("name", "centre", "options"), [(n, *e) for n, e in CHOSEN.items()])
def test_options_are_part_of_the_default(name, centre, options):
    """Grid and centre are those of the rule that they choose, and runs find them by the name."""
    contender = contender_of(name)
    assert contender.centre == centre in contender.values(1)
    assert contender.identity(None, steps=12)["options"].items() >= options.items()
    again = contender_of(contender.name)
    assert again.identity(2.0, 12) == contender.identity(2.0, 12)
    assert again.name == contender.name
    work = PLAIN.begun(0, torch.device("cpu"), PLAIN.usual)
    group = contender.optimizer(work, None, steps=12).param_groups[0]
    assert {key: group[key] for key in options} == options


def test_a_known_length_is_the_option_written_out():
    told = contender_of("SHBAdam+horizon")
    assert told.ours
    assert not told.cosine
    by_hand = contender_of("SHBAdam:total_steps=70")
    assert told.identity(None, 70) == by_hand.identity(None, 70)
    assert told.identity(None, 71) != told.identity(None, 70)


@pytest.mark.parametrize("other", PACKAGED.values(), ids=PACKAGED)
def test_defaults_are_those_of_the_packages(other):
    pytest.importorskip(other.module)
    work = PLAIN.begun(0, torch.device("cpu"), PLAIN.usual)
    kind = getattr(sys.modules[other.module], other.attribute)
    assert kind(work.parameters()).param_groups[0]["lr"] == other.lr == other.centre


def test_everything_that_decides_a_run_is_in_its_key():
    found, _ = plans(Wanted(("tiny",), ("SHBPolyak", "SHBPolyak:c=2", "SHBPolyak+cosine"), 2))
    assert len(found[0].runs()) == 3 * (7 + 1) * 2
    averaged, _ = plans(Wanted(("tiny",), ("SHBPolyak", REFERENCE), 2, average=True))
    plain, _ = plans(Wanted(("tiny",), ("SHBPolyak", REFERENCE), 2))
    both = set(averaged[0].runs()) & set(plain[0].runs())
    assert len(both) == 7 * 2  # others have no average to measure
    other, _ = plans(Wanted(("tiny normed",), ("SHBPolyak",), 2))
    assert not set(other[0].runs()) & set(plain[0].runs())


@pytest.mark.parametrize("other", PACKAGED.values(), ids=PACKAGED)
def test_a_missing_package_is_one_line(other, monkeypatch):
    monkeypatch.setitem(sys.modules, other.module, None)
    found, lines = plans(Wanted(("tiny",), (other.name, REFERENCE), 1))
    assert lines == []
    reason = found[0].left_out[other.name]
    assert reason == f"it needs {other.package}: {install('bench')}"
    assert [entry.contender.name for entry in found[0].entries] == [REFERENCE]
    with pytest.raises(ValueError, match="nothing can be run"):
        plans(Wanted(("tiny",), (other.name,), 1))


def test_a_method_that_needs_other_batches_is_left_out():
    found, _ = plans(Wanted(("tiny",), ("SLiSeS", REFERENCE), 1))
    assert "must share batches" in found[0].left_out["SLiSeS"]


REFUSED = {
    "name": ("SHBPolyack", ValueError, "no method is named 'SHBPolyack'"),
    "near": ("AdamV", ValueError, "nearest: AdamW"),
    "ending": ("AdamW+sine", ValueError, "the endings are '\\+cosine' and '\\+horizon'"),
    "endings": ("SHBAdam+cosine+horizon", ValueError, "one at a time"),
    "rival told": ("AdamW+horizon", ValueError, "'\\+horizon' is for our methods"),
    "not to be told": ("SPS+horizon", ValueError, "methods whose total_steps is not set yet"),
    "told twice": ("SHBAdam:total_steps=9+horizon", ValueError, "total_steps is not set yet"),
    "paper told": ("SHBPolyak:scaling=plain+horizon", ValueError, "total_steps is not set yet"),
    "decay": ("SHBPolyak:weight_decay=-1", ValueError, "weight_decay must be >= 0"),
    "rival's option": ("SGD:d=1", TypeError, "'SGD:d=1': 'd' is no option, only lr, momentum"),
    "rival's range": ("SGD:momentum=-1", ValueError, "'SGD:momentum=-1': Invalid momentum"),
    "rival's rate": ("AdamW:lr=-1", ValueError, "lr must be > 0"),
    "option": ("SHBPolyak:d=1", TypeError, "SHBPolyak has no option 'd'"),
    "range": ("SHBArmijo:c=3", ValueError, r"c must be in \(0, 1\)"),
    "word": ("SHBArmijo:c", ValueError, "'c' must be followed by = and a number or a word"),
}


@pytest.mark.parametrize(("name", "kind", "text"), REFUSED.values(), ids=REFUSED)
def test_bad_names_are_refused(name, kind, text):
    with pytest.raises(kind, match=text):
        contender_of(name)
