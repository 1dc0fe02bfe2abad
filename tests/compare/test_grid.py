"""The main constant is declared by the row, and its grid keeps to its range."""

from dataclasses import replace

import numpy as np
import pytest

from heavystep.compare.grid import centre_of, grid_of, main_option, options_at
from heavystep.methods import METHODS, Method, method_of
from heavystep.rules import Option


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.name)
def test_every_method_has_a_grid_around_its_default(method):
    grid = grid_of(method)
    assert 1 <= len(grid) <= 7
    assert centre_of(method) in grid
    np.testing.assert_allclose(np.diff(np.log10(grid)), 1.0, rtol=1e-9)
    for value in grid:
        method.complete(options_at(method, value, batches=30))


def test_what_is_tuned():
    tuned = {"SHBPolyak": "max_step", "SLS": "max_step", "SHB": "lr", "NGN": "c", "AdaSPS": "c"}
    tuned |= {"L4": "fraction", "SPSSafe": "safeguard"}
    assert {name: method_of(name).main for name in tuned} == tuned


def test_values_out_of_range_are_left_out():
    row = method_of("SHBArmijo")
    narrow = replace(row, name="by c", main="c")  # in (0, 1), default 0.1
    assert grid_of(narrow) == (0.0001, 0.001, 0.01, 0.1)


def test_without_a_number_for_a_default_the_grid_is_around_a_usual_one():
    row = method_of("SHBPolyak")
    for default in (float("inf"), None, "auto", True):
        open_ended = replace(row, name="open", defaults={"max_step": default})
        assert centre_of(open_ended) == 1000.0
        assert grid_of(open_ended) == (1.0, 10.0, 100.0, 1000.0, 1e4, 1e5, 1e6)
    unbounded = replace(row, name="unbounded", main="total_steps")  # its default is None
    assert centre_of(unbounded) == 0.1


def test_steady_methods_have_no_largest_step():
    for name in ("SHBPolyak", "SHBAdam", "SHBArmijo"):
        assert centre_of(method_of(name)) == 1000.0
        assert method_of(name).complete({})["max_step"] is None


def test_a_main_constant_must_be_an_option():
    with pytest.raises(ValueError, match="'none such', which is no option"):
        replace(method_of("SHBPolyak"), main="none such")


def test_a_method_without_one_says_so():
    row = method_of("SHB")
    bare = replace(row, main="", fixed={"lr": 0.1})
    with pytest.raises(ValueError, match="no constant that could be varied"):
        main_option(bare)
    with pytest.raises(ValueError, match="steps_per_epoch is not a real number"):
        grid_of(replace(_with_words(row), main="steps_per_epoch"))


def _with_words(row: Method) -> Method:
    words = Option("steps_per_epoch", "auto", ("auto", "never"), "a word.")
    rule = replace(row.rule, options=(words,), constants=())
    return replace(row, rule=rule, main="")


def test_batches_and_trials_are_told_to_those_who_ask():
    assert options_at(method_of("SLS"), 0.5, 30) == {
        "max_step": 0.5, "steps_per_epoch": 30, "max_trials": 10_000,
    }  # fmt: skip
    assert options_at(method_of("NGN"), 0.5, 30) == {"c": 0.5}
    assert options_at(method_of("SHBArmijo"), 0.5, 30) == {"max_step": 0.5, "max_trials": 10_000}
