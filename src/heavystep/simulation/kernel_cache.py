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
    return cast(Kernel, _kept(numba.njit(function, nogil=True, error_model="numpy")))


def reduction(function: Kernel) -> Kernel:
    """A kernel whose sums may be taken in any order, so that they use the whole vector unit.

    For plain sums of products only: rules and comparisons keep the order that they are written in.
    """
    free = {"reassoc", "contract", "nsz"}
    return cast(Kernel, _kept(numba.njit(function, nogil=True, error_model="numpy", fastmath=free)))


def _kept(compiled: Any) -> Any:
    if not hasattr(compiled, "enable_caching"):  # NUMBA_DISABLE_JIT: a plain function
        return compiled
    with suppress(OSError):  # there is no folder to write to: each process compiles for itself
        compiled._cache = KernelCache(compiled.py_func, cache_folder())
    return compiled
