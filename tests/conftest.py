"""Settings of all tests."""

import gc

from hypothesis import settings

# Imports make a million objects that stay: looking for garbage among them takes seconds.
gc.disable()

# A busy machine must not make a property fail.
settings.register_profile("heavystep", deadline=None)
settings.load_profile("heavystep")


def pytest_collection_finish():
    gc.freeze()
    gc.enable()
