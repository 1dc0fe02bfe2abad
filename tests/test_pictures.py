"""``heavystep.plot_steps``: every number that was recorded is in the picture, in its place."""

import numpy as np
import pytest
import torch

import heavystep
from heavystep.pictures import running_median


def recorded(steps=60, bad=(), below=0.0, **options):
    """A small regression, its losses and what is below them; some batches are NaN."""
    torch.manual_seed(0)
    theta = torch.tensor([3.0, -1.0], dtype=torch.float64, requires_grad=True)
    opt = heavystep.SHBPolyak([theta], lower_bound=-below, **options)
    recorder = heavystep.Recorder(opt)
    for k in range(steps):
        target = torch.randn(2, dtype=torch.float64) * (float("nan") if k in bad else 0.1)
        opt.step(lambda: ((theta - 1.0 - target) ** 2).sum() - below)
    return recorder


def marked(ax, marker="."):
    return [
        line for line in ax.lines if (line.get_linestyle(), line.get_marker()) == ("None", marker)
    ]


def test_steps_and_losses_are_those_of_the_record():
    recorder = recorded()
    above, below = heavystep.plot_steps(recorder).axes
    record = recorder.record()
    for ax, values in ((above, record.gamma[0]), (below, record.loss[0])):
        (points,) = marked(ax)
        np.testing.assert_array_equal(points.get_xdata(), np.arange(60))
        np.testing.assert_array_equal(points.get_ydata(), values)
        assert ax.get_yscale() == "log"
        low, high = ax.get_ylim()
        assert low <= values[values > 0].min()
        assert values.max() <= high


def test_refused_batches_are_crosses_and_no_steps():
    above = heavystep.plot_steps(recorded(bad=(7, 8, 30))).axes[0]
    (crosses,) = marked(above, "x")
    assert crosses.get_xdata().tolist() == [7, 8, 30]
    assert crosses.get_label() == "refused: 3"
    (points,) = marked(above)
    assert np.flatnonzero(np.isnan(points.get_ydata())).tolist() == [7, 8, 30]


def labels(figure):
    return figure.axes[0].get_legend_handles_labels()[1]


def test_the_cap_is_drawn_where_there_is_one():
    figure = heavystep.plot_steps(recorded(max_step=0.2, lr=0.5))
    assert labels(figure) == ["largest step allowed"]
    (cap,) = [line for line in figure.axes[0].lines if line.get_linestyle() == "--"]
    assert set(cap.get_ydata()) == {0.1}
    assert labels(heavystep.plot_steps(recorded(max_step=1e6))) == []  # it plays no part


def test_a_run_of_one_step_and_negative_losses_on_a_linear_axis():
    assert heavystep.plot_steps(recorded(steps=1, below=9.0)).axes[1].get_yscale() == "linear"


@pytest.mark.parametrize("window", [1, 4, 101])
def test_running_median(window):
    values, half = np.random.default_rng(0).random(40), window // 2
    values[10:13] = np.nan
    for k, found in enumerate(running_median(values, window)):
        near = values[max(k - half, 0) : k + half + 1]
        near = near[np.isfinite(near)]
        np.testing.assert_equal(found, np.median(near) if len(near) else np.nan)


def test_bad_input_is_one_line():
    opt = heavystep.SHBPolyak([torch.zeros(1, requires_grad=True)])
    with pytest.raises(TypeError, match="draws a Recorder or a Record, got SHBPolyak"):
        heavystep.plot_steps(opt)
    with pytest.raises(ValueError, match="nothing recorded"):
        heavystep.plot_steps(heavystep.Recorder(opt))
