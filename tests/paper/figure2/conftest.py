"""Tiny data sets under the names of the published ones."""

import pytest

from heavystep.lab.data import LIBSVM as CATALOGUE
from tests.helpers import tiny_libsvm


@pytest.fixture(scope="module")
def eight(tmp_path_factory):
    """All eight data sets, tiny."""
    with tiny_libsvm.folder(tmp_path_factory.mktemp("data"), list(CATALOGUE)) as folder:
        yield folder
