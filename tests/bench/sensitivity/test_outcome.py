"""Scores, bests and verdicts by hand, on made-up numbers."""

import numpy as np
import pytest

from heavystep.bench.sensitivity.loop import METRICS
from heavystep.bench.sensitivity.outcome import Outcome, best_of
from heavystep.bench.sensitivity.overview import SCORES, UNTOUCHED, overview
from heavystep.bench.sensitivity.page import facts_of, sentence, task_page, verdict_table
from heavystep.bench.sensitivity.picture import picture
from heavystep.bench.sensitivity.plan import Wanted, plans
from heavystep.bench.sensitivity.table import grid_rows, rows_of, table_of
from heavystep.bench.sensitivity.untouched import left_of, markdown, summaries
from heavystep.bench.sensitivity.verdict import verdicts_of
from heavystep.bench.tasks import HIGHER, LOWER, Metric
from heavystep.paper.plot import styled
from heavystep.records import Trajectories

NAN = float("nan")
START, START_METRIC = 8.0, 4.0
# Final losses over the grid; both seeds agree. Defaults of others are the fourth; ours is a run of
# its own, and the last one.
LOSSES = {
    "SHBPolyak": [2.0, 2.0, 1.5, 1.2, 1.5, 2.0, 3.5, 1.5],
    "AdamW": [8.0, 8.0, 6.0, 3.0, 1.0, NAN, 1e9],
    "SGD": [8.0, 8.0, 8.0, 8.0, 4.0, 2.0, NAN],
}
METRICS_OF = {name: [0.5 * loss for loss in losses] for name, losses in LOSSES.items()}


def outcome_of(losses=LOSSES, metrics=METRICS_OF, average=NAN, seeds=2):
    found, _ = plans(Wanted(("tiny",), tuple(losses), seeds))
    results = {}
    for entry in found[0].entries:
        name = entry.contender.name
        runs_of = entry.grid if entry.on_grid else (*entry.grid, entry.default)
        for place, runs in enumerate(runs_of):
            for run in runs:
                end = (losses[name][place], metrics[name][place], NAN, average, 0.0, 0.0)
                values = zip(METRICS, (START, START_METRIC, NAN, NAN, 0.0, 0.0), end, strict=True)
                results[run.key()] = Trajectories(
                    np.array([0, 12]),
                    (0,),
                    {metric: np.array([[first, last]]) for metric, first, last in values},
                    (0.5,),
                )
    return Outcome.of(found[0], results)


def test_the_score_of_a_made_up_table():
    outcome = outcome_of()
    assert outcome.least == 1.0
    assert outcome.scores["SHBPolyak"] == pytest.approx((1 + 1 + 0.5 + 0.2 + 0.5 + 1 + 2.5) / 7)
    assert outcome.scores["AdamW"] == pytest.approx((7 + 7 + 5 + 2 + 0 + 7 + 7) / 7)
    assert outcome.ratio("SHBPolyak") == pytest.approx(6.7 / 35)
    assert outcome.worst == 7.0


def test_a_run_that_diverged_counts_as_the_start():
    outcome = outcome_of()
    by_name = {each.name: each for each in outcome.contenders}
    assert outcome.means["AdamW"].tolist() == [8.0, 8.0, 6.0, 3.0, 1.0, 8.0, 8.0]
    assert outcome.metrics(by_name["AdamW"].grid)[-2:].tolist() == [[4.0, 4.0]] * 2
    assert outcome.failed(by_name["AdamW"]) == 4  # two constants, two seeds
    assert outcome.failed(by_name["SHBPolyak"]) == 0


def test_the_verdict_by_hand():
    (verdict,) = verdicts_of(outcome_of(average=0.6))
    assert (verdict.method, verdict.loss, verdict.metric) == ("SHBPolyak", 1.5, 0.75)
    assert verdict.average_metric == 0.6
    assert verdict.rival_loss == "1 (AdamW, lr = 0.01)"
    assert verdict.loss_behind == pytest.approx(100 * 0.5 / 7)
    assert verdict.rival_metric == "0.5 (AdamW, lr = 0.01)"
    assert verdict.metric_behind == pytest.approx(50.0)  # percent
    assert verdict.score_ratio == pytest.approx(6.7 / 35)
    assert verdict.words == "metric behind, loss behind"
    heads, ruler, line = verdict_table([verdict]).splitlines()
    assert heads.count("|") == ruler.count("|") == line.count("|")
    assert line.startswith(
        "| [tiny](tiny.md) | SHBPolyak | 0.75 | 0.6 | 0.5 (AdamW, lr = 0.01) | 50 % |"
    )
    text = sentence(verdict)
    assert "test error 0.75 (0.6 at the average), best rival 0.5" in text
    assert "50% behind" in text
    assert "loss behind, score 0.19 of AdamW's. With nothing set" in text


def test_a_method_that_is_told_the_length_is_ours():
    told = "SHBPolyak+horizon"
    losses = {**LOSSES, told: [1.0] * 8}
    outcome = outcome_of(losses, losses)
    first, second = verdicts_of(outcome)
    assert (first.method, second.method) == ("SHBPolyak", told)
    assert first.rival_loss == second.rival_loss == "1 (AdamW, lr = 0.01)"
    assert second.words == "metric level, loss level"
    assert "With nothing set but the number of steps test error 1" in sentence(second)
    assert [row.method for row in rows_of(outcome)][:2] == [told, "SHBPolyak"]


def test_without_rivals_there_is_no_verdict_and_without_adamw_no_ratio():
    alone = outcome_of({"SHBPolyak": LOSSES["SHBPolyak"]})
    assert verdicts_of(alone) == []
    assert np.isnan(alone.ratio("SHBPolyak"))


