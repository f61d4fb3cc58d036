"""Who is expected to vote: public, and fixed before anybody is asked."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from pate.validation import require, require_count, require_text

_MOST_BYTES = 200


@dataclass(frozen=True)
class Roll:
    """The holders of a release and their teachers. T is public under replace-one, so nobody's absence changes it.

    Attributes:
        holders: how many teachers each holder has, by name.
        max_absent: how many holders may be absent or refused; with more there is no release.
    """

    holders: Mapping[str, int] = field(default_factory=dict)
    max_absent: int = 0

    def __post_init__(self) -> None:
        require(len(self.holders) > 0, "holders", "{}", "at least one holder")
        for name, count in self.holders.items():
            require_text("holder", name)
            plain = PurePath(name).name == name and not name.startswith(".")
            short = len(name.encode()) <= _MOST_BYTES
            require(plain and short, "holder", name, f"a name that a file can have, of at most {_MOST_BYTES} bytes")
            require_count(f"holders[{name}]", count)
        alike = {unicodedata.normalize("NFC", name).casefold() for name in self.holders}
        rule = "names that differ by more than how letters are written: some disks take them for one"
        require(len(alike) == len(self.holders), "holders", "two of one name", rule)
        require_count("max_absent", self.max_absent, minimum=0)
        rule = f"less than the {len(self.holders)} holders"
        require(self.max_absent < len(self.holders), "max_absent", self.max_absent, rule)

    @classmethod
    def numbered(cls, num_holders: int, teachers_each: int, *, max_absent: int = 0) -> Roll:
        """Holders 1, 2, …, with as many teachers each."""
        names = (str(number) for number in range(1, require_count("holders", num_holders) + 1))
        return cls(dict.fromkeys(names, teachers_each), max_absent)

    @property
    def num_teachers(self) -> int:
        """T, of all holders, absent ones included."""
        return sum(self.holders.values())
