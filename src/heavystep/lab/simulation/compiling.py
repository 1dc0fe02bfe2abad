"""Compiled kernels: how functions are compiled, and the cache of them on disk.

Numba's own cache looks only at the file of a kernel, and would use a stale one after a rule in
another file has changed. Here the folder of compiled kernels is named after a hash of all sources
that they are made of. A file is loaded only if it has the digest that it begins with and only this
user or root may write it, because it decides what code runs. Anything else is compiled anew.
"""

import hashlib
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
from heavystep.lab.store import cache_home, hash_sources, write_atomically
from heavystep.rules import Search
from heavystep.rules.primitives import PYTHON

SOURCES = ("rules", "momentum.py", "lab/simulation")
"""The sources that kernels are made of."""
COMMON: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
# Without numba's runtime, because it would count references to every array that is handed on,
# which costs more than a step. So what is inside a kernel may allocate no arrays.
PART: dict[str, Any] = {
    **COMMON, "_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True
}  # fmt: skip
if cast(Any, numba.config).DISABLE_JIT:
    raise ValueError("simulations are compiled by numba: unset NUMBA_DISABLE_JIT")
DIGEST = hashlib.sha256().digest_size
_NUMBAS: Any = caching.CompileResultCacheImpl
"""Numba's class that turns a compiled kernel into data and back."""
Function = Callable[..., Any]
Compiler = Callable[[Function], Function]

subroutine: Compiler = numba.njit(**PART)  # compile what is long enough to be called by a kernel
part: Compiler = numba.njit(**PART, forceinline=True)
"""Compile what becomes a part of the kernel that calls it."""
total: Compiler = numba.njit(**PART, forceinline=True, fastmath={"reassoc", "contract", "nsz"})
"""Compile a sum, which may be taken in any order, so that it uses vector registers.

Its loop must write to no array: the compiler would then decide by the place of the arrays in memory
in which order to sum, and a run would not repeat itself to the bit."""


def kernel(function: Function, *made_of: Any) -> Any:
    """Compile a function for Python to call, and keep the result on disk.

    ``made_of`` tells it from other kernels with the same code.
    """
    compiled: Any = numba.njit(function, **COMMON)
    compiled._cache = _Cache(f"{function.__module__}.{function.__qualname__} {made_of}")
    return compiled


class _Cache:
    """Numba's interface to kernels on disk. A failure of the disk never stops a run."""

    cache_path = ""

    def __init__(self, name: str) -> None:
        self._name = name

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The kernel for these types of arguments; None: it has to be compiled."""
        target_context.refresh()
        with suppress(Exception):  # a damaged file may make a reader raise anything
            with self._path(sig, target_context.codegen()).open("rb") as file:
                about, digest, body = os.fstat(file.fileno()), file.read(DIGEST), file.read()
            user = getattr(os, "geteuid", int)()
            ours = about.st_uid in (0, user) and not about.st_mode & 0o022
            if ours and digest == hashlib.sha256(body).digest():
                return _NUMBAS.rebuild(None, target_context, pickle.loads(body))
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        if data.library.has_dynamic_globals:  # addresses of this process
            return
        body: bytes = cast(Any, dumps)(_NUMBAS.reduce(None, data))
        with suppress(OSError):
            path = self._path(sig, data.codegen)
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(path, hashlib.sha256(body).digest() + body, 0o600)

    def flush(self) -> None:
        """Numba's wish to compile anew; another source has other files, and needs none."""

    def _path(self, sig: Any, codegen: Any) -> Path:
        key = f"{self._name} {sig} {codegen.magic_tuple()}"
        return cache_folder() / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.kernel"


def cache_folder() -> Path:
    """The folder of compiled kernels; ``HEAVYSTEP_CACHE`` moves it."""
    python = f"{sys.implementation.cache_tag}-{platform.machine()}-numba-{numba.__version__}"
    return cache_home() / "kernels" / python / hash_sources(SOURCES)[:16]


# The formulas of rules and momentum forms: the same functions, compiled.


def complete_search(
    step: Any, accepted: Any, capped: Any, trial: Any = 0.0, trials: Any = 0, active: Any = False,
    trial_loss: Any = 0.0, momentum: Any = None, weight: Any = None, decay: Any = None,
    known: Any = 0.0,
) -> Search:  # fmt: skip
    """:class:`Search` with its defaults filled in, and one type for each field.

    Numba knows no defaults of named tuples, and a variable must keep its type from trial to trial.
    """
    return Search(
        float(step), bool(accepted), bool(capped), float(trial), int(trials), bool(active),
        float(trial_loss), 0.0 if momentum is None else float(momentum),
        1.0 if weight is None else float(weight), 0.0 if decay is None else float(decay), known,
    )  # fmt: skip


def _teach(function: Any, formula: Any) -> None:
    overload(function, strict=False)(lambda *_, **__: formula)


_PRIMITIVES: set[Any] = {rules.where, rules.minimum, rules.maximum, rules.ratio}
_TAUGHT = set(_PRIMITIVES)
for _stub in _PRIMITIVES:
    _teach(_stub, getattr(PYTHON, _stub.__name__))
_teach(complete_search, complete_search)


def teach(*functions: Function) -> str:
    """Make functions callable from kernels, with all that they call.

    Returns:
        A digest of their code, to tell kernels of different rules apart.

    Raises:
        TypeError: one is callable, but not a function whose code can be compiled.
    """
    reached, waiting = dict[FunctionType, str](), list[Any](functions)
    while waiting:
        function = waiting.pop()
        if not isinstance(function, FunctionType):
            raise TypeError(f"a plain function is needed, which can be compiled, got {function!r}")
        of_numpy = (function.__module__ or "").startswith("numpy")
        if function not in reached and function not in _PRIMITIVES and not of_numpy:
            reached[function], called = _content(function)
            waiting += called
    for function in set(reached) - _TAUGHT:
        _TAUGHT.add(function)
        names = {n: complete_search if v is Search else v for n, v in function.__globals__.items()}
        rest = (function.__name__, function.__defaults__, function.__closure__)
        _teach(function, FunctionType(function.__code__, names, *rest))
    return hashlib.sha256("".join(sorted(reached.values())).encode()).hexdigest()[:16]


def _content(function: FunctionType) -> tuple[str, list[FunctionType]]:
    """All that decides what a function returns, as a text, and the functions that it names."""
    codes = [function.__code__]
    for code in codes:
        codes += [each for each in code.co_consts if isinstance(each, CodeType)]
    names = sorted({name for code in codes for name in code.co_names})
    found = [function.__globals__.get(name) for name in names]
    modules = [each for each in found if isinstance(each, ModuleType)]
    found += [getattr(module, name, None) for module in modules for name in names]
    found += [cell.cell_contents for cell in function.__closure__ or ()]
    constants = [each for code in codes for each in code.co_consts]
    values = [each for each in (*constants, *found) if isinstance(each, (str, int, float, tuple))]
    said = [(code.co_code, code.co_names, code.co_varnames) for code in codes]
    text = f"{function.__name__} {said} {function.__defaults__} {values}"
    return text, [each for each in found if isinstance(each, FunctionType)]
