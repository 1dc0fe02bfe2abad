"""Rules that live outside of the package are compiled with all they call, and anew after an edit."""

import importlib.util
import pickle
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

from heavystep import methods
from heavystep.problems import LeastSquares
from heavystep.rules import Rule, Search
from heavystep.simulation import kernel_types
from heavystep.simulation.choice import kernel_rule
from heavystep.simulation.configuration import configure
from heavystep.simulation.forms import kernel_form
from heavystep.simulation.run import Run, simulate

PROBLEM = LeastSquares([[1.0, 0.5], [-0.3, 2.0]], [1.0, -2.0])
RULE = """
from helpers_of_{name} import halved
from heavystep.rules import Rule, Search
import helpers_of_{name} as helpers

FACTOR = {factor}

def start(constants, memory, seen):
    return Search(FACTOR * halved(helpers.doubled(0.1)), True, capped=False)

RULE = Rule("outside", "", "", (), start)
"""
HELPERS = """
SHARE = {share}

def halved(x):
    return SHARE * x

def doubled(x):
    return 2.0 * x
"""


def load(path):
    """The module of a file, new each time."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def outside(tmp_path):
    """Writes a rule and its helpers and loads them, as another process would."""
    name = tmp_path.name.replace("-", "_")
    names = (f"helpers_of_{name}", f"rule_of_{name}")

    def write(factor=1.0, share=0.5):
        (tmp_path / f"{names[0]}.py").write_text(HELPERS.format(share=share))
        (tmp_path / f"{names[1]}.py").write_text(RULE.format(name=name, factor=factor))
        return [load(tmp_path / f"{name}.py") for name in names][1].RULE

    yield write
    for name in names:
        sys.modules.pop(name, None)


def first_move(rule):
    """Length of the first step over that of the gradient."""
    methods.register(methods.Method("Outside", "", "", rule))
    try:
        run = Run(PROBLEM, configure("Outside", lr=1.0), 0, np.array([1]))
        assert run.advance(1, np.zeros((1, 1), dtype=np.int64)) == 1
        gradient = PROBLEM.gradients(PROBLEM.theta0, np.array(0))
        return -run.state.theta[0] / gradient[0]
    finally:
        del methods.METHODS["Outside"]


@pytest.mark.slow
def test_an_edit_of_a_rule_or_of_what_it_calls_is_seen(outside):
    assert first_move(outside()) == pytest.approx(0.1)
    assert first_move(outside(factor=3.0)) == pytest.approx(0.3)
    assert first_move(outside(share=0.25)) == pytest.approx(0.05)
    assert first_move(outside()) == pytest.approx(0.1)


def test_kinds_are_told_apart_by_their_sources(outside):
    kinds = [type(kernel_rule(outside(**edit))) for edit in ({}, {}, {"factor": 2.0})]
    assert kinds[0] is kinds[1]
    assert kinds[0] is not kinds[2]
    rules = {type(kernel_rule(method.rule)) for method in methods.METHODS.values()}
    assert len(rules) == len({method.rule for method in methods.METHODS.values()})
    forms = {type(kernel_form(method.form)) for method in methods.METHODS.values()}
    assert not rules & forms


def constant(value):
    def start(constants, memory, seen):
        return Search(value, True, False)

    return Rule("constant", "", "", (), start)


@pytest.mark.slow
def test_rules_from_one_place_differ_by_what_they_enclose():
    assert first_move(constant(0.25)) == pytest.approx(0.25)
    assert first_move(constant(0.5)) == pytest.approx(0.5)


def test_a_rule_that_was_typed_in():
    names = {"Search": Search}
    exec("def start(constants, memory, seen): return Search(0.125, True, False)", names)
    assert first_move(Rule("typed", "", "", (), names["start"])) == pytest.approx(0.125)


def test_what_cannot_be_compiled_is_told():
    rule = Rule("partial", "", "", (), partial(constant(0.5).start, memory=0))
    with pytest.raises(TypeError, match="a plain function is needed"):
        first_move(rule)


def test_types_are_known_to_every_process():
    """The index of kernels on disk names the types of rules that another process compiled."""
    kind = type(kernel_rule(methods.METHODS["SPS"].rule))
    assert pickle.loads(pickle.dumps(kind)) is kind
    code = (
        "import pickle, sys; from heavystep.simulation import kernel_types\n"
        f"kind = pickle.loads({pickle.dumps(kind)!r})\n"
        f"assert kind is getattr(kernel_types, {kind.__name__!r}), kind"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="has no attribute 'Rule_1'"):
        _ = kernel_types.Rule_1


def test_a_constant_that_is_no_number_is_refused():
    option = methods.LR.__class__("mood", "good", ("good", "bad"), "a word.")
    rule = Rule(
        "moody", "", "", (option,), lambda constants, memory, seen: Search(1.0, True, False)
    )
    methods.register(methods.Method("Moody", "", "", rule))
    try:
        with pytest.raises(TypeError, match="the constant mood of the rule 'moody' must be a numb"):
            simulate(PROBLEM, "Moody", seeds=[0], iterations=1)
    finally:
        del methods.METHODS["Moody"]
