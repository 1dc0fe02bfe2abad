"""Runs of both data sets, made up."""

import pytest

from tests.helpers.figure3_results import fill


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("ideal")
    fill(out)
    return out
