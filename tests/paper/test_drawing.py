"""Pictures that a second process draws."""

from concurrent.futures import BrokenExecutor
from dataclasses import replace

import pytest

from heavystep.paper import drawing, reproduce
from heavystep.paper.drawing import second_process


def noted(name):
    """What a process would import."""


def test_a_second_process_is_there_where_it_is_wanted(monkeypatch):
    with second_process(noted, "figure2", wanted=False) as helper:
        assert helper is None
    monkeypatch.setattr(drawing.os, "cpu_count", lambda: 1)
    with second_process(noted, "figure2", wanted=True) as helper:
        assert helper is None


def test_a_second_process_does_what_it_is_given(monkeypatch):
    monkeypatch.setattr(drawing.os, "cpu_count", lambda: 2)
    with second_process(noted, "figure2", wanted=True) as helper:
        assert helper.submit(abs, -3).result() == 3


class Here:
    """Draws at once, what it is asked for is noted."""

    def __init__(self):
        self.asked = []

    def submit(self, function, *arguments):
        self.asked.append(arguments)
        return self

    def result(self):
        return reproduce._drawn(*self.asked[-1])


class Gone(Here):
    """Somebody has ended the process."""

    def result(self):
        raise BrokenExecutor


@pytest.fixture
def two(monkeypatch):
    """Two figures, and a list of those that were drawn."""
    made = reproduce.FIGURES["figure1"]()
    paper = replace(made.make(seeds=2, iterations=1000), panels=())
    figures, drawn = [paper, replace(paper, title="other")], []
    monkeypatch.setattr(
        reproduce, "_drawn", lambda name, figure, results, out: drawn.append(figure) or [out]
    )
    return figures, drawn


@pytest.mark.parametrize("helped", [False, True])
def test_every_figure_is_drawn_once_and_companions_by_the_helper(helped, two, tmp_path):
    (figures, drawn), helper = two, Here() if helped else None
    assert reproduce._pictures(helper, "figure1", figures, {}, tmp_path) == [tmp_path] * 2
    assert sorted(figure.title for figure in drawn) == sorted(each.title for each in figures)
    if helped:
        assert [figure for _, figure, *_ in helper.asked] == figures[1:]


def test_without_the_helper_all_is_drawn_here(two, tmp_path):
    figures, drawn = two
    assert reproduce._pictures(Gone(), "figure1", figures, {}, tmp_path) == [tmp_path] * 2
    assert drawn[-2:] == figures
