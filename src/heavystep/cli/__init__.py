"""The command line: parse, look up a registry, call."""

import sys

from heavystep.extras import install


def main() -> None:
    """Entry point of ``heavystep``; one clear line where its extra is not installed."""
    try:
        from heavystep.cli.app import app
    except ModuleNotFoundError as missing:
        if missing.name not in ("typer", "rich"):
            raise
        sys.exit(f"heavystep's command line needs {missing.name}: {install('cli')}")
    app(prog_name="heavystep")  # also under python -m
