"""Findings of a campaign, each of one sort, and the tally of tries and findings of one kind of try."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

WRONG_RELEASE = "wrong releases"
LOW_PRICE = "prices below the truth"
TRACEBACK = "tracebacks"
# a wrong exit code, a last line that is missing, too long or does not name the file, or unexpected charges
UNCLEAR = "unclear endings"
# processes or files that hold private records after their run, or files that others may use
EXPOSED = "exposed records"
SORTS = (WRONG_RELEASE, LOW_PRICE, TRACEBACK, UNCLEAR, EXPOSED)


@dataclass(frozen=True)
class Finding:
    """One fault that a try met."""

    sort: str  # one of `SORTS`
    text: str  # the observation, in a line


@dataclass
class Tally:
    """The tries of one kind and their findings."""

    kind: str  # kills, faults, damage, input, rounds or nodes
    tries: int = 0  # so far
    # with the number of their try
    findings: list[tuple[int, Finding]] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)

    def add(self, found: list[Finding]) -> None:
        """Enters a try and its findings."""
        self.findings += [(self.tries, finding) for finding in found]
        self.tries += 1

    @property
    def counts(self) -> Counter[str]:
        """Returns the number of tries with a finding, by the sort of finding."""
        return Counter(
            sort for _, sort in {(number, finding.sort) for number, finding in self.findings}
        )

    def summary(self) -> str:
        """Returns the line that is printed for this kind."""
        counted = ", ".join(f"{self.counts[sort]} {sort}" for sort in SORTS)
        return (
            f"{self.kind}: {self.tries} tries, {counted}, {time.monotonic() - self.started:.0f} s"
        )
