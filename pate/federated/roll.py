"""Who is expected to vote, public and fixed before anybody is asked; and what came from them."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TypeVar

from pate.validation import InvalidValue, require, require_count, require_text

T = TypeVar("T")

_MOST_BYTES = 200
_SHOWN = 40


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

    def require_enough(self, present: Collection[str], refused: Mapping[str, str], remedy: str) -> None:
        """Raises where more holders are absent than may be, with the reasons; nothing was charged then."""
        absent = [name for name in self.holders if name not in present]
        why = "; ".join(refused.get(name, f"holder={name}: no answer") for name in absent)
        rule = f"at most max_absent={self.max_absent} ({why}); {remedy}"
        require(len(absent) <= self.max_absent, "absent holders", len(absent), rule)


@dataclass(frozen=True)
class Contribution:
    """One answer. Nothing in it is believed before it was looked at.

    Attributes:
        holder: whose answer it is; where transport says who sent it, that name and not the one in the message.
        votes: a vote file or a sum, as bytes; None where there is none.
        problem: why there is none, in words that say nothing of records or votes.
    """

    holder: str
    votes: bytes | None = field(default=None, repr=False)
    problem: str = "no answer"


def counted(
    roll: Roll, contributions: Iterable[Contribution], read: Callable[[str, bytes], T]
) -> tuple[dict[str, T], dict[str, str]]:
    """What `read` makes of each answer that counts, by holder, and a line for each other holder and for strangers.

    An answer counts where its holder is on the roll and answered once, and `read` does not refuse it. A holder that
    answers twice is refused, as nobody can say which answer is the holder's.
    """
    given = list(contributions)
    answers = Counter(each.holder for each in given if each.votes is not None)
    kept: dict[str, T] = {}
    refused = {name: f"holder={name}: no answer" for name in roll.holders}
    for each in given:
        known = each.holder in roll.holders
        try:
            if not known:
                raise InvalidValue("expected a holder on the roll")
            if answers[each.holder] > 1:
                raise InvalidValue(f"expected one answer, and {answers[each.holder]} came in its name")
            if each.votes is None:
                raise InvalidValue(each.problem)
            kept[each.holder] = read(each.holder, each.votes)
        except InvalidValue as error:  # a stranger's name and words can be anything: what a line can show
            line = f"holder={each.holder if known else each.holder[:_SHOWN]}: {error}"
            refused[each.holder if known else "another"] = "".join(c if c.isprintable() else " " for c in line)
    return dict(sorted(kept.items())), {name: line for name, line in refused.items() if name not in kept}
