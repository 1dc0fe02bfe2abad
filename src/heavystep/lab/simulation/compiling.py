"""Compiled kernels: how functions are compiled, and the cache of them on disk.

Numba's own cache looks only at the file of a kernel, and would use a stale one after a rule in
another file has changed. Here the folder of the cache is named after a hash of all sources that a
kernel can be made of. A file counts only if it has the digest that it begins with, and if nobody
but this user or root may have written it, because it decides what code runs; anything else is
compiled anew.
"""

import hashlib
import inspect
import os
import pickle
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeVar, cast

import numba
from numba.core import caching
from numba.core.serialize import dumps
from numba.extending import overload

from heavystep import rules
from heavystep.lab.files import cache_home, hash_sources, write_atomically
from heavystep.rules import Search
from heavystep.rules.primitives import PYTHON

Kernel = TypeVar("Kernel", bound=Callable[..., Any])
SOURCES = ("rules", "momentum.py", "lab/simulation")
"""Where kernels come from."""
MAGIC, DIGEST = b"heavystep kernel 2\n", 32
COMMON: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
# Without numba's runtime, because it would count references to every array that is handed on,
# which costs more than a step. So what is inside a kernel may allocate no arrays.
PART: dict[str, Any] = {
    **COMMON, "_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True
}  # fmt: skip
ANY_ORDER = {"reassoc", "contract", "nsz"}
NUMBAS: Any = caching.CompileResultCacheImpl
"""How numba turns a compiled kernel into data and back."""
COMPILES = not cast(Any, numba.config).DISABLE_JIT


def part(function: Kernel) -> Kernel:
    """Compile what becomes a part of the kernel that calls it."""
    return cast(Kernel, numba.njit(function, **PART, forceinline=True, fastmath=False))


def total(function: Kernel) -> Kernel:
    """Compile a sum, which may be taken in any order, so that it uses vector registers.

    Its loop must write to no array: the compiler would then decide by the place of the arrays in
    memory in which order to sum, and a run would not repeat itself to the bit.
    """
    return cast(Kernel, numba.njit(function, **PART, forceinline=True, fastmath=ANY_ORDER))


def polynomial(function: Kernel) -> Kernel:
    """Compile a formula whose products and sums may be rounded once."""
    return cast(Kernel, numba.njit(function, **PART, forceinline=True, fastmath={"contract"}))


def subroutine(function: Kernel) -> Kernel:
    """Compile what is long enough to be called."""
    return cast(Kernel, numba.njit(function, **PART, fastmath=False))


def kernel(function: Kernel, *made_of: Any) -> Kernel:
    """Compile a function for Python to call, and keep the result on disk.

    Args:
        function: the kernel; parts that it encloses are not looked at.
        made_of: what tells it from other kernels with the same code.
    """
    compiled: Any = numba.njit(function, **COMMON)
    if COMPILES:
        name = f"{function.__module__}.{function.__qualname__} {made_of}"
        compiled._cache = _Cache(name)
    return cast(Kernel, compiled)


class _Cache:
    """What numba asks where a kernel is kept. No failure of the disk is one of the kernel."""

    cache_path = ""

    def __init__(self, name: str) -> None:
        self._name = name

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The kernel for some types of arguments; None: it has to be compiled."""
        target_context.refresh()
        with suppress(Exception):  # what a damaged file makes a reader raise may be anything
            content = _read(self._path(sig, target_context.codegen()))
            if content is not None:
                return NUMBAS.rebuild(None, target_context, content)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a kernel, where there is room for it."""
        if data.library.has_dynamic_globals:  # addresses of this process
            return
        body: bytes = cast(Any, dumps)(NUMBAS.reduce(None, data))
        sealed = MAGIC + hashlib.sha256(body).digest() + body
        with suppress(OSError):
            path = self._path(sig, data.codegen)
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(path, lambda made: made.write_bytes(sealed), 0o600)

    def flush(self) -> None:
        """Numba's wish to compile anew; another source has other files, and needs none."""

    def _path(self, sig: Any, codegen: Any) -> Path:
        key = f"{self._name} {sig} {codegen.magic_tuple()}"
        return cache_folder() / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.kernel"


def _read(path: Path) -> Any:
    """What was written; None if it is not there, not whole, or may be another user's."""
    with suppress(OSError), path.open("rb") as file:
        about, user = os.fstat(file.fileno()), getattr(os, "geteuid", int)()
        content = file.read()
        body = content[len(MAGIC) + DIGEST :]
        ours = about.st_uid in (0, user) and not about.st_mode & 0o022
        if ours and content == MAGIC + hashlib.sha256(body).digest() + body:
            return pickle.loads(body)
    return None


