"""Files of compiled kernels: what is damaged, or could be another user's, is compiled anew.

Whoever writes these files decides what code runs. So a file counts only if nobody but its owner may
write to it, if the owner is this user or root, and if it has the digest that it begins with.
Numba's own cache looks at none of this, and lets two processes give one name to two kernels.

A file: a magic line, sha256 of all that follows, a pickle. The index of a kernel has the name of
the file for each key; that file has the key once more, and the machine code.
"""

import hashlib
import os
import pickle
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from numba.core import caching
from numba.core.serialize import dumps

from heavystep.files import remove_leftovers, write_atomically

MAGIC = b"heavystep kernel 1\n"
DIGEST = 32
OWNER_ONLY = 0o600
NUMBAS = cast(Any, caching.CompileResultCacheImpl)
"""How numba turns a compiled kernel into data and back."""


class KernelFiles:
    """The files of one kernel.

    Args:
        folder: of all kernels; made when there is something to put there.
        name: of the kernel.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name

    def load(self, key: Any) -> Any:
        """What was saved under a key; None if there is nothing that can be trusted."""
        name = self._index().get(key)
        found = unsealed(self._folder / name) if isinstance(name, str) else None
        # Another process may have put something else there.
        return found[1] if isinstance(found, tuple) and found[0] == key else None

    def save(self, key: Any, compiled: Any) -> None:
        """Keep something under a key.

        Raises:
            OSError: it cannot be written.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        self._folder.chmod(0o700)
        remove_leftovers(self._folder)
        # A name of its own, and first: the index never names what is not there, or another's.
        name = f"{self._name}.{secrets.token_hex(8)}.code"
        before = self._index()
        seal(self._folder / name, (key, compiled))
        seal(self._index_file, {**before, key: name})
        if isinstance(replaced := before.get(key), str):
            (self._folder / replaced).unlink(missing_ok=True)

    @property
    def _index_file(self) -> Path:
        return self._folder / f"{self._name}.index"

    def _index(self) -> dict[Any, Any]:
        found = unsealed(self._index_file)
        return found if isinstance(found, dict) else {}


def seal(path: Path, content: Any) -> None:
    """Write something that can be pickled, with its digest, for the owner alone."""
    body: bytes = cast(Any, dumps)(content)
    sealed = MAGIC + hashlib.sha256(body).digest() + body
    write_atomically(path, lambda part: part.write_bytes(sealed), OWNER_ONLY)


def unsealed(path: Path) -> Any:
    """What was written; None if it is not there, not whole, or not to be trusted."""
    with suppress(OSError):
        with path.open("rb") as file:
            if not _ours(os.fstat(file.fileno())):
                return None
            content = file.read()
        body = content[len(MAGIC) + DIGEST :]
        if content == MAGIC + hashlib.sha256(body).digest() + body:
            # A type that it names may be gone from this process.
            with suppress(Exception):
                return pickle.loads(body)
    return None


def _ours(about: os.stat_result) -> bool:
    """Whether nobody but this user, or root, may have written a file."""
    user = getattr(os, "geteuid", lambda: about.st_uid)()
    return about.st_uid in (0, user) and not about.st_mode & 0o022


class KernelCache:
    """What numba asks where kernels are kept. No failure of the disk is one of the kernel.

    Args:
        function: the kernel.
        folder: of all kernels.
    """

    def __init__(self, function: Any, folder: Path) -> None:
        code = function.__code__
        self._code = hashlib.sha256(code.co_code).hexdigest()
        name = f"{function.__module__}.{function.__qualname__}-{code.co_firstlineno}"
        self._files = KernelFiles(folder, name)
        self.cache_path = str(folder)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The kernel for some types of arguments; None: it has to be compiled."""
        target_context.refresh()
        with suppress(Exception):
            found = self._files.load(self._key(sig, target_context.codegen()))
            return None if found is None else NUMBAS.rebuild(None, target_context, found)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a kernel, where there is room for it."""
        if not data.library.has_dynamic_globals:  # addresses of this process
            with suppress(OSError):
                self._files.save(self._key(sig, data.codegen), NUMBAS.reduce(None, data))

    def flush(self) -> None:
        """Numba's wish to compile anew; another source has other files, and needs none."""

    def _key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        return sig, codegen.magic_tuple(), self._code
