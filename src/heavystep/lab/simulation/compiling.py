"""Compiled kernels: how functions are compiled, and the cache of them on disk.

Numba's own cache looks only at the file of a kernel, and would use a stale one after a rule in
another file has changed. Here numba's compiled kernels are kept in a folder that is named after a
hash of all sources that a kernel can be made of. A file counts only if it has the digest that it
begins with, and if nobody but this user or root may have written it, because it decides what code
runs; anything else is compiled anew.
"""

import hashlib
import inspect
import os
import pickle
import platform
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, cast

import numba
from numba.core import caching
from numba.core.serialize import dumps
from numba.extending import overload

from heavystep import rules
from heavystep.lab.files import cache_home, hash_sources, write_atomically
from heavystep.rules import Search
from heavystep.rules.primitives import PYTHON

SOURCES = ("rules", "momentum.py", "lab/simulation")
"""Where kernels come from: all sources that their cache is keyed by."""
MAGIC, DIGEST = b"heavystep kernel 2\n", 32
COMMON: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
# Without numba's runtime, because it would count references to every array that is handed on,
# which costs more than a step. So what is inside a kernel may allocate no arrays.
PART: dict[str, Any] = {
    **COMMON, "_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True
}  # fmt: skip
COMPILES = not cast(Any, numba.config).DISABLE_JIT
_NUMBAS: Any = caching.CompileResultCacheImpl
"""How numba turns a compiled kernel into data and back."""


def _inlined(fastmath: Any) -> Callable[[Callable[..., Any]], Any]:
    return lambda function: numba.njit(function, **PART, forceinline=True, fastmath=fastmath)


part = _inlined(False)
"""Compile what becomes a part of the kernel that calls it."""
total = _inlined({"reassoc", "contract", "nsz"})
"""Compile a sum, which may be taken in any order, so that it uses vector registers.

Its loop must write to no array: the compiler would then decide by the place of the arrays in memory
in which order to sum, and a run would not repeat itself to the bit."""
polynomial = _inlined({"contract"})
"""Compile a formula whose products and sums may be rounded once."""


def subroutine(function: Callable[..., Any]) -> Any:
    """Compile what is long enough to be called."""
    return numba.njit(function, **PART, fastmath=False)


def kernel(function: Callable[..., Any], *made_of: Any) -> Any:
    """Compile a function for Python to call, and keep the result on disk.

    Args:
        function: the kernel; parts from other files, if not of :data:`SOURCES`, are not looked at.
        made_of: what tells it from other kernels with the same code.
    """
    compiled: Any = numba.njit(function, **COMMON)
    if COMPILES:
        name = f"{function.__module__}.{function.__qualname__} {made_of} {_file_of(function)}"
        compiled._cache = _Cache(name)
    return compiled


class _Cache:
    """What numba asks where a kernel is kept. No failure of the disk is one of the kernel."""

    cache_path = ""

    def __init__(self, name: str) -> None:
        self._name = name

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The kernel for some types of arguments; None: it has to be compiled."""
        target_context.refresh()
        with suppress(Exception):  # what a damaged file makes a reader raise may be anything
            with self._path(sig, target_context.codegen()).open("rb") as file:
                about, user, content = os.fstat(file.fileno()), _user(), file.read()
            ours = about.st_uid in (0, user) and not about.st_mode & 0o022
            body = content[len(MAGIC) + DIGEST :]
            if ours and content == _sealed(body):
                return _NUMBAS.rebuild(None, target_context, pickle.loads(body))
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a kernel, where there is room for it."""
        if data.library.has_dynamic_globals:  # addresses of this process
            return
        body: bytes = cast(Any, dumps)(_NUMBAS.reduce(None, data))
        with suppress(OSError):
            path = self._path(sig, data.codegen)
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(path, lambda made: made.write_bytes(_sealed(body)), 0o600)

    def flush(self) -> None:
        """Numba's wish to compile anew; another source has other files, and needs none."""

    def _path(self, sig: Any, codegen: Any) -> Path:
        key = f"{self._name} {sig} {codegen.magic_tuple()}"
        return cache_folder() / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.kernel"


