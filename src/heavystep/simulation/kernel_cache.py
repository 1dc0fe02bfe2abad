"""Compiled kernels kept on disk, keyed by everything that they are made of.

Numba's own cache looks only at the file of a kernel, and would use a stale kernel after a rule in
another file has changed. Here the folder of the cache is named after a hash of all files of this
package that a kernel can come from, numba's version and the kind of machine, so that a change of
any of them compiles anew. Rules outside of the package have types that change with their sources;
see :mod:`heavystep.simulation.kernel_types`. :mod:`heavystep.simulation.kernel_files` says what a
file must be to be used.
"""

import platform
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

from heavystep.files import cache_home, hash_sources
from heavystep.simulation.kernel_files import KernelCache

Kernel = TypeVar("Kernel", bound=Callable[..., Any])
SOURCES = ("rules", "momentum", "simulation")
COMMON: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
UNCOUNTED: dict[str, Any] = {"_nrt": False, "forceinline": False}
"""Compile without numba's runtime, which allocates arrays and counts references to them."""
INLINE: dict[str, Any] = {**UNCOUNTED, "forceinline": True}
"""Make it a part of the kernel that calls it."""
HIDDEN: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""For other kernels only. What a call from Python needs takes as long to compile as the rest."""
ANY_ORDER = {"reassoc", "contract", "nsz"}
COMPILES = not cast(Any, numba.config).DISABLE_JIT


@cache
def source_hash() -> str:
    """Hash of all that kernels are compiled from: rules, momentum forms and this package."""
    return hash_sources(SOURCES)


def cache_folder() -> Path:
    """Where compiled kernels are kept; ``HEAVYSTEP_CACHE`` moves it."""
    python = f"{sys.implementation.cache_tag}-{platform.machine()}-numba-{numba.__version__}"
    return cache_home() / "kernels" / python / source_hash()[:16]


def kernel(function: Kernel) -> Kernel:
    """Compile a module-level function, without the GIL and with its result kept on disk."""
    return cast(Kernel, _kept(numba.njit(function, **COMMON)))


def inner_kernel(function: Kernel) -> Kernel:
    """A kernel for what happens at every step: it allocates no array and counts no references.

    Numba would count the references to every array of a named tuple that is handed on, which costs
    more than the step. Functions that it calls must be such kernels too. It may hand arrays to
    them and get arrays from them, but must give none to a kernel that does count.
    """
    # Said, because it would take over what a reduction that calls it is allowed.
    return cast(Kernel, _kept(numba.njit(function, **COMMON, **INLINE, fastmath=False)))


def subroutine(function: Kernel) -> Kernel:
    """An inner kernel that is long enough to be called, and is compiled once for all callers."""
    return cast(Kernel, _kept(numba.njit(function, **COMMON, **UNCOUNTED, fastmath=False)))


def loop(function: Kernel) -> Kernel:
    """A kernel with a loop over steps, which another kernel calls with all that the loop needs."""
    return cast(Kernel, numba.njit(function, **COMMON, **UNCOUNTED, **HIDDEN))


def loop_part(function: Kernel) -> Kernel:
    """An inner kernel that becomes a part of such a loop."""
    return cast(Kernel, numba.njit(function, **COMMON, **INLINE, **HIDDEN))


def polynomial(function: Kernel) -> Kernel:
    """An inner kernel whose products and sums may be taken at once, and rounded once."""
    return cast(Kernel, _kept(numba.njit(function, **COMMON, **INLINE, fastmath={"contract"})))


def reduction(function: Kernel) -> Kernel:
    """A kernel whose sums may be taken in any order, so that they use the whole vector unit.

    For plain sums of products only: rules and comparisons keep the order that they are written in.
    """
    return cast(Kernel, _kept(numba.njit(function, **COMMON, fastmath=ANY_ORDER)))


def inner_reduction(function: Kernel) -> Kernel:
    """The same for what happens at every step; see :func:`inner_kernel`.

    Its loops must write to no array: the compiler would then decide by the distance of the arrays
    in memory in which order to sum, and a run would not repeat itself to the bit.
    """
    return cast(Kernel, _kept(numba.njit(function, **COMMON, **INLINE, fastmath=ANY_ORDER)))


def _kept(compiled: Any) -> Any:
    if not hasattr(compiled, "enable_caching"):  # NUMBA_DISABLE_JIT: a plain function
        return compiled
    with suppress(OSError):  # there is no folder to write to: each process compiles for itself
        compiled._cache = KernelCache(compiled.py_func, cache_folder())
    return compiled
