"""Errors that a user can mend are one line on stderr and status 2, not a traceback."""

import functools
import signal
from collections.abc import Callable
from typing import Any

import typer

from heavystep.extras import MissingExtraError, extra_of, install, package_of

WITH_FIGURES = {"linear": "figures,linear", "simulation": "figures", "cli": "figures"}
"""What a command needs of which one package is missing is seldom that package alone."""


def told(command: Callable[..., None]) -> Callable[..., None]:
    """Wrap a command so that its errors are told in one line. Its arguments stay as they are."""

    @functools.wraps(command)
    def wrapped(*args: Any, **values: Any) -> None:
        try:
            command(*args, **values)
        except (ValueError, TypeError) as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(2) from None
        except KeyboardInterrupt as stop:
            typer.echo(
                "stopped; what is complete is kept, the same command goes on there", err=True
            )
            number = stop.args[0] if stop.args else signal.SIGINT
            raise typer.Exit(128 + number) from None
        except ModuleNotFoundError as missing:
            package = package_of(missing)
            extra = extra_of(package)
            need = f"this command needs {package}: {install(WITH_FIGURES.get(extra, extra))}"
            typer.echo(str(missing) if isinstance(missing, MissingExtraError) else need, err=True)
            raise typer.Exit(2) from None
        except OSError as error:
            typer.echo(f"{error.filename or 'output'}: {error.strerror}", err=True)
            raise typer.Exit(2) from None

    return wrapped
