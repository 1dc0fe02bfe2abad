"""Docstrings for mkdocstrings: formulas and roles in a form that Markdown knows."""

import sys
from pathlib import Path
from typing import Any

import griffe

sys.path.insert(0, str(Path(__file__).parent))
import formulas


class Formulas(griffe.Extension):
    """Rewrites every docstring as it is loaded."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Change the text in place."""
        if obj.docstring:
            obj.docstring.value = formulas.in_docstring(obj.docstring.value)
