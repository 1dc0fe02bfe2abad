"""The page of all tasks in a folder: everybody, scores and verdicts; and a page for each task."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from heavystep.bench.sensitivity.contract import HORIZON
from heavystep.bench.sensitivity.others import REFERENCE
from heavystep.bench.sensitivity.outcome import Outcome
from heavystep.bench.sensitivity.overview import SCORES, UNTOUCHED
from heavystep.bench.sensitivity.untouched import left_of, markdown, summaries
from heavystep.bench.sensitivity.verdict import Verdict, verdicts_of
from heavystep.bench.tasks import TASKS
from heavystep.files import write_atomically
from heavystep.paper.table import Table, csv_text, piped

PAGE, VERDICTS, SUMMARY, ENDING = "README.md", "verdicts.csv", "untouched.csv", ".json"
NOTES = "notes.md"
"""What somebody wrote of the tables, if there is such a file: it becomes a part of the page."""
HEAD = """# Nothing set, and what a grid would give

`heavystep bench sensitivity` wrote this page. Every optimizer trains every task in the same loop
with the same batches and the same number of steps: with nothing set, and with six decades of its
main constant around its default, or from 1 on for a largest step that is none by default. All else
keeps its default, unless a name says more; nobody else has weight decay, SGD has momentum 0.9, and
`+cosine` is a linear warm-up over 5% of the steps and a cosine to 0. `+horizon` is our default that
is told the number of steps, which a cosine knows too.

Below: everybody with nothing set, over all tasks; the scores over the grids; and a verdict for each
of our methods on each task, with the page of the task, which has its picture and all numbers.
"""
EVERYBODY = """## Everybody with nothing set

How far each untouched default is from the least loss l* that anybody reaches on a task with any
constant, in % of l_0 - l*: the price of tuning nothing. Mean, median and worst over all tasks;
level is within 2%.
"""
SIX_DECADES = """## Scores

The mean over the grid of min{l_0, l} - l*, as a part of the worst possible: how much a badly chosen
constant costs.
"""
JUDGED = """## Verdicts

