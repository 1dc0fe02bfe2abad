"""Published files from the web: bounded, checked, and in place at once or not at all.

The file goes to a temporary name in its folder. Only when its text has the hash of the catalogue
is it renamed; whatever happens before that leaves nothing behind.
"""

import errno
import http.client
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from heavystep.data.catalogue import DataSet
from heavystep.data.compressed import BLOCK, digest_of, text_blocks
from heavystep.data.locate import VARIABLE, libsvm_folder, may_write
from heavystep.data.verify import check_text
from heavystep.files import write_atomically

Progress = Callable[[int, int | None], None]
"""Told the bytes received so far, and how many there will be where the server says so."""
SLACK = 1 << 16
SECONDS = 30.0


def fetch(
    wanted: DataSet, progress: Progress = lambda received, total: None, url: str | None = None
) -> Path:
    """Download a data set into the data folder, in the form in which it is published.

    Args:
        wanted: of the catalogue.
        progress: told how far it is.
        url: another place to take it from; https, or http on 127.0.0.1.

    Returns:
        The file.

    Raises:
        ValueError: what came is not the published file, or is too large.
        OSError: the server cannot be reached or refuses, or the file cannot be written; the
            message says how to go on without a network.
    """
    source, target = url or wanted.url, libsvm_folder() / wanted.published
    if not may_write(target.parent):
        advice = f"nobody may write to this folder; set {VARIABLE} to one of yours"
        raise PermissionError(errno.EACCES, advice, str(target.parent))
    try:
        with _connected(source) as response:

            def write(temporary: Path) -> None:
                _receive(response, temporary, _most(wanted), progress)
                _check(wanted, temporary, source)

            write_atomically(target, write)
    except http.client.HTTPException as error:
        raise _unreachable(source, target, error) from None
    return target


def _connected(url: str) -> Any:
    _refuse_insecure(url)
    response = _answered(lambda: urllib.request.urlopen(url, timeout=SECONDS))
    try:
        _refuse_insecure(response.url)  # it may have been sent elsewhere
    except ValueError:
        response.close()
        raise
    return response


def _answered(ask: Callable[[], Any]) -> Any:
    """What the network gives; its failures become HTTPException, which no disk can raise."""
    try:
        return ask()
    except urllib.error.HTTPError as error:
        error.close()
        raise http.client.HTTPException(f"the server says {error.code} {error.reason}") from None
    except OSError as error:
        cause = getattr(error, "reason", error)
        reason = getattr(cause, "strerror", None) or cause
        raise http.client.HTTPException(str(reason)) from None


def _refuse_insecure(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" and (parts.scheme, parts.hostname) != ("http", "127.0.0.1"):
        raise ValueError(f"{url} is not https; nothing was fetched")


def _most(wanted: DataSet) -> int:
    """The most bytes that the file or its text may have: each line may end in two."""
    return wanted.text_bytes + wanted.n + SLACK


def _receive(response: Any, path: Path, most: int, progress: Progress) -> None:
    stated = response.headers.get("Content-Length", "")
    total = int(stated) if stated.isdecimal() else None
    received = 0
    with path.open("wb") as file:
        while block := _answered(lambda: response.read(BLOCK)):
            received += len(block)
            if received > most:
                raise ValueError(f"{response.url} sends more than {most} bytes; stopped")
            file.write(block)
            progress(received, total)
    if total is not None and received < total:
        raise http.client.HTTPException(f"cut off after {received} of {total} bytes")


def _check(wanted: DataSet, path: Path, source: str) -> None:
    with path.open("rb") as file:
        check_text(wanted, digest_of(_bounded(file, source, _most(wanted))), source)


def _bounded(file: IO[bytes], source: str, most: int) -> Iterator[bytes]:
    """Blocks of the text; a small file may unpack to a huge one."""
    length = 0
    for block in text_blocks(file, source):
        length += len(block)
        if length > most:
            raise ValueError(f"{source} unpacks to more than {most} bytes; stopped")
        yield block


def _unreachable(source: str, target: Path, reason: object) -> OSError:
    advice = (
        f"cannot be fetched from {source} ({reason}); "
        f"without a network, put that file there, or set {VARIABLE} to a folder that has it"
    )
    return OSError(errno.EIO, advice, str(target))
