"""Every finite sum of the table, one after another."""

import pytest

from tests.helpers.finite_sums import CASES


@pytest.fixture(params=CASES.values(), ids=list(CASES))
def case(request):
    return request.param


@pytest.fixture
def problem(case):
    return case.make()
