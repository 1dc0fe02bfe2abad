"""Runs whose largest step is never reached are the untouched run, and are not made."""

from math import inf

import numpy as np
import pytest

from heavystep.bench.sensitivity.loop import LARGEST, METRICS, Setting, train
from heavystep.bench.sensitivity.plan import Wanted, plans
from heavystep.bench.tasks import Size
from heavystep.methods import METHODS
from heavystep.rules import Seen
from tests.helpers.tiny_task import STEPS

CLIPPED = ["SHBPolyak", "SHBAdam", "SHBPolyak+horizon", "SHBAdam:c=1+cosine"]
OTHERS = ["SHBArmijo", "AdamW", "SHBPolyak:scaling=practical", "SHBPolyak:max_step=3", "SHB"]


def ended(name, value, task="tiny"):
    found = train(None, Setting(task, name, value, 0, Size(STEPS), "cpu", False), lambda _: None)
    return {metric: values[0, -1] for metric, values in found.metrics.items()}


@pytest.mark.parametrize("name", CLIPPED)
@pytest.mark.parametrize("task", ["tiny", "tiny normed"])
def test_a_largest_step_beyond_all_steps_changes_nothing(name, task):
    untouched = ended(name, None, task)
    largest = untouched.pop(LARGEST)
    beyond, within = (ended(name, share * largest, task) for share in (1.001, 0.5))
    assert largest > 0.0
    np.testing.assert_equal(beyond, untouched)
    assert within["loss"] != untouched["loss"]


def entry_of(name):
    found, _ = plans(Wanted(("tiny",), (name,), seeds=2))
    return found[0].entries[0]


@pytest.mark.parametrize("name", CLIPPED)
def test_the_largest_step_says_which_runs_are_spared(name):
    entry = entry_of(name)
    assert all(run.metric_names() == (*METRICS, LARGEST) for run in entry.default)
    results = {run.key(): _reached(run, 99.9999) for run in entry.default}
    spared = entry.spared(results)
    needed = [value for value, runs in zip(entry.values, entry.grid, strict=True)
              if not any(run.key() in spared for run in runs)]  # fmt: skip
    assert needed == [1.0, 10.0, 100.0]  # the last is too near, and might be warned of
    last = [run.key() for run in entry.grid[-1]]
    assert [spared[key] for key in last] == [results[run.key()] for run in entry.default]
    assert entry.spared({}) == {}


def _reached(run, step):
    found = train(None, run.setting, lambda _: None)
    found.metrics[LARGEST][0, -1] = step
    return found


@pytest.mark.parametrize("name", OTHERS)
def test_where_that_proves_nothing_all_runs_are_made(name):
    entry = entry_of(name)
    assert not any(run.decides for run in entry.runs().values())
    results = {run.key(): train(None, run.setting, lambda _: None) for run in entry.default}
    assert entry.spared(results) == {}


RULES = {method.rule.name: method.rule for method in METHODS.values() if method.rule.clips_last}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_rule_that_clips_last_remembers_nothing_of_it(rule):
    method = next(each for each in METHODS.values() if each.rule is rule)
    constants = rule.constants_of(method.complete({}))
    assert constants.max_step == inf
    memory, small = rule.Memory(**rule.memory), constants._replace(max_step=5e-4)
    clipped = 0
    for loss, sqnorm in ((4.0, 2.0), (3.0, 1.0), (2.9, 1e-3), (5.0, 3.0)):
        seen = Seen(loss=loss, grad_sqnorm=sqnorm)
        free, held = (rule.start(each, memory, seen) for each in (constants, small))
        assert held.step == min(free.step, 5e-4)
        clipped += held.step < free.step
        after = rule.remember(constants, memory, seen, free)
        assert after == rule.remember(small, memory, seen, held)
        memory = rule.Memory(*after)
    assert clipped