def test_the_best_of_a_metric_that_should_be_high():
    accuracy = {"SHBPolyak": [10.0, 50.0, 90.0, 80.0, 20.0, NAN, 1.0, 70.0], "SGD": [5.0] * 7}
    outcome = outcome_of({name: LOSSES[name] for name in accuracy}, accuracy)
    object.__setattr__(outcome.plan, "task", _high(outcome.plan.task))
    best = best_of(outcome, outcome.contenders[0], "metric")
    assert (best.result, best.value) == (90.0, 100.0)
    assert outcome.metrics(outcome.contenders[0].grid)[-2:, 0].tolist() == [4.0, 4.0]


def _high(task):
    from dataclasses import replace

    return replace(task, metric=Metric("accuracy", HIGHER, "points", 0.5))


def test_differences_in_their_units():
    assert Metric("a", HIGHER, "points", 0.5).behind(97.5, 98.0) == 0.5
    assert Metric("b", LOWER, "nats", 0.05).behind(-1.9, -2.0) == pytest.approx(0.1)
    assert Metric("c", LOWER, "%", 2.0).behind(-1.0, -2.0) == pytest.approx(50.0)


def test_tables_have_every_contender_constant_and_seed():
    outcome = outcome_of()
    rows = rows_of(outcome)
    assert [row.method for row in rows] == ["SHBPolyak", "AdamW", "SGD"]
    assert (rows[1].best_loss, rows[1].best_loss_at) == (1.0, "0.01")
    assert [row.same for row in rows] == [2, 1, 4]
    assert len(grid_rows(outcome)) == 3 * (7 + 1) * 2
    table = table_of(outcome)
    assert len(table.markdown.splitlines()) == 2 + 3
    assert "l* = 1 the least loss" in table.note
    text = task_page(outcome, table)
    assert "![tiny](tiny.png)" in text
    assert "**SHBPolyak**: metric behind" in text


@pytest.mark.parametrize("least", [1.0, -3.0], ids=["positive", "negative"])
@pytest.mark.parametrize("seeds", [1, 2])
def test_it_draws(least, seeds):
    losses = {name: [each - 1.0 + least for each in row] for name, row in LOSSES.items()}
    outcome = outcome_of(losses, losses, seeds=seeds)
    canvas = picture(outcome)
    canvas.draw_without_rendering()
    for ax, start in zip(canvas.axes, (START, START_METRIC), strict=True):
        low, high = ax.get_ylim()
        assert low < least < start < high
        stars = [line for line in ax.lines if line.get_marker() == "*"]
        assert [line.get_ydata() for line in stars] == [[0.5 + least]]  # the default of ours
        assert [line.get_xdata() for line in stars] == [[1e4]]  # right of the grid
    (legend,) = canvas.legends
    shown = {text.get_text() for text in legend.get_texts()}
    assert shown == {"SHBPolyak (max_step)", "AdamW (lr)", "SGD (lr)"}


def test_a_legend_of_long_names_stays_in_the_picture():
    names = [f"SHBPolyak:c=0.5:weight_decay=0.0005{ending}" for ending in ("", "+horizon")]
    losses = {**LOSSES, **{name: [1.0] * 8 for name in names}}
    with styled():
        canvas = picture(outcome_of(losses, losses))
        canvas.draw_without_rendering()
    (legend,) = canvas.legends
    extent, whole = legend.get_window_extent(), canvas.bbox
    assert whole.x0 <= extent.x0 < extent.x1 <= whole.x1


def test_the_overview_draws_tasks_that_lack_a_method():
    facts = facts_of(outcome_of())
    other = {**facts, "task": "another", SCORES: {"AdamW": 1.0}}
    canvas = overview([facts, other], SCORES)
    canvas.draw_without_rendering()
    texts = [text.get_text() for text in canvas.axes[0].texts]
    assert texts == ["0.14", "-", "0.71", "1.00", "0.80", "-"]


def test_what_untouched_defaults_leave():
    """Ours ends at 1.5, AdamW at 3 and SGD where it began; the least of all is 1, the start 8."""
    assert left_of(outcome_of()) == pytest.approx({"SHBPolyak": 0.5 / 7, "AdamW": 2 / 7, "SGD": 1})
    worse = {**LOSSES, "SHBPolyak": [*LOSSES["SHBPolyak"][:-1], NAN]}
    assert left_of(outcome_of(worse))["SHBPolyak"] == 1.0
    assert facts_of(outcome_of())[UNTOUCHED] == left_of(outcome_of())


def test_a_default_below_all_grids_leaves_nothing():
    best = {**LOSSES, "SHBPolyak": [*LOSSES["SHBPolyak"][:-1], 0.5]}
    assert left_of(outcome_of(best))["SHBPolyak"] == 0.0


def test_summaries_of_untouched_defaults():
    tasks = {
        "a": {"x": 0.01, "y": 0.5, "z": 0.0},
        "b": {"x": 0.05, "y": 0.0},
        "c": {"x": 0, "y": 0},
    }
    first, second = summaries(tasks)  # z was not on all of them
    assert (first.method, second.method) == ("x", "y")
    assert tuple(first)[1:] == pytest.approx((2.0, 1.0, 5.0, "b", 2, 3))
    assert tuple(second)[1:] == pytest.approx((50 / 3, 0.0, 50.0, "a", 2, 3))
    assert "| y | 17% | 0% | 50% (a) | 2 of 3 |" in markdown([first, second])
    assert summaries({}) == []
