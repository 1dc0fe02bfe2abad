"""The command line: parse, look up a registry, call."""

import os
import sys

from heavystep.extras import install


def main() -> None:
    """Entry point of ``heavystep``; one clear line where its extra is not installed."""
    try:
        from heavystep.cli.app import app
    except ModuleNotFoundError as missing:
        if missing.name not in ("typer", "rich"):
            raise
        sys.exit(f"heavystep's command line needs {missing.name}: {install('lab')}")
    try:
        app(prog_name="heavystep")  # also under python -m
    except OSError as error:  # help and usage are printed outside of any command
        # What is still waiting to be written would fail once more at the very end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(f"{error.filename or 'output'}: {error.strerror}")
