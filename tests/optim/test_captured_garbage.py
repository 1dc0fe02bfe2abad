"""A dead step may be found by the garbage collector, but not while another one is recorded."""

import gc
from contextlib import contextmanager

import pytest
import torch

from tests.optim.test_captured import MAKERS, Run


class BrokenError(Exception):
    """Raised while a step is recorded."""


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("name", ["SHBPolyak", "SHBArmijo"])
def test_nothing_is_collected_while_a_step_is_recorded(name, broken, enabled, monkeypatch):
    seen = []

    @contextmanager
    def graph(graph, pool):
        seen.append(gc.isenabled())
        yield
        seen.append(gc.isenabled())
        if broken:
            raise BrokenError

    monkeypatch.setattr(torch.cuda, "graph", graph)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", object)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", object)
    run = Run(MAKERS[name], "cpu")
    step = run.captured()
    step()
    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        if broken:
            with pytest.raises(BrokenError):
                step._record()
        else:
            step._record()
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()
    assert seen == [False] * (2 if broken else 2 * len(step._step.parts))
