"""One picture of all tasks: contenders by tasks, scores or untouched defaults."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure as Canvas

from heavystep.paper.plot import entitle

SCORES, UNTOUCHED = "scores", "untouched"
TITLES = {
    SCORES: "score over six decades / worst possible",
    UNTOUCHED: "nothing set: what is left of the loss that could be lost",
}
"""What can be drawn, by the name that facts and files have for it."""
CELL, ROOM, LEAST = (0.42, 0.24), (1.9, 1.6), 3.6
"""Inches: of a cell, of what is around all cells, and the width that the title needs."""
DARK = 0.55
"""Above this part of the worst score, texts are white."""


def overview(facts: list[dict[str, Any]], what: str) -> Canvas:
    """The picture: 0 is as good as anybody with any constant, 1 is a method that never moves.

    Args:
        facts: of each task that has it, as the page has them.
        what: one of :data:`TITLES`.
    """
    tasks = [each["task"] for each in facts]
    names = list(dict.fromkeys(name for each in facts for name in each[what]))
    scores = np.array([[each[what].get(name, np.nan) for each in facts] for name in names])
    size = (max(CELL[0] * len(tasks) + ROOM[0], LEAST), CELL[1] * len(names) + ROOM[1])
    canvas = Canvas(figsize=size, layout="constrained")
    ax = canvas.subplots()
    ax.imshow(scores, vmin=0.0, vmax=1.0, cmap="viridis_r", aspect="auto")
    for (row, column), score in np.ndenumerate(scores):
        text = f"{score:.2f}" if np.isfinite(score) else "-"
        dark = "white" if score > DARK else "black"
        ax.text(column, row, text, ha="center", va="center", fontsize=6.0, color=dark)
    ax.set_xticks(range(len(tasks)), tasks, rotation=55, ha="right")
    ax.set_yticks(range(len(names)), names)
    entitle(canvas, TITLES[what], "less is better")
    return canvas
