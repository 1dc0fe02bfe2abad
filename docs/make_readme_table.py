"""Write the table of the README from ``docs/results/compare/tasks.csv``.

python docs/make_readme_table.py, or ``make pages``, after ``make compare``
"""

import csv
from pathlib import Path

from heavystep.lab.comparison.tasks import HIGHER, TASKS

ROOT = Path(__file__).parents[1]
SHOWN = {
    "cifar10": "ResNet on CIFAR-10: accuracy, %",
    "cnn": "CNN on digits: accuracy, %",
    "source": "GPT on source code: loss",
    "lora": "adapters (LoRA) on a GPT: loss",
    "lstm": "LSTM on Shakespeare: loss",
    "recommender": "recommender: log-loss",
    "diffusion": "noise prediction (diffusion): error",
    "digits-110": "perceptron, only 110 steps: accuracy, %",
}
"""Tasks, one of each kind, as far as they are in the results, and what their rows say."""
COLUMNS = (
    ("HeavyStep", "HeavyStep", "metric"),
    ("AdamW", "AdamW", "metric"),
    ("AdamW, best rate, cosine", "AdamW+cosine", "best_metric"),
    ("Prodigy", "Prodigy", "metric"),
    ("Schedule-Free", "ScheduleFree", "metric"),
)
"""Heading, contender, column of the CSV: with nothing set, or the best of its grid."""
BEGIN, END = "<!-- docs/make_readme_table.py -->", "<!-- end -->"


def main() -> None:
    """Write it."""
    page = ROOT / "README.md"
    page.write_text(updated(page.read_text()))


def updated(page: str) -> str:
    """The README with the table of today's results."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{table()}{END}{rest.partition(END)[2]}"


def table() -> str:
    """The table in Markdown; the best of each row is bold."""
    with (ROOT / "docs" / "results" / "compare" / "tasks.csv").open(newline="") as file:
        cells = {(row["task"], row["method"]): row for row in csv.DictReader(file)}
    present = {task for task, _ in cells}
    lines = [["on unseen data", *(heading for heading, _, _ in COLUMNS)], ["---"] + ["---:"] * 5]
    for name, label in SHOWN.items():
        if name not in present:
            continue
        metric = TASKS[name].metric
        values = [_number(cells.get((name, who)), column) for _, who, column in COLUMNS]
        known = [value for value in values if value is not None]
        best = max(known) if metric.better == HIGHER else min(known)
        digits = 1 if metric.unit == "points" else 3
        texts = ["" if value is None else f"{value:.{digits}f}" for value in values]
        bold = f"{best:.{digits}f}"
        shown = [f"**{text}**" if text == bold else text for text in texts]
        lines.append([label, *shown])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _number(row: dict[str, str] | None, column: str) -> float | None:
    return None if row is None else float(row[column])


if __name__ == "__main__":
    main()
