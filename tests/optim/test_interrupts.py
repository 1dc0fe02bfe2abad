"""Ctrl-C in a step leaves everything as it was before the step, or as it is after it."""

import copy
import os
import signal
import sys
import threading

import pytest
import torch

from heavystep.optim import state
from heavystep.optim.committing import held_back
from tests.helpers.cases import OPTIMIZERS, every_kind, over
from tests.helpers.training import (
    equal_states,
    flat,
    loss_of,
    make_batches,
    make_net,
    take_step,
)


@pytest.fixture(autouse=True)
def usual_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


@every_kind
def test_an_interrupt_among_the_updates_waits_for_the_last(case, monkeypatch):
    net, batch = make_net(), make_batches(1)[0]
    opt = case.make(net.parameters())
    take_step(opt, net, batch, case)
    twin = copy.deepcopy((net, opt))
    take_step(twin[1], twin[0], batch, case)
    move = state.move

    def interrupted(*arguments):
        interrupt()
        move(*arguments)

    monkeypatch.setattr(state, "move", interrupted)
    with pytest.raises(KeyboardInterrupt):
        take_step(opt, net, batch, case)
    assert torch.equal(flat(net), flat(twin[0]))
    assert equal_states(opt.state_dict(), twin[1].state_dict())
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@every_kind
def test_whatever_line_it_arrives_at_a_step_is_whole(case):
    """At every line of this package that one step goes through, one after another."""
    net, batch = make_net(), make_batches(1)[0]
    opt = case.make(net.parameters())
    take_step(opt, net, batch, case)
    begin = copy.deepcopy((net, opt))
    after = copy.deepcopy(begin)
    lines = count_lines(lambda: take_step(after[1], after[0], batch, case))
    ends = [(flat(n).clone(), o.state_dict()) for n, o in (begin, after)]
    for at in range(0, lines, max(1, lines // 60)):
        net, opt = copy.deepcopy(begin)
        with pytest.raises(KeyboardInterrupt):
            interrupted_at(at, lambda: take_step(opt, net, batch, case))
        assert any(
            torch.equal(flat(net), values) and equal_states(opt.state_dict(), kept)
            for values, kept in ends
        ), at


@over([case for case in OPTIMIZERS if case.needs_closure])
def test_whatever_line_of_a_search_it_arrives_at_the_gradients_are_there(case):
    """At every line of the files that move the parameters to trial points and back."""
    net, batch = make_net(), make_batches(1)[0]
    opt, files = case.make(net.parameters()), ("trials.py", "committing.py")

    def begun():
        again, its = copy.deepcopy((net, opt))
        loss_of(again, batch).backward()
        return again, lambda: take_step(its, again, batch, case)

    whole, step = begun()
    lines = count_lines(step, files)
    for at in range(lines):
        again, step = begun()
        with pytest.raises(KeyboardInterrupt):
            interrupted_at(at, step, files)
        assert any(torch.equal(flat(again), flat(end)) for end in (net, whole)), at
        assert all(param.grad is not None for param in again.parameters()), at


def traced(call, at_line, files=("",)):
    """Call it; told before each line of the package, or of some files, that is run."""

    def trace(frame, event, argument):
        name = frame.f_code.co_filename
        if "heavystep" not in name or "tests" in name or not name.endswith(files):
            return None
        if event == "line":
            at_line()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)


def count_lines(call, files=("",)):
    lines = []
    traced(call, lambda: lines.append(None), files)
    return len(lines)


def interrupted_at(place, call, files=("",)):
    """An interrupt before the line of that number; if it waits, it comes at the end."""
    seen = []

    def at_line():
        seen.append(None)
        if len(seen) == place + 1:
            interrupt()

    traced(call, at_line, files)


def test_other_handlers_and_threads_are_left_alone():
    told = []
    signal.signal(signal.SIGINT, lambda *about: told.append(about))
    with held_back():
        interrupt()
        assert told == []
    assert len(told) == 1
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with held_back():
        interrupt()
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def elsewhere():
        with held_back():
            told.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert told[-1] is signal.default_int_handler
