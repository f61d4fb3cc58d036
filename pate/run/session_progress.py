"""The progress of a session on the screen and in the curves of a run.

A *session* is a release that asks queries in rounds until a fixed number of queries are *hits*, or no query is left.
Hits are the only queries that are paid for (`pate.accounting.target_charging`).
"""

from collections.abc import Callable
from dataclasses import dataclass

from pate.aggregators import ReleaseRecord
from pate.aggregators.record import Arrays
from pate.aggregators.session import TargetChargedAggregator
from pate.pricing import PricedRelease
from pate.progress import Advance
from pate.report import format_epsilon
from pate.report.tensorboard import RunWriter

OnRound = Callable[[int, int, int], None]
"""A function that is called after a round: with the number of queries so far, of hits among them, of hits to come."""


def with_progress(
    release_record: ReleaseRecord,
    *,
    priced_release: PricedRelease,
    advance: Advance,
    tensorboard_writer: RunWriter,
) -> ReleaseRecord:
    """Returns the record of a release, wrapped to report progress if the aggregator releases in a session.

    Args:
        release_record: the record of the release.
        priced_release: the release with its price and its aggregator.
        advance: the progress bar of the monitor, which is moved after each round.
        tensorboard_writer: writes the curve of the number of hits, the queries that are paid for.
    """
    if not isinstance(priced_release.aggregator, TargetChargedAggregator):
        return release_record
    session_progress = SessionProgress(
        advance=advance, tensorboard_writer=tensorboard_writer, epsilon=priced_release.epsilon
    )
    return SessionProgressRecord(
        release_record, target_hits=priced_release.aggregator.target_hits, on_round=session_progress
    )


class SessionProgressRecord:
    """A release record that wraps another record and reports the progress of a session after each round.

    Args:
        record: the record of the release.
        target_hits: the number of hits after which the session ends.
        on_round: is called after each round with three numbers: queries asked so far, hits among them, and hits until
            the session ends.
    """

    def __init__(self, record: ReleaseRecord, *, target_hits: int, on_round: OnRound) -> None:
        self._record = record
        self._target_hits = target_hits
        self._on_round = on_round
        self._num_asked = 0
        self._num_hits = 0

    def part(self, name: str, draw: Callable[[], Arrays]) -> Arrays:
        """Returns the arrays of a part from the wrapped record.

        If the part is a round of the session, the progress is reported.
        """
        draw_arrays = draw
        round_arrays = self._record.part(name, draw_arrays)
        if "hits" in round_arrays:
            self._num_asked += len(round_arrays["hits"])
            self._num_hits += int(round_arrays["hits"].sum())
            num_remaining = self._target_hits - self._num_hits
            self._on_round(self._num_asked, self._num_hits, num_remaining)
        return round_arrays

    def committed(self, name: str) -> Arrays | None:
        """Returns the arrays of a part of the release, such as a round, that was committed before; None if none was."""
        return self._record.committed(name)


@dataclass(frozen=True, eq=False)  # compared by identity, as its parts are
class SessionProgress:
    """A function that shows the progress of a session on the screen, and adds it to the curves of the run.

    It is called after each round of the session, as the `on_round` of `SessionProgressRecord`.

    Attributes:
        advance: the progress bar of the monitor.
        tensorboard_writer: writes the curve of the number of hits, the queries that are paid for.
        epsilon: the epsilon of the whole session.
    """

    advance: Advance
    tensorboard_writer: RunWriter
    epsilon: float

    def __call__(self, num_asked_so_far: int, num_hits: int, num_remaining: int) -> None:
        """Shows the progress after a round.

        Args:
            num_asked_so_far: the number of queries that were asked.
            num_hits: the number of hits among these queries.
            num_remaining: the number of hits until the session ends.
        """
        self.tensorboard_writer.write_hits(
            num_asked_so_far,
            num_charged_hits=num_hits,
            num_remaining_hits=num_remaining,
            whole_session_epsilon=self.epsilon,
        )
        cost_in_words = f"epsilon {format_epsilon(self.epsilon)}"
        self.advance(
            num_asked_so_far, f"{num_hits} hits, {num_remaining} remaining, {cost_in_words}"
        )
