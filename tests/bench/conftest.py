"""Networks are trained on one core."""

from tests.helpers.one_thread import one_thread  # noqa: F401
