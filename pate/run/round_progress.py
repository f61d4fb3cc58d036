"""The progress of a release in rounds: the number of drawn rounds, and the number of private records read per second.

In a *round* all teachers vote on the present student, and the noisy sum of their votes improves the student. Times of
rounds and numbers of records are for the owner's console alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pate.aggregators import Aggregator, CenteredVotes, ReleaseRecord
from pate.aggregators.record import Arrays
from pate.progress import Advance
from pate.votes.moment_votes import MomentVotes
from pate.votes.round_records import no_report
from pate.votes.round_votes import RoundVotes
from pate.votes.source import CenterableVotes, VoteSource


class RoundProgressRecord:
    """A release record that wraps another record and reports the progress after each round.

    Args:
        record: the record of the release.
        num_private_records: the number of private records.
        advance: is called with the number of rounds so far and a note: the speed of the last round, "" for a round that
            was read back, or the number of records whose features are computed.
        clock: returns the time in seconds.
    """

    def __init__(
        self,
        record: ReleaseRecord,
        *,
        num_private_records: int,
        advance: Advance,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._record = record
        self._num_rows = num_private_records
        self._advance = advance
        self._clock = clock
        self._num_rounds_done = 0
        self._num_rows_read = 0
        self._is_drawn = False

    def part(self, name: str, draw: Callable[[], Arrays]) -> Arrays:
        """Returns the arrays of a part from the wrapped record. If the part is a round, the progress is reported.

        Args:
            name: the name of the part.
            draw: draws the arrays. It is called only if the part was not committed before.
        """
        self._is_drawn = False
        start_time = self._clock()

        def draw_and_note() -> Arrays:
            self._is_drawn = True
            return draw()

        arrays = self._record.part(name, draw=draw_and_note)
        if "total" in arrays:  # the sum of a round
            self._num_rounds_done += 1
            seconds = self._clock() - start_time
            # A round that was read back tells nothing about the speed.
            has_speed = self._is_drawn and seconds > 0
            speed_in_words = f"{self._num_rows / seconds:,.0f} rows per second" if has_speed else ""
            self._advance(self._num_rounds_done, speed_in_words)
        return arrays

    def report_rows(self, num_rows: int) -> None:
        """Reports that the features of further records were computed and kept, which happens in the first round.

        Args:
            num_rows: the number of these records.
        """
        # A worker process that died computes the features of its records again.
        self._num_rows_read = min(self._num_rows_read + num_rows, self._num_rows)
        note = f"features of {self._num_rows_read:,} of {self._num_rows:,} rows"
        self._advance(self._num_rounds_done, note)

    def committed(self, name: str) -> Arrays | None:
        """Returns the arrays of a part of the release, such as a round, that was committed before; None if none was."""
        return self._record.committed(name)


@dataclass(frozen=True, eq=False)  # compared by identity, as its parts are
class Rounds:
    """The rounds of a release of centered votes: all teachers vote once in each, and the noisy sums improve a student.

    Attributes:
        votes_summed_anew: the private votes, which each round sums anew.
        num_rounds: the number of rounds.
    """

    votes_summed_anew: RoundVotes
    num_rounds: int

    @classmethod
    def of_release(cls, aggregator: Aggregator, *, vote_source: VoteSource) -> Rounds | None:
        """Returns the rounds of a release; None for a release that is not drawn in rounds.

        Args:
            aggregator: the aggregator of the release.
            vote_source: the private votes.
        """
        if not (isinstance(aggregator, CenteredVotes) and isinstance(vote_source, CenterableVotes)):
            return None
        votes_summed_anew = aggregator.votes_in_rounds(vote_source)
        return (
            None
            if votes_summed_anew is None
            else cls(votes_summed_anew=votes_summed_anew, num_rounds=aggregator.num_rounds)
        )

    @contextmanager
    def reporting_rows(self, report_num_rows: Callable[[int], object]) -> Iterator[None]:
        """Reports the numbers of records whose features are computed in the body of a `with` statement.

        Nothing is reported for votes that other holders compute. If features are made anew in each round, only the
        records that are sent to workers are reported.

        Args:
            report_num_rows: is called with a number of records, each time that the features of so many were computed.
        """
        if not isinstance(self.votes_summed_anew, MomentVotes):
            yield
            return
        self.votes_summed_anew.report_num_rows = report_num_rows
        try:
            yield
        finally:
            self.votes_summed_anew.report_num_rows = no_report
