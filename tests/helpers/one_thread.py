"""Networks this small are as fast on one core, and do not wait for each other on a busy machine."""

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    """In force for every test of a folder whose ``conftest.py`` imports it."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # of processes that a test starts
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
