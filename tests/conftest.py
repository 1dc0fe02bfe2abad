"""What tests of several rooms share and takes long to make."""

import gc

import pytest
from hypothesis import settings

# Imports make a million objects that stay: looking for garbage among them takes seconds.
gc.disable()

# A busy machine must not make a property fail.
settings.register_profile("heavystep", deadline=None)
settings.load_profile("heavystep")


COMPILING = (
    "bench/test_linear", "bench/test_simulation", "compare/", "conformance/test_linear",
    "conformance/test_outside", "conformance/test_r", "conformance/test_simulation", "linear/",
    "paper/figure1/", "paper/figure2/", "simulation/", "sweeps/", "test_docs", "theory/test_theory_runs",
    "toys/",
)  # fmt: skip
"""Where most of the time goes into kernels, many of them the same."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """A file at a time, but all that compile in one process: two would compile the same kernels.

    Slow tests have many more kernels, enough for every process.
    """
    from xdist.scheduler import LoadFileScheduling  # where pytest-xdist is not, nobody asks

    class OneCompiles(LoadFileScheduling):
        def _split_scope(self, nodeid):
            compiles = nodeid.startswith(tuple(f"tests/{place}" for place in COMPILING))
            return "kernels" if compiles else super()._split_scope(nodeid)

    both = config.getvalue("dist") == "loadfile" and config.getvalue("markexpr") == "not slow"
    return OneCompiles(config, log) if both else None


def pytest_collection_finish():
    """Whoever looks at all objects, as an optimizer that looks for modules, sees those of tests."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def small_figure1(tmp_path_factory):
    """Figure 1 in its smallest size, the store of its runs, and their results: not to be changed."""
    from tests.helpers.small_figure1 import run_it

    return run_it(tmp_path_factory.mktemp("runs"))