def _user() -> int:
    return getattr(os, "geteuid", int)()


def _sealed(body: bytes) -> bytes:
    return MAGIC + hashlib.sha256(body).digest() + body


def cache_folder() -> Path:
    """Where compiled kernels are kept; ``HEAVYSTEP_CACHE`` moves it."""
    python = f"{sys.implementation.cache_tag}-{platform.machine()}-numba-{numba.__version__}"
    return cache_home() / "kernels" / python / hash_sources(SOURCES)[:16]


def _file_of(function: Callable[..., Any]) -> str:
    """The text of the file that a function stands in; empty if it was typed in, or made."""
    with suppress(TypeError, OSError):
        return Path(inspect.getsourcefile(function) or "").read_text()
    return ""


# The formulas of rules and momentum forms: the same functions, compiled.


def complete_search(
    step: Any, accepted: Any, capped: Any, trial: Any = 0.0, trials: Any = 0, active: Any = False,
    trial_loss: Any = 0.0, momentum: Any = None, weight: Any = None, decay: Any = None,
) -> Search:  # fmt: skip
    """What :class:`Search` makes of its arguments, with one type for each field.

    Numba knows no defaults of named tuples, and a variable must keep its type from trial to trial.
    """
    return Search(
        float(step), bool(accepted), bool(capped), float(trial), int(trials), bool(active),
        float(trial_loss), 0.0 if momentum is None else float(momentum),
        1.0 if weight is None else float(weight), 0.0 if decay is None else float(decay),
    )  # fmt: skip


def _teach(function: Any, formula: Any) -> None:
    overload(function, strict=False)(lambda *_, **__: formula)


_PRIMITIVES: set[Any] = {rules.where, rules.minimum, rules.maximum, rules.some}
_TAUGHT = set(_PRIMITIVES)
for _stub in _PRIMITIVES:
    _teach(_stub, getattr(PYTHON, _stub.__name__))
_teach(complete_search, complete_search)


def teach(*functions: Callable[..., Any]) -> str:
    """Make functions callable from kernels, with all that they call.

    Returns:
        A digest of what they say, to tell kernels of different rules apart.

    Raises:
        TypeError: one is callable, but no function of which there is code to compile.
    """
    reached, waiting = dict[FunctionType, None](), list[Any](functions)
    for function in functions:
        if not isinstance(function, FunctionType):
            raise TypeError(f"a plain function is needed, which can be compiled, got {function!r}")
    while waiting:
        function = waiting.pop()
        if not isinstance(function, FunctionType) or function in (*reached, *_PRIMITIVES):
            continue
        if not (function.__module__ or "").startswith("numpy"):
            reached[function] = None
            waiting += _called(function)
    for function in set(reached) - _TAUGHT:
        _TAUGHT.add(function)
        names = {n: complete_search if v is Search else v for n, v in function.__globals__.items()}
        rest = (function.__name__, function.__defaults__, function.__closure__)
        _teach(function, FunctionType(function.__code__, names, *rest))
    said = "".join(sorted(map(_said, reached)))
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def _called(function: FunctionType) -> list[Any]:
    """What the names in a function stand for: globals, attributes of modules, enclosed values."""
    codes, names = [function.__code__], set[str]()
    for code in codes:
        names |= set(code.co_names)
        codes += [each for each in code.co_consts if isinstance(each, CodeType)]
    found = [function.__globals__.get(name) for name in names]
    modules = [each for each in found if isinstance(each, ModuleType)]
    found += [getattr(module, name, None) for module in modules for name in names]
    return found + [cell.cell_contents for cell in function.__closure__ or ()]


def _said(function: FunctionType) -> str:
    """What a function says: its code, the file with the names that it uses, what it encloses."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    values = [value for value in cells if not isinstance(value, FunctionType)]
    code = function.__code__
    constants = [each for each in code.co_consts if not isinstance(each, CodeType)]
    text = f"{code.co_code!r} {code.co_names} {constants} {function.__defaults__} {values} "
    return text + _file_of(function)
