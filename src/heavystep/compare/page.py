"""The page of a comparison: a section for each problem, and all of them in one file."""

from pathlib import Path

from heavystep.compare.outcome import Outcome
from heavystep.files import write_atomically
from heavystep.paper.table import Table

PAGE = "README.md"
HEAD = """# Methods side by side

`heavystep compare` wrote this page. Each method runs with the default of its main constant, and
with six decades around it; everything else keeps its default, or what its name says. Runs start at
the same point and see the same batches, but for methods that ask for batches which successive steps
share.
"""


def section(outcome: Outcome, table: Table) -> str:
    """The section of a problem, which is a file of its own."""
    problem, left_out = outcome.plan.problem, outcome.plan.left_out
    lines = [
        f"## {problem.name}",
        "",
        f"{table.title}.",
        "",
        f"![{problem.name}]({problem.slug}.png)",
    ]
    lines += ["", table.markdown, table.note]
    if left_out:
        reasons = "; ".join(f"{name} ({reason})" for name, reason in left_out.items())
        lines += ["", f"Left out: {reasons}."]
    return "\n".join(lines) + "\n"


def write_page(out: Path) -> Path:
    """Write one page of all sections in a folder, those of earlier calls among them."""
    files = sorted(path for path in out.glob("*.md") if path.name != PAGE)
    text = "\n".join([HEAD, *(path.read_text() for path in files)])
    write_atomically(out / PAGE, lambda part: part.write_text(text))
    return out / PAGE
