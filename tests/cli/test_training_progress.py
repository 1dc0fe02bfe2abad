"""What is told while networks are trained."""

import numpy as np

from heavystep.cli import training_progress
from tests.helpers.histories import rows


def test_a_log_has_few_lines(monkeypatch, capsys):
    now = iter(np.arange(0.0, 1000.0, 4.0))
    monkeypatch.setattr(training_progress.time, "monotonic", lambda: float(next(now)))
    with training_progress.training_progress() as progress:
        progress.start(3, 1, 12)
        progress.begin("cifar10 SPS seed 0")
        for row in rows(12, loss=0.25, test_accuracy=0.625, step=0.125, trials=1.5):
            progress.advance(0.5)
            progress.advance(0.5)
            progress.epoch(row, 1000)
        progress.finish()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "1 of 3 runs are there already"
    assert 3 <= len(lines) <= 7
    assert "epoch 12: loss 0.25, test 62.5%, step 0.125, 1.5 trials, 500 images/s" in lines[-1]
    assert lines[-1].startswith("cifar10 SPS seed 0: complete")
    assert lines[-1].endswith("; 2/3 runs, 0:00:00 left")


def test_a_terminal_has_a_bar(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    with training_progress.training_progress() as progress:
        assert isinstance(progress, training_progress.TrainingBar)
        progress.start(1, 0, 1)
        progress.begin("cifar10 SPS seed 0")
        progress.advance(1.0)
        progress.epoch(rows(1, loss=0.25)[0], 1000)
        progress.finish()
    shown = capsys.readouterr().err
    for part in ("cifar10 SPS seed 0", "100%", "1/1 runs", "loss 0.25"):
        assert part in shown
