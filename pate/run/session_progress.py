"""The progress of a session, as a monitor and the curves of a run show it."""

from collections.abc import Callable
from dataclasses import dataclass

from pate.aggregators import ReleaseRecord
from pate.aggregators.record import Arrays
from pate.aggregators.session import TargetChargedAggregator
from pate.pricing import PricedRelease
from pate.progress import Advance
from pate.report import format_epsilon
from pate.report.tensorboard import RunWriter


class WatchedSession:
    """A record of a session that reports its progress after each round.

    `watch` is called with the number of queries so far, the number of hits among them, and the hits that are left.
    """

    def __init__(
        self, record: ReleaseRecord, target_hits: int, watch: Callable[[int, int, int], None]
    ) -> None:
        self._record = record
        self._target_hits = target_hits
        self._watch = watch
        self._num_asked = 0
        self._num_hits = 0

    def part(self, name: str, draw: Callable[[], Arrays]) -> Arrays:
        """Returns the arrays of a part, as the record does, and reports the progress where the part is a round."""
        arrays = self._record.part(name, draw)
        if "hits" in arrays:
            self._num_asked += len(arrays["hits"])
            self._num_hits += int(arrays["hits"].sum())
            hits_left = self._target_hits - self._num_hits
            self._watch(self._num_asked, self._num_hits, hits_left)
        return arrays

    def committed(self, name: str) -> Arrays | None:
        """Returns the arrays of a part that was committed before, or None."""
        return self._record.committed(name)


@dataclass(frozen=True, eq=False)
class SessionProgress:
    """The progress of a session, passed on to the monitor and the curves of its run."""

    advance: Advance
    events: RunWriter
    epsilon: float  # what the whole session costs

    def __call__(self, num_asked: int, num_hits: int, hits_left: int) -> None:
        """Passes on the progress after a round, as `WatchedSession` reports it."""
        self.events.hits(num_asked, hits=num_hits, remaining_hits=hits_left, epsilon=self.epsilon)
        cost = f"epsilon {format_epsilon(self.epsilon)}"
        self.advance(num_asked, f"{num_hits} hits, {hits_left} remaining, {cost}")


def watched(
    record: ReleaseRecord, priced: PricedRelease, advance: Advance, events: RunWriter
) -> ReleaseRecord:
    """Returns the record of a release with its progress reported, where the aggregator has a session; else the record.

    Args:
        record: the release's.
        priced: the release with its aggregator.
        advance: a monitor's stage, which is told of every round.
        events: gets the curve of hits.
    """
    if not isinstance(priced.aggregator, TargetChargedAggregator):
        return record
    progress = SessionProgress(advance, events, priced.epsilon)
    return WatchedSession(record, priced.aggregator.target_hits, progress)
