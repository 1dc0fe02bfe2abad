"""A fuzzer that stays: seeded, some minutes long, run by ``make fuzz`` and not by the tests."""
