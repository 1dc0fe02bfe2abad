"""Where things are."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
"""Of the project: with ``src``, ``docs``, ``examples`` and ``tests``."""
