"""Formulas as MathML, which browsers draw without a script, and letters in prose in italics."""

import re
from typing import Any

import griffe
from latex2mathml.converter import convert

ALPHABET = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho final "
    "sigma tau upsilon phi chi psi omega"
)
GREEK = {name: chr(0x3B1 + place) for place, name in enumerate(ALPHABET.split()) if name != "final"}
GREEK["ell"] = "ℓ"
SIGNS = (
    ("&lt;=", "≤"), ("&gt;=", "≥"), ("-&gt;", "→"), (r"\|\|", "‖"), (r"\bsqrt\(", "√("),
    (r"\binf\b", "∞"), (r"\bgrad (?=[fF]\b)", "∇"),
)  # fmt: skip
"""What a terminal shows of a sign, as a pattern, and the sign."""
RAISED = r"\^(\{[^}]*\}|\([^)]*\)|-?\w+)"
NAME = re.compile(
    r"(?<![A-Za-z_'’&#])(?<![A-Za-z][.-])(?<!Theorem )(?<!Lemma )(?<!Appendix )"
    r"(?!e[+-]\d)"  # the exponent of a number
    rf"(?:(?P<greek>{'|'.join(GREEK)})(?P<square>2\b)?|(?P<letter>[A-Za-z]))"
    r"(?P<below>_\{[^}]*\}|_\w+(?:,[a-z]\b)?)?"
    rf"(?P<above>\*|{RAISED})?(?![\w’*]|'[a-z]|\.\w)"
)
"""A Greek letter by its name or a single letter, with what stands below and above it."""
WORD = re.compile(r"I\b|[aA]\s+(?:[A-Za-z]{2}|$)")
"""A single letter that is a word of English."""
OUTSIDE = re.compile(r"(<(pre|code|script|style|math)\b.*?</\2>|<[^>]+>)", re.DOTALL)
"""What letters are not looked for in: code, formulas and tags."""


def in_prose(html: str) -> str:
    """A page whose theta_k, gamma_max and ||g||^2 look as they do in its formulas."""
    parts = OUTSIDE.split(html)
    # Of three parts, the first is prose and the second what split it; the third names a tag.
    return "".join(
        text + tag
        for text, tag in zip(
            (letters(part) for part in parts[::3]), [*(each or "" for each in parts[1::3]), ""],
            strict=True,
        )
    )  # fmt: skip


def letters(text: str) -> str:
    """Prose without tags."""
    for pattern, sign in SIGNS:
        text = re.sub(pattern, sign, text)
    text = NAME.sub(_letter, text)
    text = re.sub(r"\bcap_k\b", "cap<sub><i>k</i></sub>", text)
    return re.sub(rf"(?<=[)\]‖\w]){RAISED}", lambda m: f"<sup>{_inner(m[1])}</sup>", text)


def _letter(found: re.Match[str]) -> str:
    greek, letter, below, above = found.group("greek", "letter", "below", "above")
    if letter and not below and not above and WORD.match(found.string, found.start()):
        return found[0]
    below, above = _inner((below or "")[1:]), _inner((above or "").removeprefix("^"))
    if below.startswith("star"):
        below, above = below[4:], "*"
    if found["square"]:
        above = "2"
    drawn = f"<i>{GREEK[greek] if greek else letter}</i>"
    drawn += f"<sub>{below}</sub>" if below else ""
    return drawn + (f"<sup>{above}</sup>" if above else "")


def _inner(text: str) -> str:
    """An index or an exponent, without its brackets."""
    bare = text[1:-1] if text[:1] in ("{", "(") else text
    bare = re.sub(r"\b(" + "|".join(GREEK) + r")\b", lambda m: GREEK[m[1]], bare)
    return re.sub(r"(?<![A-Za-z])[a-zα-ω](?![A-Za-z])", r"<i>\g<0></i>", bare)


def block(latex: str) -> str:
    """A formula on a line of its own; its parts go below each other where a screen is narrow."""
    parts = re.split(r"\\q?quad\b", " ".join(latex.split()))
    drawn = "".join(mathml(part, "block") for part in parts if part.strip())
    return f'<div class="formula">{drawn}</div>'


def inline(latex: str) -> str:
    """A formula within a sentence; Markdown takes a line that begins with a span for prose."""
    return f"<span>{mathml(latex, 'inline')}</span>"


def mathml(latex: str, display: str) -> str:
    """One line, so that Markdown leaves it alone; a tall bracket is as tall as what it holds."""
    plain = " ".join(latex.split())
    tall = r"\\[Bb]igg?[lr]?(?![a-z])\s*"
    opened, closed = (
        re.findall(tall + ends, plain) for ends in (r"(?:\\[{|]|[(\[]|\\langle)",
                                                    r"(?:\\[}|]|[)\]]|\\rangle)")
    )  # fmt: skip
    if len(opened) == len(closed):
        plain = re.sub(tall + r"(?=\\\{|[(\[]|\\langle)", r"\\left", plain)
        plain = re.sub(tall + r"(?=\\\}|[)\]]|\\rangle)", r"\\right", plain)
    return convert(re.sub(tall, "", plain), display=display).replace("\n", " ")


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


class InDocstrings(griffe.Extension):
    """What mkdocstrings calls for each object that it documents."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Change the docstring in place."""
        if obj.docstring:
            obj.docstring.value = in_docstring(obj.docstring.value)
