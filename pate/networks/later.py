"""Torch, loaded when one of its names is first asked for: a command that only shows its settings starts without it."""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import Any


class Later:
    """Stands for a module, which is imported at the first name that is read from it."""

    def __init__(self, name: str) -> None:
        self._name = name

    @cached_property
    def _module(self) -> ModuleType:
        return import_module(self._name)

    def __getattr__(self, name: str) -> Any:
        """What the module holds under that name."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._module, name)


torch: Any = Later("torch")
functional: Any = Later("torch.nn.functional")
