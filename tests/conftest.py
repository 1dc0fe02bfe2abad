"""What tests of several rooms share and takes long to make."""

import gc

import pytest
from hypothesis import settings

# Imports make a million objects that stay: looking for garbage among them takes seconds.
gc.disable()

# A busy machine must not make a property fail.
settings.register_profile("heavystep", deadline=None)
settings.load_profile("heavystep")

FIGURE_1 = ("tests/lab/test_figure1.py", "tests/lab/test_reproduce.py", "tests/lab/test_sweeps.py")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """A file at a time, and in one process all that looks at the small Figure 1, which is made once."""
    from xdist.scheduler import LoadFileScheduling  # where pytest-xdist is not, nobody asks

    class Together(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return "figure 1" if nodeid.startswith(FIGURE_1) else super()._split_scope(nodeid)

    return Together(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def small_figure1(tmp_path_factory):
    """Figure 1 in its smallest size, the store of its runs, and their results: not to be changed."""
    from tests.helpers.small_figure1 import run_it

    return run_it(tmp_path_factory.mktemp("runs"))
