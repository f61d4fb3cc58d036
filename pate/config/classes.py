"""The class behind a `_target_`, and which targets are ours."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

TRUSTED_PREFIXES = ("pate.", "sklearn.")


def located(target: str) -> type | None:
    """The class of that name, loaded from the longest part of it that is a module; None where there is none."""
    parts = target.split(".")
    for end in range(len(parts) - 1, 0, -1):
        name = ".".join(parts[:end])
        try:
            found: Any = import_module(name)
        except ModuleNotFoundError as error:
            if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
                continue  # a class within a class, or a name that nothing has
            raise
        for part in parts[end:]:
            found = getattr(found, part, None)
        return found if inspect.isclass(found) else None
    return None
