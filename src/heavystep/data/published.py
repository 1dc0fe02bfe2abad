"""Whether bytes are the published ones, and how a message says that they are not."""

from typing import NamedTuple


class FileDigest(NamedTuple):
    """What identifies a file, or a part of it.

    Args:
        size: in bytes.
        sha256: in hexadecimal digits.
    """

    size: int
    sha256: str


def another(file: str, name: str, difference: str) -> ValueError:
    """The error about a file that is not the published one.

    Args:
        file: what the message calls it.
        name: the data set it should be, or be part of.
        difference: what was found, and what was expected.
    """
    return ValueError(f"{file} is not the published {name}: {difference}")


def check_size(file: str, name: str, found: int, expected: int, part: str = "") -> None:
    """Refuse another size.

    Args:
        file: what the message calls the file.
        name: the data set.
        found: bytes.
        expected: bytes.
        part: what of the file was measured; default: all of it.

    >>> check_size("a9a.bz2", "a9a", 3, 2329875, "text")
    Traceback (most recent call last):
    ValueError: a9a.bz2 is not the published a9a: 3 bytes of text, not 2329875
    """
    if found != expected:
        unit = f"bytes of {part}" if part else "bytes"
        raise another(file, name, f"{found} {unit}, not {expected}")


def check_digest(
    file: str, name: str, found: FileDigest, expected: FileDigest, part: str = ""
) -> None:
    """Refuse another size or hash.

    Args:
        file: what the message calls the file.
        name: the data set.
        found: of the bytes at hand.
        expected: of the published ones.
        part: what of the file was measured; default: all of it.
    """
    check_size(file, name, found.size, expected.size, part)
    if found.sha256 != expected.sha256:
        whose = f"the sha256 of its {part}" if part else "its sha256"
        hashes = f"{found.sha256[:12]}..., not {expected.sha256[:12]}..."
        raise another(file, name, f"{whose} is {hashes}")
