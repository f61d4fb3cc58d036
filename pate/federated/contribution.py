"""What came from a holder: votes, or the reason why there are none."""

from __future__ import annotations

from dataclasses import dataclass, field

_SHOWN = 40


@dataclass(frozen=True)
class Contribution:
    """One answer. Nothing in it is believed before `collect` has looked at it.

    Attributes:
        holder: whose answer it is; where transport says who sent it, that name and not the one in the message.
        votes: a vote file, as bytes; None where there is none.
        problem: why there is none, in words that say nothing of records or votes.
    """

    holder: str
    votes: bytes | None = field(default=None, repr=False)
    problem: str = "no answer"

    def refused(self, reason: str, *, is_known: bool) -> str:
        """One line, by name, on why it does not count; of a stranger's name and words what a line can show."""
        name = self.holder if is_known else self.holder[:_SHOWN]
        return "".join(c if c.isprintable() else " " for c in f"holder={name}: {reason}")
