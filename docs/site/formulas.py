"""Formulas as MathML, which browsers draw without a script."""

import re

from latex2mathml.converter import convert

SIZES = r"\\[Bb]igg?[lr]?(?![a-z])"
"""Sizes of brackets, which the converter does not know and MathML does not need."""


def block(latex: str) -> str:
    """A formula on a line of its own."""
    return f'<div class="formula">{mathml(latex, "block")}</div>'


def inline(latex: str) -> str:
    """A formula within a sentence."""
    return mathml(latex, "inline")


def mathml(latex: str, display: str) -> str:
    """One line, so that Markdown leaves it alone."""
    plain = re.sub(SIZES, "", " ".join(latex.split()))
    return convert(plain, display=display).replace("\n", " ")


def in_page(markdown: str) -> str:
    """A page whose formulas between double dollars are MathML; code blocks are left alone."""
    parts = re.split(r"(^```.*?^```)", markdown, flags=re.DOTALL | re.MULTILINE)
    return "".join(
        part
        if part.startswith("```")
        else re.sub(r"^\$\$(.+?)\$\$$", lambda m: block(m[1]), part, flags=re.MULTILINE | re.DOTALL)
        for part in parts
    )


def in_docstring(text: str) -> str:
    """A docstring with MathML for its formulas, and names in place of Sphinx's roles."""
    text = re.sub(r":math:`([^`]+)`", lambda m: inline(m[1]), text)
    text = re.sub(r":\w+:`~?([^`<]+)`", r"`\1`", text)
    text = re.sub(r"(?:^ *>>> .*\n(?:^ *\S.*(?:\n|\Z))*)", fenced, text, flags=re.MULTILINE)
    return re.sub(
        r"^( *)\.\. math::(.*(?:\n\1 +\S.*)*(?:\n\n\1    +\S.*(?:\n\1 +\S.*)*)?)",
        lambda m: f"{m[1]}{block(m[2])}\n",
        text,
        flags=re.MULTILINE,
    )


def fenced(example: re.Match[str]) -> str:
    """Lines of a session in Python as a block of code."""
    indent = re.match(" *", example[0])[0]
    return f"{indent}```pycon\n{example[0].rstrip()}\n{indent}```\n"
