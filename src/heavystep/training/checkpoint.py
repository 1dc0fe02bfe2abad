"""Checkpoints. They are written whole or not at all, and refused by any other run."""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from heavystep.files import write_atomically

FORMAT = 1


def save(path: Path, run: str, state: dict[str, Any]) -> None:
    """Write a checkpoint in place of the last one.

    Args:
        path: the file.
        run: everything that decides how the run goes on, as JSON.
        state: made of tensors, numbers, texts, lists and dicts.
    """
    state = _on_cpu(state)
    content = {"format": FORMAT, "run": run, "state": state, "sha256": _digest(state)}
    write_atomically(path, lambda part: torch.save(content, part))


def load(path: Path, run: str) -> dict[str, Any] | None:
    """The state in a checkpoint, on the CPU; None if there is no file.

    Args:
        path: the file.
        run: what :func:`save` was given; the checkpoint of another run is refused.

    Raises:
        ValueError: the file cannot be read, or is the checkpoint of another run.
    """
    if not path.exists():
        return None
    with path.open("rb"):
        pass  # so that a missing permission is not taken for damage
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
        found, state = str(content["run"]), dict(content["state"])
        known, whole = content["format"] == FORMAT, content["sha256"] == _digest(state)
    except Exception:  # what a damaged file makes torch raise may be anything
        raise ValueError(f"{path} is no whole checkpoint: remove it to begin again") from None
    if not whole:
        raise ValueError(f"{path} is damaged: remove it to begin again")
    if not known:
        raise ValueError(f"{path} is a checkpoint of another version: remove it to begin again")
    if found != run:
        raise ValueError(
            f"{path} is a checkpoint of another configuration: {_differences(found, run)}"
        )
    return state


def _on_cpu(value: Any) -> Any:
    """The same value with all tensors on the CPU."""
    if isinstance(value, Tensor):
        return value.detach().cpu()
    if isinstance(value, dict):
        return {name: _on_cpu(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_on_cpu(inner) for inner in value]
    return value


def _digest(value: Any) -> str:
    """The hash of a state, because torch does not notice a bit that has changed."""
    digest = hashlib.sha256()

    def add(value: Any) -> None:
        if isinstance(value, Tensor):
            digest.update(f"{value.dtype}{tuple(value.shape)}".encode())
            digest.update(value.contiguous().reshape(-1).view(torch.uint8).numpy().data)
        elif isinstance(value, dict):
            for name, inner in value.items():
                digest.update(f"{name!r}:".encode())
                add(inner)
        elif isinstance(value, (list, tuple)):
            digest.update(f"[{len(value)}".encode())
            for inner in value:
                add(inner)
        else:
            digest.update(repr(value).encode())

    add(value)
    return digest.hexdigest()


def _differences(found: str, wanted: str) -> str:
    try:
        there, here = (_flat(json.loads(text)) for text in (found, wanted))
    except ValueError:
        return "it does not say which one"
    names = [name for name in sorted(there | here) if there.get(name) != here.get(name)]
    return "; ".join(
        f"{name} is {there.get(name)!r} there, {here.get(name)!r} here" for name in names
    )


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    """Nested JSON in one level: {"a": {"b": 1}} gives {"a.b": 1}."""
    if isinstance(value, list) and all(isinstance(item, list) and len(item) == 2 for item in value):
        value = dict(value)  # options by name
    if not isinstance(value, dict):
        return {name: value}
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat |= _flat(inner, f"{name}.{key}" if name else str(key))
    return flat
