"""What all downloads share: connecting, receiving, limits, and what to say without a network."""

import errno
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from heavystep.data.compressed import BLOCK, text_blocks
from heavystep.data.locate import VARIABLE
from heavystep.files import remove_leftovers

Progress = Callable[[int, int | None], None]
"""Told the bytes received so far, and how many there will be where the server says so."""
SLACK = 1 << 16
"""How many bytes more than expected are no reason to stop."""
SECONDS = 30.0
"""How long to wait for a server that says nothing."""
SLOWEST = 20_000
"""Bytes a second below which a download is given up, after a minute."""


def silent(received: int, total: int | None) -> None:
    """Progress that nobody is told."""


@contextmanager
def answer(url: str, target: Path, offline: str) -> Iterator[Any]:
    """The response of a server; failures of the network become one line that says how to go on.

    Args:
        url: https, or http on 127.0.0.1.
        target: what the message names as not fetched.
        offline: what to do with the file at ``url`` without a network.

    Raises:
        ValueError: the address, or the one that the server sends to, is another one.
        OSError: the server cannot be reached, refuses, or stops; also within the block.
    """
    remove_leftovers(target.parent)  # of downloads that were killed
    try:
        with _connected(url) as response:
            yield response
    except http.client.HTTPException as error:
        advice = (
            f"cannot be fetched from {url} ({error}); "
            f"without a network, {offline}, or set {VARIABLE} to a folder that has it"
        )
        raise OSError(errno.EIO, advice, str(target)) from None


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Looks at where a server sends to before asking there."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Any:
        try:
            _refuse_insecure(newurl)
        except ValueError:
            fp.close()
            raise
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _connected(url: str) -> Any:
    _refuse_insecure(url)
    opener = urllib.request.build_opener(_Redirects)
    return _answered(lambda: opener.open(url, timeout=SECONDS))


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


def receive(response: Any, file: IO[bytes], most: int, progress: Progress) -> None:
    """Write what a server sends to a file; within :func:`answer`.

    Args:
        response: of the server.
        file: open for writing.
        most: the number of bytes after which to stop.
        progress: told how far it is.

    Raises:
        ValueError: it sends more, or so slowly that it would never end.
    """
    stated = response.headers.get("Content-Length", "")
    total = int(stated) if stated.isdecimal() else None
    received, begin = 0, time.monotonic()
    # One block of what there is: read() would wait until there is a whole one.
    while block := _answered(lambda: response.read1(BLOCK)):
        received += len(block)
        if time.monotonic() - begin > 60.0 + received / SLOWEST:
            raise ValueError(f"{response.url} sends less than {SLOWEST} bytes a second; stopped")
        if received > most:
            raise ValueError(f"{response.url} sends more than {most} bytes; stopped")
        file.write(block)
        progress(received, total)
    if total is not None and received < total:
        raise http.client.HTTPException(f"cut off after {received} of {total} bytes")


def unpacked(file: IO[bytes], source: str, most: int) -> Iterator[bytes]:
    """Blocks of what is packed in a file; a small file may unpack to a huge one.

    Args:
        file: from its beginning.
        source: what messages call it.
        most: the number of bytes after which to stop.

    Raises:
        ValueError: there are more, or the file is damaged.
    """
    length = 0
    for block in text_blocks(file, source):
        length += len(block)
        if length > most:
            raise ValueError(f"{source} unpacks to more than {most} bytes; stopped")
        yield block
