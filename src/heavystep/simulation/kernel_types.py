"""Types by which compiled kernels tell rules, momentum forms and diagonals apart.

A kernel that was compiled before is found on disk by the types of its arguments alone, whatever has
become of a rule that somebody keeps outside of this package. So each rule has a type of its own,
with a digest of its sources in the name: after an edit the type is another one, and the kernel is
compiled anew. The index of the kernels on disk names types of rules that this process may never
have seen, and must be readable all the same; hence every such type can be made from its name.
"""

import hashlib
import inspect
import re
from collections import namedtuple
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

NAME = re.compile(r"(Rule|Form|Diagonal)_[0-9a-f]{16}")


def kernel_type(kind: str, functions: Iterable[FunctionType], declared: object) -> type:
    """The type for what these functions and declarations make up.

    Args:
        kind: ``"Rule"``, ``"Form"`` or ``"Diagonal"``.
        functions: all functions that a kernel calls.
        declared: what else it is compiled from; its ``repr`` counts.
    """
    digest = hashlib.sha256(repr(declared).encode())
    for part in sorted(map(_digest, functions)):
        digest.update(part)
    made: type = __getattr__(f"{kind}_{digest.hexdigest()[:16]}")
    return made


def __getattr__(name: str) -> Any:
    """A type by its name; a type of each name is made once."""
    if not NAME.fullmatch(name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name not in globals():
        globals().setdefault(name, namedtuple(name, (), module=__name__))
    return globals()[name]


def _digest(function: FunctionType) -> bytes:
    """What a function says: its code, the file with the names that it uses, what it encloses."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    values = [value for value in cells if not isinstance(value, FunctionType)]
    code = _text(function.__code__)
    digest = hashlib.sha256(f"{code} {function.__defaults__} {values}".encode())
    with suppress(TypeError, OSError):  # there is no file if it was typed in or made by `exec`
        digest.update(Path(inspect.getsourcefile(function) or "").read_bytes())
    return digest.digest()


def _text(code: CodeType) -> str:
    constants = [_text(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return f"{code.co_code!r} {code.co_names} {code.co_varnames} {constants}"
