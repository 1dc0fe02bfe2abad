"""What tests of several rooms share and takes long to make."""

import gc

import pytest
from hypothesis import settings

# Imports make a million objects that stay: looking for garbage among them takes seconds.
gc.disable()

# A busy machine must not make a property fail.
settings.register_profile("heavystep", deadline=None)
settings.load_profile("heavystep")


def pytest_collection_finish():
    """Whoever looks at all objects, as an optimizer that looks for modules, sees those of tests."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def small_figure1(tmp_path_factory):
    """Figure 1 in its smallest size, the store of its runs, and their results: not to be changed."""
    from tests.helpers.small_figure1 import run_it

    return run_it(tmp_path_factory.mktemp("runs"))
