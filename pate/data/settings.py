"""Data sets that tell a forgotten setting before anything is read."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class KnowsItsSettings(Protocol):
    """A data set that can say which setting is missing without opening a file."""

    def require_settings(self) -> None:
        """Returns if `load()` has the settings that it needs.

        Raises:
            InvalidValue: one is missing, or two contradict each other.
        """
