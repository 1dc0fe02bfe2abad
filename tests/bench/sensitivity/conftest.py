"""Tiny tasks beside the others."""

import pytest

from heavystep.bench.tasks import TASKS
from tests.helpers.tiny_task import TINY


@pytest.fixture(autouse=True)
def tiny_tasks(monkeypatch):
    for name, task in TINY.items():
        monkeypatch.setitem(TASKS, name, task)
