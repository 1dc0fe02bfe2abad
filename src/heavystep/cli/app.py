"""The commands of ``heavystep``. None imports torch, numba or matplotlib before it is called."""

import signal
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from heavystep import __version__
from heavystep.cli import lab, methods, reproduce, theory
from heavystep.extras import MissingExtraError, install, package_of


class Commands(TyperGroup):
    """All commands: an error that a user can mend is one line on stderr and status 2."""

    def invoke(self, ctx: Any) -> Any:
        """Call a command, and tell what is wrong."""
        status = 2
        try:
            return super().invoke(ctx)
        except (ValueError, TypeError, MissingExtraError) as error:
            text = str(error)
        except typer.BadParameter as error:
            if not hasattr(error, "param_type"):  # it is there, and wrong
                raise
            text = _missing(error.ctx)
        except KeyboardInterrupt:
            text = "stopped; what is complete is kept, the same command goes on there"
            status = 128 + signal.SIGINT
        except ModuleNotFoundError as missing:
            text = f"this command needs {package_of(missing)}: {install('lab')}"
        except OSError as error:
            text = f"{error.filename or 'output'}: {error.strerror or error}"
        typer.echo(" ".join(text.splitlines()), err=True)
        raise typer.Exit(status) from None


def _missing(context: Any) -> str:
    """Everything that a call is short of. What was given is read before what was not."""
    wanted = [p for p in context.command.params if p.required and p.name not in context.params]
    names = [p.opts[0] if p.opts[0].startswith("-") else p.opts[0].upper() for p in wanted]
    return f"{context.command_path} needs {', '.join(names)}; --help tells what that is"


app = typer.Typer(
    cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None
)
for _command in (
    methods.methods, reproduce.reproduce, reproduce.claims, lab.compare, lab.report,
):  # fmt: skip
    app.command(_command.__name__.lstrip("_"))(_command)
for _name, _group in {"theory": theory.theory, "bench": lab.bench, "data": lab.data}.items():
    app.add_typer(_group, name=_name)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Stochastic heavy ball whose step size chooses itself.

    'heavystep COMMAND --help' tells what a command takes; --install-completion lets the TAB key
    complete commands, options and names.
    """
