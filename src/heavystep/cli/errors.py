"""One line on stderr and status 2 in place of a traceback, for what a user can mend."""

import functools
from collections.abc import Callable
from typing import Any

import typer


def told(command: Callable[..., None]) -> Callable[..., None]:
    """Wrap a command; its arguments stay as they are."""

    @functools.wraps(command)
    def wrapped(*args: Any, **values: Any) -> None:
        try:
            command(*args, **values)
        except (ValueError, TypeError) as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            typer.echo(
                "stopped; what is complete is kept, the same command goes on there", err=True
            )
            raise typer.Exit(130) from None
        except ModuleNotFoundError as missing:
            extras = "figures,linear" if missing.name in ("scipy", "sklearn") else "figures"
            need = f"this command needs {missing.name}: pip install 'heavystep[{extras}]'"
            typer.echo(need, err=True)
            raise typer.Exit(2) from None
        except OSError as error:
            typer.echo(f"{error.filename or 'output'}: {error.strerror}", err=True)
            raise typer.Exit(2) from None

    return wrapped
