"""What a run is called where several are read: by how it was configured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Heading:
    """A run's name and the settings that it was given; the data owner's.

    Attributes:
        aggregator: the name that it was configured by, such as `stable_top_k_table`; empty where it has none.
        is_public: whether that name ships with the package; another says what its author chose.
        given: the settings that the command named, as text, by name.
        compared: terms of the run by name, by which TensorBoard compares runs; those given are among them.
    """

    aggregator: str = ""
    is_public: bool = False
    given: Mapping[str, str] = field(default_factory=dict)
    compared: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)

    @property
    def overrides(self) -> str:
        """The settings in one line, as they are given on the command line."""
        return " ".join(f"{name}={value}" for name, value in self.given.items())
