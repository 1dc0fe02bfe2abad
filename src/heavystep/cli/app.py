"""The commands of ``heavystep``."""

import typer

from heavystep.cli.theory import theory

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Stochastic heavy ball whose step size chooses itself.",
)
app.add_typer(theory, name="theory")


@app.callback()
def root() -> None:
    """Stochastic heavy ball whose step size chooses itself."""
