"""``heavystep report``: a results folder as one page."""

from pathlib import Path
from typing import Annotated

import typer

from heavystep.cli.errors import told
from heavystep.files import expanded


@told
def report(
    results: Annotated[
        Path, typer.Argument(help="The folder that --out of a command named, or one within it.")
    ] = Path("results"),
    page: Annotated[
        Path | None, typer.Option("--page", help="The file; default: RESULTS/report.html.")
    ] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Write one HTML page about a results folder: curves, claims, certificates and commands.

    The page needs no network: everything is within it. Curves can be zoomed and toggled, by method
    and by seed, on linear and logarithmic axes.
    """
    from heavystep.report.page import write_report

    folder = expanded(results)
    target = expanded(page or folder / "report.html")
    write_report(folder, target)
    typer.echo(target)
    if open_it:
        typer.launch(str(target))
