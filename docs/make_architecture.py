"""Draw the rooms of the package as ``docs/architecture.svg``.

python docs/make_architecture.py, or ``make pages``
"""

from pathlib import Path

DOCS = Path(__file__).parent
ROWS = [
    ["cli"],
    ["bench", "compare", "report", "pictures"],
    ["paper"],
    ["sweeps"],
    ["training", "integrations", "suggestions", "linear"],
    ["optim", "simulation", "certificates"],
    ["methods", "records", "data"],
    ["theory", "problems"],
    ["rules", "momentum", "schedules", "lower_bounds"],
    ["sparse", "parquet", "files", "arrays", "validation", "extras", "documentation"],
]
"""Imports point down, or to the right within a row; a test compares this with the sources."""
TEXTS = {
    "cli": "parse, look up the registries, call",
    "bench": "what things cost; sensitivity to what a user sets",
    "compare": "methods side by side on a problem",
    "pictures": "the steps of a run",
    "report": "a results folder as one page",
    "paper": "figure1, figure2, figure3: definition, claims, plot, table",
    "sweeps": "jobs, local and Ray engines, stores",
    "training": "networks, trainer, its runs",
    "integrations": "Lightning, Accelerate, Trainer",
    "suggestions": "which method to use",
    "linear": "scikit-learn estimator",
    "optim": "the torch driver",
    "simulation": "numba and numpy drivers",
    "certificates": "theorems checked on records",
    "methods": "the registry",
    "theory": "theorems as functions",
    "data": "LIBSVM, CIFAR, text",
    "rules": "one file a rule",
    "momentum": "one file a form",
    "problems": "exact constants",
    "records": "what runs did",
    "schedules": "power laws",
    "lower_bounds": "least values of losses",
    "validation": "ranges",
    "extras": "",
    "arrays": "",
    "sparse": "",
    "files": "",
    "parquet": "",
    "documentation": "",
}
WIDTH, HEIGHT, GAP = 960, 52, 14
COLOURS = ["#dbe7f5", "#dbe7f5", "#e4edda", "#e4edda", "#f6ead2", "#f3ddd3", "#ead9ec", "#ead9ec",
           "#ead9ec", "#eeeeee"]  # fmt: skip


def main():
    """Write the picture."""
    (DOCS / "architecture.svg").write_text(render())


def render() -> str:
    """The picture as SVG."""
    total = len(ROWS) * (HEIGHT + GAP) + GAP
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {total}" '
        'font-family="sans-serif" text-anchor="middle">'
    ]
    for place, (row, colour) in enumerate(zip(ROWS, COLOURS, strict=True)):
        top = GAP + place * (HEIGHT + GAP)
        width = (WIDTH - GAP * (len(row) + 1)) / len(row)
        for column, room in enumerate(row):
            lines += box(room, GAP + column * (width + GAP), top, width, colour)
    return "\n".join([*lines, "</svg>"]) + "\n"


def box(room: str, left: float, top: float, width: float, colour: str) -> list[str]:
    """One room."""
    middle, text = left + width / 2, TEXTS[room]
    name = top + (HEIGHT / 2 - 3 if text else HEIGHT / 2 + 5)
    return [
        f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{HEIGHT}" rx="6" '
        f'fill="{colour}" stroke="#777"/>',
        f'<text x="{middle:.1f}" y="{name:g}" font-size="15" font-weight="bold">{room}</text>',
        f'<text x="{middle:.1f}" y="{top + HEIGHT / 2 + 16:g}" font-size="11.5">{text}</text>',
    ]


if __name__ == "__main__":
    main()
