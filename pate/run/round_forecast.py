"""The forecast of a release in rounds: roughly how long it takes, and how much memory and scratch disk.

In a *round* all teachers vote on the present student, and the noisy sum of their votes improves the student. The speed
is measured on rows of the public pool. The forecast depends on public rows, on numbers, and on the machine, and is for
the owner's console alone.
"""

from __future__ import annotations

import resource
import sys
import time
from dataclasses import dataclass

import numpy as np

from pate.progress import spelled_seconds
from pate.run.round_progress import Rounds
from pate.votes.clipped_moments import ClippedMoments
from pate.votes.feature_rows import FeatureStorage
from pate.votes.moment_votes import MomentVotes
from pate.votes.round_records import RoundRecords
from pate.votes.round_sums import ThreadSums
from pate.votes.round_votes import RoundQuestion

MIN_ROWS = 200_000
"""A release over fewer private rows takes seconds, and has no forecast."""

# The speed is measured on this many public rows for each core, and on no more than the maximum.
_ROWS_PER_CORE = 2**13
_MAX_MEASURED_ROWS = 2**16
# The memory of a row beside its features and labels: its position in the data set and the number of its teacher.
_INDEX_BYTES = 40
# The number of bytes of a GiB.
_GIB = 2.0**30


@dataclass(frozen=True)
class RoundSpeed:
    """The seconds that a row, a private record, takes on this machine in a release in rounds.

    Attributes:
        seconds_to_make_row: seconds to make the features of a row.
        seconds_to_ask_row: seconds to add a row to the votes of one round, if its features are made already.
    """

    seconds_to_make_row: float
    seconds_to_ask_row: float

    @classmethod
    def measure(cls, moment_votes: MomentVotes, num_cores: int) -> RoundSpeed:
        """Measures the speed on rows of the public pool; this takes a fraction of a second.

        Args:
            moment_votes: the votes of the release, of which only public values are read.
            num_cores: the number of processor cores; with more of them, more rows are measured.
        """
        num_measured_rows = min(_ROWS_PER_CORE * num_cores, _MAX_MEASURED_ROWS)
        row_numbers = np.arange(num_measured_rows)
        timed_public_records = RoundRecords(
            inputs=np.asarray(moment_votes.public_inputs)[
                row_numbers % len(moment_votes.public_inputs)
            ],
            labels=np.zeros((num_measured_rows, moment_votes.num_labels), dtype=np.bool_),
            teacher_of=row_numbers,
            num_teachers=num_measured_rows,
            public_pca=moment_votes.public_pca,
            records_per_teacher=1.0,
        )
        round_question = RoundQuestion(
            student_weights=np.full((moment_votes.num_features, moment_votes.num_labels), 0.01),
            label_scale=np.ones(moment_votes.num_labels),
            moment_clipping=ClippedMoments(clip=1.0, num_teachers=num_measured_rows),
        )
        thread_sums = ThreadSums(timed_public_records)
        try:
            end_times = [time.perf_counter()]
            for _ in range(2):  # features are made in the first round
                thread_sums.total(round_question)  # only its time is of interest
                end_times.append(time.perf_counter())
        finally:
            thread_sums.close()
        first_round, second_round = np.diff(end_times).tolist()
        return cls(
            seconds_to_make_row=max(first_round - second_round, 0.0) / num_measured_rows,
            seconds_to_ask_row=second_round / num_measured_rows,
        )


@dataclass(frozen=True)
class RoundForecast:
    """The forecast of the time, memory and disk that a release in rounds needs.

    Attributes:
        num_rounds: the number of rounds.
        num_rows: the number of private records.
        num_features: the number of features of a record.
        num_labels: the number of labels.
        speed_per_row: the speed of this machine.
        feature_storage: where the features of records lie between rounds: in memory, in a file, or nowhere.
        held_bytes: the most memory that the process had held before the forecast, in bytes.
    """

    num_rounds: int
    num_rows: int
    num_features: int
    num_labels: int
    speed_per_row: RoundSpeed
    feature_storage: FeatureStorage
    held_bytes: int

    @classmethod
    def of_rounds(cls, rounds: Rounds) -> RoundForecast | None:
        """Returns the forecast of a release in rounds; None for few private records, and for teachers that are trained.

        The result is also None for votes that this process cannot compute itself, such as those of other holders.
        """
        from joblib import cpu_count  # which knows a container's share; loads slowly

        moment_votes = rounds.votes_summed_anew
        if type(moment_votes) is not MomentVotes or moment_votes.ask_teachers is not None:
            return None
        num_rows = len(moment_votes.labels)
        if num_rows < MIN_ROWS:
            return None
        # The measurement of the speed takes memory of its own, so it comes later.
        held_bytes = _peak_bytes()
        return cls(
            num_rounds=rounds.num_rounds,
            num_rows=num_rows,
            num_features=moment_votes.num_features,
            num_labels=moment_votes.num_labels,
            speed_per_row=RoundSpeed.measure(moment_votes, num_cores=cpu_count()),
            feature_storage=moment_votes.feature_storage,
            held_bytes=held_bytes,
        )

    @property
    def seconds(self) -> float:
        """The time of all rounds in seconds, if they run in threads of this process."""
        num_makings = 1 if self.feature_storage.keeps_features else self.num_rounds
        seconds_per_row = (
            num_makings * self.speed_per_row.seconds_to_make_row
            + self.num_rounds * self.speed_per_row.seconds_to_ask_row
        )
        return self.num_rows * seconds_per_row

    @property
    def memory_bytes(self) -> int:
        """The memory of the process in bytes: what it held before, and what the private records need in rounds."""
        size = self.feature_storage.size_of(num_rows=self.num_rows, num_features=self.num_features)
        row_bytes = self.num_labels + _INDEX_BYTES
        return self.held_bytes + size.memory_bytes + self.num_rows * row_bytes

    @property
    def disk_bytes(self) -> int:
        """The size in bytes of the scratch file of features between rounds; 0 if there is none."""
        return self.feature_storage.size_of(
            num_rows=self.num_rows, num_features=self.num_features
        ).disk_bytes

    @property
    def line(self) -> str:
        """The forecast as one line."""
        shape = f"{self.num_rows:,} private rows x {self.num_features} features x {self.num_labels} labels"
        disk = f"{self.disk_bytes / _GIB:.1f} GiB of scratch disk"
        if self.disk_bytes == 0:
            disk = "no scratch disk"
        return (
            f"{self.num_rounds} rounds over {shape}: roughly {spelled_seconds(self.seconds)} in threads, "
            f"{self.memory_bytes / _GIB:.1f} GiB of memory, {disk}"
        )


def _peak_bytes() -> int:
    """Returns the most memory that this process has held, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
