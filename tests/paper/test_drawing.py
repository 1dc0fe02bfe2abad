"""Pictures that a second process draws."""

import signal
from concurrent.futures import BrokenExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from heavystep.paper import drawing, reproduce
from heavystep.paper.drawing import second_process


def noted(name):
    """What a process would import: here, it leaves a file."""
    Path(name).touch()


def test_a_second_process_is_there_where_it_is_wanted(monkeypatch):
    with second_process(noted, "figure2", wanted=False) as helper:
        assert helper is None
    monkeypatch.setattr(drawing.os, "cpu_count", lambda: 1)
    with second_process(noted, "figure2", wanted=True) as helper:
        assert helper is None


def test_a_second_process_prepares_itself_and_does_what_it_is_given(monkeypatch, tmp_path):
    monkeypatch.setattr(drawing.os, "cpu_count", lambda: 2)
    with second_process(noted, str(tmp_path / "prepared"), wanted=True) as helper:
        assert helper.submit(abs, -3).result() == 3
        assert (tmp_path / "prepared").exists()
        # Ctrl-C goes to all processes: the first one decides.
        assert helper.submit(signal.getsignal, signal.SIGINT).result() == signal.SIG_IGN


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
    """Somebody has ended the process, before or after it was asked."""

    def __init__(self, early):
        super().__init__()
        self.early = early

    def submit(self, function, *arguments):
        if self.early:
            raise BrokenExecutor
        return self

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


@pytest.mark.parametrize("early", [False, True])
def test_without_the_helper_all_is_drawn_here(early, two, tmp_path):
    figures, drawn = two
    assert reproduce._pictures(Gone(early), "figure1", figures, {}, tmp_path) == [tmp_path] * 2
    assert drawn[-2:] == figures