They hold the untouched default of our method beside the best that the best of all rivals reaches
with the best of its constants. Loss: how far behind, in % of what that rival gained from the start.
Metric: how far behind, in its unit; negative is ahead. Average: the metric of the same run at the
averaged iterate, which the words do not count. Score: as a part of AdamW's. Level means within 2%
of the loss, and within 0.5 points, 0.05 nats, 2% of an error or 20% of 1 - R2.
"""


def task_page(outcome: Outcome, table: Table) -> str:
    """The page of a task."""
    task = outcome.plan.task
    lines = [f"# {task.name}", "", f"{table.title}. [All tasks]({PAGE}).", ""]
    lines += [f"**{each.method}**: {sentence(each)}" for each in verdicts_of(outcome)]
    lines += ["", f"!{_linked(task.name, '.png')}", "", table.markdown, table.note]
    if outcome.plan.left_out:
        reasons = "; ".join(f"{name} ({why})" for name, why in outcome.plan.left_out.items())
        lines += ["", f"Left out: {reasons}."]
    return "\n".join(lines) + "\n"


def sentence(verdict: Verdict) -> str:
    """A verdict in words and numbers."""
    average = verdict.average_metric
    averaged = f" ({average:.4g} at the average)" if math.isfinite(average) else ""
    ratio = verdict.score_ratio
    score = f", score {ratio:.2g} of {REFERENCE}'s" if math.isfinite(ratio) else ""
    return (
        f"{verdict.words}{score}. {_setting(verdict.method)} {verdict.metric_name} "
        f"{verdict.metric:.4g}{averaged}, "
        f"best rival {verdict.rival_metric}: {_behind(verdict.metric_behind, verdict.unit)}. "
        f"Loss {verdict.loss:.4g}, best rival {verdict.rival_loss}: "
        f"{_behind(verdict.loss_behind, '%')}.  "
    )


def _setting(method: str) -> str:
    """How the run of a verdict was set up.

    >>> _setting("SHBAdam"), _setting("SHBAdam:c=1+horizon")
    ('With nothing set', 'With nothing else set but the number of steps')
    """
    else_ = " else" if ":" in method else ""
    told = " but the number of steps" if method.endswith(HORIZON) else ""
    return f"With nothing{else_} set{told}"


def _behind(difference: float, unit: str) -> str:
    """A difference in words.

    >>> _behind(0.25, "points"), _behind(-3.0, "%")
    ('0.25 points behind', '3% ahead')
    """
    gap = "" if unit == "%" else " "
    return f"{abs(difference):.3g}{gap}{unit} {'behind' if difference > 0.0 else 'ahead'}"


def facts_of(outcome: Outcome) -> dict[str, Any]:
    """What page and overview say of a task, for a file."""
    return {
        "task": outcome.plan.task.name,
        SCORES: {name: score / outcome.worst for name, score in outcome.scores.items()},
        UNTOUCHED: left_of(outcome),
        "verdicts": [each._asdict() for each in verdicts_of(outcome)],
    }


def facts_in(out: Path) -> list[dict[str, Any]]:
    """Those of all tasks in a folder, earlier ones among them, in the order of the registry."""
    found = [json.loads(path.read_text()) for path in out.glob(f"*{ENDING}")]
    order = list(TASKS)
    known = [facts for facts in found if facts["task"] in order]
    return sorted(known, key=lambda facts: order.index(facts["task"]))


def notes_in(out: Path) -> list[str]:
    """What somebody wrote of the tables, if anybody did.

    Raises:
        ValueError: the file is not UTF-8.
    """
    if not (out / NOTES).exists():
        return []
    try:
        return [(out / NOTES).read_text(encoding="utf-8").strip() + "\n"]
    except UnicodeDecodeError as error:
        raise ValueError(f"{out / NOTES} must be text in UTF-8: {error}") from None


def write_page(out: Path) -> list[Path]:
    """Write the page, and all verdicts and summaries as tables."""
    facts = facts_in(out)
    verdicts = [Verdict(**each) for task in facts for each in task["verdicts"]]
    rows = summaries({task["task"]: task[UNTOUCHED] for task in facts if UNTOUCHED in task})
    everybody = [EVERYBODY, markdown(rows), f"![{UNTOUCHED}]({UNTOUCHED}.png)\n"] if rows else []
    scores = [SIX_DECADES, f"![scores]({SCORES}.png)\n"]
    pages = "Pages: " + ", ".join(_linked(task["task"], ".md") for task in facts) + ".\n"
    parts = [HEAD, *everybody, *scores, *notes_in(out), JUDGED, verdict_table(verdicts), pages]
    tables: dict[str, Sequence[NamedTuple]] = {VERDICTS: verdicts, SUMMARY: rows}
    texts = {PAGE: "\n".join(parts)}
    texts |= {name: csv_text(table) for name, table in tables.items() if table}
    for name, content in texts.items():
        write_atomically(out / name, lambda part: part.write_text(content, "utf-8"))  # noqa: B023
    return [out / name for name in texts]


def _linked(task: str, ending: str) -> str:
    """A link to a file of the task, whose name may have spaces."""
    return f"[{task}](<{task}{ending}>)" if " " in task else f"[{task}]({task}{ending})"


def verdict_table(verdicts: list[Verdict]) -> str:
    """All verdicts in Markdown."""
    lines = [
        ["task", "method", "metric", "average", "best rival", "behind", "loss behind", "score",
         "verdict"],
        ["---", "---", "---:", "---:", "---", "---:", "---:", "---:", "---"],
    ]  # fmt: skip
    for each in verdicts:
        average = f"{each.average_metric:.4g}" if math.isfinite(each.average_metric) else "-"
        lines.append(
            [
                _linked(each.task, ".md"), each.method, f"{each.metric:.4g}", average,
                each.rival_metric, f"{each.metric_behind:.3g} {each.unit}",
                f"{each.loss_behind:.3g} %", f"{each.score_ratio:.2g}", each.words,
            ]
        )  # fmt: skip
    return piped(lines)
