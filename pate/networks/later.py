"""Torch, loaded when one of its names is first asked for: a command that only shows its settings starts without it."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Later:
    """Stands for a module; what is read from it is kept, so that the next reading costs nothing."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        """Loads the module at the first name, and gives what it holds."""
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(import_module(self._name), name)
        setattr(self, name, found)
        return found


torch: Any = Later("torch")
functional: Any = Later("torch.nn.functional")