@cache
def source_hash() -> str:
    """Hash of all that kernels are compiled from: rules, momentum forms and this package."""
    return hash_sources(SOURCES)


def cache_folder() -> Path:
    """Where compiled kernels are kept; ``HEAVYSTEP_CACHE`` moves it."""
    python = f"{sys.implementation.cache_tag}-{platform.machine()}-numba-{numba.__version__}"
    return cache_home() / "kernels" / python / source_hash()[:16]


# The formulas of rules and momentum forms: the same functions, compiled.


def complete_search(
    step: Any,
    accepted: Any,
    capped: Any,
    trial: Any = 0.0,
    trials: Any = 0,
    active: Any = False,
    trial_loss: Any = 0.0,
    momentum: Any = None,
    weight: Any = None,
    decay: Any = None,
) -> Search:
    """What :class:`Search` makes of its arguments, with one type for each field.

    Numba knows no defaults of named tuples, and a variable must keep its type from trial to trial.
    """
    return Search(
        float(step), bool(accepted), bool(capped), float(trial), int(trials), bool(active),
        float(trial_loss), 0.0 if momentum is None else float(momentum),
        1.0 if weight is None else float(weight), 0.0 if decay is None else float(decay),
    )  # fmt: skip


for _stub, _formula in (
    (rules.where, PYTHON.where),
    (rules.minimum, PYTHON.minimum),
    (rules.maximum, PYTHON.maximum),
    (rules.some, PYTHON.some),
    (complete_search, complete_search),
):
    overload(_stub, strict=False)(lambda *_, formula=_formula, **__: formula)
_TAUGHT: set[Any] = {rules.where, rules.minimum, rules.maximum, rules.some}


def teach(*functions: Callable[..., Any]) -> str:
    """Make functions callable from kernels, with all that they call.

    Returns:
        A digest of what they say, to tell kernels of different rules apart.

    Raises:
        TypeError: one is callable, but no function of which there is code to compile.
    """
    for function in functions:
        if not isinstance(function, FunctionType):
            raise TypeError(f"a plain function is needed, which can be compiled, got {function!r}")
    reached: dict[FunctionType, None] = {}
    waiting: list[Any] = list(functions)
    while waiting:
        function = waiting.pop()
        if not isinstance(function, FunctionType) or function in reached:
            continue
        module = function.__module__ or ""
        if function.__code__ is complete_search.__code__ or module.startswith("numpy"):
            continue
        if function.__name__ in ("where", "minimum", "maximum", "some") and function in _PRIMITIVES:
            continue
        reached[function] = None
        waiting += _called(function)
    for function in reached:
        if function not in _TAUGHT:
            _TAUGHT.add(function)
            overload(function, strict=False)(_always(_with_complete_searches(function)))
    digest = hashlib.sha256()
    for text in sorted(map(_said, reached)):
        digest.update(text.encode())
    return digest.hexdigest()[:16]


_PRIMITIVES = set(_TAUGHT)


def _called(function: FunctionType) -> Iterator[Any]:
    """What the names in a function stand for: globals, attributes of modules, enclosed values."""
    names = set(_names(function.__code__))
    found = [function.__globals__.get(name) for name in names]
    yield from found
    for module in found:
        if isinstance(module, ModuleType):
            yield from (getattr(module, name, None) for name in names)
    yield from (cell.cell_contents for cell in function.__closure__ or ())


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _with_complete_searches(function: FunctionType) -> FunctionType:
    """The same code, in which :class:`Search` is :func:`complete_search`."""
    names = {
        name: complete_search if value is Search else value
        for name, value in function.__globals__.items()
    }
    return FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )


def _always(function: FunctionType) -> Callable[..., FunctionType]:
    return lambda *arguments: function


def _said(function: FunctionType) -> str:
    """What a function says: its code, the file with the names that it uses, what it encloses."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    values = [value for value in cells if not isinstance(value, FunctionType)]
    source = ""
    with suppress(TypeError, OSError):  # there is no file if it was typed in or made by `exec`
        source = Path(inspect.getsourcefile(function) or "").read_text()
    code = function.__code__
    constants = [each for each in code.co_consts if not isinstance(each, CodeType)]
    return f"{code.co_code!r} {code.co_names} {constants} {function.__defaults__} {values} {source}"
